"""The files that clients may read and change: AHP 5.3, P1, P9.

A `file:` URI is served where it lies, links resolved, in the directory that the server serves, in a directory of an open
session, or (to be read, by whoever may read chats) among what an open session's messages carry. The operation is the
gate's to allow (`resource:read`, `resource:write`), the place is this module's. A URI whose authority is a connected client's id is
that client's: the request is passed on to it. A `data:` URI has its content in itself.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from ..protocol import uris
from ..protocol.errors import INTERNAL_ERROR, NOT_FOUND, PERMISSION_DENIED, ProtocolError, invalid_params
from . import fileops
from .canvases import CANVAS
from .carried import carried
from .connection import Connection, Methods
from .paths import path_of
from .ports import Json

_T = TypeVar("_T")

PATIENCE = 30.0
"""Seconds that a client has to answer what was passed on to it."""


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def resource_read(connection: Connection, params: Json) -> Json:
    if params["uri"].startswith(CANVAS):
        return await _canvas(connection, params)
    if params["uri"].startswith("data:"):
        return _in_itself(params)
    if (answer := await _passed_on(connection, "resourceRead", params)) is not None:
        return answer
    asked = params.get("encoding")

    def read(path: str) -> Json:
        data = fileops.read(path)
        return _answer(data, asked, fileops.media_type(path, data))

    result = await _at(connection, params["uri"], read)
    await (
        connection.room()
    )  # several large answers behind each other would look like a client that reads nothing
    return result


def _answer(data: bytes, asked: str | None, kind: str | None) -> Json:
    text = None if asked == "base64" or b"\0" in data else _text(data)
    said = base64.b64encode(data).decode() if text is None else text
    result = {"data": said, "encoding": "base64" if text is None else "utf-8"}
    return result if kind is None else {**result, "contentType": kind}


def _in_itself(params: Json) -> Json:
    """What a `data:` URI has in itself (RFC 2397), for clients that ask for all that a chat names in one way."""
    head, _, rest = params["uri"].removeprefix("data:").partition(",")
    kind, _, encoding = head.rpartition(";") if head.endswith(";base64") else (head, "", "")
    data = unquote_to_bytes(rest)
    try:
        data = base64.b64decode(data, validate=True) if encoding else data
    except binascii.Error as error:
        raise invalid_params("What this `data:` URI has is not base64.") from error
    return _answer(data, params.get("encoding"), kind or None)


async def _canvas(connection: Connection, params: Json) -> Json:
    """The page of a canvas, for a client that cannot reach its address."""
    try:
        uri = uris.canonical(params["uri"])
    except ValueError as error:
        raise invalid_params(f"{params['uri']!r} is no URI.") from error
    page = connection.host.canvases.read(uri, params.get("encoding"))
    await connection.room()
    return page


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None  # whatever was asked for: what is no text goes as base64


async def resource_list(connection: Connection, params: Json) -> Json:
    if (answer := await _passed_on(connection, "resourceList", params)) is not None:
        return answer

    def entries(path: str) -> Json:
        if os.path.exists(path) and not os.path.isdir(path):
            raise invalid_params(f"{path} is no directory.")
        return {"entries": fileops.entries(path)}

    return await _at(connection, params["uri"], entries)


async def resource_resolve(connection: Connection, params: Json) -> Json:
    if (answer := await _passed_on(connection, "resourceResolve", params)) is not None:
        return answer
    follow = params.get("followSymlinks") is not False

    def resolve(path: str) -> Json:
        return {"uri": Path(path).as_uri(), **fileops.facts(path)}

    return await _at(connection, params["uri"], resolve, follow=follow)


async def create_resource_watch(connection: Connection, params: Json) -> Json:
    if _owner(connection, params["uri"]) is not None:
        raise ProtocolError(NOT_FOUND, "What a client serves cannot be watched through this host.")
    path = _path(params["uri"])
    places = await _places(connection)
    watches = connection.host.watches
    return {
        "channel": await watches.create(
            connection, params, lambda: places.find(path, follow=True, write=False)
        )
    }


# ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────────
async def resource_write(connection: Connection, params: Json) -> Json:
    if (answer := await _passed_on(connection, "resourceWrite", params)) is not None:
        return answer

    def write(path: str) -> None:
        fileops.write(
            path,
            _data(params),
            mode=params.get("mode") or "truncate",
            position=params.get("position"),
            create_only=params.get("createOnly") is True,
            if_match=params.get("ifMatch"),
        )

    host = connection.host
    upload, client = host.uploads.find(path_of(params["uri"])), connection.client
    if upload is not None and client is not None:
        async with host.writing:  # pieces follow each other
            await _do(lambda: host.uploads.write(client, upload, _data(params), params), str(upload))
        return {}
    async with host.writing:  # what `ifMatch` found still holds, and appenders follow each other
        await _change(connection, params["uri"], write)
    return {}


def _data(params: Json) -> bytes:
    if params["encoding"] != "base64":
        return str(params["data"]).encode()
    try:
        return base64.b64decode(params["data"], validate=True)
    except ValueError as error:
        raise invalid_params(f"data is not base64: {error}.") from error


async def resource_mkdir(connection: Connection, params: Json) -> Json:
    if (answer := await _passed_on(connection, "resourceMkdir", params)) is not None:
        return answer
    await _change(connection, params["uri"], fileops.make_directory)
    return {}


async def resource_delete(connection: Connection, params: Json) -> Json:
    if (answer := await _passed_on(connection, "resourceDelete", params)) is not None:
        return answer
    upload = connection.host.uploads.find(path_of(params["uri"]))
    if upload is not None:
        await _do(lambda: connection.host.uploads.delete(upload), str(upload))
        return {}
    recursive = params.get("recursive") is True
    await _change(
        connection, params["uri"], lambda path: fileops.delete(path, recursive=recursive), itself=True
    )
    return {}


async def resource_copy(connection: Connection, params: Json) -> Json:
    return await _transfer(connection, "resourceCopy", params, fileops.copy)


async def resource_move(connection: Connection, params: Json) -> Json:
    return await _transfer(connection, "resourceMove", params, fileops.move)


async def _transfer(connection: Connection, method: str, params: Json, work: Callable[..., None]) -> Json:
    if (answer := await _passed_on(connection, method, params)) is not None:
        return answer
    moves = method == "resourceMove"
    source, destination = _path(params["source"]), _path(params["destination"])
    places = await _places(connection)  # whoever may do this may do both

    def transfer() -> None:
        found = places.find(source, follow=not moves, write=moves, itself=moves)
        target = places.find(destination, follow=False, write=True)
        work(found, target, fail_if_exists=params.get("failIfExists") is True)

    await _do(transfer, source)
    return {}


async def resource_request(connection: Connection, params: Json) -> Json:
    """May this person do that there? Nobody is asked: the role and the place decide."""
    if (answer := await _passed_on(connection, "resourceRequest", params)) is not None:
        return answer
    path, writes = _path(params["uri"]), params.get("write") is True
    places = await _places(connection, "resource:write" if writes else "resource:read")
    await asyncio.to_thread(places.find, path, follow=True, write=writes)
    return {}


# ── where ────────────────────────────────────────────────────────────────────────────────────────────────────────
class _Places:
    """The directories under which files are served."""

    def __init__(self, open_: list[str], read_only: list[Path]) -> None:
        self._open = open_
        self._read_only = read_only

    def find(self, path: str, *, follow: bool, write: bool, itself: bool = False) -> str:
        """Where a path leads. `follow`: the link at its end, too. Blocks. Raises `ProtocolError` -32009.

        `itself`: what is there is to go, which none of the served directories may.
        """
        if follow:
            real = os.path.realpath(path)
        else:
            head, tail = os.path.split(path.rstrip("/" + os.sep) or path)
            real = os.path.join(os.path.realpath(head), tail)
        tops = [os.path.realpath(top) for top in self._open]
        if not write:
            tops += [os.path.realpath(top) for top in self._read_only]
        if not any(_within(real, top) for top in tops):
            what = "changed" if write else "read"
            raise ProtocolError(
                PERMISSION_DENIED, f"{path} cannot be {what}: it is in no directory of a session."
            )
        if itself and any(_within(top, real) for top in tops):
            raise ProtocolError(PERMISSION_DENIED, f"{path} is a directory that chats work in: it stays.")
        return real


def _within(path: str, top: str) -> bool:
    path, top = os.path.normcase(path), os.path.normcase(top)
    return path == top or path.startswith(os.path.join(top, ""))


async def _places(connection: Connection, operation: str = "resource:read") -> _Places:
    """Where this person may do that; what messages carry goes with reading the chats (P1)."""
    host, gate = connection.host, connection.gate
    sessions = [session for session in host.sessions.values() if session.opened]
    open_: list[str] = []
    if await gate.may(operation):
        open_ += [host.options.default_directory] if host.options.default_directory else []
        if await gate.may("session:read"):
            uris = [uri for session in sessions for uri in session.state["workingDirectories"]]
            open_ += [path for uri in uris if (path := path_of(uri)) is not None]
    is_reader = await gate.may("chat:turns")
    names = {name for session in sessions for name in (session.id, *carried(session))} if is_reader else ()
    return _Places(open_, [host.store.attachments_dir(name) for name in names])


def _path(uri: str) -> str:
    path = path_of(uri)
    if path is None:
        raise ProtocolError(NOT_FOUND, f"This host has nothing at {uri}: it serves `file:` URIs.")
    if "\0" in path or not os.path.isabs(path) or ".." in Path(path).parts:
        raise invalid_params(f"{uri} names no file.")
    return os.path.normpath(path)


# ── doing ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def _at(connection: Connection, uri: str, work: Callable[[str], _T], *, follow: bool = True) -> _T:
    path = _path(uri)
    places = await _places(connection)
    return await _do(lambda: work(places.find(path, follow=follow, write=False)), path)


async def _change(
    connection: Connection, uri: str, work: Callable[[str], None], *, itself: bool = False
) -> None:
    path = _path(uri)
    places = await _places(connection, "resource:write")
    await _do(lambda: work(places.find(path, follow=not itself, write=True, itself=itself)), path)


async def _do(work: Callable[[], _T], path: str) -> _T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise fileops.as_protocol(error, path) from error


# ── what is a client's ───────────────────────────────────────────────────────────────────────────────────────────
async def _passed_on(connection: Connection, method: str, params: Json) -> Json | None:
    """The owner's answer, if what is named is a connected client's; None if it is this host's."""
    named = [params[key] for key in ("uri", "source", "destination") if key in params]
    owners = {_owner(connection, uri) for uri in named}
    if owners == {None}:
        return None
    owner = owners.pop()
    if owners or owner is None:
        raise invalid_params("Both have to be here, or both at one client.")
    if owner is connection:
        raise ProtocolError(NOT_FOUND, "This is your own: there is nobody to ask for it.")
    try:
        answer: Any = await owner.request(
            method, {**params, "channel": owner.spelling.root}, timeout=PATIENCE
        )
    except TimeoutError:
        words = f"Client {owner.client_id}, whose it is, did not answer in {PATIENCE:.0f} s."
        raise ProtocolError(INTERNAL_ERROR, words) from None
    except ConnectionError:
        raise ProtocolError(NOT_FOUND, f"Client {owner.client_id}, whose it is, has left.") from None
    await connection.room()
    return answer if isinstance(answer, dict) else {}


def _owner(connection: Connection, uri: str) -> Connection | None:
    """The client that a URI belongs to. Never one of `file:`, nor a channel's."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise invalid_params(f"{uri!r} is no URI.") from error
    if not parts.netloc or parts.scheme == "file" or parts.scheme.startswith("ahp-"):
        return None
    name = unquote(parts.netloc).casefold()  # an authority has no case
    for other in connection.host.connections:
        if other.client is not None and other.client_id.casefold() == name:
            return other
    return None


RESOURCES: Methods = {
    "resourceRead": (resource_read, False),
    "resourceList": (resource_list, False),
    "resourceResolve": (resource_resolve, False),
    "resourceWrite": (resource_write, False),
    "resourceMkdir": (resource_mkdir, False),
    "resourceDelete": (resource_delete, False),
    "resourceCopy": (resource_copy, False),
    "resourceMove": (resource_move, False),
    "resourceRequest": (resource_request, False),
    "createResourceWatch": (create_resource_watch, False),
}
