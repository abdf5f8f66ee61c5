"""An agent host in a process that belongs to no Jupyter Server: nbconvert, papermill, a script, CI.

It is the server's host: configured by the same files, with the same agents, plugins and store. It has a thread and an event
loop of its own, opens no socket, and is reached by lines within the process from any thread and any event loop. It starts
with the first chat, ends with the last one unless a turn runs, and at the latest with the process. Another process with a
host of its own on the same store has its own sessions open; the store's locks see to that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # now: what it does at the end of the process is to come behind what we do
import functools
import getpass
import logging
import os
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from .client.errors import NoHost
from .client.ways import Socket, Way

if TYPE_CHECKING:
    from .app import AHPExtension
    from .host.connection import Connection
    from .host.grants import Grants
    from .host.host import Host
    from .host.ports import Frame, Ptys

T = TypeVar("T")

_LEAVE = 15.0  # seconds that the end of the process may wait for what runs to be ended, and written
_ENDED = "The agent host in this process has ended."

SAID = (
    "No Jupyter Server here, so this process holds its chats itself. They are kept, and a server of yours lists them. "
    "(To use a server: Chat(host=connect(url, token)).)\n"
)

logger = logging.getLogger(__name__)


class HostInProcess(Way):
    """The host of this process, as clients know one: `resolve` is the way to it. It is one host after another: each
    starts with the first line, and ends with the last.
    """

    lasting: ClassVar[bool] = False

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._life: _Life | None = None
        self._said = False
        self._over = False
        # Before Python ends its pools of threads, which hosts write with: `atexit` comes behind that.
        threading._register_atexit(self._leave)  # type: ignore[attr-defined]

    def say(self) -> None:
        """Tell the person that it is this host, once."""
        if not self._said:
            self._said = True
            sys.stderr.write(SAID)

    def resolve(self) -> Way:
        """How it is reached. Raises `NoHost` at the end of the process."""
        if self._over:
            raise NoHost(_ENDED)
        return self

    def dial(self) -> AbstractAsyncContextManager[Socket]:
        return self._line()

    @asynccontextmanager
    async def _line(self) -> AsyncGenerator[Socket, None]:
        life = self._entered()
        running = 0
        try:
            host = await asyncio.wrap_future(life.started)
            line = _Line(asyncio.get_running_loop(), life.loop)
            try:
                await life.awaited(line.connect(host))
                yield line
            finally:
                with suppress(NoHost):  # It has ended, and all lines with it.
                    running = await life.awaited(line.closed(host))
        finally:
            if self._left(life, running):
                await asyncio.wrap_future(life.end())

    def _entered(self) -> _Life:
        """The life that a line begins in."""
        with self._lock:
            if self._over:
                raise NoHost(_ENDED)
            if self._life is None or self._life.over or self._life.failed:
                self._life = _Life(self._life)
            self._life.lines += 1
            return self._life

    def _left(self, life: _Life, running: int) -> bool:
        """A line is gone, and so many turns run; whether the host ends with it."""
        with self._lock:
            life.lines -= 1
            life.over = life.over or (life.lines == 0 and running == 0)
            return life.over

    def _leave(self) -> None:
        """The process ends: what runs is ended so that it can be resumed."""
        with self._lock:
            self._over = True
            life = self._life
        if life is None or os.getpid() != self._pid:
            return  # A forked child has no thread of its parent's.
        try:
            life.end().result(_LEAVE)
        except TimeoutError:
            logger.warning("The agent host did not end in %.0f s; turns that ran can be resumed.", _LEAVE)


class _Life:
    """A host from its start to its end, and the thread that it lives on."""

    def __init__(self, before: _Life | None) -> None:
        self.lines = 0
        """Of clients, open or about to be; its owner counts them."""
        self.over = False
        """Its owner has it end: no line begins in it any more."""
        self.started: concurrent.futures.Future[Host] = concurrent.futures.Future()
        """Raises `NoHost` for one that cannot start."""
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        for future in (self.started, self._ended):
            future.set_running_or_notify_cancel()  # One who waits for it and leaves does not cancel it for all.
        self._before = before
        self.loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._handing = threading.Lock()
        self._handed: set[concurrent.futures.Future[Any]] = set()
        """What lines have it do on its loop."""
        self._is_deaf = False
        """It ends: nothing more is taken."""
        self._thread = threading.Thread(target=self._live, name="jupyter-ahp host", daemon=True)
        self._thread.start()

    @property
    def failed(self) -> bool:
        """It could not start."""
        return self.started.done() and self.started.exception() is not None

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, run on the host's loop."""
        with self._handing:
            if self._is_deaf:
                work.close()
                raise NoHost(_ENDED)
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
            self._handed.add(future)
        future.add_done_callback(self._handed.discard)
        return await asyncio.wrap_future(future)

    def end(self) -> concurrent.futures.Future[None]:
        """Have it end; done when it has."""
        try:
            self.loop.call_soon_threadsafe(self._ending.set)
        except RuntimeError:
            logger.debug("The host in this process had ended.")
        return self._ended

    def _live(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self._run())
        finally:
            if not self.started.done():
                self.started.set_exception(NoHost(_ENDED))
            self._ended.set_result(None)

    async def _run(self) -> None:
        if self._before is not None:
            # It may hold the locks of sessions still.
            await asyncio.wrap_future(self._before.end())
            self._before = None
        try:
            extension = await asyncio.to_thread(_configured)
            host = extension.make_host(os.getcwd(), ptys=_ptys(extension), grants=_grants())
            await host.start()
        except Exception as error:
            logger.debug("No host in this process", exc_info=True)
            problem = NoHost(f"No Jupyter Server here, and no agent host can start in this process: {error}")
            self.started.set_exception(problem)
            return
        plugins = None
        try:
            plugins = await extension.load_plugins(host)
            self.started.set_result(host)
            await self._ending.wait()
        finally:
            try:
                await host.stop()
                for connection in tuple(host.connections):
                    connection.close(1001, _ENDED)
                if plugins is not None:
                    await plugins.close()
            finally:
                await self._go_deaf()

    async def _go_deaf(self) -> None:
        """Take nothing more; what was taken is done before the loop ends, or those who wait for it would for ever."""
        with self._handing:
            self._is_deaf = True
            handed = list(self._handed)
        await asyncio.gather(*map(asyncio.wrap_future, handed), return_exceptions=True)


