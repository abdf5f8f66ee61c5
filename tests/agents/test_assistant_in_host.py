"""The assistant in a real host, with two clients watching: what its model saw of all that can happen to a chat.

The witness is the log of the model server; what people see is the state that a client made of the wire.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.agents.assistant.files import NOT_SEEN
from jupyter_ahp.agents.assistant.history import GO_ON, STOPPED
from jupyter_ahp.agents.echo import EchoAgent
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Json
from jupyter_ahp.store.memory import MemoryStore
from tests.agents.conftest import MakeAssistant
from tests.host.harness import ROOT, WireClient, agree, answer_of, message, quiet, started, until
from tests.mock_model import MockModel

SESSION = "ahp-session:/s"
NEW = "ahp-chat:/new"
BUSY = "!!status 503 1\n!!text done"
LONG = "!!chunks 20 0.02"
LONG_ANSWER = "".join(f"c{number} " for number in range(20)).strip()


class Room:
    """A host with the assistant, two clients of it, and the model's log."""

    def __init__(self, host: Host, model: MockModel) -> None:
        self.host = host
        self.model = model
        self.client = WireClient(host)
        self.other = WireClient(host)
        self.chat = ""

    async def enter(self) -> None:
        """The session, made unless it is there; both watch it and its chat."""
        for watcher in (self.client, self.other):
            await watcher.initialize(ROOT)
        listed = await self.client.request("listSessions")
        if SESSION not in {entry["resource"] for entry in listed["items"]}:
            await self.client.request("createSession", channel=SESSION, provider="assistant")
        for watcher in (self.client, self.other):
            self.chat = (await watcher.subscribe(SESSION))["defaultChat"]
            await watcher.subscribe(self.chat)

    async def leave(self) -> None:
        """At the end of every test: what both watched is what a newcomer is given."""
        await quiet(self.host)
        await agree(self.host, self.client, self.other)
        for connection in tuple(self.host.connections):
            await connection.closed()
        await self.host.stop()

    async def branch(self, kind: str, turn: str, **more: Any) -> Json:
        """A new chat made from this one's turn: its state."""
        source = {"kind": kind, "chat": self.chat, "turnId": turn, **more}
        await self.client.request("createChat", channel=SESSION, chat=NEW, source=source)
        await self.other.subscribe(NEW)
        return await self.client.subscribe(NEW)

    async def pending(self, kind: str, name: str, text: str) -> Json:
        fields: Json = {"kind": kind, "id": name, "message": message(text)}
        return await self.other.do(self.chat, "chat/pendingMessageSet", **fields)

    async def asked(self, times: int = 1) -> None:
        """That many requests were answered."""
        await self.model.until(
            lambda model: len([one for one in model.requests if one.ended is not None]) >= times
        )

    async def settled(self, turns: int) -> list[Json]:
        """The chat's turns, when that many ended and none runs."""
        state = self.client.state
        await until(lambda: len(state(self.chat)["turns"]) == turns and not self.client.running(self.chat))
        ended: list[Json] = state(self.chat)["turns"]
        return ended

    async def answers(self) -> None:
        """The first words of an answer are here: its request is out."""
        await until(lambda: "chat/delta" in self.client.kinds(self.chat))

    def told(self, request: int = -1) -> list[str]:
        """What the model was told in a request, behind the system prompt, its own words included."""
        [(role, _), *rest] = self.model.requests[request].texts
        assert role == "system"
        return [text for _, text in rest]

    def system(self, request: int = -1) -> str:
        return self.model.requests[request].texts[0][1]


@pytest.fixture
async def agent(make_assistant: MakeAssistant, model: MockModel) -> AssistantAgent:
    """Asks a busy server again after a time in which a test can say something."""
    entry = {"id": "mock", "name": "Mock", "base_url": model.base_url, "model": model.model}
    return make_assistant(models=[entry], backoff_seconds=0.3)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def room(store: MemoryStore, agent: AssistantAgent, model: MockModel) -> AsyncIterator[Room]:
    room = Room(await started(store, agent, EchoAgent()), model)
    await room.enter()
    yield room
    await room.leave()


