"""What a chat's backend remembers by itself: S3 to S5, X1 to X4, U9.

A backend with a memory of its own keeps the conversation, and the host its name (`ChatRecord.memory`), and beside each
turn the backend's own name for where that turn ended. A fork and a rewind go on at such a point. Where there is none, a
fork's backend begins a conversation of its own and is told what the copied turns said (S4), and a rewind's keeps its
history (X2). None of this concerns a backend that is told everything on each turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from ..protocol.meta import runs_here
from . import rewind
from .ports import Agent, ChatRecord, Json, StoreError
from .references import said_in

if TYPE_CHECKING:
    from .chat import Chat

log = logging.getLogger(__name__)

UNSENT: Final = ""
"""The resume point of a turn up to which the backend was sent nothing."""
_PATIENCE: Final = 10.0  # seconds for a backend to forget a conversation
_LONGEST: Final = 16_000  # characters that a conversation begun anew is told


@dataclass(frozen=True, slots=True)
class Held:
    """Where a backend goes on when it is opened next, as `Start` says it."""

    memory: str | None = None
    at: str | None = None
    fork: bool = False
    began: str | None = None
    """The turn with which the memory began, if others were there before it."""

    @classmethod
    def by(cls, record: ChatRecord) -> Held:
        return cls(record.memory, record.at, record.fork, record.began)

    def put(self, record: ChatRecord) -> None:
        record.memory, record.at, record.fork, record.began = self.memory, self.at, self.fork, self.began


def _last_sent(turns: Sequence[Json]) -> Json | None:
    """The last of these turns that the backend was sent: what the host ran is none of them (S5, X4)."""
    return next((turn for turn in reversed(turns) if not runs_here(turn["message"])), None)


def point_at(held: Held, turns: Sequence[Json], points: Mapping[str, str]) -> str | None:
    """What the backend calls the end of these turns, the first ones of the chat; None: it has no name for it."""
    last = _last_sent(turns)
    if last is None or held.memory is None:
        return UNSENT
    if held.began is not None and all(turn["id"] != held.began for turn in turns):
        return UNSENT
    return points.get(last["id"])


def forked(held: Held, turns: Sequence[Json], points: Mapping[str, str]) -> Held:
    """Where the backend of a chat that is made of these turns begins (S3, S5); at nothing if it has no point (S4)."""
    point = point_at(held, turns, points)
    return replace(held, at=point, fork=True) if point else Held()


def rewound(
    held: Held, left: Sequence[Json], cut: Iterable[Json], points: Mapping[str, str], *, can: bool
) -> Held:
    """Where the backend goes on once these turns were cut behind those that are left. `can`: it can go back to a point."""
    if held.memory is None or all(runs_here(turn["message"]) for turn in cut):
        return held
    point = point_at(held, left, points)
    if point == UNSENT:
        return Held()  # X3, X4
    if held.fork:  # nothing is in it yet but what it is to copy
        return replace(held, at=point) if point else Held()
    return replace(held, at=point) if can and point else held  # X1; X2


def retold(history: Sequence[Json], said: Mapping[str, str]) -> str:
    """What a backend is told of turns that it has not seen: the end of it, as far as there is room (S4, B3).

    `said`: what the host had to say on them.
    """
    told: list[str] = []
    room = _LONGEST
    for turn in reversed(history):
        words = "\n\n".join([*([said[turn["id"]]] if turn["id"] in said else []), *said_in(turn)])
        if len(words) > room:
            told.append("[…]" + words[len(words) - room :])
            break
        room -= len(words)
        told.append(words)
    return (
        "This conversation goes on behind turns that you have not seen. This is what was said in them, for you to know "
        "and not to answer:\n\n" + "\n\n".join(reversed(told))
    )


class Memory:
    """What one chat's backend remembers, as far as the host knows."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.points: dict[str, str] = {}
        """By turn."""
        self._begins: str | None = None
        """The turn with which a conversation began behind others."""

    @property
    def _record(self) -> ChatRecord:
        return self._chat.record

    @property
    def _agent(self) -> Agent | None:
        return self._chat.session.agent

    @property
    def _can_rewind(self) -> bool:
        return self._agent is not None and self._agent.capabilities.rewind

    def restore(self, points: dict[str, str], turns: Sequence[Json], *, mended: bool) -> None:
        """As it was stored. `mended`: a crash left a rewind, or its undoing, half done, and what is cut says how far."""
        self.points = points
        had = rewind.had(self._record)
        if had is None or not mended:
            return
        held = Held(**had)
        cut = rewind.cut(self._record)
        if cut:
            held = rewound(held, turns, cut, points, can=self._can_rewind)
        else:
            self._record.meta = rewind.without_cut(self._record.meta)
        held.put(self._record)

    # ── what the backend says ────────────────────────────────────────────────────────────────────────────────
    def opened(self, turn_id: str, history: Sequence[Json]) -> bool:
        """A conversation is open, for this turn; whether it has a memory of its own and has not seen these turns."""
        memory = self._chat.turns.line.remembered()
        if memory is not None:
            self._chat.session.host.catalogue.own(self._chat.session.provider, memory)
        is_new = self._record.memory is None and bool(history)
        self._begins = turn_id if is_new else None
        return is_new and memory is not None

    def ended_at(self, turn_id: str, point: str) -> None:
        """The backend says where a turn ended. It may be over, and even cut meanwhile."""
        chat = self._chat
        if chat.channel is None:
            return
        meta = rewind.with_point(self._record.meta, turn_id, point)
        if meta is not None:
            self._record.meta = meta
            chat.saver.soon()
            return
        active = chat.state.get("activeTurn") or {}
        if active.get("id") != turn_id and all(
            turn["id"] != turn_id for turn in reversed(chat.state["turns"])
        ):
            return
        self.points[turn_id] = point
        changed = self.learn()
        if self._record.at is not None and not self._record.fork:
            self._record.at = None  # it is past that point
            changed = True
        chat.turns.keep(self._keep(turn_id, point, changed))

    def unsent(self, turn_id: str, before: Sequence[Json]) -> None:
        """A turn ended before the backend was sent it: where it ended is where the one before it did."""
        if not self._can_rewind:
            return
        point = point_at(Held.by(self._record), before, self.points)
        if point is not None:
            self.points[turn_id] = point
            self._chat.turns.keep(self._keep(turn_id, point, False))

    async def _keep(self, turn_id: str, point: str, changed: bool) -> None:
        """The record first: a point of a conversation whose name is lost would name nothing."""
        try:
            if changed:
                await self._chat.saver.now()
            await self._chat.store.put_point(self._chat.session.id, self._chat.uri, turn_id, point)
        except StoreError as error:
            log.warning("Where a turn of %s ended is not kept after a restart: %s", self._chat.uri, error)

    def learn(self) -> bool:
        """Take in what the backend's conversation is called; whether that is news."""
        memory, record = self._chat.turns.line.remembered(), self._record
        if memory is None or memory == record.memory:
            return False
        Held(memory, began=self._begins if record.memory is None else record.began).put(record)
        self._chat.session.host.catalogue.own(self._chat.session.provider, memory)
        return True

    def ended(self, turn: Json) -> bool:
        """A turn ended; whether what is to be kept has changed."""
        if runs_here(turn["message"]):
            return False
        changed = self.learn()
        if turn["state"] == "complete" and self._record.at is not None and not self._record.fork:
            self._record.at = None
            changed = True
        return changed

    # ── rewinds and forks ────────────────────────────────────────────────────────────────────────────────────
    def forked(self, turns: Sequence[Json]) -> tuple[Held, dict[str, str]]:
        """Where a fork with these turns begins, and their points there."""
        self.learn()
        held = forked(Held.by(self._record), turns, self.points)
        names = {turn["id"] for turn in turns} if held.memory else ()
        return held, {name: self.points[name] for name in names if name in self.points}

    def rewind(self, left: Sequence[Json], cut: Sequence[Json]) -> Held:
        """These turns are cut: in the record, which says too how to bring them back. What was held before."""
        self.learn()
        record = self._record
        before = Held.by(record)
        held = rewound(before, left, cut, self.points, can=self._can_rewind)
        points = {turn["id"]: self.points[turn["id"]] for turn in cut if turn["id"] in self.points}
        record.meta = rewind.with_cut(record.meta, cut, points, asdict(before) if held != before else None)
        held.put(record)
        return before

    def drop(self, cut: Iterable[Json]) -> None:
        for turn in cut:
            self.points.pop(turn["id"], None)

    def bring_back(self) -> None:
        """A rewind is undone: its turns are there again."""
        self.points |= rewind.cut_points(self._record)
        had = rewind.had(self._record)
        if had is not None:
            Held(**had).put(self._record)
        self._record.meta = rewind.without_cut(self._record.meta)

    async def settle(self) -> None:
        """A conversation that a rewind ended is deleted, now that it cannot come back (X3)."""
        doomed = rewind.doomed(self._record)
        if doomed is None:
            return
        agent = self._agent
        if agent is not None and agent.capabilities.delete and not await self._is_to_be_copied(doomed):
            try:
                async with asyncio.timeout(_PATIENCE):
                    await agent.delete(doomed)
            except Exception:
                log.exception(
                    "The agent of %s did not delete the conversation %s, and goes on with it",
                    self._chat.uri,
                    doomed,
                )
                Held(doomed).put(self._record)
        self._record.meta = rewind.without_doomed(self._record.meta)
        self._chat.saver.soon()

    # ── the end of the chat ──────────────────────────────────────────────────────────────────────────────────
    async def let_go(self) -> None:
        """The chat is closed for good: its conversations stay with the backend and are never listed, or go (U9)."""
        agent, host = self._agent, self._chat.session.host
        if host.options.closed_chats != "delete" or agent is None or not agent.capabilities.delete:
            return
        record = await self._chat.known_record()
        memories = rewind.own_memories(record) if record is not None else []
        host.catalogue.delete(agent, [one for one in memories if not await self._is_to_be_copied(one)])

    async def _is_to_be_copied(self, memory: str) -> bool:
        """Whether a fork of this chat begins with a copy of it, and was not opened yet."""
        host = self._chat.session.host
        if any(memory in session.to_copy for session in host.sessions.values()):
            return True
        made_from = {self._chat.uri}
        forks: list[Chat] = []
        found = True
        while found:
            found = False
            for session in tuple(host.sessions.values()):
                for entry in session.state["chats"]:
                    origin = entry.get("origin") or {}
                    is_fork = origin.get("kind") == "fork" and origin.get("chat") in made_from
                    if is_fork and entry["resource"] not in made_from:
                        made_from.add(entry["resource"])
                        forks.append(session.chats[entry["resource"]])
                        found = True
        for chat in forks:
            record = await chat.known_record()
            if record is not None and record.fork and record.memory == memory:
                log.info("%s stays with its agent: %s begins with a copy of it", memory, chat.uri)
                return True
        return False
