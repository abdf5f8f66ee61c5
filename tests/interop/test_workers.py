"""Worker chats (W1 to W5) and turns that nobody asked for, as the windows that people have see them."""

from __future__ import annotations

import asyncio
import base64
import uuid

import pytest

from tests.interop.kinds import AHPC, AHPX, NEWEST, UI, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.pairs import two
from tests.interop.window import Refused, Window, answer_text, started, user_message, window
from tests.support.server import JupyterServer

INPUT_NEEDED, IN_PROGRESS, IDLE, ACTIVITY = 24, 8, 1, 31


def named(kind: Kind) -> str:
    return kind.name


async def spawned(one: Window, session: str) -> Json:
    """The summary of the next chat that is announced."""
    summary: Json = (await one.envelope("session/chatAdded", session))["action"]["summary"]
    return summary


def blocks(state: Json) -> list[Json]:
    """The `subagent` content of the last turn's calls."""
    turn = state.get("activeTurn") or state["turns"][-1]
    calls = [part["toolCall"] for part in turn["responseParts"] if part["kind"] == "toolCall"]
    content = [block for call in calls for block in call.get("content", ())]
    return [block for block in content if block["type"] == "subagent"]


@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST, UI, AHPC, AHPX], ids=named)
async def test_W1_W3_W5_a_worker_is_watched_and_answered(server: JupyterServer, kind: Kind) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await one.start(chat, "say First\ndelegate call/1 think hm; confirm rm; say found")
        summary = await spawned(other, chats.other_session)
        worker = summary["resource"]
        if chat.startswith("ahp-chat://default/"):
            encoded = base64.urlsafe_b64encode(chats.session.encode()).decode().rstrip("=")
            assert worker == f"ahp-chat://subagent/{encoded}/call%2F1"
        else:
            assert uuid.UUID(worker.removeprefix("ahp-chat:/"))
        assert summary["origin"] == {"kind": "tool", "chat": chat, "toolCallId": "call/1"}
        assert summary["interactivity"] == "read-only"
        for each in (one, other):
            state = await each.subscribe(worker)
            assert state["resource"] == worker
        await one.until(lambda: blocks(one.state(chat)))
        assert blocks(one.state(chat)) == [
            {"type": "subagent", "resource": worker, "title": "Scout call/1", "agentName": "scout"}
        ]
        await one.until(lambda: one.state(chats.session).get("inputNeeded"))
        (needed,) = one.state(chats.session)["inputNeeded"]
        assert (needed["kind"], needed["chat"]) == ("toolConfirmation", worker)
        prompt = one.state(worker)["activeTurn"]["message"]
        assert prompt["text"] == "think hm; confirm rm; say found"
        assert prompt["origin"] == {"kind": "agent"}
        answer = {"approved": True, "confirmed": "user-action", "selectedOptionId": "once"}
        call = {"turnId": needed["turnId"], "toolCallId": needed["toolCall"]["toolCallId"]}
        await other.done(worker, {"type": "chat/toolCallConfirmed", **call, **answer})
        done = await one.ended(worker, needed["turnId"])
        assert answer_text(done) == "approved Truefound"
        assert done["state"] == "complete"
        ended = await one.ended(chat, turn)
        assert [part["kind"] for part in ended["responseParts"]] == ["markdown", "toolCall"]
        assert blocks(one.state(chat))[0]["resource"] == worker
        assert not one.state(chats.session).get("inputNeeded")
        await chats.same()


@pytest.mark.parametrize("kind", [VSCODE_141, NEWEST], ids=named)
async def test_T25_a_workers_chat_is_read_only(server: JupyterServer, kind: Kind) -> None:
    async with two(server, kind) as chats:
        one, chat = chats.one, chats.chat
        turn = await one.start(chat, "delegate c1 ask; say so")
        worker = (await spawned(one, chats.session))["resource"]
        await one.subscribe(worker)
        await one.until(lambda: one.state(chats.session).get("inputNeeded"))
        waits = {"kind": "queued", "id": "q", "message": user_message("me")}
        words = "This chat is read-only: a worker's. Write to the chat that it works for."
        assert await one.refused(worker, {"type": "chat/pendingMessageSet", **waits}) == words
        running = one.state(worker)["activeTurn"]["id"]
        stop = {"type": "chat/turnCancelled", "turnId": running, "duration": 1}
        assert "cannot be stopped by itself" in await one.refused(worker, stop)
        await one.done(worker, {"type": "chat/draftChanged", "draft": user_message("a thought")})
        (needed,) = one.state(chats.session)["inputNeeded"]
        answers = {"colour": {"state": "submitted", "value": {"kind": "selected", "value": "red"}}}
        request = {"requestId": needed["request"]["id"], "response": "accept", "answers": answers}
        await one.done(worker, {"type": "chat/inputCompleted", **request})
        await one.ended(chat, turn)
        assert await one.refused(worker, started("mine", "me")) == words
        assert await one.refused(worker, {"type": "chat/turnResume", "turnId": running}) == words
        assert answer_text(one.state(worker)["turns"][0]) == "accept redso"
        await chats.same()


