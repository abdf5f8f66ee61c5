"""What a person's code may have to catch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import Turn


class NoHost(ConnectionError):
    """There is no agent host to talk to from here, or it does not let us in. The message says what to do."""


class NoServer(NoHost):
    """This process belongs to no Jupyter Server."""


class Refused(Exception):
    """The host would not do what was asked; the message is its reason.

    `code` is the JSON-RPC code of a refused request (AHP 1.3), None for a refused action (T7).
    """

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class TurnFailed(Exception):
    """The turn ended in an error. `turn` is the whole of it, what was said before the failure included."""

    def __init__(self, turn: Turn) -> None:
        error = turn.error
        words = error.message if error is not None else "The turn failed."
        if error is not None and error.resumable:
            words += " (chat.resume() tries again from where it stopped.)"
        super().__init__(words)
        self.turn = turn
