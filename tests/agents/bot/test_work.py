"""What a bot's work says, asks and spawns is in the bot's chat, and nowhere else; B16, through the wire."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.bot.mirror import Mirror
from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.ports import (
    Capabilities,
    GuardedTool,
    ImageBlock,
    Json,
    PathBlock,
    Principal,
    Prompt,
    Store,
    TextBlock,
    ToolCall,
    ToolResult,
    TurnOver,
    TurnSink,
)
from jupyter_ahp.protocol import status
from jupyter_ahp.protocol.meta import COST
from jupyter_ahp.store.files import FileStore
from tests.host.harness import ROOT, RpcError, WireClient, answer_of, message, quiet, until, use

from .conftest import HINTS, Room, S, Worker

TWO = "ahp-chat:/two"
YES = {"approved": True, "confirmed": "user-action"}


def parts(turn: Json, kind: str) -> list[Json]:
    return [part for part in turn["responseParts"] if part["kind"] == kind]


async def say(room: Room, text: str = "Hi", **more: Any) -> Json:
    return await room.client.say(room.chat, text, **more)


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────────
async def test_the_works_answer_streams_in_the_bots_chat_part_for_part(room: Room) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.reasoning("Let me ")
        sink.reasoning("see")
        for piece in ("Think ", "of ", "the base case."):
            sink.markdown(piece)
        sink.notice("Compacted")
        call = sink.tool("look", title="Look", intention="To see", meta={"mine": 1})
        call.input('{"a":')
        call.run("Looking at a.csv", tool_input='{"a": 1}')
        call.content([{"type": "text", "text": "half"}])
        drawn = {"type": "embeddedResource", "data": "iVBORw0KGgo=", "contentType": "image/png"}
        call.done("Looked", content=[{"type": "text", "text": "all"}, drawn], structured={"rows": 2})
        sink.tool("fails", title="Fails").failed("Did not", error="no such file")
        sink.usage(input_tokens=7, output_tokens=3, model="m")
        sink.resource("file:///a/plot.png", content_type="image/png", size=12)
        sink.markdown("Well?")

    room.worker.play = play
    turn = await say(room)
    [work] = room.work()["turns"]
    assert [part["kind"] for part in turn["responseParts"]] == [
        part["kind"] for part in work["responseParts"]
    ]
    assert answer_of(turn) == "Think of the base case.Well?"
    assert parts(turn, "reasoning")[0]["content"] == "Let me see"
    strip: Callable[[Json], Json] = lambda part: {  # noqa: E731
        key: value for key, value in part["toolCall"].items() if key != "toolCallId"
    }
    assert [strip(part) for part in parts(turn, "toolCall")] == [
        strip(part) for part in parts(work, "toolCall")
    ]
    assert turn["usage"] == work["usage"]
    assert room.other.kinds(room.chat).count("chat/delta") == 4


async def test_the_tokens_of_all_that_a_turn_took_are_added_up(room: Room) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        cost = {"amount": 0.25, "currency": "USD"}
        sink.usage(input_tokens=10, output_tokens=2, meta={COST: cost, "prompt": prompt.text})
        sink.markdown("on")
        await room.worker.words.get()

    room.worker.play = play
    await room.client.start(room.chat, "Hi")
    await until(lambda: room.said)
    await room.steer("And")
    await until(lambda: room.work().get("queuedMessages"))
    room.worker.words.put_nowait("done")
    room.worker.words.put_nowait("done")
    await until(lambda: not room.active)
    meta = {COST: {"amount": 0.5, "currency": "USD"}, "prompt": "And"}
    assert room.state["turns"][-1]["usage"] == {"inputTokens": 20, "outputTokens": 4, "_meta": meta}


async def test_its_instructions_go_along_with_every_message_and_stand_in_its_folder(
    room: Room, tmp_path: Path
) -> None:
    room.worker.words.put_nowait("done")
    await say(room, "One", model={"id": "theirs"})
    room.worker.words.put_nowait("done")
    await say(room, "Two")
    for prompt in room.worker.prompts:
        told = prompt.prefaces[prompt.turn_id]
        assert HINTS in told
        assert "“Tutor”" in told
        assert prompt.model is None
    folder = tmp_path / "bots" / "tutor"
    assert room.worker.lines[0].start.directories == [str(folder)]
    assert HINTS in (folder / "AGENTS.md").read_text()
    assert [turn["message"]["text"] for turn in room.worker.prompts[1].history] == ["One"]
    assert HINTS not in json.dumps(room.state), "they are for the model"


async def test_what_a_message_carries_reaches_the_work(room: Room) -> None:
    room.worker.words.put_nowait("done")
    attached: list[Json] = [
        {"type": "embeddedResource", "label": "a.txt", "data": "aGk=", "contentType": "text/plain"},
        {
            "type": "embeddedResource",
            "label": "a.png",
            "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
            "contentType": "image/png",
        },
    ]
    await say(room, "Look", attachments=attached)
    text, image = room.worker.prompts[0].blocks
    assert isinstance(text, TextBlock)
    assert isinstance(image, ImageBlock)
    assert not isinstance(text, PathBlock)
    assert text.text == "hi"


async def test_a_command_of_a_person_is_told_and_a_message_like_one_is_no_command_of_the_work(
    room: Room,
) -> None:
    room.worker.words.put_nowait("done")
    await say(room, "!ls")  # there are no terminals here
    assert room.worker.prompts[0].text == "!ls"


# ── what it asks ─────────────────────────────────────────────────────────────────────────────────────────────────
async def test_an_approval_is_asked_and_answered_in_the_bots_chat(room: Room) -> None:
    answers: list[Any] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("write", title="Write")
        options = [{"id": "once", "label": "Once", "kind": "approve"}]
        edits = [{"before": {"uri": "file:///a"}, "after": {"uri": "file:///a"}}]
        answers.append(
            await call.confirm(
                "Write a.txt", title="Write?", tool_input="{}", options=options, edits=edits, editable=True
            )
        )
        call.done("Wrote")
        second = sink.tool("run", title="Run")
        answers.append(await second.confirm("Run it", title="Run?"))

    room.worker.play = play
    await room.client.start(room.chat, "Hi")
    call = await room.client.call_in(room.chat, "pending-confirmation")
    assert (call["confirmationTitle"], call["editable"], len(call["edits"]["items"])) == ("Write?", True, 1)
    await until(lambda: room.other.state(S).get("inputNeeded"))
    assert room.other.state(S)["status"] & status.INPUT_NEEDED == status.INPUT_NEEDED
    more = {"selectedOptionId": "once", "editedToolInput": '{"b": 1}'}
    await room.other.of_call(room.chat, "chat/toolCallConfirmed", **YES, **more)
    await until(lambda: len(room.client.calls(room.chat)) == 2)
    await room.client.call_in(room.chat, "pending-confirmation")
    denied = {"approved": False, "reason": "denied", "reasonMessage": "Not today"}
    await room.other.of_call(room.chat, "chat/toolCallConfirmed", **denied)
    await until(lambda: not room.active)
    assert (answers[0].approved, answers[0].option, answers[0].edited_input) == (True, "once", '{"b": 1}')
    assert (answers[1].approved, answers[1].reason) == (False, "Not today")
    ended = [part["toolCall"]["status"] for part in parts(room.work()["turns"][0], "toolCall")]
    assert ended == ["completed", "cancelled"]


class Paint(GuardedTool):
    """A tool of a plugin."""

    name, title, description = "paint", "Paint", "Paints"
    parameters: Json = {"type": "object", "properties": {}}
    effects = "write"

    def __init__(self, chat: str, approvals: Any) -> None:
        super().__init__(approvals)
        self.chat = chat

    async def run(self, call: ToolCall, arguments: Any) -> ToolResult:
        return ToolResult(f"painted in {self.chat}")


async def test_its_tools_are_those_of_the_bots_turn_and_what_is_allowed_holds_for_the_bots_session(
    room: Room,
) -> None:
    room.host.tools.register(lambda turn: [Paint(turn.chat, turn.approvals)])

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown((await use(prompt, sink, "paint")).text)

    room.worker.play = play
    await room.client.start(room.chat, "Hi")
    await room.client.call_in(room.chat, "pending-confirmation")
    await room.other.of_call(room.chat, "chat/toolCallConfirmed", **YES, selectedOptionId="allow-session")
    await until(lambda: not room.active)
    assert answer_of(room.state["turns"][0]) == f"painted in {room.chat}"
    turn = await say(room)  # nobody is asked
    assert parts(turn, "toolCall")[0]["toolCall"]["confirmed"] == "setting"
    assert "paint" in str(room.host.session_named(S).meta)  # type: ignore[union-attr]
    await room.client.do(S, "session/configChanged", config={"approvals": "ask"})
    await room.client.start(room.chat, "Hi")
    await room.client.call_in(room.chat, "pending-confirmation")
    await room.client.do(S, "session/configChanged", config={"approvals": "auto"})
    await until(lambda: not room.active)
    assert room.state["turns"][-1]["state"] == "complete"


async def test_a_clients_tool_runs_at_the_client_that_sees_the_bots_chat(room: Room) -> None:
    cell = {"name": "read_cell", "description": "Reads", "annotations": {"readOnlyHint": True}}
    await room.client.announce(S, cell)

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown((await use(prompt, sink, "read_cell")).text)

    room.worker.play = play
    await room.client.start(room.chat, "Hi")
    await room.client.call_in(room.chat, "running")
    result = {"success": True, "pastTenseMessage": "Read", "content": [{"type": "text", "text": "df.head()"}]}
    await room.client.of_call(room.chat, "chat/toolCallComplete", result=result)
    await until(lambda: not room.active)
    assert answer_of(room.state["turns"][0]) == "df.head()"
    assert parts(room.work()["turns"][0], "toolCall")[0]["toolCall"]["status"] == "completed"


async def test_a_question_is_answered_in_the_bots_chat_and_one_that_is_withdrawn_goes(room: Room) -> None:
    answers: list[Any] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        asking = asyncio.create_task(sink.ask("Never mind?"))
        await until(lambda: room.client.kinds(room.chat).count("chat/inputRequested") == 1)
        asking.cancel()
        await asyncio.wait([asking])
        question = {"id": "q", "kind": "text", "message": "Which?", "required": True}
        answers.append(await sink.ask("Which one?", [question]))

    room.worker.play = play
    await room.client.start(room.chat, "Hi")
    await until(lambda: room.client.kinds(room.chat).count("chat/inputRequested") == 2)
    first, second = parts(room.active, "inputRequest")
    assert first["response"] == "cancel"
    answer = {"q": {"state": "submitted", "value": {"kind": "text", "value": "the second"}}}
    ids = {"requestId": second["request"]["id"], "response": "accept"}
    await room.other.do(room.chat, "chat/inputCompleted", **ids, answers=answer)
    await until(lambda: not room.active)
    assert (answers[0].response, answers[0].answers) == ("accept", answer)


async def test_a_worker_at_any_depth_has_a_chat_in_the_bots_session_and_asks_there(room: Room) -> None:
    answers: list[bool] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("delegate", title="Delegate")
        worker = sink.worker(call, "Look into it", title="Research", agent_name="scout")
        worker.sink.markdown("looking")
        inner = worker.sink.tool("delegate", title="Delegate")
        deeper = worker.sink.worker(inner, "Deeper", title="Dig")
        ask = deeper.sink.tool("write", title="Write")
        answers.append((await ask.confirm("Write it", title="Write?")).approved)
        ask.done("Wrote")
        deeper.sink.markdown("dug")
        deeper.done()
        inner.done("Dug")
        worker.failed("It found nothing")
        call.failed("Failed", error="nothing")
        sink.markdown("so")

    room.worker.play = play
    await room.client.start(room.chat, "Hi")
    await until(lambda: len(room.client.state(S)["chats"]) == 3)
    main, research, dig = room.client.state(S)["chats"]
    assert research["origin"]["chat"] == main["resource"]
    assert dig["origin"]["chat"] == research["resource"]
    assert (research["title"], dig["title"]) == ("Research", "Dig")
    await room.client.subscribe(dig["resource"])
    await room.client.subscribe(research["resource"])
    assert room.client.state(dig["resource"])["activeTurn"]["message"]["text"] == "Deeper"
    await room.client.call_in(dig["resource"], "pending-confirmation")
    await room.client.of_call(dig["resource"], "chat/toolCallConfirmed", **YES)
    await until(lambda: not room.active)
    assert answers == [True]
    [dug] = room.client.state(dig["resource"])["turns"]
    [looked] = room.client.state(research["resource"])["turns"]
    assert (dug["state"], answer_of(dug)) == ("complete", "dug")
    assert (looked["state"], answer_of(looked)) == ("error", "looking")
    [call] = room.client.calls(room.chat)
    assert call["content"][0]["resource"] == research["resource"]


async def test_a_stop_ends_what_waits_for_a_person_too(room: Room) -> None:
    over: list[str] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        try:
            await sink.tool("write", title="Write").confirm("Write", title="Write?")
        except TurnOver:
            over.append("over")
            raise

    room.worker.play = play
    turn = await room.client.start(room.chat, "Hi")
    await room.client.call_in(room.chat, "pending-confirmation")
    await room.client.do(room.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(room.host)
    assert "activeTurn" not in room.work()
    room.worker.play = room.worker.step
    room.worker.words.put_nowait("done")
    assert (await say(room))["state"] == "complete"


async def test_what_the_work_begins_by_itself_is_a_turn_of_the_bots_chat(room: Room) -> None:
    room.worker.words.put_nowait("done")
    await say(room)

    async def answer(sink: TurnSink) -> None:
        sink.markdown("It came back")
        sink.markdown(await room.worker.words.get())

    room.worker.lines[0].start.host.late_turn("A helper came back", answer)
    await until(lambda: room.said == "It came back")
    room.worker.words.put_nowait(" well")
    await until(lambda: not room.active)
    late = room.state["turns"][-1]
    assert late["message"]["origin"]["kind"] == "systemNotification"
    assert (late["message"]["text"], answer_of(late)) == ("A helper came back", "It came back well")
    room.worker.lines[0].start.host.background({"kind": "shell", "label": "Server"}, "b1")
    await until(lambda: room.state.get("backgroundWork"))
    room.worker.lines[0].start.host.background(None, "b1")
    await until(lambda: not room.state.get("backgroundWork"))


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_failure_is_told_in_the_works_words_and_can_be_tried_again(room: Room) -> None:
    room.worker.words.put_nowait("resumable")
    turn = await say(room)
    error = turn["responseParts"][-1]
    assert (error["error"]["message"], error["resumable"]) == ("The worker is busy.", True)
    room.worker.words.put_nowait("done")
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"], startedAt="2026-03-01T10:00:00Z")
    await until(lambda: not room.active)
    assert room.state["turns"][-1]["state"] == "complete"
    assert len(room.work()["turns"]) == 1
    assert room.worker.prompts[1].resumed

    async def broken(prompt: Prompt, sink: TurnSink) -> None:
        raise RuntimeError("out of luck")

    room.worker.play = broken
    turn = await say(room)
    assert "out of luck" in turn["responseParts"][-1]["error"]["message"]


async def test_calls_and_questions_that_the_work_leaves_open_are_over_with_its_turn(room: Room) -> None:
    left: list[asyncio.Task[Any]] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown(f"on {prompt.text}")
        sink.tool("run", title="Run").run("Running")
        left.append(asyncio.create_task(sink.ask("Sure?")))
        await room.worker.words.get()

    room.worker.play = play
    await room.client.start(room.chat, "One")
    await until(lambda: room.said and parts(room.active, "inputRequest"))
    await room.steer("Two")
    await until(lambda: room.work().get("queuedMessages"))
    room.worker.words.put_nowait("done")
    await until(lambda: len(parts(room.active, "inputRequest")) == 2)
    assert room.client.calls(room.chat)[0]["status"] == "completed"
    assert parts(room.active, "inputRequest")[0]["response"] == "cancel"
    room.worker.words.put_nowait("done")
    await until(lambda: not room.active)
    assert [call["status"] for call in room.client.calls(room.chat)] == ["completed", "cancelled"]
    await asyncio.wait(left)
    assert [type(task.exception()) for task in left] == [TurnOver, TurnOver]


async def test_what_cannot_be_shown_ends_the_turn_with_words_and_stops_the_work(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("of a mirror")

    await room.client.start(room.chat, "One")
    await until(lambda: room.said == "on One")
    monkeypatch.setattr(Mirror, "hear", broken)
    room.worker.words.put_nowait("more")
    await until(lambda: not room.active)
    turn = room.state["turns"][-1]
    assert "of a mirror" in turn["responseParts"][-1]["error"]["message"]
    await until(lambda: room.worker.stops == 1)
    await until(lambda: "activeTurn" not in room.work())
    assert "cannot be shown there" in caplog.text


async def test_a_turn_whose_work_was_done_is_resumed_with_what_it_has_not_shown(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the server dies between the two ends: nothing is done twice."""

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        for piece in ("Think ", "of ", "the base case."):
            sink.markdown(piece)

    hear = Mirror.hear

    def breaks(mirror: Mirror, action: Json) -> None:
        if action.get("content") == "of ":
            raise KeyError("of a mirror")
        hear(mirror, action)

    room.worker.play = play
    monkeypatch.setattr(Mirror, "hear", breaks)
    turn = await say(room)
    assert (turn["state"], answer_of(turn)) == ("error", "Think ")
    assert room.work()["turns"][-1]["state"] == "complete"
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"], startedAt="2026-03-01T10:00:00Z")
    await until(lambda: not room.active)
    last = room.state["turns"][-1]
    assert (last["state"], answer_of(last)) == ("complete", "Think of the base case.")
    assert len(room.worker.prompts) == 1


