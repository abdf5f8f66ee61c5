"""`preview`: files and running web apps beside a chat, by `/preview`, by a model's tool call, and by a request of Python's."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Json, Principal, Prompt, TurnSink
from jupyter_ahp.plugins.loading import load_plugins
from jupyter_ahp.plugins.preview import files
from tests.host.harness import ROOT, Scripted, WireClient, answer_of

from .conftest import SESSION

SHOW = "x-jupyter-ahp/show"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def agent() -> Scripted:
    agent = Scripted()
    agent.capabilities = replace(agent.capabilities, tools=True)
    return agent


@pytest.fixture(autouse=True)
async def preview(host: Host) -> AsyncIterator[None]:
    """It is there by default."""
    plugins = await load_plugins(host.extensions, installed=())
    assert plugins.names == ["preview"]
    yield
    await plugins.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the chat works: the host's default directory."""
    return tmp_path


async def pages(client: WireClient, chat: str) -> list[tuple[str, str]]:
    """Title and page of each canvas."""
    found = []
    for entry in client.state(chat).get("canvases", ()):
        state = await client.subscribe(entry["resource"])
        page = await client.request("resourceRead", uri=entry["resource"])
        found.append((state["title"], page["data"]))
    return found


async def shown(client: WireClient, chat: str, text: str) -> str:
    """The page that a command shows."""
    turn = await client.say(chat, text)
    assert turn["state"] == "complete", turn["responseParts"]
    return (await pages(client, chat))[-1][1]


def words_of(turn: Json) -> str:
    assert turn["state"] == "error"
    words: str = turn["responseParts"][-1]["error"]["message"]
    return words


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_html_is_shown_as_it_is(client: WireClient, chat: str, folder: Path) -> None:
    whole = "<!doctype html>\n<html><script>1 < 2</script></html>"
    (folder / "whole.html").write_text(whole)
    (folder / "piece.htm").write_text("<b>Größe</b>", "utf-8")
    assert await shown(client, chat, "/preview whole.html") == whole
    assert "<body><b>Größe</b></body>" in await shown(client, chat, "/preview 'piece.htm'")
    assert [title for title, _ in await pages(client, chat)] == ["whole.html", "piece.htm"]


async def test_markdown_has_its_pictures_in_it(client: WireClient, chat: str, folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "a plot.png").write_bytes(PNG)
    (folder / "notes" / "read.md").write_text(
        "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n![plot](../a%20plot.png) ![no](missing.png) ![far](https://a.example/x.png)"
    )
    page = await shown(client, chat, "/preview notes/read.md")
    assert "<h1>Title</h1>" in page
    assert "<td>1</td>" in page
    assert f'src="data:image/png;base64,{base64.b64encode(PNG).decode()}"' in page
    assert 'src="missing.png"' in page
    assert 'src="https://a.example/x.png"' in page


async def test_a_picture_is_told_by_its_content(client: WireClient, chat: str, folder: Path) -> None:
    (folder / "misnamed.txt").write_bytes(PNG)
    (folder / "drawn.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'></svg>")
    assert '<img alt="" src="data:image/png;base64,' in await shown(client, chat, "/preview misnamed.txt")
    assert '<img alt="" src="data:image/svg+xml;base64,' in await shown(client, chat, "/preview drawn.svg")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("comma.csv", "name,size\nä<b>,1\n"),
        ("semicolon.csv", "name;size\nä<b>;1\n"),
        ("tab.tsv", "name\tsize\nä<b>\t1\n"),
        ("quoted.csv", '"name","size"\n"ä<b>","1"\n'),
    ],
)
async def test_a_table_is_shown_as_one(
    client: WireClient, chat: str, folder: Path, name: str, text: str
) -> None:
    (folder / name).write_text(text, "utf-8")
    page = await shown(client, chat, f"/preview {name}")
    assert "<thead><tr><th>name</th><th>size</th></tr></thead>" in page
    assert "<tr><td>ä&lt;b&gt;</td><td>1</td></tr>" in page


@pytest.mark.parametrize("rows", [999, 1000, 1001])
async def test_a_long_table_shows_its_beginning_and_says_so(
    client: WireClient, chat: str, folder: Path, rows: int
) -> None:
    (folder / "long.csv").write_text("number\n" + "".join(f"{number}\n" for number in range(rows)))
    page = await shown(client, chat, "/preview long.csv")
    assert page.count("<td>") == min(rows, 1000)
    assert ("1,000 of 1,001 rows" in page) == (rows > 1000)


async def test_a_folder_named_like_a_port_is_a_folder(client: WireClient, chat: str, folder: Path) -> None:
    (folder / "2024").mkdir()
    (folder / "2024" / "a.txt").write_text("in it")
    (folder / "8050").write_text("a file")
    assert "in it" in await shown(client, chat, "/preview 2024/a.txt")
    assert "a file" in await shown(client, chat, "/preview ./8050")


