"""M4: what fits at the cursor, through the wire."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from jupyter_ahp.host import files
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Capabilities, Command, Json, SessionRecord, Store
from jupyter_ahp.store.files import FileStore
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Scripted, WireClient, message, quiet, started, until

SESSION = "ahp-session:/s1"


def grow(top: Path, *names: str) -> Path:
    """Files, and directories (with a slash at the end), under `top`."""
    for name in names:
        path = top / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
    return top


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return grow(
        tmp_path / "tree",
        "README.md",
        "data.csv",
        "notebooks/churn.ipynb",
        "src/churn/features.py",
        "src/churn/feature_store/",
        "src/plots.py",
        "tests/test_features.py",
    )


@pytest.fixture
async def chat(client: WireClient, tree: Path) -> str:
    return await client.create(SESSION, workingDirectories=[tree.as_uri()])


async def offered(client: WireClient, chat: str, text: str, offset: int | None = None) -> list[Json]:
    if offset is None:
        offset = len(text.encode("utf-16-le")) // 2
    result = await client.request("completions", channel=chat, kind="userMessage", text=text, offset=offset)
    items: list[Json] = result["items"]
    return items


async def inserts(client: WireClient, chat: str, text: str) -> list[str]:
    return [item["insertText"] for item in await offered(client, chat, text)]


def taken(text: str, item: Json) -> str:
    """The text with the item in it, as a client writes it (ranges are in UTF-16 units)."""
    units = text.encode("utf-16-le")
    before, after = units[: 2 * item["rangeStart"]], units[2 * item["rangeEnd"] :]
    whole: str = before.decode("utf-16-le") + item["insertText"] + after.decode("utf-16-le")
    return whole


def path_of(uri: str) -> str:
    return unquote(urlsplit(uri).path)


# ── where something is offered ───────────────────────────────────────────────────────────────────────────────────
async def test_M4_the_trigger_characters_are_announced(client: WireClient) -> None:
    assert client.result["completionTriggerCharacters"] == ["@", "#", "/"]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("@plots", 0),
        ("look at @plots", 8),
        ("two\nlines @plots", 10),
        ("first\n@plots", 6),
        ("tab\t#plots", 4),
        ("𝒳 and é: @plots", 10),
    ],
)
async def test_M4_a_path_is_named_at_the_start_and_behind_white_space(
    client: WireClient, chat: str, tree: Path, text: str, at: int
) -> None:
    [item] = await offered(client, chat, text)
    assert (item["rangeStart"], item["rangeEnd"]) == (at, len(text.encode("utf-16-le")) // 2)
    trigger = text[-len("@plots")]
    assert item["insertText"] == f"{trigger}src/plots.py "
    assert item["attachment"] == {
        "type": "resource",
        "uri": (tree / "src/plots.py").as_uri(),
        "label": "plots.py",
        "displayKind": "document",
        "_meta": {"jupyter-ahp.path": "src/plots.py"},
    }


@pytest.mark.parametrize(
    "text", ["", "plots", "me@plots", "a#plots", "@plots ", "@plots and", "see /plots", " /"]
)
async def test_M4_nothing_is_offered_elsewhere(client: WireClient, chat: str, text: str) -> None:
    assert await offered(client, chat, text) == []


async def test_M4_what_stands_behind_the_cursor_stays(client: WireClient, chat: str) -> None:
    text = "𝒳: @plo, please"
    [item] = await offered(client, chat, text, len("𝒳: @plo") + 1)
    assert taken(text, item) == "𝒳: @src/plots.py , please"


@pytest.mark.parametrize(
    ("text", "offset"), [("@", -1), ("@", 2), ("", 1), ("𝒳@", 1), ("@", 1.5), ("@", True)]
)
async def test_M4_an_offset_that_is_none_is_refused(
    client: WireClient, chat: str, text: str, offset: object
) -> None:
    error = await client.fails("completions", channel=chat, kind="userMessage", text=text, offset=offset)
    assert error.code == -32602


async def test_M4_only_of_chats_that_are_here(client: WireClient) -> None:
    error = await client.fails(
        "completions", channel="ahp-chat:/none", kind="userMessage", text="@", offset=1
    )
    assert error.code == -32001


async def test_M4_a_session_stands_for_its_default_chat(client: WireClient, chat: str) -> None:
    assert await inserts(client, SESSION, "@plots") == ["@src/plots.py "]


async def test_M4_another_kind_of_text_is_offered_nothing(client: WireClient, chat: str) -> None:
    result = await client.request("completions", channel=chat, kind="systemPrompt", text="@", offset=1)
    assert result == {"items": []}


# ── paths ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_M4_alone_an_at_offers_what_lies_at_the_top(client: WireClient, chat: str) -> None:
    items = await offered(client, chat, "@")
    assert [item["insertText"] for item in items[:5]] == [
        "@README.md ",
        "@data.csv ",
        "@notebooks/ ",
        "@src/ ",
        "@tests/ ",
    ]
    assert [item["attachment"]["displayKind"] for item in items[1:3]] == ["document", "directory"]
    assert items[2]["attachment"]["label"] == "notebooks/"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("features", ["src/churn/features.py", "tests/test_features.py"]),
        ("FEAT", ["src/churn/features.py", "src/churn/feature_store/", "tests/test_features.py"]),
        ("src/", ["src/churn/", "src/plots.py", "src/churn/feature_store/", "src/churn/features.py"]),
        ("src/churn/fe", ["src/churn/features.py", "src/churn/feature_store/"]),
        ("./src/plo", ["src/plots.py"]),
        ("churn/feat", ["src/churn/features.py", "src/churn/feature_store/"]),
        ("srcftrpy", ["src/churn/features.py"]),
        ("data.csv", ["data.csv"]),
        ("nothing-like-it", []),
    ],
)
async def test_M4_a_path_is_found_by_a_name_a_part_of_it_or_the_way_to_it(
    client: WireClient, chat: str, typed: str, expected: list[str]
) -> None:
    assert await inserts(client, chat, f"@{typed}") == [f"@{path} " for path in expected]


async def test_M4_twenty_at_most_the_best_of_them(client: WireClient, chat: str, tree: Path) -> None:
    grow(tree, *(f"many/run-{number:03}.log" for number in range(100)), "many/deep/run-050")
    found = await inserts(client, chat, "@run-05")
    assert found[0] == "@many/run-050.log "
    assert len(await offered(client, chat, "@run")) == 20


@pytest.mark.parametrize(
    "name",
    [
        "two words.csv",
        "new\nline.csv",
        'quo"te.csv',
        "it's.csv",
        "back\\slash.csv",
        "größe 大.csv",
        "nb\u00a0sp.csv",
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot be there")
async def test_M4_a_name_that_is_not_one_word_is_written_in_quotes_and_read_back(
    client: WireClient, chat: str, tree: Path, name: str
) -> None:
    grow(tree, f"odd/{name}")
    [item] = await offered(client, chat, "@odd/")
    assert re.fullmatch(r'@"odd/[^\n]*" ', item["insertText"])
    assert path_of(item["attachment"]["uri"]) == str(tree / "odd" / name)
    assert item["attachment"]["label"] == name

    half = item["insertText"][:-4]  # the person goes on in the middle of it: the quote is open
    [again] = await offered(client, chat, f"see {half}")
    assert again["insertText"] == item["insertText"]
    assert taken(f"see {half}", again) == f"see {item['insertText']}"
    assert await offered(client, chat, item["insertText"].rstrip()) == [], "the quote is closed"


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux only")
async def test_M4_a_name_that_is_no_unicode_can_be_sent(client: WireClient, chat: str, tree: Path) -> None:
    (tree / os.fsdecode(b"bad-\xff.csv")).write_text("x")
    [item] = await offered(client, chat, "@bad")
    assert item["insertText"] == "@bad-\ufffd.csv "
    assert item["attachment"]["uri"].endswith("/bad-%FF.csv")


async def test_M4_a_file_that_came_is_offered_a_few_seconds_later(
    client: WireClient, chat: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await offered(client, chat, "@late") == []
    grow(tree, "late.csv")
    assert await offered(client, chat, "@late") == [], "a walk is good for a few seconds"
    monkeypatch.setattr(files, "_FRESH", 0.0)
    assert await inserts(client, chat, "@late") == ["@late.csv "]


# ── directories ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_M4_U11_only_under_the_chats_own_directories(client: WireClient, tmp_path: Path) -> None:
    one, two = grow(tmp_path / "one", "here.csv"), grow(tmp_path / "two", "there.csv", "sub/there2.csv")
    grow(tmp_path, "outside.csv")
    chat = await client.create(SESSION, workingDirectories=[one.as_uri(), two.as_uri()])
    narrow = "ahp-chat:/narrow"
    await client.request("createChat", channel=SESSION, chat=narrow, workingDirectories=[one.as_uri()])

    assert await inserts(client, chat, "@here") == ["@here.csv ", "@two/there.csv ", "@two/sub/there2.csv "]
    assert await inserts(client, chat, "@two/sub/") == ["@two/sub/there2.csv "]
    assert await inserts(client, chat, "@two/there.") == ["@two/there.csv "]
    assert await inserts(client, narrow, "@here") == ["@here.csv "]
    assert await inserts(client, narrow, "@two/") == []
    for typed in ("outside", "../outside", "one/../../outside", str(tmp_path / "outside.csv"), "/"):
        assert await inserts(client, chat, f"@{typed}") == []


async def test_M4_a_chat_without_directories_has_no_paths(client: WireClient) -> None:
    chat = await client.create(SESSION, workingDirectories=[])
    assert await offered(client, chat, "@") == []


async def test_M4_a_directory_that_is_not_there_or_not_a_file_is_none(
    client: WireClient, tmp_path: Path
) -> None:
    directories = [(tmp_path / "gone").as_uri(), "vscode-remote://host/x"]
    chat = await client.create(SESSION, workingDirectories=directories)
    assert await offered(client, chat, "@") == []


@pytest.mark.skipif(sys.platform == "win32", reason="making links takes rights there")
async def test_M4_links_never_lead_out(client: WireClient, chat: str, tree: Path, tmp_path: Path) -> None:
    secret = grow(tmp_path / "secret", "key.pem", "deep/key2.pem")
    (tree / "link-out").symlink_to(secret)
    (tree / "link-out.pem").symlink_to(secret / "key.pem")
    (tree / "link-in").symlink_to(tree / "src")
    (tree / "link-round").symlink_to(tree)
    (tree / "link-broken").symlink_to(tree / "none")
    (tree / "link-self").symlink_to(tree / "link-self")

    assert sorted(await inserts(client, chat, "@link-")) == ["@link-in/ ", "@link-round/ "]
    assert await inserts(client, chat, "@key") == []
    assert await inserts(client, chat, "@link-out/") == []
    assert await inserts(client, chat, "@link-out/deep/") == []
    assert await inserts(client, chat, "@link-in/plo") == ["@link-in/plots.py "]
    assert await inserts(client, chat, "@plots") == ["@src/plots.py "], "once, not through the links"


@pytest.mark.skipif(sys.platform == "win32", reason="making links takes rights there")
async def test_M4_a_directory_of_the_chat_may_be_a_link_itself(client: WireClient, tree: Path) -> None:
    link = tree.parent / "link"
    link.symlink_to(tree)
    chat = await client.create(SESSION, workingDirectories=[link.as_uri()])
    [item] = await offered(client, chat, "@plots")
    assert path_of(item["attachment"]["uri"]) == str(link / "src/plots.py")


# ── what is left out ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_M4_directories_of_tools_are_never_offered(client: WireClient, chat: str, tree: Path) -> None:
    for name in (".git", "node_modules", "__pycache__", ".ipynb_checkpoints", ".venv"):
        grow(tree, f"{name}/zebra.py", f"src/{name}/zebra.py")
        assert await inserts(client, chat, f"@{name}") == []
        assert await inserts(client, chat, f"@{name}/") == []
    assert await inserts(client, chat, "@zebra") == []


async def test_M4_hidden_names_are_offered_to_whoever_types_the_dot(
    client: WireClient, chat: str, tree: Path
) -> None:
    grow(tree, ".env", ".github/workflow.yml", "src/.hidden")
    assert await inserts(client, chat, "@env") == []
    assert await inserts(client, chat, "@workflow") == []
    assert [name for name in await inserts(client, chat, "@") if name[1] == "."] == []
    assert await inserts(client, chat, "@.e") == ["@.env "]
    assert (await inserts(client, chat, "@."))[:3] == ["@.env ", "@.github/ ", "@src/.hidden "]
    assert await inserts(client, chat, "@src/.h") == ["@src/.hidden "]
    assert await inserts(client, chat, "@.github/") == ["@.github/workflow.yml "]


async def test_M4_what_gitignore_files_exclude_is_left_out(client: WireClient, chat: str, tree: Path) -> None:
    grow(
        tree,
        "out/zebra.txt",
        "zebra.tmp",
        "keep-zebra.tmp",
        "src/zebra.log",
        "src/deep/zebra.log",
        "zebra.log",
    )
    grow(tree, "sub/out/zebra.txt", "top/zebra.txt", "sub/top/zebra.txt", "zebra")
    (tree / ".gitignore").write_text("# a comment\n\nout/\n*.tmp\n!keep-*\n/top\n!\nzebra/\n")
    (tree / "src" / ".gitignore").write_text("*.log\n")
    (tree / "src" / "deep" / ".gitignore").write_text("!zebra.log\n")
    assert sorted(await inserts(client, chat, "@zebra")) == [
        "@keep-zebra.tmp ",
        "@src/deep/zebra.log ",
        "@sub/top/zebra.txt ",
        "@zebra ",
        "@zebra.log ",
    ]


async def test_M4_no_gitignore_file_of_somebody_holds_up_the_search(
    client: WireClient, chat: str, tree: Path
) -> None:
    grow(tree, "zebra" + "a" * 200, "zebra.tmp")
    (tree / ".gitignore").write_text("*a" * 30 + "b\n*.tmp\n")
    assert await inserts(client, chat, "@zebra") == ["@zebra" + "a" * 200 + " "]


async def test_M4_an_excluded_directory_is_opened_by_writing_it_out(
    client: WireClient, chat: str, tree: Path
) -> None:
    grow(tree, "data/big.parquet", "data/more/big2.parquet")
    (tree / ".gitignore").write_text("data/\n*.parquet\n")
    assert await inserts(client, chat, "@big") == []
    assert await inserts(client, chat, "@data/b") == ["@data/big.parquet ", "@data/more/big2.parquet "]


async def test_M4_rules_above_the_directory_hold_up_to_the_repositorys_top(
    client: WireClient, tmp_path: Path
) -> None:
    grow(tmp_path, "repo/.git/", "repo/books/a.ipynb", "repo/books/a.html", "repo/books/a.csv")
    (tmp_path / "repo" / ".gitignore").write_text("*.html\nbooks/*.csv\n")
    (tmp_path / ".gitignore").write_text("*.ipynb\n")
    chat = await client.create(SESSION, workingDirectories=[(tmp_path / "repo" / "books").as_uri()])
    assert await inserts(client, chat, "@a") == ["@a.ipynb "]


async def test_M4_a_directory_that_was_chosen_is_not_excluded(client: WireClient, tmp_path: Path) -> None:
    grow(tmp_path, "repo/.git/", "repo/data/a.csv")
    (tmp_path / "repo" / ".gitignore").write_text("data/\n")
    chat = await client.create(SESSION, workingDirectories=[(tmp_path / "repo" / "data").as_uri()])
    assert await inserts(client, chat, "@a") == ["@a.csv "]


# ── huge and slow trees ──────────────────────────────────────────────────────────────────────────────────────────
async def test_M4_a_walk_is_bounded_and_what_is_deeper_is_found_by_its_directory(
    client: WireClient, chat: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ENTRIES", 50)
    grow(tree, *(f"wide/{number}.log" for number in range(200)), "zz/zz/zz/deep.csv")
    assert await inserts(client, chat, "@deep") == []
    assert await inserts(client, chat, "@zz/zz/de") == ["@zz/zz/zz/deep.csv "]
    assert await inserts(client, chat, "@README") == ["@README.md "], "what is near comes first"


async def test_M4_a_walk_ends_in_time(
    client: WireClient, chat: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(tree, *(f"{number:02}/a.csv" for number in range(50)))
    scan = files._scan

    def slow(directory: str, room: int) -> list[os.DirEntry[str]]:
        time.sleep(0.02)
        return scan(directory, room)

    monkeypatch.setattr(files, "_scan", slow)
    monkeypatch.setattr(files, "SECONDS", 0.1)
    assert await inserts(client, chat, "@README") == ["@README.md "]
    assert "@49/a.csv " not in await inserts(client, chat, "@a.csv")
    assert await inserts(client, chat, "@49/a") == ["@49/a.csv "]


class Stuck:
    """A file system that does not answer until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.walks = 0
        self._go = threading.Event()
        scan = files._scan

        def held(directory: str, room: int) -> list[os.DirEntry[str]]:
            self.walks += 1
            self._go.wait(10)
            return scan(directory, room)

        monkeypatch.setattr(files, "_scan", held)

    def answer(self) -> None:
        self._go.set()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    file_system = Stuck(monkeypatch)
    yield file_system
    file_system.answer()