async def test_a_workspace_that_goes_away_is_told_in_words(tmp_path: Path, store: Store) -> None:
    course = tmp_path / "course"
    course.mkdir()
    (course / "AGENTS.md").write_text("Only hints, says the course.")
    room = Room(store, tmp_path, workspace=str(course), instructions="")
    await room.open()
    room.worker.words.put_nowait("done")
    await say(room)
    assert "says the course" in room.worker.prompts[0].prefaces[room.worker.prompts[0].turn_id]
    assert not (tmp_path / "bots").exists()
    (course / "AGENTS.md").unlink()
    course.rmdir()
    turn = await say(room)
    assert f"{course} is not there" in turn["responseParts"][-1]["error"]["message"]
    await room.close()


# ── who sees it ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_the_working_session_is_in_no_list_and_no_client_reaches_it(room: Room) -> None:
    room.worker.words.put_nowait("done")
    await say(room)
    [place] = room.host.works._known.values()
    listed = (await room.client.request("listSessions"))["items"]
    assert [entry["resource"] for entry in listed] == [S]
    told = [note["params"] for note in room.client.notes]
    assert place.id not in json.dumps(told)
    for uri in (place.session.uri, place.chat):
        with pytest.raises(RpcError):
            await room.client.subscribe(uri)
    await room.client.dispatch(
        place.chat,
        "chat/turnStarted",
        turnId="x",
        startedAt="2026-03-01T10:00:00Z",
        message=message("Hi"),
    )
    await quiet(room.host)
    assert len(room.work()["turns"]) == 1
    assert place.id not in json.dumps(room.state)
    room.client.pending.clear()


