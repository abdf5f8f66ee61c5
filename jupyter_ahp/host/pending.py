"""What starts next: one pure function of a chat's state and its backend's answers.

Q2, Q4, Q5, Q6, G1, G2, G3, B9, read from top to bottom:

- While a turn runs, a steering message that the backend does not hold yet is handed to it (G1, G2). Nothing starts.
- While none runs, a turn that the backend has begun by itself opens at once (B9): it is under way, so there is nothing
  that it could wait for, and nothing that it could be kept from.
- Else nothing starts as long as the backend holds a steering message that it has not run (Q6), or the
  latest turn ended in an error that a client can resume (Q5; steering waits too: G3).
- Else a steering message that waits becomes a turn of its own, ahead of the queue (G3), when a turn completed or failed
  or a person changed what waits. What a turn reported before it was dropped starts nothing.
- Else the head of the queue starts, if what just happened lets it: a turn that completed, a command's turn that ended
  in whatever way (Q2), or a person who queued, took back or reordered a message (Q4). A stop and a failure do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .ports import Json

Cause: TypeAlias = Literal["started", "reported", "completed", "failed", "stopped", "touched", "late"]
"""What just happened: a turn started, its backend reported something, it ended (a command's turn always counts as
completed), a person changed what waits, or the backend has begun a turn by itself."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start this pending message as a turn, named by `queuedMessageId`."""

    message: Json


@dataclass(frozen=True, slots=True)
class HandOver:
    """Offer this steering message to the backend."""

    message: Json


@dataclass(frozen=True, slots=True)
class OpenLate:
    """Open the turn that the backend has begun by itself."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing now."""


Step: TypeAlias = Start | HandOver | OpenLate | Wait


def next_step(state: Json, cause: Cause, *, held: str | None, late: bool = False) -> Step:
    """`state` is the chat's (AHP 4.1); `held` the id of the steering message that the backend has and has not run; `late`
    whether a turn that it has begun by itself waits to be opened."""
    steering = state.get("steeringMessage")
    if "activeTurn" in state:
        return HandOver(steering) if steering is not None and steering["id"] != held else Wait()
    if late:
        return OpenLate()
    if held is not None or can_resume(state):
        return Wait()
    if steering is not None:
        return Start(steering) if cause in ("completed", "failed", "touched") else Wait()
    queue = state.get("queuedMessages")
    if queue and cause in ("completed", "touched"):
        return Start(queue[0])
    return Wait()


def can_resume(state: Json) -> bool:
    """Whether the chat's latest turn ended in an error that a client can resume (AHP `chat/turnResume`)."""
    last = state["turns"][-1] if state["turns"] else {}
    parts = last.get("responseParts") or [{}]
    return (
        last.get("state") == "error"
        and parts[-1].get("kind") == "error"
        and parts[-1].get("resumable") is True
    )
