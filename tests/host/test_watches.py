"""Resource watches, through the wire, on a real file system: AHP 5.4, P1."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host import tree as trees
from jupyter_ahp.host import watches
from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import Principal
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import Scripted, WireClient, until

NOT_FOUND, DENIED, PARAMS, INTERNAL = -32008, -32009, -32602, -32603
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links and pipes")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "served"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "a.csv").write_text("a,b\n")
    (tmp_path / "outside").mkdir()
    return root.resolve()


@pytest.fixture
async def host(root: Path) -> AsyncIterator[Host]:
    before, threads = asyncio.all_tasks(), threading.active_count()
    grants = Grants({"none": ["session:*"]}, {"ana": "none"})
    host = Host(MemoryStore(), [Scripted()], HostOptions(default_directory=str(root), grants=grants))
    await host.start()
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    async with asyncio.timeout(10):
        await host.stop()
    left = {task for task in asyncio.all_tasks() - before if not task.done()} - {asyncio.current_task()}
    assert not left, f"tasks without an owner: {left}"
    await until(lambda: threading.active_count() <= threads + 3)  # asyncio's own stay


@pytest.fixture
async def client(host: Host) -> WireClient:
    client = WireClient(host)
    await client.initialize("ahp-root://")
    return client


async def watch(client: WireClient, path: Path, **more: Any) -> str:
    """A watch that is subscribed to: its channel."""
    made = await client.request("createResourceWatch", uri=path.as_uri(), **more)
    await client.subscribe(made["channel"])
    channel: str = made["channel"]
    return channel


def told(client: WireClient, channel: str) -> dict[str, str]:
    """What the client was told last of each resource."""
    return {
        item["uri"]: item["type"]
        for envelope in client.envelopes
        if envelope["channel"] == channel
        for item in envelope["action"]["changes"]["items"]
    }


async def tells(client: WireClient, channel: str, path: Path, kind: str) -> None:
    await until(lambda: told(client, channel).get(path.as_uri()) == kind, 15)


async def ended(host: Host, channel: str) -> None:
    await until(lambda: host.watches.held(channel) is None)


async def test_what_is_added_updated_and_deleted_under_a_directory(client: WireClient, root: Path) -> None:
    channel = await watch(client, root, recursive=True)
    assert client.state(channel) == {"root": root.as_uri(), "recursive": True}

    (root / "a.csv").write_text("changed")
    (root / "sub" / "deep" / "🦆 %.txt").write_text("new")
    await tells(client, channel, root / "a.csv", "updated")
    await tells(client, channel, root / "sub" / "deep" / "🦆 %.txt", "added")
    (root / "a.csv").unlink()
    await tells(client, channel, root / "a.csv", "deleted")
    assert client.state(channel) == {"root": root.as_uri(), "recursive": True}


async def test_a_directory_that_comes_is_watched_with_what_is_in_it(client: WireClient, root: Path) -> None:
    channel = await watch(client, root, recursive=True)

    (root / "new" / "below").mkdir(parents=True)
    (root / "new" / "below" / "early").touch()
    await tells(client, channel, root / "new" / "below" / "early", "added")
    (root / "new" / "below" / "late").touch()
    await tells(client, channel, root / "new" / "below" / "late", "added")
    os.rename(root / "new", root / "moved")
    await tells(client, channel, root / "new", "deleted")
    (root / "moved" / "below" / "last").touch()
    await tells(client, channel, root / "moved" / "below" / "last", "added")


async def test_without_recursive_it_is_the_directory_s_own_entries(client: WireClient, root: Path) -> None:
    channel = await watch(client, root)
    (root / "sub" / "below").touch()
    (root / "here").touch()
    await tells(client, channel, root / "here", "added")
    assert (root / "sub" / "below").as_uri() not in told(client, channel)


async def test_one_file_and_what_takes_its_place(client: WireClient, root: Path) -> None:
    path = root / "a.csv"
    channel = await watch(client, path)
    assert client.state(channel)["root"] == path.as_uri()

    (root / "other").touch()
    await client.request(
        "resourceWrite", uri=path.as_uri(), data="x", encoding="utf-8"
    )  # replaced as a whole
    await until(lambda: path.as_uri() in told(client, channel))
    path.unlink()
    await tells(client, channel, path, "deleted")
    path.write_text("again")
    await tells(client, channel, path, "added")
    assert set(told(client, channel)) == {path.as_uri()}


async def test_what_our_own_writing_leaves_for_a_moment_is_not_told(client: WireClient, root: Path) -> None:
    channel = await watch(client, root)
    for number in range(20):
        await client.request(
            "resourceWrite", uri=(root / "a.csv").as_uri(), data=str(number), encoding="utf-8"
        )
    await until(lambda: bool(told(client, channel)))
    (root / "end").touch()
    await tells(client, channel, root / "end", "added")
    assert set(told(client, channel)) == {(root / "a.csv").as_uri(), (root / "end").as_uri()}


async def test_patterns_and_what_nobody_means(client: WireClient, root: Path) -> None:
    (root / ".git").mkdir()
    (root / "node_modules" / "x").mkdir(parents=True)
    patterns = {
        "excludes": {"items": ["**/deep/**", f"{root}/build", "*.tmp"]},
        "includes": {"items": ["*.{csv,txt}"]},
    }
    channel = await watch(client, root, recursive=True, **patterns)
    assert client.state(channel) == {"root": root.as_uri(), "recursive": True, **patterns}

    for name in (".git/a.csv", "node_modules/x/a.csv", "sub/deep/a.csv", "b.tmp", "b.py", "sub/b.txt"):
        (root / name).write_text("new")
    await tells(client, channel, root / "sub" / "b.txt", "added")
    (root / "build").mkdir()
    (root / "build" / "a.csv").touch()
    (root / "end.csv").touch()
    await tells(client, channel, root / "end.csv", "added")
    assert set(told(client, channel)) == {(root / "sub" / "b.txt").as_uri(), (root / "end.csv").as_uri()}


@pytest.mark.parametrize("pattern", ["{a,b}" * 7, "!", "*a" * 5, "**/a/" * 5, "{*a*a*a*a*,b}"])
async def test_a_pattern_that_is_none_is_refused(client: WireClient, root: Path, pattern: str) -> None:
    failure = await client.fails(
        "createResourceWatch", uri=root.as_uri(), recursive=True, excludes={"items": [pattern]}
    )
    assert failure.code == PARAMS
    assert "pattern" in failure.message


async def test_ten_thousand_files_are_told_in_few_words_and_hold_nobody_up(
    client: WireClient, host: Host, root: Path
) -> None:
    channel = await watch(client, root, recursive=True)
    pauses: list[float] = []

    async def beat() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            pauses.append(now - last)
            last = now

    def check_out() -> None:
        for number in range(100):
            (root / f"d{number}").mkdir()
            for name in range(100):
                (root / f"d{number}" / str(name)).touch()

    beating = asyncio.create_task(beat())
    await asyncio.to_thread(check_out)
    (root / "end").touch()
    await until(lambda: {(root / "end").as_uri(), root.as_uri()} & set(told(client, channel)), 30)
    async with asyncio.timeout(30):
        for number in itertools.count():  # the first may be a part of what was too much
            (root / "d7" / f"later{number}").touch()
            if any("later" in uri for uri in told(client, channel)):
                break
            await asyncio.sleep(0.2)
    beating.cancel()

    actions = [envelope["action"] for envelope in client.envelopes if envelope["channel"] == channel]
    assert max(len(action["changes"]["items"]) for action in actions) <= watches.ITEMS
    assert len(actions) < 100
    assert {(root / f"d{number}").as_uri() for number in range(100)} <= set(told(client, channel)) or (
        root.as_uri() in told(client, channel)
    )
    logging.getLogger(__name__).info("longest pause of the loop: %.3f s", max(pauses))
    assert max(pauses) < 2  # a loaded machine; a loop that is blocked by a flood stands longer


async def test_a_tree_that_is_too_large_is_refused_with_words(
    client: WireClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "DIRECTORIES", 10)
    for number in range(8):
        (root / f"d{number}").mkdir()
    failure = await client.fails("createResourceWatch", uri=root.as_uri(), recursive=True)
    assert failure.code == PARAMS
    assert "more than 10 directories" in failure.message
    await watch(client, root, recursive=True, excludes={"items": ["d*"]})
    await watch(client, root)


async def test_one_that_outgrows_its_watch_goes_on_with_the_nearest(
    client: WireClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "DIRECTORIES", 10)
    channel = await watch(client, root, recursive=True)
    for number in range(20):
        (root / f"d{number}").mkdir()
    await tells(client, channel, root / "d19", "added")
    (root / "end").touch()
    await tells(client, channel, root / "end", "added")


async def test_a_machine_that_watches_no_more_says_so(
    client: WireClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands for a kernel whose limit is reached, which would reach the whole machine."""
    from watchfiles import _rust_notify

    def full(*_: object) -> None:
        raise _rust_notify.WatchfilesRustInternalError(
            "error in underlying watcher: OS file watch limit reached"
        )

    monkeypatch.setattr(_rust_notify, "RustNotify", full)
    failure = await client.fails("createResourceWatch", uri=root.as_uri(), recursive=True)
    assert failure.code == INTERNAL
    assert "max_user_watches" in failure.message


