"""What an agent is, what it is handed, and where it reports: the contract that `jupyter_ahp.agents.base` explains."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from .tools import Approvals, Tool
from .wire import Json

if TYPE_CHECKING:
    from .works import Works


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Facts that the host reads; it never asks for a provider's name."""

    several_chats: bool = True
    """More than one chat in a session."""
    fork: bool = False
    """A chat can be made from another's turns. With a memory of its own it begins at a resume point of another chat's
    conversation and leaves that one alone (S3, `Start.fork`)."""
    rewind: bool = False
    """With a memory of its own: it can go on with a conversation at an earlier resume point (X1, `Start.at`). False: it
    keeps what a rewind cut (X2)."""
    delete: bool = False
    """`Agent.delete` can be called (X3, U9)."""
    steering: bool = False
    several_directories: bool = False
    tools: bool = False
    """Its model is shown `Prompt.tools`."""


@dataclass(frozen=True, slots=True)
class Model:
    id: str
    name: str
    context_window: int | None = None
    """In tokens."""
    vision: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether an agent can be used here and now, and if not, why and what to do about it (both for people)."""

    ready: bool
    models: Sequence[Model] = ()
    reason: str = ""
    fix: str = ""
    note: str = ""
    """Something to know though it is ready, such as "a tiny model, often wrong"."""


@dataclass(frozen=True, slots=True)
class Command:
    """Something that a message can begin with to have it done, as `/name` (M4)."""

    name: str
    """Without the slash, and without white space."""
    description: str
    argument_hint: str = ""
    """What may be written behind the name, such as "[path]"."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text to read: a file's, a cell's, a selection."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image to see, for a model that does."""

    label: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PathBlock:
    """Named, not carried: a path (or URI) that the agent may read for itself."""

    label: str
    path: str


Block: TypeAlias = TextBlock | ImageBlock | PathBlock
"""What a message's attachment became for the model: decided once for every backend (A1)."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a conversation begins or goes on with."""

    session_id: str
    chat: str
    """The chat's URI."""
    directories: Sequence[str]
    """Absolute paths; the first is where the agent works. May be empty."""
    config: Mapping[str, Any]
    """The session's config values, by the agent's own schema."""
    memory: str | None = None
    """What `Conversation.memory` said last, before a restart; None for a new conversation."""
    at: str | None = None
    """Go on at this resume point of it, which `TurnSink.resume_point` said: what came behind it is forgotten (X1).
    None: at its end. Said again after a restart until a turn behind it has said its point."""
    fork: bool = False
    """`memory` is another chat's: begin a copy of it (up to `at`) with a `memory` of its own, leave that one alone (S3)."""
    host: ConversationHost = field(kw_only=True)
    """What the host does for this conversation at any time, no turn running too."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One turn, as the backend is handed it."""

    turn_id: str
    text: str
    blocks: Sequence[Block] = ()
    model: str | None = None
    model_config: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """The session's config values as they are now; `Start.config` has those of when the conversation was opened."""
    history: Sequence[Json] = ()
    """The chat's ended turns, oldest first (AHP `Turn`); never to be changed. Commands that a person ran (`!ls`) are not
    among them: `prefaces` tells what they said."""
    prefaces: Mapping[str, str] = field(default_factory=dict)
    """What the host has to say on a turn (B3), by turn id, such as what a side chat's source said (S6), or the end of
    another chat that an earlier message pointed at (A7): for the model, ahead of what that turn's message says, and
    nowhere else. A backend that is handed its history anew on each turn says
    them each time; one with a memory of its own looks for this turn's alone."""
    so_far: Sequence[Json] = ()
    """For a resumed turn: the response parts that it already has, its error included. Else empty."""
    tools: Sequence[Tool] = ()
    """What the turn offers its model, for an agent whose capabilities say `tools`: the host's, those of plugins, and
    those of clients."""
    approvals: Approvals = field(default_factory=Approvals)
    """What runs without asking, for tools that the agent brings itself (`GuardedTool`). Those of `tools` heed it already."""

    @property
    def resumed(self) -> bool:
        return bool(self.so_far)


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation that the backend keeps, as its catalogue lists it (U5)."""

    memory: str
    """What `Start.memory` takes."""
    title: str
    created_at: str
    """ISO 8601, as the next."""
    modified_at: str
    directory: str
    """The absolute path that it works in."""


RESUME_POINT = "resumePoint"
"""Beside AHP's keys in a turn of `Agent.transcript`: its resume point, if the backend names one (B13)."""


