"""The requests that a client makes, one function each (AHP 1.2 to 1.7, 2.4, 3.4, 4.9).

M1 to M3, U2, U7, U8, U10. Each takes the connection and the checked params, and returns the result or raises
`ProtocolError`; the result is sent in the tick in which the function returns, so a snapshot is as new as its number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from ..protocol import uris
from ..protocol.commands import PREFIX
from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    NOT_FOUND,
    PROVIDER_NOT_FOUND,
    SESSION_ALREADY_EXISTS,
    ProtocolError,
    channel_not_found,
    invalid_params,
)
from ..protocol.meta import MAX_MESSAGE
from ..protocol.versions import knows_canvases, negotiate, state_for
from .arrivals import Refused
from .branching import Branch, branch, move
from .canvases import gone
from .channels import UNKNOWN, Channel
from .chat import Chat
from .completions import TRIGGERS, complete
from .connection import Client, Connection, Later, Methods, NoVersion
from .envelope import Spelling
from .ports import Json, StoreError
from .resources import RESOURCES
from .rewind import UNDO_REWIND
from .session import Session, unfit
from .showing import SHOW, show
from .workers import NO_STOP, workers_of

_PAGE = 50  # turns in a page
_MAX_LATENCY = 1000  # ms
_NAMING_OLD = ("chat/truncated", "chat/turnResume")
"""What names a turn that a client may not have been given: whoever watches is shown it first, whoever was away was not."""


def _uri(connection: Connection, value: str) -> str:
    try:
        uri = uris.canonical(value)
    except ValueError as error:
        raise invalid_params(f"{value!r} is no URI.") from error
    if uri == uris.ROOT and value != connection.spelling.root:
        connection.respell(connection.spelling._replace(root=value))
    connection.name_session(uri)
    return uri


async def _session(connection: Connection, value: str) -> Session:
    """The session of that URI, be it named for the first time (U5). Raises `ProtocolError` -32001."""
    uri = _uri(connection, value)
    await connection.host.catalogue.find(uri)
    session = connection.host.session_named(uri)
    if session is None:
        raise channel_not_found(uri)
    return session


async def _chat(connection: Connection, value: str) -> Chat:
    """The same for a chat."""
    uri = _uri(connection, value)
    await connection.host.catalogue.find(uri)
    chat = connection.host.chat_named(uri)
    if chat is None:
        raise channel_not_found(uri)
    return chat


def _knows(connection: Connection, uri: str) -> bool:
    """Whether there are such channels in this client's version (V5)."""
    return uris.channel_kind(uri) != "canvas" or knows_canvases(connection.version)


def _snapshot(connection: Connection, channel: Channel, turns: int | None = None) -> Json:
    state = channel.snapshot(connection, turns)
    if connection.client is not None:
        if state.get("turnsNextCursor") is not None:
            connection.client.partial.add(channel.uri)
        else:
            connection.client.partial.discard(channel.uri)
    if not knows_canvases(connection.version):
        state = state_for(channel.kind, state, connection.version)
    shot = {"resource": channel.uri, "state": state, "fromSeq": connection.host.hub.sequence.last}
    return connection.spelled(shot, channel.provider)


def _join(connection: Connection, channel: Channel, latency: int) -> None:
    if connection.gone:
        return
    channel.join(connection, latency)
    connection.subscriptions[channel.uri] = channel
    if connection.client is not None:
        connection.client.latencies[channel.uri] = latency


# ── connecting ───────────────────────────────────────────────────────────────────────────────────────────────────
async def ping(connection: Connection, params: Json) -> None:
    return None


