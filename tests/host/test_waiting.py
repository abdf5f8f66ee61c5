"""What waits in a chat and what starts it: Q1 to Q8, G3, G4; the pure function as a table, the host through its wire."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.pending import Cause, HandOver, OpenLate, Start, Step, Wait, next_step
from jupyter_ahp.host.ports import (
    Capabilities,
    Conversation,
    Json,
    Principal,
    Prompt,
    Steering,
    SteeringRefused,
    Store,
    TurnFailed,
    TurnSink,
)
from jupyter_ahp.host.ports import Start as StartOfChat
from jupyter_ahp.protocol.meta import HOLD, PENDING_ID
from jupyter_ahp.store.files import FileStore
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import Failing, Line, Scripted, WireClient, agree, message, quiet, started, until

S = "ahp-session:/s"

# ── The pure function, a row for each case of each rule ──────────────────────────────────────────────────────────
ONE: Json = {"id": "one", "message": {"text": "1"}}
TWO: Json = {"id": "two", "message": {"text": "2"}}
STEER: Json = {"id": "steer", "message": {"text": "s"}}
RUNNING: Json = {"activeTurn": {"id": "t"}}
QUEUE: Json = {"queuedMessages": [ONE, TWO]}
STEERED: Json = {"steeringMessage": STEER}


def ended(state: str, **part: Any) -> Json:
    parts = [{"kind": "error", "error": {}, **part}] if state == "error" else []
    return {"turns": [{"id": "t", "state": state, "responseParts": parts}]}


RESUMABLE = ended("error", resumable=True)

TABLE: list[tuple[str, Json, Cause, str | None, Step]] = [
    ("Q2 a turn completed", {**ended("complete"), **QUEUE}, "completed", None, Start(ONE)),
    ("Q2 nothing waits", ended("complete"), "completed", None, Wait()),
    ("Q2 one runs", {**RUNNING, **QUEUE}, "touched", None, Wait()),
    ("Q4 a stop starts nothing", {**ended("cancelled"), **QUEUE}, "stopped", None, Wait()),
    ("Q4 a failure starts nothing", {**ended("error"), **QUEUE}, "failed", None, Wait()),
    ("Q4 a person touches it after a stop", {**ended("cancelled"), **QUEUE}, "touched", None, Start(ONE)),
    ("Q4 a person touches it after a failure", {**ended("error"), **QUEUE}, "touched", None, Start(ONE)),
    ("Q4 in a chat without turns", QUEUE, "touched", None, Start(ONE)),
    ("Q5 not behind what can be resumed", {**RESUMABLE, **QUEUE}, "touched", None, Wait()),
    ("Q6 not while steering is held", {**ended("complete"), **QUEUE}, "completed", "steer", Wait()),
    ("G1 at the turn's start", {**RUNNING, **STEERED}, "started", None, HandOver(STEER)),
    ("G1 again on each report", {**RUNNING, **STEERED}, "reported", None, HandOver(STEER)),
    ("G1 until it is taken", {**RUNNING, **STEERED}, "reported", "steer", Wait()),
    ("G3 ahead of the queue", {**ended("complete"), **QUEUE, **STEERED}, "completed", None, Start(STEER)),
    ("G3 behind a plain failure too", {**ended("error"), **QUEUE, **STEERED}, "failed", None, Start(STEER)),
    ("G3 waits behind what can be resumed", {**RESUMABLE, **STEERED}, "touched", None, Wait()),
]


LATE: list[tuple[str, Json, Cause, str | None]] = [
    ("B9 at once", ended("complete"), "late", None),
    ("B9 behind a stop, ahead of the queue", {**ended("cancelled"), **QUEUE}, "stopped", None),
    ("B9 behind a failure", {**ended("error"), **QUEUE}, "failed", None),
    ("B9 behind what can be resumed", RESUMABLE, "late", None),
    ("B9 ahead of steering and of the queue", {**ended("complete"), **QUEUE, **STEERED}, "completed", None),
    ("B9 it is what the backend held", {**ended("complete"), **STEERED}, "late", "steer"),
]


@pytest.mark.parametrize(("state", "cause", "held"), [row[1:] for row in LATE], ids=[row[0] for row in LATE])
def test_next_step_opens_what_the_backend_began(state: Json, cause: Cause, held: str | None) -> None:
    assert next_step({"turns": [], **state}, cause, held=held, late=True) == OpenLate()


def test_B9_a_late_turn_waits_for_the_one_that_runs_which_steering_goes_into() -> None:
    for state, step in (({**RUNNING, **QUEUE}, Wait()), ({**RUNNING, **STEERED}, HandOver(STEER))):
        assert next_step({"turns": [], **state}, "late", held=None, late=True) == step


def test_Q2_a_late_turn_that_is_not_there_changes_nothing() -> None:
    assert next_step({**ended("complete"), **QUEUE}, "late", held=None) == Wait()


@pytest.mark.parametrize(
    ("state", "cause", "held", "step"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_next_step(state: Json, cause: Cause, held: str | None, step: Step) -> None:
    assert next_step({"turns": [], **state}, cause, held=held) == step


# ── Through the wire ─────────────────────────────────────────────────────────────────────────────────────────────
class Pausing:
    """An agent whose every turn waits for its word: "done", "fail" or "resumable"."""

    def __init__(self, agent: Scripted) -> None:
        self.words: asyncio.Queue[str] = asyncio.Queue()
        self.texts: list[str] = []
        agent.play = self

    async def __call__(self, prompt: Prompt, sink: TurnSink) -> None:
        self.texts.append(prompt.text)
        word = await self.words.get()
        if word != "done":
            raise TurnFailed("test", "It failed.", resumable=word == "resumable")
        sink.markdown("done")


@pytest.fixture
def pausing(agent: Scripted) -> Pausing:
    return Pausing(agent)


@pytest.fixture
async def chat(client: WireClient) -> str:
    return await client.create(S)


async def queue(client: WireClient, chat: str, name: str, text: str | None = None, **more: Any) -> Json:
    return await client.do(
        chat, "chat/pendingMessageSet", kind="queued", id=name, message=message(text or name), **more
    )


def waiting(client: WireClient, chat: str) -> list[str]:
    return [entry["id"] for entry in client.state(chat).get("queuedMessages", [])]


async def test_Q1_Q2_what_waits_is_said_and_starts_in_order_named_by_its_id(
    host: Host, client: WireClient, other: WireClient, chat: str, pausing: Pausing
) -> None:
    await other.subscribe(chat)
    await client.start(chat, "first")
    await queue(client, chat, "a")
    await queue(client, chat, "b")
    assert waiting(other, chat) == ["a", "b"]

    for _ in range(3):
        pausing.words.put_nowait("done")
    await until(lambda: len(client.state(chat)["turns"]) == 3)

    starts = [env["action"] for env in other.envelopes if env["action"]["type"] == "chat/turnStarted"]
    assert [start.get("queuedMessageId") for start in starts] == [None, "a", "b"]
    assert starts[1]["message"]["_meta"]["jupyter-ahp.sender"] == "user:alice"
    assert pausing.texts == ["first", "a", "b"]
    assert "queuedMessages" not in client.state(chat)
    await agree(host, client, other)


async def test_Q4_a_stop_starts_nothing_until_somebody_touches_the_queue(
    client: WireClient, chat: str, pausing: Pausing, host: Host
) -> None:
    turn = await client.start(chat, "first")
    await queue(client, chat, "a")
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)
    assert waiting(client, chat) == ["a"]

    await queue(client, chat, "b")
    await until(lambda: client.running(chat))
    assert waiting(client, chat) == ["b"]
    assert client.state(chat)["activeTurn"]["message"]["text"] == "a"


async def test_Q4_a_failure_starts_nothing_and_a_clients_turn_that_completes_does(
    client: WireClient, chat: str, pausing: Pausing, host: Host
) -> None:
    await client.start(chat, "first")
    await queue(client, chat, "a")
    pausing.words.put_nowait("fail")
    await until(lambda: not client.running(chat))
    await quiet(host)
    assert waiting(client, chat) == ["a"]

    await client.start(chat, "second")
    pausing.words.put_nowait("done")
    await until(lambda: pausing.texts == ["first", "second", "a"])


async def test_Q5_nothing_starts_behind_what_can_be_resumed(
    client: WireClient, chat: str, pausing: Pausing, host: Host
) -> None:
    turn = await client.start(chat, "first")
    pausing.words.put_nowait("resumable")
    await until(lambda: not client.running(chat))
    await queue(client, chat, "a")
    await quiet(host)
    assert waiting(client, chat) == ["a"]

    await client.do(chat, "chat/turnResume", turnId=turn)
    pausing.words.put_nowait("done")
    await until(lambda: pausing.texts == ["first", "first", "a"])


@pytest.mark.parametrize("how", ["removed", "reordered", "edited"])
async def test_Q4_hold_tidies_the_queue_and_starts_nothing(
    client: WireClient, chat: str, pausing: Pausing, host: Host, how: str
) -> None:
    turn = await client.start(chat, "first")
    for name in "abc":
        await queue(client, chat, name)
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    meta = {HOLD: True}

    if how == "removed":
        await client.do(chat, "chat/pendingMessageRemoved", kind="queued", id="a", _meta=meta)
    elif how == "reordered":
        await client.do(chat, "chat/queuedMessagesReordered", order=["b", "c", "a"], _meta=meta)
    else:
        await queue(client, chat, "b", "other words", _meta=meta)
    await quiet(host)

    assert not client.running(chat)
    assert (
        waiting(client, chat)
        == {"removed": ["b", "c"], "reordered": ["b", "c", "a"], "edited": list("abc")}[how]
    )


async def test_Q2_a_person_sends_on_what_waits_and_it_stays_its_authors(
    host: Host, client: WireClient, chat: str, pausing: Pausing
) -> None:
    bob = WireClient(host, principal=Principal("user:bob", "Bob"))
    await bob.initialize()
    await bob.subscribe(chat)
    turn = await client.start(chat, "first")
    await queue(client, chat, "a")
    await queue(client, chat, "b")
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    start: Json = {"startedAt": "2026-03-01T10:00:00.000Z", "message": message("bob's words")}

    await bob.do(chat, "chat/turnStarted", turnId="t-b", queuedMessageId="b", **start)
    gone = await bob.do(chat, "chat/turnStarted", turnId="t-c", queuedMessageId="b", **start)

    sent = client.state(chat)["activeTurn"]["message"]
    assert (sent["text"], sent["_meta"]["jupyter-ahp.sender"]) == ("b", "user:alice")
    assert waiting(client, chat) == ["a"]
    assert "rejectionReason" in gone
    pausing.words.put_nowait("done")
    await until(lambda: pausing.texts == ["first", "b", "a"])
    again = await bob.do(chat, "chat/turnStarted", turnId="t-d", queuedMessageId="b", **start)
    assert "rejectionReason" in again
    pausing.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    late = await bob.do(chat, "chat/turnStarted", turnId="t-e", queuedMessageId="b", **start)
    assert late["rejectionReason"] == "This message does not wait any more."


async def test_Q7_an_unknown_one_taken_back_is_said_as_sent_and_changes_nothing(
    client: WireClient, other: WireClient, chat: str, pausing: Pausing, host: Host
) -> None:
    await other.subscribe(chat)
    turn = await client.start(chat, "first")
    await queue(client, chat, "a")
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)

    said = await client.do(chat, "chat/pendingMessageRemoved", kind="queued", id="nobody")
    await quiet(host)

    assert "rejectionReason" not in said
    assert other.envelopes[-1]["action"] == said["action"]
    assert waiting(client, chat) == ["a"]
    assert not client.running(chat)


async def test_Q8_reordered_ids_unnamed_stay_behind_those_named(
    client: WireClient, chat: str, pausing: Pausing
) -> None:
    await client.start(chat, "first")
    for name in "abcd":
        await queue(client, chat, name)
    await client.do(chat, "chat/queuedMessagesReordered", order=["c", "nobody", "a"])
    assert waiting(client, chat) == ["c", "a", "b", "d"]


async def test_G4_a_backend_without_steering_refuses_it(
    client: WireClient, chat: str, pausing: Pausing
) -> None:
    for run in (False, True):
        if run:
            await client.start(chat, "first")
        said = await client.do(chat, "chat/pendingMessageSet", kind="steering", id="s", message=message("s"))
        assert said["rejectionReason"] == "The session provider does not support steering messages."


async def test_what_cannot_be_stored_does_not_wait_and_what_cannot_start_still_waits(
    failing: Failing, agent: Scripted
) -> None:
    host = await started(failing, agent)
    pausing = Pausing(agent)
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    turn = await client.start(chat, "first")
    failing.fails.add("put_chat")
    assert "disk is full" in (await queue(client, chat, "lost"))["rejectionReason"]
    failing.fails.clear()
    await queue(client, chat, "a")
    failing.fails.add("begin_turn")
    pausing.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    await quiet(host)
    assert waiting(client, chat) == ["a"]
    assert turn in [entry["id"] for entry in client.state(chat)["turns"]]
    failing.fails.clear()
    await client.connection.closed()
    await host.stop()


async def test_Q1_what_waits_is_there_after_a_crash_and_goes_on_when_somebody_does(
    tmp_path: Path, agent: Scripted
) -> None:
    host = await started(FileStore(tmp_path / "store"), agent)
    pausing = Pausing(agent)
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    turn = await client.start(chat, "first")
    await queue(client, chat, "a")
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")

    again = await started(FileStore(tmp_path / "crashed"), agent)
    late = WireClient(again)
    await late.initialize()
    await late.subscribe(chat)
    assert waiting(late, chat) == ["a"]
    await late.do(chat, "chat/turnResume", turnId=turn)
    for _ in range(4):  # the crashed host, which lives on here, runs the same two turns
        pausing.words.put_nowait("done")
    await until(lambda: waiting(late, chat) == [] and not late.running(chat))
    assert [entry["message"]["text"] for entry in late.state(chat)["turns"]] == ["first", "a"]
    for one, its in ((client, host), (late, again)):
        await one.connection.closed()
        await its.stop()


@pytest.mark.parametrize("said", ["q1", ["q1"], {"q1": 1}, 7])
async def test_Q1_under_which_id_a_message_waited_is_the_hosts_to_say(
    files: FileStore, tmp_path: Path, agent: Scripted, said: object
) -> None:
    """A client that claims it, as one that sends again what it read, neither takes another's message away nor the chat."""
    host = await started(files, agent)
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    Pausing(agent)
    turn = await client.start(chat, "theirs", _meta={PENDING_ID: said})
    await queue(client, chat, "q1")
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)
    assert waiting(client, chat) == ["q1"]
    await client.connection.closed()
    await host.stop()

    again = await started(FileStore(tmp_path / "store"), agent)
    late = WireClient(again)
    await late.initialize()
    await late.subscribe(chat)
    assert PENDING_ID not in late.turn(chat, turn)["message"]["_meta"]
    assert waiting(late, chat) == ["q1"]
    await late.connection.closed()
    await again.stop()


