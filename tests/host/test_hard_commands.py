"""`!` commands that are hard on a host: much output, whole screens, what will not end. M5, with real processes."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.host import commands, terminals
from jupyter_ahp.host.commands import PREVIEW
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Store
from jupyter_ahp.store.files import FileStore
from tests.host.harness import ROOT, Scripted, WireClient, agree, until
from tests.host.test_commands import call_of, result_of, running, serving, stop
from tests.host.test_terminals import alive, shown

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no terminals on Windows")

S = "ahp-session:/s"
SOON = 2.0
"""A second at most is what people wait for a stop; the other is the loaded machine's."""


@pytest.fixture(autouse=True)
def impatient() -> None:
    """Nothing here hangs in a stop, and a slow machine takes its time to end a process group."""


@pytest.fixture
def store(files: FileStore) -> Store:
    return files


@pytest.fixture
async def host(store: Store, agent: Scripted, tmp_path: Path) -> AsyncIterator[Host]:
    host = serving(store, agent, tmp_path)
    await host.start()
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    await host.stop()


@pytest.fixture
async def chat(client: WireClient) -> str:
    return await client.create(S)


async def took_to_stop(client: WireClient, chat: str, turn: str, pids: list[int]) -> float:
    """Seconds from the stop until the turn has ended and none of these processes is left."""
    before = time.monotonic()
    await stop(client, chat, turn)
    assert not client.running(chat)
    await until(lambda: not any(map(alive, pids)))
    return time.monotonic() - before


# ── much ─────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_M5_fifty_megabytes_cost_a_bounded_turn_and_nobody_waits(
    client: WireClient, other: WireClient, chat: str, host: Host, tmp_path: Path
) -> None:
    lines = f"{sys.executable} -c \"import sys;[sys.stdout.write('0123456789abcde\\n'*4096) for _ in range(800)]\""
    pauses: list[float] = []

    async def beat() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            pauses.append(time.monotonic() - last)
            last = time.monotonic()

    beating = asyncio.create_task(beat())
    turn = await client.start(chat, f"!{lines}; echo the end; exit 3")
    await until(lambda: client.state(chat)["turns"], 60)
    beating.cancel()
    await asyncio.wait([beating])

    ended = client.turn(chat, turn)
    result = result_of(ended)
    assert (ended["state"], result["exitCode"], result["truncated"]) == ("complete", 3, True)
    assert len(result["preview"]) == PREVIEW
    assert result["preview"].endswith("0123456789abcde\nthe end")
    await other.subscribe(call_of(ended)["content"][0]["resource"])
    assert len(shown(other, call_of(ended)["content"][0]["resource"])) <= 2 * terminals.SCROLLBACK + 1000
    written = sum(path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert written < 1024 * 1024, "the store holds its end, not all of it"
    assert max(pauses) < 2
    await agree(host, client)


@pytest.mark.parametrize(("over", "truncated"), [(-1, False), (0, False), (1, True)])
async def test_M5_the_end_of_its_output_up_to_a_bound(
    client: WireClient, chat: str, over: int, truncated: bool
) -> None:
    turn = await client.say(chat, f"!printf a; head -c {PREVIEW + over - 1} /dev/zero | tr '\\0' x")
    result = result_of(turn)
    assert (len(result["preview"]), result["truncated"]) == (min(PREVIEW, PREVIEW + over), truncated)
    assert result["preview"].startswith("a") is not truncated


async def test_M5_what_it_prints_is_kept_at_a_modest_pace(
    client: WireClient, chat: str, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_PACE", 0.05)
    held = host.chat_named(chat)
    assert held is not None
    turn, terminal = await running(client, chat, "!echo one; read x; yes | head -n 100000; read x")
    await until(lambda: held.record.meta.get("printed"))
    assert held.record.meta["printed"] == {"turn": turn, "preview": "one", "truncated": False}
    size = len(client.envelopes)
    await asyncio.sleep(0.2)
    assert len(client.envelopes) == size, "nobody is told what the terminal tells anyway"

    await client.do(terminal, "terminal/claimed", claim={"kind": "client", "clientId": client.client_id})
    await client.do(terminal, "terminal/input", data="\n")
    await until(lambda: held.record.meta["printed"]["truncated"])
    assert len(held.record.meta["printed"]["preview"]) == PREVIEW
    await client.do(terminal, "terminal/input", data="\n")
    await until(lambda: not client.running(chat))
    assert "printed" not in held.record.meta


@pytest.mark.parametrize("end", ["stop", "exit"])
async def test_M5_what_was_kept_is_gone_with_the_turn(
    client: WireClient, chat: str, host: Host, monkeypatch: pytest.MonkeyPatch, store: Store, end: str
) -> None:
    monkeypatch.setattr(commands, "_PACE", 0.05)
    held = host.chat_named(chat)
    assert held is not None
    turn, _ = await running(client, chat, "!echo one; sleep 0.5" if end == "exit" else "!echo one; sleep 60")
    await until(lambda: held.record.meta.get("printed"))
    if end == "stop":
        await stop(client, chat, turn)
    await until(lambda: not client.running(chat))
    await until(lambda: "printed" not in held.record.meta)
    await held.saver.flush()
    assert "printed" not in (await store.load_chat("s", chat)).record.meta


# ── whole screens ────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("program", ["top", "less long.txt", "vi long.txt"])
async def test_M5_a_full_screen_program_is_shown_and_stopped(
    client: WireClient, chat: str, host: Host, tmp_path: Path, program: str
) -> None:
    name = program.split()[0]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed here")
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(1000)))
    turn, terminal = await running(client, chat, f"!echo pid $$ pid; {program}; read x")
    await until(lambda: "pid" in shown(client, terminal) and len(shown(client, terminal)) > 200)
    (pid,) = re.findall(r"pid (\d+) pid", shown(client, terminal))

    assert await took_to_stop(client, chat, turn, [int(pid)]) < SOON

    result = result_of(client.turn(chat, turn))
    assert "\x1b" not in result["preview"]
    await agree(host, client)


