"""Steering and stops at every moment of a turn. B5 to B9, G1, G6, G7, Q2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jupyter_ahp.agents.claude.settings import Settings
from jupyter_ahp.host.ports import Json
from tests.agents.claude.room import Room, calls_of, kinds, said
from tests.mock_model import MockModel

SLEEP = '!!tool Bash {"command":"sleep 2"}'
LONG = "!!chunks 200 0.02"


def read_in(turn: Json) -> list[str]:
    """The steering messages that a turn shows."""
    return [
        part["content"]
        for part in turn["responseParts"]
        if part["kind"] == "systemNotification" and "jupyter-ahp.steering" in part.get("_meta", {})
    ]


def waits(room: Room) -> bool:
    return "steeringMessage" in room.client.state(room.chat)


async def test_B4_steering_is_taken_at_the_next_tool_call(room: Room) -> None:
    await room.begin(f"one\n{SLEEP}\n!!text unsteered")
    await room.call("running")
    await room.steer("STEER")
    [turn] = await room.ended(1)

    assert kinds(turn) == ["toolCall", "systemNotification", "markdown"]
    assert read_in(turn) == ["STEER"]
    assert "STEER" in room.told()[-1]
    assert len(room.requests) == 2
    assert not waits(room)


async def test_B5_steering_during_the_last_text_is_answered_in_the_same_turn(room: Room) -> None:
    await room.begin("one\n!!chunks 100 0.02")
    await room.see(lambda: said(room.active).count("c") > 3)
    await room.steer("and then?\n!!text after")
    await room.queue("queued\n!!text the queued one", "q1")
    first, second = await room.ended(2)

    assert kinds(first) == ["markdown", "systemNotification", "markdown"]
    assert read_in(first) == ["and then?\n!!text after"]
    assert said(first).endswith("after")
    assert said(second) == "the queued one"  # it waited for both answers
    assert room.told()[-3:] == ["and then?\n!!text after", "after", "queued\n!!text the queued one"]


async def test_B6_steering_before_the_first_byte(room: Room) -> None:
    await room.begin("one\n!!delay 1.5\n!!text first")
    await room.steer("more\n!!text second")
    [turn] = await room.ended(1)

    assert read_in(turn) == ["more\n!!text second"]
    assert said(turn) == "firstsecond"
    assert room.told() == ["one\n!!delay 1.5\n!!text first", "first", "more\n!!text second"]


async def test_steering_while_a_call_waits_for_a_person(room: Room) -> None:
    await room.begin(f'one\n!!tool Write {{"file_path":"{room.work}/a","content":"x"}}\n!!text unsteered')
    call = await room.call("pending-confirmation")
    await room.steer("STEER")
    await room.answer(call, "allow-once")
    [turn] = await room.ended(1)

    assert read_in(turn) == ["STEER"]
    assert "STEER" in room.told()[-1]


async def test_G7_steering_is_taken_back_before_it_is_read(room: Room) -> None:
    await room.begin(f"one\n{SLEEP}\n!!text done")
    await room.call("running")
    await room.steer("STEER")
    await room.see(lambda: waits(room))
    answer = await room.client.do(room.chat, "chat/pendingMessageRemoved", kind="steering", id="steer")
    [turn] = await room.ended(1)

    assert "rejectionReason" not in answer
    assert read_in(turn) == []
    assert said(turn) == "done"
    assert "STEER" not in "".join(room.told())


async def test_B7_a_failing_turn_takes_its_steering_with_it(room: Room) -> None:
    await room.begin("one\n!!text part\n!!delay 1\n!!drop")
    await room.see(lambda: said(room.active))
    await room.steer("STEER\n!!text nobody hears this")
    [turn] = await room.ended(1)
    assert turn["state"] == "error"
    assert read_in(turn) == ["STEER\n!!text nobody hears this"]
    assert not waits(room)

    after = await room.say("two\n!!text second")
    assert said(after) == "second"
    assert len(await room.ended(2)) == 2


async def test_B7_what_nobody_hears_asks_nobody(room: Room) -> None:
    await room.begin("one\n!!text part\n!!delay 1\n!!drop")
    await room.see(lambda: said(room.active))
    write = f'!!tool Write {{"file_path":"{room.work}/a","content":"x"}}'
    await room.steer(f"STEER\n{write}\n!!text over")
    await room.ended(1)
    turn = await room.say("two\n!!text second")

    assert turn["state"] == "complete"
    assert calls_of(turn) == []
    assert "two" in room.told()[-1]  # the CLI took it in where the call was refused
    assert not (room.work / "a").exists()


# ── stops ────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_B8_a_stop_before_the_first_byte(room: Room) -> None:
    await room.say("zero\n!!text 0")
    pid = room.pid
    await room.begin("one\n!!hang")
    await room.asked(2)
    await room.stop()
    turn = await room.say("two\n!!text second")

    assert [one["state"] for one in await room.ended(3)] == ["complete", "cancelled", "complete"]
    assert said(turn) == "second"
    assert room.requests[1].aborted
    assert room.pid == pid


async def test_B2_a_stop_while_the_cli_starts_sends_nothing(room: Room) -> None:
    await room.begin("one\n!!text first")
    await room.stop()
    turn = await room.say("two\n!!text second")

    assert said(turn) == "second"
    assert len(room.requests) == 1
    assert room.told()[-1].endswith("two\n!!text second")


async def test_a_stop_at_once_on_a_running_cli(room: Room) -> None:
    await room.say("zero\n!!text 0")
    for number in range(3):
        await room.begin(f"stopped {number}\n!!delay 5\n!!text never")
        await room.stop()
    turn = await room.say("last\n!!text here")

    assert said(turn) == "here"
    assert [one["state"] for one in await room.ended(5)] == ["complete", *["cancelled"] * 3, "complete"]


async def test_B8_a_stop_in_the_text_keeps_what_was_said(room: Room) -> None:
    await room.begin(f"one\n{LONG}")
    await room.see(lambda: said(room.active).count("c") > 3)
    pid = room.pid
    await room.stop()
    await room.say("two\n!!text second")
    first, second = await room.ended(2)

    assert said(first).startswith("c0 c1 c2 c3")
    assert said(second) == "second"
    assert any(text.startswith("c0 c1 c2 c3") for text in room.told())  # the model knows what it had said
    assert room.pid == pid


async def test_B8_a_stop_in_a_tool(room: Room) -> None:
    await room.begin('one\n!!tool Bash {"command":"echo begun; sleep 60"}\n!!text done')
    await room.call("running")
    await room.stop()
    await room.say("two\n!!text second")
    first, second = await room.ended(2)

    assert [call["status"] for call in calls_of(first)] == ["cancelled"]
    assert first["state"] == "cancelled"
    assert said(second) == "second"


async def test_B8_a_stop_while_a_call_waits_for_a_person(room: Room) -> None:
    await room.begin(f'one\n!!tool Write {{"file_path":"{room.work}/a","content":"x"}}\n!!text done')
    await room.call("pending-confirmation")
    await room.stop()
    await room.say("two\n!!text second")
    first, _ = await room.ended(2)

    assert [(call["status"], call["reason"]) for call in calls_of(first)] == [("cancelled", "skipped")]
    assert not (room.work / "a").exists()


async def test_B9_steering_that_a_stop_finds_unread_is_answered_in_a_turn_of_its_own(room: Room) -> None:
    await room.begin(f"one\n{LONG}")
    await room.see(lambda: said(room.active).count("c") > 3)
    await room.steer("go left\n!!text left it is")
    await room.see(lambda: waits(room))
    await room.stop()
    first, second = await room.ended(2)

    assert first["state"] == "cancelled"
    assert second["message"]["text"] == "go left\n!!text left it is"
    assert said(second) == "left it is"
    started = [
        envelope["action"]
        for envelope in room.client.envelopes
        if envelope["action"]["type"] == "chat/turnStarted"
    ]
    assert started[-1]["queuedMessageId"] == "steer"


async def test_B10_a_stop_ends_the_query(settings: Settings, model: MockModel, work: Path) -> None:
    room = Room(replace(settings, stop_ends="query"), model, work)
    await room.enter()
    try:
        await room.say("zero\n!!text 0")
        pid = room.pid
        await room.begin(f"one\n{LONG}")
        await room.see(lambda: said(room.active).count("c") > 3)
        await room.stop()
        turn = await room.say("two\n!!text second")
        assert said(turn) == "second"
        assert room.pid != pid
        assert room.told()[:2] == ["zero\n!!text 0", "0"]  # the conversation was resumed
    finally:
        await room.leave()


async def test_Q2_queued_messages_are_turns_of_their_own(room: Room) -> None:
    await room.begin("one\n!!chunks 20 0.02")
    for number in (1, 2):
        await room.queue(f"queued {number}\n!!text answer {number}", f"q{number}")
    turns = await room.ended(3)

    assert [said(turn) for turn in turns[1:]] == ["answer 1", "answer 2"]
