"""Turns: T1 to T8, stops, questions, confirmations, and agents that do what they should not."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import pytest

from jupyter_ahp.host import host as host_module
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import (
    Answer,
    Confirmation,
    Json,
    Principal,
    Prompt,
    Store,
    ToolCall,
    TurnFailed,
    TurnOver,
    TurnSink,
)
from jupyter_ahp.protocol import status
from tests.host.harness import (
    ROOT,
    Scripted,
    WireClient,
    agree,
    answer_of,
    message,
    quiet,
    until,
)

S = "ahp-session:/s"


@pytest.fixture
async def chat(client: WireClient, other: WireClient) -> str:
    """A chat that two clients watch."""
    chat = await client.create(S)
    await other.subscribe(S)
    await other.subscribe(chat)
    return chat


class Held:
    """An agent's turn that goes on when the test says so."""

    def __init__(self, agent: Scripted, before: str = "so far") -> None:
        self.sinks: list[TurnSink] = []
        self.go = asyncio.Event()
        self.left = asyncio.Event()
        self._before = before
        agent.play = self

    async def __call__(self, prompt: Prompt, sink: TurnSink) -> None:
        self.sinks.append(sink)
        if self._before:
            sink.markdown(self._before)
        try:
            await self.go.wait()
        finally:
            self.left.set()


# ── one turn ─────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_T1_T2_a_turn_from_its_start_to_its_end(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    turn = await client.say(chat, "hello", model={"id": "m"})

    assert turn["state"] == "complete"
    assert turn["message"]["model"] == {"id": "m"}
    assert answer_of(turn) == "You said: hello"
    assert other.kinds(chat) == [
        "chat/turnStarted",
        "chat/responsePart",
        "chat/delta",
        "chat/turnComplete",
    ]
    started = next(env for env in other.envelopes if env["action"]["type"] == "chat/turnStarted")
    assert started["origin"]["clientId"] == client.client_id
    assert all("origin" not in env for env in other.envelopes if env["action"]["type"] == "chat/delta")
    assert client.state(chat) == other.state(chat)
    await agree(host, client, other)


async def test_T2_the_running_turn_is_not_among_the_turns(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    Held(agent)
    turn = await client.start(chat, "go")
    await until(lambda: agent.prompts)

    assert client.state(chat)["activeTurn"]["id"] == turn
    assert client.state(chat)["turns"] == []


async def test_T3_a_message_says_who_sent_it_whatever_the_frame_claims(host: Host) -> None:
    bob = WireClient(host, principal=Principal("user:bob", "Bob"))
    await bob.initialize()
    chat = await bob.create(S)

    turn = await bob.say(chat, "hi", _meta={"jupyter-ahp.sender": "user:alice", "mine": 1})

    assert turn["message"]["_meta"] == {
        "jupyter-ahp.sender": "user:bob",
        "jupyter-ahp.name": "Bob",
        "mine": 1,
    }


async def test_T4_every_ending_has_a_duration(client: WireClient, chat: str, agent: Scripted) -> None:
    async def fail(prompt: Prompt, sink: TurnSink) -> None:
        raise TurnFailed("rateLimit", "Too many requests. Wait a minute.", resumable=True, details="429")

    done = await client.say(chat, "a")
    agent.play = fail
    failed = await client.say(chat, "b")
    held = Held(agent)
    turn = await client.start(chat, "c")
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=-5)
    await held.left.wait()

    for ended, state in ((done, "complete"), (failed, "error"), (client.turn(chat, turn), "cancelled")):
        assert ended["state"] == state
        assert isinstance(ended["duration"], int | float)
        assert ended["duration"] >= 0
    assert failed["responseParts"][-1] == {
        "kind": "error",
        "error": {"errorType": "rateLimit", "message": "Too many requests. Wait a minute.", "stack": "429"},
        "resumable": True,
    }


@pytest.mark.parametrize("duration", [None, "soon", {}])
async def test_T4_a_stop_without_a_good_duration_is_given_one(
    client: WireClient, chat: str, agent: Scripted, duration: object
) -> None:
    Held(agent)
    turn = await client.start(chat, "go")

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=duration)

    assert client.turn(chat, turn)["duration"] >= 0
    assert client.refusals == []