async def test_text_is_shown_as_text(client: WireClient, chat: str, folder: Path) -> None:
    (folder / "script.py").write_text("if 1 < 2:\n    pass")
    assert "<pre>if 1 &lt; 2:\n    pass</pre>" in await shown(client, chat, "/preview script.py")


async def test_what_is_shown_again_is_drawn_anew_in_its_place(
    client: WireClient, chat: str, folder: Path
) -> None:
    (folder / "a.txt").write_text("first")
    await shown(client, chat, "/preview a.txt")
    (folder / "a.txt").write_text("second")
    assert "second" in await shown(client, chat, "/preview a.txt")
    assert len(client.state(chat)["canvases"]) == 1


# ── what is not shown ────────────────────────────────────────────────────────────────────────────────────────────
async def test_only_files_of_the_chats_directories_are_shown(
    client: WireClient, chat: str, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "up.md").write_text(f"![x](../{outside.name}/secret.txt) ![y](link.txt)")
    (outside / "plot.png").write_bytes(PNG)
    for asked in (
        str(outside / "secret.txt"),
        str(outside / "nothing.txt"),
        f"../{outside.name}/secret.txt",
        "link.txt",
        "~/.ssh/id_rsa",
        "/etc/passwd",
    ):
        words = words_of(await client.say(chat, f"/preview {asked}"))
        assert words == f"{asked} is outside of the directories that this chat works in."
    assert "data:" not in await shown(client, chat, "/preview up.md")


async def test_what_cannot_be_shown_is_said_with_the_reason(
    client: WireClient, chat: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST", 10)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "binary.bin").write_bytes(b"\x00\x01\xff")
    (folder / "large.txt").write_text("x" * 11)
    (folder / "fits.txt").write_text("x" * 10)
    cases = {
        "": "Say what to show",
        "missing.txt": "There is no file missing.txt in",
        "folder": "folder is not a file",
        "pipe": "pipe is not a file",
        "binary.bin": "neither a picture nor text",
        "large.txt": "too large to show: 11 bytes, of 10 at most",
        "a\0b": "NUL",
        "1": "Nothing answers on port 1 of this machine",
        "99999": "99999 is no port",
    }
    for asked, words in cases.items():
        assert words in words_of(await client.say(chat, f"/preview {asked}"))
    assert "canvases" not in client.state(chat)
    assert "x" * 10 in await shown(client, chat, "/preview fits.txt")


# ── web apps ─────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "asked", ["{}", ":{}", "localhost:{}", "http://127.0.0.1:{}", "http://localhost:{}/"]
)
@pytest.mark.parametrize("proxied", [False, True])
async def test_a_running_app_is_shown_through_the_proxy_if_there_is_one(
    host: Host, client: WireClient, chat: str, asked: str, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.options.shows_apps = proxied
    found = importlib.util.find_spec("json") if proxied else None
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: found if name == "jupyter_server_proxy" else find(name, *rest),
    )
    app = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = app.sockets[0].getsockname()[1]
    async with app:
        turn = await client.say(chat, f"/preview {asked.format(port)}")
    assert answer_of(turn) == f"Shown: Port {port}"
    viewer = WireClient(host, site="https://hub.example/user/mia/")
    await viewer.initialize()
    state = await viewer.subscribe(client.state(chat)["canvases"][0]["resource"])
    if proxied:
        assert state["url"].startswith("https://hub.example/user/mia/ahp/canvas/")
    else:
        assert state["url"] == f"http://localhost:{port}/"


# ── a model ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_model_shows_something_without_asking(
    client: WireClient, chat: str, agent: Scripted, folder: Path
) -> None:
    (folder / "a.txt").write_text("for the person")
    results = []
    asked: Json = {}

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        tool = next(tool for tool in prompt.tools if tool.name == "show_preview")
        assert tool.effects == "read"
        assert set(tool.parameters["properties"]) == {"path", "port", "title"}
        results.append(await tool.call(sink.tool(tool.name, title=tool.title), asked))

    agent.play = play
    asked.update(path="a.txt", title="A note")
    turn = await client.say(chat, "Show me")
    call = turn["responseParts"][0]["toolCall"]
    assert (call["confirmed"], call["pastTenseMessage"]) == ("not-needed", "Showed A note")
    assert results[-1].text == "The person sees a.txt now."
    assert [title for title, _ in await pages(client, chat)] == ["A note"]
    for wrong, words in (
        ({"path": "../x"}, "outside of the directories"),
        ({}, "either a path or a port"),
        ({"path": "a", "port": 1}, "either a path or a port"),
        ({"path": "8080"}, "There is no file 8080"),
        ({"port": 0}, "is no port"),
    ):
        asked.clear()
        asked.update(wrong)
        await client.say(chat, "Show me")
        assert results[-1].failed
        assert words in results[-1].text


