"""A chat's line to its backend: the conversation that is open, what it is asked, and that none of it hangs the chat.

B1, B2, B9, G1, G7, X1, X3, Q6. A backend that does not answer in time is left behind, in words in the log: the next turn
opens a conversation anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from .late import Behind, Late
from .ports import Conversation, Json, Start, Steering, SteeringRefused, TurnFailed

if TYPE_CHECKING:
    from .chat import Chat

log = logging.getLogger(__name__)

_GRACE = 5.0
"""Seconds that a backend has to take in a stop before its task is cancelled, to heed that, and to close."""


class Line:
    """Of one chat. Owns the conversation, and the tasks that tell it of changed settings."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.conversation: Conversation | None = None
        """The one that is open."""
        self._paths: list[str] = []
        """Where it works."""
        self.untold = False
        """It has a memory of its own, and has not been told yet what was said before it began."""
        self._behind: Behind | None = None
        """What goes on behind its turns."""
        self.tellings: set[asyncio.Task[None]] = set()
        """What it is told of changed settings, one after the other."""

    async def open(self, turn_id: str, history: Sequence[Json]) -> Conversation:
        """The conversation, begun or gone on with for this turn if none is open, or if it works where the chat does not
        work any more (U11). Raises `TurnFailed`, or whatever the agent raises."""
        session = self._chat.session
        paths = session.paths_of(self._chat)
        if self.conversation is not None and self._paths != paths and (moved := self.gone()) is not None:
            await self.hang_up(moved)
        if self.conversation is None:
            agent = session.agent
            if agent is None:
                raise TurnFailed(
                    "noAgent",
                    f"The agent {session.provider!r} is not on this server. Start a chat with another one.",
                )
            memory, record = self._chat.memory, self._chat.record
            await memory.settle()
            behind = Behind(self._chat)
            self.conversation = await agent.open(
                Start(
                    session_id=session.id,
                    chat=self._chat.uri,
                    directories=paths,
                    config=session.config,
                    memory=record.memory,
                    at=record.at,
                    fork=record.fork,
                    host=behind,
                )
            )
            self._behind, self._paths = behind, paths
            self.untold = memory.opened(turn_id, history)
        return self.conversation

    def remembered(self) -> str | None:
        """What the backend needs to go on with the open conversation; None when there is none, or it does not say."""
        try:
            return self.conversation.memory if self.conversation else None
        except Exception:
            log.exception(
                "The agent of %s does not say what it needs to go on after a restart", self._chat.uri
            )
            return None

    # ── steering and settings ────────────────────────────────────────────────────────────────────────────────
    async def steer(self, message: Steering) -> bool:
        """Hand a message to the turn that runs; False when it cannot be taken yet (G1). Raises `SteeringRefused`."""
        if self.conversation is None:
            return False
        answer = self.conversation.steer(message)
        return await self._ask(answer, "did not say whether it takes a steering message")

    async def withdraw(self, message_id: str) -> bool:
        """Take a message back from the backend; whether the model will not see it (G7)."""
        if self.conversation is None:
            return True
        return await self._ask(self.conversation.withdraw(message_id), "did not say whether it gave one up")

    async def _ask(self, answer: Coroutine[Any, Any, bool], failing: str) -> bool:
        try:
            async with asyncio.timeout(_GRACE):
                return await answer
        except SteeringRefused:
            raise
        except Exception:
            log.exception("The agent of %s %s", self._chat.uri, failing)
            return False

    def configured(self) -> None:
        """The session's settings changed."""
        task = asyncio.create_task(self._configure(tuple(self.tellings)))
        self.tellings.add(task)
        task.add_done_callback(self.tellings.discard)

    async def _configure(self, before: tuple[asyncio.Task[None], ...]) -> None:
        if before:
            await asyncio.wait(before)
        conversation = self.conversation
        if conversation is None:
            return
        try:
            async with asyncio.timeout(_GRACE):
                await conversation.configure(self._chat.session.config)
        except Exception:
            log.exception("The agent of %s heeds changed settings from its next turn on only", self._chat.uri)

    # ── what it has begun by itself ──────────────────────────────────────────────────────────────────────────
    @property
    def late(self) -> bool:
        """The backend has begun a turn by itself, which is to be opened (B9)."""
        return self._behind is not None and self._behind.waits

    @property
    def busy(self) -> bool:
        """Something goes on behind its turns that the end of the conversation would end."""
        return self._behind is not None and self._behind.busy

    def take_late(self) -> tuple[Behind, Late]:
        """The turn that the backend has begun by itself, to be opened, and where to put it back."""
        assert self._behind is not None, "something waits there"
        return self._behind, self._behind.take()

    def runs_late(self, message_id: str) -> bool:
        """Whether the backend runs this steering message behind the stop of its turn (B9)."""
        return self.holds == message_id or (self._behind is not None and self._behind.has(message_id))

    @property
    def holds(self) -> str | None:
        """The steering message that the backend has though its turn ended (Q6): it will run it, or has begun to."""
        begun = self._behind.holds if self._behind is not None else None
        return begun or (self.conversation.holds if self.conversation is not None else None)

    # ── its end ──────────────────────────────────────────────────────────────────────────────────────────────
    async def stop(self, task: asyncio.Task[None], conversation: Conversation | None, *, sent: bool) -> None:
        """Have the backend take in a stop of the turn that `task` runs, if it was `sent` that. One that hangs is
        cancelled, and left behind if it hangs in that too."""
        if conversation is None or not sent:
            task.cancel()
        else:
            try:
                async with asyncio.timeout(_GRACE):
                    await conversation.stop(task)
                    await asyncio.wait([task])
            except asyncio.CancelledError:
                if cancelled_by_us():
                    raise
                # It waited for the task that it had cancelled.
            except TimeoutError:
                log.warning(
                    "The agent of %s did not stop in %.0f s; its task is cancelled", self._chat.uri, _GRACE
                )
            except Exception:
                log.exception("The agent of %s did not take a stop; its task is cancelled", self._chat.uri)
            if not task.done():
                task.cancel()
        await asyncio.wait([task], timeout=_GRACE)
        if not task.done():
            log.error(
                "The agent of %s does not end; the next turn begins a conversation anew", self._chat.uri
            )
            if self.conversation is conversation and (gone := self.gone()) is not None:
                await self.hang_up(gone)  # what it holds, such as a program, goes all the same

    async def stop_adopted(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Have whoever runs the chat's turn elsewhere end it."""
        try:
            async with asyncio.timeout(_GRACE):
                await stop()
        except asyncio.CancelledError:
            if cancelled_by_us():
                raise
            # It waited for something that it had cancelled.
        except Exception:
            log.exception("What worked in %s may go on unseen: it did not take a stop", self._chat.uri)

    def gone(self) -> Conversation | None:
        """There is no conversation any more, nor what went on behind its turns."""
        self._chat.workers.end()
        if self._behind is not None:
            self._behind.close()
        conversation, self.conversation, self._behind = self.conversation, None, None
        return conversation

    async def hang_up(self, conversation: Conversation, before: tuple[asyncio.Task[None], ...] = ()) -> None:
        """Close a conversation that is gone, behind these tasks."""
        if before:
            await asyncio.wait(before)
        try:
            async with asyncio.timeout(_GRACE):
                await conversation.close()
        except asyncio.CancelledError:
            if cancelled_by_us():
                raise
            # It waited for something that it had cancelled.
        except Exception:
            log.exception("The agent of %s did not close; what it holds may stay", self._chat.uri)


def cancelled_by_us() -> bool:
    """Whether the task that runs was itself asked to end, rather than something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