async def test_P3_the_rights_are_those_of_the_bots_chat(room: Room) -> None:
    room.host.options.grants = Grants(
        {"asks": ["session:read", "chat:send"]}, {"bob": "asks", "eve": "guest"}, "owner"
    )
    bob = WireClient(room.host, principal=Principal("user:bob", "Bob"))
    eve = WireClient(room.host, principal=Principal("user:eve", "Eve"))
    for who in (bob, eve):
        await who.initialize(ROOT)
        await who.subscribe(room.chat)
    room.worker.words.put_nowait("done")
    await bob.say(room.chat, "May I?")
    assert len(room.worker.prompts) == 1
    await eve.start(room.chat, "May I?")
    assert "needs chat:send" in eve.refusals[-1]["rejectionReason"]
    assert len(room.worker.prompts) == 1


async def test_two_chats_of_a_bot_do_not_mix_up(room: Room) -> None:
    await room.client.request("createChat", channel=S, chat=TWO)
    for person in (room.client, room.other):
        await person.subscribe(TWO)
    await room.client.start(room.chat, "One")
    await until(lambda: room.said == "on One")
    await room.client.start(TWO, "Two")
    await until(lambda: answer_of(room.client.state(TWO)["activeTurn"]) == "on Two")
    await room.steer("For one")
    room.worker.words.put_nowait("done")  # the one that waits longest
    await until(lambda: "on For one" in room.said)
    room.worker.words.put_nowait("done")
    await until(lambda: "activeTurn" not in room.client.state(TWO))
    room.worker.words.put_nowait("done")
    await until(lambda: not room.active)
    assert answer_of(room.client.state(TWO)["turns"][0]) == "on Two"
    assert answer_of(room.state["turns"][0]) == "on Oneon For one"
    assert len(room.host.works._known) == 2


