"""The sink: every method, in good and in wrong orders and after the end, gives actions that clients reduce.

Each script's actions stand in `tests/protocol/fixtures/reducers/sink-<script>.json`, which both reducers run. When the
sink says something else on purpose, write them anew and read the difference: `python -m tests.host.test_sink`.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host.ports import Answer, Confirmation, Json, ToolCall, TurnOver, TurnSink, Worker
from jupyter_ahp.host.sink import ChatSink, Spawning
from jupyter_ahp.protocol.reducers import REDUCERS

FIXTURES = Path(__file__).parents[1] / "protocol" / "fixtures" / "reducers"
TURN = "turn-1"
INITIAL: Json = {
    "resource": "ahp-chat:/c",
    "title": "Chat",
    "status": 8,
    "modifiedAt": "2026-03-01T10:00:00.000Z",
    "turns": [],
    "activeTurn": {
        "id": TURN,
        "startedAt": "2026-03-01T10:00:00.000Z",
        "message": {"text": "Go", "origin": {"kind": "user"}},
        "responseParts": [],
    },
}
RESUMED_PARTS: list[Json] = [
    {"kind": "markdown", "id": "p1", "content": "Before"},
    {
        "kind": "toolCall",
        "toolCall": {"toolCallId": "c1", "toolName": "t", "displayName": "T", "status": "cancelled"},
    },
    {"kind": "error", "error": {"errorType": "x", "message": "Broke"}, "resumable": True},
]


class Elsewhere(Worker):
    """A worker whose chat is no matter of this turn."""

    def __init__(self, asked: Spawning) -> None:
        self.chat = f"ahp-chat:/worker-of-{asked.call_id}"
        self.sink = ChatSink("turn-of-a-worker", lambda action: None)

    def done(self) -> None: ...

    def failed(self, error: str, *, details: str | None = None) -> None: ...

    def cancelled(self) -> None: ...


class Stage:
    """The host's side of a sink: reduces what it says, and answers as people would."""

    def __init__(self, parts: list[Json]) -> None:
        numbers = itertools.count(1)
        self.initial: Json = {**INITIAL, "activeTurn": {**INITIAL["activeTurn"], "responseParts": parts}}
        self.state = self.initial
        self.actions: list[Json] = []
        self.sink = ChatSink(
            TURN,
            self.emit,
            parts=parts,
            new_id=lambda: str(next(numbers)),
            steered=self.steered,
            spawn=self.spawned,
        )
        self.spawnings: list[Spawning] = []

    def emit(self, action: Json) -> None:
        """Something is said: it changes what clients have."""
        after = REDUCERS["chat"](self.state, action)
        assert after is not self.state, f"{action['type']} changes nothing"
        self.state = after
        self.actions.append(action)

    def steered(self, message_id: str) -> Json | None:
        """The steering message of that id, as the chat holds it."""
        waits = self.state.get("steeringMessage", {})
        return waits["message"] if waits.get("id") == message_id else None

    def spawned(self, asked: Spawning) -> Worker:
        self.spawnings.append(asked)
        return Elsewhere(asked)

    async def confirm(self, waiting: Awaitable[Confirmation], call: str, **fields: Any) -> Confirmation:
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        self.emit({"type": "chat/toolCallConfirmed", "turnId": TURN, "toolCallId": call, **fields})
        self.sink.confirmed(call, Confirmation(fields["approved"], option=fields.get("selectedOptionId")))
        return await task

    async def answer(self, waiting: Awaitable[Answer], request: str, response: str) -> Answer:
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        self.emit({"type": "chat/inputCompleted", "requestId": request, "response": response})
        self.sink.answered(request, Answer(response))
        return await task

    def end(self, kind: str = "chat/turnComplete", **fields: Any) -> None:
        self.sink.end()
        self.emit({"type": kind, "turnId": TURN, "duration": 1500, **fields})


Script = Callable[[Stage], Awaitable[None]]


async def text(stage: Stage) -> None:
    """Reasoning and markdown, each append to the part that is open; a new part after anything else"""
    sink = stage.sink
    sink.reasoning("Let me")
    sink.reasoning(" see")
    sink.markdown("")
    sink.markdown("One")
    sink.markdown(", two")
    sink.notice("Compacted")
    sink.markdown("three")
    sink.reasoning("Hm")
    sink.markdown("four 😀")
    sink.resume_point("said to nobody")
    stage.end()


async def steering(stage: Stage) -> None:
    """A steering message stands where the model read it, and does not wait any more; one that nobody sent is nothing"""
    sink = stage.sink
    sink.markdown("before")
    words = {"text": "Mind the date", "origin": {"kind": "user"}}
    stage.emit({"type": "chat/pendingMessageSet", "kind": "steering", "id": "s", "message": words})
    sink.steering_read("nobody's")
    sink.steering_read("s")
    sink.steering_read("s")
    sink.markdown("after")
    stage.end()


