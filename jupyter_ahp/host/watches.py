"""Resource watches: AHP 5.4, P1. Each is a channel, made by `createResourceWatch`, whose news are `resourceWatch/changed`.

What may be read may be watched (`resources.py` says where that is). A watch ends with its last watcher, when what it
watches is gone, and with the host; nobody who has lost the connection loses it at once. Changes come in batches, and a
batch that is too long for anybody to read says which directories changed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ..protocol.errors import INTERNAL_ERROR, NOT_FOUND, ProtocolError, invalid_params
from .channels import Channel
from .fileops import as_protocol
from .ports import Json
from .tree import Kind, Tree

if TYPE_CHECKING:
    from .connection import Connection
    from .host import Host

log = logging.getLogger(__name__)

_T = TypeVar("_T")

ITEMS: Final = 200
"""Changes that one action tells."""
OF_A_CLIENT: Final = 16
OF_ALL: Final = 64
"""Watches at a time, each with a thread of its own."""
GRACE: Final = 30.0
"""Seconds that a watch waits for its first watcher, and for one that has lost the connection."""


class _WatchChannel(Channel):
    """Tells when somebody stops watching."""

    def __init__(self, uri: str, state: Json, left: Callable[[float], None]) -> None:
        super().__init__(uri, "resourceWatch", state)
        self._left = left

    def leave(self, connection: Connection) -> None:
        super().leave(connection)
        if not self.watched:
            self._left(GRACE if connection.gone else 0)  # a subscription that is renewed is back in this tick


class Watch:
    """One watch. Owns its thread, by a task."""

    def __init__(self, owner: Watches, client_id: str, tree: Tree, state: Json) -> None:
        self.uri = f"ahp-resource-watch:/{uuid.uuid4()}"
        self.client_id = client_id
        self.channel = _WatchChannel(self.uri, state, self._end_in)
        self._owner = owner
        self._tree = tree
        self._root: str = state["root"]
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._end_in(GRACE)
        self.task = asyncio.create_task(self._run())

    def _end_in(self, seconds: float) -> None:
        if self._stop.is_set():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end_if_unwatched)

    def _end_if_unwatched(self) -> None:
        if not self.channel.watched:
            self.stop()

    def stop(self) -> None:
        """It ends as soon as its thread hears of it."""
        self._stop.set()

    async def _run(self) -> None:
        tree = self._tree
        try:
            while (changes := await self._owner.in_thread(lambda: tree.next(self._stop))) is not None:
                if changes:
                    self._say(_items(changes, tree.path))
            if not self._stop.is_set():
                self._say([{"uri": self._root, "type": "deleted"}])
        except Exception:
            log.exception("The watch of %s ends: nothing more is told of it", tree.path)
        finally:
            tree.close()
            self.stop()
            if self._timer is not None:
                self._timer.cancel()
            self._owner.ended(self)

    def _say(self, items: list[Json]) -> None:
        if self.channel.watched:
            action = {"type": "resourceWatch/changed", "changes": {"items": items}}
            self._owner.host.hub.publish(self.channel, action)


class Watches:
    """All watches of a host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._watches: dict[str, Watch] = {}
        self._opening = 0
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Not asyncio's own threads: a watch keeps one for as long as it is there."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(OF_ALL, "jupyter-ahp-watch")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def create(self, connection: Connection, params: Json, place: Callable[[], str]) -> str:
        """The channel of a new watch. `place`: where what `params` names is; blocks, and refuses with `ProtocolError`."""
        self._check_room(connection)
        recursive = params.get("recursive") is True
        patterns = {
            name: list((params.get(name) or {}).get("items") or ()) for name in ("excludes", "includes")
        }

        def opened() -> Tree:
            path = place()
            try:
                return Tree(path, recursive=recursive, **patterns)
            except OSError as error:
                raise as_protocol(error, path) from error

        self._opening += 1
        try:
            tree = await self.in_thread(opened)
        finally:
            self._opening -= 1
        if self._closed or connection.gone:
            tree.close()
            raise ProtocolError(NOT_FOUND, "The host is stopping, or nobody is there to watch.")
        state: Json = {"root": Path(tree.path).as_uri(), "recursive": recursive}
        state |= {name: {"items": items} for name, items in patterns.items() if items}
        watch = Watch(self, connection.client_id, tree, state)
        self._watches[watch.uri] = watch
        return watch.uri

    def _check_room(self, connection: Connection) -> None:
        theirs = sum(watch.client_id == connection.client_id for watch in self._watches.values())
        if theirs >= OF_A_CLIENT:
            raise invalid_params(
                f"A client has {OF_A_CLIENT} watches at most. Unsubscribe from one, or watch the directory above."
            )
        if self._closed or len(self._watches) + self._opening >= OF_ALL:
            raise ProtocolError(INTERNAL_ERROR, f"This host watches {OF_ALL} places at most, and does so.")

    def channel(self, uri: str) -> Channel:
        """Raises `ProtocolError` -32008."""
        watch = self._watches.get(uri)
        if watch is None:
            raise ProtocolError(NOT_FOUND, f"This watch has ended: {uri}")
        return watch.channel

    def held(self, uri: str) -> Channel | None:
        watch = self._watches.get(uri)
        return watch.channel if watch is not None else None

    def ended(self, watch: Watch) -> None:
        self._watches.pop(watch.uri, None)
        for watcher in watch.channel.watchers:
            watcher.subscriptions.pop(watch.uri, None)
            watch.channel.leave(watcher)

    async def close(self) -> None:
        self._closed = True
        watches = list(self._watches.values())
        for watch in watches:
            watch.stop()
        if watches:
            await asyncio.wait([watch.task for watch in watches])
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _items(changes: dict[str, Kind], top: str) -> list[Json]:
    """The batch as it is told: of too many changes, the directories in which they are; of too many of these, the whole."""
    if len(changes) > ITEMS:
        directories = {os.path.dirname(path) for path in changes}
        changes = dict.fromkeys(sorted(directories) if len(directories) <= ITEMS else [top], "updated")
    return [{"uri": Path(path).as_uri(), "type": kind} for path, kind in sorted(changes.items())]