async def test_Q1_a_crash_between_the_start_and_the_record_delivers_it_once(
    tmp_path: Path, agent: Scripted
) -> None:
    host = await started(FileStore(tmp_path / "store"), agent)
    pausing = Pausing(agent)
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    await client.start(chat, "first")
    await queue(client, chat, "a")
    pausing.words.put_nowait("done")
    await until(lambda: pausing.texts == ["first", "a"])
    record = next((tmp_path / "store").rglob("chat.json"))
    assert '"queued":[{"id":"a"' in record.read_text().replace(" ", ""), "not saved yet, so this is the crash"
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")

    again = await started(FileStore(tmp_path / "crashed"), agent)
    late = WireClient(again)
    await late.initialize()
    state = await late.subscribe(chat)
    assert [entry["message"]["text"] for entry in state["turns"]] == ["first", "a"]
    assert "queuedMessages" not in state
    for one, its in ((client, host), (late, again)):
        await one.connection.closed()
        await its.stop()


# ── Every message once, in order, or still there, or refused ────────────────────────────────────────────────────
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("queue"), st.integers(0, 5)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("front"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["done", "fail", "resumable"]), st.just(0)),
        st.tuples(st.sampled_from(["send", "stop", "resume", "reconnect", "restart"]), st.just(0)),
    ),
    max_size=24,
)


