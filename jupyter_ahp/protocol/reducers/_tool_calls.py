"""Tool calls of the running turn: their states and what moves them (AHP 4.5, 4.6, 4.7, 4.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ._base import Action, Reducer, Rule, State, entries, on
from ._turn import refreshed, running_as, tool_call_of, with_part

_BASE = ("toolCallId", "toolName", "displayName", "intention", "contributor", "_meta")
_CONFIRMATION = ("confirmationTitle", "riskAssessment", "edits", "editable", "options")

_Call: TypeAlias = State
_Step: TypeAlias = Callable[[_Call, Action], _Call | None]
"""What an action makes of a call; None = the call's status does not allow it."""


def _pick(source: Mapping[str, object], *names: str) -> _Call:
    return {name: source[name] for name in names if source.get(name) is not None}


def _rebuilt(call: _Call, action: Action, status: str, *keep: str) -> _Call:
    """The call in another status: its base fields, `_meta` as given, its message and input, and what is named (4.6 rule 6)."""
    base = {"status": status, **_pick(call, *_BASE), **_pick(action, "_meta")}
    return {**base, **_pick(call, "invocationMessage", "toolInput", *keep)}


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────────────────────
def _delta(call: _Call, action: Action) -> _Call | None:
    if call.get("status") != "streaming":
        return None
    given = _pick(action, "invocationMessage", "_meta")
    if isinstance(content := action.get("content"), str):
        given["partialInput"] = f"{call.get('partialInput') or ''}{content}"
    return {**call, **given}


def _contributor(call: _Call, action: Action) -> _Call:
    """Who runs the call is settled at its start: a client's stays that client's, no other becomes a client's (4.8)."""
    old, new = call.get("contributor"), action.get("contributor")
    if not isinstance(new, dict):
        return _pick(call, "contributor")
    if isinstance(old, dict) and old.get("kind") == "client":
        accepted = new.get("kind") == "client" and new.get("clientId") == old.get("clientId")
    else:
        accepted = new.get("kind") != "client"
    return {"contributor": new} if accepted else _pick(call, "contributor")


def _ready(call: _Call, action: Action) -> _Call | None:
    status = call.get("status")
    if status not in ("streaming", "running", "pending-confirmation"):
        return None
    confirmed = action.get("confirmed")
    ready = _rebuilt(call, action, "pending-confirmation" if confirmed is None else "running")
    if status == "streaming":
        ready.pop("toolInput", None)
    ready |= _contributor(call, action) | _pick(action, "intention", "invocationMessage", "toolInput")
    if confirmed is not None:
        return {**ready, "confirmed": confirmed}
    kept = _pick(call, *_CONFIRMATION) if status == "pending-confirmation" else {}
    return {**ready, **kept, **_pick(action, *_CONFIRMATION)}


def _selected_option(call: _Call, action: Action) -> _Call:
    wanted = action.get("selectedOptionId")
    for option in entries(call, "options"):
        if wanted is not None and isinstance(option, dict) and option.get("id") == wanted:
            return {"selectedOption": option}
    return {}


def _confirmed(call: _Call, action: Action) -> _Call | None:
    if call.get("status") != "pending-confirmation":
        return None
    option = _selected_option(call, action)
    if not action["approved"]:
        denial = _pick(action, "reason", "reasonMessage", "userSuggestion")
        return {**_rebuilt(call, action, "cancelled"), **denial, **option}
    call = {**_rebuilt(call, action, "running"), **_pick(action, "confirmed"), **option}
    # A ContentRef is not replaced: the host rewrites what it refers to before it echoes.
    if isinstance(call.get("toolInput"), str) and action.get("editedToolInput") is not None:
        call["toolInput"] = action["editedToolInput"]
    return call


def _completed(call: _Call, action: Action) -> _Call | None:
    status, result = call.get("status"), action["result"]
    wants_confirmation = bool(action.get("requiresResultConfirmation"))
    given: _Call = {}
    if status == "running":
        given = _pick(call, "confirmed", "selectedOption")
    elif status == "pending-confirmation":
        given = {"confirmed": "not-needed"}
    elif status == "auth-required" and not result.get("success"):
        given = _pick(call, "confirmed", "selectedOption", "content")
        wants_confirmation = False
    else:
        return None
    after = "pending-result-confirmation" if wants_confirmation else "completed"
    # The call's own fields win over a result that names them: a result cannot move a call to another status or id.
    return {**given, **_pick(result, *result), **_rebuilt(call, action, after)}


