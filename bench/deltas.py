"""CPU of the server for each delivered delta, beside a bare Tornado broadcast of the same frames in the same run.

    python -m bench.deltas [--rounds 5]

Starts one real Jupyter Server with the extension and `bench.server_side`, and one process of clients. Every figure is
a ratio of two medians taken in turns in that one server, so a slow or noisy machine moves both.
Aims: at most 1.0 times `write_message` with 10 clients and more, 2.0 with one; at most 1.1 times with 2,000 turns of
history; at most 2 times for each delta of a 1 MB answer against a 10 KB one; at most 0.3 times when deltas are joined.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "bench"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """The server under test."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        config = {
            "ServerApp": {"jpserver_extensions": {"jupyter_ahp": True, "bench.server_side": True}},
            "AHPExtension": {"data_dir": str(home / "ahp")},
        }
        (home / "config.json").write_text(json.dumps(config))
        env = {**os.environ, "PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(home), "HOME": str(home)}
        command = [sys.executable, "-m", "jupyter_server", f"--config={home / 'config.json'}", "--no-browser"]
        command += [
            f"--port={self.port}",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={home}",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--allow-root")
        self._log = (home / "server.log").open("wb")
        self._process = subprocess.Popen(
            command, env=env, stdout=self._log, stderr=subprocess.STDOUT, cwd=ROOT
        )

    def call(self, path: str, body: Any = None) -> Any:
        url = f"http://127.0.0.1:{self.port}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers={"Authorization": f"token {TOKEN}"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def wait(self) -> None:
        for _ in range(600):
            try:
                self.call("/ahp/status")
                return
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.1)
        raise SystemExit(f"The server did not start; see {self._log.name}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()


class Receiver(asyncio.Protocol):
    """A WebSocket client that only counts: frames come whole or not, unmasked; no library's cost in between."""

    def __init__(self, path: str, port: int, first: list[dict[str, Any]], end: bytes) -> None:
        self._request = (
            f"GET {path}?token={TOKEN} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n"
        )
        self._first = first
        self._end = end
        self._data = bytearray()
        self._open = False
        self.frames = 0
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request.encode())

    def send(self, message: dict[str, Any]) -> None:
        payload = json.dumps(message).encode()
        size = len(payload)
        head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFE]) + size.to_bytes(2, "big")
        self._transport.write(head + b"\0\0\0\0" + payload)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self._open:
            head, found, rest = bytes(self._data).partition(b"\r\n\r\n")
            if not found:
                return
            assert b" 101 " in head.split(b"\r\n")[0], head
            self._open, self._data = True, bytearray(rest)
            for message in self._first:
                self.send(message)
        at = 0
        while (size := self._frame(at)) is not None:
            start, stop = size
            payload = bytes(self._data[start:stop])
            at = stop
            self.frames += 1
            if b'"result"' in payload[:60] or b'"id"' in payload[:30]:
                self.answers.put_nowait(json.loads(payload))
            if self._end in payload:
                self.ended.set()
        del self._data[:at]

    def _frame(self, at: int) -> tuple[int, int] | None:
        data = self._data
        if len(data) - at < 2:
            return None
        size, start = data[at + 1] & 127, at + 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(data) - start < width:
                return None
            size, start = int.from_bytes(data[start : start + width], "big"), start + width
        return (start, start + size) if len(data) - start >= size else None


def handshake(client: str) -> list[dict[str, Any]]:
    params = {"channel": "ahp-root://", "protocolVersions": ["1.0.0"], "clientId": client}
    return [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}]


