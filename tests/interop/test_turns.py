"""T11, T13, T15, T16: a turn on the wire, what it asks, and how it ends, with two windows watching."""

from __future__ import annotations

import asyncio
import base64
import uuid

import pytest

from tests.interop.kinds import EVERY, NEWEST, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.pairs import Two, two
from tests.interop.window import Refused, Window, answer_text, started, window
from tests.mock_model import MockModel
from tests.support.server import JupyterServer


def named(kind: Kind) -> str:
    return kind.name


def call_of(turn: Json) -> Json:
    calls = [part["toolCall"] for part in turn["responseParts"] if part["kind"] == "toolCall"]
    (call,) = calls
    assert isinstance(call, dict)
    return call


# ── T11 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", EVERY, ids=named)
async def test_T11_a_turn_from_start_to_end(server: JupyterServer, kind: Kind) -> None:
    async with two(server, kind) as chats:
        one, chat = chats.one, chats.chat
        await one.done(
            chats.session, {"type": "session/activeClientSet", "activeClient": one.active("a-tool")}
        )
        message = {"model": {"id": "large", "config": {"thinkingLevel": "high"}}}
        number = await one.dispatch(
            chat, started("request_1", "think well\nsay one two three\ntokens 12 34", **message)
        )
        turn = await one.ended(chat, "request_1")
        echo = await one.answer_to(number)
        assert echo["action"]["type"] == "chat/turnStarted"
        assert echo["origin"] == {"clientId": one.client_id, "clientSeq": number}
        kinds = [action["type"] for action in one.actions(chat)]
        assert kinds[0] == "chat/turnStarted"
        assert kinds[-1] == "chat/turnComplete"
        assert kinds.index("chat/responsePart") < kinds.index("chat/delta")
        assert [part["kind"] for part in turn["responseParts"]] == ["reasoning", "markdown"]
        assert all(part["id"] for part in turn["responseParts"])
        assert answer_text(turn) == "one two three"
        assert turn["usage"] == {"inputTokens": 12, "outputTokens": 34, "model": "small"}
        assert turn["message"]["model"] == {"id": "large", "config": {"thinkingLevel": "high"}}
        assert [action for action in one.actions(chat, "chat/turnComplete") if action["duration"] >= 0]
        await chats.same()


async def test_T11_the_list_says_that_a_turn_runs_and_ended_and_keeps_the_marks(
    server: JupyterServer,
) -> None:
    async with two(server) as chats:
        one = chats.one
        turn = await one.start(chats.chat, "slowly 3")
        await one.ended(chats.chat, turn)
        await one.request("ping")
        told = [
            message["params"]["changes"]["status"]
            for message in one.inbox
            if message["method"] == "root/sessionSummaryChanged"
            and message["params"]["session"] == chats.session
            and "status" in message["params"]["changes"]
        ]
        activity = [status & 31 for status in told]
        assert 8 in activity
        assert activity[-1] == 1
        assert activity == sorted(activity, reverse=True)
        assert not told[-1] & 32  # there is something new to read
        await one.done(chats.session, {"type": "session/isReadChanged", "isRead": True})
        await one.request("ping")
        assert one.rows is not None
        assert one.rows[chats.session]["status"] == 33


async def test_T11_text_only_grows_however_much_of_it_is_joined(server: JupyterServer) -> None:
    """A window prints the suffix by length. One watches as it comes, the other lets the host wait half a second."""
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        await other.subscribe(chat, delivery={"maxLatencyMs": 400})
        turn = await one.start(chat, "slowly 40")
        ends = await asyncio.gather(one.ended(chat, turn), other.ended(chat, turn))
        assert ends[0] == ends[1]
        assert answer_text(ends[0]) == "".join(f"{number} " for number in range(40))
        assert len(other.actions(chat, "chat/delta")) < len(one.actions(chat, "chat/delta")) == 40


