"""A page's WebSocket, opened here: for a page that cannot reach the server by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from ..client.background import Background
from ..client.discovery import Server
from ..client.socket import FAILURES, dial, failure
from ..client.ways import Way

Tell: TypeAlias = Callable[[dict[str, Any]], None]

logger = logging.getLogger(__name__)

_PATIENCE = 10.0  # seconds for the server to open the socket


class Relay:
    """One socket to the server, for a page. It carries text and reads none of it.

    `tell` hands the page `{type: "open"}`, then each `{type: "frame", text}`, at last `{type: "close", reason}` if it
    was not closed from here.
    """

    def __init__(self, background: Background, resolve: Callable[[], Server | Way], tell: Tell) -> None:
        self._background = background
        self._outbox: asyncio.Queue[str] = asyncio.Queue()
        self._running = background.start(self._run(resolve, tell))

    def send(self, text: str) -> None:
        """A frame of the page's. It waits for the socket to open; after its end it is lost, as the page was told."""
        self._background.call(self._outbox.put_nowait, text)

    def close(self) -> None:
        """Disconnect, without a word to the page."""
        self._running.cancel()

    async def _run(self, resolve: Callable[[], Server | Way], tell: Tell) -> None:
        server: Server | Way | None = None
        reason = ""
        try:
            server = resolve()
            async with dial(server, open_timeout=_PATIENCE, relayed=True) as socket:
                tell({"type": "open"})

                async def write() -> None:
                    while True:
                        await socket.send((await self._outbox.get()).encode(), text=True)

                writing = asyncio.create_task(write())
                try:
                    async for frame in socket:
                        tell({"type": "frame", "text": frame})
                finally:
                    writing.cancel()
                    await asyncio.gather(writing, return_exceptions=True)
        except FAILURES as error:
            reason = str(failure(server, error))
            logger.info("The page's connection through the kernel ended: %s", reason)
        tell({"type": "close", "reason": reason})
