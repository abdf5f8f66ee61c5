"""A line to one MCP server. Imports the `mcp` package: at the first use, in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from jupyter_ahp._version import __version__
from jupyter_ahp.agents.assistant.mcp.config import BadServer, Spec, expanded
from jupyter_ahp.agents.processes import SERVERS_OWN, Child, NotStarted, environment

log = logging.getLogger(__name__)

Streams: TypeAlias = tuple[Any, Any]
"""What is read and what is written: memory streams of `SessionMessage`."""

START_SECONDS: Final = 60.0
"""That a server has to say what it has: many are downloaded by their first start."""
_PAGES: Final = 20
_CONNECT_SECONDS: Final = 15.0
_READ_SECONDS: Final = 600.0


class Unavailable(Exception):
    """A server that is not to be had; the words say why."""


class Line:
    """A server that runs. `open` makes one; it belongs to one event loop."""

    def __init__(self, spec: Spec, directories: Sequence[str], environ: Mapping[str, str]) -> None:
        self.spec = spec
        self.tools: Sequence[types.Tool] = ()
        self._directories = directories
        # Nobody's server has the credentials of this one, whatever a directory's `${…}` asks for.
        self._environ = {name: value for name, value in environ.items() if name not in SERVERS_OWN}
        self._child: Child | None = None
        self._lost = False
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        # A task of its own: what the client holds has to be left by the task that entered it.
        self._running = asyncio.create_task(self._run())

    @classmethod
    async def open(cls, spec: Spec, directories: Sequence[str], environ: Mapping[str, str]) -> Line:
        """Start it, or connect to it, and ask for its tools. Raises `Unavailable`."""
        line = cls(spec, directories, environ)
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(line._client)
        except TimeoutError:
            await line.close()
            raise Unavailable(f"it did not answer in {START_SECONDS:.0f} s{line._last_words}") from None
        except BaseException:
            await line.close()
            raise
        return line

    @property
    def alive(self) -> bool:
        return not self._lost and not self._running.done() and (self._child is None or self._child.alive)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Raises `Unavailable`."""
        client = await self._client
        try:
            return await client.call_tool(name, dict(arguments))
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED or not self.alive:
                self._lost = True  # for good, though an HTTP server may be there again
                raise Unavailable(f"the server is gone{self._last_words}") from error
            raise Unavailable(str(error)) from error

    async def close(self) -> None:
        """Say goodbye, and end its program with all that it started."""
        self._closing.set()
        if not self._client.done():
            self._running.cancel()
        await asyncio.wait({self._running})
        if not self._client.done():
            self._client.cancel()
        elif not self._client.cancelled():
            self._client.exception()  # whoever opened it has heard

    @property
    def _last_words(self) -> str:
        said = self._child.stderr.splitlines()[-1:] if self._child is not None else []
        return f"; it said: {said[0][:300]}" if said else ""

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                transport = await self._transport(stack)
                info = types.Implementation(name="jupyter-ahp", version=__version__)
                client = Client(transport, client_info=info, list_roots_callback=self._roots)
                await stack.enter_async_context(client)
                self.tools = await _tools_of(client)
                self._client.set_result(client)
                await self._closing.wait()
        except Exception as error:
            log.info("The line to the MCP server %s ended", self.spec.name, exc_info=error)
            if not self._client.done():
                self._client.set_exception(Unavailable(f"{_words(error)}{self._last_words}"))

    async def _transport(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Streams]:
        extra = {name: expanded(value, self._environ) for name, value in self.spec.extra.items()}
        if self.spec.kind == "stdio":
            argv = [expanded(part, self._environ) for part in self.spec.command]
            cwd = self._directories[0] if self._directories else None
            self._child = child = await Child.start(argv, cwd=cwd, env=environment(extra))
            stack.push_async_callback(child.close)
            return _streams(child)
        url = expanded(self.spec.url, self._environ)
        if self.spec.kind == "sse":
            return sse_client(url, headers=extra)
        host = urlsplit(url).hostname or ""
        here = host in ("localhost", "::1") or host.startswith("127.")
        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=_READ_SECONDS)
        http = httpx2.AsyncClient(headers=extra, timeout=timeout, trust_env=not here)
        await stack.enter_async_context(http)
        return streamable_http_client(url, http_client=http)

    async def _roots(self, context: object) -> types.ListRootsResult:
        roots = [types.Root.model_validate({"uri": Path(each).as_uri()}) for each in self._directories]
        return types.ListRootsResult(roots=roots)


async def _tools_of(client: Client) -> list[types.Tool]:
    if client.server_capabilities.tools is None:
        return []
    found: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


@asynccontextmanager
async def _streams(child: Child) -> AsyncIterator[Streams]:
    """A program's lines as the `mcp` package wants them. A program of ours, and not that package's, so that it ends as all
    others do."""
    heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    write, said = anyio.create_memory_object_stream[SessionMessage](16)

    async def hear() -> None:
        async with heard:
            while (line := await child.read()) is not None:
                try:
                    message: SessionMessage | Exception = SessionMessage(
                        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    )
                except ValueError as error:
                    message = error
                await heard.send(message)

    async def say() -> None:
        async with said:
            async for message in said:
                child.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        tasks.start_soon(say)
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()
            read.close()
            write.close()


def _words(error: BaseException) -> str:
    """What went wrong first, of all that went wrong with it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, NotStarted | BadServer):
        return str(error).rstrip(".")
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered {error.response.status_code}"
    if isinstance(error, httpx2.ConnectError):
        return "nothing answers there"
    return str(error).rstrip(".") or type(error).__name__