async def test_T11_what_cannot_be_a_turn_comes_back_to_its_sender_alone(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        first = await one.say(chat, "say one")
        await other.request("ping")
        before = len(other.inbox)
        again = started(first["id"], "say it twice")
        assert "id" in await one.refused(chat, again)
        assert await one.refused(chat, {**started("x", "hi"), "startedAt": "soon"})
        forged = started("x", "hi")
        forged["message"]["origin"] = {"kind": "agent"}
        assert await one.refused(chat, forged)
        assert await one.refused(
            chat, {"type": "chat/delta", "turnId": "x", "partId": "p1", "content": "forged"}
        )
        assert await one.refused(chat, {"type": "chat/somethingNew", "turnId": "x"})
        assert await one.refused(chat, {"type": "chat/turnCancelled", "turnId": "x", "duration": 1})
        await other.request("ping")
        assert len(other.inbox) == before
        running = await one.start(chat, "slowly 20")
        assert "runs" in (refusal := await one.refused(chat, started("second", "hi"))) or "running" in refusal
        assert answer_text(await one.ended(chat, running)).endswith("19 ")
        await chats.same()


async def test_T11_two_windows_that_send_at_once_are_both_answered(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        numbers = await asyncio.gather(
            one.dispatch(chat, started("mine", "say mine")),
            other.dispatch(chat, started("yours", "say yours")),
        )
        answers = await asyncio.gather(one.answer_to(numbers[0]), other.answer_to(numbers[1]))
        refused = ["rejectionReason" in answer for answer in answers]
        assert sorted(refused) == [False, True]
        ran = "mine" if not refused[0] else "yours"
        await one.ended(chat, ran)
        await other.ended(chat, ran)
        await chats.same()


async def test_T11_what_the_model_is_told_is_what_was_said(server: JupyterServer, model: MockModel) -> None:
    async with two(server, provider="assistant") as chats:
        model.requests.clear()
        one, chat = chats.one, chats.chat
        chosen = {"model": {"id": "plain"}}
        first = await one.say(chat, "What is a mean?\n!!text The middle,\n!!text  so to say.", **chosen)
        assert answer_text(first) == "The middle, so to say."
        assert first["usage"]["outputTokens"] > 0
        other = await chats.other.say(chat, "And a mode?\n!!text The most.")
        await one.ended(chat, other["id"])
        said = [text for role, text in model.requests[-1].texts if role != "system"]
        assert said[0].startswith("What is a mean?")
        assert said[1] == "The middle, so to say."
        assert said[2].startswith("And a mode?")
        assert len(said) == 3
        await chats.same()


# ── T13 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_T13_a_call_that_nobody_need_confirm(server: JupyterServer) -> None:
    async with two(server) as chats:
        turn = await chats.one.say(chats.chat, "tool find\nsay found it")
        await chats.other.ended(chats.chat, turn["id"])
        kinds = [action["type"] for action in chats.one.actions(chats.chat)]
        steps = ["chat/toolCallStart", "chat/toolCallReady", "chat/toolCallComplete"]
        assert [kind for kind in kinds if kind in steps] == steps
        call = call_of(turn)
        assert call["status"] == "completed"
        assert call["success"] is True
        assert call["confirmed"] == "not-needed"
        assert call["pastTenseMessage"] == "Looked"
        assert call["toolInput"] == '{"for": "a word"}'
        assert call["content"] == [{"type": "text", "text": "found"}]
        assert call["_meta"]["toolKind"] == "search"
        await chats.same()


async def waiting_call(chats: Two, watcher: Window) -> Json:
    def pending() -> list[Json]:
        active = watcher.state(chats.chat).get("activeTurn") or {}
        parts = active.get("responseParts", ())
        calls = [part["toolCall"] for part in parts if part["kind"] == "toolCall"]
        return [call for call in calls if call["status"] == "pending-confirmation"]

    await watcher.until(pending, "a call that waits")
    return pending()[0]


@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
@pytest.mark.parametrize("approved", [True, False], ids=["allowed", "denied"])
async def test_T13_a_call_that_waits_for_a_person(server: JupyterServer, kind: Kind, approved: bool) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await one.start(chat, "confirm run")
        call = await waiting_call(chats, one)
        assert call["confirmationTitle"] == "May it?"
        assert call["invocationMessage"] == "Run it"
        assert [option["kind"] for option in call["options"]] == ["approve", "deny"]
        await one.request("ping")
        assert one.rows is not None
        assert one.rows[chats.session]["status"] & 24 == 24
        assert one.state(chat)["status"] & 24 == 24
        (entry,) = one.state(chats.session)["inputNeeded"]
        assert (entry["kind"], entry["chat"], entry["turnId"]) == ("toolConfirmation", chat, turn)
        assert entry["toolCall"] == call
        # Whoever answers first decides, in the window that did not ask as well.
        answer: Json = {"type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call["toolCallId"]}
        if approved:
            answer |= {"approved": True, "confirmed": "user-action", "selectedOptionId": "once"}
        else:
            answer |= {"approved": False, "reason": "denied", "selectedOptionId": "never"}
        await other.done(chat, answer)
        assert "answer" in await one.refused(chat, answer)
        ended = await one.ended(chat, turn)
        call = call_of(ended)
        if approved:
            assert call["status"] == "completed"
            assert call["success"] is True
            assert call["pastTenseMessage"] == "Ran it"
            assert call["content"] == [{"type": "text", "text": "by once"}]
            assert call["selectedOption"]["id"] == "once"
        else:
            assert (call["status"], call["reason"]) == ("cancelled", "denied")
            assert call["selectedOption"]["id"] == "never"
        assert answer_text(ended) == f"approved {approved}"
        await chats.same()
        assert "inputNeeded" not in one.state(chats.session)
        assert one.rows[chats.session]["status"] & 31 == 1


# ── T15 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def open_question(watcher: Window, chat: str) -> Json | None:
    for part in (watcher.state(chat).get("activeTurn") or {}).get("responseParts", ()):
        if part["kind"] == "inputRequest" and "response" not in part:
            request: Json = part["request"]
            return request
    return None


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
@pytest.mark.parametrize("response", ["accept", "cancel", "decline"])
async def test_T15_a_question_is_answered(server: JupyterServer, kind: Kind, response: str) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await one.start(chat, "ask")
        await other.until(lambda: open_question(other, chat), "a question")
        request = open_question(other, chat)
        assert request is not None
        (question,) = request["questions"]
        assert question["kind"] == "single-select"
        await other.request("ping")
        (entry,) = other.state(chats.other_session)["inputNeeded"]
        assert (entry["kind"], entry["chat"]) == ("chatInput", chat)
        draft = {"state": "draft", "value": {"kind": "selected", "value": "red"}}
        await one.done(
            chat,
            {
                "type": "chat/inputAnswerChanged",
                "requestId": request["id"],
                "questionId": "colour",
                "answer": draft,
            },
        )
        await other.until(lambda: (open_question(other, chat) or {}).get("answers") == {"colour": draft})
        bare = {"type": "chat/inputCompleted", "requestId": request["id"], "response": response}
        if response == "accept":
            assert "colour" in await other.refused(chat, bare)  # a draft is no answer
            value = {"state": "submitted", "value": {"kind": "selected", "value": "blue"}}
            bare["answers"] = {"colour": value}
        await other.done(chat, bare)
        assert await one.refused(chat, bare)
        ended = await one.ended(chat, turn)
        (part, words) = ended["responseParts"]
        assert part["response"] == response
        assert words["content"] == f"{response} {'blue' if response == 'accept' else 'red'}"
        await chats.same()
        assert "inputNeeded" not in other.state(chats.other_session)


async def test_T15_the_end_of_the_turn_takes_its_questions_along(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, chat = chats.one, chats.chat
        turn = await one.start(chat, "ask")
        await one.until(lambda: open_question(one, chat), "a question")
        request = open_question(one, chat)
        assert request is not None
        await one.request("ping")
        assert len(one.state(chats.session)["inputNeeded"]) == 1
        await one.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 5})
        await one.request("ping")
        assert "inputNeeded" not in one.state(chats.session)
        assert one.state(chat)["status"] & 31 == 1
        assert await one.refused(
            chat, {"type": "chat/inputCompleted", "requestId": request["id"], "response": "cancel"}
        )
        assert answer_text(await one.say(chat, "say next")) == "next"
        await chats.other.ended(chat, one.state(chat)["turns"][-1]["id"])
        await chats.same()


# ── T16 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T16_a_stop_ends_the_turn_and_nothing_comes_of_it_later(
    server: JupyterServer, kind: Kind
) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await one.start(chat, "say before \nlate work")
        await one.envelope("chat/toolCallReady", chat)
        await other.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 42})
        ended = await one.ended(chat, turn)
        assert (ended["state"], ended["duration"]) == ("cancelled", 42)
        assert (call_of(ended)["status"], call_of(ended)["reason"]) == ("cancelled", "skipped")
        assert await one.refused(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 1})
        turn = (await one.say(chat, "say after"))["id"]
        await other.ended(chat, turn)
        texts = [action for action in one.actions(chat) if "too late" in str(action)]
        assert texts == []
        await chats.same()


