"""A way to a host that is no WebSocket: what a host in this process offers its clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Protocol


class Socket(Protocol):
    """An open line to a host: one JSON-RPC message in each text message."""

    async def recv(self) -> str | bytes:
        """The next message. Raises `OSError`, or what the WebSocket raises, when none will come."""

    async def send(self, message: bytes, *, text: bool) -> None: ...

    def __aiter__(self) -> AsyncIterator[str | bytes]: ...


class Way(ABC):
    """How a host in this process is reached: without a socket, from any event loop."""

    url: ClassVar[str] = "this process"
    ws_url: ClassVar[str] = ""

    @abstractmethod
    def dial(self) -> AbstractAsyncContextManager[Socket]:
        """An open line. Raises `NoHost` when the host cannot start."""
