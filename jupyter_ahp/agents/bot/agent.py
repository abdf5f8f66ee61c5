"""The bots as an agent: one provider, whose session says which bot it is (B16)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_data_dir

from jupyter_ahp.agents.base import (
    Agent,
    Capabilities,
    Conversation,
    Job,
    Json,
    Probe,
    Start,
    TurnFailed,
    Works,
)

from .conversation import BotConversation
from .settings import Bot, bots_of

_RESTART = "Correct Jupyter's configuration and restart the server."


class BotAgent(Agent):
    """Standing assistants.

    Parameters
    ----------
    bots:
        `BotAgent.bots`: short name to `{name, instructions, agent, model, workspace}`, all of it optional.
    data_dir:
        `AHPExtension.data_dir`: a bot's folder is in its `bots`, unless it has a workspace. None: the default one.
    """

    provider = "bot"
    display_name = "Bot"
    description = (
        "A standing assistant with instructions and a folder of its own; another agent does its work."
    )
    capabilities = Capabilities(
        fork=True, rewind=True, delete=True, steering=True, several_directories=True, tools=True
    )

    def __init__(self, bots: Mapping[str, Any], data_dir: str | Path | None = None) -> None:
        home = Path(data_dir) if data_dir is not None else Path(jupyter_data_dir()) / "ahp"
        self._bots = bots_of(bots, home.absolute() / "bots")
        self._works: Works | None = None

    def attach(self, works: Works) -> None:
        self._works = works

    async def probe(self) -> Probe:
        if not self._bots:
            fix = "Set one up in `BotAgent.bots` and restart the server; see the documentation, *Bots*."
            return Probe(False, reason="No bot is set up.", fix=fix)
        looked = await asyncio.gather(*map(self._look, self._bots.values()))
        wrong = [probe for probe in looked if not probe.ready]
        if len(wrong) == len(looked):
            fixes = dict.fromkeys(probe.fix for probe in wrong if probe.fix)
            return Probe(False, reason=" ".join(probe.reason for probe in wrong), fix=" ".join(fixes))
        return Probe(True, note=" ".join(f"{probe.reason} {probe.fix}".strip() for probe in wrong))

    async def _look(self, bot: Bot) -> Probe:
        if bot.problem:
            return Probe(False, reason=bot.problem, fix=_RESTART)
        if self._works is None:
            return Probe(True)
        _, probe = await self._works.usable(bot.agent, but=self.provider)
        if probe.ready:
            return probe
        who = f"its agent “{bot.agent}”" if bot.agent else "an agent for its work"
        reason = f"The bot “{bot.name}” is without {who}: {probe.reason}"
        return Probe(False, reason=reason, fix=probe.fix)

    def config_schema(self, values: Mapping[str, Any]) -> Json:
        if not self._bots:
            return {"type": "object", "properties": {}}
        sound = [bot.slug for bot in self._bots.values() if not bot.problem]
        which: Json = {
            "type": "string",
            "title": "Bot",
            "description": "Which bot answers",
            "enum": list(self._bots),
            "enumLabels": [bot.name for bot in self._bots.values()],
            "enumDescriptions": [bot.problem or f"Works in {bot.folder}" for bot in self._bots.values()],
            "default": (sound or list(self._bots))[0],
        }
        return {"type": "object", "properties": {"bot": which}}

    async def open(self, start: Start) -> Conversation:
        bot = self._chosen(start.config.get("bot"))
        if self._works is None:
            raise TurnFailed("noHost", "This bot is served by no host.")
        agent, probe = await self._works.usable(bot.agent, but=self.provider)
        if not probe.ready:
            words = f"“{bot.name}” cannot work: {probe.reason} {probe.fix}".strip()
            raise TurnFailed("noAgent", words, resumable=True)
        try:
            await asyncio.to_thread(bot.prepare)
        except OSError as error:
            raise _unprepared(bot, error) from error
        work = await self._works.open(start, Job(agent, (str(bot.folder), *start.directories), bot.name))
        return BotConversation(bot, start, work)

    def _chosen(self, slug: object) -> Bot:
        if slug is None and self._bots:
            slug = self.config_schema({})["properties"]["bot"]["default"]
        bot = self._bots.get(str(slug))
        if bot is None:
            known = ", ".join(other.name for other in self._bots.values()) or "none"
            words = (
                f"There is no bot {slug!r} on this server any more. Start a chat with another one: {known}."
            )
            raise TurnFailed("noBot", words)
        if bot.problem:
            raise TurnFailed("badBot", f"{bot.problem} {_RESTART}")
        return bot

    async def delete(self, memory: str) -> None:
        if self._works is not None:
            await self._works.delete(memory)


def _unprepared(bot: Bot, error: OSError) -> TurnFailed:
    return TurnFailed("noFolder", f"The folder of “{bot.name}” cannot be used: {error}.", resumable=True)
