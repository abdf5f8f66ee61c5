"""Conversations that backends keep by themselves: sessions that other programs made, and those that are chats here.

U5, U6, U9, D3, B13. A backend's catalogue is read when somebody lists the sessions, or names one that nobody knows. What it
has is listed beside the sessions of the store, and opened without starting anything. It is taken into the store when
somebody says or keeps something in it. An agent that fails or is slow at this costs its own rows.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol import status, uris
from ..protocol.errors import INTERNAL_ERROR, ProtocolError
from ..protocol.times import parse_ms
from . import clock
from .arrivals import Refused
from .chat import empty_summary
from .ports import (
    RESUME_POINT,
    Agent,
    ChatRecord,
    Found,
    Json,
    SessionRecord,
    StoredChat,
    StoreError,
    TurnFailed,
    Unreadable,
)
from .session import Session
from .sink import sendable

if TYPE_CHECKING:
    from .host import Host

log = logging.getLogger(__name__)

_FRESH: Final = 10_000.0  # ms that what was read holds
_WAIT: Final = 2.0  # seconds that a listing waits for it; what comes later is told of
_PATIENCE: Final = 20.0  # seconds for one agent to list, to read back, or to delete
_CLOSING: Final = 5.0  # seconds that what is being written and deleted has when the host stops
_ROWS: Final = 500  # of one agent, the newest
_DIRECTORIES: Final = 50
_AT_ONCE: Final = 50  # rows taken in in one go
_ENDS: Final = ("complete", "cancelled", "error")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
_IDS: Final = uuid.UUID("6f0a1f6e-6b0d-4c39-9a53-0a3ac4f0f2a1")  # a name space of our own


_HALF: Final = "halfTaken"
"""In a session record's `meta`: its turns are not all in the store, since a crash came between."""


def is_half_taken(record: SessionRecord | Unreadable) -> bool:
    """Whether a session of the store is still another program's: what is there of it is to be written anew."""
    return isinstance(record, SessionRecord) and _HALF in record.meta


