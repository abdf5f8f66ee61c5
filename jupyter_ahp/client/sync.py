"""`Chat` and `Waiting`: for code that waits. Every blocking chat of a process lives on one thread (`Background`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Literal, Self, TypeVar

from .attach import Attachable, Pointer
from .attending import Policy
from .background import background
from .batch import Prompt, Tell
from .chat import AsyncChat
from .completing import Completion
from .connection import Connection
from .host import AnyHost, Host
from .model import ChatSummary, Message, Origin, Part, Question, ToolCallPart, Turn
from .objects import carried
from .places import Kind
from .progress import Progress
from .show import Canvas, shown
from .waiting import AsyncWaiting
from .window import ChatState

T = TypeVar("T")


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
    `host` what `connect` gave (default: this kernel's own server, or this process where there is none). It connects at once.

    `approve` says what may run without a person's word while something here waits for a turn: `"none"`, `"reads"`,
    `"session-directories"` (also edits of files there), or a function that is given the `ToolCallPart`. The rest stops the
    turn by `NeedsApproval`. Default: on a server, whoever is there is asked; in a process of its own, `"none"`.

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
        host: AnyHost | None = None,
        approve: Policy | None = None,
    ) -> None:
        self._open(
            lambda connection: AsyncChat(
                agent,
                title=title,
                directory=directory,
                model=model,
                config=config,
                host=connection,
                approve=approve,
            ),
            host,
        )

    @classmethod
    def open(cls, uri: str, host: AnyHost | None = None, *, approve: Policy | None = None) -> Self:
        """A chat that exists, by its URI or by its session's."""
        chat = cls.__new__(cls)
        chat._open(lambda connection: AsyncChat.open(uri, connection, approve=approve), host)
        return chat

    @classmethod
    def named(
        cls,
        key: str,
        agent: str | None = None,
        *,
        title: str | None = None,
        host: AnyHost | None = None,
        approve: Policy | None = None,
        new: bool = False,
    ) -> Self:
        """The chat that goes under this name on its host, made if there is none: `chat = Chat.named("report")`.

        So a script, or a notebook, finds its chat again. `agent` and `title` are for one that is made; with `new` one is
        made, and goes under the name from then on.
        """
        chat = cls.__new__(cls)
        chat._open(
            lambda connection: AsyncChat.named(
                key, agent, title=title, host=connection, approve=approve, new=new
            ),
            host,
        )
        return chat

    @staticmethod
    def _default_host() -> AnyHost:
        """Where a chat is held that names no host. Raises `NoHost`."""
        return Host()

    _left = False
    """Whether it was closed: its host counts it no longer."""

    def _open(self, make: Callable[[Connection], AsyncChat], host: AnyHost | None) -> None:
        self.host = host or self._default_host()
        """Where it is held."""
        self.background = background()
        """The thread that it lives on."""

        async def opened() -> AsyncChat:
            connection = await self.background.connection(self.host)
            try:
                return await make(connection)
            except BaseException:
                await self.background.left(self.host)
                raise

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
        self._run(self._close())

    async def _close(self) -> None:
        await self.async_chat.close()
        if not self._left:
            self._left = True
            await self.background.left(self.host)

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────
    def send(
        self,
        text: str,
        attach: Attachable | Iterable[Attachable] = (),
        *,
        model: str | None = None,
        returns: Any = None,
        timeout: float | None = None,
    ) -> Turn:
        """Say something and wait until the turn has ended.

            turn = chat.send("What is in this table?", "sales.csv")
            print(turn.text)

        While another turn runs, the message waits in the queue for its own; should that other one be stopped or fail,
        which starts nothing, it goes right away. A turn that somebody stopped is given back as it is
        (`state == "cancelled"`); one that failed raises `TurnFailed`. After `timeout` seconds it is stopped (or the
        message taken back) and `TimeoutError` raised; Ctrl C (in a notebook: interrupt the kernel) does the same, and
        the chat can be used on. Raises `Refused` when the host does not start the turn, or somebody takes the message
        back.

        `returns` is the form of the answer, for `turn.value`: a JSON Schema, a dataclass, a TypedDict, a model of pydantic's,
        or `list[…]` of these. An answer that does not fit is asked for once more; then `BadAnswer` is raised.
        """
        return self._wait(
            self.async_chat.send(text, carried(attach), model=model, returns=returns, timeout=timeout)
        )

    def stream(
        self, text: str, attach: Attachable | Iterable[Attachable] = (), *, model: str | None = None
    ) -> Iterator[Part]:
        """Say something and follow the answer: each part as it is now, whenever it has grown; `delta` is the new text.

        A reader who is slow gets fewer and larger steps. Leaving the loop before the end stops the turn. Waits for its
        turn, and raises, as `send` does.
        """
        parts = self.async_chat.stream(text, carried(attach), model=model)

        async def following() -> Part | None:
            return await anext(parts, None)

        try:
            while (part := self._run(following())) is not None:
                yield part
        finally:
            self._run(parts.aclose())

    def map(
        self,
        prompts: Iterable[Prompt],
        attach: Attachable | Iterable[Attachable] = (),
        *,
        concurrency: int = 4,
        model: str | None = None,
        returns: Any = None,
        timeout: float | None = None,
        progress: Tell | None = None,
    ) -> list[Turn | Exception]:
        """Ask each of these in a new chat of this session, some at a time: the turns, in the order of the prompts.

            answers = chat.map([f"What is in {name}?" for name in df], df, returns=Column)

        A prompt is a text, or a pair of a text and what goes with it alone. One that fails is its exception in the list, and
        the others go on. The same call again, on this chat, asks only what has not been answered (after Ctrl C, or in
        another process with `Chat.open(chat.uri)`): a prompt is known by its text, its attachments (a file: by its path,
        size and time), `model` and `returns`. Answered chats are archived. `timeout` is each turn's;
        `progress` is called, on another thread, with how many are done, and of how many.
        """
        asked = [one if isinstance(one, str) else (one[0], carried(one[1])) for one in prompts]
        shared = carried(attach)
        count = ""

        def tell(done: int, of: int) -> None:
            nonlocal count
            count = f"{done} of {of} done"
            if progress is not None:
                progress(done, of)

        with Progress(self.async_chat, lambda: count) as line:
            return self._run(
                self.async_chat.map(
                    asked,
                    shared,
                    concurrency=concurrency,
                    model=model,
                    returns=returns,
                    timeout=timeout,
                    progress=tell,
                ),
                line.tick,
            )

    def resume(self, *, timeout: float | None = None) -> Turn:
        """Go on with the last turn, which failed in a way that can be resumed; otherwise as `send`."""
        return self._wait(self.async_chat.resume(timeout=timeout))

    def stop(self) -> None:
        """Stop the turn that runs, if one does. From another thread, while this one waits in `send`."""
        self._run(self.async_chat.stop())

    def completions(self, text: str, offset: int | None = None) -> list[Completion]:
        """What fits at the end of the text, or at `offset` in it, best first: `/` commands, `@` paths, `#` chats and paths.

            [first, *_] = chat.completions("Look at @sal")
            chat.send(first.applied("Look at @sal"))

        Empty where nothing is asked for. Raises `Refused`.
        """
        return self._run(self.async_chat.completions(text, offset))

    def _wait(self, work: Coroutine[Any, Any, Turn]) -> Turn:
        with Progress(self.async_chat) as progress:
            try:
                return self._run(work, progress.tick)
            except KeyboardInterrupt:
                self._run(self.async_chat.idle(timeout=2))
                raise

    # ── what waits ───────────────────────────────────────────────────────────────────────────────────────────────
    def queue(
        self, text: str, attach: Attachable | Iterable[Attachable] = (), *, model: str | None = None
    ) -> Waiting:
        """Leave a message for a turn of its own, behind the one that runs and what waits already; do not wait.

            later = chat.queue("Now as a table")
            later.edit("Now as a table, by year")
            turn = later.wait()

        While nothing runs, the first that waits starts at once. It is the host's from here on: it goes though this
        kernel may end. Raises `Refused`.
        """
        return Waiting(self, self._run(self.async_chat.queue(text, carried(attach), model=model)))

    def steer(self, text: str, attach: Attachable | Iterable[Attachable] = ()) -> Waiting:
        """Say something to the turn that runs, for the agent to read before its next step; do not wait.

            chat.steer("Only the years since 2000")

        In the turn it is a `Steering` part, where it was read. One that comes too late becomes a turn of its own; a
        stop takes it back. Raises `Refused`, in the host's words, where the agent takes none, or another one waits.
        """
        return Waiting(self, self._run(self.async_chat.steer(text, carried(attach))))

    @property
    def waiting(self) -> list[Waiting]:
        """What waits in the chat, whoever left it, in the order in which it will go: steering first."""
        return [Waiting(self, waiting) for waiting in self.async_chat.waiting]

    def reorder(self, *waiting: Waiting | str) -> None:
        """These first, in this order; the rest of the queue behind them, as it stood. Ids will do.

        `chat.reorder(*reversed(chat.waiting))`
        """
        self._run(self.async_chat.reorder(*(item if isinstance(item, str) else item.id for item in waiting)))

    # ── branches ─────────────────────────────────────────────────────────────────────────────────────────────────
    def fork(self, turn: Turn | str | None = None) -> Self:
        """A new chat that goes on from a turn of this one, and leaves this one as it is.

            other = chat.fork(turn)
            other.send("And what if we leave out 2020?")

        `turn` is an ended one, or its id; default: the last. Raises `Refused`, in the host's words, where the agent
        cannot fork.
        """
        return self._beside(self._run(self.async_chat.fork(turn)))

    def side_chat(self, turn: Turn | str | None = None, selection: str | None = None) -> Self:
        """A new chat beside this one, about one of its turns: the agent knows that turn, the chat begins empty.

            aside = chat.side_chat(turn, selection="heteroscedastic")
            aside.send("What does this mean?")

        `selection` is what was picked out of the turn, which may be the one that runs; default: the latest.
        """
        return self._beside(self._run(self.async_chat.side_chat(turn, selection)))

    def new_chat(self) -> Self:
        """Another chat in the same session: the same agent, settings and directories, nothing said yet."""
        return self._beside(self._run(self.async_chat.new_chat()))

    def _beside(self, made: AsyncChat) -> Self:
        chat = type(self).__new__(type(self))
        chat.host, chat.background, chat.async_chat = self.host, self.background, made
        self._run(self.background.connection(self.host))  # which has one chat more now
        return chat

    def move(self, session: Chat | str | None = None, *, after: Chat | str | None = None) -> None:
        """Put the chat into another session (its URI, or any chat of it), or into a new one of its own.

        There it stands behind the chat `after`, or first; with its own session as `session` it is only put into that
        place. It keeps its URI, and everybody stays in it. Raises `Refused`: a session's first chat does not move.
        """
        where = session.session_uri if isinstance(session, Chat) else session
        behind = after.uri if isinstance(after, Chat) else after
        self._run(self.async_chat.move(where, after=behind))

    # ── rewinding ────────────────────────────────────────────────────────────────────────────────────────────────
    def rewind(self, turn: Turn | str) -> None:
        """Go back to the end of this turn: it stays, what came after it goes, for everybody and for the agent.

            chat.rewind(chat.turns[2])
            chat.send("Let us try this instead")

        What runs is stopped. `undo_rewind` brings it back. Raises `Refused` for a turn that is not there, or runs.
        """
        self._run(self.async_chat.rewind(turn))

    def clear(self) -> None:
        """Begin anew: every turn goes, for everybody and for the agent. `undo_rewind` brings them back."""
        self._run(self.async_chat.clear())

    def undo_rewind(self) -> int:
        """Bring back what `rewind` or `clear` cut, until a turn is started; how many turns came back.

        Raises `Refused` when there is nothing to bring back.
        """
        return self._run(self.async_chat.undo_rewind())

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

    def show(self, value: Any, *, title: str | None = None, canvas: Canvas | None = None) -> Canvas:
        """Show something beside the chat, to everybody who watches it.

            canvas = chat.show(df, title="Sales")
            chat.show(df.head(), canvas=canvas)  # in its place

        `value` is a table (pandas, polars; its first thousand rows), a figure (matplotlib, plotly), a file (by its path),
        Markdown or HTML, the port of a web app on the server's machine, or whatever shows itself in a notebook. A page
        reaches no network. It is gone with the chat and with the server. Raises `Refused`, in the host's words.
        """
        drawn = shown(value)  # here: some things can be drawn on the thread that made them only
        return self._run(self.async_chat._show(drawn, title, canvas))

    def unshow(self, canvas: Canvas) -> None:
        """Take away what `show` showed. Raises `Refused` when it is gone."""
        self._run(self.async_chat.unshow(canvas))

    @property
    def workers(self) -> list[ChatSummary]:
        """The chats in which its tool calls have others do their work, oldest first. They can be opened, and only read:
        `Chat.open(worker.uri).turns`; `origin.call` is the call."""
        return self.async_chat.workers

    @property
    def canvases(self) -> list[Canvas]:
        """What is shown beside the chat, whoever showed it, in the order in which it was opened."""
        return self.async_chat.canvases

    def rename(self, title: str) -> None:
        """Give the chat a title."""
        self._run(self.async_chat.rename(title))

    def archive(self) -> None:
        """Put the chat away (a session's first chat: with its session). It can be read, and comes back by `unarchive`."""
        self._run(self.async_chat.archive())

    def unarchive(self) -> None:
        """Take it out of the archive."""
        self._run(self.async_chat.unarchive())

    def mark_read(self, read: bool = True) -> None:
        """Say that its latest turn has been read, or with `read=False` not."""
        self._run(self.async_chat.mark_read(read))

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
        """What somebody has begun to write in the chat and not sent. Set it to leave words there for everybody."""
        return self.async_chat.draft

    @draft.setter
    def draft(self, text: str) -> None:
        self._run(self.async_chat.set_draft(text))

    @property
    def origin(self) -> Origin:
        """Where it comes from: `kind` is `user`, or `fork` or `sideChat` with the `chat` and `turn` it was made from."""
        return self.async_chat.origin

    @property
    def archived(self) -> bool:
        """Whether somebody put it away."""
        return self.async_chat.archived

    @property
    def chats(self) -> list[ChatSummary]:
        """The chats of its session, this one among them."""
        return self.async_chat.chats

    @property
    def state(self) -> ChatState:
        """What it does: `waiting` for a person's answer, `failed` in its last turn, `offline` until the host is back."""
        return self.async_chat.state

    def _ahp_attachments_(self) -> list[Pointer]:
        return self.async_chat._ahp_attachments_()

    def __repr__(self) -> str:
        return repr(self.async_chat).replace(type(self.async_chat).__name__, type(self).__name__, 1)


