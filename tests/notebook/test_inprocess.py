"""Chats where there is no server: a script, a kernel of nbconvert's or papermill's, `ipython`, several at once.

Each of these is a process of its own, so what is shown is what people have; and each costs seconds, so they are few.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_ahp import Chat, connect
from jupyter_ahp.inprocess import SAID as SAID_LINE
from tests.mock_model import MockModel
from tests.support.server import Home, JupyterServer

Servers = Callable[..., JupyterServer]
SAID = "No Jupyter Server here"
SAID_WHOLE = SAID_LINE.rstrip("\n")


@pytest.fixture
def model() -> Iterator[MockModel]:
    with MockModel() as model:
        yield model


@pytest.fixture
def env(home: Home) -> dict[str, str]:
    """What a process has that no server started."""
    home.make()
    env = {**home.environment(), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("JUPYTER_AHP_SERVER_INFO", "JPY_PARENT_PID"):
        env.pop(name, None)
    return env


def ran(
    home: Home, env: dict[str, str], *command: str | Path, fails: bool = False
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=home.files,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done


def script(home: Home, text: str, name: str = "script.py") -> Path:
    path = home.files / name
    path.write_text(text)
    return path


SCRIPT = """
import socket, sys, threading

def bind(*_): raise AssertionError("a socket was opened")
socket.socket.listen = socket.socket.bind = bind  # an agent may look for its models

from jupyter_ahp import AsyncChat, Chat

chat = Chat("echo", title="A script's")
print(chat.uri)
print(chat.send("Say this").message.text, chat.state)

answers = []
threads = [threading.Thread(target=lambda n=n: answers.append(chat.fork().send(f"{n}").message.text)) for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(answers), len(chat.chats))

import asyncio
async def main():
    blocking = Chat.open(chat.uri)  # under a loop that runs
    async with AsyncChat.open(chat.uri) as same:
        turn = await same.send("And this")
        print(turn.message.text, len(blocking.turns), len(chat.turns))
    blocking.close()
asyncio.run(main())

if sys.platform != "win32":
    print(repr(chat.send("!echo $((6*7))").output.strip()))
child = chat.queue("before the end").wait()
print(child.state)
"""


def test_a_script_has_a_host_in_its_process_that_a_server_goes_on_with(
    home: Home, env: dict[str, str], with_server: Servers
) -> None:
    done = ran(home, env, script(home, SCRIPT))
    uri, *lines = done.stdout.splitlines()
    assert lines == [
        "Say this idle",
        "['0', '1', '2'] 4",
        "And this 2 2",
        *(["'42'"] if sys.platform != "win32" else []),
        "complete",
    ]
    assert done.stderr.count(SAID) == 1
    assert done.stderr.count("\n") == 1, "and nothing else is said"
    server = with_server()
    with Chat.open(uri, connect(server.url, server.token)) as chat:
        assert chat.title == "A script's"
        assert chat.turns[-1].message.text == "before the end"
        assert chat.send("Here?").text.startswith("Here?")


def test_the_host_ends_with_the_last_chat_and_begins_anew(home: Home, env: dict[str, str]) -> None:
    text = """
import threading, time
from jupyter_ahp import Chat
def ended():
    while hosts(): time.sleep(0.01)  # its thread is about to
    return 0
def hosts(): return sum(thread.name == "jupyter-ahp host" for thread in threading.enumerate())
with Chat("echo") as chat, Chat("echo") as other:
    chat.send("one")
    more = chat.new_chat()
    print(hosts())
print(hosts())
more.close()
print(ended())
with Chat.open(chat.uri) as again:
    print(len(again.turns), again.send("two").state, hosts())
print(ended())
"""
    done = ran(home, env, script(home, text))
    assert done.stdout.split() == ["1", "1", "0", "1", "complete", "1", "0"]
    assert done.stderr.count(SAID) == 1


def test_one_who_leaves_while_it_starts_does_not_end_it_for_the_others(
    home: Home, env: dict[str, str]
) -> None:
    text = """
import asyncio
from jupyter_ahp import AsyncChat

