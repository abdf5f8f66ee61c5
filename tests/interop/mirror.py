"""What a client makes of the envelopes it is sent: reducers written from the protocol's text alone.

They are here to disagree with the host if it is wrong, so they share nothing with it. Only what this host can say is
in them; an action that they do not know raises `Unknown`, since a test that skips one proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

IDLE, ERROR, IN_PROGRESS, INPUT_NEEDED = 1, 2, 8, 24
ACTIVITY, READ, ARCHIVED = 31, 32, 64

OPEN_CALLS = ("streaming", "pending-confirmation", "running", "auth-required", "pending-result-confirmation")
BASE = ("toolCallId", "toolName", "displayName", "intention", "contributor", "_meta")


class Unknown(AssertionError):
    """The host said something that this mirror has no rule for."""


def reduced(kind: str, state: Json, action: Json) -> Json:
    """The state behind the action; `kind` is root, session, chat or terminal. The state that is given is not changed."""
    name: str = action["type"]
    if name == "session/titleChanged" and kind == "chat":
        return state  # renames the chat; the session's catalogue says so
    rule = RULES[kind].get(name)
    if rule is None:
        raise Unknown(f"{name} on a channel of kind {kind}")
    return clean(rule(state, action))


def clean(state: Json) -> Json:
    """Without keys whose value is None: null, undefined and absent are equal."""
    return {key: value for key, value in state.items() if value is not None}


# ── root and session ─────────────────────────────────────────────────────────────────────────────────────────────
def put(items: list[Json], item: Json, key: str) -> list[Json]:
    """The list with the item in the place of the one of the same key, else behind the others."""
    if any(other[key] == item[key] for other in items):
        return [item if other[key] == item[key] else other for other in items]
    return [*items, item]


def drop(items: list[Json], value: str, key: str) -> list[Json]:
    return [item for item in items if item[key] != value]


def mark(state: Json, bit: int, is_set: bool) -> Json:
    return {**state, "status": state["status"] | bit if is_set else state["status"] & ~bit}


def config_changed(state: Json, action: Json) -> Json:
    if "config" not in state:
        return state
    before = {} if action.get("replace") else state["config"]["values"]
    return {**state, "config": {**state["config"], "values": {**before, **action["config"]}}}


def chat_updated(state: Json, action: Json) -> Json:
    changes = {key: value for key, value in action["changes"].items() if key != "resource"}
    chats = [
        clean({**chat, **changes}) if chat["resource"] == action["chat"] else chat for chat in state["chats"]
    ]
    return {**state, "chats": chats}


def chat_removed(state: Json, action: Json) -> Json:
    is_default = state.get("defaultChat") == action["chat"]
    out = {**state, "chats": drop(state["chats"], action["chat"], "resource")}
    return {**out, "defaultChat": None} if is_default else out


def chats_reordered(state: Json, action: Json) -> Json:
    by_uri = {chat["resource"]: chat for chat in state["chats"]}
    if sorted(action["chats"]) != sorted(by_uri):
        return state
    return {**state, "chats": [by_uri[uri] for uri in action["chats"]]}


def input_needed(state: Json, needed: list[Json]) -> Json:
    out = {**state, "inputNeeded": needed or None}
    if any(entry["kind"] != "toolClientExecution" for entry in needed):
        return {**out, "status": state["status"] & ~ACTIVITY | INPUT_NEEDED}
    return {**out, "status": state["status"] & ~(INPUT_NEEDED & ~IN_PROGRESS)}


ROOT: dict[str, Callable[[Json, Json], Json]] = {
    "root/agentsChanged": lambda state, action: {**state, "agents": action["agents"]},
    "root/activeSessionsChanged": lambda state, action: {**state, "activeSessions": action["activeSessions"]},
    "root/terminalsChanged": lambda state, action: {**state, "terminals": action["terminals"]},
    "root/configChanged": config_changed,
}

SESSION: dict[str, Callable[[Json, Json], Json]] = {
    "session/ready": lambda state, action: {**state, "lifecycle": "ready"},
    "session/creationFailed": lambda state, action: {
        **state,
        "lifecycle": "failed",
        "creationError": action["error"],
    },
    "session/chatAdded": lambda state, action: {
        **state,
        "chats": put(state["chats"], action["summary"], "resource"),
    },
    "session/chatRemoved": chat_removed,
    "session/chatUpdated": chat_updated,
    "session/chatsReordered": chats_reordered,
    "session/defaultChatChanged": lambda state, action: {**state, "defaultChat": action.get("defaultChat")},
    "session/titleChanged": lambda state, action: {**state, "title": action["title"]},
    "session/isReadChanged": lambda state, action: mark(state, READ, action["isRead"]),
    "session/isArchivedChanged": lambda state, action: mark(state, ARCHIVED, action["isArchived"]),
    "session/configChanged": config_changed,
    "session/metaChanged": lambda state, action: {**state, "_meta": action.get("_meta")},
    "session/activeClientSet": lambda state, action: {
        **state,
        "activeClients": put(state["activeClients"], action["activeClient"], "clientId"),
    },
    "session/activeClientRemoved": lambda state, action: {
        **state,
        "activeClients": drop(state["activeClients"], action["clientId"], "clientId"),
    },
    "session/inputNeededSet": lambda state, action: input_needed(
        state, put(state.get("inputNeeded", []), action["request"], "id")
    ),
    "session/inputNeededRemoved": lambda state, action: input_needed(
        state, drop(state.get("inputNeeded", []), action["id"], "id")
    ),
}


# ── chat ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def is_open(part: Json) -> bool:
    """Whether a part waits for somebody."""
    if part["kind"] == "inputRequest":
        return "response" not in part
    waiting = ("pending-confirmation", "pending-result-confirmation", "auth-required")
    return part["kind"] == "toolCall" and part["toolCall"]["status"] in waiting


def recomputed(state: Json) -> Json:
    active = state.get("activeTurn")
    bits = IDLE if active is None else IN_PROGRESS
    if active is not None and any(is_open(part) for part in active["responseParts"]):
        bits = INPUT_NEEDED
    return {**state, "status": state["status"] & ~ACTIVITY | bits}


def unread(state: Json) -> Json:
    return {**state, "status": state["status"] & ~READ}


def turn_started(state: Json, action: Json) -> Json:
    turn = {
        "id": action["turnId"],
        "startedAt": action["startedAt"],
        "message": action["message"],
        "responseParts": [],
    }
    out = {**state, "activeTurn": turn, "modifiedAt": action["startedAt"]}
    waited = action.get("queuedMessageId")
    if waited is not None:
        out["queuedMessages"] = drop(state.get("queuedMessages", []), waited, "id") or None
        if (state.get("steeringMessage") or {}).get("id") == waited:
            out["steeringMessage"] = None
    return unread(recomputed(clean(out)))


def ended_call(call: Json) -> Json:
    if call["status"] not in OPEN_CALLS:
        return call
    out = {key: call[key] for key in BASE if key in call}
    out |= {
        "status": "cancelled",
        "reason": "skipped",
        "invocationMessage": call.get("invocationMessage", ""),
    }
    if call["status"] != "streaming" and "toolInput" in call:
        out["toolInput"] = call["toolInput"]
    return out


def ended_part(part: Json) -> Json:
    return {**part, "toolCall": ended_call(part["toolCall"])} if part["kind"] == "toolCall" else part


def later(moment: str, milliseconds: float) -> str:
    """A timestamp so much later, as the protocol writes it."""
    at = datetime.fromisoformat(moment) + timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def turn_ended(state: Json, action: Json) -> Json:
    active = state.get("activeTurn")
    if active is None or active["id"] != action["turnId"]:
        return state
    how = {"chat/turnComplete": "complete", "chat/turnCancelled": "cancelled"}.get(action["type"], "error")
    parts = [ended_part(part) for part in active["responseParts"]]
    if how == "error":
        parts.append(action["part"])
    duration = max(0, action["duration"])
    turn = {**active, "responseParts": parts, "state": how, "duration": duration}
    out = {**state, "activeTurn": None, "turns": [*state["turns"], turn]}
    out["modifiedAt"] = later(active["startedAt"], duration)
    bits = ERROR if how == "error" else IDLE
    return {**out, "status": state["status"] & ~ACTIVITY | bits}


def turn_resumed(state: Json, action: Json) -> Json:
    last = state["turns"][-1] if state["turns"] else None
    if "activeTurn" in state or last is None or last["id"] != action["turnId"] or last["state"] != "error":
        return state
    part = last["responseParts"][-1]
    if part["kind"] != "error" or part.get("resumable") is not True:
        return state
    active = {key: value for key, value in last.items() if key not in ("state", "duration")}
    active.setdefault("startedAt", state["modifiedAt"])
    return unread(recomputed({**state, "turns": state["turns"][:-1], "activeTurn": active}))


def in_turn(change: Callable[[Json, Json], Json]) -> Callable[[Json, Json], Json]:
    """A rule about the running turn; about any other it changes nothing."""

    def rule(state: Json, action: Json) -> Json:
        active = state.get("activeTurn")
        if active is None or action.get("turnId", active["id"]) != active["id"]:
            return state
        return {**state, "activeTurn": change(active, action)}

    return rule


def appended(kind: str) -> Callable[[Json, Json], Json]:
    def change(active: Json, action: Json) -> Json:
        parts = list(active["responseParts"])
        for index, part in enumerate(parts):
            if part.get("id", part.get("toolCall", {}).get("toolCallId")) == action["partId"]:
                if part["kind"] == kind:
                    parts[index] = {**part, "content": part["content"] + action["content"]}
                break
        return {**active, "responseParts": parts}

    return change


def part_added(active: Json, action: Json) -> Json:
    if action["part"]["kind"] == "error":
        return active
    return {**active, "responseParts": [*active["responseParts"], action["part"]]}


def call_started(active: Json, action: Json) -> Json:
    call = {key: action[key] for key in BASE if key in action}
    part = {"kind": "toolCall", "toolCall": {**call, "status": "streaming"}}
    return {**active, "responseParts": [*active["responseParts"], part]}


def of_call(change: Callable[[Json, Json, Json], Json | None]) -> Callable[[Json, Json], Json]:
    """A rule about one call: given the call, its base fields and the action, the call behind it; None: unchanged."""

    def in_active(active: Json, action: Json) -> Json:
        parts = []
        for part in active["responseParts"]:
            call = part.get("toolCall", {})
            if call.get("toolCallId") == action["toolCallId"]:
                base = {key: call[key] for key in BASE if key in call}
                for key in ("intention", "_meta"):
                    if key in action and (key == "_meta" or action["type"] == "chat/toolCallReady"):
                        base[key] = action[key]
                made = change(call, base, action)
                part = part if made is None else {**part, "toolCall": clean(made)}
            parts.append(part)
        return {**active, "responseParts": parts}

    return in_active


def call_input(call: Json, base: Json, action: Json) -> Json | None:
    if call["status"] != "streaming":
        return None
    out = {**call, **base}
    if "content" in action:
        out["partialInput"] = call.get("partialInput", "") + action["content"]
    if "invocationMessage" in action:
        out["invocationMessage"] = action["invocationMessage"]
    return out


def call_ready(call: Json, base: Json, action: Json) -> Json | None:
    if call["status"] not in ("streaming", "running", "pending-confirmation"):
        return None
    kept = call.get("toolInput") if call["status"] != "streaming" else None
    out = {
        **base,
        "invocationMessage": action["invocationMessage"],
        "toolInput": action.get("toolInput", kept),
    }
    if "confirmed" in action:
        return {**out, "status": "running", "confirmed": action["confirmed"]}
    out["status"] = "pending-confirmation"
    for key in ("confirmationTitle", "riskAssessment", "edits", "editable", "options"):
        before = call.get(key) if call["status"] == "pending-confirmation" else None
        out[key] = action.get(key, before)
    return out


def call_confirmed(call: Json, base: Json, action: Json) -> Json | None:
    if call["status"] != "pending-confirmation":
        return None
    options = {option["id"]: option for option in call.get("options", ())}
    out = {**base, "invocationMessage": call["invocationMessage"], "toolInput": call.get("toolInput")}
    out["selectedOption"] = options.get(action.get("selectedOptionId"))
    if not action["approved"]:
        told = {key: action.get(key) for key in ("reason", "reasonMessage", "userSuggestion")}
        return {**out, **told, "status": "cancelled"}
    if isinstance(call.get("toolInput"), str):
        out["toolInput"] = action.get("editedToolInput", call["toolInput"])
    return {**out, "status": "running", "confirmed": action["confirmed"]}


def call_content(call: Json, base: Json, action: Json) -> Json | None:
    return {**call, **base, "content": action["content"]} if call["status"] == "running" else None


def call_complete(call: Json, base: Json, action: Json) -> Json | None:
    if call["status"] not in ("running", "pending-confirmation"):
        return None
    out = {**base, "invocationMessage": call["invocationMessage"], "toolInput": call.get("toolInput")}
    out |= {"confirmed": call.get("confirmed", "not-needed"), "selectedOption": call.get("selectedOption")}
    return {**out, **action["result"], "status": "completed"}


def questioned(state: Json, action: Json) -> Json:
    active, request = state.get("activeTurn"), action["request"]
    if active is None:
        return state
    parts = list(active["responseParts"])
    for index, part in enumerate(parts):
        if part["kind"] == "inputRequest" and part["request"]["id"] == request["id"] and is_open(part):
            answers = request.get("answers", part["request"].get("answers"))
            parts[index] = {**part, "request": clean({**request, "answers": answers})}
            break
    else:
        parts.append({"kind": "inputRequest", "request": request})
    return unread(recomputed({**state, "activeTurn": {**active, "responseParts": parts}}))


def answered(part: Json, action: Json) -> Json:
    if part["kind"] != "inputRequest" or not is_open(part) or part["request"]["id"] != action["requestId"]:
        return part
    answers = dict(part["request"].get("answers") or {})
    if action["type"] == "chat/inputCompleted":
        answers |= action.get("answers") or {}
        part = {**part, "response": action["response"]}
    elif action.get("answer") is None:
        answers.pop(action["questionId"], None)
    else:
        answers[action["questionId"]] = action["answer"]
    return {**part, "request": clean({**part["request"], "answers": answers or None})}


def answers_changed(active: Json, action: Json) -> Json:
    return {**active, "responseParts": [answered(part, action) for part in active["responseParts"]]}


def pending_set(state: Json, action: Json) -> Json:
    waiting = {"id": action["id"], "message": action["message"]}
    if action["kind"] == "steering":
        return {**state, "steeringMessage": waiting}
    return {**state, "queuedMessages": put(state.get("queuedMessages", []), waiting, "id")}


def pending_removed(state: Json, action: Json) -> Json:
    if action["kind"] == "steering":
        is_it = (state.get("steeringMessage") or {}).get("id") == action["id"]
        return {**state, "steeringMessage": None} if is_it else state
    return {**state, "queuedMessages": drop(state.get("queuedMessages", []), action["id"], "id") or None}


def background_gone(state: Json, action: Json) -> Json:
    """A list that was emptied stays, empty."""
    if "backgroundWork" not in state:
        return state
    return {**state, "backgroundWork": drop(state["backgroundWork"], action["id"], "id")}


def reordered(state: Json, action: Json) -> Json:
    by_id = {waiting["id"]: waiting for waiting in state.get("queuedMessages", [])}
    order = [name for name in dict.fromkeys(action["order"]) if name in by_id]
    order += [name for name in by_id if name not in order]
    return {**state, "queuedMessages": [by_id[name] for name in order] or None}


def truncated(state: Json, action: Json) -> Json:
    keep = action.get("turnId")
    if keep is None:
        return recomputed(clean({**state, "turns": [], "turnsNextCursor": None, "activeTurn": None}))
    for index, turn in enumerate(state["turns"]):
        if turn["id"] == keep:
            return recomputed(clean({**state, "turns": state["turns"][: index + 1], "activeTurn": None}))
    return state


def turns_loaded(state: Json, action: Json) -> Json:
    have = {turn["id"] for turn in state["turns"]}
    older = [turn for turn in action["turns"] if turn["id"] not in have]
    return {**state, "turns": [*older, *state["turns"]], "turnsNextCursor": action.get("turnsNextCursor")}


def and_status(rule: Callable[[Json, Json], Json]) -> Callable[[Json, Json], Json]:
    return lambda state, action: recomputed(rule(state, action))


CHAT: dict[str, Callable[[Json, Json], Json]] = {
    "chat/turnStarted": turn_started,
    "chat/turnResume": turn_resumed,
    "chat/turnComplete": turn_ended,
    "chat/turnCancelled": turn_ended,
    "chat/error": turn_ended,
    "chat/delta": in_turn(appended("markdown")),
    "chat/reasoning": in_turn(appended("reasoning")),
    "chat/responsePart": in_turn(part_added),
    "chat/usage": in_turn(lambda active, action: {**active, "usage": action["usage"]}),
    "chat/toolCallStart": in_turn(call_started),
    "chat/toolCallDelta": in_turn(of_call(call_input)),
    "chat/toolCallReady": and_status(in_turn(of_call(call_ready))),
    "chat/toolCallConfirmed": and_status(in_turn(of_call(call_confirmed))),
    "chat/toolCallContentChanged": in_turn(of_call(call_content)),
    "chat/toolCallComplete": and_status(in_turn(of_call(call_complete))),
    "chat/inputRequested": questioned,
    "chat/inputAnswerChanged": in_turn(answers_changed),
    "chat/inputCompleted": and_status(in_turn(answers_changed)),
    "chat/pendingMessageSet": pending_set,
    "chat/pendingMessageRemoved": pending_removed,
    "chat/queuedMessagesReordered": reordered,
    "chat/truncated": truncated,
    "chat/turnsLoaded": turns_loaded,
    "chat/activityChanged": lambda state, action: {**state, "activity": action.get("activity")},
    "chat/movableChanged": lambda state, action: {**state, "movable": action["movable"]},
    "chat/backgroundWorkSet": lambda state, action: {
        **state,
        "backgroundWork": put(state.get("backgroundWork", []), action["work"], "id"),
    },
    "chat/backgroundWorkRemoved": background_gone,
    "chat/draftChanged": lambda state, action: {**state, "draft": action.get("draft")},
    "chat/isReadChanged": lambda state, action: mark(state, READ, action["isRead"]),
    "chat/isArchivedChanged": lambda state, action: mark(state, ARCHIVED, action["isArchived"]),
}


# ── terminal ─────────────────────────────────────────────────────────────────────────────────────────────────────
def terminal_data(state: Json, action: Json) -> Json:
    content = list(state["content"])
    last = content[-1] if content else {}
    if last.get("type") == "command" and not last["isComplete"]:
        content[-1] = {**last, "output": last["output"] + action["data"]}
    elif last.get("type") == "unclassified":
        content[-1] = {**last, "value": last["value"] + action["data"]}
    else:
        content.append({"type": "unclassified", "value": action["data"]})
    return {**state, "content": content}


def command_executed(state: Json, action: Json) -> Json:
    named = {key: action[key] for key in ("commandId", "commandLine", "timestamp")}
    command = {"type": "command", **named, "output": "", "isComplete": False}
    return {**state, "content": [*state["content"], command], "supportsCommandDetection": True}


def command_finished(state: Json, action: Json) -> Json:
    told = {key: action[key] for key in ("exitCode", "durationMs") if key in action}
    content = [
        {**part, **told, "isComplete": True} if part.get("commandId") == action["commandId"] else part
        for part in state["content"]
    ]
    return {**state, "content": content}


TERMINAL: dict[str, Callable[[Json, Json], Json]] = {
    "terminal/data": terminal_data,
    "terminal/input": lambda state, action: state,
    "terminal/resized": lambda state, action: {**state, "cols": action["cols"], "rows": action["rows"]},
    "terminal/claimed": lambda state, action: {**state, "claim": action["claim"]},
    "terminal/titleChanged": lambda state, action: {**state, "title": action["title"]},
    "terminal/cwdChanged": lambda state, action: {**state, "cwd": action["cwd"]},
    "terminal/exited": lambda state, action: {
        **state,
        "lifecycle": clean({"status": "exited", "exitCode": action.get("exitCode")}),
    },
    "terminal/cleared": lambda state, action: {**state, "content": []},
    "terminal/commandDetectionAvailable": lambda state, action: {**state, "supportsCommandDetection": True},
    "terminal/commandExecuted": command_executed,
    "terminal/commandFinished": command_finished,
}

RULES = {"root": ROOT, "session": SESSION, "chat": CHAT, "terminal": TERMINAL}