async def test_M4_a_file_system_that_hangs_holds_up_nobody(
    client: WireClient,
    chat: str,
    stuck: Stuck,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 0.1)
    waiting = asyncio.create_task(offered(client, chat, "@plots"))
    await until(lambda: stuck.walks)
    await client.say(chat, "meanwhile a turn runs")
    assert await waiting == []
    assert "could not be listed" in caplog.text
    assert await offered(client, chat, "@plots") == []
    assert stuck.walks == 1, "it is not walked again while it hangs"


async def test_M4_a_newer_request_of_the_client_ends_the_one_before(
    client: WireClient, other: WireClient, chat: str, stuck: Stuck
) -> None:
    first = asyncio.create_task(offered(client, chat, "@plo"))
    theirs = asyncio.create_task(offered(other, chat, "@READ"))
    await until(lambda: stuck.walks)
    second = asyncio.create_task(offered(client, chat, "@plot"))
    assert await first == []
    assert not second.done()
    assert not theirs.done()
    stuck.answer()
    assert [item["insertText"] for item in await second] == ["@src/plots.py "]
    assert [item["insertText"] for item in await theirs] == ["@README.md "]
    assert stuck.walks >= 1


async def test_M4_a_request_goes_with_its_connection(client: WireClient, chat: str, stuck: Stuck) -> None:
    _, handed_over = client.ask(
        "completions", {"channel": chat, "kind": "userMessage", "text": "@", "offset": 1}
    )
    await handed_over
    await until(lambda: stuck.walks)
    await client.drop()
    await until(lambda: not client.connection.tasks)


