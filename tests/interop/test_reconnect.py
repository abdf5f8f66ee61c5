"""T27, T28: sockets that break and clients that come back, to this host and to the next."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.interop.kinds import AHPC, NEWEST, ROOT, UI, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.pairs import two
from tests.interop.window import Refused, Window, answer_text, started, user_message, window
from tests.support.server import JupyterServer


def named(kind: Kind) -> str:
    return kind.name


async def break_off(client: Window) -> None:
    """The network goes; nobody says goodbye."""
    client.socket.transport.abort()
    await client._reader


KINDS = [VSCODE_140, VSCODE_141, NEWEST, UI, AHPC]


# ── T27 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", KINDS, ids=named)
async def test_T27_what_was_missed_is_made_good(server: JupyterServer, kind: Kind) -> None:
    """The socket breaks in the middle of an answer. The harness compares what the client then has with the host."""
    async with window(server, kind, client_id=f"back-{uuid.uuid4()}") as first:
        session, chat = await first.new_chat("puppet")
        turn = await first.start(chat, "slowly 40\ntool find\nsay done")
        await first.envelope("chat/delta", chat)
        await break_off(first)
    await asyncio.sleep(0.2)
    async with window(server, kind, client_id=first.client_id, greet=False) as second:
        answer = await second.reconnect(first)
        assert answer["type"] in ("replay", "snapshot")
        ended = await second.ended(chat, turn)
        assert answer_text(ended).endswith("39 done")
        assert second.watched.keys() == first.watched.keys()
        assert session in second.watched


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T27_a_turn_sent_again_after_a_reconnect_runs_once(server: JupyterServer, kind: Kind) -> None:
    async with window(server, kind, client_id=f"back-{uuid.uuid4()}") as first:
        _, chat = await first.new_chat("puppet")
        await first.say(chat, "say before")
        action = started("again", "slowly 10")
        number = await first.dispatch(chat, action)
        await first.request("ping")  # it arrived; its echo may have, too
        await break_off(first)
    async with window(server, kind, client_id=first.client_id, greet=False) as second:
        await second.reconnect(first)
        for _ in range(2):
            await second.dispatch(chat, action, seq=number)
        await second.ended(chat, "again")
        await second.dispatch(chat, action, seq=number)
        await second.request("ping")
        assert [turn["id"] for turn in second.state(chat)["turns"]][1:] == ["again"]
        starts = [
            sent
            for sent in [*first.envelopes(chat), *second.envelopes(chat)]
            if sent["action"].get("turnId") == "again" and sent["action"]["type"] == "chat/turnStarted"
        ]
        assert len({sent["serverSeq"] for sent in starts}) == 1


async def test_T27_a_turn_whose_sending_was_lost_runs_when_it_is_sent_again(server: JupyterServer) -> None:
    async with window(server, VSCODE_141, client_id=f"back-{uuid.uuid4()}") as first:
        _, chat = await first.new_chat("puppet")
        await break_off(first)
    number = next(first._numbers)
    async with window(server, VSCODE_141, client_id=first.client_id, greet=False) as second:
        await second.reconnect(first)
        await second.dispatch(chat, started("lost", "say found"), seq=number)
        assert answer_text(await second.ended(chat, "lost")) == "found"


@pytest.mark.parametrize(
    "action",
    [
        {"type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": user_message("say q")},
        {"type": "chat/draftChanged", "draft": user_message("half a")},
        {"type": "chat/isArchivedChanged", "isArchived": True},
    ],
    ids=lambda action: action["type"],
)
async def test_T27_every_action_that_is_sent_again_is_answered_and_done_once(
    server: JupyterServer, action: Json
) -> None:
    async with two(server) as chats:
        watcher, chat = chats.other, chats.chat
        async with window(server, VSCODE_140, client_id=f"back-{uuid.uuid4()}") as first:
            await first.subscribe(chat)
            number = await first.dispatch(chat, action)
            await first.request("ping")
            await break_off(first)
        async with window(server, VSCODE_140, client_id=first.client_id, greet=False) as second:
            await second.reconnect(first)
            await second.dispatch(chat, action, seq=number)
            answer = await second.answer_to(number)
            assert answer["action"]["type"] == action["type"]
            await watcher.request("ping")
            seen = watcher.actions(chat, action["type"])
            assert len(seen) == 1
            if "message" in action:
                await watcher.until(lambda: len(watcher.state(chat)["turns"]) == 1)


async def test_T27_what_is_gone_meanwhile_is_missing_and_nothing_else(server: JupyterServer) -> None:
    async with window(server, NEWEST, client_id=f"back-{uuid.uuid4()}") as first:
        kept, _ = await first.new_chat("puppet")
        gone, gone_chat = await first.new_chat("puppet")
        await break_off(first)
    async with window(server, UI) as other:
        await other.request("disposeSession", gone)
    async with window(server, NEWEST, client_id=first.client_id, greet=False) as second:
        answer = await second.reconnect(first)
        if answer["type"] == "replay":
            assert sorted(answer["missing"]) == sorted([gone, gone_chat])
        assert kept in second.watched
        assert gone not in second.watched


@pytest.mark.parametrize("kind", KINDS, ids=named)
async def test_T27_the_next_host_asks_for_a_greeting_and_counts_on(
    own_server: JupyterServer, kind: Kind
) -> None:
    async with window(own_server, kind, client_id="the-same") as first:
        session, chat = await first.new_chat("puppet")
        turn = await first.say(chat, "say before")
        await first.done(session, {"type": "session/titleChanged", "title": "Kept"})
        await first.request("ping")
        highest = first.seq
        held = sorted(first.watched, key=lambda name: first.watched[name].kind != "root")
        await break_off(first)
    await asyncio.sleep(1.2)  # a title is on disk within a second
    own_server.kill()
    own_server.start()
    async with window(own_server, kind, client_id="the-same", greet=False) as second:
        with pytest.raises(Refused) as refused:
            await second.reconnect(first)
        assert refused.value.code == -32008
        second.watched, second.seq = {}, 0
        hello = await second.initialize(initialSubscriptions=held)
        assert hello["serverSeq"] >= highest
        assert [shot["resource"] for shot in hello["snapshots"]] == held
        assert all(shot["fromSeq"] >= highest for shot in hello["snapshots"])
        assert second.state(session)["title"] == "Kept"
        assert second.state(chat)["turns"] == [turn]
        assert answer_text(await second.say(chat, "say after")) == "after"


@pytest.mark.parametrize("arrived", [True, False], ids=["arrived", "lost"])
@pytest.mark.parametrize("kind", [VSCODE_141, NEWEST], ids=named)
async def test_T27_what_was_under_way_when_the_host_died_is_done_once(
    own_server: JupyterServer, kind: Kind, arrived: bool
) -> None:
    """A window keeps what was not answered over a host's restart, and sends it again under the same numbers."""
    sent = [
        started("t-new", "slowly 100"),
        {"type": "chat/pendingMessageSet", "kind": "queued", "id": "q-new", "message": user_message("say q")},
    ]
    async with window(own_server, UI) as watcher:
        async with window(own_server, kind, client_id="the-same") as first:
            identity = str(uuid.uuid4())
            chat = await first.open(await first.create("puppet", identity))
            await first.say(chat, "say before")
            await watcher.subscribe(chat)
            first.socket.transport.pause_reading()
            if arrived:
                numbers = [await first.dispatch(chat, action) for action in sent]
                await watcher.until(lambda: watcher.state(chat).get("queuedMessages"), "the message")
            else:
                numbers = [next(first._numbers) for _ in sent]
            own_server.kill()
            await break_off(first)
        await watcher._reader
    own_server.start()
    async with window(own_server, kind, client_id="the-same", greet=False) as second:
        with pytest.raises(Refused):
            await second.reconnect(first)
        held = list(first.watched)
        second.watched, second.seq = {}, 0
        await second.initialize(initialSubscriptions=held)
        for number, action in zip(numbers, sent, strict=True):
            await second.dispatch(chat, action, seq=number)
        for number in numbers:
            await second.answer_to(number)
        if arrived:  # it was cut off, and can be taken up again; what waits behind it waits
            state = second.state(chat)
            assert [turn["id"] for turn in state["turns"]][1:] == ["t-new"]
            assert state["turns"][-1]["responseParts"][-1]["resumable"] is True
            assert [waiting["id"] for waiting in state["queuedMessages"]] == ["q-new"]
            await second.done(chat, {"type": "chat/turnResume", "turnId": "t-new"})
        await second.until(lambda: len(second.state(chat)["turns"]) == 3)
        texts = [turn["message"]["text"] for turn in second.state(chat)["turns"]]
        assert texts == ["say before", "slowly 100", "say q"]
        assert "queuedMessages" not in second.state(chat)


