"""The messages that wait in one chat: put there, edited, taken back, reordered by people, started by the host.

Q1 to Q8, G4. What starts when is `pending.next_step`'s to say; this module does it. A message is on disk before it is
said to wait, and carries its id into the turn that it becomes, so that a crash between the two delivers it once.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from . import clock
from .pending import Cause, Start, next_step
from .ports import Json, StoreError

if TYPE_CHECKING:
    from .chat import Chat

log = logging.getLogger(__name__)

HOLD = "jupyter-ahp.hold"
"""In an action's `_meta`: tidy the queue, and start nothing for it."""
PENDING_ID = "jupyter-ahp.pendingId"
"""In a message's `_meta`: the id under which it waited."""
NO_STEERING = "The session provider does not support steering messages."


class Waiting:
    """What waits in a chat. All of it runs in the chat's own order."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def refusal(self, action: Json) -> str | None:
        """Why what waits cannot be changed so; None if it can."""
        agent = self._chat.session.agent
        if action.get("kind") == "steering" and action["type"] == "chat/pendingMessageSet":
            return None if agent is not None and agent.capabilities.steering else NO_STEERING
        return None

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

    async def go_on(self, cause: Cause) -> None:
        """Start what is to start now, if anything (Q2). What cannot be started stays where it is."""
        chat = self._chat
        step = next_step(chat.state, cause, held=None)
        if not isinstance(step, Start):
            return
        waiting = step.message
        message = waiting["message"]
        start = {
            "type": "chat/turnStarted",
            "turnId": str(uuid.uuid4()),
            "startedAt": clock.now(),
            "message": {**message, "_meta": {**(message.get("_meta") or {}), PENDING_ID: waiting["id"]}},
            "queuedMessageId": waiting["id"],
        }
        await chat.begin(start, None)
        state = chat.state
        chat.record.queued, chat.record.steering = (
            state.get("queuedMessages", []),
            state.get("steeringMessage"),
        )
        chat.saver.soon()
