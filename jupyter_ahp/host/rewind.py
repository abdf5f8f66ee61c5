"""What a rewind cut, kept until the next turn begins, and how it is said again. X1; ours, beyond the protocol.

The echo of `chat/truncated` and the chat's snapshot say `_meta["jupyter-ahp.undo"] = {"turns": n}` while n turns can be
brought back by the request `x-jupyter-ahp/undoRewind`. They come back as the actions that made them, so that every
client follows, ours or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .ports import ChatRecord, Json

UNDO_REWIND = "x-jupyter-ahp/undoRewind"
UNDO = "jupyter-ahp.undo"
_CUT = "cut"
_POINTS = "cutPoints"
"""Of what is cut, where the backend says that each turn ended."""
_HAD = "had"
"""Where the backend was before (`memory.Held`), if a rewind moved it."""
_DOOMED = "doomed"
"""A conversation of the backend's that is to be deleted before the next one begins (X3)."""
_ENDINGS = {"complete": "chat/turnComplete", "cancelled": "chat/turnCancelled"}


def cut(record: ChatRecord) -> list[Json]:
    """The turns that can be brought back, oldest first."""
    turns: list[Json] = record.meta.get(_CUT, [])
    return turns


def cut_points(record: ChatRecord) -> dict[str, str]:
    points: dict[str, str] = record.meta.get(_POINTS, {})
    return points


def had(record: ChatRecord) -> Json | None:
    """Where the backend was before the first of the rewinds that can be undone, if one of them moved it."""
    held: Json | None = record.meta.get(_HAD)
    return held


def with_cut(
    meta: Json, turns: Sequence[Json], points: Mapping[str, str], before: Json | None = None
) -> Json:
    """A record's `meta` once a rewind has cut these turns, ahead of what one before it cut.

    `points`: where they ended. `before`: where the backend was, if it is not there any more.
    """
    if not turns:
        return meta
    meta = {**meta, _CUT: [*turns, *meta.get(_CUT, [])]}
    if points:
        meta[_POINTS] = {**meta.get(_POINTS, {}), **points}
    if before is not None:
        meta.setdefault(_HAD, before)
    return meta


def with_point(meta: Json, turn_id: str, point: str) -> Json | None:
    """A record's `meta` once the backend said where a turn ended that is cut; None if it is not."""
    if all(turn["id"] != turn_id for turn in meta.get(_CUT, ())):
        return None
    return {**meta, _POINTS: {**meta.get(_POINTS, {}), turn_id: point}}


def without_cut(meta: Json) -> Json:
    """A record's `meta` once what was cut is gone, or is back."""
    return {key: value for key, value in meta.items() if key not in (_CUT, _POINTS, _HAD)}


def given_up(record: ChatRecord) -> Json:
    """A record's `meta` once a turn begins, behind which what was cut cannot come back."""
    meta = without_cut(record.meta)
    before = had(record)
    if before is not None and record.memory is None and not before["fork"]:
        meta[_DOOMED] = before["memory"]
    return meta


def doomed(record: ChatRecord) -> str | None:
    memory: str | None = record.meta.get(_DOOMED)
    return memory


def without_doomed(meta: Json) -> Json:
    return {key: value for key, value in meta.items() if key != _DOOMED}


def own_memories(record: ChatRecord) -> list[str]:
    """The backend's conversations that are this chat's: the one that it goes on with, and those that a rewind ended."""
    before = had(record) or {}
    found = [
        None if record.fork else record.memory,
        None if before.get("fork") else before.get("memory"),
        doomed(record),
    ]
    return list(dict.fromkeys(memory for memory in found if memory is not None))


def mended(meta: Json, turns: list[Json]) -> Json:
    """A record's `meta` as a crash left it, without what is not cut: a rewind that did not happen, an undo that did."""
    there = {turn["id"] for turn in turns}
    left = [turn for turn in meta.get(_CUT, []) if turn["id"] not in there]
    if len(left) == len(meta.get(_CUT, [])):
        return meta
    if left:
        return {**meta, _CUT: left}
    return {key: value for key, value in meta.items() if key not in (_CUT, _POINTS)}


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
