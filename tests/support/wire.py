"""A client that speaks AHP frame by frame, so that tests can send what a well-behaved client would not."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect

from .server import JupyterServer

Json = dict[str, Any]
ROOT_CHANNEL = "ahp-root://"


class RpcError(Exception):
    """The host answered a request with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Peer:
    """One WebSocket. Everything that arrives and is not the answer to `request` is kept in `inbox`, in order."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.client_id = f"test-{uuid.uuid4()}"
        self.inbox: list[Json] = []
        self._ids = itertools.count(1)
        self._client_seq = itertools.count(1)
        self._seen = 0

    async def send(self, message: Json) -> None:
        await self.socket.send(json.dumps(message))

    async def receive(self, timeout: float = 20) -> Json:
        async with asyncio.timeout(timeout):
            message: Json = json.loads(await self.socket.recv())
        return message

    async def request(self, method: str, channel: str = ROOT_CHANNEL, /, **params: Any) -> Any:
        """The result, or `RpcError`."""
        number = next(self._ids)
        await self.send(
            {"jsonrpc": "2.0", "id": number, "method": method, "params": {"channel": channel, **params}}
        )
        while True:
            message = await self.receive()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RpcError(message["error"])
                return message["result"]
            self.inbox.append(message)

    async def notify(self, method: str, channel: str, /, **params: Any) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": {"channel": channel, **params}})

    async def dispatch(self, channel: str, action: Json) -> int:
        number = next(self._client_seq)
        await self.notify("dispatchAction", channel, clientSeq=number, action=action)
        return number

    async def until(self, matches: Callable[[Json], bool], timeout: float = 30) -> Json:
        """The next message, kept or still to come, that `matches`; those before it stay in `inbox`, seen."""
        async with asyncio.timeout(timeout):
            while True:
                while self._seen < len(self.inbox):
                    message = self.inbox[self._seen]
                    self._seen += 1
                    if matches(message):
                        return message
                self.inbox.append(json.loads(await self.socket.recv()))

    async def action(self, kind: str, channel: str | None = None, timeout: float = 30) -> Json:
        """The action of the next envelope of this kind (on this channel)."""

        def matches(message: Json) -> bool:
            if message.get("method") != "action":
                return False
            params = message["params"]
            return params["action"]["type"] == kind and channel in (None, params["channel"])

        action: Json = (await self.until(matches, timeout))["params"]["action"]
        return action

    # ── What most tests begin with ───────────────────────────────────────────────────────────────────────────────
    async def initialize(self, **params: Any) -> Json:
        result: Json = await self.request(
            "initialize", **{"clientId": self.client_id, "protocolVersions": ["1.0.0"], **params}
        )
        return result

    async def new_chat(self, provider: str = "echo", **params: Any) -> tuple[str, str]:
        """A session and its default chat, both subscribed to."""
        session = f"ahp-session:/{uuid.uuid4()}"
        await self.request("createSession", session, provider=provider, **params)
        snapshot = (await self.request("subscribe", session))["snapshot"]
        chat: str = snapshot["state"]["defaultChat"]
        await self.request("subscribe", chat)
        return session, chat

    async def start_turn(self, chat: str, text: str) -> str:
        turn = str(uuid.uuid4())
        await self.dispatch(
            chat,
            {
                "type": "chat/turnStarted",
                "turnId": turn,
                "startedAt": "2026-01-01T00:00:00.000Z",
                "message": {"text": text, "origin": {"kind": "user"}},
            },
        )
        return turn

    async def chat_state(self, chat: str) -> Json:
        state: Json = (await self.request("subscribe", chat))["snapshot"]["state"]
        return state

    async def turns(self, chat: str) -> list[Json]:
        turns: list[Json] = (await self.chat_state(chat))["turns"]
        return turns


@asynccontextmanager
async def open_peer(
    server: JupyterServer, *, query: str | None = None, headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Peer]:
    """A connected peer. By default with the server's token as `?token=`; `query=""` for none."""
    if query is None:
        query = f"?token={quote(server.token)}" if server.token else ""
    async with connect(
        server.ws_url + query,
        additional_headers=headers,
        max_size=None,
        proxy=None,
        open_timeout=30,
        **options,
    ) as socket:
        yield Peer(socket)
