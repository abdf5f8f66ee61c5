"""Approvals without a person: what a policy allows, and that what it does not allow ends the turn. Against the host itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp import AsyncChat, NeedsApproval, TurnFailed
from jupyter_ahp.client.attending import edits_within
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.model import Question, ToolCallPart
from jupyter_ahp.host.ports import (
    Capabilities,
    Conversation,
    GuardedTool,
    Json,
    Prompt,
    Start,
    Tool,
    ToolCall,
    ToolResult,
    TurnContext,
    TurnSink,
)
from tests.client.real_host import ByHand, RealHost, until


class Write(GuardedTool):
    """Writes `what`; says before that it edits it."""

    name = "write"
    title = "Write"
    description = "Writes."
    effects = "write"
    parameters: Json = {"type": "object", "properties": {}}
    path = Path("/nowhere")

    def __init__(self, context: TurnContext) -> None:
        super().__init__(context.approvals)

    async def preview(self, arguments: Mapping[str, Any]) -> Sequence[Json]:
        return [{"after": {"uri": self.path.as_uri(), "content": {"uri": self.path.as_uri()}}}]

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult("Written.")


@pytest.fixture
def agent() -> ByHand:
    agent = ByHand()
    agent.capabilities = Capabilities(tools=True)
    return agent


def offer(real: RealHost, path: Path) -> None:
    class Here(Write):
        pass

    Here.path = path

    def made(context: TurnContext) -> Sequence[Tool]:
        return [Here(context)]

    real.host.tools.register(made)


async def test_what_nobody_may_allow_ends_the_turn_by_name(
    real: RealHost, line: Connection, agent: ByHand, tmp_path: Path
) -> None:
    offer(real, tmp_path / "a.csv")
    async with AsyncChat("hand", host=line, approve="none") as chat:
        agent.say("use write", "done")
        with pytest.raises(NeedsApproval, match=r"The tool write \(Write\) may not run") as raised:
            await chat.send("Write it", timeout=30)
        assert isinstance(raised.value, TurnFailed)
        assert isinstance(raised.value.waited, ToolCallPart)
        assert raised.value.turn.state == "cancelled"
        agent.orders = asyncio.Queue()
        agent.say("well", "done")
        assert (await chat.send("Go on", timeout=30)).text == "well"
        agent.say("use write", "done")
        with pytest.raises(NeedsApproval):
            async for _ in chat.stream("Write it"):
                pass
        agent.orders = asyncio.Queue()
        agent.say("use write", "done")
        with pytest.raises(NeedsApproval):
            await (await chat.queue("Write it")).wait(timeout=30)


async def test_edits_in_the_sessions_directories_and_nowhere_else(
    real: RealHost, line: Connection, agent: ByHand, tmp_path: Path
) -> None:
    offer(real, tmp_path / "work" / "a.csv")
    (tmp_path / "work").mkdir()
    async with AsyncChat(
        "hand", directory=tmp_path / "work", host=line, approve="session-directories"
    ) as chat:
        agent.say("use write", "done")
        assert (await chat.send("Write it", timeout=30)).text == "Written."
        aside = await chat.new_chat()
        agent.say("use write", "done")
        assert (await aside.send("Write it", timeout=30)).text == "Written."
    async with AsyncChat("hand", directory=tmp_path / "work", host=line, approve="reads") as chat:
        agent.say("use write", "done")
        with pytest.raises(NeedsApproval):
            await chat.send("Write it", timeout=30)


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("work/a", True),
        ("work/sub/a", True),
        ("worker/a", False),
        ("work/../a", False),
        ("work/out/a", False),
    ],
)
def test_whether_a_file_is_in_a_directory(tmp_path: Path, name: str, within: bool) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "out").symlink_to(tmp_path)
    call = {"edits": {"items": [{"before": {"uri": f"{tmp_path.as_uri()}/{name}"}}]}}
    assert edits_within(call, [(tmp_path / "work").as_uri()]) is within
    assert not edits_within({}, [tmp_path.as_uri()]), "not known to edit files only"
    assert not edits_within(
        {"edits": {"items": [{"after": {"uri": "vscode-remote://x/project/a"}}]}}, ["file:///"]
    )


async def test_a_function_decides(real: RealHost, line: Connection, agent: ByHand, tmp_path: Path) -> None:
    offer(real, tmp_path / "a.csv")
    calls: list[ToolCallPart] = []

    def allow(call: ToolCallPart) -> bool:
        calls.append(call)
        return len(calls) == 1

    async with AsyncChat("hand", host=line, approve=allow) as chat:
        agent.say("use write", "use write", "done")
        with pytest.raises(NeedsApproval):
            await chat.send("Twice", timeout=30)
    assert [call.name for call in calls] == ["write", "write"]

    async def broken(call: ToolCallPart) -> bool:
        raise LookupError(call.name)

    agent.orders = asyncio.Queue()
    async with AsyncChat("hand", host=line, approve=broken) as chat:
        agent.say("use write", "done")
        with pytest.raises(NeedsApproval) as raised:
            await chat.send("Once", timeout=30)
    assert isinstance(raised.value.__cause__, LookupError)


async def test_without_a_policy_a_person_on_the_server_is_waited_for(
    real: RealHost, line: Connection, agent: ByHand, tmp_path: Path
) -> None:
    offer(real, tmp_path / "a.csv")
    async with AsyncChat("hand", host=line) as chat:
        agent.say("use write", "done")
        sending = asyncio.create_task(chat.send("Write it", timeout=30))
        await until(lambda: chat.state == "waiting")
        call = chat.turns[-1].waits
        assert isinstance(call, ToolCallPart)
        await chat.approve(call)
        assert (await sending).text == "Written."


def test_a_policy_that_there_is_not_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="approve='all' is none of 'none', 'reads', 'session-directories'"):
        AsyncChat(approve="all")  # type: ignore[arg-type]


class Delegating(ByHand):
    """A worker of its turn asks to read; or, when told to, the turn asks a question."""

    async def open(self, start: Start) -> Conversation:
        return _Delegating()


class _Delegating(Conversation):
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        if prompt.text == "ask":
            await sink.ask("Which file?")
            return
        call = sink.tool("delegate", title="Delegate", call_id="c1")
        worker = sink.worker(call, "Look", title="Scout")
        inner = worker.sink.tool(prompt.text, title="Look", meta={"toolKind": prompt.text})
        said = await inner.confirm("Look into it", title="Look")
        inner.done("Looked")
        worker.done()
        call.done("Delegated")
        sink.markdown("allowed" if said.approved else "denied")


class TestOfADelegatingAgent:
    @pytest.fixture
    def agent(self) -> ByHand:
        return Delegating()

    async def test_w3_what_a_worker_asks_is_answered_too(self, line: Connection, agent: ByHand) -> None:
        async with AsyncChat("hand", host=line, approve="reads") as chat:
            assert (await chat.send("read", timeout=30)).text == "allowed"
            with pytest.raises(NeedsApproval, match=r"The tool terminal \(Look\) may not run"):
                await chat.send("terminal", timeout=30)
            assert [worker.state for worker in chat.workers] == ["idle", "idle"]

    async def test_a_question_ends_the_turn_too(self, line: Connection, agent: ByHand) -> None:
        async with AsyncChat("hand", host=line, approve=lambda call: True) as chat:
            with pytest.raises(NeedsApproval, match=r"nobody is there to answer: Which file\?") as raised:
                await chat.send("ask", timeout=30)
            assert isinstance(raised.value.waited, Question)
