"""Turns that nobody asked for, and work behind the turns: B9, Q6, AHP 4.2; through the wire, with a steered agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import (
    Capabilities,
    Conversation,
    Json,
    Prompt,
    Start,
    Steering,
    TurnFailed,
    TurnSink,
)
from jupyter_ahp.protocol import status
from tests.host.harness import (
    Failing,
    Line,
    Scripted,
    WireClient,
    agree,
    answer_of,
    message,
    quiet,
    started,
    until,
)

S = "ahp-session:/s"


class Cli(Line):
    """A conversation that takes every steering message and keeps it: what it had not read at a stop, it runs afterwards."""

    def __init__(self, agent: Clis, start: Start) -> None:
        super().__init__(agent, start)
        self.words: asyncio.Queue[str] = asyncio.Queue()
        self.taken: list[Steering] = []
        self.late: list[Awaitable[None]] = []
        self.stopped = 0
        self.runs_late = False

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        self.agent.prompts.append(prompt)
        await self._work(prompt.text, sink)

    async def _work(self, text: str, sink: TurnSink) -> None:
        sink.markdown(f"working on {text}")
        match await self.words.get():
            case "done":
                sink.markdown(", done")
            case "tool":
                sink.tool("shell", title="Shell").done("Ran")
                await self._work("more", sink)
            case word:
                raise TurnFailed("test", "It failed.", resumable=word == "resumable")

    async def steer(self, message: Steering) -> bool:
        self.taken.append(message)
        return True

    async def withdraw(self, message_id: str) -> bool:
        self.taken = [taken for taken in self.taken if taken.id != message_id]
        return True

    async def stop(self, running: asyncio.Task[None]) -> None:
        self.stopped += 1
        running.cancel()
        await asyncio.wait([running])
        if self.runs_late and self.taken:
            self.run_late(self.taken.pop(0))

    def run_late(self, steering: Steering) -> None:
        async def answer(sink: TurnSink) -> None:
            await self._work(f"late {steering.text}", sink)

        self.late.append(self.start.host.late_turn(steering.text, answer, message_id=steering.id))

    def come_back(self, text: str, play: Callable[[TurnSink], Awaitable[None]] | None = None) -> None:
        async def answer(sink: TurnSink) -> None:
            await self._work(text, sink)

        meta = {"label": "Background agent"}
        self.late.append(self.start.host.late_turn(text, play or answer, meta=meta))


class Clis(Scripted):
    capabilities = Capabilities(steering=True)

    def __init__(self) -> None:
        super().__init__()
        self.clis: list[Cli] = []

    async def open(self, start: Start) -> Conversation:
        self.clis.append(Cli(self, start))
        return self.clis[-1]

    @property
    def cli(self) -> Cli:
        return self.clis[-1]


@pytest.fixture
def agent() -> Clis:
    return Clis()


@pytest.fixture
async def chat(client: WireClient, other: WireClient) -> str:
    chat = await client.create(S)
    await other.subscribe(chat)
    return chat


async def working(client: WireClient, chat: str, agent: Clis, turn: str, text: str = "go") -> None:
    """A turn of a person, in the agent's hands."""
    await client.start(chat, text, turn=turn)
    await until(lambda: client.state(chat)["activeTurn"]["responseParts"])


async def steered(client: WireClient, chat: str, agent: Clis, name: str = "s", text: str = "mind it") -> None:
    """A steering message, in the agent's hands."""
    await client.do(chat, "chat/pendingMessageSet", kind="steering", id=name, message=message(text))
    await until(lambda: [taken.id for taken in agent.cli.taken] == [name])


def texts(client: WireClient, chat: str) -> list[str]:
    return [turn["message"]["text"] for turn in client.state(chat)["turns"]]


def starts(client: WireClient, chat: str) -> list[Json]:
    return [
        env["action"]
        for env in client.envelopes
        if env["channel"] == chat and env["action"]["type"] == "chat/turnStarted"
    ]


