"""A chat as the store has it, back into a state.

What the last process was streaming when it died is an ended turn that can be resumed (design, *Store*).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from ..protocol import status
from ..protocol.meta import runs_here, sent_in
from ..protocol.reducers import REDUCERS
from . import rewind
from .commands import cut_off, without_printed
from .ports import ChatRecord, Json, StoredChat

log = logging.getLogger(__name__)

INTERRUPTED: Json = {
    "kind": "error",
    "error": {
        "errorType": "interrupted",
        "message": "The server stopped while this was running. What was written is kept.",
    },
}
ELSEWHERE: Json = {
    "kind": "error",
    "error": {
        "errorType": "elsewhere",
        "message": "This was running in another server when it was read here. It goes on there.",
    },
}
PROBLEMS = "jupyter-ahp.problems"


def interrupted(message: Json) -> Json:
    """How the turn of a message ends that ran when its server stopped.

    A command is not run twice unasked, and a worker's turn is its agent's to run (W3).
    """
    is_workers = (message.get("origin") or {}).get("kind") == "agent"
    return INTERRUPTED if is_workers or runs_here(message) else {**INTERRUPTED, "resumable": True}


def _mended(stored: StoredChat) -> ChatRecord:
    """The record without what the last process had done with, and died before it was written.

    Messages that were sent are delivered once; turns that are there are not cut.
    """
    sent = {name for turn in stored.turns for name in sent_in(turn)}
    if stored.active is not None:
        parts = [action["part"] for action in stored.active_actions if "part" in action]
        sent |= {*sent_in(stored.active), *sent_in({**stored.active, "responseParts": parts})}
    record = stored.record
    steering = record.steering
    return replace(
        record,
        queued=[waiting for waiting in record.queued if waiting["id"] not in sent],
        steering=None if steering is not None and steering["id"] in sent else steering,
        meta=rewind.mended(without_printed(record.meta), stored.turns),
    )


def restore(summary: Json, stored: StoredChat, *, elsewhere: bool = False) -> tuple[Json, Json | None]:
    """The chat's state, and the turn to be written as ended, if one was interrupted. Mends `stored.record`.

    `elsewhere`: another server has the chat open, so what runs was not interrupted.
    """
    turns = stored.turns
    if stored.active is not None and turns and turns[-1]["id"] == stored.active["id"]:
        turns = turns[:-1]  # it failed, and was being resumed
    failed = bool(turns) and turns[-1].get("state") == "error"
    marks = summary["status"] & ~status.ACTIVITY_MASK
    state: Json = {
        **summary,
        "status": marks | (status.ERROR if failed else status.IDLE),
        "turns": turns,
    }
    state.pop("activity", None)
    written = stored.record
    record = stored.record = _mended(stored)
    if record.draft is not None:
        state["draft"] = record.draft
    if record.queued:
        state["queuedMessages"] = record.queued
    if record.steering is not None:
        state["steeringMessage"] = record.steering
    if stored.problems:
        log.warning("%s: %s", summary["resource"], "; ".join(stored.problems))
        state["_meta"] = {PROBLEMS: stored.problems}
    if stored.active is None:
        return state, None
    reduce = REDUCERS["chat"]
    state = {**state, "activeTurn": stored.active}
    for action in stored.active_actions:
        state = reduce(state, action)
    if "activeTurn" in state:
        if not elsewhere and (end := cut_off(state["activeTurn"], written.meta)) is not None:
            state = reduce(state, end)
        part = ELSEWHERE if elsewhere else interrupted(stored.active["message"])
        for ended in _calls_with_workers(state["activeTurn"], part["error"]["message"]):
            state = reduce(state, ended)
        state = reduce(
            state, {"type": "chat/error", "turnId": stored.active["id"], "duration": 0, "part": part}
        )
    state = {key: value for key, value in state.items() if key != "activity"}
    record.steering = state.get("steeringMessage")  # a stop took it out
    return state, state["turns"][-1]


def _calls_with_workers(turn: Json, why: str) -> Iterator[Json]:
    """The ends of calls that workers run: the turn's own end would take what they show with it (W5)."""
    for part in turn["responseParts"]:
        call = part.get("toolCall") or {}
        content = call.get("content") or []
        if call.get("status") == "running" and any(block.get("type") == "subagent" for block in content):
            words = f"Stopped: {call['displayName']}"
            result = {"success": False, "pastTenseMessage": words, "content": content}
            yield {
                "type": "chat/toolCallComplete",
                "turnId": turn["id"],
                "toolCallId": call["toolCallId"],
                "result": {**result, "error": {"message": why}},
            }