async def test_clients_are_told_what_the_agents_can_do(room: Room) -> None:
    assistant, echo = room.client.state(ROOT)["agents"]
    assert assistant["capabilities"]["multipleChats"] == {"fork": True, "sideChat": True}
    assert assistant["_meta"]["jupyter-ahp.steering"] is True
    assert echo["capabilities"]["multipleChats"] == {"fork": True, "sideChat": True}
    assert "jupyter-ahp.steering" not in echo.get("_meta", {})


# ── Steering and the queue ───────────────────────────────────────────────────────────────────────────────────────────
async def test_G1_B15_steering_is_in_the_next_request_and_in_the_turn_for_ever(room: Room) -> None:
    await room.client.start(room.chat, BUSY)
    await room.asked()
    await room.pending("steering", "s", "In French, please.")
    assert room.client.state(room.chat)["steeringMessage"]["id"] == "s"
    [turn] = await room.settled(1)

    assert room.told(0) == [BUSY]
    assert room.told(1) == [BUSY, "In French, please."]
    notice, answer = turn["responseParts"]
    assert (notice["kind"], notice["content"]) == ("systemNotification", "In French, please.")
    assert notice["_meta"]["jupyter-ahp.steering"]["_meta"]["jupyter-ahp.sender"] == "user:alice"
    assert "In French, please." in answer["content"]
    assert "steeringMessage" not in room.other.state(room.chat)

    await room.client.say(room.chat, "And now?")
    assert room.told() == [f"{BUSY}\n\nIn French, please.", answer["content"], "And now?"]


async def test_G2_G3_what_the_turn_did_not_read_becomes_a_turn_ahead_of_the_queue(room: Room) -> None:
    await room.client.start(room.chat, LONG)
    await room.answers()
    await room.pending("queued", "q", "!!text queued")
    await room.pending("steering", "s", "!!text steered")
    turns = await room.settled(3)

    assert [turn["message"]["text"] for turn in turns] == [LONG, "!!text steered", "!!text queued"]
    assert [answer_of(turn).strip() for turn in turns] == [LONG_ANSWER, "steered", "queued"]
    assert len(room.model.requests) == 3
    assert room.told(1) == [LONG, LONG_ANSWER, "!!text steered"]
    assert room.told(2) == [LONG, LONG_ANSWER, "!!text steered", "steered", "!!text queued"]
    assert all(part["kind"] == "markdown" for turn in turns for part in turn["responseParts"])


async def test_G3_behind_a_failure_it_goes_into_the_turn_that_starts_next(room: Room) -> None:
    turn = await room.client.start(room.chat, "!!chunks 10 0.02\n!!drop 1")
    await room.answers()
    await room.pending("steering", "s", "In French, please.")
    await room.settled(1)
    await quiet(room.host)
    assert room.other.state(room.chat)["steeringMessage"]["id"] == "s", "it waits, and nothing started"

    await room.client.do(room.chat, "chat/turnResume", turnId=turn)
    [ended] = await room.settled(1)
    assert ended["state"] == "complete"
    assert room.told(1)[2:] == [GO_ON, "In French, please."]
    assert "steeringMessage" not in room.other.state(room.chat)


async def test_G7_what_is_taken_back_in_time_is_never_seen(room: Room) -> None:
    await room.client.start(room.chat, BUSY)
    await room.asked()
    await room.pending("steering", "s", "In French, please.")
    said = await room.client.do(room.chat, "chat/pendingMessageRemoved", kind="steering", id="s")
    assert "rejectionReason" not in said
    [turn] = await room.settled(1)
    assert room.told(1) == [BUSY]
    assert [part["kind"] for part in turn["responseParts"]] == ["markdown"]


