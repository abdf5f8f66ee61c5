"""What plugins are handed: the contract that `jupyter_ahp.plugins` explains."""

from __future__ import annotations

from abc import ABC, abstractmethod


class CanvasError(Exception):
    """A canvas that cannot be opened or drawn: its chat is not here, it was closed, it is too large. In words."""


class Canvas(ABC):
    """A page on a chat (V1 to V6). It goes with its chat, its plugin and the server."""

    uri: str
    """Its channel: `ahp-canvas:/<base64url(chat)>/<uuid>`."""
    chat: str
    """The URI of the chat that it is on."""

    @property
    @abstractmethod
    def open(self) -> bool:
        """Whether it is still there."""

    @abstractmethod
    async def update(
        self,
        *,
        title: str | None = None,
        status: str | None = None,
        html: str | None = None,
        url: str | None = None,
    ) -> None:
        """Change what is given and leave the rest; `status=""` takes the status away.

        `html` and `url` each replace the other. Raises `CanvasError` when it is closed, or what it is to show cannot be.
        """

    @abstractmethod
    async def close(self) -> None:
        """Take it away. Does nothing when it is gone."""
