"""Which conversations of backends are chats here: U9."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from .ports import StoreError

if TYPE_CHECKING:
    from .host import Host

log = logging.getLogger(__name__)


class Catalogue:
    """The conversations that backends keep by themselves, and which of them are, or were, a chat's here."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ours: set[tuple[str, str]] = set()
        self._writes: set[asyncio.Task[None]] = set()

    def own(self, provider: str, memory: str) -> None:
        """A chat here has this conversation: it is never listed as a session of its own, whatever becomes of the chat."""
        if (provider, memory) in self._ours:
            return
        self._ours.add((provider, memory))
        task = asyncio.create_task(self._write(provider, memory))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _write(self, provider: str, memory: str) -> None:
        try:
            await self._host.store.put_conversation(provider, memory)
        except StoreError as error:
            log.warning("%s of %s may be listed beside its chat after a restart: %s", memory, provider, error)

    async def close(self) -> None:
        while self._writes:
            await asyncio.wait(self._writes)