@dataclass(frozen=True, slots=True)
class Steering:
    """A message for the turn that runs (G1)."""

    id: str
    text: str
    blocks: Sequence[Block] = ()


class TurnFailed(Exception):
    """Raised by `Conversation.send`: the turn ends in `chat/error` with these words.

    `message` is for the person: what happened, whether anything was lost, what to do. `details` is raw text for the
    fold under it. `resumable`: trying the same again makes sense (AHP `ErrorResponsePart.resumable`).
    """

    def __init__(
        self, error_type: str, message: str, *, resumable: bool = False, details: str | None = None
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.resumable = resumable
        self.details = details


class SteeringRefused(Exception):
    """Raised by `Conversation.steer`: the backend will not take this message at all. The host takes it out of what
    waits, with these words, which are for the person, in the log (B14, B16)."""


class TurnOver(Exception):
    """Raised by a waiting sink method (`ToolCall.confirm`, `TurnSink.ask`) when the turn ended meanwhile."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How a person, or a setting, answered a tool call that asked."""

    approved: bool
    option: str | None = None
    """The id of the chosen option, if there was one."""
    edited_input: str | None = None
    reason: str | None = None
    """A denial's word to the model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a question was answered: `response` is accept, decline or cancel; `answers` by question id (AHP 4.4)."""

    response: str
    answers: Mapping[str, Json] = field(default_factory=dict)


class ToolCall(ABC):
    """One tool call of a turn. Every method is a no-op once the call or its turn is over (T5)."""

    id: str

    @property
    @abstractmethod
    def over(self) -> bool:
        """The call, or its turn, has ended."""

    @abstractmethod
    def on_stop(self, stop: Callable[[], object]) -> None:
        """Have `stop` called if the turn ends, by a stop for one, while this call goes on."""

    @abstractmethod
    def input(self, delta: str) -> None:
        """Stream a piece of the call's input, while the model writes it."""

    @abstractmethod
    def run(self, message: str, *, tool_input: str | None = None, by_setting: bool = False) -> None:
        """It runs, nobody need be asked. `message` says what it does ("Reading a.csv").

        `by_setting`: somebody would be asked if a setting, or a person's earlier word, did not allow it.
        """

    @abstractmethod
    async def confirm(
        self,
        message: str,
        *,
        title: str,
        tool_input: str | None = None,
        options: Sequence[Json] = (),
        edits: Sequence[Json] = (),
        editable: bool = False,
    ) -> Confirmation:
        """Ask a person; waits without a time limit. Raises `TurnOver` if the turn ends first."""

    @abstractmethod
    def waive(self) -> None:
        """A setting lets it run meanwhile: whoever waits in `confirm` need not be answered any more, and it runs."""

    @abstractmethod
    def content(self, blocks: Sequence[Json]) -> None:
        """Replace what the running call shows so far (AHP tool result content)."""

    @abstractmethod
    def done(
        self,
        message: str,
        *,
        content: Sequence[Json] = (),
        structured: Json | None = None,
    ) -> None:
        """It ended well. `message` is in the past tense ("Read a.csv, 4 KB")."""

    @abstractmethod
    def failed(self, message: str, *, error: str, content: Sequence[Json] = ()) -> None:
        """It ran and failed; `error` is what the model was told."""

    @abstractmethod
    async def by_client(self) -> Json:
        """For the host's client tools: wait until the client whose tool it is ran it (AHP 5.9). The call is over then.

        Its result (AHP 4.5), or a failed one when that client is lost. Raises `TurnOver` if the turn ends first.
        """


class Worker(ABC):
    """A conversation that one tool call of a turn runs, in a chat of its own that people read (W1, W3).

    It reports to `sink`, as a turn does, and ends once, by one of the three methods; after that, or once it was stopped,
    nothing that it says changes anything. The call that spawned it is ended by its own `done` or `failed`.
    """

    chat: str
    """The URI of its chat."""
    sink: TurnSink
    """Where it reports: a tool call of it asks there, a worker that it spawns is spawned there."""

    @abstractmethod
    def done(self) -> None:
        """It ended well."""

    @abstractmethod
    def failed(self, error: str, *, details: str | None = None) -> None:
        """It ended with these words for people; `details` is raw text for the fold under them."""

    @abstractmethod
    def cancelled(self) -> None:
        """It was stopped by its backend."""


class TurnSink(ABC):
    """Where a backend reports one turn. Calls after the turn's end change nothing and reach nobody (T5)."""

    turn_id: str

    @abstractmethod
    def markdown(self, text: str) -> None:
        """Append to the answer; opens a part when the last one is not markdown."""

    @abstractmethod
    def reasoning(self, text: str) -> None:
        """Append to the reasoning; opens a part when the last one is not reasoning."""

    @abstractmethod
    def notice(self, text: str, *, meta: Json | None = None) -> None:
        """A line from the system in the turn, such as a compaction (T9). `meta` is kept with it (`_meta`)."""

    @abstractmethod
    def activity(self, text: str | None) -> None:
        """What it is doing, in a few words, shown while it does ("Loading the model, first time only")."""

    @abstractmethod
    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        model: str | None = None,
        meta: Json | None = None,
    ) -> None:
        """What the backend reported of this turn so far; never an estimate of ours."""

    @abstractmethod
    def resource(self, uri: str, *, content_type: str | None = None, size: int | None = None) -> None:
        """Content that is fetched rather than carried (AHP `contentRef`)."""

    @abstractmethod
    def tool(
        self,
        name: str,
        *,
        title: str,
        call_id: str | None = None,
        intention: str | None = None,
        contributor: Json | None = None,
        meta: Json | None = None,
    ) -> ToolCall:
        """Begin a tool call. `call_id` is minted if not given; a used one raises ValueError.

        `contributor` says whose tool it is, if not the host's or the agent's own (AHP 4.5). For a tool of
        `Prompt.tools` that is all there is to do, and to have the tool do the rest::

            call = sink.tool(tool.name, title=tool.title, call_id=..., contributor=tool.contributor)
            result = await tool.call(call, arguments)
        """

    @abstractmethod
    def steering_read(self, message_id: str) -> None:
        """The model has read a steering message that `Conversation.steer` took: from here on it is part of the turn."""

    @abstractmethod
    def worker(
        self,
        call: ToolCall,
        prompt: str,
        *,
        title: str,
        agent_name: str | None = None,
        background: bool = False,
        stop: Callable[[], Awaitable[None]] | None = None,
    ) -> Worker:
        """This turn's `call` runs a conversation of its own, which begins with `prompt` (W1, W3, W5). One for a call.

        The call shows it from here on (it is said to run, if it was not). A worker ends with its turn, however that
        ends; a `background` one goes on when its turn completes or fails, and is listed as the chat's background work
        while it runs. A stop of the turn that spawned it ends either.

        `stop` ends this worker alone, when a person asks for that in its chat, which shows it as stopped by then;
        without it, they are told to stop the whole turn. Raises ValueError for a call of another turn, and for one that
        has a worker already.
        """

    @abstractmethod
    def resume_point(self, point: str) -> None:
        """The backend's own name for where this turn ended, for a later `Start.at`: kept with the turn, never sent to
        clients. The last one said counts. Heard behind the turn's end as well, since a stop ends a turn before its
        backend has taken it in."""

    @abstractmethod
    async def ask(self, message: str, questions: Sequence[Json] = (), *, url: str | None = None) -> Answer:
        """Ask the person (AHP `ChatInputRequest`). Raises `TurnOver` if the turn ends first."""


