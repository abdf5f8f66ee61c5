"""Writes a document soon after it changed: never two writes at once, the newest wins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from .ports import StoreError

log = logging.getLogger(__name__)

_SOON = 0.2  # seconds; D2 and design, *Store*: a draft within a second
_RETRY = 5.0


class Saver:
    """Owns the task that writes. `write` takes what is true when it runs; it raises `StoreError` if it cannot."""

    def __init__(self, what: str, write: Callable[[], Awaitable[None]]) -> None:
        self._what = what
        self._write = write
        self._lock = asyncio.Lock()
        self._dirty = False
        self._task: asyncio.Task[None] | None = None

    def soon(self) -> None:
        self._dirty = True
        if self._task is None:
            self._task = asyncio.create_task(self._later())

    async def now(self) -> None:
        """On disk when this returns. Raises `StoreError`."""
        async with self._lock:
            self._dirty = False
            await self._write()

    async def close(self) -> None:
        """Write what waits; a failure is logged with what it cost."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._dirty:
            try:
                await self.now()
            except StoreError as error:
                log.error("%s was not saved, its last changes are lost: %s", self._what, error)

    def drop(self) -> None:
        """What this writes is gone: write nothing more."""
        self._dirty = False
        if self._task is not None:
            self._task.cancel()

    async def _later(self) -> None:
        delay = _SOON
        try:
            while True:
                await asyncio.sleep(delay)
                try:
                    await self.now()
                except StoreError as error:
                    log.error("%s could not be saved; trying again: %s", self._what, error)
                    self._dirty, delay = True, _RETRY
                    continue
                delay = _SOON
                if not self._dirty:
                    return
        finally:
            self._task = None
