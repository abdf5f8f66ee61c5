"""Two people who do opposite things at the same time, and crashes on a chat's way: U5, U9, U12, S2, S3, V3."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host import catalogue
from jupyter_ahp.host.ports import ChatRecord, Found, Json, SessionRecord
from jupyter_ahp.protocol import uris
from jupyter_ahp.store.files import FileStore
from tests.host.diary import BEGAN, NEW, S, Server, entries
from tests.host.harness import ROOT, Failing, RpcError, Scripted, WireClient, message, quiet, started, until

T = "ahp-session:/t"
TWO = "ahp-chat:/two"
THEIRS = "ahp-session:/theirs"
CHAT = uris.default_chat_uri("test:/theirs")


class Slow(FileStore):
    """A disk that takes its time with a chat's turns, once it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lets_go = asyncio.Event()
        self.lets_go.set()
        self.asked = 0

    async def put_turns(
        self, session_id: str, chat: str, turns: Sequence[Json], points: Mapping[str, str] | None = None
    ) -> None:
        self.asked += 1
        await self.lets_go.wait()
        await super().put_turns(session_id, chat, turns, points)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(Slow(tmp_path / "store"), tmp_path)
    server.make = {"several_chats": True}
    await server.start()
    yield server
    await server.stop()


async def meanwhile(
    server: Server, work: tuple[asyncio.Future[Any], Awaitable[None]], other: Callable[[], Awaitable[object]]
) -> Any:
    """What a request that writes turns is answered with, when something else is asked for while the disk is slow."""
    store = server.store
    assert isinstance(store, Slow)
    store.lets_go.clear()
    before = store.asked
    answer, taken = work
    taking = asyncio.ensure_future(taken)
    await until(lambda: store.asked > before)
    beside = asyncio.ensure_future(other())
    await asyncio.wait([beside], timeout=0.1)  # as far as it gets
    store.lets_go.set()
    async with asyncio.timeout(10):
        await taking
        await beside
        await asyncio.wait([answer])
    await quiet(server.host)
    return answer.exception() or answer.result()


async def kept(server: Server) -> dict[str, list[str]]:
    """The sessions on disk, all of which can be read, and their chats."""
    records = await server.store.sessions()
    assert all(isinstance(record, SessionRecord) for record in records), records
    return {
        one.id: sorted(chat["resource"] for chat in one.chats)
        for one in records
        if isinstance(one, SessionRecord)
    }


async def two_sessions(server: Server) -> tuple[str, str]:
    """Their default chats; the first has a second chat, in which something was said."""
    first = await server.client.create(S)
    target = await server.client.create(T)
    await server.client.request("createChat", channel=S, chat=TWO)
    await server.client.subscribe(TWO)
    await server.say(TWO, "hello")
    return first, target


def move(client: WireClient) -> tuple[asyncio.Future[Any], Awaitable[None]]:
    return client.ask("moveChat", {"channel": TWO, "destination": {"kind": "session", "session": T}})


def dispose(client: WireClient, session: str) -> Callable[[], Awaitable[object]]:
    return lambda: client.request("disposeSession", channel=session)


async def test_U12_a_chat_does_not_move_into_a_session_that_is_disposed_of_meanwhile(server: Server) -> None:
    first, _ = await two_sessions(server)

    result = await meanwhile(server, move(server.client), dispose(server.other, T))

    assert isinstance(result, RpcError)
    assert result.code == -32001
    assert await kept(server) == {"s": sorted([first, TWO])}
    assert await server.say(TWO, "again") == "hello | again", "it goes on where it was"
    await server.stop()
    await server.start(S, TWO)
    assert await server.say(TWO, "and again") == "hello | again | and again"


async def test_U12_a_chat_goes_with_its_session_that_is_disposed_of_while_it_moves(server: Server) -> None:
    _, target = await two_sessions(server)

    result = await meanwhile(server, move(server.client), dispose(server.other, S))

    assert isinstance(result, RpcError)
    assert result.code == -32001
    assert await kept(server) == {"t": [target]}
    assert (await server.other.fails("subscribe", channel=TWO)).code == -32001
    await server.client.request("createChat", channel=T, chat=TWO)
    assert (await server.other.subscribe(TWO))["turns"] == [], "its name is free"


