"""Chat channel (AHP 4.6, 4.7): turns here; their tool calls, their questions and what waits in modules of their own."""

from __future__ import annotations

import math

from ..status import ERROR, IS_ARCHIVED, IS_READ
from ..times import parse_ms, to_iso
from ._base import (
    Action,
    Reducer,
    State,
    append_unique,
    assign,
    discard,
    entries,
    find,
    key_of,
    mark,
    on,
    reducer,
    remove,
    setter,
    status_of,
    upsert,
)
from ._inputs import INPUT_RULES
from ._pending import PENDING_RULES, without_pending
from ._tool_calls import TOOL_CALL_RULES, skipped
from ._turn import refreshed, running, running_as, with_activity, with_part


# ── A turn begins ────────────────────────────────────────────────────────────────────────────────────────────────
def _turn_started(state: State, action: Action) -> State:
    """Replaces a running turn without ending it: that a second one does not start is for the host to see to."""
    turn = {"id": action["turnId"], "startedAt": action.get("startedAt"), "message": action["message"]}
    turn = {key: value for key, value in turn.items() if value is not None}
    state = {**state, "activeTurn": {**turn, "responseParts": []}}
    if action.get("startedAt") is not None:
        state["modifiedAt"] = action["startedAt"]
    if action.get("queuedMessageId") is not None:
        state = without_pending(state, action["queuedMessageId"])
    return _running_unread(state)


def _running_unread(state: State) -> State:
    return refreshed(assign(state, status=status_of(state) & ~IS_READ))


def _turn_resume(state: State, action: Action) -> State:
    """The latest turn runs again, if it failed with a last word that allows it."""
    turns = entries(state, "turns")
    turn = turns[-1] if turns and isinstance(turns[-1], dict) else {}
    parts = entries(turn, "responseParts")
    last = parts[-1] if parts and isinstance(parts[-1], dict) else {}
    resumable = last.get("kind") == "error" and last.get("resumable") is True
    if running(state) is not None or turn.get("id") != action["turnId"] or turn.get("state") != "error":
        return state
    if not resumable:
        return state
    active = {key: value for key, value in turn.items() if key not in ("state", "duration")}
    active = assign(active, startedAt=turn.get("startedAt") or state.get("modifiedAt"))
    return _running_unread({**state, "turns": turns[:-1], "activeTurn": active})


# ── A turn streams ───────────────────────────────────────────────────────────────────────────────────────────────
def _appending(kind: str) -> Reducer:
    """A handler that appends to a part of this kind: the first part of that id, or none (4.6 rule 7)."""

    def handler(state: State, action: Action) -> State:
        turn = running_as(state, action)
        if turn is None or not action["content"]:
            return state
        wanted = action["partId"]
        for index, part in enumerate(entries(turn, "responseParts")):
            if not isinstance(part, dict) or _part_id(part) != wanted:
                continue
            if part.get("kind") != kind:
                return state
            grown = {**part, "content": f"{part.get('content') or ''}{action['content']}"}
            return with_part(state, turn, index, grown)
        return state

    return handler


def _part_id(part: State) -> object:
    if part.get("kind") != "toolCall":
        return part.get("id")
    call = part.get("toolCall")
    return call.get("toolCallId") if isinstance(call, dict) else None


def _response_part(state: State, action: Action) -> State:
    """An error part comes with `chat/error` alone."""
    turn = running_as(state, action)
    if turn is None or action["part"].get("kind") == "error":
        return state
    return with_part(state, turn, -1, action["part"])


def _usage(state: State, action: Action) -> State:
    turn = running_as(state, action)
    return state if turn is None else {**state, "activeTurn": {**turn, "usage": action["usage"]}}


# ── A turn ends ──────────────────────────────────────────────────────────────────────────────────────────────────
def _duration(action: Action) -> int | float:
    """Milliseconds, never negative; 0 where the action has no finite number, so that no turn ends without one (T4)."""
    value = action.get("duration")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    if isinstance(value, float) and not math.isfinite(value):
        return 0
    return max(0, value)


