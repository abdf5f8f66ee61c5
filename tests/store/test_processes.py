"""Several processes on one store, and processes that die."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
from filelock import FileLock

import jupyter_ahp
from jupyter_ahp.host.ports import StoreError
from jupyter_ahp.store import locks
from jupyter_ahp.store.files import FileStore

from .children import CHAT, SESSION
from .samples import session, session_folder

Child: TypeAlias = asyncio.subprocess.Process
Start: TypeAlias = Callable[..., Coroutine[Any, Any, Child]]


@pytest.fixture
async def start(data_dir: Path) -> AsyncIterator[Start]:
    """Starts a process of `children.py` on the store; all are killed at the end."""
    started: list[Child] = []
    source = str(Path(jupyter_ahp.__file__ or "").resolve().parent.parent)  # noqa: ASYNC240

    async def start(*words: str) -> Child:
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("children.py")),
            words[0],
            str(data_dir),
            *words[1:],
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        started.append(child)
        return child

    yield start
    for child in started:
        await kill(child)


async def line(child: Child) -> str:
    assert child.stdout is not None
    return (await asyncio.wait_for(child.stdout.readline(), 30)).decode().strip()


async def kill(child: Child) -> None:
    if child.returncode is None:
        child.kill()
    await child.wait()


async def test_kill_9_in_the_middle_of_a_stream_keeps_what_was_written(start: Start, data_dir: Path) -> None:
    child = await start("stream")
    await line(child)
    written = int(await line(child))
    await asyncio.sleep(0.013)  # into the middle of the next ones
    await kill(child)
    if sys.platform != "win32":
        assert child.returncode == -signal.SIGKILL

    store = FileStore(data_dir)
    await store.open()
    assert await store.claim(SESSION) is None, "its lock died with it"
    loaded = await store.load_chat(SESSION, CHAT)
    assert loaded.active is not None
    assert loaded.active["id"] == "t1"
    numbers = [action["number"] for action in loaded.active_actions]
    assert numbers == list(range(len(numbers))), "no gap, no double"
    assert len(numbers) > written >= 399
    # And the dead process does not hinder the next turn.
    await store.end_turn(SESSION, CHAT, {"id": "t1", "state": "error"})
    await store.begin_turn(SESSION, CHAT, {"id": "t2"})
    loaded = await store.load_chat(SESSION, CHAT)
    assert loaded.turns == [{"id": "t1", "state": "error"}]
    assert loaded.active == {"id": "t2"}
    assert loaded.active_actions == []
    await store.close()


async def test_a_session_is_open_in_one_process_and_the_other_hears_in_which(
    start: Start, files: FileStore, data_dir: Path
) -> None:
    await files.put_session(session())
    child = await start("hold")
    assert await line(child) == "None"

    refusal = await files.claim(SESSION)

    assert refusal is not None
    assert f"process {child.pid} on " in refusal
    assert await files.claim("another") is None
    assert await files.sessions() == [session()], "it is listed all the same"
    with pytest.raises(StoreError, match=rf"was not deleted.*process {child.pid}"):
        await files.delete_session(SESSION)

    await kill(child)
    assert await files.claim(SESSION) is None
    owner = msgspec.json.decode((session_folder(data_dir) / "owner.json").read_bytes())
    assert owner["pid"] == os.getpid()
    second = await start("hold")
    assert f"process {os.getpid()} on " in await line(second)
    await files.close()
    third = await start("hold")
    assert await line(third) == "None"


async def test_two_stores_of_one_process_exclude_each_other(files: FileStore, data_dir: Path) -> None:
    other = FileStore(data_dir)
    await other.open()
    assert await files.claim(SESSION) is None
    assert "It is open in another server" in (await other.claim(SESSION) or "")
    await files.close()
    assert await other.claim(SESSION) is None
    await other.close()


async def test_T6_processes_never_get_the_same_numbers(
    start: Start, files: FileStore, data_dir: Path
) -> None:
    times = 40
    children = [await start("count", str(times)) for _ in range(4)]
    mine = [await files.reserve(7) for _ in range(10)]
    outputs = await asyncio.gather(*(child.communicate() for child in children))
    ranges = [[int(word) for word in output.decode().split()] for output, _ in outputs]

    assert [len(numbers) for numbers in ranges] == [times] * 4
    for numbers in [*ranges, mine]:
        assert numbers == sorted(numbers)
    taken = sorted(number for numbers in [*ranges, mine] for number in numbers)
    assert taken == list(range(1, 1 + 7 * len(taken), 7)), "each range begins where another ended"


async def test_T6_numbers_survive_kill_9(start: Start, files: FileStore) -> None:
    child = await start("count", "100000")
    last = 0
    for _ in range(20):
        last = int(await line(child))
    await kill(child)
    assert child.stdout is not None
    rest = (await child.stdout.read()).decode().split("\n")[:-1]
    last = max([last, *map(int, rest)])

    assert await files.reserve(1) >= last + 7


async def test_a_process_that_hangs_on_the_numbers_is_named(
    files: FileStore, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.1)
    held = FileLock(data_dir / "sequence.lock", thread_local=False)
    held.acquire()
    try:
        with pytest.raises(StoreError, match=r"another process has held .*sequence\.lock"):
            await files.reserve(1)
    finally:
        held.release()
    assert await files.reserve(1) == 1


async def test_a_reader_never_sees_half_a_document(files: FileStore, data_dir: Path) -> None:
    path = session_folder(data_dir) / "session.json"
    await files.put_session(session(title="0"))
    done = False
    seen: list[str] = []

    def read_on() -> None:
        while not done:
            document = msgspec.json.decode(path.read_bytes())
            assert len(document["config"].get("filling", "")) in (0, int(document["title"]) * 1000)
            seen.append(document["title"])

    reading = asyncio.create_task(asyncio.to_thread(read_on))
    try:
        for number in range(1, 60):
            filling = "x" * (number * 1000)
            await files.put_session(session(title=str(number), config={"filling": filling}))
    finally:
        done = True
        await reading

    assert len(set(seen)) > 5, "it read while it was written"
    assert list(map(int, seen)) == sorted(map(int, seen))