@pytest.mark.parametrize("duration", [-5, None], ids=["negative", "absent"])
async def test_T16_T4_a_stop_whose_sender_cannot_count(server: JupyterServer, duration: int | None) -> None:
    """A window whose reducer got no number shows NaN; the host puts one there. (The harness looks at every ending.)"""
    async with two(server) as chats:
        turn = await chats.one.start(chats.chat, "slowly 50")
        action: Json = {"type": "chat/turnCancelled", "turnId": turn}
        if duration is not None:
            action["duration"] = duration
        await chats.one.envelope("chat/delta", chats.chat)
        await chats.one.dispatch(chats.chat, action)
        assert (await chats.one.ended(chats.chat, turn))["duration"] >= 0
        await chats.same()


@pytest.mark.parametrize(("word", "resumable"), [("fail", False), ("stumble", True)])
async def test_T17_a_failure_says_what_it_was_and_may_be_taken_up_again(
    server: JupyterServer, word: str, resumable: bool
) -> None:
    async with two(server, VSCODE_140) as chats:
        one, chat = chats.one, chats.chat
        turn = await one.say(chat, f"say so far\n{word} The disk is full.")
        part = turn["responseParts"][-1]
        assert turn["state"] == "error"
        assert part["error"]["message"] == "The disk is full."
        assert part["error"]["errorType"]
        assert part.get("resumable", False) is resumable
        await one.request("ping")
        assert one.rows is not None
        assert one.rows[chats.session]["status"] & 2
        resume = {"type": "chat/turnResume", "turnId": turn["id"]}
        if not resumable:
            assert await one.refused(chat, resume)
            return
        await chats.other.done(chat, resume)
        await one.until(
            lambda: one.state(chat)["turns"] and one.state(chat)["turns"][-1]["state"] == "complete"
        )
        (turn,) = one.state(chat)["turns"]
        assert [part["kind"] for part in turn["responseParts"]] == ["markdown", "error", "markdown"]
        assert turn["responseParts"][-1]["content"] == "and on it goes"
        assert await one.refused(chat, resume)
        await chats.same()


