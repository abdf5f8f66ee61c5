"""The messages that wait in one chat: put there, edited, taken back, reordered by people, started by the host.

Q1 to Q8, G1 to G7, B9. What starts when is `pending.next_step`'s to say; this module does it. A message is on disk before it is
said to wait, and carries its id into the turn that it becomes, so that a crash between the two delivers it once.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from ..protocol.meta import HOLD, PENDING_ID, sent_in
from . import clock
from .arrivals import Refused
from .late import Late
from .pending import Cause, HandOver, OpenLate, Start, next_step
from .ports import Json, Steering, SteeringRefused, StoreError, TurnFailed
from .references import blocks_for
from .rewind import cut

if TYPE_CHECKING:
    from .chat import Chat
    from .connection import Connection

log = logging.getLogger(__name__)

NO_STEERING = "The session provider does not support steering messages."
BEING_PROCESSED = "Cannot change a steering message while it is being processed."
ANOTHER_WAITS = "Another steering message waits to be read. Queue yours, or take that one back first."
STOPPED = "The turn that this was to steer was stopped. Send it as a message of its own."
SENT_ALREADY = "This message was sent already. What was sent cannot be changed."


class Waiting:
    """What waits in a chat. All of it runs in the chat's own order."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._held: str | None = None
        """The steering message that the backend was handed and has not read."""
        self._let_go: Json | None = None
        """The steering message that a stop took out: its backend may have it, and run it all the same (B9)."""
        self._unread: Json | None = None
        """The same, until the backend has taken in that stop."""
        self._opens: str | None = None
        """The steering message whose late turn is being opened."""
        self._unfit: str | None = None
        """The steering message that cannot be handed to a turn that runs."""

    # ── what people change ───────────────────────────────────────────────────────────────────────────────────
    async def pending_set(self, sender: Connection, client_seq: int, action: Json) -> None:
        if action["message"].get("attachments"):  # a message that is refused anyway writes nothing
            await self._check(action)
        async with self._chat.starting.settled(sender, action) as settled:
            await self.pending_changed(sender, client_seq, settled)

    async def pending_changed(self, sender: Connection, client_seq: int, action: Json) -> None:
        await self._check(action)
        changes = await self.store(action)
        if (refusal := self._overtaken(action)) is not None:
            self.keep()
            await self._chat.saver.now()
            raise Refused(refusal)
        self._chat.session.use()
        self._chat.echo(sender, client_seq, action)
        if action["type"] == "chat/pendingMessageSet":
            self._chat.session.host.extensions.events.message(self._chat, action["kind"], action["message"])
        self.keep()  # a stop may have taken something out meanwhile
        # What came while a turn ran waits for it, and for a person once it was stopped or failed (Q4).
        if changes and self._chat.during is None:
            self.touched(action)

    async def _check(self, action: Json) -> None:
        refusal = self._overtaken(action) or await self.refusal(action)
        if refusal is not None:
            raise Refused(refusal)

    def _overtaken(self, action: Json) -> str | None:
        """Why a message cannot wait any more: it was sent, or is to steer a turn that was stopped since it came.

        Looked at before and behind the write: a model reads, and a stop is said, meanwhile.
        """
        if action["type"] != "chat/pendingMessageSet":
            return None
        if self.was_sent(action["id"]):  # an edit of it would be delivered beside it
            return SENT_ALREADY
        was_stopped = self._chat.during is not None and self._chat.during == self._chat.starting.stopped
        # Steering that was sent before a stop goes with it (G6).
        return STOPPED if was_stopped and action["kind"] == "steering" else None

    async def refusal(self, action: Json) -> str | None:
        """Why what waits cannot be changed so; None if it can (G4, G5, G7)."""
        if action.get("kind") != "steering":
            return None
        if action["type"] == "chat/pendingMessageRemoved":
            return await self._removal(action["id"])
        agent = self._chat.session.agent
        if agent is None or not agent.capabilities.steering:
            return NO_STEERING
        waits = self._chat.state.get("steeringMessage")
        if waits is None or (waits["id"] == action["id"] and self._held != waits["id"]):
            return None
        if waits["id"] != action["id"]:
            # The slot is one: taking it would lose the words of whoever was first.
            return BEING_PROCESSED if self._held else ANOTHER_WAITS
        return None if _said(waits["message"]) == _said(action["message"]) else BEING_PROCESSED

    def was_sent(self, message_id: str) -> bool:
        """Whether the message of that id is in a turn of this chat, or in one that can be brought back to it."""
        state = self._chat.state
        turns = [state["activeTurn"]] if "activeTurn" in state else []
        can_return = cut(self._chat.record)
        return any(message_id in sent_in(turn) for turn in (*turns, *reversed(state["turns"]), *can_return))

    async def _removal(self, message_id: str) -> str | None:
        if message_id not in self._with_backend:
            return None
        if await self._chat.turns.line.withdraw(message_id):
            self._held = None
            return None
        # It was read meanwhile, which took it out already; or the backend keeps it.
        return BEING_PROCESSED if self._held == message_id and self._chat.turns.running else None

    async def store(self, action: Json) -> bool:
        """Write down what the action makes of it; say whether anything changes. Raises `StoreError`: then nothing does."""
        chat = self._chat
        after = chat.after(action)
        if after is chat.state:
            return False
        record = chat.record
        before = record.queued, record.steering
        record.queued, record.steering = after.get("queuedMessages", []), after.get("steeringMessage")
        try:
            await chat.saver.now()
        except StoreError:
            record.queued, record.steering = before
            raise
        return True

    def touched(self, action: Json) -> None:
        """A person changed what waits: while nothing runs, that starts the head (Q4), unless they say to hold."""
        if (action.get("_meta") or {}).get(HOLD) is not True:
            self._chat.go_on("touched")

    # ── what the host does ───────────────────────────────────────────────────────────────────────────────────
    @property
    def offers(self) -> bool:
        """A steering message is to be handed over as soon as the backend takes it (G1)."""
        state = self._chat.state
        if "activeTurn" not in state or "steeringMessage" not in state:
            return False
        name = state["steeringMessage"]["id"]
        return name != self._unfit and name not in self._with_backend

    @property
    def _with_backend(self) -> tuple[str | None, str | None]:
        """The steering messages that the backend has: of the turn that runs, and of one that ended (Q6)."""
        return self._held, self._chat.turns.line.holds

    async def go_on(self, cause: Cause) -> None:
        """Start or hand over what is to go now, if anything (Q2, G1). What cannot go stays where it is."""
        held = (self._held if "activeTurn" in self._chat.state else None) or self._chat.turns.line.holds
        step = next_step(self._chat.state, cause, held=held, late=self._chat.turns.line.late)
        if isinstance(step, OpenLate):
            await self._open_late()
        elif isinstance(step, Start):
            await self._start(step.message)
        elif isinstance(step, HandOver):
            await self._hand_over(step.message)

    async def _hand_over(self, waiting: Json) -> None:
        message, turn = waiting["message"], self._chat.state["activeTurn"]["id"]
        try:
            blocks = await blocks_for(self._chat.session.host, message)
        except TurnFailed:
            self._unfit = waiting["id"]  # it waits to be a turn of its own, which can say so (A10)
            return
        try:
            taken = await self._chat.turns.steer(Steering(waiting["id"], message["text"], blocks))
        except SteeringRefused as refusal:
            self._refused(waiting, refusal)
            return
        state = self._chat.state  # meanwhile the model may have read it, and the turn may have ended
        still = (state.get("activeTurn", {}).get("id"), state.get("steeringMessage", {}).get("id"))
        if taken and still == (turn, waiting["id"]):
            self._held = waiting["id"]

    def _refused(self, waiting: Json, refusal: SteeringRefused) -> None:
        """The backend will not take it (B14, B16): it is out, unless it went meanwhile, and the turn goes on."""
        log.warning("A steering message of %s was not taken: %s", self._chat.uri, refusal)
        if self._chat.state.get("steeringMessage", {}).get("id") == waiting["id"]:
            self._chat.publish(
                {"type": "chat/pendingMessageRemoved", "kind": "steering", "id": waiting["id"]}
            )
            self.keep()
            self._chat.session.say_problem(f"A message was not taken into the turn: {refusal}")

    async def _start(self, waiting: Json) -> None:
        start = {
            "type": "chat/turnStarted",
            "turnId": str(uuid.uuid4()),
            "startedAt": clock.now(),
            "message": _named(waiting),
            "queuedMessageId": waiting["id"],
        }
        await self._chat.starting.begin(start, None)
        self.keep()

    async def _open_late(self) -> None:
        """A turn that the backend has begun by itself (B9). One that cannot be opened now is tried again."""
        behind, late = self._chat.turns.line.take_late()
        start: Json = {
            "type": "chat/turnStarted",
            "turnId": str(uuid.uuid4()),
            "startedAt": clock.now(),
            "message": self._late_message(late),
        }
        if late.message_id is not None:
            start["queuedMessageId"] = late.message_id
        self._opens = late.message_id
        try:
            await self._chat.starting.begin(start, None, late)
        except BaseException:
            behind.put_back(late)
            raise
        finally:
            self._opens = None
        self.keep()

    def _late_message(self, late: Late) -> Json:
        """A person's, as they wrote it, or the system's."""
        if late.message_id is None:
            origin = {"kind": "systemNotification"}
            return {"text": late.text, "origin": origin, **({"_meta": late.meta} if late.meta else {})}
        waits = self.message(late.message_id)
        if waits is not None:
            return waits
        let_go = self._let_go
        if let_go is not None and let_go["id"] == late.message_id:
            return _named(let_go)
        # It was taken back, and is run all the same.
        return _named({"id": late.message_id, "message": {"text": late.text, "origin": {"kind": "user"}}})

    def message(self, message_id: str) -> Json | None:
        """The message that waits under this id, as it is to be a turn's; None if none does."""
        state = self._chat.state
        steering = [state["steeringMessage"]] if "steeringMessage" in state else []
        for waits in (*steering, *state.get("queuedMessages", ())):
            if waits["id"] == message_id:
                return _named(waits)
        return None

    def stopped(self) -> None:
        """A stop takes the steering message out, right behind it and before the backend is told (G6)."""
        waits = self._chat.state.get("steeringMessage")
        self._held = None
        if waits is not None:
            self._let_go = self._unread = waits
            self._chat.publish({"type": "chat/pendingMessageRemoved", "kind": "steering", "id": waits["id"]})
            self.keep()

    def stop_is_through(self) -> None:
        """The backend has taken in a stop: steering that it will not run is the chat's draft now, if there is none.

        Whoever wrote it may not have the chat open, and its words are nowhere else.
        """
        unread, self._unread = self._unread, None
        if unread is None or self._chat.state.get("draft") is not None:
            return
        name = unread["id"]
        runs = self._opens == name or self._chat.turns.line.runs_late(name)
        if runs or self.was_sent(name) or self.message(name) is not None:
            return
        self._chat.set_draft(unread["message"])

    def given_back(self) -> None:
        """The turn ended: what it was handed and did not read is the chat's again (G2)."""
        self._held = None

    def steering_read(self, message_id: str) -> Json | None:
        """The model read it: its message, which is about to be said in the turn and taken out."""
        waits = self._chat.state.get("steeringMessage")
        if waits is None or waits["id"] != message_id:
            return None
        self._held = None
        self._chat.record.steering = None
        self._chat.saver.soon()
        return _named(waits)

    def keep(self) -> None:
        """What waits is what the state says; written soon, since what left it is on disk elsewhere."""
        state, record = self._chat.state, self._chat.record
        queued, steering = state.get("queuedMessages", []), state.get("steeringMessage")
        if (queued, steering) != (record.queued, record.steering):
            record.queued, record.steering = queued, steering
            self._chat.saver.soon()


def _named(waiting: Json) -> Json:
    """The message, with the id under which it waited."""
    message = waiting["message"]
    return {**message, "_meta": {**(message.get("_meta") or {}), PENDING_ID: waiting["id"]}}


def _said(message: Json) -> Json:
    """A message without who sent it."""
    return {key: value for key, value in message.items() if key != "_meta"}