async def main():
    async def opened(): return await AsyncChat("echo")
    leaving, staying = asyncio.create_task(opened()), asyncio.create_task(opened())
    await asyncio.sleep(0.05)
    leaving.cancel()
    chat = await staying
    print(leaving.cancelled(), (await chat.send("x")).state)
    await chat.close()
asyncio.run(main())
"""
    assert ran(home, env, script(home, text)).stdout == "True complete\n"


def test_what_is_left_open_ends_with_the_process_and_a_fork_has_a_host_of_its_own(
    home: Home, env: dict[str, str]
) -> None:
    text = """
import asyncio, multiprocessing, os, signal, threading
from jupyter_ahp import AsyncChat, Chat

async def main():
    print((await AsyncChat("echo").send("left open")).state)

def child():
    try: chat.send("not mine")
    except RuntimeError: print("opened elsewhere", flush=True)
    with Chat("echo") as own: print("child", own.send("mine").state, flush=True)

asyncio.run(main())
chat = Chat("echo")
print(chat.send("here").state, flush=True)
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
print(process.exitcode)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try: chat.send("!sleep 60")
except KeyboardInterrupt: print(chat.turns[-1].state, chat.send("on").state)
"""
    done = ran(home, env, script(home, text))
    assert done.stdout.splitlines() == [
        "complete",
        "complete",
        "opened elsewhere",
        "child complete",
        "0",
        "cancelled complete",
    ]
    assert done.stderr.splitlines() == [SAID_WHOLE] * 2, "once each, and nothing else"


def test_the_end_of_the_process_ends_what_runs_so_that_it_can_be_resumed(
    home: Home, env: dict[str, str], model: MockModel
) -> None:
    env |= {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
    text = r"""
import time
from jupyter_ahp import Chat
chat = Chat("assistant")
chat.queue("Go on\n!!text begun\n!!hang")
while "begun" not in "".join(turn.text for turn in chat.turns): time.sleep(0.02)
print(chat.uri)
"""
    done = ran(home, env, script(home, text))
    look = f"""
from jupyter_ahp import Chat
chat = Chat.open({done.stdout.strip()!r})
print(chat.state, chat.turns[0].text.split()[0], chat.turns[0].error.resumable)
"""
    assert ran(home, env, script(home, look)).stdout.split() == ["failed", "begun", "True"]


def test_three_processes_share_a_store_and_each_has_its_own_sessions(home: Home, env: dict[str, str]) -> None:
    text = """
import sys
from jupyter_ahp import Chat
chat = Chat("echo")
print(chat.uri, chat.send(f"mine").state, flush=True)
sys.stdin.readline()
print(chat.send("still mine").state)
"""
    path = script(home, text)
    started = [
        subprocess.Popen(
            [sys.executable, path],
            cwd=home.files,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        said = [process.stdout.readline().split() for process in started if process.stdout]
        assert [state for _, state in said] == ["complete"] * 3
        look = f"""
from jupyter_ahp import Chat, Refused
chat = Chat.open({said[0][0]!r})
print(len(chat.turns))
try: chat.send("theirs")
except Refused as refusal: print(refusal)
"""
        turns, refusal = ran(home, env, script(home, look, "look.py")).stdout.splitlines()
        assert turns == "1"
        assert str(started[0].pid) in refusal
        ends = [process.communicate("\n", timeout=60) for process in started]
        assert [out.split() for out, _ in ends] == [["complete"]] * 3
        assert [process.returncode for process in started] == [0] * 3
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_it_has_the_agents_that_a_server_has(home: Home, env: dict[str, str], model: MockModel) -> None:
    config = f"""
c.AHPExtension.agents = ["echo", "assistant"]
c.AHPExtension.default_agent = "assistant"
c.AssistantAgent.models = [{{"id": "mock", "name": "Mock", "base_url": {model.base_url!r}, "model": "m"}}]
"""
    (home.config / "jupyter_server_config.py").write_text(config)
    text = (
        "from jupyter_ahp import Chat\nchat = Chat()\nprint(chat.agent, chat.send('!!text configured').text)"
    )
    text = text.replace("'!!", "'Say\\n!!")
    assert ran(home, env, script(home, text)).stdout == "assistant configured\n"


def test_where_nobody_can_be_asked_a_tool_that_asks_ends_the_turn(
    home: Home, env: dict[str, str], model: MockModel
) -> None:
    env |= {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
    text = """