# ── what is kept ─────────────────────────────────────────────────────────────────────────────────────────────────
async def test_after_a_restart_the_work_goes_on_where_it_was(room: Room) -> None:
    room.worker.words.put_nowait("done")
    await say(room, "One")
    [before] = room.host.works._known
    await room.again()
    room.worker.words.put_nowait("done")
    await say(room, "Two")
    [after] = room.host.works._known
    assert before == after
    assert [turn["message"]["text"] for turn in room.worker.prompts[0].history] == ["One"]
    assert [turn["message"]["text"] for turn in room.work()["turns"]] == ["One", "Two"]


async def test_a_stop_of_the_server_leaves_a_turn_that_can_be_resumed(room: Room) -> None:
    await room.client.start(room.chat, "One")
    await until(lambda: room.said == "on One")
    await room.steer("A hint")
    await until(lambda: room.work().get("queuedMessages"))
    await room.leave()
    room.worker = Worker()
    await room.open()
    turn = room.state["turns"][-1]
    assert turn["responseParts"][-1]["resumable"] is True
    assert answer_of(turn) == "on One"
    room.worker.words.put_nowait("done")
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"], startedAt="2026-03-01T10:00:00Z")
    await until(lambda: not room.active)
    assert room.state["turns"][-1]["state"] == "complete"
    assert room.worker.prompts[0].resumed
    assert len(room.work()["turns"]) == 1


