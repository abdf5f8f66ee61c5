"""A world in which time is an instrument: a whole host, its store and its clients run on one clock that nobody waits for.

The loop jumps to the next timer when nothing else is to be done, and the store's threads are stood in for by writers
that do one thing after another, each when its time has come. So hours pass in milliseconds, two runs of the same steps
are the same, and a crash can be put between any two writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import selectors
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any
from unittest import mock

from jupyter_ahp.protocol.times import to_iso

_EPOCH = 1_772_359_200_000
"""2026-03-01T10:00:00Z, in milliseconds: when every simulated world begins."""


class Stuck(RuntimeError):
    """Nothing is left that could ever happen."""


class _Skipping(selectors.DefaultSelector):
    """Never sleeps: moves its loop's clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not ready:
            if timeout is None:
                raise Stuck("everything waits, and nothing is left that could end it")
            self.now += max(timeout, 0)
        return ready


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when nothing else is to be done; what is for a thread is done at once."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now

    def run_in_executor(
        self, executor: object, func: Callable[..., Any], *args: object
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  (whoever awaits it is told)
            future.set_exception(error)
        return future


class Writer:
    """In place of a store's thread: in order, each piece of work after a while, on the loop."""

    def __init__(self, delay: Callable[[], float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._delay = delay
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[object, ...]]] = deque()

    def submit(self, work: Callable[..., Any], *args: object) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, work, args))
        if len(self._waiting) == 1:
            self._loop.call_later(self._delay(), self._next)
        return future

    def _next(self) -> None:
        if not self._waiting:
            return  # a shutdown was ahead
        self._do()
        if self._waiting:
            self._loop.call_later(self._delay(), self._next)

    def _do(self) -> None:
        future, work, args = self._waiting.popleft()
        try:
            future.set_result(work(*args))
        except Exception as error:  # noqa: BLE001  (whoever awaits it is told)
            future.set_exception(error)

    def shutdown(self) -> None:
        while self._waiting:
            self._do()


@contextlib.contextmanager
def simulated(loop: Loop, chance: random.Random) -> Iterator[None]:
    """The host's clock is the loop's; a store's writes take as long as `chance` says, and the disk is not waited for."""

    def delay() -> float:
        return chance.choice((0.0, 0.0, 0.001, 0.005, 0.03))

    with contextlib.ExitStack() as stack:
        for what, instead in (
            ("jupyter_ahp.host.clock.now", lambda: to_iso(_EPOCH + loop.time() * 1000)),
            ("jupyter_ahp.host.clock.monotonic_ms", lambda: loop.time() * 1000),
            ("jupyter_ahp.store.files.ThreadPoolExecutor", lambda *_: Writer(delay)),
            ("jupyter_ahp.store.disk.os.fsync", lambda _: None),
        ):
            stack.enter_context(mock.patch(what, instead))
        yield
