"""A host driven through its wire: frames in, frames out, a client that keeps what a real one would keep.

`WireClient` has a mirror of every channel that it subscribed to, made of snapshots and of envelopes put through the
pure reducers, so a test can end with `await agree(...)`: every mirror equals what a fresh subscriber is given.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import jsonschema.validators  # noqa: F401  (a second of import, or five: not while a test waits for a call)

from jupyter_ahp.host.connection import Connection
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import (
    Agent,
    Capabilities,
    ChatRecord,
    Conversation,
    Frame,
    Json,
    Model,
    Principal,
    Probe,
    Prompt,
    SessionRecord,
    Start,
    Store,
    StoredChat,
    StoreError,
    ToolResult,
    TurnSink,
    Unreadable,
)
from jupyter_ahp.protocol import status, uris
from jupyter_ahp.protocol.reducers import REDUCERS
from jupyter_ahp.store.memory import MemoryStore

ROOT = uris.ROOT
NEWER = {"vscode.ahpSessionUris": True}
ALICE = Principal("user:alice", "Alice")


class RpcError(Exception):
    """What a request was answered with."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Wire:
    """A transport in memory. `stalled`: what is written stays in its buffer, as behind a slow network."""

    def __init__(self, take: Callable[[Json], None]) -> None:
        self.frames: list[Json] = []
        self.closed: tuple[int, str] | None = None
        self.stalled = False
        self.connection: Connection | None = None
        self._take = take
        self._waiting: list[Frame] = []

    def write(self, frame: Frame) -> None:
        if self.closed is not None:
            return
        if self.stalled:
            self._waiting.append(frame)
        else:
            self._give(frame)

    def _give(self, frame: Frame) -> None:
        message = json.loads(frame.payload)
        self.frames.append(message)
        self._take(message)

    @property
    def buffered(self) -> int:
        return sum(len(frame.payload) for frame in self._waiting)

    def close(self, code: int, reason: str) -> None:
        if self.closed is None:
            self.closed = (code, reason)

    def lose(self) -> None:
        """The network takes nothing of what waits."""
        self._waiting.clear()

    def pass_on(self, frames: int | None = None) -> None:
        """The network takes some of what waits, or all; the host is told that there is room."""
        count = len(self._waiting) if frames is None else frames
        for frame in self._waiting[:count]:
            self._give(frame)
        del self._waiting[:count]
        if not self._waiting and self.connection is not None:
            self.connection.drained()


class Mirror:
    """What a client holds of a channel."""

    def __init__(self, uri: str) -> None:
        self.kind = uris.channel_kind(uri)
        assert self.kind is not None
        self.state: Json = {}
        self.seq = 0

    def reset(self, snapshot: Json) -> None:
        self.state, self.seq = snapshot["state"], snapshot["fromSeq"]

    def apply(self, envelope: Json) -> None:
        if envelope["serverSeq"] > self.seq:
            assert self.kind is not None
            self.state = REDUCERS[self.kind](self.state, envelope["action"])


