"""Windows that talk to the host as the clients that people have do: versions, names, spellings, first minute.

A window is a WebSocket and JSON. It holds everything it is sent against what any client relies on, and when it closes
it holds what it made of the envelopes (`mirror`) against fresh snapshots. Nothing of the host's own code is used.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.interop.kinds import ROOT, Kind
from tests.interop.mirror import ACTIVITY, Json, clean, reduced
from tests.support.server import JupyterServer

PROVIDERS = ("echo", "assistant", "puppet")

KINDS = {
    "ahp-root": "root",
    "ahp-chat": "chat",
    "ahp-terminal": "terminal",
    "agenthost-terminal": "terminal",
}

# What came with which version, of what a host may say (the rest is older than any version that is served).
SINCE = {"chat/canvasesChanged": (0, 10, 0), "canvas/stateChanged": (0, 10, 0)}
ENDINGS = ("chat/turnComplete", "chat/error", "chat/turnCancelled")


class Refused(Exception):
    """The host answered a request with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


@dataclass
class Watched:
    """A channel that is subscribed to, as this window has it."""

    kind: str
    state: Json
    seq: int
    gone: bool = False
    """The host said so."""


@dataclass
class Window:
    """One connection of a client. `memory` is what the client keeps over connections."""

    socket: ClientConnection
    kind: Kind
    client_id: str
    inbox: list[Json] = field(default_factory=list)
    """Everything that came and answers no request of ours, in order."""
    watched: dict[str, Watched] = field(default_factory=dict)
    rows: dict[str, Json] | None = None
    """The list of sessions, kept as it is told; None until it was asked for."""
    serve: dict[str, Callable[[Json], Json]] = field(default_factory=dict)
    """What this window answers when the host asks, by method."""
    unasked: Callable[[Json], None] | None = None
    """Given what answers nothing that was sent with `request`; without one, that is a fault."""
    left: set[str] = field(default_factory=set)
    """Channels that it said it leaves, and may still hear a little of."""
    faults: list[str] = field(default_factory=list)
    seq: int = 0
    """The highest number that came."""
    version: str = ""

    def __post_init__(self) -> None:
        self._ids = itertools.count(1)
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._news = asyncio.Condition()
        self._read = 0
        self._at_once: dict[int, Callable[[Any], None]] = {}
        self._reader = asyncio.create_task(self._receive())

    # ── out ──────────────────────────────────────────────────────────────────────────────────────────────────
    async def send(self, message: Json) -> None:
        await self.socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    async def request(self, method: str, channel: str = ROOT, /, **params: Any) -> Any:
        """The result, or `Refused`. What it means for what is watched is done before the next message is read."""
        number = next(self._ids)
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        if method == "subscribe":
            self._at_once[number] = lambda result: self._subscribed(channel, result)
        elif method in ("initialize", "reconnect"):
            self._at_once[number] = self._greeted if method == "initialize" else self._caught_up
        await self.send({"id": number, "method": method, "params": {"channel": channel, **params}})
        async with asyncio.timeout(30):
            return await future

    async def notify(self, method: str, channel: str = ROOT, /, **params: Any) -> None:
        await self.send({"method": method, "params": {"channel": channel, **params}})

    async def dispatch(self, channel: str, action: Json, *, seq: int | None = None) -> int:
        number = next(self._numbers) if seq is None else seq
        await self.notify("dispatchAction", channel, clientSeq=number, action=action)
        return number

    # ── in ───────────────────────────────────────────────────────────────────────────────────────────────────
    async def _receive(self) -> None:
        try:
            async for frame in self.socket:
                self._take(frame)
                async with self._news:
                    self._news.notify_all()
        except ConnectionClosed:
            pass
        finally:
            for future in self._answers.values():
                if not future.done():
                    future.set_exception(ConnectionError(f"closed with {self.socket.close_code}"))
            async with self._news:
                self._news.notify_all()

    def _take(self, frame: str | bytes) -> None:
        self._hold(isinstance(frame, str), "a frame that is not text")
        message: Json = json.loads(frame)
        self._hold(message.get("jsonrpc") == "2.0", f"no JSON-RPC: {message}")
        self._check_spelling(message)
        if "method" not in message:
            self._answered(message)
            return
        self.inbox.append(message)
        if "id" in message:
            self._asked(message)
        elif message["method"] == "action":
            self._action(message["params"])
        else:
            self._told(message["method"], message["params"])

    def _answered(self, message: Json) -> None:
        number = message.get("id")
        if number not in self._answers:
            self._hold(self.unasked is not None, f"answers nothing: {message}")
            if self.unasked is not None:
                self.unasked(message)
            return
        at_once = self._at_once.pop(number, None)
        future = self._answers.pop(number)
        if "error" in message:
            future.set_exception(Refused(message["error"]))
            future.exception()
            return
        result = message["result"]
        if at_once is not None:
            at_once(result)
        future.set_result(result)

    def _subscribed(self, channel: str, result: Json) -> None:
        shot = result["snapshot"]
        self._hold(shot["resource"] == channel, f"subscribed {channel}, answered {shot['resource']}")
        self._install(shot, compare=True)

    def _greeted(self, hello: Json) -> None:
        self.version = hello["protocolVersion"]
        self.seq = hello["serverSeq"]
        for shot in hello["snapshots"]:
            self._install(shot, compare=False)

    def _caught_up(self, answer: Json) -> None:
        if answer["type"] == "snapshot":
            self.watched = {}
            for shot in answer["snapshots"]:
                self._install(shot, compare=False)
            return
        for channel in answer["missing"]:
            del self.watched[channel]
        for envelope in answer["actions"]:
            self.inbox.append({"method": "action", "params": envelope})
            self._action(envelope)

    def _asked(self, message: Json) -> None:
        handler = self.serve.get(message["method"])
        answer: Json = {"error": {"code": -32601, "message": "not here"}}
        if handler is not None:
            answer = handler(message["params"])
        task = asyncio.ensure_future(self.send({"id": message["id"], **answer}))
        task.add_done_callback(lambda done: done.exception())

    def _action(self, envelope: Json) -> None:
        extra = envelope.keys() - {"channel", "action", "serverSeq", "origin", "rejectionReason"}
        self._hold(not extra, f"an envelope with {extra}")
        self._hold(envelope.get("origin", {}) is not None, "an envelope whose origin is null")
        seq, action, channel = envelope["serverSeq"], envelope["action"], envelope["channel"]
        self._hold(seq > self.seq, f"number {seq} behind {self.seq}")
        self.seq = max(self.seq, seq)
        since = SINCE.get(action["type"], (0, 9, 0))
        version = tuple(int(part) for part in self.version.split("."))
        self._hold(since <= version, f"{action['type']} at {self.version}")
        if "rejectionReason" in envelope:
            self._hold(envelope["origin"]["clientId"] == self.client_id, f"another's refusal: {envelope}")
            return
        if action["type"] in ENDINGS:
            duration = action.get("duration")
            good = isinstance(duration, int | float) and duration >= 0
            self._hold(good, f"{action['type']} with the duration {duration!r}")
        watched = self.watched.get(channel)
        if watched is None:
            self._hold(channel in self.left, f"{action['type']} on {channel}, which is not subscribed to")
        elif seq > watched.seq:
            if action["type"] == "session/chatRemoved":
                self._lost(action["chat"])
            elif action["type"] == "session/chatAdded" and action["summary"]["resource"] in self.watched:
                self.watched[action["summary"]["resource"]].gone = False  # it moved here
            watched.state = reduced(watched.kind, watched.state, action)
            watched.seq = seq

    def _told(self, method: str, params: Json) -> None:
        self._hold(params.get("channel") == self.kind.root, f"{method} on {params.get('channel')}")
        if method == "root/sessionRemoved":
            self._lost(params["session"])
        rows = self.rows
        if rows is None:
            return
        if method == "root/sessionAdded":
            rows[params["summary"]["resource"]] = params["summary"]
        elif method == "root/sessionRemoved":
            rows.pop(params["session"], None)
        elif method == "root/sessionSummaryChanged":
            changes = params["changes"]
            fixed = changes.keys() & {"resource", "provider", "createdAt"}
            self._hold(not fixed, f"a summary changed in {fixed}")
            if params["session"] in rows:
                rows[params["session"]] = {**rows[params["session"]], **changes}

    def _lost(self, channel: str) -> None:
        """The host said that it is gone, and with a session its chats."""
        watched = self.watched.get(channel)
        if watched is None:
            return
        watched.gone = True
        for chat in watched.state.get("chats", ()):
            self._lost(chat["resource"])

    def _check_spelling(self, message: Json) -> None:
        """A window whose sessions are `<provider>:/` must never see the other spelling, and the other way round."""
        text = json.dumps(message)
        others = ("ahp-session:",) if not self.kind.scheme else tuple(f"{name}:/" for name in PROVIDERS)
        for other in others:
            self._hold(other not in text, f"spelled for somebody else ({other}): {text[:300]}")

    def _hold(self, is_right: bool, words: str) -> None:
        if not is_right:
            self.faults.append(words)

    # ── what it has ──────────────────────────────────────────────────────────────────────────────────────────
    def _install(self, shot: Json, *, compare: bool) -> None:
        channel = shot["resource"]
        kind = KINDS.get(channel.lower().partition(":")[0], "session")
        before = self.watched.get(channel)
        if compare and before is not None and not before.gone:
            mine, fresh = comparable(kind, before.state), comparable(kind, shot["state"])
            if "turnsNextCursor" in mine:  # it was given the newest turns alone
                mine.pop("turnsNextCursor")
                fresh["turns"] = fresh["turns"][-len(mine["turns"]) :] if mine["turns"] else []
            for key in mine.keys() | fresh.keys():
                same = mine.get(key) == fresh.get(key)
                self._hold(same, f"{channel} {key}: {mine.get(key)} here, {fresh.get(key)} there")
        self.watched[channel] = Watched(kind, shot["state"], shot["fromSeq"])
        self.left.discard(channel)
        self.seq = max(self.seq, shot["fromSeq"])

    def state(self, channel: str) -> Json:
        """As this window reduced it."""
        return self.watched[channel].state

    def actions(self, channel: str, *kinds: str) -> list[Json]:
        """Those that came on the channel (of these types), refusals left out."""
        return [
            envelope["action"]
            for envelope in self.envelopes(channel)
            if "rejectionReason" not in envelope and (not kinds or envelope["action"]["type"] in kinds)
        ]

    def envelopes(self, channel: str) -> list[Json]:
        return [
            message["params"]
            for message in self.inbox
            if message.get("method") == "action" and message["params"]["channel"] == channel
        ]

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────
    async def until(self, condition: Callable[[], Any], what: str = "", timeout: float = 20) -> None:
        """Wait until it holds; it is asked after each message."""
        async with self._news:
            try:
                async with asyncio.timeout(timeout):
                    await self._news.wait_for(lambda: condition() or self._reader.done())
            except TimeoutError:
                pass
        assert condition(), f"{what or 'what was waited for'} did not come; last: {self.inbox[-5:]}"

    async def message(self, matches: Callable[[Json], bool], what: str = "", timeout: float = 20) -> Json:
        """The next message that matches, among those that were not returned yet or passed over."""
        found: list[Json] = []

        def look() -> bool:
            while not found and self._read < len(self.inbox):
                message = self.inbox[self._read]
                self._read += 1
                if matches(message):
                    found.append(message)
            return bool(found)

        await self.until(look, what, timeout)
        return found[0]

    async def envelope(self, kind: str, channel: str | None = None, timeout: float = 20) -> Json:
        """The next envelope with an action of this type."""

        def matches(message: Json) -> bool:
            params = message.get("params", {})
            return (
                message.get("method") == "action"
                and params["action"]["type"] == kind
                and channel in (None, params["channel"])
            )

        envelope: Json = (await self.message(matches, kind, timeout))["params"]
        return envelope

    async def answer_to(self, number: int, timeout: float = 20) -> Json:
        """The envelope that answers the action dispatched under that number: its echo, or its refusal."""

        def mine(message: Json) -> bool:
            origin = message.get("params", {}).get("origin")
            return bool(origin == {"clientId": self.client_id, "clientSeq": number})

        await self.until(lambda: any(mine(message) for message in self.inbox), f"answer {number}", timeout)
        envelope: Json = next(message["params"] for message in self.inbox if mine(message))
        return envelope

    async def refused(self, channel: str, action: Json) -> str:
        """Dispatch an action that must be refused; the words of the refusal."""
        answer = await self.answer_to(await self.dispatch(channel, action))
        assert "rejectionReason" in answer, f"not refused: {answer}"
        assert answer["action"] == action
        reason: str = answer["rejectionReason"]
        return reason

    async def done(self, channel: str, action: Json) -> Json:
        """Dispatch an action that must be done; its echo."""
        answer = await self.answer_to(await self.dispatch(channel, action))
        assert "rejectionReason" not in answer, answer
        return answer

    # ── what clients do ──────────────────────────────────────────────────────────────────────────────────────
    def greeting(self) -> Json:
        params: Json = {"clientId": self.client_id, "protocolVersions": list(self.kind.versions)}
        if self.kind.info is not None:
            params["clientInfo"] = self.kind.info
        if self.kind.meta is not None:
            params["_meta"] = self.kind.meta
        return params

    async def initialize(self, **params: Any) -> Json:
        asked = {"initialSubscriptions": [self.kind.root], **params}
        hello: Json = await self.request("initialize", self.kind.root, **self.greeting(), **asked)
        return hello

    async def reconnect(self, before: Window) -> Json:
        """Come back as the client that `before` was, with what it had."""
        self.version, self.seq, self.watched = before.version, before.seq, dict(before.watched)
        self._numbers = before._numbers
        channels = sorted(before.watched, key=lambda channel: before.watched[channel].kind != "root")
        params = {"clientId": self.client_id, "lastSeenServerSeq": before.seq, "subscriptions": channels}
        answer: Json = await self.request("reconnect", self.kind.root, **params, _meta=self.kind.meta or {})
        return answer

    async def list(self) -> dict[str, Json]:
        limit = {} if self.kind.limit is None else {"limit": self.kind.limit}
        rows: dict[str, Json] = {}
        answer = await self.request("listSessions", self.kind.root, **limit)
        rows |= {row["resource"]: row for row in answer["items"]}
        if self.kind.limit is None:
            self.rows = dict(rows)
        return rows

    async def subscribe(self, channel: str, **params: Any) -> Json:
        state: Json = (await self.request("subscribe", channel, **params))["snapshot"]["state"]
        return state

    async def leave(self, channel: str) -> None:
        """A notification: nothing answers it."""
        await self.notify("unsubscribe", channel)
        del self.watched[channel]
        self.left.add(channel)

    async def unsubscribe(self, channel: str) -> None:
        """Leave, and be sure that nothing more comes."""
        await self.leave(channel)
        await self.request("ping")
        self.left.discard(channel)

    def active(self, *tools: str) -> Json:
        """What a window says of itself in a session."""
        listed = [{"name": tool, "description": tool, "inputSchema": {"type": "object"}} for tool in tools]
        return {"clientId": self.client_id, "tools": listed, "customizations": []}

    async def create(self, provider: str = "echo", identity: str | None = None, **params: Any) -> str:
        session = self.kind.session(provider, identity or str(uuid.uuid4()))
        asked = {
            "provider": provider,
            "workingDirectories": [],
            "config": {},
            "activeClient": self.active(),
            **params,
        }
        assert await self.request("createSession", session, **asked) is None
        return session

    async def open(self, session: str) -> str:
        """Subscribe to a session and to the chat that its state calls the default one."""
        state = await self.subscribe(session)
        assert state["lifecycle"] in ("creating", "ready")
        chat: str = state["defaultChat"]
        await self.subscribe(chat)
        return chat

    async def new_chat(self, provider: str = "echo", **params: Any) -> tuple[str, str]:
        session = await self.create(provider, **params)
        return session, await self.open(session)

    async def start(self, chat: str, text: str, turn: str | None = None, **message: Any) -> str:
        """Begin a turn, without waiting for anything."""
        turn = turn or f"request_{uuid.uuid4()}"
        await self.dispatch(chat, started(turn, text, **message))
        return turn

    async def ended(self, chat: str, turn: str, timeout: float = 20) -> Json:
        """The turn, once it has ended."""

        def find() -> Json | None:
            turns = self.state(chat)["turns"]
            return next((one for one in turns if one["id"] == turn), None)

        await self.until(find, f"the end of {turn}", timeout)
        found = find()
        assert found is not None
        return found

    async def say(self, chat: str, text: str, **message: Any) -> Json:
        """A turn from its start to its end."""
        return await self.ended(chat, await self.start(chat, text, **message))

    async def confirm_all(self) -> None:
        """What this window has is what the host has."""
        for channel, watched in tuple(self.watched.items()):
            try:
                await self.request("subscribe", channel)  # compared when it is answered
            except Refused as refused:
                self._hold(refused.code == -32001 and watched.gone, f"{channel} is lost: {refused}")
        if self.rows is not None:
            mine = self.rows
            theirs = await self.list()
            self._hold(mine.keys() == theirs.keys(), f"listed {mine.keys() ^ theirs.keys()}")
            for name in mine.keys() & theirs.keys():
                one, other = shown(mine[name]), shown(theirs[name])
                self._hold(one == other, f"row {name}: {one} here, {other} there")

    async def close(self) -> None:
        await self.socket.close()
        await self._reader


