"""A disk that fails at each call: what was done is told as done, what was not as not, and nothing is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jupyter_ahp.host import saver
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Prompt, TurnSink
from tests.host.harness import (
    ROOT,
    Failing,
    Scripted,
    WireClient,
    agree,
    answer_of,
    message,
    quiet,
    started,
    until,
)

S, TWO = "ahp-session:/s", "ahp-chat:/two"


@pytest.fixture
async def host(failing: Failing, agent: Scripted) -> AsyncIterator[Host]:
    host = await started(failing, agent)
    yield host
    failing.fails = set()
    await host.stop()


@pytest.fixture
async def chat(client: WireClient, other: WireClient) -> str:
    chat = await client.create(S)
    await other.subscribe(S)
    await other.subscribe(chat)
    return chat


async def test_put_session_a_session_that_is_not_stored_is_not_there(
    host: Host, client: WireClient, failing: Failing
) -> None:
    failing.fails = {"put_session"}

    error = await client.fails("createSession", channel=S, provider="test")

    assert "the disk is full" in error.message
    assert (host.sessions, client.rows, host._sessions_of_chats) == ({}, {}, {})
    failing.fails = set()
    await client.create(S)


async def test_claim_a_session_that_cannot_be_claimed_is_read_only(
    host: Host, client: WireClient, failing: Failing
) -> None:
    chat = await client.create(S)
    await client.say(chat, "hello")
    await host.stop()
    failing.fails = {"claim"}
    again = await started(failing, Scripted())
    visitor = WireClient(again)
    await visitor.initialize(ROOT)

    await visitor.subscribe(S)
    assert len((await visitor.subscribe(chat))["turns"]) == 1
    await visitor.start(chat, "no")
    await visitor.do(S, "session/titleChanged", title="no")
    assert len(visitor.refusals) == 2
    assert all("the disk is full" in env["rejectionReason"] for env in visitor.refusals)
    assert (await visitor.fails("disposeSession", channel=S)).code == -32600
    assert (await visitor.fails("createChat", channel=S, chat=TWO)).code == -32600

    failing.fails = set()
    await visitor.subscribe(chat)
    assert (await visitor.say(chat, "yes"))["state"] == "complete"
    await agree(again, visitor)
    await again.stop()


async def test_put_chat_a_draft_is_tried_again(
    host: Host, client: WireClient, failing: Failing, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saver, "_RETRY", 0.05)
    failing.fails = {"put_chat"}
    await client.do(chat, "chat/draftChanged", draft=message("x"))
    await asyncio.sleep(0.3)

    failing.fails = set()
    await asyncio.sleep(0.2)

    kept = (await failing.load_chat("s", chat)).record.draft
    assert kept is not None
    assert kept["text"] == "x"


async def test_put_chat_what_is_not_saved_stays_in_memory(
    host: Host, client: WireClient, failing: Failing, chat: str
) -> None:
    failing.fails = {"put_chat"}
    await client.do(chat, "chat/draftChanged", draft=message("x"))
    for connection in tuple(host.connections):
        await connection.closed()

    await host.sessions["s"].chats[chat].unload()

    visitor = WireClient(host)
    await visitor.initialize(ROOT)
    assert (await visitor.subscribe(chat))["draft"]["text"] == "x"


async def test_load_chat_a_chat_that_cannot_be_read_says_so(
    host: Host, client: WireClient, failing: Failing, chat: str
) -> None:
    await client.say(chat, "hello")
    host.sessions["s"].chats[chat].channel = None
    failing.fails = {"load_chat"}
    visitor = WireClient(host)
    result = await visitor.initialize(ROOT, chat)
    assert [shot["resource"] for shot in result["snapshots"]] == [ROOT]

    assert "the disk is full" in (await visitor.fails("subscribe", channel=chat)).message
    await visitor.dispatch(chat, "chat/draftChanged", draft=message("x"))
    await until(lambda: visitor.refusals)

    failing.fails = set()
    assert len((await visitor.subscribe(chat))["turns"]) == 1


async def test_begin_turn_a_message_that_is_not_stored_is_refused(
    host: Host, client: WireClient, other: WireClient, failing: Failing, chat: str, agent: Scripted
) -> None:
    failing.fails = {"begin_turn"}

    await client.start(chat, "lost")

    assert "the disk is full" in client.refusals[-1]["rejectionReason"]
    assert "activeTurn" not in other.state(chat)
    assert agent.prompts == []
    failing.fails = set()
    assert (await client.say(chat, "kept"))["state"] == "complete"
    await agree(host, client, other)


async def test_begin_turn_a_first_message_that_is_not_stored_is_said(
    host: Host, client: WireClient, failing: Failing, chat: str
) -> None:
    failing.fails = {"begin_turn"}

    error = await client.fails("createChat", channel=S, chat=TWO, initialMessage=message("x"))

    assert "The chat is there, its first message could not be stored" in error.message
    assert TWO in {entry["resource"] for entry in client.state(S)["chats"]}


async def test_journal_a_stream_that_is_not_written_goes_on(
    host: Host, client: WireClient, other: WireClient, failing: Failing, chat: str
) -> None:
    failing.fails = {"journal"}

    turn = await client.say(chat, "hello")

    assert turn["state"] == "complete"
    assert answer_of(turn) == "You said: hello"
    await quiet(host)
    assert len((await failing.load_chat("s", chat)).turns) == 1
    await agree(host, client, other)


async def test_end_turn_an_answer_that_is_not_stored_is_said_and_the_next_runs(
    host: Host, client: WireClient, other: WireClient, failing: Failing, chat: str
) -> None:
    failing.fails = {"end_turn"}
    await client.say(chat, "one")
    await until(lambda: "_meta" in client.state(S))
    assert "the disk is full" in client.state(S)["_meta"]["jupyter-ahp.problem"]

    failing.fails = set()
    assert (await client.say(chat, "two"))["state"] == "complete"
    await agree(host, client, other)


async def test_truncate_a_rewind_that_is_not_stored_is_refused(
    host: Host, client: WireClient, other: WireClient, failing: Failing, chat: str
) -> None:
    await client.say(chat, "one", turn="t1")
    await client.say(chat, "two", turn="t2")
    failing.fails = {"truncate"}

    await client.do(chat, "chat/truncated", turnId="t1")

    assert "the disk is full" in client.refusals[-1]["rejectionReason"]
    assert len(other.state(chat)["turns"]) == 2
    await agree(host, client, other)


@pytest.mark.parametrize("call", ["truncate", "end_turn"])
async def test_truncate_while_a_turn_runs_it_ends_as_stopped(
    host: Host, client: WireClient, other: WireClient, failing: Failing, chat: str, agent: Scripted, call: str
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        await asyncio.sleep(60)

    await client.say(chat, "one", turn="t1")
    agent.play = play
    await client.start(chat, "two", turn="t2")
    failing.fails = {call}

    await client.do(chat, "chat/truncated", turnId="t1")
    await quiet(host)

    assert "the disk is full" in client.refusals[-1]["rejectionReason"]
    assert other.turn(chat, "t2")["state"] == "cancelled"
    failing.fails = set()
    agent.play = Scripted().play
    await client.say(chat, "three")
    await agree(host, client, other)


async def test_put_session_a_chat_that_is_not_stored_is_not_there(
    host: Host, client: WireClient, other: WireClient, failing: Failing, chat: str
) -> None:
    failing.fails = {"put_session"}

    error = await client.fails("createChat", channel=S, chat=TWO)

    assert "the disk is full" in error.message
    assert [entry["resource"] for entry in other.state(S)["chats"]] == [chat]
    failing.fails = set()
    await client.request("createChat", channel=S, chat=TWO)
    await agree(host, client, other)


async def test_delete_chat_is_said(
    host: Host, client: WireClient, other: WireClient, failing: Failing, chat: str
) -> None:
    await client.request("createChat", channel=S, chat=TWO)
    failing.fails = {"delete_chat"}

    error = await client.fails("disposeChat", channel=TWO)

    assert error.message.startswith("The chat is closed, but its turns could not be deleted")
    assert [entry["resource"] for entry in other.state(S)["chats"]] == [chat]
    assert await client.request("disposeChat", channel=TWO) is None
    await agree(host, client, other)


async def test_delete_session_is_said(
    host: Host, client: WireClient, other: WireClient, failing: Failing, chat: str
) -> None:
    failing.fails = {"delete_session"}

    error = await client.fails("disposeSession", channel=S)

    assert error.message.startswith("It is closed here and comes back with the next start")
    assert other.rows == {}
    assert (await client.fails("subscribe", channel=S)).code == -32001


async def test_everything_at_once_stops_no_host(
    host: Host, client: WireClient, failing: Failing, chat: str
) -> None:
    await client.say(chat, "hello")
    await client.do(chat, "chat/draftChanged", draft=message("x"))
    failing.fails = {"put_session", "put_chat", "end_turn", "delete_session"}

    await host.sweep()

    assert await client.request("ping") is None