class WireClient:
    """One client, over as many sockets, one after the other, as the test gives it."""

    _names = itertools.count(1)

    def __init__(
        self,
        host: Host,
        *,
        client_id: str | None = None,
        versions: list[str] | None = None,
        info: Json | None = None,
        meta: Json | None = None,
        principal: Principal = ALICE,
        root: str = ROOT,
        site: str | None = None,
    ) -> None:
        self.host = host
        self.site = site
        self.client_id = client_id or f"client-{next(self._names)}"
        self.versions = versions or ["1.0.0"]
        self.info, self.meta, self.root = info, meta, root
        self.principal = principal
        self.mirrors: dict[str, Mirror] = {}
        self.rows: dict[str, Json] = {}
        """The catalogue, as `listSessions` and the root's notifications make it."""
        self.pending: dict[int, tuple[str, Json]] = {}
        """What was dispatched and not answered."""
        self.envelopes: list[Json] = []
        self.refusals: list[Json] = []
        self.notes: list[Json] = []
        self.last_seen = 0
        self.result: Json = {}
        """Of `initialize`."""
        self._ids = itertools.count(1)
        self._seqs = itertools.count(1)
        self._asked: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self.open()

    # ── the socket ───────────────────────────────────────────────────────────────────────────────────────────
    def open(self) -> None:
        """A new socket; the one before, if it lives, is left as it is."""
        self.wire = Wire(self._receive)
        self.connection = self.host.connect(self.wire, self.principal, site=self.site)
        self.wire.connection = self.connection
        self._number = 0

    async def drop(self) -> None:
        """The socket breaks."""
        self.wire.lose()
        self.wire.close(1006, "")
        await self.connection.closed()

    def _receive(self, message: Json) -> None:
        if message.get("method") == "action":
            self._envelope(message["params"])
        elif "method" in message:
            self._note(message)
        else:
            self._answer(message)

    def _envelope(self, envelope: Json) -> None:
        assert envelope["serverSeq"] > self._number, "T6: the number moves with every envelope"
        self._number = envelope["serverSeq"]
        self.last_seen = max(self.last_seen, self._number)
        self.envelopes.append(envelope)
        self._take(envelope)

    def _take(self, envelope: Json) -> None:
        origin = envelope.get("origin", {})
        assert origin is not None, "AHP 1.8: an origin is absent, never null"
        if "rejectionReason" in envelope:
            assert origin["clientId"] == self.client_id, "T7: a refusal is the sender's alone"
            self.refusals.append(envelope)
        elif envelope["channel"] in self.mirrors:
            self.mirrors[envelope["channel"]].apply(envelope)
        if origin.get("clientId") == self.client_id:
            self.pending.pop(origin["clientSeq"], None)

    def _note(self, message: Json) -> None:
        self.notes.append(message)
        params = message["params"]
        match message["method"]:
            case "root/sessionAdded":
                self.rows[params["summary"]["resource"]] = params["summary"]
            case "root/sessionRemoved":
                self.rows.pop(params["session"], None)
            case "root/sessionSummaryChanged" if params["session"] in self.rows:
                self.rows[params["session"]] = {**self.rows[params["session"]], **params["changes"]}

    def _answer(self, message: Json) -> None:
        if message["id"] not in self._asked:
            return
        method, future = self._asked.pop(message["id"])
        if "error" in message:
            future.set_exception(RpcError(message["error"]))
            return
        result = message["result"]
        if method == "subscribe" and "snapshot" in result:
            self._reset(result["snapshot"])
        elif method == "initialize":
            self._number = self.last_seen = result["serverSeq"]
            for snapshot in result["snapshots"]:
                self._reset(snapshot)
        elif method == "reconnect":
            self._came_back(result)
        elif method == "listSessions":
            for summary in result["items"]:
                self.rows[summary["resource"]] = summary
        if not future.done():
            future.set_result(result)

    def _reset(self, snapshot: Json) -> None:
        self.mirrors.setdefault(snapshot["resource"], Mirror(snapshot["resource"])).reset(snapshot)

    def _came_back(self, result: Json) -> None:
        if result["type"] == "replay":
            for envelope in result["actions"]:
                assert envelope["serverSeq"] > self.last_seen, "a replay begins behind what was seen"
                assert "rejectionReason" not in envelope, "refusals are never replayed"
                self.last_seen = envelope["serverSeq"]
                self._take(envelope)
            for gone in result["missing"]:
                self.mirrors.pop(gone, None)
            return
        given = {snapshot["resource"] for snapshot in result["snapshots"]}
        for gone in self.mirrors.keys() - given:
            del self.mirrors[gone]
        for snapshot in result["snapshots"]:
            self._reset(snapshot)
            self.last_seen = max(self.last_seen, snapshot["fromSeq"])

    # ── what it says ─────────────────────────────────────────────────────────────────────────────────────────
    async def raw(self, frame: str | bytes) -> list[Json]:
        """Any frame; what was written back while it was taken in."""
        before = len(self.wire.frames)
        await self.connection.receive(frame)
        return self.wire.frames[before:]

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[asyncio.Future[Any], Awaitable[None]]:
        """A request: its answer, and what hands it to the host (await it, or make it a task)."""
        request_id = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = (method, future)
        frame = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return future, self.connection.receive(frame)

    async def request(self, method: str, **params: Any) -> Any:
        """Its result; raises `RpcError`."""
        params.setdefault("channel", self.root)
        future, taken = self.ask(method, params)
        await taken
        async with asyncio.timeout(10):
            return await future

    async def fails(self, method: str, **params: Any) -> RpcError:
        """The error of a request that has to fail."""
        try:
            result = await self.request(method, **params)
        except RpcError as error:
            return error
        raise AssertionError(f"{method} was answered: {result!r}")

    async def initialize(self, *subscriptions: str, **more: Any) -> Json:
        params: Json = {
            "protocolVersions": self.versions,
            "clientId": self.client_id,
            "initialSubscriptions": list(subscriptions),
            **more,
        }
        if self.info is not None:
            params["clientInfo"] = self.info
        if self.meta is not None:
            params["_meta"] = self.meta
        self.result = await self.request("initialize", **params)
        return self.result

    async def subscribe(self, channel: str, **more: Any) -> Json:
        """The state in the snapshot."""
        snapshot: Json = (await self.request("subscribe", channel=channel, **more))["snapshot"]
        state: Json = snapshot["state"]
        return state

    async def unsubscribe(self, channel: str) -> None:
        self.mirrors.pop(channel, None)
        await self.notify("unsubscribe", channel=channel)

    async def notify(self, method: str, **params: Any) -> None:
        await self.connection.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    async def dispatch(
        self, channel: str, action_type: str, /, client_seq: int | None = None, **fields: Any
    ) -> int:
        """Dispatch an action under the next number (or that one); the number."""
        number = next(self._seqs) if client_seq is None else client_seq
        action = {"type": action_type, **fields}
        if number:
            self.pending[number] = (channel, action)
        await self.notify("dispatchAction", channel=channel, clientSeq=number, action=action)
        return number

    async def do(self, channel: str, action_type: str, /, **fields: Any) -> Json:
        """Dispatch and wait for the answer: the envelope, refused or not. Needs a subscription to be answered."""
        number = await self.dispatch(channel, action_type, **fields)
        await until(lambda: number not in self.pending)
        return next(
            envelope
            for envelope in reversed(self.envelopes)
            if envelope.get("origin") == {"clientId": self.client_id, "clientSeq": number}
        )

    async def reconnect(self, *, again: bool = True) -> Json:
        """A new socket under the same id; what was not answered is sent again under its numbers."""
        self.open()
        self._number = self.last_seen
        result: Json = await self.request(
            "reconnect",
            clientId=self.client_id,
            lastSeenServerSeq=self.last_seen,
            subscriptions=list(self.mirrors),
        )
        if again:
            for number, (channel, action) in list(self.pending.items()):
                await self.notify("dispatchAction", channel=channel, clientSeq=number, action=action)
        return result

    # ── short words ──────────────────────────────────────────────────────────────────────────────────────────
    async def create(self, uri: str, **more: Any) -> str:
        """A session, subscribed to, its default chat as well: the chat's URI."""
        await self.request("createSession", channel=uri, provider="test", **more)
        state = await self.subscribe(uri)
        await self.subscribe(state["defaultChat"])
        chat: str = state["defaultChat"]
        return chat

    async def start(self, chat: str, text: str, turn: str | None = None, **more: Any) -> str:
        """A turn, accepted or refused: its id."""
        turn = turn or f"turn-{next(self._names)}"
        await self.do(
            chat,
            "chat/turnStarted",
            turnId=turn,
            startedAt="2026-03-01T10:00:00.000Z",
            message=message(text, **more),
        )
        return turn

    async def say(self, chat: str, text: str, **more: Any) -> Json:
        """A turn, ended: the turn."""
        turn = await self.start(chat, text, **more)
        await until(lambda: not self.running(chat))
        return self.turn(chat, turn)

    def running(self, chat: str) -> bool:
        return "activeTurn" in self.mirrors[chat].state

    def turn(self, chat: str, turn: str) -> Json:
        found: Json = next(entry for entry in self.mirrors[chat].state["turns"] if entry["id"] == turn)
        return found

    def state(self, channel: str) -> Json:
        return self.mirrors[channel].state

    async def announce(self, session: str, *tools: Json) -> Json:
        """The tools that this client has (AHP `ToolDefinition`): the answer."""
        active = {"clientId": self.client_id, "displayName": self.client_id, "tools": list(tools)}
        return await self.do(session, "session/activeClientSet", activeClient=active)

    def calls(self, chat: str) -> list[Json]:
        """The tool calls of the turn that runs, else of the last one."""
        state = self.state(chat)
        turn = state.get("activeTurn") or (state["turns"][-1] if state["turns"] else {})
        return [part["toolCall"] for part in turn.get("responseParts", ()) if part["kind"] == "toolCall"]

    async def call_in(self, chat: str, state: str) -> Json:
        """The newest tool call, once it is in that state."""
        await until(lambda: self.calls(chat) and self.calls(chat)[-1]["status"] == state)
        return self.calls(chat)[-1]

    async def of_call(self, chat: str, action_type: str, /, **fields: Any) -> Json:
        """An action on the newest tool call of the turn that runs: the answer."""
        ids = {
            "turnId": self.state(chat)["activeTurn"]["id"],
            "toolCallId": self.calls(chat)[-1]["toolCallId"],
        }
        return await self.do(chat, action_type, **{**ids, **fields})

    def kinds(self, channel: str | None = None) -> list[str]:
        """The types of the actions that came."""
        return [env["action"]["type"] for env in self.envelopes if channel in (None, env["channel"])]