class World:
    """A chat whose people and agent do what the steps say, and what became of every message."""

    def __init__(self) -> None:
        self.store: Store = MemoryStore()
        self.agent = Scripted()
        self.pausing = Pausing(self.agent)
        self.sent: list[str] = []
        self.refused: set[str] = set()
        self.taken_back: set[str] = set()
        self.count = 0
        self.chat = ""

    async def begin(self) -> None:
        self.host = await started(self.store, self.agent)
        self.client = WireClient(self.host)
        await self.client.initialize()
        if self.chat:
            await self.client.subscribe(self.chat)
        else:
            self.chat = await self.client.create(S)

    async def end(self) -> None:
        await self.client.connection.closed()
        await self.host.stop()

    def name(self) -> str:
        self.count += 1
        self.sent.append(f"m{self.count}")
        return self.sent[-1]

    async def settle(self) -> None:
        await quiet_or_running(self.host)

    async def step(self, what: str, index: int) -> None:
        client, chat = self.client, self.chat
        state = client.state(chat)
        held = [entry["id"] for entry in state.get("queuedMessages", [])]
        if what == "queue":
            name = self.name()
            if "rejectionReason" in await queue(client, chat, name):
                self.refused.add(name)
        elif what == "send":
            name = self.name()
            await client.start(chat, name, turn=f"turn-{name}")
            if client.refusals and client.refusals[-1]["action"].get("turnId") == f"turn-{name}":
                self.refused.add(name)
        elif what == "remove" and held:
            name = held[index % len(held)]
            await client.do(chat, "chat/pendingMessageRemoved", kind="queued", id=name)
            self.taken_back.add(name)
        elif what == "front" and held:
            await client.do(chat, "chat/queuedMessagesReordered", order=[held[index % len(held)]])
        elif what in ("done", "fail", "resumable") and "activeTurn" in state:
            turn = state["activeTurn"]["id"]
            self.pausing.words.put_nowait(what)
            await until(lambda: client.state(chat).get("activeTurn", {}).get("id") != turn)
        elif what == "stop" and "activeTurn" in state:
            await client.do(chat, "chat/turnCancelled", turnId=state["activeTurn"]["id"], duration=1)
        elif what == "resume" and state["turns"]:
            await client.do(chat, "chat/turnResume", turnId=state["turns"][-1]["id"])
        elif what == "reconnect":
            await client.drop()
            await client.reconnect()
        elif what == "restart":
            await self.end()
            await self.begin()
        await self.settle()

    def check(self) -> None:
        state = self.client.state(self.chat)
        turns = [*state["turns"], *([state["activeTurn"]] if "activeTurn" in state else [])]
        ran = [turn["message"]["text"] for turn in turns]
        held = [entry["message"]["text"] for entry in state.get("queuedMessages", [])]
        assert len(ran) == len(set(ran)), "a message runs once"
        for name in self.sent:
            places = (name in ran) + (name in held) + (name in self.refused) + (name in self.taken_back)
            assert places == 1, f"{name} is in {places} places: {ran} {held} {self.refused} {self.taken_back}"


