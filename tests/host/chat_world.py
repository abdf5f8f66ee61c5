"""A host on a disk, an agent that does what it is told, five clients, and everything that can happen to them.

Who watches what is said, and judges it, is the `Ledger` of each chat; breaches are gathered in `World.problems`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from jupyter_ahp.host import connection, line, rewind
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import (
    Capabilities,
    Conversation,
    Json,
    Prompt,
    Start,
    Steering,
    TurnFailed,
    TurnSink,
)
from jupyter_ahp.store.files import FileStore
from tests.host.harness import ROOT, Line, RpcError, Scripted, WireClient, comparable, message, started
from tests.host.ledger import HOLD, Ledger, read_in, turns_of, waiting
from tests.host.simulation import Loop, simulated

S = "ahp-session:/s"
WATCHERS: dict[str, Json] = {
    "direct": {},
    "coalesced": {"delivery": {"maxLatencyMs": 500}},
    "slow": {},
    "windowed": {"view": {"turns": 1}},
    "fickle": {"view": {"turns": 2}, "delivery": {"maxLatencyMs": 200}},
}
"""How each client watches a chat. The first is never away: what it sees is what the ledgers are kept by."""


# ── The agent ────────────────────────────────────────────────────────────────────────────────────────────────────
class Shelf:
    """The conversations as the agent keeps them: the turns that each has seen or was told of, with their points."""

    def __init__(self, books: dict[str, list[tuple[str, str]]], count: int = 0) -> None:
        self.books = books
        self._count = count

    def name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def copy(self) -> Shelf:
        return Shelf({name: list(book) for name, book in self.books.items()}, self._count)


class Mind(Line):
    """One conversation: it takes steering while it is open to it, and reads it, speaks and ends at a word.

    It remembers by itself, and says early in each turn where that ends.
    """

    agent: Backend

    def __init__(self, agent: Backend, start: Start) -> None:
        super().__init__(agent, start)
        self.words: asyncio.Queue[str] = asyncio.Queue()
        self.taken: list[Steering] = []
        self.turn: str | None = None
        """The turn that it works on."""
        self.late: list[asyncio.Future[None]] = []
        """Each turn that it began by itself, done when that is over."""
        self._shelf = agent.shelf
        self._is_new = start.memory is None or start.fork
        self._at = start.at
        self.book = self._shelf.name() if self._is_new else str(start.memory)
        agent.minds[start.chat] = self

    @property
    def memory(self) -> str | None:
        return self.book

    def _page(self, told: Sequence[Json] = ()) -> list[tuple[str, str]]:
        """What it has seen when a turn comes; only now is a copy made, or forgotten what is cut."""
        books = self._shelf.books
        if self._is_new:
            source = [] if self.start.memory is None else books[self.start.memory]
            books[self.book] = list(source) if source else [(turn["id"], "told") for turn in told]
        if self._at is not None:
            points = [point for _, point in books[self.book]]
            del books[self.book][points.index(self._at) + 1 :]
        self._is_new, self._at = False, None
        return books[self.book]

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        told = prompt.history if prompt.turn_id in prompt.prefaces else ()
        self.agent.heard(self, prompt, [turn for turn, _ in self._page(told)])
        await self._work(prompt.turn_id, sink)

    def begin_late(self, text: str) -> None:
        """It begins a turn by itself."""

        async def answer(sink: TurnSink) -> None:
            self.agent.began(self, sink.turn_id, text)
            await self._work(sink.turn_id, sink)

        self.late.append(asyncio.ensure_future(self.start.host.late_turn(text, answer)))

    async def _work(self, turn: str, sink: TurnSink) -> None:
        page, point = self._page(), self._shelf.name()
        page.append((turn, point))
        sink.resume_point(point)
        self.turn, self.words, self.taken = turn, asyncio.Queue(), []
        try:
            while (word := await self.words.get()) != "done":
                self._do(word, sink)
        except asyncio.CancelledError:
            await asyncio.sleep(self.agent.slowness)  # it does not stop at once
            sink.notice("too late")
            raise
        finally:
            self.turn = None

    def _do(self, word: str, sink: TurnSink) -> None:
        match word:
            case "say":
                sink.markdown("word after word, ")
            case "use":
                sink.tool("look", title="Look").done("Looked")
            case "read" if self.taken:
                steering = self.taken.pop(0)
                self.agent.read(self, steering)
                sink.steering_read(steering.id)
            case "fail" | "resumable":
                raise TurnFailed("test", "It failed.", resumable=word == "resumable")
            case "break":
                raise ValueError("out of order")

    async def steer(self, message: Steering) -> bool:
        await asyncio.sleep(self.agent.slowness)
        if not self.agent.open_to_steering or self.turn is None:
            return False
        self.agent.handed(self, message)
        self.taken.append(message)
        return True

    async def withdraw(self, message_id: str) -> bool:
        await asyncio.sleep(self.agent.slowness)
        if self.agent.gives_back:
            self.taken = [message for message in self.taken if message.id != message_id]
        return self.agent.gives_back


class Backend(Scripted):
    """The agent of one process. What it is handed is held against what was said."""

    capabilities = Capabilities(fork=True, rewind=True, delete=True, steering=True)

    def __init__(self, world: World, shelf: Shelf) -> None:
        super().__init__()
        self.world = world
        self.shelf = shelf
        self.minds: dict[str, Mind] = {}
        self.open_to_steering = True
        self.gives_back = True
        self.slowness = 0.0

    async def open(self, start: Start) -> Conversation:
        await asyncio.sleep(self.slowness)
        return Mind(self, start)

    async def delete(self, memory: str) -> None:
        await asyncio.sleep(self.slowness)
        self.shelf.books.pop(memory, None)

    def _ledger(self, mind: Mind) -> Ledger:
        """Of the mind's chat; of a process that died, nothing counts."""
        chat = mind.start.chat
        return self.world.ledgers[chat] if self.world.agent is self else Ledger(chat)

    def heard(self, mind: Mind, prompt: Prompt, remembered: list[str]) -> None:
        if self.world.agent is not self:
            return
        ledger, turn = self._ledger(mind), prompt.turn_id
        state = self.world.direct.state(ledger.chat)
        ledger.check(mind.turn is None, f"B1: {turn} was sent while {mind.turn} ran")
        ledger.check(state.get("activeTurn", {}).get("id") == turn, f"{turn} was sent, and does not run")
        ids = [entry["id"] for entry in prompt.history]
        ledger.check(ids == [entry["id"] for entry in state["turns"]], f"{turn} was sent with history {ids}")
        ledger.check(ledger.turns.get(turn) == prompt.text, f"{turn} was sent with {prompt.text!r}")
        known = [
            name for name in dict.fromkeys(remembered) if name != turn
        ]  # one that was resumed came twice
        shown = [name for name in ids if name in known or name in self.world.prompted]
        if ledger.chat not in self.world.cut_off:
            ledger.check(known == shown, f"X1, S3, S4: the agent of {turn} knows {known}, shown are {shown}")
        if not prompt.resumed:
            ledger.check(turn not in self.world.prompted, f"{turn} was sent twice")
            self.world.prompted.add(turn)

    def began(self, mind: Mind, turn: str, text: str) -> None:
        if self.world.agent is self:
            ledger = self._ledger(mind)
            ledger.check(mind.turn is None, f"B1: {turn} was opened while {mind.turn} ran")
            ledger.check(ledger.turns.get(turn) == text, f"{turn} was opened as {ledger.turns.get(turn)!r}")

    def handed(self, mind: Mind, steering: Steering) -> None:
        twice = any(held.id == steering.id for held in mind.taken)
        self._ledger(mind).check(not twice, f"G5: {steering.id} was handed over twice")

    def read(self, mind: Mind, steering: Steering) -> None:
        if self.world.agent is self:
            # One that goes with a stop may be read in that moment, in a turn of which nobody hears any more.
            fate = self._ledger(mind).fates.get(steering.text)
            self._ledger(mind).check(
                fate in ("waits", "stopped"), f"{steering.text!r} was read, and was {fate}"
            )


