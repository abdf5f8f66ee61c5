"""What is too large for one message: written piece by piece to a place that the host names, then a message's own (A2, P3)."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host import uploads
from jupyter_ahp.host.attachments import BECAME, IMAGE_LIMIT, SNAPSHOT
from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.paths import path_of
from jupyter_ahp.host.ports import ImageBlock, PathBlock, Principal, Prompt, TextBlock, TurnSink
from jupyter_ahp.protocol.meta import MAX_MESSAGE, UPLOADS
from jupyter_ahp.store.files import FileStore
from tests.host.harness import RpcError, Scripted, WireClient, message
from tests.host.test_attachments import PNG, Sender, file_of, resource, sent
from tests.store.test_failing_disk import full

S = "ahp-session:/s"
NOT_FOUND, DENIED, EXISTS, PARAMS = -32008, -32009, -32010, -32602
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions, links and limits")


def serving(files: FileStore, agent: Scripted, tmp_path: Path) -> Host:
    (tmp_path / "served").mkdir(exist_ok=True)
    grants = Grants(
        {"writer": ["session:*", "chat:*"], "reader": ["session:read"]}, {"ana": "writer", "bo": "reader"}
    )
    options = HostOptions(
        default_directory=str(tmp_path / "served"), grants=grants, max_message_bytes=2 * 1024 * 1024
    )
    return Host(files, [agent], options)


@pytest.fixture
async def host(files: FileStore, agent: Scripted, tmp_path: Path) -> AsyncIterator[Host]:
    host = serving(files, agent, tmp_path)
    await host.start()
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    await host.stop()


@pytest.fixture
async def client(host: Host) -> Sender:
    client = Sender(host)
    await client.initialize("ahp-root://")
    return client


def place(client: WireClient) -> str:
    uri: str = client.result["_meta"][UPLOADS]["uri"]
    return uri


async def piece(client: WireClient, uri: str, data: bytes, position: int = 0, **more: Any) -> None:
    answer = await client.request(
        "resourceWrite",
        uri=uri,
        data=base64.b64encode(data).decode(),
        encoding="base64",
        position=position,
        **more,
    )
    assert answer == {}


async def refused(client: WireClient, uri: str, data: bytes = b"x", **more: Any) -> RpcError:
    return await client.fails("resourceWrite", uri=uri, data=data.decode(), encoding="utf-8", **more)


async def upload(client: WireClient, data: bytes, name: str = "one", size: int = 1024 * 1024) -> str:
    uri = place(client) + name
    for at in range(0, len(data), size):
        await piece(client, uri, data[at : at + size], at)
    return uri


def at(uri: str) -> Path:
    path = path_of(uri)
    assert path is not None
    return Path(path)


# ── a file becomes the message's ─────────────────────────────────────────────────────────────────────────────────
async def test_A2_a_file_in_pieces_is_moved_to_where_the_message_names_it(
    client: Sender, host: Host, agent: Scripted
) -> None:
    data = os.urandom(3 * 1024 * 1024 + 17)
    assert client.result["_meta"][MAX_MESSAGE] < len(data)
    uri = await upload(client, data)
    inode = at(uri).stat().st_ino

    [kept] = await sent(
        client, resource(uri, "../../big.bin", contentType="application/x", _meta={"mine": 1})
    )

    path = file_of(kept)
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(data).digest()
    assert path.stat().st_ino == inode, "moved, not copied"
    assert path.parent.parent == host.store.attachments_dir("s")
    assert path.name == ".._.._big.bin"
    assert not at(uri).exists()
    assert kept == {
        "type": "resource",
        "label": "../../big.bin",
        "uri": path.as_uri(),
        "sizeHint": len(data),
        "contentType": "application/x",
        "_meta": {"mine": 1, SNAPSHOT: {"isSnapshot": True, "contentType": "application/x"}, BECAME: "path"},
    }
    assert agent.prompts[0].blocks == [PathBlock("../../big.bin", str(path))]
    assert client.asked == []
    if sys.platform != "win32":
        assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, at(uri).parent)] == [
            0o400,
            0o700,
            0o700,
        ]


@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_A1_A2_an_upload_is_an_image_by_what_it_contains_up_to_its_limit(
    client: Sender, agent: Scripted, over: int
) -> None:
    data = PNG + b"\0" * (IMAGE_LIMIT + over - len(PNG))
    [kept] = await sent(client, resource(await upload(client, data), "plot"))

    assert kept["_meta"][BECAME] == ("image" if over <= 0 else "path")
    (block,) = agent.prompts[0].blocks
    assert isinstance(block, ImageBlock) == (over <= 0)
    if over <= 0:
        assert file_of(kept).name == "plot.png"


async def test_A1_a_small_text_that_was_uploaded_is_inlined(client: Sender, agent: Scripted) -> None:
    [kept] = await sent(client, resource(await upload(client, b"a,b\n"), "a.csv", contentType="text/csv"))
    assert kept["_meta"][BECAME] == "text"
    assert agent.prompts[0].blocks == [TextBlock("a.csv", "a,b\n")]


async def test_A2_an_upload_of_a_queued_message_is_taken_when_it_is_queued(
    client: Sender, agent: Scripted
) -> None:
    chat = await client.create(S)
    uri = await upload(client, b"text")

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        if prompt.text == "first":
            queued = message("second", attachments=[resource(uri)])
            await client.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=queued)
            assert not at(uri).exists()

    agent.play = play
    await client.say(chat, "first")


async def test_A2_an_upload_whose_message_is_refused_can_be_sent_again(client: Sender) -> None:
    chat = await client.create(S)
    uri = await upload(client, b"text")
    turn = await client.start(chat, "one", attachments=[])
    await client.say(chat, "two")

    await client.start(chat, "again", turn, attachments=[resource(uri)])  # the id of a turn that is there

    assert client.refusals
    assert at(uri).read_bytes() == b"text"
    [kept] = await sent(client, resource(uri), chat=chat)
    assert file_of(kept).read_bytes() == b"text"


async def test_A5_an_upload_that_is_not_there_stays_as_it_was_sent(
    client: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    gone = resource(place(client) + "gone", "gone.bin")
    [kept] = await sent(client, gone)
    assert kept == gone
    assert client.asked == [], "it is nothing to ask the client for"
    assert "gone.bin" in caplog.text


@posix
async def test_A5_a_link_in_the_place_of_an_upload_is_not_followed(client: Sender, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    uri = await upload(client, b"text")
    at(uri).unlink()
    at(uri).symlink_to(tmp_path / "secret")

    [kept] = await sent(client, resource(uri))
    assert kept == resource(uri)
    await refused(client, uri, b"x", position=0)
    assert (tmp_path / "secret").read_text() == "secret"


@posix
async def test_A2_a_file_that_another_file_system_has_is_copied_and_gone(
    client: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands for a store whose folders are on two file systems."""
    import errno

    replace = os.replace

    def across(source: Any, target: Any) -> None:
        if "uploads" in str(source):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        replace(source, target)

    uri = await upload(client, PNG)
    monkeypatch.setattr("jupyter_ahp.host.snapshots.os.replace", across)
    [kept] = await sent(client, resource(uri))
    assert (file_of(kept).read_bytes(), at(uri).exists()) == (PNG, False)
    assert stat.S_IMODE(file_of(kept).stat().st_mode) == 0o400


