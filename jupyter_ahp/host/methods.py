"""The requests that a client makes, one function each (AHP 1.2 to 1.7, 2.4, 3.4, 4.9).

M1 to M3, U2, U7, U8, U10. Each takes the connection and the checked params, and returns the result or raises
`ProtocolError`; the result is sent in the tick in which the function returns, so a snapshot is as new as its number.
"""

from __future__ import annotations

import base64
import binascii

from ..protocol import uris
from ..protocol.errors import (
    INVALID_REQUEST,
    NOT_FOUND,
    PROVIDER_NOT_FOUND,
    SESSION_ALREADY_EXISTS,
    ProtocolError,
    channel_not_found,
    invalid_params,
)
from ..protocol.versions import knows_canvases, negotiate, state_for, visible_to
from .channels import Channel
from .connection import Client, Connection, Methods
from .envelope import Spelling
from .ports import Json, StoreError
from .session import Session

_PAGE = 50  # turns in a page
_MAX_LATENCY = 1000  # ms


def _uri(connection: Connection, value: str) -> str:
    try:
        uri = uris.canonical(value)
    except ValueError as error:
        raise invalid_params(f"{value!r} is no URI.") from error
    connection.name_session(uri)
    return uri


def _snapshot(connection: Connection, channel: Channel, turns: int | None = None) -> Json:
    state = channel.snapshot(turns)
    if not knows_canvases(connection.version):
        state = state_for(channel.kind, state, connection.version)
    shot = {"resource": channel.uri, "state": state, "fromSeq": connection.host.hub.sequence.last}
    return connection.spelled(shot, channel.provider)


def _join(connection: Connection, channel: Channel, latency: int) -> None:
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
    version = negotiate(params["protocolVersions"])
    await host.ready()
    info = params.get("clientInfo") or {}
    meta = params.get("_meta") or {}
    older = str(info.get("name", "")).startswith("vscode-") and meta.get("vscode.ahpSessionUris") is not True
    asked = str(params.get("channel") or uris.ROOT)
    spelling = Spelling(by_provider=older, root=asked if uris.is_root(asked) else uris.ROOT)
    known = host.clients.get(params["clientId"])
    client = Client(params["clientId"], version, spelling, older, taken=known.taken if known else {})
    host.greet(connection, client)
    connection.respell(spelling)
    channels = []
    for wanted in params.get("initialSubscriptions") or ():
        try:
            channels.append(await host.channel(_uri(connection, wanted)))
        except ProtocolError:
            continue  # an unknown one has no snapshot (AHP 1.4)
    for channel in channels:
        _join(connection, channel, 0)
    result: Json = {
        "protocolVersion": version,
        "serverSeq": host.hub.sequence.last,
        "serverInfo": {"name": host.options.name, "version": host.options.version},
        "snapshots": [_snapshot(connection, channel) for channel in channels],
        "_meta": {"jupyter-ahp.principal": connection.principal.id},  # which sender (T3) is the client's own
    }
    directories = host.directories(None)
    if directories:
        result["defaultDirectory"] = directories[0]
    host.look_again()
    return result


async def reconnect(connection: Connection, params: Json) -> Json:
    host = connection.host
    if connection.client is not None:
        raise ProtocolError(INVALID_REQUEST, "This connection is initialised already.")
    client = host.clients.get(params["clientId"])
    if client is None:
        raise ProtocolError(NOT_FOUND, "This host does not know the client any more: say `initialize`.")
    await host.ready()
    host.greet(connection, client)
    wanted = [entry["channel"] if isinstance(entry, dict) else entry for entry in params["subscriptions"]]
    channels: dict[str, Channel] = {}
    missing = []
    for name in wanted:
        try:
            channel = await host.channel(_uri(connection, name))
            channels[channel.uri] = channel
        except ProtocolError:
            missing.append(name)
    for channel in channels.values():
        _join(connection, channel, client.latencies.get(channel.uri, 0))
    since = None if client.wants_snapshot else host.hub.replay.since(params["lastSeenServerSeq"])
    if since is None:
        client.wants_snapshot = False
        shots = [_snapshot(connection, channel, _PAGE) for channel in channels.values()]
        return {"type": "snapshot", "snapshots": shots}
    actions = [
        envelope.params(connection.spelling)
        for envelope in since
        if envelope.channel in channels and visible_to(envelope.action["type"], connection.version)
    ]
    return {"type": "replay", "actions": actions, "missing": missing}


async def subscribe(connection: Connection, params: Json) -> Json:
    channel = await connection.host.channel(_uri(connection, params["channel"]))
    latency = (params.get("delivery") or {}).get("maxLatencyMs") or 0
    turns = (params.get("view") or {}).get("turns")
    _join(connection, channel, max(0, min(int(latency), _MAX_LATENCY)))
    shot = _snapshot(connection, channel, None if turns is None else int(turns))
    if uris.is_root(params["channel"]):
        shot["resource"] = params["channel"]
    return {"snapshot": shot}


# ── the catalogue ────────────────────────────────────────────────────────────────────────────────────────────────
def _place(session: Session) -> tuple[str, str]:
    return session.modified_at, session.id


def _cursor(session: Session) -> str:
    return base64.urlsafe_b64encode("\n".join(_place(session)).encode()).decode()


def _after(cursor: str) -> tuple[str, str]:
    try:
        modified_at, _, session_id = (
            base64.b64decode(cursor, altchars=b"-_", validate=True).decode().partition("\n")
        )
    except (binascii.Error, ValueError) as error:
        raise invalid_params("This cursor is none of this host's.") from error
    if not session_id:
        raise invalid_params("This cursor is none of this host's.")
    return modified_at, session_id


