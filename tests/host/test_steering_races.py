"""G1 to G7 where something else happens while the backend is being handed a steering message."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Conversation, Start, Steering
from tests.host.harness import WireClient, agree, quiet, until
from tests.host.test_waiting import S, Steered, SteeredAgent, steer


class Slow(Steered):
    """Takes its time to take a message."""

    agent: SlowAgent

    async def steer(self, message: Steering) -> bool:
        taken = await super().steer(message)
        await self.agent.gate.wait()
        return taken


class SlowAgent(SteeredAgent):
    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def open(self, start: Start) -> Conversation:
        return Slow(self, start)


@pytest.fixture
def agent() -> SlowAgent:
    return SlowAgent()


@pytest.fixture
async def chat(client: WireClient) -> str:
    return await client.create(S)


async def test_G2_a_turn_that_fails_while_it_is_handed_one_gives_it_to_the_next(
    host: Host, client: WireClient, chat: str, agent: SlowAgent
) -> None:
    await client.start(chat, "first")
    agent.gate.clear()
    await steer(client, chat, "s")
    await until(lambda: agent.offered)
    agent.words.put_nowait("resumable")
    await until(lambda: not client.running(chat))
    agent.gate.set()
    await quiet(host)
    agent.taken.clear()

    await client.start(chat, "second")
    await until(lambda: len(agent.offered) == 2)
    agent.words.put_nowait("read")
    agent.words.put_nowait("done")
    await until(lambda: not client.running(chat))

    assert "steeringMessage" not in client.state(chat)
    assert agent.texts == ["first", "second"]
    await agree(host, client)


async def test_X1_a_rewind_gives_back_what_the_dropped_turn_was_handed(
    host: Host, client: WireClient, chat: str, agent: SlowAgent
) -> None:
    agent.words.put_nowait("done")
    turn = await client.start(chat, "first")
    await until(lambda: not client.running(chat))
    await client.start(chat, "dropped")
    await steer(client, chat, "s")
    await until(lambda: agent.taken)
    await client.do(chat, "chat/truncated", turnId=turn)
    agent.taken.clear()
    assert client.state(chat)["steeringMessage"]["id"] == "s"

    await client.start(chat, "edited")
    await until(lambda: agent.offered == ["s", "s"])
    agent.words.put_nowait("read")
    agent.words.put_nowait("done")
    await until(lambda: not client.running(chat))

    assert "steeringMessage" not in client.state(chat)
    await agree(host, client)


async def test_Q7_one_that_was_read_while_it_was_handed_over_is_no_longer_there(
    host: Host, client: WireClient, chat: str, agent: SlowAgent
) -> None:
    agent.gives_back = False
    await client.start(chat, "first")
    agent.gate.clear()
    await steer(client, chat, "s")
    await until(lambda: agent.taken)
    agent.words.put_nowait("read")
    await until(lambda: "steeringMessage" not in client.state(chat))
    agent.gate.set()

    said = await client.do(chat, "chat/pendingMessageRemoved", kind="steering", id="s")

    assert "rejectionReason" not in said, "said as sent, and changes nothing"
    agent.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    await agree(host, client)
