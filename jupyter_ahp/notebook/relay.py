"""A page's WebSocket, opened here: for a page that cannot reach the server by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias

from ..client.discovery import Server
from ..client.socket import FAILURES, dial, failure
from ..client.sync import Background

Tell: TypeAlias = Callable[[dict[str, Any]], None]

logger = logging.getLogger(__name__)

_PATIENCE = 10.0  # seconds for the server to open the socket


class Relay:
    """One socket at a time between a page and the server. It carries text and reads none of it.

    `tell` hands the page a message: `{type: "open"}`, `{type: "frame", text}`, `{type: "close", reason}`.
    """

    def __init__(self, background: Background, resolve: Callable[[], Server], tell: Tell) -> None:
        self._background = background
        self._resolve = resolve
        self._tell = tell
        self._outbox: asyncio.Queue[str] | None = None
        self._running: Future[None] | None = None

    def open(self) -> None:
        """Connect. What the page sends meanwhile waits. One that is open is closed first, without a word."""
        self.close()
        self._outbox = asyncio.Queue()
        self._running = self._background.start(self._run(self._outbox))

    def send(self, text: str) -> None:
        """A frame of the page's. Without an open socket it is lost, as the page has been told."""
        if self._outbox is not None:
            self._background.call(self._outbox.put_nowait, text)

    def close(self) -> None:
        """Disconnect."""
        if self._running is not None:
            self._running.cancel()
        self._running = self._outbox = None

    async def _run(self, outbox: asyncio.Queue[str]) -> None:
        server: Server | None = None
        reason = ""
        try:
            server = self._resolve()
            async with dial(server, open_timeout=_PATIENCE) as socket:
                self._tell({"type": "open"})

                async def write() -> None:
                    while True:
                        await socket.send(await outbox.get())

                writing = asyncio.create_task(write())
                try:
                    async for frame in socket:
                        self._tell({"type": "frame", "text": frame})
                finally:
                    writing.cancel()
                    await asyncio.gather(writing, return_exceptions=True)
        except FAILURES as error:
            reason = str(failure(server, error))
            logger.info("The page's connection through the kernel ended: %s", reason)
        self._tell({"type": "close", "reason": reason})
