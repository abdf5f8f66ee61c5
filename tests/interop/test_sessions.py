"""T8 to T12, T25, T26, T29, T34, T37: sessions and chats, made, named, marked, left and closed by several clients."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid

import pytest

from tests.interop.kinds import AHPC, AHPX, EVERY, NEWEST, UI, VSCODE_140, VSCODE_141, Kind
from tests.interop.window import Refused, answer_text, started, user_message, window
from tests.support.server import JupyterServer

OLDER = (VSCODE_140, VSCODE_141)


def named(kind: Kind) -> str:
    return kind.name


def derived(session: str) -> str:
    return "ahp-chat://default/" + base64.urlsafe_b64encode(session.encode()).decode().rstrip("=")


# ── T8, T9: creating ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", OLDER, ids=named)
async def test_T8_an_older_window_finds_the_chat_that_it_works_out_for_itself(
    server: JupyterServer, kind: Kind
) -> None:
    async with window(server, kind) as client, window(server, NEWEST) as other:
        await other.list()
        session = await client.create("puppet", workingDirectories=["file:///tmp"])
        added = await client.message(lambda message: message.get("method") == "root/sessionAdded")
        assert added["params"]["summary"]["resource"] == session
        assert (await client.subscribe(session))["defaultChat"] == derived(session)
        assert (await client.subscribe(derived(session)))["resource"] == derived(session)
        turn = await client.say(derived(session), "say at once")
        assert answer_text(turn) == "at once"


@pytest.mark.parametrize("kind", EVERY, ids=named)
async def test_T8_what_cannot_be_made(server: JupyterServer, kind: Kind) -> None:
    async with window(server, kind) as client:
        await client.list()
        session = kind.session("echo", str(uuid.uuid4()))
        with pytest.raises(Refused) as refused:
            await client.request(
                "createSession",
                session,
                provider="echo",
                activeClient={**client.active(), "clientId": "else"},
            )
        assert refused.value.code == -32602
        with pytest.raises(Refused) as refused:
            await client.request("createSession", session, provider="nobody")
        assert refused.value.code == -32002
        await client.request("createSession", session, provider="echo", activeClient=client.active())
        with pytest.raises(Refused) as refused:
            await client.request("createSession", session, provider="echo", activeClient=client.active())
        assert refused.value.code == -32003


async def test_T8_one_id_is_one_session_in_either_spelling(server: JupyterServer) -> None:
    identity = str(uuid.uuid4())
    async with window(server, VSCODE_141) as older, window(server, NEWEST) as newest:
        await older.create("echo", identity)
        with pytest.raises(Refused) as refused:
            await newest.create("echo", identity)
        assert refused.value.code == -32003
        with pytest.raises(Refused) as refused:
            await newest.subscribe("ahp-session:/" + str(uuid.uuid4()))
        assert refused.value.code == -32001
        assert "Resource not found: " in refused.value.message


@pytest.mark.parametrize("maker", [NEWEST, UI, AHPX, AHPC], ids=named)
async def test_T9_two_generations_of_windows_in_one_chat(server: JupyterServer, maker: Kind) -> None:
    """One chat URI for both, two spellings of the session: the harness sees to it that neither reads the other's."""
    identity = str(uuid.uuid4())
    async with window(server, maker) as client, window(server, VSCODE_140) as older:
        session = await client.create("puppet", identity)
        chat = await client.open(session)
        assert chat.startswith("ahp-chat:/")
        assert not chat.startswith("ahp-chat://")
        assert await older.open(f"puppet:/{identity}") == chat
        await client.say(chat, "say one")
        turn = await older.say(chat, "think hard\ntool find\nsay two")
        await client.ended(chat, turn["id"])
        assert older.state(chat)["turns"] == client.state(chat)["turns"]
        assert [answer_text(turn) for turn in client.state(chat)["turns"]] == ["one", "two"]


@pytest.mark.parametrize("kind", OLDER, ids=named)
async def test_T9_a_newest_window_in_an_older_ones_chat(server: JupyterServer, kind: Kind) -> None:
    async with window(server, kind) as older, window(server, NEWEST) as newest:
        identity = str(uuid.uuid4())
        chat = await older.open(await older.create("puppet", identity))
        assert await newest.open(f"ahp-session:/{identity}") == chat
        turn = await newest.say(chat, "say hello")
        await older.ended(chat, turn["id"])
        assert older.state(chat)["turns"] == newest.state(chat)["turns"]


