"""A host by name, before anything is opened to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .discovery import Server, find_server


@dataclass(frozen=True, slots=True)
class Host:
    """Where chats are held: the server at `url`, or the one that this kernel belongs to when it is None."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)

    def resolve(self) -> Server:
        """Where it is now. Raises `NoHost`."""
        return find_server(self.url, self.token)
