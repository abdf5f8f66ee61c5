"""What this extension serves over HTTP: the AHP WebSocket and a status page. The pages of canvases are in `pages`.

Tornado's side of the wire only. Who may come in is decided by Jupyter's identity provider, origin check and
authorizer; everything after the handshake is the host's (`jupyter_ahp.host.connection`).
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.iostream import IOStream, StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from .host.ports import Frame
from .identity import AUTH_RESOURCE, authorizer_of, principal_of
from .pages import site_of

if TYPE_CHECKING:
    from .host.connection import Connection
    from .host.host import Host

SILENT_PINGS = 3
"""A client that answered none of so many pings in a row is gone."""

NO_CREDENTIAL = (
    "No valid credential came with this request. Send the server's token as ?token=, ?tkn= or in the header "
    "'Authorization: token …', or sign in to the server first."
)
FOREIGN_HOST = (
    "The name in this request's Host header is not this server's own. "
    "ServerApp.allow_remote_access or ServerApp.local_hostnames allow it."
)
FOREIGN_ORIGIN = (
    "This page's origin may not connect with a login cookie. Use the server's token, or allow the origin with "
    "ServerApp.allow_origin."
)


def wire_frame(frame: Frame) -> bytes:
    """The frame as one unmasked, uncompressed WebSocket text message (RFC 6455, 5.2), made once for all clients."""
    if frame.wire is None:
        size = len(frame.payload)
        if size < 126:
            header = struct.pack("!BB", 0x81, size)
        elif size <= 0xFFFF:
            header = struct.pack("!BBH", 0x81, 126, size)
        else:
            header = struct.pack("!BBQ", 0x81, 127, size)
        frame.wire = header + frame.payload
    return frame.wire


class Sockets:
    """The open WebSockets of one server, and the tasks that end them."""

    def __init__(self) -> None:
        self._open: set[AHPWebSocketHandler] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, handler: AHPWebSocketHandler) -> None:
        self._open.add(handler)

    def remove(self, handler: AHPWebSocketHandler, goodbye: Coroutine[Any, Any, None]) -> None:
        """The socket is gone; `goodbye` tells the host so."""
        self._open.discard(handler)
        task = asyncio.ensure_future(goodbye)
        self._ending.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            message = "A connection did not end cleanly; what it held may stay until the server stops."
            task.get_loop().call_exception_handler({"message": message, "exception": error, "task": task})

    async def close(self) -> None:
        """Close every socket with 1001 (going away) and wait until the host has been told of each."""
        for handler in list(self._open):
            handler.close(1001, "The server is stopping")
        while self._ending:
            await asyncio.wait(list(self._ending))


class SocketTransport:
    """The host's `Transport` over one Tornado WebSocket.

    Tornado's `write_message` makes a coroutine and a task for each call, half of what a delivery costs. A frame that
    many clients share is therefore framed once and written to each stream as it is; `write_message` is the way only
    where the connection compresses, since then each has its own bytes.
    """

    def __init__(self, handler: AHPWebSocketHandler, stream: IOStream | None) -> None:
        self._handler = handler
        self._stream = stream
        self._last: asyncio.Future[None] | None = None
        self._waits = False

    def write(self, frame: Frame) -> None:
        connection = self._handler.ws_connection
        if connection is None or connection.is_closing():
            return
        try:
            if self._stream is not None:
                self._last = self._stream.write(wire_frame(frame))
            else:
                self._last = connection.write_message(frame.payload.decode())
        except (StreamClosedError, WebSocketClosedError):
            return  # Tornado reports the close to `on_close`.
        if not self._waits and self.buffered:
            self._waits = True
            self._last.add_done_callback(self._written)

    @property
    def buffered(self) -> int:
        connection = self._handler.ws_connection
        stream = self._stream or getattr(connection, "stream", None)
        # The stream says only whether it has something left to write, its buffer also how much.
        return len(stream._write_buffer) if stream is not None and stream.writing() else 0

    def close(self, code: int, reason: str) -> None:
        self._handler.close(code, reason)

    def _written(self, future: asyncio.Future[None]) -> None:
        if future.cancelled() or future.exception() is not None:
            return  # The stream is closed.
        if self._last is not None and not self._last.done():
            self._last.add_done_callback(self._written)
            return
        self._waits = False
        self._handler.drained()


class AHPWebSocketHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One client's WebSocket at `<base_url>ahp`: one JSON-RPC message in each text message."""

    auth_resource = AUTH_RESOURCE
    # Neither Jupyter's nor Tornado's pings: their settings are in different units, and Tornado 6.5 changed what the
    # time-out means. `_heartbeat` is ours.
    ping_interval = 0
    ping_timeout = 0

    def initialize(
        self,
        running_host: Callable[[], Awaitable[Host]],
        sockets: Sockets,
        heartbeat_interval: float,
        max_message_bytes: int,
    ) -> None:
        """`running_host` gives the host, started if need be; the rest is the extension's configuration."""
        self._running_host = running_host
        self._sockets = sockets
        self._heartbeat_interval = heartbeat_interval
        self._max_message_bytes = max_message_bytes
        self._connection: Connection | None = None
        self._heart: asyncio.Task[None] | None = None
        self._unanswered = 0
        self._admitting = False

    @property
    def max_message_size(self) -> int:
        return self._max_message_bytes

    def get_compression_options(self) -> dict[str, Any] | None:
        """None: compressing for each client costs more than it saves on the networks that Jupyter runs on."""
        return None

    # ── The handshake ────────────────────────────────────────────────────────────────────────────────────────────
    async def prepare(self) -> None:  # type: ignore[override]
        self._read_tkn()
        if not self.check_host():
            raise web.HTTPError(403, FOREIGN_HOST)
        try:
            await super().prepare()
        except web.HTTPError as error:
            if error.status_code != 403 or error.log_message:
                raise
            self.current_user = None
        if self.current_user is None:
            raise web.HTTPError(403, NO_CREDENTIAL)

    def _read_tkn(self) -> None:
        """VS Code sends the token as `tkn`: let it be `token`, before anybody asks who this is.

        The query, which may hold either, is dropped from the request's own address, which Tornado logs in places that
        know nothing of secrets.
        """
        request = self.request
        for arguments in (request.arguments, request.query_arguments):
            if "token" not in arguments and "tkn" in arguments:
                arguments["token"] = arguments["tkn"]
        request.uri = request.path

    def check_origin(self, origin: str | None = None) -> bool:
        """As Jupyter checks it: a request with a token may come from anywhere, one with a cookie may not."""
        if not super().check_origin(origin):
            raise web.HTTPError(403, FOREIGN_ORIGIN)
        return True

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        # What else than reading they may do is asked by operation (P).
        if not await authorizer_of(self)("read"):
            name = self.current_user.username
            raise web.HTTPError(403, f"{name} may not use this server's agents (resource 'ahp').")
        self._host = await self._running_host()
        await super().get(*args, **kwargs)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """JSON with a sentence that says what was refused and what to do."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        message = error.log_message if isinstance(error, web.HTTPError) else None
        self.set_header("Content-Type", "application/json")
        self.finish(
            json.dumps({"message": message or "The server could not open the connection; see its log."})
        )

    # ── The connection ───────────────────────────────────────────────────────────────────────────────────────────
    async def open(self, *args: Any, **kwargs: Any) -> None:
        connection = self.ws_connection
        assert connection is not None
        self.set_nodelay(True)
        stream = connection.stream if self.get_compression_options() is None else None
        transport = SocketTransport(self, stream)
        self._connection = self._host.connect(
            transport, principal_of(self), authorizer_of(self), site=site_of(self.request, self.base_url)
        )
        self._sockets.add(self)
        if self._heartbeat_interval > 0:
            self._heart = asyncio.ensure_future(self._heartbeat())

    async def on_message(self, message: str | bytes) -> None:
        """Tornado reads the next message when this has returned, so a client cannot send faster than it is served."""
        self._unanswered = 0
        if self._connection is None:
            return
        self._admitting = True
        try:
            await self._connection.receive(message)
        finally:
            self._admitting = False

    def drained(self) -> None:
        if self._connection is not None:
            self._connection.drained()

    def on_close(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
            self._heart = None
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._sockets.remove(self, connection.closed())
        super().on_close()

    # ── The heartbeat ────────────────────────────────────────────────────────────────────────────────────────────
    async def _heartbeat(self) -> None:
        """Ping while the socket lives, and close it when several pings in a row went unanswered.

        Pings are counted, not seconds: after a suspend, the clock says that everybody has been silent for hours.
        """
        while True:
            await asyncio.sleep(self._heartbeat_interval)
            if self._unanswered >= SILENT_PINGS:
                self.log.info(
                    "An AHP client answered none of %d pings: closing its connection.", SILENT_PINGS
                )
                self.close(1001, "No answer to pings")
                return
            try:
                self.ping(b"")
            except (WebSocketClosedError, StreamClosedError):
                return  # `on_close` follows.
            if not self._admitting:  # While a message is being admitted, its pong cannot be read.
                self._unanswered += 1

    def on_ping(self, data: bytes) -> None:
        self._unanswered = 0

    def on_pong(self, data: bytes) -> None:
        self._unanswered = 0


class StatusHandler(APIHandler):
    """`GET <base_url>ahp/status`: what runs here, as JSON, for people and monitors. Holds no secret."""

    auth_resource = AUTH_RESOURCE
    _track_activity = False

    def initialize(self, status: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._status = status

    @web.authenticated
    async def get(self) -> None:
        if not await authorizer_of(self)("read"):
            name = self.current_user.username
            raise web.HTTPError(403, f"{name} may not read the status of this server's agents.")
        self.finish(json.dumps(await self._status()))