async def list_sessions(connection: Connection, params: Json) -> Json:
    """Newest first. A cursor names a place in that order, so what moves meanwhile is neither repeated nor lost."""
    host = connection.host
    found = sorted(host.sessions.values(), key=_place, reverse=True)
    if params.get("cursor"):
        after = _after(params["cursor"])
        found = [session for session in found if _place(session) < after]
    limit = params.get("limit")
    page = found if limit is None else found[: max(1, int(limit))]
    result: Json = {"items": [session.summary() for session in page]}
    if len(page) < len(found):
        result["nextCursor"] = _cursor(page[-1])
    if host.unreadable and not params.get("cursor"):
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
    config = {**_defaults(connection, provider, params.get("config") or {}), **(params.get("config") or {})}
    session = host.new_session(session_id, provider, chat, directories, config)
    try:
        await session.saver.now()
        await session.open()
    except StoreError as error:
        await host.dispose(session)
        raise ProtocolError(NOT_FOUND, f"The session could not be stored: {error}") from error
    host.tell_root("root/sessionAdded", {"summary": session.summary()}, provider)
    host.count_sessions()
    if not host.roster.probed(provider).ready:
        await host.look_at_agents()  # it may have become usable since
    session.ready()
    if active is not None:
        await session.admit(connection, 0, {"type": "session/activeClientSet", "activeClient": active})


async def dispose_session(connection: Connection, params: Json) -> None:
    uri = _uri(connection, params["channel"])
    session = connection.host.session_named(uri)
    if session is None:
        raise channel_not_found(uri)
    await session.open()
    if session.read_only is not None:
        raise ProtocolError(INVALID_REQUEST, session.read_only)
    await connection.host.dispose(session)


def _defaults(connection: Connection, provider: str, chosen: Json) -> Json:
    schema = connection.host.roster.agents[provider].config_schema(chosen)
    return {
        key: prop["default"]
        for key, prop in schema.get("properties", {}).items()
        if prop.get("default") is not None
    }


async def resolve_session_config(connection: Connection, params: Json) -> Json:
    provider = _provider(connection, params, "")
    chosen = params.get("config") or {}
    schema = connection.host.roster.agents[provider].config_schema(chosen)
    return {"schema": schema, "values": {**_defaults(connection, provider, chosen), **chosen}}


async def session_config_completions(connection: Connection, params: Json) -> Json:
    return {"items": []}  # no agent's schema has a property with `enumDynamic`


async def authenticate(connection: Connection, params: Json) -> Json:
    raise invalid_params("No agent of this host asked for a token: sign in to agents where the server runs.")


# ── chats ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def create_chat(connection: Connection, params: Json) -> None:
    host = connection.host
    uri = _uri(connection, params["channel"])
    session = host.session_named(uri)
    if session is None:
        raise channel_not_found(uri)
    chat = _uri(connection, params["chat"])
    if chat == session.default_chat:
        return
    source = params.get("source")
    if source is not None:
        kind = source.get("kind") if isinstance(source, dict) else None
        raise invalid_params(f"A chat cannot be made from a source of kind {kind!r} here.")
    if uris.channel_kind(chat) != "chat":
        raise invalid_params(f"{chat} cannot name a chat.")
    if host.chat_named(chat) is not None:
        raise invalid_params(f"There is a chat {chat} already.")
    await session.open()
    if session.read_only is not None:
        raise ProtocolError(INVALID_REQUEST, session.read_only)
    if session.agent is None or not session.agent.capabilities.several_chats:
        raise invalid_params(f"{session.agent_name} has one chat a session.")
    host.index_chat(chat, session)
    try:
        made = await session.add_chat(chat, params.get("workingDirectories"))
    except (ProtocolError, StoreError):
        host.index_chat(chat, None)
        raise
    message = params.get("initialMessage")
    if message is not None:
        await made.say(connection, message)


async def dispose_chat(connection: Connection, params: Json) -> None:
    """The default chat stays (U7); one that is not here is gone already (U10)."""
    host = connection.host
    chat = host.chat_named(_uri(connection, params["channel"]))
    if chat is None or chat.uri == chat.session.default_chat:
        return
    await chat.session.open()
    if chat.session.read_only is not None:
        raise ProtocolError(INVALID_REQUEST, chat.session.read_only)
    if chat.channel is not None:
        for watcher in chat.channel.watchers:
            chat.channel.leave(watcher)
            watcher.subscriptions.pop(chat.uri, None)
    host.index_chat(chat.uri, None)
    await chat.session.remove_chat(chat.uri)


async def fetch_turns(connection: Connection, params: Json) -> Json:
    """M3: the page goes to every watcher, before the (empty) answer."""
    host = connection.host
    uri = _uri(connection, params["channel"])
    chat = host.chat_named(uri)
    if chat is None:
        raise channel_not_found(uri)
    channel = await chat.loaded()
    page = channel.page(params.get("cursor"), _PAGE)
    if page is None:
        raise invalid_params("This cursor is none of this chat's.")
    host.hub.publish(channel, page)
    return {}


async def completions(connection: Connection, params: Json) -> Json:
    return {"items": []}  # no agent offers commands yet, and no trigger character is announced


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
    "fetchTurns": (fetch_turns, True),
    "completions": (completions, False),
}
