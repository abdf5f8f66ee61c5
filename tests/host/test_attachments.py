"""What a message carries: A1 to A11, through the wire."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import stat
import sys
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ahp.host import snapshots
from jupyter_ahp.host.attachments import BECAME, IMAGE_LIMIT, SNAPSHOT, TEXT_LIMIT, blocks_of
from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.paths import path_of
from jupyter_ahp.host.ports import (
    Capabilities,
    ImageBlock,
    Json,
    PathBlock,
    Principal,
    Prompt,
    Steering,
    Store,
    TextBlock,
    TurnSink,
)
from jupyter_ahp.host.snapshots import file_name
from jupyter_ahp.store.files import FileStore
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import Line, RpcError, Scripted, WireClient, message, quiet, until
from tests.host.test_turns import Held
from tests.store.test_failing_disk import full

S = "ahp-session:/s"
TWO = "ahp-chat:/two"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 100
GIF = b"GIF89a" + b"\0" * 100
WEBP = b"RIFF\x10\0\0\0WEBPVP8 " + b"\0" * 100
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions, links and limits")

Answer = Callable[[Json], Awaitable[Any]]


class Sender(WireClient):
    """A client that answers what the host asks of it as `answer` says; without one it never answers."""

    def __init__(self, host: Host, **more: Any) -> None:
        super().__init__(host, **more)
        self.answer: Answer | None = None
        self.asked: list[Json] = []
        self.replies: list[asyncio.Task[None]] = []

    def _note(self, message: Json) -> None:
        if "id" not in message:
            super()._note(message)
            return
        self.asked.append(message["params"])
        if self.answer is not None:
            self.replies.append(asyncio.create_task(self._reply(message)))

    async def _reply(self, request: Json) -> None:
        assert self.answer is not None
        try:
            said = {"result": await self.answer(request["params"])}
        except RpcError as error:
            said = {"error": {"code": error.code, "message": error.message}}
        await self.connection.receive(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}))


def inline(data: bytes, label: str = "plot.png", kind: str = "image/png", **more: Any) -> Json:
    return {
        "type": "embeddedResource",
        "label": label,
        "contentType": kind,
        "data": base64.b64encode(data).decode(),
        **more,
    }


def resource(uri: str, label: str = "a.csv", **more: Any) -> Json:
    return {"type": "resource", "label": label, "uri": uri, **more}


def real(path: Path) -> Path:
    return path.resolve()


def file_of(attachment: Json) -> Path:
    path = path_of(attachment["uri"])
    assert path is not None
    return Path(path)


@pytest.fixture
def store() -> Store:
    return MemoryStore()


@pytest.fixture
async def sender(host: Host) -> Sender:
    client = Sender(host)
    await client.initialize("ahp-root://")
    return client


async def sent(
    client: WireClient, *attachments: Json, chat: str | None = None, text: str = "look"
) -> list[Json]:
    """A turn with these attachments: what its message carries when it has ended."""
    chat = chat or await client.create(S)
    turn = await client.say(chat, text, attachments=list(attachments))
    carried: list[Json] = turn["message"]["attachments"]
    return carried


# ── A2: written once ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_A2_inline_bytes_become_a_file_before_the_action_is_applied(
    sender: Sender, agent: Scripted, host: Host
) -> None:
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 4}}
    span = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}}
    original = inline(
        PNG, displayKind="image", range=place, selection={"range": span}, _meta={"mine": 1, BECAME: "text"}
    )

    [kept] = await sent(sender, original)

    assert kept == {
        "type": "resource",
        "label": "plot.png",
        "uri": kept["uri"],
        "contentType": "image/png",
        "sizeHint": len(PNG),
        "displayKind": "image",
        "range": place,
        "selection": {"range": span},
        "_meta": {
            "mine": 1,
            SNAPSHOT: {"isSnapshot": True, "contentType": "image/png"},
            BECAME: "image",
        },
    }
    path = file_of(kept)
    assert path.read_bytes() == PNG
    assert path.parent.parent == host.store.attachments_dir("s")
    assert path.name == "plot.png"
    echo = next(env for env in sender.envelopes if env["action"]["type"] == "chat/turnStarted")
    assert echo["action"]["message"]["attachments"] == [kept]
    assert agent.prompts[0].blocks == [ImageBlock("plot.png", "image/png", PNG)]
    assert sender.asked == []


@posix
async def test_A2_the_folder_is_its_owner_s_and_the_file_is_not_written_to(sender: Sender) -> None:
    [kept] = await sent(sender, inline(PNG))
    path = file_of(kept)

    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parent.parent)] == [
        0o400,
        0o700,
        0o700,
    ]


async def test_A2_a_draft_stays_as_it_is(sender: Sender) -> None:
    chat = await sender.create(S)
    draft = message("look", attachments=[inline(PNG)])

    await sender.do(chat, "chat/draftChanged", draft=draft)

    assert sender.state(chat)["draft"]["attachments"] == [inline(PNG)]


async def test_A2_a_queued_message_is_written_when_it_is_queued(
    sender: Sender, agent: Scripted, host: Host
) -> None:
    chat, go = await sender.create(S), asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        await go.wait()

    agent.play = play
    await sender.start(chat, "one")
    await sender.do(
        chat,
        "chat/pendingMessageSet",
        kind="queued",
        id="q",
        message=message("two", attachments=[inline(PNG)]),
    )
    [kept] = sender.state(chat)["queuedMessages"][0]["message"]["attachments"]
    assert file_of(kept).read_bytes() == PNG

    go.set()
    await until(lambda: len(sender.state(chat)["turns"]) == 2)

    assert sender.state(chat)["turns"][1]["message"]["attachments"] == [kept]
    assert agent.prompts[1].blocks == [ImageBlock("plot.png", "image/png", PNG)]
    assert len(list(host.store.attachments_dir("s").iterdir())) == 1


async def test_A2_a_chat_s_first_message_too(sender: Sender) -> None:
    await sender.create(S)
    await sender.request(
        "createChat", channel=S, chat=TWO, initialMessage=message("hi", attachments=[inline(PNG)])
    )
    await sender.subscribe(TWO)
    await until(lambda: not sender.running(TWO))

    [kept] = sender.state(TWO)["turns"][0]["message"]["attachments"]
    assert file_of(kept).read_bytes() == PNG


async def test_A2_what_is_read_back_and_sent_again_is_written_no_second_time(
    sender: Sender, host: Host, agent: Scripted
) -> None:
    chat = await sender.create(S)
    kept = await sent(sender, inline(PNG), inline(b"a,b", "a.csv", "text/csv"), chat=chat)

    again = await sent(sender, *kept, chat=chat)

    assert again == kept
    assert len(list(host.store.attachments_dir("s").iterdir())) == 2
    assert agent.prompts[1].blocks == agent.prompts[0].blocks


async def test_A2_a_message_that_is_refused_writes_nothing(sender: Sender, host: Host) -> None:
    chat = await sender.create(S)
    await sender.say(chat, "one", turn="t")

    await sender.start(chat, "again", turn="t", attachments=[inline(PNG)])
    await sender.do(
        chat,
        "chat/pendingMessageSet",
        kind="steering",
        id="s",
        message=message("no steering here", attachments=[inline(PNG)]),
    )

    assert len(sender.refusals) == 2
    assert not host.store.attachments_dir("s").exists()


async def test_A2_a_message_that_could_not_be_stored_leaves_nothing(failing: Any, agent: Scripted) -> None:
    host = Host(failing, [agent], HostOptions())
    await host.start()
    client = Sender(host)
    await client.initialize()
    chat = await client.create(S)
    failing.fails = {"begin_turn", "put_chat"}

    await client.start(chat, "look", attachments=[inline(PNG)])
    await client.do(
        chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("x", attachments=[inline(PNG)])
    )

    assert len(client.refusals) == 2
    assert list(host.store.attachments_dir("s").iterdir()) == []
    failing.fails = set()
    await client.drop()
    await host.stop()


async def test_A2_base64_that_is_none_stays_as_it_was_sent(sender: Sender, agent: Scripted) -> None:
    broken = {**inline(PNG), "data": "%%%"}

    assert await sent(sender, broken) == [broken]
    assert agent.prompts[0].blocks == [PathBlock("plot.png", "plot.png")]


# ── files: a store on disk ───────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
async def on_disk(
    tmp_path: Path, agent: Scripted
) -> AsyncIterator[Callable[[], Awaitable[tuple[Host, Sender]]]]:
    """Start a host on the same files, the one before stopped."""
    running: list[Host] = []

    async def start() -> tuple[Host, Sender]:
        await stop()
        agent.capabilities = Capabilities(fork=True)
        host = Host(FileStore(tmp_path / "store"), [agent], HostOptions())
        await host.start()
        running.append(host)
        client = Sender(host)
        await client.initialize("ahp-root://")
        return host, client

    async def stop() -> None:
        for host in running:
            for connection in tuple(host.connections):
                await connection.closed()
            await host.stop()
        running.clear()

    yield start
    await stop()


def files_with(data: bytes, root: Path) -> list[Path]:
    digest = hashlib.sha256(data).digest()
    return [
        path
        for path in root.rglob("*")
        if path.is_file() and hashlib.sha256(path.read_bytes()).digest() == digest
    ]


def written_under(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in root.rglob("*.json*"))


async def test_A2_one_copy_however_often_a_chat_is_forked_and_after_a_restart(
    on_disk: Callable[[], Awaitable[tuple[Host, Sender]]], agent: Scripted, tmp_path: Path
) -> None:
    _, client = await on_disk()
    chat = await client.create(S)
    [kept] = await sent(client, inline(PNG), chat=chat)
    turn = client.state(chat)["turns"][0]["id"]
    for fork in ("ahp-chat:/f1", "ahp-chat:/f2"):
        source = {"kind": "fork", "chat": chat, "turnId": turn}
        await client.request("createChat", channel=S, chat=fork, source=source)
        assert (await client.subscribe(fork))["turns"][0]["message"]["attachments"] == [kept]

    host, client = await on_disk()

    state = await client.subscribe("ahp-chat:/f2")
    assert state["turns"][0]["message"]["attachments"] == [kept]
    assert files_with(PNG, tmp_path) == [file_of(kept)]
    assert base64.b64encode(PNG) not in written_under(tmp_path)
    [again] = await sent(client, kept, chat="ahp-chat:/f2")
    assert again == kept
    assert agent.prompts[-1].blocks == [ImageBlock("plot.png", "image/png", PNG)]

    await client.request("disposeSession", channel=S)
    assert files_with(PNG, tmp_path) == []
    assert not host.store.attachments_dir("s").exists()


async def test_A2_they_go_with_a_session_in_memory(sender: Sender, host: Host) -> None:
    [kept] = await sent(sender, inline(PNG))

    await sender.request("disposeSession", channel=S)

    assert not file_of(kept).exists()


@posix
async def test_A5_a_full_disk_costs_the_attachment_and_not_the_message(
    on_disk: Callable[[], Awaitable[tuple[Host, Sender]]], caplog: pytest.LogCaptureFixture
) -> None:
    host, client = await on_disk()
    chat = await client.create(S)

    async def answer(params: Json) -> Json:
        return {"data": "x" * 60_000, "encoding": "utf-8"}

    client.answer = answer
    with full(40_000):
        small, large = await sent(
            client, inline(b"small", "a.txt", "text/plain"), resource("file:///only/mine"), chat=chat
        )

    assert file_of(small).read_bytes() == b"small"
    assert large == resource("file:///only/mine")
    assert "could not be written" in caplog.text
    assert len(list(host.store.attachments_dir("s").iterdir())) == 1, "no half of a file"


@posix
async def test_A5_an_image_that_a_full_disk_refuses_stays_in_its_message(
    sender: Sender, agent: Scripted
) -> None:
    large = PNG + b"\0" * 60_000

    with full(40_000):
        assert await sent(sender, inline(large)) == [inline(large)]

    assert agent.prompts[0].blocks == [ImageBlock("plot.png", "image/png", large)]


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("label", "kind", "name"),
    [
        ("plot.png", "image/png", "plot.png"),
        ("../../x", "text/plain", ".._.._x"),
        ("..", "text/plain", "attachment.txt"),
        ("", "image/png", "attachment.png"),
        ("a\0b.txt", "text/plain", "a_b.txt"),
        ('a/b\\c:d*e?f"g<h>i|j.csv', "text/csv", "a_b_c_d_e_f_g_h_i_j.csv"),
        ("line\nbreak\x85.txt", "text/plain", "line_break_.txt"),
        ("CON", "text/plain", "_CON.txt"),
        ("nul.txt", "text/plain", "_nul.txt"),
        ("com1.tar.gz", None, "_com1.tar.gz"),
        ("console.log", None, "console.log"),
        ("notes.", "text/plain", "notes.txt"),
        ("notes. . ", None, "notes"),
        ("🦆 duck.png", "image/png", "🦆 duck.png"),
        ("Cell 3", "text/plain; charset=utf-8", "Cell 3.txt"),
        ("v1.2 of it", "text/markdown", "v1.2 of it.md"),
        ("Pasted image", "image/jpeg", "Pasted image.jpg"),
        ("what is this", "application/x-no-such", "what is this"),
        (".gitignore", "text/plain", ".gitignore"),
        ("." * 200 + "x", None, "attachment"),
        ("half \ud83d emoji.txt", None, "half _ emoji.txt"),
    ],
)
def test_A2_names(label: str, kind: str | None, name: str) -> None:
    assert file_name(label, kind) == name


@pytest.mark.parametrize("label", ["x" * 300 + ".png", "🦆" * 300, "é" * 300 + ".csv"])
def test_A2_a_long_name_keeps_its_extension(label: str) -> None:
    name = file_name(label, "image/png")

    assert len(name.encode()) <= 120
    assert os.path.splitext(name)[1] == (os.path.splitext(label)[1] or ".png")


@given(st.text(max_size=200), st.sampled_from([None, "image/png", "text/plain", "x/../y"]))
def test_A2_any_label_gives_a_name_that_any_system_can_hold(label: str, kind: str | None) -> None:
    name = file_name(label, kind)

    assert name
    assert len(name.encode()) <= 120
    assert not set(name) & set('\\/:*?"<>|\0\n\x7f')
    assert name == name.rstrip(". ")
    assert name.partition(".")[0].rstrip().upper() not in {"CON", "PRN", "AUX", "NUL", "COM1", "LPT9"}


@pytest.mark.parametrize(
    "label", ["../../x", "a\0b", "x" * 300, "CON", "🦆", "dot.", "", "/etc/passwd", "C:\\x"]
)
async def test_A2_whatever_it_is_called_it_is_in_the_session_s_folder(
    sender: Sender, host: Host, label: str
) -> None:
    [kept] = await sent(sender, inline(b"hi", label, "text/plain"))

    path = file_of(kept)
    assert kept["label"] == label
    assert path.read_bytes() == b"hi"
    assert real(path).parent.parent == real(host.store.attachments_dir("s"))
    assert unicodedata.is_normalized("NFC", path.name)


# ── A1, A6: what it becomes ──────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("data", "block"),
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
async def test_A1_an_image_is_one_by_what_it_contains(
    sender: Sender, agent: Scripted, data: bytes, block: str
) -> None:
    [kept] = await sent(sender, inline(data, "a.txt", "text/plain"))

    assert kept["_meta"][BECAME] == "image"
    assert agent.prompts[0].blocks == [ImageBlock("a.txt", block, data)]


@pytest.mark.parametrize(("over", "became"), [(-1, "image"), (0, "image"), (1, "path")])
async def test_A1_an_image_of_at_most_5_MiB(sender: Sender, agent: Scripted, over: int, became: str) -> None:
    data = PNG + b"\0" * (IMAGE_LIMIT + over - len(PNG))

    [kept] = await sent(sender, inline(data))

    assert kept["_meta"][BECAME] == became
    [block] = agent.prompts[0].blocks
    if became == "image":
        assert block == ImageBlock("plot.png", "image/png", data)
    else:
        assert block == PathBlock("plot.png", str(file_of(kept)))
        assert file_of(kept).stat().st_size == len(data)


@pytest.mark.parametrize(("over", "became"), [(-1, "text"), (0, "text"), (1, "path")])
async def test_A1_text_of_at_most_64_KiB(sender: Sender, agent: Scripted, over: int, became: str) -> None:
    text = "é" + "x" * (TEXT_LIMIT + over - 2)

    [kept] = await sent(sender, inline(text.encode(), "a.csv", "image/png"))

    assert kept["_meta"][BECAME] == became
    [block] = agent.prompts[0].blocks
    assert block == (TextBlock("a.csv", text) if became == "text" else PathBlock("a.csv", str(file_of(kept))))


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"a\0b", b"\x80abc", b"%PDF-1.7\xe2\xe3"])
async def test_A1_everything_else_is_named(sender: Sender, agent: Scripted, data: bytes) -> None:
    [kept] = await sent(sender, inline(data, "data", "text/plain"))

    assert kept["_meta"][BECAME] == "path"
    assert agent.prompts[0].blocks == [PathBlock("data", str(file_of(kept)))]


async def test_A6_each_says_what_it_became_and_which_is_the_host_s_own(
    sender: Sender, agent: Scripted, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("mine")
    forged = {SNAPSHOT: {"isSnapshot": True}, BECAME: "text"}
    theirs = resource((tmp_path / "mine").as_uri(), _meta=forged)

    image, text, path, own, simple = await sent(
        sender,
        inline(PNG),
        inline(b"a,b", "a.csv", "text/csv"),
        inline(b"\0", "x.bin", "application/x"),
        theirs,
        {"type": "simple", "label": "s", "modelRepresentation": "said", "_meta": {BECAME: "image"}},
    )

    assert [one["_meta"][BECAME] for one in (image, text, path)] == ["image", "text", "path"]
    assert all(one["_meta"][SNAPSHOT]["isSnapshot"] is True for one in (image, text, path))
    assert own == {**theirs, "_meta": {SNAPSHOT: {"isSnapshot": True}}}, (
        "what only the host says is taken out"
    )
    assert "_meta" not in simple
    assert agent.prompts[0].blocks[3] == PathBlock("a.csv", str(tmp_path / "mine")), "and is not believed"


async def test_A11_what_a_client_reads_back_is_what_it_sent(sender: Sender, tmp_path: Path) -> None:
    span = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 4}}
    told: Json = {"range": span, "selection": {"range": span}, "displayKind": "image", "_meta": {"mine": 1}}
    asis = [
        {"type": "simple", "label": "s", "modelRepresentation": "said", **told},
        resource(tmp_path.as_uri(), "folder", **{**told, "displayKind": "directory"}),
        resource("ahp-chat:/nobody", **told),
        {"type": "annotations", "label": "notes", "resource": f"{S}/annotations", **told},
        {"type": "chat", "label": "other", "resource": "ahp-chat:/gone", **told},
    ]
    written = inline(PNG, **told)

    *same, copy = await sent(sender, *asis, written)

    assert same == asis
    assert {key: value for key, value in copy.items() if key in ("label", *told) and key != "_meta"} == {
        key: value for key, value in written.items() if key in ("label", *told) and key != "_meta"
    }
    assert copy["_meta"]["mine"] == 1
    answer = await sender.request("resourceRead", uri=copy["uri"])
    assert hashlib.sha256(base64.b64decode(answer["data"])).digest() == hashlib.sha256(PNG).digest()


async def test_A1_a_file_that_vanishes_is_named(sender: Sender) -> None:
    chat = await sender.create(S)
    [kept] = await sent(sender, inline(PNG), chat=chat)
    file_of(kept).unlink()

    [again] = blocks_of(sender.state(chat)["turns"][0]["message"])

    assert again == PathBlock("plot.png", str(file_of(kept)))


# ── A5: left as it was sent ──────────────────────────────────────────────────────────────────────────────────────
async def test_A5_a_file_of_somebody_s_is_named_and_not_looked_into(
    sender: Sender, agent: Scripted, tmp_path: Path
) -> None:
    path = tmp_path / "secret.txt"
    path.write_text("secret")
    forged = resource(path.as_uri(), _meta={BECAME: "text", SNAPSHOT: {"isSnapshot": True}})

    [kept] = await sent(sender, forged)

    assert kept == {**forged, "_meta": {SNAPSHOT: {"isSnapshot": True}}}
    assert agent.prompts[0].blocks == [PathBlock("a.csv", str(path))]
    assert sender.asked == []


@posix
async def test_A5_a_link_out_of_the_folder_is_not_followed(
    sender: Sender, agent: Scripted, tmp_path: Path
) -> None:
    chat = await sender.create(S)
    [kept] = await sent(sender, inline(PNG), chat=chat)
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    link = file_of(kept).with_name("link.txt")
    link.symlink_to(secret)
    aside = file_of(kept).parent.parent / "aside"
    aside.symlink_to(tmp_path)

    forged = [resource(one.as_uri(), _meta={BECAME: "text"}) for one in (link, aside / "secret.txt")]
    await sent(sender, *forged, chat=chat)

    assert agent.prompts[1].blocks == [
        PathBlock("a.csv", str(link)),
        PathBlock("a.csv", str(aside / "secret.txt")),
    ]


@posix
async def test_A5_a_directory_and_a_pipe_stay_as_they_are(
    sender: Sender, agent: Scripted, tmp_path: Path, host: Host
) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    mine = host.store.attachments_dir("s")
    attachments = [
        resource(folder.as_uri(), displayKind="directory"),
        resource(folder.as_uri()),
        resource(pipe.as_uri()),
        resource("file:///only/mine", displayKind="directory"),
        {"type": "x-new", "label": "?", "data": "1"},
        {"type": "annotations", "label": "n", "resource": f"{S}/annotations"},
    ]

    assert await sent(sender, *attachments) == attachments
    assert sender.asked == []
    assert not mine.exists()


@posix
async def test_A1_a_pipe_in_a_copy_s_place_holds_nobody_up(sender: Sender, agent: Scripted) -> None:
    chat = await sender.create(S)
    [kept] = await sent(sender, inline(PNG), chat=chat)
    path = file_of(kept)
    path.unlink()
    os.mkfifo(path)

    await sent(sender, kept, chat=chat)

    assert agent.prompts[1].blocks == [PathBlock("plot.png", str(path))]


# ── A3, A4: read through the sender ──────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "uri", ["file:///only/the/client/has/a.csv", "untitled:Untitled-1", "vscode-vfs://x/a"]
)
@pytest.mark.parametrize(
    "said",
    [
        {"data": base64.b64encode(b"a,b").decode(), "encoding": "base64", "contentType": "text/csv"},
        {"data": "a,b", "encoding": "utf-8", "contentType": "text/csv"},
    ],
)
async def test_A3_what_only_the_client_has_is_read_through_it(
    sender: Sender, agent: Scripted, uri: str, said: Json
) -> None:
    async def answer(params: Json) -> Json:
        return said

    sender.answer = answer
    [kept] = await sent(sender, resource(uri, "data", displayKind="document", nonce="n", sizeHint=3))

    assert sender.asked == [{"channel": "ahp-root://", "uri": uri, "encoding": "base64"}]
    assert kept == {
        "type": "resource",
        "label": "data",
        "uri": kept["uri"],
        "sizeHint": 3,
        "contentType": "text/csv",
        "displayKind": "document",
        "_meta": {SNAPSHOT: {"isSnapshot": True, "contentType": "text/csv"}, BECAME: "text"},
    }
    assert file_of(kept).name == "data.csv"
    assert agent.prompts[0].blocks == [TextBlock("data", "a,b")]


@pytest.mark.parametrize(
    "said", [None, {}, {"data": 1, "encoding": "base64"}, {"data": "%", "encoding": "base64"}]
)
async def test_A5_an_answer_that_is_none_leaves_it_as_it_was_sent(
    sender: Sender, said: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(params: Json) -> Any:
        return said

    sender.answer = answer
    asked = resource("file:///only/mine")

    assert await sent(sender, asked) == [asked]
    assert "no file's content" in caplog.text


async def test_A5_a_client_that_refuses_costs_its_attachment(
    sender: Sender, agent: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(params: Json) -> Any:
        if params["uri"].endswith("no"):
            raise RpcError({"code": -32009, "message": "not yours"})
        return {"data": "yes", "encoding": "utf-8"}

    sender.answer = answer
    first, second = await sent(sender, resource("file:///only/mine/no"), resource("file:///only/mine/yes"))

    assert first == resource("file:///only/mine/no")
    assert second["_meta"][BECAME] == "text"
    assert "not yours" in caplog.text


async def test_A3_a_client_that_never_answers_costs_its_attachment(
    sender: Sender, agent: Scripted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshots, "FETCH_SECONDS", 0.05)
    asked = [resource(f"file:///only/mine/{number}") for number in range(9)]

    kept = await sent(sender, *asked, inline(PNG))

    assert kept[:9] == asked
    assert kept[9]["type"] == "resource"
    assert agent.prompts[0].blocks[:9] == [PathBlock("a.csv", f"/only/mine/{number}") for number in range(9)]
    assert isinstance(agent.prompts[0].blocks[9], ImageBlock)
    assert caplog.text.count("did not answer") == 9
    assert len(sender.asked) == 4, "nobody who does not answer is asked for more"


async def test_A3_a_client_that_leaves_costs_its_attachment(
    sender: Sender, other: WireClient, agent: Scripted
) -> None:
    chat = await sender.create(S)
    await other.subscribe(chat)
    await sender.dispatch(
        chat,
        "chat/turnStarted",
        turnId="t",
        startedAt="2026-03-01T10:00:00.000Z",
        message=message("look", attachments=[resource("file:///only/mine")]),
    )
    await until(lambda: sender.asked)

    await sender.drop()
    await until(lambda: other.state(chat)["turns"])

    assert other.turn(chat, "t")["message"]["attachments"] == [resource("file:///only/mine")]


async def test_A3_what_arrives_meanwhile_waits_its_turn_and_a_stop_of_the_server_waits_for_nobody(
    sender: Sender, other: WireClient, host: Host
) -> None:
    chat = await sender.create(S)
    await other.subscribe(chat)
    attached = message("look", attachments=[resource("file:///only/mine")])
    await sender.dispatch(
        chat, "chat/turnStarted", turnId="t", startedAt="2026-03-01T10:00:00.000Z", message=attached
    )
    await until(lambda: sender.asked)
    await other.dispatch(chat, "chat/draftChanged", draft=message("mine"))
    await asyncio.sleep(0.02)
    assert "draft" not in other.state(chat)

    async with asyncio.timeout(3):
        await host.sessions["s"].close()
    assert sender.refusals[0]["rejectionReason"] == "This chat is closed."


async def test_A3_the_first_message_of_a_chat_is_asked_for_while_its_sender_is_heard(sender: Sender) -> None:
    """The connection reads one message after the other: the answer comes behind `createChat`."""
    await sender.create(S)
    first = message("hi", attachments=[resource("file:///only/mine")])
    answer, taken = sender.ask("createChat", {"channel": S, "chat": TWO, "initialMessage": first})
    async with asyncio.timeout(3):
        await taken  # nothing behind it can be read before this returns
    await sender.subscribe(TWO)
    await sender.dispatch(TWO, "chat/pendingMessageSet", kind="queued", id="q", message=message("second"))
    await until(lambda: sender.asked)

    async def said(params: Json) -> Json:
        return {"data": "x", "encoding": "utf-8"}

    sender.answer = said
    sender._note({"id": next(iter(sender.connection._asked)), "params": sender.asked[0]})
    async with asyncio.timeout(3):
        await answer
    await until(lambda: len(sender.state(TWO)["turns"]) == 2)
    turns = sender.state(TWO)["turns"]
    assert [turn["message"]["text"] for turn in turns] == ["hi", "second"]
    assert turns[0]["message"]["attachments"][0]["_meta"][BECAME] == "text"


@pytest.mark.parametrize(
    ("limit", "hint", "asks"), [(100, 99, True), (100, 100, True), (100, 101, False), (0, 10**12, True)]
)
async def test_A4_what_is_larger_than_the_limit_is_not_asked_for(
    sender: Sender, host: Host, limit: int, hint: int, asks: bool
) -> None:
    host.options.attachment_fetch_limit_bytes = limit

    async def answer(params: Json) -> Json:
        return {"data": "x", "encoding": "utf-8"}

    sender.answer = answer
    asked = resource("file:///only/mine", sizeHint=hint)
    [kept] = await sent(sender, asked)

    assert bool(sender.asked) is asks
    assert (kept == asked) is not asks


# ── A7 to A11: other chats ───────────────────────────────────────────────────────────────────────────────────────
def chat_at(chat: str, label: str = "Port the plots", **more: Any) -> Json:
    return {"type": "chat", "resource": chat, "label": label, **more}


async def two_chats(client: WireClient, *texts: str) -> tuple[str, str]:
    """A session's first chat, with these turns, and another one."""
    chat = await client.create(S)
    for number, text in enumerate(texts):
        await client.say(chat, text, turn=f"t{number}")
    await client.request("createChat", channel=S, chat=TWO)
    await client.subscribe(TWO)
    return chat, TWO


