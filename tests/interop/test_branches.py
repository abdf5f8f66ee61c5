"""T19, T20: turns taken back and said anew, chats made from others, chats that move."""

from __future__ import annotations

import uuid

import pytest

from tests.interop.kinds import NEWEST, UI, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.pairs import two
from tests.interop.window import Refused, answer_text, window
from tests.mock_model import MockModel
from tests.support.server import JupyterServer


def named(kind: Kind) -> str:
    return kind.name


def texts(state: Json) -> list[str]:
    return [turn["message"]["text"] for turn in state["turns"]]


def told(model: MockModel) -> list[str]:
    """What people said, in the last request that the model had."""
    return [text for role, text in model.requests[-1].texts if role == "user"]


def new_chat() -> str:
    return f"ahp-chat:/{uuid.uuid4()}"


# ── T19: edit and send again ─────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
async def test_T19_a_message_is_edited_and_sent_again(server: JupyterServer, kind: Kind) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        first = await one.say(chat, "say one")
        await one.say(chat, "say two")
        await one.say(chat, "say three")
        before = await one.dispatch(chat, {"type": "chat/truncated", "turnId": first["id"]})
        turn = await one.start(chat, "say two, better")  # right behind it, as a window does
        await one.ended(chat, turn)
        assert texts(one.state(chat)) == ["say one", "say two, better"]
        assert (await one.answer_to(before))["action"]["turnId"] == first["id"]
        await other.ended(chat, turn)
        await chats.same()


async def test_T19_without_an_id_everything_goes_and_with_an_unknown_one_nothing(
    server: JupyterServer,
) -> None:
    async with two(server) as chats:
        one, chat = chats.one, chats.chat
        await one.say(chat, "say one")
        await one.say(chat, "say two")
        await one.done(chat, {"type": "chat/truncated", "turnId": "nobody"})
        await one.request("ping")
        assert texts(one.state(chat)) == ["say one", "say two"]
        await one.done(chat, {"type": "chat/truncated"})
        await one.request("ping")
        assert one.state(chat)["turns"] == []
        turn = await one.say(chat, "say a new beginning")
        await chats.other.ended(chat, turn["id"])
        await chats.same()


async def test_T19_a_turn_that_runs_is_dropped_and_its_agent_stopped(
    server: JupyterServer, model: MockModel
) -> None:
    async with two(server, provider="assistant") as chats:
        model.requests.clear()
        one, other, chat = chats.one, chats.other, chats.chat
        first = await one.say(chat, "first\n!!text yes")
        await one.start(chat, "second\n!!chunks 2\n!!hang")
        await one.envelope("chat/delta", chat)
        await model.until(lambda model: len(model.requests) == 2)
        await other.done(chat, {"type": "chat/truncated", "turnId": first["id"]})
        await model.until(lambda model: model.requests[1].aborted)
        await one.request("ping")
        assert "activeTurn" not in one.state(chat)
        assert one.state(chat)["status"] & 31 == 1
        turn = await one.say(chat, "second, better\n!!text good")
        assert answer_text(turn) == "good"
        assert told(model) == ["first\n!!text yes", "second, better\n!!text good"]
        await other.ended(chat, turn["id"])
        await chats.same()


async def test_T19_what_was_taken_back_is_not_there_after_a_restart(
    own_server: JupyterServer, model: MockModel
) -> None:
    async with window(own_server, VSCODE_140) as client:
        session, chat = await client.new_chat("assistant")
        await client.say(chat, "never said\n!!text no")
        await client.done(chat, {"type": "chat/truncated"})
        first = await client.say(chat, "kept\n!!text yes")
        await client.say(chat, "taken back\n!!text no")
        await client.done(chat, {"type": "chat/truncated", "turnId": first["id"]})
    own_server.kill()
    own_server.start()
    async with window(own_server, VSCODE_140) as client:
        await client.list()
        await client.open(session)
        assert client.state(chat)["turns"] == [first]
        await client.say(chat, "next\n!!text well")
        assert told(model) == ["kept\n!!text yes", "next\n!!text well"]


