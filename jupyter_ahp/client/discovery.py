"""Which server a client talks to: the one it was told, else the one that this kernel belongs to, never another.

A kernel knows its server by two environment variables that it inherits: `JUPYTER_AHP_SERVER_INFO`, the path of the
server's info file (the token stays in that file, mode 0600), and `JPY_PARENT_PID`, the process that started the
kernel. The second one guards the first: a kernel of nbconvert, or of a server started in another server's terminal,
inherits a path that is not its own server's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from .errors import NoHost, NoServer

SERVER_INFO = "JUPYTER_AHP_SERVER_INFO"
PARENT_PID = "JPY_PARENT_PID"

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "localhost", "*": "localhost", "::": "[::1]"}
_HTTP = {"ws": "http", "wss": "https", "http": "http", "https": "https"}

CONNECT = "To use another server, name it: Chat(host=connect(url, token))."


@dataclass(frozen=True, slots=True)
class Server:
    """A Jupyter Server (or another AHP host) and what it takes to be let in."""

    url: str
    """`http(s)://host:port/base/`, with the slash."""
    token: str = field(default="", repr=False)
    verify: bool = True
    """Whether a TLS certificate must be one that this machine trusts."""
    own: bool = False
    """Whether this process is one of its kernels: then both have the same files."""

    @property
    def ws_url(self) -> str:
        """Where AHP is spoken."""
        return "ws" + self.url.removeprefix("http") + "ahp"

    @property
    def loopback(self) -> bool:
        return urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")


def parse_server(url: str, token: str | None = None) -> Server:
    """The server at an address as people paste it: `http://host:8888/lab?token=…`, `wss://host/base/ahp`, `host:8888`.

    A token in the address counts unless `token` is given. Raises `ValueError` for what is no such address.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = _HTTP.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError(f"{url!r} is not the address of a server: http://host:port/ is what one looks like.")
    given = dict(parse_qsl(parts.query))
    path = parts.path
    for page in ("/lab", "/tree", "/ahp"):
        path = path.removesuffix(page)
    if token is None:
        token = given.get("token") or given.get("tkn") or ""
    netloc = parts.netloc.rpartition("@")[2]
    return Server(urlunsplit((scheme, netloc, path.rstrip("/") + "/", "", "")), token)


def find_server(url: str | None = None, token: str | None = None) -> Server:
    """The server to talk to: the one named, else the one that this process belongs to.

    Raises `NoServer`, with words on what to do, when there is none, and `NoHost` when it cannot be used. It only reads
    files, so an answer does not mean that the server still runs.
    """
    if url is not None:
        return parse_server(url, token)
    env = os.environ
    parent = _parent_pid(env)
    if info := _inherited_info(env, parent) or _running_info(parent):
        server = _server_of(info, env)
        return server if token is None else replace(server, token=token)
    raise NoServer(_why_none(env, parent))


def _parent_pid(env: Mapping[str, str]) -> int | None:
    """Who started this kernel; None in a process that is no kernel's, and on Windows, where it is a handle."""
    text = env.get(PARENT_PID, "")
    return int(text) if text.isdigit() and sys.platform != "win32" else None


def _inherited_info(env: Mapping[str, str], parent: int | None) -> dict[str, Any] | None:
    path = env.get(SERVER_INFO)
    info = _read(Path(path)) if path else None
    return info if info is not None and parent in (None, info.get("pid")) else None


def _running_info(parent: int | None) -> dict[str, Any] | None:
    """The info file of the server with this pid, as `jupyter server list` would find it, without its imports."""
    if parent is None:
        return None
    from jupyter_core.paths import jupyter_runtime_dir

    found = (_read(path) for path in sorted(Path(jupyter_runtime_dir()).glob("jpserver-*.json")))
    return next((info for info in found if info is not None and info.get("pid") == parent), None)


def _read(path: Path) -> dict[str, Any] | None:
    """A server's info file; None if it is gone, or is being written."""
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) else None


def _server_of(info: Mapping[str, Any], env: Mapping[str, str]) -> Server:
    if info.get("sock"):
        raise NoHost(
            f"This kernel's server listens on the Unix socket {info['sock']} only, which chats cannot use. "
            "Start it with a port (ServerApp.port) instead of ServerApp.sock."
        )
    parts = urlsplit(str(info.get("url", "")))
    hostname = str(info.get("hostname", parts.hostname or ""))
    # The file's URL has the machine's own name for a wildcard address, and that name need not resolve here.
    host = _WILDCARDS.get(hostname) or (f"[{hostname}]" if ":" in hostname else hostname)
    port = info.get("port") or parts.port
    base = str(info.get("base_url") or parts.path or "/")
    base = "/" + quote(unquote(base).strip("/"), safe="/@:~!$&'()*+,;=") + "/"
    scheme = "https" if info.get("secure") or parts.scheme == "https" else "http"
    # Its own certificate is made for the name that browsers use, not for loopback.
    return Server(
        f"{scheme}://{host}:{port}{base.replace('//', '/')}", _token(info, env), verify=False, own=True
    )


def _token(info: Mapping[str, Any], env: Mapping[str, str]) -> str:
    if token := info.get("token"):
        return str(token)
    # Under JupyterHub the server has no token of its own: the hub's, which the kernel inherits, opens this one server.
    if env.get("JUPYTERHUB_SERVICE_PREFIX", "").strip("/") == str(info.get("base_url", "")).strip("/"):
        return env.get("JUPYTERHUB_API_TOKEN", "")
    return ""


def _why_none(env: Mapping[str, str], parent: int | None) -> str:
    if parent is None and SERVER_INFO not in env:
        return (
            "No agent host: this Python runs outside of a Jupyter Server. Run it in a notebook or a terminal of one "
            f"that has jupyter-ahp. {CONNECT}"
        )
    if parent is None:
        return f"No agent host: the Jupyter Server that this process belonged to is gone. {CONNECT}"
    return (
        f"No agent host: this kernel was started by process {parent}, and no Jupyter Server of that number is known "
        "here (nbconvert, papermill and remote kernels have none). "
        f"Start the kernel from a Jupyter Server that has jupyter-ahp. {CONNECT}"
    )