async def test_T27_a_client_that_nobody_knows_and_one_that_is_somebody_else(server: JupyterServer) -> None:
    async with window(server, NEWEST, greet=False) as client:
        params = {"lastSeenServerSeq": 0, "subscriptions": [ROOT]}
        with pytest.raises(Refused) as refused:
            await client.request("reconnect", clientId=str(uuid.uuid4()), **params)
        assert refused.value.code == -32008
        await client.initialize()  # the same socket will do


async def test_T27_a_client_far_behind_is_given_snapshots(server: JupyterServer) -> None:
    """More has happened than is kept for a replay."""
    async with window(server, VSCODE_141, client_id=f"back-{uuid.uuid4()}") as first:
        session, chat = await first.new_chat("echo")
        await break_off(first)
    async with window(server, UI) as other:
        await other.subscribe(chat)
        for _ in range(3):
            await other.say(chat, "word " * 700_000)
    async with window(server, VSCODE_141, client_id=first.client_id, greet=False) as second:
        answer = await second.reconnect(first)
        assert answer["type"] == "snapshot"
        assert len(second.state(chat)["turns"]) == 3
        assert second.watched.keys() == {ROOT, session, chat}


# ── T28 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_T28_the_older_of_two_sockets_of_a_client_takes_nothing_along(server: JupyterServer) -> None:
    async with window(server, UI) as other:
        identity = str(uuid.uuid4())
        async with window(server, NEWEST, client_id=f"twice-{identity}") as old:
            session = await old.create("puppet", identity, activeClient=old.active("a-tool"))
            chat = await old.open(session)
            await other.subscribe(session)
            async with window(server, NEWEST, client_id=old.client_id, greet=False) as new:
                await new.reconnect(old)
                await break_off(old)
                await other.request("ping")
                (active,) = other.state(session)["activeClients"]
                assert [tool["name"] for tool in active["tools"]] == ["a-tool"]
                assert answer_text(await new.say(chat, "say on")) == "on"