def message(text: str, **more: Any) -> Json:
    return {"text": text, "origin": {"kind": "user"}, **more}


def answer_of(turn: Json) -> str:
    """The text of a turn's answer."""
    return "".join(part["content"] for part in turn["responseParts"] if part["kind"] == "markdown")


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait for it; fails when it does not come."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (a condition of any kind: nobody can set an event for it)
            await asyncio.sleep(0.001)


async def quiet(host: Host) -> None:
    """Nothing runs, nothing waits to be written, nothing is held back."""
    chats = [chat for session in host.sessions.values() for chat in session.chats.values()]
    await until(
        lambda: all(
            not (chat.turns.running or chat.turns._stops or chat.turns._endings or chat._worker)
            for chat in chats
        )
    )
    await asyncio.sleep(0.02)


# ── mirrors and snapshots ────────────────────────────────────────────────────────────────────────────────────────
def comparable(kind: str | None, state: Json) -> Json:
    """Without what no action carries: a chat's title and what can be undone in it, a session's activity."""
    state = {key: value for key, value in state.items() if value is not None}
    if kind == "chat":
        state.pop("title", None)
        state.pop("_meta", None)
        state.pop("turnsNextCursor", None)
    if kind == "session":
        state["status"] &= ~status.ACTIVITY_MASK
        state.pop("activity", None)
    return state