class _Line:
    """One client's line: a `Transport` to the host, a `Socket` to the client, each on its own event loop."""

    def __init__(self, of_client: asyncio.AbstractEventLoop, of_host: asyncio.AbstractEventLoop) -> None:
        self._of_client = of_client
        self._of_host = of_host
        self._to_client: asyncio.Queue[str | None] = asyncio.Queue()
        self._to_host: asyncio.Queue[str] = asyncio.Queue()
        self._buffered = 0
        self._why = _ENDED
        self._is_closed = False
        self._connection: Connection | None = None
        self._passing: asyncio.Task[None] | None = None

    # ── on the host's loop ───────────────────────────────────────────────────────────────────────────────────
    async def connect(self, host: Host) -> None:
        from .host.ports import Principal

        # As one with the server's own token: it is this person's process.
        principal = Principal(f"root:{socket.gethostname()}", _name())
        self._connection = host.connect(self, principal)
        self._passing = asyncio.create_task(self._pass_on(self._connection))

    async def _pass_on(self, connection: Connection) -> None:
        while True:
            await connection.receive(await self._to_host.get())

    def write(self, frame: Frame) -> None:
        if not self._is_closed:
            self._buffered += len(frame.payload)
            self._call(self._of_client, self._to_client.put_nowait, frame.payload.decode())

    @property
    def buffered(self) -> int:
        return self._buffered

    def _taken(self, size: int) -> None:
        self._buffered -= size
        if self._buffered == 0 and self._connection is not None and not self._is_closed:
            self._connection.drained()

    def close(self, code: int, reason: str) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._why = reason or _ENDED
            self._call(self._of_client, self._to_client.put_nowait, None)

    async def closed(self, host: Host) -> int:
        """The client is gone; how many turns run without it."""
        self._is_closed = True
        if self._passing is not None:
            self._passing.cancel()
            await asyncio.wait([self._passing])
        if self._connection is not None:
            await self._connection.closed()
        return host.running

    def _call(self, loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
        try:
            loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # that loop has ended, and all that waited on it
            self._is_closed = True

    # ── on the client's ──────────────────────────────────────────────────────────────────────────────────────
    async def recv(self) -> str:
        message = await self._to_client.get()
        if message is None:
            self._to_client.put_nowait(None)
            raise NoHost(self._why)
        self._call(self._of_host, self._taken, len(message.encode()))
        return message

    async def send(self, message: bytes, *, text: bool = True) -> None:
        self._call(self._of_host, self._to_host.put_nowait, message.decode())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        return await self.recv()


def _configured() -> AHPExtension:
    """The extension with the configuration that a server started here would have. Heavy."""
    from jupyter_core.application import JupyterApp

    from .app import AHPExtension

    files = JupyterApp(log=logger)
    for name in (f"jupyter_{AHPExtension.name}_config", "jupyter_server_config"):
        files.config_file_name = name
        files.load_config_file()
    return AHPExtension(config=files.config, log=logger)


def _grants() -> Grants:
    from .host.grants import Grants

    return Grants()


def _ptys(extension: AHPExtension) -> Ptys | None:
    """Where `!` commands run, if they may."""
    if not extension.terminals or os.name == "nt":
        return None
    from .ptys import PlainPtys

    return PlainPtys()


def _name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "you"


@functools.cache
def _host_of(pid: int) -> HostInProcess:
    return HostInProcess()


def host_in_process() -> HostInProcess:
    """This process's. A forked child has one of its own, as threads are not forked."""
    return _host_of(os.getpid())