async def test_T28_both_sockets_of_a_client_are_told(server: JupyterServer) -> None:
    async with window(server, NEWEST, client_id=f"twice-{uuid.uuid4()}") as old:
        session, chat = await old.new_chat("puppet")
        async with window(server, NEWEST, client_id=old.client_id) as new:
            new._numbers = old._numbers
            await new.subscribe(session)
            await new.subscribe(chat)
            turn = await old.say(chat, "say one")
            assert await new.ended(chat, turn["id"]) == turn


async def test_T28_a_client_that_leaves_a_session_is_not_listed_in_it(server: JupyterServer) -> None:
    async with window(server, UI) as other:
        async with window(server, NEWEST) as client:
            session = await client.create("puppet", activeClient=client.active("a-tool"))
            await client.subscribe(session)
            await other.subscribe(session)
            assert len(other.state(session)["activeClients"]) == 1
            await client.unsubscribe(session)
        await other.request("ping")
        assert other.state(session)["activeClients"] == []


@pytest.mark.slow
async def test_T28_a_client_that_does_not_come_back_is_dropped_after_its_grace(server: JupyterServer) -> None:
    async with window(server, UI) as other:
        async with window(server, NEWEST) as client:
            session = await client.create("puppet", activeClient=client.active("a-tool"))
            await client.subscribe(session)
            await other.subscribe(session)
            await break_off(client)
        await asyncio.sleep(20)
        await other.request("ping")
        assert len(other.state(session)["activeClients"]) == 1
        await other.until(lambda: other.state(session)["activeClients"] == [], timeout=30)
