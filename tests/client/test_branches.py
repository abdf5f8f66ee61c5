"""Chats made from others, rewinds, moves, marks, from Python. Against the host itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jupyter_ahp import AsyncChat, Refused
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.host import Host
from jupyter_ahp.client.model import Origin
from jupyter_ahp.host.ports import Capabilities
from tests.client.real_host import ByHand, RealHost, until
from tests.host.harness import WireClient


@pytest.fixture
async def chat(line: Connection, agent: ByHand) -> AsyncIterator[AsyncChat]:
    """Three turns, and an agent that says back what it is told."""
    agent.echoes = True
    async with AsyncChat("hand", title="Weather", host=line) as chat:
        for text in ("one", "two", "three"):
            await chat.send(text)
        yield chat


@pytest.fixture
async def other(chat: AsyncChat, real: RealHost) -> AsyncIterator[AsyncChat]:
    """The same chat, as somebody else has it."""
    async with AsyncChat.open(chat.uri, Host(real.url, "any")) as other:
        yield other


def said(chat: AsyncChat) -> list[str]:
    return [turn.message.text for turn in chat.turns]


# ── forks and side chats ─────────────────────────────────────────────────────────────────────────────────────────
async def test_S2_a_fork_goes_on_from_a_turn_and_leaves_the_chat_as_it_is(
    chat: AsyncChat, agent: ByHand
) -> None:
    async with await chat.fork(chat.turns[1]) as fork:
        assert said(fork) == ["one", "two"]
        assert fork.origin == Origin("fork", chat.uri, chat.turns[1].id)
        assert (fork.title, fork.session_uri, fork.agent) == ("Forked: Weather", chat.session_uri, "hand")
        assert (await fork.send("else")).text == "else"
        assert [turn["message"]["text"] for turn in agent.prompts[-1].history] == ["one", "two"]
        assert (said(fork), said(chat)) == (["one", "two", "else"], ["one", "two", "three"])
    assert chat.origin.kind == "user"


async def test_S2_a_fork_is_of_the_last_ended_turn_unless_said_otherwise(chat: AsyncChat) -> None:
    fork = await chat.fork()
    assert said(fork) == ["one", "two", "three"]
    by_id = await fork.fork(chat.turns[0].id)
    assert said(by_id) == ["one"]
    empty = await chat.new_chat()
    with pytest.raises(Refused, match="nothing to fork at"):
        await empty.fork()
    for made in (fork, by_id, empty):
        await made.close()


async def test_S2_where_the_agent_cannot_fork_it_says_so(
    chat: AsyncChat, agent: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "capabilities", Capabilities())
    with pytest.raises(Refused, match="By hand cannot fork a chat"):
        await chat.fork()
    assert len(chat.chats) == 1


async def test_S6_S7_a_side_chat_is_about_a_turn_and_begins_empty(chat: AsyncChat, agent: ByHand) -> None:
    async with await chat.side_chat(chat.turns[1], selection="wo") as aside:
        assert (aside.turns, aside.origin) == ([], Origin("sideChat", chat.uri, chat.turns[1].id, "wo"))
        await aside.send("What is this?")
        [told] = agent.prompts[-1].prefaces.values()
        assert "two" in told
        assert "wo" in told.rpartition("picked")[2]


async def test_S6_a_side_chat_may_be_about_the_turn_that_runs(chat: AsyncChat, agent: ByHand) -> None:
    agent.echoes = False
    sending = asyncio.create_task(chat.send("four"))
    await until(lambda: chat.state == "running")
    aside = await chat.side_chat()
    assert aside.origin.turn == chat.turns[-1].id
    assert aside.origin.selection is None
    await chat.stop()
    await sending
    await aside.close()
    empty = await chat.new_chat()
    with pytest.raises(Refused, match="no turn yet"):
        await empty.side_chat()
    await empty.close()


async def test_a_new_chat_and_the_chats_of_a_session(chat: AsyncChat, line: Connection) -> None:
    made = await chat.new_chat()
    assert (made.turns, made.session_uri, made.origin.kind) == ([], chat.session_uri, "user")
    assert [entry.uri for entry in chat.chats] == [chat.uri, made.uri]
    await made.rename("Beside")
    assert [(entry.title, entry.state) for entry in chat.chats] == [("Weather", "idle"), ("Beside", "idle")]
    again = await AsyncChat.open(chat.chats[1].uri, line)
    assert again.title == "Beside"
    await again.close()
    await made.close()


async def test_the_model_of_a_chat_is_its_forks_too(line: Connection, agent: ByHand) -> None:
    agent.echoes = True
    async with AsyncChat("hand", model="large", host=line) as chat:
        await chat.send("one")
        async with await chat.fork() as fork:
            await fork.send("two")
    assert [prompt.model for prompt in agent.prompts] == ["large", "large"]


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_W3_a_worker_is_listed_and_read_and_not_written_to(
    line: Connection, agent: ByHand, real: RealHost
) -> None:
    async with AsyncChat("hand", host=line) as chat:
        assert chat.workers == []
        agent.say("delegate", "done")
        await chat.send("go")
        (worker,) = chat.workers
        assert worker.origin == Origin("tool", chat.uri, call="c1")
        assert (worker.title, worker.state) == ("Scout", "idle")
        async with AsyncChat.open(worker.uri, Host(real.url, "any")) as read:
            assert [(turn.message.text, turn.text) for turn in read.turns] == [("Look into it", "so it is")]
            assert read.turns[0].message.sender == "agent"
            assert (read.origin, read.workers) == (worker.origin, [])
            with pytest.raises(Refused, match="read-only"):
                await read.send("me too")


# ── rewinding ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_X1_a_rewind_keeps_through_its_turn_and_can_be_undone(
    chat: AsyncChat, other: AsyncChat, agent: ByHand
) -> None:
    turns = chat.turns
    await chat.rewind(turns[0])
    assert said(chat) == ["one"]
    await until(lambda: said(other) == ["one"])
    assert await other.undo_rewind() == 2
    assert said(other) == ["one", "two", "three"]
    await until(lambda: chat.turns == turns)
    await chat.rewind(turns[1].id)
    await chat.send("instead")
    assert [turn["message"]["text"] for turn in agent.prompts[-1].history] == ["one", "two"]
    assert said(chat) == ["one", "two", "instead"]
    with pytest.raises(Refused, match="nothing to bring back"):
        await chat.undo_rewind()


async def test_X3_a_clear_takes_everything_and_can_be_undone(chat: AsyncChat, agent: ByHand) -> None:
    await chat.clear()
    assert chat.turns == []
    assert await chat.undo_rewind() == 3
    assert said(chat) == ["one", "two", "three"]
    await chat.clear()
    await chat.send("anew")
    assert list(agent.prompts[-1].history) == []


async def test_X1_a_rewind_needs_a_turn_that_has_ended_here(chat: AsyncChat, agent: ByHand) -> None:
    with pytest.raises(Refused, match="no ended turn nobody"):
        await chat.rewind("nobody")
    agent.echoes = False
    sending = asyncio.create_task(chat.send("four"))
    await until(lambda: chat.state == "running")
    with pytest.raises(Refused, match="no ended turn"):
        await chat.rewind(chat.turns[-1])
    await chat.rewind(chat.turns[2])
    with pytest.raises(Refused, match="taken out of the chat"):
        await sending
    assert said(chat) == ["one", "two", "three"]


# ── moving and closing ───────────────────────────────────────────────────────────────────────────────────────────
async def test_U12_a_chat_that_moves_is_the_same_chat_for_who_moves_it_and_who_watches(
    chat: AsyncChat, real: RealHost, line: Connection
) -> None:
    fork = await chat.fork()
    watcher = await AsyncChat.open(fork.uri, Host(real.url, "any"))
    target = await AsyncChat("hand", title="Target", host=line)
    uri, seen = fork.uri, []

    async def watch() -> None:
        async for now in watcher.changes():
            seen.append((now.session_uri, now.title))

    watching = asyncio.create_task(watch())
    await fork.move(target, after=target)
    assert (fork.uri, fork.session_uri) == (uri, target.session_uri)
    assert [entry.uri for entry in target.chats] == [target.uri, uri]
    assert [entry.uri for entry in chat.chats] == [chat.uri]
    await until(lambda: watcher.session_uri == target.session_uri)
    assert (watcher.title, watcher.origin.kind) == ("Forked: Weather", "fork")
    await watcher.rename("Moved")
    await until(lambda: seen[-1] == (target.session_uri, "Moved"))
    assert (await fork.send("there")).text == "there"
    await until(lambda: said(watcher)[-1] == "there")
    await fork.move(target)
    assert [entry.uri for entry in target.chats] == [uri, target.uri]
    for made in (fork, watcher, target):
        await made.close()
    await watching


async def test_U12_a_chat_is_moved_into_a_session_of_its_own(chat: AsyncChat) -> None:
    fork = await chat.fork()
    await fork.move()
    assert fork.session_uri != chat.session_uri
    assert [entry.uri for entry in fork.chats] == [fork.uri]
    with pytest.raises(Refused, match="default chat does not move"):
        await fork.move(chat)
    await fork.close()


async def test_U9_a_chat_that_somebody_closes_is_over_for_who_waits_in_it(
    chat: AsyncChat, agent: ByHand, line: Connection
) -> None:
    agent.echoes = False
    made = await chat.new_chat()
    sending = asyncio.create_task(made.send("Hi"))
    await until(lambda: made.state == "running")
    await line.request("disposeChat", {"channel": made.uri})
    with pytest.raises(Refused, match="The chat was closed"):
        await asyncio.wait_for(sending, 5)
    with pytest.raises(Refused, match="no ahp-chat"):
        await asyncio.wait_for(made.send("Still there?"), 5)
    await made.close()


async def test_a_session_that_somebody_deletes_is_over_for_who_waits_in_it(
    chat: AsyncChat, agent: ByHand, real: RealHost
) -> None:
    agent.echoes = False
    sending = asyncio.create_task(chat.send("four"))
    await until(lambda: chat.state == "running")
    other = WireClient(real.host)
    await other.initialize()
    await other.request("disposeSession", channel=chat.session_uri)
    with pytest.raises(Refused, match="The session was deleted"):
        await asyncio.wait_for(sending, 5)
    with pytest.raises(Refused, match="no ahp-chat"):
        await asyncio.wait_for(chat.send("Still there?"), 5)
    await other.drop()


# ── drafts and marks ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_D1_a_draft_is_everybodys(chat: AsyncChat, other: AsyncChat) -> None:
    await chat.set_draft("I would like")
    await until(lambda: other.draft == "I would like")
    await other.set_draft("")
    await until(lambda: chat.draft == "")


@pytest.mark.parametrize("which", ["first", "fork"])
async def test_a_chat_is_put_away_and_taken_out(chat: AsyncChat, which: str, real: RealHost) -> None:
    made = chat if which == "first" else await chat.fork()
    other = await AsyncChat.open(made.uri, Host(real.url, "any"))
    await made.archive()
    assert made.archived
    await until(lambda: other.archived)
    assert chat.archived == (which == "first")
    await other.unarchive()
    await until(lambda: not made.archived)
    await other.close()
    assert (await made.send("on")).state == "complete"
    if made is not chat:
        await made.close()


async def test_a_chat_is_marked_read_and_unread(chat: AsyncChat) -> None:
    [entry] = chat.chats
    assert not entry.read
    await chat.mark_read()
    await until(lambda: chat.chats[0].read)
    await chat.mark_read(False)
    await until(lambda: not chat.chats[0].read)
