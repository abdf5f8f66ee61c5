"""Opening the WebSocket, and saying in words why it could not be opened."""

from __future__ import annotations

import ssl
from contextlib import AbstractAsyncContextManager
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ..protocol.errors import UNSUPPORTED_PROTOCOL_VERSION, ProtocolError
from ..protocol.meta import RELAYED
from .discovery import CONNECT, Server
from .errors import NoHost
from .ways import Socket, Way

MAX_MESSAGE = 64 * 1024 * 1024
"""Bytes of one message from the host: a snapshot of a long chat is one."""


class _Dial(connect):
    """Without redirects: a token goes to the server that it is for and nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def dial(
    server: Server | Way, *, open_timeout: float, relayed: bool = False
) -> AbstractAsyncContextManager[Socket]:
    """An async context manager that gives the open WebSocket, or the line. `failure` names what it may raise.

    `relayed`: what goes over it is for a page that does not reach the server by itself.
    """
    if isinstance(server, Way):
        return server.dial()
    options: dict[str, Any] = {}
    headers = {RELAYED: "1"} if relayed else {}
    if server.url.startswith("https:") and not server.verify:
        options["ssl"] = context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if server.loopback:
        options["proxy"] = None
    if server.token:
        headers["Authorization"] = f"token {server.token}"
    return _Dial(
        server.ws_url,
        additional_headers=headers,
        compression=None,
        max_size=MAX_MESSAGE,
        open_timeout=open_timeout,
        close_timeout=2,
        ping_interval=None,  # AHP has a `ping` of its own, which a proxy cannot answer for the host.
        **options,
    )


FAILURES = (OSError, WebSocketException, ProtocolError)
"""What a socket, or the handshake on it, may fail with. `TimeoutError` and `NoHost` are `OSError`s."""


def failure(server: Server | Way | None, error: Exception) -> NoHost:
    """What happened, to which server, and what to do."""
    if isinstance(error, NoHost):
        return error
    if not isinstance(server, Server):
        return NoHost(f"The agent host in this process cannot be used: {error}")
    return NoHost(f"{_what(server, error)} (server: {server.url})")


def _what(server: Server, error: Exception) -> str:
    match error:
        case InvalidStatus():
            return _status(server, error.response.status_code)
        case ProtocolError() if error.code == UNSUPPORTED_PROTOCOL_VERSION:
            served = ", ".join((error.data or {}).get("supportedVersions", [])) or "none that it names"
            return f"The agent host speaks other versions of the protocol: {served}. Update jupyter-ahp there or here."
        case ProtocolError():
            return f"The agent host did not take this client in: {error.message}"
        case ConnectionClosed():
            reason = error.rcvd.reason if error.rcvd is not None else ""
            return f"The connection was lost{': ' if reason else ''}{reason}."
        case ssl.SSLCertVerificationError():
            return (
                f"The server's certificate is not trusted here: {error.verify_message}. "
                "SSL_CERT_FILE names certificates to trust."
            )
        case TimeoutError():
            return f"The server did not answer in time. {error}".rstrip()
        case OSError():
            return f"The server cannot be reached: {error.strerror or error}. Is it running?"
    return f"The server did not open a WebSocket: {error}."


def _status(server: Server, status: int) -> str:
    if status in (401, 403):
        if server.token:
            return f"The server refused this token ({status}). {CONNECT}"
        return (
            f"The server wants a token ({status}), and its info file has none: it is reached with a password or "
            f"another way to sign in. Start it with IdentityProvider.token, or pass one. {CONNECT}"
        )
    if status == 404:
        return (
            "The server has no agent host. Install jupyter-ahp where the server runs and restart it "
            "(`jupyter server extension list` shows whether it is on)."
        )
    return f"The server answered {status} instead of opening a WebSocket."
