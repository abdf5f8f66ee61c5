"""`AsyncChat`: a conversation, and what can come between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp import AsyncChat, NoHost, Refused, Text, TurnFailed
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.host import Host
from jupyter_ahp.client.model import Markdown, Question, ToolCallPart
from tests.client.fake_host import FakeHost

Json = dict[str, Any]


@pytest.fixture
async def chat(fake: FakeHost, connection: Connection) -> AsyncIterator[AsyncChat]:
    async with AsyncChat("fake", host=connection) as chat:
        yield chat


async def running(fake: FakeHost, chat: AsyncChat) -> str:
    """The id of the turn that runs, once it does."""
    await fake.until(lambda: "activeTurn" in fake.states[chat.uri])
    return fake.turn_id(chat.uri)


def ask(fake: FakeHost, chat: AsyncChat, *questions: Json) -> None:
    request = {"id": "q1", "message": "Tell me", "questions": list(questions)}
    fake.say(chat.uri, {"type": "chat/inputRequested", "request": request})


def call_tool(fake: FakeHost, chat: AsyncChat, turn: str, **ready: Any) -> None:
    target = {"turnId": turn, "toolCallId": "c1"}
    fake.say(chat.uri, {"type": "chat/toolCallStart", **target, "toolName": "rm", "displayName": "Remove"})
    fake.say(chat.uri, {"type": "chat/toolCallReady", **target, "invocationMessage": "rm a", **ready})


# ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_new_chat_is_a_session_of_its_own(
    fake: FakeHost, connection: Connection, tmp_path: Path
) -> None:
    chat = await AsyncChat("fake", directory=tmp_path, config={"mode": "plan"}, host=connection)
    [created] = fake.calls("createSession")
    assert created == {
        "channel": chat.session_uri,
        "provider": "fake",
        "workingDirectories": [tmp_path.as_uri()],
        "config": {"mode": "plan"},
    }
    assert chat.agent == "fake"
    assert (chat.state, chat.turns, chat.draft, chat.title) == ("idle", [], "", "")
    await chat.close()


async def test_without_an_agent_the_host_chooses(
    fake: FakeHost, connection: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    await AsyncChat(host=connection)
    [created] = fake.calls("createSession")
    assert "provider" not in created
    assert created["workingDirectories"] == [tmp_path.as_uri()]


async def test_a_title_is_given_and_changed(connection: Connection) -> None:
    chat = await AsyncChat(title="First", host=connection)
    assert chat.title == "First"
    await chat.rename("Second")
    assert chat.title == "Second"


@pytest.mark.parametrize("by", ["chat", "session"])
async def test_an_existing_chat_is_opened_by_either_name(
    fake: FakeHost, connection: Connection, by: str
) -> None:
    for number in range(3):
        fake.add_chat(f"ahp-chat:/c{number}", f"ahp-session:/s{number}")
    chat = await AsyncChat.open(f"ahp-{by}:/{by[0]}2", connection)
    assert chat.uri == "ahp-chat:/c2"
    assert chat.session_uri == "ahp-session:/s2"


async def test_a_derived_name_says_its_session(fake: FakeHost, connection: Connection) -> None:
    name = fake.add_chat("ahp-chat://default/YWhwLXNlc3Npb246L3Mx", "ahp-session:/s1")
    chat = await AsyncChat.open(name, connection)
    assert chat.session_uri == "ahp-session:/s1"
    assert not fake.calls("listSessions")


async def test_what_is_not_there_is_refused(fake: FakeHost, connection: Connection) -> None:
    with pytest.raises(Refused, match="No session of this host"):
        await AsyncChat.open("ahp-chat:/none", connection)
    with pytest.raises(Refused) as caught:
        await AsyncChat.open("ahp-session:/none", connection)
    assert caught.value.code == -32001
    with pytest.raises(ValueError, match="neither"):
        AsyncChat.open("https://example.org/", connection)


async def test_a_session_that_could_not_be_made(
    fake: FakeHost, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(_socket: object, params: Json) -> None:
        fake.add_chat("ahp-chat:/x", params["channel"])
        failed = {"lifecycle": "failed", "creationError": {"errorType": "x", "message": "No such folder."}}
        fake.states[params["channel"]].update(failed)

    monkeypatch.setattr(fake, "_on_createSession", create)
    with pytest.raises(Refused, match="No such folder"):
        await AsyncChat(host=connection)
    await fake.until(lambda: fake.calls("unsubscribe"))


async def test_an_unknown_agent_is_refused_with_the_hosts_words(
    fake: FakeHost, connection: Connection
) -> None:
    fake.errors["createSession"] = {"code": -32002, "message": "No agent 'nobody'; there is fake."}
    with pytest.raises(Refused, match="there is fake") as caught:
        await AsyncChat("nobody", host=connection)
    assert caught.value.code == -32002


async def test_a_session_made_twice_since_the_answer_was_lost(fake: FakeHost, connection: Connection) -> None:
    made = fake._on_createSession
    fake.deaf.add("createSession")
    opening = asyncio.ensure_future(AsyncChat(host=connection)._open())
    await fake.until(lambda: fake.calls("createSession"))
    fake.deaf.clear()
    [first] = fake.calls("createSession")
    made(next(iter(fake.sockets)), first)
    fake.errors["createSession"] = {"code": -32003, "message": "exists"}
    fake.drop()
    chat = await asyncio.wait_for(opening, 5)
    assert chat.session_uri == first["channel"]


async def test_its_own_connection_goes_with_it(fake: FakeHost) -> None:
    async with AsyncChat(host=Host(fake.url, fake.token)) as chat:
        assert (await chat.send("Hi")).text == "Hello, you."
        assert len(fake.sockets) == 1
    await fake.until(lambda: not fake.sockets)
    assert chat.state == "closed"
    assert chat.turns[0].text == "Hello, you."  # What was said stays readable.
    with pytest.raises(Refused, match="closed"):
        await chat.send("Again")


async def test_a_failed_opening_leaves_nothing_and_may_be_tried_again(fake: FakeHost) -> None:
    chat = AsyncChat("fake", host=Host(fake.url, "wrong"))
    with pytest.raises(NoHost):
        await chat
    assert repr(chat) == "<AsyncChat, not open yet>"
    with pytest.raises(Refused, match="not open"):
        _ = chat.uri
    fake.token = "wrong"
    fake.errors["createSession"] = {"code": -32002, "message": "no"}
    with pytest.raises(Refused):
        await chat
    await fake.until(lambda: not fake.sockets)
    fake.errors.clear()
    assert (await chat.send("Hi")).state == "complete"
    await chat.close()


# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_send_gives_the_ended_turn(fake: FakeHost, chat: AsyncChat) -> None:
    turn = await chat.send("Hi")
    assert (turn.state, turn.text, turn.duration) == ("complete", "Hello, you.", 1.2)
    assert turn.message.text == "Hi"
    assert chat.turns == [turn]
    action = fake.calls("dispatchAction")[-1]["action"]
    assert action["message"] == {"text": "Hi", "origin": {"kind": "user"}}
    assert action["startedAt"].endswith("Z")


async def test_the_model_rides_on_the_message(fake: FakeHost, connection: Connection) -> None:
    chat = await AsyncChat(model="small", host=connection)
    await chat.send("a")
    await chat.send("b", model="large")
    models = [call["action"]["message"]["model"]["id"] for call in fake.calls("dispatchAction")]
    assert models == ["small", "large"]


async def test_attachments_are_named_by_path(fake: FakeHost, chat: AsyncChat, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b")
    (tmp_path / "p.png").write_bytes(b"png")
    await chat.send("See", [tmp_path / "a.csv", str(tmp_path / "p.png"), tmp_path, Text("note", "read me")])
    sent = fake.calls("dispatchAction")[-1]["action"]["message"]["attachments"]
    assert [attachment["type"] for attachment in sent] == ["resource", "resource", "resource", "simple"]
    assert sent[0]["uri"] == (tmp_path / "a.csv").as_uri()
    assert (sent[0]["label"], sent[0]["sizeHint"], sent[0]["contentType"]) == ("a.csv", 3, "text/csv")
    assert [attachment.get("displayKind") for attachment in sent] == ["document", "image", "directory", None]
    assert sent[3]["modelRepresentation"] == "read me"


async def test_a_file_that_is_not_there_is_said_before_anything_is_sent(
    fake: FakeHost, chat: AsyncChat, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="Text"):
        await chat.send("See", str(tmp_path / "none.csv"))
    assert not fake.calls("dispatchAction")


async def test_stream_gives_parts_as_they_grow(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    given: list[tuple[str, str]] = []

    async def read() -> None:
        async for part in chat.stream("Hi"):
            assert isinstance(part, Markdown)
            given.append((part.content, part.delta))

    reading = asyncio.create_task(read())
    turn = await running(fake, chat)
    part = {"kind": "markdown", "id": "p", "content": "a"}
    fake.say(chat.uri, {"type": "chat/responsePart", "turnId": turn, "part": part})
    for piece in ("b", "c"):
        seen = len(given)
        await fake.until(lambda seen=seen: len(given) > seen or given)  # type: ignore[misc]
        delta = {"type": "chat/delta", "turnId": turn, "partId": "p", "content": piece}
        fake.say(chat.uri, delta)
        await fake.until(lambda piece=piece: given and given[-1][0].endswith(piece))  # type: ignore[misc]
    fake.say(chat.uri, {"type": "chat/turnComplete", "turnId": turn, "duration": 1})
    await asyncio.wait_for(reading, 5)
    assert given == [("a", "a"), ("ab", "b"), ("abc", "c")]


async def test_a_stream_goes_on_over_a_cut_line(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    fake.comes_back_by = "snapshot"
    text = ""

    async def read() -> None:
        nonlocal text
        async for part in chat.stream("Hi"):
            assert part.delta  # What did not change is not given again.
            text += part.delta

    reading = asyncio.create_task(read())
    turn = await running(fake, chat)
    for part in (
        {"kind": "reasoning", "id": "r", "content": "Hm. "},
        {"kind": "markdown", "id": "p", "content": "one "},
    ):
        fake.say(chat.uri, {"type": "chat/responsePart", "turnId": turn, "part": part})
    await fake.until(lambda: text == "Hm. one ")
    fake.drop()
    delta = {"type": "chat/delta", "turnId": turn, "partId": "p", "content": "two "}
    fake.say(chat.uri, delta, quietly=True)
    await fake.until(lambda: text == "Hm. one two ")
    fake.say(chat.uri, {**delta, "content": "three"})
    fake.say(chat.uri, {"type": "chat/turnComplete", "turnId": turn, "duration": 1})
    await asyncio.wait_for(reading, 5)
    assert text == "Hm. one two three"


ERROR = {"kind": "error", "error": {"errorType": "rateLimited", "message": "Busy."}, "resumable": True}


async def test_a_failed_turn_raises_and_can_be_resumed(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    turn = await running(fake, chat)
    fake.say(chat.uri, {"type": "chat/error", "turnId": turn, "duration": 5, "part": ERROR})
    with pytest.raises(TurnFailed, match="Busy") as caught:
        await sending
    assert caught.value.turn.error is not None
    assert chat.state == "failed"
    fake.reply = ["Now."]
    resumed = await chat.resume()
    assert (resumed.id, resumed.text) == (turn, "Now.")
    assert len(chat.turns) == 1


async def test_a_stream_of_a_failed_turn_raises_after_its_parts(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    parts = []

    async def read() -> None:
        async for part in chat.stream("Hi"):
            parts.append(part)

    reading = asyncio.create_task(read())
    turn = await running(fake, chat)
    fake.say(chat.uri, {"type": "chat/error", "turnId": turn, "duration": 5, "part": ERROR})
    with pytest.raises(TurnFailed):
        await asyncio.wait_for(reading, 5)
    assert repr(parts[-1]) == "ErrorPart(rateLimited, 'Busy.')"


async def test_T7_a_turn_that_is_not_started_is_refused(fake: FakeHost, chat: AsyncChat) -> None:
    fake.refuses["chat/turnStarted"] = "This session is archived."
    with pytest.raises(Refused, match="archived"):
        await chat.send("And?")
    assert chat.state == "idle"


async def test_a_stop_ends_the_turn_and_a_second_one_does_nothing(fake: FakeHost, chat: AsyncChat) -> None:
    await chat.stop()
    assert not fake.calls("dispatchAction")
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    await running(fake, chat)
    await fake.until(lambda: chat.state == "running")
    await asyncio.gather(chat.stop(), chat.stop())
    turn = await sending
    assert turn.state == "cancelled"
    assert turn.duration is not None
    assert turn.duration >= 0


async def test_a_timeout_stops_the_turn(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    with pytest.raises(TimeoutError, match=r"0\.1 s"):
        await chat.send("Hi", timeout=0.1)
    await fake.until(lambda: fake.ended(chat.uri) == ["cancelled"])
    fake.reply = ["Yes."]
    assert (await chat.send("Still there?")).text == "Yes."


@pytest.mark.parametrize("when", ["running", "at once"])
async def test_cancelling_the_waiter_stops_the_turn(fake: FakeHost, chat: AsyncChat, when: str) -> None:
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    await (running(fake, chat) if when == "running" else asyncio.sleep(0))
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await fake.until(lambda: "activeTurn" not in fake.states[chat.uri])
    assert await chat.idle(timeout=5)
    fake.reply = ["Yes."]
    assert (await chat.send("Still there?")).text == "Yes."


async def test_leaving_a_stream_stops_the_turn(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    async with aclosing(chat.stream("Hi")) as parts:
        reading = asyncio.ensure_future(anext(parts))
        turn = await running(fake, chat)
        part = {"kind": "markdown", "id": "p", "content": "a"}
        fake.say(chat.uri, {"type": "chat/responsePart", "turnId": turn, "part": part})
        await reading
    await fake.until(lambda: fake.ended(chat.uri) == ["cancelled"])


async def test_a_turn_taken_out_of_the_chat_is_no_answer(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    await running(fake, chat)
    fake.say(chat.uri, {"type": "chat/truncated"})
    with pytest.raises(Refused, match="taken out"):
        await sending


async def test_a_chat_that_goes_away_is_no_answer(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    await running(fake, chat)
    del fake.states[chat.uri]
    fake.drop()
    with pytest.raises(Refused):
        await asyncio.wait_for(sending, 5)
    with pytest.raises(Refused):
        await asyncio.wait_for(chat.send("Hello?"), 5)


# ── what a turn asks ─────────────────────────────────────────────────────────────────────────────────────────────
OPTIONS = [{"id": "r", "label": "Red"}, {"id": "b", "label": "Blue"}]


@pytest.mark.parametrize(
    ("question", "answer", "value"),
    [
        ({"kind": "text"}, "me", {"kind": "text", "value": "me"}),
        ({"kind": "integer"}, 3, {"kind": "number", "value": 3}),
        ({"kind": "boolean"}, True, {"kind": "boolean", "value": True}),
        ({"kind": "single-select", "options": OPTIONS}, "b", {"kind": "selected", "value": "b"}),
        ({"kind": "single-select", "options": OPTIONS}, "Blue", {"kind": "selected", "value": "b"}),
        (
            {"kind": "single-select", "options": OPTIONS, "allowFreeformInput": True},
            "Pink",
            {"kind": "selected", "value": "Pink", "freeformValues": ["Pink"]},
        ),
        (
            {"kind": "multi-select", "options": OPTIONS},
            ["Red", "b"],
            {"kind": "selected-many", "value": ["r", "b"]},
        ),
    ],
)
async def test_an_answer_of_every_kind(
    fake: FakeHost, chat: AsyncChat, question: Json, answer: Any, value: Json
) -> None:
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    turn = await running(fake, chat)
    ask(fake, chat, {"id": "a", "message": "?", **question})
    await fake.until(lambda: chat.state == "waiting")
    asked = chat.turns[-1].waits
    assert isinstance(asked, Question)
    await chat.answer(asked, answer)
    sent = fake.calls("dispatchAction")[-1]["action"]
    assert sent == {
        "type": "chat/inputCompleted",
        "requestId": "q1",
        "response": "accept",
        "answers": {"a": {"state": "submitted", "value": value}},
    }
    fake.answer_turn(chat.uri, turn, ["Good."])
    question_part = (await sending).parts[0]
    assert isinstance(question_part, Question)
    assert (question_part.response, question_part.waits) == ("accept", False)
    with pytest.raises(Refused, match="no longer"):
        await chat.answer("q1", answer)


async def test_an_answer_that_does_not_fit(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    await running(fake, chat)
    ask(fake, chat, {"id": "a", "kind": "single-select", "options": OPTIONS}, {"id": "b", "kind": "text"})
    await fake.until(lambda: chat.state == "waiting")
    with pytest.raises(ValueError, match="Say which question"):
        await chat.answer("q1", "Red")
    with pytest.raises(ValueError, match="No such question: c"):
        await chat.answer("q1", {"c": 1})
    with pytest.raises(ValueError, match="none of the options"):
        await chat.answer("q1", {"a": "Green"})
    await chat.answer("q1", response="decline")
    assert fake.calls("dispatchAction")[-1]["action"]["response"] == "decline"
    await chat.stop()
    await sending


@pytest.mark.parametrize(
    ("how", "sent"),
    [
        ({}, {"approved": True, "confirmed": "user-action"}),
        (
            {"option": "always", "edited_input": "rm b"},
            {
                "approved": True,
                "confirmed": "user-action",
                "selectedOptionId": "always",
                "editedToolInput": "rm b",
            },
        ),
        (
            {"approved": False, "reason": "Too risky."},
            {"approved": False, "reason": "denied", "reasonMessage": "Too risky."},
        ),
    ],
)
async def test_a_tool_call_is_approved_or_not(
    fake: FakeHost, chat: AsyncChat, how: dict[str, Any], sent: Json
) -> None:
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    turn = await running(fake, chat)
    call_tool(fake, chat, turn, toolInput="rm a")
    await fake.until(lambda: chat.state == "waiting")
    call = chat.turns[-1].waits
    assert isinstance(call, ToolCallPart)
    assert chat.activity == "Waits for your answer: rm a"
    await chat.approve(call, **how)
    target = {"turnId": turn, "toolCallId": "c1"}
    assert fake.calls("dispatchAction")[-1]["action"] == {"type": "chat/toolCallConfirmed", **target, **sent}
    with pytest.raises(ValueError, match="waits for no approval"):
        await chat.approve(call)
    await chat.stop()
    await sending


async def test_a_result_is_taken_or_not(fake: FakeHost, chat: AsyncChat) -> None:
    fake.reply = None
    sending = asyncio.create_task(chat.send("Hi"))
    turn = await running(fake, chat)
    call_tool(fake, chat, turn, confirmed="not-needed")
    fake.say(
        chat.uri,
        {
            "type": "chat/toolCallComplete",
            "turnId": turn,
            "toolCallId": "c1",
            "result": {"success": True, "pastTenseMessage": "Removed"},
            "requiresResultConfirmation": True,
        },
    )
    await fake.until(lambda: chat.state == "waiting")
    await chat.approve("c1", approved=False)
    assert fake.calls("dispatchAction")[-1]["action"]["type"] == "chat/toolCallResultConfirmed"
    await chat.stop()
    await sending


# ── what others do ───────────────────────────────────────────────────────────────────────────────────────────────
async def test_what_others_do_is_seen(fake: FakeHost, chat: AsyncChat) -> None:
    seen: list[tuple[str, str]] = []

    async def watch() -> None:
        async for now in chat.changes():
            seen.append((now.draft, now.state))

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.01)
    draft = {"text": "I am", "origin": {"kind": "user"}}
    fake.say(chat.uri, {"type": "chat/draftChanged", "draft": draft})
    await fake.until(lambda: seen[-1:] == [("I am", "idle")])
    await chat.close()
    await asyncio.wait_for(watching, 5)


async def test_offline_is_a_state(fake: FakeHost, connection: Connection, chat: AsyncChat) -> None:
    port = fake.port
    await fake.stop()
    await fake.until(lambda: chat.state == "offline")
    await fake.until(lambda: "cannot be reached" in chat.activity)
    sending = asyncio.create_task(chat.send("Later"))
    await fake.start(port)
    assert (await asyncio.wait_for(sending, 5)).state == "complete"
    assert chat.state == "idle"


async def test_a_repr_says_what_it_is(chat: AsyncChat) -> None:
    await chat.rename("Weather")
    await chat.send("Hi")
    assert repr(chat) == f"<AsyncChat 'Weather' with fake, 1 turn, idle: {chat.uri}>"
