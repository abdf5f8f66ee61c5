"""The host: its sessions, who is connected, and where each message goes.

M1, U1, U5, U6. Nothing starts before somebody asks: the catalogue is read and agents are looked at when the first
client says `initialize`.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..protocol import status, uris
from ..protocol.errors import NOT_FOUND, ProtocolError, channel_not_found
from ..protocol.validate import rejection
from . import clock
from .canvases import Canvases
from .carried import let_go, outliving
from .catalogue import Catalogue, is_half_taken
from .channels import Channel, Hub, RootChannel
from .chat import Chat, empty_summary
from .coming import arrived, is_coming, without_coming
from .connection import Client, Connection
from .envelope import PLAIN, Envelope, Spelling, encode, respell
from .extensions import Extensions
from .files import Files
from .grants import Authorize, Grants, takes
from .methods import METHODS
from .ports import (
    Agent,
    Frame,
    Json,
    Principal,
    Ptys,
    SessionRecord,
    Store,
    StoreError,
    Transport,
    Unreadable,
)
from .roster import Roster
from .session import Session
from .terminals import Terminals
from .tools import Tools
from .uploads import Uploads
from .watches import Watches
from .works import HostWorks, is_working

log = logging.getLogger(__name__)

_SWEEP = 10.0  # seconds between looks at what nobody uses
_CLIENT_GRACE = 30_000.0  # ms that a client's announcements outlive its last socket
_UNUSED_GRACE = 600_000.0  # ms that a session in which nothing was said outlives its last watcher
_IDLE_GRACE = 600_000.0  # ms that an unwatched chat stays in memory
_CLIENTS = 1000  # client ids remembered
_AT_ONCE = 100  # sessions read into the catalogue in one go
_AGENT_GRACE = 5.0  # seconds that an agent has to close
_STARTS = ("chat/turnStarted", "chat/turnResume")
_CHANGED_SINCE = "This was done already, and changed by somebody since."


@dataclass(slots=True)
class HostOptions:
    """What the host is told by whoever starts it."""

    default_agent: str = ""
    """The provider of a session that names none; "": the first that is ready."""
    served: Sequence[str] = ()
    """The providers that plugins may add; (): any."""
    default_directory: str = ""
    """Absolute path that a session works in when it names none; "": none."""
    name: str = "jupyter-ahp"
    version: str = ""
    grants: Grants = field(default_factory=Grants)
    """Who may do what; by default, everybody everything."""
    attachment_fetch_limit_bytes: int = 32 * 1024 * 1024
    """What a client says is larger is not asked of it (A4); 0: everything is."""
    max_message_bytes: int | None = None
    """What the clients' sockets take as one message, to be told to them; None: nobody knows."""
    ptys: Ptys | None = None
    """Where terminals and `!` commands run; None: there are none here, and a leading `!` is plain text."""
    closed_chats: str = "hidden"
    """What becomes of the conversation that a backend keeps of a chat that is closed (U9): "hidden" or "delete"."""
    shows_apps: bool = False
    """Whether a canvas can show a web app on this machine."""
    on_activity: Callable[[], None] | None = None
    """Called when a turn starts, while one runs (every few seconds), and when it ends."""


