"""One channel's state as the host confirmed it, kept by the host's own reducers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..protocol import uris
from ..protocol.reducers import REDUCERS
from .errors import Refused

Json = dict[str, Any]
T = TypeVar("T")


class Mirror:
    """A channel that a connection is subscribed to. `state` is replaced, never changed: keep it as long as you like.

    A mirror outlives its socket: after a reconnect it goes on from the replay, or from a snapshot (AHP 1.7).
    """

    def __init__(self, channel: str, snapshot: Json) -> None:
        kind = uris.channel_kind(channel)
        if kind is None:
            raise ValueError(f"{channel} names no channel of AHP's.")
        self.channel = channel
        self._reduce = REDUCERS[kind]
        self.users = 1
        """How many subscribed to it through one connection; the last one to leave unsubscribes."""
        self.state: Json = snapshot["state"]
        self.ended: str | None = None
        """Why no more will come, once that is so."""
        self._seq: int = snapshot["fromSeq"]
        self._watchers: set[asyncio.Event] = set()

    def reset(self, snapshot: Json) -> None:
        """The host's state as of now, in place of ours."""
        self.state = snapshot["state"]
        self._seq = snapshot["fromSeq"]
        self._tell()

    def apply(self, action: Json, seq: int) -> None:
        """An accepted action. One that the last snapshot already holds changes nothing (T6)."""
        if seq <= self._seq:
            return
        self._seq = seq
        state = self._reduce(self.state, action)
        if state is not self.state:
            self.state = state
            self._tell()

    def end(self, why: str) -> None:
        """The channel is gone, or the connection was closed."""
        if self.ended is None:
            self.ended = why
            self._tell()

    @contextmanager
    def waking(self, changed: asyncio.Event) -> Iterator[None]:
        """Set this event whenever the state changes, or the mirror ends."""
        self._watchers.add(changed)
        try:
            yield
        finally:
            self._watchers.discard(changed)

    async def states(self) -> AsyncGenerator[Json, None]:
        """The state now, then each newer one; the latest only, for a reader who is slow. Stops when it `ended`."""
        changed = asyncio.Event()
        with self.waking(changed):
            while True:
                changed.clear()
                yield self.state
                if self.ended is not None:
                    return
                await changed.wait()

    async def until(self, find: Callable[[Json], T | None]) -> T:
        """The first thing but None that `find` makes of the state. Raises `Refused` when the channel ends before."""
        states = self.states()
        try:
            async for state in states:
                if (found := find(state)) is not None:
                    return found
        finally:
            await states.aclose()
        raise Refused(self.ended or "The channel ended.")

    def _tell(self) -> None:
        for watcher in self._watchers:
            watcher.set()
