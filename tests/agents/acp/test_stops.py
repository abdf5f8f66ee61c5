"""A stop at every point of a turn: it is over for everyone at once, and the next one is sent (B1, B2, T5)."""

from __future__ import annotations

import time

import pytest

from tests.agents.acp.room import Room, calls_of
from tests.host.harness import answer_of, quiet


async def test_B2_before_the_agent_has_started_the_prompt_is_not_sent(room: Room) -> None:
    await room.client.start(room.chat, "!!text never")
    await room.until(lambda: room.client.state(room.chat).get("activity") == "Starting Puppet")
    turn = await room.cancel()
    assert turn["state"] == "cancelled"
    assert answer_of(await room.say("!!text now")) == "now"
    assert [request.texts for request in room.model.requests] == [[("user", "!!text now")]]


async def test_before_the_first_word(room: Room) -> None:
    await room.client.start(room.chat, "!!hang")
    await room.model.until(lambda model: len(model.requests) == 1, 30)
    turn = await room.cancel()
    assert turn["responseParts"] == []
    await room.model.until(lambda model: model.requests[0].aborted, 30)
    pid = room.pid
    assert answer_of(await room.say("!!text on")) == "on"
    assert room.pid == pid


async def test_in_the_text(room: Room) -> None:
    await room.client.start(room.chat, "!!chunks 10000 0.01")
    await room.until(lambda: room.parts)
    turn = await room.cancel()
    assert answer_of(turn)
    await room.model.until(lambda model: model.requests[0].aborted, 30)
    await quiet(room.host)
    assert room.client.turn(room.chat, turn["id"]) == turn, "T5: nothing is heard behind it"
    assert answer_of(await room.say("!!text on")) == "on"


async def test_in_a_tool(room: Room) -> None:
    await room.say('!!tool switch {"mode": "auto"}\n!!text done')
    await room.client.start(
        room.chat, '!!tool run {"command": "echo started; touch up; sleep 1000"}\n!!text done'
    )
    await room.until(lambda: (room.folder / "up").exists() and room.calls("running"))
    turn = await room.cancel()
    assert calls_of(turn)[0]["status"] == "cancelled"
    pid = room.pid
    assert answer_of(await room.say("!!text on")) == "on"
    assert room.pid == pid
    assert not room.conversation._terminals._jobs, "the agent has ended its command"


async def test_one_that_does_not_take_it_in_is_ended_and_goes_on_with_its_memory(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_ahp.host.line._GRACE", 0.5)
    await room.say("!!text remember")
    await room.client.start(room.chat, '!!tool deaf {"seconds": 1000}\n!!text done')
    await room.until((room.folder / "deaf").exists)
    await room.until(lambda: room.calls("running"))
    assert room.calls("running")[0]["toolInput"] == '{"seconds": 1000}', "though it never says that it runs"
    pid = room.pid
    before = time.monotonic()
    await room.cancel()
    assert time.monotonic() - before < 5, "people do not wait for it"
    assert answer_of(await room.say("!!text on")) == "on"
    assert room.pid != pid
    assert room.told()[:2] == ["!!text remember", "remember"]


async def test_G6_Q4_what_waits_stays_behind_a_stop(room: Room) -> None:
    await room.client.start(room.chat, "!!hang")
    await room.model.until(lambda model: len(model.requests) == 1, 30)
    await room.queue("queued", "q", "!!text queued")
    await room.cancel()
    await quiet(room.host)
    assert [entry["id"] for entry in room.client.state(room.chat)["queuedMessages"]] == ["q"]
    await room.say("!!text first")
    await room.until(lambda: len(room.client.state(room.chat)["turns"]) == 3)
    assert answer_of(room.client.state(room.chat)["turns"][-1]) == "queued"