# ── T14 ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T14_an_edit_is_shown_by_what_it_made_of_the_file(server: JupyterServer, kind: Kind) -> None:
    folder = server.home.files / f"edits-{uuid.uuid4()}"
    folder.mkdir()
    (folder / "notes.txt").write_text("as it was")
    async with window(server, kind) as client:
        _, chat = await client.new_chat("puppet", workingDirectories=[folder.as_uri()])
        turn = await client.say(chat, "write notes.txt as it is now")
        (edit,) = call_of(turn)["content"]
        assert edit["type"] == "fileEdit"
        for side, words in (("before", b"as it was"), ("after", b"as it is now")):
            read = await client.request("resourceRead", uri=edit[side]["content"]["uri"])
            data = read["data"]
            text = base64.b64decode(data) if read["encoding"] == "base64" else data.encode()
            assert text == words
        for uri, code in (
            ((folder / "nobody.txt").as_uri(), -32008),
            ("file:///etc/passwd", -32009),
            ((folder / ".." / ".." / "data").as_uri(), -32602),
        ):
            with pytest.raises(Refused) as refused:
                await client.request("resourceRead", uri=uri)
            assert refused.value.code == code


@pytest.mark.parametrize("kind", [VSCODE_141, NEWEST], ids=named)
async def test_T14_a_folder_can_be_picked_before_there_is_any_session(
    server: JupyterServer, kind: Kind
) -> None:
    (server.home.files / "analysis").mkdir(exist_ok=True)
    async with window(server, kind, greet=False) as client:
        start = (await client.initialize())["defaultDirectory"]
        assert start.startswith("file:///")
        assert (await client.request("resourceResolve", uri=start))["type"] == "directory"
        entries = (await client.request("resourceList", uri=start))["entries"]
        assert {"name": "analysis", "type": "directory"} in entries


