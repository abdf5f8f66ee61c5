"""What the host does for a conversation at any time: turns that nobody asked for, and work behind the turns. B9, Q6."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from .ports import ConversationHost, Json, TurnSink

if TYPE_CHECKING:
    from .chat import Chat


class Behind(ConversationHost):
    """One chat's. Being built: the port is final, what stands behind it comes next."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def late_turn(
        self,
        text: str,
        answer: Callable[[TurnSink], Awaitable[None]],
        *,
        message_id: str | None = None,
        meta: Json | None = None,
    ) -> Awaitable[None]:
        raise NotImplementedError("Late turns are being built.")

    def background(self, work: Json | None, id: str) -> None:
        raise NotImplementedError("Background work is being built.")
