"""The server's half of `bench/deltas.py`: a Jupyter Server extension beside jupyter_ahp, in the same process.

`/bench/bare` is a WebSocket whose handler does nothing but `write_message`; `/bench/run` streams an answer, either to
those sockets or through the whole path of an AHP chat (sink, reducer, numbering, encoding, journal, fan-out), and says
how much CPU this process used for it.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Mapping
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import websocket

from jupyter_ahp.app import AHPExtension
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Agent, Conversation, Model, Probe, Prompt, Start, TurnSink

DRAIN_EVERY = 50  # messages between waits for the sockets to be empty, for both kinds


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Bare(WebSocketMixin, websocket.WebSocketHandler, JupyterHandler):
    """A socket that only receives."""

    open_sockets: set[Bare]

    def initialize(self, sockets: set[Bare]) -> None:
        self.open_sockets = sockets

    async def get(self, *args: Any, **kwargs: Any) -> None:
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        self.open_sockets.add(self)

    def on_message(self, message: str | bytes) -> None:
        return

    def on_close(self) -> None:
        self.open_sockets.discard(self)


class Job:
    """What the next turn of the bench's agent streams, and what it measured."""

    def __init__(self, count: int, piece: str, streams: list[Any], pace: float) -> None:
        self.count = count
        self.piece = piece
        self.streams = streams
        self.pace = pace
        self.seconds = 0.0
        self.done = asyncio.Event()


class BenchConversation(Conversation):
    def __init__(self, agent: BenchAgent) -> None:
        self._agent = agent

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        job = self._agent.job
        if job is None:
            sink.markdown("A turn of the history. " * 10)
            return
        sink.markdown(".")
        await drained(job.streams)
        before = cpu()
        for index in range(job.count):
            sink.markdown(job.piece)
            await pause(index, job.streams, job.pace)
        await drained(job.streams)
        job.seconds = cpu() - before
        job.done.set()


class BenchAgent(Agent):
    provider = "bench"
    display_name = "Bench"
    description = "Streams as fast as it is told to"

    def __init__(self) -> None:
        self.job: Job | None = None

    async def probe(self) -> Probe:
        return Probe(True, [Model("bench", "Bench")])

    async def open(self, start: Start) -> Conversation:
        return BenchConversation(self)


async def drained(streams: list[Any]) -> None:
    for stream in streams:
        while stream.writing():  # noqa: ASYNC110 - a stream has no event for this
            await asyncio.sleep(0.001)


async def pause(index: int, streams: list[Any], pace: float) -> None:
    if index % DRAIN_EVERY == DRAIN_EVERY - 1:
        await drained(streams)
    else:
        await asyncio.sleep(pace)


class Run(JupyterHandler):
    """POST {kind: "bare" | "ahp", count, size, pace, chat}: stream, answer with CPU seconds."""

    def initialize(self, sockets: set[Bare], agent: BenchAgent, extension: AHPExtension) -> None:
        self._bare = sockets
        self._agent = agent
        self._extension = extension

    def check_xsrf_cookie(self) -> None:
        return

    async def post(self) -> None:
        asked: Mapping[str, Any] = json.loads(self.request.body)
        host: Host = await self._extension.running_host()
        host.roster.agents.setdefault("bench", self._agent)
        if asked["kind"] == "prepare":
            self.finish({})
            return
        piece = "lorem ip"[: asked["size"]].ljust(asked["size"], "x")
        if asked["kind"] == "bare":
            self.finish({"cpu": await self._broadcast(asked, piece)})
            return
        channel = await host.channel(asked["chat"])
        streams = [watcher._transport._stream for watcher in channel.watchers]  # type: ignore[attr-defined]
        self._agent.job = Job(asked["count"], piece, streams, asked["pace"])
        self.finish({})

    async def _broadcast(self, asked: Mapping[str, Any], piece: str) -> float:
        sockets = list(self._bare)
        streams = [socket.ws_connection.stream for socket in sockets if socket.ws_connection]
        action = {"type": "chat/delta", "turnId": asked["turn"], "partId": "p1", "content": piece}
        params = {"channel": asked["chat"], "action": action, "serverSeq": 1_000_000}
        frame = json.dumps({"jsonrpc": "2.0", "method": "action", "params": params}, separators=(",", ":"))
        await drained(streams)
        before = cpu()
        last = None
        for index in range(asked["count"]):
            for socket in sockets:
                last = socket.write_message(frame)
            await pause(index, streams, asked["pace"])
        if last is not None:
            await last
        await drained(streams)
        spent = cpu() - before
        for socket in sockets:
            await socket.write_message('{"end":true}')
        return spent


class Result(Run):
    """GET: wait for the AHP stream to end; its CPU seconds."""

    async def get(self) -> None:
        job = self._agent.job
        assert job is not None
        await job.done.wait()
        self._agent.job = None
        self.finish({"cpu": job.seconds})


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "bench.server_side"}]


def _load_jupyter_server_extension(server: Any) -> None:
    extension = next(iter(server.extension_manager.extension_apps["jupyter_ahp"]))
    sockets: set[Bare] = set()
    shared = {"sockets": sockets, "agent": BenchAgent(), "extension": extension}
    server.web_app.add_handlers(
        ".*$",
        [
            ("/bench/bare", Bare, {"sockets": sockets}),
            ("/bench/run", Run, shared),
            ("/bench/result", Result, shared),
        ],
    )