async def initialize(connection: Connection, params: Json) -> Json:
    host = connection.host
    if connection.client is not None:
        raise ProtocolError(INVALID_REQUEST, "This connection is initialised already.")
    try:
        version = negotiate(params["protocolVersions"])
    except ProtocolError as error:
        raise NoVersion(error.code, error.message, error.data) from error
    await host.ready()
    granted = await connection.gate.granted()
    info = params.get("clientInfo") or {}
    meta = params.get("_meta") or {}
    older = str(info.get("name", "")).startswith("vscode-") and meta.get("vscode.ahpSessionUris") is not True
    asked = str(params.get("channel") or uris.ROOT)
    spelling = Spelling(by_provider=older, root=asked if uris.is_root(asked) else uris.ROOT)
    if host.is_anothers(params["clientId"], connection.principal.id):
        raise invalid_params("Somebody else is connected under this clientId: take one of your own.")
    known = host.clients.get(params["clientId"])
    if known is not None and known.principal != connection.principal.id:
        known = None
    client = Client(params["clientId"], connection.principal.id, version, spelling, older)
    if known is not None:
        client.taken, client.answers, client.uploads = known.taken, known.answers, known.uploads
    host.greet(connection, client)
    host.extensions.events.client("client_connect", connection, clientInfo=info)
    connection.respell(spelling)
    channels, _ = await _channels(connection, params.get("initialSubscriptions") or ())
    for channel in channels:
        _join(connection, channel, 0)
    result: Json = {
        "protocolVersion": version,
        "serverSeq": host.hub.sequence.last,
        "serverInfo": {"name": host.options.name, "version": host.options.version},
        "snapshots": [_snapshot(connection, channel) for channel in channels],
        "_meta": {
            "jupyter-ahp.principal": connection.principal.id,  # which sender (T3) is the client's own
            "jupyter-ahp.role": connection.gate.role.name,
            "jupyter-ahp.grants": granted,
            "jupyter-ahp.attachmentLimit": host.options.attachment_fetch_limit_bytes,  # A4
        },
    }
    if "chat:send" in granted:
        result["_meta"] |= host.uploads.offer(client)
    if host.options.max_message_bytes is not None:
        result["_meta"][MAX_MESSAGE] = host.options.max_message_bytes
    directories = host.directories(None)
    if directories:
        result["defaultDirectory"] = directories[0]
    result["completionTriggerCharacters"] = list(TRIGGERS)
    if host.terminals.on:
        result["terminalCommandPrefix"] = PREFIX
    host.look_again()
    return result


async def _channels(connection: Connection, names: Iterable[Any]) -> tuple[list[Channel], list[str]]:
    """These channels, all loaded in this tick, and the names of those that are not here, or not for this person (P1)."""
    host = connection.host
    wanted: dict[str, str] = {}
    missing = []
    for name in names:
        try:
            uri = _uri(connection, name)
            if not _knows(connection, uri) or not await connection.gate.may_read(uri):
                missing.append(name)
                continue
            channel = await host.channel(uri)
        except ProtocolError:
            missing.append(name)
        else:
            wanted[channel.uri] = name
    channels = []
    for uri, name in wanted.items():  # one may have gone while another was loaded
        held = host.held(uri)
        if held is None:
            missing.append(name)
        else:
            channels.append(held)
    return channels, missing


async def reconnect(connection: Connection, params: Json) -> Json:
    host = connection.host
    if connection.client is not None:
        raise ProtocolError(INVALID_REQUEST, "This connection is initialised already.")
    await host.ready()
    await connection.gate.granted()
    client = host.clients.get(params["clientId"])
    if client is None or client.principal != connection.principal.id:
        raise ProtocolError(NOT_FOUND, "This host does not know the client any more: say `initialize`.")
    host.greet(connection, client)
    channels, missing = await _channels(connection, params["subscriptions"])
    for channel in channels:
        _join(connection, channel, client.latencies.get(channel.uri, 0))
    host.extensions.events.client("client_connect", connection)
    shown = {channel.uri: channel for channel in channels}
    host.keep_client(client.client_id, shown)
    seen = params["lastSeenServerSeq"]
    since = None
    if not client.wants_snapshot and not client.missed_some(seen) and seen <= host.hub.sequence.last:
        since = host.hub.replay.since(seen)
    if since is None or any(
        envelope.channel in client.partial and envelope.action["type"] in _NAMING_OLD for envelope in since
    ):
        client.wants_snapshot = False
        shots = [_snapshot(connection, channel, _PAGE) for channel in channels]
        return {"type": "snapshot", "snapshots": shots}
    for channel in channels:
        if channel.uri in client.partial:
            channel.view(connection, UNKNOWN)
    actions = [
        shown[envelope.channel].as_seen(envelope, connection).params(connection.spelling)
        for envelope in since
        if envelope.channel in shown and shown[envelope.channel].shows(envelope.action["type"], connection)
    ]
    return {"type": "replay", "actions": actions, "missing": missing}


