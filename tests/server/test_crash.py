"""`kill -9` in the middle of a streamed turn: what was streamed is there, in a turn that can be resumed."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.mock_model import MockModel
from tests.server.test_terminals import with_terminals
from tests.support.server import Home, JupyterServer
from tests.support.wire import open_peer


@pytest.fixture
def model() -> Iterator[MockModel]:
    with MockModel() as model:
        yield model


def environment(model: MockModel) -> dict[str, str]:
    return {"OPENAI_API_KEY": "sk-for-tests", "OPENAI_BASE_URL": model.base_url}


async def test_what_was_streamed_survives_kill_9_and_the_turn_can_be_resumed(
    with_server: Callable[..., JupyterServer], model: MockModel
) -> None:
    server = with_server(env=environment(model))
    async with open_peer(server) as peer:
        await peer.initialize()
        session, chat = await peer.new_chat("assistant")
        turn = await peer.start_turn(chat, "Count for me\n!!chunks 20 0.02\n!!hang")
        for _ in range(5):
            await peer.action("chat/delta", chat)
        await asyncio.sleep(0.5)  # Actions are written, not synced, within 50 ms.
        server.kill()

    server.start()
    async with open_peer(server) as peer:
        await peer.initialize()
        rows = (await peer.request("listSessions"))["items"]
        assert session in [row["resource"] for row in rows]
        state = await peer.chat_state(chat)
        assert "activeTurn" not in state
        (ended,) = state["turns"]
        assert ended["id"] == turn
        assert ended["state"] == "error"
        streamed, failure = ended["responseParts"][0], ended["responseParts"][-1]
        assert streamed["content"].startswith("c0 c1 c2")
        assert failure["kind"] == "error"
        assert failure["resumable"] is True

        model.requests.clear()
        await peer.dispatch(
            chat, {"type": "chat/turnResume", "turnId": turn, "startedAt": "2026-01-01T00:00:00Z"}
        )
        await peer.action("chat/turnResume", chat)
        async with asyncio.timeout(20):
            while not model.requests:  # noqa: ASYNC110 - it is the server that is waited for
                await asyncio.sleep(0.02)
        await peer.dispatch(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 1})
        await peer.action("chat/turnCancelled", chat)


async def test_a_stop_of_the_server_ends_a_running_turn_so_that_it_can_be_resumed(
    with_server: Callable[..., JupyterServer], model: MockModel
) -> None:
    server = with_server(env=environment(model))
    async with open_peer(server) as peer:
        await peer.initialize()
        _, chat = await peer.new_chat("assistant")
        await peer.start_turn(chat, f"{uuid.uuid4()}\n!!chunks 3\n!!hang")
        for _ in range(3):
            await peer.action("chat/delta", chat)
        assert server.get_json("ahp/status")["runningTurns"] == 1
        await asyncio.to_thread(server.stop)
        ended = await peer.action("chat/error", chat)
        assert ended["part"]["resumable"] is True

    server.start()
    async with open_peer(server) as peer:
        await peer.initialize()
        (ended,) = await peer.turns(chat)
        assert ended["state"] == "error"
        assert ended["responseParts"][0]["content"].startswith("c0 c1 c2")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals on Windows")
async def test_M5_what_a_command_printed_up_to_a_second_before_survives_kill_9(
    home: Home, with_server: Callable[..., JupyterServer]
) -> None:
    with_terminals(home)
    server = with_server()
    script = "i=0; while :; do i=$((i+1)); echo $i $(date +%s.%N); sleep 0.05; done"
    async with open_peer(server) as peer:
        await peer.initialize()
        _, chat = await peer.new_chat()
        turn = await peer.start_turn(chat, f"!{script}")
        await peer.action("chat/toolCallContentChanged", chat)
        await asyncio.sleep(3)
        killed = time.time()
        server.kill()

    server.start()
    async with open_peer(server) as peer:
        await peer.initialize()
        (ended,) = await peer.turns(chat)
        assert (ended["id"], ended["state"]) == (turn, "error")
        call = ended["responseParts"][0]["toolCall"]
        assert (call["status"], call["success"]) == ("completed", False)
        assert call["pastTenseMessage"].startswith("Cut off: i=0")
        block = call["content"][0]
        lines = block["result"]["preview"].splitlines()
        assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1)), (
            "nothing is missing"
        )
        assert killed - float(lines[-1].split()[1]) < 3, "a second, and what a loaded machine takes"
        print(f"printed last before the kill: {killed - float(lines[-1].split()[1]):.2f} s")  # noqa: T201
        assert "resumable" not in ended["responseParts"][-1], "it is not run twice unasked"
        terminal = (await peer.request("subscribe", block["resource"]))["snapshot"]["state"]
        assert terminal["lifecycle"] == {"status": "exited"}
        assert lines[-1] in terminal["content"][0]["value"]