def _ending(how: str) -> Reducer:
    """A handler that ends the running turn as `how`."""

    def handler(state: State, action: Action) -> State:
        turn = running_as(state, action)
        if turn is None:
            return state
        duration = _duration(action)
        parts = [skipped(part) for part in entries(turn, "responseParts")]
        if how == "error" and isinstance(action.get("part"), dict):
            parts.append(action["part"])
        ended = {**turn, "responseParts": parts, "duration": duration, "state": how}
        after = assign(state, activeTurn=None, turns=[*entries(state, "turns"), ended])
        started = parse_ms(turn.get("startedAt"))
        modified = None if started is None else to_iso(started + duration)
        if modified is not None:
            after["modifiedAt"] = modified  # `assign` made this copy
        return with_activity(after, ERROR) if how == "error" else refreshed(after)

    return handler


# ── History ──────────────────────────────────────────────────────────────────────────────────────────────────────
def _truncated(state: State, action: Action) -> State:
    """Turns behind the named one go, or all; an unknown one, the running turn included, makes it a no-op as a whole."""
    turn_id = action.get("turnId")
    if turn_id is None:
        return refreshed(assign(state, turns=[], turnsNextCursor=None, activeTurn=None))
    turns = entries(state, "turns")
    index = find(turns, "id", turn_id)
    if index < 0:
        return state
    return refreshed(assign(state, turns=turns[: index + 1], activeTurn=None))


def _turns_loaded(state: State, action: Action) -> State:
    turns = entries(state, "turns")
    known = {key_of(turn, "id") for turn in turns}
    older = [turn for turn in action["turns"] if key_of(turn, "id") not in known]
    merged = [*older, *turns] if older else state.get("turns")
    return assign(state, turns=merged, turnsNextCursor=action.get("turnsNextCursor"))


reduce = reducer(
    {
        "chat/turnStarted": on(_turn_started, turnId=str, message=dict),
        "chat/turnResume": on(_turn_resume, turnId=str),
        "chat/delta": on(_appending("markdown"), turnId=str, partId=str, content=str),
        "chat/reasoning": on(_appending("reasoning"), turnId=str, partId=str, content=str),
        "chat/responsePart": on(_response_part, turnId=str, part=dict),
        "chat/usage": on(_usage, turnId=str, usage=dict),
        "chat/turnComplete": on(_ending("complete"), turnId=str),
        "chat/turnCancelled": on(_ending("cancelled"), turnId=str),
        "chat/error": on(_ending("error"), turnId=str),
        "chat/truncated": on(_truncated),
        "chat/turnsLoaded": on(_turns_loaded, turns=list),
        "chat/activityChanged": on(setter("activity")),
        "chat/draftChanged": on(setter("draft")),
        "chat/movableChanged": on(setter("movable"), movable=bool),
        "chat/changesetsChanged": on(setter("changesets")),
        "chat/canvasesChanged": on(setter("canvases")),
        "chat/isReadChanged": on(mark(IS_READ, "isRead"), isRead=bool),
        "chat/isArchivedChanged": on(mark(IS_ARCHIVED, "isArchived"), isArchived=bool),
        "chat/backgroundWorkSet": on(
            lambda state, action: upsert(state, "backgroundWork", action["work"], "id"), work=dict
        ),
        "chat/backgroundWorkRemoved": on(
            lambda state, action: remove(state, "backgroundWork", action["id"], "id"), id=str
        ),
        "chat/workingDirectorySet": on(
            lambda state, action: append_unique(state, "workingDirectories", action["directory"]),
            directory=str,
        ),
        "chat/workingDirectoryRemoved": on(
            lambda state, action: discard(state, "workingDirectories", action["directory"]), directory=str
        ),
        **TOOL_CALL_RULES,
        **INPUT_RULES,
        **PENDING_RULES,
    }
)