async def test_B9_steering_run_behind_a_stop_is_a_turn_of_its_own_in_the_persons_words(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    await steered(client, chat, agent)
    agent.cli.runs_late = True
    await client.do(chat, "chat/turnCancelled", turnId="t1", duration=1)
    assert "steeringMessage" not in client.state(chat), "G6: it left with the stop"
    await until(lambda: len(starts(other, chat)) == 2)

    start = starts(other, chat)[1]
    assert start["queuedMessageId"] == "s"
    assert start["message"]["text"] == "mind it"
    assert start["message"]["origin"] == {"kind": "user"}
    assert start["message"]["_meta"]["jupyter-ahp.sender"] == "user:alice"
    await until(lambda: other.state(chat)["activeTurn"]["responseParts"])
    agent.cli.words.put_nowait("done")
    await until(lambda: not other.running(chat))

    turn = other.state(chat)["turns"][-1]
    assert (turn["state"], answer_of(turn)) == ("complete", "working on late mind it, done")
    assert turn["duration"] >= 0
    await asyncio.wait_for(agent.cli.late[0], 5)
    again = await client.do(
        chat, "chat/pendingMessageSet", kind="steering", id="s", message=message("mind it")
    )
    assert again["rejectionReason"] == "This message was sent already. What was sent cannot be changed."
    assert [prompt.text for prompt in agent.prompts] == ["go"], "nobody was sent it twice"
    await quiet(host)
    assert "draft" not in client.state(chat), "nor are its words put there again"
    await agree(host, client, other)


async def test_B9_half_an_emoji_in_what_a_backend_began_by_itself_is_mended(
    client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    agent.cli.start.host.background({"kind": "task", "label": "half \ud83d"}, "b \ud83d")
    assert client.state(chat)["backgroundWork"][0]["label"] == "half \ufffd"
    agent.cli.start.host.background(None, "b \ud83d")
    assert not client.state(chat).get("backgroundWork")
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))

    async def nothing(sink: TurnSink) -> None: ...

    await asyncio.wait_for(agent.cli.start.host.late_turn("half \ud83d", nothing, meta={"m": "\ud83d"}), 5)

    message = client.state(chat)["turns"][-1]["message"]
    assert (message["text"], message["_meta"]["m"]) == ("half \ufffd", "\ufffd")


