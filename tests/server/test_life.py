"""A server's life: what survives it, what counts as activity, what it starts and when."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ROOT, Home, JupyterServer
from tests.support.wire import open_peer


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_chat_is_there_again_after_the_server(
    with_server: Callable[..., JupyterServer], how: str
) -> None:
    """Sessions, chats, turns, titles, drafts and marks: after Ctrl C and after `kill -9`."""
    server = with_server()
    async with open_peer(server) as peer:
        await peer.initialize()
        session, chat = await peer.new_chat()
        await peer.start_turn(chat, "Remember this")
        await peer.action("chat/turnComplete", chat)
        await peer.dispatch(session, {"type": "session/titleChanged", "title": "Kept"})
        await peer.action("session/titleChanged", session)
        await peer.dispatch(session, {"type": "session/isArchivedChanged", "isArchived": True})
        await peer.action("session/isArchivedChanged", session)
        draft = {"text": "half a thought", "origin": {"kind": "user"}}
        await peer.dispatch(chat, {"type": "chat/draftChanged", "draft": draft})
        await peer.action("chat/draftChanged", chat)
        await asyncio.sleep(1.2)  # A draft is on disk within a second.
        before = await peer.chat_state(chat)
        sequence = (await peer.request("subscribe", chat))["snapshot"]["fromSeq"]

    getattr(server, how)()
    server.start()
    async with open_peer(server) as peer:
        hello = await peer.initialize()
        assert hello["serverSeq"] >= sequence
        rows = (await peer.request("listSessions"))["items"]
        row = next(row for row in rows if row["resource"] == session)
        assert row["title"] == "Kept"
        assert row["status"] & 64
        after = await peer.chat_state(chat)
        assert after["turns"] == before["turns"]
        assert after["turns"][0]["message"]["text"] == "Remember this"
        assert after["draft"]["text"] == "half a thought"


async def test_a_running_turn_is_activity_and_a_connection_is_not(
    with_server: Callable[..., JupyterServer],
) -> None:
    server = with_server()

    def last_activity() -> str:
        value: str = server.get_json("api/status?no_track_activity=1")["last_activity"]
        return value

    async with open_peer(server) as peer:
        await peer.initialize()
        session, chat = await peer.new_chat()
        before = last_activity()
        await asyncio.sleep(0.05)
        await peer.request("listSessions")
        await peer.dispatch(session, {"type": "session/titleChanged", "title": "No work is done"})
        await peer.action("session/titleChanged", session)
        server.get_json("ahp/status")
        assert last_activity() == before
        await peer.start_turn(chat, "Work")
        await peer.action("chat/turnComplete", chat)
        assert last_activity() > before


def test_starting_the_server_starts_nothing_of_ours(with_server: Callable[..., JupyterServer]) -> None:
    server = with_server()
    assert "jupyter_ahp | extension was successfully loaded" in server.log
    assert not (server.home.data / "ahp").exists()
    server.stop()
    assert "Traceback" not in server.log


def test_the_status_page_says_what_runs_and_no_secret(server: JupyterServer) -> None:
    status, body, headers = server.request("ahp/status")
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    page = json.loads(body)
    assert page["version"]
    assert "^1.0.0" in page["protocolVersions"]
    echo = next(agent for agent in page["agents"] if agent["provider"] == "echo")
    assert echo["ready"] is True
    assert {"sessions", "connections", "runningTurns"} <= page.keys()
    assert str(server.token) not in body
    assert server.request("ahp/status", headers={})[0] == 403


async def test_only_the_agents_that_are_named_are_served(with_server: Callable[..., JupyterServer]) -> None:
    server = with_server(args=["--AHPExtension.agents=echo"])
    assert [agent["provider"] for agent in server.get_json("ahp/status")["agents"]] == ["echo"]


def test_a_store_that_cannot_be_opened_is_said_and_the_server_goes_on(
    home: Home, with_server: Callable[..., JupyterServer]
) -> None:
    home.make()
    (home.data / "ahp").write_text("a file where the store's folder should be")
    server = with_server()
    status, body, _ = server.request("ahp/status")
    assert status == 503
    assert "could not start" in json.loads(body)["message"]
    assert str(home.data / "ahp") in server.log
    assert server.request("api")[0] == 200
    (home.data / "ahp").unlink()
    assert server.request("ahp/status")[0] == 200  # The next request tries again.


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads a kernel's environment from /proc")
def test_a_kernel_is_told_where_its_server_says_its_address(server: JupyterServer) -> None:
    xsrf = {"Authorization": f"token {server.token}"}
    status, body, _ = server.request("api/kernels", headers=xsrf, body=b"{}")
    assert status == 201, body
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    told = [
        entry.partition("=")[2]
        for child in children
        for entry in Path(f"/proc/{child}/environ").read_bytes().decode().split("\0")
        if entry.startswith("JUPYTER_AHP_SERVER_INFO=")
    ]
    assert told
    info = json.loads(Path(told[0]).read_text())
    assert info["pid"] == server.pid
    assert info["token"] == server.token
    assert os.stat(told[0]).st_mode & 0o077 == 0


HEAVY = {
    "anthropic",
    "anywidget",
    "httpx",
    "IPython",
    "jupyterlab",
    "msgspec",
    "openai",
    "pydantic",
    "pydantic_ai",
    "websockets",
    "xllamacpp",
}


@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("jupyter_ahp", {"jupyter_server", "tornado", "traitlets"}),
        ("jupyter_ahp.app", {"jupyter_ahp.host.host", "jupyter_ahp.agents", "jupyter_ahp.store"}),
    ],
)
def test_importing_is_light(module: str, more: set[str]) -> None:
    """Its time is measured in `bench/`; what would cost it is named here."""
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    loaded: list[Any] = json.loads(output)
    assert (HEAVY | more).isdisjoint(loaded)
