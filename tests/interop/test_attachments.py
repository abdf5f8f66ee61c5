"""T21, T22, T24: what a message carries, what becomes of it on the way, and what the model is told."""

from __future__ import annotations

import asyncio
import base64
import os
import urllib.parse
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.interop.kinds import AHPX, NEWEST, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.pairs import two
from tests.interop.window import Window, started, user_message, window
from tests.mock_model import MockModel
from tests.support.server import JupyterServer

SNAPSHOT = "vscode.agentHost.snapshotAttachment"
PNG = b"\x89PNG\r\n\x1a\n"


def named(kind: Kind) -> str:
    return kind.name


def path_of(uri: str) -> Path:
    parts = urllib.parse.urlsplit(uri)
    assert parts.scheme == "file"
    return Path(urllib.parse.unquote(parts.path))


def told(model: MockModel) -> str:
    """What the last request's last message said."""
    return model.requests[-1].texts[-1][1]


def snapshot(attachment: Json, label: str) -> Path:
    """The host's own copy that the attachment became: under `attachments`, a folder of its own, the label."""
    assert attachment["type"] == "resource"
    assert attachment["label"] == label
    assert "data" not in attachment
    assert attachment["_meta"][SNAPSHOT]["isSnapshot"] is True
    path = path_of(attachment["uri"])
    assert path.parent.parent.name == "attachments"
    assert uuid.UUID(path.parent.name)
    return path


# ── T21 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T21_T22_a_pasted_picture_is_written_once_and_seen_by_the_model(
    server: JupyterServer, kind: Kind, model: MockModel
) -> None:
    picture = PNG + os.urandom(3 * 1024 * 1024)
    pasted = {
        "type": "embeddedResource",
        "label": "plot: a/b.png",
        "displayKind": "image",
        "contentType": "image/png",
        "data": base64.b64encode(picture).decode(),
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 4}},
        "_meta": {"theirs": 1},
    }
    async with two(server, kind, provider="assistant") as chats:
        model.requests.clear()
        action = started("r", "What is this?", attachments=[pasted], model={"id": "seeing"})
        number = await chats.one.dispatch(chats.chat, action)
        echo = await chats.one.answer_to(number)
        (sent,) = echo["action"]["message"]["attachments"]
        path = snapshot(sent, "plot: a/b.png")
        assert path.name == "plot_ a_b.png"
        assert path.read_bytes() == picture
        assert sent["displayKind"] == "image"
        assert sent["range"] == pasted["range"]
        assert sent["_meta"]["theirs"] == 1
        assert sent["_meta"][SNAPSHOT]["contentType"] == "image/png"
        turn = await chats.one.ended(chats.chat, "r")
        assert turn["message"]["attachments"] == [sent]
        assert "[image/png]" in told(model)
        await chats.other.ended(chats.chat, "r")
        await chats.same()


@pytest.mark.parametrize("kind", [VSCODE_141, NEWEST], ids=named)
async def test_T21_a_file_that_only_the_client_has_is_asked_for_on_its_socket(
    server: JupyterServer, kind: Kind, model: MockModel
) -> None:
    uri = "file:///home/mia/on-her-laptop/notes.txt"
    async with two(server, kind, provider="assistant") as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        model.requests.clear()
        asked: list[Json] = []

        def read(params: Json) -> Json:
            asked.append(params)
            data = base64.b64encode(b"Means and modes").decode()
            return {"result": {"data": data, "encoding": "base64", "contentType": "text/plain"}}

        one.serve["resourceRead"] = read
        other.serve["resourceRead"] = lambda params: {"error": {"code": -32008, "message": "not mine"}}
        attachment = {"type": "resource", "label": "notes.txt", "uri": uri, "displayKind": "document"}
        turn = await one.say(chat, "Read this", attachments=[attachment])
        assert [params["uri"] for params in asked] == [uri]
        (sent,) = turn["message"]["attachments"]
        assert snapshot(sent, "notes.txt").read_bytes() == b"Means and modes"
        assert "Means and modes" in told(model)
        assert not [message for message in other.inbox if "id" in message]
        await other.ended(chat, turn["id"])
        await chats.same()


async def test_T21_what_cannot_be_read_stays_as_it_was_and_the_turn_runs(
    server: JupyterServer, model: MockModel
) -> None:
    async with two(server, provider="assistant") as chats:
        one = chats.one
        refusals: list[Json] = []

        def refuse(params: Json) -> Json:
            refusals.append(params)
            return {"error": {"code": -32009, "message": "not granted"}}

        one.serve["resourceRead"] = refuse
        attachments = [
            {"type": "resource", "label": "away.txt", "uri": "file:///home/mia/away.txt"},
            {"type": "resource", "label": "memory", "uri": "untitled:Untitled-1"},
        ]
        turn = await one.say(chats.chat, "Read these", attachments=attachments)
        assert turn["state"] == "complete"
        assert refusals
        assert [kept["uri"] for kept in turn["message"]["attachments"]] == [
            attachment["uri"] for attachment in attachments
        ]
        assert "away.txt" in told(model)  # it is named, and not pretended to be read