async def report(stage: Stage) -> None:
    """Activity, usage and fetched content; what is said twice is said once"""
    sink = stage.sink
    sink.activity(None)
    sink.activity("")
    sink.activity("Thinking")
    sink.activity("Thinking")
    sink.usage()
    sink.usage(input_tokens=3, output_tokens=0, cache_read_tokens=1, model="m", meta={"cost": 1})
    sink.usage(input_tokens=3, output_tokens=0, cache_read_tokens=1, model="m", meta={"cost": 1})
    sink.usage(input_tokens=9)
    sink.resource("file:///a.png", content_type="image/png", size=12)
    sink.resource("file:///b")
    stage.end()


async def tools(stage: Stage) -> None:
    """Calls that nobody has to be asked about: input as it is written, content, both endings, one that never said to run"""
    sink = stage.sink
    sink.markdown("First")
    read = sink.tool("read", title="Read", call_id="c1", intention="To know", meta={"toolKind": "read"})
    read.input('{"pa')
    read.input("")
    read.input('th":1}')
    read.content([{"type": "text", "text": "too early"}])
    read.run("Reading", tool_input='{"path":1}')
    read.run("Again")
    read.input("too late")
    read.content([{"type": "text", "text": "half"}])
    sink.markdown("Meanwhile")
    read.done("Read", content=[{"type": "text", "text": "all"}], structured={"lines": 2})
    read.done("Twice")
    read.failed("Too late", error="no")
    read.content([])
    shell = sink.tool("shell", title="Shell")
    shell.run("Running")
    shell.failed("Failed", error="exit 1", content=[{"type": "text", "text": "oh"}])
    sink.tool("quick", title="Quick").done("Was quick")
    sink.tool("bad", title="Bad").failed("Was bad", error="bad")
    with pytest.raises(ValueError, match="c1"):
        sink.tool("read", title="Read", call_id="c1")
    sink.markdown("Last")
    stage.end()


async def confirmations(stage: Stage) -> None:
    """Calls that ask: approved with an option, denied, asked while running, given up and ended by their agent"""
    sink = stage.sink
    shell = sink.tool("shell", title="Shell", call_id="c1")
    asking = shell.confirm(
        "Run ls",
        title="Run it?",
        tool_input="ls",
        options=[{"id": "always", "label": "Always", "kind": "approve"}],
        edits=[{"after": {"uri": "file:///a", "content": {"uri": "file:///b"}}}],
        editable=True,
    )
    yes = await stage.confirm(asking, "c1", approved=True, confirmed="user-action", selectedOptionId="always")
    assert yes == Confirmation(True, option="always")
    shell.run("Said to run already")
    shell.done("Ran")
    with pytest.raises(TurnOver):
        await shell.confirm("Again", title="Again?")

    denied = sink.tool("rm", title="Remove", call_id="c2")
    no = await stage.confirm(denied.confirm("Remove", title="Remove?"), "c2", approved=False, reason="denied")
    assert no == Confirmation(False)
    denied.run("No")
    denied.done("No")

    running = sink.tool("late", title="Late", call_id="c3")
    running.run("Begun")
    await stage.confirm(
        running.confirm("Go on", title="Go on?"), "c3", approved=True, confirmed="user-action"
    )
    running.failed("Failed", error="x")

    waived = sink.tool("waived", title="Waived", call_id="c6")
    waived.waive()
    task = asyncio.ensure_future(waived.confirm("Go", title="Go?", tool_input="{}"))
    await asyncio.sleep(0)
    waived.waive()
    assert await task == Confirmation(True)
    waived.waive()
    sink.confirmed("c6", Confirmation(False))
    waived.done("Went")

    given_up = sink.tool("slow", title="Slow", call_id="c4")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(given_up.confirm("Quick", title="Quick?"), 0.01)
    given_up.failed("Nobody answered", error="no answer")

    ended = sink.tool("own", title="Own", call_id="c5")
    task = asyncio.ensure_future(ended.confirm("Ask", title="Ask?"))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="asking already"):
        await ended.confirm("Ask", title="Ask?")
    ended.done("Settled otherwise")
    with pytest.raises(TurnOver):
        await task
    sink.confirmed("c5", Confirmation(True))
    sink.confirmed("none", Confirmation(True))
    stage.end()


