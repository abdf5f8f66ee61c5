"""An ACP agent as people pick it: by name, from the configuration or because it is on this machine."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ahp.agents.base import Agent, Capabilities, Command, Conversation, Json, Probe, Start, TurnFailed

from ..processes import environment, find_program
from .known import Server
from .settings import Learned

if TYPE_CHECKING:
    from .conversation import ACPConversation

_INSTALL = "Install `pip install 'jupyter-ahp[acp]'` into the server's environment and restart it."


class ACPAgent(Agent):
    """One agent that speaks ACP. Nothing is started before a chat's first message.

    `folder` is where what it says of itself is kept (None: in memory alone).
    """

    capabilities = Capabilities(fork=True, rewind=True, several_directories=True, tools=True)

    def __init__(self, server: Server, folder: Path | None = None) -> None:
        self.server = server
        self.provider = server.provider
        self.display_name = server.title
        self.description = f"Runs `{server.words}` and speaks ACP with it"
        self._ends: dict[str, str] = {}
        self._learned = Learned.read(folder / f"{server.provider}.json" if folder is not None else None)

    async def probe(self) -> Probe:
        """Only looks whether the program is there: it says when it is started what it can do."""
        if importlib.util.find_spec("acp") is None:
            return Probe(False, reason="The package that speaks ACP is not installed.", fix=_INSTALL)
        if find_program(self.server.command, environment(self.server.env)) is None:
            return Probe(
                False,
                reason=f"There is no program “{self.server.command}” on the PATH of the server.",
                fix="Install it, or name it in `ACPAgent.servers` by its whole path.",
            )
        return Probe(True, models=self._learned.models)

    def config_schema(self, values: Mapping[str, Any]) -> Json:
        return self._learned.schema

    async def commands(self, directories: Sequence[str], config: Mapping[str, Any]) -> Sequence[Command]:
        return self._learned.commands

    async def open(self, start: Start) -> Conversation:
        try:
            module = await asyncio.to_thread(import_module, "jupyter_ahp.agents.acp.conversation")
        except ImportError as error:
            raise TurnFailed(
                "notInstalled", f"{self.display_name} cannot be used. {_INSTALL}", details=str(error)
            ) from error
        conversation: ACPConversation = module.ACPConversation(self.server, start, self._learned, self._ends)
        return conversation

    async def close(self) -> None:
        await self._learned.close()