# ── what the list shows of a session's chats ─────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_141, NEWEST], ids=named)
async def test_the_list_shows_the_chat_that_needs_somebody(server: JupyterServer, kind: Kind) -> None:
    """AHP 3.3: the default chat leads; one that waits for a person, or failed, shows through."""
    async with two(server, kind) as chats:
        one = chats.one
        second = f"ahp-chat:/{uuid.uuid4()}"
        await one.request("createChat", chats.session, chat=second)
        await one.subscribe(second)

        async def activity() -> int:
            await one.request("ping")
            assert one.rows is not None
            status: int = one.rows[chats.session]["status"]
            return status & 31

        assert await activity() == 1
        turn = await one.start(second, "ask")
        await one.until(lambda: open_question(one, second), "a question")
        assert await activity() == 24
        (entry,) = one.state(chats.session)["inputNeeded"]
        assert entry["chat"] == second
        running = await one.start(chats.chat, "slowly 100")
        await one.envelope("chat/delta", chats.chat)
        assert await activity() == 24
        await one.done(second, {"type": "chat/turnCancelled", "turnId": turn, "duration": 1})
        assert await activity() == 8
        await one.say(second, "fail at once")
        assert await activity() & 10 == 10
        await one.done(chats.chat, {"type": "chat/turnCancelled", "turnId": running, "duration": 1})
        assert await activity() & 2
        await one.say(second, "say all is well")
        assert await activity() == 1
        listed = {entry["resource"]: entry["status"] & 31 for entry in one.rows[chats.session]["chats"]}  # type: ignore[index]
        assert listed == {chats.chat: 1, second: 1}


async def test_a_draft_is_shared_and_an_automatic_one_is_kept_as_it_is(server: JupyterServer) -> None:
    """A window makes one of the last turn's model, without any words."""
    async with two(server) as chats:
        automatic = {"text": "", "origin": {"kind": "user"}, "model": {"id": "large"}}
        await chats.one.done(chats.chat, {"type": "chat/draftChanged", "draft": automatic})
        await chats.other.request("ping")
        draft = chats.other.state(chats.chat)["draft"]
        assert {key: draft[key] for key in automatic} == automatic
        await chats.one.say(chats.chat, "say something")
        await chats.one.done(chats.chat, {"type": "chat/draftChanged"})
        await chats.other.request("ping")
        assert "draft" not in chats.other.state(chats.chat)
