"""What the host does for a backend's conversation at any time: turns that nobody asked for, work behind the turns.

B9, Q6; AHP 4.1 and 4.2 (`backgroundWork`), `origin.kind` of a message that no person wrote. When a late turn opens is
`pending.next_step`'s to say, and `waiting` does it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import clock
from .ports import ConversationHost, Json, TurnSink
from .sink import sendable

if TYPE_CHECKING:
    from .chat import Chat


@dataclass(frozen=True, slots=True, eq=False)
class Late:
    """A turn that the backend has begun by itself."""

    text: str
    answer: Callable[[TurnSink], Awaitable[None]]
    message_id: str | None
    """The steering message that it is for."""
    meta: Json | None
    over: asyncio.Future[None]

    def ended(self) -> None:
        """It ran, or never will."""
        if not self.over.done():  # whoever has it may have cancelled it
            self.over.set_result(None)


class Behind(ConversationHost):
    """Of one conversation, until that is closed: what it says afterwards is not heard."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._late: deque[Late] = deque()
        self._listed: set[str] = set()
        self._closed = False

    def late_turn(
        self,
        text: str,
        answer: Callable[[TurnSink], Awaitable[None]],
        *,
        message_id: str | None = None,
        meta: Json | None = None,
    ) -> Awaitable[None]:
        late = Late(
            sendable(text), answer, message_id, sendable(meta), asyncio.get_running_loop().create_future()
        )
        if self._closed:
            late.ended()
        else:
            self._late.append(late)
            self._chat.go_on("late")
        return late.over

    def background(self, work: Json | None, id: str) -> None:
        if self._closed:
            return
        if work is not None:
            self._listed.add(id)
            work = sendable({"startedAt": clock.now(), **work, "id": id})
            self._chat.publish({"type": "chat/backgroundWorkSet", "work": work})
        elif id in self._listed:
            self._listed.remove(id)
            self._chat.publish({"type": "chat/backgroundWorkRemoved", "id": sendable(id)})

    def configured(self, values: Mapping[str, Any]) -> None:
        if not self._closed:
            self._chat.session.configured(values)

    # ── the host's side ──────────────────────────────────────────────────────────────────────────────────────
    @property
    def waits(self) -> bool:
        """A late turn is to be opened."""
        return bool(self._late)

    @property
    def holds(self) -> str | None:
        """The steering message that a late turn is for, until that opens."""
        return next((late.message_id for late in self._late if late.message_id is not None), None)

    @property
    def busy(self) -> bool:
        """Something goes on that ends with the conversation."""
        return bool(self._late or self._listed)

    def has(self, message_id: str) -> bool:
        """A late turn for this steering message is to be opened."""
        return any(late.message_id == message_id for late in self._late)

    def take(self) -> Late:
        """The late turn that opens next."""
        return self._late.popleft()

    def put_back(self, late: Late) -> None:
        """It could not be opened, and is tried again first."""
        if self._closed:
            late.ended()
        else:
            self._late.appendleft(late)

    def close(self) -> None:
        for work in tuple(self._listed):
            self.background(None, work)
        self._closed = True
        while self._late:
            self._late.popleft().ended()
