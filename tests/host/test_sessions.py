"""Sessions: made, listed, changed, ended (AHP 2.3, 2.4, 3; U1 to U7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jupyter_ahp.host import host as host_module
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Capabilities, Json, Probe, Prompt, Store, TurnSink
from jupyter_ahp.protocol import status
from tests.host.harness import (
    ROOT,
    Failing,
    Scripted,
    WireClient,
    agree,
    message,
    quiet,
    started,
    until,
)

S = "ahp-session:/s"
DRAFT = {"text": "half a thought", "origin": {"kind": "user"}}


# ── createSession ────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_session_begins_with_its_default_chat_and_is_told_to_the_root(
    host: Host, client: WireClient, other: WireClient
) -> None:
    assert await client.request("createSession", channel=S, provider="test") is None

    state = await other.subscribe(S)
    assert state["lifecycle"] == "ready"
    assert [chat["resource"] for chat in state["chats"]] == [state["defaultChat"]]
    assert {"resource", "createdAt", "modifiedAt"}.isdisjoint(state)
    assert client.rows[S] == other.rows[S]
    assert client.rows[S]["defaultChat"] == state["defaultChat"]
    assert client.state(ROOT)["activeSessions"] == 1
    chat = await other.subscribe(state["defaultChat"])
    assert chat["resource"] == state["defaultChat"]
    await agree(host, client, other)


async def test_a_uri_in_use_is_refused(client: WireClient) -> None:
    await client.create(S)

    assert (await client.fails("createSession", channel=S, provider="test")).code == -32003
    assert (await client.fails("createSession", channel="test:/s", provider="test")).code == -32003


async def test_of_two_who_create_one_session_at_once_one_is_refused(
    client: WireClient, other: WireClient
) -> None:
    asked = [one.ask("createSession", {"channel": S, "provider": "test"}) for one in (client, other)]

    await asyncio.gather(*(taken for _, taken in asked))

    outcomes = await asyncio.gather(*(answer for answer, _ in asked), return_exceptions=True)
    assert [getattr(outcome, "code", outcome) for outcome in outcomes] == [None, -32003]


async def test_an_unknown_provider_is_refused(client: WireClient) -> None:
    assert (await client.fails("createSession", channel=S, provider="nobody")).code == -32002
    assert client.rows == {}


async def test_the_provider_is_the_schemes_or_the_default(client: WireClient) -> None:
    await client.request("createSession", channel="test:/a")
    await client.request("createSession", channel="ahp-session:/b")

    await client.request("listSessions")
    assert {row["provider"] for row in client.rows.values()} == {"test"}


async def test_another_clients_announcement_is_refused(client: WireClient) -> None:
    error = await client.fails(
        "createSession", channel=S, provider="test", activeClient={"clientId": "not-me", "tools": []}
    )

    assert error.code == -32602
    assert client.rows == {}


async def test_the_creators_announcement_is_in_the_session(client: WireClient) -> None:
    await client.create(S, activeClient={"clientId": client.client_id, "tools": []})

    assert client.state(S)["activeClients"] == [{"clientId": client.client_id, "tools": []}]


async def test_directories_in_every_spelling(client: WireClient) -> None:
    await client.create("ahp-session:/list", workingDirectories=["file:///a", "file:///b"])
    await client.create("ahp-session:/one", workingDirectory="file:///c")

    assert client.state("ahp-session:/list")["workingDirectories"] == ["file:///a", "file:///b"]
    assert client.state("ahp-session:/one")["workingDirectories"] == ["file:///c"]


async def test_several_directories_only_where_the_agent_takes_them(
    client: WireClient, agent: Scripted
) -> None:
    agent.capabilities = Capabilities(several_directories=False)

    error = await client.fails(
        "createSession", channel=S, provider="test", workingDirectories=["file:///a", "file:///b"]
    )

    assert error.code == -32602


async def test_the_hosts_directory_is_the_default(failing: Failing, tmp_path: Path) -> None:
    agent = Scripted()
    host = await started(failing, agent, directory=tmp_path)
    client = WireClient(host)
    result = await client.initialize()
    chat = await client.create(S)
    await client.say(chat, "where?")

    assert result["defaultDirectory"] == tmp_path.as_uri()
    assert client.state(S)["workingDirectories"] == [tmp_path.as_uri()]
    assert agent.lines[0].start.directories == [str(tmp_path)]
    await host.stop()


async def test_an_agent_that_cannot_be_used_fails_the_session_in_words(
    client: WireClient, agent: Scripted
) -> None:
    agent.probed = Probe(ready=False, reason="No key.", fix="Set KEY.")
    await client.connection.host.look_at_agents()

    chat = await client.create(S)

    assert client.state(S)["lifecycle"] == "failed"
    assert client.state(S)["creationError"]["message"] == "Scripted cannot be used. No key. Set KEY."
    await client.start(chat, "hello?")
    assert client.refusals[-1]["rejectionReason"] == "Scripted cannot be used. No key. Set KEY."


async def test_an_agent_that_became_usable_is_seen(client: WireClient, agent: Scripted) -> None:
    agent.probed = Probe(ready=False)
    await client.connection.host.look_at_agents()
    agent.probed = Probe(ready=True)

    await client.create(S)

    assert client.state(S)["lifecycle"] == "ready"


async def test_a_session_that_was_disposed_while_it_was_made_stays_gone(
    host: Host, client: WireClient, other: WireClient, agent: Scripted
) -> None:
    looked, go = asyncio.Event(), asyncio.Event()

    async def slow() -> Probe:
        looked.set()
        await go.wait()
        return Probe(ready=False)

    agent.probed = Probe(ready=False)
    await host.look_at_agents()
    agent.probe = slow  # type: ignore[method-assign]
    answer, taken = client.ask("createSession", {"channel": S, "provider": "test"})
    making = asyncio.ensure_future(taken)
    await looked.wait()

    await other.request("disposeSession", channel=S)
    go.set()
    await making

    assert await answer is None
    assert await host.store.sessions() == []
    assert host.sessions == {}


# ── what is in the list ──────────────────────────────────────────────────────────────────────────────────────────
async def test_rows_have_what_windows_read(client: WireClient) -> None:
    chat = await client.create(S, workingDirectories=["file:///a"])
    await client.say(chat, "Hello there")

    (row,) = (await client.request("listSessions"))["items"]

    assert row["resource"] == S
    assert row["provider"] == "test"
    assert row["title"] == "Hello there"
    assert row["workingDirectories"] == ["file:///a"]
    assert row["createdAt"] <= row["modifiedAt"] or row["modifiedAt"].startswith("2026-03-01")
    assert row["chats"] == [
        {
            "resource": chat,
            "title": "Hello there",
            "origin": {"kind": "user"},
            "status": row["chats"][0]["status"],
            "modifiedAt": row["modifiedAt"],  # beyond AHP's `SessionChatSummary`, as `movable` is
        }
    ]


async def test_the_newest_comes_first_and_pages_follow(client: WireClient) -> None:
    for index in range(7):
        chat = await client.create(f"ahp-session:/{index}")
        await say_at(client, chat, index)

    seen: list[str] = []
    cursor: Json = {}
    while True:
        page = await client.request("listSessions", limit=3, **cursor)
        seen += [row["resource"] for row in page["items"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}

    assert seen == [f"ahp-session:/{index}" for index in reversed(range(7))]


async def test_what_moves_between_two_pages_is_neither_lost_nor_repeated(
    client: WireClient, other: WireClient
) -> None:
    chats = []
    for index in range(6):
        chats.append(await client.create(f"ahp-session:/{index}"))
        await say_at(client, chats[-1], index)

    first = await other.request("listSessions", limit=2)
    await say_at(client, chats[0], 50)  # the oldest becomes the newest
    await client.request("disposeSession", channel="ahp-session:/2")
    await client.create("ahp-session:/new")
    second = await other.request("listSessions", limit=2, cursor=first["nextCursor"])
    third = await other.request("listSessions", limit=2, cursor=second["nextCursor"])
    again = await other.request("listSessions", limit=2, cursor=first["nextCursor"])

    ids = [row["resource"][-1] for page in (first, second, third) for row in page["items"]]
    assert ids == ["5", "4", "3", "1", "0"]
    assert "nextCursor" not in third
    assert [row["resource"] for row in again["items"]] == [row["resource"] for row in second["items"]]
    await client.request("listSessions")
    assert other.rows == client.rows


async def test_a_cursor_is_its_connections_own(client: WireClient, other: WireClient) -> None:
    for index in range(3):
        await client.create(f"ahp-session:/{index}")
    cursor = (await client.request("listSessions", limit=1))["nextCursor"]

    assert (await other.fails("listSessions", cursor=cursor)).code == -32602


async def say_at(client: WireClient, chat: str, minute: int) -> None:
    await client.do(
        chat,
        "chat/turnStarted",
        turnId=f"turn-{chat}-{minute}",
        startedAt=f"2027-03-01T10:{minute:02}:00.000Z",
        message=message("x"),
    )
    await until(lambda: not client.running(chat))


async def test_what_runs_is_seen_in_the_row(
    host: Host, client: WireClient, other: WireClient, agent: Scripted
) -> None:
    go = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.activity("Thinking")
        await go.wait()
        sink.activity(None)

    agent.play = play
    await other.request("listSessions")
    chat = await client.create(S)
    turn = await client.start(chat, "go")
    await until(lambda: other.rows[S].get("activity") == "Thinking")
    assert other.rows[S]["status"] == status.IN_PROGRESS | status.IS_READ
    assert other.rows[S]["chats"][0]["status"] & status.IN_PROGRESS

    go.set()
    await until(lambda: not client.running(chat))

    assert other.rows[S]["status"] == status.IDLE, "something new to read"
    assert not other.rows[S]["activity"]
    assert client.turn(chat, turn)["state"] == "complete"
    await quiet(host)
    await client.request("listSessions")
    assert {**client.rows[S], "activity": ""} == other.rows[S]
    await agree(host, client, other)


async def test_a_failed_turn_is_seen_in_the_row_and_marks_are_kept(
    client: WireClient, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        raise RuntimeError("broken")

    agent.play = play
    chat = await client.create(S)
    await client.do(S, "session/isArchivedChanged", isArchived=True)
    await client.do(S, "session/isArchivedChanged", isArchived=False)
    await client.say(chat, "go")

    assert client.rows[S]["status"] & status.ACTIVITY_MASK == status.ERROR


# ── what clients change ──────────────────────────────────────────────────────────────────────────────────────────
async def test_T8_a_title_is_the_sessions_and_its_only_chats(
    host: Host, client: WireClient, other: WireClient
) -> None:
    chat = await client.create(S)
    await other.subscribe(S)

    await client.do(S, "session/titleChanged", title="Mine")

    assert other.state(S)["title"] == "Mine"
    assert other.state(S)["chats"][0]["title"] == "Mine"
    assert (await other.subscribe(chat))["title"] == "Mine"
    assert other.rows[S]["title"] == other.rows[S]["chats"][0]["title"] == "Mine"
    assert other.kinds(S).count("session/titleChanged") == 1, "nothing is said that changes nothing"
    await agree(host, client, other)


async def test_an_archived_session_takes_no_turn(client: WireClient) -> None:
    chat = await client.create(S)
    await client.do(S, "session/isArchivedChanged", isArchived=True)

    await client.start(chat, "hello")

    assert "archive" in client.refusals[-1]["rejectionReason"]
    assert client.rows[S]["status"] & status.IS_ARCHIVED


async def test_config_is_checked_against_the_schema(client: WireClient, agent: Scripted) -> None:
    agent.schema = {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "title": "Mode", "default": "ask", "sessionMutable": True},
            "tone": {"type": "string", "title": "Tone"},
            "level": {"type": "number", "title": "Level", "enum": [1, 2], "sessionMutable": True},
        },
    }
    chat = await client.create(S, config={"tone": "dry"})
    assert client.state(S)["config"]["values"] == {"mode": "ask", "tone": "dry"}

    await client.do(S, "session/configChanged", config={"tone": "warm"})
    wrong: list[Json] = [{"no such": 1}, {"level": 3}, {"level": True}, {"level": "1"}, {"tone": 7}]
    for config in wrong:
        await client.do(S, "session/configChanged", config=config)
    await client.do(S, "session/configChanged", config={"level": 2})
    await client.say(chat, "begin")
    await client.do(S, "session/configChanged", config={"tone": "cold"})
    await client.do(S, "session/configChanged", config={"mode": "act"})

    assert client.state(S)["config"]["values"] == {"mode": "act", "tone": "warm", "level": 2}
    assert [refusal["action"]["config"] for refusal in client.refusals] == [*wrong, {"tone": "cold"}]
    assert agent.lines[0].start.config == {"mode": "ask", "tone": "warm", "level": 2}


@pytest.mark.parametrize("config", [{"level": 3}, {"level": "1"}, {"tone": 7}])
async def test_a_session_does_not_begin_with_what_a_setting_cannot_be(
    client: WireClient, agent: Scripted, config: Json
) -> None:
    level: Json = {"type": "number", "title": "Level", "enum": [1, 2]}
    agent.schema = {
        "type": "object",
        "properties": {"tone": {"type": "string", "title": "Tone"}, "level": level},
    }

    error = await client.fails("createSession", channel=S, provider="test", config=config)

    assert (error.code, "cannot be" in error.message) == (-32602, True)
    await client.create(S, config={"level": 2, "another program's": 1})


async def test_a_conversation_is_told_of_changed_settings_at_once(
    client: WireClient, agent: Scripted
) -> None:
    mode: Json = {"type": "string", "title": "Mode", "default": "ask", "sessionMutable": True}
    agent.schema = {"type": "object", "properties": {"mode": mode}}
    chat = await client.create(S)
    await client.do(S, "session/configChanged", config={"mode": "read"})  # nobody to tell
    heard: list[list[Json]] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        await client.do(S, "session/configChanged", config={"mode": "act"})
        await client.do(S, "session/configChanged", config={"mode": "plan"})
        await until(lambda: len(agent.configured) == 2)
        heard.append([*agent.configured])

    agent.play = play
    await client.say(chat, "begin")
    await client.say(chat, "again")

    assert heard[0][-1] == {"mode": "plan"}
    assert [prompt.config for prompt in agent.prompts] == [{"mode": "read"}, {"mode": "plan"}]


async def test_a_setting_that_the_backend_changes_is_the_sessions(
    client: WireClient, agent: Scripted
) -> None:
    mode: Json = {
        "type": "string",
        "title": "Mode",
        "default": "plan",
        "enum": ["plan", "act"],
        "sessionMutable": True,
    }
    agent.schema = {"type": "object", "properties": {"mode": mode}}

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        host = agent.lines[0].start.host
        for values in ({"mode": "act"}, {"mode": "act"}, {"mode": "no such"}, {"other": 1}):
            host.configured(values)

    agent.play = play
    chat = await client.create(S)
    await client.say(chat, "begin")

    said = [
        envelope["action"]
        for envelope in client.envelopes
        if envelope["action"]["type"] == "session/configChanged"
    ]
    assert said == [{"type": "session/configChanged", "config": {"mode": "act"}}]
    assert client.state(S)["config"]["values"] == {"mode": "act"}


async def test_an_unchanged_active_client_is_echoed_to_nobody(client: WireClient, other: WireClient) -> None:
    await client.create(S)
    await other.subscribe(S)
    me: Json = {"clientId": client.client_id, "tools": []}
    await client.do(S, "session/activeClientSet", activeClient=me)
    before = len(client.envelopes), len(other.envelopes)

    await client.dispatch(S, "session/activeClientSet", activeClient=me)
    assert (len(client.envelopes), len(other.envelopes)) == before

    await client.do(S, "session/activeClientSet", activeClient={**me, "tools": [{"name": "t"}]})
    assert (len(client.envelopes), len(other.envelopes)) == (before[0] + 1, before[1] + 1)


async def test_a_client_announces_and_takes_away_only_itself(client: WireClient, other: WireClient) -> None:
    await client.create(S)
    await client.do(S, "session/activeClientSet", activeClient={"clientId": client.client_id, "tools": []})
    await other.subscribe(S)

    await other.do(
        S, "session/activeClientSet", activeClient={"clientId": client.client_id, "tools": [{"name": "x"}]}
    )
    await other.do(S, "session/activeClientRemoved", clientId=client.client_id)

    assert len(other.refusals) == 2
    assert client.state(S)["activeClients"] == [{"clientId": client.client_id, "tools": []}]


async def test_who_unsubscribes_is_no_active_client_any_more(
    host: Host, client: WireClient, other: WireClient
) -> None:
    await client.create(S)
    await client.do(S, "session/activeClientSet", activeClient={"clientId": client.client_id, "tools": []})
    await other.subscribe(S)

    await client.unsubscribe(S)

    assert other.state(S)["activeClients"] == []
    await agree(host, other)


async def test_a_client_with_another_socket_on_the_session_stays_active(
    host: Host, other: WireClient
) -> None:
    first, second = WireClient(host, client_id="twin"), WireClient(host, client_id="twin")
    await first.initialize()
    await second.initialize()
    await first.create(S)
    await second.subscribe(S)
    await other.subscribe(S)
    await first.do(S, "session/activeClientSet", activeClient={"clientId": "twin", "tools": []})

    await first.unsubscribe(S)
    assert len(other.state(S)["activeClients"]) == 1

    await second.unsubscribe(S)
    assert other.state(S)["activeClients"] == []


async def test_a_client_that_left_for_long_is_no_active_client(
    host: Host, client: WireClient, other: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.create(S)
    await client.do(S, "session/activeClientSet", activeClient={"clientId": client.client_id, "tools": []})
    await other.subscribe(S)
    await client.drop()
    await host.sweep()
    assert len(other.state(S)["activeClients"]) == 1, "it may come back"

    monkeypatch.setattr(host_module, "_CLIENT_GRACE", -1.0)
    await host.sweep()

    assert other.state(S)["activeClients"] == []


async def test_T7_what_a_client_may_not_say_comes_back_to_it_alone(
    client: WireClient, other: WireClient
) -> None:
    await client.create(S)
    await other.subscribe(S)
    before = len(other.envelopes)

    refused: list[tuple[str, Json]] = [
        ("session/ready", {}),
        ("session/defaultChatChanged", {"defaultChat": "ahp-chat:/x"}),
        ("session/chatRemoved", {"chat": "ahp-chat:/x"}),
        ("session/noSuchThing", {}),
        ("session/titleChanged", {"title": 7}),
        ("chat/draftChanged", {}),
        ("session/workingDirectorySet", {"directory": 7}),
    ]
    for kind, fields in refused:
        await client.do(S, kind, **fields)

    assert len(client.refusals) == 7
    assert all(refusal["rejectionReason"] for refusal in client.refusals)
    assert len(other.envelopes) == before


# ── disposeSession ───────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_disposed_session_is_gone_for_everyone(
    host: Host, client: WireClient, other: WireClient
) -> None:
    chat = await client.create(S)
    await other.subscribe(S)
    await client.say(chat, "hello")
    await other.request("listSessions")

    assert await client.request("disposeSession", channel=S) is None

    assert client.rows == other.rows == {}
    assert (await other.fails("subscribe", channel=S)).message == f"Resource not found: {S}"
    assert (await other.fails("subscribe", channel=chat)).code == -32001
    assert (await client.fails("disposeSession", channel=S)).code == -32001
    assert client.state(ROOT)["activeSessions"] == 0
    assert await host.store.sessions() == []
    assert not host._sessions_of_chats
    assert not any(connection.subscriptions.keys() - {ROOT} for connection in host.connections)


async def test_a_session_disposed_in_mid_turn_says_nothing_more(
    host: Host, client: WireClient, agent: Scripted
) -> None:
    over = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("…")
        try:
            await asyncio.sleep(60)
        finally:
            sink.markdown("late")
            sink.activity("late")
            over.set()

    agent.play = play
    chat = await client.create(S)
    await client.start(chat, "go")
    await until(lambda: agent.prompts)

    await client.request("disposeSession", channel=S)

    assert over.is_set()
    assert agent.lines[0].closed
    assert not host.running
    assert await host.store.sessions() == []
    before = len(client.envelopes)
    await client.dispatch(chat, "chat/draftChanged", draft=DRAFT)
    await asyncio.sleep(0.3)
    assert len(client.envelopes) == before
    assert await host.store.sessions() == []


async def test_a_session_made_again_under_a_disposed_name_is_new(host: Host, client: WireClient) -> None:
    chat = await client.create(S)
    await client.say(chat, "hello")
    await client.request("disposeSession", channel=S)

    again = await client.create(S)

    assert again != chat
    assert client.state(again)["turns"] == []
    del client.mirrors[chat]
    await agree(host, client)


async def test_a_session_in_which_nothing_was_said_goes_with_its_last_watcher(
    host: Host, client: WireClient, other: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "_UNUSED_GRACE", -1.0)
    await other.request("listSessions")
    await client.create(S)
    await host.sweep()
    assert S in other.rows, "somebody watches"

    await client.drop()
    await host.sweep()

    assert other.rows == {}
    assert host.sessions == {}
    assert await host.store.sessions() == []


@pytest.mark.parametrize("use", ["turn", "draft", "title", "chat", "archive"])
async def test_D1_a_session_in_which_anything_was_said_stays(
    host: Host, client: WireClient, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "_UNUSED_GRACE", -1.0)
    chat = await client.create(S)
    if use == "turn":
        await client.say(chat, "hello")
    elif use == "draft":
        await client.do(chat, "chat/draftChanged", draft=DRAFT)
    elif use == "title":
        await client.do(S, "session/titleChanged", title="T")
    elif use == "archive":
        await client.do(S, "session/isArchivedChanged", isArchived=True)
    else:
        await client.request("createChat", channel=S, chat="ahp-chat:/two")

    await client.drop()
    await host.sweep()

    assert "s" in host.sessions


async def test_memory_of_what_is_gone_does_not_grow(host: Host, client: WireClient) -> None:
    for index in range(20):
        chat = await client.create(f"ahp-session:/{index}")
        await client.say(chat, "x")
        await client.request("createChat", channel=f"ahp-session:/{index}", chat=f"ahp-chat:/{index}")
        await client.request("disposeSession", channel=f"ahp-session:/{index}")
        visitor = WireClient(host)
        await visitor.initialize(ROOT)
        await visitor.drop()
    await quiet(host)

    assert host.sessions == {}
    assert host._sessions_of_chats == {}
    assert host.root.watchers == {client.connection}
    assert host.connections == {client.connection}
    assert set(client.connection.subscriptions) == {ROOT}


async def test_a_session_is_stored_before_it_is_answered(
    store: Store, host: Host, client: WireClient
) -> None:
    await client.request("createSession", channel=S, provider="test")

    (record,) = await store.sessions()
    assert record.id == "s"