async def test_B8_a_stop_of_the_turn_ends_workers_at_every_depth(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await one.start(chat, "delegate c1 delegate c2 ask")
        first = (await spawned(other, chats.other_session))["resource"]
        second = (await spawned(other, chats.other_session))["resource"]
        for each in (one, other):
            for worker in (first, second):
                await each.subscribe(worker)
        assert other.state(second)["origin"] == {"kind": "tool", "chat": first, "toolCallId": "c2"}
        await one.until(lambda: one.state(chats.session).get("inputNeeded"))
        await one.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 1})
        for worker in (first, second):
            await other.until(lambda worker=worker: "activeTurn" not in other.state(worker))  # type: ignore[misc]
            assert other.state(worker)["turns"][-1]["state"] == "cancelled"
        assert not one.state(chats.session).get("inputNeeded")
        assert blocks(other.state(chat))[0]["resource"] == first
        assert blocks(other.state(first))[0]["resource"] == second
        assert answer_text(await one.say(chat, "say and on")) == "and on"
        await chats.same()


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_work_in_the_background_is_listed_and_comes_back_in_a_turn_of_its_own(
    server: JupyterServer, kind: Kind
) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        await one.start(chat, "launch c1 slowly 20; say done\nsay launched")
        worker = (await spawned(one, chats.session))["resource"]
        for each in (one, other):
            await each.subscribe(worker)
        await other.until(lambda: other.state(chat)["turns"])
        (work,) = other.state(chat)["backgroundWork"]
        assert (work["kind"], work["chat"], work["label"]) == ("subagent", worker, "Scout c1")
        assert "activeTurn" in other.state(worker), "it goes on"
        await other.until(lambda: len(other.state(chat)["turns"]) == 2)
        late = other.state(chat)["turns"][1]
        assert late["message"] == {"text": "Scout c1 is back", "origin": {"kind": "systemNotification"}}
        assert answer_text(late) == "so it is"
        assert late["duration"] >= 0
        assert other.state(chat)["backgroundWork"] == []
        assert answer_text(other.state(worker)["turns"][0]).endswith("19 done")
        await chats.same()


async def test_a_worker_in_the_background_is_stopped_alone(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        await one.say(chat, "launch c1 slowly 500")
        (work,) = one.state(chat)["backgroundWork"]
        worker = work["chat"]
        for each in (one, other):
            await each.subscribe(worker)
        await other.until(lambda: answer_text(other.state(worker)["activeTurn"]))
        running = other.state(worker)["activeTurn"]["id"]
        await other.done(worker, {"type": "chat/turnCancelled", "turnId": running, "duration": 1})
        await one.until(lambda: one.state(chat)["backgroundWork"] == [])
        assert answer_text(await one.say(chat, "say and on")) == "and on"
        assert len(one.state(chat)["turns"]) == 2, "nobody came back"
        await chats.same()


async def on_disk(server: JupyterServer, pattern: str, *texts: str) -> None:
    """Wait until files of that name hold these texts, each of them."""

    def missing() -> list[str]:
        found = "".join(path.read_text() for path in server.home.data.joinpath("ahp").rglob(pattern))
        return [text for text in texts if text not in found]

    async with asyncio.timeout(20):
        while missing():  # noqa: ASYNC110  (the server's disk has no events)
            await asyncio.sleep(0.05)


async def test_W2_workers_are_read_after_a_restart_and_after_a_kill(own_server: JupyterServer) -> None:
    identity = str(uuid.uuid4())
    async with window(own_server, VSCODE_141) as one:
        session = await one.create("puppet", identity)
        chat = await one.open(session)
        await one.say(chat, "delegate c1 say found; delegate c2 say deep")
        workers = [entry["resource"] for entry in one.state(session)["chats"][1:]]
        assert len(workers) == 2
    own_server.restart()
    async with window(own_server, NEWEST) as one:
        assert await one.open(f"ahp-session:/{identity}") == chat
        assert [answer_text((await one.subscribe(worker))["turns"][0]) for worker in workers] == [
            "found",
            "deep",
        ]
        assert blocks(one.state(chat))[0]["resource"] == workers[0]
        assert blocks(one.state(workers[0]))[0]["resource"] == workers[1]
        with pytest.raises(Refused) as refused:
            await one.subscribe(f"ahp-chat:/{uuid.uuid4()}")
        assert refused.value.code == -32001
        await one.start(chat, "delegate c3 say half; ask")
        third = (await spawned(one, f"ahp-session:/{identity}"))["resource"]
        await one.subscribe(third)
        await one.until(lambda: one.state(f"ahp-session:/{identity}").get("inputNeeded"))
        await on_disk(own_server, "*.jsonl", "half", "Something to choose")
        await on_disk(own_server, "session.json", third)
    own_server.kill()
    own_server.start()
    async with window(own_server, VSCODE_141) as one:
        await one.open(session)
        state = await one.subscribe(third)
        (turn,) = state["turns"]
        assert answer_text(turn) == "half"
        assert turn["state"] == "error"
        assert turn["responseParts"][-1].get("resumable") is None
        assert blocks(one.state(chat))[0]["resource"] == third, (
            "the call that a kill cut short names it still"
        )
        assert not one.state(session).get("inputNeeded")
