"""The tools of a turn reach an ACP agent as an MCP server: a program that it starts, which talks to us."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from acp import RequestError

from jupyter_ahp.agents.acp.bridge import Bridge
from jupyter_ahp.agents.acp.callbacks import Callbacks
from jupyter_ahp.agents.acp.calls import Place
from jupyter_ahp.agents.acp.terminals import Terminals
from jupyter_ahp.agents.acp.turn import Turn
from jupyter_ahp.agents.base import ImageBlock, Json, Prompt, Tool, ToolCall, ToolResult
from tests.agents.acp.conftest import MakeRoom
from tests.agents.acp.room import Room, calls_of
from tests.agents.recording import RecordingSink, until


async def test_a_tool_of_the_hosts_is_listed_and_called(room: Room) -> None:
    turn = await room.say('!!tool jupyter__rename_chat {"title": "Medians"}\n!!text done')
    [call] = calls_of(turn)
    assert (call["toolName"], call["status"], call["success"]) == ("rename_chat", "completed", True)
    assert call["displayName"] == "Rename this chat"
    assert room.client.state("ahp-session:/s")["chats"][0]["title"] == "Medians"
    told = room.told()[-1]
    assert told.startswith("done: ")
    assert "rename_chat" in told.partition("(of ")[2]


async def test_the_agent_is_answered_for_our_tools_and_they_ask_themselves(make_room: MakeRoom) -> None:
    """Its own question about one of them would be the second about the same thing."""
    room = await make_room(env={"AGENT_ASKS_FOR_MCP": "1"})
    turn = await room.say('!!tool jupyter__rename_chat {"title": "Medians"}\n!!text done')
    assert [call["toolName"] for call in calls_of(turn)] == ["rename_chat"]
    assert room.client.state("ahp-session:/s")["chats"][0]["title"] == "Medians"
    await room.leave()


# ── The server by itself ─────────────────────────────────────────────────────────────────────────────────────────────
class Adder(Tool):
    name = "add"
    title = "Add"
    description = "Adds two numbers"
    parameters: Json = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
    effects = "write"

    async def call(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        answer = await call.confirm("Add", title="Add?")
        if not answer.approved:
            return ToolResult("The person does not want that.", failed=True)
        total = arguments["a"] + arguments["b"]
        call.done(f"Added up to {total}")
        return ToolResult(
            str(total), structured={"total": total}, images=[ImageBlock("dot", "image/png", b"dot")]
        )


class Program:
    """An agent's end: the program that it was told to start, spoken to in MCP."""

    def __init__(self, bridge: Bridge, env: Mapping[str, str] | None = None) -> None:
        server = bridge.server
        given = {variable.name: variable.value for variable in server.env} if env is None else env
        self.process = subprocess.Popen(
            [server.command, *server.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **given},
        )
        self.notes: list[Json] = []
        self.answers: dict[int, Json] = {}

    def say(self, method: str, number: int | None = None, **params: Any) -> None:
        assert self.process.stdin is not None
        message: Json = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    async def answer(self, number: int) -> Json:
        assert self.process.stdout is not None
        while number not in self.answers:
            line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), 20)
            message = json.loads(line)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.notes.append(message)
        return self.answers[number]

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(20) is not None
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


class Bench:
    """A turn with one tool, and an agent that has started the server."""

    def __init__(self) -> None:
        self.sink = RecordingSink()
        self.terminals = Terminals(lambda terminal_id: None)
        self.turn: Turn | None = Turn(
            self.sink, Prompt("t1", "", tools=[Adder()]), Place("/", self.terminals), title="Puppet"
        )
        self.bridge = Bridge(lambda: self.turn)

    @property
    def call(self) -> Json:
        [part] = self.sink.parts
        call: Json = part["toolCall"]
        return call

    def allow(self, approved: bool) -> None:
        from jupyter_ahp.agents.base import Confirmation

        self.sink.confirmed(self.call["toolCallId"], Confirmation(approved))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.bridge.offer([Adder()])
    yield bench
    await bench.bridge.close()


async def test_it_speaks_mcp(bench: Bench) -> None:
    program = Program(bench.bridge)
    program.say("initialize", 1, protocolVersion="2025-03-26", capabilities={}, clientInfo={})
    assert (await program.answer(1))["result"]["protocolVersion"] == "2025-03-26"
    program.say("notifications/initialized")
    program.say("tools/list", 2)
    [listed] = (await program.answer(2))["result"]["tools"]
    assert (listed["name"], listed["title"], listed["annotations"]) == ("add", "Add", {"readOnlyHint": False})
    assert listed["inputSchema"] == Adder.parameters
    program.say("ping", 3)
    assert (await program.answer(3))["result"] == {}
    program.say("resources/list", 4)
    assert (await program.answer(4))["error"]["code"] == -32601

    await bench.bridge.offer([])
    program.say("tools/list", 5)
    assert (await program.answer(5))["result"]["tools"] == []
    assert [note["method"] for note in program.notes] == ["notifications/tools/list_changed"]
    program.end()