# ── T10, T37: early and abandoned ────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [*OLDER, NEWEST], ids=named)
async def test_T10_T37_a_session_that_is_made_early_set_up_and_given_up(
    server: JupyterServer, kind: Kind
) -> None:
    """It is announced at once, once, and taken back."""
    async with window(server, kind) as client, window(server, NEWEST) as other:
        await other.list()
        session = await client.create("puppet")
        await client.subscribe(session)
        assert client.state(session)["config"]["values"] == {"mood": "good"}
        for mood in ("bad", "good"):
            action = {"type": "session/configChanged", "config": {"mood": mood}}
            echo = await client.done(session, action)
            assert echo["action"] == action
            assert client.state(session)["config"]["values"] == {"mood": mood}
        assert await client.request("disposeSession", session) is None
        await client.message(lambda message: message.get("method") == "root/sessionRemoved")
        await other.request("ping")
        told = [
            m["method"] for m in other.inbox if m["method"] in ("root/sessionAdded", "root/sessionRemoved")
        ]
        assert told == ["root/sessionAdded", "root/sessionRemoved"]
        with pytest.raises(Refused) as refused:
            await client.request("disposeSession", session)
        assert refused.value.code == -32001
        await client.create("puppet", session.rpartition("/")[2])  # its name is free again


# ── T12: active clients ──────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [*OLDER, NEWEST], ids=named)
async def test_T12_an_unchanged_announcement_is_not_said_again(server: JupyterServer, kind: Kind) -> None:
    async with window(server, kind) as client, window(server, NEWEST) as other:
        identity = str(uuid.uuid4())
        session = await client.create("echo", identity)
        await client.subscribe(session)
        await other.subscribe(f"ahp-session:/{identity}")
        for tools in ((), ("open",), ("open",), ("open",), ("open", "close")):
            await client.dispatch(
                session, {"type": "session/activeClientSet", "activeClient": client.active(*tools)}
            )
        await client.request("ping")
        await other.request("ping")
        said = [
            [tool["name"] for tool in action["activeClient"]["tools"]]
            for action in client.actions(session, "session/activeClientSet")
        ]
        assert said == [["open"], ["open", "close"]]
        assert len(other.actions(f"ahp-session:/{identity}", "session/activeClientSet")) == 2
        reason = await other.refused(
            f"ahp-session:/{identity}", {"type": "session/activeClientSet", "activeClient": client.active()}
        )
        assert reason


# ── T25: archived ────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [*OLDER, NEWEST], ids=named)
async def test_T25_an_archived_session_takes_no_turn_until_it_is_taken_out(
    server: JupyterServer, kind: Kind
) -> None:
    async with window(server, kind) as client, window(server, UI) as other:
        await client.list()
        session, chat = await client.new_chat("puppet")
        await client.say(chat, "say before")
        await client.done(session, {"type": "session/isArchivedChanged", "isArchived": True})
        await client.request("ping")
        assert client.rows is not None
        assert client.rows[session]["status"] & 64
        reason = await client.refused(chat, started("refused", "say nothing"))
        assert "archive" in reason
        assert (await other.list())["ahp-session:/" + session.rpartition("/")[2]]["status"] & 64
        await client.done(session, {"type": "session/isArchivedChanged", "isArchived": False})
        assert answer_text(await client.say(chat, "say after")) == "after"
        await client.request("ping")
        assert not client.rows[session]["status"] & 64


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T25_marks_of_a_chat_stay_with_it(server: JupyterServer, kind: Kind) -> None:
    async with window(server, kind) as client:
        session, chat = await client.new_chat("puppet")
        second = f"ahp-chat:/{uuid.uuid4()}"
        assert await client.request("createChat", session, chat=second) is None
        await client.subscribe(second)
        await client.say(second, "say something")
        for bit, name in ((64, "isArchived"), (32, "isRead")):
            await client.done(second, {"type": f"chat/{name}Changed", name: True})
            await client.request("ping")
            entry = next(one for one in client.state(session)["chats"] if one["resource"] == second)
            assert entry["status"] & bit
        assert not client.state(chat)["status"] & 64
        await client.list()
        assert client.rows is not None
        assert not client.rows[session]["status"] & 64


