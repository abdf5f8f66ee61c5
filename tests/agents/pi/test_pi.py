"""The real pi in a real host, both generations: B1 to B3, B14, S2 to S5, X1, X3, T9, A1. The model's log is the witness."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_ahp.agents.base import TurnFailed
from jupyter_ahp.agents.pi import PiAgent, conversation
from tests.agents.pi.room import GENERATIONS, SESSION, Room
from tests.host.harness import answer_of, message, until
from tests.mock_model import MockModel

BOTH = pytest.mark.parametrize("agent", GENERATIONS, indirect=True)
LONG = "!!chunks 60 0.05"
WRITE = '!!tool write {"path": "made.txt", "content": "hello"}\n!!text written'
SLEEP = '!!tool bash {"command": "echo begun; sleep 30"}\n!!text slept'
SLOW = """
import * as fs from "node:fs";
export default function (pi: any): void {
  pi.on("before_agent_start", async () => {
    if (!fs.existsSync("slow")) return;
    fs.rmSync("slow");
    while (!fs.existsSync("go")) await new Promise(done => setTimeout(done, 50));
  });
}
"""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


# ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────────────
@BOTH
async def test_B1_a_turn_is_streamed_with_reasoning_and_usage_and_remembered(room: Room) -> None:
    turn = await room.say("hello\n!!think hm\n!!text one two")

    assert [part["kind"] for part in turn["responseParts"]] == ["reasoning", "markdown"]
    assert (answer_of(turn), turn["state"]) == ("one two", "complete")
    assert turn["usage"]["outputTokens"] > 0

    await room.say("again\n!!text three")
    assert [role for role, _ in room.told()] == ["user", "assistant", "user"]
    assert room.told()[1] == ("assistant", "one two")


async def test_B3_what_the_host_has_to_say_stands_ahead_of_what_was_said(room: Room) -> None:
    first = await room.say("one\n!!text the sea is blue")
    source = {"kind": "sideChat", "chat": room.chat, "turnId": first["id"]}
    await room.client.request("createChat", channel=SESSION, chat="ahp-chat:/side", source=source)
    await room.client.subscribe("ahp-chat:/side")
    await room.say("is it\n!!text yes", chat="ahp-chat:/side")

    ((_, told),) = room.told()
    assert told.index("the sea is blue") < told.index("is it")
    await room.client.unsubscribe("ahp-chat:/side")


async def test_A1_an_image_goes_in_as_an_image(room: Room) -> None:
    data = base64.b64encode(PIXEL).decode()
    image = {"type": "embeddedResource", "label": "dot.png", "data": data, "contentType": "image/png"}
    await room.say("look\n!!text seen", attachments=[image])

    assert "[image/png]" in room.told()[-1][1]


async def test_A1_an_image_that_it_reads_is_shown_and_seen(room: Room) -> None:
    (room.work / "dot.png").write_bytes(PIXEL)
    turn = await room.say('!!tool read {"path": "dot.png"}\n!!text seen')
    shown = turn["responseParts"][0]["toolCall"]["content"]
    assert {"type": "embeddedResource", "contentType": "image/png"}.items() <= shown[-1].items()
    assert "[image/png]" in "".join(text for _, text in room.told())


# ── approvals ────────────────────────────────────────────────────────────────────────────────────────────────────
@BOTH
async def test_a_tool_of_its_own_is_asked_for_and_allowed(room: Room) -> None:
    await room.begin(WRITE)
    call = await room.asked()
    assert call["invocationMessage"] == "Write made.txt"
    await room.answer(call, True)
    turn = await room.over()

    assert (room.work / "made.txt").read_text() == "hello"
    done = turn["responseParts"][0]["toolCall"]
    assert (done["status"], done["success"]) == ("completed", True)
    assert answer_of(turn) == "written"


@BOTH
async def test_a_denial_and_its_reason_reach_the_model(room: Room) -> None:
    await room.begin(WRITE)
    await room.answer(await room.asked(), False, reasonMessage="not in this folder")
    turn = await room.over()

    assert not (room.work / "made.txt").exists()
    assert turn["responseParts"][0]["toolCall"]["status"] == "cancelled"
    assert "not in this folder" in "".join(text for _, text in room.told())


async def test_a_tool_that_was_allowed_for_the_session_is_not_asked_for_again_after_a_restart(
    room: Room,
) -> None:
    await room.begin(WRITE)
    call = await room.asked()
    option = next(option["id"] for option in call["options"] if "session" in option["label"])
    await room.answer(call, True, selectedOptionId=option)
    await room.over()
    await room.restart()
    (room.work / "made.txt").unlink()

    turn = await room.say(WRITE)
    assert (room.work / "made.txt").exists()
    assert turn["responseParts"][0]["toolCall"]["success"]


async def test_what_a_person_changed_in_the_input_is_what_runs(room: Room) -> None:
    await room.begin(WRITE)
    await room.answer(await room.asked(), True, editedToolInput='{"path": "other.txt", "content": "bye"}')
    await room.over()
    assert (room.work / "other.txt").read_text() == "bye"


async def test_reading_asks_nobody_and_a_failure_is_shown(room: Room) -> None:
    turn = await room.say('!!tool read {"path": "nothing.txt"}\n!!text none')
    call = turn["responseParts"][0]["toolCall"]
    assert (call["status"], call["success"]) == ("completed", False)


@BOTH
async def test_a_tool_of_the_hosts_is_called_by_its_model(room: Room) -> None:
    turn = await room.say('name this\n!!tool rename_chat {"title": "Of pies"}\n!!text named')
    assert turn["responseParts"][0]["toolCall"]["success"]
    assert room.client.state(SESSION)["chats"][0]["title"] == "Of pies"


# ── stop ─────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_B2_a_stop_before_the_first_byte(room: Room) -> None:
    turn = await room.begin("!!hang")
    await room.stop(turn)
    assert (await room.over())["state"] == "cancelled"
    assert answer_of(await room.say("and now\n!!text fine")) == "fine"


@BOTH
async def test_a_stop_in_the_text_keeps_it_and_aborts_the_request(room: Room) -> None:
    turn = await room.begin(LONG)
    await room.part("markdown")
    await room.stop(turn)
    stopped = await room.over()
    assert stopped["state"] == "cancelled"
    assert answer_of(stopped)
    await until(lambda: room.model.requests[-1].aborted, 20)
    assert answer_of(await room.say("and now\n!!text fine")) == "fine"


@BOTH
async def test_a_stop_in_a_tool_ends_what_it_runs(room: Room) -> None:
    turn = await room.begin(SLEEP)
    await room.answer(await room.asked(), True)
    await until(lambda: "begun" in str(room.state["activeTurn"]["responseParts"]), 30)
    await room.stop(turn)
    assert (await room.over())["responseParts"][0]["toolCall"]["status"] == "cancelled"
    assert answer_of(await room.say("and now\n!!text fine")) == "fine"


async def test_a_stop_in_an_approval(room: Room) -> None:
    turn = await room.begin(WRITE)
    await room.asked()
    await room.stop(turn)
    assert (await room.over())["state"] == "cancelled"
    assert answer_of(await room.say("and now\n!!text fine")) == "fine"
    assert not (room.work / "made.txt").exists()


# ── steering and the queue ───────────────────────────────────────────────────────────────────────────────────────
@BOTH
async def test_B14_steering_in_a_tool_is_read_before_the_next_call_of_the_model(room: Room) -> None:
    await room.begin('!!tool bash {"command": "sleep 1; echo slept"}\n!!text done')
    await room.answer(await room.asked(), True)
    await room.client.do(
        room.chat,
        "chat/pendingMessageSet",
        kind="steering",
        id="s1",
        message=message("and be brief\n!!text brief"),
    )
    turn = await room.over()

    kinds = [part["kind"] for part in turn["responseParts"]]
    assert kinds.index("systemNotification") > kinds.index("toolCall")
    assert "steeringMessage" not in room.state
    assert answer_of(turn).endswith("brief")
    assert len(room.turns) == 1


@pytest.mark.parametrize(
    ("says", "while_"), [("!!delay 1.5\n!!text first", "nothing"), ("!!chunks 30 0.05", "markdown")]
)
async def test_B14_steering_before_the_first_byte_and_in_the_text_is_answered_in_the_same_turn(
    room: Room, says: str, while_: str
) -> None:
    await room.begin(says)
    if while_ != "nothing":
        await room.part(while_)
    await room.client.do(
        room.chat, "chat/pendingMessageSet", kind="steering", id="s1", message=message("more\n!!text brief")
    )
    turn = await room.over()
    assert answer_of(turn).endswith("brief")
    assert "systemNotification" in [part["kind"] for part in turn["responseParts"]]
    assert len(room.turns) == 1


async def test_B14_steering_while_a_call_waits_for_a_person(room: Room) -> None:
    await room.begin(WRITE)
    call = await room.asked()
    await room.client.do(
        room.chat, "chat/pendingMessageSet", kind="steering", id="s1", message=message("more\n!!text brief")
    )
    await room.answer(call, True)
    turn = await room.over()
    assert answer_of(turn).endswith("brief")
    assert (len(room.turns), (room.work / "made.txt").exists()) == (1, True)


@BOTH
async def test_B14_steering_that_is_taken_back_is_not_read_where_pi_can_forget_it(
    room: Room, request: pytest.FixtureRequest
) -> None:
    await room.begin('!!tool bash {"command": "sleep 2; echo slept"}\n!!text done')
    await room.answer(await room.asked(), True)
    await room.client.do(
        room.chat, "chat/pendingMessageSet", kind="steering", id="s1", message=message("never mind")
    )
    await asyncio.sleep(0.3)  # handed over, most likely; right either way
    envelope = await room.client.do(room.chat, "chat/pendingMessageRemoved", kind="steering", id="s1")
    await room.over()

    seen = "never mind" in "".join(text for _, text in room.told())
    assert seen == ("rejectionReason" in envelope)
    if "1.6" in request.node.name:
        assert not seen


async def test_Q2_what_is_queued_runs_behind(room: Room) -> None:
    await room.begin(LONG)
    await room.client.do(
        room.chat, "chat/pendingMessageSet", kind="queued", id="q1", message=message("next\n!!text behind")
    )
    await until(lambda: len(room.turns) == 2, 60)
    assert [answer_of(turn).split()[-1] for turn in room.turns] == ["c59", "behind"]


# ── branches ─────────────────────────────────────────────────────────────────────────────────────────────────────
@BOTH
async def test_S3_a_fork_goes_on_at_its_point_and_leaves_the_other_alone(room: Room) -> None:
    first = await room.say("one\n!!text first")
    await room.say("two\n!!text second")
    source = {"kind": "fork", "chat": room.chat, "turnId": first["id"]}
    await room.client.request("createChat", channel=SESSION, chat="ahp-chat:/f", source=source)
    await room.client.subscribe("ahp-chat:/f")

    await room.say("three\n!!text third", chat="ahp-chat:/f")
    assert [text.split("\n")[0] for _, text in room.told()] == ["one", "first", "three"]
    await room.say("four\n!!text fourth")
    assert [text.split("\n")[0] for _, text in room.told()] == ["one", "first", "two", "second", "four"]
    await room.client.unsubscribe("ahp-chat:/f")


@BOTH
async def test_X1_a_rewind_is_forgotten_by_pi_too_also_after_a_restart(room: Room) -> None:
    first = await room.say("one\n!!text first")
    await room.say("two\n!!text second")
    await room.client.do(room.chat, "chat/truncated", turnId=first["id"])
    await room.restart()

    await room.say("three\n!!text third")
    assert [text.split("\n")[0] for _, text in room.told()] == ["one", "first", "three"]


async def test_X3_a_rewind_of_everything_begins_anew(room: Room) -> None:
    await room.say("one\n!!text first")
    await room.client.do(room.chat, "chat/truncated")
    await room.say("two\n!!text second")
    assert [text.split("\n")[0] for _, text in room.told()] == ["two"]


# ── what dies, and what goes wrong ───────────────────────────────────────────────────────────────────────────────
async def test_X1_a_rewind_that_pi_cannot_make_is_said(room: Room, agent: PiAgent) -> None:
    await room.say("one\n!!text first")
    line = room.host.sessions["s"].chats[room.chat].turns.line.conversation
    assert isinstance(line, conversation.PiConversation)
    start = replace(line._start, memory=line.memory, at="nowhere")
    with pytest.raises(TurnFailed, match="could not go to that point"):
        await agent.open(start)


@BOTH
async def test_a_restarted_host_goes_on_with_what_pi_remembers(room: Room) -> None:
    await room.say("one\n!!text first")
    await room.restart()
    await room.say("two\n!!text second")
    assert [text.split("\n")[0] for _, text in room.told()] == ["one", "first", "two"]


async def test_a_pi_that_is_killed_ends_its_turn_and_the_next_goes_on(room: Room) -> None:
    await room.say("one\n!!text first")
    await room.begin(LONG)
    await room.part("markdown")
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    turn = await room.over()
    assert turn["state"] == "error"
    assert "pi ended" in turn["responseParts"][-1]["error"]["message"]

    await room.say("two\n!!text second")
    assert "first" in [text for _, text in room.told()]


@BOTH
async def test_B2_what_is_stopped_before_pi_has_begun_with_it_is_never_run(
    agent: PiAgent, model: MockModel, tmp_path: Path, room: Room
) -> None:
    extensions = tmp_path / "pi" / "extensions"
    extensions.mkdir()
    (extensions / "slow.ts").write_text(SLOW)
    (room.work / "slow").touch()
    turn = await room.begin("zebra\n!!text never")
    await until(lambda: not (room.work / "slow").exists(), 60)  # pi holds it, and its run has not begun
    await room.stop(turn)
    assert answer_of(await room.say("new\n!!text fresh")) == "fresh"
    (room.work / "go").touch()
    assert answer_of(await room.say("next\n!!text fresher")) == "fresher"
    assert "zebra" not in str([request.texts for request in model.requests])


@BOTH
async def test_a_pi_that_is_killed_in_its_first_answer_is_told_the_message_again(room: Room) -> None:
    turn = await room.begin(f"one\n{LONG}")
    await room.part("markdown")
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    await room.over()
    await room.client.do(room.chat, "chat/turnResume", turnId=turn)
    assert (await room.over())["state"] == "complete"
    assert [role for role, text in room.told() if text.startswith("one")] == ["user"]


@pytest.mark.parametrize(
    ("status", "words"), [(401, "refused pi's key"), (429, "too many"), (500, "in trouble")]
)
async def test_what_the_models_api_refuses_is_said_and_can_be_tried_again(
    room: Room, status: int, words: str
) -> None:
    turn = await room.say(f"one\n!!status {status} 4\n!!text recovered")
    for _ in range(4):  # a generation that tries again by itself needs fewer
        if turn["state"] == "complete":
            break
        assert words in turn["responseParts"][-1]["error"]["message"]
        assert turn["responseParts"][-1]["resumable"] is True
        await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"])
        turn = await room.over()
    assert answer_of(turn) == "recovered"
    assert [role for role, _ in room.told()] == ["user"]


@BOTH
async def test_a_stream_that_is_cut_is_said(room: Room) -> None:
    turn = await room.say("!!chunks 3 0.01\n!!drop")
    assert turn["state"] == "error"
    assert "c0" in answer_of(turn)


async def test_a_record_that_is_gone_is_said(room: Room) -> None:
    await room.say("one\n!!text first")
    await room.leave()
    for file in (room.work.parent / "pi" / "sessions").rglob("*.jsonl"):
        file.unlink()
    await room.enter()
    turn = await room.say("two\n!!text second")
    assert "gone" in str(turn["responseParts"][0])


# ── what it keeps ────────────────────────────────────────────────────────────────────────────────────────────────
async def test_U5_its_sessions_are_listed_and_read_back_without_starting_it(
    room: Room, agent: PiAgent
) -> None:
    await room.say('one\n!!think hm\n!!tool read {"path": "nothing.txt"}\n!!text first')
    (found,) = await agent.catalogue([str(room.work)])
    assert found.title.startswith("one")
    (turn,) = await agent.transcript(found.memory)
    assert [part["kind"] for part in turn["responseParts"]] == ["reasoning", "toolCall", "markdown"]
    assert turn["responseParts"][1]["toolCall"]["success"] is False
    assert turn["resumePoint"]

    await agent.delete(found.memory)
    assert await agent.catalogue([str(room.work)]) == []
    with pytest.raises(ValueError, match="left alone"):
        await agent.delete(str(room.work / "x.jsonl"))


async def test_nothing_is_left_when_the_host_stops(room: Room) -> None:
    await room.say("one\n!!text first")
    assert children()
    await room.restart()
    assert not children()


async def test_one_that_nobody_uses_ends_and_comes_back(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "_IDLE", 0.2)
    await room.say("one\n!!text first")
    await until(lambda: not children(), 30)
    await room.say("two\n!!text second")
    assert [text.split("\n")[0] for _, text in room.told()] == ["one", "first", "two"]


@BOTH
async def test_models_and_commands_are_offered_once_it_has_run(room: Room, agent: PiAgent) -> None:
    prompts = room.work.parent / "pi" / "prompts"
    prompts.mkdir()
    (prompts / "shout.md").write_text("---\ndescription: Say it loud\n---\nShout $1\n!!text LOUD")
    assert answer_of(await room.say("/shout this")) == "LOUD"
    assert "Shout this" in room.told()[-1][1]
    probe = await agent.probe()
    assert [model.id for model in probe.models] == ["mock/mock-model"]
    assert [command.name for command in await agent.commands([str(room.work)], {})][-1:] == ["shout"]


async def test_a_pi_that_is_not_there_is_listed_with_what_to_do() -> None:
    probe = await PiAgent(["no-such-pi"]).probe()
    assert (probe.ready, "npm install" in probe.fix) == (False, True)


def children() -> list[int]:
    """The programs of Node's that this process has started and that run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = int(stat.parent.name), stat.read_text()
            name, _, fields = rest.partition("(")[2].rpartition(")")
            if int(fields.split()[1]) == os.getpid() and fields.split()[0] != "Z" and name != "sh":
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