# ── what may be watched ──────────────────────────────────────────────────────────────────────────────────────────
@posix
@pytest.mark.parametrize("name", ["../outside", "..", "out", "out/x", "%00"])
async def test_what_may_not_be_read_is_not_watched(client: WireClient, root: Path, name: str) -> None:
    (root / "out").symlink_to(root.parent / "outside")
    (root.parent / "outside" / "x").touch()
    failure = await client.fails("createResourceWatch", uri=f"{root.as_uri()}/{name}")
    assert failure.code in (DENIED, PARAMS)


@posix
async def test_what_is_not_there_and_what_is_no_file(client: WireClient, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert (await client.fails("createResourceWatch", uri=(root / "gone").as_uri())).code == NOT_FOUND
    assert (await client.fails("createResourceWatch", uri=(root / "pipe").as_uri())).code == PARAMS
    other = f"virtual://{client.client_id}/x"
    assert (await client.fails("createResourceWatch", uri=other)).code == NOT_FOUND


@posix
async def test_a_link_out_of_the_folder_is_told_and_not_followed(client: WireClient, root: Path) -> None:
    outside = root.parent / "outside"
    (root / "before").symlink_to(outside)
    channel = await watch(client, root, recursive=True)

    (root / "link").symlink_to(outside)
    await tells(client, channel, root / "link", "added")
    (outside / "secret").write_text("x")
    (root / "end").touch()
    await tells(client, channel, root / "end", "added")
    assert not [uri for uri in told(client, channel) if "secret" in uri]


async def test_P1_a_watch_takes_reading(host: Host, root: Path) -> None:
    ana = WireClient(host, principal=Principal("user:ana", "Ana"))
    await ana.initialize("ahp-root://")
    failure = await ana.fails("createResourceWatch", uri=root.as_uri())
    assert failure.code == DENIED
    assert "resource:read" in failure.message


# ── how it ends ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_it_ends_with_its_last_watcher(client: WireClient, host: Host, root: Path) -> None:
    channel = await watch(client, root)
    other = WireClient(host)
    await other.initialize("ahp-root://")
    await other.subscribe(channel)
    await client.subscribe(channel)  # again

    await client.unsubscribe(channel)
    (root / "new").touch()
    await tells(other, channel, root / "new", "added")
    await other.unsubscribe(channel)

    await ended(host, channel)
    assert (await client.fails("subscribe", channel=channel)).code == NOT_FOUND


async def test_a_lost_connection_finds_it_again(client: WireClient, host: Host, root: Path) -> None:
    channel = await watch(client, root)
    await client.drop()
    (root / "meanwhile").touch()
    await asyncio.sleep(0)
    client.open()
    await client.reconnect()
    assert host.watches.held(channel) is not None
    (root / "new").touch()
    await tells(client, channel, root / "new", "added")


async def test_one_that_nobody_subscribes_to_ends(
    client: WireClient, host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "GRACE", 0.05)
    made = await client.request("createResourceWatch", uri=root.as_uri())
    await ended(host, made["channel"])
    channel = await watch(client, root)
    await client.drop()
    await ended(host, channel)


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
async def test_it_ends_with_its_directory(client: WireClient, host: Host, root: Path, how: str) -> None:
    top = root / "sub"
    channel = await watch(client, top, recursive=True)
    if how == "deleted":
        shutil.rmtree(top)
    else:
        os.rename(top, root / "elsewhere")
    if how == "replaced":
        top.mkdir()
    await ended(host, channel)
    assert told(client, channel)[top.as_uri()] == "deleted"


async def test_it_ends_when_a_directory_above_is_moved(
    client: WireClient, host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells nobody of that: it is looked at now and then."""
    monkeypatch.setattr(trees, "_QUIET", 100)
    channel = await watch(client, root / "sub" / "deep")
    os.rename(root / "sub", root / "elsewhere")
    await ended(host, channel)
    assert told(client, channel) == {(root / "sub" / "deep").as_uri(): "deleted"}


async def test_there_is_a_bound_to_how_many(
    client: WireClient, host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "OF_A_CLIENT", 2)
    channels = [await watch(client, root) for _ in range(2)]
    failure = await client.fails("createResourceWatch", uri=root.as_uri())
    assert "Unsubscribe from one" in failure.message
    await client.unsubscribe(channels[0])
    await ended(host, channels[0])
    await watch(client, root)
    monkeypatch.setattr(watches, "OF_ALL", 2)
    other = WireClient(host)
    await other.initialize("ahp-root://")
    assert (await other.fails("createResourceWatch", uri=root.as_uri())).code == INTERNAL


async def test_a_host_that_stops_ends_them(client: WireClient, host: Host, root: Path) -> None:
    watches_ = [await watch(client, root, recursive=True) for _ in range(4)]
    before = time.monotonic()
    await host.watches.close()
    assert time.monotonic() - before < 3
    assert [host.watches.held(channel) for channel in watches_] == [None] * 4
