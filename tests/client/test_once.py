"""A line that is cut in the middle of something: it is done once, whichever way the client comes back (AHP 1.7, 1.8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jupyter_ahp import AsyncChat
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.host import Host
from tests.client.real_host import ByHand, Cut, RealHost, until
from tests.host.harness import WireClient

CUTS: tuple[Cut, ...] = ("before", "replay", "snapshot", "restart")


@pytest.fixture(params=CUTS)
def how(request: pytest.FixtureRequest) -> Cut:
    """Before the host took it in; or behind that: back by a replay, by a snapshot, to another process."""
    cut: Cut = request.param
    return cut


@pytest.fixture
async def chat(line: Connection, agent: ByHand) -> AsyncIterator[AsyncChat]:
    """One ended turn; the agent says back what it is told."""
    agent.echoes = True
    async with AsyncChat("hand", host=line) as chat:
        await chat.send("one")
        yield chat


@pytest.fixture
async def held(chat: AsyncChat, agent: ByHand) -> AsyncChat:
    """A stop has left a, b and c in the queue."""
    agent.echoes = False
    sending = asyncio.create_task(chat.send("two"))
    await until(lambda: chat.state == "running")
    for text in "abc":
        await chat.queue(text)
    await chat.stop()
    await sending
    agent.echoes = True
    return chat


def said(chat: AsyncChat) -> list[str]:
    return [turn.message.text for turn in chat.turns]


def words(chat: AsyncChat) -> list[str]:
    return [waiting.text for waiting in chat.waiting]


async def agrees(chat: AsyncChat, real: RealHost) -> None:
    """The line was cut, and the client holds what a newcomer is given."""
    assert real.was_cut == 1
    await asyncio.sleep(0.05)  # What would be done twice, would be done by then.
    fresh = await AsyncChat.open(chat.uri, Host(real.url, "any"))
    assert (fresh.turns, words(fresh), fresh.draft) == (chat.turns, words(chat), chat.draft)
    assert (fresh.chats, fresh.title, fresh.archived) == (chat.chats, chat.title, chat.archived)
    await fresh.close()


# ── saying something ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_T1_a_message_is_sent_once(chat: AsyncChat, agent: ByHand, real: RealHost, how: Cut) -> None:
    real.cut_at("chat/turnStarted", how)
    turn = await asyncio.wait_for(chat.send("two"), 10)
    assert turn.message.text == "two"
    assert agent.texts == ["one", "two"]
    await agrees(chat, real)


@pytest.mark.parametrize("kind", ["queue", "steer"])
async def test_Q1_what_is_left_with_the_host_becomes_one_turn(
    chat: AsyncChat, agent: ByHand, real: RealHost, how: Cut, kind: str
) -> None:
    real.cut_at("chat/pendingMessageSet", how)
    waiting = await asyncio.wait_for(chat.queue("two") if kind == "queue" else chat.steer("two"), 10)
    assert (await asyncio.wait_for(waiting.wait(), 10)).text == "two"
    assert said(chat) == ["one", "two"]
    assert agent.texts == ["one", "two"]
    await agrees(chat, real)


async def test_Q2_a_message_behind_a_turn_is_sent_once(
    chat: AsyncChat, agent: ByHand, real: RealHost, how: Cut
) -> None:
    agent.echoes = False
    first = asyncio.create_task(chat.send("two"))
    await until(lambda: chat.state == "running")
    real.cut_at("chat/pendingMessageSet", how)
    second = asyncio.create_task(chat.send("three"))
    await until(lambda: real.was_cut)
    await asyncio.sleep(0.1)
    agent.say("done", "done")
    assert (await asyncio.wait_for(second, 10)).message.text == "three"
    await asyncio.gather(first, return_exceptions=True)  # A restart ended it.
    assert agent.texts == ["one", "two", "three"]
    await agrees(chat, real)


async def test_Q4_a_message_that_nothing_starts_is_started_from_here_once(
    chat: AsyncChat, agent: ByHand, real: RealHost, how: Cut
) -> None:
    agent.echoes = False
    first = asyncio.create_task(chat.send("two"))
    await until(lambda: chat.state == "running")
    second = asyncio.create_task(chat.send("three"))
    await until(lambda: chat.waiting)
    real.cut_at("chat/turnStarted", how)
    await chat.stop()
    await first
    agent.say("done")
    assert (await asyncio.wait_for(second, 10)).message.text == "three"
    assert agent.texts == ["one", "two", "three"]
    await agrees(chat, real)


async def test_G1_steering_is_read_once(chat: AsyncChat, agent: ByHand, real: RealHost) -> None:
    """While a turn runs, over a cut line; a restart would end the turn."""
    agent.echoes = False
    first = asyncio.create_task(chat.send("two"))
    await until(lambda: chat.state == "running")
    real.cut_at("chat/pendingMessageSet", "snapshot")
    waiting = await asyncio.wait_for(chat.steer("mind this"), 10)
    await until(lambda: agent.steering)
    agent.say("read", "done")
    assert (await asyncio.wait_for(waiting.wait(), 10)).id == (await first).id
    assert (agent.texts, agent.steering, chat.waiting) == (["one", "two"], [], [])
    await agrees(chat, real)


async def test_Q4_a_held_message_is_sent_once(
    held: AsyncChat, agent: ByHand, real: RealHost, how: Cut
) -> None:
    real.cut_at("chat/turnStarted", how)
    assert (await asyncio.wait_for(held.waiting[1].send(), 10)).text == "b"
    await until(lambda: len(held.turns) == 5 and held.state == "idle")
    assert agent.texts == ["one", "two", "b", "a", "c"]
    await agrees(held, real)


# ── tidying what waits ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("act", ["edit", "remove", "reorder"])
async def test_Q7_Q8_tidying_is_done_once_and_starts_nothing(
    held: AsyncChat, agent: ByHand, real: RealHost, how: Cut, act: str
) -> None:
    a, b, c = held.waiting
    match act:
        case "edit":
            real.cut_at("chat/pendingMessageSet", how)
            await asyncio.wait_for(b.edit("B"), 10)
        case "remove":
            real.cut_at("chat/pendingMessageRemoved", how)
            await asyncio.wait_for(b.remove(), 10)
        case "reorder":
            real.cut_at("chat/queuedMessagesReordered", how)
            await asyncio.wait_for(held.reorder(c, a), 10)
    assert words(held) == {"edit": ["a", "B", "c"], "remove": ["a", "c"], "reorder": ["c", "a", "b"]}[act]
    assert agent.texts == ["one", "two"]
    await agrees(held, real)


async def test_Q7_somebody_who_leaves_takes_the_message_back_over_a_cut_line(
    chat: AsyncChat, agent: ByHand, real: RealHost
) -> None:
    agent.echoes = False
    first = asyncio.create_task(chat.send("two"))
    await until(lambda: chat.state == "running")
    real.cut_at("chat/pendingMessageRemoved", "before")
    with pytest.raises(TimeoutError):
        await chat.send("three", timeout=0.1)
    await until(lambda: not chat.waiting)
    agent.say("done")
    await first
    assert agent.texts == ["one", "two"]
    await agrees(chat, real)


# ── chats ────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("act", ["fork", "side_chat", "new_chat"])
async def test_S2_S6_one_chat_is_made(chat: AsyncChat, real: RealHost, how: Cut, act: str) -> None:
    real.cut_at("createChat", how)
    made = await asyncio.wait_for(getattr(chat, act)(), 10)
    assert [entry.uri for entry in chat.chats] == [chat.uri, made.uri]
    assert said(made) == (["one"] if act == "fork" else [])
    assert (await made.send("on")).text == "on"
    await agrees(chat, real)
    await made.close()


async def test_U12_a_chat_moves_once(chat: AsyncChat, real: RealHost, how: Cut, line: Connection) -> None:
    fork = await chat.fork()
    real.cut_at("moveChat", how)
    await asyncio.wait_for(fork.move(), 10)
    sessions = (await line.request("listSessions", {"channel": "ahp-root://"}))["items"]
    assert {session["resource"] for session in sessions} == {chat.session_uri, fork.session_uri}
    assert [entry.uri for entry in fork.chats] == [fork.uri]
    assert (await fork.send("on")).text == "on"
    await agrees(fork, real)
    await fork.close()


@pytest.mark.parametrize("act", ["rewind", "clear"])
async def test_X1_X3_a_rewind_cuts_once_and_not_what_was_said_since(
    chat: AsyncChat, agent: ByHand, real: RealHost, how: Cut, act: str
) -> None:
    kept = chat.turns[0]
    await chat.send("two")

    async def somebody_speaks() -> None:
        other = WireClient(real.host)
        await other.initialize(chat.uri)
        await other.start(chat.uri, "since")
        await until(lambda: not other.running(chat.uri))
        await other.drop()

    real.meanwhile = somebody_speaks
    real.cut_at("chat/truncated", how)
    await asyncio.wait_for(chat.rewind(kept) if act == "rewind" else chat.clear(), 10)
    left = ["one"] if act == "rewind" else []
    assert said(chat) == (left if how == "before" else [*left, "since"])
    await agrees(chat, real)


async def test_X1_what_was_cut_comes_back_once(chat: AsyncChat, real: RealHost, how: Cut) -> None:
    await chat.send("two")
    await chat.clear()
    real.cut_at("x-jupyter-ahp/undoRewind", how)
    assert await asyncio.wait_for(chat.undo_rewind(), 10) == 2
    assert said(chat) == ["one", "two"]
    await agrees(chat, real)


@pytest.mark.parametrize("act", ["draft", "archive", "read", "rename"])
async def test_D1_marks_and_words_about_a_chat(chat: AsyncChat, real: RealHost, how: Cut, act: str) -> None:
    match act:
        case "draft":
            real.cut_at("chat/draftChanged", how)
            await asyncio.wait_for(chat.set_draft("I would"), 10)
            assert chat.draft == "I would"
        case "archive":
            real.cut_at("session/isArchivedChanged", how)
            await asyncio.wait_for(chat.archive(), 10)
            assert chat.archived
        case "read":
            real.cut_at("chat/isReadChanged", how)
            await asyncio.wait_for(chat.mark_read(), 10)
        case "rename":
            real.cut_at("session/titleChanged", how)
            await asyncio.wait_for(chat.rename("New"), 10)
            assert chat.title == "New"
    await agrees(chat, real)
