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
        self._dropped = False
        self._task: asyncio.Task[None] | None = None

    def soon(self) -> None:
        if self._dropped:
            return
        self._dirty = True
        if self._task is None:
            self._task = asyncio.create_task(self._later())

    async def now(self) -> None:
        """On disk when this returns. Raises `StoreError`; what is true then is tried again."""
        async with self._lock:
            if self._dropped:
                return
            self._dirty = False
            try:
                await self._write()
            except StoreError:
                self.soon()
                raise
            except asyncio.CancelledError:
                self._dirty = True
                raise

    async def flush(self) -> None:
        """What waits is on disk when this returns. Raises `StoreError`: then it still waits."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if self._task is task:  # cancelled before it began, it does not say itself that it is gone
                self._task = None
        if self._dirty:
            await self.now()

    async def close(self) -> None:
        """Write what waits, and nothing after it; a failure is logged with what it cost."""
        try:
            await self.flush()
        except StoreError as error:
            log.error("%s was not saved, its last changes are lost: %s", self._what, error)
        self.drop()

    def drop(self) -> None:
        """What this writes is gone: write nothing more, whoever asks."""
        self._dropped = True
        self._dirty = False
        if self._task is not None:
            self._task.cancel()

    async def _later(self) -> None:
        delay = _SOON
        try:
            while self._dirty:
                await asyncio.sleep(delay)
                try:
                    await self.now()
                    delay = _SOON
                except StoreError as error:
                    log.error("%s could not be saved; trying again: %s", self._what, error)
                    delay = _RETRY
        finally:
            self._task = None