def _result_confirmed(call: _Call, action: Action) -> _Call | None:
    if call.get("status") != "pending-result-confirmation":
        return None
    if action["approved"]:
        return {**call, **_pick(action, "_meta"), "status": "completed"}
    return {**_rebuilt(call, action, "cancelled", "selectedOption"), "reason": "result-denied"}


def _content_changed(call: _Call, action: Action) -> _Call | None:
    if call.get("status") != "running":
        return None
    return {**call, **_pick(action, "_meta"), "content": action["content"]}


_RUNNING = ("confirmed", "selectedOption", "content")


def _auth_required(call: _Call, action: Action) -> _Call | None:
    contributor = call.get("contributor")
    is_mcp = isinstance(contributor, dict) and contributor.get("kind") == "mcp"
    if call.get("status") != "running" or not is_mcp:
        return None
    return {**_rebuilt(call, action, "auth-required", *_RUNNING), "auth": action["auth"]}


def _auth_resolved(call: _Call, action: Action) -> _Call | None:
    return _rebuilt(call, action, "running", *_RUNNING) if call.get("status") == "auth-required" else None


def skipped(part: State) -> State:
    """A part as the end of its turn leaves it: a call that is not over is cancelled, all else stays."""
    call = tool_call_of(part)
    if call is None or call.get("status") in ("completed", "cancelled"):
        return part
    over = {"invocationMessage": "", **_rebuilt(call, {}, "cancelled"), "reason": "skipped"}
    if call.get("status") == "streaming":
        over.pop("toolInput", None)
    return {**part, "toolCall": over}


# ── Handlers ─────────────────────────────────────────────────────────────────────────────────────────────────────
def _start(state: State, action: Action) -> State:
    turn = running_as(state, action)
    if turn is None:
        return state
    call = {"status": "streaming", **_pick(action, *_BASE)}
    return with_part(state, turn, -1, {"kind": "toolCall", "toolCall": call})


def _stepped(state: State, action: Action, step: _Step) -> State:
    """The state with `step` applied to the named call, if the turn runs, has it, and its status allows it."""
    turn = running_as(state, action)
    if turn is None:
        return state
    for index, part in enumerate(entries(turn, "responseParts")):
        call = tool_call_of(part)
        if call is not None and call.get("toolCallId") == action["toolCallId"]:
            after = step(call, action)
            if after is None:
                return state
            return with_part(state, turn, index, {**part, "toolCall": after})
    return state


def _quiet(step: _Step) -> Reducer:
    return lambda state, action: _stepped(state, action, step)


def _refreshing(step: _Step) -> Reducer:
    """Status is recomputed even when the call is not found or refuses: 4.6 rule 3, which hosts avoid by not sending such."""
    return lambda state, action: refreshed(_stepped(state, action, step))


def _rule(handler: Reducer, **more: type) -> Rule:
    return on(handler, turnId=str, toolCallId=str, **more)


TOOL_CALL_RULES: Mapping[str, Rule] = {
    "chat/toolCallStart": _rule(_start, toolName=str),
    "chat/toolCallDelta": _rule(_quiet(_delta)),
    "chat/toolCallContentChanged": _rule(_quiet(_content_changed), content=list),
    "chat/toolCallReady": _rule(_refreshing(_ready)),
    "chat/toolCallConfirmed": _rule(_refreshing(_confirmed), approved=bool),
    "chat/toolCallComplete": _rule(_refreshing(_completed), result=dict),
    "chat/toolCallResultConfirmed": _rule(_refreshing(_result_confirmed), approved=bool),
    "chat/toolCallAuthRequired": _rule(_refreshing(_auth_required), auth=dict),
    "chat/toolCallAuthResolved": _rule(_refreshing(_auth_resolved)),
}
