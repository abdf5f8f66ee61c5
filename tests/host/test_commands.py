"""`!` commands, with real processes: M5, Q2, Q3, G3, S5, X4, T8."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.host.commands import PREVIEW
from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import Capabilities, Json, Principal, Store
from jupyter_ahp.host.screen import plain
from jupyter_ahp.protocol.commands import command_of
from jupyter_ahp.ptys import PlainPtys
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Scripted, WireClient, agree, answer_of, message, quiet, until
from tests.host.test_terminals import alive, shown

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no terminals on Windows")

S = "ahp-session:/s"


def serving(store: Store, agent: Scripted, directory: Path, *, terminals: bool = True) -> Host:
    roles = {"writer": ["session:*", "chat:*", "terminal:read"]}
    options = HostOptions(
        default_directory=str(directory),
        ptys=PlainPtys() if terminals else None,
        grants=Grants(roles, {"ana": "writer"}),
    )
    return Host(store, [agent], options)


@pytest.fixture(autouse=True)
def impatient() -> None:
    """Nothing here hangs in a stop, and a slow machine takes its time to end a process group."""


@pytest.fixture
def agent() -> Scripted:
    agent = Scripted()
    agent.capabilities = Capabilities(fork=True, steering=True)
    return agent


@pytest.fixture
async def host(store: Store, agent: Scripted, tmp_path: Path) -> AsyncIterator[Host]:
    before = asyncio.all_tasks()
    host = serving(store, agent, tmp_path)
    await host.start()
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    await host.stop()
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()} - {asyncio.current_task()}
    assert not left, f"tasks without an owner: {left}"


@pytest.fixture
async def chat(client: WireClient) -> str:
    return await client.create(S)


def call_of(turn: Json) -> Json:
    (part,) = turn["responseParts"]
    call: Json = part["toolCall"]
    return call


def result_of(turn: Json) -> Json:
    (block,) = call_of(turn)["content"]
    assert block["type"] == "terminal"
    result: Json = block["result"]
    return result


async def running(client: WireClient, chat: str, text: str) -> tuple[str, str]:
    """A command that runs: its turn, and its terminal, subscribed to."""
    turn = await client.start(chat, text)
    await until(lambda: client.state(chat)["activeTurn"]["responseParts"][0]["toolCall"].get("content"))
    terminal = client.state(chat)["activeTurn"]["responseParts"][0]["toolCall"]["content"][0]["resource"]
    await client.subscribe(terminal)
    return turn, terminal


async def stop(client: WireClient, chat: str, turn: str) -> None:
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)


# ── M5 ───────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("!ls", "ls"),
        ("! ls -l \n", "ls -l"),
        ("!a\nb", "a\nb"),
        ("!", None),
        ("!  ", None),
        ("!\n", None),
        (" !ls", None),
        ("ls !", None),
        ("", None),
    ],
)
def test_M5_what_is_a_command(text: str, command: str | None) -> None:
    assert command_of(text) == command


async def test_M5_a_command_runs_in_the_sessions_first_directory_and_reads_back_as_the_turns_answer(
    client: WireClient, chat: str, host: Host, agent: Scripted, tmp_path: Path
) -> None:
    assert client.result["terminalCommandPrefix"] == "!"
    (tmp_path / "data.csv").write_text("x")

    turn = await client.say(chat, "!pwd; ls; test -t 1 && echo tty")

    assert turn["state"] == "complete"
    call = call_of(turn)
    assert (call["status"], call["success"], call["_meta"]["toolKind"]) == ("completed", True, "terminal")
    assert json.loads(call["toolInput"]) == {"command": "pwd; ls; test -t 1 && echo tty"}
    assert result_of(turn) == {
        "exitCode": 0,
        "preview": f"{tmp_path}\ndata.csv\ntty",
        "truncated": False,
    }
    assert agent.prompts == []
    claim = host.terminals.named(call["content"][0]["resource"]).state["claim"]  # type: ignore[union-attr]
    assert claim == {
        "kind": "session",
        "session": S,
        "chat": chat,
        "turnId": turn["id"],
        "toolCallId": call["toolCallId"],
    }
    await agree(host, client)


async def test_M5_output_streams_while_it_runs(client: WireClient, other: WireClient, chat: str) -> None:
    turn, terminal = await running(client, chat, "!echo one; read x; echo got $x")
    await until(lambda: "one" in shown(client, terminal))
    assert client.running(chat)
    assert other.state(ROOT)["terminals"][0]["title"] == "echo one; read x; echo got $x"

    await client.do(terminal, "terminal/claimed", claim={"kind": "client", "clientId": client.client_id})
    await client.do(terminal, "terminal/input", data="two\n")

    await until(lambda: not client.running(chat))
    assert result_of(client.turn(chat, turn))["preview"].endswith("got two")
    assert client.state(terminal)["lifecycle"] == {"status": "exited", "exitCode": 0}
    assert other.state(ROOT)["terminals"] == []


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [("exit 3", 3, ""), ("surely-not-a-command", 127, "not found"), ("kill -9 $$", 137, "")],
)
async def test_M5_whatever_the_exit_code_the_turn_completes(
    client: WireClient, chat: str, command: str, code: int, words: str
) -> None:
    turn = await client.say(chat, f"!{command}")
    assert turn["state"] == "complete"
    assert result_of(turn)["exitCode"] == code
    assert words in result_of(turn)["preview"]
    assert f"exit code {code}" in call_of(turn)["pastTenseMessage"]


@pytest.mark.parametrize("text", ["!", "!   "])
async def test_M5_a_lone_mark_goes_to_the_agent(client: WireClient, chat: str, text: str) -> None:
    assert answer_of(await client.say(chat, text)) == f"You said: {text}"


async def test_M5_a_missing_directory_is_said(client: WireClient, agent: Scripted, tmp_path: Path) -> None:
    chat = await client.create(S, workingDirectories=[(tmp_path / "gone").as_uri()])
    turn = await client.say(chat, "!ls")
    assert (turn["state"], call_of(turn)["success"]) == ("complete", False)
    assert f"there is no directory {tmp_path / 'gone'}" in call_of(turn)["error"]["message"]
    assert answer_of(await client.say(chat, "hi")) == "You said: hi"
    assert str(tmp_path / "gone") in agent.prompts[0].prefaces[agent.prompts[0].turn_id]


async def test_M5_what_no_system_can_run_is_said(client: WireClient, chat: str) -> None:
    for command in ("a\0b", "x" * 3_000_000):
        turn = await client.say(chat, f"!{command}")
        assert (turn["state"], call_of(turn)["success"]) == ("complete", False)
        assert "could not start" in call_of(turn)["error"]["message"]


async def test_M5_without_terminals_it_is_plain_text(agent: Scripted, tmp_path: Path) -> None:
    host = serving(MemoryStore(), agent, tmp_path, terminals=False)
    await host.start()
    client = WireClient(host)
    await client.initialize(ROOT)
    assert "terminalCommandPrefix" not in client.result
    chat = await client.create(S)
    forged = {"jupyter-ahp.command": True}

    turn = await client.say(chat, "!ls", _meta=forged)

    assert answer_of(turn) == "You said: !ls"
    assert "jupyter-ahp.command" not in turn["message"]["_meta"]
    claim = {"kind": "client", "clientId": client.client_id}
    assert (await client.fails("createTerminal", channel="ahp-terminal:/t", claim=claim)).code == -32601
    await host.stop()


# ── what is hard to stop ─────────────────────────────────────────────────────────────────────────────────────────
STUBBORN = (
    "import os,signal,time\n"
    "pid=os.fork()\n"
    "[signal.signal(n,signal.SIG_IGN) for n in (signal.SIGHUP,signal.SIGINT,signal.SIGTERM)]\n"
    "os.write(1,b'pid %d pid\\n'%os.getpid())\n"
    "time.sleep(60)\n"
)


async def test_M5_a_stop_ends_the_whole_group_in_under_a_second(
    client: WireClient, chat: str, tmp_path: Path
) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    turn, terminal = await running(client, chat, f"!{sys.executable} stubborn.py; echo on")
    await until(lambda: shown(client, terminal).count("pid") == 4)
    pids = [int(pid) for pid in re.findall(r"pid (\d+) pid", shown(client, terminal))]
    assert len(pids) == 2

    before = time.monotonic()
    await stop(client, chat, turn)
    assert not client.running(chat)
    await until(lambda: not any(map(alive, pids)))

    assert time.monotonic() - before < 1
    ended = client.turn(chat, turn)
    assert ended["state"] == "cancelled"
    assert result_of(ended)["preview"].count("pid") == 4, "what it printed stays"
    await until(lambda: client.state(terminal)["lifecycle"]["status"] == "exited")


async def test_M5_yes_is_bounded_and_stopped(client: WireClient, chat: str, host: Host) -> None:
    turn, terminal = await running(client, chat, "!yes")
    await asyncio.sleep(0.5)
    await stop(client, chat, turn)
    await until(lambda: client.state(terminal)["lifecycle"]["status"] == "exited")
    result = result_of(client.turn(chat, turn))
    assert (len(result["preview"]), result["truncated"]) == (PREVIEW, True)
    assert set(result["preview"].split()) == {"y"}
    await agree(host, client)


async def test_M5_a_full_screen_program_leaves_no_screen_behind(client: WireClient, chat: str) -> None:
    program = r"printf 'before\n\033[?1049h\033[2J\033[5;5HMENU\033[?1049l\033[1;32mafter\033[0m\n'"
    assert result_of(await client.say(chat, f"!{program}"))["preview"] == "before\nafter"


async def test_M5_disposing_of_its_terminal_ends_the_command(client: WireClient, chat: str) -> None:
    turn, terminal = await running(client, chat, "!sleep 60")
    await client.request("disposeTerminal", channel=terminal)
    await until(lambda: not client.running(chat))
    assert client.turn(chat, turn)["state"] == "complete"
    assert client.state(ROOT)["terminals"] == []


async def test_M5_claimed_for_the_session_it_goes_on_behind_its_turn(
    client: WireClient, chat: str, host: Host
) -> None:
    turn, terminal = await running(client, chat, "!echo begun; sleep 60")
    await until(lambda: "begun" in shown(client, terminal))
    await client.do(terminal, "terminal/claimed", claim={"kind": "session", "session": S, "chat": chat})
    await until(lambda: not client.running(chat))

    result = result_of(client.turn(chat, turn))
    assert "exitCode" not in result
    assert client.state(terminal)["lifecycle"] == {"status": "running"}
    assert [one["resource"] for one in client.state(ROOT)["terminals"]] == [terminal]
    await agree(host, client)


async def test_M5_a_chat_that_is_closed_ends_its_command(client: WireClient, chat: str) -> None:
    second = "ahp-chat:/second"
    await client.request("createChat", channel=S, chat=second)
    await client.subscribe(second)
    _, terminal = await running(client, second, "!echo pid=$$=; sleep 60")
    await until(lambda: "pid=" in shown(client, terminal))
    pid = int(shown(client, terminal).split("=")[1])

    await client.request("disposeChat", channel=second)

    await until(lambda: not alive(pid))
    assert client.state(ROOT)["terminals"] == []


# ── what waits ───────────────────────────────────────────────────────────────────────────────────────────────────
async def queue(client: WireClient, chat: str, name: str, text: str, kind: str = "queued") -> None:
    await client.do(chat, "chat/pendingMessageSet", kind=kind, id=name, message=message(text))


@pytest.mark.parametrize("command", ["true", "exit 9", "kill -9 $$"])
async def test_Q2_Q3_a_command_starts_what_waits_behind_it_however_it_went(
    client: WireClient, chat: str, agent: Scripted, command: str, host: Host
) -> None:
    turn, terminal = await running(client, chat, f"!read x; {command}")
    await queue(client, chat, "one", "!echo queued")
    await queue(client, chat, "two", "and you?")
    await client.do(terminal, "terminal/claimed", claim={"kind": "client", "clientId": client.client_id})
    await client.do(terminal, "terminal/input", data="\n")

    await until(lambda: len(client.state(chat)["turns"]) == 3)

    first, second, third = client.state(chat)["turns"]
    assert first["id"] == turn
    assert result_of(second)["preview"] == "queued"
    assert answer_of(third) == "You said: and you?"
    assert [prompt.text for prompt in agent.prompts] == ["and you?"]
    await agree(host, client)


async def test_Q2_a_stopped_command_starts_what_waits_and_is_gone_before_it(
    client: WireClient, chat: str
) -> None:
    turn, _ = await running(client, chat, "!sleep 60")
    await queue(client, chat, "one", "next")
    await stop(client, chat, turn)
    await until(lambda: len(client.state(chat)["turns"]) == 2)
    assert answer_of(client.state(chat)["turns"][1]) == "You said: next"


async def test_G3_steering_that_comes_during_a_command_is_a_turn_behind_it(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    _, terminal = await running(client, chat, "!read x")
    await queue(client, chat, "later", "queued")
    await queue(client, chat, "steer", "!echo steered", kind="steering")
    await client.do(terminal, "terminal/claimed", claim={"kind": "client", "clientId": client.client_id})
    await client.do(terminal, "terminal/input", data="\n")

    await until(lambda: len(client.state(chat)["turns"]) == 3)

    _, second, third = client.state(chat)["turns"]
    assert result_of(second)["preview"] == "steered"
    assert answer_of(third) == "You said: queued"


# ── what the agent is told ───────────────────────────────────────────────────────────────────────────────────────
async def test_M5_the_next_message_tells_what_was_run_and_what_it_said(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    first = await client.say(chat, "hello")
    await client.say(chat, "!echo out; exit 4")
    await client.say(chat, "!echo more")
    second = await client.say(chat, "what was that?")
    await client.say(chat, "and now?")

    hello, what, now = agent.prompts
    assert hello.prefaces == {}
    assert [turn["id"] for turn in what.history] == [first["id"]]
    told = what.prefaces[what.turn_id]
    assert "$ echo out; exit 4\nout\n(exit code 4)\n\n$ echo more\nmore\n(exit code 0)" in told
    assert [turn["id"] for turn in now.history] == [first["id"], second["id"]]
    assert now.prefaces == {second["id"]: told}, "said where it was said, and not again"


async def test_M5_what_is_told_is_bounded(client: WireClient, chat: str, agent: Scripted) -> None:
    for number in range(6):
        await client.say(chat, f"!echo begin-{number}; seq 100000")
    await client.say(chat, "well?")
    told = agent.prompts[0].prefaces[agent.prompts[0].turn_id]
    assert len(told) < 17_000
    assert "begin-5; seq" in told
    assert "begin-0" not in told
    assert told.endswith("100000\n(exit code 0)")


# ── S5, X4 ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_S5_a_fork_at_a_command_keeps_it_and_what_the_agent_had_before(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    first = await client.say(chat, "hello")
    ran = await client.say(chat, "!echo kept")
    await client.say(chat, "after")
    new = "ahp-chat:/fork"
    source = {"kind": "fork", "chat": chat, "turnId": ran["id"]}
    await client.request("createChat", channel=S, chat=new, source=source)
    forked = await client.subscribe(new)
    assert [turn["id"] for turn in forked["turns"]] == [first["id"], ran["id"]]

    await client.say(new, "go on")

    prompt = agent.prompts[-1]
    assert [turn["id"] for turn in prompt.history] == [first["id"]]
    assert "kept" in prompt.prefaces[prompt.turn_id]


async def test_X4_a_rewind_to_a_command_keeps_it_and_cuts_the_agents_history_before_it(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    first = await client.say(chat, "hello")
    ran = await client.say(chat, "!echo kept")
    await client.say(chat, "cut")
    await client.say(chat, "!echo cut as well")

    await client.do(chat, "chat/truncated", turnId=ran["id"])

    assert [turn["id"] for turn in client.state(chat)["turns"]] == [first["id"], ran["id"]]
    await client.say(chat, "again")
    prompt = agent.prompts[-1]
    assert [turn["id"] for turn in prompt.history] == [first["id"]]
    assert "cut as well" not in prompt.prefaces[prompt.turn_id]
    assert not agent.lines[0].closed


async def test_X4_with_no_message_before_the_command_the_conversation_starts_over(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    agent.memory = "remembered"
    ran = await client.say(chat, "!echo kept")
    await client.say(chat, "hello")

    await client.do(chat, "chat/truncated", turnId=ran["id"])
    await client.say(chat, "again")

    assert agent.lines[0].closed
    assert agent.lines[1].start.memory is None
    assert [turn["message"]["text"] for turn in client.state(chat)["turns"]] == ["!echo kept", "again"]


async def test_S6_a_side_chat_about_a_command_is_told_what_that_said(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    ran = await client.say(chat, "!echo remarkable")
    new = "ahp-chat:/aside"
    source = {"kind": "sideChat", "chat": chat, "turnId": ran["id"]}
    await client.request("createChat", channel=S, chat=new, source=source)
    await client.subscribe(new)
    await client.say(new, "why?")
    assert (
        "$ echo remarkable\nremarkable\n(exit code 0)" in agent.prompts[0].prefaces[agent.prompts[0].turn_id]
    )


# ── T8 ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def titles(client: WireClient) -> tuple[str, str]:
    return client.state(S)["title"], client.state(S)["chats"][0]["title"]


async def test_T8_a_commands_title_is_provisional(client: WireClient, chat: str) -> None:
    await client.say(chat, "!echo *.py  --long")
    assert titles(client) == ("echo *.py --long", "echo *.py --long")
    await client.say(chat, "!echo another")
    assert titles(client) == ("echo *.py --long", "echo *.py --long")
    await client.say(chat, "The real question")
    assert titles(client) == ("The real question", "The real question")
    await client.say(chat, "Another one")
    assert titles(client) == ("The real question", "The real question")


async def test_T8_a_title_that_a_person_gave_stays(client: WireClient, chat: str) -> None:
    await client.say(chat, "!true")
    await client.do(chat, "session/titleChanged", title="Mine")
    await client.say(chat, "The real question")
    assert titles(client) == ("Mine", "Mine")


async def test_T8_a_title_is_provisional_after_a_restart_too(
    client: WireClient, chat: str, host: Host, store: Store, agent: Scripted, tmp_path: Path
) -> None:
    await client.say(chat, "!true")
    again, new = await restarted(client, host, store, agent, tmp_path)
    await new.subscribe(S)
    await new.subscribe(chat)
    await new.say(chat, "The real question")
    assert titles(new) == ("The real question", "The real question")
    await again.stop()


async def restarted(
    client: WireClient, host: Host, store: Store, agent: Scripted, directory: Path
) -> tuple[Host, WireClient]:
    await quiet(host)
    await client.drop()
    await host.stop()
    again = serving(store, agent, directory)
    await again.start()
    new = WireClient(again)
    await new.initialize(ROOT)
    return again, new


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────────────────────
async def test_M5_its_terminal_is_read_after_a_restart(
    client: WireClient, chat: str, host: Host, store: Store, agent: Scripted, tmp_path: Path
) -> None:
    turn = await client.say(chat, "!echo one; echo two; exit 3")
    terminal = call_of(turn)["content"][0]["resource"]
    again, new = await restarted(client, host, store, agent, tmp_path)

    state = await new.subscribe(terminal)

    assert state["lifecycle"] == {"status": "exited", "exitCode": 3}
    assert state["content"] == [{"type": "unclassified", "value": "one\r\ntwo"}]
    assert state["claim"]["turnId"] == turn["id"]
    assert "terminals" not in new.state(ROOT)
    unknown = await new.fails("subscribe", channel=terminal + "x")
    assert unknown.code == -32008
    await again.stop()


async def test_M5_a_server_that_stops_ends_it_and_nobody_is_offered_to_run_it_again(
    client: WireClient, chat: str, host: Host, store: Store, agent: Scripted, tmp_path: Path
) -> None:
    turn, terminal = await running(client, chat, "!echo pid=$$=; sleep 60")
    await until(lambda: "pid=" in shown(client, terminal))
    pid = int(shown(client, terminal).split("=")[1])
    await queue(client, chat, "one", "next")
    await client.drop()
    await host.stop()
    assert not alive(pid)

    again = serving(store, agent, tmp_path)
    await again.start()
    new = WireClient(again)
    await new.initialize(ROOT)
    await new.subscribe(S)
    state = await new.subscribe(chat)

    (ended,) = state["turns"]
    assert (ended["id"], ended["state"]) == (turn, "error")
    assert "resumable" not in ended["responseParts"][-1]
    assert "pid=" in ended["responseParts"][0]["toolCall"]["content"][0]["result"]["preview"]
    refused = await new.do(chat, "chat/turnResume", turnId=turn)
    assert "cannot be resumed" in refused["rejectionReason"]
    await again.stop()


# ── who may ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_P_a_command_takes_opening_a_terminal(client: WireClient, chat: str, host: Host) -> None:
    ana = WireClient(host, principal=Principal("user:ana", "Ana"))
    await ana.initialize(ROOT)
    await ana.subscribe(chat)
    words = "Not opened: you may not open terminals here (needs terminal:create). Your role here is writer."

    await ana.start(chat, "!touch x")
    await ana.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("!touch x"))
    made = await ana.fails("createChat", channel=S, chat="ahp-chat:/b", initialMessage=message("!touch x"))

    assert [refusal["rejectionReason"] for refusal in ana.refusals] == [words, words]
    assert made.message == words
    assert answer_of(await ana.say(chat, "! ")) == "You said: ! "
    assert [turn["message"]["text"] for turn in client.state(chat)["turns"]] == ["! "]


# ── plain text ───────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "xlink"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("long line\rshort\n", "shortline\n"),
        ("ab\x08c", "ac"),
        ("\x08x", "x"),
        ("a\x07b\x00", "ab"),
        ("\x1b(Bx\x1b=", "x"),
        ("a\x1b[?1049hscreen", "a"),
        ("cut \x1b[3", "cut "),
    ],
)
def test_what_is_left_of_output_to_read(output: str, text: str) -> None:
    assert plain(output) == text
