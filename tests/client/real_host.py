"""The real host in this process, over real sockets, with an agent by hand and a line that can be cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Self, TypeAlias

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import (
    Agent,
    Capabilities,
    Conversation,
    Frame,
    Principal,
    Probe,
    Prompt,
    Start,
    Steering,
    Store,
    TurnFailed,
    TurnSink,
)
from tests.host.harness import use

Json: TypeAlias = dict[str, Any]
Cut: TypeAlias = Literal["before", "replay", "snapshot", "restart"]


class ByHand(Agent):
    """Each turn does what `say` tells it to, in order: "done" ends it, "fail" and "resumable" end it badly, "read" reads
    the steering message that it was handed, "delegate" has a worker say so, "use x" calls the tool x and says what it said;
    anything else is said. Without orders, a turn waits for them.
    """

    provider = "hand"
    display_name = "By hand"
    description = "Does what the test says"
    capabilities = Capabilities(fork=True, steering=True)

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.steering: list[Steering] = []
        self.orders: asyncio.Queue[str] = asyncio.Queue()
        self.echoes = False
        """Every turn says back what it was told and ends."""

    def say(self, *orders: str) -> None:
        for order in orders:
            self.orders.put_nowait(order)

    @property
    def texts(self) -> list[str]:
        """What each turn was told."""
        return [prompt.text for prompt in self.prompts]

    async def probe(self) -> Probe:
        return Probe(ready=True)

    async def open(self, start: Start) -> Conversation:
        return _Conversation(self)


class _Conversation(Conversation):
    def __init__(self, agent: ByHand) -> None:
        self.agent = agent

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        self.agent.prompts.append(prompt)
        if self.agent.echoes:
            sink.markdown(prompt.text)
            return
        while (order := await self.agent.orders.get()) != "done":
            if order in ("fail", "resumable"):
                raise TurnFailed("test", "It failed.", resumable=order == "resumable")
            if order == "read":
                sink.steering_read(self.agent.steering.pop(0).id)
            elif order == "delegate":
                call = sink.tool("delegate", title="Delegate", call_id="c1")
                worker = sink.worker(call, "Look into it", title="Scout")
                worker.sink.markdown("so it is")
                worker.done()
                call.done("Delegated")
            elif order.startswith("use "):
                sink.markdown((await use(prompt, sink, order.removeprefix("use "))).text)
            else:
                sink.markdown(order)

    async def steer(self, message: Steering) -> bool:
        self.agent.steering.append(message)
        return True

    async def withdraw(self, message_id: str) -> bool:
        self.agent.steering = [message for message in self.agent.steering if message.id != message_id]
        return True


class _Transport:
    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket
        self.held: list[Frame] | None = None
        """What a slow network has not passed on."""

    def write(self, frame: Frame) -> None:
        if self.held is not None:
            self.held.append(frame)
        elif not self._socket.transport.is_closing():
            self._socket.protocol.send_text(frame.payload)
            self._socket.send_data()

    def let_go(self, count: int | None) -> None:
        held, self.held = self.held or [], None
        for frame in held[:count]:
            self.write(frame)
        if count is not None:
            self.held = held[count:]

    @property
    def buffered(self) -> int:
        return self._socket.transport.get_write_buffer_size()

    def close(self, code: int, reason: str) -> None:
        self._socket.transport.abort()


class RealHost:
    """A host on a port of its own.

    `cut`: the line of the next client that sends a message which `cuts` names is cut, before the host takes it in, or
    behind that and before anything is answered; then the client comes back by a replay, by a snapshot, or to another
    process.
    """

    def __init__(self, store: Store, agent: Agent) -> None:
        self.agent = agent
        self.cut: Cut | None = None
        self.cuts = ""
        self.was_cut = 0
        self.down = False
        """Nobody gets in."""
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """What happens while the line is cut."""
        self._store = store
        self._server: Server | None = None
        self._sockets: dict[ServerConnection, _Transport] = {}

    async def __aenter__(self) -> Self:
        self.host = await self._started()
        self._server = await serve(self._client, "127.0.0.1", 0, max_size=None)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def _started(self) -> Host:
        host = Host(self._store, [self.agent], HostOptions())
        await host.start()
        return host

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close(close_connections=True)
        await self._server.wait_closed()
        await self.host.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def drop(self) -> None:
        """Every line is cut, without a word."""
        for socket in list(self._sockets):
            socket.transport.abort()

    def hold(self) -> None:
        """What the host says is on its way, and does not arrive."""
        for transport in self._sockets.values():
            transport.held = []

    def let_go(self, count: int | None = None) -> None:
        """It arrives; or so many messages of it, and the rest does not."""
        for transport in self._sockets.values():
            transport.let_go(count)

    async def restart(self) -> None:
        """The server is started again: what it knew of its clients is gone, what is stored is not."""
        self.drop()
        await self.host.stop()
        self.host = await self._started()

    def cut_at(self, name: str, how: Cut) -> None:
        """At the next message that is, or carries, this: a request's method or an action's type."""
        self.cuts, self.cut = name, how

    async def _client(self, socket: ServerConnection) -> None:
        if self.down:
            socket.transport.abort()
            return
        transport = self._sockets[socket] = _Transport(socket)
        connection = self.host.connect(transport, Principal("user:mia", "Mia"))
        try:
            async for frame in socket:
                if socket.transport.is_closing():
                    return
                how = self._cut(json.loads(frame))
                if how == "before":
                    socket.transport.abort()
                    return
                if how is not None:
                    self.down = True
                    socket.transport.abort()
                await connection.receive(frame)
                if how is not None:
                    await self._behind(how, connection.client_id)
        except ConnectionClosed:
            pass  # The test, or the client, cut it.
        finally:
            del self._sockets[socket]
            await connection.closed()

    def _cut(self, message: Json) -> Cut | None:
        params = message.get("params") or {}
        names = (message.get("method"), (params.get("action") or {}).get("type"))
        if self.cut is None or self.cuts not in names:
            return None
        how, self.cut = self.cut, None
        self.was_cut += 1
        return how

    async def _behind(self, how: Cut, client_id: str) -> None:
        await asyncio.sleep(0.05)  # What it does about it, it has done.
        if how == "snapshot":
            self.host.clients[client_id].wants_snapshot = True
        if how == "restart":
            await self.restart()
        if self.meanwhile is not None:
            await self.meanwhile()
        self.down = False


async def until(happened: Callable[[], object], timeout: float = 10) -> None:
    async with asyncio.timeout(timeout):
        while not happened():  # noqa: ASYNC110 (nothing tells it)
            await asyncio.sleep(0.005)