async def test_U12_a_chat_that_is_closed_while_it_moves_is_closed(server: Server) -> None:
    first, target = await two_sessions(server)

    result = await meanwhile(
        server, move(server.client), lambda: server.other.request("disposeChat", channel=TWO)
    )

    assert isinstance(result, RpcError)
    assert result.code == -32001
    assert await kept(server) == {"s": [first], "t": [target]}
    assert (await server.other.fails("subscribe", channel=TWO)).code == -32001


async def test_U12_of_two_moves_at_once_one_is_done(server: Server) -> None:
    first, target = await two_sessions(server)
    third = await server.client.create("ahp-session:/u")
    elsewhere = {"kind": "session", "session": "ahp-session:/u"}

    async def away() -> object:
        return await server.other.fails("moveChat", channel=TWO, destination=elsewhere)

    result = await meanwhile(server, move(server.client), away)

    assert result == {"session": T}
    assert await kept(server) == {"s": [first], "t": sorted([target, TWO]), "u": [third]}
    assert await server.say(TWO, "again") == "hello | again"


@pytest.mark.parametrize("fails", ["claim", "put_chat", "put_session"])
async def test_U12_what_cannot_become_a_session_of_its_own_leaves_none(failing: Failing, fails: str) -> None:
    agent = Scripted()
    host = await started(failing, agent)
    client = WireClient(host)
    await client.initialize(ROOT)
    await client.create(S)
    await client.request("createChat", channel=S, chat=TWO)
    await client.subscribe(TWO)
    await client.say(TWO, "hello")
    await quiet(host)

    failing.fails.add(fails)
    await client.fails("moveChat", channel=TWO, destination={"kind": "newSession"})
    failing.fails.clear()

    listed = (await client.request("listSessions"))["items"]
    assert [row["resource"] for row in listed] == [S]
    assert await client.say(TWO, "again"), "it goes on where it was"
    await client.connection.closed()
    await host.stop()


async def test_S2_a_fork_in_a_session_that_is_disposed_of_meanwhile_leaves_nothing(server: Server) -> None:
    chat = await server.chat("one")
    source = {"kind": "fork", "chat": chat, "turnId": "t-one"}
    fork = server.client.ask("createChat", {"channel": S, "chat": NEW, "source": source})

    result = await meanwhile(server, fork, dispose(server.other, S))

    assert isinstance(result, RpcError)
    assert result.code == -32001
    assert await kept(server) == {}


async def test_S3_U9_what_a_fork_on_its_way_is_to_copy_is_not_deleted(server: Server) -> None:
    server.options.closed_chats = "delete"
    await server.chat()
    await server.client.request("createChat", channel=S, chat=TWO)
    await server.client.subscribe(TWO)
    await server.say(TWO, "one")
    source = {"kind": "fork", "chat": TWO, "turnId": "t-one"}
    fork = server.client.ask("createChat", {"channel": S, "chat": NEW, "source": source})

    result = await meanwhile(server, fork, lambda: server.other.request("disposeChat", channel=TWO))

    assert result is None
    await server.client.subscribe(NEW)
    assert await server.say(NEW, "two") == "one | two"


@pytest.mark.parametrize("action", ["draft", "mark"])
async def test_U5_U9_one_that_is_disposed_of_while_it_is_taken_is_gone(server: Server, action: str) -> None:
    server.shelf.books["theirs"] = entries(a="one")
    directory = server.options.default_directory
    server.shelf.found["theirs"] = Found("theirs", "About", BEGAN, BEGAN, directory)
    await server.client.subscribe(THEIRS)
    await server.client.subscribe(CHAT)
    fields: Json
    if action == "draft":
        channel, fields = CHAT, {"type": "chat/draftChanged", "draft": message("mine")}
    else:
        channel, fields = THEIRS, {"type": "session/isArchivedChanged", "isArchived": True}
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answer.set_result(None)
    taken = server.client.notify("dispatchAction", channel=channel, clientSeq=1, action=fields)

    await meanwhile(server, (answer, taken), dispose(server.other, THEIRS))

    assert await kept(server) == {}
    await server.stop()
    await server.start()
    listed = await server.client.request("listSessions")
    assert listed["items"] == [], "nor is it listed again"
    assert server.shelf.books["theirs"], "its conversation stays with the backend"