from pathlib import Path
from jupyter_ahp import Chat, NeedsApproval
words = 'Write\\n!!tool write_file {"path": "a.txt", "content": "x"}\\n!!text Written.'
try:
    Chat("assistant").send(words)
except NeedsApproval as needs:
    print(needs.waited.name, needs.turn.state, Path("a.txt").exists())
print(Chat("assistant", approve="session-directories").send(words).text, Path("a.txt").read_text())
"""
    done = ran(home, env, script(home, text))
    assert done.stdout.splitlines() == ["write_file cancelled False", "Written. x"]


def test_a_host_that_cannot_start_says_why(home: Home, env: dict[str, str]) -> None:
    (home.config / "jupyter_server_config.py").write_text("c.AHPExtension.data_dir = '/dev/null/there'")
    done = ran(home, env, script(home, "from jupyter_ahp import Chat\nChat('echo')"), fails=True)
    assert "NoHost: No Jupyter Server here, and no agent host can start in this process: " in done.stderr
    assert "/dev/null/there" in done.stderr.splitlines()[-1]


# ── notebooks ────────────────────────────────────────────────────────────────────────────────────────────────────
CELLS = (
    "question = 'Is it kept?'",
    "from jupyter_ahp import Chat\nchat = Chat('echo')\nturn = chat.send(question)\nprint(turn.message.text)",
    "from jupyter_ahp.notebook.cells import notebook_path\nassert notebook_path() is None\nturn",
)


@pytest.fixture
def written(home: Home) -> Path:
    cells: list[Any] = [nbformat.v4.new_code_cell(source) for source in CELLS]  # type: ignore[no-untyped-call]
    cells[0].metadata["tags"] = ["parameters"]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})  # type: ignore[no-untyped-call]
    path = home.root / "chat.ipynb"
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
    return path


def outputs(path: Path) -> list[Any]:
    cells = json.loads(path.read_text())["cells"]
    assert not [out for cell in cells for out in cell["outputs"] if out["output_type"] == "error"]
    return [out for cell in cells for out in cell["outputs"]]


def printed(path: Path) -> str:
    found = [out for out in outputs(path) if out.get("name") == "stdout"]
    return "".join("".join(out["text"]) for out in found)


def test_nbconvert_runs_it(home: Home, env: dict[str, str], written: Path) -> None:
    out = home.root / "converted.ipynb"
    ran(home, env, "-m", "nbconvert", "--to", "notebook", "--execute", "--output", out, written)
    assert printed(out) == "Is it kept?\n"
    assert SAID in json.dumps(outputs(out))
    assert "text/markdown" in outputs(out)[-1]["data"]


def test_papermill_runs_it_with_parameters(home: Home, env: dict[str, str], written: Path) -> None:
    out = home.root / "milled.ipynb"
    ran(home, env, "-m", "papermill", "-k", "python3", "-p", "question", "And this?", written, out)
    assert printed(out) == "And this?\n"


def test_ipython_runs_it(home: Home, env: dict[str, str]) -> None:
    path = script(home, "\n".join(CELLS[:2]))
    done = ran(home, env, "-m", "IPython", "--no-banner", "--colors=nocolor", path)
    assert done.stdout == "Is it kept?\n"


def test_a_kernel_of_another_process_is_not_of_the_server_that_runs_beside_it(
    home: Home, env: dict[str, str], with_server: Servers, written: Path
) -> None:
    """nbconvert in a terminal of a server: its kernel inherits the path of that server's file, and is not its own."""
    server = with_server(home=Home(home.root / "other"))
    info = server.home.runtime / f"jpserver-{server.pid}.json"
    out = home.root / "converted.ipynb"
    env |= {"JUPYTER_AHP_SERVER_INFO": os.fspath(info), "JPY_SESSION_NAME": "/somewhere/else.ipynb"}
    ran(home, env, "-m", "nbconvert", "--to", "notebook", "--execute", "--output", out, written)
    assert SAID in json.dumps(outputs(out))
    assert server.get_json("ahp/status")["sessions"] == 0
