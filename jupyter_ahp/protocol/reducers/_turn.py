"""The running turn of a chat, and the status that follows from it (AHP 4.6)."""

from __future__ import annotations

from typing import Any

from ..status import ACTIVITY_MASK, IDLE, IN_PROGRESS, INPUT_NEEDED
from ._base import Action, State, assign, entries, replaced, status_of

_WAITING = frozenset({"pending-confirmation", "pending-result-confirmation", "auth-required"})


def running(state: State) -> State | None:
    """The active turn, if there is one."""
    turn = state.get("activeTurn")
    return turn if isinstance(turn, dict) else None


def running_as(state: State, action: Action) -> State | None:
    """The active turn, if it is the one that the action names (4.6 rule 5)."""
    turn = running(state)
    return turn if turn is not None and turn.get("id") == action["turnId"] else None


def with_part(state: State, turn: State, index: int, part: State) -> State:
    """The chat with one part of its running turn replaced, or appended if `index` is -1."""
    parts = replaced(entries(turn, "responseParts"), index, part)
    return {**state, "activeTurn": {**turn, "responseParts": parts}}


def tool_call_of(part: Any) -> State | None:
    """The call in a `toolCall` part; None for any other part."""
    if not isinstance(part, dict) or part.get("kind") != "toolCall":
        return None
    call = part.get("toolCall")
    return call if isinstance(call, dict) else None


def is_open_request(part: Any) -> bool:
    """A question that nobody has answered."""
    return isinstance(part, dict) and part.get("kind") == "inputRequest" and part.get("response") is None


def _waits(part: Any) -> bool:
    call = tool_call_of(part)
    return is_open_request(part) if call is None else call.get("status") in _WAITING


def with_activity(state: State, activity: int) -> State:
    """The activity bits set to this, the marks of people and unknown bits as they were."""
    return assign(state, status=(status_of(state) & ~ACTIVITY_MASK) | activity)


def refreshed(state: State) -> State:
    """The status recomputed from the running turn (4.6 rule 2)."""
    turn = running(state)
    if turn is None:
        return with_activity(state, IDLE)
    waits = any(_waits(part) for part in entries(turn, "responseParts"))
    return with_activity(state, INPUT_NEEDED if waits else IN_PROGRESS)