async def test_G6_a_stop_takes_it_out_and_the_model_hears_neither(room: Room) -> None:
    turn = await room.client.start(room.chat, BUSY)
    await room.asked()
    await room.pending("steering", "s", "In French, please.")
    await room.client.do(room.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await room.settled(1)
    await quiet(room.host)
    assert "steeringMessage" not in room.client.state(room.chat)
    assert len(room.model.requests) == 1
    await room.client.say(room.chat, "hello")
    assert room.told() == [f"{BUSY}\n\nhello"]


async def test_G4_the_echo_takes_no_steering(room: Room) -> None:
    await room.client.request("createSession", channel="ahp-session:/e", provider="echo")
    chat = (await room.client.subscribe("ahp-session:/e"))["defaultChat"]
    await room.client.subscribe(chat)
    said = await room.client.do(chat, "chat/pendingMessageSet", kind="steering", id="s", message=message("s"))
    assert said["rejectionReason"] == "The session provider does not support steering messages."
    assert answer_of(await room.client.say(chat, "a word")).startswith("a word")


async def test_Q2_each_queued_message_sees_the_answers_before_it(room: Room) -> None:
    await room.client.start(room.chat, LONG)
    for name in ("a", "b"):
        await room.pending("queued", name, f"!!text {name}")
    await room.settled(3)
    assert room.told(1) == [LONG, LONG_ANSWER, "!!text a"]
    assert room.told(2) == [LONG, LONG_ANSWER, "!!text a", "a", "!!text b"]
    first, second, third = room.model.requests
    assert first.ended is not None
    assert second.ended is not None
    assert (first.ended < second.began, second.ended < third.began) == (True, True), "B1: one at a time"


# ── Branches and rewinds ─────────────────────────────────────────────────────────────────────────────────────────────
async def three(room: Room) -> None:
    for name in ("one", "two", "three"):
        await room.client.say(room.chat, f"!!text {name}", turn=f"t-{name}")


async def test_S2_a_forks_model_is_told_the_copied_turns_and_no_others(room: Room) -> None:
    await three(room)
    await room.branch("fork", "t-two")
    await room.client.say(NEW, "And then?")
    assert room.told() == ["!!text one", "one", "!!text two", "two", "And then?"]
    await room.client.say(room.chat, "Here?")
    assert room.told() == ["!!text one", "one", "!!text two", "two", "!!text three", "three", "Here?"]


async def test_S6_a_side_chats_model_is_told_what_the_turn_said_and_its_history_is_its_own(
    room: Room,
) -> None:
    await room.client.say(room.chat, "!!text The median is robust.", turn="t-source")
    await room.client.say(room.chat, "!!text Something else.")
    state = await room.branch("sideChat", "t-source", selection={"text": "robust"})
    assert state["turns"] == []

    answer = answer_of(await room.client.say(NEW, "Why?"))
    assert room.told() == ["Why?"]
    assert "The median is robust." in room.system()
    assert "robust" in room.system().splitlines()[-1]
    assert "Something else." not in room.system()
    assert [turn["message"]["text"] for turn in room.client.state(NEW)["turns"]] == ["Why?"]

    await room.client.say(NEW, "Really?")
    first, *rest = room.told()
    assert "The median is robust." in first
    assert first.endswith("\n\nWhy?")
    assert rest == [answer, "Really?"]
    assert "The median is robust." not in room.system()


async def test_X1_the_model_does_not_see_what_was_cut_and_sees_what_comes_back(room: Room) -> None:
    await three(room)
    await room.client.do(room.chat, "chat/truncated", turnId="t-one")
    assert await room.client.request("x-jupyter-ahp/undoRewind", channel=room.chat) == {"turns": 2}
    await room.client.say(room.chat, "all back?")
    assert room.told() == ["!!text one", "one", "!!text two", "two", "!!text three", "three", "all back?"]

    await room.client.do(room.chat, "chat/truncated", turnId="t-one")
    await room.client.say(room.chat, "another way")
    assert room.told() == ["!!text one", "one", "another way"]

    await room.client.do(room.chat, "chat/truncated")
    await room.client.say(room.chat, "anew")
    assert room.told() == ["anew"]


async def test_X1_a_rewind_in_the_middle_of_an_answer_leaves_nothing_of_it(room: Room) -> None:
    await room.client.say(room.chat, "!!text one", turn="t-one")
    await room.client.start(room.chat, "!!chunks 10000 0.01")
    await room.model.until(lambda model: len(model.requests) == 2)
    await room.client.do(room.chat, "chat/truncated", turnId="t-one")
    await room.client.say(room.chat, "edited")
    assert room.told() == ["!!text one", "one", "edited"]
    assert room.model.requests[1].aborted


# ── Endings ──────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_resumed_turn_goes_on_from_its_own_words(room: Room) -> None:
    turn = await room.client.start(room.chat, "!!text The first half\n!!drop 1")
    await room.settled(1)
    assert room.client.turn(room.chat, turn)["state"] == "error"
    await room.client.do(room.chat, "chat/turnResume", turnId=turn)
    await room.settled(1)
    ended = room.client.turn(room.chat, turn)
    assert ended["state"] == "complete"
    assert room.told() == ["!!text The first half\n!!drop 1", "The first half", GO_ON]
    assert answer_of(ended).startswith("The first half")


async def test_a_stop_ends_the_request_and_the_model_knows_of_it_next_time(room: Room) -> None:
    turn = await room.client.start(room.chat, "!!chunks 10000 0.01")
    await room.answers()
    await room.client.do(room.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await room.model.until(lambda model: model.requests[0].aborted, 1)
    answer = answer_of(room.client.turn(room.chat, turn))
    await room.client.say(room.chat, "go on")
    assert room.told() == ["!!chunks 10000 0.01", f"{answer.strip()}\n\n{STOPPED}", "go on"]


async def test_a_restart_forgets_nothing(
    store: MemoryStore, agent: AssistantAgent, make_assistant: MakeAssistant, model: MockModel
) -> None:
    room = Room(await started(store, agent), model)
    await room.enter()
    await room.client.start(room.chat, BUSY)
    await room.asked()
    await room.pending("steering", "s", "!!text oui")
    [turn] = await room.settled(1)
    await room.branch("sideChat", turn["id"])
    await room.client.say(NEW, "!!text aside")
    await room.leave()

    entry = {"base_url": model.base_url, "model": model.model}
    again = Room(await started(store, make_assistant(models=[entry])), model)
    await again.enter()
    await again.client.say(again.chat, "there?")
    assert again.told() == [f"{BUSY}\n\n!!text oui", "oui", "there?"]
    await again.client.subscribe(NEW)
    await again.client.say(NEW, "and here?")
    first, *rest = again.told()
    assert BUSY in first
    assert first.endswith("\n\n!!text aside")
    assert rest == ["aside", "and here?"]
    await again.leave()


async def test_A1_the_model_is_told_what_is_in_a_file_that_was_attached_and_that_it_did_not_see_another(
    room: Room, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("Penguins, measured by hand.")
    (tmp_path / "data.bin").write_bytes(bytes(10))
    names = ("README.md", "data.bin")
    attachments = [{"type": "resource", "label": name, "uri": (tmp_path / name).as_uri()} for name in names]
    session = "ahp-session:/files"
    where = [tmp_path.as_uri()]
    await room.client.request(
        "createSession", channel=session, provider="assistant", workingDirectories=where
    )
    chat = (await room.client.subscribe(session))["defaultChat"]
    await room.client.subscribe(chat)
    await room.client.start(chat, "What is this?", attachments=attachments)
    await room.asked()
    [text] = room.told()
    assert "README.md:\n```\nPenguins, measured by hand.\n```" in text
    assert (
        f"data.bin, because it is neither text nor an image that you can be shown (10 bytes). {NOT_SEEN}"
        in text
    )
    assert str(tmp_path) not in text