@dataclass(frozen=True, slots=True)
class Dispatch:
    """An action that reached the host."""

    chat: str
    action: Json
    in_turn: bool
    """A turn ran when it came."""


# ── The people ───────────────────────────────────────────────────────────────────────────────────────────────────
class Person(WireClient):
    """A client. Whatever comes to it is put down; what was not answered is sent again when it is back."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.how = WATCHERS[name]
        self.numbers = itertools.count(1)
        self.last: Json | None = None
        """What it dispatched last on this socket, as it was sent."""
        super().__init__(world.host, client_id=name)

    @property
    def away(self) -> bool:
        return self.wire.closed is not None

    @property
    def can_ask(self) -> bool:
        """An answer would reach it."""
        return not self.away and not self.wire.stalled

    async def act(self, chat: str, action_type: str, /, *, lost: bool = False, **fields: Any) -> None:
        """Dispatch; `lost`: the connection breaks before it has gone out."""
        number, action = next(self.numbers), {"type": action_type, **fields}
        self.pending[number] = chat, action
        self.last = {"channel": chat, "clientSeq": number, "action": action}
        if lost and self is not self.world.direct:
            await self.drop()
        else:
            await self._arrive(number, chat, action)

    async def _arrive(self, number: int, chat: str, action: Json) -> None:
        self.world.arrived((self.client_id, number), Dispatch(chat, action, self.world.direct.running(chat)))
        await self.notify("dispatchAction", channel=chat, clientSeq=number, action=action)

    async def repeat(self) -> None:
        """The network delivers the last dispatch once more."""
        if self.last is not None:
            await self.notify("dispatchAction", **self.last)

    def _receive(self, message: Json) -> None:
        try:
            super()._receive(message)
        except AssertionError as error:  # the host, which calls this, would take it for its own
            self.world.problems.append(f"{self.client_id}: {error}")

    def _take(self, envelope: Json) -> None:
        channel, action, origin = envelope["channel"], envelope["action"], envelope.get("origin")
        before = self.mirrors[channel].state if channel in self.mirrors else None
        super()._take(envelope)
        ledger = self.world.ledgers.get(channel)
        if ledger is None:
            return
        if "rejectionReason" in envelope:
            self.world.answered(envelope["origin"])
            ledger.refused(action, envelope["rejectionReason"])
        elif self is self.world.direct and before is not None:
            after = self.mirrors[channel].state
            if origin is None:
                ledger.saw(action, False, before, after)
            elif (dispatch := self.world.answered(origin)) is not None:
                ledger.saw(action, True, before, after, in_turn=dispatch.in_turn)
            else:
                ledger.check(after == before, f"{action['type']} was answered again, and done again")

    async def greet(self) -> None:
        """A new socket, to the host that is there now: the one that knows this client, or another that does not."""
        await self.drop()
        self.last = None
        watched, seen = list(self.mirrors), self.last_seen
        try:
            await self.reconnect(again=False)
        except RpcError as error:
            if error.code != -32008:
                raise
            result = await self.initialize(ROOT)
            if result["serverSeq"] < seen:
                self.world.problems.append(f"T6: the number went back from {seen} to {result['serverSeq']}")
            for channel in watched:
                await self.look_at(channel)
            self._settle()
        for channel in (S, *self.world.chats):
            if channel not in self.mirrors:
                await self.look_at(channel)

    def _settle(self) -> None:
        """A host that was started again knows no numbers: what was seen to be done is not asked of it again."""
        for number, (channel, action) in list(self.pending.items()):
            ledger, text = self.world.ledgers[channel], action.get("message", {}).get("text")
            done = ledger.fates.get(text, "sent") != "sent"
            if done or action["type"] in ("chat/truncated", "chat/turnResume"):
                del self.pending[number]

    async def send_again(self) -> None:
        for number, (channel, action) in list(self.pending.items()):
            await self._arrive(number, channel, action)

    async def look_at(self, channel: str) -> None:
        await self.subscribe(channel, **(self.how if channel != S else {}))


# ── What there is, and what can happen ───────────────────────────────────────────────────────────────────────────
class World:
    """Every public coroutine is something that can happen; one that cannot happen now does nothing."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.loop.set_exception_handler(lambda _, context: self.problems.append(f"left behind: {context}"))
        self.problems: list[str] = []
        self.processes = 0
        self.count = 0
        self.chats: list[str] = []
        self.ledgers: dict[str, Ledger] = {}
        self.prompted: set[str] = set()
        self.cut_off: set[str] = set()
        """Chats with a turn of which a crash left no resume point: the agent keeps what a rewind to it cuts (X2)."""
        self.under_way: dict[tuple[str, int], Dispatch] = {}
        """What was dispatched, and nothing was said of it yet."""
        self._answered: set[tuple[str, int]] = set()
        self.people: dict[str, Person] = {}

    def open(self, chance: random.Random) -> None:
        """`chance` says how long the disk takes for each write."""
        self._exits = ExitStack()
        self._exits.enter_context(simulated(self.loop, chance))
        self._exits.enter_context(mock.patch.object(line, "_GRACE", 5.0))  # an hour would cost as little
        for limit, size in (("SOFT_LIMIT", 1_500), ("HARD_LIMIT", 12_000)):
            self._exits.enter_context(mock.patch.object(connection, limit, size))
        self._root = Path(self._exits.enter_context(tempfile.TemporaryDirectory()))
        listener = _Listener(self.problems)
        logging.getLogger("jupyter_ahp").addHandler(listener)
        self._exits.callback(logging.getLogger("jupyter_ahp").removeHandler, listener)
        self.loop.run_until_complete(self._begin())

    async def end(self) -> None:
        """Everybody goes, then the host: nothing may be left of either."""
        for person in self.people.values():
            await person.drop()
        await self.host.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            self.problems.append(f"tasks without an owner: {left}")

    def close(self) -> None:
        try:
            while tasks := asyncio.all_tasks(self.loop):
                for task in tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.wait(tasks))
            self.loop.close()
        finally:
            self._exits.close()

    @property
    def _folder(self) -> Path:
        return self._root / f"store {self.processes}"

    async def _begin(self) -> None:
        self.agent = Backend(self, Shelf({}))
        self.host: Host = await started(FileStore(self._folder), self.agent)
        for name in WATCHERS:
            self.people[name] = Person(self, name)
        self.direct = self.people["direct"]
        await self.direct.initialize(ROOT)
        self._keep(await self.direct.create(S))
        for person in self.people.values():
            if person is not self.direct:
                await person.initialize(ROOT)
                for channel in (S, *self.chats):
                    await person.look_at(channel)

    def _keep(self, chat: str) -> None:
        """Keep a ledger of a chat that the observer has just been given."""
        ledger = self.ledgers[chat] = Ledger(chat, self.problems)
        self.chats.append(chat)
        for turn in turns_of(self.direct.state(chat)):
            ledger.turns[turn["id"]] = turn["message"]["text"]
            for said in (turn["message"], *read_in(turn)):
                ledger.fates[said["text"]] = "copied"

    def arrived(self, which: tuple[str, int], dispatch: Dispatch) -> None:
        """A dispatch reached the host; one that did before is as it was then."""
        if which not in self._answered:
            self.under_way.setdefault(which, dispatch)

    def answered(self, origin: Json) -> Dispatch | None:
        """What is answered; None if this host had answered it."""
        which = origin["clientId"], origin["clientSeq"]
        self._answered.add(which)
        return self.under_way.pop(which, None)

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def chat(self, index: int) -> str:
        return self.chats[index % len(self.chats)]

    def person(self, index: int, chat: str = S) -> Person:
        """Somebody who is there and watches the chat."""
        person = list(self.people.values())[index % len(self.people)]
        return self.direct if person.away or chat not in person.mirrors else person

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def _submit(
        self, who: Person, chat: str, kind: str, name: str, *, hold: bool = False, lost: bool = False
    ) -> None:
        text = self._name("m")
        self.ledgers[chat].submitted(text, name)
        meta: Json = {"_meta": {HOLD: True}} if hold else {}
        await who.act(
            chat, "chat/pendingMessageSet", lost=lost, kind=kind, id=name, message=message(text), **meta
        )

    def _waits(self, who: Person, chat: str, which: int) -> str | None:
        """A message that waits, as this person sees it; from 6 on, one of the last that ever did."""
        ever = list(dict.fromkeys(name for name in self.ledgers[chat].names.values() if name))
        names = [entry["id"] for entry in waiting(who.state(chat))] if which < 6 else ever[-4:]
        return names[which % len(names)] if names else None

    async def queue(self, who: Person, chat: str, *, hold: bool = False, lost: bool = False) -> None:
        await self._submit(who, chat, "queued", self._name("q"), hold=hold, lost=lost)

    async def steer(self, who: Person, chat: str, *, lost: bool = False) -> None:
        await self._submit(who, chat, "steering", self._name("s"), lost=lost)

    async def edit(self, who: Person, chat: str, which: int, *, hold: bool = False) -> None:
        if (name := self._waits(who, chat, which)) is not None:
            await self._submit(who, chat, _kind(name), name, hold=hold)

    async def say_again(self, who: Person, chat: str) -> None:
        """The steering message that waits, as it is (G5)."""
        waits = who.state(chat).get("steeringMessage")
        if waits is not None:
            said = {"kind": "steering", "id": waits["id"], "message": waits["message"]}
            self.ledgers[chat].again.add(waits["message"]["text"])
            await who.act(chat, "chat/pendingMessageSet", **said)

    async def take_back(
        self, who: Person, chat: str, which: int, *, hold: bool = False, lost: bool = False
    ) -> None:
        if (name := self._waits(who, chat, which)) is not None:
            meta: Json = {"_meta": {HOLD: True}} if hold else {}
            await who.act(chat, "chat/pendingMessageRemoved", lost=lost, kind=_kind(name), id=name, **meta)

    async def reorder(self, who: Person, chat: str, which: int, *, hold: bool = False) -> None:
        queue = [entry["id"] for entry in who.state(chat).get("queuedMessages", ())]
        order = random.Random(which).sample(queue, min(len(queue), 1 + which % 3))
        meta: Json = {"_meta": {HOLD: True}} if hold else {}
        await who.act(chat, "chat/queuedMessagesReordered", order=order, **meta)

    async def send_on(self, who: Person, chat: str, which: int) -> None:
        """A person starts what waits."""
        if (name := self._waits(who, chat, which)) is not None:
            turn, at = self._name("t"), "2026-03-01T10:00:00.000Z"
            as_it_waits = message("(as it waits)")
            await who.act(
                chat,
                "chat/turnStarted",
                turnId=turn,
                startedAt=at,
                message=as_it_waits,
                queuedMessageId=name,
            )

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def start(self, who: Person, chat: str, *, lost: bool = False) -> None:
        text, turn = self._name("m"), self._name("t")
        self.ledgers[chat].submitted(text, "")
        at = "2026-03-01T10:00:00.000Z"
        await who.act(chat, "chat/turnStarted", lost=lost, turnId=turn, startedAt=at, message=message(text))

    async def stop(self, who: Person, chat: str) -> None:
        if (active := who.state(chat).get("activeTurn")) is not None:
            await who.act(chat, "chat/turnCancelled", turnId=active["id"], duration=1)

    async def resume(self, who: Person, chat: str) -> None:
        if ended := who.state(chat)["turns"]:
            await who.act(chat, "chat/turnResume", turnId=ended[-1]["id"])

    async def rewind(self, who: Person, chat: str, which: int, *, lost: bool = False) -> None:
        """To one of the last turns, or to none."""
        last = who.state(chat)["turns"][-4:]
        keep = {"turnId": last[which % len(last)]["id"]} if last and which < 7 else {}
        await who.act(chat, "chat/truncated", lost=lost, **keep)

    async def undo(self, who: Person, chat: str) -> None:
        try:
            await who.request("x-jupyter-ahp/undoRewind", channel=chat)
        except RpcError as error:
            self.ledgers[chat].check(error.code == -32602, f"an undo was answered {error}")
        else:
            self.ledgers[chat].check(not self.ledgers[chat].cut, "an undo left something cut")

    async def branch(self, chat: str, which: int, kind: str) -> None:
        ended = self.direct.state(chat)["turns"]
        if not ended or len(self.chats) == 3:
            return
        new, turn = f"ahp-chat:/{self._name('c')}", ended[which % len(ended)]["id"]
        source = {"kind": kind, "chat": chat, "turnId": turn}
        try:
            await self.direct.request("createChat", channel=S, chat=new, source=source)
        except RpcError as error:
            self.ledgers[chat].check(error.code == -32602, f"a {kind} was answered {error}")
            return
        await self.direct.look_at(new)
        self._keep(new)
        if chat in self.cut_off:
            self.cut_off.add(new)
        copied = [turn["id"] for turn in self.direct.state(new)["turns"]]
        expected = [entry["id"] for entry in ended[: which % len(ended) + 1]] if kind == "fork" else []
        self.ledgers[new].check(copied == expected, f"S2, S6: a {kind} at {turn} has the turns {copied}")
        for person in self.people.values():
            if person is not self.direct and person.can_ask:
                await person.look_at(new)

    async def burst(self, who: Person, chat: str, deeds: Sequence[str], which: int) -> None:
        """Several things at once, before the host can do any of them."""
        for deed in deeds:
            match deed:
                case "queue" | "steer" | "start" | "stop" | "resume":
                    await getattr(self, deed)(who, chat)
                case "edit" | "take_back" | "send_on" | "reorder" | "rewind":
                    await getattr(self, deed)(who, chat, which)
                case "late":
                    await self.agent_begins(chat)
                case word:
                    await self.agent_does(chat, word)

    # ── the agent ────────────────────────────────────────────────────────────────────────────────────────────────
    async def agent_does(self, chat: str, *words: str) -> None:
        mind = self.agent.minds.get(chat)
        if mind is not None and mind.turn is not None:
            for word in words:
                mind.words.put_nowait(word)

    async def agent_begins(self, chat: str) -> None:
        """Its agent begins a turn by itself, if it has a conversation."""
        mind = self.agent.minds.get(chat)
        if mind is not None and not mind.closed:
            text = f"late {self._name('l')}"
            self.ledgers[chat].late[text] = False
            mind.begin_late(text)

    async def agent_is(self, open_to_steering: bool, gives_back: bool, slowness: float) -> None:
        agent = self.agent
        agent.open_to_steering, agent.gives_back, agent.slowness = open_to_steering, gives_back, slowness

    # ── the network ──────────────────────────────────────────────────────────────────────────────────────────────
    async def leave(self, who: Person) -> None:
        if who is not self.direct:
            await who.drop()

    async def come_back(self) -> None:
        for person in self.people.values():
            if person.away:
                await person.greet()
                await person.send_again()

    async def stall(self, stalled: bool) -> None:
        self.people["slow"].wire.stalled = stalled
        if not stalled:
            self.people["slow"].wire.pass_on()

    async def look_anew(self, who: Person, chat: str, view: int) -> None:
        """Subscribe again, to the newest turns alone."""
        await who.subscribe(chat, view={"turns": view})

    async def trickle(self, frames: int) -> None:
        self.people["slow"].wire.pass_on(frames)

    async def fetch(self, chat: str) -> None:
        """The one with a window asks for what is before it (M3)."""
        who = self.people["windowed"]
        cursor = who.state(chat).get("turnsNextCursor") if chat in who.mirrors else None
        if cursor is not None and who.can_ask:
            try:
                await who.request("fetchTurns", channel=chat, cursor=cursor)
            except RpcError as error:
                self.ledgers[chat].check(error.code == -32602, f"a page was answered {error}")

    # ── restarts ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def restart(self, *, crash: bool) -> None:
        """The host ends, well or by death; another takes over what is on the disk."""
        before, host = self._folder, self.host
        shelf = self.agent.shelf
        if crash:
            self.processes += 1
            shelf = shelf.copy()
            shutil.copytree(before, self._folder)  # what the disk has when the process is killed
        else:
            await host.stop()
        states = {chat: self.direct.state(chat) for chat in self.chats}
        under_way, self.under_way, self._answered = list(self.under_way.values()), {}, set()
        away = [person for person in self.people.values() if person.away]
        self.agent = Backend(self, shelf)
        for person in self.people.values():
            await person.drop()
        if crash:
            await host.stop()  # the dead one, in a folder of which nobody knows
        self.host = await started(FileStore(self._folder), self.agent)
        for person in self.people.values():
            person.host = self.host
        await self.direct.greet()
        for chat, ledger in self.ledgers.items():
            lost = [dispatch.action for dispatch in under_way if dispatch.chat == chat]
            ledger.reopened(states[chat], self.direct.state(chat), under_way=lost, crashed=crash)
            self._look_for_points(chat)
        for person in self.people.values():
            if person not in away:
                if person is not self.direct:
                    await person.greet()
                await person.send_again()

    def _look_for_points(self, chat: str) -> None:
        held = self.host.chat_named(chat)
        if held is None:
            return
        sent = [turn["id"] for turn in self.direct.state(chat)["turns"] if turn["id"] in self.prompted]
        if any(turn not in held.memory.points for turn in sent):
            self.cut_off.add(chat)

    # ── rest ─────────────────────────────────────────────────────────────────────────────────────────────────────
    async def rest(self) -> None:
        """Until nothing is under way but agents at work; then everything is looked at."""
        await self._quiet()
        for chat in self.chats:
            await self._steered(chat)
        await self._agree()

    async def everyone_rests(self) -> None:
        """As `rest`, with everybody there."""
        await self.stall(False)
        await self.come_back()
        await self.rest()
        for ledger in self.ledgers.values():
            sent = [text for text, fate in ledger.fates.items() if fate == "sent"]
            ledger.check(not sent, f"of {sent} nothing was ever said")

    async def _quiet(self) -> None:
        for _ in range(100):
            await asyncio.sleep(1.5)
            chats = [chat for session in self.host.sessions.values() for chat in session.chats.values()]
            if not any(
                chat._worker or chat.turns._stops or chat.turns._endings or chat.saver._task for chat in chats
            ):
                return
        self.problems.append("it never comes to rest")

    async def _steered(self, chat: str) -> None:
        """Steering that waits while a turn runs is handed over on the turn's next action (G1)."""
        state, mind = self.direct.state(chat), self.agent.minds.get(chat)
        turn = state.get("activeTurn", {}).get("id")
        if turn is None:
            waits = mind is not None and not mind.closed and any(not late.done() for late in mind.late)
            self.ledgers[chat].check(not waits, "B9: a turn that its agent began is not open, and none runs")
            return
        if mind is None or mind.turn != turn:
            self.ledgers[chat].wrong(f"{turn} runs, and the agent does not know of it")
        elif "steeringMessage" in state and self.agent.open_to_steering:
            mind.words.put_nowait("say")
            await self._quiet()
            if mind.turn == turn and "steeringMessage" in (state := self.direct.state(chat)):
                has = [held.id for held in mind.taken]
                name = state["steeringMessage"]["id"]
                self.ledgers[chat].check(name in has, f"G1: {name} waits, and the agent holds {has}")

    async def _agree(self) -> None:
        newcomer = WireClient(self.host, client_id="newcomer")
        await newcomer.initialize()
        for channel in (S, *self.chats):
            state = await newcomer.subscribe(channel)
            if channel in self.ledgers:
                self.ledgers[channel].at_rest(state)
                await self._stored(channel, state)
            for person in self.people.values():
                if person.can_ask and channel in person.mirrors:
                    self._same(person, channel, state)
        await newcomer.drop()

    def _same(self, person: Person, channel: str, state: Json) -> None:
        mirror = person.mirrors[channel]
        held, given = (comparable(mirror.kind, each) for each in (mirror.state, state))
        if mirror.state.get("turnsNextCursor") is not None:
            given["turns"] = given["turns"][len(given["turns"]) - len(held["turns"]) :]
        if held != given:
            differ = {key for key in held.keys() | given.keys() if held.get(key) != given.get(key)}
            shown = {key: (held.get(key), given.get(key)) for key in differ}
            self.problems.append(f"{person.client_id} of {channel} differs in {shown}")

    async def _stored(self, chat: str, state: Json) -> None:
        """The disk has what people see."""
        ledger, kept = self.ledgers[chat], await self.host.store.load_chat("s", chat)
        ledger.check(kept.turns == state["turns"], "the disk has other turns")
        active = state.get("activeTurn", {}).get("id")
        ledger.check(
            (kept.active or {}).get("id") == active, f"the disk has {kept.active}, and {active} runs"
        )
        ledger.check(kept.record.queued == state.get("queuedMessages", []), "the disk has another queue")
        ledger.check(kept.record.steering == state.get("steeringMessage"), "the disk has other steering")
        cut = [turn["id"] for turn in rewind.cut(kept.record)]
        ledger.check(cut == ledger.cut, f"X1: the disk can bring back {cut}, cut were {ledger.cut}")
        ledger.check(not kept.problems, str(kept.problems))


class _Listener(logging.Handler):
    """What the host logs as an error is one."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage()
        if not words.startswith("The agent of"):  # which breaks when it is told to
            error = f": {record.exc_info[1]!r}" if record.exc_info else ""
            self._problems.append(f"logged: {words}{error}")


def _kind(name: str) -> str:
    return "steering" if name.startswith("s") else "queued"