async def subscribe(connection: Connection, params: Json) -> Json:
    await connection.room()  # many large chats may be asked for at once: what was asked for is no backlog
    uri = _uri(connection, params["channel"])
    if not _knows(connection, uri):
        raise gone(uri)
    channel = await connection.host.channel(uri)
    latency = (params.get("delivery") or {}).get("maxLatencyMs") or 0
    turns = (params.get("view") or {}).get("turns")
    _join(connection, channel, max(0, min(int(latency), _MAX_LATENCY)))
    shot = _snapshot(connection, channel, None if turns is None else int(turns))
    return {"snapshot": shot}


# ── the catalogue ────────────────────────────────────────────────────────────────────────────────────────────────
def _place(session: Session) -> tuple[str, str]:
    return session.modified_at, session.id


async def list_sessions(connection: Connection, params: Json) -> Json:
    """Newest first. The order is taken at the first page, so what moves meanwhile is neither repeated nor lost."""
    host = connection.host
    cursor = params.get("cursor")
    if not cursor:
        await host.catalogue.read()
    if cursor:
        try:
            listed = connection.listings.pop(cursor)
        except KeyError:
            raise invalid_params("This cursor is none of this connection's: list anew.") from None
        connection.listings[cursor] = listed  # the page may be asked for again
        found = [session for name in listed if (session := host.sessions.get(name)) is not None]
    else:
        found = sorted(host.sessions.values(), key=_place, reverse=True)
    limit = params.get("limit")
    page = found if limit is None else found[: int(limit)]
    result: Json = {"items": [session.summary() for session in page]}
    if len(page) < len(found):
        result["nextCursor"] = connection.keep_listing([session.id for session in found[len(page) :]])
    if host.unreadable and not cursor:
        result["_meta"] = {
            "jupyter-ahp.unreadable": [
                {"id": lost.id, "path": lost.path, "reason": lost.reason} for lost in host.unreadable
            ]
        }
    return connection.spelled(result)


def _provider(connection: Connection, params: Json, uri: str) -> str:
    host = connection.host
    asked = params.get("provider")
    scheme = uri.partition(":")[0]
    provider = asked or (scheme if scheme in host.roster.agents else host.roster.default)
    if provider is None or provider not in host.roster.agents:
        served = ", ".join(host.roster.agents) or "none"
        raise ProtocolError(PROVIDER_NOT_FOUND, f"This host has no agent {provider!r}. It has: {served}.")
    return str(provider)


