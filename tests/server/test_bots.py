"""A bot in a real server: from the configuration to the model, and `kill -9` while its work answers (B16)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.mock_model import MockModel
from tests.support.server import JupyterServer
from tests.support.wire import open_peer

HINTS = "Give one hint at a time, and never the answer."
CONFIG = f"""
c.BotAgent.bots = {{"tutor": {{"name": "Tutor", "agent": "assistant", "instructions": "{HINTS}"}}}}
"""


@pytest.fixture
def model() -> Iterator[MockModel]:
    with MockModel() as model:
        yield model


async def test_B16_kill_9_keeps_what_the_work_said_and_the_turn_is_resumed_with_the_instructions(
    configured: Callable[..., JupyterServer], model: MockModel
) -> None:
    server = configured(CONFIG, env={"OPENAI_API_KEY": "sk-for-tests", "OPENAI_BASE_URL": model.base_url})
    async with open_peer(server) as peer:
        await peer.initialize()
        session, chat = await peer.new_chat("bot")
        turn = await peer.start_turn(chat, "Count for me\n!!chunks 20 0.02\n!!hang")
        for _ in range(5):
            await peer.action("chat/delta", chat)
        await asyncio.sleep(0.5)  # actions are written, not synced, within 50 ms
        server.kill()
    assert HINTS in model.requests[0].texts[0][1]
    assert HINTS in (server.home.data / "ahp" / "bots" / "tutor" / "AGENTS.md").read_text()

    server.start()
    async with open_peer(server) as peer:
        await peer.initialize()
        rows = (await peer.request("listSessions"))["items"]
        assert [row["resource"] for row in rows] == [session], "the session that does the work is in no list"
        (ended,) = (await peer.chat_state(chat))["turns"]
        assert (ended["id"], ended["state"]) == (turn, "error")
        assert ended["responseParts"][0]["content"].startswith("c0 c1 c2")
        assert ended["responseParts"][-1]["resumable"] is True

        model.requests.clear()
        again = {"type": "chat/turnResume", "turnId": turn, "startedAt": "2026-01-01T00:00:00Z"}
        await peer.dispatch(chat, again)
        await peer.action("chat/turnResume", chat)
        async with asyncio.timeout(20):
            while not model.requests:  # noqa: ASYNC110 - it is the server that is waited for
                await asyncio.sleep(0.02)
        assert HINTS in model.requests[0].texts[0][1]
        assert "c0 c1 c2" in str(model.requests[0].texts), "the work goes on from its own words"
        await peer.dispatch(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 1})
        await peer.action("chat/turnCancelled", chat)
