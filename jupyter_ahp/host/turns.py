"""The turn that runs in a chat, from the message accepted to the one action that ends it.

T2, T4, T5, B1, B2, B8, B9. One turn at a time; a turn waits for the stop of the one before it to be through, and its message
is written down behind the end of that one.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..protocol.meta import plugin_command, ran_command, runs_here
from . import clock
from .commands import Command
from .late import Late
from .line import Line, cancelled_by_us
from .memory import Held
from .ports import (
    Answer,
    Confirmation,
    Conversation,
    Json,
    Steering,
    StoreError,
    TurnFailed,
    TurnOver,
)
from .prompts import gather
from .recovery import INTERRUPTED, interrupted
from .sink import ChatSink, sendable

if TYPE_CHECKING:
    from .chat import Chat

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Run:
    """A turn in the backend's hands."""

    sink: ChatSink
    began: float
    command: Command | None = None
    """What runs instead of the backend, which is told of it later (M5)."""
    task: asyncio.Task[None] | None = None
    sent: bool = False
    """The backend was handed the prompt: a stop is for it to take in."""
    resumed: bool = False
    """The backend was handed it before."""
    late: Late | None = None
    """What the backend has begun by itself, instead of a prompt (B9)."""
    adopted: _Adopted | None = None
    """It is run elsewhere, and has no task here."""


@dataclass(frozen=True, slots=True)
class _Adopted:
    """Whoever runs a turn elsewhere: how it is told that the turn has ended, and how it ends it alone."""

    gone: Callable[[], None]
    stop: Callable[[], Awaitable[None]] | None


