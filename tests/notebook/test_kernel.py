"""Chats in the cells of real kernels, of real servers and of none."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from jupyter_ahp import Chat, connect
from jupyter_ahp.notebook.chat import CHAT_MIME
from tests.mock_model import MockModel
from tests.notebook.kernels import Kernel
from tests.support.server import ROOT, TOKEN, Home, JupyterServer

Json = dict[str, Any]
Servers = Callable[..., JupyterServer]

WIDGET = "application/vnd.jupyter.widget-view+json"
BUNDLE = """
import pathlib, tempfile
from jupyter_ahp.notebook import widget
widget.STATIC = pathlib.Path(tempfile.mkdtemp())
for name in ("widget.js", "widget.css"):
    (widget.STATIC / name).write_text("// a front end in name only")
"""


SLOW = r"Take your time\n!!chunks 400 0.05"
"""A message that the assistant's model takes 20 s to answer."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One for all: each test makes chats of its own."""
    with MockModel() as model:
        env = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "for-tests"}
        server = JupyterServer(Home(tmp_path_factory.mktemp("home")), base_url="/user/mia/", env=env)
        server.start()
        try:
            with Kernel(server) as kernel:
                yield kernel
        finally:
            server.stop()


def test_a_kernel_talks_to_its_own_server(kernel: Kernel) -> None:
    kernel.run("from jupyter_ahp import *\nchat = Chat('echo')")
    [result] = [m for m in kernel.run("chat.send('Say *this*')") if m["msg_type"] == "execute_result"]
    data = result["content"]["data"]
    assert data["text/markdown"].startswith("Say *this*")
    assert "Say <em>this</em>" in data["text/html"]
    assert data["text/plain"].startswith("Turn(complete, 'Say *this*")
    assert TOKEN not in kernel.printed("import os; print(dict(os.environ))")


def test_of_three_servers_it_is_the_kernels_own(home: Home, with_server: Servers) -> None:
    servers = [with_server() for _ in range(3)]
    with Kernel(servers[1]) as kernel:
        kernel.run("from jupyter_ahp import *\nchat = Chat('echo')\nchat.send('Whose?')")
        assert [server.get_json("ahp/status")["connections"] for server in servers] == [0, 1, 0]


def test_a_cell_may_await(kernel: Kernel) -> None:
    code = """
from jupyter_ahp import AsyncChat
async with AsyncChat("echo") as chat:
    async for part in chat.stream("one two"):
        pass
    print((await chat.send("three")).text.split()[0], len(chat.turns))
"""
    assert kernel.printed(code) == "three 2\n"


def test_cells_and_the_last_error_are_attached(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("from jupyter_ahp import *")
    ran = kernel.run("print('printed')\n6 * 7")
    (number,) = [m["content"]["execution_count"] for m in ran if m["msg_type"] == "execute_input"]
    said = kernel.printed(f"[said] = Cell({number})._ahp_attachments_(); print(said.text)")
    assert "print('printed')\n6 * 7" in said
    assert "It put out:\n\nprinted" in said
    assert "It put out:\n\n42" in said
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        kernel.run("1 / 0")
    told = "chat = Chat('echo'); turn = chat.send('Why?', last_error()); print(turn.message.attachments[0])"
    assert "ZeroDivisionError: division by zero" in kernel.printed(told)
    with pytest.raises(AssertionError, match=r"No cell \[999\] was run in this kernel"):
        kernel.run("Cell(999)")

    saved = notebook("x")
    saved.cells[0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "on disk"}]
    (tmp_path / "saved.ipynb").write_text(json.dumps(saved))
    kernel.run(f"import os; os.environ['JPY_SESSION_NAME'] = {str(tmp_path / 'saved.ipynb')!r}")
    assert "on disk" in kernel.printed("print(Cell(id='cell-0')._ahp_attachments_()[0].text)")
    with pytest.raises(AssertionError, match="has the id none; is it saved"):
        kernel.run("Cell(id='none')")
    kernel.run("del os.environ['JPY_SESSION_NAME']")


def test_a_script_in_a_cell_finds_the_same_server(kernel: Kernel) -> None:
    code = """
import subprocess, sys
script = "from jupyter_ahp import Chat; print(Chat('echo').send('hello').message.text)"
print(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True))
"""
    assert "stdout='hello\\n', stderr=''" in kernel.printed(code)


def test_interrupting_the_kernel_stops_the_turn(kernel: Kernel) -> None:
    kernel.run("from jupyter_ahp import *\nchat = Chat('assistant')")
    uri = kernel.printed("print(chat.uri)").strip()
    request = kernel.client.execute(f"chat.send('{SLOW}')")
    with Chat.open(uri, connect(kernel.server.url, TOKEN)) as watched:
        give_up = time.monotonic() + 30
        while not (watched.turns and "c1 " in watched.turns[0].text):
            assert time.monotonic() < give_up
            time.sleep(0.05)
        kernel.interrupt()
        with pytest.raises(AssertionError, match="KeyboardInterrupt"):
            kernel.outputs(request, 10)
        assert [turn.state for turn in watched.turns] == ["cancelled"]
    assert kernel.printed("print(chat.state, chat.send('short').state)") == "idle complete\n"