async def test_T5_what_is_said_after_a_stop_reaches_nobody(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    said: list[str] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("t", title="T")
        call.run("Running")
        try:
            await asyncio.sleep(60)
        finally:
            sink.markdown("late")
            sink.notice("late")
            call.done("late")
            sink.usage(input_tokens=1)
            sink.tool("u", title="U").run("late")
            said.append("all")

    agent.play = play
    turn = await client.start(chat, "go")
    await until(lambda: len(client.state(chat)["activeTurn"]["responseParts"]) == 1)
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=5)
    await until(lambda: said)
    await quiet(host)

    assert other.kinds(chat)[-1] == "chat/turnCancelled"
    (part,) = client.turn(chat, turn)["responseParts"]
    assert part["toolCall"]["status"] == "cancelled"
    await agree(host, client, other)


async def test_T6_numbers_move_with_every_envelope_a_refusal_included(client: WireClient, chat: str) -> None:
    await client.do(chat, "chat/delta", turnId="x", partId="p", content="forged")
    refusal = client.refusals[-1]["serverSeq"]
    await client.say(chat, "hello")
    state = await client.request("subscribe", channel=chat)

    numbers = [env["serverSeq"] for env in client.envelopes]
    assert numbers == sorted(set(numbers))
    assert refusal in numbers
    assert state["snapshot"]["fromSeq"] >= numbers[-1]


async def test_T7_a_refusal_goes_to_its_sender_alone(
    client: WireClient, other: WireClient, chat: str
) -> None:
    before = len(other.envelopes)

    refused: list[tuple[str, Json]] = [
        ("chat/turnCancelled", {"turnId": "none", "duration": 1}),
        ("chat/turnResume", {"turnId": "none"}),
        (
            "chat/toolCallConfirmed",
            {"turnId": "t", "toolCallId": "c", "approved": True, "confirmed": "user-action"},
        ),
        ("chat/inputCompleted", {"requestId": "r", "response": "accept"}),
        ("chat/inputAnswerChanged", {"requestId": "r", "questionId": "q"}),
        ("chat/turnStarted", {"turnId": "t", "startedAt": "yesterday", "message": message("x")}),
        ("chat/turnStarted", {"turnId": "t", "startedAt": "2026-03-01T10:00:00Z", "message": {"text": "x"}}),
        ("chat/turnComplete", {"turnId": "t", "duration": 1}),
        ("session/isReadChanged", {"isRead": True}),
        ("root/configChanged", {"config": {}}),
        ("chat/unheard", {}),
    ]
    for kind, fields in refused:
        await client.do(chat, kind, **fields)

    assert [env["action"]["type"] for env in client.refusals] == [kind for kind, _ in refused]
    assert all(env["rejectionReason"] and env["channel"] == chat for env in client.refusals)
    assert len(other.envelopes) == before
    await agree(client.host, client, other)


async def test_T7_an_action_without_a_type_is_refused(client: WireClient, chat: str) -> None:
    await client.notify("dispatchAction", channel=chat, clientSeq=900, action={"text": "x"})

    assert client.refusals[-1]["origin"]["clientSeq"] == 900


async def test_a_client_may_act_on_a_chat_that_it_does_not_watch(
    host: Host, client: WireClient, chat: str
) -> None:
    stranger = WireClient(host)
    await stranger.initialize()

    await stranger.dispatch(chat, "chat/draftChanged", draft=message("x"))
    await stranger.dispatch(chat, "chat/turnResume", turnId="none")

    await until(lambda: client.state(chat).get("draft"))
    await until(lambda: stranger.refusals)
    assert [env["action"]["type"] for env in stranger.envelopes] == ["chat/turnResume"]


