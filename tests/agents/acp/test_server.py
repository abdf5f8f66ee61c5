"""An ACP agent of a real Jupyter server: configured by a trait, and gone when the server is killed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.agents.test_processes import gone, linux, lives
from tests.mock_model import MockModel
from tests.support.server import Home, JupyterServer
from tests.support.wire import Peer, open_peer

Started = Callable[..., JupyterServer]


async def say(peer: Peer, chat: str, text: str) -> None:
    await peer.start_turn(chat, text)
    await peer.action("chat/turnComplete", chat, 90)


@linux
async def test_a_server_that_is_killed_leaves_no_agent_and_the_next_one_goes_on(
    home: Home, with_server: Started, model: MockModel, tmp_path: Path
) -> None:
    entry = {
        "command": sys.executable,
        "args": [str(Path(__file__).with_name("agent.py"))],
        "env": {"MODEL_URL": model.base_url, "AGENT_HOME": str(tmp_path / "puppet")},
        "title": "Puppet",
    }
    home.make()
    (home.config / "jupyter_server_config.json").write_text(
        json.dumps({"ACPAgent": {"servers": {"puppet": entry, "none": {"command": "no-such-agent"}}}})
    )
    server = with_server()
    async with open_peer(server) as peer:
        await peer.initialize()
        directory = home.files.as_uri()
        session, chat = await peer.new_chat("puppet", workingDirectories=[directory])
        await say(peer, chat, "!!text remember")
        await say(peer, chat, '!!tool spend {"pid_file": "pids"}\n!!text done')
        status = await asyncio.to_thread(server.get_json, "ahp/status")
    agents = {agent["provider"]: agent for agent in status["agents"]}
    assert agents["puppet"]["ready"]
    assert agents["puppet"]["displayName"] == "Puppet"
    assert agents["none"]["ready"] is False
    assert "“no-such-agent”" in agents["none"]["reason"]

    pids = [int(pid) for pid in (home.files / "pids").read_text().split()]
    assert all(map(lives, pids))
    await asyncio.to_thread(server.kill)
    await gone(*pids)

    await asyncio.to_thread(server.start)
    async with open_peer(server) as peer:
        await peer.initialize()
        await peer.request("subscribe", session)
        await peer.request("subscribe", chat)
        await say(peer, chat, "!!text and on")
        told = [text for _, text in model.requests[-1].texts]
        assert (told[0], told[1], told[-1]) == ("!!text remember", "remember", "!!text and on")
        assert [turn["state"] for turn in await peer.turns(chat)] == ["complete"] * 3
