"""Many prompts at once: in order, failures as values, and asked once. Against the host itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jupyter_ahp import AsyncChat, BadAnswer, Text, TurnFailed
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.model import Turn
from jupyter_ahp.host.ports import Prompt, TurnSink
from jupyter_ahp.host.ports import TurnFailed as Failed
from tests.client.real_host import ByHand, RealHost, until


class Answering(ByHand):
    """Answers each prompt by itself, once `gate` is open; says how many were asked at once."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_once = 0
        self.most = 0

    async def answer(self, prompt: Prompt, sink: TurnSink) -> None:
        self.prompts.append(prompt)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.gate.wait()
            if prompt.text == "fail":
                raise Failed("test", "It failed.")
            sink.markdown(f"{len(self.prompts)}: {prompt.text}" if prompt.text != "number" else "7")
        finally:
            self.at_once -= 1


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Answering:
    from tests.client import real_host

    async def send(self: real_host._Conversation, prompt: Prompt, sink: TurnSink) -> None:
        agent = self.agent
        assert isinstance(agent, Answering)
        await agent.answer(prompt, sink)

    monkeypatch.setattr(real_host._Conversation, "send", send)
    return Answering()


def told(answers: list[Turn | Exception]) -> list[str]:
    return [answer.message.text if isinstance(answer, Turn) else type(answer).__name__ for answer in answers]


async def test_answers_come_in_order_and_failures_as_values(line: Connection, agent: Answering) -> None:
    seen: list[tuple[int, int]] = []
    async with AsyncChat("hand", host=line) as chat:
        agent.gate.clear()
        mapping = asyncio.create_task(
            chat.map(
                ["a", "fail", ("b", Text("own", "x")), "c"],
                Text("shared", "y"),
                concurrency=2,
                progress=lambda done, of: seen.append((done, of)),
            )
        )
        await until(lambda: agent.at_once == 2)
        agent.gate.set()
        answers = await mapping
        assert told(answers) == ["a", "TurnFailed", "b", "c"]
        assert isinstance(answers[1], TurnFailed)
        assert agent.most == 2
        assert seen[0] == (0, 4)
        assert seen[-1] == (4, 4)
        assert {prompt.text: len(prompt.blocks) for prompt in agent.prompts} == {
            "a": 1,
            "fail": 1,
            "b": 2,
            "c": 1,
        }
        assert chat.turns == [], "each has a chat of its own"
        assert sorted(other.archived for other in chat.chats) == [False, False, True, True, True]


async def test_the_same_call_again_asks_only_what_was_not_answered(
    line: Connection, agent: Answering, tmp_path: Path
) -> None:
    data = tmp_path / "a.csv"
    data.write_text("1")
    async with AsyncChat("hand", host=line) as chat:
        first = await chat.map(["a", "a", "fail"], data)
        assert told(first) == ["a", "a", "TurnFailed"]
        again = await chat.map(["fail", "a", "a", "b"], data)
        assert again[1:3] == first[:2], "the same prompt twice is two"
        assert len(agent.prompts) == 5
        data.write_text("22")
        await chat.map(["a"], data)
        assert len(agent.prompts) == 6, "a file that was changed is another question"
    async with AsyncChat.open(chat.uri, line) as later:
        assert (await later.map(["a"], data))[0] == (await later.map(["a"], data))[0]
        assert len(agent.prompts) == 6


async def test_after_an_interrupt_it_goes_on_where_it_was(line: Connection, agent: Answering) -> None:
    async with AsyncChat("hand", host=line) as chat:
        assert told(await chat.map(["a"])) == ["a"]
        agent.gate.clear()
        mapping = asyncio.create_task(chat.map(["a", "b", "c"], concurrency=1))
        await until(lambda: agent.at_once == 1)
        mapping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await mapping
        await until(lambda: agent.at_once == 0)
        agent.gate.set()
        assert told(await chat.map(["a", "b", "c"])) == ["a", "b", "c"]
        assert [prompt.text for prompt in agent.prompts] == ["a", "b", "b", "c"]


async def test_values_and_bad_answers(line: Connection, agent: Answering) -> None:
    async with AsyncChat("hand", host=line) as chat:
        number, bad = await chat.map(["number", "words"], returns=int)
        assert isinstance(number, Turn)
        assert number.value == 7
        assert isinstance(bad, BadAnswer)
        asked = len(agent.prompts)
        again = (await chat.map(["number"], returns=int))[0]
        assert isinstance(again, Turn)
        assert (again.value, len(agent.prompts)) == (7, asked)
        with pytest.raises(ValueError, match="at least one"):
            await chat.map(["x"], concurrency=0)


async def test_many_chats_at_once(real: RealHost, line: Connection, agent: Answering) -> None:
    chats = [AsyncChat("hand", host=line) for _ in range(8)]
    turns = await asyncio.gather(*(chat.send(f"{n}") for n, chat in enumerate(chats)))
    assert [turn.message.text for turn in turns] == [str(n) for n in range(8)]
    await asyncio.gather(*(chat.close() for chat in chats))