async def test_T8_the_first_message_names_chat_and_session(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    await client.say(chat, "# What is *this*?\nmore")
    await client.say(chat, "Something else")

    assert other.state(S)["title"] == other.rows[S]["title"] == "What is this?"
    assert other.state(S)["chats"][0]["title"] == "What is this?"
    assert (await other.subscribe(chat))["title"] == "What is this?"


async def test_T8_a_persons_title_stays(client: WireClient, chat: str) -> None:
    await client.do(S, "session/titleChanged", title="Mine")

    await client.say(chat, "What is this?")

    assert client.state(S)["title"] == "Mine"
    assert client.state(S)["chats"][0]["title"] == "Mine"


async def test_T8_a_title_on_the_chats_channel_renames_the_chat(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    await client.do(S, "session/titleChanged", title="Session")
    await client.request("createChat", channel=S, chat="ahp-chat:/two")
    await client.subscribe("ahp-chat:/two")

    await client.do("ahp-chat:/two", "session/titleChanged", title="Two")

    assert {entry["title"] for entry in other.state(S)["chats"]} == {"Session", "Two"}
    assert other.state(S)["title"] == "Session"
    assert (await other.subscribe("ahp-chat:/two"))["title"] == "Two"
    await agree(host, client, other)


# ── starts ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_T1_a_second_start_does_not_reset_the_running_turn(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    Held(agent)
    turn = await client.start(chat, "one")
    await until(lambda: agent.prompts)

    await other.start(chat, "two")

    assert "is running" in other.refusals[-1]["rejectionReason"]
    assert client.state(chat)["activeTurn"]["id"] == turn
    await agree(host, client, other)


async def test_T1_of_two_who_start_at_once_one_is_refused(
    client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    Held(agent)

    await asyncio.gather(client.start(chat, "one"), other.start(chat, "two"))

    assert len(client.refusals) + len(other.refusals) == 1
    assert client.state(chat) == other.state(chat)


async def test_T1_an_id_that_the_chat_has_is_refused(client: WireClient, chat: str) -> None:
    await client.say(chat, "one", turn="t")

    await client.start(chat, "two", turn="t")

    assert "already" in client.refusals[-1]["rejectionReason"]
    assert len(client.state(chat)["turns"]) == 1


async def test_B1_the_next_turn_waits_for_the_stop_of_the_one_before(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    order: list[str] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        order.append(f"begin {prompt.text}")
        try:
            if prompt.text == "one":
                await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            order.append(f"end {prompt.text}")

    agent.play = play
    turn = await client.start(chat, "one")
    await until(lambda: order)

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await client.say(chat, "two")

    assert order == ["begin one", "end one", "begin two", "end two"]


async def test_a_turns_history_is_the_turns_before_it(client: WireClient, chat: str, agent: Scripted) -> None:
    await client.say(chat, "one")
    await client.say(chat, "two")

    assert [turn["message"]["text"] for turn in agent.prompts[1].history] == ["one"]
    assert not agent.prompts[1].resumed


async def test_a_turn_that_failed_is_resumed_with_what_it_has(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("again" if prompt.resumed else "first")
        sink.tool("t", title="T", call_id="call").done("Did it") if not prompt.resumed else None
        if not prompt.resumed:
            raise TurnFailed("network", "The line broke.", resumable=True)

    agent.play = play
    failed = await client.say(chat, "go", turn="t")
    assert failed["state"] == "error"
    assert client.state(chat)["status"] & status.ERROR

    await other.do(chat, "chat/turnResume", turnId="t")
    await until(lambda: not client.running(chat))

    turn = client.turn(chat, "t")
    assert turn["state"] == "complete"
    assert [part["kind"] for part in turn["responseParts"]] == ["markdown", "toolCall", "error", "markdown"]
    assert turn["duration"] >= failed["duration"]
    assert [part["kind"] for part in agent.prompts[1].so_far] == ["markdown", "toolCall", "error"]
    assert len(client.state(chat)["turns"]) == 1
    await quiet(host)
    await agree(host, client, other)


async def test_only_the_last_failed_turn_is_resumed_and_once(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    async def fail(prompt: Prompt, sink: TurnSink) -> None:
        raise TurnFailed("x", "No.", resumable=prompt.text == "again")

    await client.say(chat, "well", turn="well")
    agent.play = fail
    await client.say(chat, "again", turn="again")
    await client.say(chat, "never", turn="never")
    for turn in ("well", "again", "never"):
        await client.do(chat, "chat/turnResume", turnId=turn)
    assert len(client.refusals) == 3

    await client.say(chat, "again", turn="last")
    Held(agent)
    await client.do(chat, "chat/turnResume", turnId="last")
    await client.do(chat, "chat/turnResume", turnId="last")

    assert len(client.refusals) == 4


# ── stops ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_stop_ends_the_turn_for_everyone_at_once(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    held = Held(agent)
    turn = await client.start(chat, "go")
    await until(lambda: agent.prompts)

    await other.do(chat, "chat/turnCancelled", turnId=turn, duration=7)

    assert client.turn(chat, turn) == other.turn(chat, turn)
    assert answer_of(client.turn(chat, turn)) == "so far"
    await held.left.wait()
    await quiet(host)
    await agree(host, client, other)


async def test_of_two_who_stop_one_is_refused(
    client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    Held(agent)
    turn = await client.start(chat, "go")

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await other.do(chat, "chat/turnCancelled", turnId=turn, duration=1)

    assert "does not run" in other.refusals[-1]["rejectionReason"]


@pytest.mark.parametrize("ticks", range(12))
async def test_T4_a_stop_at_the_moment_of_completion_ends_the_turn_once(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted, ticks: int
) -> None:
    held = Held(agent)
    turn = await client.start(chat, "go")
    await until(lambda: agent.prompts)
    held.go.set()
    for _ in range(ticks):
        await asyncio.sleep(0)

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await client.say(chat, "next")
    await quiet(host)

    ends = [
        kind
        for kind in other.kinds(chat)
        if kind in ("chat/turnComplete", "chat/turnCancelled", "chat/error")
    ]
    assert len(ends) == 2
    assert [entry["message"]["text"] for entry in client.state(chat)["turns"]] == ["go", "next"]
    await agree(host, client, other)


async def test_B2_a_stop_while_the_agent_opens_ends_the_turn_unsent(
    host: Host, client: WireClient, chat: str, agent: Scripted
) -> None:
    opening = asyncio.Event()

    async def stubborn() -> None:
        opening.set()
        with contextlib.suppress(asyncio.CancelledError):  # opens all the same
            await asyncio.sleep(60)

    agent.on_open = stubborn
    turn = await client.start(chat, "never")
    await opening.wait()

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)

    assert agent.prompts == []
    agent.on_open = None
    await client.say(chat, "now")
    assert [prompt.text for prompt in agent.prompts] == ["now"]


async def test_B2_a_turn_stopped_while_it_waits_for_another_stop_ends_unsent(
    host: Host, client: WireClient, chat: str, agent: Scripted
) -> None:
    held = Held(agent)
    go = asyncio.Event()

    async def soft(running: asyncio.Task[None]) -> None:
        await go.wait()
        held.go.set()

    agent.on_stop = soft
    one = await client.start(chat, "one")
    await until(lambda: agent.prompts)
    await client.do(chat, "chat/turnCancelled", turnId=one, duration=1)
    two = await client.start(chat, "two")
    await client.do(chat, "chat/turnCancelled", turnId=two, duration=1)
    go.set()
    await quiet(host)

    assert [prompt.text for prompt in agent.prompts] == ["one"]


async def test_an_agents_own_interrupt_lets_its_turn_return(
    host: Host, client: WireClient, chat: str, agent: Scripted
) -> None:
    held = Held(agent)
    stopped: list[bool] = []

    async def soft(running: asyncio.Task[None]) -> None:
        held.go.set()
        await asyncio.wait([running])
        stopped.append(running.cancelled())

    agent.on_stop = soft
    turn = await client.start(chat, "go")
    await until(lambda: agent.prompts)

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)

    assert stopped == [False]


async def hang(running: asyncio.Task[None]) -> None:
    await asyncio.sleep(60)


async def cancel_and_wait(running: asyncio.Task[None]) -> None:
    running.cancel()
    await running


async def explode(running: asyncio.Task[None]) -> None:
    raise RuntimeError("no brakes")


@pytest.mark.parametrize("on_stop", [hang, cancel_and_wait, explode])
async def test_an_agent_that_takes_a_stop_badly_is_cancelled(
    host: Host,
    client: WireClient,
    chat: str,
    agent: Scripted,
    on_stop: Callable[[asyncio.Task[None]], Awaitable[None]],
) -> None:
    held = Held(agent)
    agent.on_stop = on_stop
    turn = await client.start(chat, "go")
    await until(lambda: agent.prompts)

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)

    assert held.left.is_set()
    agent.on_stop = None
    held.go.set()
    assert (await client.say(chat, "next"))["state"] == "complete"


async def test_an_agent_that_never_ends_is_left_behind(
    host: Host, client: WireClient, chat: str, agent: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    end, kept = asyncio.Event(), []

    async def immortal(prompt: Prompt, sink: TurnSink) -> None:
        kept.append(sink)
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    async def close() -> None:
        closed.append(len(agent.lines))

    closed: list[int] = []
    agent.play = immortal
    agent.on_close = close
    turn = await client.start(chat, "go")
    await until(lambda: kept)
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await until(lambda: closed == [1])  # what it holds goes all the same

    agent.play = Scripted().play
    ended = await client.say(chat, "next")

    assert ended["state"] == "complete"
    assert len(agent.lines) == 2, "a conversation anew"
    assert "does not end" in caplog.text
    kept[0].markdown("late")
    assert answer_of(client.turn(chat, turn)) == ""
    end.set()


# ── agents that raise ────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("oh"),
        KeyError("k"),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        TurnOver(),
        SystemExit(3),
        BaseExceptionGroup("several", [asyncio.CancelledError(), ValueError("v")]),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        RuntimeError("half of a \ud83d"),
        TimeoutError(),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_T4_whatever_an_agent_raises_its_turn_ends_and_the_next_runs(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted, failure: BaseException
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("kept")
        raise failure

    agent.play = play
    turn = await client.say(chat, "go")

    assert turn["state"] == "error"
    assert answer_of(turn) == "kept"
    error = turn["responseParts"][-1]
    assert error["resumable"] is True
    assert "Scripted stopped working" in error["error"]["message"]
    agent.play = Scripted().play
    assert (await client.say(chat, "next"))["state"] == "complete"
    await quiet(host)
    await agree(host, client, other)


async def test_an_agent_that_cannot_open_says_why(client: WireClient, chat: str, agent: Scripted) -> None:
    async def broken() -> None:
        raise TurnFailed("noKey", "There is no key. Set KEY.")

    agent.on_open = broken

    turn = await client.say(chat, "go")

    assert turn["responseParts"][-1] == {
        "kind": "error",
        "error": {"errorType": "noKey", "message": "There is no key. Set KEY."},
    }


async def test_half_a_surrogate_pair_harms_nobody(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("\ud83d")
        sink.markdown("\ude00!")
        sink.notice("\ud83d\ude00")
        sink.tool("t", title="\udfff", meta={"x": ["\ud800"]}).failed("\ud800", error="\ud800")

    agent.play = play
    turn = await client.say(chat, "go")

    assert turn["state"] == "complete"
    assert answer_of(turn) == "��!"
    assert turn["responseParts"][1]["content"] == "😀"
    await agree(host, client, other)


async def test_what_is_not_json_fails_the_turn_and_not_the_chat(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.tool("t", title="T").done("Done", structured={"x": object()})

    agent.play = play
    turn = await client.say(chat, "go")

    assert turn["state"] == "error"
    assert turn["responseParts"][0]["toolCall"]["status"] == "cancelled"
    await agree(host, client, other)


async def test_what_an_agent_changes_later_changes_nothing_here(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        block: Json = {"type": "text", "text": "one"}
        meta: Json = {"n": 1}
        call = sink.tool("t", title="T", meta=meta)
        call.run("Running")
        call.content([block])
        block["text"] = "changed"
        meta["n"] = 2
        await asyncio.sleep(0)

    agent.play = play
    await client.say(chat, "go")

    await agree(host, client, other)


async def test_an_agents_memory_that_raises_costs_no_turn(
    client: WireClient, chat: str, agent: Scripted
) -> None:
    agent.memory = ZeroDivisionError("no memory")

    assert (await client.say(chat, "one"))["state"] == "complete"
    assert (await client.say(chat, "two"))["state"] == "complete"


async def test_an_agent_that_does_not_close_does_not_stop_the_host(
    client: WireClient, chat: str, agent: Scripted, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    async def never() -> None:
        await asyncio.sleep(60)

    async def broken() -> None:
        raise RuntimeError("stuck")

    agent.on_close = never
    await client.say(chat, "one")
    await client.request("createChat", channel=S, chat="ahp-chat:/two", initialMessage=message("hi"))
    await quiet(host)
    agent.lines[1].agent = Scripted()
    agent.lines[1].agent.on_close = broken

    with caplog.at_level(logging.ERROR):
        await host.stop()

    assert all(line.closed for line in agent.lines)
    assert caplog.text.count("did not close") == 2


# ── what a turn waits for ────────────────────────────────────────────────────────────────────────────────────────
def asking(
    agent: Scripted, ask: Callable[[ToolCall], Awaitable[Confirmation]]
) -> list[Confirmation | type[TurnOver]]:
    got: list[Confirmation | type[TurnOver]] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("shell", title="Shell", call_id="c1", meta={"toolKind": "terminal"})
        try:
            confirmation = await ask(call)
        except TurnOver:
            got.append(TurnOver)
            raise
        got.append(confirmation)
        if confirmation.approved:
            call.done("Ran", content=[{"type": "text", "text": "ok"}])
        sink.markdown("done")

    agent.play = play
    return got


async def confirm(call: ToolCall) -> Confirmation:
    return await call.confirm(
        "Run ls",
        title="Run it?",
        tool_input="ls",
        options=[{"id": "always", "label": "Always", "kind": "approve"}],
        editable=True,
    )


async def test_a_call_that_asks_is_seen_in_chat_session_and_row(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    got = asking(agent, confirm)
    turn = await client.start(chat, "go")
    await until(lambda: other.state(S).get("inputNeeded"))

    assert other.state(chat)["status"] & status.ACTIVITY_MASK == status.INPUT_NEEDED
    assert other.rows[S]["status"] & status.ACTIVITY_MASK == status.INPUT_NEEDED
    (entry,) = other.state(S)["inputNeeded"]
    assert (entry["kind"], entry["chat"], entry["turnId"]) == ("toolConfirmation", chat, turn)
    assert entry["toolCall"]["confirmationTitle"] == "Run it?"
    await agree(host, client, other)

    await other.do(
        chat,
        "chat/toolCallConfirmed",
        turnId=turn,
        toolCallId="c1",
        approved=True,
        confirmed="user-action",
        selectedOptionId="always",
        editedToolInput="ls -l",
    )
    await until(lambda: not client.running(chat))

    assert got == [Confirmation(True, option="always", edited_input="ls -l")]
    call = client.turn(chat, turn)["responseParts"][0]["toolCall"]
    assert (call["status"], call["toolInput"], call["success"]) == ("completed", "ls -l", True)
    assert call["selectedOption"]["id"] == "always"
    assert call["_meta"]["toolKind"] == "terminal", "what the agent said of the call stays"
    assert call["_meta"]["jupyter-ahp.sender"] == "user:alice"
    assert "inputNeeded" not in other.state(S)
    await agree(host, client, other)


async def test_a_denial_says_why(client: WireClient, chat: str, agent: Scripted) -> None:
    got = asking(agent, confirm)
    turn = await client.start(chat, "go")
    await until(lambda: client.state(S).get("inputNeeded"))

    await client.do(
        chat,
        "chat/toolCallConfirmed",
        turnId=turn,
        toolCallId="c1",
        approved=False,
        reason="denied",
        reasonMessage={"markdown": "Too *risky*"},
    )
    await until(lambda: not client.running(chat))

    assert got == [Confirmation(False, reason="Too *risky*")]
    assert client.turn(chat, turn)["responseParts"][0]["toolCall"]["status"] == "cancelled"


async def test_of_two_who_answer_a_call_one_is_refused(
    client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    asking(agent, confirm)
    turn = await client.start(chat, "go")
    await until(lambda: client.state(S).get("inputNeeded"))
    yes: Json = {"turnId": turn, "toolCallId": "c1", "approved": True, "confirmed": "user-action"}
    no: Json = {"turnId": turn, "toolCallId": "c1", "approved": False, "reason": "denied"}

    await asyncio.gather(
        client.do(chat, "chat/toolCallConfirmed", **yes), other.do(chat, "chat/toolCallConfirmed", **no)
    )

    assert len(client.refusals) + len(other.refusals) == 1


async def test_a_stop_while_a_call_asks_ends_the_waiting(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    got = asking(agent, confirm)
    turn = await client.start(chat, "go")
    await until(lambda: client.state(S).get("inputNeeded"))

    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(host)

    assert got in ([TurnOver], []), "told so, or cancelled"
    assert "inputNeeded" not in other.state(S)
    await agree(host, client, other)


QUESTIONS: list[Json] = [
    {"id": "q", "kind": "text", "message": "Why?", "title": "Why", "required": True},
    {"id": "o", "kind": "boolean", "message": "Sure?"},
]
SUBMITTED: Json = {"state": "submitted", "value": {"kind": "text", "value": "because"}}


def questioning(agent: Scripted) -> list[Answer]:
    got: list[Answer] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        got.append(await sink.ask("Tell me", QUESTIONS))

    agent.play = play
    return got


async def test_a_question_is_drafted_answered_and_over(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    got = questioning(agent)
    turn = await client.start(chat, "go")
    await until(lambda: client.state(S).get("inputNeeded"))
    request = client.state(S)["inputNeeded"][0]["request"]["id"]

    await client.do(chat, "chat/inputCompleted", requestId=request, response="accept")
    assert client.refusals[-1]["rejectionReason"] == "Not answered yet: Why."
    draft: Json = {"state": "draft", "value": {"kind": "text", "value": "beca"}}
    await other.do(chat, "chat/inputAnswerChanged", requestId=request, questionId="q", answer=draft)
    assert client.state(S)["inputNeeded"][0]["request"]["answers"] == {"q": draft}
    await agree(host, client, other)
    await client.do(
        chat, "chat/inputCompleted", requestId=request, response="accept", answers={"q": SUBMITTED}
    )
    await until(lambda: not client.running(chat))

    assert got == [Answer("accept", {"q": SUBMITTED})]
    assert client.turn(chat, turn)["responseParts"][0]["response"] == "accept"
    assert "inputNeeded" not in other.state(S)
    await agree(host, client, other)


@pytest.mark.parametrize("response", ["decline", "cancel"])
async def test_a_question_need_not_be_answered(
    client: WireClient, chat: str, agent: Scripted, response: str
) -> None:
    got = questioning(agent)
    await client.start(chat, "go")
    await until(lambda: client.state(S).get("inputNeeded"))
    request = client.state(S)["inputNeeded"][0]["request"]["id"]

    await client.do(chat, "chat/inputCompleted", requestId=request, response=response)
    await until(lambda: got)

    assert got[0].response == response


async def test_a_question_that_its_agent_gives_up_is_withdrawn(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        try:
            async with asyncio.timeout(0.02):
                await sink.ask("Quick!")
        except TimeoutError:
            sink.markdown("Never mind.")
        await asyncio.sleep(0.05)

    agent.play = play
    await client.start(chat, "go")
    await until(lambda: client.running(chat) and answer_of(client.state(chat)["activeTurn"]))

    assert client.state(chat)["status"] & status.ACTIVITY_MASK == status.IN_PROGRESS
    assert "inputNeeded" not in client.state(S)
    await until(lambda: not client.running(chat))
    await agree(host, client, other)


# ── in memory ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_an_idle_chat_leaves_memory_and_comes_back(
    host: Host, client: WireClient, chat: str, agent: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.memory = "remembered"
    await client.say(chat, "hello")
    await client.do(chat, "chat/draftChanged", draft=message("next"))
    before = client.state(chat)
    for connection in tuple(host.connections):
        await connection.closed()
    monkeypatch.setattr(host_module, "_IDLE_GRACE", -1.0)
    await host.sweep()
    session = host.sessions["s"]
    assert session.chats[chat].channel is None
    assert agent.lines[0].closed

    newcomer = WireClient(host)
    await newcomer.initialize(ROOT)
    await newcomer.subscribe(S)
    await newcomer.subscribe(chat)

    assert newcomer.state(chat)["turns"] == before["turns"]
    assert newcomer.state(chat)["draft"] == before["draft"]
    await newcomer.say(chat, "again")
    assert agent.lines[1].start.memory == "remembered"
    await agree(host, newcomer)


async def test_a_chat_that_is_asked_for_while_it_leaves_memory_stays(
    host: Host, client: WireClient, chat: str, agent: Scripted
) -> None:
    closing, go = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        closing.set()
        await go.wait()

    agent.on_close = slow
    await client.say(chat, "hello")
    for connection in tuple(host.connections):
        await connection.closed()
    leaving = asyncio.create_task(host.sessions["s"].chats[chat].unload())
    await closing.wait()
    newcomer = WireClient(host)
    await newcomer.initialize(S, chat)
    go.set()
    await leaving

    await newcomer.say(chat, "still here")

    assert len(newcomer.state(chat)["turns"]) == 2
    await agree(host, newcomer)


async def test_the_host_stops_in_mid_turn(
    store: Store, host: Host, client: WireClient, chat: str, agent: Scripted
) -> None:
    held = Held(agent)
    turn = await client.start(chat, "go")
    await until(lambda: agent.prompts)

    await host.stop()

    assert held.left.is_set()
    assert client.turn(chat, turn)["state"] == "error"
    assert client.turn(chat, turn)["responseParts"][-1]["resumable"] is True
    await store.open()
    stored = await store.load_chat("s", chat)
    assert stored.turns == client.state(chat)["turns"]
    assert stored.active is None