class ConversationHost(ABC):
    """What the host does for a conversation at any time, whether or not a turn of it runs."""

    @abstractmethod
    def late_turn(
        self,
        text: str,
        answer: Callable[[TurnSink], Awaitable[None]],
        *,
        message_id: str | None = None,
        meta: Json | None = None,
    ) -> Awaitable[None]:
        """A turn that no person started: steering that the backend runs late (B9), a background agent that came back.

        It opens when no turn runs: at once, or ahead of whatever waits in the chat, in the order of these calls. Then
        `answer` runs as `Conversation.send` does: it returns, raises `TurnFailed`, or is stopped (`Conversation.stop`
        is given its task). `message_id` is the steering message that the turn is for: the turn shows that message as
        the person wrote it, and it does not wait any more (G2). Else it shows `text` as the system's, with `meta` as the
        message's `_meta`.

        Nobody need await what is returned: it is done when the turn has ended, or when it will never open because the
        chat was closed.
        """

    @abstractmethod
    def background(self, work: Json | None, id: str) -> None:
        """List what runs behind the turns (AHP `BackgroundWork`, without its id), or take it off the list (None).

        For what is no worker of this host's, such as a shell's job: a background worker is listed by itself. The list
        is empty when the conversation closes.
        """

    @abstractmethod
    def configured(self, values: Mapping[str, Any]) -> None:
        """The backend changed settings of the session by itself, such as its mode once a plan was approved: the session
        says so."""