async def test_T21_what_the_host_has_a_directory_and_what_nobody_knows_are_left_alone(
    server: JupyterServer, model: MockModel
) -> None:
    folder = server.home.files / f"data-{uuid.uuid4()}"
    folder.mkdir()
    (folder / "table.csv").write_text("a,b\n1,2\n")
    async with two(server, provider="assistant") as chats:
        attachments: list[Json] = [
            {"type": "resource", "label": "table.csv", "uri": (folder / "table.csv").as_uri()},
            {"type": "resource", "label": "data", "uri": folder.as_uri(), "displayKind": "directory"},
            {"type": "resource", "label": "d", "uri": "file:///home/mia/d", "displayKind": "directory"},
            {"type": "somethingNew", "label": "new", "more": [1, {"deep": True}], "_meta": {"theirs": 2}},
            {"type": "simple", "label": "pasted", "modelRepresentation": "Words of no file"},
        ]
        turn = await chats.one.say(chats.chat, "See here", attachments=attachments)
        assert turn["state"] == "complete"
        kept = [
            {key: value for key, value in attachment.items() if key != "_meta"}
            for attachment in turn["message"]["attachments"]
        ]
        assert kept == [
            {key: value for key, value in attachment.items() if key != "_meta"} for attachment in attachments
        ]
        assert turn["message"]["attachments"][3]["_meta"]["theirs"] == 2
        assert not [message for message in chats.one.inbox if "id" in message]
        assert "Words of no file" in told(model)


async def test_T21_what_waits_in_the_queue_is_written_when_it_is_queued(
    server: JupyterServer, model: MockModel
) -> None:
    async with two(server, provider="assistant") as chats:
        one, chat = chats.one, chats.chat
        model.requests.clear()
        await one.start(chat, "first\n!!chunks 30 0.02")
        await one.envelope("chat/delta", chat)
        text = base64.b64encode(b"Pasted words").decode()
        pasted = {
            "type": "embeddedResource",
            "label": "clip.txt",
            "contentType": "text/plain",
            "data": text,
        }
        message = user_message("second", attachments=[pasted])
        echo = await one.done(
            chat, {"type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": message}
        )
        (waits,) = echo["action"]["message"]["attachments"]
        assert snapshot(waits, "clip.txt").read_bytes() == b"Pasted words"
        await one.until(lambda: len(one.state(chat)["turns"]) == 2)
        assert one.state(chat)["turns"][1]["message"]["attachments"] == [waits]
        assert "Pasted words" in told(model)