class Clients:
    """Sockets to the server, in a process of their own: commands come by standard input, one JSON line each."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[Receiver] = []

    async def _open(self, path: str, first: list[dict[str, Any]], end: bytes) -> Receiver:
        loop = asyncio.get_running_loop()
        receiver = Receiver(path, self._port, first, end)
        await loop.create_connection(lambda: receiver, "127.0.0.1", self._port)
        self._sockets.append(receiver)
        return receiver

    async def bare(self, count: int) -> None:
        for _ in range(count):
            await self._open("/bench/bare", [], b'"end"')
        await asyncio.sleep(0.3)

    async def ahp(self, count: int, chat: str, latency: int) -> None:
        watch = {"channel": chat, "view": {"turns": 1}, "delivery": {"maxLatencyMs": latency}}
        for _ in range(count):
            first = handshake(str(uuid.uuid4()))
            first.append({"jsonrpc": "2.0", "id": 2, "method": "subscribe", "params": watch})
            receiver = await self._open("/ahp", first, b"chat/turnComplete")
            for _ in first:
                await asyncio.wait_for(receiver.answers.get(), 60)

    async def finish(self) -> int:
        await asyncio.gather(*(receiver.ended.wait() for receiver in self._sockets))
        frames = self._sockets[0].frames if self._sockets else 0
        for receiver in self._sockets:
            receiver.ended.clear()
            receiver.frames = 0
        return frames

    def close(self) -> None:
        for receiver in self._sockets:
            receiver._transport.abort()
        self._sockets.clear()


async def serve_clients(port: int) -> None:
    clients = Clients(port)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command, *arguments = json.loads(line)
        result = None
        if command == "close":
            clients.close()
            await asyncio.sleep(0.2)
        elif command == "finish":
            result = await clients.finish()
        elif command == "bare":
            await clients.bare(*arguments)
        else:
            await clients.ahp(*arguments)
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


class Bench:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._clients = subprocess.Popen(
            [sys.executable, "-m", "bench.deltas", "--clients", str(server.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def tell(self, *command: Any) -> Any:
        assert self._clients.stdin is not None
        assert self._clients.stdout is not None
        self._clients.stdin.write(json.dumps(command) + "\n")
        self._clients.stdin.flush()
        return json.loads(self._clients.stdout.readline())

    def close(self) -> None:
        self._clients.kill()
        self._clients.wait()

    @contextmanager
    def watching(self, *command: Any) -> Iterator[None]:
        self.tell(*command)
        try:
            yield
        finally:
            self.tell("close")

    def bare(self, clients: int, count: int, size: int, chat: str, pace: float = 0.0) -> float:
        """CPU microseconds for each message of a plain broadcast; with no clients, what pacing alone costs."""
        turn = str(uuid.uuid4())
        asked = {"kind": "bare", "count": count, "size": size, "chat": chat, "turn": turn, "pace": pace}
        with self.watching("bare", clients):
            spent: float = self._server.call("/bench/run", asked)["cpu"]
            self.tell("finish")
        return spent * 1e6 / count

    def ahp(
        self, driver: Driver, clients: int, count: int, size: int, *, latency: int = 0, pace: float = 0.0
    ) -> float:
        """The same for the whole path of a chat's delta."""
        with self.watching("ahp", clients, driver.chat, latency):
            asked = {"kind": "ahp", "count": count, "size": size, "chat": driver.chat, "pace": pace}
            self._server.call("/bench/run", asked)
            driver.turn()
            spent: float = self._server.call("/bench/result")["cpu"]
            self.tell("finish")
        return spent * 1e6 / count