# ── # ────────────────────────────────────────────────────────────────────────────────────────────────────────────
async def chats_of(client: WireClient, chat: str, text: str) -> list[Json]:
    items = await offered(client, chat, text)
    return [item["attachment"] for item in items if item["attachment"]["type"] == "chat"]


async def say(client: WireClient, chat: str, text: str, hour: int) -> None:
    """A turn at that hour of a day."""
    turn = {"turnId": f"at-{hour}", "startedAt": f"2026-03-01T{hour:02}:00:00.000Z", "message": message(text)}
    await client.do(chat, "chat/turnStarted", **turn)
    await until(lambda: not client.running(chat))


async def peer(client: WireClient, name: str, *said: str, hour: int = 10) -> str:
    """Another chat of the session, in which that was said."""
    chat = f"ahp-chat:/{name}"
    await client.request("createChat", channel=SESSION, chat=chat)
    await client.subscribe(chat)
    for index, text in enumerate(said):
        await say(client, chat, text, hour + index)
    return chat


@pytest.mark.parametrize("text", ["#", "#c", "#CHA", "#chat", "#chat:", "see #", "see #chat:"])
async def test_M4_a_hash_on_its_way_to_chat_offers_chats_and_files(
    client: WireClient, chat: str, text: str
) -> None:
    plots = await peer(client, "plots", "Port the plots", "And colour them")
    last = client.state(plots)["turns"][-1]["id"]
    [item] = [item for item in await offered(client, chat, text) if item["attachment"]["type"] == "chat"]
    assert item == {
        "insertText": "#chat:Port the plots ",
        "rangeStart": text.index("#"),
        "rangeEnd": len(text),
        "attachment": {"type": "chat", "resource": plots, "endTurn": last, "label": "Port the plots"},
    }
    if text.lower() in ("#", "see #", "#c"):
        kinds = {item["attachment"]["type"] for item in await offered(client, chat, text)}
        assert kinds == {"chat", "resource"}


