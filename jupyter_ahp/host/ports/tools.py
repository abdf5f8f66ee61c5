"""What a model may call: the host's tools, a plugin's, and those that a client announced (AHP 4.5, 5.9).

A tool does everything that people see of its call: it asks where it has to, says that it runs, and completes the call.
Whoever runs the model shows it the tools of `Prompt.tools` and hands the results back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .wire import Json

if TYPE_CHECKING:
    from .agents import ImageBlock, ToolCall

Effects: TypeAlias = Literal["none", "read", "write", "run"]
"""What a call does to the world. `none` and `read` run without asking; `write` and `run` ask first."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a call went."""

    text: str
    """What the model is told."""
    failed: bool = False
    message: str = ""
    """For people, in the past tense ("Read a.csv, 4 KB"); "": made from the tool's title."""
    content: Sequence[Json] = ()
    """What people see (AHP tool result content); (): the text."""
    structured: Json | None = None
    images: Sequence[ImageBlock] = ()
    """For the model, if it takes images."""


class Tool(ABC):
    """A tool that a turn offers. Its name is unique among them."""

    name: str
    """`[A-Za-z0-9_-]{1,64}`."""
    title: str
    """For people: "Read a notebook cell"."""
    description: str
    """For the model."""
    parameters: Json
    """JSON Schema of an object."""
    effects: Effects = "run"
    contributor: Json | None = None
    """AHP `contributor` of a client's tool, for `TurnSink.tool`."""

    @abstractmethod
    async def call(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        """Have the call done, and everything that people see of it: it is over when this returns.

        A denial and a failure are a result with `failed` set, in words for the model. Raises `TurnOver` when the turn
        ended meanwhile, and nothing else.
        """


class Approvals:
    """What runs without asking. This one asks by effect and forgets; the host's remembers, and heeds the settings."""

    def __init__(self) -> None:
        self._allowed: set[str] = set()
        self._watchers: list[Callable[[], None]] = []

    def granted(self, tool: str) -> bool:
        """Whether a person allowed the tool of that name for the session, or a setting every tool."""
        return tool in self._allowed

    def allow(self, tool: str) -> None:
        """A person allowed the tool of that name for the session."""
        self._allowed.add(tool)
        self.changed()

    def changed(self) -> None:
        """Something may run now that had to ask: calls that wait for a person look again."""
        for look in tuple(self._watchers):
            look()

    @contextmanager
    def watched(self, look: Callable[[], None]) -> Iterator[None]:
        """Meanwhile `look` is called whenever something changed."""
        self._watchers.append(look)
        try:
            yield
        finally:
            self._watchers.remove(look)

    def asks(self, tool: str, effects: Effects) -> bool:
        """Whether a call needs a person's word first."""
        return effects in ("write", "run") and not self.granted(tool)


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The turn that tools are gathered for: what a tool may want to know of where it is called."""

    session_id: str
    chat: str
    """The chat's URI."""
    turn_id: str
    directories: Sequence[str]
    """Absolute paths; the first is where the agent works. May be empty."""
    sender: str | None
    """Whose turn it is, as the handshake said: `user:<name>` or `root:<host>`; None: nobody's."""
    approvals: Approvals


ToolFactory: TypeAlias = Callable[[TurnContext], Sequence[Tool]]
"""Makes a turn's tools, when the turn is sent to its agent. Quick: it runs on the event loop."""