class Conversation(ABC):
    """One chat's line to its backend. One turn at a time (B1): the host sends the next when `send` has returned."""

    @property
    def memory(self) -> str | None:
        """What the backend needs to go on with this conversation in another process; stored after each turn.

        One that keeps conversations by itself says it from the moment it is open, if it can: a conversation that is
        opened anew behind turns that it has not seen is then told in a preface what they said (S4). None: it is told
        everything on each turn, by `Prompt.history`.
        """
        return None

    @abstractmethod
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        """Run one turn. Returning ends it well; `TurnFailed` ends it with those words; being cancelled is a stop."""

    async def stop(self, running: asyncio.Task[None]) -> None:
        """Stop the turn that runs; `running` is the task of `send`. The host has ended the turn for everyone already.

        The default cancels the task. A backend with an interrupt of its own uses that and lets `send` return; the host
        cancels what has not returned in a few seconds.
        """
        running.cancel()

    async def configure(self, config: Mapping[str, Any]) -> None:
        """The session's settings changed: heed at once what can be, in a turn that runs as well. `Prompt.config` says
        them again on each turn. One at a time, in order; quick."""
        return

    async def steer(self, message: Steering) -> bool:
        """Take a message into the turn that runs; say False if that is not possible yet (G1): the host asks again on
        the turn's next action. One that is taken is told by `TurnSink.steering_read` when the model reads it; one that
        the turn's end finds unread is the host's again (G2), unless `holds` says otherwise. Asked only of an agent
        whose capabilities say `steering`, and never twice for an id that was taken. Raises `SteeringRefused` for one
        that it will never take.
        """
        return False

    async def withdraw(self, message_id: str) -> bool:
        """Give up a message that was taken and not read; say whether the model will not see it (G7)."""
        return False

    @property
    def holds(self) -> str | None:
        """The id of a steering message that the backend still has, and will run, though its turn ended (Q6)."""
        return None

    async def close(self) -> None:
        """Free what this conversation holds. Called once; nothing runs then."""
        return


class Agent(ABC):
    """A backend. Making one starts nothing; `probe` and `open` are called when somebody asks."""

    provider: str
    """Names it in URIs: letters, digits, `+-.`, beginning with a letter."""
    display_name: str
    description: str
    capabilities: Capabilities = Capabilities()

    def attach(self, works: Works) -> None:
        """A host serves it from now on; `works` is for an agent that has others work for it (B16). Starts nothing."""
        return

    @abstractmethod
    async def probe(self) -> Probe:
        """Look whether it can be used. Quick (under a second), never raises."""

    def config_schema(self, values: Mapping[str, Any]) -> Json:
        """The session's settings (AHP `SessionConfigSchema`), given what is chosen so far."""
        return {"type": "object", "properties": {}}

    async def commands(self, directories: Sequence[str], config: Mapping[str, Any]) -> Sequence[Command]:
        """What a message of a chat in these directories (absolute paths) and with these settings can begin with.

        Only what works when it is sent: `Conversation.send` is handed the text as it was written. Asked at every key, so
        quick; what takes time is kept.
        """
        return ()

    @abstractmethod
    async def open(self, start: Start) -> Conversation:
        """Begin or go on with a conversation. Raises `TurnFailed` with words if it cannot."""

    async def delete(self, memory: str) -> None:
        """Forget a conversation for good (X3, U9); nothing has it open. Raises whatever: it is logged with what it cost.

        One that is not there any more is deleted already. Asked only of an agent whose capabilities say `delete`.
        """
        raise NotImplementedError

    async def catalogue(self, directories: Sequence[str]) -> Sequence[Found]:
        """The conversations that it keeps for these directories (absolute paths), those of other programs among them
        (U5). Starts nothing and does not block the loop; raises whatever: that costs its rows, and is logged."""
        return ()

    async def transcript(self, memory: str) -> Sequence[Json]:
        """A conversation of the catalogue read back as ended turns (AHP `Turn`), oldest first, each with its resume point
        under `RESUME_POINT` where there is one (B12, B13). Starts nothing and does not block the loop. Raises
        `TurnFailed` with words if it cannot be read."""
        raise TurnFailed("notFound", f"{self.display_name} keeps no conversations.")

    async def close(self) -> None:
        """The server stops: free what the agent shares among its conversations."""
        return