@pytest.mark.parametrize("first", [True, False], ids=["the first turn", "a later turn"])
async def test_kill_9_loses_nothing_and_the_works_turn_is_resumed(tmp_path: Path, first: bool) -> None:
    room = Room(FileStore(tmp_path / "store"), tmp_path)
    await room.open()
    if not first:
        room.worker.words.put_nowait("done")
        await say(room, "Before")
    await room.client.start(room.chat, "One")
    await until(lambda: room.said == "on One")
    await room.steer("A hint")
    await until(lambda: room.work().get("queuedMessages"))
    live = room.active
    await until(lambda: "on One" in _journals(tmp_path / "store", 2))
    shutil.copytree(tmp_path / "store", tmp_path / "killed", ignore=shutil.ignore_patterns("*lock*"))
    killed = Room(FileStore(tmp_path / "killed"), tmp_path)
    await killed.open()
    turn = killed.state["turns"][-1]
    assert (turn["id"], turn["state"], answer_of(turn)) == (live["id"], "error", "on One")
    assert killed.state["steeringMessage"]["message"]["text"] == "A hint", "it waits, and is delivered once"
    await killed.client.do(
        killed.chat, "chat/turnResume", turnId=turn["id"], startedAt="2026-03-01T10:00:00Z"
    )
    await until(lambda: killed.worker.prompts and killed.work().get("queuedMessages"))
    killed.worker.words.put_nowait("done")
    killed.worker.words.put_nowait("done")
    await until(lambda: not killed.active)
    assert killed.state["turns"][-1]["state"] == "complete"
    assert [prompt.text for prompt in killed.worker.prompts] == ["One", "A hint"]
    assert killed.worker.prompts[0].resumed
    assert len(killed.work()["turns"]) == (2 if first else 3)
    await killed.close()
    for _ in range(2):
        room.worker.words.put_nowait("done")
    await until(lambda: not room.active)
    await room.close()


