"""Terminals, with real shells: AHP 5.1, 2.2."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.host import terminals
from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import Json, Launch, Principal
from jupyter_ahp.ptys import PlainPtys
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Scripted, WireClient, agree, until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no terminals on Windows")

S = "ahp-session:/s"
T = "ahp-terminal:/t"


@pytest.fixture(autouse=True)
def a_plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.setenv("PS1", "> ")


@pytest.fixture
async def host(agent: Scripted, tmp_path: Path) -> AsyncIterator[Host]:
    roles = {"reader": ["session:*", "chat:*"]}
    options = HostOptions(
        default_directory=str(tmp_path), ptys=PlainPtys(), grants=Grants(roles, {"ana": "reader"})
    )
    host = Host(MemoryStore(), [agent], options)
    before = asyncio.all_tasks()
    await host.start()
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    await host.stop()
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()} - {asyncio.current_task()}
    assert not left, f"tasks without an owner: {left}"


def mine(client: WireClient) -> Json:
    return {"kind": "client", "clientId": client.client_id}


async def opened(client: WireClient, **more: object) -> None:
    await client.request("createTerminal", **{"channel": T, "claim": mine(client), **more})
    await client.subscribe(T)


def shown(client: WireClient, uri: str = T) -> str:
    parts = client.state(uri)["content"]
    return "".join(part.get("value") or part.get("output") or "" for part in parts)


async def test_a_terminal_is_a_shell_in_the_directory_and_of_the_size_that_were_asked_for(
    client: WireClient, other: WireClient, host: Host, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    await opened(client, name="Mine", cwd=(tmp_path / "here").as_uri(), cols=91, rows=17)
    state = client.state(T)
    assert (state["title"], state["cols"], state["rows"], state["isPty"]) == ("Mine", 91, 17, True)
    assert state["lifecycle"] == {"status": "running"}
    listed = {"resource": T, "title": "Mine", "claim": mine(client), "lifecycle": {"status": "running"}}
    assert other.state(ROOT)["terminals"] == [listed]

    await client.do(T, "terminal/input", data="pwd; stty size\n")

    await until(lambda: f"{tmp_path}/here" in shown(client) and "17 91" in shown(client))
    await client.do(T, "terminal/resized", cols=80, rows=20)
    await client.do(T, "terminal/input", data="stty size\n")
    await until(lambda: "20 80" in shown(client))
    await client.do(T, "terminal/input", data="exit 3\n")
    await until(lambda: client.state(T)["lifecycle"] == {"status": "exited", "exitCode": 3})
    assert other.state(ROOT)["terminals"][0]["lifecycle"] == {"status": "exited", "exitCode": 3}
    refused = await client.do(T, "terminal/input", data="more\n")
    assert refused["rejectionReason"] == "What ran in this terminal has ended."
    await agree(host, client, other)


async def test_what_one_types_is_seen_by_nobody_else(client: WireClient, other: WireClient) -> None:
    await opened(client)
    await other.subscribe(T)
    await client.do(T, "terminal/input", data="stty -echo; echo re''ady\n")
    await until(lambda: "ready" in shown(client))

    await client.do(T, "terminal/input", data="read x # secret\n")
    await client.do(T, "terminal/input", data="secret\n")

    assert "terminal/input" not in other.kinds(T)
    assert "secret" not in str(other.envelopes)


async def test_only_who_holds_the_claim_types_and_a_claim_changes_hands(
    client: WireClient, other: WireClient, host: Host
) -> None:
    await opened(client)
    await other.subscribe(T)
    for kind, fields in (("input", {"data": "x"}), ("resized", {"cols": 2, "rows": 2})):
        refused = await other.do(T, f"terminal/{kind}", **fields)
        assert "claim it first" in refused["rejectionReason"]
    refused = await other.do(T, "terminal/claimed", claim=mine(other))
    assert refused["rejectionReason"] == "Somebody else types in this terminal."
    refused = await client.do(T, "terminal/claimed", claim=mine(other))
    assert refused["rejectionReason"] == "A client claims for itself alone."

    await client.drop()
    assert "rejectionReason" not in await other.do(T, "terminal/claimed", claim=mine(other))

    await other.do(T, "terminal/input", data="echo by the'' other\n")
    await until(lambda: "by the other" in shown(other))
    await agree(host, other)


async def test_T30_claimed_for_a_session_it_goes_with_the_session(
    client: WireClient, other: WireClient
) -> None:
    chat = await client.create(S)
    await opened(client)
    claim = {"kind": "session", "session": "test:/s", "chat": chat}
    await client.do(T, "terminal/claimed", claim=claim)
    assert other.state(ROOT)["terminals"][0]["claim"]["session"] == S
    pid = await pid_of_shell(client)

    await client.request("disposeSession", channel=S)

    assert other.state(ROOT)["terminals"] == []
    assert (await client.fails("subscribe", channel=T)).code == -32008
    assert not alive(pid)


async def pid_of_shell(client: WireClient) -> int:
    await client.do(T, "terminal/claimed", claim=mine(client))
    await client.do(T, "terminal/input", data="echo pid=$$=\n")
    await until(lambda: "pid=" in shown(client).replace("pid=$$=", ""))
    pid = int(shown(client).replace("pid=$$=", "").partition("pid=")[2].partition("=")[0])
    await client.do(
        T, "terminal/claimed", claim={"kind": "session", "session": S, "chat": client.state(S)["defaultChat"]}
    )
    return pid


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


async def test_disposing_ends_what_runs_and_what_ignores_being_asked(client: WireClient) -> None:
    await opened(client)
    code = "import os,signal,time;[signal.signal(n,1) for n in (1,2,15)];print('p',os.getpid(),'p',flush=True);time.sleep(60)"
    await client.do(T, "terminal/input", data=f'{sys.executable} -c "{code}"\n')
    await until(lambda: re.search(r"p (\d+) p", shown(client)))
    pid = int(re.findall(r"p (\d+) p", shown(client))[0])

    async with asyncio.timeout(1):
        assert await client.request("disposeTerminal", channel=T) is None

    await until(lambda: not alive(pid))
    assert (await client.fails("disposeTerminal", channel=T)).code == -32008
    assert client.state(ROOT)["terminals"] == []


async def test_what_cannot_be_is_refused_with_words(client: WireClient, tmp_path: Path) -> None:
    claim = mine(client)
    gone = await client.fails("createTerminal", channel=T, claim=claim, cwd=str(tmp_path / "gone"))
    assert gone.code == -32602
    assert str(tmp_path / "gone") in gone.message
    nobody = await client.fails("createTerminal", channel=T, claim={"kind": "client", "clientId": "x"})
    assert nobody.message == "A client claims for itself alone."
    nowhere = {"kind": "session", "session": "ahp-session:/nope", "chat": "ahp-chat:/c"}
    assert (await client.fails("createTerminal", channel=T, claim=nowhere)).code == -32602
    assert (await client.fails("createTerminal", channel=S, claim=claim)).code == -32602
    await opened(client)
    assert (await client.fails("createTerminal", channel=T, claim=claim)).code == -32010
    assert client.state(ROOT)["terminals"][0]["resource"] == T


async def test_a_vscode_window_names_its_terminals_in_its_own_way(client: WireClient) -> None:
    await client.request("createTerminal", channel="agenthost-terminal:/1", claim=mine(client))
    assert (await client.subscribe("agenthost-terminal:/1"))["lifecycle"] == {"status": "running"}


async def test_P_who_may_not_see_terminals_is_not_told_of_them(client: WireClient, host: Host) -> None:
    ana = WireClient(host, principal=Principal("user:ana", "Ana"))
    await ana.initialize(ROOT)
    await opened(client, name="secret plans")

    assert "terminals" not in ana.state(ROOT)
    assert "terminals" not in await ana.subscribe(ROOT)
    assert "secret plans" not in str(ana.wire.frames)
    assert (await ana.fails("subscribe", channel=T)).code == -32009
    refused = await ana.do(T, "terminal/input", data="rm x\n")
    assert "needs terminal:write" in refused["rejectionReason"]


# ── output ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_marks_of_the_shell_become_commands_and_a_directory_and_are_not_shown(
    client: WireClient, host: Host
) -> None:
    await opened(client)
    terminal = host.terminals.named(T)
    assert terminal is not None
    await until(lambda: ">" in shown(client))
    before = shown(client)

    for piece in (
        "\x1b]7;file://me/srv/a%20b\x07\x1b]13",
        "3;A\x1b\\$ \x1b]133;B\x07ls -l\r\n\x1b",
        "]133;C\x07out",
        "put\r\n\x1b]133;D;2\x07\x1b]0;a title\x07",
    ):
        terminal.printed(piece)
        await asyncio.sleep(0.08)

    await until(lambda: client.state(T)["content"][-1].get("value", "").endswith("a title\x07"))
    state = client.state(T)
    assert (state["cwd"], state["title"]) == ("file:///srv/a%20b", "a title")
    assert state["supportsCommandDetection"] is True
    ran = next(part for part in state["content"] if part["type"] == "command")
    assert (ran["commandLine"], ran["output"], ran["exitCode"]) == ("ls -l", "output\r\n", 2)
    assert ran["isComplete"]
    assert ran["durationMs"] >= 0
    assert shown(client) == f"{before}$ ls -l\r\noutput\r\n\x1b]0;a title\x07"
    await agree(host, client)


async def test_fifty_megabytes_are_bounded_for_everybody_and_the_end_is_kept(
    client: WireClient, host: Host
) -> None:
    await opened(client)
    command = f"{sys.executable} -c \"import sys;[sys.stdout.write('0123456789abcde\\n'*4096) for _ in range(800)];print('the','end')\"\n"

    await client.do(T, "terminal/input", data=command)
    await until(lambda: "the end" in shown(client), seconds=30)

    assert len(shown(client)) <= 2 * terminals.SCROLLBACK + 1000
    assert shown(client).startswith("[earlier output left out]")
    assert any("characters left out]" in env["action"].get("data", "") for env in client.envelopes)
    sent = sum(len(env["action"].get("data", "")) for env in client.envelopes)
    assert sent < 20 * 1024 * 1024
    assert host.hub.replay._bytes <= 8 * 1024 * 1024
    await agree(host, client)


async def test_a_command_that_runs_is_still_one_when_its_beginning_was_cleared(
    client: WireClient, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminals, "SCROLLBACK", 1000)
    await opened(client)
    terminal = host.terminals.named(T)
    assert terminal is not None
    terminal.printed("\x1b]133;B\x07make\r\n\x1b]133;C\x07")
    for number in range(30):
        terminal.printed(f"line {number} {'x' * 90}\r\n")
        await asyncio.sleep(0.04)
    terminal.printed("\x1b]133;D;0\x07")
    await until(lambda: client.state(T)["content"][-1].get("isComplete"))

    (only,) = client.state(T)["content"]
    assert (only["commandLine"], only["exitCode"]) == ("make", 0)
    assert only["output"].endswith(f"line 29 {'x' * 90}\r\n")
    assert len(only["output"]) <= 2000
    await agree(host, client)


async def test_clear_clears_for_everybody(client: WireClient, other: WireClient, host: Host) -> None:
    await opened(client)
    await other.subscribe(T)
    await until(lambda: shown(other))
    await client.do(T, "terminal/cleared")
    assert shown(other) == ""
    await agree(host, client, other)


# ── ptys ─────────────────────────────────────────────────────────────────────────────────────────────────────────
async def run(tmp_path: Path, *argv: str) -> tuple[str, int | None]:
    said: list[str] = []
    over: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    PlainPtys().start(Launch(str(tmp_path), argv=argv), said.append, over.set_result)
    async with asyncio.timeout(5):
        code = await over
    return "".join(said), code


async def test_the_output_is_whole_when_the_end_is_told(tmp_path: Path) -> None:
    for _ in range(5):
        said, code = await run(tmp_path, "/bin/sh", "-c", "seq 20000; exit 7")
        assert (said.split()[-1], len(said.split()), code) == ("20000", 20000, 7)


async def test_a_signal_is_told_as_a_shell_does(tmp_path: Path) -> None:
    assert (await run(tmp_path, "/bin/sh", "-c", "kill -9 $$"))[1] == 137


async def test_what_closes_its_terminal_and_goes_on_is_waited_for_without_holding_the_loop(
    tmp_path: Path,
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    _, code = await run(tmp_path, "/bin/sh", "-c", "exec <&- >&- 2>&-; sleep 0.4; exit 5")
    ticking.cancel()
    assert code == 5
    assert ticks > 10


async def test_what_stays_in_the_background_does_not_hold_the_end(tmp_path: Path) -> None:
    said, code = await run(tmp_path, "/bin/sh", "-c", "(trap '' HUP; sleep 20) & echo begun")
    assert (said.strip(), code) == ("begun", 0)


async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    said, _ = await run(tmp_path, "/bin/sh", "-c", "printf 'a\\377b\\303'")
    assert said == "a\ufffdb\ufffd"
