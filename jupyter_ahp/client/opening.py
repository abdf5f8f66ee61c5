"""Finding a chat and its session, and making new ones: what gives the two mirrors that a chat is seen through."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable
from typing import Any, TypeAlias, TypeVar

from ..protocol import uris
from ..protocol.errors import SESSION_ALREADY_EXISTS, ProtocolError
from .connection import AskedTwice, Connection
from .errors import Refused
from .mirror import Mirror

Json: TypeAlias = dict[str, Any]
Mirrors: TypeAlias = tuple[Mirror, Mirror]
"""A session's and one of its chats'."""
T = TypeVar("T")

_KEYS = uuid.UUID("b3a6a0c1-7f0e-4a5e-8d54-58c1c4a1f2d7")
_GAP = 3  # names in a row without a session, behind which there are none
_COMING = 5.0  # seconds that a chat whose making was asked for twice may take to appear


async def create(connection: Connection, params: Json, name: str | None = None) -> Mirrors:
    """A new session by AHP's `createSession` (4.9), called `name` or by an opaque one, and its first chat."""
    session = uris.session_uri(name or str(uuid.uuid4()))
    try:
        await connection.request("createSession", {"channel": session, **params})
    except ProtocolError as error:
        # The name is ours alone: the request was made twice, since the first answer was lost.
        if error.code != SESSION_ALREADY_EXISTS:
            raise
    return await find_session(connection, session)


async def find_session(connection: Connection, session: str) -> Mirrors:
    """A session and its default chat, once there is one. Raises `Refused` if it could not be made."""
    mirror = await connection.subscribe(session)
    try:
        return mirror, await connection.subscribe(await mirror.until(_default_chat))
    except BaseException:
        await connection.unsubscribe(mirror)
        raise


async def find_named(connection: Connection, key: str) -> tuple[Mirrors | None, str]:
    """The newest session that was made under this key, and the name for the next one.

    Names are numbered; some may be missing, of sessions that people deleted.
    """
    found: Mirrors | None = None
    number = missing = 0
    following = _numbered(key, 0)
    while missing < _GAP:
        try:
            mirrors = await find_session(connection, uris.session_uri(_numbered(key, number)))
        except (ProtocolError, Refused):
            missing += 1
        else:
            missing = 0
            for mirror in found or ():
                await connection.unsubscribe(mirror)
            found, following = mirrors, _numbered(key, number + 1)
        number += 1
    return found, following


def _numbered(key: str, number: int) -> str:
    return str(uuid.uuid5(_KEYS, f"{key} {number}"))


async def find_chat(connection: Connection, chat: str) -> Mirrors:
    """A chat and the session that it is in. Raises `Refused` if no session has it."""
    session = await connection.subscribe(
        uris.session_of_default_chat(chat) or await session_of(connection, chat)
    )
    try:
        return session, await connection.subscribe(chat)
    except BaseException:
        await connection.unsubscribe(session)
        raise


async def session_of(connection: Connection, chat: str) -> str:
    """The URI of the session that has this chat now. Raises `Refused` if none has."""
    cursor: Json = {}
    while True:
        page = await connection.request("listSessions", {"channel": uris.ROOT, **cursor})
        for summary in page["items"]:
            chats = [entry["resource"] for entry in summary.get("chats", ())]
            if chat in (summary.get("defaultChat"), *chats):
                return str(summary["resource"])
        if not page.get("nextCursor"):
            raise Refused(f"No session of this host has the chat {chat}.")
        cursor = {"cursor": page["nextCursor"]}


async def add_chat(
    connection: Connection, session: Mirror, source: Json | None, name: str | None = None
) -> str:
    """Another chat in a session, empty or made from a `source` (4.9): its URI, `name` or a new one.

    Raises `ProtocolError`.
    """
    chat = name or uris.new_chat_uri()
    params: Json = {"channel": session.channel, "chat": chat}
    if source is not None:
        params["source"] = source
    try:
        await connection.request("createChat", params)
    except AskedTwice as refusal:
        # The name is ours alone: if the session has it, or is about to, the first of the two made it.
        try:
            async with asyncio.timeout(_COMING):
                await session.until(lambda state: entry_of(state, chat))
        except TimeoutError:
            raise refusal from None
    return chat


def entry_of(session: Json, chat: str) -> Json | None:
    """What a session's state says of one of its chats."""
    return next((entry for entry in session.get("chats", ()) if entry.get("resource") == chat), None)


def _default_chat(session: Json) -> str | None:
    """The chat of a session that is ready. Raises `Refused` for one that could not be made."""
    if session.get("lifecycle") == "failed":
        raise Refused((session.get("creationError") or {}).get("message") or "The session could not be made.")
    return session.get("defaultChat") if session.get("lifecycle") == "ready" else None


async def refusing(asked: Awaitable[T]) -> T:
    """A request that the host answers with an error was refused."""
    try:
        return await asked
    except ProtocolError as error:
        raise Refused(error.message, code=error.code, data=error.data) from error