async def create_session(connection: Connection, params: Json) -> None:
    host = connection.host
    uri = _uri(connection, params["channel"])
    session_id = uris.session_id(uri)
    if session_id is None:
        raise invalid_params(f"{uri} cannot name a session.")
    active = params.get("activeClient")
    if active is not None and active.get("clientId") != connection.client_id:
        raise invalid_params("activeClient.clientId is not this connection's client id.")
    if session_id in host.sessions or any(lost.id == session_id for lost in host.unreadable):
        raise ProtocolError(SESSION_ALREADY_EXISTS, f"There is a session {uri} already.")
    provider = _provider(connection, params, uri)
    asked = params.get("workingDirectories")
    if asked is None and isinstance(params.get("workingDirectory"), str):
        asked = [params["workingDirectory"]]
    directories = host.directories(asked)
    if len(directories) > 1 and not host.roster.agents[provider].capabilities.several_directories:
        raise invalid_params(f"{host.roster.agents[provider].display_name} works in one directory.")
    client = connection.client
    older = client is not None and client.older_window
    chat = uris.default_chat_uri(uri) if older else uris.new_chat_uri()
    chosen = params.get("config") or {}
    properties = host.roster.schema(provider, chosen).get("properties", {})
    if (problem := unfit(properties, chosen)) is not None:
        raise invalid_params(problem)
    config = {**host.roster.defaults(provider, chosen), **chosen}
    session = host.new_session(session_id, provider, chat, directories, config)
    try:
        if await host.store.session(session_id) is not None:  # another server on this store made it
            raise ProtocolError(SESSION_ALREADY_EXISTS, f"There is a session {uri} already.")
        await session.open()
        if session.read_only is not None:
            raise StoreError(session.read_only)
        await session.saver.now()
    except StoreError as error:
        host.forget(session)
        raise ProtocolError(INTERNAL_ERROR, f"The session could not be stored: {error}") from error
    except ProtocolError:
        host.forget(session)
        raise
    host.tell_root("root/sessionAdded", {"summary": session.summary()}, provider)
    host.count_sessions()
    if not host.roster.probed(provider).ready:
        await host.look_at_agents()  # it may have become usable since
    if session.closed:
        return  # disposed meanwhile
    session.ready()
    if active is not None:
        await session.admit(connection, 0, {"type": "session/activeClientSet", "activeClient": active})


async def dispose_session(connection: Connection, params: Json) -> None:
    session = await _session(connection, params["channel"])
    await session.open()
    if session.read_only is not None:
        raise ProtocolError(INVALID_REQUEST, session.read_only)
    await connection.host.dispose(session)


async def resolve_session_config(connection: Connection, params: Json) -> Json:
    provider = _provider(connection, params, "")
    chosen = params.get("config") or {}
    schema = connection.host.roster.schema(provider, chosen)
    return {"schema": schema, "values": {**connection.host.roster.defaults(provider, chosen), **chosen}}


async def session_config_completions(connection: Connection, params: Json) -> Json:
    return {"items": []}  # no agent's schema has a property with `enumDynamic`


async def authenticate(connection: Connection, params: Json) -> Json:
    raise invalid_params("No agent of this host asked for a token: sign in to agents where the server runs.")


# ── chats ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def create_chat(connection: Connection, params: Json) -> Later | None:
    host = connection.host
    session = await _session(connection, params["channel"])
    chat = _uri(connection, params["chat"])
    if chat == session.default_chat:
        return None
    if uris.channel_kind(chat) != "chat" or uris.session_of_default_chat(chat) is not None:
        raise invalid_params(f"{chat} cannot name another chat of a session.")
    await session.take()
    if session.closed:
        raise channel_not_found(session.uri)
    if session.read_only is not None:
        raise ProtocolError(INVALID_REQUEST, session.read_only)
    if session.agent is None or not session.agent.capabilities.several_chats:
        raise invalid_params(f"{session.agent_name} has one chat a session.")
    if host.chat_taken(chat):
        raise invalid_params(f"There is a chat {chat} already.")
    message = params.get("initialMessage")
    if message is not None:
        try:
            session.check_open()
        except Refused as refusal:
            raise invalid_params(str(refusal)) from refusal
    host.index_chat(chat, session)
    try:
        begins = Branch({"kind": "user"}, directories=params.get("workingDirectories"))
        if params.get("source") is not None:
            begins = await branch(session, params["source"], chat, params.get("workingDirectories"))
        made = await session.add_chat(chat, begins)
    except (ProtocolError, StoreError):
        host.index_chat(chat, None)
        raise
    if message is None:
        return None
    await made.loaded()
    return Later(made.starting.say(connection, message))  # it may ask this client for what is attached


async def dispose_chat(connection: Connection, params: Json) -> None:
    """The default chat stays (U7); one that is not here is gone already (U10). Its workers' chats go with a chat."""
    host = connection.host
    chat = host.chat_named(_uri(connection, params["channel"]))
    if chat is None or chat.uri == chat.session.default_chat:
        return
    session = chat.session
    await session.open()
    if session.read_only is not None:
        raise ProtocolError(INVALID_REQUEST, session.read_only)
    if session.closed or session.chats.get(chat.uri) is not chat:
        return
    if not chat.turns.can_stop:
        raise ProtocolError(INVALID_REQUEST, NO_STOP)
    going = [chat, *workers_of(session, chat.uri)]
    for channel in [each.channel for each in going if each.channel is not None]:
        for watcher in channel.watchers:
            channel.leave(watcher)
            watcher.subscriptions.pop(channel.uri, None)
    try:
        await session.remove_chats(going)
    finally:
        for each in going:
            host.index_chat(each.uri, None)


