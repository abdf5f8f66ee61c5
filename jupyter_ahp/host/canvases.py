"""Canvases: V1 to V6, AHP 5.2.

A canvas is a page that a plugin draws on a chat: a channel of its own, and an entry in the chat's `canvases`. It goes with
its chat, its plugin and this process; nothing of it is written down, its address least of all (V6).

A page that is given as HTML is served under the server's own address (`pages.CanvasHandler`). How a client reaches the
server is known only from how it came, so the address is completed for each: what is held, numbered and kept for replays is
the path alone, and a client on no server gets no `url`. Every client can read the page with `resourceRead` of the canvas.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ..protocol import uris
from ..protocol.errors import NOT_FOUND, ProtocolError
from .channels import Channel
from .envelope import Envelope
from .ports import Canvas, CanvasError, Json

if TYPE_CHECKING:
    from .chat import Chat
    from .connection import Connection
    from .host import Host

CANVAS: Final = "ahp-canvas:"
PAGES: Final = "ahp/canvas/"
"""Where pages are, below the server's base URL."""
LONGEST: Final = 16 * 1024 * 1024
"""Bytes of a page, at most: room for a chart with its library."""
_ALL_PAGES = 256 * 1024 * 1024  # bytes, of all chats
_MOST = 32  # canvases of a chat
_LONGEST_WORDS = 200  # characters of a title or a status
_LONGEST_URL = 8192


def gone(uri: str) -> ProtocolError:
    """What a canvas that is not there is answered with (V3)."""
    return ProtocolError(NOT_FOUND, f"Canvas is no longer available: {uri}")


class _CanvasChannel(Channel):
    """A canvas's state, with its address as each viewer reaches it."""

    def snapshot(self, viewer: Connection | None = None, turns: int | None = None) -> Json:
        return _reached(super().snapshot(viewer, turns), viewer.site if viewer is not None else None)

    def as_seen(self, envelope: Envelope, viewer: Connection) -> Envelope:
        canvas = envelope.action["canvas"]
        seen = _reached(canvas, viewer.site)
        if seen is canvas:
            return envelope
        return Envelope(envelope.channel, {**envelope.action, "canvas": seen}, envelope.seq, envelope.origin)


def _reached(canvas: Json, site: str | None) -> Json:
    url = canvas.get("url")
    if url is None or not url.startswith("/"):
        return canvas
    if site is None:
        return {key: value for key, value in canvas.items() if key != "url"}
    return {**canvas, "url": site + url[1:]}


class HostCanvas(Canvas):
    """One canvas. `url` in its state: absolute, or below the server's base URL, from its slash on."""

    def __init__(self, owner: Canvases, chat: Chat, state: Json) -> None:
        self.uri = f"{CANVAS}/{_packed(chat.uri)}/{uuid.uuid4()}"
        self.chat = chat.uri
        self.page: bytes | None = None
        """What it shows, when it was given as HTML."""
        self.port: int | None = None
        """Of the web app on this machine that it shows instead."""
        self.path = "/"
        """Where that is opened."""
        self.token = secrets.token_urlsafe(32)
        """Whoever knows it may read the page."""
        self.channel = _CanvasChannel(self.uri, "canvas", state)
        self._owner = owner
        self._drawn = 0

    @property
    def open(self) -> bool:
        return self._owner.named(self.uri) is self

    async def update(
        self,
        *,
        title: str | None = None,
        status: str | None = None,
        html: str | None = None,
        url: str | None = None,
        port: int | None = None,
        path: str = "/",
    ) -> None:
        if not self.open:
            raise CanvasError("This canvas is closed: it went with its chat, or somebody closed it.")
        state = self.changed(title=title, status=status, html=html, url=url, port=port, path=path)
        if state != self.channel.state:
            self._owner.host.hub.publish(self.channel, {"type": "canvas/stateChanged", "canvas": state})

    def changed(
        self,
        *,
        title: str | None,
        status: str | None,
        html: str | None,
        url: str | None,
        port: int | None,
        path: str,
    ) -> Json:
        """Take in what it shows; the state that says so. Raises `CanvasError`: then nothing changed."""
        state = dict(self.channel.state)
        if sum(one is not None for one in (html, url, port)) > 1:
            raise CanvasError("A canvas shows either `html`, what is at a `url`, or an app on a `port`.")
        if html is not None:
            page = html.encode("utf-8", "replace")
            self._owner.check_room(self, len(page))
            self.page, self.port = page, None
            state["url"] = self._another_address()
        elif port is not None:
            if not self._owner.host.options.shows_apps:
                raise CanvasError("Apps are shown through jupyter-server-proxy, which is not installed here.")
            self.page, self.port, self.path = None, port, path
            state["url"] = self._another_address()
        elif url is not None:
            state["url"] = _checked(url)
            self.page = self.port = None
        for key, words in (("title", title), ("status", status)):
            if words is not None:
                state[key] = " ".join(words.split())[:_LONGEST_WORDS]
                if not state[key]:
                    del state[key]
        return state

    def _another_address(self) -> str:
        """Or nobody would load it again."""
        self._drawn += 1
        return f"/{PAGES}{self.token}?drawn={self._drawn}"

    async def close(self) -> None:
        if self.open:
            self._owner.remove([self])