# ── what will not end ────────────────────────────────────────────────────────────────────────────────────────────
AWAY = (
    "import os, signal, sys, time\n"
    "for name in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):\n"
    "    signal.signal(name, signal.SIG_IGN)\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "    os.write(1, b'pid %d pid\\n' % os.getpid())\n"
    "    time.sleep(60)\n"
    "os.write(1, b'pid %d pid\\n' % os.getpid())\n"
    "time.sleep(60)\n"
)


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="who started what is known by /proc, not here"
)
async def test_M5_a_grandchild_with_a_session_of_its_own_that_ignores_everything_ends(
    client: WireClient, chat: str, tmp_path: Path
) -> None:
    (tmp_path / "away.py").write_text(AWAY)
    turn, terminal = await running(client, chat, f"!{sys.executable} away.py; echo on")
    await until(lambda: shown(client, terminal).count("pid") == 6, 20)
    pids = [int(pid) for pid in re.findall(r"pid (\d+) pid", shown(client, terminal))]
    assert len({os.getsid(pid) for pid in pids}) == 3

    took = await took_to_stop(client, chat, turn, pids)

    print(f"stopped in {took:.3f} s")  # noqa: T201
    assert took < SOON
    assert result_of(client.turn(chat, turn))["preview"].count("pid") == 6


async def test_M5_what_was_meant_to_stay_stays(client: WireClient, chat: str) -> None:
    turn = await client.say(chat, "!setsid sleep 30 >/dev/null 2>&1 & echo pid $! pid; sleep 0.5")
    (pid,) = map(int, re.findall(r"pid (\d+) pid", result_of(turn)["preview"]))
    assert alive(pid)
    os.kill(pid, 9)


@pytest.mark.parametrize("how", ["removed", "a file", "a link to nothing"])
async def test_M5_a_directory_that_went_is_said(client: WireClient, tmp_path: Path, how: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    chat = await client.create(S, workingDirectories=[place.as_uri()])
    place.rmdir()
    if how == "a file":
        place.touch()
    elif how == "a link to nothing":
        place.symlink_to(tmp_path / "nothing")

    turn = await client.say(chat, "!ls")

    assert (turn["state"], call_of(turn)["success"]) == ("complete", False)
    assert f"there is no directory {place}" in call_of(turn)["error"]["message"]


# ── a crash ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_M5_a_command_under_which_the_server_died_has_what_it_had_printed(
    client: WireClient,
    chat: str,
    host: Host,
    agent: Scripted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real `kill -9` is in tests/server/test_crash.py; here, its turn as everybody sees it, and the agent is told."""
    monkeypatch.setattr(commands, "_PACE", 0.05)
    held = host.chat_named(chat)
    assert held is not None
    turn, terminal = await running(client, chat, "!echo one; echo two; sleep 60")
    await until(lambda: held.record.meta.get("printed", {}).get("preview") == "one\ntwo")
    await held.saver.flush()
    await asyncio.sleep(0.1)  # the journal is written, not synced, within 50 ms
    shutil.copytree(tmp_path / "store", tmp_path / "after", ignore=shutil.ignore_patterns("*.lock"))

    again = serving(FileStore(tmp_path / "after"), agent, tmp_path)
    await again.start()
    late = WireClient(again)
    await late.initialize(ROOT)
    await late.subscribe(chat)
    ended = late.turn(chat, turn)
    assert ended["state"] == "error"
    assert result_of({**ended, "responseParts": ended["responseParts"][:1]}) == {
        "preview": "one\ntwo",
        "truncated": False,
    }
    assert (await late.subscribe(terminal))["content"] == [{"type": "unclassified", "value": "one\r\ntwo"}]
    await late.say(chat, "and?")
    assert "one\ntwo" in agent.prompts[-1].prefaces[agent.prompts[-1].turn_id]
    await agree(again, late)
    await late.drop()
    await again.stop()
    await stop(client, chat, turn)
