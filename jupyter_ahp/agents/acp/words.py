"""What went wrong with an ACP agent, in words for the person: which agent, what it said, what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jupyter_ahp.agents.base import TurnFailed

if TYPE_CHECKING:
    from acp import RequestError
    from acp.schema import AuthMethodAgent, EnvVarAuthMethod, TerminalAuthMethod

    from .known import Server

    AuthMethod = AuthMethodAgent | EnvVarAuthMethod | TerminalAuthMethod

AUTH_REQUIRED = -32000
NOT_FOUND = -32002

ENDED = "agentEnded"
"""The error type of a turn whose agent's program ended."""

_STATUS = re.compile(r"\b(401|403|429|5\d\d)\b")
_HINTS: Mapping[str, tuple[str, str]] = {
    "401": (
        "authFailed",
        "Its model's service did not take the key or the login. Set that up for {title}, then go on.",
    ),
    "403": (
        "authFailed",
        "Its model's service refused. Look at the rights of the key or the login, then go on.",
    ),
    "429": (
        "rateLimited",
        "Its model's service is asked too often, or a limit is used up. Wait a little, then go on.",
    ),
    "5": ("modelFailed", "Its model's service has a problem. Go on in a while."),
}


def of_error(server: Server, error: RequestError) -> TurnFailed:
    """A turn that failed because the agent answered with an error."""
    said = told_by(error)
    found = _STATUS.search(said)
    status = str(error.code) if 400 <= error.code < 600 else found[1] if found else ""
    hint = _HINTS.get(status) or _HINTS.get(status[:1])
    kind, advice = hint or ("agentFailed", "Nothing that was said before is lost.")
    sentence = said.rstrip(".") or f"error {error.code}, without a word about it"
    return TurnFailed(
        kind,
        f"{server.title} could not go on: {sentence}. {advice.format(title=server.title)}",
        resumable=True,
        details=raw(error),
    )


def told_by(error: RequestError) -> str:
    """What the agent says of its error; ACP puts that into its data, in no fixed place."""
    found = _text(error.data)
    message = _unpacked(str(error), 0)
    if not found:
        return message
    return found if message in ("", "Internal error", "Error") or message in found else f"{message}: {found}"


def _text(data: Any, depth: int = 0) -> str:
    if isinstance(data, str):
        return _unpacked(data.strip(), depth)
    if isinstance(data, Mapping) and depth < 4:
        for key in ("details", "message", "error", "errors", "data", "reason"):
            if key in data and (found := _text(data[key], depth + 1)):
                return found
    if isinstance(data, list) and data and depth < 4:
        return _text(data[0], depth + 1)
    return ""


def _unpacked(text: str, depth: int) -> str:
    """A service's answer, which many hand on as it came: "429: {"error": {"message": …}}"."""
    before, brace, rest = text.partition("{")
    if not brace or depth >= 4:
        return text
    try:
        inner = _text(json.loads(brace + rest), depth + 1)
    except ValueError:
        return text
    return f"{before.strip().rstrip(':')}: {inner}".removeprefix(": ") if inner else text


def raw(error: RequestError) -> str:
    return json.dumps({"code": error.code, "message": str(error), "data": error.data}, indent=2, default=str)


def ended(server: Server, code: int | None, stderr: str, doing: str) -> TurnFailed:
    """A turn that failed because the program ended."""
    how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return TurnFailed(
        ENDED,
        f"{server.title} (`{server.words}`) ended {doing}, with {how}. What it wrote is kept; it is started again with "
        "the next message.",
        resumable=True,
        details=stderr or None,
    )


def login(server: Server, methods: Sequence[AuthMethod], said: str) -> TurnFailed:
    """The agent wants somebody to log in, and says how."""
    ways = [_way(server, method) for method in methods]
    how = (
        " Or: ".join(way for way in ways if way) or f"Run `{server.command}` in a terminal and log in there."
    )
    return TurnFailed(
        "authRequired", f"{server.title} has to be logged in first. {how}", resumable=True, details=said
    )


def _way(server: Server, method: AuthMethod) -> str:
    kind = getattr(method, "type", "agent")
    description = (method.description or "").strip().rstrip(".")
    terminal = (method.field_meta or {}).get("terminal-auth")
    if kind == "terminal" or isinstance(terminal, Mapping):
        if isinstance(terminal, Mapping):
            command = [str(terminal.get("command", server.command)), *map(str, terminal.get("args") or ())]
        else:
            command = [server.command, *(getattr(method, "args", None) or ())]
        return f"{method.name}: run `{' '.join(command)}` in a terminal of this machine."
    if kind == "env_var":
        names = " and ".join(f"`{var.name}`" for var in getattr(method, "vars", ()))
        link = f" (see {method.link})" if getattr(method, "link", None) else ""
        return f"{method.name}: set {names} in the server's environment{link}, then restart it."
    return f"{method.name}: {description or f'run `{server.command}` in a terminal and log in there'}."
