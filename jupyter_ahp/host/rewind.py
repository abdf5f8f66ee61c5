"""What a rewind cut, kept until the next turn begins, and how it is said again. X1; ours, beyond the protocol.

The echo of `chat/truncated` and the chat's snapshot say `_meta["jupyter-ahp.undo"] = {"turns": n}` while n turns can be
brought back by the request `x-jupyter-ahp/undoRewind`. They come back as the actions that made them, so that every
client follows, ours or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from .ports import ChatRecord, Json

UNDO_REWIND = "x-jupyter-ahp/undoRewind"
UNDO = "jupyter-ahp.undo"
_CUT = "cut"
_ENDINGS = {"complete": "chat/turnComplete", "cancelled": "chat/turnCancelled"}


def cut(record: ChatRecord) -> list[Json]:
    """The turns that can be brought back, oldest first."""
    turns: list[Json] = record.meta.get(_CUT, [])
    return turns


def with_cut(meta: Json, turns: list[Json]) -> Json:
    """A record's `meta` once a rewind has cut these turns, ahead of what one before it cut."""
    return {**meta, _CUT: [*turns, *meta.get(_CUT, [])]} if turns else meta


def without_cut(meta: Json) -> Json:
    """A record's `meta` once what was cut is gone, or is back."""
    return {key: value for key, value in meta.items() if key != _CUT}


def mended(meta: Json, turns: list[Json]) -> Json:
    """A record's `meta` as a crash left it, without what is not cut: a rewind that did not happen, an undo that did."""
    there = {turn["id"] for turn in turns}
    left = [turn for turn in meta.get(_CUT, []) if turn["id"] not in there]
    return with_cut(without_cut(meta), left)


def offer(record: ChatRecord) -> Json:
    """For `_meta`: what can be undone."""
    turns = cut(record)
    return {UNDO: {"turns": len(turns)}} if turns else {}


def said_again(turn: Json, now: str) -> Iterator[Json]:
    """The actions that make an ended turn once more."""
    turn_id = turn["id"]
    started = turn.get("startedAt") or now
    yield {"type": "chat/turnStarted", "turnId": turn_id, "startedAt": started, "message": turn["message"]}
    parts = turn["responseParts"]
    failed = turn["state"] == "error" and bool(parts) and parts[-1]["kind"] == "error"
    for part in parts[:-1] if failed else parts:
        if part["kind"] == "error":  # it was resumed
            yield {"type": "chat/error", "turnId": turn_id, "duration": 0, "part": part}
            yield {"type": "chat/turnResume", "turnId": turn_id}
        else:
            yield {"type": "chat/responsePart", "turnId": turn_id, "part": part}
    if "usage" in turn:
        yield {"type": "chat/usage", "turnId": turn_id, "usage": turn["usage"]}
    end: Json = {"turnId": turn_id, "duration": turn.get("duration", 0)}
    if failed:
        yield {"type": "chat/error", **end, "part": parts[-1]}
    else:
        yield {"type": _ENDINGS.get(turn["state"], "chat/turnCancelled"), **end}
