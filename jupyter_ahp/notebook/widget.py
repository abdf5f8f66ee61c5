"""The chat under a cell.

The page talks to the server itself where it can, so that the chat streams while the kernel is busy. Where it cannot,
frames go through the kernel: a view's `{type: "open", id}` opens a socket from here to the server, `{type: "frame", id,
text}` carries a message either way, `{type: "close", id, reason}` ends it. The views of a widget share its messages, so
each names its own socket. A frame that a view sends waits while a cell runs; what the host says does not.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from ..client.errors import NoHost
from ..client.sync import Chat
from .relay import Relay
from .transcript import transcript

STATIC = Path(__file__).with_name("static")


class ChatWidget(anywidget.AnyWidget):
    """The widget of a `Chat`. Shown twice, it is two views of the one chat.

    Raises `FileNotFoundError` when the package was installed without its front end.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)

    chat_uri = traitlets.Unicode(help="The chat's URI.").tag(sync=True)
    session_uri = traitlets.Unicode(help="The URI of its session.").tag(sync=True)
    ws_url = traitlets.Unicode(help="Where this kernel finds the host. It holds no token.").tag(sync=True)
    height = traitlets.Int(400, min=120, max=1200, help="In pixels.").tag(sync=True)
    fallback = traitlets.Unicode(
        help="The transcript as plain HTML, for where no front end runs; kept current while the kernel lives."
    ).tag(sync=True)

    _following: Future[None] | None = None

    def __init__(self, chat: Chat, *, height: int = 400) -> None:
        self._relays: dict[str, Relay] = {}
        esm, css = _bundle("widget.js"), _bundle("widget.css")
        self._chat = chat
        super().__init__(
            _esm=esm,
            _css=css,
            chat_uri=chat.uri,
            session_uri=chat.session_uri,
            ws_url=_ws_url(chat),
            height=height,
            fallback=transcript(chat),
        )
        self.on_msg(self._page_says)
        self._following = chat.background.start(self._follow())

    def _page_says(self, _widget: Any, content: Any, _buffers: Any) -> None:
        match content:
            case {"type": "open", "id": str(view)} if view not in self._relays:

                def tell(message: dict[str, Any]) -> None:
                    if message["type"] == "close":
                        self._relays.pop(view, None)
                    self.send({**message, "id": view})

                self._relays[view] = Relay(self._chat.background, self._chat.host.resolve, tell)
            case {"type": "frame", "id": str(view), "text": str(text)} if view in self._relays:
                self._relays[view].send(text)
            case {"type": "close", "id": str(view)} if view in self._relays:
                self._relays.pop(view).close()

    async def _follow(self) -> None:
        """Write the transcript anew when a turn has begun or ended, or the title has changed; go where the chat moves."""
        seen: object = None
        async with aclosing(self._chat.async_chat.changes()) as changes:
            async for chat in changes:
                self.session_uri = chat.session_uri
                now = chat.title, chat.outline
                if seen not in (None, now):
                    self.fallback = transcript(self._chat)
                seen = now

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        return {**data, "text/plain": repr(self._chat), "text/html": self.fallback}, metadata

    def close(self) -> None:
        """Take the widget out of the page. The chat goes on."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
        while self._relays:
            self._relays.popitem()[1].close()
        super().close()


def _bundle(name: str) -> str:
    try:
        return (STATIC / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"The widget's front end is not there ({STATIC / name}): this copy of jupyter-ahp was not built. "
            "With Node.js at hand, run `jlpm build` in its labextension folder, or install it again."
        ) from None


def _ws_url(chat: Chat) -> str:
    """Where the host is; empty when that is not known at the moment."""
    try:
        return chat.host.resolve().ws_url
    except NoHost:
        return ""
