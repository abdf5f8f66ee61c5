"""What plugins are told: in order, one after the other, and never in the way of what happens.

Each listener has a queue and a task of its own. One that is slow, fails or hangs holds up nothing but itself: a failure is
logged, and past a bound what it has not come to is left out.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec

from .inputs import find_call
from .ports import Event, EventName, Json, Listener

if TYPE_CHECKING:
    from .chat import Chat
    from .connection import Connection

log = logging.getLogger(__name__)

NAMES: Final[frozenset[str]] = frozenset(get_args(EventName))
CALL_ENDS: Final = frozenset(
    {"chat/toolCallComplete", "chat/toolCallConfirmed", "chat/toolCallResultConfirmed"}
)
"""The actions behind which a tool call may be over."""
_MOST = 1000  # events that wait for one listener
_LAST_WORDS = 2.0  # seconds that a listener has for what waits, when it is taken out


class Events:
    """Who listens to what."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[_Listening]] = {}

    def emit(self, name: EventName, **facts: Any) -> None:
        """It happened. Returns at once."""
        listeners = self._listeners.get(name)
        if listeners:
            event = Event(name, **facts)
            for listener in listeners:
                listener.put(event)

    # ── what happens ─────────────────────────────────────────────────────────────────────────────────────────
    def message(self, chat: Chat, kind: str, message: Json) -> None:
        """A person's message was taken: as a turn, or to wait."""
        if self._listeners and message["origin"]["kind"] == "user":
            self._of_chat(chat, "message", {"kind": kind, "message": message})

    def turn(self, chat: Chat, name: EventName, turn: Json) -> None:
        if self._listeners:
            self._of_chat(chat, name, turn, turn["id"])

    def call_ended(self, chat: Chat, action: Json) -> None:
        """An action that may have ended a tool call was said."""
        if "tool_call" in self._listeners:
            call = find_call(chat.state, action["turnId"], action["toolCallId"])
            if call is not None and call["status"] in ("completed", "cancelled"):
                self._of_chat(chat, "tool_call", call, action["turnId"])

    def _of_chat(self, chat: Chat, name: EventName, data: Json, turn_id: str | None = None) -> None:
        if chat.session.work is None:  # else it is told of in the chat that it works for
            self.emit(name, session=chat.session.uri, chat=chat.uri, turn_id=turn_id, data=data)

    def client(self, name: EventName, connection: Connection, **more: Any) -> None:
        self.emit(name, data={"clientId": connection.client_id, "principal": connection.principal.id, **more})

    # ── who listens ──────────────────────────────────────────────────────────────────────────────────────────
    def add(self, plugin: str, name: EventName, listener: Listener) -> _Listening:
        """Raises `ValueError` for an event that there is not."""
        if name not in NAMES:
            raise ValueError(f"There is no event {name!r}. There are: {', '.join(sorted(NAMES))}.")
        listening = _Listening(f"{name} of plugin {plugin}", listener)
        self._listeners.setdefault(name, []).append(listening)
        return listening

    async def remove(self, name: EventName, listening: _Listening) -> None:
        """It hears no more, but what waits for it already."""
        listeners = self._listeners.get(name, [])
        if listening in listeners:
            listeners.remove(listening)
            if not listeners:
                del self._listeners[name]
            await listening.close()


class _Listening:
    """One listener, its queue and the task that works on it while there is something in it."""

    def __init__(self, called: str, listener: Listener) -> None:
        self._called = called
        self._listener = listener
        self._waiting: deque[Event] = deque()
        self._task: asyncio.Task[None] | None = None
        self._left_out = 0

    def put(self, event: Event) -> None:
        if len(self._waiting) >= _MOST:
            if not self._left_out:
                log.warning(
                    "The listener for %s is %d events behind: newer ones are left out", self._called, _MOST
                )
            self._left_out += 1
            return
        self._left_out = 0
        self._waiting.append(event)
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._tell(self._waiting.popleft())
        finally:
            self._task = None

    async def _tell(self, event: Event) -> None:
        with logged("The listener for %s failed", self._called):
            if is_async(self._listener):
                copy = await asyncio.to_thread(_copied, event)
                answer = self._listener(copy)
            else:
                answer = await asyncio.to_thread(lambda: self._listener(_copied(event)))
            if inspect.isawaitable(answer):
                await answer

    async def close(self) -> None:
        task = self._task
        if task is None:
            return
        done, _ = await asyncio.wait([task], timeout=_LAST_WORDS)
        if not done:
            log.warning(
                "The listener for %s is not through: %d events are dropped",
                self._called,
                len(self._waiting) + 1,
            )
            self._waiting.clear()
            task.cancel()
            await asyncio.wait([task])


def _copied(event: Event) -> Event:
    """With data that the listener may do with as it likes: the host's own is never to be changed."""
    return replace(event, data=msgspec.json.decode(msgspec.json.encode(event.data)))


def is_async(function: Any) -> bool:
    """Whether a function is to be called on the event loop rather than in a thread."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  (an object with an async `__call__`)
    )


@contextmanager
def logged(words: str, *arguments: object) -> Iterator[None]:
    """Whatever a plugin's code raises ends here, in the log. A cancellation of ours goes on."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        log.exception(words, *arguments)
    except Exception:
        log.exception(words, *arguments)