async def move_chat(connection: Connection, params: Json) -> Json:
    """U3, U12: to another session, or within its own, under its URI."""
    host = connection.host
    chat = await _chat(connection, params["channel"])
    destination = params["destination"]
    if destination.get("kind") == "newSession":
        target = host.empty_session(chat)
    else:
        target = await _session(connection, destination["session"])
    try:
        for session in (chat.session, target):
            await session.take()
            if session.read_only is not None:
                raise ProtocolError(INVALID_REQUEST, session.read_only)
        await move(chat, target, destination.get("after"))
    except (ProtocolError, StoreError):
        if not target.chats:
            host.forget(target)
        raise
    if destination.get("kind") == "newSession":
        host.tell_root("root/sessionAdded", {"summary": target.summary()}, target.provider)
        host.count_sessions()
        target.ready()
    return connection.spelled({"session": target.uri}, target.provider)


async def undo_rewind(connection: Connection, params: Json) -> Json:
    """Ours, beyond the protocol: what the last rewind cut comes back, until a turn begins."""
    channel = params.get("channel")
    chat = connection.host.chat_named(_uri(connection, channel)) if isinstance(channel, str) else None
    if chat is None:
        raise channel_not_found(str(channel))
    return {"turns": await chat.rewinding.undo()}


async def fetch_turns(connection: Connection, params: Json) -> Json:
    """M3: the page goes to every watcher, before the (empty) answer."""
    host = connection.host
    chat = await _chat(connection, params["channel"])
    channel = await chat.loaded()
    page = channel.page(params.get("cursor"), _PAGE)
    if page is None:
        raise invalid_params("This cursor is none of this chat's.")
    host.hub.publish(channel, page)
    return {}


async def completions(connection: Connection, params: Json) -> Json:
    """M4. A session's URI stands for its default chat; a request is over when the same client makes the next."""
    uri = _uri(connection, params["channel"])
    session = connection.host.session_named(uri)
    chat = await _chat(connection, session.default_chat if session is not None else uri)
    if params["kind"] != "userMessage":
        return {"items": []}  # nothing else that is written is known here
    if connection.completing is not None:
        connection.completing.cancel()
    task = connection.completing = asyncio.create_task(complete(chat, params["text"], params["offset"]))
    try:
        return {"items": await task}
    except asyncio.CancelledError:
        if connection.completing is task:
            raise  # the connection is closed
        return {"items": []}


async def create_terminal(connection: Connection, params: Json) -> None:
    connection.host.terminals.create(connection, _uri(connection, params["channel"]), params)


async def dispose_terminal(connection: Connection, params: Json) -> None:
    await connection.host.terminals.dispose(_uri(connection, params["channel"]))


METHODS: Methods = {
    "ping": (ping, False),
    "initialize": (initialize, True),
    "reconnect": (reconnect, True),
    "subscribe": (subscribe, True),
    "listSessions": (list_sessions, False),
    "createSession": (create_session, True),
    "disposeSession": (dispose_session, True),
    "resolveSessionConfig": (resolve_session_config, False),
    "sessionConfigCompletions": (session_config_completions, False),
    "authenticate": (authenticate, False),
    "createChat": (create_chat, True),
    "disposeChat": (dispose_chat, True),
    "moveChat": (move_chat, True),
    UNDO_REWIND: (undo_rewind, True),
    SHOW: (show, False),
    "fetchTurns": (fetch_turns, True),
    "completions": (completions, False),
    **RESOURCES,
    "createTerminal": (create_terminal, True),
    "disposeTerminal": (dispose_terminal, True),
}