@pytest.mark.usefixtures("holding")
async def test_B9_what_a_completed_turn_left_leaves_the_list_by_its_turn(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    await steered(client, chat, agent)
    await client.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("queued"))
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    await quiet(host)
    assert client.state(chat)["steeringMessage"]["id"] == "s", "Q6: it is held, and nothing starts"
    assert not client.running(chat)

    agent.cli.run_late(agent.cli.taken[0])
    await until(lambda: client.running(chat))
    assert "steeringMessage" not in client.state(chat)
    assert starts(client, chat)[-1]["queuedMessageId"] == "s"
    assert [entry["id"] for entry in client.state(chat)["queuedMessages"]] == ["q"]
    agent.cli.words.put_nowait("done")
    agent.cli.words.put_nowait("done")
    await until(lambda: texts(client, chat) == ["go", "mind it", "queued"])
    await quiet(host)
    await host.sessions["s"].chats[chat].saver.flush()
    stored = await host.store.load_chat("s", chat)
    assert (stored.record.steering, stored.record.queued) == (None, [])
    await agree(host, client)


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent says what it holds until it begins to run it."""
    holds = property(lambda cli: cli.taken[0].id if cli.taken and not cli.late else None)
    monkeypatch.setattr(Cli, "holds", holds)


@pytest.mark.usefixtures("holding")
async def test_Q6_what_is_held_is_not_handed_over_again_to_a_turn_that_a_person_starts(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    await steered(client, chat, agent)
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    await working(client, chat, agent, "t2", "and on")
    assert client.state(chat)["steeringMessage"]["id"] == "s"
    agent.cli.run_late(agent.cli.taken[0])
    agent.cli.words.put_nowait("tool")
    agent.cli.words.put_nowait("done")
    agent.cli.words.put_nowait("done")
    await until(lambda: texts(client, chat) == ["go", "and on", "mind it"])

    assert [taken.id for taken in agent.cli.taken] == ["s"]
    assert starts(client, chat)[-1]["queuedMessageId"] == "s"
    await quiet(host)
    await agree(host, client)


@pytest.mark.usefixtures("holding")
async def test_G7_what_is_held_behind_its_turn_is_withdrawn_when_it_is_taken_back(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    await steered(client, chat, agent)
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    await client.do(chat, "chat/pendingMessageRemoved", kind="steering", id="s")

    assert agent.cli.taken == [], "it was asked to give it up"
    assert "steeringMessage" not in client.state(chat)
    await quiet(host)
    assert texts(client, chat) == ["go"]
    await agree(host, client)


async def test_B9_one_that_a_person_took_back_and_is_run_all_the_same_is_shown(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    await steered(client, chat, agent)
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat) or client.state(chat)["activeTurn"]["id"] != "t1")
    agent.cli.words.put_nowait("done")
    await until(lambda: texts(client, chat) == ["go", "mind it"])  # G2: it went back to the host

    agent.cli.run_late(Steering("unknown", "what it read"))
    agent.cli.words.put_nowait("done")
    await until(lambda: len(texts(client, chat)) == 3)
    turn = client.state(chat)["turns"][-1]
    assert turn["message"]["text"] == "what it read"
    assert turn["message"]["_meta"] == {"jupyter-ahp.pendingId": "unknown"}


async def test_a_turn_of_a_background_agent_is_the_systems_and_waits_for_the_one_that_runs(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    await client.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("queued"))
    agent.cli.come_back("The first agent is back")
    agent.cli.come_back("The second agent is back")
    await quiet_inbox(host)
    assert client.state(chat)["activeTurn"]["id"] == "t1"

    for _ in range(4):
        agent.cli.words.put_nowait("done")
    await until(lambda: len(texts(client, chat)) == 4)

    assert texts(client, chat) == ["go", "The first agent is back", "The second agent is back", "queued"]
    late = client.state(chat)["turns"][1]
    assert late["message"] == {
        "text": "The first agent is back",
        "origin": {"kind": "systemNotification"},
        "_meta": {"label": "Background agent"},
    }
    assert "queuedMessageId" not in starts(client, chat)[1]
    assert [len(prompt.history) for prompt in agent.prompts] == [0, 3], "later turns know of it"
    assert client.state(S)["title"] == "go", "it names nothing"
    await quiet(host)
    await agree(host, client, other)


async def quiet_inbox(host: Host) -> None:
    chats = [chat for session in host.sessions.values() for chat in session.chats.values()]
    await until(lambda: not any(chat._worker for chat in chats))


async def test_it_opens_at_once_in_a_chat_at_rest_whatever_came_before(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    agent.cli.words.put_nowait("resumable")
    await until(lambda: not client.running(chat))
    await client.do(S, "session/isArchivedChanged", isArchived=True)

    agent.cli.come_back("back")
    await until(lambda: client.running(chat))
    assert client.state(chat)["status"] & status.IN_PROGRESS
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    assert texts(client, chat) == ["go", "back"]
    await quiet(host)
    await agree(host, client)


async def test_a_late_turn_is_stopped_as_any_other_and_nothing_starts_behind_it(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    agent.cli.come_back("back")
    await until(lambda: client.running(chat) and client.state(chat)["activeTurn"]["responseParts"])
    await client.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("queued"))
    turn = client.state(chat)["activeTurn"]["id"]

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)

    assert agent.cli.stopped == 1
    assert client.state(chat)["turns"][-1]["state"] == "cancelled"
    assert not client.running(chat)
    assert [entry["id"] for entry in client.state(chat)["queuedMessages"]] == ["q"]
    await asyncio.wait_for(agent.cli.late[0], 5)
    await agree(host, client)


async def test_one_that_waits_opens_behind_a_stop_which_starts_nothing_else(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    await client.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("queued"))
    agent.cli.come_back("back")

    await client.do(chat, "chat/turnCancelled", turnId="t1", duration=1)
    await until(lambda: client.running(chat))
    assert client.state(chat)["activeTurn"]["message"]["text"] == "back"
    agent.cli.words.put_nowait("done")
    agent.cli.words.put_nowait("done")
    await until(lambda: texts(client, chat) == ["go", "back", "queued"])


async def test_one_that_waits_opens_behind_a_rewind_that_dropped_what_ran(
    client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    await working(client, chat, agent, "t2")
    agent.cli.come_back("back")

    await client.do(chat, "chat/truncated", turnId="t1")
    await until(lambda: client.running(chat))
    assert client.state(chat)["activeTurn"]["message"]["text"] == "back"
    agent.cli.words.put_nowait("done")
    await until(lambda: texts(client, chat) == ["go", "back"])


async def test_a_late_turn_takes_steering_and_tools_and_fails_as_any_other(
    host: Host,
    client: WireClient,
    other: WireClient,
    chat: str,
    agent: Clis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await working(client, chat, agent, "t1")
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    agent.cli.come_back("back")
    await until(lambda: client.running(chat))
    await steered(client, chat, agent)
    agent.cli.taken.clear()
    agent.cli.words.put_nowait("tool")
    agent.cli.words.put_nowait("resumable")
    await until(lambda: not client.running(chat))
    failed = client.state(chat)["turns"][-1]
    assert failed["state"] == "error"
    assert failed["responseParts"][-1]["resumable"] is True
    assert "toolCall" in failed["responseParts"][1]

    async def broken(sink: TurnSink) -> None:
        sink.markdown("half")
        raise ValueError("out of order")

    agent.cli.come_back("again", broken)
    await until(lambda: len(client.state(chat)["turns"]) == 3)
    broke = client.state(chat)["turns"][-1]
    assert broke["responseParts"][-1]["error"]["errorType"] == "agentFailed"
    assert "The agent of" in caplog.text
    for late in agent.cli.late:
        await asyncio.wait_for(late, 5)
    await quiet(host)
    await agree(host, client, other)


async def test_one_that_cannot_be_stored_is_tried_again_ahead_of_what_waits(
    failing: Failing, agent: Clis
) -> None:
    host = await started(failing, agent)
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    await working(client, chat, agent, "t1")
    failing.fails.add("begin_turn")
    agent.cli.come_back("back")
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    await until(lambda: "begin_turn" in client.state(S).get("_meta", {}).get("jupyter-ahp.problem", ""))
    failing.fails.clear()
    for _ in range(2):
        agent.cli.words.put_nowait("done")
    await client.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("queued"))
    await until(lambda: texts(client, chat) == ["go", "back", "queued"])
    await client.connection.closed()
    await host.stop()


async def test_a_late_turn_of_a_chat_that_closes_never_opens_and_says_so(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    two = "ahp-chat:/two"
    await client.request("createChat", channel=S, chat=two)
    await client.subscribe(two)
    await working(client, two, agent, "t1")
    cli = agent.cli
    cli.come_back("back")
    cli.start.host.background({"kind": "shell", "label": "make", "command": "make"}, "job")
    await client.request("disposeChat", channel=two)
    cli.come_back("too late")
    cli.start.host.background({"kind": "shell", "label": "make", "command": "make"}, "job")

    for late in cli.late:
        await asyncio.wait_for(late, 5)
    assert len(starts(client, two)) == 1


async def test_a_late_turn_that_runs_when_the_server_dies_is_there_afterwards(
    host: Host, client: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    agent.cli.come_back("back")
    await until(lambda: client.running(chat) and client.state(chat)["activeTurn"]["responseParts"])

    stored = await host.store.load_chat("s", chat)
    assert stored.active is not None
    assert stored.active["message"]["origin"] == {"kind": "systemNotification"}
    assert any(action.get("content") == "working on back" for action in stored.active_actions)


async def test_what_runs_behind_the_turns_is_listed_until_it_ends_or_its_conversation_does(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Clis
) -> None:
    await working(client, chat, agent, "t1")
    agent.cli.words.put_nowait("done")
    await until(lambda: not client.running(chat))
    behind = agent.cli.start.host
    behind.background({"kind": "shell", "label": "make", "command": "make -j"}, "one")
    behind.background({"kind": "shell", "label": "serve", "command": "serve"}, "two")
    behind.background({"kind": "shell", "label": "make all", "command": "make -j"}, "one")
    behind.background(None, "nobody")

    shown = other.state(chat)["backgroundWork"]
    assert [(work["id"], work["label"]) for work in shown] == [("one", "make all"), ("two", "serve")]
    assert all("T" in work["startedAt"] for work in shown)
    behind.background(None, "one")
    assert [work["id"] for work in other.state(chat)["backgroundWork"]] == ["two"]
    await client.do(chat, "chat/truncated")
    await until(lambda: agent.cli.closed)
    assert other.state(chat)["backgroundWork"] == []
    await quiet(host)
    await agree(host, client, other)
