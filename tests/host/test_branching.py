"""Chats made from others, chats that move, and rewinds taken back: S1 to S8, U3, U12, X1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Capabilities, Json, Prompt, TurnFailed, TurnSink
from jupyter_ahp.host.rewind import UNDO_REWIND
from jupyter_ahp.store.files import FileStore
from tests.host.harness import Scripted, WireClient, agree, answer_of, quiet, started, until
from tests.host.test_turns import Held

S, T = "ahp-session:/s", "ahp-session:/t"
NEW = "ahp-chat:/new"


class Forking(Scripted):
    capabilities = Capabilities(fork=True, several_directories=True)


@pytest.fixture
def agent() -> Scripted:
    return Forking()


@pytest.fixture
async def chat(client: WireClient, other: WireClient) -> str:
    """Three turns, in a chat whose session another client watches too."""
    chat = await client.create(S)
    await other.subscribe(S)
    await other.subscribe(chat)
    for text in ("one", "two", "three"):
        await client.say(chat, text, turn=f"t-{text}")
    return chat


async def branch(client: WireClient, chat: str, kind: str, turn: str, new: str = NEW, **more: Any) -> Json:
    """The new chat's state; raises `RpcError`."""
    source = {"kind": kind, "chat": chat, "turnId": turn, **more}
    await client.request("createChat", channel=S, chat=new, source=source)
    return await client.subscribe(new)


def texts(turns: list[Json]) -> list[str]:
    return [turn["message"]["text"] for turn in turns]


def summary(client: WireClient, chat: str, session: str = S) -> Json:
    found: Json = next(entry for entry in client.state(session)["chats"] if entry["resource"] == chat)
    return found


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_S2_S4_a_fork_has_the_turns_through_the_named_one_and_goes_on_alone(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    state = await branch(client, chat, "fork", "t-two")
    assert texts(state["turns"]) == ["one", "two"]
    assert summary(other, NEW)["title"] == "Forked: one"

    agent.prompts.clear()
    await client.say(NEW, "another way")
    assert texts(list(agent.prompts[0].history)) == ["one", "two"]
    assert texts(client.state(NEW)["turns"]) == ["one", "two", "another way"]
    assert texts(client.state(chat)["turns"]) == ["one", "two", "three"]
    await agree(host, client, other)


async def test_S8_the_origin_is_kept_and_sent_whole_on_every_change(
    client: WireClient, other: WireClient, chat: str
) -> None:
    await branch(client, chat, "fork", "t-two")
    origin = {"kind": "fork", "chat": chat, "turnId": "t-two"}
    await client.say(NEW, "more")
    await client.do(NEW, "session/titleChanged", title="Mine")
    assert summary(other, NEW)["origin"] == origin
    assert client.state(NEW)["origin"] == origin
    row = other.rows[S]["chats"][-1]
    assert (row["resource"], row["origin"], row["title"]) == (NEW, origin, "Mine")


async def test_S2_S6_S8_U12_forks_side_chats_and_their_order_are_there_after_a_restart(
    tmp_path: Path,
) -> None:
    host = await started(FileStore(tmp_path), Forking())
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    await client.say(chat, "one", turn="t-one")
    await branch(client, chat, "fork", "t-one")
    aside = "ahp-chat:/aside"
    await branch(client, chat, "sideChat", "t-one", new=aside)
    await client.request("moveChat", channel=aside, destination={"kind": "session", "session": S})
    await client.connection.closed()
    await host.stop()

    agent = Forking()
    again = await started(FileStore(tmp_path), agent)
    late = WireClient(again)
    await late.initialize()
    session = await late.subscribe(S)
    assert [entry["resource"] for entry in session["chats"]] == [aside, chat, NEW]
    assert [entry["origin"]["kind"] for entry in session["chats"]] == ["sideChat", "user", "fork"]
    assert texts((await late.subscribe(NEW))["turns"]) == ["one"]
    assert (await late.subscribe(aside))["turns"] == []
    await late.say(aside, "and?")
    assert "You said: one" in next(iter(agent.prompts[0].prefaces.values()))
    await late.connection.closed()
    await again.stop()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, "kind"),
        ({"kind": "copy", "chat": "x"}, "kind"),
        ({"kind": "fork", "chat": "ahp-chat:/nobody", "turnId": "t-one"}, "not a chat of this session"),
        ({"kind": "fork", "turnId": "no-such"}, "no ended turn 'no-such'"),
        ({"kind": "fork"}, "turnId"),
        ({"kind": "sideChat", "turnId": "no-such"}, "no turn 'no-such'"),
        ({"kind": "fork", "chat": NEW, "turnId": "t-one"}, "not a chat of this session"),
    ],
)
async def test_S1_what_cannot_be_a_source_is_refused_with_words_and_makes_no_chat(
    client: WireClient, chat: str, source: Json, words: str
) -> None:
    full = {"chat": chat, **source}
    error = await client.fails("createChat", channel=S, chat=NEW, source=full)
    assert error.code == -32602
    assert words in error.message
    assert [entry["resource"] for entry in client.state(S)["chats"]] == [chat]
    await branch(client, chat, "fork", "t-one")  # its name is free


