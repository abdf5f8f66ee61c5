"""Channels: a state each, one sequence of numbers over all, fan-out, and replay.

M1: `subscribe` gives the state and every action after it. T6: a snapshot is taken at a number, every later action has
a greater one. Everything here runs in one tick of the event loop, so a snapshot and its number belong together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol.reducers import REDUCERS
from ..protocol.versions import visible_to
from .envelope import STREAMED, Envelope, Joined, encode
from .ports import Json, Store, StoreError

if TYPE_CHECKING:
    from .connection import Connection

log = logging.getLogger(__name__)

_BLOCK = 1_000_000  # numbers reserved in the store at a time
_END = "$end"  # the cursor of a view that shows no turn
UNKNOWN = _END
"""Where a view begins of which nobody knows any more: it is taken to show nothing."""


class Sequence:
    """`serverSeq`: never goes back, a restart of the host included, since blocks of numbers are reserved on disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._end = 0
        self._reserving: asyncio.Task[None] | None = None
        self.last = 0
        """The last number given."""

    async def open(self) -> None:
        self.last = await self._store.reserve(_BLOCK)
        self._end = self.last + _BLOCK

    def next(self) -> int:
        self.last += 1
        if self.last > self._end - _BLOCK // 2 and self._reserving is None:
            self._reserving = asyncio.create_task(self._reserve())
        return self.last

    async def _reserve(self) -> None:
        try:
            first = await self._store.reserve(_BLOCK)
        except StoreError as error:
            log.warning(
                "No new sequence numbers could be reserved; trying again with the next action: %s", error
            )
        else:
            # Another server on this store may have reserved in between: numbers may skip, never repeat.
            self._end = first + _BLOCK
            self.last = max(self.last, first)
        finally:
            self._reserving = None

    async def close(self) -> None:
        if self._reserving is not None:
            await asyncio.wait([self._reserving])


class Replay:
    """The last envelopes, bounded in bytes, for clients that come back."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._held: deque[Envelope] = deque()
        self.floor = 0
        """Every envelope after this number is here."""

    def add(self, envelope: Envelope) -> None:
        self._held.append(envelope)
        self._bytes += envelope.size
        while self._bytes > self._limit:
            gone = self._held.popleft()
            self._bytes -= gone.size
            self.floor = gone.seq

    def since(self, seq: int) -> Iterable[Envelope] | None:
        """What came after `seq`, or None when that is no longer whole."""
        if seq < self.floor:
            return None
        held = self._held
        first = len(held)
        while first and held[first - 1].seq > seq:
            first -= 1
        return [held[index] for index in range(first, len(held))]


class Coalescer:
    """Appends to one channel, held back for the subscribers that allow so many milliseconds (`delivery.maxLatencyMs`).

    One joined frame serves them all. A connection has something held on one channel at most, and whatever else goes
    to it flushes that first: its numbers stay in order and without gaps, which is what `reconnect` stands on.
    """

    def __init__(self, seconds: float) -> None:
        self.members: set[Connection] = set()
        self._seconds = seconds
        self._joined: Joined | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, envelope: Envelope) -> None:
        for member in self.members:
            if member.holding is not self:
                member.release()
        if self._joined is not None:
            if self._joined.add(envelope):
                return
            self.flush()
        self._joined = Joined(envelope)
        for member in self.members:
            member.holding = self
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        joined, self._joined = self._joined, None
        if joined is None:
            return
        envelope = joined.envelope()
        for member in tuple(self.members):
            member.holding = None
            member.deliver(envelope)


class Channel:
    """One channel's state and who watches it."""

    def __init__(self, uri: str, kind: str, state: Json, *, provider: str | None = None) -> None:
        self.uri = uri
        self.kind = kind
        self.state = state
        self.provider = provider
        self.overlay: Callable[[], Json] = dict
        """What a snapshot shows that no action carries (such as a session's activity bits)."""
        self._direct: set[Connection] = set()
        self._held: dict[int, Coalescer] = {}
        self._reduce: Callable[[Any, Any], Any] = REDUCERS[kind]

    @property
    def watched(self) -> bool:
        return bool(self._direct) or any(held.members for held in self._held.values())

    @property
    def watchers(self) -> set[Connection]:
        return self._direct.union(*(held.members for held in self._held.values()))

    def apply(self, action: Json) -> bool:
        """Reduce; say whether anything changed."""
        before = self.state
        self.state = self._reduce(before, action)
        return self.state is not before

    def has_turn(self, turn_id: str) -> bool:
        """Whether the turn runs or ended here; of chats only."""
        return False

    def would_keep(self, action: Json) -> bool:
        """Whether the action, said again, would change nothing."""
        state = self.state
        return bool(self._reduce(state, action) == state)

    def snapshot(self, viewer: Connection | None = None, turns: int | None = None) -> Json:
        """The state as it goes to a client; `turns` is a view's, of chats only."""
        return {**self.state, **self.overlay()}

    def shows(self, kind: str, viewer: Connection) -> bool:
        """Whether actions of that type are for this viewer (V5)."""
        return visible_to(kind, viewer.version)

    def as_seen(self, envelope: Envelope, viewer: Connection) -> Envelope:
        """The envelope as it goes to this viewer; all see the same but where a channel says otherwise."""
        return envelope

    def view(self, viewer: Connection, begins: str | None) -> None:
        """A watcher's view begins at this cursor; None: it has everything. Only chats are given in pages."""

    def join(self, connection: Connection, latency_ms: int) -> None:
        self.leave(connection)
        if latency_ms <= 0:
            self._direct.add(connection)
        else:
            held = self._held.get(latency_ms)
            if held is None:
                held = self._held[latency_ms] = Coalescer(latency_ms / 1000)
            held.flush()  # what is held belongs before the newcomer's snapshot
            held.members.add(connection)

    def leave(self, connection: Connection) -> None:
        self._direct.discard(connection)
        for latency, held in list(self._held.items()):
            if connection in held.members:
                held.flush()
                held.members.discard(connection)
                if not held.members:
                    del self._held[latency]

    def send(self, envelope: Envelope) -> None:
        """To every watcher that may see it (V5)."""
        if envelope.action["type"] in STREAMED and envelope.stream_key is not None:
            for held in self._held.values():
                held.add(envelope)
            for connection in tuple(self._direct):
                connection.deliver(envelope)
            return
        kind = envelope.action["type"]
        for connection in self.watchers:
            if self.shows(kind, connection):
                connection.deliver(self.as_seen(envelope, connection))


