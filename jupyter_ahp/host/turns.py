"""The turn that runs in a chat, from the message accepted to the one action that ends it.

T2, T4, T5, B1, B2. One turn at a time; a turn waits for the stop of the one before it to be through.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import clock
from .attachments import blocks_of
from .ports import Answer, Confirmation, Conversation, Json, Prompt, Start, StoreError, TurnFailed, TurnOver
from .recovery import INTERRUPTED
from .sink import ChatSink

if TYPE_CHECKING:
    from .chat import Chat

log = logging.getLogger(__name__)

_GRACE = 5.0  # seconds that a backend has to take in a stop before its task is cancelled


class Turns:
    """What runs in one chat. Owns the task of the turn, those of stops, and the conversation."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._conversation: Conversation | None = None
        self._sink: ChatSink | None = None
        self._task: asyncio.Task[None] | None = None
        self._stops: set[asyncio.Task[None]] = set()
        self._began = 0.0
        self._spent = 0.0
        self._store_lock = asyncio.Lock()
        self.journalled = False
        """A turn is accepted and not written as ended: its actions go to the journal."""

    @property
    def running(self) -> bool:
        return self._task is not None

    def duration(self) -> int:
        """Milliseconds that the running turn has worked."""
        return (
            max(0, round(self._spent + clock.monotonic_ms() - self._began)) if self._sink is not None else 0
        )

    # ── begin ────────────────────────────────────────────────────────────────────────────────────────────────
    async def accept(self, active: Json, *, spent: float = 0) -> None:
        """The turn's message is on disk when this returns. Raises `StoreError`: then it is not accepted."""
        chat = self._chat
        async with self._store_lock:
            await chat.store.begin_turn(chat.session.id, chat.uri, active)
            self.journalled = True
        self._spent = spent

    def run(self) -> None:
        """Hand the chat's active turn to the backend. A stop of the turn before is waited for first (B1)."""
        chat = self._chat
        state = chat.state
        active = state["activeTurn"]
        self._began = clock.monotonic_ms()
        sink = ChatSink(active["id"], chat.publish, parts=len(active["responseParts"]))
        self._sink = sink
        before = tuple(self._stops)
        self._task = asyncio.create_task(self._run(active, state["turns"], sink, before))
        chat.session.host.turn_changed()

    async def _run(
        self, active: Json, history: list[Json], sink: ChatSink, before: tuple[asyncio.Task[None], ...]
    ) -> None:
        error: Json | None = None
        try:
            if before:
                await asyncio.wait(before)
            message = active["message"]
            model = message.get("model") or {}
            blocks = await asyncio.to_thread(blocks_of, message) if message.get("attachments") else []
            conversation = await self._open()
            await conversation.send(
                Prompt(
                    turn_id=active["id"],
                    text=message["text"],
                    blocks=blocks,
                    model=model.get("id"),
                    model_config=model.get("config") or {},
                    history=history,
                    so_far=active["responseParts"],
                ),
                sink,
            )
        except TurnFailed as failure:
            error = _error_part(failure.error_type, failure.message, failure.resumable, failure.details)
        except TurnOver:
            return  # stopped while it waited for a person
        except Exception as failure:
            log.exception("The agent of %s failed", self._chat.uri)
            name = self._chat.session.agent_name
            error = _error_part(
                "agentFailed",
                f"{name} stopped working: {failure or type(failure).__name__}. What it wrote is kept.",
                True,
                traceback.format_exc(),
            )
        if not sink.over:
            await self._end(sink, active, error)

    async def _open(self) -> Conversation:
        if self._conversation is None:
            session = self._chat.session
            agent = session.agent
            if agent is None:
                raise TurnFailed(
                    "noAgent",
                    f"The agent {session.provider!r} is not on this server. Start a chat with another one.",
                )
            self._conversation = await agent.open(
                Start(
                    session_id=session.id,
                    chat=self._chat.uri,
                    directories=session.paths_of(self._chat),
                    config=session.config,
                    memory=self._chat.record.memory,
                )
            )
        return self._conversation

    # ── end ──────────────────────────────────────────────────────────────────────────────────────────────────
    async def _end(self, sink: ChatSink, active: Json, error: Json | None) -> None:
        """Say the one action that ends the turn (T4), then write it down."""
        turn_id = active["id"]
        duration = self.duration()
        sink.end()
        if error is None:
            self._chat.publish({"type": "chat/turnComplete", "turnId": turn_id, "duration": duration})
        else:
            self._chat.publish({"type": "chat/error", "turnId": turn_id, "duration": duration, "part": error})
        self._task = None
        self._sink = None
        await self._ended(self._chat.state["turns"][-1])

    async def _ended(self, turn: Json) -> None:
        chat = self._chat
        self.journalled = False
        async with self._store_lock:
            try:
                await chat.store.end_turn(chat.session.id, chat.uri, turn)
                memory = self._conversation.memory if self._conversation else None
                if memory != chat.record.memory:
                    chat.record.memory = memory
                    await chat.saver.now()
            except StoreError as failure:
                log.error("The answer in %s is shown but could not be stored: %s", chat.uri, failure)
                chat.session.say_problem(f"An answer could not be stored: {failure}")
        chat.session.turn_ended(chat)
        chat.session.host.turn_changed()

    def stop(self, say: Callable[[], object]) -> None:
        """A person's stop: `say` publishes `chat/turnCancelled`; then the backend is told. The turn has ended."""
        self._halt(say)
        ended = asyncio.create_task(self._ended(self._chat.state["turns"][-1]))
        self._stops.add(ended)
        ended.add_done_callback(self._stops.discard)

    def drop(self) -> None:
        """The turn goes without an end of its own: a truncation or the chat's end drops it."""
        self.journalled = False
        self._halt(lambda: None)

    def _halt(self, say: Callable[[], object]) -> None:
        sink, task, self._sink, self._task = self._sink, self._task, None, None
        if sink is not None:
            sink.end()
        say()
        if task is not None:
            stop = asyncio.create_task(self._stop(task))
            self._stops.add(stop)
            stop.add_done_callback(self._stops.discard)
        self._chat.session.host.turn_changed()

    async def _stop(self, task: asyncio.Task[None]) -> None:
        if self._conversation is None:
            task.cancel()
        else:
            try:
                await self._conversation.stop(task)
            except Exception:
                log.exception("The agent of %s did not take a stop; its task is cancelled", self._chat.uri)
                task.cancel()
        done, _ = await asyncio.wait([task], timeout=_GRACE)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=_GRACE)

    async def truncate(self, keep: str | None) -> None:
        """Drop the turns after `keep`, or all, from the store. Raises `StoreError`."""
        async with self._store_lock:
            await self._chat.store.truncate(self._chat.session.id, self._chat.uri, keep)

    # ── what it waits for ────────────────────────────────────────────────────────────────────────────────────
    def confirmed(self, call_id: str, confirmation: Confirmation) -> None:
        if self._sink is not None:
            self._sink.confirmed(call_id, confirmation)

    def answered(self, request_id: str, answer: Answer) -> None:
        if self._sink is not None:
            self._sink.answered(request_id, answer)

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def forget(self) -> None:
        """The next turn begins a conversation anew (X3)."""
        conversation, self._conversation = self._conversation, None
        self._chat.record.memory = None
        self._chat.saver.soon()
        if self._stops:
            await asyncio.wait(tuple(self._stops))
        if conversation is not None:
            await conversation.close()

    async def close(self) -> None:
        """The server, or this chat here, stops: what runs ends so that it can be resumed."""
        if self._sink is not None and self._task is not None:
            turn_id, duration = self._sink.turn_id, self.duration()
            end: Json = {"type": "chat/error", "turnId": turn_id, "duration": duration, "part": INTERRUPTED}
            self.stop(lambda: self._chat.publish(end))
        while self._stops:
            await asyncio.wait(tuple(self._stops))
        if self._conversation is not None:
            conversation, self._conversation = self._conversation, None
            await conversation.close()


def _error_part(kind: str, message: str, resumable: bool, details: str | None) -> Json:
    error: Json = {"errorType": kind, "message": message}
    if details:
        error["stack"] = details
    part: Json = {"kind": "error", "error": error}
    if resumable:
        part["resumable"] = True
    return part
