"""What an agent says when it was not asked is a turn of its own, unless it is of a turn that was stopped (T5)."""

from __future__ import annotations

import pytest

from tests.agents.acp.room import Room, calls_of
from tests.host.harness import answer_of, quiet

LATER = '!!tool later {"text": "I am back."}\n'


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_ahp.agents.acp.late._QUIET", 0.2)


async def test_what_it_says_by_itself_is_a_turn(room: Room) -> None:
    await room.say(f"{LATER}!!text done")
    (room.folder / "go").touch()
    await room.until(lambda: len(room.client.state(room.chat)["turns"]) == 2)
    turn = room.client.state(room.chat)["turns"][1]
    assert turn["message"]["text"] == "Puppet goes on by itself"
    assert turn["message"]["origin"]["kind"] != "user"
    assert (turn["state"], answer_of(turn)) == ("complete", "I am back.")
    assert [call["displayName"] for call in calls_of(turn)] == ["Look"]
    assert answer_of(await room.say("!!text on")) == "on"


async def test_T5_but_not_what_it_says_of_a_turn_that_was_stopped(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "jupyter_ahp.agents.acp.conversation")
    await room.client.start(room.chat, f"{LATER}!!text done\n!!hang")
    await room.until(lambda: any(part["kind"] == "markdown" for part in room.parts))
    await room.cancel()
    await quiet(room.host)
    (room.folder / "go").touch()
    await room.until(lambda: "said something behind a turn: ToolCallProgress" in caplog.text)
    assert answer_of(await room.say("!!text on")) == "on"
    assert [turn["state"] for turn in room.client.state(room.chat)["turns"]] == ["cancelled", "complete"]


async def test_it_can_be_stopped(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_ahp.agents.acp.late._QUIET", 1000)
    await room.say(f"{LATER}!!text done")
    (room.folder / "go").touch()
    await room.until(lambda: any(part["kind"] == "markdown" for part in room.parts))
    assert (await room.cancel())["state"] == "cancelled"
    assert answer_of(await room.say("!!text on")) == "on"