class Driver:
    """A client that makes one chat and starts its turns; it watches nothing."""

    def __init__(self, server: Server) -> None:
        from websockets.sync.client import connect

        self._open = ExitStack()
        url = f"ws://127.0.0.1:{server.port}/ahp?token={TOKEN}"
        self._socket = self._open.enter_context(
            connect(url, max_size=None, compression=None, ping_interval=None)
        )
        self._ids = 10
        self._seq = 0
        self.client = str(uuid.uuid4())
        self._request(handshake(self.client)[0])
        session = f"ahp-session:/{uuid.uuid4()}"
        self.ask("createSession", channel=session, provider="bench")
        state = self.ask("subscribe", channel=session)["snapshot"]["state"]
        self.chat: str = state["defaultChat"]
        self._session = session

    def rest(self) -> None:
        """Watch nothing any more."""
        params = {"channel": self._session}
        self._socket.send(json.dumps({"jsonrpc": "2.0", "method": "unsubscribe", "params": params}))

    def close(self) -> None:
        self._open.close()

    def _request(self, message: dict[str, Any]) -> Any:
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == message["id"]:
                assert "error" not in answer, answer
                return answer["result"]

    def ask(self, method: str, **params: Any) -> Any:
        self._ids += 1
        return self._request({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})

    def turn(self, wait: bool = False) -> None:
        self._seq += 1
        message = {"text": "go", "origin": {"kind": "user"}}
        action = {"type": "chat/turnStarted", "turnId": str(uuid.uuid4()), "message": message}
        action["startedAt"] = "2026-01-01T00:00:00.000Z"
        params = {"channel": self.chat, "clientSeq": self._seq, "action": action}
        self._socket.send(json.dumps({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}))
        while wait:  # the session's watcher is told when the chat is idle again
            told = json.loads(self._socket.recv())
            changes = told.get("params", {}).get("action", {}).get("changes", {})
            if changes.get("status", 8) & 8 == 0:
                return


def report(name: str, ratio: float, aim: float, detail: str) -> None:
    print(f"{name:<62} {ratio:6.2f}   aim {aim:4.1f}   {detail}", flush=True)


def in_turns(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each, taken one after the other in every round; the first round warms up."""
    taken = [[measure() for measure in measures] for _ in range(rounds + 1)][1:]
    return [statistics.median(figures) for figures in zip(*taken, strict=True)]


def run(rounds: int, history: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        bench = None
        try:
            server.wait()
            server.call("/bench/run", {"kind": "prepare"})
            bench = Bench(server)
            measure(bench, server, rounds, history)
        finally:
            if bench is not None:
                bench.close()
            server.stop()


def measure(bench: Bench, server: Server, rounds: int, history: int) -> None:
    empty, long = Driver(server), Driver(server)
    for _ in range(history):
        long.turn(wait=True)
    empty.rest()
    long.rest()
    print(f"CPU of the server for deltas of 8 characters; medians of {rounds} rounds, taken in turns")
    for clients, count, aim in ((1, 4000, 2.0), (10, 1000, 1.0), (50, 300, 1.0)):
        bare, ours, old = in_turns(
            rounds,
            partial(bench.bare, clients, count, 8, empty.chat),
            partial(bench.ahp, empty, clients, count, 8),
            partial(bench.ahp, long, clients, count, 8),
        )
        each = f"{ours / clients:.1f} / {bare / clients:.1f} us each"
        report(f"{clients} clients: AHP / write_message", ours / bare, aim, each)
        each = f"{old / clients:.1f} / {ours / clients:.1f} us each"
        report(f"{clients} clients: {history} turns of history / none", old / ours, 1.1, each)
    small, large = in_turns(
        rounds, partial(bench.ahp, empty, 1, 640, 16), partial(bench.ahp, empty, 1, 65536, 16)
    )
    report(
        "1 client: a delta of a 1 MB answer / of a 10 KB one",
        large / small,
        2.0,
        f"{large:.1f} / {small:.1f} us",
    )
    nothing, plain, joined = in_turns(
        rounds,
        partial(bench.bare, 0, 250, 8, empty.chat, pace=0.02),
        partial(bench.bare, 10, 250, 8, empty.chat, pace=0.02),
        partial(bench.ahp, empty, 10, 250, 8, latency=50, pace=0.02),
    )
    net = f"{joined - nothing:.0f} / {plain - nothing:.0f} us a delta, net of pacing"
    report(
        "10 clients, 50 deltas/s: joined in 50 ms / write_message",
        (joined - nothing) / (plain - nothing),
        0.3,
        net,
    )
    empty.close()
    long.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--history", type=int, default=2000, help="turns of the long chat")
    parser.add_argument("--clients", type=int, metavar="PORT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clients:
        asyncio.run(serve_clients(arguments.clients))
    else:
        run(arguments.rounds, arguments.history)


if __name__ == "__main__":
    main()
