"""What waits in a chat, from Python: queue, steer, send behind a turn that runs. Against the host itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from jupyter_ahp import AsyncChat, Refused, TurnFailed
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.host import Host
from jupyter_ahp.client.model import Markdown, Steering
from jupyter_ahp.host.ports import Capabilities, Principal
from tests.client.real_host import ByHand, RealHost, until
from tests.host.harness import WireClient, message


@pytest.fixture
async def chat(line: Connection) -> AsyncIterator[AsyncChat]:
    async with AsyncChat("hand", host=line) as chat:
        yield chat


async def running(chat: AsyncChat, agent: ByHand, text: str = "first") -> asyncio.Task[object]:
    """A turn that waits for orders; the task that sent it."""
    count = len(agent.prompts)
    sending: asyncio.Task[object] = asyncio.create_task(chat.send(text))
    await until(lambda: len(agent.prompts) > count and chat.state == "running")
    return sending


def words(chat: AsyncChat) -> list[str]:
    return [waiting.text for waiting in chat.waiting]


# ── queue ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_Q2_what_is_queued_becomes_turns_in_order(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    second, third = await chat.queue("second"), await chat.queue("third")
    assert words(chat) == ["second", "third"]
    assert (second.kind, second.waits, second.text) == ("queued", True, "second")
    agent.say("one", "done", "two", "done", "three", "done")
    assert [(await waiting.wait()).text for waiting in (third, second)] == ["three", "two"]
    await first
    assert [turn.message.text for turn in chat.turns] == ["first", "second", "third"]
    assert (chat.waiting, second.waits, second.text) == ([], False, "second")


async def test_Q4_in_a_quiet_chat_it_starts_at_once(chat: AsyncChat, agent: ByHand) -> None:
    agent.say("yes", "done")
    waiting = await chat.queue("Hi")
    assert (await waiting.wait()).text == "yes"


async def test_it_is_edited_and_taken_back_by_whoever_sees_it(
    chat: AsyncChat, agent: ByHand, line: Connection
) -> None:
    first = await running(chat, agent)
    mine = await chat.queue("a")
    await chat.queue("b")
    other = await AsyncChat.open(chat.uri, line)
    [theirs, last] = other.waiting
    await theirs.edit("a, better")
    assert (mine.text, theirs.text) == ("a, better", "a, better")
    await last.remove()
    await last.remove()
    assert words(chat) == ["a, better"]
    agent.say("done", "done")
    await asyncio.gather(first, mine.wait())
    assert agent.texts == ["first", "a, better"]
    with pytest.raises(Refused, match="sent already"):
        await mine.edit("too late")
    with pytest.raises(Refused, match="sent already"):
        await mine.remove()
    with pytest.raises(Refused, match="taken back"):
        await last.edit("gone")
    await other.close()


async def test_Q7_one_that_is_taken_back_ends_the_waiting(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    waiting = await chat.queue("a")
    coming = asyncio.create_task(waiting.wait())
    await chat.waiting[0].remove()
    with pytest.raises(Refused, match="taken back"):
        await coming
    agent.say("done")
    await first
    assert agent.texts == ["first"]


async def test_Q8_the_queue_is_reordered(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    for text in "abc":
        await chat.queue(text)
    await chat.reorder(*reversed(chat.waiting))
    assert words(chat) == ["c", "b", "a"]
    await chat.reorder(chat.waiting[2].id)
    assert words(chat) == ["a", "c", "b"]
    await chat.stop()
    await first


async def test_Q4_after_a_stop_it_stays_and_tidying_starts_nothing(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    for text in "abcd":
        await chat.queue(text)
    await chat.stop()
    await first
    a, b, _c, d = chat.waiting
    await a.edit("A")
    await d.remove()
    await chat.reorder(b)
    await asyncio.sleep(0.05)
    assert (chat.state, words(chat)) == ("idle", ["b", "A", "c"])
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        await a.wait(timeout=0.05)
    assert words(chat) == ["b", "A", "c"]
    for _ in range(3):
        agent.say("done")
    assert (await a.send()).message.text == "A"
    await until(lambda: len(chat.turns) == 4)
    assert agent.texts == ["first", "A", "b", "c"]
    with pytest.raises(Refused, match="sent already"):
        await a.send()


async def test_Q2_sent_on_while_a_turn_runs_it_waits_for_its_turn_and_stays_its_authors(
    chat: AsyncChat, agent: ByHand, real: RealHost
) -> None:
    first = await running(chat, agent)
    bob = WireClient(real.host, principal=Principal("user:bob", "Bob"))
    await bob.initialize(chat.uri)
    queued = {"kind": "queued", "id": "x", "message": message("bob's")}
    await bob.do(chat.uri, "chat/pendingMessageSet", **queued)
    await chat.queue("mine")
    [his, _mine] = chat.waiting
    with pytest.raises(TimeoutError):
        await his.send(timeout=0.05)
    assert words(chat) == ["bob's", "mine"]
    sending = asyncio.create_task(his.send())
    await chat.stop()
    agent.say("done", "done")
    assert (await asyncio.wait_for(sending, 5)).message.text == "bob's"
    await first
    await until(lambda: len(chat.turns) == 3 and chat.state == "idle")
    sent = bob.state(chat.uri)["turns"][1]["message"]
    assert (sent["text"], sent["_meta"]["jupyter-ahp.sender"]) == ("bob's", "user:bob")
    assert agent.texts == ["first", "bob's", "mine"]
    await bob.drop()


async def test_a_sender_behind_a_turn_is_refused_what_the_host_would_not_start(
    chat: AsyncChat, agent: ByHand
) -> None:
    first = await running(chat, agent)
    second = asyncio.create_task(chat.send("second"))
    await until(lambda: chat.waiting)
    await chat.archive()
    await chat.stop()
    await first
    with pytest.raises(Refused, match="archived"):
        await asyncio.wait_for(second, 5)
    await until(lambda: not chat.waiting)
    assert agent.texts == ["first"]


async def test_a_message_that_fails_raises_where_it_is_waited_for(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    waiting = await chat.queue("a")
    agent.say("done", "fail")
    await first
    with pytest.raises(TurnFailed, match="It failed") as caught:
        await waiting.wait()
    assert caught.value.turn.message.text == "a"


async def test_what_is_attached_and_the_model_stay_over_an_edit(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    waiting = await chat.queue("a", __file__, model="large")
    await waiting.edit("b")
    agent.say("done", "done")
    await asyncio.gather(first, waiting.wait())
    assert [(prompt.text, prompt.model, len(prompt.blocks)) for prompt in agent.prompts[1:]] == [
        ("b", "large", 1)
    ]


# ── send behind a turn that runs ─────────────────────────────────────────────────────────────────────────────────
async def test_Q2_send_waits_for_its_own_turn(chat: AsyncChat, agent: ByHand, real: RealHost) -> None:
    """Two notebooks in one chat: each gets its own answer."""
    other = await AsyncChat.open(chat.uri, Host(real.url, "any"))
    first = await running(chat, agent)
    second = asyncio.create_task(other.send("second"))
    await until(lambda: words(chat) == ["second"])
    agent.say("one", "done", "two", "done")
    assert (await second).text == "two"
    assert getattr(await first, "text", None) == "one"
    await other.close()


async def test_Q2_a_stream_behind_a_turn_gives_its_own_answer_alone(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    text = ""

    async def read() -> None:
        nonlocal text
        async for part in chat.stream("second"):
            assert isinstance(part, Markdown)
            text += part.delta

    reading = asyncio.create_task(read())
    await until(lambda: chat.waiting)
    agent.say("one", "done", "two ", "three", "done")
    await asyncio.gather(first, reading)
    assert text == "two three"


@pytest.mark.parametrize("how", ["stopped", "failed", "resumable", "cut"])
async def test_Q4_what_starts_nothing_behind_it_does_not_leave_a_sender_waiting(
    chat: AsyncChat, agent: ByHand, how: str
) -> None:
    agent.say("done")
    kept = await chat.send("zero")
    first = await running(chat, agent)
    second = asyncio.create_task(chat.send("second"))
    await until(lambda: chat.waiting)
    match how:
        case "stopped":
            await chat.stop()
        case "cut":
            await chat.rewind(kept)
        case _:
            agent.say({"failed": "fail"}.get(how, how))
    agent.say("done")
    assert (await asyncio.wait_for(second, 5)).message.text == "second"
    await asyncio.gather(first, return_exceptions=True)
    assert agent.texts == ["zero", "first", "second"]
    assert chat.waiting == []


async def test_Q4_it_goes_past_what_a_stop_left_in_the_queue(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    await chat.queue("queued")
    second = asyncio.create_task(chat.send("sent"))
    await until(lambda: len(chat.waiting) == 2)
    await chat.stop()
    await first
    agent.say("done", "done")
    await second
    await until(lambda: len(chat.turns) == 3 and chat.state == "idle")
    assert agent.texts == ["first", "sent", "queued"]


async def test_Q4_one_that_starts_while_it_is_started_from_here_is_not_said_twice(
    chat: AsyncChat, agent: ByHand, real: RealHost
) -> None:
    first = await running(chat, agent)
    second = asyncio.create_task(chat.send("second"))
    await until(lambda: chat.waiting)
    other = WireClient(real.host)
    await other.initialize(chat.uri)
    real.hold()
    await other.do(chat.uri, "chat/turnCancelled", turnId=chat.turns[-1].id, duration=1)
    queued = {"kind": "queued", "id": "x", "message": message("third")}
    await other.do(chat.uri, "chat/pendingMessageSet", **queued)
    await until(lambda: agent.texts == ["first", "second"])
    while chat.state == "running":  # of what is on its way, the stop arrives
        real.let_go(1)
        await asyncio.sleep(0.01)
    assert words(chat) == ["second"]
    await asyncio.sleep(0.05)
    real.let_go()
    agent.say("done", "done")
    assert (await asyncio.wait_for(second, 5)).message.text == "second"
    await first
    await until(lambda: len(chat.turns) == 3 and chat.state == "idle")
    assert agent.texts == ["first", "second", "third"]
    await other.drop()


async def test_a_sender_who_leaves_takes_the_message_back(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    with pytest.raises(TimeoutError):
        await chat.send("second", timeout=0.05)
    await until(lambda: not chat.waiting)
    agent.say("done")
    await first
    await asyncio.sleep(0.05)
    assert agent.texts == ["first"]


async def test_a_sender_who_leaves_just_when_it_starts_stops_it(
    chat: AsyncChat, agent: ByHand, real: RealHost
) -> None:
    """The message was on its way into a turn, which this client has not been told of, when it is taken back."""
    first = await running(chat, agent)
    second = asyncio.create_task(chat.send("second"))
    await until(lambda: chat.waiting)
    real.hold()
    agent.say("done")
    await until(lambda: len(agent.prompts) == 2)
    assert chat.waiting
    second.cancel()
    await asyncio.sleep(0)
    real.let_go()
    await asyncio.gather(first, second, return_exceptions=True)
    await until(lambda: [turn.state for turn in chat.turns] == ["complete", "cancelled"])
    assert chat.waiting == []


async def test_leaving_a_stream_that_waits_takes_the_message_back(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    async with aclosing(chat.stream("second")) as parts:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(parts), 0.05)
    await until(lambda: not chat.waiting)
    agent.say("done")
    await first
    assert agent.texts == ["first"]


async def test_Q7_a_message_that_somebody_else_takes_back_is_said_to_be(
    chat: AsyncChat, agent: ByHand
) -> None:
    first = await running(chat, agent)
    second = asyncio.create_task(chat.send("second"))
    await until(lambda: chat.waiting)
    await chat.waiting[0].remove()
    with pytest.raises(Refused, match="took the message back"):
        await second
    agent.say("done")
    await first


async def test_many_senders_at_once_get_an_answer_each(
    chat: AsyncChat, agent: ByHand, real: RealHost
) -> None:
    """Who finds the chat quiet and is not the first waits behind whoever was."""
    agent.echoes = True
    others = [await AsyncChat.open(chat.uri, Host(real.url, "any")) for _ in range(5)]
    sent = [asyncio.create_task(other.send(f"message {n}")) for n, other in enumerate(others)]
    turns = await asyncio.wait_for(asyncio.gather(*sent), 10)
    assert [turn.text for turn in turns] == [f"message {n}" for n in range(5)]
    assert sorted(agent.texts) == [f"message {n}" for n in range(5)]
    for other in others:
        await other.close()


# ── steer ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_G1_steering_stands_in_the_turn_where_it_was_read(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    await chat.queue("later")
    waiting = await chat.steer("Mind the date")
    assert words(chat) == ["Mind the date", "later"]
    assert waiting.kind == "steering"
    await until(lambda: agent.steering)
    agent.say("before", "read", "after", "done", "done")
    turn = await waiting.wait()
    assert [type(part) for part in turn.parts] == [Markdown, Steering, Markdown]
    part = turn.parts[1]
    assert isinstance(part, Steering)
    assert (part.content, part.message.sender) == ("Mind the date", "user")
    assert turn.text == "before\n\nafter"
    assert turn.id == getattr(await first, "id", None)
    await until(lambda: len(chat.turns) == 2)


async def test_G3_one_that_comes_too_late_is_a_turn_of_its_own(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    waiting = await chat.steer("Also this")
    await until(lambda: agent.steering)
    agent.say("done", "done")
    turn = await waiting.wait()
    assert turn.message.text == "Also this"
    await first
    assert agent.texts == ["first", "Also this"]


async def test_G6_a_stop_takes_it_back(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    waiting = await chat.steer("Also this")
    coming = asyncio.create_task(waiting.wait())
    await asyncio.sleep(0)
    await chat.stop()
    with pytest.raises(Refused, match="taken back before the agent had it"):
        await coming
    await first


async def test_G7_it_is_withdrawn(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    waiting = await chat.steer("Also this")
    await until(lambda: agent.steering)
    await waiting.remove()
    assert (agent.steering, chat.waiting) == ([], [])
    agent.say("done")
    await first
    with pytest.raises(Refused, match="taken back"):
        await waiting.wait()


async def test_G5_one_that_the_agent_holds_is_not_changed_nor_is_another_put_in_its_place(
    chat: AsyncChat, agent: ByHand
) -> None:
    first = await running(chat, agent)
    waiting = await chat.steer("Also this")
    await until(lambda: agent.steering)
    with pytest.raises(Refused, match="while it is being processed"):
        await waiting.edit("Also that")
    with pytest.raises(Refused, match="while it is being processed"):
        await chat.steer("Another")
    assert words(chat) == ["Also this"]
    await chat.stop()
    await first


async def test_G4_where_the_agent_takes_none_it_says_so(
    chat: AsyncChat, agent: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "capabilities", Capabilities())
    first = await running(chat, agent)
    with pytest.raises(Refused, match="does not support steering messages"):
        await chat.steer("Also this")
    await chat.stop()
    await first


async def test_a_repr_says_what_it_is(chat: AsyncChat, agent: ByHand) -> None:
    first = await running(chat, agent)
    waiting = await chat.queue("Hi")
    assert repr(waiting) == "<AsyncWaiting queued, waits: 'Hi'>"
    await waiting.remove()
    assert repr(waiting) == "<AsyncWaiting queued, waits no more: 'Hi'>"
    await chat.stop()
    await first
