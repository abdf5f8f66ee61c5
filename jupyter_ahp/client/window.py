"""A chat as it is: opened, looked at, watched, left.

The host holds the chat; this is a window on it. Others, the JupyterLab panel among them, may watch and write in the
same chat at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from ..protocol import status, uris
from ..protocol.errors import ProtocolError
from .attach import Pointer
from .attending import Attendant, Policy, checked
from .connection import Connection
from .errors import NoHost, Refused
from .host import AnyHost, Host
from .line import Line
from .mirror import Mirror
from .model import ChatSummary, Doing, Origin, Turn, doing, summary_of, turn_of
from .opening import Mirrors, create, entry_of, find_chat, find_named, find_session, refusing, session_of
from .places import waiting_in
from .show import Canvas
from .waiting import AsyncWaiting

Json: TypeAlias = dict[str, Any]
ChatState: TypeAlias = Doing | Literal["offline", "closed"]


class Window:
    """What `AsyncChat` is before anything is said in it."""

    def __init__(
        self,
        agent: str | None = None,
        *,
        title: str | None = None,
        directory: str | PathLike[str] | None = None,
        model: str | None = None,
        config: Mapping[str, Any] | None = None,
        host: AnyHost | Connection | None = None,
        approve: Policy | None = None,
    ) -> None:
        self._find: Callable[[], Awaitable[Mirrors]] = self._create
        self._wanted_agent = agent
        self._wanted_title = title
        self._directory = Path(directory or ".").expanduser().absolute()
        self._model = model
        self._policy = checked(approve)
        self._config = dict(config or {})
        self._own_host: AnyHost | None = None
        if isinstance(host, Connection):
            self._connection = host
        else:
            self._own_host = host or self._default_host()
            self._connection = Connection(self._own_host.resolve)
        self._opening = asyncio.Lock()
        self._mirrors: Mirrors | None = None
        self._moving = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    @staticmethod
    def _default_host() -> AnyHost:
        """Where a chat is held that names no host. Raises `NoHost`."""
        return Host()

    @classmethod
    def open(
        cls, uri: str, host: AnyHost | Connection | None = None, *, approve: Policy | None = None
    ) -> Self:
        """A chat that exists, by its URI or by its session's: `chat = await AsyncChat.open(uri)`."""
        kind = uris.channel_kind(uri)
        if kind not in ("chat", "session"):
            raise ValueError(f"{uri!r} names neither a chat nor a session.")
        chat = cls(host=host, approve=approve)
        find = find_chat if kind == "chat" else find_session
        chat._find = lambda: find(chat._connection, uri)
        return chat

    @classmethod
    def named(
        cls,
        key: str,
        agent: str | None = None,
        *,
        title: str | None = None,
        host: AnyHost | Connection | None = None,
        approve: Policy | None = None,
        new: bool = False,
    ) -> Self:
        """The chat that goes under this name on its host, made if there is none: `chat = await AsyncChat.named("report")`.

        So a script, or a notebook, finds its chat again. `agent` and `title` are for one that is made; with `new` one is
        made, and goes under the name from then on.
        """
        chat = cls(agent, title=title, host=host, approve=approve)
        chat._find = lambda: chat._find_named(key, new)
        return chat

    # ── opening and closing ──────────────────────────────────────────────────────────────────────────────────────
    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def _open(self) -> Self:
        if self._closed:
            raise Refused("This chat was closed. Open it again with open(uri).")
        async with self._opening:
            if self._mirrors is None:
                try:
                    await self._connection.open()
                    self._mirrors = await refusing(self._find())
                    self._following = asyncio.create_task(self._follow_moves())
                except BaseException:
                    await self._leave()
                    raise
        return self

    async def __aenter__(self) -> Self:
        return await self._open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the chat. The host keeps it; a turn that runs goes on."""
        if self._closed:
            return
        self._closed = True
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        for mirror in self._mirrors or ():
            await self._connection.unsubscribe(mirror)
        await self._leave()

    async def _leave(self) -> None:
        """Close the connection if it is this chat's own; a fresh one is there for another try."""
        if self._own_host is not None:
            connection, self._connection = self._connection, Connection(self._own_host.resolve)
            await connection.close()

    async def _find_named(self, key: str, new: bool) -> Mirrors:
        """The session that goes under this key, or a new one."""
        found, name = await find_named(self._connection, key)
        if found is not None and not new:
            return found
        for mirror in found or ():
            await self._connection.unsubscribe(mirror)
        return await self._create(name)

    async def _create(self, name: str | None = None) -> Mirrors:
        params: Json = {"workingDirectories": [self._directory.as_uri()]}
        if self._wanted_agent is not None:
            params["provider"] = self._wanted_agent
        if self._config:
            params["config"] = self._config
        mirrors = await create(self._connection, params, name)
        if self._wanted_title is not None:
            await self._retitle(mirrors, self._wanted_title)
        return mirrors

    async def _retitle(self, mirrors: Mirrors, title: str) -> None:
        session, chat = mirrors

        def is_said(state: Json) -> bool | None:
            return (entry_of(state, chat.channel) or {}).get("title") == title or None

        await self._connection.dispatch(chat.channel, {"type": "session/titleChanged", "title": title})
        # It is said in the session, a moment later.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await session.until(is_said)

    async def _follow_moves(self) -> None:
        """Follow the chat into the session that somebody moves it to; see to it that one that was closed is over."""
        while True:
            session = self._session
            # `Refused`: nobody here watches that session any more, since the chat was moved.
            with contextlib.suppress(Refused):
                await session.until(lambda state: True if entry_of(state, self.uri) is None else None)
            async with self._moving:
                if self._session is not session:
                    continue
                if session.ended is not None:
                    return
                try:
                    await self._settle(await session_of(self._connection, self.uri))
                except NoHost:
                    return
                except (Refused, ProtocolError):
                    self._connection.drop(self.uri, "The chat was closed.")
                    return
            with contextlib.suppress(Refused):
                await self._session.until(lambda state: entry_of(state, self.uri))

    async def _settle(self, uri: str) -> None:
        """The session that the chat is in now is this one."""
        session, chat = self._opened
        if uri != session.channel:
            self._mirrors = await self._connection.subscribe(uri), chat
            await self._connection.unsubscribe(session)

    # ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def _session(self) -> Mirror:
        return self._opened[0]

    @property
    def _chat(self) -> Mirror:
        return self._opened[1]

    @property
    def _line(self) -> Line:
        return Line(self._connection, self._chat)

    @property
    def _opened(self) -> Mirrors:
        if self._mirrors is None:
            raise Refused("This chat is not open yet: `await` it first.")
        return self._mirrors

    @property
    def uri(self) -> str:
        """The chat's URI: the same for everybody, and for ever."""
        return self._chat.channel

    @property
    def session_uri(self) -> str:
        """The URI of the session that the chat is in."""
        return self._session.channel

    @property
    def title(self) -> str:
        """As people see it; empty until somebody, or the host, gave it one."""
        return self._summary.title or str(self._chat.state.get("title") or "")

    @property
    def agent(self) -> str:
        """The provider that answers."""
        return str(self._session.state.get("provider", ""))

    @property
    def origin(self) -> Origin:
        """Where it comes from: `kind` is `user`, or `fork` or `sideChat` with the `chat` and `turn` it was made from, or
        `tool` with the `chat` and the `call` that it works for."""
        return self._summary.origin

    @property
    def archived(self) -> bool:
        """Whether somebody put it away."""
        return bool(self._marks & status.IS_ARCHIVED)

    @property
    def chats(self) -> list[ChatSummary]:
        """The chats of its session, this one among them."""
        return [summary_of(entry) for entry in self._session.state.get("chats", ())]

    @property
    def workers(self) -> list[ChatSummary]:
        """The chats in which its tool calls have others do their work, oldest first. They can be opened, and only read:
        `Chat.open(worker.uri).turns`; `origin.call` is the call."""
        return [chat for chat in self.chats if chat.origin.kind == "tool" and chat.origin.chat == self.uri]

    @property
    def _summary(self) -> ChatSummary:
        return summary_of(entry_of(self._session.state, self.uri) or {"resource": self.uri})

    @property
    def _is_default(self) -> bool:
        return bool(self._session.state.get("defaultChat") == self.uri)

    @property
    def _marks(self) -> int:
        """The status bits that people set: a session's first chat is marked with it."""
        return int((self._session if self._is_default else self._chat).state.get("status", 0))

    @property
    def turns(self) -> list[Turn]:
        """Every turn, oldest first; the one that runs comes last."""
        state = self._chat.state
        active = state.get("activeTurn")
        return [turn_of(raw) for raw in (*state.get("turns", ()), *([active] if active else []))]

    @property
    def waiting(self) -> list[AsyncWaiting]:
        """What waits in the chat, whoever left it, in the order in which it will go: steering first."""
        line = self._line
        return [
            AsyncWaiting(line, kind, entry["id"], entry["message"], self._attendant)
            for kind, entry in waiting_in(line.state)
        ]

    @property
    def canvases(self) -> list[Canvas]:
        """What is shown beside the chat, whoever showed it, in the order in which it was opened."""
        return [Canvas(entry["resource"]) for entry in self._chat.state.get("canvases", ())]

    @property
    def draft(self) -> str:
        """What somebody has begun to write in the chat and not sent."""
        return str((self._chat.state.get("draft") or {}).get("text", ""))

    @property
    def state(self) -> ChatState:
        """What it does: `waiting` for a person's answer, `failed` in its last turn, `offline` until the host is back."""
        if self._closed or self._connection.status == "closed":
            return "closed"
        if self._connection.status != "online":
            return "offline"
        return doing(int(self._chat.state.get("status", status.IDLE)))

    @property
    def activity(self) -> str:
        """What it does now, in a few words; empty when there is nothing to say."""
        if self._connection.problem:
            return self._connection.problem
        active = self._chat.state.get("activeTurn")
        waits = turn_of(active).waits if active and self.state == "waiting" else None
        if waits is not None:
            return f"Waits for your answer: {waits.message}"
        return str(self._chat.state.get("activity") or "")

    @property
    def _running(self) -> str | None:
        """The id of the turn that runs."""
        return (self._chat.state.get("activeTurn") or {}).get("id")

    @property
    def _said(self) -> str:
        """What the turn that runs has answered so far; empty when none runs."""
        active = self._chat.state.get("activeTurn")
        return turn_of(active).text if active else ""

    @property
    def _directories(self) -> list[str]:
        """Where its agent works, as URIs."""
        return list(self._session.state.get("workingDirectories") or ())

    @property
    def _asked(self) -> list[Json]:
        """What waits for a person here and with the chat's workers, as AHP's `inputNeeded` (3.5) without what a client runs."""
        if not (entries := self._session.state.get("inputNeeded")):
            return []  # as a rule, and looked at with each word of an answer
        chats, mine = self.chats, {self.uri}
        for _ in chats:  # workers may have workers
            mine |= {chat.uri for chat in chats if chat.origin.kind == "tool" and chat.origin.chat in mine}
        return [one for one in entries if one["chat"] in mine and one["kind"] != "toolClientExecution"]

    async def _say_in(self, chat: str, action: Json) -> None:
        """Dispatch an action in this chat, or in a worker's. Raises `Refused`."""
        mirror = await refusing(self._connection.subscribe(chat))
        try:
            await self._connection.dispatch(chat, action)
        finally:
            await self._connection.unsubscribe(mirror)

    async def _cancel(self, turn_id: str) -> None:
        """Stop this turn. Raises `Refused` when it does not run."""
        await self._line.cancel(turn_id)

    def _attendant(self) -> Attendant:
        """For one wait: answers what is asked, by the chat's policy. Without one, nobody is there in a process of its own."""
        return Attendant(self, self._policy or ("none" if self._connection.alone else None))

    @property
    def outline(self) -> tuple[int, str]:
        """Moves when a turn begins or ends: how many have ended, and which one runs."""
        state = self._chat.state
        return len(state.get("turns", ())), (state.get("activeTurn") or {}).get("id", "")

    async def changes(self) -> AsyncGenerator[Self, None]:
        """This chat now, and again whenever something in it has changed. Ends when it is closed or gone."""
        await self
        changed = asyncio.Event()
        while True:
            session = self._session
            with session.waking(changed), self._chat.waking(changed):
                while session is self._session:
                    changed.clear()
                    yield self
                    if self._chat.ended is not None:
                        return
                    await changed.wait()

    def _ahp_attachments_(self) -> list[Pointer]:
        """What a message carries that this chat is attached to."""
        return [Pointer(self.title or "Chat", self.uri)]

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._mirrors is None:
            return f"<{name}, not open yet>"
        count = len(self._chat.state.get("turns", ())) + ("activeTurn" in self._chat.state)
        turns = "1 turn" if count == 1 else f"{count} turns"
        return f"<{name} {self.title!r} with {self.agent}, {turns}, {self.state}: {self.uri}>"