@pytest.mark.parametrize("text", ["#plots", "#chart", "#chats:", "#README", "#/", "# chat:"])
async def test_M4_every_other_hash_offers_files_alone(client: WireClient, chat: str, text: str) -> None:
    await peer(client, "plots", "plots README chart")
    items = await offered(client, chat, text)
    assert all(item["attachment"]["type"] == "resource" for item in items)
    if text == "#plots":
        assert [item["insertText"] for item in items] == ["#src/plots.py "]


async def test_M4_chats_are_found_by_their_title_the_newest_first(client: WireClient, chat: str) -> None:
    await peer(client, "a", "Alpha review", hour=11)
    await peer(client, "b", "Something else", hour=13)
    await peer(client, "c", "Beta Review", hour=12)
    assert [found["label"] for found in await chats_of(client, chat, "#chat:review")] == [
        "Beta Review",
        "Alpha review",
    ]
    assert await chats_of(client, chat, "#chat:Beta ") == [], "the word has ended"


async def test_M4_neither_this_chat_nor_an_empty_nor_a_made_nor_a_hidden_one(
    client: WireClient, host: Host, agent: Scripted, chat: str
) -> None:
    await client.say(chat, "This one")
    await peer(client, "empty")
    running = await peer(client, "running")
    made, hidden = await peer(client, "made", "By a tool"), await peer(client, "hidden", "Hidden")
    session = host.sessions["s1"]
    for uri, changes in (
        (made, {"origin": {"kind": "tool", "chat": chat, "toolCallId": "c"}}),
        (hidden, {"interactivity": "hidden"}),
    ):
        session._publish({"type": "session/chatUpdated", "chat": uri, "changes": changes})

    go = asyncio.Event()

    async def wait(prompt: object, sink: object) -> None:
        await go.wait()

    agent.play = wait
    await client.start(running, "Not answered yet")
    assert await chats_of(client, chat, "#chat:") == []
    assert [found["label"] for found in await chats_of(client, running, "#chat:")] == ["This one"]
    assert await chats_of(client, SESSION, "#chat:") == [], "the session's URI stands for its default chat"
    go.set()
    await until(lambda: not client.running(running))
    assert [found["label"] for found in await chats_of(client, chat, "#chat:")] == ["Not answered yet"]