async def agree(host: Host, *clients: WireClient) -> None:
    """Every mirror of these clients is what a newcomer of their kind is given."""
    for client in clients:
        fresh = WireClient(
            host, versions=client.versions, info=client.info, meta=client.meta, root=client.root
        )
        await fresh.initialize()
        fresh.connection.respell(client.connection.spelling)
        for channel, mirror in client.mirrors.items():
            given = comparable(mirror.kind, await fresh.subscribe(channel))
            held = comparable(mirror.kind, mirror.state)
            if mirror.state.get("turnsNextCursor") is not None:
                count = len(held["turns"])
                given["turns"] = given["turns"][len(given["turns"]) - count :]
            assert held == given, f"{client.client_id} of {channel}"
        await fresh.drop()


# ── an agent on strings ──────────────────────────────────────────────────────────────────────────────────────────
Play = Callable[[Prompt, TurnSink], Awaitable[None]]


async def echo(prompt: Prompt, sink: TurnSink) -> None:
    sink.markdown(f"You said: {prompt.text}")


TOOLS = Capabilities(several_chats=True, several_directories=True, tools=True)
"""Of a scripted agent whose model takes tools."""


async def use(prompt: Prompt, sink: TurnSink, name: str, arguments: Json | None = None) -> ToolResult:
    """The model calls a tool that it was offered: what it is told."""
    tool = next(tool for tool in prompt.tools if tool.name == name)
    call = sink.tool(tool.name, title=tool.title, contributor=tool.contributor)
    return await tool.call(call, arguments or {})


def using(name: str, arguments: Json | None = None) -> Play:
    """A turn in which the model calls one tool, and says again what it was told."""

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown((await use(prompt, sink, name, arguments)).text)

    return play