class Turns:
    """What runs in one chat. Owns the task of the turn, those of stops and endings, and the line to the backend."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.line = Line(chat)
        self._run: _Run | None = None
        self._stops: set[asyncio.Task[None]] = set()
        """Backends that take in a stop, or close: the next turn waits for them."""
        self._endings: set[asyncio.Task[None]] = set()
        """Endings that are being written: the next message is written behind them."""
        self._spent = 0.0
        self.journalled = False
        """A turn is accepted and has not ended: its actions go to the journal."""
        self._early: list[bytes] | None = None
        """Actions of an adopted turn, until its journal is begun."""

    @property
    def running(self) -> bool:
        return self._run is not None

    @property
    def can_stop(self) -> bool:
        """Whether what runs, if anything does, can be stopped by itself (W4)."""
        adopted = self._run.adopted if self._run is not None else None
        return adopted is None or adopted.stop is not None

    @property
    def busy(self) -> bool:
        """A turn runs, or something that the end of the conversation would end."""
        return self.running or self.line.busy

    def duration(self) -> int:
        """Milliseconds that the running turn has worked."""
        if self._run is None:
            return 0
        return max(0, round(self._spent + clock.monotonic_ms() - self._run.began))

    # ── begin ────────────────────────────────────────────────────────────────────────────────────────────────
    async def accept(self, active: Json, *, spent: float = 0) -> None:
        """The turn's message is on disk when this returns. Raises `StoreError`: then it is not accepted."""
        chat = self._chat
        await self._written()
        await chat.store.begin_turn(chat.session.id, chat.uri, active)
        chat.memory.points.pop(active["id"], None)
        self.journalled = True
        self._spent = spent

    def _sink(self, active: Json) -> ChatSink:
        chat = self._chat
        return ChatSink(
            active["id"],
            chat.publish,
            parts=active["responseParts"],
            steered=chat.waiting.steering_read,
            ended_at=partial(chat.memory.ended_at, active["id"]),
            spawn=chat.workers.spawn,
        )

    def run(self, late: Late | None = None) -> None:
        """Hand the chat's active turn to the backend. A stop of the turn before is waited for first (B1).

        One that the backend has begun by itself is in its hands already.
        """
        chat = self._chat
        state = chat.state
        active = state["activeTurn"]
        run = _Run(
            self._sink(active),
            clock.monotonic_ms(),
            resumed=bool(active["responseParts"]),
            late=late,
            sent=late is not None,
        )
        self._run = run
        if ran_command(active["message"]):
            run.command = Command(chat, active["id"], active["message"]["text"])
        run.task = asyncio.create_task(self._work(run, active, state["turns"], tuple(self._stops)))
        chat.session.host.turn_changed()
        chat.session.host.extensions.events.turn(chat, "turn_start", active)

    def adopt(self, *, gone: Callable[[], None], stop: Callable[[], Awaitable[None]] | None) -> ChatSink:
        """The chat's active turn is run elsewhere, and reports here (W3). It is written down behind this, or at its end.

        `gone` is called when it has ended, in whatever way; `stop` ends it alone, if that can be done.
        """
        active = self._chat.state["activeTurn"]
        run = _Run(self._sink(active), clock.monotonic_ms(), sent=True, adopted=_Adopted(gone, stop))
        self._run = run
        self._spent = 0.0
        self.journalled, self._early = True, []
        self._own(self._endings, self._begin(active, self._early))
        self._chat.session.host.turn_changed()
        self._chat.session.host.extensions.events.turn(self._chat, "turn_start", active)
        return run.sink

    async def _begin(self, active: Json, early: list[bytes]) -> None:
        chat, store = self._chat, self._chat.store
        try:
            await store.begin_turn(chat.session.id, chat.uri, active)
            if self._early is early:  # it has not ended
                self._early = None
                for action in early:
                    store.journal(chat.session.id, chat.uri, action)
            await chat.session.saver.now()
        except StoreError as failure:
            log.warning("What runs in %s is written down when it ends: %s", chat.uri, failure)

    def journal(self, action: bytes) -> None:
        """Write down an action of the turn that runs. Raises `StoreError`."""
        if self._early is not None:
            self._early.append(action)
        else:
            self._chat.store.journal(self._chat.session.id, self._chat.uri, action)

    async def _work(
        self, run: _Run, active: Json, history: list[Json], before: tuple[asyncio.Task[None], ...]
    ) -> None:
        error: Json | None = None
        try:
            await self._send(run, active, history, before)
        except TurnFailed as failure:
            error = _part_of(failure)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as failure:  # whatever an agent raises, the turn ends
            if run.sink.over:
                if not isinstance(failure, TurnOver | asyncio.CancelledError):
                    log.exception("The agent of %s failed behind the end of its turn", self._chat.uri)
            elif cancelled_by_us():
                error = interrupted(active["message"])  # the event loop ends
            else:
                log.exception("The agent of %s failed", self._chat.uri)
                name = self._chat.session.agent_name
                words = f"{name} stopped working: {str(failure) or type(failure).__name__}. What it wrote is kept."
                error = _error_part("agentFailed", words, True, traceback.format_exc())
        if not run.sink.over:
            self._end(run, error)

    async def _send(
        self, run: _Run, active: Json, history: list[Json], before: tuple[asyncio.Task[None], ...]
    ) -> None:
        if before:
            await asyncio.wait(before)
        if run.command is not None:
            await run.command.run(run.sink)
            return
        if plugin_command(active["message"]) is not None:
            await self._chat.session.host.extensions.commands.run(self._chat, active, run.sink)
            return
        if run.late is not None:
            self._chat.go_on("started")
            await run.late.answer(run.sink)
            return
        told = await gather(self._chat, active, history)
        conversation = await self.line.open(active["id"], told.history)
        if run.sink.over:
            return  # stopped meanwhile: ends unsent (B2)
        work = self._chat.session.work
        run.sent = True
        if work is not None and (standing := work.preface(active["id"])):
            told.ahead(standing)
        if self.line.untold:
            self.line.untold = False
            told.all_of_it()
        self._chat.go_on("started")  # what waits to steer it can be handed over from here on
        await conversation.send(told.prompt(self._chat), run.sink)

    # ── end ──────────────────────────────────────────────────────────────────────────────────────────────────
    def _end(self, run: _Run, error: Json | None) -> None:
        """Say the one action that ends the turn (T4), then write it down."""
        end: Json = {"type": "chat/turnComplete", "turnId": run.sink.turn_id, "duration": self.duration()}
        if error is not None:
            end |= {"type": "chat/error", "part": error}
        run.sink.end()
        self._chat.workers.turn_ended(run.sink.turn_id, stopped=False)
        self._chat.publish(end)
        self._run = None
        self._left(run)
        self._ended(run)
        self._chat.waiting.given_back()
        self._chat.go_on("completed" if error is None or run.command is not None else "failed")

    def stop(self, say: Callable[[], object]) -> None:
        """A person's stop: `say` publishes `chat/turnCancelled`; then the backend is told. The turn has ended."""
        run = self._run
        command = run.command if run is not None else None
        if command is not None:
            command.stopped()
        self._halt(say)
        self._ended(run)
        # What waits goes on, however a command ended (Q2); behind a stop, only what the backend has begun by itself.
        self._chat.go_on("completed" if command is not None else "stopped")

    def end(self, sink: ChatSink, failure: TurnFailed | None) -> None:
        """An adopted turn has ended, well or with these words. One that ended already stays as it is (T5)."""
        if self._run is not None and self._run.sink is sink:
            self._end(self._run, _part_of(failure) if failure is not None else None)

    def cut_short(self, sink: ChatSink, end: Json, *, tell: bool) -> None:
        """End an adopted turn by this action, if it runs; `tell`: whoever runs it is to end it."""
        run = self._run
        if run is None or run.sink is not sink:
            return
        said = {"turnId": sink.turn_id, "duration": self.duration(), **end}
        self._silence()
        self._chat.publish(said)
        if tell:
            self._tell(run)
        self._ended(run)

    def _left(self, run: _Run) -> None:
        """It has ended, for whoever else waits for that."""
        if run.late is not None:
            run.late.ended()
        if run.adopted is not None:
            run.adopted.gone()

    def _ended(self, run: _Run | None = None) -> None:
        """The turn that just ended is the chat's last: have it written."""
        chat = self._chat
        self.journalled, self._early = False, None
        turn = chat.state["turns"][-1]
        if run is not None and not (run.sent or run.resumed or runs_here(turn["message"])):
            chat.memory.unsent(turn["id"], chat.state["turns"][:-1])
        self._own(self._endings, self._write(turn))
        chat.session.turn_ended(chat)
        chat.session.host.turn_changed()
        chat.session.host.extensions.events.turn(chat, "turn_end", chat.state["turns"][-1])

    async def _write(self, turn: Json) -> None:
        chat = self._chat
        if turn["state"] == "cancelled":
            # What a stop took out is off the disk before the stop is on it, or a crash between would bring it back.
            try:
                await chat.saver.flush()
            except StoreError as failure:
                log.warning("What steered %s may wait again after a crash: %s", chat.uri, failure)
        try:
            await chat.store.end_turn(chat.session.id, chat.uri, turn)
            if chat.memory.ended(turn):
                await chat.saver.now()
        except StoreError as failure:
            log.error("The answer in %s is shown but could not be stored: %s", chat.uri, failure)
            chat.session.say_problem(f"An answer could not be stored: {failure}")

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Write something down: the next message is written behind it."""
        self._own(self._endings, work)

    async def _written(self) -> None:
        if self._endings:
            await asyncio.wait(tuple(self._endings))

    def _halt(self, say: Callable[[], object]) -> None:
        run = self._silence()
        say()
        self._tell(run)

    def _silence(self) -> _Run | None:
        """Nothing that the backend says from now on is heard."""
        run, self._run = self._run, None
        if run is not None:
            run.sink.end()
            self._chat.workers.turn_ended(run.sink.turn_id, stopped=True)
            self._left(run)
        return run

    def _tell(self, run: _Run | None) -> None:
        """The backend is told of the stop."""
        if run is not None and run.task is not None:
            self._own(self._stops, self._stop(run, run.task, self.line.conversation))
        elif run is not None and run.adopted is not None and run.adopted.stop is not None:
            self._own(self._stops, self.line.stop_adopted(run.adopted.stop))

    async def _stop(self, run: _Run, task: asyncio.Task[None], conversation: Conversation | None) -> None:
        await self.line.stop(task, conversation, sent=run.sent)
        if self._chat.channel is not None:
            self._chat.waiting.stop_is_through()

    # ── rewind ───────────────────────────────────────────────────────────────────────────────────────────────
    async def truncate(self, keep: str | None, say: Callable[[], object]) -> None:
        """Drop what runs and the turns after `keep` (or all): from the store, then `say` it, then the backend is told (X2).

        What is dropped, what ran among it as stopped, is in the record when `say` is called.

        Raises `StoreError`: then nothing is dropped, and what ran ends as stopped.
        """
        chat = self._chat
        await self._written()
        active = chat.state.get("activeTurn")
        turns = chat.state["turns"]
        cancel: Json = {"type": "chat/turnCancelled", "duration": self.duration()}
        run = self._silence()
        self.journalled = False
        meta, before = chat.record.meta, Held.by(chat.record)
        try:
            if active is not None:
                # Written as ended, so that no start takes it for a turn that a crash cut off; then cut with the others.
                cancel["turnId"] = active["id"]
                turns = chat.after(cancel)["turns"]
                await chat.store.end_turn(chat.session.id, chat.uri, turns[-1])
            kept = next((at for at, turn in enumerate(turns) if turn["id"] == keep), -1)
            cut = turns[kept + 1 :]
            before = chat.memory.rewind(turns[: kept + 1], cut)
            await chat.saver.now()  # nor may a crash find what is dropped lost, or its message still waiting
            await chat.store.truncate(chat.session.id, chat.uri, keep)
        except StoreError:
            chat.record.meta = meta
            before.put(chat.record)
            chat.saver.soon()
            if active is not None:
                chat.publish(cancel)
                self._ended()
            raise
        else:
            chat.memory.drop(cut)
            say()
            chat.session.host.turn_changed()
        finally:
            self._tell(run)
        if before != Held.by(chat.record) or all(runs_here(turn["message"]) for turn in chat.state["turns"]):
            self._let_go()

    def _let_go(self) -> None:
        """The backend stops: the next turn opens a conversation where the record says (X1), or anew (X3)."""
        conversation = self.line.gone()
        if conversation is not None:
            self._own(self._stops, self.line.hang_up(conversation, tuple(self._stops)))

    async def steer(self, message: Steering) -> bool:
        """Hand a message to the turn that runs; False when it cannot be taken yet (G1). Raises `SteeringRefused`."""
        return self._run is not None and self._run.sent and await self.line.steer(message)

    # ── what it waits for ────────────────────────────────────────────────────────────────────────────────────
    def confirmed(self, call_id: str, confirmation: Confirmation) -> None:
        if self._run is not None:
            self._run.sink.confirmed(call_id, confirmation)

    def answered(self, request_id: str, answer: Answer) -> None:
        if self._run is not None:
            self._run.sink.answered(request_id, answer)

    def client_ran(self, call_id: str, result: Json, *, review: bool) -> None:
        if self._run is not None:
            self._run.sink.client_ran(call_id, result, review=review)

    def client_failed(self, call_id: str, words: str) -> None:
        if self._run is not None:
            self._run.sink.client_failed(call_id, words)

    def client_lost(self, client_id: str) -> None:
        if self._run is not None:
            self._run.sink.client_lost(client_id)

    def reviewed(self, call_id: str, approved: bool) -> None:
        if self._run is not None:
            self._run.sink.reviewed(call_id, approved)

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────
    def drop(self) -> None:
        """The turn goes without an end of its own: the chat is to be deleted."""
        self.journalled = False
        self._halt(lambda: None)

    async def close(self) -> None:
        """The server, or this chat here, stops: what runs ends so that it can be resumed."""
        self._chat.workers.end(INTERRUPTED)
        if self._run is not None and self._run.adopted is not None:
            self.cut_short(self._run.sink, {"type": "chat/error", "part": INTERRUPTED}, tell=False)
        elif self._run is not None:
            turn_id, duration = self._run.sink.turn_id, self.duration()
            part = interrupted(self._chat.state["activeTurn"]["message"])
            end: Json = {"type": "chat/error", "turnId": turn_id, "duration": duration, "part": part}
            self.stop(lambda: self._chat.publish(end))
        while tasks := self._stops | self._endings | self.line.tellings:
            await asyncio.wait(tasks)
        conversation = self.line.gone()
        if conversation is not None:
            await self.line.hang_up(conversation)

    def _own(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _part_of(failure: TurnFailed) -> Json:
    return _error_part(failure.error_type, failure.message, failure.resumable, failure.details)


def _error_part(kind: str, message: str, resumable: bool, details: str | None) -> Json:
    error: Json = {"errorType": kind, "message": message}
    if details:
        error["stack"] = details
    part: Json = {"kind": "error", "error": error}
    if resumable:
        part["resumable"] = True
    cleaned: Json = sendable(part)
    return cleaned