async def test_M4_chats_of_other_sessions_come_behind_the_sessions_own(client: WireClient, chat: str) -> None:
    await peer(client, "own", "Older, of this session")
    elsewhere = await client.create("ahp-session:/s2")
    await say(client, elsewhere, "Newer, of another", 20)
    away = await client.create("ahp-session:/s3")
    await client.say(away, "Put away")
    await client.do("ahp-session:/s3", "session/isArchivedChanged", isArchived=True)
    assert [found["label"] for found in await chats_of(client, chat, "#chat:")] == [
        "Older, of this session",
        "Newer, of another",
    ]


async def test_M4_twenty_chats_at_most(client: WireClient, chat: str) -> None:
    for hour in range(23):
        await peer(client, f"n{hour}", f"Chat {hour}", hour=hour)
    labels = [found["label"] for found in await chats_of(client, chat, "#chat:")]
    assert labels == [f"Chat {hour}" for hour in range(22, 2, -1)]


async def test_M4_the_last_turn_follows_rewinds_and_closed_chats(client: WireClient, chat: str) -> None:
    plots = await peer(client, "plots", "One", "Two")
    first, second = (turn["id"] for turn in client.state(plots)["turns"])
    assert [found["endTurn"] for found in await chats_of(client, chat, "#chat:")] == [second]
    await client.do(plots, "chat/truncated", turnId=first)
    assert [found["endTurn"] for found in await chats_of(client, chat, "#chat:")] == [first]
    await client.do(plots, "chat/truncated")
    assert await chats_of(client, chat, "#chat:") == []
    await client.say(plots, "Anew")
    assert len(await chats_of(client, chat, "#chat:")) == 1
    await client.request("disposeChat", channel=plots)
    assert await chats_of(client, chat, "#chat:") == []


