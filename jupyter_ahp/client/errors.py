"""What a person's code may have to catch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import Question, ToolCallPart, Turn


_SHOWN = 500  # characters of an answer in an exception's words


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

    def __init__(self, turn: Turn, words: str | None = None) -> None:
        super().__init__(words or _why(turn))
        self.turn = turn


class BadAnswer(Exception):
    """What came back is not what `returns=` asked for, the second time either. `turn` is the last one, `text` its answer,
    `problem` what is wrong with it."""

    def __init__(self, turn: Turn, problem: str) -> None:
        shown = turn.text if len(turn.text) <= _SHOWN else f"{turn.text[:_SHOWN]}…"
        super().__init__(f"The answer is not what was asked for: {problem} It was: {shown!r}")
        self.turn = turn
        self.text = turn.text
        self.problem = problem


class NeedsApproval(TurnFailed):
    """The turn asked a person, and nobody is there or may say yes (`Chat(approve=…)`): it was stopped.

    `waited` is what it asked: a `ToolCallPart`, or a `Question`.
    """

    def __init__(self, turn: Turn, waited: ToolCallPart | Question) -> None:
        name = getattr(waited, "name", None)
        if name is None:
            words = f"The agent asked a question, and nobody is there to answer: {_asked(waited)} The turn was stopped."
        else:
            title = getattr(waited, "title", "") or name
            what = f": {waited.message}" if waited.message and waited.message != title else ""
            words = (
                f"The tool {name} ({title}) may not run without a person's word{what}. The turn was stopped. What may run "
                'says Chat(approve=…): "reads", "session-directories", or a function that is given the call.'
            )
        super().__init__(turn, words)
        self.waited = waited


def _asked(question: Any) -> str:
    texts = [question.message, *(str(entry.get("message", "")) for entry in question.questions)]
    return " ".join(filter(None, texts)) or "(without words)."


def _why(turn: Turn) -> str:
    error = turn.error
    words = error.message if error is not None else "The turn failed."
    if error is not None and error.resumable:
        words += " (chat.resume() tries again from where it stopped.)"
    return words
