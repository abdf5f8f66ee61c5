"""`Chat`: a chat for code that waits.

Every blocking chat of a process lives on one thread with an event loop of its own, over one connection to each host.
So a chat streams, answers the host's pings and stays connected while the main thread computes, and can be used from a
cell (where an event loop runs already) and from any thread.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import functools
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Literal, Self, TypeVar

from .attach import Attachable
from .chat import AsyncChat
from .connection import Connection
from .host import Host
from .model import Part, Question, ToolCallPart, Turn
from .progress import Progress
from .window import ChatState

T = TypeVar("T")

_TICK = 0.25  # seconds between two looks of a waiting thread at how it goes
_LEAVE = 3.0  # seconds that the end of the process may wait for the connections to close

logger = logging.getLogger(__name__)


class Background:
    """The thread of one process's blocking chats. A forked child gets one of its own: threads are not forked."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._connections: dict[Host, Connection] = {}
        self._connecting = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="jupyter-ahp", daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    def run(self, work: Coroutine[Any, Any, T], tick: Callable[[], None] | None = None) -> T:
        """What the coroutine returns or raises. `tick` is called in this thread now and then while it waits.

        An exception in the waiting thread (Ctrl C) cancels the coroutine.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("A blocking Chat would wait for itself here. Use AsyncChat.")
        future = self.start(work)
        try:
            while not concurrent.futures.wait([future], timeout=_TICK).done:
                if tick is not None:
                    tick()
            return future.result()
        except BaseException:
            future.cancel()  # Changes nothing when it is done.
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin it and do not wait. Who starts it cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call it in the event loop, soon."""
        self._loop.call_soon_threadsafe(function, *args)

    async def connection(self, host: Host) -> Connection:
        """The one connection to this host. Raises `NoHost`."""
        async with self._connecting:
            connection = self._connections.get(host)
            if connection is None or connection.status == "closed":
                connection = self._connections[host] = Connection(host.resolve)
        await connection.open()
        return connection

    def _leave(self) -> None:
        """At the end of the process: say good-bye to the hosts, and wait for it no longer than a moment."""
        if os.getpid() != self.pid:
            return  # The parent's thread is not here.
        future = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        if concurrent.futures.wait([future], timeout=_LEAVE).not_done:
            logger.info("The connections were not closed in %s s; the process ends without.", _LEAVE)
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LEAVE)
        self._loop.close()

    async def _close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))


@functools.cache
def _background_of(pid: int) -> Background:
    return Background()


def background() -> Background:
    """This process's."""
    return _background_of(os.getpid())


def connect(url: str | None = None, token: str | None = None) -> Host:
    """A host to give to `Chat(host=…)`: the server at `url` (as Jupyter prints it, with or without the token).

    Without a `url`, this kernel's own server. Raises `NoHost` when it cannot be reached, or does not let us in.
    """
    host = Host(url, token)
    background().run(background().connection(host))
    return host