# ── writing it ───────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_piece_may_come_twice_and_none_may_be_left_out(client: Sender) -> None:
    uri = place(client) + "one"
    await piece(client, uri, b"aaaa")
    await piece(client, uri, b"bbbb", 4)
    await piece(client, uri, b"bbbb", 4)  # its answer was lost
    await piece(client, uri, b"cc", 8)
    assert at(uri).read_bytes() == b"aaaabbbbcc"

    gap = await refused(client, uri, position=11)
    assert (gap.code, "10 bytes" in gap.message) == (PARAMS, True)
    await piece(client, uri, b"d", mode="append")
    assert at(uri).read_bytes() == b"aaaabbbbccd"
    assert (await refused(client, uri, createOnly=True)).code == EXISTS
    assert (await refused(client, uri, mode="insert", position=2)).code == PARAMS
    assert (await refused(client, uri, ifMatch="x")).code == PARAMS
    await piece(client, uri, b"new")
    assert at(uri).read_bytes() == b"new"
    assert await client.request("resourceDelete", uri=uri) == {}
    assert (await client.fails("resourceDelete", uri=uri)).code == NOT_FOUND


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "a%2Fb", "x" * 101, "🦆", "a%00", ""])
async def test_no_other_name_is_one(client: Sender, name: str) -> None:
    assert (await refused(client, place(client) + name)).code in (DENIED, PARAMS)