class Host:
    """One agent host. All its methods belong to one event loop."""

    def __init__(self, store: Store, agents: Sequence[Agent], options: HostOptions) -> None:
        self.store = store
        self.options = options
        self.methods = METHODS
        self.roster = Roster(agents, options.default_agent)
        self.hub = Hub(store)
        self.files = Files()
        self.writing = asyncio.Lock()
        """Held while a client writes a file."""
        self.terminals = Terminals(self, options.ptys)
        self.watches = Watches(self)
        self.canvases = Canvases(self)
        self.catalogue = Catalogue(self)
        self.tools = Tools()
        self.extensions = Extensions(self)
        self.uploads = Uploads(self)
        self.works = HostWorks(self)
        for agent in agents:
            agent.attach(self.works)
        self.root = RootChannel(uris.ROOT, "root", {"agents": []})
        self.sessions: dict[str, Session] = {}
        self.unreadable: list[Unreadable] = []
        self.clients: dict[str, Client] = {}
        self._sessions_of_chats: dict[str, Session] = {}
        self.connections: set[Connection] = set()
        self._last_seen: dict[str, float] = {}
        self._ready: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._unseen = False
        self._sweeper: asyncio.Task[None] | None = None

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def start(self) -> None:
        """Open the store; start no agent. Raises `StoreError`."""
        await self.store.open()
        await self.hub.open()
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        """End what runs so that it can be resumed, write what waits, free everything."""
        self.files.close()
        self.canvases.close()
        owned = [task for task in (self._sweeper, self._ready, self._probing) if task is not None]
        for task in owned:
            task.cancel()
        if owned:
            await asyncio.wait(owned)
        await self.works.close()  # ahead of those that they work for, which then say how it ended
        ends = [session.close() for session in self.sessions.values()]
        ends += [self._close_agent(agent) for agent in self.roster.agents.values()]
        for failure in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(failure, BaseException):
                log.error("A part of the host did not close", exc_info=failure)
        await self.terminals.close()
        await self.watches.close()
        await self.catalogue.close()
        await self.hub.sequence.close()
        await self.store.close()

    async def _close_agent(self, agent: Agent) -> None:
        try:
            async with asyncio.timeout(_AGENT_GRACE):
                await agent.close()
        except Exception:
            log.exception("Agent %s did not close; what it holds may stay", agent.provider)

    async def ready(self) -> None:
        """The catalogue is read and the agents are known. Raises `ProtocolError` when the store cannot be read."""
        if self._ready is None:
            self._ready = asyncio.create_task(self._prepare())
        try:
            await asyncio.shield(self._ready)
        except StoreError as error:
            self._ready = None
            raise ProtocolError(NOT_FOUND, f"The chats could not be read: {error}") from error

    async def _prepare(self) -> None:
        records, agents = await asyncio.gather(self.store.sessions(), self.roster.probe())
        there: set[str] | None = None
        mended: list[Session] = []
        for count, record in enumerate(records):
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)  # thousands of sessions must not hold up the server
            if is_half_taken(record):
                continue
            if not isinstance(record, Unreadable):
                if is_working(record):
                    continue
                try:
                    self.settle(record)
                    if is_coming(record):
                        there = arrived(records) if there is None else there
                        if without_coming(record, there):
                            mended.append(Session(self, record, used=True))
                            continue
                    self.add(Session(self, record, used=True))
                    continue
                except (KeyError, TypeError, ValueError) as error:
                    record = Unreadable(record.id, "its document", f"it is damaged: {error!r}")
            log.error("Session %s cannot be read (%s): %s", record.id, record.path, record.reason)
            self.unreadable.append(record)
        for session in mended:
            await self._mend(session)
        self.root.state = {**self.root.state, "agents": agents, "activeSessions": len(self.sessions)}

    async def _mend(self, session: Session) -> None:
        """Write a session down without the chats that a crash kept from moving to it; one made for such a chat goes."""
        if session.chats:
            self.add(session)
            await session.open()
            session.saver.soon()
            return
        try:
            if await self.store.claim(session.id) is None:
                await self.store.delete_session(session.id)
        except StoreError as error:
            log.warning("What was begun for a chat that did not move still takes space: %s", error)

    def chats_elsewhere(self, session: Session) -> set[str]:
        """The chats of all other sessions."""
        return {uri for uri, other in self._sessions_of_chats.items() if other is not session}

    @staticmethod
    def settle(record: SessionRecord) -> None:
        """What ran when the last process died does not run now."""
        for index, chat in enumerate(record.chats):
            if chat["status"] & status.IN_PROGRESS:
                bits = chat["status"] & ~status.ACTIVITY_MASK | status.ERROR
                chat = {key: value for key, value in chat.items() if key != "activity"}
                record.chats[index] = {**chat, "status": bits}

    async def look_at_agents(self) -> None:
        """Probe the agents again; tell everyone if something changed (the list is live)."""
        agents = await self.roster.probe()
        if agents != self.root.state["agents"]:
            self.hub.publish(self.root, {"type": "root/agentsChanged", "agents": agents})

    def agents_changed(self) -> None:
        """An agent came or went while the host runs; whoever asked before is told."""
        if self._ready is not None and self.started:
            self.look_again()

    @property
    def started(self) -> bool:
        """It runs: `start` is through, `stop` has not begun."""
        return self._sweeper is not None and not self._sweeper.done()

    def look_again(self) -> None:
        """The same, without waiting; a look that is under way may have missed what changed since."""
        self._unseen = True
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while self._unseen:
            self._unseen = False
            await self.look_at_agents()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            try:
                await self.sweep()
            except Exception:
                log.exception("What nobody uses was not looked at; the next look is in %.0f s", _SWEEP)

    async def sweep(self) -> None:
        """Let go of what nobody uses any more: clients that left, idle chats, sessions in which nothing was said."""
        if self.running and self.options.on_activity is not None:
            self.options.on_activity()
        now = clock.monotonic_ms()
        live = {connection.client_id for connection in self.connections}
        gone = [
            client_id
            for client_id, seen in self._last_seen.items()
            if client_id not in live and now - seen > _CLIENT_GRACE
        ]
        for client_id in gone:
            del self._last_seen[client_id]
            for session in self.sessions.values():
                session.drop_client(client_id)
        for session in tuple(self.sessions.values()):
            await self._sweep_session(session, now)
        await self.uploads.sweep()

    async def _sweep_session(self, session: Session, now: float) -> None:
        chats = tuple(session.chats.values())
        for chat in chats:
            if chat.channel is not None and not chat.idle:
                chat.touched = now
            elif chat.channel is not None and now - chat.touched > _IDLE_GRACE:
                await chat.unload()
        if session.used or session.channel.watched or any(not chat.idle for chat in chats):
            session.touched = now
        elif now - session.touched > _UNUSED_GRACE:
            await self.dispose(session)

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────
    def add(self, session: Session) -> None:
        self.sessions[session.id] = session
        for chat in session.chats:
            self._sessions_of_chats[chat] = session

    def index_chat(self, chat: str, session: Session | None) -> None:
        """A chat came to a session, or (None) it went. One that no client is to reach is not known here."""
        if session is not None and session.work is not None:
            return
        if session is None:
            self._sessions_of_chats.pop(chat, None)
        else:
            self._sessions_of_chats[chat] = session

    def new_session(
        self, session_id: str, provider: str, chat: str, directories: list[str], config: Json
    ) -> Session:
        """A session with its default chat (U2), in memory and in state `creating`."""
        return self._add_new(session_id, provider, chat, directories, config, [empty_summary(chat)])

    def empty_session(self, chat: Chat) -> Session:
        """A session like the chat's and of its name, for the chat to move to and be its default one (AHP 4.9, T8)."""
        source = chat.session
        return self._add_new(
            str(uuid.uuid4()),
            source.provider,
            chat.uri,
            source.state["workingDirectories"],
            source.config,
            [],
            title=chat.summary["title"],
        )

    def _add_new(
        self,
        session_id: str,
        provider: str,
        chat: str,
        directories: list[str],
        config: Json,
        chats: list[Json],
        title: str = "",
    ) -> Session:
        record = SessionRecord(
            id=session_id,
            provider=provider,
            title=title,
            created_at=clock.now(),
            default_chat=chat,
            marks=status.IS_READ,
            directories=directories,
            config=config,
            chats=chats,
        )
        session = Session(self, record, used=False, lifecycle="creating")
        self.add(session)
        return session

    def forget(self, session: Session) -> None:
        """A session is not here any more; nothing more is written of it."""
        self.sessions.pop(session.id, None)
        for chat in session.chats:
            self.index_chat(chat, None)
        session.closed = True
        session.saver.drop()

    async def dispose(self, session: Session) -> None:
        """End a session and everything in it; its watchers are told.

        Raises `StoreError` when it is gone here and its files are not.
        """
        if session.closed:
            return
        self.forget(session)
        for channel in (session.channel, *(chat.channel for chat in session.chats.values() if chat.channel)):
            for connection in channel.watchers:
                channel.leave(connection)
                connection.subscriptions.pop(channel.uri, None)
        self.tell_root("root/sessionRemoved", {"session": session.uri}, session.provider)
        self.count_sessions()
        self.extensions.events.emit("session_end", session=session.uri)
        for chat in session.chats:
            self.canvases.end_of_chat(chat)
        await session.close(gone=True)
        await self.terminals.end_of_session(session.uri)
        if session.found is not None:
            self.catalogue.let_go(session)
            return
        for chat in session.chats.values():
            await chat.memory.let_go()
        try:
            await self.store.delete_session(session.id, outliving(self, session.id))
        except StoreError as error:
            raise StoreError(f"It is closed here and comes back with the next start: {error}") from error
        await let_go(session)

    def count_sessions(self) -> None:
        self.hub.publish(
            self.root, {"type": "root/activeSessionsChanged", "activeSessions": len(self.sessions)}
        )

    # ── what is where ────────────────────────────────────────────────────────────────────────────────────────
    def session_named(self, uri: str) -> Session | None:
        session_id = uris.session_id(uri)
        return self.sessions.get(session_id) if session_id is not None else None

    def chat_named(self, uri: str) -> Chat | None:
        """The chat of that URI; a derived one only while its session records it (U5)."""
        session = self._sessions_of_chats.get(uri)
        return session.chats.get(uri) if session is not None else None

    def chat_taken(self, uri: str) -> bool:
        """Whether a chat of that URI is here, or is on its way here or away."""
        return uri in self._sessions_of_chats

    def held(self, uri: str) -> Channel | None:
        """The channel of that URI if it is loaded, in this tick."""
        if uri == uris.ROOT:
            return self.root
        if (session := self.session_named(uri)) is not None:
            return session.channel
        chat = self.chat_named(uri)
        if chat is not None:
            return chat.channel
        other = self.terminals.named(uri) or self.canvases.named(uri)
        return other.channel if other is not None else self.watches.held(uri)

    async def channel(self, uri: str) -> Channel:
        """The channel of that (canonical) URI, loaded. Raises `ProtocolError`: -32001, or -32008 (U6)."""
        kind = uris.channel_kind(uri)
        if kind == "root":
            return self.root
        if kind in ("session", "chat"):
            await self.catalogue.find(uri)
        if kind == "session":
            session = self.session_named(uri)
            if session is not None:
                await session.open()
                if not session.closed:
                    return session.channel
        elif kind == "chat":
            chat = self.chat_named(uri)
            if chat is not None:
                return await chat.loaded()
        elif kind == "terminal":
            return await self.terminals.channel(uri)
        elif kind == "resourceWatch":
            return self.watches.channel(uri)
        elif kind == "canvas":
            return self.canvases.channel(uri)
        else:
            raise ProtocolError(NOT_FOUND, f"Resource not found: {uri}")
        raise channel_not_found(uri)

    def provider_of(self, channel: str) -> str | None:
        session = self.session_named(channel) or self._sessions_of_chats.get(channel)
        return session.provider if session is not None else None

    @property
    def running(self) -> int:
        """Turns that run."""
        return sum(
            chat.turns.running for session in self.sessions.values() for chat in session.chats.values()
        )

    @property
    def session_count(self) -> int:
        """Sessions known so far; none before the catalogue was read."""
        return len(self.sessions)

    def turn_changed(self) -> None:
        if self.options.on_activity is not None:
            self.options.on_activity()

    def directories(self, asked: list[str] | None) -> list[str]:
        """A session's directories as URIs: those asked for, else the default one."""
        if asked is not None:
            return asked
        default = self.options.default_directory
        return [Path(default).as_uri()] if default else []

    # ── connections ──────────────────────────────────────────────────────────────────────────────────────────
    def connect(
        self,
        transport: Transport,
        principal: Principal,
        authorize: Authorize | None = None,
        *,
        site: str | None = None,
    ) -> Connection:
        """A client's socket is open.

        `authorize`: whom else to ask, beside the roles, what this person may do. `site`: the server's base URL as this
        client reaches it, with a slash at its end; None for one that reaches none.
        """
        connection = Connection(self, transport, principal, authorize, site=site)
        self.connections.add(connection)
        return connection

    def greet(self, connection: Connection, client: Client) -> None:
        """A handshake is through."""
        connection.client = client
        connection.version = client.version
        connection.spelling = client.spelling
        before = self.clients.pop(client.client_id, None)
        if before is not None and before.principal != client.principal:
            self.keep_client(client.client_id, ())  # what it announces is for its own person to run
        self.clients[client.client_id] = client
        self._last_seen[client.client_id] = clock.monotonic_ms()
        live = {other.client_id for other in self.connections}
        for client_id in [known for known in self.clients if known not in live][
            : max(0, len(self.clients) - _CLIENTS)
        ]:
            del self.clients[client_id]

    def left(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if connection.client is not None:
            self.extensions.events.client("client_disconnect", connection)
            self._last_seen[connection.client_id] = clock.monotonic_ms()

    def is_anothers(self, client_id: str, principal: str) -> bool:
        """Whether somebody else is connected under this id, in whatever case: URIs that name a client have none."""
        name = client_id.casefold()
        return any(
            other.client is not None
            and other.client_id.casefold() == name
            and other.principal.id != principal
            for other in self.connections
        )

    def connection_of(self, client_id: str) -> Connection | None:
        """A live connection of that client, the one to answer when its old one is gone."""
        return next((other for other in self.connections if other.client_id == client_id), None)

    def tell_root(self, method: str, params: Json, provider: str | None = None) -> None:
        """A notification to all who watch the root and may see sessions, encoded once for each spelling (AHP 2.3)."""
        frames: dict[Spelling, Frame] = {}
        for connection in self.root.watchers:
            if not connection.gate.holds("session:read"):
                continue
            spelling = connection.spelling
            frame = frames.get(spelling)
            if frame is None:
                message = {"channel": uris.ROOT, **params}
                if spelling is not PLAIN:
                    message = respell(message, spelling, provider)
                frame = frames[spelling] = Frame(
                    encode({"jsonrpc": "2.0", "method": method, "params": message})
                )
            connection.send(frame)

    def unsubscribe(self, connection: Connection, params: Any) -> None:
        """A notification: what it names and is not watched changes nothing (AHP 1.6)."""
        try:
            uri = uris.canonical(str(params.get("channel")))
        except ValueError:
            return
        session = self.session_named(uri)
        channel = connection.subscriptions.pop(session.uri if session is not None else uri, None)
        if channel is not None:
            channel.leave(connection)
        if session is not None and not self._watches(connection.client_id, session):
            session.drop_client(connection.client_id)

    def _watches(self, client_id: str, session: Session) -> bool:
        """Whether the client does, on any of its sockets."""
        return any(watcher.client_id == client_id for watcher in session.channel.watchers)

    def keep_client(self, client_id: str, channels: Container[str]) -> None:
        """A client that came back announces itself in these sessions only (AHP 1.7)."""
        for session in self.sessions.values():
            if session.uri not in channels:
                session.drop_client(client_id)

    # ── actions ──────────────────────────────────────────────────────────────────────────────────────────────
    async def dispatch(self, connection: Connection, params: Any) -> None:
        """`dispatchAction`: to its channel's owner, in order. One on no channel is ignored (AHP 1.8)."""
        channel, client_seq, action = (params.get(key) for key in ("channel", "clientSeq", "action"))
        if not isinstance(channel, str) or not isinstance(action, dict) or not isinstance(client_seq, int):
            log.info("A dispatchAction of client %s is malformed: ignored", connection.client_id)
            return
        try:
            uri = uris.canonical(channel)
        except ValueError:
            return
        connection.name_session(uri)
        client = connection.client
        assert client is not None, "dispatched after the handshake"
        if uris.channel_kind(uri) in ("session", "chat"):
            await self.catalogue.find(uri)
        session, chat = self.session_named(uri), self.chat_named(uri)
        terminal, canvas = self.terminals.named(uri), self.canvases.named(uri)
        if uri != uris.ROOT and all(owner is None for owner in (session, chat, terminal, canvas)):
            return
        if not isinstance(action.get("type"), str):
            connection.reject(uri, action, client_seq, "An action needs a type.")
        elif not client.take(client_seq, uri, action):
            await self._answer_again(connection, uri, client_seq)
        elif (reason := await self._refusal(connection, uri, action)) is not None:
            connection.reject(uri, action, client_seq, reason)
        elif chat is not None:
            chat.admit(connection, client_seq, action)
        elif session is not None:
            await session.admit(connection, client_seq, action)
        elif terminal is not None:
            terminal.admit(connection, client_seq, action)
        elif canvas is not None:
            reason = rejection(action, "canvas") or "A canvas is drawn by its plugin alone."
            connection.reject(uri, action, client_seq, reason)  # V4
        else:
            self._root_action(connection, client_seq, action)

    @staticmethod
    async def _refusal(connection: Connection, uri: str, action: Json) -> str | None:
        """Why this person may not dispatch this action (P1 to P9); None if they may."""
        needed = takes(action["type"], action, commands=connection.gate.commands)
        if needed is not None:
            return await connection.gate.refusal(needed)
        return rejection(action, uris.channel_kind(uri)) or f"This host does not act on {action['type']}."

    def _root_action(self, connection: Connection, client_seq: int, action: Json) -> None:
        problem = rejection(action, "root")
        if problem is None and action["type"] == "root/configChanged":
            # Windows mirror their own settings here. This host has none: they change nothing and concern nobody else.
            if client_seq:
                origin = {"clientId": connection.client_id, "clientSeq": client_seq}
                echo = Envelope(uris.ROOT, action, self.hub.sequence.next(), origin)
                connection.took(client_seq, echo)
                connection.deliver(echo)
            return
        connection.reject(
            uris.ROOT, action, client_seq, problem or f"This host does not act on {action['type']}."
        )

    async def _answer_again(self, connection: Connection, uri: str, client_seq: int) -> None:
        """An action that was taken before is not taken twice; its sender, which came back, is answered again."""
        before = connection.client.answers.get(client_seq) if connection.client is not None else None
        if before is None:
            return  # it waits its turn, or is long answered
        reason = before.reason
        if reason is None:
            if before.action["type"] in ("chat/turnStarted", "chat/turnResume"):
                return  # its echo is in the replay or the snapshot that the client was given
            try:
                channel = await self.channel(uri)
            except ProtocolError:
                return  # on no channel any more
            if not channel.would_keep(before.action):
                reason = "This was done already, and changed by somebody since."
        connection.deliver(
            Envelope(
                uri,
                before.action,
                self.hub.sequence.next(),
                before.origin,
                provider=before.provider,
                reason=reason,
            )
        )
