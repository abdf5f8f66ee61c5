"""What was dispatched and is not answered yet, in order (AHP 1.8).

It is sent again after each reconnect under the numbers that it has. A host takes each number once. It answers again
what it had taken, but for the start of a turn: that is answered by the turn itself, in the replay or the snapshot.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

from ..protocol import jsonrpc
from .errors import Refused

Json = dict[str, Any]

_STARTS = ("chat/turnStarted", "chat/turnResume")


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

    def add(self, channel: str, action: Json) -> tuple[bytes, asyncio.Future[None]]:
        """The frame to send, and the future of its answer."""
        client_seq = next(self._numbers)
        entry = self._entries[client_seq] = _Dispatch(channel, action, client_seq)
        return entry.frame, entry.answer

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
        """A snapshot took the place of a state: the turns that it has, and that we did not see start, were started."""
        for client_seq, entry in list(self._entries.items()):
            if entry.channel != channel or entry.action["type"] not in _STARTS:
                continue
            turn = turn_in(now, entry.action["turnId"])
            if turn is not None and turn != turn_in(before, entry.action["turnId"]):
                del self._entries[client_seq]
                entry.done()

    def refuse(self, reason: str, channel: str | None = None) -> None:
        """Nothing will answer these any more: a channel's, or all."""
        for client_seq, entry in list(self._entries.items()):
            if channel in (None, entry.channel):
                del self._entries[client_seq]
                entry.done(reason)


def turn_in(state: Json, turn_id: str) -> Json | None:
    """A turn of a chat's state, running or ended."""
    active: Json | None = state.get("activeTurn")
    if active is not None and active["id"] == turn_id:
        return active
    return next((turn for turn in reversed(state.get("turns", [])) if turn["id"] == turn_id), None)


def _seen(answer: asyncio.Future[None]) -> None:
    """Who dispatches and does not wait does not care how it went."""
    if not answer.cancelled():
        answer.exception()