def _journals(folder: Path, least: int) -> str:
    """What is on disk, once that many files say so."""
    said = [text for file in folder.rglob("*") if file.is_file() and "on One" in (text := file.read_text())]
    return said[0] if len(said) >= least else ""


async def test_X1_a_rewind_takes_the_work_back_and_undoing_it_brings_it_back(room: Room) -> None:
    for text in ("One", "Two", "Three"):
        room.worker.words.put_nowait("done")
        await say(room, text)
    await room.client.do(room.chat, "chat/truncated", turnId=room.state["turns"][0]["id"])
    await room.client.request("x-jupyter-ahp/undoRewind", channel=room.chat)
    assert len(room.state["turns"]) == 3
    await room.client.do(room.chat, "chat/truncated", turnId=room.state["turns"][1]["id"])
    room.worker.words.put_nowait("done")
    await say(room, "Other")
    assert [turn["message"]["text"] for turn in room.work()["turns"]] == ["One", "Two", "Other"]
    assert [turn["message"]["text"] for turn in room.worker.prompts[-1].history] == ["One", "Two"]


async def test_X3_a_chat_that_is_cleared_has_its_work_begun_anew_and_the_old_one_deleted(room: Room) -> None:
    room.worker.words.put_nowait("done")
    await say(room, "One")
    [before] = room.host.works._known
    await room.client.do(room.chat, "chat/truncated")
    room.worker.words.put_nowait("done")
    await say(room, "Anew")
    [after] = room.host.works._known
    assert before != after
    assert room.worker.prompts[-1].history == []
    assert await room.store.session(before) is None


