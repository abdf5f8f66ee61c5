"""T16 to T18: messages that wait behind a turn, and messages that go into it, with two windows watching."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.interop.kinds import NEWEST, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.pairs import two
from tests.interop.window import Window, answer_text, started, user_message, window
from tests.mock_model import MockModel
from tests.support.server import JupyterServer

NO_STEERING = "The session provider does not support steering messages."
BEING_PROCESSED = "Cannot change a steering message while it is being processed."


def named(kind: Kind) -> str:
    return kind.name


def queued(name: str, text: str) -> Json:
    return {"type": "chat/pendingMessageSet", "kind": "queued", "id": name, "message": user_message(text)}


def steering(name: str, text: str) -> Json:
    return {"type": "chat/pendingMessageSet", "kind": "steering", "id": name, "message": user_message(text)}


def removed(name: str, kind: str = "queued") -> Json:
    return {"type": "chat/pendingMessageRemoved", "kind": kind, "id": name}


def waiting(client: Window, chat: str) -> list[str]:
    return [entry["id"] for entry in client.state(chat).get("queuedMessages", ())]


def said(client: Window, chat: str) -> list[str]:
    """The messages of the turns that ended, in order."""
    return [turn["message"]["text"] for turn in client.state(chat)["turns"]]


async def running(client: Window, chat: str, text: str) -> str:
    """A turn that runs, and has begun to answer."""
    turn = await client.start(chat, text)
    await client.until(lambda: (client.state(chat).get("activeTurn") or {}).get("responseParts"), "a part")
    return turn


async def all_said(client: Window, chat: str, texts: list[str]) -> None:
    await client.until(lambda: said(client, chat) == texts, f"the turns {texts}")


# ── T17: the queue ───────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
async def test_T17_what_is_queued_is_sent_in_its_order_each_once(server: JupyterServer, kind: Kind) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        first = await running(one, chat, "slowly 20")
        await one.done(chat, queued("a", "say a"))
        await other.done(chat, queued("b", "say b"))
        await one.done(chat, queued("c", "say c"))
        await other.done(chat, {"type": "chat/queuedMessagesReordered", "order": ["c", "nobody", "c"]})
        await one.request("ping")
        assert waiting(one, chat) == ["c", "a", "b"]
        assert "queuedMessages" in one.state(chat)
        await all_said(one, chat, ["slowly 20", "say c", "say a", "say b"])
        assert "queuedMessages" not in one.state(chat)
        starts = one.actions(chat, "chat/turnStarted")
        assert [start.get("queuedMessageId") for start in starts] == [None, "c", "a", "b"]
        turns = [start["turnId"] for start in starts]
        assert turns[0] == first
        assert len(set(turns)) == 4
        assert not one.actions(chat, "chat/pendingMessageRemoved")  # the start takes it out (Q2)
        hosts = [sent for sent in one.envelopes(chat) if sent["action"].get("queuedMessageId")]
        assert all("origin" not in sent for sent in hosts)
        await all_said(other, chat, ["slowly 20", "say c", "say a", "say b"])
        await chats.same()


async def test_T17_taking_back_and_changing_what_waits(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        await running(one, chat, "slowly 20")
        for name in ("a", "b"):
            await one.done(chat, queued(name, f"say {name}"))
        await other.done(chat, queued("a", "say a, in other words"))  # in its place
        await other.done(chat, removed("b"))
        before = one.state(chat)
        echo = await other.done(
            chat, removed("b")
        )  # it is gone already: said as it was sent, changes nothing
        await one.request("ping")
        assert one.envelopes(chat)[-1]["action"] == echo["action"] or before is not one.state(chat)
        assert waiting(one, chat) == ["a"]
        await all_said(one, chat, ["slowly 20", "say a, in other words"])
        await all_said(other, chat, said(one, chat))
        await chats.same()


@pytest.mark.parametrize("ending", ["stopped", "failed"])
async def test_T17_T16_behind_a_stop_and_a_failure_what_waits_stays_until_somebody_moves_it(
    server: JupyterServer, ending: str
) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        if ending == "stopped":
            turn = await running(one, chat, "slowly 100")
            await one.done(chat, queued("a", "say a"))
            await one.done(chat, queued("b", "say b"))
            await one.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 7})
        else:
            turn = await running(one, chat, "slowly 20\nfail for good")
            await one.done(chat, queued("a", "say a"))
            await one.done(chat, queued("b", "say b"))
        ended = await one.ended(chat, turn)
        assert ended["state"] == ("cancelled" if ending == "stopped" else "error")
        await asyncio.sleep(0.3)
        await one.request("ping")
        assert waiting(one, chat) == ["a", "b"]
        assert "activeTurn" not in one.state(chat)
        await other.done(chat, {"type": "chat/queuedMessagesReordered", "order": ["b"]})
        await all_said(one, chat, [ended["message"]["text"], "say b", "say a"])
        await all_said(other, chat, said(one, chat))
        await chats.same()


async def test_T17_nothing_starts_behind_a_failure_that_can_be_taken_up(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, chat = chats.one, chats.chat
        turn = await running(one, chat, "slowly 10\nstumble over a stone")
        await one.done(chat, queued("a", "say a"))
        await one.ended(chat, turn)
        await chats.other.done(chat, queued("b", "say b"))
        await asyncio.sleep(0.3)
        await one.request("ping")
        assert waiting(one, chat) == ["a", "b"]
        await one.done(chat, {"type": "chat/turnResume", "turnId": turn})
        await all_said(one, chat, ["slowly 10\nstumble over a stone", "say a", "say b"])
        await all_said(chats.other, chat, said(one, chat))
        await chats.same()


async def test_T17_queued_while_nothing_runs_starts_at_once(server: JupyterServer) -> None:
    async with two(server, NEWEST) as chats:
        await chats.one.done(chats.chat, queued("a", "say a"))
        await all_said(chats.one, chats.chat, ["say a"])
        await all_said(chats.other, chats.chat, ["say a"])
        await chats.same()


async def test_T17_the_model_reads_what_was_queued_as_it_was_last_written(
    server: JupyterServer, model: MockModel
) -> None:
    async with two(server, provider="assistant") as chats:
        model.requests.clear()
        one, chat = chats.one, chats.chat
        await one.start(chat, "first\n!!chunks 30 0.02")
        await one.envelope("chat/delta", chat)
        await one.done(chat, queued("a", "second, as it was"))
        await one.done(chat, queued("b", "never mind"))
        await one.done(chat, queued("a", "second, better\n!!text fine"))
        await one.done(chat, removed("b"))
        await one.until(lambda: len(one.state(chat)["turns"]) == 2)
        assert len(model.requests) == 2
        words = [text for role, text in model.requests[-1].texts if role == "user"]
        assert words == ["first\n!!chunks 30 0.02", "second, better\n!!text fine"]
        await chats.other.until(lambda: len(chats.other.state(chat)["turns"]) == 2)
        await chats.same()


async def test_T17_what_waits_is_there_after_a_restart_and_goes_when_somebody_says_so(
    own_server: JupyterServer,
) -> None:
    async with window(own_server, VSCODE_141) as client:
        session, chat = await client.new_chat("puppet")
        turn = await running(client, chat, "slowly 500")
        await client.done(chat, queued("a", "say a"))
        await client.done(chat, queued("b", "say b"))
        await client.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 1})
        state = await client.subscribe(chat)
    own_server.kill()
    own_server.start()
    async with window(own_server, VSCODE_141) as client:
        await client.list()
        assert await client.open(session) == chat
        assert client.state(chat)["queuedMessages"] == state["queuedMessages"]
        await client.done(chat, removed("a"))
        await all_said(client, chat, ["slowly 500", "say b"])


# ── T18: steering ────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
async def test_T18_an_agent_without_steering_refuses_it_whether_a_turn_runs_or_not(
    server: JupyterServer, kind: Kind
) -> None:
    async with two(server, kind, provider="echo") as chats:
        one, chat = chats.one, chats.chat
        assert await one.refused(chat, steering("s", "wait")) == NO_STEERING
        turn = await running(one, chat, "word " * 50)
        assert await one.refused(chat, steering("s", "wait")) == NO_STEERING
        await one.ended(chat, turn)
        assert "steeringMessage" not in one.state(chat)


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T18_steering_goes_into_the_turn_that_runs(server: JupyterServer, kind: Kind) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await running(one, chat, "listen\nsay . Done")
        await other.done(chat, steering("s", "faster, please"))
        ended = await one.ended(chat, turn)
        assert answer_text(ended) == "listening heard faster, please. Done"
        (notice,) = [part for part in ended["responseParts"] if part["kind"] == "systemNotification"]
        assert notice["content"] == "faster, please"
        assert len(one.state(chat)["turns"]) == 1
        (gone,) = one.actions(chat, "chat/pendingMessageRemoved")
        assert (gone["kind"], gone["id"]) == ("steering", "s")
        await other.ended(chat, turn)
        await chats.same()


async def test_T18_what_is_held_cannot_be_changed_and_the_same_again_is_answered(
    server: JupyterServer,
) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await running(one, chat, "deaf 1.5")
        await one.done(chat, steering("s", "as it was"))
        await asyncio.sleep(0.1)
        assert await other.refused(chat, steering("s", "other words")) == BEING_PROCESSED
        assert await other.refused(chat, removed("s", "steering")) == BEING_PROCESSED
        await other.done(chat, steering("s", "as it was"))
        await one.done(chat, queued("q", "say queued"))
        await one.ended(chat, turn)
        # It came too late: a turn of its own, ahead of the queue.
        await all_said(one, chat, ["deaf 1.5", "as it was", "say queued"])
        late = [start.get("queuedMessageId") for start in one.actions(chat, "chat/turnStarted")]
        assert late == [None, "s", "q"]
        assert "steeringMessage" not in one.state(chat)
        await all_said(other, chat, said(one, chat))
        await chats.same()


async def test_T18_steering_while_nothing_runs_is_a_turn_of_its_own(server: JupyterServer) -> None:
    async with two(server) as chats:
        await chats.one.done(chats.chat, steering("s", "say by itself"))
        await all_said(chats.one, chats.chat, ["say by itself"])
        start = chats.one.actions(chats.chat, "chat/turnStarted")[0]
        assert start["queuedMessageId"] == "s"
        await all_said(chats.other, chats.chat, ["say by itself"])
        await chats.same()


async def test_T18_T16_a_stop_takes_steering_along_and_leaves_the_queue(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await running(one, chat, "deaf 20")
        await one.done(chat, steering("s", "too late"))
        await one.done(chat, queued("q", "say queued"))
        await other.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 9})
        await other.request("ping")
        kinds = [action["type"] for action in other.actions(chat)]
        stop = kinds.index("chat/turnCancelled")
        assert kinds[stop + 1] == "chat/pendingMessageRemoved"
        await asyncio.sleep(0.3)
        await one.request("ping")
        assert "activeTurn" not in one.state(chat)
        assert "steeringMessage" not in one.state(chat)
        assert waiting(one, chat) == ["q"]
        assert said(one, chat) == ["deaf 20"]
        await one.done(chat, removed("q"))
        await chats.same()


async def test_T18_steering_that_is_not_taken_yet_is_offered_again(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, chat = chats.one, chats.chat
        turn = await running(one, chat, "slowly 15\nlisten")
        await one.done(chat, steering("s", "as soon as you can"))
        assert answer_text(await one.ended(chat, turn)).endswith("listening heard as soon as you can")
        await chats.other.ended(chat, turn)
        await chats.same()


async def test_T18_what_comes_while_the_model_writes_its_last_answer_is_read_once_in_its_own_turn(
    server: JupyterServer, model: MockModel
) -> None:
    async with two(server, provider="assistant") as chats:
        model.requests.clear()
        one, other, chat = chats.one, chats.other, chats.chat
        await one.start(chat, "go on\n!!chunks 40 0.02")
        await one.envelope("chat/delta", chat)
        await other.done(chat, steering("s", "shorter\n!!text all right"))
        await all_said(one, chat, ["go on\n!!chunks 40 0.02", "shorter\n!!text all right"])
        assert one.actions(chat, "chat/turnStarted")[-1]["queuedMessageId"] == "s"
        assert answer_text(one.state(chat)["turns"][-1]) == "all right"
        asked = [request for request in model.requests if "shorter" in str(request.texts)]
        assert len(asked) == 1
        await all_said(other, chat, said(one, chat))
        await chats.same()


async def test_T18_the_assistant_gives_up_what_its_model_has_not_read(
    server: JupyterServer, model: MockModel
) -> None:
    async with two(server, provider="assistant") as chats:
        model.requests.clear()
        one, chat = chats.one, chats.chat
        turn = await one.start(chat, "go on\n!!chunks 40 0.02")
        await one.envelope("chat/delta", chat)
        await one.done(chat, steering("s", "never mind"))
        await chats.other.done(chat, removed("s", "steering"))
        await one.ended(chat, turn)
        await chats.other.ended(chat, turn)
        await asyncio.sleep(0.2)
        assert not [request for request in model.requests if "never mind" in str(request.texts)]
        await one.request("ping")
        assert len(one.state(chat)["turns"]) == 1
        await chats.same()


async def test_a_message_that_was_sent_cannot_be_queued_again_under_its_name(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, chat = chats.one, chats.chat
        name = str(uuid.uuid4())
        await one.done(chat, queued(name, "say it once"))
        await all_said(one, chat, ["say it once"])
        assert await chats.other.refused(chat, queued(name, "say it once"))
        await one.request("ping")
        assert said(one, chat) == ["say it once"]


@pytest.mark.parametrize("times", range(3))
async def test_queue_and_turns_in_a_hurry_lose_and_double_nothing(server: JupyterServer, times: int) -> None:
    """Two windows send without waiting for anything; each message runs once, or was refused, or waits."""
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        sent: dict[str, tuple[Window, int]] = {}
        for number in range(12):
            sender = (one, other)[number % 2]
            name = f"m{number}"
            action = queued(name, f"say {name}")
            if number % 4 == times:
                action = started(name, f"say {name}")
            sent[f"say {name}"] = sender, await sender.dispatch(chat, action)
        answers = {text: await sender.answer_to(number) for text, (sender, number) in sent.items()}
        taken = {text for text, answer in answers.items() if "rejectionReason" not in answer}

        def through() -> bool:
            state = one.state(chat)
            return "activeTurn" not in state and "queuedMessages" not in state

        await one.until(through, "the end of the queue")
        assert sorted(said(one, chat)) == sorted(taken)
        await other.until(lambda: len(said(other, chat)) == len(taken))
        await chats.same()