async def quiet_or_running(host: Host) -> None:
    chats = [chat for session in host.sessions.values() for chat in session.chats.values()]
    await until(lambda: not any(chat._worker or chat.turns._stops or chat.turns._endings for chat in chats))
    await asyncio.sleep(0.002)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_Q_every_message_runs_once_or_waits_or_was_refused(steps: list[tuple[str, int]]) -> None:
    async def live() -> None:
        world = World()
        await world.begin()
        try:
            for what, index in steps:
                await world.step(what, index)
                world.check()
            await agree(world.host, world.client)
        finally:
            await world.end()

    asyncio.run(live())


# ── Steering ─────────────────────────────────────────────────────────────────────────────────────────────────────
class Steered(Line):
    """A conversation that takes steering when told to, and reads it when told to."""

    agent: SteeredAgent

    async def steer(self, message: Steering) -> bool:
        self.agent.offered.append(message.id)
        if self.agent.refuses:
            raise SteeringRefused("it is too long.")
        if self.agent.takes:
            self.agent.taken.append(message)
        return self.agent.takes

    async def withdraw(self, message_id: str) -> bool:
        if self.agent.gives_back:
            self.agent.taken = [message for message in self.agent.taken if message.id != message_id]
        return self.agent.gives_back

    @property
    def holds(self) -> str | None:
        return self.agent.still_holds


