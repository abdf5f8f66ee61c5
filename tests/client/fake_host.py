"""A host that does what a test tells it to: the protocol as published, over real sockets, with an agent by hand."""

from __future__ import annotations

import asyncio
import http
import json
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal, Self, TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from jupyter_ahp.protocol import uris
from jupyter_ahp.protocol.meta import RELAYED
from jupyter_ahp.protocol.reducers import REDUCERS

Json = dict[str, Any]
T = TypeVar("T")
STARTED = "2026-01-01T00:00:00.000Z"


class FakeHost:
    """`received` is every message of every client, in order. `reply` is what the agent says to the next message."""

    def __init__(self) -> None:
        self.token = "secret"
        self.seq = 100
        self.states: dict[str, Json] = {uris.ROOT: {"agents": []}}
        self.envelopes: list[Json] = []
        self.received: list[Json] = []
        self.dials = 0
        self.relayed = 0
        """How many of them were for a page that does not reach the host by itself."""
        self.sockets: dict[ServerConnection, str] = {}
        self.subscribed: dict[ServerConnection, set[str]] = {}
        self.taken: dict[str, set[int]] = {}
        self.refuse_upgrade: int | None = None
        self.errors: dict[str, Json] = {}
        """Method to the error that it is answered with."""
        self.deaf: set[str] = set()
        """Methods that are not answered."""
        self.comes_back_by: Literal["replay", "snapshot", "page"] = "replay"
        self.cut: Literal["before", "after"] | None = None
        """Cut the line before the next action is applied, or behind it, before its echo."""
        self.refuses: dict[str, str] = {}
        """Action type to the reason for refusing it."""
        self.reply: list[str] | None = ["Hello", ", you."]
        """What every message is answered with; None: the turn is left running."""
        self._server: Server | None = None

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def start(self, port: int = 0) -> Self:
        self._server = await serve(
            self._client, "127.0.0.1", port, process_request=self._upgrade, max_size=None
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """The process is gone, and with it what it knew of its clients."""
        assert self._server is not None
        self.drop()
        self._server.close(close_connections=True)
        await self._server.wait_closed()
        self.taken.clear()

    def drop(self) -> None:
        """Every line is cut, without a word."""
        for socket in list(self.sockets):
            socket.transport.abort()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/base/"

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    # ── what a test says and sees ────────────────────────────────────────────────────────────────────────────────
    def add_chat(self, chat: str = "ahp-chat:/c1", session: str = "ahp-session:/s1", **state: Any) -> str:
        self.states[chat] = {
            "resource": chat,
            "title": "",
            "status": 1,
            "modifiedAt": STARTED,
            "turns": [],
            **state,
        }
        self.states[session] = {
            "provider": "fake",
            "title": "",
            "status": 1,
            "lifecycle": "ready",
            "activeClients": [],
            "chats": [{"resource": chat, "title": "", "status": 1, "modifiedAt": STARTED}],
            "defaultChat": chat,
        }
        return chat

    def say(self, channel: str, action: Json, origin: Json | None = None, *, quietly: bool = False) -> None:
        """An action happened: number it and tell who watches (nobody when `quietly`)."""
        self.states[channel] = REDUCERS[uris.channel_kind(channel) or "chat"](self.states[channel], action)
        self.seq += 1
        envelope: Json = {"channel": channel, "action": action, "serverSeq": self.seq}
        if origin is not None:
            envelope["origin"] = origin
        self.envelopes.append(envelope)
        if not quietly:
            for socket, channels in self.subscribed.items():
                if channel in channels:
                    self._send(socket, method="action", params=envelope)

    def answer_turn(self, chat: str, turn_id: str, pieces: list[str]) -> None:
        """The agent's answer, and the end of the turn."""
        part = {"kind": "markdown", "id": f"{turn_id}-p", "content": ""}
        self.say(chat, {"type": "chat/responsePart", "turnId": turn_id, "part": part})
        for piece in pieces:
            self.say(chat, {"type": "chat/delta", "turnId": turn_id, "partId": part["id"], "content": piece})
        self.say(chat, {"type": "chat/turnComplete", "turnId": turn_id, "duration": 1200})

    def turn_id(self, chat: str) -> str:
        """Of the turn that runs."""
        running: str = self.states[chat]["activeTurn"]["id"]
        return running

    def calls(self, method: str) -> list[Json]:
        """The params of every such message so far."""
        return [message["params"] for message in self.received if message.get("method") == method]

    def ended(self, chat: str) -> list[str]:
        """How each turn ended."""
        return [turn["state"] for turn in self.states[chat]["turns"]]

    async def until(self, happened: Callable[[], object], timeout: float = 10) -> None:
        async with asyncio.timeout(timeout):
            while not happened():  # noqa: ASYNC110 (nothing tells it)
                await asyncio.sleep(0.005)

    # ── the wire ─────────────────────────────────────────────────────────────────────────────────────────────────
    def _upgrade(self, socket: ServerConnection, request: Request) -> Response | None:
        self.dials += 1
        self.relayed += RELAYED in request.headers
        if request.path != "/base/ahp":
            return socket.respond(http.HTTPStatus.NOT_FOUND, "")
        if self.refuse_upgrade or request.headers.get("Authorization") != f"token {self.token}":
            return socket.respond(http.HTTPStatus(self.refuse_upgrade or 403), "")
        return None

    async def _client(self, socket: ServerConnection) -> None:
        self.sockets[socket] = ""
        self.subscribed[socket] = set()
        try:
            async for frame in socket:
                if socket.transport.is_closing():
                    return  # Cut: what had arrived is lost too.
                message = json.loads(frame)
                self.received.append(message)
                if message.get("method") == "dispatchAction":
                    self._dispatched(socket, message["params"])
                elif message.get("method") == "unsubscribe":
                    self.subscribed[socket].discard(message["params"]["channel"])
                elif "method" in message and message["method"] not in self.deaf:
                    self._request(socket, message)
        except ConnectionClosed:
            pass  # The test, or the client, cut it.
        finally:
            del self.sockets[socket], self.subscribed[socket]

    def _send(self, socket: ServerConnection, **message: Any) -> None:
        # Frames keep their order: each is written before this returns.
        text = json.dumps({"jsonrpc": "2.0", **message})
        socket.protocol.send_text(text.encode())
        socket.send_data()

    def ask(self, request_id: int, method: str, params: Json) -> None:
        """A request of the host's, to every client."""
        for socket in self.sockets:
            self._send(socket, id=request_id, method=method, params=params)

    def _request(self, socket: ServerConnection, message: Json) -> None:
        method, params = message["method"], message["params"]
        if method in self.errors:
            self._send(socket, id=message["id"], error=self.errors[method])
            return
        result = getattr(self, f"_on_{method}", lambda *_: None)(socket, params)
        if isinstance(result, Exception):
            code = -32008 if method == "reconnect" else -32001
            self._send(socket, id=message["id"], error={"code": code, "message": str(result)})
        else:
            self._send(socket, id=message["id"], result=result)

    def _shots(self, socket: ServerConnection, channels: list[str]) -> list[Json]:
        known = [channel for channel in channels if channel in self.states]
        self.subscribed[socket].update(known)
        return [
            {"resource": channel, "state": self.states[channel], "fromSeq": self.seq} for channel in known
        ]

    def _paged(self, shot: Json) -> Json:
        if len(shot["state"].get("turns", ())) < 2:
            return shot
        return {
            **shot,
            "state": {**shot["state"], "turns": shot["state"]["turns"][-1:], "turnsNextCursor": "x"},
        }

    def _on_initialize(self, socket: ServerConnection, params: Json) -> Json:
        self.sockets[socket] = params["clientId"]
        self.taken.setdefault(params["clientId"], set())
        shots = self._shots(socket, params.get("initialSubscriptions", []))
        return {"protocolVersion": "1.0.0", "serverSeq": self.seq, "snapshots": shots}

    def _on_reconnect(self, socket: ServerConnection, params: Json) -> Json | Exception:
        if params["clientId"] not in self.taken:
            return LookupError("unknown client")
        self.sockets[socket] = params["clientId"]
        wanted = params["subscriptions"]
        shots = self._shots(socket, wanted)
        if self.comes_back_by == "page":
            return {"type": "snapshot", "snapshots": [self._paged(shot) for shot in shots]}
        if self.comes_back_by == "snapshot":
            return {"type": "snapshot", "snapshots": shots}
        missed = [e for e in self.envelopes if e["serverSeq"] > params["lastSeenServerSeq"]]
        return {
            "type": "replay",
            "actions": [e for e in missed if e["channel"] in wanted],
            "missing": [channel for channel in wanted if channel not in self.states],
        }

    def _on_subscribe(self, socket: ServerConnection, params: Json) -> Json | Exception:
        shots = self._shots(socket, [params["channel"]])
        return {"snapshot": shots[0]} if shots else LookupError(f"Resource not found: {params['channel']}")

    def _on_createSession(self, socket: ServerConnection, params: Json) -> None:
        session = params["channel"]
        chat = session.replace("ahp-session:", "ahp-chat:")
        self.add_chat(chat, session)
        if params.get("provider"):
            self.states[session]["provider"] = params["provider"]

    def _on_listSessions(self, socket: ServerConnection, params: Json) -> Json:
        sessions = [uri for uri, state in self.states.items() if "lifecycle" in state]
        at = int(params.get("cursor", 0))
        page: Json = {
            "items": [
                {"resource": uri, "defaultChat": self.states[uri]["defaultChat"], "chats": []}
                for uri in sessions[at : at + 1]
            ]
        }
        return {**page, "nextCursor": str(at + 1)} if at + 1 < len(sessions) else page

    def _dispatched(self, socket: ServerConnection, params: Json) -> None:
        cut, self.cut = self.cut, None
        if cut == "before":
            socket.transport.abort()
            return
        client_id, client_seq = self.sockets[socket], params["clientSeq"]
        channel, action = params["channel"], params["action"]
        origin = {"clientId": client_id, "clientSeq": client_seq}
        if client_seq in self.taken[client_id]:
            return  # Its answer is in the replay or the snapshot.
        self.taken[client_id].add(client_seq)
        if (reason := self._objection(channel, action)) is not None:
            self.seq += 1
            envelope = {"channel": channel, "action": action, "serverSeq": self.seq, "origin": origin}
            self._send(socket, method="action", params={**envelope, "rejectionReason": reason})
            return
        if cut == "after":
            socket.transport.abort()
        self.say(channel, action, origin, quietly=cut == "after")
        if action["type"] == "session/titleChanged" and channel.startswith("ahp-chat:"):
            session = next(uri for uri, state in self.states.items() if state.get("defaultChat") == channel)
            changes = {"title": action["title"]}
            self.say(session, {"type": "session/chatUpdated", "chat": channel, "changes": changes})
        if action["type"] in ("chat/turnStarted", "chat/turnResume") and self.reply is not None:
            self.answer_turn(channel, action["turnId"], self.reply)

    def _objection(self, channel: str, action: Json) -> str | None:
        state, kind = self.states[channel], action["type"]
        if kind in self.refuses:
            return self.refuses[kind]
        if kind == "chat/turnStarted" and "activeTurn" in state:
            return "A turn is running in this chat."
        if kind == "chat/turnStarted" and any(turn["id"] == action["turnId"] for turn in state["turns"]):
            return "The chat has a turn of this id already."
        if kind == "chat/turnCancelled" and state.get("activeTurn", {}).get("id") != action["turnId"]:
            return "This turn does not run."
        return None


class ThreadedHost:
    """A `FakeHost` on a thread of its own, for tests whose own thread waits."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> FakeHost:
        self._thread.start()
        return self.run(self.host.start())

    def __exit__(self, *exc: object) -> None:
        self.run(self.host.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """On the host's thread."""

        async def called() -> T:
            return function(*args)

        return self.run(called())
