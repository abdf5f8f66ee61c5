"""The thread that a process's blocking chats live on.

It has an event loop of its own and one connection to each host. So a chat streams, answers the host's pings and stays
connected while the main thread computes, and can be used from a cell (where an event loop runs already) and from any
thread.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import functools
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .connection import Connection
from .host import AnyHost

T = TypeVar("T")

_TICK = 0.25  # seconds between two looks of a waiting thread at how it goes
_LEAVE = 3.0  # seconds that the end of the process may wait for the connections to close

logger = logging.getLogger(__name__)


class Background:
    """The thread of one process's blocking chats. A forked child gets one of its own: threads are not forked."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._connections: dict[AnyHost, Connection] = {}
        self._chats: Counter[AnyHost] = Counter()
        self._connecting = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="jupyter-ahp", daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    def run(self, work: Coroutine[Any, Any, T], tick: Callable[[], None] | None = None) -> T:
        """What the coroutine returns or raises. `tick` is called in this thread now and then while it waits.

        An exception in the waiting thread (Ctrl C) cancels the coroutine.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("A blocking Chat would wait for itself here. Use AsyncChat.")
        future = self.start(work)
        try:
            while not concurrent.futures.wait([future], timeout=_TICK).done:
                if tick is not None:
                    tick()
            return future.result()
        except BaseException:
            future.cancel()  # Changes nothing when it is done.
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin it and do not wait. Who starts it cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call it in the event loop, soon."""
        self._loop.call_soon_threadsafe(function, *args)

    async def connection(self, host: AnyHost) -> Connection:
        """The one connection to this host, for one chat more: `left` says that it is gone. Raises `NoHost`."""
        async with self._connecting:
            connection = self._connections.get(host)
            if connection is None or connection.status == "closed":
                connection = self._connections[host] = Connection(host.resolve)
            self._chats[host] += 1
        try:
            await connection.open()
        except BaseException:
            await self.left(host)
            raise
        return connection

    async def left(self, host: AnyHost) -> None:
        """A chat has left its host. The last one takes the connection with it, unless that is a lasting one."""
        async with self._connecting:
            self._chats[host] -= 1
            if self._chats[host] > 0 or host.lasting:
                return
            del self._chats[host]
            connection = self._connections.pop(host, None)
            if connection is not None:
                await connection.close()

    def _leave(self) -> None:
        """At the end of the process: say good-bye to the hosts, and wait for it no longer than a moment."""
        if os.getpid() != self.pid:
            return  # The parent's thread is not here.
        future = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        if concurrent.futures.wait([future], timeout=_LEAVE).not_done:
            logger.info("The connections were not closed in %s s; the process ends without.", _LEAVE)
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LEAVE)
        self._loop.close()

    async def _close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))


@functools.cache
def _background_of(pid: int) -> Background:
    return Background()


def background() -> Background:
    """This process's."""
    return _background_of(os.getpid())
