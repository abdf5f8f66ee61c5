"""Our keys in `_meta`, where AHP has no word: what host, agents and clients have to agree on."""

from __future__ import annotations

from typing import Any, Final

STEERING: Final = "jupyter-ahp.steering"
"""Of an agent: true when it takes steering. Of a notice in a turn: the steering message that the model read there."""


def steering_of(part: dict[str, Any]) -> dict[str, Any] | None:
    """The message of a person that a part of a turn is (G1); None for any other part."""
    message = (part.get("_meta") or {}).get(STEERING) if part.get("kind") == "systemNotification" else None
    return message if isinstance(message, dict) else None
