"""What a chat that moved leaves behind where it was: files that its messages name, terminals that run for it. U12, A2."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.paths import path_of
from jupyter_ahp.host.ports import Capabilities, Json, Store
from jupyter_ahp.ptys import PlainPtys
from jupyter_ahp.store.files import FileStore
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, RpcError, Scripted, WireClient, agree, message, quiet

S, T, U = "ahp-session:/s", "ahp-session:/t", "ahp-session:/u"
NEW, FORK = "ahp-chat:/new", "ahp-chat:/fork"


class Forking(Scripted):
    capabilities = Capabilities(fork=True, several_directories=True)


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FileStore(tmp_path / "store") if request.param == "files" else MemoryStore()


def serving(store: Store, directory: Path) -> Host:
    ptys = None if os.name == "nt" else PlainPtys()
    return Host(store, [Forking()], HostOptions(ptys=ptys, default_directory=str(directory)))


@pytest.fixture
async def host(store: Store, tmp_path: Path) -> AsyncIterator[Host]:
    host = serving(store, tmp_path)
    await host.start()
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    await host.stop()


@pytest.fixture
async def chat(client: WireClient) -> str:
    """A chat of S that can move, in which a file was sent."""
    await client.create(S)
    for session in (T, U):
        await client.create(session)
    await client.request("createChat", channel=S, chat=NEW)
    await client.subscribe(NEW)
    await client.say(NEW, "look", turn="t1", attachments=[inline("sent")])
    return NEW


def inline(text: str) -> Json:
    data = base64.b64encode(text.encode()).decode()
    return {"type": "embeddedResource", "label": f"{text}.txt", "contentType": "text/plain", "data": data}


def uri_of(sent: Json) -> str:
    uri: str = sent["attachments"][0]["uri"]
    return uri


def is_there(uri: str) -> bool:
    return Path(path_of(uri) or "").is_file()


async def move(client: WireClient, chat: str, session: str) -> None:
    await client.request("moveChat", channel=chat, destination={"kind": "session", "session": session})


async def dispose(client: WireClient, session: str) -> None:
    for channel in list(client.mirrors):
        if channel == session:
            client.mirrors.pop(channel)
    for chat in [entry["resource"] for entry in client.rows.get(session, {}).get("chats", ())]:
        client.mirrors.pop(chat, None)
    await client.request("disposeSession", channel=session)


async def test_U12_what_its_messages_name_outlives_the_session_that_it_came_from(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    await client.request("listSessions")
    uri = uri_of(client.turn(chat, "t1")["message"])
    gone = uri_of(
        (await client.say(client.state(S)["defaultChat"], "gone", attachments=[inline("gone")]))["message"]
    )
    await client.do(chat, "chat/draftChanged", draft=message("draft"))
    await move(client, chat, T)
    await client.request("listSessions")

    await dispose(client, S)

    assert is_there(uri)
    assert not is_there(gone)
    assert uri_of(client.turn(chat, "t1")["message"]) == uri, "its messages are as everybody has them"
    read = await client.request("resourceRead", uri=uri)
    assert read["data"] == "sent"
    await agree(host, client)
    await dispose(client, T)
    assert not is_there(uri)
    with pytest.raises(RpcError):
        await other.request("resourceRead", uri=uri)


async def test_U12_files_of_a_session_that_is_gone_are_there_after_a_restart(
    tmp_path: Path,
) -> None:
    store = FileStore(tmp_path / "store")
    host = serving(store, tmp_path)
    await host.start()
    client = WireClient(host)
    await client.initialize(ROOT)
    await client.create(S)
    await client.create(T)
    await client.request("createChat", channel=S, chat=NEW)
    await client.subscribe(NEW)
    uri = uri_of((await client.say(NEW, "look", attachments=[inline("sent")]))["message"])
    await move(client, NEW, T)
    await client.request("disposeSession", channel=S)
    await client.drop()
    await host.stop()

    again = serving(store, tmp_path)
    await again.start()
    client = WireClient(again)
    await client.initialize(ROOT)
    rows = (await client.request("listSessions"))["items"]
    assert [row["resource"] for row in rows] == [T]
    assert not again.unreadable
    await client.subscribe(NEW)
    assert (await client.request("resourceRead", uri=uri))["data"] == "sent"
    await client.request("disposeSession", channel=T)
    assert not is_there(uri)
    assert list((tmp_path / "store" / "sessions").iterdir()) == []
    await client.drop()
    await again.stop()


async def test_U12_they_go_with_the_last_session_that_names_them(
    client: WireClient, chat: str, host: Host
) -> None:
    uri = uri_of(client.turn(chat, "t1")["message"])
    await move(client, chat, T)
    second = uri_of((await client.say(chat, "more", attachments=[inline("second")]))["message"])
    source = {"kind": "fork", "chat": chat, "turnId": "t1"}
    await client.request("createChat", channel=T, chat=FORK, source=source)
    await move(client, chat, U)
    await client.request("listSessions")

    await dispose(client, S)
    assert is_there(uri)
    await dispose(client, T)
    assert is_there(uri)
    assert is_there(second)
    await dispose(client, U)

    assert not is_there(uri)
    assert not is_there(second)


async def test_U12_a_chat_that_comes_back_needs_nothing_from_elsewhere(client: WireClient, chat: str) -> None:
    uri = uri_of(client.turn(chat, "t1")["message"])
    await move(client, chat, T)
    await move(client, chat, S)
    await client.request("listSessions")

    await dispose(client, T)
    assert is_there(uri)
    await dispose(client, S)

    assert not is_there(uri)


@pytest.mark.parametrize("where", ["draft", "queued", "cut"])
async def test_U12_whatever_of_the_chat_names_a_file_keeps_it(
    client: WireClient, chat: str, host: Host, where: str
) -> None:
    if where == "queued":
        await client.do(
            chat,
            "chat/pendingMessageSet",
            kind="queued",
            id="q",
            message=message("later", attachments=[inline("queued")]),
        )
        await quiet(host)
        uri = uri_of(client.state(chat)["turns"][-1]["message"])
    else:
        uri = uri_of(client.turn(chat, "t1")["message"])
    if where == "draft":
        draft = message("again", attachments=client.turn(chat, "t1")["message"]["attachments"])
        await client.do(chat, "chat/draftChanged", draft=draft)
    if where in ("draft", "cut"):
        await client.do(chat, "chat/truncated")
    await quiet(host)
    await move(client, chat, T)
    await client.request("listSessions")

    await dispose(client, S)

    assert is_there(uri)


@pytest.mark.skipif(os.name == "nt", reason="there are no terminals on Windows")
async def test_U12_the_claim_of_a_terminal_that_runs_for_the_chat_goes_with_it(
    client: WireClient, other: WireClient, chat: str, host: Host
) -> None:
    terminal = "ahp-terminal:/one"
    claim = {"kind": "session", "session": S, "chat": chat}
    await client.request("createTerminal", channel=terminal, claim=claim)
    await other.subscribe(terminal)

    await move(client, chat, T)

    assert other.state(terminal)["claim"] == {**claim, "session": T}
    await client.request("listSessions")
    await dispose(client, S)
    assert other.state(terminal)["lifecycle"]["status"] == "running"
    await other.subscribe(terminal)
    await dispose(client, T)
    error = await other.fails("subscribe", channel=terminal)
    assert error.code == -32008
    other.mirrors.pop(terminal)
    await asyncio.sleep(0)