class SteeredAgent(Scripted):
    capabilities = Capabilities(steering=True)

    def __init__(self) -> None:
        super().__init__()
        self.takes = True
        self.refuses = False
        self.gives_back = True
        self.still_holds: str | None = None
        self.offered: list[str] = []
        self.taken: list[Steering] = []
        self.sink: TurnSink | None = None
        self.words: asyncio.Queue[str] = asyncio.Queue()
        self.texts: list[str] = []
        self.play = self._play

    async def _play(self, prompt: Prompt, sink: TurnSink) -> None:
        self.sink = sink
        self.texts.append(prompt.text)
        while (word := await self.words.get()) != "done":
            if word == "read":
                sink.steering_read(self.taken.pop(0).id)
            elif word == "resumable":
                raise TurnFailed("test", "It failed.", resumable=True)
            else:
                sink.markdown(word)

    async def open(self, start: StartOfChat) -> Conversation:
        return Steered(self, start)


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Scripted:
    return SteeredAgent() if "steered" in request.fixturenames else Scripted()


@pytest.fixture
def steered(agent: Scripted) -> SteeredAgent:
    assert isinstance(agent, SteeredAgent)
    return agent


async def steer(client: WireClient, chat: str, name: str, text: str | None = None) -> Json:
    return await client.do(
        chat, "chat/pendingMessageSet", kind="steering", id=name, message=message(text or name)
    )


