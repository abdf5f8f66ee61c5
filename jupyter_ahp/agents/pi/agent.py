"""pi as an agent: where it is, what it is started with, and what it keeps (B2, B14, U5, U9)."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
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
from jupyter_ahp.agents.processes import Deaths, environment, find_program

from . import sessions
from .conversation import TITLE, PiConversation
from .line import Declined, Ended, Line

EXTENSION: Final = Path(__file__).with_name("extension.ts")
_OWN_ENVIRONMENT: Final = {"PI_TELEMETRY": "0", "PI_OFFLINE": "1"}
"""It asks nobody for a newer version of itself, and reports to nobody; `PiAgent.env` may say otherwise."""
_THINKING: Final = ("off", "minimal", "low", "medium", "high", "xhigh")


class PiAgent(Agent):
    """Runs the program pi, one process for each chat in use.

    Parameters
    ----------
    command:
        `PiAgent.command`: the program, and what it is always given, such as `["pi", "--provider", "openai"]`.
    env:
        `PiAgent.env`: on top of the server's environment.
    """

    provider = "pi"
    display_name = "pi"
    description = "A coding agent that reads, edits and runs things in the chat's directory."
    capabilities = Capabilities(fork=True, rewind=True, delete=True, steering=True, tools=True)
    fix = "Install it (`npm install -g @earendil-works/pi-coding-agent`), or say where it is in `PiAgent.command`."

    def __init__(self, command: Sequence[str] = ("pi",), env: Mapping[str, str] | None = None) -> None:
        self._command = list(command) or ["pi"]
        self._env = dict(env or {})
        self.deaths: defaultdict[str, Deaths] = defaultdict(Deaths)
        """By chat."""
        self._models: list[Model] = []
        self._commands: dict[str | None, list[Command]] = {}
        self._learning: set[asyncio.Task[None]] = set()

    async def probe(self) -> Probe:
        if find_program(self._command[0], self.environment()) is None:
            return Probe(False, reason=f"There is no program “{self._command[0]}” on the PATH.", fix=self.fix)
        return Probe(True, models=self._models)

    def config_schema(self, values: Mapping[str, Any]) -> Json:
        thinking: Json = {
            "type": "string",
            "title": "Thinking",
            "description": "How much a model that can think does so before it answers. Empty: as pi is set up.",
            "enum": ["", *_THINKING],
            "default": "",
            "sessionMutable": True,
        }
        return {"type": "object", "properties": {"thinking": thinking}}

    async def commands(self, directories: Sequence[str], config: Mapping[str, Any]) -> Sequence[Command]:
        return self._commands.get(directories[0] if directories else None, ())

    async def open(self, start: Start) -> Conversation:
        conversation = PiConversation(self, start)
        await conversation.open()
        return conversation

    async def delete(self, memory: str) -> None:
        await asyncio.to_thread(sessions.delete, self._sessions(), memory)

    async def catalogue(self, directories: Sequence[str]) -> Sequence[Found]:
        return await asyncio.to_thread(sessions.found, self._sessions(), directories)

    async def transcript(self, memory: str) -> Sequence[Json]:
        try:
            return await asyncio.to_thread(sessions.transcript, memory)
        except OSError as error:
            raise TurnFailed(
                "notFound", f"pi's session {memory} cannot be read: {error.strerror or error}."
            ) from error

    async def close(self) -> None:
        for task in tuple(self._learning):
            task.cancel()
        if self._learning:
            await asyncio.wait(self._learning)

    # ── for its conversations ────────────────────────────────────────────────────────────────────────────────
    def argv(self, more: Sequence[str]) -> list[str]:
        return [*self._command, "--mode", "rpc", "-e", str(EXTENSION), *more]

    def environment(self) -> dict[str, str]:
        return environment({**_OWN_ENVIRONMENT, **self._env})

    def _sessions(self) -> Path:
        env = self.environment()
        if folder := env.get("PI_CODING_AGENT_SESSION_DIR"):
            return Path(folder).expanduser()
        home = env.get("PI_CODING_AGENT_DIR") or os.path.join("~", ".pi", "agent")
        return Path(home).expanduser() / "sessions"

    def check_deaths(self, chat: str) -> None:
        """Raises `TurnFailed` when the chat's pi has died too often lately to be started again at once."""
        if wait := self.deaths[chat].wait:
            words = f"pi has ended several times in a minute. Look into the server's log, and try again in {wait:.0f} s."
            raise TurnFailed("agentEnded", words, resumable=True)

    def learn(self, line: Line, directory: str | None) -> None:
        """Ask a pi that has started for its models and commands, behind what it is doing."""
        task = asyncio.create_task(self._learn(line, directory))
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    async def _learn(self, line: Line, directory: str | None) -> None:
        try:
            models = await line.ask("get_available_models")
            commands = await line.ask("get_commands")
        except (Declined, Ended, TimeoutError):
            return  # it says nothing of them: there are none to offer
        self._models = [
            Model(
                f"{model['provider']}/{model['id']}",
                str(model.get("name") or model["id"]),
                model.get("contextWindow"),
                "image" in (model.get("input") or ()),
            )
            for model in models.get("models") or ()
        ]
        self._commands[directory] = [
            Command(command["name"], str(command.get("description") or "A command of pi's."))
            for command in commands.get("commands") or ()
            if not command["name"].startswith(TITLE)
        ]
