"""What messages carry, from Python to the agent: in the message, through the client, or uploaded. A2, A3, M4."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from jupyter_ahp import AsyncChat, Chat, Data, Refused, connect
from jupyter_ahp.client import files
from jupyter_ahp.client.completing import completion_of, units
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.discovery import Server
from jupyter_ahp.host import uploads
from jupyter_ahp.host.paths import path_of
from jupyter_ahp.host.ports import Block, ImageBlock, PathBlock, TextBlock
from jupyter_ahp.protocol.errors import ProtocolError
from jupyter_ahp.protocol.meta import MAX_MESSAGE, UPLOADS
from tests.client.conftest import QUICK
from tests.client.real_host import ByHand, RealHost, until
from tests.support.server import JupyterServer

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 1000


@pytest.fixture
async def chat(line: Connection, agent: ByHand) -> AsyncIterator[AsyncChat]:
    agent.echoes = True
    async with AsyncChat("hand", host=line) as chat:
        yield chat


def told(agent: ByHand) -> list[Block]:
    """What the agent was handed with the last message."""
    return list(agent.prompts[-1].blocks)


def read(block: Block) -> bytes:
    assert isinstance(block, PathBlock)
    return Path(block.path).read_bytes()


# ── ways to the host ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_A2_small_bytes_go_in_the_message(chat: AsyncChat, agent: ByHand) -> None:
    await chat.send("look", [Data("plot.png", PNG), Data("a.csv", b"a,b\n"), Data("x", b"\0", "text/x")])
    first, second, third = told(agent)
    assert (first, second) == (ImageBlock("plot.png", "image/png", PNG), TextBlock("a.csv", "a,b\n"))
    assert read(third) == b"\0"
    assert not list(chat._connection.files._served)


async def test_A2_large_bytes_are_uploaded_in_pieces_and_are_the_message_s_own(
    chat: AsyncChat, agent: ByHand, real: RealHost
) -> None:
    data = os.urandom(3 * 1024 * 1024 + 5)
    turn = await chat.send("look", Data("big.bin", data))

    (block,) = told(agent)
    assert hashlib.sha256(read(block)).digest() == hashlib.sha256(data).digest()
    assert "attachments" in str(block)
    assert not [path for path in real.host.store.uploads_dir().rglob("*") if path.is_file()], "moved"
    assert turn.state == "complete"


async def test_A2_a_queued_message_and_a_steering_one_carry_too(chat: AsyncChat, agent: ByHand) -> None:
    agent.echoes = False
    sending = asyncio.create_task(chat.send("one"))
    await until(lambda: agent.prompts)
    data = b"x" * (files.INLINE + 1)
    later = await chat.queue("two", Data("two.txt", data))
    steering = await chat.steer("three", Data("three.txt", data))
    await until(lambda: agent.steering)
    assert read(agent.steering[0].blocks[0]) == data
    agent.say("read", "done", "done")
    await sending
    await later.wait()
    assert read(told(agent)[0]) == data
    assert not steering.waits


@pytest.mark.parametrize("how", ["before", "replay", "snapshot", "restart"])
async def test_A2_a_line_that_is_cut_in_an_upload_costs_no_piece_and_doubles_none(
    chat: AsyncChat, agent: ByHand, real: RealHost, how: str
) -> None:
    data = os.urandom(3 * 1024 * 1024)
    real.cut_at("resourceWrite", how)  # type: ignore[arg-type]
    await chat.send("look", Data("big.bin", data))
    assert real.was_cut == 1
    assert read(told(agent)[0]) == data


async def test_A2_what_the_host_does_not_take_is_refused_in_its_words(
    chat: AsyncChat, agent: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Data("big.bin", b"x" * 1_000_000)
    monkeypatch.setattr(uploads, "FILES", 0)
    with pytest.raises(Refused, match=r"big\.bin was not uploaded: There is no room"):
        await chat.send("look", data)
    chat._connection.meta[UPLOADS]["maxBytes"] = 500_000
    with pytest.raises(Refused, match=r"too large to attach: 1\.0 MiB\. The host takes 0\.5 MiB"):
        await chat.send("look", data)
    assert agent.prompts == []
    await chat.send("without")


# ── A3 ───────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_A3_a_host_without_such_a_place_reads_it_through_the_client(
    chat: AsyncChat, agent: ByHand
) -> None:
    del chat._connection.meta[UPLOADS]
    data = os.urandom(files.INLINE + 1)
    turn = await chat.send("look", Data("b/ä.bin", data, "application/x"))

    assert read(told(agent)[0]) == data
    assert turn.state == "complete"


async def test_A3_a_file_is_named_by_its_path_and_given_to_a_host_that_asks(
    chat: AsyncChat, line: Connection, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n")
    await chat.send("look", path)

    answer = await line.files.read({"uri": path.as_uri(), "channel": "ahp-root://"})
    assert answer == {"data": "YSxiCg==", "encoding": "base64", "contentType": "text/csv"}


async def test_A3_nothing_else_is_given_away(chat: AsyncChat, line: Connection, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    await chat.send("look", tmp_path)
    for uri in ((tmp_path / "secret").as_uri(), tmp_path.as_uri(), "file:///etc/passwd", None):
        with pytest.raises(ProtocolError) as refused:
            await line.files.read({"uri": uri})
        assert refused.value.code == -32008


async def test_A3_what_vanished_or_grew_too_large_is_said(
    chat: AsyncChat, line: Connection, tmp_path: Path
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")
    await chat.send("look", path)
    line.meta[MAX_MESSAGE] = 100_000
    path.write_bytes(b"x" * 100_000)
    with pytest.raises(ProtocolError, match="larger than what goes in one message"):
        await line.files.read({"uri": path.as_uri()})
    path.unlink()
    with pytest.raises(ProtocolError, match="cannot be read"):
        await line.files.read({"uri": path.as_uri()})


@pytest.mark.parametrize(("over", "uploaded"), [(0, False), (1, True)])
async def test_A3_a_large_file_of_another_machine_is_uploaded(
    chat: AsyncChat, agent: ByHand, line: Connection, tmp_path: Path, over: int, uploaded: bool
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(files.LARGE + over))
    await chat.send("here", path)
    assert told(agent) == [PathBlock("a.bin", str(path))], "the host is here"

    line.near = False
    await chat.send("from elsewhere", path)

    (block,) = told(agent)
    assert read(block) == path.read_bytes()
    assert (isinstance(block, PathBlock) and block.path != str(path)) == uploaded


async def test_A3_what_is_held_for_the_host_is_bounded(
    chat: AsyncChat, line: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    del line.meta[UPLOADS]
    monkeypatch.setattr(files, "_HELD", 2 * files.INLINE + 10)
    for number in range(4):
        await chat.send("look", Data(f"{number}.bin", b"x" * (files.INLINE + 1)))
    assert len(line.files._served) == 2


# ── what is too large at once ────────────────────────────────────────────────────────────────────────────────────
async def test_a_message_that_is_too_large_is_refused_before_it_is_sent(
    chat: AsyncChat, line: Connection, agent: ByHand
) -> None:
    line.meta[MAX_MESSAGE] = 100_000
    with pytest.raises(Refused, match=r"This message is too large: 0\.2 MiB\. The host takes 0\.1 MiB"):
        await chat.send("x" * 200_000)
    with pytest.raises(ProtocolError, match="too large"):
        await line.request("completions", {"channel": chat.uri, "text": "x" * 200_000})
    assert line.status == "online"
    assert (await chat.send("short")).text == "short"


def test_A2_a_server_that_takes_little_at_once(with_server: Callable[..., JupyterServer]) -> None:
    server = with_server(args=["--AHPExtension.max_message_bytes=400000"])
    data = os.urandom(1_000_000)
    with Chat("echo", host=connect(server.url, server.token)) as chat:
        turn = chat.send("look", Data("big.bin", data))
        (kept,) = turn.message.attachments
        path = path_of(kept["uri"])
        assert path is not None
        assert hashlib.sha256(Path(path).read_bytes()).digest() == hashlib.sha256(data).digest()
        with pytest.raises(Refused, match=r"too large: 0\.5 MiB"):
            chat.send("x" * 500_000)
        assert chat.send("still here").text.startswith("still here")


async def test_a_host_that_does_not_say_its_limit_closes_the_line_once_and_not_for_ever(
    with_server: Callable[..., JupyterServer],
) -> None:
    server = with_server(args=["--AHPExtension.max_message_bytes=400000"])
    line = Connection(lambda: Server(server.url, server.token or ""), pace=QUICK)
    async with AsyncChat("echo", host=line) as chat:
        line.meta.clear()
        with pytest.raises(Refused, match=r"closed the line on this message.*0\.5 MiB"):
            await chat.send("x" * 500_000)
        assert (await chat.send("back again")).text.startswith("back again")
        line.meta.clear()
        with pytest.raises(ProtocolError, match="closed the line"):
            await line.request(
                "resourceWrite", {"uri": "file:///x", "data": "x" * 500_000, "encoding": "utf-8"}
            )
        assert (await chat.send("and again")).text.startswith("and again")
    await line.close()


# ── M4 ───────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_M4_what_fits_at_the_cursor(line: Connection, agent: ByHand, tmp_path: Path) -> None:
    (tmp_path / "sales 🦆.csv").touch()
    async with AsyncChat("hand", host=line, directory=tmp_path) as chat:
        text = "🦆 look at @sal please"
        [found] = await chat.completions(text, text.index(" please"))
        assert found.applied(text).replace("  ", " ") == '🦆 look at @"sales 🦆.csv" please'
        assert (found.label, text[found.start : found.end]) == ("sales 🦆.csv", "@sal")
        assert found.attachment["uri"] == (tmp_path / "sales 🦆.csv").as_uri()
        assert [one.label for one in await chat.completions("@")] == ["sales 🦆.csv"]
        assert await chat.completions("nothing") == []


def test_M4_an_item_without_a_range_goes_in_at_the_cursor() -> None:
    found = completion_of({"insertText": "!", "attachment": {"type": "simple", "label": "x"}}, "🦆ab", 2)
    assert (found.applied("🦆ab"), found.label) == ("🦆a!b", "x")
    ranged = completion_of({"insertText": "!", "rangeStart": 2, "rangeEnd": 3}, "🦆ab", 3)
    assert ranged.applied("🦆ab") == "🦆!b"
    assert units("🦆ab") == 4