async def test_B14_one_that_the_backend_will_not_take_is_out_and_the_turn_goes_on(
    host: Host, client: WireClient, chat: str, steered: SteeredAgent
) -> None:
    await client.start(chat, "go")
    await until(lambda: steered.sink)
    steered.refuses = True
    await steer(client, chat, "s")
    await until(lambda: "steeringMessage" not in client.state(chat))
    assert "not taken into the turn: it is too long." in str(client.state(S)["_meta"])
    assert client.running(chat)

    for word in ("on", "done"):
        steered.words.put_nowait(word)
    await until(lambda: not client.running(chat))
    assert steered.offered == ["s"]
    assert steered.texts == ["go"]


async def test_G1_steering_goes_into_the_turn_and_stands_where_the_model_read_it(
    host: Host, client: WireClient, other: WireClient, chat: str, steered: SteeredAgent
) -> None:
    await other.subscribe(chat)
    await client.start(chat, "first")
    steered.words.put_nowait("before")
    await steer(client, chat, "s", "mind the date")
    assert other.state(chat)["steeringMessage"]["id"] == "s"
    await until(lambda: steered.taken)
    for word in ("read", "after", "done"):
        steered.words.put_nowait(word)
    await until(lambda: not client.running(chat))

    turn = client.state(chat)["turns"][0]
    assert [part.get("content") for part in turn["responseParts"]] == ["before", "mind the date", "after"]
    said = turn["responseParts"][1]["_meta"]["jupyter-ahp.steering"]
    assert said["_meta"]["jupyter-ahp.sender"] == "user:alice"
    assert "steeringMessage" not in client.state(chat)
    assert steered.texts == ["first"]
    await agree(host, client, other)


async def test_G1_a_backend_that_cannot_take_it_yet_is_asked_again_on_its_next_action(
    client: WireClient, chat: str, steered: SteeredAgent
) -> None:
    steered.takes = False
    await client.start(chat, "first")
    await steer(client, chat, "s")
    await until(lambda: steered.offered)
    count = len(steered.offered)
    steered.takes = True
    steered.words.put_nowait("a piece")
    await until(lambda: steered.taken)
    assert steered.offered == ["s"] * len(steered.offered)
    assert len(steered.offered) > count


