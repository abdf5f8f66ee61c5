"""How a chat's turns begin, go on and are stopped: by a person, by the host for what waits, by a backend. T1 to T3, T8, B9, G6.

A turn's message is on disk before it is said. What is refused, or cannot be written, did not happen.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..protocol.commands import command_of
from ..protocol.errors import INTERNAL_ERROR, ProtocolError, invalid_params
from ..protocol.meta import CLIENT, PENDING_ID, ran_command, runs_here
from . import clock
from .arrivals import Refused, origin_of, stamp
from .commands import marked
from .envelope import Envelope
from .pending import can_resume
from .ports import Json, StoreError
from .references import MAY_READ, points_at_chats
from .titles import title_of, title_of_command
from .workers import NO_STOP

if TYPE_CHECKING:
    from .chat import Chat
    from .connection import Connection
    from .late import Late


class Starting:
    """Of one chat; all of it runs in the chat's own order, but a stop, which does not wait."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.first: asyncio.Task[None] | None = None
        """What the chat was made with, on its way."""
        self.stopped: str | None = None
        """The turn that was stopped last."""

    async def turn_started(self, sender: Connection, client_seq: int, action: Json) -> None:
        self._check(action["turnId"])
        if action.get("queuedMessageId") is not None:
            # A person sends on what waits: it is its author's, as the chat holds it.
            waits = self._chat.waiting.message(action["queuedMessageId"])
            if waits is None:
                raise Refused("This message does not wait any more.")
            started = await self.begin({**action, "message": waits}, origin_of(sender, client_seq))
            sender.took(client_seq, started)
            self._chat.waiting.keep()
            return
        async with self.settled(sender, action) as settled:
            sender.took(client_seq, await self.begin(settled, origin_of(sender, client_seq)))

    @asynccontextmanager
    async def settled(self, sender: Connection, action: Json) -> AsyncIterator[Json]:
        """The action with its message as it is kept: who sent it, and what it carries written down (T3, A2 to A6).

        What was written for a message that is not taken goes again.
        """
        message = action["message"]
        meta = {**(message.get("_meta") or {}), **stamp(sender)}
        for key in (CLIENT, MAY_READ, PENDING_ID):
            meta.pop(key, None)  # the host says them
        if self._chat.session.takes_tools:
            meta[CLIENT] = sender.client_id
        if points_at_chats(message) or self._chat.session.takes_tools:
            meta[MAY_READ] = await sender.gate.may("chat:turns")
        kept = await self._chat.snapshots.settle(sender, {**message, "_meta": meta})
        try:
            yield {**action, "message": kept.message}
        except (Refused, StoreError):
            await kept.drop()
            raise

    def say(self, sender: Connection, message: Json) -> asyncio.Task[None]:
        """The first message of a new chat, which is loaded, as a turn that the host starts (AHP 4.9).

        It is taken ahead of whatever arrives from here on, and ends with a `ProtocolError` if it is not taken. The task
        is this chat's: it goes on when nobody awaits it.
        """
        self.first = asyncio.create_task(self._say(sender, message))
        return self.first

    async def _say(self, sender: Connection, message: Json) -> None:
        turn = {"turnId": str(uuid.uuid4()), "startedAt": clock.now(), "message": message}
        try:
            async with (
                self._chat.admitting,
                self.settled(sender, {"type": "chat/turnStarted", **turn}) as settled,
            ):
                await self.begin(settled, None)
        except Refused as refusal:
            raise invalid_params(f"The chat is there, its first message was refused: {refusal}") from refusal
        except StoreError as error:
            words = f"The chat is there, its first message could not be stored: {error}"
            raise ProtocolError(INTERNAL_ERROR, words) from error

    def _check(self, turn_id: str, *, late: bool = False) -> None:
        """Whether a turn of this id may start now. Raises `Refused`."""
        state = self._chat.state
        if self._chat.closed:
            raise Refused("This chat is closed.")
        if not late:
            self._chat.session.check_open()
        if "activeTurn" in state:
            raise Refused("A turn is running in this chat. Wait for it, or stop it.")
        if any(turn["id"] == turn_id for turn in state["turns"]):
            raise Refused("The chat has a turn of this id already.")

    async def begin(self, action: Json, origin: Json | None, late: Late | None = None) -> Envelope:
        """Start a turn: its message is on disk, then it is said, then the backend is handed it (T1).

        `late`: the backend has begun it by itself, so it runs in an archived session as well. Raises `Refused` and
        `StoreError`: then it did not start.
        """
        for_the_host = late is None and self._chat.session.work is None  # it may run what the message says
        turn_id = action["turnId"]
        self._check(turn_id, late=late is not None)
        text = action["message"]["text"]
        command = command_of(text) if self._chat.session.host.terminals.on and for_the_host else None
        extensions = self._chat.session.host.extensions
        plugin = extensions.commands.named_in(text) if command is None and for_the_host else None
        message = marked(action["message"], command is not None, plugin)
        action = {**action, "message": message}
        await self._chat.rewinding.give_up()
        await self._chat.turns.accept(
            {"id": turn_id, "startedAt": action["startedAt"], "message": message, "responseParts": []}
        )
        envelope = self._chat.publish(action, origin)
        if late is None:
            if action.get("queuedMessageId") is None:
                extensions.events.message(self._chat, "turn", message)
            self.name_after(message)
        self._chat.turns.run(late)
        return envelope

    def name_after(self, message: Json) -> None:
        """T8: a message names the chat if it has no name; what the host ran, until there is another."""
        text = message["text"]
        title = title_of_command(command_of(text) or text) if ran_command(message) else title_of(text)
        self._chat.session.first_words(self._chat, title, provisional=runs_here(message))

    async def turn_resumed(self, sender: Connection, client_seq: int, action: Json) -> None:
        state = self._chat.state
        last = state["turns"][-1] if state["turns"] else {}
        self._chat.session.check_open()
        if "activeTurn" in state:
            raise Refused("A turn is running in this chat.")
        if last.get("id") != action["turnId"] or last.get("state") != "error":
            raise Refused("Only the chat's last turn can be resumed, when it failed.")
        if not can_resume(state):
            raise Refused("This turn cannot be resumed. Send the message again.")
        await self._resume(lambda: self._chat.echo(sender, client_seq, action))

    async def resume_last(self) -> None:
        """The last turn, which can be resumed, goes on in nobody's name; `admitting` is held. Raises `StoreError`."""
        last = self._chat.state["turns"][-1]["id"]
        await self._resume(lambda: self._chat.publish({"type": "chat/turnResume", "turnId": last}))

    async def _resume(self, say: Callable[[], object]) -> None:
        state = self._chat.state
        last = state["turns"][-1]
        await self._chat.rewinding.give_up()
        await self._chat.turns.accept(
            {
                "id": last["id"],
                "startedAt": last.get("startedAt") or state["modifiedAt"],
                "message": last["message"],
                "responseParts": last["responseParts"],
                **({"usage": last["usage"]} if "usage" in last else {}),
            },
            spent=last.get("duration", 0),
        )
        self._chat.show(last["id"])
        say()
        self._chat.turns.run()

    async def turn_cancelled(self, sender: Connection, client_seq: int, action: Json) -> None:
        active = self._chat.state.get("activeTurn")
        if active is None or active["id"] != action["turnId"]:
            raise Refused("This turn does not run.")
        if not self._chat.turns.can_stop:
            raise Refused(NO_STOP)
        self.stop(sender, client_seq, action)

    def stop(self, sender: Connection, client_seq: int, action: Json) -> None:
        """A person's stop of the turn that runs."""
        action = {**action, "duration": max(0, action["duration"])}
        self._halt(action["turnId"], lambda: self._chat.echo(sender, client_seq, action))

    def stop_running(self) -> None:
        """Stop the turn that runs, if one does, in nobody's name."""
        chat, turn_id = self._chat, self._chat.runs
        if turn_id is not None and chat.turns.running:
            stop: Json = {"type": "chat/turnCancelled", "turnId": turn_id, "duration": chat.turns.duration()}
            self._halt(turn_id, lambda: chat.publish(stop))

    def _halt(self, turn_id: str, say: Callable[[], object]) -> None:
        """In one tick: the stop is said, what steered the turn is taken out (G6), and the backend is told."""

        def say_all() -> None:
            say()
            self._chat.waiting.stopped()

        self.stopped = turn_id
        self._chat.turns.stop(say_all)