async def test_a_folder_that_was_given_to_nobody_is_not_made(client: Sender, host: Host) -> None:
    other = (host.store.uploads_dir() / uploads.new_name() / "one").as_uri()
    assert (await refused(client, other)).code == NOT_FOUND
    assert not host.store.uploads_dir().exists()


@pytest.mark.parametrize(("limit", "count"), [(10, 64), (100, 1)])
async def test_there_is_a_bound(
    client: Sender, monkeypatch: pytest.MonkeyPatch, limit: int, count: int
) -> None:
    monkeypatch.setattr(uploads, "LIMIT", limit)
    monkeypatch.setattr(uploads, "FILES", count)
    await upload(client, b"12345678", "one")
    failure = await refused(client, place(client) + "two", b"123")
    assert (failure.code, "no room" in failure.message) == (PARAMS, True)
    await piece(client, place(client) + "one", b"90", 8)
    if limit == 10:
        assert (await refused(client, place(client) + "one", b"1", mode="append")).code == PARAMS
        await piece(client, place(client) + "one", b"12345")
        await upload(client, b"678", "three")
        failure = await refused(client, place(client) + "three", b"901", mode="append")
        assert "no room" in failure.message, "what the others hold counts"
        await client.request("resourceDelete", uri=place(client) + "three")
    await sent(client, resource(place(client) + "one"))
    await upload(client, b"123", "two")


@posix
async def test_a_full_disk_costs_the_piece_which_can_be_sent_again(client: Sender) -> None:
    uri = await upload(client, b"a" * 4096)
    with full(6000):
        failure = await refused(client, uri, b"b" * 4096, position=4096)
    assert failure.code == -32603
    assert at(uri).read_bytes() == b"a" * 4096
    await piece(client, uri, b"b" * 4096, 4096)
    assert at(uri).stat().st_size == 8192


# ── whose it is ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_P3_uploading_takes_sending_and_opens_nothing_else(host: Host, tmp_path: Path) -> None:
    ana = Sender(host, principal=Principal("user:ana", "Ana"))
    await ana.initialize("ahp-root://")
    uri = await upload(ana, b"text")
    elsewhere = tmp_path / "served" / "uploads" / uploads.new_name()
    elsewhere.mkdir(parents=True)
    assert (await refused(ana, (elsewhere / "one").as_uri())).code == DENIED
    assert (await ana.fails("resourceList", uri=place(ana))).code == DENIED

    bo = WireClient(host, principal=Principal("user:bo", "Bo"))
    await bo.initialize("ahp-root://")
    assert UPLOADS not in bo.result["_meta"]
    failure = await refused(bo, uri)
    assert (failure.code, "chat:send" in failure.message) == (DENIED, True)


async def test_the_place_stays_the_client_s_whenever_it_comes_back(client: Sender, host: Host) -> None:
    before = place(client)
    await client.drop()
    client.open()
    await client.initialize("ahp-root://")
    assert place(client) == before
    other = WireClient(host)
    await other.initialize("ahp-root://")
    assert place(other) != before


async def test_an_upload_goes_on_at_the_next_server(
    client: Sender, host: Host, agent: Scripted, tmp_path: Path
) -> None:
    uri = await upload(client, b"aaaa")
    await client.drop()
    await host.stop()

    again = serving(FileStore(tmp_path / "store"), agent, tmp_path)
    await again.start()
    after = Sender(again, client_id=client.client_id)
    await after.initialize("ahp-root://")
    await piece(after, uri, b"bbbb", 4)
    [kept] = await sent(after, resource(uri))
    assert file_of(kept).read_bytes() == b"aaaabbbb"
    await after.drop()
    await again.stop()
    await host.start()  # for the fixture to stop


async def test_what_no_message_took_goes_after_a_day(client: Sender, host: Host) -> None:
    old, new = await upload(client, b"old", "old"), await upload(client, b"new", "new")
    past = time.time() - uploads.KEPT - 60
    left = host.store.uploads_dir() / uploads.new_name()
    left.mkdir()
    (left / "x").touch()
    (host.store.uploads_dir() / "mine").mkdir()
    for path in (at(old), left / "x", left):
        os.utime(path, (past, past))

    await host.sweep()

    assert (at(old).exists(), at(new).exists()) == (False, True)
    assert not (left / "x").exists()
    assert (host.store.uploads_dir() / "mine").exists(), "not one of ours"
    host.uploads._swept -= uploads._SWEEP
    os.utime(left, (past, past))
    await host.sweep()
    assert not left.exists()
