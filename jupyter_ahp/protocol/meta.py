"""Our keys in `_meta`, where AHP has no word: what host, agents and clients have to agree on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

SENDER: Final = "jupyter-ahp.sender"
"""Of a message, a draft, an answer to a tool call: who it is from (T3)."""
SENDER_NAME: Final = "jupyter-ahp.name"
CLIENT: Final = "jupyter-ahp.client"
"""Of a message: the client that sent it, whose tools go ahead of other clients' (AHP 5.9)."""

STEERING: Final = "jupyter-ahp.steering"
"""Of an agent: true when it takes steering. Of a notice in a turn: the steering message that the model read there."""

HOLD: Final = "jupyter-ahp.hold"
"""Of an action: true when it tidies what waits, and is to start nothing."""
PENDING_ID: Final = "jupyter-ahp.pendingId"
"""Of a message, once it is a turn's or was read in one: the id under which it waited."""
COMMAND: Final = "jupyter-ahp.command"
"""Of a turn's message: true when the turn ran it as a command (M5), so that no agent was ever sent it. Of the tool call
that ran it, too."""

PLUGIN: Final = "jupyter-ahp.plugin"
"""Of a turn's message: the name of the plugin's command that it is, so that no agent was ever sent it."""
COST: Final = "jupyter-ahp.cost"
"""Of a turn's usage: what its backend says that it cost, `{"amount": 0.01, "currency": "USD"}`."""
SUMMARY: Final = "jupyter-ahp.summary"
"""Of a notice in a turn: `{text, through}`, what an agent's model is told instead of the turns up to the named one (T9)."""
UPLOADS: Final = "jupyter-ahp.uploads"
"""Of `initialize`: `{uri, pieceBytes, maxBytes}`, the folder in which this client may leave files for its messages."""
MAX_MESSAGE: Final = "jupyter-ahp.maxMessageBytes"
"""Of `initialize`: the largest message that the client may send. A larger one closes its socket (1009)."""

RELAYED: Final = "X-Jupyter-AHP-Relayed"
"""A header of the WebSocket's request: it carries the messages of a page that does not reach the server by itself."""


def ran_command(message: dict[str, Any]) -> bool:
    """Whether a turn's message was run as a command."""
    return (message.get("_meta") or {}).get(COMMAND) is True


def plugin_command(message: dict[str, Any]) -> str | None:
    """The name of the plugin's command that a turn's message was run as; None if it was none."""
    name = (message.get("_meta") or {}).get(PLUGIN)
    return name if isinstance(name, str) else None


def runs_here(message: dict[str, Any]) -> bool:
    """Whether a turn's message was for the host to run, so that no agent was ever sent it."""
    return ran_command(message) or plugin_command(message) is not None


def steering_of(part: dict[str, Any]) -> dict[str, Any] | None:
    """The message of a person that a part of a turn is (G1); None for any other part."""
    message = (part.get("_meta") or {}).get(STEERING) if part.get("kind") == "systemNotification" else None
    return message if isinstance(message, dict) else None


def sent_in(turn: dict[str, Any]) -> Iterator[str]:
    """The ids under which messages that are in this turn had waited: its own, and steering that was read in it."""
    read = map(steering_of, turn.get("responseParts", ()))
    for message in (turn["message"], *filter(None, read)):
        name = (message.get("_meta") or {}).get(PENDING_ID)
        if isinstance(name, str):
            yield name
