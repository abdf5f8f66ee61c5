"""Terminals of the host are Jupyter Server's: in its list, open to its clients, off where it has none (M5)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.asyncio.client import connect

from jupyter_ahp import Chat
from jupyter_ahp import connect as connect_to
from tests.support.server import Home, JupyterServer
from tests.support.wire import Json, Peer, RpcError, open_peer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals on Windows")


def with_terminals(home: Home) -> Home:
    """Servers of the tests have no extension but ours, unless a test wants one."""
    home.make()
    wanted = {"ServerApp": {"jpserver_extensions": {"jupyter_server_terminals": True}}}
    (home.config / "jupyter_server_config.d" / "terminals.json").write_text(json.dumps(wanted))
    return home


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    home = with_terminals(Home(tmp_path_factory.mktemp("home")))
    server = JupyterServer(home, base_url="/user/mia/").start()
    yield server
    server.stop()


def listed(server: JupyterServer) -> list[str]:
    return [terminal["name"] for terminal in server.get_json("api/terminals")]


async def running(peer: Peer, text: str) -> tuple[str, str, str]:
    """A command that runs: its chat, its turn and its terminal."""
    _, chat = await peer.new_chat()
    turn = await peer.start_turn(chat, text)
    content = (await peer.action("chat/toolCallContentChanged", chat))["content"]
    await peer.request("subscribe", content[0]["resource"])
    return chat, turn, content[0]["resource"]


async def stop(peer: Peer, chat: str, turn: str) -> None:
    await peer.dispatch(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 1})
    await peer.action("chat/turnCancelled", chat)


async def gone(server: JupyterServer) -> None:
    for _ in range(40):
        if not await asyncio.to_thread(listed, server):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"still in the server's list: {listed(server)}")


async def test_M5_a_command_is_a_terminal_of_the_server_while_it_runs(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        assert (await peer.initialize())["terminalCommandPrefix"] == "!"
        chat, turn, _ = await running(peer, "!sleep 60")
        (name,) = listed(server)

        await stop(peer, chat, turn)

        await gone(server)
        assert name.startswith("ahp_")


async def test_M5_its_output_is_the_turns_and_its_end_is_known(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        _, chat = await peer.new_chat()
        await peer.start_turn(chat, "!seq 30000; exit 3")
        await peer.action("chat/turnComplete", chat)

        (turn,) = await peer.turns(chat)
        result = turn["responseParts"][0]["toolCall"]["content"][0]["result"]
        assert (result["exitCode"], result["preview"].split()[-1]) == (3, "30000")
        await gone(server)


async def test_what_one_types_in_lab_and_what_one_types_here_goes_to_the_same_shell(
    server: JupyterServer,
) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        terminal = "ahp-terminal:/both"
        claim = {"kind": "client", "clientId": peer.client_id}
        await peer.request("createTerminal", terminal, claim=claim)
        await peer.request("subscribe", terminal)
        (name,) = listed(server)
        url = server.ws_url.removesuffix("ahp") + f"terminals/websocket/{name}?token={server.token}"
        async with connect(url, proxy=None) as lab:
            await lab.send(json.dumps(["stdin", "echo from''-lab\r"]))
            await peer.until(data("from-lab"))
            await peer.dispatch(terminal, {"type": "terminal/input", "data": "echo from''-here\r"})
            async with asyncio.timeout(10):
                while "from-here" not in str(await lab.recv()):
                    pass
            await lab.send(json.dumps(["stdin", "exit\r"]))
        await peer.action("terminal/exited", terminal)
        await peer.request("disposeTerminal", terminal)


def data(words: str) -> Callable[[Json], bool]:
    said = ""

    def matches(envelope: Json) -> bool:
        nonlocal said
        action: Json = envelope.get("params", {}).get("action", {})
        said += action.get("data", "") if action.get("type") == "terminal/data" else ""
        return words in said

    return matches


@pytest.mark.parametrize("option", ["--AHPExtension.terminals=False", "--ServerApp.terminals_enabled=False"])
async def test_M5_where_they_are_off_a_command_is_plain_text(
    home: Home, with_server: Callable[..., JupyterServer], option: str
) -> None:
    with_terminals(home)
    server = with_server(args=[option])
    async with open_peer(server) as peer:
        hello: dict[str, Any] = await peer.initialize()
        assert "terminalCommandPrefix" not in hello
        _, chat = await peer.new_chat()
        await peer.start_turn(chat, "!ls")
        await peer.action("chat/turnComplete", chat)
        (turn,) = await peer.turns(chat)
        assert turn["responseParts"][0]["content"].startswith("!ls")
        claim = {"kind": "client", "clientId": peer.client_id}
        with pytest.raises(RpcError) as refused:
            await peer.request("createTerminal", "ahp-terminal:/t", claim=claim)
        assert refused.value.code == -32601


def test_M5_python_sends_a_command_and_has_what_it_said(server: JupyterServer) -> None:
    with Chat("echo", host=connect_to(server.url, server.token)) as chat:
        turn = chat.send("!echo one; exit 4")
        assert (turn.state, turn.output, turn.exit_code) == ("complete", "one", 4)
        assert chat.send("hi").output is None