async def test_T21_messages_with_slow_attachments_keep_their_order(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, chat = chats.one, chats.chat
        await one.start(chat, "slowly 30")
        one.serve["resourceRead"] = lambda params: {
            "result": {"data": base64.b64encode(b"x" * 1_000_000).decode(), "encoding": "base64"}
        }
        for number in range(4):
            attachments = [{"type": "resource", "label": "x", "uri": f"file:///home/mia/{number}"}]
            message = user_message(f"say {number}", attachments=attachments if number % 2 == 0 else [])
            await one.dispatch(
                chat,
                {"type": "chat/pendingMessageSet", "kind": "queued", "id": f"q{number}", "message": message},
            )
        await one.until(lambda: len(one.state(chat)["turns"]) == 5)
        words = [turn["message"]["text"] for turn in one.state(chat)["turns"]]
        assert words == ["slowly 30", "say 0", "say 1", "say 2", "say 3"]


async def test_T21_a_client_that_goes_while_it_is_asked(server: JupyterServer) -> None:
    """Its message was sent: it runs, with the attachment as it was."""
    async with window(server, NEWEST) as other, window(server, NEWEST) as client:
        _, chat = await client.new_chat("puppet")
        await other.subscribe(chat)
        asked: list[Json] = []

        def leave(params: Json) -> Json:
            asked.append(params)
            client.socket.transport.abort()
            return {"error": {"code": -32603, "message": "gone"}}

        client.serve["resourceRead"] = leave
        attachment = {"type": "resource", "label": "x", "uri": "file:///home/mia/x"}
        await client.dispatch(chat, started("r", "say it", attachments=[attachment]))
        turn = await other.ended(chat, "r")
        assert asked
        assert turn["message"]["attachments"][0]["uri"] == "file:///home/mia/x"
        await client._reader


# ── T22 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_T22_twelve_mebibytes_in_one_message(server: JupyterServer) -> None:
    async with two(server, AHPX) as chats:
        text = "say got it\n" + "word " * (12 * 1024 * 1024 // 5)
        turn = await chats.one.start(chats.chat, text)
        ended = await chats.one.ended(chats.chat, turn, timeout=60)
        assert ended["message"]["text"] == text
        assert await chats.other.ended(chats.chat, turn, timeout=60) == ended


async def test_T22_a_window_that_takes_many_large_chats_at_once_gets_them(server: JupyterServer) -> None:
    """What a client asked for is no backlog: it is answered as fast as it reads, and not sent away."""
    async with window(server, VSCODE_141) as client:
        session, _ = await client.new_chat("puppet")
        chats = [f"ahp-chat:/{uuid.uuid4()}" for _ in range(8)]
        for chat in chats:
            await client.request("createChat", session, chat=chat)
            await client.subscribe(chat)
            await client.say(chat, "say got it\n" + "word " * 600_000)
    async with window(server, VSCODE_141) as client:
        states = await asyncio.gather(*(client.subscribe(chat) for chat in chats))
        assert [len(state["turns"]) for state in states] == [1] * 8


# ── T24 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
class Pointing:
    """Two chats of one session with the assistant; the second is about to point at the first."""

    def __init__(self, client: Window, session: str, source: str, chat: str) -> None:
        self.client = client
        self.session = session
        self.source = source
        self.chat = chat

    async def say(self, **attachment: Any) -> Json:
        filled = {"type": "chat", "label": "Modes", "resource": self.source, **attachment}
        return await self.client.say(self.chat, "As said there", attachments=[filled])


async def pointing(client: Window, model: MockModel, *answers: str) -> Pointing:
    session, source = await client.new_chat("assistant")
    for number, answer in enumerate(answers):
        model.answers[f"Question {number}"] = answer
        await client.say(source, f"Question {number}")
    chat = f"ahp-chat:/{uuid.uuid4()}"
    await client.request("createChat", session, chat=chat)
    await client.subscribe(chat)
    model.requests.clear()
    return Pointing(client, session, source, chat)


@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
async def test_T24_the_model_is_told_what_was_said_there_up_to_the_pin(
    server: JupyterServer, kind: Kind, model: MockModel
) -> None:
    async with window(server, kind) as client:
        chats = await pointing(client, model, "The most frequent value.", "The middle of it all.")
        first = client.state(chats.source)["turns"][0]["id"]
        turn = await chats.say(endTurn=first)
        (kept,) = turn["message"]["attachments"]
        assert (kept["type"], kept["resource"], kept["endTurn"]) == ("chat", chats.source, first)
        assert turn["state"] == "complete"
        said = told(model)
        assert "Modes" in said
        assert "get_session_context" in said
        assert "The most frequent value." in said
        assert "Question 0" in said
        assert "The middle of it all." not in said


async def test_T24_a_long_transcript_is_its_last_thousand_characters(
    server: JupyterServer, model: MockModel
) -> None:
    async with window(server, NEWEST) as client:
        chats = await pointing(client, model, "early " + "x" * 3000, "y" * 990 + " the end")
        await chats.say(endTurn=client.state(chats.source)["turns"][-1]["id"])
        said = told(model)
        assert "the end" in said
        assert "early" not in said
        assert said.count("y") + said.count("x") <= 1000 + 20  # the words around them have some of their own


@pytest.mark.parametrize("pin", ["running", "unknown"])
async def test_T24_a_pin_that_nobody_can_honour_ends_the_turn_before_the_model_is_asked(
    server: JupyterServer, model: MockModel, pin: str
) -> None:
    async with window(server, NEWEST) as client:
        chats = await pointing(client, model, "The most frequent value.")
        running = await client.start(chats.source, "wait\n!!chunks 2\n!!hang")
        await model.until(lambda model: len(model.requests) == 1)
        turn = await chats.say(endTurn=running if pin == "running" else "nobody")
        assert turn["state"] == "error"
        part = turn["responseParts"][-1]
        assert part["error"]["errorType"] == "sendFailed"
        assert part["error"]["message"]
        assert len(model.requests) == 1
        assert turn["message"]["attachments"][0]["type"] == "chat"
        if pin == "unknown":
            assert "retained transcript" in part["error"]["message"]
        await client.done(chats.source, {"type": "chat/turnCancelled", "turnId": running, "duration": 1})


async def test_T24_a_chat_that_is_not_here_is_named_and_fails_nothing(
    server: JupyterServer, model: MockModel
) -> None:
    async with window(server, NEWEST) as client:
        chats = await pointing(client, model, "The most frequent value.")
        turn = await chats.say(resource="ahp-chat:/nobody-has-it", label="Elsewhere")
        assert turn["state"] == "complete"
        assert "Elsewhere" in told(model)
        assert "frequent" not in told(model)


async def test_T24_A11_the_pointer_is_for_the_model_alone_after_a_restart_too(
    own_server: JupyterServer, model: MockModel
) -> None:
    async with window(own_server, NEWEST) as client:
        chats = await pointing(client, model, "The most frequent value.")
        turn = await chats.say()
        assert "frequent" in told(model)
        assert "frequent" not in str(turn)
    own_server.kill()
    own_server.start()
    async with window(own_server, NEWEST) as client:
        await client.subscribe(chats.session)
        await client.subscribe(chats.chat)
        assert client.state(chats.chat)["turns"] == [turn]