# ── Python ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_V4_what_python_asks_for_is_drawn_by_the_plugin(
    client: WireClient, chat: str, folder: Path
) -> None:
    (folder / "a.csv").write_text("a\n1\n")
    for what in (
        {"html": "<b>1</b>"},
        {"markdown": "*2*"},
        {"path": "a.csv"},
        {"path": str(folder / "a.csv")},
    ):
        answer = await client.request(SHOW, channel=chat, title="Shown", **what)
        assert answer["canvas"] == client.state(chat)["canvases"][-1]["resource"]
    bodies = [page for _, page in await pages(client, chat)]
    for body, words in zip(bodies, ("<b>1</b>", "<em>2</em>", "<td>1</td>", "<td>1</td>"), strict=True):
        assert words in body


async def test_V4_it_is_drawn_anew_and_closed_by_its_name(client: WireClient, chat: str) -> None:
    uri = (await client.request(SHOW, channel=chat, html="1", title="One"))["canvas"]
    again = await client.request(SHOW, channel=chat, html="2", canvas=uri)
    assert again == {"canvas": uri}
    ((title, page),) = await pages(client, chat)
    assert (title, "<body>2</body>" in page) == ("One", True)
    other = await client.create("ahp-session:/other")
    assert (await client.fails(SHOW, channel=other, html="3", canvas=uri)).code == -32008
    await client.request(SHOW, channel=chat, canvas=uri)
    assert "canvases" not in client.state(chat)
    error = await client.fails(SHOW, channel=chat, html="3", canvas=uri)
    assert (error.code, error.message) == (-32008, f"Canvas is no longer available: {uri}")


async def test_V4_what_is_asked_twice_after_a_lost_answer_is_one_canvas(
    client: WireClient, chat: str
) -> None:
    first = await client.request(SHOW, channel=chat, html="1", key="one")
    assert await client.request(SHOW, channel=chat, html="1", key="one") == first
    assert await client.request(SHOW, channel=chat, html="1", key="two") != first
    assert len(client.state(chat)["canvases"]) == 2


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, -32602),
        ({"html": "x", "markdown": "y"}, -32602),
        ({"html": 3}, -32602),
        ({"port": True}, -32602),
        ({"html": "x", "title": 3}, -32602),
        ({"html": "x", "channel": "ahp-chat:/nowhere"}, -32001),
        ({"html": "x", "channel": "no uri"}, -32001),
        ({"html": "x", "channel": None}, -32001),
        ({"path": "missing"}, -32008),
    ],
)
async def test_V4_what_makes_no_sense_is_refused(
    client: WireClient, chat: str, params: Any, code: int
) -> None:
    error = await client.fails(SHOW, **{"channel": chat, **params})
    assert error.code == code
    assert "canvases" not in client.state(chat)


async def test_V4_without_a_plugin_that_shows_there_is_no_such_method(
    host: Host, client: WireClient, chat: str
) -> None:
    host.extensions.shows = None
    assert (await client.fails(SHOW, channel=chat, html="x")).code == -32601


async def test_P3_whoever_may_send_may_show_and_reads_no_file_for_it_that_they_may_not(folder: Path) -> None:
    from jupyter_ahp.host.host import HostOptions
    from jupyter_ahp.store.memory import MemoryStore

    roles = {"sender": ["chat:turns", "chat:send"], "reader": ["chat:turns"]}
    grants = Grants(roles, {"ana": "owner", "ben": "sender", "cleo": "reader"})
    host = Host(MemoryStore(), [Scripted()], HostOptions(grants=grants, default_directory=str(folder)))
    await host.start()
    plugins = await load_plugins(host.extensions, installed=())
    clients = {}
    for name in ("ana", "ben", "cleo"):
        clients[name] = WireClient(host, principal=Principal(f"user:{name}", name))
        await clients[name].initialize(ROOT)
    chat = await clients["ana"].create(SESSION)
    (folder / "a.txt").write_text("a")
    assert await clients["ben"].request(SHOW, channel=chat, html="x")
    assert await clients["ana"].request(SHOW, channel=chat, path="a.txt")
    assert (await clients["ben"].fails(SHOW, channel=chat, path="a.txt")).code == -32009
    assert (await clients["ben"].fails(SHOW, channel=chat, port=8050)).code == -32009
    assert (await clients["cleo"].fails(SHOW, channel=chat, html="x")).code == -32009
    for client in clients.values():
        await client.drop()
    await host.stop()
    await plugins.close()
