"""The chats of a session: named, made, closed (U2 to U10, M1 to M3)."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Capabilities, Json, Prompt, TurnSink
from jupyter_ahp.protocol import uris
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

S = "ahp-session:/s"
TWO = "ahp-chat:/two"
OLDER: Json = {"info": {"name": "vscode-agents-window"}}


async def older(host: Host) -> WireClient:
    client = WireClient(host, versions=["0.10.0", "0.9.0"], **OLDER)
    await client.initialize(ROOT)
    return client


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_U2_an_older_window_gets_the_derived_chat_and_others_an_opaque_one(
    host: Host, client: WireClient
) -> None:
    window = await older(host)

    assert await window.create("test:/old") == uris.default_chat_uri("test:/old")
    assert (await client.create("ahp-session:/new")).startswith("ahp-chat:/")


async def test_U2_the_newest_window_gets_an_opaque_chat(host: Host) -> None:
    window = WireClient(host, meta={"vscode.ahpSessionUris": True}, **OLDER)
    await window.initialize()

    assert (await window.create(S)).startswith("ahp-chat:/")


async def test_U3_a_chat_has_one_uri_for_everyone(host: Host, client: WireClient) -> None:
    window = await older(host)
    chat = await window.create("test:/old")

    state = await client.subscribe("ahp-session:/old")

    assert state["defaultChat"] == state["chats"][0]["resource"] == chat
    assert (await client.subscribe(chat))["resource"] == chat
    await window.say(chat, "hello")
    assert client.state(chat) == window.state(chat)
    await agree(host, client, window)


async def test_U5_the_derived_uri_names_a_chat_only_while_the_session_records_it(
    host: Host, client: WireClient
) -> None:
    await client.create(S)

    error = await client.fails("subscribe", channel=uris.default_chat_uri(S))

    assert error.code == -32001


async def test_U6_the_derived_uri_of_a_session_nobody_has_is_no_chat(client: WireClient) -> None:
    chat = uris.default_chat_uri("test:/none")

    error = await client.fails("subscribe", channel=chat)

    assert (error.code, error.message) == (-32001, f"Resource not found: {chat}")


async def test_U7_the_default_chat_stays(host: Host, client: WireClient) -> None:
    chat = await client.create(S)
    await client.say(chat, "hello")

    assert await client.request("disposeChat", channel=chat) is None

    assert len((await client.subscribe(chat))["turns"]) == 1
    await agree(host, client)


async def test_U8_a_second_chat_is_named_by_its_maker_and_no_session(client: WireClient) -> None:
    await client.create(S)
    await client.request("createChat", channel=S, chat="ahp-chat:/s")

    assert (await client.subscribe("ahp-chat:/s"))["resource"] == "ahp-chat:/s"
    assert (await client.subscribe(S))["defaultChat"] != "ahp-chat:/s"


async def test_U9_a_closed_chat_is_gone(host: Host, client: WireClient, other: WireClient) -> None:
    await client.create(S)
    await other.subscribe(S)
    await client.request("createChat", channel=S, chat=TWO)
    await client.subscribe(TWO)
    await client.say(TWO, "hello")

    assert await client.request("disposeChat", channel=TWO) is None

    assert [chat["resource"] for chat in other.state(S)["chats"]] == [other.state(S)["defaultChat"]]
    assert [chat["resource"] for chat in client.rows[S]["chats"]] == [other.state(S)["defaultChat"]]
    assert (await client.fails("subscribe", channel=TWO)).code == -32001
    del client.mirrors[TWO]
    await agree(host, client, other)
    await client.request("createChat", channel=S, chat=TWO)
    assert (await client.subscribe(TWO))["turns"] == []


async def test_U9_a_chat_closed_in_mid_turn_says_nothing_more(
    host: Host, client: WireClient, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.activity("working")
        try:
            await sink.ask("Well?")
        finally:
            sink.markdown("late")

    agent.play = play
    await client.create(S)
    await client.request("createChat", channel=S, chat=TWO)
    await client.subscribe(TWO)
    await client.start(TWO, "go")
    await until(lambda: client.state(S).get("inputNeeded"))

    await client.request("disposeChat", channel=TWO)

    assert "inputNeeded" not in client.state(S)
    assert not host.running
    del client.mirrors[TWO]
    await agree(host, client)


async def test_U10_closing_an_unknown_chat_is_nothing(client: WireClient) -> None:
    assert await client.request("disposeChat", channel="ahp-chat:/none") is None
    assert await client.request("disposeChat", channel=uris.default_chat_uri("test:/none")) is None


# ── createChat ───────────────────────────────────────────────────────────────────────────────────────────────────
async def test_M2_a_second_chat_is_told_before_it_is_answered(host: Host, client: WireClient) -> None:
    await client.create(S)
    before = len(client.wire.frames)

    assert await client.request("createChat", channel=S, chat=TWO) is None

    told = client.wire.frames[before:]
    assert told[0]["params"]["action"]["type"] == "session/chatAdded"
    assert told[-1]["result"] is None
    assert [chat["resource"] for chat in client.state(S)["chats"]][1] == TWO
    await agree(host, client)


async def test_M2_creating_the_default_chat_is_nothing(client: WireClient) -> None:
    chat = await client.create(S)

    assert await client.request("createChat", channel=S, chat=chat) is None

    assert len(client.state(S)["chats"]) == 1


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"channel": "ahp-session:/none", "chat": TWO}, -32001),
        ({"chat": "ahp-chat:/one"}, -32602),
        ({"chat": "ahp-session:/x"}, -32602),
        ({"chat": uris.default_chat_uri("test:/x")}, -32602),
        ({"chat": TWO, "workingDirectories": ["file:///elsewhere"]}, -32602),
        ({"chat": TWO, "source": {"kind": "dream"}}, -32602),
        ({"chat": TWO, "source": {}}, -32602),
        ({"chat": TWO, "initialMessage": {"text": "x", "origin": {"kind": "agent"}}}, -32602),
        ({"chat": TWO, "initialMessage": {"text": "x"}}, -32602),
        ({}, -32602),
    ],
)
async def test_M2_a_chat_that_cannot_be_made_is_refused_and_leaves_nothing(
    host: Host, client: WireClient, params: Json, code: int
) -> None:
    await client.create(S, workingDirectories=["file:///a"])
    await client.request("createChat", channel=S, chat="ahp-chat:/one")
    known = set(host._sessions_of_chats)

    error = await client.fails("createChat", **{"channel": S, **params})

    assert error.code == code
    assert len(client.state(S)["chats"]) == 2
    assert set(host._sessions_of_chats) == known
    await agree(host, client)


async def test_M2_an_agent_of_one_chat_a_session_says_so(client: WireClient, agent: Scripted) -> None:
    agent.capabilities = Capabilities(several_chats=False)
    await client.create(S)

    assert "one chat a session" in (await client.fails("createChat", channel=S, chat=TWO)).message


async def test_U11_a_chat_works_in_a_subset_of_the_sessions_directories(
    client: WireClient, agent: Scripted
) -> None:
    await client.create(S, workingDirectories=["file:///a", "file:///b"])
    await client.request("createChat", channel=S, chat=TWO, workingDirectories=["file:///b"])
    await client.subscribe(TWO)

    await client.say(TWO, "where?")

    assert agent.lines[-1].start.directories == ["/b"]
    assert client.state(TWO)["workingDirectories"] == ["file:///b"]


async def test_M2_the_first_message_becomes_a_turn(host: Host, client: WireClient) -> None:
    await client.create(S)

    await client.request("createChat", channel=S, chat=TWO, initialMessage=message("hello"))

    await client.subscribe(TWO)
    await until(lambda: not client.running(TWO))
    (turn,) = client.state(TWO)["turns"]
    assert answer_of(turn) == "You said: hello"
    assert turn["message"]["_meta"]["jupyter-ahp.sender"] == "user:alice"
    await agree(host, client)


async def test_M2_of_two_who_create_one_chat_at_once_one_is_refused(failing: Failing) -> None:
    host = await started(failing)
    client, other = WireClient(host), WireClient(host)
    await client.initialize()
    await other.initialize()
    await client.create(S)
    failing.gates["put_session"] = asyncio.Event()

    asked = [one.ask("createChat", {"channel": S, "chat": TWO}) for one in (client, other)]
    tasks = [asyncio.ensure_future(taken) for _, taken in asked]
    await asyncio.sleep(0.01)
    failing.gates["put_session"].set()
    await asyncio.gather(*tasks)

    outcomes = await asyncio.gather(*(answer for answer, _ in asked), return_exceptions=True)
    assert sorted(getattr(outcome, "code", 0) for outcome in outcomes) == [-32602, 0]
    assert [chat["resource"] for chat in client.state(S)["chats"]].count(TWO) == 1
    await host.stop()


async def test_T1_a_start_beside_the_first_message_does_not_reset_it(failing: Failing) -> None:
    agent = Scripted()
    host = await started(failing, agent)
    client, other = WireClient(host), WireClient(host)
    await client.initialize()
    await other.initialize()
    await client.create(S)
    await other.subscribe(S)
    never = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("first")
        await never.wait()

    agent.play = play
    failing.gates["begin_turn"] = asyncio.Event()
    _, taken = client.ask("createChat", {"channel": S, "chat": TWO, "initialMessage": message("one")})
    making = asyncio.ensure_future(taken)
    await until(lambda: len(other.state(S)["chats"]) == 2)
    await other.subscribe(TWO)
    starting = asyncio.create_task(other.start(TWO, "two"))
    await asyncio.sleep(0.01)
    failing.gates["begin_turn"].set()
    await asyncio.gather(making, starting)

    await until(lambda: agent.prompts)
    assert [prompt.text for prompt in agent.prompts] == ["one"]
    assert len(other.refusals) == 1
    await agree(host, other)
    await host.stop()


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def filled(client: WireClient, turns: int) -> str:
    chat = await client.create(S)
    for index in range(turns):
        await client.say(chat, f"{index}", turn=f"t{index}")
    return chat


def ids(client: WireClient, chat: str) -> list[str]:
    return [turn["id"] for turn in client.state(chat)["turns"]]


async def test_M1_without_a_view_every_turn_is_given(client: WireClient, other: WireClient) -> None:
    chat = await filled(client, 3)

    state = await other.subscribe(chat)

    assert len(state["turns"]) == 3
    assert "turnsNextCursor" not in state


async def test_M3_older_turns_come_to_every_watcher_before_the_empty_answer(
    host: Host, client: WireClient, other: WireClient
) -> None:
    chat = await filled(client, 60)
    state = await other.subscribe(chat, view={"turns": 4})
    assert [turn["id"] for turn in state["turns"]] == ["t56", "t57", "t58", "t59"]

    before = len(other.wire.frames)
    assert await other.request("fetchTurns", channel=chat, cursor=state["turnsNextCursor"]) == {}
    assert other.wire.frames[before]["params"]["action"]["type"] == "chat/turnsLoaded"
    assert ids(other, chat) == [f"t{index}" for index in range(6, 60)]
    await other.request("fetchTurns", channel=chat, cursor=other.state(chat)["turnsNextCursor"])

    assert ids(other, chat) == ids(client, chat)
    assert "turnsNextCursor" not in other.state(chat)
    await agree(host, client, other)


async def test_M3_an_unknown_cursor_is_refused(client: WireClient) -> None:
    chat = await filled(client, 1)

    assert (await client.fails("fetchTurns", channel=chat, cursor="made up")).code == -32602


async def test_M3_a_view_of_nothing_can_be_paged(host: Host, client: WireClient, other: WireClient) -> None:
    chat = await filled(client, 3)
    state = await other.subscribe(chat, view={"turns": 0})
    assert state["turns"] == []
    await client.say(chat, "3", turn="t3")

    await other.request("fetchTurns", channel=chat, cursor=state["turnsNextCursor"])

    assert ids(other, chat) == ["t0", "t1", "t2", "t3"]
    await agree(host, client, other)


async def test_M3_anothers_page_leaves_no_gap_in_a_narrower_view(
    host: Host, client: WireClient, other: WireClient
) -> None:
    chat = await filled(client, 70)
    wide = WireClient(host)
    await wide.initialize()
    await other.subscribe(chat, view={"turns": 2})
    state = await wide.subscribe(chat, view={"turns": 15})

    await wide.request("fetchTurns", channel=chat, cursor=state["turnsNextCursor"])

    assert ids(other, chat) == [f"t{index}" for index in range(5, 70)], "no gap"
    await agree(host, client, other, wide)


async def test_X1_a_rewind_to_a_turn_outside_a_view_is_seen_there(
    host: Host, client: WireClient, other: WireClient
) -> None:
    chat = await filled(client, 8)
    await other.subscribe(chat, view={"turns": 2})

    await client.do(chat, "chat/truncated", turnId="t3")

    assert ids(client, chat) == ids(other, chat)[-4:] == ["t0", "t1", "t2", "t3"][-4:] or ids(
        other, chat
    ) == ["t3"]
    await client.say(chat, "again", turn="new")
    await agree(host, client, other)


async def test_a_retry_is_seen_in_a_view_of_nothing(
    host: Host, client: WireClient, other: WireClient, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        if not prompt.resumed:
            raise RuntimeError("once")
        sink.markdown("now")

    agent.play = play
    chat = await client.create(S)
    await client.say(chat, "go", turn="t")
    await other.subscribe(chat, view={"turns": 0})

    await client.do(chat, "chat/turnResume", turnId="t")
    await until(lambda: not client.running(chat))

    assert answer_of(other.turn(chat, "t")) == "now"
    await quiet(host)
    await agree(host, client, other)


async def test_X1_a_view_that_came_back_by_replay_sees_a_rewind(
    host: Host, client: WireClient, other: WireClient
) -> None:
    chat = await filled(client, 8)
    await other.subscribe(chat, view={"turns": 2})
    await other.drop()
    assert (await other.reconnect())["type"] == "replay"

    await client.do(chat, "chat/truncated", turnId="t3")

    await agree(host, client, other)
    assert ids(other, chat)[-1] == "t3"
