"""Plain JSON, and one client's socket, seen from the host."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object."""


class Frame:
    """One encoded message for a client. Shared: the transport may keep its own framing of it in `wire`."""

    __slots__ = ("payload", "wire")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        """A JSON-RPC message, UTF-8."""
        self.wire: bytes | None = None


class Transport(Protocol):
    """One client's socket, seen from the host. All calls come from the event loop."""

    def write(self, frame: Frame) -> None:
        """Hand over; never blocks. On a dead socket it does nothing (the close is reported to the connection)."""

    @property
    def buffered(self) -> int:
        """Bytes handed over that the operating system has not taken. When it falls to 0 after having been above the
        connection's bound, the transport calls `Connection.drained()`."""

    def close(self, code: int, reason: str) -> None: ...
