"""Worker chats, W1 to W5 and B8, through the wire: an agent whose strings the test pulls, two clients that watch."""

from __future__ import annotations

import asyncio
import base64
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import (
    Confirmation,
    Json,
    Prompt,
    SessionRecord,
    ToolCall,
    TurnFailed,
    TurnOver,
    TurnSink,
    Worker,
)
from jupyter_ahp.protocol import status, uris
from jupyter_ahp.store.files import FileStore
from tests.host.harness import (
    NEWER,
    ROOT,
    TOOLS,
    Failing,
    Scripted,
    WireClient,
    agree,
    answer_of,
    message,
    quiet,
    started,
    until,
    use,
)

S, T = "ahp-session:/s", "ahp-session:/t"
READ_ONLY = "This chat is read-only: a worker's. Write to the chat that it works for."


class Strings:
    """The agent's turns, in the hands of the test: each gives its sink, and ends at a word ("done", "fail", "resumable")."""

    def __init__(self, agent: Scripted) -> None:
        agent.play = self
        self.sink: TurnSink
        self.words: asyncio.Queue[str] = asyncio.Queue()
        self.runs = 0

    async def __call__(self, prompt: Prompt, sink: TurnSink) -> None:
        self.sink = sink
        self.runs += 1
        try:
            word = await self.words.get()
        finally:
            self.runs -= 1
        if word != "done":
            raise TurnFailed("test", "It failed.", resumable=word == "resumable")


def delegated(sink: TurnSink, call_id: str = "c1", **more: Any) -> tuple[ToolCall, Worker]:
    """A call that a worker runs."""
    call = sink.tool("delegate", title="Delegate", call_id=call_id)
    call.run("Delegating", tool_input='{"task":"Look into it"}')
    more = {"title": f"Research {call_id}", "agent_name": "scout", **more}
    return call, sink.worker(call, "Look into it, please", **more)


class Stops:
    """A worker's `stop`, counted."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def strings(agent: Scripted) -> Strings:
    return Strings(agent)


@pytest.fixture
async def chat(client: WireClient, other: WireClient) -> str:
    chat = await client.create(S)
    await other.subscribe(S)
    await other.subscribe(chat)
    return chat


async def begun(client: WireClient, chat: str, strings: Strings, turn: str = "t1") -> TurnSink:
    """A turn in the agent's hands: its sink."""
    await client.start(chat, "Go", turn=turn)
    await until(lambda: strings.runs)
    return strings.sink


def listed(client: WireClient, chat: str, session: str = S) -> Json | None:
    """The session's summary of a chat."""
    return next((entry for entry in client.state(session)["chats"] if entry["resource"] == chat), None)


def parts(client: WireClient, chat: str) -> list[Json]:
    state = client.state(chat)
    turn: Json = state.get("activeTurn") or state["turns"][-1]
    return list(turn["responseParts"])


def links(client: WireClient, chat: str) -> list[Json]:
    """The `subagent` blocks of a chat's last turn."""
    blocks = [block for part in parts(client, chat) for block in part.get("toolCall", {}).get("content", ())]
    return [block for block in blocks if block["type"] == "subagent"]


def last(client: WireClient, chat: str) -> Json:
    turn: Json = client.state(chat)["turns"][-1]
    return turn


def ended(client: WireClient, chat: str) -> Callable[[], bool]:
    return lambda: not client.running(chat)