class RootChannel(Channel):
    """The root's state, its terminals only for those who may see terminals."""

    def snapshot(self, viewer: Connection | None = None, turns: int | None = None) -> Json:
        state = super().snapshot(viewer, turns)
        if viewer is not None and not viewer.gate.holds("terminal:read"):
            state.pop("terminals", None)
        return state

    def shows(self, kind: str, viewer: Connection) -> bool:
        seen = kind != "root/terminalsChanged" or viewer.gate.holds("terminal:read")
        return seen and super().shows(kind, viewer)


class ChatChannel(Channel):
    """A chat's state, with text that still streams kept as pieces: an append costs the same in a long answer.

    `state` is whole whenever it is read; only `apply` of an append leaves pieces behind. Ended turns never change, so
    each is encoded once for all snapshots.
    """

    def __init__(self, uri: str, state: Json, *, provider: str | None = None) -> None:
        self._state: Json = state
        self._pieces: dict[tuple[str, str], list[str]] = {}
        self._parts: dict[str, str] = {}
        self._parts_of: Json | None = None
        self._encoded: dict[str, tuple[Json, msgspec.Raw]] = {}
        self._begins: dict[Connection, str] = {}
        """Where the view of a watcher begins that was not given every turn: a cursor."""
        super().__init__(uri, "chat", state, provider=provider)

    @property
    def state(self) -> Json:
        if self._pieces:
            self._settle()
        return self._state

    @state.setter
    def state(self, state: Json) -> None:
        self._state = state

    def apply(self, action: Json) -> bool:
        kind = STREAMED.get(action["type"])
        if kind is not None:
            return self._append(kind, action)
        if action["type"] == "chat/turnsLoaded":
            return False  # the host has every turn; what pages is a client's view
        return super().apply(action)

    def _append(self, kind: str, action: Json) -> bool:
        active = self._state.get("activeTurn")
        if active is None or active["id"] != action["turnId"]:
            return False
        if active is not self._parts_of:
            self._parts_of = active
            self._parts = {}
            for part in active["responseParts"]:
                part_id = part.get("id") or part.get("toolCall", {}).get("toolCallId")
                if part_id is not None:
                    self._parts.setdefault(part_id, part["kind"])
        part_id = action["partId"]
        if self._parts.get(part_id) != kind:
            return False
        self._pieces.setdefault((action["type"], part_id), []).append(action["content"])
        return True

    def _settle(self) -> None:
        pieces, self._pieces = self._pieces, {}
        turn_id = self._state["activeTurn"]["id"]
        for (kind, part_id), texts in pieces.items():
            self._state = self._reduce(
                self._state, {"type": kind, "turnId": turn_id, "partId": part_id, "content": "".join(texts)}
            )

    def leave(self, connection: Connection) -> None:
        super().leave(connection)
        self._begins.pop(connection, None)

    def snapshot(self, viewer: Connection | None = None, turns: int | None = None) -> Json:
        """The newest `turns` ended turns (all of them when None) and a cursor to older ones, if there are (M3)."""
        out = super().snapshot()
        shown = out["turns"]
        if turns is not None and len(shown) > turns:
            cut = len(shown) - max(turns, 0)
            out["turnsNextCursor"] = shown[cut]["id"] if cut < len(shown) else _END
            shown = shown[cut:]
        if viewer is not None:
            self.view(viewer, out.get("turnsNextCursor"))
        out["turns"] = [self._raw(turn) for turn in shown]
        return out

    def view(self, viewer: Connection, begins: str | None) -> None:
        """A watcher's view begins at this cursor; None: it has every turn."""
        self._begins.pop(viewer, None)
        if begins is not None:
            self._begins[viewer] = begins

    def is_partial(self, viewer: Connection) -> bool:
        return viewer in self._begins

    @property
    def running(self) -> str | None:
        """The id of the turn that runs."""
        active = self._state.get("activeTurn")
        return active["id"] if active is not None else None

    def page(self, cursor: str | None, count: int) -> Json | None:
        """`chat/turnsLoaded` with the `count` turns before `cursor` (None: the newest); None for an unknown cursor."""
        turns = self.state["turns"]
        end = len(turns)
        if cursor not in (None, _END):
            end = next((index for index, turn in enumerate(turns) if turn["id"] == cursor), -1)
            if end < 0:
                return None
        return self._page(max(0, end - count), end)

    def page_to_show(self, turn_id: str) -> Json | None:
        """The page that gives this turn to every watcher that lacks it; None when nobody does."""
        if not self._begins:
            return None
        turns = self.state["turns"]
        start = next((index for index, turn in enumerate(turns) if turn["id"] == turn_id), len(turns))
        lacking = any(self._place(cursor) > start for cursor in self._begins.values())
        return self._page(start, start + 1) if lacking else None

    def _page(self, start: int, end: int) -> Json:
        """The turns from `start` to `end`, and as many behind as it takes that no watcher is left with a gap.

        A page goes to every watcher (M3), and a client puts what it lacks in front of what it has.
        """
        turns = self.state["turns"]
        begins = [self._place(cursor) for cursor in self._begins.values()]
        action: Json = {"type": "chat/turnsLoaded", "turns": turns[start : max(end, *begins, 0)]}
        if start:
            action["turnsNextCursor"] = turns[start]["id"]
        for viewer, begin in zip(tuple(self._begins), begins, strict=True):
            # One who has more than this page keeps it, though the cursor now names the page's beginning.
            self.view(viewer, turns[min(start, begin)]["id"] if min(start, begin) else None)
        return action

    def _place(self, cursor: str) -> int:
        turns = self.state["turns"]
        return next((index for index, turn in enumerate(turns) if turn["id"] == cursor), len(turns))

    def _raw(self, turn: Json) -> msgspec.Raw:
        known = self._encoded.get(turn["id"])
        if known is not None and known[0] is turn:
            return known[1]
        if len(self._encoded) > 2 * len(self._state["turns"]) + 64:
            self._encoded.clear()  # of turns that were cut since
        raw = msgspec.Raw(msgspec.json.encode(turn))
        self._encoded[turn["id"]] = (turn, raw)
        return raw


class Hub:
    """Numbers what happens and tells those who watch."""

    def __init__(self, store: Store, *, replay_bytes: int = 8 * 1024 * 1024) -> None:
        self.sequence = Sequence(store)
        self.replay = Replay(replay_bytes)

    async def open(self) -> None:
        await self.sequence.open()
        self.replay.floor = self.sequence.last

    def publish(self, channel: Channel, action: Json, origin: Json | None = None) -> Envelope:
        """Reduce, number, keep for replay, send to every watcher.

        Raises `TypeError` or `ValueError` for what is not JSON: then nothing happened.
        """
        encoded = encode(action)
        channel.apply(action)
        envelope = Envelope(
            channel.uri, action, self.sequence.next(), origin, provider=channel.provider, encoded=encoded
        )
        self.replay.add(envelope)
        channel.send(envelope)
        return envelope