async def test_A7_A11_another_chat_is_a_pointer_for_the_backend_and_stays_for_clients(
    sender: Sender, agent: Scripted
) -> None:
    chat, two = await two_chats(sender, "first", "second", "third")
    attached = chat_at(chat, endTurn="t1")

    assert await sent(sender, attached, chat=two) == [attached]

    [block] = agent.prompts[-1].blocks
    assert isinstance(block, TextBlock)
    assert block.label == "Port the plots"
    for words in (
        "Port the plots",
        chat,
        "get_session_context",
        "User: first\n\nAgent: You said: first\n\nUser: second\n\nAgent: You said: second",
    ):
        assert words in block.text
    assert "third" not in block.text


async def test_A7_later_turns_are_told_of_it_again(sender: Sender, agent: Scripted) -> None:
    chat, two = await two_chats(sender, "first")
    turn = await sender.say(two, "look", attachments=[chat_at(chat)])

    await sender.say(two, "and?")

    assert "You said: first" in agent.prompts[-1].prefaces[turn["id"]]
    assert agent.prompts[-1].blocks == []


@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_A7_the_last_1000_characters(sender: Sender, agent: Scripted, over: int) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("z" * (1000 + over - len("User: a\n\nAgent: ")))

    agent.play = play
    chat, two = await two_chats(sender, "a")
    await sent(sender, chat_at(chat), chat=two)

    text = agent.prompts[-1].blocks[0].text  # type: ignore[union-attr]
    transcript = "User: a\n\nAgent: " + "z" * (1000 + over - 16)
    assert text.endswith("\n" + transcript[-1000:])
    assert ("last 1000" in text) is (over == 1)