async def test_S3_an_agent_that_cannot_fork_does_not_offer_it_and_refuses(
    client: WireClient, chat: str, agent: Scripted, host: Host
) -> None:
    agent.capabilities = Capabilities()
    assert "fork" not in host.roster.info(agent)["capabilities"]["multipleChats"]
    error = await client.fails(
        "createChat", channel=S, chat=NEW, source={"kind": "fork", "chat": chat, "turnId": "t-one"}
    )
    assert (error.code, error.message) == (-32602, "Scripted cannot fork a chat.")


async def test_S2_the_running_turn_cannot_be_forked_at(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    held = Held(agent)
    turn = await client.start(chat, "four")
    source = {"kind": "fork", "chat": chat, "turnId": turn}
    assert (await client.fails("createChat", channel=S, chat=NEW, source=source)).code == -32602
    held.go.set()


# ── side chats ───────────────────────────────────────────────────────────────────────────────────────────────────
async def test_S6_a_side_chat_copies_nothing_and_its_first_turn_alone_is_told(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    state = await branch(client, chat, "sideChat", "t-two")
    assert state["turns"] == []

    agent.prompts.clear()
    first = await client.say(NEW, "why?", turn="s1")
    await client.say(NEW, "and then?", turn="s2")
    for prompt in agent.prompts:
        assert list(prompt.prefaces) == ["s1"]
        assert "two" in prompt.prefaces["s1"]
        assert "You said: two" in prompt.prefaces["s1"]
        assert "three" not in prompt.prefaces["s1"]
    assert "two" not in first["message"]["text"]
    assert "two" not in answer_of(first)


async def test_S6_of_the_running_turn_as_far_as_it_went(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    held = Held(agent, before="so far so good")
    turn = await client.start(chat, "four")
    await until(lambda: client.state(chat)["activeTurn"]["responseParts"])
    await branch(client, chat, "sideChat", turn)
    held.go.set()
    await until(lambda: not client.running(chat))
    agent.prompts.clear()
    await client.say(NEW, "hm")
    assert "so far so good" in next(iter(agent.prompts[0].prefaces.values()))


async def test_S7_a_selection_is_kept_only_when_it_has_text(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    picked = {"text": "said: two", "responsePartId": "p1"}
    await branch(client, chat, "sideChat", "t-two", selection=picked)
    await branch(client, chat, "sideChat", "t-two", new="ahp-chat:/empty", selection={"text": ""})
    assert summary(client, NEW)["origin"]["selection"] == picked
    assert "selection" not in summary(client, "ahp-chat:/empty")["origin"]
    agent.prompts.clear()
    await client.say(NEW, "this?")
    assert "They picked this out of it:\n\nsaid: two" in next(iter(agent.prompts[0].prefaces.values()))


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_U3_U12_a_chat_moves_to_another_session_under_its_uri(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    await branch(client, chat, "fork", "t-two")
    await client.create(T)
    await other.subscribe(T)
    await other.subscribe(NEW)
    origin = summary(client, NEW)["origin"]

    result = await client.request(
        "moveChat",
        channel=NEW,
        destination={"kind": "session", "session": T, "after": client.state(T)["defaultChat"]},
    )

    assert result == {"session": T}
    assert NEW not in [entry["resource"] for entry in other.state(S)["chats"]]
    assert [entry["resource"] for entry in other.state(T)["chats"]] == [client.state(T)["defaultChat"], NEW]
    assert summary(other, NEW, T)["origin"] == origin
    await client.say(NEW, "still here")
    assert texts(other.state(NEW)["turns"]) == ["one", "two", "still here"]
    await agree(host, client, other)


async def test_U12_a_chat_becomes_a_session_of_its_own(
    client: WireClient, other: WireClient, chat: str
) -> None:
    await branch(client, chat, "fork", "t-two")
    result = await client.request("moveChat", channel=NEW, destination={"kind": "newSession"})
    state = await client.subscribe(result["session"])
    assert state["defaultChat"] == NEW
    assert state["title"] == state["chats"][0]["title"] != "", "it is named with its default chat (T8)"
    assert state["lifecycle"] == "ready"
    assert not state["chats"][0].get("movable")
    assert result["session"] in other.rows
    error = await client.fails("moveChat", channel=NEW, destination={"kind": "session", "session": S})
    assert error.code == -32602, "a default chat does not move"


async def test_U12_what_cannot_move_stays_where_it_is(client: WireClient, chat: str, agent: Scripted) -> None:
    await branch(client, chat, "fork", "t-two")
    await client.create(T)

    async def code(channel: str, **destination: Any) -> int:
        return (await client.fails("moveChat", channel=channel, destination=destination)).code

    assert await code(chat, kind="session", session=T) == -32602
    assert await code("ahp-chat:/nobody", kind="session", session=T) == -32001
    assert await code(NEW, kind="session", session="ahp-session:/nobody") == -32001
    assert await code(NEW, kind="session", session=T, after="ahp-chat:/nobody") == -32008
    assert await code(NEW, kind="session", session=S, after=NEW) == -32008
    held = Held(agent)
    await client.start(NEW, "busy")
    assert await code(NEW, kind="session", session=T) == -32004
    held.go.set()
    assert NEW in [entry["resource"] for entry in client.state(S)["chats"]]


# ── rewinds taken back ───────────────────────────────────────────────────────────────────────────────────────────
async def test_X1_what_a_rewind_cut_comes_back_for_everybody_until_a_turn_begins(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    before = client.state(chat)["turns"]
    said = await client.do(chat, "chat/truncated", turnId="t-one")
    assert said["action"]["_meta"]["jupyter-ahp.undo"] == {"turns": 2}
    assert (await client.subscribe(chat))["_meta"]["jupyter-ahp.undo"] == {"turns": 2}

    assert await client.request(UNDO_REWIND, channel=chat) == {"turns": 2}

    await quiet(host)
    assert client.state(chat)["turns"] == before
    assert other.state(chat)["turns"] == before
    await agree(host, client, other)
    assert (await client.fails(UNDO_REWIND, channel=chat)).code == -32602

    await client.do(chat, "chat/truncated", turnId="t-two")
    await client.say(chat, "instead")
    assert (await client.fails(UNDO_REWIND, channel=chat)).code == -32602
    assert texts(client.state(chat)["turns"]) == ["one", "two", "instead"]


async def test_X1_two_rewinds_are_undone_together_and_every_kind_of_turn_comes_back(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        if prompt.text == "tools":
            sink.reasoning("hm")
            call = sink.tool("t", title="T", call_id="c1")
            call.run("Running", tool_input="x")
            call.done("Ran", content=[{"type": "text", "text": "out"}])
            sink.notice("told")
            sink.usage(input_tokens=1)
        else:
            raise TurnFailed("x", "It broke.", resumable=True)

    agent.play = play
    await client.say(chat, "tools", turn="t-tools")
    await client.say(chat, "fails", turn="t-fails")
    await client.do(chat, "chat/turnResume", turnId="t-fails")
    await until(lambda: not client.running(chat))
    held = Held(agent)
    stopped = await client.start(chat, "stopped")
    await until(lambda: held.sinks)
    await client.do(chat, "chat/turnCancelled", turnId=stopped, duration=7)
    await quiet(host)
    before = client.state(chat)["turns"]

    await client.do(chat, "chat/truncated", turnId="t-tools")
    await client.do(chat, "chat/truncated")
    assert client.state(chat)["turns"] == []
    assert await client.request(UNDO_REWIND, channel=chat) == {"turns": 6}

    assert client.state(chat)["turns"] == before
    await agree(host, client, other)


async def test_X1_it_can_be_undone_after_a_restart(tmp_path: Path) -> None:
    host = await started(FileStore(tmp_path), Forking())
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    for text in ("one", "two"):
        await client.say(chat, text, turn=text)
    await client.do(chat, "chat/truncated", turnId="one")
    await client.connection.closed()
    await host.stop()

    again = await started(FileStore(tmp_path), Forking())
    late = WireClient(again)
    await late.initialize()
    assert texts((await late.subscribe(chat))["turns"]) == ["one"]
    assert await late.request(UNDO_REWIND, channel=chat) == {"turns": 1}
    assert texts(late.state(chat)["turns"]) == ["one", "two"]
    await late.connection.closed()
    await again.stop()

    third = await started(FileStore(tmp_path), Forking())
    last = WireClient(third)
    await last.initialize()
    assert texts((await last.subscribe(chat))["turns"]) == ["one", "two"]
    await last.connection.closed()
    await third.stop()
