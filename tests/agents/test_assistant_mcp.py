"""MCP servers of the assistant: real programs on the `mcp` package, over stdio and HTTP, in a real host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.assistant.mcp.config import BadServer, expanded, of_directory, parse
from jupyter_ahp.host.ports import Json
from jupyter_ahp.store.memory import MemoryStore
from tests.agents.conftest import MakeAssistant
from tests.agents.desk import PATIENCE, Desk, at_desk
from tests.host.harness import answer_of, until
from tests.mock_model import MockModel

SERVER = str(Path(__file__).with_name("mcp_server.py"))
STDIO = {"command": sys.executable, "args": [SERVER, "stdio"]}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


def write(directory: Path, **servers: Any) -> None:
    (directory / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def started(directory: Path) -> list[int]:
    """The servers that were started here."""
    path = directory / "started.txt"
    return [int(line) for line in path.read_text().split()] if path.is_file() else []


def offered(model: MockModel, request: int = -1) -> list[str]:
    names = [tool["function"]["name"] for tool in model.requests[request].body.get("tools", [])]
    return [name for name in names if name.startswith("mcp__")]


def notices(turn: Json) -> list[str]:
    return [part["content"] for part in turn["responseParts"] if part["kind"] == "systemNotification"]


async def question(desk: Desk) -> Json:
    """The request that waits for an answer."""

    def found() -> list[Json]:
        parts = (desk.client.state(desk.chat).get("activeTurn") or {}).get("responseParts", [])
        return [
            part["request"] for part in parts if part["kind"] == "inputRequest" and "response" not in part
        ]

    await until(found, PATIENCE)
    return found()[0]


async def answer(desk: Desk, value: bool) -> Json:
    """Say yes or no to all that is asked; the request."""
    request = await question(desk)
    answers = {
        each["id"]: {"state": "submitted", "value": {"kind": "boolean", "value": value}}
        for each in request["questions"]
    }
    await desk.client.do(
        desk.chat, "chat/inputCompleted", requestId=request["id"], response="accept", answers=answers
    )
    return request


def assistant_with(make_assistant: MakeAssistant, model: MockModel, **options: Any) -> Any:
    entry = {"id": "mock", "name": "Mock", "base_url": model.base_url, "model": model.model, "vision": True}
    return make_assistant(models=[entry], **options)


# ── A directory's ────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_directorys_server_is_started_when_a_person_says_so_and_never_before(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    write(directory, test={**STDIO, "env": {"MCP_TEST_EXTRA": "this"}})
    store = MemoryStore()
    async with at_desk(assistant_with(make_assistant, model), model, directory, store) as desk:
        await desk.client.start(desk.chat, '!!tool mcp__test__add {"a": 2, "b": 3}\n!!text Five.')
        request = await question(desk)
        assert started(directory) == [], "not before somebody answered"
        assert model.requests == []
        assert f"{SERVER} stdio (with MCP_TEST_EXTRA)?" in request["questions"][0]["message"]
        await answer(desk, True)
        turn = await desk.ended()
        assert answer_of(turn) == "Five."
        assert offered(model) == [f"mcp__test__{name}" for name in ("add", "remember", "fail", "draw", "die")]
        assert desk.results() == ["5"]

        await desk.client.start(
            desk.chat, '!!tool mcp__test__remember {"word": "penguin"}\n!!text Remembered.'
        )
        assert (await desk.asked())["displayName"] == "remember (test)", "it may change something"
        await desk.answer("allow-once")
        await desk.ended(2)
        assert desk.results()[-1] == "I remember penguin, and this."
        assert (directory / "remembered.txt").read_text() == "penguin\n"
        assert len(started(directory)) == 1, "one for the conversation"
    await until(lambda: not os.path.exists(f"/proc/{started(directory)[0]}"), PATIENCE)

    async with at_desk(assistant_with(make_assistant, model), model, directory, store) as again:
        await again.client.start(again.chat, "!!text Hello")
        await again.ended(3)
        assert "mcp__test__add" in offered(model), "allowed in this session, over a restart"
        write(directory, test={**STDIO, "args": [SERVER, "stdio", "changed"]})
        await again.client.start(again.chat, "!!text Hello")
        await answer(again, False)
        await again.ended(4)
        assert offered(model) == [], "another program under the same name asks"


async def test_one_that_a_person_does_not_want_is_not_started_and_not_asked_for_again(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    write(directory, test=STDIO)
    store = MemoryStore()
    async with at_desk(assistant_with(make_assistant, model), model, directory, store) as desk:
        await desk.client.start(desk.chat, "!!text Hello")
        await answer(desk, False)
        await desk.ended()
        await desk.client.start(desk.chat, "!!text Hello")
        await desk.ended(2)
    async with at_desk(assistant_with(make_assistant, model), model, directory, store) as desk:
        await desk.client.start(desk.chat, "!!text Hello")
        await desk.ended(3)
    assert offered(model) == []
    assert started(directory) == []


async def test_several_that_a_person_does_not_want_are_asked_for_once(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    write(directory, one=STDIO, two={**STDIO, "args": [SERVER, "stdio", "two"]})
    async with at_desk(assistant_with(make_assistant, model), model, directory) as desk:
        await desk.client.start(desk.chat, "!!text Hello")
        assert len((await answer(desk, False))["questions"]) == 2
        turn = await desk.ended()
    assert [part["kind"] for part in turn["responseParts"]].count("inputRequest") == 1


async def test_what_a_directorys_server_would_be_given_is_said_and_never_the_servers_own_credentials(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    write(directory, test={**STDIO, "env": {"MCP_TEST_EXTRA": "${JUPYTERHUB_API_TOKEN}"}})
    agent = assistant_with(make_assistant, model, environ={"JUPYTERHUB_API_TOKEN": "secret"})
    async with at_desk(agent, model, directory) as desk:
        await desk.client.start(desk.chat, "!!text Hello")
        request = await answer(desk, True)
        assert "MCP_TEST_EXTRA=${JUPYTERHUB_API_TOKEN}" in request["questions"][0]["message"]
        turn = await desk.ended()
    assert "JUPYTERHUB_API_TOKEN is not set" in notices(turn)[0]
    assert started(directory) == []


async def test_T5_a_stop_while_it_is_asked_starts_nothing(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    write(directory, test=STDIO)
    async with at_desk(assistant_with(make_assistant, model), model, directory) as desk:
        turn = await desk.client.start(desk.chat, "!!text Hello")
        await question(desk)
        await desk.client.do(desk.chat, "chat/turnCancelled", turnId=turn, duration=1)
        assert (await desk.ended())["state"] == "cancelled"
    assert model.requests == []
    assert started(directory) == []


# ── Configured ───────────────────────────────────────────────────────────────────────────────────────────────────
@contextmanager
def remote_server(how: str, directory: Path, port: int = 0) -> Iterator[Json]:
    """A server on loopback, as it is configured; any port, or that one."""
    process = subprocess.Popen(
        [sys.executable, SERVER, how, str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=directory,
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        _reachable(port)
        yield {"type": how, "url": f"http://127.0.0.1:{port}/{'mcp' if how == 'http' else 'sse'}"}
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(params=["http", "sse"])
def remote(request: pytest.FixtureRequest, directory: Path) -> Iterator[Json]:
    with remote_server(request.param, directory) as entry:
        yield entry


def _reachable(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


async def test_a_configured_one_is_reached_over_http_without_asking(
    make_assistant: MakeAssistant, model: MockModel, directory: Path, remote: Json
) -> None:
    agent = assistant_with(make_assistant, model, mcp_servers={"far": remote})
    async with at_desk(agent, model, directory) as desk:
        await desk.client.start(
            desk.chat, '!!and mcp__far__add {"a": 2, "b": 3}\n!!tool mcp__far__fail {}\n!!text Done.'
        )
        assert answer_of(await desk.ended()) == "Done."
        added, failed = desk.results()
        assert added == "5"
        assert "The shelf is empty." in failed


async def test_a_picture_is_for_the_model_and_for_people(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    agent = assistant_with(make_assistant, model, mcp_servers={"test": STDIO})
    async with at_desk(agent, model, directory) as desk:
        await desk.client.start(desk.chat, "!!tool mcp__test__draw {}\n!!text Seen.")
        turn = await desk.ended()
        [block] = turn["responseParts"][0]["toolCall"]["content"]
        assert (block["type"], block["contentType"]) == ("embeddedResource", "image/png")
        assert any("[image/png]" in text for _, text in model.requests[-1].texts)


# ── What goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────
async def test_one_that_fails_costs_its_tools_and_is_said_once(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    ends = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no shelf here')"]}
    servers = {
        "test": STDIO,
        "missing": {"command": "no-such-program"},
        "ends": ends,
        "nowhere": {"url": "http://127.0.0.1:1/mcp"},
        "unset": {"command": "x", "env": {"A": "${NO_SUCH_VARIABLE}"}},
        "odd": {},
    }
    agent = assistant_with(make_assistant, model, mcp_servers=servers)
    async with at_desk(agent, model, directory) as desk:
        await desk.client.start(desk.chat, '!!tool mcp__test__add {"a": 2, "b": 3}\n!!text Five.')
        turn = await desk.ended()
        said = notices(turn)
        assert answer_of(turn) == "Five."
        assert len(said) == 5
        for words in (
            "no program “no-such-program”",
            "no shelf here",
            "nothing answers there",
            "NO_SUCH_VARIABLE is not set",
            "neither a command nor a url",
        ):
            assert any(words in notice for notice in said), (words, said)
        await desk.client.start(desk.chat, "!!text Hello")
        assert notices(await desk.ended(2)) == []


async def test_one_that_dies_is_said_to_the_model_and_started_again_with_the_next_turn(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    agent = assistant_with(make_assistant, model, mcp_servers={"test": STDIO})
    async with at_desk(agent, model, directory) as desk:
        await desk.client.start(desk.chat, "!!tool mcp__test__die {}\n!!text Gone.")
        assert answer_of(await desk.ended()) == "Gone."
        assert "It failed" in desk.results()[-1]
        await desk.client.start(desk.chat, '!!tool mcp__test__add {"a": 2, "b": 3}\n!!text Back.')
        assert answer_of(await desk.ended(2)) == "Back."
        assert desk.results()[-1] == "5"
        assert len(started(directory)) == 2


async def test_one_far_away_that_was_started_again_is_found_again(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    add = '!!tool mcp__far__add {"a": 2, "b": 3}\n!!text Done.'
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    entry = {"url": f"http://127.0.0.1:{port}/mcp"}
    async with at_desk(
        assistant_with(make_assistant, model, mcp_servers={"far": entry}), model, directory
    ) as desk:
        with remote_server("http", directory, port):
            await desk.client.start(desk.chat, add)
            await desk.ended()
        await desk.client.start(desk.chat, add)
        await desk.ended(2)
        assert "the server is gone" in desk.results()[-1]
        with remote_server("http", directory, port):
            await desk.client.start(desk.chat, add)
            await desk.ended(3)
        assert desk.results()[-1] == "5"


async def test_T5_a_stop_while_one_starts_ends_it(
    make_assistant: MakeAssistant, model: MockModel, directory: Path
) -> None:
    code = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(1000)"
    slow = {"command": sys.executable, "args": ["-c", code]}
    agent = assistant_with(make_assistant, model, mcp_servers={"slow": slow})
    async with at_desk(agent, model, directory) as desk:
        turn = await desk.client.start(desk.chat, "!!text Hello")
        pid = directory / "pid"
        await until(lambda: pid.is_file() and pid.read_text(), PATIENCE)
        await desk.client.do(desk.chat, "chat/turnCancelled", turnId=turn, duration=1)
        assert (await desk.ended())["state"] == "cancelled"
        await until(lambda: not os.path.exists(f"/proc/{pid.read_text()}"), PATIENCE)
    assert model.requests == []


# ── What is written down ─────────────────────────────────────────────────────────────────────────────────────────
def test_what_is_wrong_is_said_and_costs_no_other_server(tmp_path: Path) -> None:
    write(
        tmp_path,
        good={"command": "a", "args": ["b"]},
        http={"type": "streamable-http", "url": "https://example.org/mcp"},
        off={"command": "a", "disabled": True},
        socket={"type": "ws", "url": "https://example.org"},
        file={"url": "file:///etc/passwd"},
        text="words",
    )
    specs, problems = of_directory(str(tmp_path))
    assert [(spec.name, spec.kind, spec.trusted) for spec in specs] == [
        ("good", "stdio", False),
        ("http", "http", False),
    ]
    assert len(problems) == 3


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}'])
def test_a_file_that_is_none_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / ".mcp.json").write_text(text)
    specs, problems = of_directory(str(tmp_path))
    assert specs == []
    assert len(problems) == 1
    assert of_directory(str(tmp_path / "nowhere")) == ([], [])


def test_variables_are_of_the_environment() -> None:
    assert expanded("a ${X} ${Y:-z}", {"X": "x"}) == "a x z"
    with pytest.raises(BadServer, match="Y is not set"):
        expanded("${Y}", {})


def test_another_program_under_the_same_name_has_another_key() -> None:
    [first], _ = parse({"a": {"command": "x"}}, where="here")
    [second], _ = parse({"a": {"command": "x", "env": {"K": "v"}}}, where="here")
    assert first.key != second.key
