"""What a host lets plugins do, and what it tells them: the contract that `jupyter_ahp.plugins` explains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from .agents import Agent, Command, TurnSink
from .tools import ToolFactory
from .wire import Json


class CanvasError(Exception):
    """A canvas that cannot be opened or drawn: its chat is not here, it was closed, it is too large. In words."""


class Canvas(ABC):
    """A page on a chat (V1 to V6). It goes with its chat, its plugin and the server."""

    uri: str
    """Its channel: `ahp-canvas:/<base64url(chat)>/<uuid>`."""
    chat: str
    """The URI of the chat that it is on."""

    @property
    @abstractmethod
    def open(self) -> bool:
        """Whether it is still there."""

    @abstractmethod
    async def update(
        self,
        *,
        title: str | None = None,
        status: str | None = None,
        html: str | None = None,
        url: str | None = None,
        port: int | None = None,
        path: str = "/",
    ) -> None:
        """Change what is given and leave the rest; `status=""` takes the status away.

        `html`, `url` and `port` (with its `path`) each replace the others. Raises `CanvasError` when it is closed, or what it is to show cannot be.
        """

    @abstractmethod
    async def close(self) -> None:
        """Take it away. Does nothing when it is gone."""


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class CommandRun:
    """A person's message that begins with `/name`: a turn that a plugin answers instead of the chat's agent."""

    name: str
    argument: str
    """What stands behind the name, without the white space around it."""
    session: str
    """The session's URI."""
    chat: str
    """The chat's URI."""
    turn_id: str
    directories: Sequence[str]
    """Absolute paths that the chat works in; the first is where its agent does. May be empty."""
    sink: TurnSink
    """Where to report, as an agent does."""


CommandHandler: TypeAlias = Callable[[CommandRun], "Awaitable[str | None] | str | None"]
"""Answers a command: by what it reports to the sink, and by Markdown that it returns.

Raises `TurnFailed` with words for the person. Cancelled by a stop. One that is no coroutine function runs in a thread, and
returns its answer, since the sink belongs to the event loop.
"""


# ── Things that Python shows ─────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class ShowRequest:
    """What `chat.show(…)` in Python asks for (`x-jupyter-ahp/show`): one of `html`, `markdown`, `path` and `port`."""

    chat: str
    """The chat's URI."""
    directories: Sequence[str]
    """Absolute paths that the chat works in. May be empty."""
    title: str = ""
    html: str | None = None
    markdown: str | None = None
    path: str | None = None
    port: int | None = None
    key: str | None = None
    """Asked for twice under one key, as after a lost answer, it is one canvas."""
    canvas: str | None = None
    """The canvas to show it in, or (with nothing to show) to close; None: a new one."""


ShowHandler: TypeAlias = Callable[[ShowRequest], Awaitable[Canvas]]
"""Shows it; gives the canvas. Raises `CanvasError` with words."""


# ── Events ───────────────────────────────────────────────────────────────────────────────────────────────────────
EventName: TypeAlias = Literal[
    "session_start",
    "session_end",
    "turn_start",
    "turn_end",
    "message",
    "tool_call",
    "client_connect",
    "client_disconnect",
]
"""What a plugin can be told of; `Event` says what each carries."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in the host. What `data` holds depends on the name.

    | name | what happened, and what is in `data` |
    |---|---|
    | `session_start` | a session was made: its `provider` and `workingDirectories` |
    | `session_end` | a session was ended for good: nothing |
    | `message` | a person's message was taken: the `message`, and `kind`: `turn`, `queued` or `steering` |
    | `turn_start` | a turn began, or was resumed: the AHP `Turn` so far |
    | `turn_end` | a turn ended: the AHP `Turn`, with its `state` and `duration` |
    | `tool_call` | a tool call of the running turn ended: the AHP tool call, `completed` or `cancelled` |
    | `client_connect` | a client said hello: its `clientId`, its `principal`, and `clientInfo` if it said any |
    | `client_disconnect` | a client's socket closed: its `clientId` and its `principal` |
    """

    name: EventName
    session: str | None = None
    """URI."""
    chat: str | None = None
    """URI."""
    turn_id: str | None = None
    data: Json = field(default_factory=dict)
    """The listener's own copy."""


Listener: TypeAlias = Callable[[Event], "Awaitable[object] | object"]
"""Told of events in their order, one after the other. One that is no coroutine function runs in a thread."""

Undo: TypeAlias = Callable[[], Awaitable[None]]
"""Takes back what was registered."""


class Extensible(Protocol):
    """A host, as far as plugins can reach. Each method raises `ValueError`, with words, for what it cannot take."""

    def add_agent(self, agent: Agent) -> Undo: ...

    def add_tools(self, factory: ToolFactory) -> Undo: ...

    def add_command(self, plugin: str, command: Command, handler: CommandHandler) -> Undo: ...

    def add_show(self, plugin: str, handler: ShowHandler) -> Undo: ...

    def listen(self, plugin: str, event: EventName, listener: Listener) -> Undo: ...

    async def open_canvas(
        self,
        plugin: str,
        chat: str,
        *,
        title: str,
        html: str | None,
        url: str | None,
        port: int | None,
        path: str,
        status: str | None,
        canvas_id: str,
    ) -> Canvas:
        """Raises `CanvasError`."""
        ...
