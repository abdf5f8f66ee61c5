"""X1 to X3 for agents whose history is the host's, and D1 to D3."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Prompt, Store, TurnSink
from tests.host.harness import ROOT, Failing, Scripted, WireClient, agree, message, quiet, started, until

S = "ahp-session:/s"


@pytest.fixture
async def chat(client: WireClient, other: WireClient) -> str:
    """A chat of three turns that two clients watch."""
    chat = await client.create(S)
    await other.subscribe(chat)
    for index in range(3):
        await client.say(chat, f"{index}", turn=f"t{index}")
    return chat


def ids(client: WireClient, chat: str) -> list[str]:
    return [turn["id"] for turn in client.state(chat)["turns"]]


async def stored(store: Store, chat: str) -> list[str]:
    kept = await store.load_chat("s", chat)
    assert kept.active is None
    return [turn["id"] for turn in kept.turns]


# ── rewind ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_X1_a_rewind_drops_the_turns_after_the_named_one(
    host: Host, store: Store, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    await client.do(chat, "chat/truncated", turnId="t0")
    assert ids(client, chat) == ids(other, chat) == ["t0"]

    await client.say(chat, "edited", turn="new")

    assert [turn["id"] for turn in agent.prompts[-1].history] == ["t0"]
    await quiet(host)
    assert await stored(store, chat) == ["t0", "new"]
    await agree(host, client, other)


async def test_X3_without_a_turn_everything_goes_and_the_conversation_begins_anew(
    host: Host, store: Store, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    agent.memory = "old"
    await client.say(chat, "remember")

    await client.do(chat, "chat/truncated")

    assert ids(other, chat) == []
    agent.memory = "new"
    await client.say(chat, "hello again", turn="n")
    assert agent.lines[0].closed
    assert len(agent.lines) == 2
    assert agent.lines[1].start.memory is None
    assert agent.prompts[-1].history == []
    await quiet(host)
    assert await stored(store, chat) == ["n"]
    await agree(host, client, other)


async def test_a_rewind_to_an_unknown_turn_is_said_and_changes_nothing(
    host: Host, store: Store, client: WireClient, other: WireClient, chat: str
) -> None:
    echo = await client.do(chat, "chat/truncated", turnId="none")

    assert "rejectionReason" not in echo
    assert ids(other, chat) == ["t0", "t1", "t2"]
    assert await stored(store, chat) == ["t0", "t1", "t2"]
    await agree(host, client, other)


@pytest.mark.parametrize("keep", ["t1", None])
async def test_X1_a_rewind_while_a_turn_runs_drops_it_for_good(
    host: Host,
    store: Store,
    client: WireClient,
    other: WireClient,
    chat: str,
    agent: Scripted,
    keep: str | None,
) -> None:
    left = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("dropped")
        sink.activity("busy")
        try:
            await asyncio.sleep(60)
        finally:
            sink.markdown("late")
            left.set()

    agent.play = play
    await client.start(chat, "running", turn="gone")
    await until(lambda: len(agent.prompts) == 4)

    await client.do(chat, "chat/truncated", **({"turnId": keep} if keep else {}))
    await left.wait()
    await quiet(host)

    expected = ["t0", "t1"] if keep else []
    assert "activeTurn" not in other.state(chat)
    assert "activity" not in other.state(chat)
    assert ids(other, chat) == expected
    assert not host.running
    assert await stored(store, chat) == expected, "and no start takes it for interrupted"
    await agree(host, client, other)
    agent.play = Scripted().play
    await client.say(chat, "next")


@pytest.mark.parametrize("ticks", range(8))
async def test_X1_a_rewind_at_the_moment_of_completion(
    host: Host, store: Store, client: WireClient, other: WireClient, chat: str, agent: Scripted, ticks: int
) -> None:
    go = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        await go.wait()

    agent.play = play
    await client.start(chat, "running", turn="gone")
    await until(lambda: len(agent.prompts) == 4)
    go.set()
    for _ in range(ticks):
        await asyncio.sleep(0)

    await client.do(chat, "chat/truncated", turnId="t0")
    await quiet(host)

    assert ids(client, chat) == ids(other, chat) == await stored(store, chat) == ["t0"]
    await agree(host, client, other)


async def test_X1_a_rewind_waits_for_the_ending_that_is_being_written() -> None:
    store = Failing()
    host = await started(store)
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    await client.say(chat, "0", turn="t0")
    store.gates["end_turn"] = asyncio.Event()
    await client.say(chat, "1", turn="t1")

    rewinding = asyncio.create_task(client.do(chat, "chat/truncated", turnId="t0"))
    await asyncio.sleep(0.01)
    store.gates["end_turn"].set()
    await rewinding
    await quiet(host)

    assert await stored(store, chat) == ids(client, chat) == ["t0"]
    await host.stop()


# ── drafts ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_D1_two_people_see_each_others_draft(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    await client.do(chat, "chat/draftChanged", draft=message("half a thou"))
    assert other.state(chat)["draft"]["text"] == "half a thou"
    assert other.state(chat)["draft"]["_meta"]["jupyter-ahp.name"] == "Alice"

    await other.do(chat, "chat/draftChanged")

    assert "draft" not in client.state(chat)
    await agree(host, client, other)


async def test_D1_a_draft_is_a_message_of_a_user(client: WireClient, chat: str) -> None:
    for draft in ("text", {"text": "x"}, {"text": "x", "origin": {"kind": "agent"}}):
        await client.do(chat, "chat/draftChanged", draft=draft)

    assert len(client.refusals) == 3


async def test_D2_a_draft_is_stored_within_a_second_and_the_last_one_wins(
    store: Store, client: WireClient, chat: str
) -> None:
    for text in ("a", "ab", "abc"):
        await client.do(chat, "chat/draftChanged", draft=message(text))

    async with asyncio.timeout(1):
        while True:
            kept = await store.load_chat("s", chat)
            if kept.record.draft is not None and kept.record.draft["text"] == "abc":
                break
            await asyncio.sleep(0.01)


async def test_D2_a_draft_is_stored_when_the_host_stops(
    store: Store, host: Host, client: WireClient, chat: str
) -> None:
    await client.do(chat, "chat/draftChanged", draft=message("last words"))

    await host.stop()

    await store.open()
    kept = (await store.load_chat("s", chat)).record.draft
    assert kept is not None
    assert kept["text"] == "last words"


async def test_D3_a_draft_starts_no_agent(
    store: Store, host: Host, client: WireClient, agent: Scripted, chat: str
) -> None:
    await quiet(host)
    await host.stop()
    again = await started(store, agent)
    visitor = WireClient(again)
    await visitor.initialize(ROOT)
    lines = len(agent.lines)

    await visitor.dispatch(chat, "chat/draftChanged", draft=message("typed into a row"))
    await visitor.subscribe(chat)
    await until(lambda: visitor.state(chat).get("draft"))

    assert len(agent.lines) == lines
    await again.stop()