async def test_V3_the_canvases_of_a_row_go_with_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_FRESH", -1.0)
    server.shelf.books["theirs"] = entries(a="one")
    directory = server.options.default_directory
    server.shelf.found["theirs"] = Found("theirs", "About", BEGAN, BEGAN, directory)
    await server.client.request("listSessions")
    canvas = await server.host.canvases.open(CHAT, plugin="test", title="Page", html="<p>")

    server.shelf.books.clear()
    server.shelf.found.clear()
    await server.client.request("listSessions")

    assert not canvas.open
    error = await server.client.fails("subscribe", channel=canvas.uri)
    assert (error.code, error.message) == (-32008, f"Canvas is no longer available: {canvas.uri}")


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────
class Copying(FileStore):
    """Its folder is copied behind every write, once it is told to: what a crash right there leaves."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.copies: list[Path] | None = None

    async def _copy(self) -> None:
        if self.copies is not None:
            copy = self.folder.with_name(f"crash-{len(self.copies)}")
            await asyncio.to_thread(shutil.copytree, self.folder, copy)
            self.copies.append(copy)

    async def put_session(self, record: SessionRecord) -> None:
        await super().put_session(record)
        await self._copy()

    async def put_chat(self, session_id: str, record: ChatRecord) -> None:
        await super().put_chat(session_id, record)
        await self._copy()

    async def put_turns(
        self, session_id: str, chat: str, turns: Sequence[Json], points: Mapping[str, str] | None = None
    ) -> None:
        await super().put_turns(session_id, chat, turns, points)
        await self._copy()

    async def delete_chat(self, session_id: str, chat: str) -> None:
        await super().delete_chat(session_id, chat)
        await self._copy()


@pytest.mark.parametrize("kind", ["session", "newSession"])
async def test_U12_killed_anywhere_on_its_way_a_chat_is_in_one_session_and_can_move_again(
    tmp_path: Path, kind: str
) -> None:
    store = Copying(tmp_path / "store")
    server = Server(store, tmp_path)
    server.make = {"several_chats": True}
    await server.start()
    await two_sessions(server)
    await quiet(server.host)
    store.copies = []
    destination = {"kind": kind, **({"session": T} if kind == "session" else {})}
    await server.client.request("moveChat", channel=TWO, destination=destination)
    copies, store.copies = store.copies, None
    await server.stop()
    assert len(copies) >= 4

    for copy in copies:
        for disposed in (S, None):
            folder = copy.with_name(f"{copy.name}-{disposed is None}")
            shutil.copytree(copy, folder)
            server.store = FileStore(folder)
            await server.start(TWO)
            assert server.shows(TWO) == ["hello"]
            rows = (await server.client.request("listSessions"))["items"]
            having = [row["resource"] for row in rows if TWO in [chat["resource"] for chat in row["chats"]]]
            assert len(having) == 1, f"{copy}: {having}"
            if disposed is not None and having != [disposed]:
                await server.client.request("disposeSession", channel=disposed)
            elif having == [S]:
                await server.client.request(
                    "moveChat", channel=TWO, destination={"kind": "session", "session": T}
                )
            await server.stop()
            server.store = FileStore(folder)
            await server.start(TWO)
            assert server.shows(TWO) == ["hello"], copy
            await server.stop()


async def test_S2_killed_in_mid_fork_the_chat_can_be_made_again(tmp_path: Path) -> None:
    store = Copying(tmp_path / "store")
    server = Server(store, tmp_path)
    server.make = {"several_chats": True}
    await server.start()
    chat = await server.chat("one", "two")
    store.copies = []
    await server.fork(chat, "two")
    copies, store.copies = store.copies, None
    await server.stop()

    for copy in copies:
        server.store = FileStore(copy)
        await server.start()
        await server.client.request("listSessions")
        if (await server.client.subscribe(S))["chats"][1:] == []:
            await server.client.subscribe(chat)
            await server.fork(chat, "two")
        else:
            await server.other.subscribe(NEW)
        assert server.shows(NEW) == ["one", "two"], copy
        await server.stop()
