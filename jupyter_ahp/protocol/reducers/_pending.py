"""Messages that wait: the one steering message and the queue (AHP 4.1, 4.7)."""

from __future__ import annotations

from collections.abc import Mapping

from ._base import Action, Rule, State, assign, entries, find, key_of, on, remove, upsert


def without_pending(state: State, message_id: object) -> State:
    """The chat once the waiting message of that id has become a turn."""
    steering = state.get("steeringMessage")
    if isinstance(steering, dict) and steering.get("id") == message_id:
        state = assign(state, steeringMessage=None)
    queue = entries(state, "queuedMessages")
    if find(queue, "id", message_id) < 0:
        return state
    left = [item for item in queue if key_of(item, "id") != message_id]
    return assign(state, queuedMessages=left or None)


def _set(state: State, action: Action) -> State:
    pending = {"id": action["id"], "message": action["message"]}
    if action["kind"] == "steering":
        return assign(state, steeringMessage=pending)
    return upsert(state, "queuedMessages", pending, "id") if action["kind"] == "queued" else state


def _removed(state: State, action: Action) -> State:
    if action["kind"] == "steering":
        steering = state.get("steeringMessage")
        waits = isinstance(steering, dict) and steering.get("id") == action["id"]
        return assign(state, steeringMessage=None) if waits else state
    after = remove(state, "queuedMessages", action["id"], "id") if action["kind"] == "queued" else state
    return state if after is state else assign(after, queuedMessages=after["queuedMessages"] or None)


def _reordered(state: State, action: Action) -> State:
    """Those named first, each once, in that order; then the others as they stood."""
    queue = entries(state, "queuedMessages")
    by_id = {key_of(item, "id"): item for item in queue}
    named = list(dict.fromkeys(i for i in action["order"] if isinstance(i, str) and i in by_id))
    rest = [item for item in queue if key_of(item, "id") not in named]
    order = [by_id[i] for i in named] + rest
    return state if order == queue else {**state, "queuedMessages": order}


PENDING_RULES: Mapping[str, Rule] = {
    "chat/pendingMessageSet": on(_set, kind=str, id=str, message=dict),
    "chat/pendingMessageRemoved": on(_removed, kind=str, id=str),
    "chat/queuedMessagesReordered": on(_reordered, order=list),
}