async def questions(stage: Stage) -> None:
    """Questions: answered, declined, withdrawn by their agent, and one that is open when the turn ends"""
    sink = stage.sink
    sink.markdown("Before")
    asked = sink.ask("Why?", [{"id": "q", "kind": "text", "message": "Why?"}])
    assert (await stage.answer(asked, "ask-1", "accept")).response == "accept"
    assert (
        await stage.answer(sink.ask("Open", url="https://example.org"), "ask-2", "decline")
    ).response == "decline"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sink.ask("Quick?"), 0.01)
    sink.answered("ask-3", Answer("accept"))
    sink.answered("none", Answer("accept"))
    sink.markdown("After")
    waiting = asyncio.ensure_future(sink.ask("Still?"))
    await asyncio.sleep(0)
    stage.end()
    with pytest.raises(TurnOver):
        await waiting


async def stopped(stage: Stage) -> None:
    """A stop: calls and questions that are open end, the activity goes, and what is said afterwards is not heard"""
    sink = stage.sink
    sink.activity("Working")
    sink.markdown("Half")
    streaming = sink.tool("a", title="A", call_id="c1")
    streaming.input("{")
    running = sink.tool("b", title="B", call_id="c2")
    running.run("Running")
    pending = sink.tool("c", title="C", call_id="c3")
    done = sink.tool("d", title="D", call_id="c4")
    done.done("Done")
    waits = [
        asyncio.ensure_future(pending.confirm("Ask", title="Ask?")),
        asyncio.ensure_future(sink.ask("Why?")),
    ]
    await asyncio.sleep(0)
    stage.end("chat/turnCancelled")
    said = len(stage.actions)
    for waiting in waits:
        with pytest.raises(TurnOver):
            await waiting

    sink.markdown("x")
    sink.reasoning("x")
    sink.notice("x")
    sink.activity("x")
    sink.activity(None)
    sink.usage(input_tokens=1)
    sink.resource("file:///x")
    for call in (streaming, running, pending, done, sink.tool("e", title="E")):
        call.input("x")
        call.run("x")
        call.content([])
        call.done("x")
        call.failed("x", error="x")
        with pytest.raises(TurnOver):
            await call.confirm("x", title="x")
    with pytest.raises(TurnOver):
        await sink.ask("x")
    sink.answered("ask-1", Answer("accept"))
    sink.confirmed("c3", Confirmation(True))
    sink.end()
    assert len(stage.actions) == said


async def resumed(stage: Stage) -> None:
    """A turn that goes on: names of parts and calls that it has are not used again"""
    sink = stage.sink
    with pytest.raises(ValueError, match="c1"):
        sink.tool("t", title="T", call_id="c1")
    sink.tool("t", title="T", call_id="p4").done("A call with a part's name")
    sink.markdown("After")
    sink.markdown(" all")
    stage.end("chat/error", part={"kind": "error", "error": {"errorType": "x", "message": "Broke again"}})


async def workers(stage: Stage) -> None:
    """Calls that workers run, named in content and `_meta` to the end: done, asked about, one that its turn's end finds"""
    sink = stage.sink
    research = sink.tool("delegate", title="Delegate", call_id="c1", meta={"ours": 1})
    research.input('{"task":"Look"}')
    worker = sink.worker(research, "Look", title="Research", agent_name="scout")
    assert worker.chat == "ahp-chat:/worker-of-c1"
    research.run("Said to run already")
    research.content([{"type": "text", "text": "half"}])
    research.done("Researched", content=[{"type": "text", "text": "all"}])
    with pytest.raises(ValueError, match="has a worker"):
        sink.worker(research, "Look", title="Again")
    with pytest.raises(ValueError, match="no tool call of this turn"):
        sink.worker(ChatSink("other", lambda action: None).tool("t", title="T"), "Look", title="Astray")

    asked = sink.tool("delegate", title="Delegate", call_id="c2")
    asking = asyncio.ensure_future(asked.confirm("Spawn", title="Spawn it?"))
    await asyncio.sleep(0)
    sink.worker(asked, "Look", title="Early", background=True)
    await stage.confirm(asking, "c2", approved=True, confirmed="user-action")
    asked.failed("Failed", error="no")

    sink.worker(sink.tool("delegate", title="Delegate", call_id="c3"), "Look", title="Left alone")
    assert [(asked.call_id, asked.prompt, asked.background) for asked in stage.spawnings] == [
        ("c1", "Look", False),
        ("c2", "Look", True),
        ("c3", "Look", False),
    ]
    stage.end("chat/turnCancelled")