# ── W1, W3, W5 ───────────────────────────────────────────────────────────────────────────────────────────────────
async def test_W3_it_is_announced_opens_with_the_prompt_and_streams(
    host: Host, client: WireClient, other: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    call, worker = delegated(sink)
    worker.sink.markdown("half ")  # nobody watches it yet
    added = [env["action"] for env in other.envelopes if env["action"]["type"] == "session/chatAdded"]
    for each in (client, other):
        await each.subscribe(worker.chat)
    worker.sink.markdown("an answer")
    state = other.state(worker.chat)

    assert added[-1]["summary"]["resource"] == worker.chat == state["resource"]
    assert listed(other, worker.chat)["interactivity"] == state["interactivity"] == "read-only"  # type: ignore[index]
    assert state["origin"] == {"kind": "tool", "chat": chat, "toolCallId": "c1"}
    assert state["title"] == "Research c1"
    assert state["activeTurn"]["message"] == {"text": "Look into it, please", "origin": {"kind": "agent"}}
    assert state["activeTurn"]["responseParts"] == [
        {"kind": "markdown", "id": "p1", "content": "half an answer"}
    ]
    assert state["status"] & status.IN_PROGRESS
    link = {"type": "subagent", "resource": worker.chat, "title": "Research c1", "agentName": "scout"}
    assert links(other, chat) == [link]

    worker.done()
    worker.sink.markdown(" too late")
    worker.failed("too late")
    call.done("Researched", content=[{"type": "text", "text": "found"}])
    strings.words.put_nowait("done")
    await until(ended(other, chat))
    await quiet(host)

    turn = last(other, worker.chat)
    assert (turn["state"], answer_of(turn)) == ("complete", "half an answer")
    assert turn["duration"] >= 0
    assert listed(other, worker.chat)["status"] & status.ACTIVITY_MASK == status.IDLE  # type: ignore[index]
    assert links(other, chat) == [link], "W5: the call names the chat when it has ended, too"
    row = other.rows[S]
    assert [entry["resource"] for entry in row["chats"]] == [chat, worker.chat]
    assert row["status"] & status.ACTIVITY_MASK == status.IDLE
    await agree(host, client, other)


@pytest.mark.parametrize("session", [S, "test:/older"])
async def test_W3_half_an_emoji_in_what_a_model_says_of_a_worker_is_mended(
    host: Host, strings: Strings, session: str
) -> None:
    info = {"name": "vscode-agents-window" if session.startswith("test:") else "lab"}
    client = WireClient(host, info=info)
    await client.initialize(ROOT)
    chat = await client.create(session)
    half = "half \ud83d"
    sink = await begun(client, chat, strings)
    call = sink.tool("delegate", title=half, call_id=half)
    worker = sink.worker(call, half, title=half, agent_name=half, background=True)
    await client.subscribe(worker.chat)
    worker.done()
    call.done(half)
    strings.words.put_nowait("done")
    await until(lambda: not client.running(chat))

    [turn] = client.state(worker.chat)["turns"]
    assert (turn["message"]["text"], turn["state"]) == ("half \ufffd", "complete")
    assert client.state(chat)["turns"][0]["state"] == "complete"
    await agree(host, client)
    await client.drop()


async def test_W1_a_name_is_opaque_and_always_the_same_for_a_call_of_a_root_chat(
    host: Host, client: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    _, first = delegated(sink, "c1")
    _, second = delegated(sink, "c2")
    _, nested = delegated(first.sink, "c3")

    assert uris.opaque_worker_chat_uri(chat, "c1") == first.chat
    assert uris.opaque_worker_chat_uri(chat, "c2") == second.chat
    assert uris.opaque_worker_chat_uri(chat, "c3") == nested.chat, (
        "derived from the root, not from its parent"
    )
    assert len({first.chat, second.chat, nested.chat}) == 3
    assert uris.opaque_worker_chat_uri("ahp-chat:/root", "call") == uris.opaque_worker_chat_uri(
        "ahp-chat:/root", "call"
    )

    strings.words.put_nowait("done")
    await until(ended(client, chat))
    sink = await begun(client, chat, strings, "t2")
    _, again = delegated(sink, "c1")  # a model that numbers its calls anew
    assert again.chat not in (first.chat, second.chat, nested.chat)
    assert links(client, chat)[0]["resource"] == again.chat
    strings.words.put_nowait("done")
    await until(ended(client, chat))


async def test_W1_U4_in_an_older_windows_session_the_name_is_derived_as_that_window_derives_it(
    host: Host, agent: Scripted, strings: Strings
) -> None:
    old = WireClient(host, info={"name": "vscode-agents-window"}, versions=["0.10.0", "0.9.0"])
    await old.initialize(ROOT)
    chat = await old.create("test:/s")
    sink = await begun(old, chat, strings)
    _, worker = delegated(sink, "toolu 1/a")
    _, nested = delegated(worker.sink, "toolu_2")
    encoded = base64.urlsafe_b64encode(b"test:/s").decode().rstrip("=")

    assert worker.chat == f"ahp-chat://subagent/{encoded}/toolu%201%2Fa"
    assert nested.chat == f"ahp-chat://subagent/{encoded}/toolu_2"
    await old.subscribe(worker.chat)
    (part,) = (part for part in parts(old, chat) if "toolCall" in part)
    assert part["toolCall"]["_meta"] == {
        "toolKind": "subagent",
        "subagentChatUri": worker.chat,
        "subagentDescription": "Research toolu 1/a",
        "subagentAgentName": "scout",
    }
    new = WireClient(host, meta=NEWER, info={"name": "vscode-agents-window"})
    await new.initialize()
    await new.subscribe(S)
    await new.subscribe(worker.chat)
    assert new.state(worker.chat)["resource"] == worker.chat, "a chat has one name for everybody"
    strings.words.put_nowait("done")
    await until(ended(old, chat))
    await agree(host, old, new)


async def test_W2_a_name_that_no_record_holds_is_no_chat(client: WireClient, chat: str) -> None:
    for name in (
        uris.opaque_worker_chat_uri(chat, "nobody"),
        uris.worker_chat_uri("ahp-session:/s", "nobody"),
    ):
        error = await client.fails("subscribe", channel=name)
        assert (error.code, error.message) == (-32001, f"Resource not found: {name}")


# ── W3, W4: what people may ──────────────────────────────────────────────────────────────────────────────────────
async def test_W3_a_turn_a_pending_message_and_a_resume_are_refused_as_read_only(
    host: Host, client: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    _, worker = delegated(sink)
    await client.subscribe(worker.chat)
    start: Json = {"startedAt": "2026-03-01T10:00:00.000Z", "message": message("me too")}
    worker.failed("It broke.", details="a traceback")

    for action, fields in (
        ("chat/turnStarted", {"turnId": "mine", **start}),
        ("chat/pendingMessageSet", {"kind": "queued", "id": "q", "message": message("q")}),
        ("chat/pendingMessageSet", {"kind": "steering", "id": "s", "message": message("s")}),
        ("chat/turnResume", {"turnId": last(client, worker.chat)["id"]}),
    ):
        assert (await client.do(worker.chat, action, **fields))["rejectionReason"] == READ_ONLY, action
    assert len(client.state(worker.chat)["turns"]) == 1
    assert parts(client, worker.chat)[-1] == {
        "kind": "error",
        "error": {"errorType": "workerFailed", "message": "It broke.", "stack": "a traceback"},
    }
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    bits = (await client.subscribe(S))["status"]
    assert bits & status.ACTIVITY_MASK == status.IDLE, "that it failed is for its chat to tell"


async def test_W4_a_draft_a_mark_and_a_title_are_applied(
    host: Host, client: WireClient, other: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    _, worker = delegated(sink)
    for each in (client, other):
        await each.subscribe(worker.chat)

    await client.do(worker.chat, "chat/draftChanged", draft=message("to think of"))
    await client.do(worker.chat, "chat/isReadChanged", isRead=True)
    await client.do(worker.chat, "session/titleChanged", title="Penguins")
    await client.do(worker.chat, "chat/pendingMessageRemoved", kind="queued", id="nobody")

    assert other.state(worker.chat)["draft"]["text"] == "to think of"
    assert other.state(worker.chat)["status"] & status.IS_READ
    assert listed(other, worker.chat)["title"] == "Penguins"  # type: ignore[index]
    assert not client.refusals
    worker.done()
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    await agree(host, client, other)


async def test_W4_what_it_asks_is_answered_at_every_depth_and_shows_in_the_session(
    host: Host, client: WireClient, other: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    _, worker = delegated(sink, "c1")
    _, nested = delegated(worker.sink, "c2")
    for each in (client, other):
        await each.subscribe(worker.chat)
        await each.subscribe(nested.chat)
    shell = nested.sink.tool("shell", title="Shell", call_id="rm")
    allowed = asyncio.ensure_future(shell.confirm("Remove it", title="Remove it?", tool_input="rm"))
    question = {"id": "q", "kind": "text", "message": "Which?"}
    answered = asyncio.ensure_future(worker.sink.ask("Which one?", [question]))
    await until(lambda: len(other.state(S).get("inputNeeded", [])) == 2)
    needed = {entry["kind"]: entry for entry in other.state(S)["inputNeeded"]}

    assert needed["toolConfirmation"]["chat"] == nested.chat
    assert needed["chatInput"]["chat"] == worker.chat
    assert other.rows[S]["status"] & status.INPUT_NEEDED == status.INPUT_NEEDED
    assert other.state(chat)["status"] & status.INPUT_NEEDED == status.IN_PROGRESS, (
        "its own is a matter of its own"
    )

    call = needed["toolConfirmation"]
    await other.do(
        nested.chat,
        "chat/toolCallConfirmed",
        turnId=call["turnId"],
        toolCallId="rm",
        approved=True,
        confirmed="user-action",
    )
    assert await allowed == Confirmation(True)
    value = {"state": "submitted", "value": {"kind": "text", "value": "both"}}
    request = needed["chatInput"]["request"]["id"]
    await client.do(
        worker.chat, "chat/inputCompleted", requestId=request, response="accept", answers={"q": value}
    )
    assert (await answered).answers["q"] == value
    assert not other.state(S).get("inputNeeded")
    assert other.rows[S]["status"] & status.INPUT_NEEDED == status.IN_PROGRESS

    nested.done()
    worker.done()
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    await agree(host, client, other)


async def test_W4_a_client_runs_its_tool_for_a_worker_and_a_person_confirms_the_result_there(
    host: Host, agent: Scripted, client: WireClient, other: WireClient
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        call, worker = delegated(sink)
        told = await use(prompt, worker.sink, "read_cell")
        worker.sink.markdown(told.text)
        worker.done()
        call.done("Delegated")

    agent.capabilities, agent.play = TOOLS, play
    chat = await client.create(S)
    await other.subscribe(S)
    await client.announce(S, {"name": "read_cell", "annotations": {"readOnlyHint": True}})
    await client.start(chat, "go")
    await until(lambda: len(client.state(S)["chats"]) == 2)
    worker = client.state(S)["chats"][1]["resource"]
    for each in (client, other):
        await each.subscribe(worker)
    await client.call_in(worker, "running")
    (needed,) = other.state(S)["inputNeeded"]
    assert (needed["kind"], needed["chat"], needed["clientId"]) == (
        "toolClientExecution",
        worker,
        client.client_id,
    )
    result = {"success": True, "pastTenseMessage": "Read", "content": [{"type": "text", "text": "df"}]}
    forged = await other.of_call(worker, "chat/toolCallComplete", result=result)
    assert "another client's" in forged["rejectionReason"]

    said = await client.of_call(
        worker, "chat/toolCallComplete", result=result, requiresResultConfirmation=True
    )
    assert "rejectionReason" not in said
    await other.call_in(worker, "pending-result-confirmation")
    await other.of_call(worker, "chat/toolCallResultConfirmed", approved=True)
    await until(ended(client, chat))

    assert answer_of(last(client, worker)) == "df"
    assert not other.state(S).get("inputNeeded")
    await quiet(host)
    await agree(host, client, other)


async def test_W4_a_stop_in_its_chat_stops_it_alone(
    host: Host, client: WireClient, other: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    stops = Stops()
    call, worker = delegated(sink, "c1", stop=stops)
    _, nested = delegated(worker.sink, "c2", background=True)
    for each in (client, other):
        await each.subscribe(worker.chat)
        await each.subscribe(nested.chat)
    asking = asyncio.ensure_future(worker.sink.ask("Which?"))
    await until(lambda: other.state(S).get("inputNeeded"))
    worker.sink.markdown("half")
    turn = client.state(worker.chat)["activeTurn"]["id"]

    said = await client.do(worker.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await until(lambda: stops.count)
    worker.sink.markdown(" too late")
    worker.done()
    await quiet_but(host, chat)

    assert "rejectionReason" not in said
    assert (last(other, worker.chat)["state"], answer_of(last(other, worker.chat))) == ("cancelled", "half")
    assert last(other, nested.chat)["state"] == "cancelled", "what it had spawned ends with it"
    assert links(other, worker.chat)[0]["resource"] == nested.chat, "and is named by its call to the end"
    assert not other.state(S).get("inputNeeded")
    with pytest.raises(TurnOver):
        await asking
    assert client.running(chat), "the turn that it works for goes on"
    call.failed("Was stopped", error="A person stopped it.")
    sink.markdown("Then without.")
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    assert last(client, chat)["state"] == "complete"
    assert stops.count == 1
    await agree(host, client, other)


async def quiet_but(host: Host, chat: str) -> None:
    """Nothing is under way but what runs in that chat."""
    chats = [each for session in host.sessions.values() for each in session.chats.values()]
    await until(lambda: all(not (each.turns._stops or each.turns._endings or each._worker) for each in chats))


async def test_W4_what_cannot_be_stopped_alone_is_refused_in_words(
    host: Host, client: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    _, worker = delegated(sink)
    await client.subscribe(worker.chat)
    turn = client.state(worker.chat)["activeTurn"]["id"]
    words = "This worker cannot be stopped by itself. Stop the turn that it works for."

    said = await client.do(worker.chat, "chat/turnCancelled", turnId=turn, duration=1)
    cut = await client.do(worker.chat, "chat/truncated")
    error = await client.fails("disposeChat", channel=worker.chat)

    assert said["rejectionReason"] == cut["rejectionReason"] == error.message == words
    assert client.running(worker.chat)
    worker.done()
    await client.do(worker.chat, "chat/truncated")
    assert client.state(worker.chat)["turns"] == [], "any other action is applied to its state"
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    await agree(host, client)


async def test_W4_a_stop_that_hangs_or_fails_harms_nobody(
    host: Host, client: WireClient, chat: str, strings: Strings, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang() -> None:
        await asyncio.sleep(60)

    async def fail() -> None:
        raise ValueError("no such task")

    sink = await begun(client, chat, strings)
    for name, stop in (("c1", hang), ("c2", fail)):
        _, worker = delegated(sink, name, stop=stop)
        await client.subscribe(worker.chat)
        turn = client.state(worker.chat)["activeTurn"]["id"]
        await client.do(worker.chat, "chat/turnCancelled", turnId=turn, duration=1)
        assert last(client, worker.chat)["state"] == "cancelled"
    await until(lambda: caplog.text.count("did not take a stop") == 2)
    strings.words.put_nowait("done")
    await until(ended(client, chat))


# ── B8: what ends it ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_B8_a_stop_of_the_turn_ends_what_it_spawned_and_nothing_of_an_earlier_one(
    host: Host, client: WireClient, other: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings, "t1")
    earlier, stops = Stops(), Stops()
    launched, goes_on = delegated(sink, "c0", background=True, stop=earlier)
    launched.done("Launched")
    strings.words.put_nowait("done")
    await until(ended(client, chat))

    sink = await begun(client, chat, strings, "t2")
    _, plain = delegated(sink, "c1")
    _, background = delegated(sink, "c2", background=True, stop=stops)
    for each in (client, other):
        for worker in (goes_on, plain, background):
            await each.subscribe(worker.chat)
    assert [work["chat"] for work in other.state(chat)["backgroundWork"]] == [goes_on.chat, background.chat]
    asked = plain.sink.tool("shell", title="Shell")
    asking = asyncio.ensure_future(asked.confirm("Run", title="Run?"))
    await until(lambda: other.state(S).get("inputNeeded"))

    await client.do(chat, "chat/turnCancelled", turnId="t2", duration=1)
    await until(lambda: stops.count == 1)
    for worker in (plain, background):
        worker.sink.markdown("too late")
        worker.done()

    with pytest.raises(TurnOver):
        await asking
    for worker in (plain, background):
        assert last(other, worker.chat)["state"] == "cancelled"
        assert answer_of(last(other, worker.chat)) == ""
    assert [link["resource"] for link in links(other, chat)] == [plain.chat, background.chat]
    assert not other.state(S).get("inputNeeded")
    assert other.running(goes_on.chat)
    assert [work["chat"] for work in other.state(chat)["backgroundWork"]] == [goes_on.chat]
    goes_on.sink.markdown("still here")
    goes_on.done()
    assert answer_of(last(other, goes_on.chat)) == "still here"
    assert other.state(chat)["backgroundWork"] == []
    assert earlier.count == 0
    await quiet(host)
    await agree(host, client, other)


@pytest.mark.parametrize("word", ["done", "fail", "resumable"])
async def test_B8_the_end_of_its_turn_ends_it_and_not_what_runs_in_the_background(
    host: Host, client: WireClient, chat: str, strings: Strings, word: str
) -> None:
    sink = await begun(client, chat, strings)
    _, left = delegated(sink, "c1")
    _, background = delegated(sink, "c2", background=True)
    for worker in (left, background):
        await client.subscribe(worker.chat)
    strings.words.put_nowait(word)
    await until(ended(client, chat))

    assert last(client, left.chat)["state"] == "cancelled"
    assert client.running(background.chat)
    (work,) = client.state(chat)["backgroundWork"]
    assert (work["kind"], work["chat"], work["label"]) == ("subagent", background.chat, "Research c2")
    assert work["id"] == background.chat
    assert "T" in work["startedAt"]
    background.sink.markdown("done later")
    background.cancelled()
    assert last(client, background.chat)["state"] == "cancelled"
    assert answer_of(last(client, background.chat)) == "done later"
    assert client.state(chat)["backgroundWork"] == []
    await quiet(host)
    await agree(host, client)


async def test_T5_a_turn_that_is_over_spawns_nothing(
    host: Host, client: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    call = sink.tool("delegate", title="Delegate")
    await client.do(chat, "chat/turnCancelled", turnId="t1", duration=1)

    worker = sink.worker(call, "Too late", title="Too late")
    worker.sink.markdown("nobody hears")
    worker.done()
    worker.failed("x")
    worker.cancelled()

    assert [entry["resource"] for entry in client.state(S)["chats"]] == [chat]
    assert (await client.fails("subscribe", channel=worker.chat)).code == -32001


async def test_X1_a_rewind_ends_what_a_cut_turn_spawned(
    host: Host, client: WireClient, chat: str, strings: Strings
) -> None:
    workers = []
    for turn in ("t1", "t2"):
        sink = await begun(client, chat, strings, turn)
        call, worker = delegated(sink, f"c-{turn}", background=True, stop=Stops())
        call.done("Launched")
        strings.words.put_nowait("done")
        await until(ended(client, chat))
        await client.subscribe(worker.chat)
        workers.append(worker)

    await client.do(chat, "chat/truncated", turnId="t1")
    await quiet_but(host, chat)

    assert [client.running(worker.chat) for worker in workers] == [True, False]
    assert [work["chat"] for work in client.state(chat)["backgroundWork"]] == [workers[0].chat]
    await client.do(chat, "chat/truncated")
    await quiet(host)
    assert not client.running(workers[0].chat)
    await agree(host, client)


# ── chats with workers ───────────────────────────────────────────────────────────────────────────────────────────
async def test_closing_a_chat_closes_its_workers_at_every_depth(
    host: Host, client: WireClient, other: WireClient, chat: str, agent: Scripted, strings: Strings
) -> None:
    two = "ahp-chat:/two"
    await client.request("createChat", channel=S, chat=two)
    await client.subscribe(two)
    sink = await begun(client, two, strings)
    _, worker = delegated(sink, "c1")
    _, nested = delegated(worker.sink, "c2")
    for each in (worker, nested):
        await other.subscribe(each.chat)
    asking = asyncio.ensure_future(nested.sink.ask("Which?"))
    await until(lambda: other.state(S).get("inputNeeded"))

    await client.request("disposeChat", channel=two)

    assert [entry["resource"] for entry in other.state(S)["chats"]] == [chat]
    assert not other.state(S).get("inputNeeded")
    with pytest.raises(TurnOver):
        await asking
    worker.sink.markdown("too late")
    nested.done()
    for gone in (two, worker.chat, nested.chat):
        assert (await other.fails("subscribe", channel=gone)).code == -32001
        assert (await host.store.load_chat("s", gone)).turns == []
    other.mirrors.pop(worker.chat)
    other.mirrors.pop(nested.chat)
    await agree(host, other)


async def test_a_worker_that_can_be_stopped_can_be_closed_and_leaves_its_turn_running(
    host: Host, client: WireClient, chat: str, strings: Strings
) -> None:
    sink = await begun(client, chat, strings)
    stops = Stops()
    _, worker = delegated(sink, stop=stops, background=True)

    await client.request("disposeChat", channel=worker.chat)

    assert stops.count == 1
    assert [entry["resource"] for entry in client.state(S)["chats"]] == [chat]
    assert client.state(chat)["backgroundWork"] == []
    worker.done()
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    assert last(client, chat)["state"] == "complete"
    await agree(host, client)


async def test_S2_a_fork_copies_the_call_and_not_the_workers_chat(
    host: Host,
    client: WireClient,
    chat: str,
    agent: Scripted,
    strings: Strings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(agent), "capabilities", replace(agent.capabilities, fork=True))
    sink = await begun(client, chat, strings)
    call, worker = delegated(sink)
    worker.done()
    call.done("Researched")
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    fork = "ahp-chat:/fork"

    source = {"kind": "fork", "chat": chat, "turnId": "t1"}
    await client.request("createChat", channel=S, chat=fork, source=source)
    await client.subscribe(fork)

    assert [entry["resource"] for entry in client.state(S)["chats"]] == [chat, worker.chat, fork]
    assert links(client, fork)[0]["resource"] == worker.chat
    sink = await begun(client, fork, strings, "t2")
    _, another = delegated(sink, "c1")
    assert another.chat != worker.chat
    assert listed(client, another.chat)["origin"]["chat"] == fork  # type: ignore[index]
    strings.words.put_nowait("done")
    await until(ended(client, fork))


async def test_U12_a_chat_moves_with_its_workers(
    host: Host, client: WireClient, chat: str, strings: Strings
) -> None:
    await client.create(T)
    two = "ahp-chat:/two"
    await client.request("createChat", channel=S, chat=two)
    await client.subscribe(two)
    sink = await begun(client, two, strings)
    launched, worker = delegated(sink, "c1", background=True)
    deep, nested = delegated(worker.sink, "c2")
    nested.sink.markdown("deep down")
    await client.subscribe(worker.chat)
    launched.done("Launched")
    strings.words.put_nowait("done")
    await until(ended(client, two))
    move = {"channel": two, "destination": {"kind": "session", "session": T}}
    assert (await client.fails("moveChat", **move)).code == -32004, "a worker still runs"
    nested.done()
    deep.done("Deep")
    worker.done()
    await quiet(host)
    alone = await client.fails("moveChat", **{**move, "channel": worker.chat})
    assert alone.message == "A worker's chat moves with the chat that it works for."

    await client.request("moveChat", **move)

    assert [entry["resource"] for entry in client.state(S)["chats"]] == [chat]
    moved = {entry["resource"]: entry for entry in client.state(T)["chats"]}
    assert {two, worker.chat, nested.chat} < set(moved)
    assert moved[nested.chat]["origin"] == {"kind": "tool", "chat": worker.chat, "toolCallId": "c2"}
    await client.subscribe(nested.chat)
    assert answer_of(last(client, nested.chat)) == "deep down"
    assert len((await host.store.load_chat("t", nested.chat)).turns) == 1
    assert (await host.store.load_chat("s", nested.chat)).turns == []
    await agree(host, client)


# ── what is kept ─────────────────────────────────────────────────────────────────────────────────────────────────
async def test_W2_it_is_readable_after_a_restart(files: FileStore, agent: Scripted) -> None:
    strings = Strings(agent)
    host = await started(files, agent)
    client = WireClient(host)
    await client.initialize(ROOT)
    chat = await client.create(S)
    sink = await begun(client, chat, strings)
    call, worker = delegated(sink, "c1")
    deep, nested = delegated(worker.sink, "c2")
    nested.sink.markdown("deep down")
    nested.done()
    deep.done("Deep")
    worker.sink.markdown("found")
    worker.done()
    call.done("Researched")
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    _, running = delegated(await begun(client, chat, strings, "t2"), "c3", background=True)
    running.sink.markdown("half")
    await client.connection.closed()
    await host.stop()

    again = await started(files, agent)
    reader = WireClient(again)
    await reader.initialize(ROOT)
    for channel in (S, chat, worker.chat, nested.chat, running.chat):
        await reader.subscribe(channel)

    assert answer_of(last(reader, worker.chat)) == "found"
    assert answer_of(last(reader, nested.chat)) == "deep down"
    assert reader.state(nested.chat)["origin"] == {"kind": "tool", "chat": worker.chat, "toolCallId": "c2"}
    assert reader.state(nested.chat)["interactivity"] == "read-only"
    assert links(reader, worker.chat)[0]["resource"] == nested.chat
    assert answer_of(last(reader, running.chat)) == "half"
    cut = last(reader, running.chat)
    assert cut["state"] == "error"
    assert "resumable" not in cut["responseParts"][-1], "it is not a person's to resume"
    assert not reader.state(chat).get("backgroundWork")
    said = await reader.do(worker.chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("q"))
    assert said["rejectionReason"] == READ_ONLY
    await agree(again, reader)
    await reader.connection.closed()
    await again.stop()


def journals_of(store: Path) -> list[Path]:
    """What is written of turns."""
    return list(store.rglob("*.jsonl"))


async def test_kill_9_keeps_what_was_streamed(tmp_path: Path, agent: Scripted) -> None:
    strings = Strings(agent)
    host = await started(FileStore(tmp_path / "store"), agent)
    client = WireClient(host)
    await client.initialize(ROOT)
    chat = await client.create(S)
    sink = await begun(client, chat, strings)
    _, worker = delegated(sink, "c1")
    worker.sink.reasoning("Let me see")
    worker.sink.markdown("half an answer")
    worker.sink.tool("shell", title="Shell").run("Running")

    (document,) = (tmp_path / "store").rglob("session.json")
    await until(lambda: worker.chat in document.read_text())
    await until(lambda: any("Running" in path.read_text() for path in journals_of(tmp_path / "store")))
    shutil.copytree(tmp_path / "store", tmp_path / "killed")

    again = await started(FileStore(tmp_path / "killed"), agent)
    reader = WireClient(again)
    await reader.initialize(ROOT)
    for channel in (S, chat, worker.chat):
        await reader.subscribe(channel)
    turn = last(reader, worker.chat)
    assert [part["kind"] for part in turn["responseParts"]] == ["reasoning", "markdown", "toolCall", "error"]
    assert answer_of(turn) == "half an answer"
    assert turn["message"]["text"] == "Look into it, please"
    assert "resumable" not in turn["responseParts"][-1]
    assert last(reader, chat)["responseParts"][-1]["resumable"] is True
    (call,) = (part["toolCall"] for part in parts(reader, chat) if "toolCall" in part)
    assert (call["status"], call["success"]) == ("completed", False)
    assert links(reader, chat)[0]["resource"] == worker.chat, "W5: the call names it still"
    await agree(again, reader)
    for one, its in ((client, host), (reader, again)):
        await one.connection.closed()
        await its.stop()


async def test_what_cannot_be_written_while_it_runs_is_written_at_its_end(
    failing: Failing, agent: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    strings = Strings(agent)
    host = await started(failing, agent)
    client = WireClient(host)
    await client.initialize(ROOT)
    chat = await client.create(S)
    sink = await begun(client, chat, strings)
    failing.fails |= {"begin_turn", "put_session"}
    call, worker = delegated(sink)
    worker.sink.markdown("found")
    await until(lambda: "is written down when it ends" in caplog.text)
    failing.fails.clear()
    worker.done()
    call.done("Researched")
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    await quiet(host)

    assert answer_of((await failing.load_chat("s", worker.chat)).turns[-1]) == "found"
    await client.connection.closed()
    await host.stop()
    await failing.open()
    (record,) = await failing.sessions()
    assert isinstance(record, SessionRecord)
    assert worker.chat in [entry["resource"] for entry in record.chats]


async def test_idle_chats_are_let_go_of_and_busy_ones_are_not(
    client: WireClient, agent: Scripted, host: Host, strings: Strings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await client.create(S)
    sink = await begun(client, chat, strings)
    launched, worker = delegated(sink, background=True)
    launched.done("Launched")
    strings.words.put_nowait("done")
    await until(ended(client, chat))
    await quiet_but(host, chat)
    await client.drop()
    monkeypatch.setattr("jupyter_ahp.host.host._IDLE_GRACE", -1)

    await host.sweep()
    assert not agent.lines[0].closed, "what runs in the background needs its conversation"
    worker.sink.markdown("still here")
    worker.done()
    await quiet(host)
    await host.sweep()

    assert agent.lines[0].closed
    reader = WireClient(host)
    await reader.initialize()
    await reader.subscribe(worker.chat)
    assert answer_of(last(reader, worker.chat)) == "still here"
