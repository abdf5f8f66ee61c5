"""The tools of a turn, as an MCP server that an ACP agent starts by itself (`mcp_proxy.py`) and that is spoken for here.

The program that the agent starts only passes bytes on, to a port on loopback that takes whoever knows the secret of this
conversation. What an agent lists between two turns is what the last turn offered; what it calls then fails.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import logging
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acp.schema import EnvVariable, McpServerStdio

from jupyter_ahp._version import __version__
from jupyter_ahp.agents.base import Json, Tool, ToolResult, TurnOver

from .mcp_proxy import PORT, SECRET
from .turn import OURS, Turn

log = logging.getLogger(__name__)

_LONGEST = 64 * 1024 * 1024  # bytes of one message
_STILL = 5.0  # seconds between two words that a call still runs: a person may take long to allow it
_VERSION = "2025-06-18"  # of MCP, for a client that names none


class Bridge:
    """Listens once there is something to offer; owns what runs for the agents that are connected."""

    def __init__(self, turn: Callable[[], Turn | None]) -> None:
        self._turn = turn
        self._secret = secrets.token_urlsafe(32)
        self._tools: Sequence[Tool] = ()
        self._listening: asyncio.Server | None = None
        self._peers: dict[asyncio.Task[None], _Peer] = {}

    async def offer(self, tools: Iterable[Tool]) -> None:
        """What the turn that begins offers; whoever is connected is told, if it is something else."""
        before, self._tools = self._tools, list(tools)
        if self._listening is None:
            self._listening = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=_LONGEST)
        if [_listed(tool) for tool in before] != [_listed(tool) for tool in self._tools]:
            for peer in self._peers.values():
                peer.say({"method": "notifications/tools/list_changed"})

    @property
    def server(self) -> McpServerStdio:
        """How the agent starts it. Once something was offered."""
        assert self._listening is not None, "something was offered"
        port = self._listening.sockets[0].getsockname()[1]
        return McpServerStdio(
            name=OURS,
            command=sys.executable,
            args=["-I", str(Path(__file__).with_name("mcp_proxy.py"))],
            env=[EnvVariable(name=PORT, value=str(port)), EnvVariable(name=SECRET, value=self._secret)],
        )

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for task in self._peers:
            task.cancel()
        await asyncio.gather(*self._peers, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = self._peers[task] = _Peer(self, writer)
        try:
            async with asyncio.timeout(10):
                secret = (await reader.readline()).strip()
            if hmac.compare_digest(secret, self._secret.encode()):
                await peer.serve(reader)
        except (OSError, ValueError, TimeoutError) as error:
            log.debug("A connection for tools ended: %s", error)
        except asyncio.CancelledError:
            pass  # closed: the streams' own protocol would log it
        finally:
            del self._peers[task]
            await peer.close()
            writer.close()

    # ── what is asked ────────────────────────────────────────────────────────────────────────────────────────
    def listed(self) -> list[Json]:
        return [_listed(tool) for tool in self._tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Json:
        """MCP `CallToolResult`."""
        turn = self._turn()
        if turn is None or turn.stopped:
            return _failed("No turn runs that could call it.")
        if name not in turn.tools:
            return _failed(f"There is no tool {name!r} in this turn.")
        try:
            return _result(await turn.run_tool(name, arguments))
        except TurnOver:
            return _failed("The turn was stopped.")


class _Peer:
    """One program of an agent's that speaks MCP with us: JSON-RPC in lines."""

    def __init__(self, bridge: Bridge, writer: asyncio.StreamWriter) -> None:
        self._bridge = bridge
        self._writer = writer
        self._calls: dict[Any, asyncio.Task[None]] = {}

    def say(self, message: Json) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def serve(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if isinstance(message, dict) and "method" in message:
                self._take(message)
            await self._writer.drain()

    async def close(self) -> None:
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    def _take(self, message: Json) -> None:
        params = message.get("params") or {}
        number = message.get("id")
        match message["method"]:
            case "tools/call" if number is not None:
                task = asyncio.create_task(self._call(number, params))
                self._calls[number] = task
                task.add_done_callback(lambda _: self._calls.pop(number, None))
            case "notifications/cancelled":
                if (running := self._calls.get(params.get("requestId"))) is not None:
                    running.cancel()
            case method if number is not None:
                self.say({"id": number, **self._answer(method, params)})

    def _answer(self, method: str, params: Mapping[str, Any]) -> Json:
        match method:
            case "initialize":
                info = {"name": "jupyter-ahp", "title": "Jupyter", "version": __version__}
                version = params.get("protocolVersion") or _VERSION
                capabilities: Json = {"tools": {"listChanged": True}}
                return {
                    "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
                }
            case "ping":
                return {"result": {}}
            case "tools/list":
                return {"result": {"tools": self._bridge.listed()}}
            case _:
                return {"error": {"code": -32601, "message": f"There is no {method} here."}}

    async def _call(self, number: Any, params: Mapping[str, Any]) -> None:
        token = (params.get("_meta") or {}).get("progressToken")
        still = asyncio.create_task(self._still(token)) if token is not None else None
        try:
            arguments = params.get("arguments")
            result = await self._bridge.call(
                str(params.get("name")), arguments if isinstance(arguments, dict) else {}
            )
            self.say({"id": number, "result": result})
        finally:
            if still is not None:
                still.cancel()

    async def _still(self, token: Any) -> None:
        """A client gives up on a call that it hears nothing of."""
        count = 0
        while True:
            await asyncio.sleep(_STILL)
            count += 1
            self.say(
                {"method": "notifications/progress", "params": {"progressToken": token, "progress": count}}
            )


def _listed(tool: Tool) -> Json:
    hints = {"readOnlyHint": tool.effects in ("none", "read")}
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.parameters or {"type": "object"},
        "annotations": hints,
    }


def _result(result: ToolResult) -> Json:
    content: list[Json] = [{"type": "text", "text": result.text}]
    for image in result.images:
        data = base64.b64encode(image.data).decode()
        content.append({"type": "image", "data": data, "mimeType": image.media_type})
    said: Json = {"content": content, "isError": result.failed}
    if result.structured is not None:
        said["structuredContent"] = result.structured
    return said


def _failed(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": True}