async def test_A8_nothing_but_what_was_said_and_answered(sender: Sender, agent: Scripted) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.reasoning("REASONED")
        sink.notice("NOTICED")
        call = sink.tool("t", title="CALLED")
        call.run("RAN")
        call.done("DONE")
        sink.markdown("answered")

    chat, two = await two_chats(sender, "first")
    agent.play = play
    await sent(sender, chat_at(chat), chat=two, text="nested")  # two points at chat
    await sender.request("createChat", channel=S, chat="ahp-chat:/three")
    await sender.subscribe("ahp-chat:/three")
    await sent(sender, chat_at(two), chat="ahp-chat:/three")

    text = agent.prompts[-1].blocks[0].text  # type: ignore[union-attr]
    assert text.endswith("\nUser: nested\n\nAgent: answered")
    assert not any(word in text for word in ("REASONED", "NOTICED", "CALLED", "RAN", "DONE", "first"))


async def test_A7_a_chat_without_turns_gives_no_excerpt(sender: Sender, agent: Scripted) -> None:
    chat, two = await two_chats(sender)
    await sent(sender, chat_at(chat), chat=two)

    assert "said there" not in agent.prompts[-1].blocks[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("uri", ["ahp-chat:/gone", "no uri", "ahp-chat://default/x"])
async def test_A9_a_chat_that_is_not_here_gives_the_pointer_alone(
    sender: Sender, agent: Scripted, uri: str
) -> None:
    attached = chat_at(uri, endTurn="whatever")

    assert await sent(sender, attached) == [attached]
    [block] = agent.prompts[-1].blocks
    assert block == TextBlock("Port the plots", "The person points at another chat: Port the plots")


async def test_A9_a_chat_that_the_sender_may_not_read_gives_the_pointer_alone(agent: Scripted) -> None:
    grants = Grants({"writer": ["chat:send"]}, {"ana": "writer"})
    host = Host(MemoryStore(), [agent], HostOptions(grants=grants))
    await host.start()
    owner, ana = WireClient(host), WireClient(host, principal=Principal("user:ana", "Ana"))
    await owner.initialize()
    await ana.initialize()
    chat, two = await two_chats(owner, "first")

    await ana.dispatch(
        two,
        "chat/turnStarted",
        turnId="t",
        startedAt="2026-03-01T10:00:00.000Z",
        message=message(
            "x", attachments=[chat_at(chat, endTurn="no such")], _meta={"jupyter-ahp.mayRead": True}
        ),
    )
    await until(lambda: owner.state(two)["turns"])

    text = agent.prompts[-1].blocks[0].text  # type: ignore[union-attr]
    assert owner.turn(two, "t")["state"] == "complete"
    assert chat in text
    assert "first" not in text
    await owner.drop()
    await ana.drop()
    await host.stop()


async def test_A10_a_pin_that_is_not_there_ends_the_message_s_turn(sender: Sender, agent: Scripted) -> None:
    chat, two = await two_chats(sender, "first")
    asked = len(agent.prompts)

    turn = await sender.say(two, "look", attachments=[chat_at(chat, endTurn="rewound")])

    assert turn["state"] == "error"
    [part] = turn["responseParts"]
    assert part["error"]["errorType"] == "sendFailed"
    assert "not found in the retained transcript" in part["error"]["message"]
    assert len(agent.prompts) == asked
    assert turn["message"]["attachments"] == [chat_at(chat, endTurn="rewound")]


async def test_A10_a_pin_on_the_running_turn_ends_the_message_s_turn(sender: Sender, agent: Scripted) -> None:
    chat, two = await two_chats(sender, "first")
    go = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        await go.wait()

    agent.play = play
    running = await sender.start(chat, "second")
    turn = await sender.say(two, "look", attachments=[chat_at(chat, endTurn=running)])

    assert turn["responseParts"][-1]["error"]["errorType"] == "sendFailed"
    assert "still runs" in turn["responseParts"][-1]["error"]["message"]
    go.set()


async def test_A10_a_steering_message_with_such_a_pin_fails_as_a_turn_of_its_own(
    sender: Sender, agent: Scripted, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.capabilities = Capabilities(steering=True)
    taken: list[Steering] = []

    async def steer(self: Line, message: Steering) -> bool:
        taken.append(message)
        return True

    monkeypatch.setattr(Line, "steer", steer)
    go = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("working")
        await go.wait()

    agent.play = play
    chat = await sender.create(S)
    running = await sender.start(chat, "first")
    await sender.do(
        chat,
        "chat/pendingMessageSet",
        kind="steering",
        id="s",
        message=message("look", attachments=[chat_at(chat, endTurn=running[:-1] + "x")]),
    )
    await quiet_but_running(host)
    assert taken == []

    go.set()
    await until(lambda: len(sender.state(chat)["turns"]) == 2)
    await quiet(host)
    assert sender.state(chat)["turns"][1]["responseParts"][-1]["error"]["errorType"] == "sendFailed"


async def quiet_but_running(host: Host) -> None:
    chats = [chat for session in host.sessions.values() for chat in session.chats.values()]
    await until(lambda: not any(chat._worker for chat in chats))
    await asyncio.sleep(0.02)


async def test_T4_a_stop_does_not_wait_behind_a_message_whose_attachment_never_comes(
    host: Host, client: WireClient, agent: Scripted
) -> None:
    chat = await client.create(S)
    held = Held(agent)
    turn = await client.start(chat, "go")
    await until(lambda: held.sinks)
    never = {"type": "resource", "uri": "untitled:one", "label": "never"}
    await client.dispatch(
        chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("later", attachments=[never])
    )
    await until(lambda: any(note.get("method") == "resourceRead" for note in client.wire.frames))

    said = await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)

    assert "rejectionReason" not in said
    assert client.turn(chat, turn)["state"] == "cancelled"
    assert "queuedMessages" not in client.state(chat), "still being fetched"