async def test_M4_forks_and_moved_chats_are_offered_before_anybody_opens_them(
    client: WireClient, host: Host, agent: Scripted, chat: str
) -> None:
    agent.capabilities = Capabilities(fork=True)
    await client.say(chat, "The source")
    last = client.state(chat)["turns"][-1]["id"]
    source = {"kind": "fork", "chat": chat, "turnId": last}
    fork = "ahp-chat:/fork"
    await client.request("createChat", channel=SESSION, chat=fork, source=source)
    assert [(found["resource"], found["endTurn"]) for found in await chats_of(client, chat, "#")] == [
        (fork, last)
    ]

    other = await client.create("ahp-session:/s2")
    await client.request(
        "moveChat", channel=fork, destination={"kind": "session", "session": "ahp-session:/s2"}
    )
    assert [found["resource"] for found in await chats_of(client, other, "#")] == [fork, chat]
    await quiet(host)
    record = await host.store.session("s2")
    assert isinstance(record, SessionRecord)
    assert record.last_turns == {fork: last}


async def test_M4_chats_are_offered_after_a_restart_without_reading_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await started(FileStore(tmp_path))
    client = WireClient(before)
    await client.initialize(ROOT)
    await client.create(SESSION)
    plots = await peer(client, "plots", "Port the plots")
    last = client.state(plots)["turns"][-1]["id"]
    await peer(client, "empty")
    await quiet(before)
    await before.stop()

    store = FileStore(tmp_path)
    after = await started(store)
    read: list[str] = []
    load = store.load_chat

    async def reading(session_id: str, chat: str) -> Any:
        read.append(chat)
        return await load(session_id, chat)

    monkeypatch.setattr(store, "load_chat", reading)
    client = WireClient(after)
    await client.initialize(ROOT)
    found = await chats_of(client, SESSION, "#chat:")
    assert [(chat["resource"], chat["endTurn"]) for chat in found] == [(plots, last)]
    assert read == []
    await after.stop()


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────
class Commanding(Scripted):
    """Has commands; which ones depends on the session's settings, as an agent's may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Sequence[str], Mapping[str, Any]]] = []
        self.broken = False
        self.capabilities = Capabilities(several_chats=True, several_directories=True)

    async def commands(self, directories: Sequence[str], config: Mapping[str, Any]) -> Sequence[Command]:
        self.asked.append((directories, config))
        if self.broken:
            raise RuntimeError("no commands today")
        return [Command("compact", "Shorten what it remembers"), Command("compare", "Two runs", "[a] [b]")]


@pytest.fixture
async def commanding() -> AsyncIterator[tuple[WireClient, Commanding]]:
    agent = Commanding()
    store: Store = MemoryStore()
    host = await started(store, agent)
    client = WireClient(host)
    await client.initialize(ROOT)
    yield client, agent
    await host.stop()


async def test_M4_a_slash_at_the_start_offers_the_agents_commands(
    commanding: tuple[WireClient, Commanding], tree: Path
) -> None:
    client, agent = commanding
    chat = await client.create(SESSION, workingDirectories=[tree.as_uri()])
    compact, compare = await offered(client, chat, "/Comp")
    assert compact == {
        "insertText": "/compact ",
        "rangeStart": 0,
        "rangeEnd": 5,
        "attachment": {
            "type": "simple",
            "label": "/compact",
            "displayKind": "command",
            "_meta": {"command": "compact", "description": "Shorten what it remembers"},
        },
    }
    assert compare["attachment"]["_meta"] == {
        "command": "compare",
        "description": "Two runs",
        "argumentHint": "[a] [b]",
    }
    assert await inserts(client, chat, "/compar") == ["/compare "]
    assert agent.asked[0] == ([str(tree)], {})
    for text in ("/zz", " /comp", "see /comp", "/compact it", "first\n/comp"):
        assert await offered(client, chat, text) == []


async def test_M4_an_agent_that_cannot_say_its_commands_offers_none(
    commanding: tuple[WireClient, Commanding], caplog: pytest.LogCaptureFixture
) -> None:
    client, agent = commanding
    chat = await client.create(SESSION)
    agent.broken = True
    assert await offered(client, chat, "/") == []
    assert "does not say its commands" in caplog.text
    agent.broken = False
    assert len(await offered(client, chat, "/")) == 2


async def test_M4_an_agent_without_commands_offers_none(client: WireClient, chat: str) -> None:
    assert await offered(client, chat, "/") == []
