"""`AsyncChat`: one chat of an agent host, for `await`.

The host holds the chat; this is a window on it. Others, the JupyterLab panel among them, may watch and write in the
same chat at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar

from ..protocol import status, uris
from ..protocol.errors import SESSION_ALREADY_EXISTS, ProtocolError
from ..protocol.times import parse_ms, to_iso
from .answers import confirmation, input_answers
from .attach import Attachable, attachments
from .connection import Connection
from .errors import Refused, TurnFailed
from .host import Host
from .mirror import Mirror
from .model import Part, Question, ToolCallPart, Turn, part_of, turn_of
from .pending import turn_in

Json: TypeAlias = dict[str, Any]
ChatState: TypeAlias = Literal["idle", "running", "waiting", "failed", "offline", "closed"]
T = TypeVar("T")


class AsyncChat:
    """A chat. `await AsyncChat(agent=…)` (or `async with`) opens it, as does the first thing it is asked to do.

    `agent` is a provider's name (default: the host's own choice), `directory` where it works (default: the current
    one), `model` the model for every message that names none, `config` the session's settings by the agent's schema.
    `host` is what `connect` gave, or an open `Connection` to share; default: this kernel's own server.

    Opening raises `NoHost` when there is no host, `Refused` when it will not make the chat.
    """

    def __init__(
        self,
        agent: str | None = None,
        *,
        title: str | None = None,
        directory: str | PathLike[str] | None = None,
        model: str | None = None,
        config: Mapping[str, Any] | None = None,
        host: Host | Connection | None = None,
    ) -> None:
        self._find: Callable[[], Awaitable[tuple[Mirror, Mirror]]] = self._create
        self._wanted_agent = agent
        self._wanted_title = title
        self._directory = Path(directory or ".").expanduser().absolute()
        self._model = model
        self._config = dict(config or {})
        self._own_host = None if isinstance(host, Connection) else (host or Host())
        self._connection = host if isinstance(host, Connection) else Connection((host or Host()).resolve)
        self._opening = asyncio.Lock()
        self._mirrors: tuple[Mirror, Mirror] | None = None
        self._closed = False

    @classmethod
    def open(cls, uri: str, host: Host | Connection | None = None) -> Self:
        """A chat that exists, by its URI or by its session's: `chat = await AsyncChat.open(uri)`."""
        kind = uris.channel_kind(uri)
        if kind not in ("chat", "session"):
            raise ValueError(f"{uri!r} names neither a chat nor a session.")
        chat = cls(host=host)
        chat._find = (lambda: chat._find_chat(uri)) if kind == "chat" else (lambda: chat._find_session(uri))
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
                    self._mirrors = await _refusing(self._find())
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
        for mirror in self._mirrors or ():
            await self._connection.unsubscribe(mirror)
        await self._leave()

    async def _leave(self) -> None:
        """Close the connection if it is this chat's own; a fresh one is there for another try."""
        if self._own_host is not None:
            connection, self._connection = self._connection, Connection(self._own_host.resolve)
            await connection.close()

    async def _create(self) -> tuple[Mirror, Mirror]:
        session = uris.session_uri(str(uuid.uuid4()))
        params: Json = {"channel": session, "workingDirectories": [self._directory.as_uri()]}
        if self._wanted_agent is not None:
            params["provider"] = self._wanted_agent
        if self._config:
            params["config"] = self._config
        try:
            await self._connection.request("createSession", params)
        except ProtocolError as error:
            # The name is ours alone: the request was made twice, since the first answer was lost.
            if error.code != SESSION_ALREADY_EXISTS:
                raise
        mirrors = await self._find_session(session)
        if self._wanted_title is not None:
            await self._retitle(mirrors, self._wanted_title)
        return mirrors

    async def _find_session(self, session: str) -> tuple[Mirror, Mirror]:
        mirror = await self._connection.subscribe(session)
        try:
            return mirror, await self._connection.subscribe(await mirror.until(_default_chat))
        except BaseException:
            await self._connection.unsubscribe(mirror)
            raise

    async def _find_chat(self, chat: str) -> tuple[Mirror, Mirror]:
        session = await self._connection.subscribe(
            uris.session_of_default_chat(chat) or await self._session_of(chat)
        )
        try:
            return session, await self._connection.subscribe(chat)
        except BaseException:
            await self._connection.unsubscribe(session)
            raise

    async def _session_of(self, chat: str) -> str:
        cursor: Json = {}
        while True:
            page = await self._connection.request("listSessions", {"channel": uris.ROOT, **cursor})
            for summary in page["items"]:
                chats = [entry["resource"] for entry in summary.get("chats", ())]
                if chat in (summary.get("defaultChat"), *chats):
                    return str(summary["resource"])
            if not page.get("nextCursor"):
                raise Refused(f"No session of this host has the chat {chat}.")
            cursor = {"cursor": page["nextCursor"]}

    # ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def _session(self) -> Mirror:
        return self._opened[0]

    @property
    def _chat(self) -> Mirror:
        return self._opened[1]

    @property
    def _opened(self) -> tuple[Mirror, Mirror]:
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
        return _title_in(self._session.state, self.uri) or str(self._chat.state.get("title") or "")

    @property
    def agent(self) -> str:
        """The provider that answers."""
        return str(self._session.state.get("provider", ""))

    @property
    def turns(self) -> list[Turn]:
        """Every turn, oldest first; the one that runs comes last."""
        state = self._chat.state
        active = state.get("activeTurn")
        return [turn_of(raw) for raw in (*state.get("turns", ()), *([active] if active else []))]

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
        bits = int(self._chat.state.get("status", status.IDLE))
        if bits & status.INPUT_NEEDED == status.INPUT_NEEDED:
            return "waiting"
        if bits & status.IN_PROGRESS:
            return "running"
        return "failed" if bits & status.ERROR else "idle"

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
    def outline(self) -> tuple[int, str]:
        """Moves when a turn begins or ends: how many have ended, and which one runs."""
        state = self._chat.state
        return len(state.get("turns", ())), (state.get("activeTurn") or {}).get("id", "")

    async def changes(self) -> AsyncGenerator[Self, None]:
        """This chat now, and again whenever something in it has changed. Ends when it is closed or gone."""
        await self
        changed = asyncio.Event()
        with self._session.waking(changed), self._chat.waking(changed):
            while True:
                changed.clear()
                yield self
                if self._chat.ended is not None:
                    return
                await changed.wait()

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._mirrors is None:
            return f"<{name}, not open yet>"
        count = len(self._chat.state.get("turns", ())) + ("activeTurn" in self._chat.state)
        turns = "1 turn" if count == 1 else f"{count} turns"
        return f"<{name} {self.title!r} with {self.agent}, {turns}, {self.state}: {self.uri}>"

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def send(
        self,
        text: str,
        attach: Attachable | Iterable[Attachable] = (),
        *,
        model: str | None = None,
        timeout: float | None = None,
    ) -> Turn:
        """Say something and wait until the turn has ended.

        A turn that somebody stopped is given back as it is (`state == "cancelled"`); one that failed raises
        `TurnFailed`. After `timeout` seconds, or when the waiting task is cancelled, the turn is stopped, and
        `TimeoutError` or `CancelledError` raised. Raises `Refused` when the host does not start the turn.
        """
        await self
        return await self._finish(self._started(text, attach, model), timeout)

    async def stream(
        self, text: str, attach: Attachable | Iterable[Attachable] = (), *, model: str | None = None
    ) -> AsyncGenerator[Part, None]:
        """Say something and follow the answer: each part as it is now, whenever it has grown; `delta` is the new text.

        A reader who is slow gets fewer and larger steps. Leaving the loop before the end stops the turn. Raises as
        `send` does.
        """
        await self
        given: list[Json] = []
        turn: Json = {}
        async with aclosing(self._follow(self._started(text, attach, model))) as turns:
            async for turn in turns:
                parts = turn.get("responseParts", [])
                for index, part in enumerate(parts):
                    old = given[index] if index < len(given) else {}
                    if part is not old and part != old:
                        yield part_of(part, known=str(old.get("content", "")))
                given = parts
        _ended(turn)

    async def resume(self, *, timeout: float | None = None) -> Turn:
        """Go on with the last turn, which failed in a way that can be resumed; otherwise as `send`."""
        await self
        turns = self._chat.state.get("turns") or [{"id": ""}]
        return await self._finish({"type": "chat/turnResume", "turnId": turns[-1]["id"]}, timeout)

    async def stop(self) -> None:
        """Stop the turn that runs, if one does."""
        await self
        active = self._chat.state.get("activeTurn")
        if active is None:
            return
        try:
            await self._cancel(active["id"])
        except Refused:
            if (self._chat.state.get("activeTurn") or {}).get("id") == active["id"]:
                raise  # Else it had ended by itself.

    async def idle(self, *, timeout: float | None = None) -> bool:
        """Wait until no turn runs; False when one still does after `timeout` seconds."""
        await self
        try:
            async with asyncio.timeout(timeout):
                await self._chat.until(lambda state: True if "activeTurn" not in state else None)
        except TimeoutError:
            return False
        return True

    def _started(self, text: str, attach: Attachable | Iterable[Attachable], model: str | None) -> Json:
        message: Json = {"text": text, "origin": {"kind": "user"}}
        if attached := attachments(attach):
            message["attachments"] = attached
        if chosen := model or self._model:
            message["model"] = {"id": chosen}
        return {
            "type": "chat/turnStarted",
            "turnId": str(uuid.uuid4()),
            "startedAt": to_iso(_now_ms()),
            "message": message,
        }

    async def _finish(self, action: Json, timeout: float | None) -> Turn:
        turn: Json = {}
        try:
            async with asyncio.timeout(timeout), aclosing(self._follow(action)) as turns:
                async for latest in turns:
                    turn = latest
        except TimeoutError:
            raise TimeoutError(f"The turn had not ended after {timeout:g} s, and was stopped.") from None
        return _ended(turn)

    async def _follow(self, action: Json) -> AsyncGenerator[Json, None]:
        """Start a turn by `action`; then the turn at each change, its end included. Leaving earlier stops it."""
        turn_id: str = action["turnId"]
        over = False
        answer = self._connection.dispatch(self.uri, action)
        try:
            try:
                await answer
            except Refused:
                over = True
                raise
            async with aclosing(self._chat.states()) as states:
                async for state in states:
                    turn = turn_in(state, turn_id)
                    over = turn is None or "state" in turn
                    if turn is None:
                        raise Refused("The turn was taken out of the chat before it had ended.")
                    yield turn
                    if over:
                        return
            over = True
            raise Refused(self._chat.ended or "The chat is gone.")
        finally:
            if not over and self._connection.status != "closed":
                self._cancel(turn_id)

    def _cancel(self, turn_id: str) -> asyncio.Future[None]:
        active = self._chat.state.get("activeTurn") or {}
        started = parse_ms(active.get("startedAt"))
        duration = 0 if started is None else max(0, _now_ms() - started)
        return self._connection.dispatch(
            self.uri, {"type": "chat/turnCancelled", "turnId": turn_id, "duration": duration}
        )

    # ── what a turn asks ─────────────────────────────────────────────────────────────────────────────────────────
    async def answer(
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
        await self
        request_id = request if isinstance(request, str) else request.id
        part = self._active_part("inputRequest", lambda part: part["request"]["id"] == request_id)
        action: Json = {"type": "chat/inputCompleted", "requestId": request_id, "response": response}
        if answers is not None:
            action["answers"] = input_answers(part["request"].get("questions", ()), answers)
        await self._connection.dispatch(self.uri, action)

    async def approve(
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
        await self
        call_id = call if isinstance(call, str) else call.id
        part = self._active_part("toolCall", lambda part: part["toolCall"]["toolCallId"] == call_id)
        action = confirmation(
            part["toolCall"],
            self._chat.state["activeTurn"]["id"],
            approved,
            option=option,
            edited_input=edited_input,
            reason=reason,
        )
        await self._connection.dispatch(self.uri, action)

    def _active_part(self, kind: str, matches: Callable[[Json], bool]) -> Json:
        active: Json = self._chat.state.get("activeTurn") or {}
        for part in active.get("responseParts", ()):
            if part["kind"] == kind and matches(part):
                found: Json = part
                return found
        raise Refused("The running turn does not ask this, or no longer.")

    # ── the chat itself ──────────────────────────────────────────────────────────────────────────────────────────
    async def rename(self, title: str) -> None:
        """Give the chat a title; a session of one chat is called so with it."""
        await self
        await self._retitle(self._opened, title)

    async def _retitle(self, mirrors: tuple[Mirror, Mirror], title: str) -> None:
        session, chat = mirrors
        await self._connection.dispatch(chat.channel, {"type": "session/titleChanged", "title": title})
        # It is said in the session, a moment later.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await session.until(lambda state: _title_in(state, chat.channel) == title or None)


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def _title_in(session: Json, chat: str) -> str:
    titles = (entry.get("title") for entry in session.get("chats", ()) if entry.get("resource") == chat)
    return str(next(titles, None) or "")


def _ended(raw: Json) -> Turn:
    turn = turn_of(raw)
    if turn.state == "error":
        raise TurnFailed(turn)
    return turn


def _default_chat(session: Json) -> str | None:
    """The chat of a session that is ready. Raises `Refused` for one that could not be made."""
    if session.get("lifecycle") == "failed":
        raise Refused((session.get("creationError") or {}).get("message") or "The session could not be made.")
    return session.get("defaultChat") if session.get("lifecycle") == "ready" else None


async def _refusing(asked: Awaitable[T]) -> T:
    """A request that the host answers with an error was refused."""
    try:
        return await asked
    except ProtocolError as error:
        raise Refused(error.message, code=error.code, data=error.data) from error
