"""Claude in a real Jupyter Server, configured as people configure it, driven by the Python client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from jupyter_ahp import AsyncChat
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.discovery import Server
from tests.agents.claude.room import PATIENCE, settings_for
from tests.mock_model import MockModel, Request
from tests.support.server import JupyterServer


async def test_a_server_that_dies_in_a_turn_goes_on_with_the_conversation(
    with_server: Callable[..., JupyterServer], model: MockModel, tmp_path: Path
) -> None:
    claude = tmp_path / "claude"
    claude.mkdir()
    settings = settings_for(model, claude)
    configured = [f"--ClaudeAgent.env={name}={value}" for name, value in settings.env.items()]
    server = with_server(args=[*configured, "--ClaudeAgent.model=mock-model"])
    connection = Connection(lambda: Server(server.url, server.token or ""))
    chat = await AsyncChat("claude", title="Names", host=connection)
    async with asyncio.timeout(4 * PATIENCE):
        await chat.send("my name is Ada\n!!text hello Ada")
        running = asyncio.create_task(chat.send("slowly\n!!chunks 400 0.02"))
        await model.until(lambda model: len(conversations(model)) == 2, PATIENCE)
        server.kill()
        await asyncio.to_thread(server.start)
        await asyncio.wait([running])
        turn = await chat.send("who am I?\n!!text Ada")

    assert turn.text == "Ada"
    assert isinstance(running.exception(), Exception)
    told = [text for role, text in conversations(model)[-1].texts if role != "system"]
    assert any("my name is Ada" in text for text in told)
    assert "hello Ada" in told
    assert told[-1].endswith("who am I?\n!!text Ada")
    await connection.close()


def conversations(model: MockModel) -> list[Request]:
    return [request for request in model.requests if request.body.get("tools")]