# ── T26: names ───────────────────────────────────────────────────────────────────────────────────────────────────
async def test_T26_a_title_on_the_sessions_channel_or_on_the_chats(server: JupyterServer) -> None:
    """1.141 sends a chat's new name as `session/titleChanged` on the chat's channel."""
    async with window(server, VSCODE_141) as client, window(server, NEWEST) as other:
        await client.list()
        await other.list()
        assert client.rows is not None
        identity = str(uuid.uuid4())
        session = await client.create("echo", identity)
        chat = await client.open(session)
        await other.open(f"ahp-session:/{identity}")
        await client.done(session, {"type": "session/titleChanged", "title": "By its session"})
        await client.request("ping")
        assert client.state(session)["title"] == "By its session"
        assert client.rows[session]["title"] == "By its session"
        await client.done(chat, {"type": "session/titleChanged", "title": "By its chat"})
        await client.request("ping")
        assert client.state(session)["chats"][0]["title"] == "By its chat"
        assert client.state(session)["title"] == "By its chat"
        assert client.rows[session]["title"] == "By its chat"
        second = f"ahp-chat:/{uuid.uuid4()}"
        await client.request("createChat", session, chat=second)
        await client.subscribe(second)
        await client.done(second, {"type": "session/titleChanged", "title": "Another"})
        await client.request("ping")
        assert client.rows[session]["title"] == "By its chat"
        assert [one["title"] for one in client.rows[session]["chats"]] == ["By its chat", "Another"]
        assert (await client.subscribe(second))["title"] == "Another"


async def test_T26_T8_the_first_message_names_an_untitled_chat_and_nothing_later_does(
    server: JupyterServer,
) -> None:
    async with window(server, NEWEST) as client:
        await client.list()
        session, chat = await client.new_chat()
        assert client.state(session)["title"] == ""
        await client.say(chat, "  # Why is `x` so *large*?\nMore lines")
        await client.request("ping")
        assert client.rows is not None
        assert client.rows[session]["title"] == "Why is x so large?"
        await client.say(chat, "And now this")
        await client.request("ping")
        assert client.rows[session]["title"] == "Why is x so large?"


# ── T29: dropped and taken again ─────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T29_a_chat_that_is_dropped_and_taken_again_is_the_same_conversation(
    server: JupyterServer, kind: Kind
) -> None:
    async with window(server, kind) as client:
        session, chat = await client.new_chat("puppet")
        assert answer_text(await client.say(chat, "lives")) == "life 1"
        turn = await client.start(chat, "slowly 30\nlives")
        await client.until(lambda: "activeTurn" in client.state(chat))
        for _ in range(5):
            await client.leave(chat)
            await client.leave(session)
            await client.subscribe(session)
            await client.subscribe(chat)
        assert answer_text(await client.ended(chat, turn)).endswith("29 life 1")


# ── T34: closing ─────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_141, NEWEST], ids=named)
async def test_T34_the_default_chat_stays_and_one_that_is_not_there_is_closed(
    server: JupyterServer, kind: Kind
) -> None:
    async with window(server, kind) as client:
        session, chat = await client.new_chat()
        await client.say(chat, "keep this")
        assert await client.request("disposeChat", chat) is None
        assert len((await client.subscribe(chat))["turns"]) == 1
        assert await client.request("disposeChat", f"ahp-chat:/{uuid.uuid4()}") is None
        second = f"ahp-chat:/{uuid.uuid4()}"
        await client.request("createChat", session, chat=second)
        await client.subscribe(second)
        assert await client.request("disposeChat", second) is None
        assert client.actions(session, "session/chatRemoved")[-1]["chat"] == second
        with pytest.raises(Refused) as refused:
            await client.subscribe(second)
        assert (refused.value.code, refused.value.message) == (-32001, f"Resource not found: {second}")
        assert (
            await client.request("createChat", session, chat=chat) is None
        )  # the default one: nothing to do
        assert [one["resource"] for one in client.state(session)["chats"]] == [chat]


@pytest.mark.parametrize("kind", EVERY, ids=named)
async def test_T34_U6_the_derived_name_of_a_session_that_nobody_has_is_no_chat(
    server: JupyterServer, kind: Kind
) -> None:
    async with window(server, kind) as client:
        chat = derived(kind.session("echo", str(uuid.uuid4())))
        with pytest.raises(Refused) as refused:
            await client.subscribe(chat)
        assert (refused.value.code, refused.value.message) == (-32001, f"Resource not found: {chat}")


