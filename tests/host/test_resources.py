"""The files that clients read and change, through the wire: AHP 5.3, P1, P9."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host import fileops, resources
from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import Json, Principal
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import RpcError, Scripted, WireClient, until
from tests.host.test_attachments import PNG, Sender, inline, sent
from tests.store.test_failing_disk import full

S = "ahp-session:/s"
NOT_FOUND, DENIED, EXISTS, CONFLICT, PARAMS = -32008, -32009, -32010, -32011, -32602
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links, pipes and limits")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "served"
    (root / "sub").mkdir(parents=True)
    (root / "a.csv").write_text("a,b\n")
    (root / "plot.png").write_bytes(PNG)
    (tmp_path / "secret.txt").write_text("secret")
    return root


@pytest.fixture
async def host(root: Path, agent: Scripted) -> AsyncIterator[Host]:
    host = Host(MemoryStore(), [agent], HostOptions(default_directory=str(root)))
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


async def write(client: WireClient, path: Path, data: str, **more: Any) -> Json:
    result: Json = await client.request(
        "resourceWrite", uri=path.as_uri(), data=data, encoding="utf-8", **more
    )
    return result


def text(path: Path) -> str:
    return path.read_text()


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("name", "asked", "answer"),
    [
        ("a.csv", None, {"data": "a,b\n", "encoding": "utf-8", "contentType": "text/csv"}),
        ("a.csv", "base64", {"data": "YSxiCg==", "encoding": "base64", "contentType": "text/csv"}),
        (
            "plot.png",
            "utf-8",
            {"data": base64.b64encode(PNG).decode(), "encoding": "base64", "contentType": "image/png"},
        ),
    ],
)
async def test_what_is_text_is_sent_as_text_and_the_rest_as_base64(
    client: Sender, root: Path, name: str, asked: str | None, answer: Json
) -> None:
    params = {"uri": (root / name).as_uri(), **({"encoding": asked} if asked else {})}

    assert await client.request("resourceRead", **params) == answer


@posix
@pytest.mark.parametrize(
    ("uri", "answer"),
    [
        ("data:text/plain;base64,aGk=", {"data": "hi", "encoding": "utf-8", "contentType": "text/plain"}),
        ("data:,a%20b", {"data": "a b", "encoding": "utf-8"}),
        ("data:image/png;base64,AAA=", {"data": "AAA=", "encoding": "base64", "contentType": "image/png"}),
    ],
)
async def test_a_data_uri_has_its_content_in_itself(client: Sender, uri: str, answer: Json) -> None:
    assert await client.request("resourceRead", uri=uri) == answer


async def test_a_damaged_data_uri_is_refused(client: Sender) -> None:
    assert (await client.fails("resourceRead", uri="data:;base64,?")).code == -32602


async def test_a_listing(client: Sender, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(root / "sub")
    (root / "dangling").symlink_to("nowhere")
    (root / "🦆 %").touch()

    listed = await client.request("resourceList", uri=root.as_uri())

    assert listed == {
        "entries": [
            {"name": "a.csv", "type": "file"},
            {"name": "dangling", "type": "file"},
            {"name": "link", "type": "directory"},
            {"name": "pipe", "type": "file"},
            {"name": "plot.png", "type": "file"},
            {"name": "sub", "type": "directory"},
            {"name": "🦆 %", "type": "file"},
        ]
    }
    assert await client.request("resourceList", uri=(root / "sub").as_uri()) == {"entries": []}
    assert (await client.fails("resourceList", uri=(root / "a.csv").as_uri())).code == PARAMS
    assert (await client.fails("resourceList", uri=(root / "none").as_uri())).code == NOT_FOUND


@posix
async def test_what_a_path_is(client: Sender, root: Path) -> None:
    (root / "link").symlink_to(root / "a.csv")
    uri, real = (root / "link").as_uri(), (root / "a.csv").as_uri()

    found = await client.request("resourceResolve", uri=uri)
    itself = await client.request("resourceResolve", uri=uri, followSymlinks=False)

    assert (found["uri"], found["type"], found["size"], found["contentType"]) == (real, "file", 4, "text/csv")
    assert found["mtime"].endswith("Z")
    assert (itself["uri"], itself["type"]) == (uri, "symlink")
    assert (await client.request("resourceResolve", uri=root.as_uri()))["type"] == "directory"
    assert (await client.fails("resourceResolve", uri=(root / "none").as_uri())).code == NOT_FOUND


@posix
@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "out.txt",
        "around/secret.txt",
        "sub/../../secret.txt",
        "%00",
        "a%00b",
        "../none",
        "pipe",
        "sub",
    ],
)
async def test_nothing_else_is_read(client: Sender, root: Path, name: str) -> None:
    (root / "out.txt").symlink_to(root.parent / "secret.txt")
    (root / "around").symlink_to(root.parent)
    os.mkfifo(root / "pipe")

    async with asyncio.timeout(3):
        error = await client.fails("resourceRead", uri=f"{root.as_uri()}/{name}")

    assert error.code in (DENIED, PARAMS)
    assert "secret" not in error.message.replace("secret.txt", "")


@pytest.mark.parametrize("uri", ["file:///etc/hostname", "file:///", "file:///etc/no-such-file"])
async def test_outside_one_cannot_tell_what_is_there(client: Sender, uri: str) -> None:
    for method in ("resourceRead", "resourceList", "resourceResolve"):
        assert (await client.fails(method, uri=uri)).code == DENIED


@pytest.mark.parametrize(
    "uri", ["untitled:x", "https://example.org/x", "ahp-session:/s", "file://elsewhere/x"]
)
async def test_what_is_no_file_here_is_nothing(client: Sender, uri: str) -> None:
    assert (await client.fails("resourceRead", uri=uri)).code == NOT_FOUND


async def test_a_file_is_sent_up_to_a_size(
    client: Sender, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, is_sent in ((3, False), (4, True), (5, True)):
        monkeypatch.setattr(fileops, "READ_LIMIT", limit)
        uri = (root / "a.csv").as_uri()
        if is_sent:
            assert (await client.request("resourceRead", uri=uri))["data"] == "a,b\n"
        else:
            assert "larger" in (await client.fails("resourceRead", uri=uri)).message
    monkeypatch.setattr(fileops, "ENTRIES", 2)
    assert "more entries" in (await client.fails("resourceList", uri=root.as_uri())).message


async def test_large_answers_wait_for_each_other(client: Sender, root: Path) -> None:
    """Together they are more than a client may be behind."""
    (root / "large").write_bytes(b"x" * 3_000_000)
    client.wire.stalled = True
    answers = []
    for _ in range(5):
        answer, taken = client.ask(
            "resourceRead", {"channel": "ahp-root://", "uri": (root / "large").as_uri()}
        )
        answers.append(answer)
        await taken
    while not all(answer.done() for answer in answers):
        assert client.wire.closed is None
        await asyncio.sleep(0.01)
        client.wire.pass_on()

    assert {len(answer.result()["data"]) for answer in answers} == {3_000_000}


# ── where ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_session_s_directories_are_served_once_it_is_open(
    host: Host, client: Sender, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "x").write_text("here")
    uri = (work / "x").as_uri()
    assert (await client.fails("resourceRead", uri=uri)).code == DENIED

    await client.create(S, workingDirectories=[work.as_uri()])

    assert (await client.request("resourceRead", uri=uri))["data"] == "here"
    await client.request("disposeSession", channel=S)
    assert (await client.fails("resourceRead", uri=uri)).code == DENIED


async def test_what_a_message_carries_is_read_and_not_written(client: Sender) -> None:
    [kept] = await sent(client, inline(PNG))

    read = await client.request("resourceRead", uri=kept["uri"])

    assert base64.b64decode(read["data"]) == PNG
    for method, more in (("resourceDelete", {}), ("resourceWrite", {"data": "", "encoding": "utf-8"})):
        assert (await client.fails(method, uri=kept["uri"], **more)).code == DENIED
    assert (await client.fails("resourceRequest", uri=kept["uri"], write=True)).code == DENIED
    assert await client.request("resourceRequest", uri=kept["uri"]) == {}


@pytest.mark.parametrize(
    ("granted", "reads_served", "reads_carried", "reads_work"),
    [
        ("resource:read", True, False, False),
        ("chat:turns", False, True, False),
        ("session:read", False, True, False),
        ("resource:write", False, False, False),
        ("resource:read session:read", True, True, True),
    ],
)
async def test_P1_a_file_takes_its_operation_and_a_chat_s_pictures_take_the_chat(
    agent: Scripted, root: Path, granted: str, reads_served: bool, reads_carried: bool, reads_work: bool
) -> None:
    grants = Grants({"reader": granted.split()}, {"ana": "reader"})
    options = HostOptions(default_directory=str(root / "sub"), grants=grants)
    host = Host(MemoryStore(), [agent], options)
    await host.start()
    owner, ana = Sender(host), Sender(host, principal=Principal("user:ana", "Ana"))
    await owner.initialize()
    await ana.initialize()
    (root / "sub" / "plain").write_text("served")
    looks_like_one = root / "sub" / "attachments" / "f47ac10b-58cc-4372-a567-0e02b2c3d479"
    looks_like_one.mkdir(parents=True)
    (looks_like_one / "x").write_text("served")
    chat = await owner.create(S, workingDirectories=[root.as_uri()])
    [kept] = await sent(owner, inline(PNG), chat=chat)

    for uri, reads in (
        ((root / "sub" / "plain").as_uri(), reads_served),
        ((looks_like_one / "x").as_uri(), reads_served and reads_carried),
        (kept["uri"], reads_carried),
        ((root / "a.csv").as_uri(), reads_work),
    ):
        for method in ("resourceRead", "resourceResolve"):
            if reads:
                await ana.request(method, uri=uri)
            else:
                assert (await ana.fails(method, uri=uri)).code == DENIED

    if granted != "resource:write":
        needs = (await ana.fails("resourceRequest", uri=root.as_uri(), write=True)).data["jupyter-ahp.needs"]
        assert needs == ["resource:write"]
    await owner.drop()
    await ana.drop()
    await host.stop()


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("mode", "position", "result"),
    [
        (None, None, "XY"),
        ("truncate", None, "XY"),
        ("truncate", 2, "01XY"),
        ("truncate", 9, "01234XY"),
        ("append", None, "01234XY"),
        ("append", 0, "01234XY"),
        ("append", 2, "012XY34"),
        ("append", 9, "XY01234"),
        ("insert", None, "XY01234"),
        ("insert", 2, "01XY234"),
        ("insert", 9, "01234XY"),
    ],
)
async def test_where_it_is_written(
    client: Sender, root: Path, mode: str | None, position: int | None, result: str
) -> None:
    path = root / "x"
    path.write_text("01234")
    path.chmod(0o640)
    more = {"mode": mode, "position": position}

    await write(client, path, "XY", **{key: value for key, value in more.items() if value is not None})

    assert text(path) == result
    assert path.stat().st_mode & 0o777 == 0o640
    assert names(root) == ["a.csv", "plot.png", "sub", "x"]


async def test_a_new_file_and_one_that_is_there(client: Sender, root: Path) -> None:
    new = root / "sub" / "new.txt"
    assert await write(client, new, "one", createOnly=True) == {}

    error = await client.fails(
        "resourceWrite", uri=new.as_uri(), data="two", encoding="utf-8", createOnly=True
    )

    assert (error.code, text(new)) == (EXISTS, "one")
    missing = (root / "no" / "x").as_uri()
    assert (await client.fails("resourceWrite", uri=missing, data="", encoding="utf-8")).code == NOT_FOUND
    assert (await client.fails("resourceWrite", uri=new.as_uri(), data="%", encoding="base64")).code == PARAMS
    assert (await client.fails("resourceWrite", uri=root.as_uri(), data="", encoding="utf-8")).code == PARAMS


async def test_one_of_two_who_read_the_same_is_told(client: Sender, root: Path) -> None:
    path = root / "a.csv"
    etag = (await client.request("resourceResolve", uri=path.as_uri()))["etag"]

    said = await asyncio.gather(
        *(write(client, path, f"{who}" * 5, ifMatch=etag) for who in "ab"), return_exceptions=True
    )

    assert [getattr(one, "code", one) for one in said] == [{}, CONFLICT]
    assert text(path) == "aaaaa"


async def test_appenders_do_not_lose_each_other_s_lines(client: Sender, root: Path) -> None:
    lines = [f"line {number}\n" for number in range(30)]

    await asyncio.gather(*(write(client, root / "log", line, mode="append") for line in lines))

    assert sorted(text(root / "log").splitlines(keepends=True)) == sorted(lines)


@posix
async def test_writing_does_not_lead_out(client: Sender, root: Path) -> None:
    secret = root.parent / "secret.txt"
    (root / "out.txt").symlink_to(secret)
    (root / "new.txt").symlink_to(root.parent / "made.txt")
    (root / "around").symlink_to(root.parent)

    for name in ("out.txt", "new.txt", "around/made.txt", "around/secret.txt"):
        with pytest.raises(RpcError, match="-32009"):
            await write(client, root / name, "X")
    for method in ("resourceMkdir", "resourceDelete"):
        assert (await client.fails(method, uri=(root / "around" / "made.txt").as_uri())).code == DENIED

    assert text(secret) == "secret"
    assert names(root.parent) == ["secret.txt", "served"]


@posix
async def test_a_full_disk_costs_the_new_content_and_not_the_old(client: Sender, root: Path) -> None:
    path = root / "x"
    path.write_text("old")
    with full(1000):
        for mode in ("truncate", "append", "insert"):
            with pytest.raises(RpcError, match=r"-32603.*too large"):
                await write(client, path, "x" * 5000, mode=mode)
        with pytest.raises(RpcError, match="-32603"):
            await write(client, root / "new", "x" * 5000)

    assert text(path) == "old"
    assert names(root) == ["a.csv", "plot.png", "sub", "x"]


async def test_directories_are_made_with_those_above_them(client: Sender, root: Path) -> None:
    for _ in range(2):
        assert await client.request("resourceMkdir", uri=(root / "p" / "q").as_uri()) == {}
    assert (root / "p" / "q").is_dir()
    for over in ("a.csv", "a.csv/x"):
        assert (await client.fails("resourceMkdir", uri=f"{root.as_uri()}/{over}")).code == EXISTS


@posix
async def test_deleting(client: Sender, root: Path, tmp_path: Path) -> None:
    (root / "sub" / "x").touch()
    (root / "link").symlink_to(root / "sub")

    assert (await client.fails("resourceDelete", uri=(root / "sub").as_uri())).code == CONFLICT
    await client.request("resourceDelete", uri=(root / "link").as_uri(), recursive=True)
    assert names(root / "sub") == ["x"]
    await client.request("resourceDelete", uri=(root / "sub").as_uri(), recursive=True)
    await client.request("resourceDelete", uri=(root / "a.csv").as_uri())
    assert names(root) == ["plot.png"]
    assert (await client.fails("resourceDelete", uri=(root / "a.csv").as_uri())).code == NOT_FOUND


@pytest.mark.parametrize("end", ["", "/", "/.", "/./", "//"])
async def test_a_served_directory_itself_stays(client: Sender, root: Path, end: str) -> None:
    work = root / "sub"
    await client.create(S, workingDirectories=[work.as_uri()])

    for top in (root, work):
        uri = top.as_uri() + end
        assert (await client.fails("resourceDelete", uri=uri, recursive=True)).code == DENIED
        away = {"source": uri, "destination": (root / "away").as_uri()}
        assert (await client.fails("resourceMove", **away)).code == DENIED

    assert names(root) == ["a.csv", "plot.png", "sub"]


@pytest.mark.parametrize("method", ["resourceCopy", "resourceMove"])
async def test_copies_and_moves(client: Sender, root: Path, method: str) -> None:
    def to(source: str, destination: str, **more: Any) -> Json:
        return {
            "source": (root / source).as_uri(),
            "destination": (root / destination).as_uri(),
            **more,
        }

    (root / "sub" / "x").write_text("X")
    assert (await client.fails(method, **to("sub", "sub/inner"))).code == PARAMS
    assert (await client.fails(method, **to("a.csv", "a.csv"))).code == PARAMS
    assert (await client.fails(method, **to("none", "b"))).code == NOT_FOUND
    assert (await client.fails(method, **to("a.csv", "sub"))).code == EXISTS
    assert (await client.fails(method, **to("a.csv", "plot.png", failIfExists=True))).code == EXISTS
    assert (await client.fails(method, **to("a.csv", "../b.csv"))).code == PARAMS
    outside = {"source": (root / "a.csv").as_uri(), "destination": (root.parent / "b.csv").as_uri()}
    assert (await client.fails(method, **outside)).code == DENIED

    assert await client.request(method, **to("a.csv", "plot.png")) == {}
    assert await client.request(method, **to("sub", "other")) == {}

    assert text(root / "plot.png") == "a,b\n"
    assert text(root / "other" / "x") == "X"
    stays = method == "resourceCopy"
    assert names(root) == [*(["a.csv"] if stays else []), "other", "plot.png", *(["sub"] if stays else [])]


@posix
async def test_a_link_is_moved_and_not_what_it_leads_to(client: Sender, root: Path) -> None:
    (root / "out").symlink_to(root.parent / "secret.txt")

    copied = {"source": (root / "out").as_uri(), "destination": (root / "copied").as_uri()}
    assert (await client.fails("resourceCopy", **copied)).code == DENIED
    await client.request("resourceMove", source=(root / "out").as_uri(), destination=(root / "in").as_uri())

    assert (root / "in").is_symlink()
    assert text(root.parent / "secret.txt") == "secret"


# ── what is a client's ───────────────────────────────────────────────────────────────────────────────────────────
async def test_what_is_a_client_s_is_asked_of_it(host: Host, client: Sender) -> None:
    owner = Sender(host, client_id="Window-7")
    await owner.initialize()

    async def answer(params: Json) -> Json:
        if "none" in params["uri"]:
            raise RpcError({"code": -32008, "message": "not there"})
        return {"data": "theirs", "encoding": "utf-8"}

    owner.answer = answer
    uri = "virtual://window-7/x"

    assert await client.request("resourceRead", uri=uri) == {"data": "theirs", "encoding": "utf-8"}
    assert owner.asked == [{"channel": "ahp-root://", "uri": uri}]
    assert (await client.fails("resourceRead", uri="virtual://window-7/none")).code == NOT_FOUND
    assert (await client.fails("resourceRead", uri="virtual://nobody/x")).code == NOT_FOUND
    mixed = {"source": uri, "destination": "file:///x"}
    assert (await client.fails("resourceCopy", **mixed)).code == PARAMS
    owner.answer = None
    assert (await owner.fails("resourceRead", uri=uri)).code == NOT_FOUND


async def test_an_owner_that_says_nothing_or_leaves_ends_the_request(
    host: Host, client: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Sender(host, client_id="w")
    await owner.initialize()
    monkeypatch.setattr(resources, "PATIENCE", 0.05)

    assert "did not answer" in (await client.fails("resourceRead", uri="virtual://w/x")).message

    monkeypatch.setattr(resources, "PATIENCE", 30)
    answer, taken = client.ask("resourceRead", {"channel": "ahp-root://", "uri": "virtual://w/x"})
    await taken
    await until(lambda: len(owner.asked) == 2)
    await owner.drop()
    with pytest.raises(RpcError, match=r"-32008.*has left"):
        await answer


@pytest.mark.parametrize(
    ("method", "place", "more"),
    [
        ("resourceRead", "attachments", {}),
        ("resourceResolve", "attachments", {}),
        ("resourceWrite", "uploads", {"data": "x", "encoding": "utf-8"}),
        ("resourceDelete", "uploads", {}),
    ],
)
async def test_P1_P3_a_name_like_that_of_a_messages_file_asks_nothing_of_another_client(
    agent: Scripted, method: str, place: str, more: Json
) -> None:
    grants = Grants({"writer": ["session:read", "session:write"]}, {"ana": "writer"})
    host = Host(MemoryStore(), [agent], HostOptions(grants=grants))
    await host.start()
    owner = Sender(host, client_id="window-7")
    ana = WireClient(host, principal=Principal("user:ana", "Ana"))
    await owner.initialize()
    await ana.initialize()

    uri = f"virtual://window-7/{place}/f47ac10b-58cc-4372-a567-0e02b2c3d479/x"
    assert (await ana.fails(method, uri=uri, **more)).code == DENIED

    assert owner.asked == []
    await owner.drop()
    await ana.drop()
    await host.stop()
