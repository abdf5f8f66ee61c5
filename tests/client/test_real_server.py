"""The client against a real Jupyter Server with this extension, and its echo agent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from jupyter_ahp import AsyncChat, Chat, NoHost, Refused, TurnFailed, connect
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.discovery import Server
from jupyter_ahp.client.model import Turn
from tests.client.conftest import QUICK
from tests.client.real_host import until
from tests.mock_model import MockModel
from tests.support.server import JupyterServer

Servers = Callable[..., JupyterServer]


def test_a_conversation_behind_a_prefix(with_server: Servers) -> None:
    server = with_server(base_url="/user/mia/")
    with Chat("echo", title="Hallo", host=connect(f"{server.url}lab?token={server.token}")) as chat:
        turn = chat.send("Say *this*")
        assert turn.text.startswith("Say *this*")
        streamed = "".join(part.delta for part in chat.stream("one two three"))
        assert streamed == chat.turns[-1].text
        assert (chat.title, chat.agent, chat.state) == ("Hallo", "echo", "idle")
        chat.rename("Tschüs")
        assert chat.title == "Tschüs"
        with Chat.open(chat.session_uri, connect(server.url, server.token)) as other:
            assert other.uri == chat.uri
            assert [turn.message.text for turn in other.turns] == ["Say *this*", "one two three"]
            chat.send("three")
            assert len(other.turns) == 3
    with pytest.raises(NoHost, match="refused this token"):
        connect(server.url, "wrong")
    with pytest.raises(NoHost, match="wants a token"):
        connect(server.url)
    with pytest.raises(Refused) as caught:
        Chat("nobody", host=connect(server.url, server.token))
    assert caught.value.code == -32002


def test_a_chat_of_a_name_that_is_not_derived_is_found(with_server: Servers) -> None:
    server = with_server()
    host = connect(server.url, server.token)
    with Chat("echo", host=host) as chat:
        chat.send("Hi")
        uri, session = chat.uri, chat.session_uri
    with Chat.open(uri, host) as chat:
        assert chat.session_uri == session


async def test_a_restart_loses_nothing(with_server: Servers) -> None:
    """A new process, which forgot its clients: the chat is the same, what was said meanwhile goes out once."""
    server = with_server()
    connection = Connection(lambda: Server(server.url, server.token or ""), pace=QUICK)
    chat = await AsyncChat("echo", host=connection)
    await chat.send("before")
    server.kill()
    sending = asyncio.create_task(chat.send("meanwhile"))
    await asyncio.sleep(0.3)
    assert chat.state == "offline"
    await asyncio.to_thread(server.start)
    turn = await asyncio.wait_for(sending, 30)
    assert turn.state == "complete"
    assert [turn.message.text for turn in chat.turns] == ["before", "meanwhile"]
    await connection.close()


def seen(turn: Turn) -> int:
    """How many messages the mock model was given."""
    found = re.search(r"saw (\d+) messages", turn.text)
    assert found is not None
    return int(found[1])


@pytest.mark.slow
async def test_what_waits_and_what_was_made_of_it_outlive_a_server_that_dies(with_server: Servers) -> None:
    """Queued behind a turn that runs, edited, answered once each; forked, talked about and rewound, over `kill -9`."""
    with MockModel() as model:
        server = with_server(env={"OPENAI_API_KEY": "sk-for-tests", "OPENAI_BASE_URL": model.base_url})
        connection = Connection(lambda: Server(server.url, server.token or ""), pace=QUICK)
        chat = await AsyncChat("assistant", title="Weather", host=connection)
        slow = asyncio.create_task(chat.send("Slowly\n!!chunks 100 0.02"))
        await until(lambda: chat.state == "running")
        later = await chat.queue("Latre")
        last = await chat.queue("Last")
        behind = asyncio.create_task(chat.send("Behind"))
        await until(lambda: len(chat.waiting) == 3)
        await later.edit("Later")
        await chat.reorder(last, later)
        assert [waiting.text for waiting in chat.waiting] == ["Last", "Later", "Behind"]

        await until(lambda: chat.turns[-1].text)
        await asyncio.sleep(0.2)  # What streams is written within 50 ms.
        server.kill()
        with pytest.raises(TurnFailed, match="The server stopped"):
            await asyncio.gather(slow, asyncio.to_thread(server.start))
        turn = await asyncio.wait_for(behind, 30)  # A failure starts nothing; who waits goes on.
        assert "“Behind”" in turn.text
        assert (await later.wait(timeout=30)).state == "complete"
        assert [turn.message.text for turn in chat.turns[1:]] == ["Behind", "Last", "Later"]

        fork = await chat.fork(chat.turns[1])
        aside = await chat.side_chat(chat.turns[1], selection="mock")
        await chat.rewind(chat.turns[1])
        await asyncio.sleep(1.5)  # What can be brought back is written within a second.
        server.kill()
        await asyncio.to_thread(server.start)
        assert await chat.undo_rewind() == 2
        assert [turn.message.text for turn in chat.turns[1:]] == ["Behind", "Last", "Later"]
        assert seen(await fork.send("On")) == seen(turn) + 2
        assert (await aside.send("What?")).state == "complete"
        assert [entry.origin.kind for entry in chat.chats] == ["user", "fork", "sideChat"]
        assert "They picked this out of it" in str(model.requests[-1].body)
        for made in (fork, aside, chat):
            await made.close()
        await connection.close()


def test_a_server_without_the_extension_is_said_to_be_one(with_server: Servers) -> None:
    server = with_server(args=["--ServerApp.jpserver_extensions=jupyter_ahp=False"])
    with pytest.raises(NoHost, match="no agent host"):
        connect(server.url, server.token)