async def test_a_call_waits_for_a_person_and_says_that_it_lives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_ahp.agents.acp.bridge._STILL", 0.01)
    program = Program(bench.bridge)
    program.say("tools/call", 1, name="add", arguments={"a": 1, "b": 2}, _meta={"progressToken": "t"})
    await until(lambda: bool(bench.sink.parts), 20)
    assert bench.call["status"] == "pending-confirmation"
    program.say("ping", 2)
    await program.answer(2)
    bench.allow(True)
    result = (await program.answer(1))["result"]
    assert result["structuredContent"] == {"total": 3}
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert result["isError"] is False
    assert bench.call["pastTenseMessage"] == "Added up to 3"
    assert {note["params"]["progressToken"] for note in program.notes} <= {"t"}
    program.end()


async def test_a_denial_a_stop_and_no_turn_are_results(bench: Bench) -> None:
    program = Program(bench.bridge)
    program.say("tools/call", 1, name="add", arguments={})
    await until(lambda: bool(bench.sink.parts), 20)
    bench.allow(False)
    denied = (await program.answer(1))["result"]
    assert (denied["isError"], denied["content"][0]["text"]) == (True, "The person does not want that.")

    program.say("tools/call", 2, name="subtract", arguments={})
    assert "no tool 'subtract'" in (await program.answer(2))["result"]["content"][0]["text"]

    program.say("tools/call", 3, name="add", arguments={})
    await until(lambda: len(bench.sink.parts) == 2, 20)
    bench.sink.end()
    assert (await program.answer(3))["result"]["content"][0]["text"] == "The turn was stopped."

    bench.turn = None
    program.say("tools/call", 4, name="add", arguments={})
    assert (await program.answer(4))["result"]["content"][0]["text"] == "No turn runs that could call it."
    program.end()


async def test_without_the_secret_nothing_is_answered(bench: Bench) -> None:
    port = next(variable.value for variable in bench.bridge.server.env if variable.name.endswith("PORT"))
    program = Program(bench.bridge, {"JUPYTER_AHP_TOOLS_PORT": port, "JUPYTER_AHP_TOOLS_SECRET": "guessed"})
    assert await asyncio.to_thread(program.process.wait, 20) == 0
    assert program.process.stdout is not None
    assert program.process.stdout.read() == b""
    program.end()


async def test_the_program_ends_with_the_conversation(bench: Bench) -> None:
    program = Program(bench.bridge)
    program.say("ping", 1)
    await program.answer(1)
    await bench.bridge.close()
    assert await asyncio.to_thread(program.process.wait, 20) == 0
    program.end()
    late = Program(bench.bridge) if bench.bridge._listening and bench.bridge._listening.sockets else None
    assert late is None


def test_the_program_needs_nothing_but_python() -> None:
    """Run by its path, without what is installed: it says what is missing instead of failing in the dark."""
    from jupyter_ahp.agents.acp import mcp_proxy

    done = subprocess.run(
        [sys.executable, "-I", "-S", mcp_proxy.__file__],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={},
    )
    assert done.returncode == 1
    assert "tools cannot be reached" in done.stderr


async def test_a_command_that_prints_without_end_leaves_the_event_loop_to_others(tmp_path: Path) -> None:
    terminals = Terminals(lambda terminal_id: None)
    job = terminals.job(await terminals.start("yes", (), {}, str(tmp_path), None))
    took, take = 0, job._took

    def taken(said: bytes) -> None:
        nonlocal took
        took += 1
        take(said)

    job._took = taken  # type: ignore[method-assign]
    await until(lambda: took > 0, 20)
    before = took
    time.sleep(0.2)  # noqa: ASYNC251 the loop has something else to do, and the command goes on
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert took - before <= 3
    await terminals.close()


async def test_what_is_no_ordinary_file_holds_no_thread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    callbacks = Callbacks(Mock(), [str(tmp_path)], Terminals(lambda terminal_id: None))
    given = {"sessionId": "s", "path": str(tmp_path / "pipe")}
    for method, more in (("read", {}), ("write", {"content": "x"})):
        with pytest.raises(RequestError) as refused:
            async with asyncio.timeout(10):
                await callbacks.handle(f"fs/{method}_text_file", {**given, **more}, False)
        assert "no ordinary file" in str(refused.value.data)
