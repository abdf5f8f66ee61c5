"""How long each backend takes to its first word, and how much memory its programs have, against a mock model.

    python -m bench.backends [pi claude opencode assistant]

Real programs in a real host, one chat each; the model answers at once. "cold" is from sending the first message of a
chat to the first word of its answer, with the backend's program started in between; "warm" is the same for later
messages (median of five). Memory is that of the programs that the backend has started, after those turns.
What is not installed is left out, with the reason.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_ahp.agents.base import Agent
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, WireClient, started, until
from tests.mock_model import MockModel

SESSION = "ahp-session:/bench"
PAGE = os.sysconf("SC_PAGE_SIZE")
ANSWER = "!!text one two three"


def assistant(model: MockModel, home: Path) -> Agent:
    from jupyter_ahp.agents.assistant import AssistantAgent

    return AssistantAgent(models=[{"base_url": model.base_url, "model": model.model}], environ={})


def pi(model: MockModel, home: Path) -> Agent:
    from tests.agents.pi.room import pi_agent

    return pi_agent(model, home, "0.73")


def claude(model: MockModel, home: Path) -> Agent:
    from jupyter_ahp.agents.claude import ClaudeAgent
    from tests.agents.claude.room import settings_for

    return ClaudeAgent(settings_for(model, home))


def opencode(model: MockModel, home: Path) -> Agent:
    from jupyter_ahp.agents.acp import ACPAgent
    from tests.agents.acp.test_opencode import opencode as server

    return ACPAgent(server(model, home), home / "learned")


BACKENDS: dict[str, Callable[[MockModel, Path], Agent]] = {
    "assistant": assistant,
    "pi": pi,
    "claude": claude,
    "opencode": opencode,
}


async def measure(agent: Agent, work: Path) -> tuple[float, float, float]:
    """Seconds to the first word, cold and warm; MB of memory."""
    host = await started(MemoryStore(), agent, directory=work)
    client = WireClient(host)
    await client.initialize(ROOT)
    await client.request(
        "createSession", channel=SESSION, provider=agent.provider, workingDirectories=[work.as_uri()]
    )
    chat = (await client.subscribe(SESSION))["defaultChat"]
    await client.subscribe(chat)

    async def turn() -> float:
        began = time.perf_counter()
        await client.start(chat, ANSWER)

        def spoken() -> bool:
            state = client.state(chat)
            turns = [state["activeTurn"]] if "activeTurn" in state else state["turns"][-1:]
            return any(part["kind"] == "markdown" for turn in turns for part in turn["responseParts"])

        await until(spoken, 120)
        took = time.perf_counter() - began
        await until(lambda: not client.running(chat), 120)
        return took

    cold = await turn()
    warm = statistics.median([await turn() for _ in range(5)])
    memory = sum(map(resident, descendants(os.getpid())))
    await client.drop()
    await host.stop()
    return cold, warm, memory


def descendants(pid: int) -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
    found, news = [], [pid]
    while news:
        news = [child for child, parent in parents.items() if parent in news]
        found += news
    return found


def resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6
    except OSError:
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("backends", nargs="*", help=f"of {', '.join(BACKENDS)}; all of them if none is named")
    print("| backend | cold | warm | memory |\n|---|---|---|---|")
    for name in parser.parse_args().backends or BACKENDS:
        with tempfile.TemporaryDirectory() as folder, MockModel() as model:
            home, work = Path(folder, "home"), Path(folder, "work")
            home.mkdir()
            work.mkdir()
            try:
                cold, warm, memory = asyncio.run(measure(BACKENDS[name](model, home), work))
            except (ImportError, pytest.skip.Exception) as reason:
                print(f"| {name} | not here: {reason} | | |")
            else:
                print(f"| {name} | {cold:.2f} s | {warm * 1000:.0f} ms | {memory:.0f} MB |")


if __name__ == "__main__":
    main()
