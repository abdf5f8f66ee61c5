"""A host by name, before anything is opened to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from .discovery import Server, find_server
from .ways import Way


class AnyHost(Protocol):
    """Where chats are held."""

    @property
    def lasting(self) -> bool:
        """Whether the connection to it is kept when the last chat has left it. One that is not ends with that chat."""

    def resolve(self) -> Server | Way:
        """How it is reached now. Raises `NoHost`."""


@dataclass(frozen=True, slots=True)
class Host:
    """Where chats are held: the server at `url`, or the one that this kernel belongs to when it is None."""

    lasting: ClassVar[bool] = True

    url: str | None = None
    token: str | None = field(default=None, repr=False)

    def resolve(self) -> Server:
        """Where it is now. Raises `NoHost`."""
        return find_server(self.url, self.token)
