"""`AsyncChat`: one chat of an agent host, for `await`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias

from ..protocol.errors import ProtocolError
from ..protocol.meta import HOLD
from .answers import confirmation, input_answers
from .attach import Attachable
from .batch import Batch, Prompt, Tell
from .completing import Completion, completion_of, units
from .connection import AskedTwice
from .errors import BadAnswer, Refused
from .line import ended, finish
from .model import Part, Question, ToolCallPart, Turn, part_of
from .objects import items_of
from .opening import add_chat, entry_of, refusing, session_of
from .places import Kind
from .show import SHOW, Canvas, shown
from .structured import Form, Misfit
from .waiting import AsyncWaiting
from .window import Window

Json: TypeAlias = dict[str, Any]

UNDO_REWIND = "x-jupyter-ahp/undoRewind"


class AsyncChat(Window):
    """A chat. `await AsyncChat(agent=…)` (or `async with`) opens it, as does the first thing it is asked to do.

    `agent` is a provider's name (default: the host's own choice), `directory` where it works (default: the current
    one), `model` the model for every message that names none, `config` the session's settings by the agent's schema.
    `host` is what `connect` gave, or an open `Connection` to share; default: this kernel's own server, or this process.
    `approve` says what may run without a person's word while something waits for a turn here, as for `Chat`.

    Opening raises `NoHost` when there is no host, `Refused` when it will not make the chat.
    """

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def send(
        self,
        text: str,
        attach: Attachable | Iterable[Attachable] = (),
        *,
        model: str | None = None,
        returns: Any = None,
        timeout: float | None = None,
    ) -> Turn:
        """Say something and wait until the turn has ended.

        While another turn runs, the message waits in the queue for its own; should that other one be stopped or fail,
        which starts nothing, it goes right away. A turn that somebody stopped is given back as it is
        (`state == "cancelled"`); one that failed raises `TurnFailed`. After `timeout` seconds, or when the waiting task
        is cancelled, the turn is stopped (or the message taken back), and `TimeoutError` or `CancelledError` raised.
        Raises `Refused` when the host does not start the turn, or somebody takes the message back.

        `returns` is the form of the answer, for `turn.value`: a JSON Schema, a dataclass, a TypedDict, a model of pydantic's,
        or `list[…]` of these. An answer that does not fit is asked for once more; then `BadAnswer` is raised.
        """
        await self
        if returns is not None:
            return await self._of_form(Form(returns), text, attach, model, timeout)
        return await self._finished(self._line.say(await self._carrying(text, attach, model)), timeout)

    async def _of_form(
        self,
        form: Form,
        text: str,
        attach: Attachable | Iterable[Attachable],
        model: str | None,
        timeout: float | None,
    ) -> Turn:
        """A turn with the value that it was asked for. Raises `BadAnswer`."""
        items = [*items_of(attach), form.asked]
        turn = await self.send(text, items, model=model, timeout=timeout)
        for is_last in (False, True):
            if turn.state != "complete":
                break  # Somebody stopped it.
            try:
                return replace(turn, value=form.value(turn.text))
            except Misfit as misfit:
                if is_last:
                    raise BadAnswer(turn, str(misfit)) from misfit
                turn = await self.send(form.again(misfit), form.asked, model=model, timeout=timeout)
        return turn

    async def _finished(self, turns: AsyncGenerator[Json, None], timeout: float | None) -> Turn:
        async with self._attendant() as attendant:
            return attendant.check(await finish(turns, timeout))

    async def stream(
        self, text: str, attach: Attachable | Iterable[Attachable] = (), *, model: str | None = None
    ) -> AsyncGenerator[Part, None]:
        """Say something and follow the answer: each part as it is now, whenever it has grown; `delta` is the new text.

        A reader who is slow gets fewer and larger steps. Leaving the loop before the end stops the turn. Waits for its
        turn, and raises, as `send` does.
        """
        await self
        given: list[Json] = []
        turn: Json = {}
        saying = self._line.say(await self._carrying(text, attach, model))
        async with self._attendant() as attendant, aclosing(saying) as turns:
            async for turn in turns:
                parts = turn.get("responseParts", [])
                for index, part in enumerate(parts):
                    old = given[index] if index < len(given) else {}
                    if part is not old and part != old:
                        yield part_of(part, known=str(old.get("content", "")))
                given = parts
        attendant.check(ended(turn))

    async def map(
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

            answers = await chat.map([f"What is in {name}?" for name in df], df, returns=Column)

        A prompt is a text, or a pair of a text and what goes with it alone. One that fails is its exception in the list, and
        the others go on. The same call again, on this chat, asks only what has not been answered: a prompt is known by its
        text, its attachments (a file: by its path, size and time), `model` and `returns`. Answered chats are archived.
        `timeout` is each turn's; `progress` is called with how many are done, and of how many.
        """
        await self
        batch = await asyncio.to_thread(
            Batch,
            self,
            prompts,
            attach,
            concurrency=concurrency,
            model=model,
            returns=returns,
            timeout=timeout,
            progress=progress,
        )
        return await batch.run()

    async def _part(self, uri: str) -> Self:
        """The chat of this name in the same session; it is made if it is not there yet. For `map`."""
        await self
        if entry_of(self._session.state, uri) is None:
            await refusing(add_chat(self._connection, self._session, None, uri))
        chat = type(self).open(uri, self._connection, approve=self._policy)
        chat._model = self._model
        return await chat

    async def resume(self, *, timeout: float | None = None) -> Turn:
        """Go on with the last turn, which failed in a way that can be resumed; otherwise as `send`."""
        await self
        return await self._finished(self._line.resume(), timeout)

    async def stop(self) -> None:
        """Stop the turn that runs, if one does."""
        await self
        active = self._chat.state.get("activeTurn")
        if active is None:
            return
        try:
            await self._line.cancel(active["id"])
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

    async def _carrying(
        self, text: str, attach: Attachable | Iterable[Attachable], model: str | None = None
    ) -> Json:
        """A message, once what is large of what it carries is with the host."""
        message = self._message(text, model)
        if attached := await self._connection.files.carried(attach):
            message["attachments"] = attached
        return message

    def _message(self, text: str, model: str | None = None) -> Json:
        message: Json = {"text": text, "origin": {"kind": "user"}}
        if chosen := model or self._model:
            message["model"] = {"id": chosen}
        return message

    async def completions(self, text: str, offset: int | None = None) -> list[Completion]:
        """What fits at the end of the text, or at `offset` in it, best first: `/` commands, `@` paths, `#` chats and paths.

            [first, *_] = await chat.completions("Look at @sal")
            await chat.send(first.applied("Look at @sal"))

        Empty where nothing is asked for. Raises `Refused`.
        """
        await self
        params: Json = {"channel": self.uri, "kind": "userMessage", "text": text}
        cursor = len(text) if offset is None else offset
        params["offset"] = units(text[:cursor])
        answer = await refusing(self._connection.request("completions", params))
        return [completion_of(item, text, cursor) for item in answer["items"]]

    # ── what waits ───────────────────────────────────────────────────────────────────────────────────────────────
    async def queue(
        self, text: str, attach: Attachable | Iterable[Attachable] = (), *, model: str | None = None
    ) -> AsyncWaiting:
        """Leave a message for a turn of its own, behind the one that runs and what waits already.

            later = await chat.queue("Now as a table")
            await later.edit("Now as a table, by year")
            turn = await later.wait()

        While nothing runs, the first that waits starts at once. It is the host's from here on: it goes though this
        process may end. Raises `Refused`.
        """
        await self
        return await self._put("queued", await self._carrying(text, attach, model))

    async def steer(self, text: str, attach: Attachable | Iterable[Attachable] = ()) -> AsyncWaiting:
        """Say something to the turn that runs, for the agent to read before its next step.

            await chat.steer("Only the years since 2000")

        In the turn it is a `Steering` part, where it was read. One that comes too late becomes a turn of its own; a
        stop takes it back. Raises `Refused`, in the host's words, where the agent takes none, or another one waits.
        """
        await self
        message = await self._carrying(text, attach)
        message.pop("model", None)  # The turn that it goes into has one.
        return await self._put("steering", message)

    async def _put(self, kind: Kind, message: Json) -> AsyncWaiting:
        message_id = str(uuid.uuid4())
        await self._line.put(kind, message_id, message)
        return AsyncWaiting(self._line, kind, message_id, message, self._attendant)

    async def reorder(self, *waiting: AsyncWaiting | str) -> None:
        """These first, in this order; the rest of the queue behind them, as it stood. Ids will do.

        `await chat.reorder(*reversed(chat.waiting))`
        """
        await self
        order = [item if isinstance(item, str) else item.id for item in waiting]
        await self._line.dispatch(
            {"type": "chat/queuedMessagesReordered", "order": order, "_meta": {HOLD: True}}
        )

    # ── branches ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def fork(self, turn: Turn | str | None = None) -> Self:
        """A new chat that goes on from a turn of this one, and leaves this one as it is.

            other = await chat.fork(turn)
            await other.send("And what if we leave out 2020?")

        `turn` is an ended one, or its id; default: the last. Raises `Refused`, in the host's words, where the agent
        cannot fork.
        """
        await self
        if turn is None:
            turns = self._chat.state.get("turns") or []
            if not turns:
                raise Refused("No turn of this chat has ended yet: there is nothing to fork at.")
            turn = str(turns[-1]["id"])
        return await self._branch({"kind": "fork", "chat": self.uri, "turnId": _id_of(turn)})

    async def side_chat(self, turn: Turn | str | None = None, selection: str | None = None) -> Self:
        """A new chat beside this one, about one of its turns: the agent knows that turn, the chat begins empty.

            aside = await chat.side_chat(turn, selection="heteroscedastic")
            await aside.send("What does this mean?")

        `selection` is what was picked out of the turn, which may be the one that runs; default: the latest.
        """
        await self
        if turn is None:
            turns = self.turns
            if not turns:
                raise Refused("This chat has no turn yet to talk about.")
            turn = turns[-1]
        source: Json = {"kind": "sideChat", "chat": self.uri, "turnId": _id_of(turn)}
        if selection:
            source["selection"] = {"text": selection}
        return await self._branch(source)

    async def new_chat(self) -> Self:
        """Another chat in the same session: the same agent, settings and directories, nothing said yet."""
        await self
        return await self._branch(None)

    async def _branch(self, source: Json | None) -> Self:
        uri = await refusing(add_chat(self._connection, self._session, source))
        chat = type(self).open(uri, self._own_host or self._connection, approve=self._policy)
        chat._model = self._model
        return await chat

    async def move(
        self, session: AsyncChat | str | None = None, *, after: AsyncChat | str | None = None
    ) -> None:
        """Put the chat into another session (its URI, or any chat of it), or into a new one of its own.

        There it stands behind the chat `after`, or first; with its own session as `session` it is only put into that
        place. It keeps its URI, and everybody stays in it. Raises `Refused`: a session's first chat does not move.
        """
        await self
        destination: Json = {"kind": "newSession"}
        if session is not None:
            uri = session if isinstance(session, str) else session.session_uri
            destination = {"kind": "session", "session": uri}
            if after is not None:
                destination["after"] = after if isinstance(after, str) else after.uri
        async with self._moving:
            await refusing(self._settle(await refusing(self._moved(destination))))

    async def _moved(self, destination: Json) -> str:
        try:
            params = {"channel": self.uri, "destination": destination}
            return str((await self._connection.request("moveChat", params))["session"])
        except AskedTwice:
            session = await session_of(self._connection, self.uri)
            if session == self.session_uri:
                raise
            return session  # It went the first time; the answer to that was lost.

    # ── rewinding ────────────────────────────────────────────────────────────────────────────────────────────────
    async def rewind(self, turn: Turn | str) -> None:
        """Go back to the end of this turn: it stays, what came after it goes, for everybody and for the agent.

            await chat.rewind(chat.turns[2])
            await chat.send("Let us try this instead")

        What runs is stopped. `undo_rewind` brings it back. Raises `Refused` for a turn that is not there, or runs.
        """
        await self
        turn_id = _id_of(turn)
        if not any(held["id"] == turn_id for held in self._chat.state.get("turns", ())):
            raise Refused(f"The chat has no ended turn {turn_id} to go back to.")
        await self._line.dispatch({"type": "chat/truncated", "turnId": turn_id})

    async def clear(self) -> None:
        """Begin anew: every turn goes, for everybody and for the agent. `undo_rewind` brings them back."""
        await self
        await self._line.dispatch({"type": "chat/truncated"})

    async def undo_rewind(self) -> int:
        """Bring back what `rewind` or `clear` cut, until a turn is started; how many turns came back.

        Raises `Refused` when there is nothing to bring back.
        """
        await self
        before = len(self._chat.state.get("turns", ()))
        try:
            answer = await self._connection.request(UNDO_REWIND, {"channel": self.uri})
        except AskedTwice as refusal:
            if back := len(self._chat.state.get("turns", ())) - before:
                return back  # It was done the first time; the answer to that was lost.
            raise Refused(refusal.message, code=refusal.code) from refusal
        except ProtocolError as error:
            raise Refused(error.message, code=error.code, data=error.data) from error
        return int(answer["turns"])

    # ── showing ──────────────────────────────────────────────────────────────────────────────────────────────────
    async def show(self, value: Any, *, title: str | None = None, canvas: Canvas | None = None) -> Canvas:
        """Show something beside the chat, to everybody who watches it.

            canvas = await chat.show(df, title="Sales")
            await chat.show(df.head(), canvas=canvas)  # in its place

        `value` is a table (pandas, polars; its first thousand rows), a figure (matplotlib, plotly), a file (by its path),
        Markdown or HTML, the port of a web app on the server's machine, or whatever shows itself in a notebook. A page
        reaches no network. It is gone with the chat and with the server. Raises `Refused`, in the host's words.
        """
        return await self._show(await asyncio.to_thread(shown, value), title, canvas)

    async def _show(self, drawn: Json, title: str | None, canvas: Canvas | None) -> Canvas:
        """The same of what `shown` made of it."""
        await self
        request = {
            **drawn,
            "key": str(uuid.uuid4()),
        }  # asked again, should the answer be lost, it is one canvas
        if title is not None:
            request["title"] = title
        if canvas is not None:
            request["canvas"] = canvas.uri
        return Canvas(str((await self._ask(SHOW, request))["canvas"]))

    async def unshow(self, canvas: Canvas) -> None:
        """Take away what `show` showed. Raises `Refused` when it is gone."""
        await self
        try:
            await self._ask(SHOW, {"canvas": canvas.uri})
        except Refused as refusal:
            if not isinstance(refusal.__cause__, AskedTwice):  # else it went the first time
                raise

    async def _ask(self, method: str, params: Json) -> Any:
        """A request about this chat. Raises `Refused` with the host's words."""
        try:
            return await self._connection.request(method, {"channel": self.uri, **params})
        except ProtocolError as error:
            raise Refused(error.message, code=error.code, data=error.data) from error

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

    async def set_draft(self, text: str) -> None:
        """Leave words in the chat's box, unsent, for everybody to see and to go on with; empty: none."""
        await self
        draft = {"draft": self._message(text)} if text else {}
        await self._line.dispatch({"type": "chat/draftChanged", **draft})

    async def archive(self) -> None:
        """Put the chat away (a session's first chat: with its session). It can be read, and comes back by `unarchive`."""
        await self._mark("isArchivedChanged", isArchived=True)

    async def unarchive(self) -> None:
        """Take it out of the archive."""
        await self._mark("isArchivedChanged", isArchived=False)

    async def mark_read(self, read: bool = True) -> None:
        """Say that its latest turn has been read, or with `read=False` not."""
        await self._mark("isReadChanged", isRead=read)

    async def _mark(self, action: str, **mark: bool) -> None:
        await self
        if self._is_default:
            await self._connection.dispatch(self.session_uri, {"type": f"session/{action}", **mark})
        if not self._is_default or "isRead" in mark:
            await self._line.dispatch({"type": f"chat/{action}", **mark})


def _id_of(turn: Turn | str) -> str:
    return turn if isinstance(turn, str) else turn.id