async def clients(stage: Stage) -> None:
    """Tools of clients: run, failed, with a result that a person withholds, lost while they run and while they wait"""
    sink = stage.sink

    def begun(name: str, client: str = "c1", *, runs: bool = True) -> ToolCall:
        contributor = {"kind": "client", "clientId": client}
        call = sink.tool(name, title=name.title(), call_id=name, contributor=contributor)
        if runs:
            call.run(f"Run {name}", tool_input="{}")
        return call

    def ran(name: str, *, review: bool = False, **result: Any) -> None:
        more = {"requiresResultConfirmation": True} if review else {}
        result = {"pastTenseMessage": "Ran", **result}
        fields = {"turnId": TURN, "toolCallId": name, "result": result, **more}
        stage.emit({"type": "chat/toolCallComplete", **fields})
        sink.client_ran(name, result, review=review)

    async def result_of(call: ToolCall) -> Json:
        return await asyncio.wait_for(call.by_client(), 5)

    good = begun("good")
    waits = asyncio.ensure_future(result_of(good))
    await asyncio.sleep(0)
    ran("good", success=True, content=[{"type": "text", "text": "4"}])
    assert (await waits)["content"] == [{"type": "text", "text": "4"}]
    assert good.over
    assert (await result_of(good))["success"], "it is there for whoever asks late"

    bad = begun("bad")
    ran("bad", success=False, error={"message": "No kernel"})
    assert (await result_of(bad))["error"] == {"message": "No kernel"}

    for name, approved in (("kept", False), ("given", True)):
        call = begun(name)
        waits = asyncio.ensure_future(result_of(call))
        await asyncio.sleep(0)
        ran(name, success=True, review=True)
        assert not call.over
        action = {"type": "chat/toolCallResultConfirmed", "turnId": TURN, "toolCallId": name}
        stage.emit({**action, "approved": approved})
        sink.reviewed(name, approved)
        assert (await waits)["success"] is approved

    lost, asks, other = begun("lost"), begun("asks", runs=False), begun("other", "c2")
    asking = asyncio.ensure_future(asks.confirm("Run asks", title="Run it?"))
    await asyncio.sleep(0)
    stopped: list[str] = []
    for call in (lost, other):
        call.on_stop(partial(stopped.append, call.id))
    sink.client_lost("c1")
    assert (await result_of(lost))["success"] is False
    assert not (await asking).approved
    assert not other.over
    waits = asyncio.ensure_future(result_of(other))
    await asyncio.sleep(0)
    stage.end()
    with pytest.raises(TurnOver):
        await waits
    with pytest.raises(TurnOver):
        await result_of(other)
    assert stopped == ["other"]
    other.on_stop(partial(stopped.append, "late"))
    assert stopped == ["other", "late"]


SCRIPTS: list[Script] = [
    text,
    steering,
    report,
    tools,
    confirmations,
    questions,
    workers,
    clients,
    stopped,
    resumed,
]


async def play(script: Script) -> Stage:
    stage = Stage(RESUMED_PARTS if script is resumed else [])
    await script(stage)
    return stage


def fixture_of(script: Script, stage: Stage) -> Json:
    return {
        "description": f"What the sink says of a turn. {inspect.getdoc(script)}",
        "reducer": "chat",
        "initial": stage.initial,
        "actions": stage.actions,
        "expected": stage.state,
    }


def path_of(script: Script) -> Path:
    return FIXTURES / f"sink-{script.__name__}.json"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
async def test_T4_what_the_sink_says_is_what_the_fixture_has(script: Script) -> None:
    stage = await play(script)

    assert json.loads(path_of(script).read_text(encoding="utf-8")) == json.loads(
        json.dumps(fixture_of(script, stage))
    )
    assert "activeTurn" not in stage.state
    assert "activity" not in stage.state
    (turn,) = stage.state["turns"]
    assert turn["duration"] == 1500
    assert stage.state["status"] in (1, 2)


def test_the_scripts_call_every_method_of_the_contract() -> None:
    source = "".join(inspect.getsource(script) for script in SCRIPTS)

    missing = {
        name
        for name in TurnSink.__abstractmethods__ | ToolCall.__abstractmethods__
        if f".{name}" not in source
    }

    assert missing == set()


def test_B13_resume_points_are_heard_behind_the_end_as_well_and_are_no_action() -> None:
    points: list[str] = []
    said: list[Json] = []
    sink = ChatSink(TURN, said.append, ended_at=points.append)

    sink.resume_point("one")
    sink.end()
    sink.resume_point("half \ud83d")

    assert points == ["one", "half \ufffd"]
    assert said == []


async def test_an_agent_that_hands_over_what_is_not_json_is_told_and_can_go_on() -> None:
    said: list[Json] = []

    def emit(action: Json) -> None:
        json.dumps(action)
        said.append(action)

    sink = ChatSink(TURN, emit)
    call = sink.tool("t", title="T")
    with pytest.raises(TypeError):
        call.done("Done", structured={"x": object()})

    call.done("Done")

    assert [action["type"] for action in said] == [
        "chat/toolCallStart",
        "chat/toolCallReady",
        "chat/toolCallComplete",
    ]


async def write() -> None:
    for script in SCRIPTS:
        fixture = fixture_of(script, await play(script))
        path_of(script).write_text(json.dumps(fixture, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(write())
