"""Programs of backends: real ones, also one whose server is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.agents.processes import MARK, Child, Deaths, NotStarted, environment, find_program

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
posix = pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX's")
linux = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="what left its group is found on Linux only"
)

# Starts a process in a session of its own, says its id, then does what it is told: ends, or stays whatever happens.
PARENT = """
import signal, subprocess, sys
child = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL)
group = subprocess.Popen(["sleep", "1000"])
if "stay" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(child.pid, group.pid, flush=True)
if "end" in sys.argv:
    sys.exit(3)
while "stay" in sys.argv or sys.stdin.readline():
    pass
"""


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def gone(*pids: int) -> None:
    async with asyncio.timeout(20):
        while any(map(lives, pids)):  # noqa: ASYNC110  (the end of a process that is not ours to wait for)
            await asyncio.sleep(0.02)


@pytest.fixture
async def children() -> AsyncIterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        await child.close(0.2)


async def python(children: list[Child], code: str, *args: str) -> Child:
    child = await Child.start([sys.executable, "-c", code, *args])
    children.append(child)
    return child


async def test_lines_go_both_ways_and_a_closed_input_ends_it(children: list[Child]) -> None:
    child = await python(children, ECHO)
    child.write("grüße".encode())
    child.write(b"two")
    assert (await child.read(), await child.read()) == ("grüße".encode(), b"two")
    await child.close(20)
    assert (child.code, child.alive) == (0, False)
    assert await child.read() is None


async def test_a_line_of_100_MB_is_a_line(children: list[Child]) -> None:
    child = await python(children, "print('x' * 100_000_000); print('after')")
    line = await child.read()
    assert line is not None
    assert len(line) == 100_000_000
    assert await child.read() == b"after"


async def test_what_nobody_reads_makes_the_child_wait(
    children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_ahp.agents.processes._UNREAD", 100_000)
    code = "import sys\nfor n in range(200):\n  print('x' * 10_000, flush=True); print(n, file=sys.stderr, flush=True)"
    child = await python(children, code)
    await until_still(child)
    assert int(child.stderr.splitlines()[-1]) < 100
    count = 0
    while await child.read() is not None:
        count += 1
    assert count == 200


async def until_still(child: Child) -> None:
    """It has said nothing new for a while."""
    said = ""
    while not said or said != child.stderr:
        said = child.stderr
        await asyncio.sleep(0.3)


async def test_the_end_of_its_standard_error_is_kept(children: list[Child]) -> None:
    child = await python(
        children, "import sys; sys.stderr.write('a' * 5_000_000 + 'the reason'); sys.exit(7)"
    )
    assert await child.wait() == 7
    assert child.stderr.endswith("aaa" + "the reason")
    assert len(child.stderr) <= 16 * 1024


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotStarted, match="“no-such-program”"):
        await Child.start(["no-such-program"])
    with pytest.raises(NotStarted, match="could not be started: No such file or directory"):
        await Child.start([sys.executable], cwd="/no/such/folder")


def test_commands_are_found_on_the_path_that_the_child_gets(tmp_path: Path) -> None:
    script = tmp_path / "my-agent"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert find_program("my-agent", {"PATH": str(tmp_path)}) == str(script)
    assert find_program("my-agent", {"PATH": "/nowhere"}) is None


def test_the_environment_has_proxies_and_certificates_for_node_and_no_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ours.pem")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    monkeypatch.delenv("NODE_EXTRA_CA_CERTS", raising=False)
    env = environment({"MORE": "1"})
    assert env["HTTPS_PROXY"] == "http://proxy:3128"
    assert (env["NODE_EXTRA_CA_CERTS"], env["NODE_USE_ENV_PROXY"], env["MORE"]) == ("/etc/ours.pem", "1", "1")
    assert "JUPYTERHUB_API_TOKEN" not in env
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "/etc/nodes.pem")
    assert environment()["NODE_EXTRA_CA_CERTS"] == "/etc/nodes.pem"


# ── Nothing is left ──────────────────────────────────────────────────────────────────────────────────────────────────
@linux
@pytest.mark.parametrize("what", ["end", "stay", "wait"])
async def test_all_that_it_has_started_goes_with_it(children: list[Child], what: str) -> None:
    child = await python(children, PARENT, what)
    line = await child.read()
    assert line is not None
    pids = [int(pid) for pid in line.split()]
    if what == "end":
        assert await child.wait() == 3
    else:
        assert all(map(lives, pids))
        await child.close(0.2)
    await gone(child.pid, *pids)


SERVER = f"""
import asyncio, sys
from jupyter_ahp.agents.processes import Child
async def main():
    child = await Child.start([sys.executable, "-c", {PARENT!r}, sys.argv[1]])
    print(child.pid, (await child.read()).decode(), flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


@linux
@pytest.mark.parametrize("what", ["stay", "wait"])
async def test_nothing_is_left_when_the_server_is_killed(what: str) -> None:
    """A real `kill -9`: also of a child that minds neither its closed input nor a request to end."""
    with subprocess.Popen([sys.executable, "-c", SERVER, what], stdout=subprocess.PIPE, text=True) as server:  # noqa: ASYNC220
        assert server.stdout is not None
        pids = [int(pid) for pid in (await asyncio.to_thread(server.stdout.readline)).split()]
        assert len(pids) == 3
        assert all(map(lives, pids))
        server.send_signal(signal.SIGKILL)
    await gone(*pids)


@posix
async def test_no_guard_and_no_thread_is_left_of_one_that_ended(children: list[Child]) -> None:
    child = await python(children, ECHO)
    guard = child._program.guard
    assert guard is not None
    assert lives(guard.pid)
    await child.close(20)
    assert guard.returncode is not None
    for thread in threading.enumerate():
        if thread.name.startswith(f"child-{child.pid}-"):
            await asyncio.to_thread(thread.join, 20)
            assert not thread.is_alive()


async def test_each_child_has_a_mark_of_its_own(children: list[Child]) -> None:
    code = f"import os; print(os.environ[{MARK!r}])"
    one, two = await python(children, code), await python(children, code)
    assert await one.read() != await two.read()


def test_it_works_on_a_loop_that_cannot_spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Windows' selector loop is: `subprocess_exec` is not implemented there."""

    class Loop(asyncio.SelectorEventLoop):
        async def subprocess_exec(self, *_: object, **__: object) -> object:  # type: ignore[override]
            raise NotImplementedError

        connect_read_pipe = connect_write_pipe = subprocess_exec  # type: ignore[assignment]

    async def talk() -> bytes | None:
        with pytest.raises(NotImplementedError):
            await asyncio.create_subprocess_exec(sys.executable)
        child = await Child.start([sys.executable, "-c", ECHO])
        child.write(b"hello")
        try:
            return await child.read()
        finally:
            await child.close(20)

    with asyncio.Runner(loop_factory=Loop) as runner:
        assert runner.run(talk()) == b"hello"


# ── Not for ever ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_one_that_dies_again_and_again_has_to_wait() -> None:
    clock = [0.0]
    deaths = Deaths(most=3, seconds=60, now=lambda: clock[0])
    waits = []
    for clock[0] in (0.0, 10.0, 20.0):
        deaths.note()
        waits.append(deaths.wait)
    assert waits == [0, 0, 40]
    clock[0] = 60.0
    assert deaths.wait == 0
    deaths.note()
    assert deaths.wait == 10, "of the last three"


@linux
@pytest.mark.parametrize("cancels", [1, 2])
async def test_one_that_nobody_wants_any_more_while_it_starts_is_ended(tmp_path: Path, cancels: int) -> None:
    here = tmp_path / "pid"
    code = f"import os, time; open({str(here)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    before = set(asyncio.all_tasks())
    starting = asyncio.create_task(Child.start([sys.executable, "-c", code], pieces=True))
    await asyncio.sleep(0)
    for _ in range(cancels):
        starting.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.gather(*(set(asyncio.all_tasks()) - before), return_exceptions=True)
    assert not here.exists() or not lives(int(here.read_text()))
    assert _with(str(here)) == []


def _with(mark: str) -> list[Path]:
    """The processes whose command line has it."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_pieces_come_as_they_are_printed_with_errors_among_them(children: list[Child]) -> None:
    code = "import sys, time\nfor word in 'ab': print(word, end='', flush=True); sys.stderr.write('!'); sys.stderr.flush()"
    child = await Child.start([sys.executable, "-c", code + "\nprint(sys.stdin.read())"], pieces=True)
    children.append(child)
    said = b""
    while (piece := await child.read()) is not None:
        said += piece
    assert said == b"a!b!\n"
    assert await child.wait() == 0
