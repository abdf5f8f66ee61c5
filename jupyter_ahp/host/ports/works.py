"""How an agent has other agents of its host work for it, each in a session of its own (B16)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .agents import Answer, Confirmation, Probe, Prompt, Start
from .wire import Json

Heard: TypeAlias = Callable[[str, Json], None]
"""Given each action of a working session's chats with the chat's URI, in the tick in which it is said."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a working session is to be."""

    provider: str
    """Who works."""
    directories: Sequence[str]
    """Absolute paths; the first is where it works, the others are for an agent that can work in several."""
    title: str


class WorkingSession(ABC):
    """A session in which another agent works for one conversation, and for nobody else.

    It is kept as all sessions are, and no client lists or reaches it: what people may see and do of it is what that
    conversation shows in its own chat, whose rights hold. Approvals are those of that chat's session, tools those that
    its turn offers.
    """

    id: str
    """For a later `Works.open`."""
    chat: str
    """The URI of its chat."""

    @abstractmethod
    def listen(self, heard: Heard | None, failed: Callable[[str], None]) -> None:
        """Hear what is said there from now on, in the chats of its workers as well; None: nothing. `failed` is told, in
        words for people, why nothing more comes: a message that waits there could not be started, or `heard` raised."""

    @abstractmethod
    async def begin(self, prompt: Prompt, *, standing: str, model: str | None) -> None:
        """Send it the message of this turn. It is told `standing` too, and again with each message that is queued
        behind this one. Raises `TurnFailed`: then nothing was sent."""

    @abstractmethod
    async def go_on(self, prompt: Prompt, *, standing: str) -> Literal["resumed", "complete", "anew"]:
        """Try a turn of the conversation again that failed. What was begun for it is `resumed` if it can be, or was
        `complete`; else it is for `begin` to send the message `anew`. Raises `TurnFailed`."""

    @property
    @abstractmethod
    def answered_last(self) -> str:
        """What the last turn there answered."""

    @abstractmethod
    async def queue(self, message_id: str) -> bool:
        """Have the steering message of that id wait behind the turn that runs; False when none runs any more. Raises
        `SteeringRefused` when it cannot be sent."""

    @abstractmethod
    async def take_back(self, message_id: str) -> bool:
        """Take a queued message out again; False when it does not wait any more."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """A queued message waits."""

    @property
    @abstractmethod
    def running(self) -> bool: ...

    @abstractmethod
    async def stop(self) -> None:
        """Stop what runs, and start nothing that waits."""

    @abstractmethod
    def can_stop(self, chat: str) -> bool:
        """Whether the worker in that chat can be stopped by itself (W4)."""

    @abstractmethod
    async def stop_worker(self, chat: str) -> None: ...

    @abstractmethod
    def confirmed(self, chat: str, call_id: str, confirmation: Confirmation) -> None:
        """A person's word on a tool call there that asks."""

    @abstractmethod
    def answered(self, chat: str, request_id: str, answer: Answer) -> None:
        """A person's answer to a question there."""

    @abstractmethod
    def client_ran(self, chat: str, call_id: str, result: Json) -> None:
        """How a call of a client's tool went (AHP 4.5)."""

    @abstractmethod
    def configure(self, config: Mapping[str, Any]) -> None:
        """Settings that the two sessions have in common changed."""

    @abstractmethod
    async def close(self) -> None:
        """Keep nothing of it in memory; it can be opened again."""


class Works(ABC):
    """The host, as an agent sees it that has others work for it."""

    @abstractmethod
    async def usable(self, provider: str, *, but: str) -> tuple[str, Probe]:
        """Who would work, and whether it can be used now. "" is the host's default agent; never `but`."""

    @abstractmethod
    async def open(self, start: Start, job: Job) -> WorkingSession:
        """The working session of the conversation that `start` begins, or goes on with: `start.memory` is its id.

        One that is not there any more, or is another agent's, is made anew and told what was said. It goes on at
        `start.at`, a turn of its chat, if that is said; with `start.fork` it is a copy. Raises `TurnFailed`.
        """

    @abstractmethod
    async def delete(self, session_id: str) -> None:
        """End it for good. One that is not there is deleted already. Raises `StoreError`."""