class Canvases:
    """All canvases of a host, by chat in the order in which they were opened (V1)."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._canvases: dict[str, HostCanvas] = {}

    def named(self, uri: str) -> HostCanvas | None:
        return self._canvases.get(uri)

    def channel(self, uri: str) -> Channel:
        """Its channel. Raises `ProtocolError` -32008 (V3)."""
        canvas = self._canvases.get(uri)
        if canvas is None:
            raise gone(uri)
        return canvas.channel

    def of_token(self, token: str) -> HostCanvas | None:
        """The canvas of that token; None for no such."""
        given = token.encode()
        for canvas in self._canvases.values():
            if secrets.compare_digest(canvas.token.encode(), given):
                return canvas
        return None

    def read(self, uri: str, encoding: str | None) -> Json:
        """`resourceRead` of a canvas. Raises `ProtocolError` -32008, for one that is a page elsewhere, too."""
        canvas = self._canvases.get(uri)
        if canvas is None:
            raise gone(uri)
        if canvas.page is None:
            raise ProtocolError(NOT_FOUND, f"Nothing to read at {uri}: what it shows is at its `url`.")
        if encoding == "base64":
            data = base64.b64encode(canvas.page).decode()
            return {"data": data, "encoding": "base64", "contentType": "text/html"}
        return {"data": canvas.page.decode(), "encoding": "utf-8", "contentType": "text/html"}

    def of_chat(self, chat: str) -> list[HostCanvas]:
        return [canvas for canvas in self._canvases.values() if canvas.chat == chat]

    def listed(self, chat: str) -> Json:
        """What a chat's state says of its canvases: no key at all when it has none (V1)."""
        entries = [{"resource": canvas.uri} for canvas in self.of_chat(chat)]
        return {"canvases": entries} if entries else {}

    async def open(
        self,
        chat_uri: str,
        *,
        plugin: str,
        title: str,
        html: str | None = None,
        url: str | None = None,
        port: int | None = None,
        path: str = "/",
        status: str | None = None,
        canvas_id: str = "page",
    ) -> HostCanvas:
        """Open one on a chat. Raises `CanvasError`, with words."""
        chat = self._chat(chat_uri)
        try:
            await chat.loaded()
        except ProtocolError as error:
            raise CanvasError(f"The chat cannot be drawn on: {error.message}") from error
        if self._chat(chat_uri) is not chat:
            raise CanvasError(f"The chat {chat_uri} was closed meanwhile.")
        if chat.session.read_only is not None:
            raise CanvasError(chat.session.read_only)
        if len(self.of_chat(chat.uri)) >= _MOST:
            raise CanvasError(f"The chat has {_MOST} canvases already: close one first.")
        about = {"instanceId": str(uuid.uuid4()), "extensionId": plugin, "canvasId": canvas_id}
        canvas = HostCanvas(self, chat, about)
        canvas.channel.state = canvas.changed(
            title=title, status=status, html=html, url=url, port=port, path=path
        )
        self._canvases[canvas.uri] = canvas
        self._tell(chat.uri)
        return canvas

    def _chat(self, uri: str) -> Chat:
        try:
            chat = self.host.chat_named(uris.canonical(uri))
        except ValueError:
            chat = None
        if chat is None or chat.session.closed:
            raise CanvasError(f"There is no chat {uri} here to draw on.")
        return chat

    def check_room(self, drawn: HostCanvas, size: int) -> None:
        """Whether a page of so many bytes may be kept. Raises `CanvasError`."""
        if size > LONGEST:
            raise CanvasError(f"The page is too large: {size:,} bytes, of {LONGEST:,} at most.")
        others = sum(len(other.page or b"") for other in self._canvases.values() if other is not drawn)
        if others + size > _ALL_PAGES:
            raise CanvasError("All canvases together take too much memory: close some first.")

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────
    def remove(self, canvases: list[HostCanvas]) -> None:
        """Close these. Whoever shows one is told that there is nothing at its address any more."""
        chats = []
        for canvas in canvases:
            if self._canvases.pop(canvas.uri, None) is None:
                continue
            canvas.page = canvas.port = None
            chats.append(canvas.chat)
            state = {key: value for key, value in canvas.channel.state.items() if key != "url"}
            self.host.hub.publish(canvas.channel, {"type": "canvas/stateChanged", "canvas": state})
            for watcher in canvas.channel.watchers:
                canvas.channel.leave(watcher)
                watcher.subscriptions.pop(canvas.uri, None)
        for uri in dict.fromkeys(chats):
            self._tell(uri)

    def end_of_chat(self, chat: str) -> None:
        """A chat closes, or goes to another session (V3)."""
        self.remove(self.of_chat(chat))

    def close(self) -> None:
        """The host stops."""
        self.remove(list(self._canvases.values()))

    def _tell(self, chat_uri: str) -> None:
        """The chat's list, to whoever watches the chat; one that is not loaded has it when it is."""
        chat = self.host.chat_named(chat_uri)
        if chat is not None and chat.channel is not None:
            chat.publish({"type": "chat/canvasesChanged", **self.listed(chat_uri)})


def _checked(url: str) -> str:
    """An address that a client may be sent to: http(s), or `/…` for a path of this server. Raises `CanvasError`."""
    parts = None
    if len(url) <= _LONGEST_URL and url.isprintable() and " " not in url:
        with suppress(ValueError):
            parts = urlsplit(url)
    if parts is not None and not parts.scheme and not parts.netloc and url.startswith("/"):
        return url
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise CanvasError(
            "A canvas's `url` is http:// or https://, or a path of this server that begins with `/`."
        )
    return url


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
