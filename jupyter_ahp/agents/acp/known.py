"""Which ACP agents there are: those that the configuration names, and those that are known and on this machine's PATH."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..processes import find_program

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """An ACP agent: how it is started, and what people know it by."""

    provider: str
    title: str
    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the environment of the server."""

    @property
    def words(self) -> str:
        """The command, as a person would type it."""
        return " ".join([self.command, *self.args])


KNOWN: Sequence[Server] = (
    Server("claude-agent-acp", "Claude Code (ACP)", "claude-agent-acp"),
    Server("codex-acp", "Codex", "codex-acp"),
    Server("gemini", "Gemini CLI", "gemini", ("--acp",)),
    Server("opencode", "OpenCode", "opencode", ("acp",)),
    Server("goose", "Goose", "goose", ("acp",)),
    Server("copilot", "GitHub Copilot", "copilot", ("--acp",)),
    Server("cursor", "Cursor", "cursor-agent", ("acp",)),
    Server("qwen", "Qwen Code", "qwen", ("--acp",)),
    Server("auggie", "Auggie", "auggie", ("--acp",)),
    Server("kimi", "Kimi CLI", "kimi", ("acp",)),
    Server("vibe", "Mistral Vibe", "vibe-acp"),
)
"""Offered by themselves where their command is found. A configured server of the same name takes the place of one."""


def servers(configured: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Iterator[Server]:
    """The agents to offer: those of `ACPAgent.servers`, then the known ones that are on PATH.

    A configured one that makes no sense is named in the log and left out.
    """
    for name, entry in configured.items():
        try:
            yield _server(name, entry)
        except (TypeError, ValueError) as error:
            log.error("ACPAgent.servers[%r] is left out: %s", name, error)
    for server in KNOWN:
        if server.provider not in configured and find_program(server.command, environ):
            yield server


def _server(name: str, entry: Any) -> Server:
    known = next((server for server in KNOWN if server.provider == name), None)
    if not isinstance(entry, Mapping):
        raise TypeError('it has to be a dictionary such as {"command": "my-agent", "args": ["--acp"]}.')
    if unknown := set(entry) - {"command", "args", "env", "title"}:
        raise ValueError(
            f"there is no {', '.join(sorted(map(repr, unknown)))}; only command, args, env and title."
        )
    command = entry.get("command", known.command if known else None)
    args = entry.get("args", known.args if known and "command" not in entry else ())
    env = entry.get("env", {})
    title = entry.get("title", known.title if known else name)
    if not isinstance(command, str) or not command:
        raise ValueError('it needs a "command".')
    if (
        isinstance(args, str)
        or not isinstance(args, Sequence)
        or not all(isinstance(arg, str) for arg in args)
    ):
        raise TypeError('"args" has to be a list of strings.')
    if not isinstance(env, Mapping) or not all(
        isinstance(text, str) for pair in env.items() for text in pair
    ):
        raise TypeError('"env" has to be a dictionary of strings.')
    if not isinstance(title, str):
        raise TypeError('"title" has to be a string.')
    return Server(name, title, command, tuple(args), dict(env))
