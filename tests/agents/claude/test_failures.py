"""What goes wrong between here and Claude, in words; and that nothing of it is for ever. B7, T4, Q5."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_ahp.agents.claude.settings import Settings
from tests.agents.claude.room import Room, calls_of, error_of, said
from tests.mock_model import MockModel

FAILURES = (
    ("!!status 401", "auth", "ANTHROPIC_API_KEY"),
    ("!!status 429", "busy", "429"),
    ("!!status 500", "busy", "500"),
    ("!!status 529", "busy", "529"),
    ("!!text part\n!!drop", "connection", "broke off"),
    ("!!status 400", "rejected", "400"),
)


async def test_failures_are_said_in_words_and_can_be_resumed(room: Room) -> None:
    for number, (script, error_type, words) in enumerate(FAILURES):
        turn = await room.say(f"{number}\n{script}")
        error = error_of(turn)
        assert error["errorType"] == error_type, script
        assert words in error["message"], script
        assert error["resumable"], script
        assert error["stack"], script
    after = await room.say("last\n!!text second")
    assert said(after) == "second"


async def test_a_busy_api_is_asked_again(room: Room) -> None:
    turn = await room.say("one\n!!status 429 1\n!!text made it")

    assert said(turn) == "made it"
    activities = [
        envelope["action"].get("activity")
        for envelope in room.client.envelopes
        if envelope["action"]["type"] == "chat/activityChanged"
    ]
    assert "Claude's API is busy (429); asking again, 1 of 1" in activities
    assert activities[-1] is None


async def test_a_failed_turn_is_resumed_where_it_broke_off(room: Room) -> None:
    turn = await room.say("one\n!!status 500 2\n!!text made it")
    assert turn["state"] == "error"
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"])
    [again] = await room.ended(1)

    assert again["state"] == "complete"
    assert room.told()[0].startswith("one")
    assert "broke off" in room.told()[-1]
    [path] = room.settings.home.glob("projects/*/*.jsonl")
    [read] = await room.agent.transcript(path.stem)
    assert (read["state"], said(read)) == ("complete", said(again))


async def test_what_came_twice_after_a_cut_is_marked(room: Room) -> None:
    turn = await room.say("one\n!!text part\n!!end")

    notices = [part["content"] for part in turn["responseParts"] if part["kind"] == "systemNotification"]
    assert notices == ["The connection broke off; the answer begins anew."]


async def test_a_killed_cli_is_said_and_the_conversation_goes_on(room: Room) -> None:
    await room.say("my name is Ada\n!!text hello Ada")
    pid = room.pid
    await room.begin("one\n!!chunks 100 0.02")
    await room.see(lambda: said(room.active).count("c") > 3)
    os.kill(pid, signal.SIGKILL)
    _, turn = await room.ended(2)

    error = error_of(turn)
    assert "ended by signal 9" in error["message"]
    assert error["resumable"]
    assert said(turn).startswith("c0 c1")
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"])
    _, again = await room.ended(2)
    assert again["state"] == "complete"
    assert room.told()[:2] == ["my name is Ada\n!!text hello Ada", "hello Ada"]
    assert room.pid != pid


async def test_a_cli_that_dies_at_once_is_not_started_for_ever(
    settings: Settings, model: MockModel, work: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "claude"
    broken.write_text("#!/bin/sh\necho started >> started\necho the disk is on fire >&2\nexit 3\n")
    broken.chmod(0o755)
    room = Room(replace(settings, cli_path=str(broken)), model, work)
    await room.enter()
    try:
        for _ in range(3):
            turn = await room.say("one")
            assert "the disk is on fire" in error_of(turn)["message"]
        turn = await room.say("one")
        assert "not started again" in error_of(turn)["message"]
        assert (work / "started").read_text().count("started") == 3
    finally:
        await room.leave()


async def test_a_result_of_megabytes_does_not_kill_the_reader(room: Room) -> None:
    path = room.work / "big.txt"
    path.write_text("x" * 90 + "\n", encoding="utf-8")
    command = f"python3 -c 'print(\\\"y\\\" * 3_000_000)' > {path}"
    await room.begin(f'one\n!!tool Bash {{"command":"{command}"}}\n!!text done')
    await room.answer(await room.call("pending-confirmation"), "allow-once")
    await room.ended(1)
    turn = await room.say(f'two\n!!tool Bash {{"command":"cat {path}"}}\n!!text done')

    [call] = calls_of(turn)
    assert call["status"] == "completed"
    assert said(turn) == "done"


async def test_nothing_is_left_of_a_closed_chat(room: Room) -> None:
    await room.begin('one\n!!tool Bash {"command":"echo begun; sleep 61"}\n!!text done')
    await room.call("running")
    pid = room.pid
    await room.host.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