async def test_G2_G3_unread_at_the_turns_end_it_runs_next_ahead_of_the_queue(
    client: WireClient, chat: str, steered: SteeredAgent
) -> None:
    await client.start(chat, "first")
    await queue(client, chat, "queued")
    await steer(client, chat, "s")
    await until(lambda: steered.taken)
    for _ in range(3):
        steered.words.put_nowait("done")
    await until(lambda: len(client.state(chat)["turns"]) == 3)
    assert steered.texts == ["first", "s", "queued"]
    starts = [env["action"] for env in client.envelopes if env["action"]["type"] == "chat/turnStarted"]
    assert [start.get("queuedMessageId") for start in starts] == [None, "s", "queued"]


async def test_G3_with_no_turn_running_it_is_a_turn_of_its_own(
    client: WireClient, chat: str, steered: SteeredAgent
) -> None:
    await steer(client, chat, "s")
    await until(lambda: client.running(chat))
    assert client.state(chat)["activeTurn"]["message"]["text"] == "s"
    assert "steeringMessage" not in client.state(chat)
    steered.words.put_nowait("done")


async def test_G3_behind_a_resumable_failure_it_goes_into_the_next_turn(
    client: WireClient, chat: str, steered: SteeredAgent, host: Host
) -> None:
    turn = await client.start(chat, "first")
    steered.words.put_nowait("resumable")
    await until(lambda: not client.running(chat))
    await steer(client, chat, "s")
    await quiet(host)
    assert not client.running(chat)

    await client.do(chat, "chat/turnResume", turnId=turn)
    await until(lambda: steered.taken)
    steered.words.put_nowait("read")
    steered.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    assert steered.texts == ["first", "first"]


async def test_G5_sent_again_it_is_answered_once_handed_over_and_cannot_change(
    client: WireClient, chat: str, steered: SteeredAgent
) -> None:
    await client.start(chat, "first")
    await steer(client, chat, "s")
    await until(lambda: steered.taken)
    assert "rejectionReason" not in await steer(client, chat, "s")
    changed = await steer(client, chat, "s", "other words")
    assert changed["rejectionReason"] == "Cannot change a steering message while it is being processed."
    assert steered.offered == ["s"]
    steered.words.put_nowait("done")


async def test_G6_a_stop_takes_it_out_behind_the_stop_and_starts_nothing(
    client: WireClient, chat: str, steered: SteeredAgent, host: Host
) -> None:
    turn = await client.start(chat, "first")
    await steer(client, chat, "s")
    await until(lambda: steered.taken)
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)
    kinds = client.kinds(chat)
    assert kinds[kinds.index("chat/turnCancelled") + 1] == "chat/pendingMessageRemoved"
    assert "steeringMessage" not in client.state(chat)
    assert not client.running(chat)


@pytest.mark.parametrize("handed", [True, False])
async def test_G6_D1_words_that_a_stop_took_out_are_the_chats_draft(
    client: WireClient, other: WireClient, chat: str, steered: SteeredAgent, host: Host, handed: bool
) -> None:
    await other.subscribe(chat)
    steered.takes = handed
    turn = await client.start(chat, "first")
    await steer(client, chat, "s", "mind the date")
    if handed:
        await until(lambda: steered.taken)
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await until(lambda: "draft" in other.state(chat))
    draft = other.state(chat)["draft"]
    assert (draft["text"], draft["_meta"]["jupyter-ahp.sender"]) == ("mind the date", "user:alice")
    assert "origin" not in other.envelopes[-1], "the host's own"
    await agree(host, client, other)


async def test_G6_D1_a_draft_that_is_there_stays_as_it_is(
    client: WireClient, chat: str, steered: SteeredAgent, host: Host
) -> None:
    turn = await client.start(chat, "first")
    await steer(client, chat, "s", "mind the date")
    await until(lambda: steered.taken)
    await client.do(chat, "chat/draftChanged", draft=message("half a thou"))
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)
    assert client.state(chat)["draft"]["text"] == "half a thou"


