"""One chat with a bot: what is said there is handed to the session that does the work, and what that says is shown (B16).

A turn of the chat shows one turn of the work, and those that steering adds: a steering message is queued behind the
work's running turn, is read when a turn of the work takes it up, and the chat's turn stays open until none of it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from jupyter_ahp.agents.base import (
    Conversation,
    Json,
    Prompt,
    Start,
    Steering,
    TurnFailed,
    TurnSink,
    WorkingSession,
)

from .mirror import Mirror, Shown
from .settings import Bot

_ENDS: Final = ("chat/turnComplete", "chat/turnCancelled", "chat/error")
_MISSED: Final = "The work ended before it took this up. Send it again if it still matters."


class _Turn:
    """A turn of the chat, and what of the work it shows."""

    def __init__(self, sink: TurnSink | None) -> None:
        self.sink = sink
        """None: the work has begun it by itself, and it is not open yet."""
        self.missed: list[tuple[str, Json, bool]] = []
        """What was said before it was open."""
        self.mirror: Mirror | None = None
        self.through: asyncio.Future[TurnFailed | None] = asyncio.get_running_loop().create_future()
        self.handed: list[str] = []
        """Steering that the work was handed and has not taken up."""

    def end(self, failure: TurnFailed | None) -> None:
        if not self.through.done():
            self.through.set_result(failure)


class BotConversation(Conversation):
    """Between a chat and its working session."""

    def __init__(self, bot: Bot, start: Start, work: WorkingSession) -> None:
        self._bot = bot
        self._host = start.host
        self._work = work
        self._shown = Shown(work)
        self._turn: _Turn | None = None
        """The turn that shows what the work's chat says now."""
        self._turn_of: dict[str, _Turn] = {}
        """By the chats of the work's workers, the turn in which they began."""
        work.listen(self._heard, self._failed)

    @property
    def memory(self) -> str | None:
        return self._work.id

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        if self._turn is not None:
            words = f"“{self._bot.name}” is at work by itself. Try again when that is through."
            raise TurnFailed("workBusy", words, resumable=True)
        turn = self._turn = _Turn(sink)
        sink.activity(f"{self._bot.name} is working")
        try:
            standing = await self._told()
            gone_on = await self._work.go_on(prompt, standing=standing) if prompt.resumed else "anew"
            if gone_on == "complete":  # only its end was not seen here
                sink.markdown(_rest(self._work.answered_last, prompt.so_far))
                return
            if gone_on == "anew":
                await self._work.begin(prompt, standing=standing, model=self._bot.model)
            await self._ended(turn)
        finally:
            if self._turn is turn:
                self._turn = None

    async def _told(self) -> str:
        try:
            return await asyncio.to_thread(self._bot.prepare)
        except OSError as error:
            words = f"The folder of “{self._bot.name}” cannot be used: {error}."
            raise TurnFailed("noFolder", words, resumable=True) from error

    async def _ended(self, turn: _Turn) -> None:
        failure = await turn.through
        if failure is None:
            return
        assert turn.sink is not None, "it is open"
        if self._work.running and self._turn is turn:  # nothing would show it any more
            await self._work.stop()
        for message_id in tuple(turn.handed):
            await self._work.take_back(message_id)
            turn.sink.steering_read(message_id)  # it was said in this turn, and is kept with it
            turn.sink.notice(_MISSED)
        raise failure

    async def _late(self, turn: _Turn, sink: TurnSink) -> None:
        """A turn that the work has begun by itself is open here."""
        turn.sink = sink
        missed, turn.missed = turn.missed, []
        for chat, action, is_last in missed:
            self._show(turn, chat, action, is_last)
        await self._ended(turn)

    # ── what the work says ───────────────────────────────────────────────────────────────────────────────────
    def _heard(self, chat: str, action: Json) -> None:
        kind = action["type"]
        if chat != self._work.chat:
            if kind == "chat/turnStarted" and self._turn is not None:
                self._turn_of[chat] = self._turn
            turn = self._turn_of.pop(chat, None) if kind in _ENDS else self._turn_of.get(chat)
        else:
            if self._background(kind, action):
                return
            if kind == "chat/turnStarted" and self._turn is None:
                self._began_by_itself(action)
            turn = self._turn
        if turn is None:
            return
        is_last = chat == self._work.chat and kind in _ENDS
        is_last = is_last and not (kind == "chat/turnComplete" and self._work.waits)
        if is_last:
            self._turn = None
        if turn.sink is None:
            turn.missed.append((chat, action, is_last))
        else:
            self._show(turn, chat, action, is_last)

    def _background(self, kind: str, action: Json) -> bool:
        """What goes on behind the work's turns goes on behind the chat's."""
        if kind == "chat/backgroundWorkSet":
            work = action["work"]
            if "chat" in work:  # a worker: it is listed by itself
                self._shown.background.add(work["chat"])
            else:
                self._host.background({key: work[key] for key in work if key != "id"}, work["id"])
        elif kind == "chat/backgroundWorkRemoved":
            self._host.background(None, action["id"])
        return kind in ("chat/backgroundWorkSet", "chat/backgroundWorkRemoved")

    def _began_by_itself(self, action: Json) -> None:
        turn = self._turn = _Turn(None)
        message = action["message"]
        self._host.late_turn(message["text"], partial(self._late, turn), meta=message.get("_meta"))

    def _show(self, turn: _Turn, chat: str, action: Json, is_last: bool) -> None:
        sink = turn.sink
        assert sink is not None, "it is open"
        kind = action["type"]
        if chat != self._work.chat:
            self._shown.of_worker(chat, action)
        elif turn.through.done():
            return  # it failed: what comes behind a gap is not shown
        elif kind in ("chat/turnStarted", "chat/turnResume"):
            taken_up = action.get("queuedMessageId")
            if taken_up in turn.handed:
                turn.handed.remove(taken_up)
                sink.steering_read(taken_up)
            turn.mirror = Mirror(self._shown, chat, sink, turn.mirror.used if turn.mirror else None)
            sink.resume_point(action["turnId"])
        elif turn.mirror is not None and kind in _ENDS:
            sink.resume_point(action["turnId"])
            if is_last:
                turn.end(_failure(self._bot, action))
            else:
                turn.mirror.end()
        elif turn.mirror is not None:
            turn.mirror.hear(action)

    def _failed(self, words: str) -> None:
        if self._turn is not None:
            failed = f"The work of “{self._bot.name}” does not go on: {words}"
            self._turn.end(TurnFailed("workFailed", failed, resumable=True))

    # ── steering, stops, settings ────────────────────────────────────────────────────────────────────────────
    async def steer(self, message: Steering) -> bool:
        turn = self._turn
        if turn is None or turn.sink is None or not self._work.running:
            return False
        turn.handed.append(message.id)
        is_queued = False
        try:
            is_queued = await self._work.queue(message.id)
        finally:
            if not is_queued:
                turn.handed.remove(message.id)
        return is_queued

    async def withdraw(self, message_id: str) -> bool:
        turn = self._turn
        if not await self._work.take_back(message_id):
            return False
        if turn is not None and message_id in turn.handed:
            turn.handed.remove(message_id)
            if not self._work.running and not self._work.waits:  # the turn was open for it alone
                self._turn = None
                turn.end(None)
        return True

    async def stop(self, running: asyncio.Task[None]) -> None:
        await self._work.stop()
        running.cancel()

    async def configure(self, config: Mapping[str, Any]) -> None:
        self._work.configure(config)

    async def close(self) -> None:
        self._work.listen(None, self._failed)
        await self._shown.close()
        await self._work.close()


def _failure(bot: Bot, end: Json) -> TurnFailed | None:
    """How a turn of the work ended, for the chat's."""
    if end["type"] == "chat/turnComplete":
        return None
    if end["type"] == "chat/turnCancelled":
        return TurnFailed("workStopped", f"The work of “{bot.name}” was stopped.", resumable=True)
    error, resumable = end["part"]["error"], end["part"].get("resumable") is True
    return TurnFailed(
        str(error.get("errorType") or "workFailed"),
        error["message"],
        resumable=resumable,
        details=error.get("stack"),
    )


def _rest(answer: str, so_far: Any) -> str:
    """What of the answer a turn with these parts has not."""
    said = "".join(part["content"] for part in so_far if part["kind"] == "markdown")
    overlap = next((size for size in range(len(answer), 0, -1) if said.endswith(answer[:size])), 0)
    return answer[overlap:]