class Line(Conversation):
    """One conversation of the scripted agent."""

    def __init__(self, agent: Scripted, start: Start) -> None:
        self.agent = agent
        self.start = start
        self.closed = False

    @property
    def memory(self) -> str | None:
        if isinstance(self.agent.memory, Exception):
            raise self.agent.memory
        return self.agent.memory

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        self.agent.prompts.append(prompt)
        await self.agent.play(prompt, sink)

    async def configure(self, config: Mapping[str, Any]) -> None:
        self.agent.configured.append(dict(config))

    async def stop(self, running: asyncio.Task[None]) -> None:
        if self.agent.on_stop is None:
            await super().stop(running)
        else:
            await self.agent.on_stop(running)

    async def close(self) -> None:
        self.closed = True
        if self.agent.on_close is not None:
            await self.agent.on_close()


class Scripted(Agent):
    """Does in each turn what `play` does; a test replaces what it wants to see go wrong."""

    provider = "test"
    display_name = "Scripted"
    description = "Does what the test says"
    capabilities = Capabilities(several_chats=True, several_directories=True)

    def __init__(self, provider: str = "test") -> None:
        self.provider = provider
        self.play: Play = echo
        self.on_stop: Callable[[asyncio.Task[None]], Awaitable[None]] | None = None
        self.on_close: Callable[[], Awaitable[None]] | None = None
        self.on_open: Callable[[], Awaitable[None]] | None = None
        self.memory: str | Exception | None = None
        self.schema: Json = {"type": "object", "properties": {}}
        self.probed = Probe(ready=True, models=[Model("m", "M")])
        self.prompts: list[Prompt] = []
        self.configured: list[Json] = []
        self.lines: list[Line] = []

    async def probe(self) -> Probe:
        return self.probed

    def config_schema(self, values: Mapping[str, Any]) -> Json:
        return self.schema

    async def open(self, start: Start) -> Conversation:
        if self.on_open is not None:
            await self.on_open()
        line = Line(self, start)
        self.lines.append(line)
        return line


# ── stores ───────────────────────────────────────────────────────────────────────────────────────────────────────
class Failing(MemoryStore):
    """A store whose named calls fail, as on a full disk."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: set[str] = set()
        self.gates: dict[str, asyncio.Event] = {}
        """Calls that wait for an event."""

    async def _may(self, call: str) -> None:
        if call in self.gates:
            await self.gates[call].wait()
        if call in self.fails:
            raise StoreError(f"{call}: the disk is full.")

    async def sessions(self) -> list[SessionRecord | Unreadable]:
        await self._may("sessions")
        return await super().sessions()

    async def claim(self, session_id: str) -> str | None:
        await self._may("claim")
        return await super().claim(session_id)

    async def put_session(self, record: SessionRecord) -> None:
        await self._may("put_session")
        await super().put_session(record)

    async def delete_session(self, session_id: str, keep: Collection[str] = ()) -> None:
        await self._may("delete_session")
        await super().delete_session(session_id, keep)

    async def put_chat(self, session_id: str, record: ChatRecord) -> None:
        await self._may("put_chat")
        await super().put_chat(session_id, record)

    async def load_chat(self, session_id: str, chat: str) -> StoredChat:
        await self._may("load_chat")
        return await super().load_chat(session_id, chat)

    async def delete_chat(self, session_id: str, chat: str) -> None:
        await self._may("delete_chat")
        await super().delete_chat(session_id, chat)

    async def begin_turn(self, session_id: str, chat: str, turn: Json) -> None:
        await self._may("begin_turn")
        await super().begin_turn(session_id, chat, turn)

    def journal(self, session_id: str, chat: str, action: bytes) -> None:
        if "journal" in self.fails:
            raise StoreError("journal: the store is not open.")
        super().journal(session_id, chat, action)

    async def end_turn(self, session_id: str, chat: str, turn: Json) -> None:
        await self._may("end_turn")
        await super().end_turn(session_id, chat, turn)

    async def truncate(self, session_id: str, chat: str, keep: str | None) -> None:
        await self._may("truncate")
        await super().truncate(session_id, chat, keep)


async def started(store: Store, *agents: Agent, directory: Path | None = None) -> Host:
    host = Host(store, agents or [Scripted()], HostOptions(default_directory=str(directory or "")))
    await host.start()
    return host