class Chat:
    """A chat with an agent: a new one in a session of its own, or with `Chat.open(uri)` one that exists.

    `agent` is a provider's name (default: the host's own choice), `directory` where it works (default: the current
    one), `model` the model for every message that names none, `config` the session's settings by the agent's schema,
    `host` what `connect` gave (default: this kernel's own server). It connects at once.

    Raises `NoHost` when there is no host, `Refused` when it will not make the chat.
    """

    def __init__(
        self,
        agent: str | None = None,
        *,
        title: str | None = None,
        directory: str | PathLike[str] | None = None,
        model: str | None = None,
        config: Mapping[str, Any] | None = None,
        host: Host | None = None,
    ) -> None:
        self._open(
            lambda connection: AsyncChat(
                agent, title=title, directory=directory, model=model, config=config, host=connection
            ),
            host,
        )

    @classmethod
    def open(cls, uri: str, host: Host | None = None) -> Self:
        """A chat that exists, by its URI or by its session's."""
        chat = cls.__new__(cls)
        chat._open(lambda connection: AsyncChat.open(uri, connection), host)
        return chat

    def _open(self, make: Callable[[Connection], AsyncChat], host: Host | None) -> None:
        self.host = host or Host()
        """Where it is held."""
        self.background = background()
        """The thread that it lives on."""

        async def opened() -> AsyncChat:
            return await make(await self.background.connection(self.host))

        self.async_chat = self.background.run(opened())
        """The same chat, for code that runs on that thread."""

    def _run(self, work: Coroutine[Any, Any, T], tick: Callable[[], None] | None = None) -> T:
        if self.background.pid != os.getpid():
            work.close()
            raise RuntimeError(
                f"This chat was opened before the process was forked. Open it here: Chat.open({self.uri!r})."
            )
        return self.background.run(work, tick)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the chat. The host keeps it; a turn that runs goes on."""
        self._run(self.async_chat.close())

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────
    def send(
        self,
        text: str,
        attach: Attachable | Iterable[Attachable] = (),
        *,
        model: str | None = None,
        timeout: float | None = None,
    ) -> Turn:
        """Say something and wait until the turn has ended.

        A turn that somebody stopped is given back as it is (`state == "cancelled"`); one that failed raises
        `TurnFailed`. After `timeout` seconds it is stopped and `TimeoutError` raised; Ctrl C (in a notebook:
        interrupt the kernel) stops it too, and the chat can be used on. Raises `Refused` when the host does not start
        the turn.
        """
        return self._wait(self.async_chat.send(text, attach, model=model, timeout=timeout))

    def stream(
        self, text: str, attach: Attachable | Iterable[Attachable] = (), *, model: str | None = None
    ) -> Iterator[Part]:
        """Say something and follow the answer: each part as it is now, whenever it has grown; `delta` is the new text.

        A reader who is slow gets fewer and larger steps. Leaving the loop before the end stops the turn. Raises as
        `send` does.
        """
        parts = self.async_chat.stream(text, attach, model=model)

        async def following() -> Part | None:
            return await anext(parts, None)

        try:
            while (part := self._run(following())) is not None:
                yield part
        finally:
            self._run(parts.aclose())

    def resume(self, *, timeout: float | None = None) -> Turn:
        """Go on with the last turn, which failed in a way that can be resumed; otherwise as `send`."""
        return self._wait(self.async_chat.resume(timeout=timeout))

    def stop(self) -> None:
        """Stop the turn that runs, if one does. From another thread, while this one waits in `send`."""
        self._run(self.async_chat.stop())

    def _wait(self, work: Coroutine[Any, Any, Turn]) -> Turn:
        with Progress(self.async_chat) as progress:
            try:
                return self._run(work, progress.tick)
            except KeyboardInterrupt:
                self._run(self.async_chat.idle(timeout=2))
                raise

    # ── what a turn asks ─────────────────────────────────────────────────────────────────────────────────────────
    def answer(
        self,
        request: Question | str,
        answers: Any = None,
        *,
        response: Literal["accept", "decline", "cancel"] = "accept",
    ) -> None:
        """Answer a question: `{question id: value}`, or the value where there is one question.

        A value is text, a number, True or False, an option's id or label, or a list of them. Raises `ValueError` for
        an answer that does not fit, `Refused` when the question was answered already.
        """
        self._run(self.async_chat.answer(request, answers, response=response))

    def approve(
        self,
        call: ToolCallPart | str,
        approved: bool = True,
        *,
        option: str | None = None,
        edited_input: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Let a tool call that waits run, or with `approved=False` not; or take its result, or not.

        `option` is the id of one of its options, `edited_input` what it is to run on instead, `reason` what the agent
        is told about a denial. Raises `ValueError` when it waits for nothing, `Refused` when somebody was faster.
        """
        self._run(
            self.async_chat.approve(call, approved, option=option, edited_input=edited_input, reason=reason)
        )

    def rename(self, title: str) -> None:
        """Give the chat a title."""
        self._run(self.async_chat.rename(title))

    # ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def uri(self) -> str:
        """The chat's URI: the same for everybody, and for ever."""
        return self.async_chat.uri

    @property
    def session_uri(self) -> str:
        """The URI of the session that the chat is in."""
        return self.async_chat.session_uri

    @property
    def title(self) -> str:
        """As people see it; empty until somebody, or the host, gave it one."""
        return self.async_chat.title

    @property
    def agent(self) -> str:
        """The provider that answers."""
        return self.async_chat.agent

    @property
    def turns(self) -> list[Turn]:
        """Every turn, oldest first; the one that runs comes last."""
        return self.async_chat.turns

    @property
    def draft(self) -> str:
        """What somebody has begun to write in the chat and not sent."""
        return self.async_chat.draft

    @property
    def state(self) -> ChatState:
        """What it does: `waiting` for a person's answer, `failed` in its last turn, `offline` until the host is back."""
        return self.async_chat.state

    def __repr__(self) -> str:
        return repr(self.async_chat).replace(type(self.async_chat).__name__, type(self).__name__, 1)
