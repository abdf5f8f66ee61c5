"""Which agents there are: the built-in ones, those of installed packages (entry points `jupyter_ahp.agents`), and those
that speak ACP.

Nothing is imported before `find_agents` is called, and making an agent starts nothing. One that cannot be made is
named in the log with its error and left out; it never breaks the others.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from jupyter_ahp.agents.acp.known import Server, servers
from jupyter_ahp.agents.base import Agent

GROUP = "jupyter_ahp.agents"
PROVIDER = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*\Z")
_LAST = ("bot", "echo")
"""Ours, behind those of others."""


def find_agents(
    served: Sequence[str] = (),
    *,
    models: Sequence[Mapping[str, Any]] = (),
    mcp_servers: Mapping[str, Any] | None = None,
    commands: bool = True,
    data_dir: str | Path | None = None,
    claude: Mapping[str, Any] | None = None,
    acp_servers: Mapping[str, Any] | None = None,
    pi: Mapping[str, Any] | None = None,
    bots: Mapping[str, Any] | None = None,
    installed: Iterable[EntryPoint] | None = None,
    log: logging.Logger | None = None,
) -> list[Agent]:
    """Make the agents of a server, in a fixed order: `assistant`, `claude`, `pi`, those of others by name, those
    that speak ACP, `bot`, `echo`.

    Parameters
    ----------
    served:
        Which providers are served, in this order (`AHPExtension.agents`); empty means all. A name that there is not
        is logged.
    models:
        `AssistantAgent.models`.
    mcp_servers:
        `AssistantAgent.mcp_servers`.
    commands:
        `AHPExtension.terminals`: whether the assistant may run commands.
    data_dir:
        `AHPExtension.data_dir`, where the small model is; None is the default.
    claude:
        The traits of `ClaudeAgent`; None: no Claude.
    acp_servers:
        `ACPAgent.servers`, to which the known ones on PATH are added; None: no agent that speaks ACP.
    pi:
        `PiAgent.command` and `.env`, by their names; None: no pi.
    bots:
        `BotAgent.bots`; None: no bots.
    installed:
        Entry points to use instead of those of the installed packages.
    """
    log = log or logging.getLogger(__name__)
    found: list[Agent] = []

    async def alone() -> bool:
        probes = await asyncio.gather(
            *(agent.probe() for agent in found if agent.provider not in ("bot", "echo"))
        )
        return not any(probe.ready for probe in probes)

    def assistant() -> Agent:
        from jupyter_ahp.agents.assistant import AssistantAgent

        return AssistantAgent(models=models, mcp_servers=mcp_servers, commands=commands, data_dir=data_dir)

    def pi_agent() -> Agent:
        from jupyter_ahp.agents.pi import PiAgent

        return PiAgent(**(pi or {}))

    def echo() -> Agent:
        from jupyter_ahp.agents.echo import EchoAgent

        return EchoAgent(is_alone=alone)

    points = entry_points(group=GROUP) if installed is None else installed
    factories: dict[str, Callable[[], Agent]] = {"assistant": assistant}
    if claude is not None:
        factories["claude"] = partial(_claude, claude)
    if pi is not None:
        factories["pi"] = pi_agent
    for point in sorted(points, key=lambda point: point.name):
        if not PROVIDER.match(point.name) or point.name in factories or point.name in _LAST:
            log.error(
                "The agent “%s” (%s) is left out: the name is taken, or none for an agent",
                point.name,
                point.value,
            )
            continue
        factories[point.name] = _of_package(point)
    if acp_servers is not None:
        for server in servers(acp_servers):
            if (
                not PROVIDER.match(server.provider)
                or server.provider in factories
                or server.provider in _LAST
            ):
                log.error(
                    "ACPAgent.servers[%r] is left out: the name is taken, or none for an agent",
                    server.provider,
                )
                continue
            factories[server.provider] = _of_acp(server, data_dir)
    if bots is not None:
        factories["bot"] = partial(_bot, bots, data_dir)
    factories["echo"] = echo

    for name in served:
        if name not in factories:
            log.error(
                "There is no agent “%s” to serve, unless a plugin brings it. There are: %s",
                name,
                ", ".join(factories),
            )
    for name in served or factories:
        if name in factories and (agent := _make(name, factories[name], log)) is not None:
            found.append(agent)
    return found


def _bot(bots: Mapping[str, Any], data_dir: str | Path | None) -> Agent:
    from jupyter_ahp.agents.bot import BotAgent

    return BotAgent(bots, data_dir)


def _claude(traits: Mapping[str, Any]) -> Agent:
    from jupyter_ahp.agents.claude import ClaudeAgent
    from jupyter_ahp.agents.claude.settings import Settings

    return ClaudeAgent(Settings(**traits))


def _of_package(point: EntryPoint) -> Callable[[], Agent]:
    def make() -> Agent:
        agent = point.load()()
        if not isinstance(agent, Agent):
            raise TypeError(
                f"{point.value} gave a {type(agent).__name__}, not a jupyter_ahp.agents.base.Agent"
            )
        if agent.provider != point.name:
            raise ValueError(f"{point.value} calls itself “{agent.provider}”, its entry point “{point.name}”")
        return agent

    return make


def _of_acp(server: Server, data_dir: str | Path | None) -> Callable[[], Agent]:
    def make() -> Agent:
        from jupyter_ahp.agents.acp import ACPAgent

        return ACPAgent(server, Path(data_dir) / "acp" if data_dir is not None else None)

    return make


def _make(name: str, factory: Callable[[], Agent], log: logging.Logger) -> Agent | None:
    try:
        return factory()
    except Exception:
        log.exception("The agent “%s” cannot be used and is left out", name)
        return None
