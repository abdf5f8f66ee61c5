"""Plugins, good and bad, that the tests of loading name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jupyter_ahp.agents.base import Agent, Conversation, Probe, Prompt, Start, TurnSink
from jupyter_ahp.plugins import CommandRun, PluginHost

not_callable = 3


class Parrot(Agent):
    provider = "parrot"
    display_name = "Parrot"
    description = "Says the last word again"

    async def probe(self) -> Probe:
        return Probe(ready=True)

    async def open(self, start: Start) -> Conversation:
        return Echoing()


class Echoing(Conversation):
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown(prompt.text.split()[-1])


async def answer(run: CommandRun) -> str:
    return f"{run.name} was here"


def good(host: PluginHost) -> None:
    host.register_command("good", "Works", answer)


async def late(host: PluginHost) -> Callable[[], None]:
    await asyncio.sleep(0)
    host.register_command("late", "Works, too", answer)
    return lambda: host.log.warning("%s ends as it said", host.name)


def ends_badly(host: PluginHost) -> Callable[[], None]:
    host.register_command("ends", "Works", answer)

    def end() -> None:
        raise RuntimeError("no end")

    return end


def parrot(host: PluginHost) -> None:
    host.register_agent(Parrot())


def fails(host: PluginHost) -> None:
    host.register_command("half", "Is never there", answer)
    host.register_agent(Parrot())
    raise RuntimeError("it broke half way")


async def hangs(host: PluginHost) -> None:
    host.register_command("hung", "Is never there", answer)
    await asyncio.sleep(3600)


def returns_something(host: PluginHost) -> int:
    return 3


def clashes(host: PluginHost) -> None:
    host.register_command("good", "Takes another one's name", answer)
