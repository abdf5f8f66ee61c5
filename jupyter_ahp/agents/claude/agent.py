"""Claude as an agent: whether it can be used here, its settings, its commands, its conversations."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jupyter_ahp.agents.base import (
    Agent,
    Capabilities,
    Command,
    Conversation,
    Found,
    Json,
    Model,
    Probe,
    Start,
    TurnFailed,
)
from jupyter_ahp.agents.claude import sessions, transcript
from jupyter_ahp.agents.claude.settings import Settings

MODELS: Final = (
    Model("default", "Claude, as set up", vision=True),
    Model("opus", "Claude Opus", vision=True),
    Model("sonnet", "Claude Sonnet", vision=True),
    Model("haiku", "Claude Haiku", vision=True),
)
"""Until a CLI was started and has said which there are."""

COMMANDS: Final = (
    Command("compact", "Compact the conversation for the model", "[what to keep]"),
    Command("context", "Show what the model's context is used for"),
    Command("init", "Write a CLAUDE.md for this directory"),
)
"""Until a CLI was started in a directory and has said which there are."""

_NOT_IN_A_CHAT: Final = frozenset(
    [
        "agents",
        "autocompact",
        "clear",
        "color",
        "config",
        "doctor",
        "effort",
        "exit",
        "fast",
        "focus",
        "heapdump",
        "login",
        "logout",
        "mcp",
        "model",
        "rename",
        "resume",
        "output-style",
    ]
)
"""Commands of the CLI's terminal, or for what is done here in another way."""


class ClaudeAgent(Agent):
    """Claude Code in chats. Making one starts nothing; a CLI is started by the first message of a chat."""

    provider = "claude"
    display_name = "Claude"
    description = "Claude Code: reads, edits and runs in the session's directories, and asks first."
    capabilities = Capabilities(
        fork=True, rewind=True, steering=True, several_directories=True, tools=True, delete=True
    )

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._models: tuple[Model, ...] = ()
        self._commands: dict[tuple[str, ...], tuple[Command, ...]] = {}

    async def probe(self) -> Probe:
        return await asyncio.to_thread(self._look)

    def _look(self) -> Probe:
        if importlib.util.find_spec("claude_agent_sdk") is None:
            return Probe(
                False,
                reason="The Claude Agent SDK is not installed.",
                fix="Run `pip install 'jupyter-ahp[claude]'` (470 MB) and restart the server.",
            )
        if self._settings.cli() is None:
            named = self._settings.cli_path
            return Probe(
                False,
                reason=f"There is no program {named}." if named else "Claude's program is not there.",
                fix="Correct ClaudeAgent.cli_path and restart the server."
                if named
                else "Run `pip install --force-reinstall claude-agent-sdk`, or install Claude Code, and restart the server.",
            )
        if self._settings.signed_in is False:
            return Probe(
                False,
                reason="There is nothing to sign in to Claude with.",
                fix="Set ANTHROPIC_API_KEY and restart the server, or run `claude` in a terminal and sign in with /login.",
            )
        return Probe(True, models=self._offered())

    def _offered(self) -> list[Model]:
        models = [*(self._models or MODELS)]
        configured = self._settings.model
        if configured and configured not in {model.id for model in models}:
            models.insert(0, Model(configured, configured, vision=True))
        return models

    def config_schema(self, values: Mapping[str, Any]) -> Json:
        return self._settings.schema(values)

    async def commands(self, directories: Sequence[str], config: Mapping[str, Any]) -> Sequence[Command]:
        return self._commands.get(tuple(directories), COMMANDS)

    async def open(self, start: Start) -> Conversation:
        try:
            # Seconds of import: in a thread, and not before somebody wants it.
            module = await asyncio.to_thread(
                importlib.import_module, "jupyter_ahp.agents.claude.conversation"
            )
        except ImportError as error:
            raise TurnFailed(
                "not_ready",
                "The Claude Agent SDK that is installed cannot be used. "
                "Run `pip install -U 'jupyter-ahp[claude]'` and restart the server.",
                details=str(error),
            ) from error
        conversation: Conversation = module.ClaudeConversation(self._settings, start, self._learn)
        return conversation

    def _learn(self, directories: Sequence[str], info: Json) -> None:
        """What a CLI says of itself when it has started."""
        commands = [
            Command(str(one["name"]), str(one.get("description") or ""), str(one.get("argumentHint") or ""))
            for one in info.get("commands") or ()
            if _works(str(one.get("name") or ""))
        ]
        if commands:
            self._commands[tuple(directories)] = tuple(commands)
        models = [
            Model(str(one["value"]), str(one.get("displayName") or one["value"]), vision=True)
            for one in info.get("models") or ()
            if one.get("value")
        ]
        if models:
            self._models = tuple(models)

    # ── conversations that the CLI keeps ─────────────────────────────────────────────────────────────────────
    async def delete(self, memory: str) -> None:
        await asyncio.to_thread(sessions.delete, self._settings.home, memory)

    async def catalogue(self, directories: Sequence[str]) -> Sequence[Found]:
        return await asyncio.to_thread(sessions.catalogue, self._settings.home, tuple(directories))

    async def transcript(self, memory: str) -> Sequence[Json]:
        return await asyncio.to_thread(self._read, memory)

    def _read(self, memory: str) -> list[Json]:
        path = sessions.find(self._settings.home, memory)
        if path is None:
            raise TurnFailed("notFound", "Claude does not keep this conversation any more.")
        try:
            return transcript.turns(path)
        except OSError as error:
            raise TurnFailed(
                "unreadable", f"Claude's file of this conversation cannot be read: {error}."
            ) from error


def _works(name: str) -> bool:
    """Whether a message can begin with it."""
    return bool(name) and not name.startswith("_") and " " not in name and name not in _NOT_IN_A_CHAT