async def test_G7_taken_back_it_is_withdrawn_from_the_backend(
    client: WireClient, chat: str, steered: SteeredAgent
) -> None:
    await client.start(chat, "first")
    await steer(client, chat, "s")
    await until(lambda: steered.taken)
    said = await client.do(chat, "chat/pendingMessageRemoved", kind="steering", id="s")
    assert "rejectionReason" not in said
    assert not steered.taken
    steered.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    assert len(client.state(chat)["turns"]) == 1


async def test_G7_a_backend_that_cannot_withdraw_keeps_it(
    client: WireClient, chat: str, steered: SteeredAgent
) -> None:
    steered.gives_back = False
    await client.start(chat, "first")
    await steer(client, chat, "s")
    await until(lambda: steered.taken)
    said = await client.do(chat, "chat/pendingMessageRemoved", kind="steering", id="s")
    assert said["rejectionReason"] == "Cannot change a steering message while it is being processed."
    assert client.state(chat)["steeringMessage"]["id"] == "s"
    steered.words.put_nowait("done")
    steered.words.put_nowait("done")


async def test_Q6_nothing_starts_while_the_backend_holds_steering_that_it_has_not_run(
    client: WireClient, chat: str, steered: SteeredAgent, host: Host
) -> None:
    await client.start(chat, "first")
    await queue(client, chat, "queued")
    steered.still_holds = "s"
    steered.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    await quiet(host)
    assert waiting(client, chat) == ["queued"]
    steered.still_holds = None
    await queue(client, chat, "more")
    await until(lambda: client.running(chat))
    for _ in range(2):
        steered.words.put_nowait("done")


async def test_G1_what_was_read_in_a_turn_says_under_which_id_it_waited(
    client: WireClient, chat: str, steered: SteeredAgent
) -> None:
    await client.start(chat, "first")
    await steer(client, chat, "s", "mind the date")
    await until(lambda: steered.taken)
    for word in ("read", "done"):
        steered.words.put_nowait(word)
    await until(lambda: not client.running(chat))
    [part] = client.state(chat)["turns"][0]["responseParts"]
    assert part["_meta"]["jupyter-ahp.steering"]["_meta"]["jupyter-ahp.pendingId"] == "s"


@pytest.mark.parametrize("kind", ["queued", "steering"])
async def test_Q1_an_edit_that_comes_too_late_is_refused_and_not_delivered_beside_it(
    host: Host, client: WireClient, chat: str, steered: SteeredAgent, kind: str
) -> None:
    await client.start(chat, "first")
    await client.do(chat, "chat/pendingMessageSet", kind=kind, id="p", message=message("old"))
    if kind == "steering":
        await until(lambda: steered.taken)
        steered.words.put_nowait("read")
    for _ in range(2):
        steered.words.put_nowait("done")
    await until(lambda: "queuedMessages" not in client.state(chat) and not client.running(chat))
    said = await client.do(chat, "chat/pendingMessageSet", kind=kind, id="p", message=message("new"))
    await quiet(host)
    assert said["rejectionReason"] == "This message was sent already. What was sent cannot be changed."
    assert steered.texts == (["first", "old"] if kind == "queued" else ["first"])
    await agree(host, client)


async def test_G1_steering_that_was_read_just_before_a_crash_is_not_delivered_again(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    agent = SteeredAgent()
    host = await started(store, agent)
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    await client.start(chat, "first")
    await steer(client, chat, "s")
    await until(lambda: agent.taken)
    saver = host.sessions["s"].chats[chat].saver
    saver.soon = lambda: None  # type: ignore[method-assign]  # the process dies before that
    agent.words.put_nowait("read")
    await until(lambda: "steeringMessage" not in client.state(chat))
    await asyncio.sleep(0.1)  # the journal is written within 50 ms
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    await client.drop()
    await host.stop()

    again = await started(FileStore(tmp_path / "copy"), SteeredAgent())
    other = WireClient(again)
    await other.initialize()
    state = await other.subscribe(chat)
    assert "steeringMessage" not in state
    assert [part["kind"] for part in state["turns"][0]["responseParts"]] == ["systemNotification", "error"]
    await other.drop()
    await again.stop()
