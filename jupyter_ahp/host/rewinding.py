"""Rewinds of a chat, and what brings back what they cut. X1 to X4; `rewind` has what is kept of them.

What is dropped leaves the store first, then everybody is told, then the backend (X2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError, invalid_params
from . import clock, rewind
from .arrivals import Refused
from .ports import Json, StoreError
from .workers import NO_STOP

if TYPE_CHECKING:
    from .chat import Chat
    from .connection import Connection


class Rewinding:
    """Of one chat."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def truncated(self, sender: Connection, client_seq: int, action: Json) -> None:
        """X1 to X4: who is handed its history by the host is handed the turns that are left; see `memory` for others."""
        chat = self._chat
        keep = action.get("turnId")
        if keep is not None and not any(turn["id"] == keep for turn in chat.state["turns"]):
            chat.echo(sender, client_seq, action)  # changes nothing (AHP 4.7)
            return
        if not chat.turns.can_stop:
            raise Refused(NO_STOP)

        def say() -> None:
            if keep is not None:
                chat.show(keep)
            meta = {**(action.get("_meta") or {}), **rewind.offer(chat.record)}
            chat.echo(sender, client_seq, {**action, "_meta": meta} if meta else action)

        await self._cut(keep, say)

    async def cut_back(self, keep: str) -> None:
        """Drop the turns behind this one in nobody's name; `admitting` is held. Raises `StoreError`."""
        await self._cut(keep, lambda: self._chat.publish({"type": "chat/truncated", "turnId": keep}))

    async def _cut(self, keep: str | None, say: Callable[[], object]) -> None:
        chat = self._chat
        try:
            await chat.turns.truncate(keep, say)
        finally:
            chat.waiting.given_back()  # what ran, ran out of it
            chat.workers.turns_left(turn["id"] for turn in chat.state["turns"])
            chat.go_on("stopped")  # what the backend has begun by itself waited for what ran

    async def give_up(self) -> None:
        """A turn is about to begin, behind which what was cut cannot come back. Raises `StoreError`: then it still can."""
        chat = self._chat
        meta = chat.record.meta
        if rewind.cut(chat.record):
            chat.record.meta = rewind.given_up(chat.record)
            try:
                await chat.saver.now()
            except StoreError:
                chat.record.meta = meta
                raise

    async def undo(self) -> int:
        """Bring back what the last rewind cut, for everyone; how many turns. Raises `ProtocolError`."""
        chat = self._chat
        await chat.loaded()
        async with chat.admitting:
            turns = rewind.cut(chat.record)
            if chat.session.read_only is not None:
                raise ProtocolError(INVALID_REQUEST, chat.session.read_only)
            if "activeTurn" in chat.state or not turns or chat.closed:
                raise invalid_params(
                    "There is nothing to bring back: a turn has begun since, or nothing was rewound."
                )
            try:
                points = rewind.cut_points(chat.record)
                await chat.store.put_turns(chat.session.id, chat.uri, turns, points)
            except StoreError as error:
                raise ProtocolError(
                    INTERNAL_ERROR, f"The turns could not be brought back: {error}"
                ) from error
            chat.memory.bring_back()
            chat.saver.soon()
            now = clock.now()
            for turn in turns:
                for action in rewind.said_again(turn, now):
                    chat.publish(action)
            return len(turns)