def started(turn: str, text: str, **message: Any) -> Json:
    return {
        "type": "chat/turnStarted",
        "turnId": turn,
        "startedAt": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "message": user_message(text, **message),
    }


def user_message(text: str, **message: Any) -> Json:
    return {"text": text, "origin": {"kind": "user"}, **message}


def answer_text(turn: Json) -> str:
    return "".join(part["content"] for part in turn["responseParts"] if part["kind"] == "markdown")


def comparable(kind: str, state: Json) -> Json:
    """Without what moves in snapshots alone: a chat's title and `_meta`, a session's own activity."""
    out = clean(state)
    if kind == "chat":
        out.pop("title", None)
        out.pop("_meta", None)
    elif kind == "session":
        out["status"] &= ~ACTIVITY
        out.pop("activity", None)
    return out


def shown(row: Json) -> Json:
    return {key: value for key, value in row.items() if value not in (None, "")}


@asynccontextmanager
async def window(
    server: JupyterServer, kind: Kind, *, client_id: str | None = None, greet: bool = True
) -> AsyncIterator[Window]:
    """A connected window; when it is left without an error, everything it was sent must have been right."""
    assert server.token is not None
    async with connect(
        f"{server.ws_url}?{kind.token}={quote(server.token)}",
        origin=kind.origin,  # type: ignore[arg-type]
        max_size=None,
        proxy=None,
        open_timeout=30,
        ping_interval=None,
    ) as socket:
        client = Window(socket, kind, client_id or str(uuid.uuid4()))
        try:
            if greet:
                await client.initialize()
            yield client
            if client.socket.close_code is None and client.version:
                await client.confirm_all()
        finally:
            await client.close()
    assert not client.faults, "\n".join(client.faults)
