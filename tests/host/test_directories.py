"""Where sessions and chats work, as people change it: U11, P7; AHP 3.2, 4.7, 6.1."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import Principal
from jupyter_ahp.store.files import FileStore
from tests.host.diary import Diary, Shelf
from tests.host.harness import ROOT, WireClient, agree, quiet

S = "ahp-session:/s"
A, B, C = "file:///a", "file:///b", "file:///c"


@pytest.fixture
def agent() -> Diary:
    return Diary(Shelf())


async def running(agent: Diary, tmp_path: Path) -> Host:
    grants = Grants({"reader": ["session:read"]}, {"ana": "reader"})
    host = Host(FileStore(tmp_path / "store"), [agent], HostOptions(grants=grants))
    await host.start()
    return host


@pytest.fixture
async def host(agent: Diary, tmp_path: Path) -> AsyncIterator[Host]:
    host = await running(agent, tmp_path)
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    await host.stop()


@pytest.fixture
async def chat(client: WireClient, other: WireClient) -> str:
    chat = await client.create(S, workingDirectories=[A, B])
    await other.subscribe(S)
    await other.subscribe(chat)
    return chat


async def refused(client: WireClient, channel: str, kind: str, **fields: str) -> str:
    envelope = await client.do(channel, kind, **fields)
    return str(envelope.get("rejectionReason"))


async def test_U11_a_chat_works_in_some_of_its_sessions_directories_and_its_backend_is_resumed_there(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Diary
) -> None:
    await client.say(chat, "one")
    await client.do(chat, "chat/workingDirectorySet", directory=B)
    await client.say(chat, "two")

    assert [start.directories for start in agent.opened] == [["/a", "/b"], ["/b"]]
    assert agent.closed == agent.opened[:1]
    assert agent.opened[1].memory is not None
    assert agent.knows(agent.opened[1].memory) == ["one", "two"]
    assert other.state(S)["chats"][0]["workingDirectories"] == [B]
    await agree(host, client, other)


async def test_U11_what_changes_nothing_restarts_nothing(client: WireClient, chat: str, agent: Diary) -> None:
    await client.say(chat, "one")
    await client.do(chat, "chat/workingDirectorySet", directory=A)
    await client.do(chat, "chat/workingDirectorySet", directory=B)
    await client.say(chat, "two")
    assert len(agent.opened) == 1


async def test_U11_a_directory_that_the_session_does_not_have_is_refused(
    client: WireClient, chat: str
) -> None:
    words = await refused(client, chat, "chat/workingDirectorySet", directory=C)
    assert words == f"The session does not work in {C}. Add it to the session first."
    assert "workingDirectories" not in client.state(chat)


async def test_U11_an_agent_of_one_directory_is_given_no_other(
    client: WireClient, chat: str, agent: Diary
) -> None:
    agent.capabilities = Diary(Shelf(), several_directories=False).capabilities
    for channel, kind in ((S, "session/workingDirectorySet"), (chat, "chat/workingDirectorySet")):
        words = await refused(client, channel, kind, directory=A)
        assert words == "Diary works in the one directory that its session began in."


async def test_U11_a_directory_of_the_session_is_every_chats_that_names_none(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Diary, tmp_path: Path
) -> None:
    await client.say(chat, "one")
    await client.do(S, "session/workingDirectorySet", directory=C)
    await client.say(chat, "two")
    assert [start.directories for start in agent.opened] == [["/a", "/b"], ["/a", "/b", "/c"]]
    await agree(host, client, other)

    await quiet(host)
    for connection in tuple(host.connections):
        await connection.closed()
    await host.stop()
    again = await running(agent, tmp_path)
    new = WireClient(again)
    await new.initialize(ROOT)
    assert (await new.subscribe(S))["workingDirectories"] == [A, B, C]
    listed = (await new.request("listSessions"))["items"]
    assert listed[0]["workingDirectories"] == [A, B, C]
    await new.drop()
    await again.stop()


@pytest.mark.parametrize("loaded", [True, False])
async def test_U11_a_directory_that_leaves_the_session_leaves_its_chats(
    host: Host, client: WireClient, other: WireClient, chat: str, loaded: bool
) -> None:
    await client.request("createChat", channel=S, chat="ahp-chat:/n", workingDirectories=[A, B])
    if loaded:
        await client.subscribe("ahp-chat:/n")
    await client.do(S, "session/workingDirectoryRemoved", directory=B)
    assert other.state(S)["workingDirectories"] == [A]
    assert other.state(S)["chats"][1]["workingDirectories"] == [A]
    assert (await other.subscribe("ahp-chat:/n"))["workingDirectories"] == [A]
    await agree(host, client, other)


async def test_U11_so_does_one_that_is_replaced(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    await client.request("createChat", channel=S, chat="ahp-chat:/n", workingDirectories=[B])
    await client.do(S, "session/workingDirectoryReplaced", directory=B, replacement=C)
    assert other.state(S)["workingDirectories"] == [A, C]
    assert other.state(S)["chats"][1]["workingDirectories"] == [C]
    await agree(host, client, other)


async def test_U11_what_would_leave_somebody_nowhere_is_refused(client: WireClient, chat: str) -> None:
    await client.request("createChat", channel=S, chat="ahp-chat:/n", workingDirectories=[B])
    removed, replaced = "session/workingDirectoryRemoved", "session/workingDirectoryReplaced"
    assert "works there alone" in await refused(client, S, removed, directory=B)
    assert "is not replaced" in await refused(client, S, replaced, directory=A, replacement=C)
    assert "does not work in" in await refused(client, S, replaced, directory=C, replacement=A)
    assert "not a directory" in await refused(
        client, S, "session/workingDirectorySet", directory="http://a/b"
    )
    await client.do(S, removed, directory=A)
    assert "only directory" in await refused(client, S, removed, directory=B)
    assert client.state(S)["workingDirectories"] == [B]


async def test_P7_who_may_only_read_changes_none(host: Host, client: WireClient, chat: str) -> None:
    ana = WireClient(host, principal=Principal("user:ana", "Ana"))
    await ana.initialize(ROOT)
    await ana.subscribe(S)
    await ana.subscribe(chat)
    assert "chat:folders" in await refused(ana, chat, "chat/workingDirectorySet", directory=A)
    assert "session:write" in await refused(ana, S, "session/workingDirectorySet", directory=C)
