"""Tools that ask, from Python: allowed once, for the session, on another input, or not. Against the host itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jupyter_ahp import AsyncChat
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.model import ToolCallPart
from jupyter_ahp.host.ports import (
    Capabilities,
    GuardedTool,
    Json,
    Tool,
    ToolCall,
    ToolResult,
    TurnContext,
)
from tests.client.real_host import ByHand, RealHost, until


class Draw(GuardedTool):
    name = "draw"
    title = "Draw"
    description = "Draws."
    parameters: Json = {"type": "object", "properties": {"what": {"type": "string"}}}

    def __init__(self, context: TurnContext) -> None:
        super().__init__(context.approvals)

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(f"Drew {arguments.get('what', 'nothing')}.")


def made(context: TurnContext) -> Sequence[Tool]:
    return [Draw(context)]


@pytest.fixture
def agent() -> ByHand:
    agent = ByHand()
    agent.capabilities = Capabilities(tools=True)
    return agent


async def asked(chat: AsyncChat) -> ToolCallPart:
    await until(lambda: chat.state == "waiting")
    call = chat.turns[-1].waits
    assert isinstance(call, ToolCallPart)
    return call


async def test_a_tool_asks_until_it_is_allowed_for_the_session(
    real: RealHost, line: Connection, agent: ByHand
) -> None:
    real.host.tools.register(made)
    async with AsyncChat("hand", host=line) as chat:
        agent.say("use draw", "done")
        sending = asyncio.create_task(chat.send("Draw"))
        call = await asked(chat)
        assert (call.title, call.message) == ("Draw", "Draw")
        ids = [option["id"] for option in call.options]
        assert ids == ["allow-once", "allow-session", "deny"]
        await chat.approve(call, False, option="deny", reason="Not that.")
        assert "and said: Not that." in (await sending).text

        agent.say("use draw", "done")
        sending = asyncio.create_task(chat.send("Draw"))
        call = await asked(chat)
        await chat.approve(call, option="allow-session", edited_input='{"what": "a duck"}')
        assert (await sending).text == "Drew a duck."

        agent.say("use draw", "done")
        assert (await chat.send("Draw")).text == "Drew nothing."
