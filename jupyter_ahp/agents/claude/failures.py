"""What went wrong between here and Claude, in words for the person who waits."""

from __future__ import annotations

from typing import Final

from claude_agent_sdk import CLINotFoundError, ProcessError, ResultError, ResultMessage

from jupyter_ahp.agents.base import TurnFailed
from jupyter_ahp.agents.processes import NotStarted

SAFE: Final = "Your message is not lost."
KEPT: Final = "What was written is kept."


def of_result(result: ResultMessage, kind: str | None, said: str) -> TurnFailed:
    """A turn of the CLI's that ended in an error. `kind` and `said` are those of the message in an answer's place."""
    status = result.api_error_status
    raw = said or result.result or "; ".join(result.errors or ()) or result.subtype
    details = f"{raw}\n{result.subtype}, {result.terminal_reason}, status {status}"
    known = _known(status, kind, raw, result.subtype)
    error_type, message, resumable = known or ("claude", f"Claude stopped: {_sentence(raw)} {KEPT}", True)
    return TurnFailed(error_type, message, resumable=resumable, details=details)


def _known(status: int | None, kind: str | None, raw: str, subtype: str) -> tuple[str, str, bool] | None:
    low = raw.lower()
    if status in (401, 403) or kind == "authentication_failed":
        return (
            "auth",
            f"Claude's API did not let you in ({status or 401}). {SAFE} Check ANTHROPIC_API_KEY in the server's environment, or run "
            "`claude` in a terminal and sign in with /login; then try again.",
            True,
        )
    if kind == "billing_error" or status == 402:
        return "quota", f"There is no credit left: {_sentence(raw)} {SAFE} Add credit, then try again.", True
    if "prompt is too long" in low:
        return (
            "context_length",
            f"The conversation is longer than the model reads, compacted as well. {SAFE} Send /compact, rewind, or begin a new chat.",
            False,
        )
    if status == 404:
        return "model_not_found", f"{_sentence(raw)} {SAFE} Choose another model.", True
    if status == 429 or kind == "rate_limit":
        return (
            "busy",
            f"Claude's API is busy, or a limit of yours is reached (429): {_sentence(raw)} {SAFE} Try again.",
            True,
        )
    if kind == "server_error" or (status is not None and status >= 500):
        if status is None:
            return "connection", f"The connection to Claude's API broke off. {KEPT} Try again.", True
        return "busy", f"Claude's API failed ({status}), which is usually over soon. {SAFE} Try again.", True
    if subtype == "error_max_turns":
        return (
            "max_turns",
            f"Claude took as many steps as it may in one turn. {KEPT} Go on where it stopped.",
            True,
        )
    if subtype == "error_max_budget_usd":
        return "budget", f"The budget for this chat is used up. {KEPT}", False
    if kind == "invalid_request" or (status is not None and 400 <= status < 500):
        return (
            "rejected",
            f"Claude's API did not take the request ({status or 400}): {_sentence(raw)} {KEPT}",
            True,
        )
    return None


def of_start(error: BaseException, stderr: str, cli: str) -> TurnFailed:
    """The CLI could not be started."""
    details = "\n".join(part for part in (f"{type(error).__name__}: {error}", stderr) if part)
    last = _last_line(stderr) or str(error)
    if isinstance(error, NotStarted | CLINotFoundError):
        words = f"Claude's program ({cli}) could not be started: {_sentence(str(error))} {SAFE}"
        return TurnFailed("not_started", words, resumable=True, details=details)
    if isinstance(error, ResultError) or "No conversation found" in stderr:
        words = f"Claude could not go on with this conversation: {_sentence(last)} {SAFE} Fork the chat at an earlier turn, or begin a new one."
        return TurnFailed("no_conversation", words, resumable=True, details=details)
    words = (
        f"Claude's program did not start: {_sentence(last)} {SAFE} Try again; the server's log may say more."
    )
    return TurnFailed("not_started", words, resumable=True, details=details)


def of_death(error: BaseException | None, stderr: str) -> TurnFailed:
    """The CLI ended while a turn ran."""
    code = error.exit_code if isinstance(error, ProcessError) else None
    how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended (exit code {code})"
    if code is None:
        how = "ended"
    last = _last_line(stderr)
    why = f": {_sentence(last)}" if last else "."
    details = "\n".join(part for part in (str(error or ""), stderr) if part)
    return TurnFailed(
        "died",
        f"Claude's program {how}{why} {KEPT} Try again: it goes on from there.",
        resumable=True,
        details=details,
    )


def _last_line(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("[claude-code:")]
    return lines[-1].strip() if lines else ""


def _sentence(text: str) -> str:
    text = " ".join(text.split()).removeprefix("API Error: ")
    return f"{text[:300].rstrip().rstrip('.')}."