# ── T20: forks and side chats ────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
async def test_T20_a_fork_goes_on_from_a_turn_and_leaves_the_other_alone(
    server: JupyterServer, kind: Kind, model: MockModel
) -> None:
    async with two(server, kind, provider="assistant") as chats:
        model.requests.clear()
        one, other, chat = chats.one, chats.other, chats.chat
        await one.list()
        first = await one.say(chat, "one\n!!text yes")
        await one.say(chat, "two\n!!text yes")
        before = one.state(chat)
        fork = new_chat()
        source = {"kind": "fork", "chat": chat, "turnId": first["id"]}
        assert await one.request("createChat", chats.session, chat=fork, source=source) is None
        added = one.actions(chats.session, "session/chatAdded")[-1]["summary"]
        assert (added["resource"], added["origin"]) == (fork, source)
        assert added["title"] == "Forked: one"
        state = await one.subscribe(fork)
        assert state["origin"] == source
        assert texts(state) == ["one\n!!text yes"]
        assert await other.subscribe(fork) == state
        turn = await other.say(fork, "another two\n!!text no")
        assert told(model) == ["one\n!!text yes", "another two\n!!text no"]
        await one.ended(fork, turn["id"])
        assert one.state(fork) == other.state(fork)
        assert one.state(chat) == before
        assert one.rows is not None
        listed = {entry["resource"]: entry for entry in one.rows[chats.session]["chats"]}
        assert listed[fork]["origin"] == source
        await one.done(fork, {"type": "session/titleChanged", "title": "A new name"})
        await one.request("ping")
        entry = next(entry for entry in one.state(chats.session)["chats"] if entry["resource"] == fork)
        assert (entry["title"], entry["origin"]) == ("A new name", source)


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T20_a_side_chat_is_told_of_the_turn_that_it_is_about(
    server: JupyterServer, kind: Kind, model: MockModel
) -> None:
    async with two(server, kind, provider="assistant") as chats:
        model.requests.clear()
        one, chat = chats.one, chats.chat
        turn = await one.say(chat, "What is a mode?\n!!text The value that is there most often.")
        side = new_chat()
        picked = {"text": "most often", "responsePartId": turn["responseParts"][0]["id"]}
        source = {"kind": "sideChat", "chat": chat, "turnId": turn["id"], "selection": picked}
        await one.request("createChat", chats.session, chat=side, source=source)
        state = await one.subscribe(side)
        assert state["turns"] == []
        assert state["origin"] == source
        await one.say(side, "And if there are two?\n!!text Then it has two.")
        asked = str(model.requests[-1].texts)
        assert "The value that is there most often." in asked
        assert "And if there are two?" in asked
        assert "The value" not in str(one.state(side))
        bare = new_chat()
        source = {**source, "selection": {"text": ""}}
        await one.request("createChat", chats.session, chat=bare, source=source)
        assert "selection" not in (await one.subscribe(bare))["origin"]
        await chats.same()