class Catalogue:
    """What agents' catalogues say, and which of their conversations are, or were, a chat's here."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ours: set[tuple[str, str]] = set()
        self._rows: dict[tuple[str, str], Session] = {}
        """Sessions that other programs made and nobody took into the store, by agent and conversation."""
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_CLOSING)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    # ── which are ours ───────────────────────────────────────────────────────────────────────────────────────
    def own(self, provider: str, memory: str) -> None:
        """A chat here has this conversation: it is never listed as a session of its own, whatever becomes of the chat."""
        if (provider, memory) in self._ours:
            return
        self._ours.add((provider, memory))
        self._drop(provider, memory)
        task = asyncio.create_task(self._write(provider, memory))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, provider: str, memory: str) -> None:
        try:
            await self._host.store.put_conversation(provider, memory)
        except StoreError as error:
            log.warning("%s of %s may be listed beside its chat after a restart: %s", memory, provider, error)

    def delete(self, agent: Agent, memories: Iterable[str]) -> None:
        """Have a backend forget conversations whose chats are closed for good (U9, `delete`)."""
        task = asyncio.create_task(self._delete(agent, list(memories)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete(self, agent: Agent, memories: list[str]) -> None:
        for memory in memories:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await agent.delete(memory)
            except asyncio.CancelledError:
                log.warning("Agent %s was still deleting the conversation %s", agent.provider, memory)
                raise
            except Exception:
                log.exception(
                    "Agent %s did not delete the conversation %s: it stays, and is not listed",
                    agent.provider,
                    memory,
                )

    # ── reading it ───────────────────────────────────────────────────────────────────────────────────────────
    async def read(self) -> None:
        """Have read what the agents list, or as much as comes in two seconds; the rest is told of when it comes."""
        is_fresh = self._read_at is not None and clock.monotonic_ms() - self._read_at < _FRESH
        if is_fresh and self._reading is None:
            return
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        if not is_fresh:
            await asyncio.wait([self._reading], timeout=_WAIT)

    async def _read(self) -> None:
        host = self._host
        try:
            self._ours |= await host.store.conversations()
        except StoreError as error:
            log.warning("Conversations of closed chats may be listed: %s", error)
        try:
            directories = self._directories()
            agents = tuple(host.roster.agents.values()) if directories else ()
            before = len(host.sessions)
            await asyncio.gather(*(self._read_of(agent, directories) for agent in agents))
            if len(host.sessions) != before:
                host.count_sessions()
        finally:
            self._read_at = clock.monotonic_ms()
            self._reading = None

    def _directories(self) -> list[str]:
        """The directories of the sessions here, those of the newest first, and the one that a new session works in."""
        found = dict.fromkeys(filter(None, [self._host.options.default_directory]))
        ours = [session for session in self._host.sessions.values() if session.found is None]
        for session in sorted(ours, key=lambda session: session.modified_at, reverse=True):
            found |= dict.fromkeys(session.paths)
            if len(found) >= _DIRECTORIES:
                break
        return list(found)[:_DIRECTORIES]

    async def _read_of(self, agent: Agent, directories: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                rows = list(await agent.catalogue(directories))
        except TimeoutError:
            log.warning(
                "Agent %s did not list its conversations in %.0f s: they are as they were listed before",
                agent.provider,
                _PATIENCE,
            )
            return
        except Exception:
            log.exception(
                "Agent %s cannot list its conversations: they are as they were listed before", agent.provider
            )
            return
        sound = [found for row in rows if (found := _sound(row)) is not None]
        if len(sound) < len(rows):
            log.warning(
                "Agent %s lists %d conversations in a way that nobody can use: they are left out",
                agent.provider,
                len(rows) - len(sound),
            )
        newest = sorted(sound, key=lambda row: row.modified_at, reverse=True)[:_ROWS]
        for count, row in enumerate(newest):
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)
            self._take(agent.provider, row)
        there = {row.memory for row in newest}
        for provider, memory in tuple(self._rows):
            if provider == agent.provider and memory not in there:
                self._drop(provider, memory)

    def _take(self, provider: str, row: Found) -> None:
        if (provider, row.memory) in self._ours:
            return
        session = self._rows.get((provider, row.memory))
        if session is not None:
            session.found_again(row)
            return
        session_id = self._id(provider, row.memory)
        if session_id is None:
            return
        try:
            record = _record(provider, session_id, row, self._host.roster.defaults(provider, {}))
        except ValueError as error:
            log.warning("A conversation of %s is not listed: %s", provider, error)
            return
        session = Session(self._host, record, used=True, found=row)
        self._rows[provider, row.memory] = session
        self._host.add(session)
        self._host.tell_root("root/sessionAdded", {"summary": session.summary()}, provider)

    def _id(self, provider: str, memory: str) -> str | None:
        """The backend's own id where a URI can hold it and no session here has it; else one made from it."""
        taken = self._host.sessions.keys() | {lost.id for lost in self._host.unreadable}
        made = str(uuid.uuid5(_IDS, f"{provider}\n{memory}"))
        names = [memory, made] if _PLAIN.fullmatch(memory) else [made]
        return next((name for name in names if name not in taken), None)

    def _drop(self, provider: str, memory: str) -> None:
        """It is not there any more, or is a chat's here: its row goes, unless somebody looks at it."""
        session = self._rows.get((provider, memory))
        if session is None or session.watched:
            return
        del self._rows[provider, memory]
        for chat in session.chats:
            self._host.canvases.end_of_chat(chat)
        self._host.forget(session)
        self._host.tell_root("root/sessionRemoved", {"session": session.uri}, provider)

    async def find(self, uri: str) -> None:
        """Somebody names a session, or the derived chat of one, that is not here: it may be in a catalogue (U5)."""
        session = uris.session_of_default_chat(uri) or uri
        try:
            session_id = uris.session_id(session)
        except ValueError:
            return
        if session_id is not None and session_id not in self._host.sessions:
            await self.read()

    # ── opening and taking ───────────────────────────────────────────────────────────────────────────────────
    async def transcript(self, session: Session) -> StoredChat:
        """The chat of a session that another program made. Raises `ProtocolError`."""
        agent, found = session.agent, session.found
        assert found is not None, "asked of a row of the catalogue"
        record = ChatRecord(session.default_chat, memory=found.memory)
        if agent is None:
            raise ProtocolError(INTERNAL_ERROR, f"The agent {session.provider!r} is not on this server.")
        try:
            async with asyncio.timeout(_PATIENCE):
                read = list(await agent.transcript(found.memory))
        except TurnFailed as failure:
            raise ProtocolError(
                INTERNAL_ERROR, f"This chat could not be read: {failure.message}"
            ) from failure
        except Exception as error:
            log.exception("Agent %s cannot read %s back", agent.provider, found.memory)
            words = str(error) or type(error).__name__
            raise ProtocolError(INTERNAL_ERROR, f"This chat could not be read: {words}") from error
        if not all(_is_turn(turn) for turn in read) or len({turn["id"] for turn in read}) < len(read):
            log.error("Agent %s reads %s back as what is no list of turns", agent.provider, found.memory)
            words = f"This chat could not be read: what {agent.display_name} says of it are no turns."
            raise ProtocolError(INTERNAL_ERROR, words)
        points = {turn["id"]: turn[RESUME_POINT] for turn in read if turn.get(RESUME_POINT)}
        turns = [
            {key: sendable(value) for key, value in turn.items() if key != RESUME_POINT} for turn in read
        ]
        return StoredChat(record, turns, points=points)

    async def adopt(self, session: Session) -> None:
        """Take a session that another program made into the store. Raises `Refused`, `ProtocolError`, `StoreError`."""
        chat = session.chats[session.default_chat]
        await chat.loaded()
        async with session.opening:
            found, store = session.found, self._host.store
            if found is None or session.closed:
                return
            if (owner := await store.claim(session.id)) is not None:
                raise Refused(f"This session is read-only here. {owner}")
            there, record = await store.session(session.id), session.record()
            if there is not None and not is_half_taken(there):
                raise Refused(
                    "Another server here has taken this session since. Start this one again to see it."
                )
            await store.put_session(replace(record, meta={**record.meta, _HALF: True}))
            await store.delete_chat(session.id, chat.uri)  # what an earlier try left of it
            await store.put_chat(session.id, chat.record)
            await store.put_turns(session.id, chat.uri, chat.state["turns"], chat.memory.points)
            await store.put_session(record)
            session.took()
            del self._rows[session.provider, found.memory]
        self.own(session.provider, found.memory)

    def let_go(self, session: Session) -> None:
        """A session that another program made is closed here: it is not listed again, or deleted (U9)."""
        found, agent = session.found, session.agent
        assert found is not None, "a row of the catalogue"
        self._rows.pop((session.provider, found.memory), None)
        self.own(session.provider, found.memory)
        if self._host.options.closed_chats == "delete" and agent is not None and agent.capabilities.delete:
            self.delete(agent, [found.memory])


