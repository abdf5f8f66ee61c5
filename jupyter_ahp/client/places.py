"""Where something is in a chat's state: a turn, a message that waits, the turn that it became or went into."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from ..protocol.meta import sent_in

Json: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["steering", "queued"]


def turn_in(state: Json, turn_id: str) -> Json | None:
    """A turn, running or ended."""
    active: Json | None = state.get("activeTurn")
    if active is not None and active["id"] == turn_id:
        return active
    return next((turn for turn in reversed(state.get("turns", [])) if turn["id"] == turn_id), None)


def waiting_in(state: Json) -> list[tuple[Kind, Json]]:
    """What waits (AHP `PendingMessage`), in the order in which it will go: steering first."""
    steering: Json | None = state.get("steeringMessage")
    queued: list[tuple[Kind, Json]] = [("queued", entry) for entry in state.get("queuedMessages", ())]
    return queued if steering is None else [("steering", steering), *queued]


def pending_in(state: Json, message_id: str) -> Json | None:
    """A message that waits, by its id."""
    return next((entry for _, entry in waiting_in(state) if entry["id"] == message_id), None)


def turn_with(state: Json, message_id: str) -> Json | None:
    """The turn that a message that waited has become, or was read in."""
    active = state.get("activeTurn")
    turns = (*([active] if active is not None else []), *reversed(state.get("turns", [])))
    return next((turn for turn in turns if message_id in sent_in(turn)), None)
