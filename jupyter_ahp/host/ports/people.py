"""Who is asking."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a connection belongs to. Only the handshake says it, never a frame.

    `id` is `user:<username>` for a signed-in person, `root:<host>` for the server's own token (T3).
    """

    id: str
    name: str