@pytest.mark.parametrize("kind", OLDER, ids=named)
async def test_U8_an_older_windows_name_for_another_chat_is_taken(server: JupyterServer, kind: Kind) -> None:
    """It finds a chat's session in its name: `ahp-chat://<id>/<base64url(session)>`."""
    async with window(server, kind) as client, window(server, NEWEST) as other:
        identity = str(uuid.uuid4())
        session = await client.create("puppet", identity)
        await client.open(session)
        peer = derived(session).replace("//default/", f"//{uuid.uuid4()}/")
        assert await client.request("createChat", session, chat=peer) is None
        assert (await client.subscribe(peer))["resource"] == peer
        assert (await other.subscribe(f"ahp-session:/{identity}"))["chats"][1]["resource"] == peer
        await other.subscribe(peer)
        turn = await other.say(peer, "say hello")
        assert await client.ended(peer, turn["id"]) == turn


async def test_U5_the_derived_name_means_a_session_only_while_its_record_says_so(
    server: JupyterServer,
) -> None:
    async with window(server, NEWEST) as client, window(server, VSCODE_140) as older:
        identity = str(uuid.uuid4())
        await client.create("echo", identity)
        for name in (f"ahp-session:/{identity}", f"echo:/{identity}"):
            with pytest.raises(Refused) as refused:
                await older.subscribe(derived(name))
            assert refused.value.code == -32001


async def test_two_tries_at_once_make_one_session(server: JupyterServer) -> None:
    identity = str(uuid.uuid4())
    async with window(server, NEWEST) as one, window(server, VSCODE_141) as two:
        made = await asyncio.gather(
            one.create("echo", identity), two.create("echo", identity), return_exceptions=True
        )
        refusals = [error for error in made if isinstance(error, Refused)]
        assert [refusal.code for refusal in refusals] == [-32003]


# ── T23: completions ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_141, NEWEST], ids=named)
async def test_T23_suggestions_are_such_as_a_window_keeps(server: JupyterServer, kind: Kind) -> None:
    """A window drops a `simple` suggestion without `_meta.command` or `_meta.uri`. Older ones ask on the session."""
    folder = server.home.files / f"project-{uuid.uuid4()}"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "table.csv").write_text("a,b\n")
    async with window(server, kind) as client:
        session = await client.create("puppet", workingDirectories=[folder.as_uri()])
        chat = await client.open(session)
        await client.say(chat, "say the one that is open")
        other = f"ahp-chat:/{uuid.uuid4()}"
        await client.request("createChat", session, chat=other)
        empty = f"ahp-chat:/{uuid.uuid4()}"
        await client.request("createChat", session, chat=empty)
        await client.subscribe(other)
        last = await client.say(other, "say how we got here")
        channel = session if kind is VSCODE_141 else chat

        async def offered(text: str) -> list[dict[str, object]]:
            answer = await client.request(
                "completions", channel, kind="userMessage", text=text, offset=len(text)
            )
            items: list[dict[str, object]] = answer["items"]
            for item in items:
                assert item["insertText"]
                attachment = item["attachment"]
                assert isinstance(attachment, dict)
                if attachment["type"] == "simple":
                    assert attachment["_meta"].get("command") or attachment["_meta"].get("uri")
            return items

        assert [item["insertText"] for item in await offered("/p")] == ["/preview ", "/plot ", "/plan "]
        assert await offered("say /p") == []
        (path,) = await offered("look at @table")
        assert json.loads(json.dumps(path["attachment"]))["uri"].endswith("/data/table.csv")
        chats = [item for item in await offered("as in #chat:") if item["attachment"]["type"] == "chat"]  # type: ignore[index]
        own = [item for item in chats if item["attachment"]["resource"] in (chat, other, empty)]  # type: ignore[index]
        assert [item["attachment"]["resource"] for item in own] == [other]  # type: ignore[index]
        assert own[0]["attachment"]["endTurn"] == last["id"]  # type: ignore[index]
        assert own[0]["insertText"] == "#chat:say how we got here "
        both = await offered("as in #")
        assert {item["attachment"]["type"] for item in both} >= {"chat", "resource"}  # type: ignore[index]
        assert {item["attachment"]["type"] for item in await offered("as in #table")} == {"resource"}  # type: ignore[index]


async def test_a_first_message_with_the_chat(server: JupyterServer) -> None:
    async with window(server, NEWEST) as client:
        session, _ = await client.new_chat("puppet")
        chat = f"ahp-chat:/{uuid.uuid4()}"
        await client.request("createChat", session, chat=chat, initialMessage=user_message("slowly 5"))
        assert client.actions(session, "session/chatAdded")[-1]["summary"]["resource"] == chat
        state = await client.subscribe(chat)
        turn = state["activeTurn"]["id"] if "activeTurn" in state else state["turns"][0]["id"]
        assert answer_text(await client.ended(chat, turn)) == "0 1 2 3 4 "