async def test_T20_a_side_chat_of_the_turn_that_runs(server: JupyterServer, model: MockModel) -> None:
    async with two(server, provider="assistant") as chats:
        one, chat = chats.one, chats.chat
        turn = await one.start(chat, "Count\n!!chunks 3\n!!hang")
        await one.until(lambda: "c2" in answer_text(one.state(chat).get("activeTurn", {"responseParts": []})))
        side = new_chat()
        source = {"kind": "sideChat", "chat": chat, "turnId": turn}
        await one.request("createChat", chats.session, chat=side, source=source)
        await one.subscribe(side)
        model.requests.clear()
        await one.say(side, "How far is it?\n!!text At two.")
        assert "c0 c1 c2" in str(model.requests[-1].texts)
        await one.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 1})


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "somethingNew", "chat": "{chat}", "turnId": "{turn}"},
        {"chat": "{chat}", "turnId": "{turn}"},
        {"kind": "fork", "chat": "{chat}", "turnId": "nobody"},
        {"kind": "fork", "chat": "ahp-chat:/nobody", "turnId": "{turn}"},
        {"kind": "sideChat", "chat": "{chat}", "turnId": "nobody"},
    ],
)
async def test_T20_S1_a_source_that_means_nothing_makes_nothing(server: JupyterServer, source: Json) -> None:
    async with two(server) as chats:
        one, chat = chats.one, chats.chat
        turn = await one.say(chat, "say one")
        named = {key: value.format(chat=chat, turn=turn["id"]) for key, value in source.items()}
        with pytest.raises(Refused) as refused:
            await one.request("createChat", chats.session, chat=new_chat(), source=named)
        assert refused.value.code in (-32602, -32001)
        await one.request("ping")
        assert len(one.state(chats.session)["chats"]) == 1


async def test_T20_the_origin_outlives_a_restart(own_server: JupyterServer, model: MockModel) -> None:
    async with window(own_server, NEWEST) as client:
        session, chat = await client.new_chat("assistant")
        turn = await client.say(chat, "What is a mode?\n!!text The most frequent value.")
        fork, side = new_chat(), new_chat()
        sources = {
            fork: {"kind": "fork", "chat": chat, "turnId": turn["id"]},
            side: {
                "kind": "sideChat",
                "chat": chat,
                "turnId": turn["id"],
                "selection": {"text": "frequent"},
            },
        }
        for made, source in sources.items():
            await client.request("createChat", session, chat=made, source=source)
    own_server.kill()
    own_server.start()
    async with window(own_server, NEWEST) as client:
        await client.list()
        await client.open(session)
        assert client.rows is not None
        listed = {entry["resource"]: entry["origin"] for entry in client.rows[session]["chats"]}
        for made, source in sources.items():
            assert listed[made] == source
            assert (await client.subscribe(made))["origin"] == source
        assert texts(client.state(fork)) == ["What is a mode?\n!!text The most frequent value."]
        await client.say(side, "Say more\n!!text Fine.")
        assert "The most frequent value." in str(model.requests[-1].texts)


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_U12_a_chat_moves_under_its_name_and_is_watched_on(server: JupyterServer) -> None:
    async with window(server, UI) as client, window(server, VSCODE_141) as older:
        await older.list()
        home, default = await client.new_chat("puppet")
        away, other_default = await client.new_chat("puppet")
        chat, second = new_chat(), new_chat()
        for name in (chat, second):
            await client.request("createChat", home, chat=name)
        await client.subscribe(chat)
        await older.subscribe(chat)
        await client.say(chat, "say before")
        await client.request(
            "moveChat", second, destination={"kind": "session", "session": home, "after": default}
        )
        order = [entry["resource"] for entry in client.state(home)["chats"]]
        assert order == [default, second, chat]
        moved = await client.request("moveChat", chat, destination={"kind": "session", "session": away})
        assert moved == {"session": away}
        await client.say(chat, "say after")
        assert [entry["resource"] for entry in client.state(home)["chats"]] == [default, second]
        assert [entry["resource"] for entry in client.state(away)["chats"]] == [chat, other_default]
        alone = await client.request("moveChat", chat, destination={"kind": "newSession"})
        assert await client.open(alone["session"]) == chat
        turn = await client.say(chat, "say alone")
        await older.ended(chat, turn["id"])
        assert texts(older.state(chat)) == ["say before", "say after", "say alone"]
        for name, destination in (
            (chat, {"kind": "session", "session": home}),  # it is a default chat now
            (new_chat(), {"kind": "session", "session": home}),
            (second, {"kind": "session", "session": f"ahp-session:/{uuid.uuid4()}"}),
            (second, {"kind": "session", "session": home, "after": chat}),
        ):
            with pytest.raises(Refused):
                await client.request("moveChat", name, destination=destination)
