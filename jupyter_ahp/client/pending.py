"""What was dispatched and is not answered yet, in order (AHP 1.8).

It is sent again after each reconnect under the numbers that it has. A host takes each number once, and answers again
what it had taken. A host that was started again knows no numbers: what a snapshot shows to have been done already is
therefore answered by the snapshot, and not sent again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

from ..protocol import jsonrpc
from .errors import Refused
from .places import pending_in, turn_in, turn_with

Json = dict[str, Any]


class _Dispatch:
    __slots__ = ("action", "answer", "channel", "frame")

    def __init__(self, channel: str, action: Json, client_seq: int) -> None:
        self.channel = channel
        self.action = action
        self.frame = jsonrpc.notification(
            "dispatchAction", {"channel": channel, "clientSeq": client_seq, "action": action}
        )
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answer.add_done_callback(_seen)

    def done(self, refusal: str | None = None) -> None:
        if not self.answer.done():
            if refusal is None:
                self.answer.set_result(None)
            else:
                self.answer.set_exception(Refused(refusal))


class Pending:
    """One client's. Each entry has a future: done when the host has applied the action, `Refused` if it would not."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._entries: dict[int, _Dispatch] = {}

    def add(self, channel: str, action: Json) -> tuple[int, bytes, asyncio.Future[None]]:
        """Its number, the frame to send, and the future of its answer."""
        client_seq = next(self._numbers)
        entry = self._entries[client_seq] = _Dispatch(channel, action, client_seq)
        return client_seq, entry.frame, entry.answer

    @property
    def largest(self) -> int:
        """Bytes of the largest frame; 0: there is none."""
        return max((len(entry.frame) for entry in self._entries.values()), default=0)

    def refuse_largest(self, reason: str) -> None:
        """Its frame cannot go at all."""
        client_seq = max(self._entries, key=lambda number: len(self._entries[number].frame), default=None)
        if client_seq is not None:
            self.answered(client_seq, reason)

    def frames(self) -> Iterator[bytes]:
        """All of it, to be sent again."""
        return (entry.frame for entry in self._entries.values())

    def answers(self, channel: str) -> list[asyncio.Future[None]]:
        """Those that a channel still owes."""
        return [entry.answer for entry in self._entries.values() if entry.channel == channel]

    def answered(self, client_seq: int, reason: str | None) -> None:
        """The host's word on one; `reason` when it refused."""
        entry = self._entries.pop(client_seq, None)
        if entry is not None:
            entry.done(reason)

    def settle(self, channel: str, before: Json, now: Json) -> None:
        """A snapshot took the place of a state: what it shows to have been done is answered."""
        for client_seq, entry in list(self._entries.items()):
            if entry.channel == channel and _was_done(entry.action, before, now):
                del self._entries[client_seq]
                entry.done()

    def refuse(self, reason: str, channel: str | None = None) -> None:
        """Nothing will answer these any more: a channel's, or all."""
        for client_seq, entry in list(self._entries.items()):
            if channel in (None, entry.channel):
                del self._entries[client_seq]
                entry.done(reason)


def _was_done(action: Json, before: Json, now: Json) -> bool:
    match action["type"]:
        case "chat/turnStarted" | "chat/turnResume":
            turn = turn_in(now, action["turnId"])
            return turn is not None and turn != turn_in(before, action["turnId"])
        case "chat/pendingMessageSet":
            waits, sent = pending_in(now, action["id"]), turn_with(now, action["id"])
            if pending_in(before, action["id"]) is None:
                return waits is not None or sent is not None
            # An edit. One that came too late is for the host to refuse.
            return waits is not None and waits["message"].get("text") == action["message"]["text"]
        case "chat/truncated":
            # Sent again, it would cut what was said since, too.
            return not any(turn_in(now, turn_id) for turn_id in _behind(before, action.get("turnId")))
    return False


def _behind(state: Json, turn_id: str | None) -> list[str]:
    """The turns that a rewind to this one cuts."""
    turns = [turn["id"] for turn in state.get("turns", ())]
    if turn_id is not None and turn_id not in turns:
        return []
    running = [state["activeTurn"]["id"]] if "activeTurn" in state else []
    return [*turns[turns.index(turn_id) + 1 if turn_id is not None else 0 :], *running]


def _seen(answer: asyncio.Future[None]) -> None:
    """Who dispatches and does not wait does not care how it went."""
    if not answer.cancelled():
        answer.exception()
