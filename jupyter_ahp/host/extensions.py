"""What plugins add to a host, and what takes it out again (`Extensible`). V4."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from .events import Events
from .ports import Agent, Canvas, Command, CommandHandler, EventName, Listener, ShowHandler, ToolFactory, Undo
from .slash import Commands

if TYPE_CHECKING:
    from .host import Host

log = logging.getLogger(__name__)

_PROVIDER: Final = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*")


async def _nothing() -> None:
    """There is nothing to take back."""


class Extensions:
    """The host as plugins see it. One plugin's mistake is answered to it, and touches nobody else."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.commands = Commands()
        self.events = Events()
        self.shows: tuple[str, ShowHandler] | None = None
        """The plugin that shows what Python asks for, if there is one."""

    def add_agent(self, agent: Agent) -> Undo:
        if not isinstance(agent, Agent):
            raise ValueError(f"{agent!r} is no jupyter_ahp.agents.base.Agent.")
        provider = agent.provider
        if not _PROVIDER.fullmatch(provider):
            raise ValueError(
                f"{provider!r} cannot name an agent: letters, digits, `+-.`, and a letter first."
            )
        served = self._host.options.served
        if served and provider not in served:
            log.info("The agent %s is not among those that are served (AHPExtension.agents)", provider)
            return _nothing
        roster = self._host.roster
        if provider in roster.agents:
            raise ValueError(f"There is an agent {provider!r} already.")
        roster.agents[provider] = agent
        agent.attach(self._host.works)
        self._host.agents_changed()

        async def undo() -> None:
            if roster.agents.get(provider) is agent:
                del roster.agents[provider]
                self._host.agents_changed()
                if self._host.started:  # else it was closed with the host
                    await agent.close()

        return undo

    def add_tools(self, factory: ToolFactory) -> Undo:
        remove = self._host.tools.register(factory)

        async def undo() -> None:
            remove()

        return undo

    def add_command(self, plugin: str, command: Command, handler: CommandHandler) -> Undo:
        self.commands.add(plugin, command, handler)

        async def undo() -> None:
            self.commands.remove(command)

        return undo

    def add_show(self, plugin: str, handler: ShowHandler) -> Undo:
        if self.shows is not None:
            raise ValueError(f"The plugin {self.shows[0]} shows already what Python asks for.")
        self.shows = plugin, handler

        async def undo() -> None:
            self.shows = None

        return undo

    def listen(self, plugin: str, event: EventName, listener: Listener) -> Undo:
        listening = self.events.add(plugin, event, listener)

        async def undo() -> None:
            await self.events.remove(event, listening)

        return undo

    async def open_canvas(
        self,
        plugin: str,
        chat: str,
        *,
        title: str,
        html: str | None,
        url: str | None,
        port: int | None,
        path: str,
        status: str | None,
        canvas_id: str,
    ) -> Canvas:
        return await self._host.canvases.open(
            chat,
            plugin=plugin,
            title=title,
            html=html,
            url=url,
            port=port,
            path=path,
            status=status,
            canvas_id=canvas_id,
        )