def _sound(row: object) -> Found | None:
    """A row as it can be listed, if it can: what agents say here, they read from files that other programs wrote."""
    if not isinstance(row, Found) or not all(
        isinstance(one, str) for one in (row.memory, row.title, row.directory)
    ):
        return None
    if not row.memory or sendable(row.memory) != row.memory or parse_ms(row.modified_at) is None:
        return None
    began = row.modified_at if parse_ms(row.created_at) is None else row.created_at
    title = sendable(row.title).strip()  # whoever cuts a title may cut an emoji in two
    return replace(row, title=title, created_at=began)


def _is_turn(turn: object) -> bool:
    """Whether it has what every reader of an ended turn looks for (AHP 4.2)."""
    if not isinstance(turn, dict):
        return False
    message, parts = turn.get("message"), turn.get("responseParts")
    return (
        isinstance(turn.get("id"), str)
        and turn.get("state") in _ENDS
        and isinstance(message, dict)
        and isinstance(message.get("text"), str)
        and isinstance(message.get("origin"), dict)
        and isinstance(parts, list)
        and all(isinstance(part, dict) and isinstance(part.get("kind"), str) for part in parts)
    )


def _record(provider: str, session_id: str, row: Found, config: Json) -> SessionRecord:
    """A row as the session that it is. Raises `ValueError` for a path that is none."""
    try:
        uri = uris.provider_uri(provider, session_id)
    except ValueError:  # a name that is no scheme
        uri = uris.session_uri(session_id)
    chat = uris.default_chat_uri(uri)
    return SessionRecord(
        id=session_id,
        provider=provider,
        created_at=row.created_at,
        default_chat=chat,
        title=row.title,
        marks=status.IS_READ,
        directories=[Path(row.directory).as_uri()],
        config=config,
        chats=[{**empty_summary(chat, title=row.title), "modifiedAt": row.modified_at}],
    )
