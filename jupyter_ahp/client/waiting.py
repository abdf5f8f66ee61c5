"""`AsyncWaiting`: a message that waits in a chat, to be edited, taken back, waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import Refused
from .line import Line, ended, finish
from .model import Message, Turn, message_of
from .places import Kind, pending_in, turn_with

if TYPE_CHECKING:
    from .attending import Attendant

Json: TypeAlias = dict[str, Any]


class AsyncWaiting:
    """A message that `AsyncChat.queue` or `AsyncChat.steer` left with the host. It goes without anybody waiting here."""

    def __init__(
        self, line: Line, kind: Kind, message_id: str, message: Json, attend: Callable[[], Attendant]
    ) -> None:
        self._line = line
        self._attend = attend
        self._message = message
        self.kind = kind
        """`steering`: for the turn that runs; `queued`: for a turn of its own."""
        self.id = message_id
        """The same for everybody in the chat."""

    @property
    def _latest(self) -> Json:
        entry = pending_in(self._line.state, self.id)
        if entry is not None:
            self._message = entry["message"]
        return self._message

    @property
    def message(self) -> Message:
        """What it says: while it waits, as it is now, whoever edited it."""
        return message_of(self._latest)

    @property
    def text(self) -> str:
        """Its words."""
        return self.message.text

    @property
    def waits(self) -> bool:
        """Whether it still waits."""
        return pending_in(self._line.state, self.id) is not None

    async def edit(self, text: str) -> None:
        """Change its words, not what is attached. Raises `Refused` when it does not wait any more."""
        self._check()
        await self._line.put(self.kind, self.id, {**self._latest, "text": text}, hold=True)
        _ = self._latest

    async def remove(self) -> None:
        """Take it back; nothing else starts for that. Raises `Refused` when it was sent already."""
        await self._line.take_back(self.kind, self.id)
        if turn_with(self._line.state, self.id) is not None:
            raise Refused("The message was sent already.")

    async def wait(self, *, timeout: float | None = None) -> Turn:
        """The turn that it becomes, or that a steering message went into, once that has ended.

        Raises `TurnFailed` with that turn if it failed, `Refused` when the message was taken back: by somebody, or by a
        stop, as steering is. After `timeout` seconds it raises `TimeoutError`, and the message goes its way all the
        same. After a stop or a failure what is queued stays: `send` sends it.
        """
        try:
            async with asyncio.timeout(timeout), self._attend() as attendant:
                return attendant.check(ended(await self._line.mirror.until(self._turn_ended)))
        except TimeoutError:
            raise TimeoutError(
                f"The message was not answered within {timeout:g} s. It goes its way."
            ) from None

    async def send(self, *, timeout: float | None = None) -> Turn:
        """Send it as soon as nothing runs, ahead of what else waits, and wait until its turn has ended.

        It stays its author's. Otherwise as `AsyncChat.send`, but that a message which still waits when the caller leaves
        goes on waiting.
        """
        self._check()
        async with self._attend() as attendant:
            return attendant.check(await finish(self._line.send_on(self.id, self._latest), timeout))

    def _check(self) -> None:
        if not self.waits:
            sent = turn_with(self._line.state, self.id) is not None
            raise Refused("The message was sent already." if sent else "The message was taken back.")

    def _turn_ended(self, state: Json) -> Json | None:
        if pending_in(state, self.id) is not None:
            return None
        turn = turn_with(state, self.id)
        if turn is None:
            raise Refused("The message was taken back before the agent had it.")
        return turn if "state" in turn else None

    def __repr__(self) -> str:
        state = "waits" if self.waits else "waits no more"
        return f"<{type(self).__name__} {self.kind}, {state}: {self.text!r}>"