class Waiting:
    """A message that `Chat.queue` or `Chat.steer` left with the host. It goes without anybody waiting here."""

    def __init__(self, chat: Chat, waiting: AsyncWaiting) -> None:
        self._chat = chat
        self._waiting = waiting

    @property
    def id(self) -> str:
        """The same for everybody in the chat."""
        return self._waiting.id

    @property
    def kind(self) -> Kind:
        """`steering`: for the turn that runs; `queued`: for a turn of its own."""
        return self._waiting.kind

    @property
    def message(self) -> Message:
        """What it says: while it waits, as it is now, whoever edited it."""
        return self._waiting.message

    @property
    def text(self) -> str:
        """Its words."""
        return self._waiting.text

    @property
    def waits(self) -> bool:
        """Whether it still waits."""
        return self._waiting.waits

    def edit(self, text: str) -> None:
        """Change its words, not what is attached. Raises `Refused` when it does not wait any more."""
        self._chat._run(self._waiting.edit(text))

    def remove(self) -> None:
        """Take it back; nothing else starts for that. Raises `Refused` when it was sent already."""
        self._chat._run(self._waiting.remove())

    def wait(self, *, timeout: float | None = None) -> Turn:
        """The turn that it becomes, or that a steering message went into, once that has ended.

        Raises `TurnFailed` with that turn if it failed, `Refused` when the message was taken back: by somebody, or by a
        stop, as steering is. After `timeout` seconds it raises `TimeoutError`, and the message goes its way all the
        same, as it does after Ctrl C. After a stop or a failure what is queued stays: `send` sends it.
        """
        with Progress(self._chat.async_chat) as progress:
            return self._chat._run(self._waiting.wait(timeout=timeout), progress.tick)

    def send(self, *, timeout: float | None = None) -> Turn:
        """Send it as soon as nothing runs, ahead of what else waits, and wait until its turn has ended.

        It stays its author's. Otherwise as `Chat.send`, but that a message which still waits after Ctrl C goes on
        waiting.
        """
        return self._chat._wait(self._waiting.send(timeout=timeout))

    def __repr__(self) -> str:
        return repr(self._waiting).replace(type(self._waiting).__name__, type(self).__name__, 1)