def test_a_long_wait_shows_one_line_that_changes(kernel: Kernel) -> None:
    kernel.run("from jupyter_ahp import *\nchat = Chat('assistant')")
    messages = kernel.run(f"try: chat.send('{SLOW}', timeout=3.2)\nexcept TimeoutError as e: print(e)")
    shown = [m for m in messages if "display_data" in m["msg_type"]]
    assert shown[0]["msg_type"] == "display_data"
    assert {m["msg_type"] for m in shown[1:]} == {"update_display_data"}
    lines = [m["content"]["data"]["text/plain"] for m in shown]
    assert re.search(r", \d s$", lines[0])
    assert re.fullmatch(r"Ended after \d s", lines[-1])


def test_the_answer_is_shown_as_it_grows_and_then_as_the_result(kernel: Kernel) -> None:
    kernel.run("from jupyter_ahp import *\nchat = Chat('assistant'); chat.send('short')")
    messages = kernel.run(r"chat.send('Go on\n!!chunks 80 0.05')")
    shown = [m["content"]["data"] for m in messages if "display_data" in m["msg_type"]]
    assert any("c9 " in data.get("text/markdown", "") for data in shown)
    assert re.fullmatch(r"Answered in \d+ s", shown[-1]["text/plain"])
    assert "text/markdown" not in shown[-1]
    (result,) = [m["content"]["data"] for m in messages if m["msg_type"] == "execute_result"]
    assert result["text/markdown"].rstrip().endswith("c79")


def test_the_widget_streams_through_a_busy_kernel(kernel: Kernel) -> None:
    """A page that cannot reach the server: what it said before the cell is answered while the cell runs."""
    kernel.run(BUNDLE + "from jupyter_ahp import *\nchat = Chat('echo')")
    messages = kernel.run("chat")
    [shown] = [m["content"]["data"] for m in messages if m["msg_type"] == "execute_result"]
    assert set(shown) == {"text/plain", "text/html", WIDGET, CHAT_MIME}
    [opened] = [
        m["content"]
        for m in messages
        if m["msg_type"] == "comm_open" and "chat_uri" in m["content"]["data"]["state"]
    ]
    comm = opened["comm_id"]
    assert comm == shown[WIDGET]["model_id"]
    chat_uri = opened["data"]["state"]["chat_uri"]

    def to_kernel(**content: Any) -> None:
        data = {"method": "custom", "content": {**content, "id": "a-view"}}
        client = kernel.client
        client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": comm, "data": data}))

    def frame(method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        to_kernel(type="frame", text=json.dumps(message if number is None else {**message, "id": number}))

    def next_from_page(matches: Callable[[Json], bool]) -> Json:
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up:
            message = kernel.client.get_iopub_msg(timeout=20)
            if message["msg_type"] != "comm_msg" or message["content"]["comm_id"] != comm:
                continue
            content: Json = message["content"]["data"].get("content", {})
            if content.get("type") == "frame" and matches(json.loads(content["text"])):
                found: Json = json.loads(content["text"])
                return found
        raise AssertionError("the page was told nothing")

    to_kernel(type="open")
    hello = {"protocolVersions": ["1.0.0"], "clientId": "page", "initialSubscriptions": [chat_uri]}
    frame("initialize", 1, channel="ahp-root://", **hello)
    assert next_from_page(lambda m: m.get("id") == 1)["result"]["snapshots"][0]["resource"] == chat_uri
    message = {"text": "from the page", "origin": {"kind": "user"}}
    start = {"type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-01-01T00:00:00.000Z"}
    frame("dispatchAction", channel=chat_uri, clientSeq=1, action={**start, "message": message})
    began = time.monotonic()
    busy = kernel.client.execute("import time; time.sleep(6)")
    next_from_page(lambda m: m.get("params", {}).get("action", {}).get("type") == "chat/turnComplete")
    assert time.monotonic() - began < 5
    kernel.outputs(busy)
    assert kernel.printed("print(chat.turns[-1].message.text)") == "from the page\n"
    fallback = kernel.printed("print(chat.widget.fallback)")
    assert "from the page" in fallback


@pytest.fixture
def no_server(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """What nbconvert and papermill have: a kernel that they start themselves."""
    home.make()
    for name, value in home.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return home


def notebook(*cells: str) -> Any:
    written: Json = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    made = [{**written, "id": f"cell-{index}", "source": source} for index, source in enumerate(cells)]
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}
    return nbformat.from_dict(whole)  # type: ignore[no-untyped-call]


def test_a_notebook_without_a_front_end_runs_and_keeps_the_transcript(
    no_server: Home, with_server: Servers, tmp_path: Path
) -> None:
    server = with_server()
    ran = notebook(
        BUNDLE
        + f"from jupyter_ahp import *\nchat = Chat('echo', host=connect({server.url!r}, {server.token!r}))",
        "turn = chat.send('Is it <kept>?')",
        "chat",
    )
    NotebookClient(ran, timeout=60).execute()
    data = ran.cells[2].outputs[0]["data"]
    assert "Is it &lt;kept&gt;?" in data["text/html"]
    assert WIDGET in data
