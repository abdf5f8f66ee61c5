"""Sessions that other programs made, and conversations of chats that are closed: U5, U6, U9, D3, B13."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_ahp.host import catalogue
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Found, Json, StoreError
from jupyter_ahp.protocol import uris
from jupyter_ahp.store.files import FileStore
from tests.host.diary import BEGAN, NEW, Diary, S, Server, Shelf, entries
from tests.host.harness import ROOT, RpcError, Scripted, WireClient, agree, answer_of, message, quiet, until

THEIRS = "ahp-session:/theirs"
CHAT = uris.default_chat_uri("test:/theirs")
LATER = "2026-02-02T08:00:00.000Z"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server whose agent keeps a conversation of two turns that another program made."""
    before = asyncio.all_tasks()
    server = Server(FileStore(tmp_path / "store"), tmp_path)
    theirs(server, "theirs", a="one", b="two")
    await server.start()
    yield server
    await agree(server.host, server.client, server.other)
    await server.stop()
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()} - {asyncio.current_task()}
    assert not left, f"tasks without an owner: {left}"


@pytest.fixture
def always_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every listing looks at the catalogues."""
    monkeypatch.setattr(catalogue, "_FRESH", -1.0)


def theirs(server: Server, memory: str, **texts: str) -> None:
    server.shelf.books[memory] = entries(**texts)
    server.shelf.found[memory] = Found(
        memory, f"About {memory}", BEGAN, LATER, server.options.default_directory
    )


async def listed(client: WireClient) -> list[str]:
    result = await client.request("listSessions")
    return [row["resource"] for row in result["items"]]


async def kept(server: Server) -> list[str]:
    return [record.id for record in await server.store.sessions()]


# ── listing ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_U5_a_session_of_another_program_is_listed_beside_ours(server: Server, tmp_path: Path) -> None:
    await server.chat("mine")

    result = await server.client.request("listSessions")

    assert [row["resource"] for row in result["items"]] == [S, THEIRS], "the newest first"
    row = result["items"][1]
    assert {key: row[key] for key in ("provider", "title", "createdAt", "modifiedAt", "status")} == {
        "provider": "test",
        "title": "About theirs",
        "createdAt": BEGAN,
        "modifiedAt": LATER,
        "status": 1 | 32,
    }
    assert row["workingDirectories"] == [tmp_path.as_uri()]
    assert row["defaultChat"] == CHAT
    assert server.agent.looked == [[str(tmp_path)]]
    assert THEIRS in server.other.rows, "everybody is told"
    assert await kept(server) == ["s"]


async def test_U5_an_older_window_has_its_own_spelling_of_the_session_and_derives_its_chat(
    server: Server,
) -> None:
    window = WireClient(server.host, info={"name": "vscode-agents"})
    await window.initialize(ROOT)

    assert await listed(window) == ["test:/theirs"]
    state = await window.subscribe("test:/theirs")
    assert state["defaultChat"] == uris.default_chat_uri("test:/theirs")
    assert (await window.subscribe(state["defaultChat"]))["turns"]


async def test_U5_it_is_opened_without_starting_anything(server: Server) -> None:
    for client in (server.client, server.other):
        await client.subscribe(THEIRS)
        await client.subscribe(CHAT)

    assert server.shows(CHAT) == ["one", "two"]
    assert [answer_of(turn) for turn in server.client.state(CHAT)["turns"]] == ["about one", "about two"]
    assert "resumePoint" not in str(server.client.state(CHAT))
    assert server.client.state(THEIRS)["lifecycle"] == "ready"
    assert server.agent.opened == []
    await server.client.do(
        THEIRS, "session/activeClientSet", activeClient={"clientId": server.client.client_id, "tools": []}
    )
    await server.restart()
    assert await kept(server) == [], "looking is not taking"


async def test_U5_the_catalogue_is_read_for_the_id_in_a_uri_that_is_named_first(server: Server) -> None:
    state = await server.client.subscribe(CHAT)

    assert state["resource"] == CHAT
    assert (await server.other.subscribe("test:/theirs"))["title"] == "About theirs"
    assert len(server.agent.looked) == 1


async def test_U5_D3_whatever_names_it_first(server: Server) -> None:
    server.make = {"several_chats": True}

    async def fresh() -> WireClient:
        await server.stop()
        await server.start()
        return server.client

    client = await fresh()
    await client.dispatch(CHAT, "chat/draftChanged", draft=message(""))
    await quiet(server.host)
    assert await kept(server) == ["theirs"]
    theirs(server, "others", a="one")
    others, chat = "ahp-session:/others", uris.default_chat_uri("test:/others")
    client = await fresh()
    assert await client.request("fetchTurns", channel=chat) == {}
    client = await fresh()
    asked = {"kind": "userMessage", "text": "", "offset": 0}
    assert await client.request("completions", channel=chat, **asked) == {"items": []}
    client = await fresh()
    assert (await client.fails("moveChat", channel=chat, destination={"kind": "newSession"})).code == -32602
    client = await fresh()
    await client.request("createChat", channel=others, chat=NEW)
    assert sorted(await kept(server)) == ["others", "theirs"]
    theirs(server, "third", a="one")
    client = await fresh()
    await client.request("disposeSession", channel="ahp-session:/third")
    assert "ahp-session:/third" not in await listed(client)


async def test_U6_a_session_that_is_in_no_catalogue_either_has_no_derived_chat(server: Server) -> None:
    nobody = uris.default_chat_uri("test:/nobody")

    error = await server.client.fails("subscribe", channel=nobody)

    assert (error.code, error.message) == (-32001, f"Resource not found: {nobody}")
    assert len(server.agent.looked) == 1


async def test_U5_the_derived_name_in_another_spelling_is_no_chat_of_it(server: Server) -> None:
    await listed(server.client)

    error = await server.client.fails("subscribe", channel=uris.default_chat_uri("other:/theirs"))

    assert error.code == -32001


async def test_U5_a_name_that_no_uri_can_hold_gets_one_that_stays(server: Server) -> None:
    theirs(server, "/home/ada/.pi/one two.jsonl", p="path")
    theirs(server, "s", p="our own id")
    await server.chat("mine")
    first = await listed(server.client)
    assert len(first) == 4
    assert S in first
    await server.restart()

    assert sorted(await listed(server.client)) == sorted(first)
    chats = [row["defaultChat"] for row in server.client.rows.values() if row["title"].startswith("About /")]
    await server.other.subscribe(chats[0])
    assert server.shows(chats[0]) == ["path"]


async def test_U5_rows_follow_the_catalogue(server: Server, always_anew: None) -> None:
    await listed(server.client)
    theirs(server, "new", n="new")
    server.shelf.found["theirs"] = replace(
        server.shelf.found["theirs"], title="Renamed", modified_at="2027-01-01T00:00:00.000Z"
    )
    await listed(server.client)
    await until(lambda: server.other.rows[THEIRS]["title"] == "Renamed")
    assert server.other.rows[THEIRS]["modifiedAt"] == "2027-01-01T00:00:00.000Z"
    assert "ahp-session:/new" in server.other.rows

    del server.shelf.found["new"], server.shelf.books["new"]
    await listed(server.client)

    assert await listed(server.client) == [THEIRS]
    assert list(server.other.rows) == [THEIRS]


async def test_U5_one_that_vanished_stays_as_long_as_somebody_looks_at_it(
    server: Server, always_anew: None
) -> None:
    await server.client.subscribe(CHAT)
    del server.shelf.found["theirs"], server.shelf.books["theirs"]
    await listed(server.other)
    assert await listed(server.other) == [THEIRS]

    await server.client.unsubscribe(CHAT)
    await listed(server.other)

    assert await listed(server.other) == []


async def test_U5_what_was_added_elsewhere_is_read_when_it_is_opened_again(
    server: Server, always_anew: None
) -> None:
    await server.client.subscribe(CHAT)
    await server.client.unsubscribe(CHAT)
    server.shelf.books["theirs"] = entries(a="one", b="two", c="three")
    server.shelf.found["theirs"] = replace(server.shelf.found["theirs"], modified_at="2026-03-01T00:00:00Z")
    await listed(server.client)

    state = await server.client.subscribe(CHAT)

    assert [turn["message"]["text"] for turn in state["turns"]] == ["one", "two", "three"]


async def test_U5_an_agent_that_cannot_list_costs_its_own_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = Diary(Shelf()), Diary(Shelf())
    bad.provider = "bad"
    good.shelf.books["good"] = entries(a="one")
    good.shelf.found["good"] = Found("good", "Good", BEGAN, BEGAN, str(tmp_path))

    async def fail() -> None:
        raise OSError("no such folder")

    bad.on_catalogue = fail
    server = Server(FileStore(tmp_path / "store"), tmp_path)
    host = Host(server.store, [bad, good, Scripted("plain")], server.options)
    await host.start()
    client = WireClient(host)
    await client.initialize(ROOT)

    assert await listed(client) == ["ahp-session:/good"]
    assert "Agent bad cannot list its conversations" in caplog.text
    await client.drop()
    await host.stop()


HERE = "/home/ada"


@pytest.mark.parametrize(
    "row",
    [
        "no row",
        Found("bad", None, BEGAN, LATER, HERE),  # type: ignore[arg-type]
        Found("bad", "t", BEGAN, LATER, None),  # type: ignore[arg-type]
        Found("bad", "t", BEGAN, LATER, "not/absolute"),
        Found("bad", "t", BEGAN, LATER, HERE + "/\ud83d"),
        Found("bad", "t", BEGAN, None, HERE),  # type: ignore[arg-type]
        Found("bad", "t", BEGAN, "yesterday", HERE),
        Found("", "t", BEGAN, LATER, HERE),
        Found("bad/\ud83d", "t", BEGAN, LATER, HERE),
        Found(5, "t", BEGAN, LATER, HERE),  # type: ignore[arg-type]
    ],
    ids=repr,
)
async def test_U5_a_row_that_nobody_can_use_costs_itself_alone(server: Server, row: object) -> None:
    server.shelf.found["bad"] = row  # type: ignore[assignment]
    await server.chat("mine")

    assert await listed(server.client) == [S, THEIRS]


async def test_U5_half_an_emoji_in_a_title_and_no_beginning_are_mended(server: Server) -> None:
    server.shelf.found["theirs"] = Found("theirs", " cut \ud83d", "", LATER, HERE)

    result = await server.client.request("listSessions")

    assert [(row["title"], row["createdAt"]) for row in result["items"]] == [("cut \ufffd", LATER)]


@pytest.mark.parametrize(
    "damage",
    [
        {"id": 7},
        {"state": "running"},
        {"message": "hello"},
        {"message": {"text": None, "origin": {"kind": "user"}}},
        {"message": {"text": "hello"}},
        {"responseParts": None},
        {"responseParts": ["hello"]},
        {"responseParts": [{"content": "hello"}]},
        {"id": "found-b"},
    ],
    ids=str,
)
async def test_U5_what_is_no_list_of_turns_is_said_and_not_taken(
    server: Server, monkeypatch: pytest.MonkeyPatch, damage: Json
) -> None:
    read = server.agent.transcript

    async def damaged(memory: str) -> list[Json]:
        first, *others = await read(memory)
        return [{**first, **damage}, *others]

    monkeypatch.setattr(server.agent, "transcript", damaged)
    error = await server.client.fails("subscribe", channel=CHAT)
    await server.client.dispatch(CHAT, "chat/draftChanged", draft=message("mine"))
    await until(lambda: not server.client.pending)

    assert (error.code, "could not be read" in error.message) == (-32603, True)
    assert "could not be read" in server.client.refusals[-1]["rejectionReason"]
    assert await kept(server) == []


async def test_U5_a_slow_agent_holds_up_nobody_and_its_rows_come_later(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "_WAIT", 0.01)
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    server.agent.on_catalogue = wait
    assert await listed(server.client) == []
    gate.set()

    await until(lambda: THEIRS in server.client.rows)
    assert await listed(server.other) == [THEIRS]


async def test_U5_an_agent_that_does_not_answer_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(catalogue, "_PATIENCE", 0.01)

    async def hang() -> None:
        await asyncio.sleep(60)

    server.agent.on_catalogue = hang

    assert await listed(server.client) == []
    assert "Agent test did not list its conversations" in caplog.text


async def test_U5_of_one_agent_so_many_are_listed_the_newest(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "_ROWS", 2)
    for number in range(5):
        theirs(server, f"c{number}", a="x")
        row = server.shelf.found[f"c{number}"]
        server.shelf.found[f"c{number}"] = replace(row, modified_at=f"2026-02-1{number}T00:00:00.000Z")

    assert await listed(server.client) == ["ahp-session:/c4", "ahp-session:/c3"]


# ── taking ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_U5_it_is_ours_once_somebody_sends_in_it(server: Server) -> None:
    for client in (server.client, server.other):
        await client.subscribe(CHAT)

    assert await server.say(CHAT, "three") == "one | two | three"

    assert server.last == ("theirs", None, False)
    assert server.agent.prompts[-1].prefaces == {}
    assert await kept(server) == ["theirs"]
    await server.restart()
    assert await listed(server.client) == [THEIRS], "listed once"
    assert server.shows(CHAT) == ["one", "two", "three"]
    assert await server.say(CHAT, "four") == "one | two | three | four"


async def test_D3_a_draft_is_taken_without_starting_an_agent(server: Server) -> None:
    for client in (server.client, server.other):
        await client.subscribe(CHAT)

    await server.client.do(CHAT, "chat/draftChanged", draft=message("half a thou"))

    assert server.other.state(CHAT)["draft"]["text"] == "half a thou"
    await server.restart()
    assert server.other.state(CHAT)["draft"]["text"] == "half a thou"
    assert server.shows(CHAT) == ["one", "two"]
    assert await listed(server.client) == [THEIRS]
    assert server.agent.opened == []


@pytest.mark.parametrize(
    ("channel", "kind", "fields"),
    [
        (CHAT, "chat/isArchivedChanged", {"isArchived": True}),
        (THEIRS, "session/isArchivedChanged", {"isArchived": True}),
        (THEIRS, "session/titleChanged", {"title": "Mine now"}),
    ],
)
async def test_U5_it_is_ours_once_somebody_marks_it(
    server: Server, channel: str, kind: str, fields: dict[str, object]
) -> None:
    await server.client.subscribe(THEIRS)
    await server.client.subscribe(CHAT)

    echo = await server.client.do(channel, kind, **fields)

    assert "rejectionReason" not in echo
    await server.restart()
    assert await kept(server) == ["theirs"]
    assert [turn["message"]["text"] for turn in server.client.state(CHAT)["turns"]] == ["one", "two"]
    row = next(row for row in (await server.client.request("listSessions"))["items"])
    assert row["title"] == fields.get("title", "About theirs")


async def test_B13_it_can_be_rewound_and_forked_at_any_of_its_turns(server: Server) -> None:
    for client in (server.client, server.other):
        await client.subscribe(CHAT)
    source = {"kind": "fork", "chat": CHAT, "turnId": "found-a"}

    await server.client.request("createChat", channel=THEIRS, chat=NEW, source=source)
    await server.client.subscribe(NEW)

    assert await server.say(NEW, "else") == "one | else"
    assert server.last == ("theirs", "a", True)
    await server.restart()
    await server.client.do(CHAT, "chat/truncated", turnId="found-a")
    assert await server.say(CHAT, "edited") == "one | edited"
    assert server.last == ("theirs", "a", False)


async def test_U12_a_chat_of_ours_can_move_into_it(server: Server) -> None:
    await server.chat("mine")
    await server.client.request("createChat", channel=S, chat=NEW)
    await server.client.subscribe(NEW)
    await server.say(NEW, "hello")
    await listed(server.client)

    await server.client.request(
        "moveChat", channel=NEW, destination={"kind": "session", "session": THEIRS, "after": None}
    )

    await server.restart()
    state = await server.client.subscribe(THEIRS)
    assert [chat["resource"] for chat in state["chats"]] == [NEW, CHAT]
    assert await server.say(NEW, "again") == "hello | again"


async def test_U5_one_that_cannot_be_read_says_so_and_is_not_taken(server: Server) -> None:
    await listed(server.client)
    del server.shelf.books["theirs"]

    error = await server.client.fails("subscribe", channel=CHAT)
    await server.client.dispatch(CHAT, "chat/draftChanged", draft=message("half"))

    assert error.message == "This chat could not be read: There is no conversation theirs."
    await until(lambda: server.client.refusals)
    assert "There is no conversation theirs." in server.client.refusals[-1]["rejectionReason"]
    assert await kept(server) == []


@pytest.mark.parametrize("call", ["put_chat", "put_turns", "second put_session"])
async def test_U5_one_that_was_taken_by_half_is_whole_after_a_crash(
    server: Server, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    name, left = call.split()[-1], [len(call.split()) - 1]
    whole = getattr(server.store, name)

    async def fail(*arguments: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StoreError("the disk is full")
        await whole(*arguments)

    await server.client.subscribe(CHAT)
    with monkeypatch.context() as broken:
        broken.setattr(server.store, name, fail)
        echo = await server.client.do(CHAT, "chat/draftChanged", draft=message("half"))
        assert "the disk is full" in echo["rejectionReason"]
        await server.stop()
    await server.start(THEIRS, CHAT)

    assert server.shows(CHAT) == ["one", "two"]
    assert await server.say(CHAT, "three") == "one | two | three"
    await server.restart()
    assert server.shows(CHAT) == ["one", "two", "three"]


async def test_U5_another_server_that_took_it_first_has_it(server: Server, tmp_path: Path) -> None:
    await server.client.subscribe(CHAT)
    beside = Host(FileStore(tmp_path / "store"), [Diary(server.shelf)], server.options)
    await beside.start()
    visitor = WireClient(beside)
    await visitor.initialize(ROOT)
    await visitor.subscribe(CHAT)
    await visitor.do(CHAT, "chat/draftChanged", draft=message("first"))
    await quiet(beside)

    echo = await server.client.do(CHAT, "chat/draftChanged", draft=message("second"))
    assert "It is open in another server" in echo["rejectionReason"]
    await visitor.drop()
    await beside.stop()
    echo = await server.client.do(CHAT, "chat/draftChanged", draft=message("third"))

    assert "Another server here has taken this session" in echo["rejectionReason"]
    assert (await server.store.load_chat("theirs", CHAT)).record.draft["text"] == "first"  # type: ignore[index]


# ── which are ours ───────────────────────────────────────────────────────────────────────────────────────────────
async def test_U5_the_conversations_of_our_own_chats_are_not_listed_again(
    server: Server, always_anew: None
) -> None:
    chat = await server.chat("mine")
    await server.fork(chat, "mine")
    await server.say(NEW, "forked")
    assert len(server.shelf.books) == 3

    assert sorted(await listed(server.client)) == sorted([S, THEIRS])
    await server.restart()
    assert sorted(await listed(server.client)) == sorted([S, THEIRS])


async def test_U9_hidden_leaves_a_closed_chats_conversation_and_never_lists_it(
    server: Server, always_anew: None
) -> None:
    chat = await server.chat("mine")
    await server.fork(chat, "mine")
    await server.say(NEW, "forked")
    await server.client.request("disposeChat", channel=NEW)
    await server.client.request("disposeSession", channel=S)
    for client in (server.client, server.other):
        client.mirrors.clear()
    await server.restart()

    assert await listed(server.client) == [THEIRS]
    assert server.agent.deleted == []
    assert len(server.shelf.books) == 3


@pytest.mark.parametrize("restarted", [False, True])
async def test_U9_delete_removes_a_closed_chats_conversation(
    server: Server, always_anew: None, restarted: bool
) -> None:
    server.options.closed_chats = "delete"
    chat = await server.chat("mine")
    await server.fork(chat, "mine")
    await server.say(NEW, "forked")
    if restarted:  # nothing of them is loaded
        for client in (server.client, server.other):
            client.mirrors.clear()
        await server.restart()

    await server.client.request("disposeChat", channel=NEW)
    await until(lambda: len(server.agent.deleted) == 1)
    assert set(server.shelf.books) == {"theirs", "book-1"}
    await server.client.request("disposeSession", channel=S)
    await until(lambda: len(server.agent.deleted) == 2)

    assert set(server.shelf.books) == {"theirs"}
    for client in (server.client, server.other):
        client.mirrors.clear()


async def test_U9_delete_leaves_what_a_fork_is_to_copy(server: Server) -> None:
    server.options.closed_chats = "delete"
    await server.chat("mine")
    await server.client.request("createChat", channel=S, chat="ahp-chat:/second")
    await server.client.subscribe("ahp-chat:/second")
    await server.say("ahp-chat:/second", "one")
    await server.fork("ahp-chat:/second", "one")

    await server.client.request("disposeChat", channel="ahp-chat:/second")
    for client in (server.client, server.other):
        client.mirrors.pop("ahp-chat:/second", None)

    assert await server.say(NEW, "two") == "one | two"
    assert server.agent.deleted == []


async def test_U9_a_delete_that_fails_is_logged_and_the_conversation_is_not_listed(
    server: Server, always_anew: None, caplog: pytest.LogCaptureFixture
) -> None:
    server.options.closed_chats = "delete"

    async def fail(memory: str) -> None:
        raise OSError("the disk says no")

    server.agent.on_delete = fail
    await server.chat("mine")
    await server.client.request("disposeSession", channel=S)
    for client in (server.client, server.other):
        client.mirrors.clear()

    await until(lambda: "did not delete the conversation book-1" in caplog.text)
    assert await listed(server.client) == [THEIRS]


async def test_U9_an_agent_that_hangs_in_a_delete_does_not_hold_up_the_end(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(catalogue, "_CLOSING", 0.01)
    server.options.closed_chats = "delete"

    async def hang(memory: str) -> None:
        await asyncio.sleep(60)

    server.agent.on_delete = hang
    await server.chat("mine")
    await server.client.request("disposeSession", channel=S)
    for client in (server.client, server.other):
        client.mirrors.clear()

    async with asyncio.timeout(20):
        await server.restart()

    assert "was still deleting the conversation book-1" in caplog.text
    assert await listed(server.client) == [THEIRS]


@pytest.mark.parametrize("closed", ["hidden", "delete"])
async def test_U9_a_session_of_another_program_is_closed_in_the_same_way(
    server: Server, always_anew: None, closed: str
) -> None:
    server.options.closed_chats = "delete" if closed == "delete" else "hidden"
    await listed(server.client)

    await server.client.request("disposeSession", channel=THEIRS)
    await quiet(server.host)

    assert await listed(server.client) == []
    assert THEIRS not in server.other.rows
    await server.restart()
    assert await listed(server.client) == []
    assert list(server.shelf.books) == ([] if closed == "delete" else ["theirs"])
    with pytest.raises(RpcError):
        await server.client.subscribe(THEIRS)