async def test_S3_a_fork_begins_with_a_copy_of_the_work(room: Room) -> None:
    for text in ("One", "Two"):
        room.worker.words.put_nowait("done")
        await say(room, text)
    source = {"kind": "fork", "chat": room.chat, "turnId": room.state["turns"][0]["id"]}
    await room.client.request("createChat", channel=S, chat=TWO, source=source)
    for person in (room.client, room.other):
        await person.subscribe(TWO)
    room.worker.words.put_nowait("done")
    await room.client.say(TWO, "Other")
    assert [turn["message"]["text"] for turn in room.worker.prompts[-1].history] == ["One"]
    assert [turn["message"]["text"] for turn in room.work_of(room.chat)["turns"]] == ["One", "Two"]


async def test_work_that_was_lost_is_begun_anew_and_told_what_was_said(room: Room) -> None:
    room.worker.words.put_nowait("done")
    await say(room, "One")
    [before] = room.host.works._known
    await room.leave()
    await room.store.open()
    await room.store.delete_session(before)
    await room.store.close()
    room.worker = Worker()
    await room.open()
    room.worker.words.put_nowait("done")
    turn = await say(room, "Two")
    assert turn["state"] == "complete"
    [prompt] = room.worker.prompts
    assert "on One" in prompt.prefaces[prompt.turn_id]


async def test_U9_work_of_a_closed_chat_is_deleted_where_that_is_asked_for(room: Room) -> None:
    room.host.options.closed_chats = "delete"
    await room.client.request("createChat", channel=S, chat=TWO)
    await room.client.subscribe(TWO)
    room.worker.words.put_nowait("done")
    await room.client.say(TWO, "Hi")
    [work] = room.host.works._known
    await room.client.request("disposeChat", channel=TWO)
    async with asyncio.timeout(5):
        while await room.store.session(work) is not None:  # noqa: ASYNC110  (nobody says when)
            await asyncio.sleep(0.01)
    room.client.mirrors.pop(TWO, None)


async def test_X1_S3_an_agent_with_a_memory_of_its_own_goes_back_and_begins_copies_as_in_a_chat_of_its_own(
    room: Room,
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown(f"on {prompt.text}")
        sink.resume_point(f"behind {prompt.text}")

    room.worker.capabilities = Capabilities(fork=True, rewind=True)
    room.worker.memory = "its own"
    room.worker.play = play
    for text in ("One", "Two"):
        await say(room, text)
    first = room.state["turns"][0]["id"]
    source = {"kind": "fork", "chat": room.chat, "turnId": first}
    await room.client.request("createChat", channel=S, chat=TWO, source=source)
    for person in (room.client, room.other):
        await person.subscribe(TWO)
    await room.client.say(TWO, "Other")
    fork = room.worker.lines[-1].start
    assert (fork.memory, fork.at, fork.fork) == ("its own", "behind One", True)
    await room.client.do(room.chat, "chat/truncated", turnId=first)
    await say(room, "Two again")
    back = room.worker.lines[-1].start
    assert (back.memory, back.at, back.fork) == ("its own", "behind One", False)
    told = room.worker.prompts[-1].prefaces[room.worker.prompts[-1].turn_id]
    assert "on One" not in told, "it remembers by itself"
    await room.again()
    room.worker.memory, room.worker.play = "its own", play
    await say(room, "Three")
    assert room.worker.lines[-1].start.memory == "its own"
    await room.client.unsubscribe(TWO)
    await room.other.unsubscribe(TWO)
