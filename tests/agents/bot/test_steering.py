"""Steering a bot: each sentence of B16, through the wire, with two people in the chat."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_ahp.host.ports import Json, Prompt, StoreError, TurnSink
from jupyter_ahp.protocol.meta import steering_of
from tests.host.harness import answer_of, message, quiet, until

from .conftest import Room


def read(turn: Json) -> list[str]:
    """The steering that stands in a turn."""
    return [found["text"] for part in turn["responseParts"] if (found := steering_of(part))]


def notices(turn: Json) -> list[str]:
    parts = turn["responseParts"]
    return [
        part["content"] for part in parts if part["kind"] == "systemNotification" and not steering_of(part)
    ]


async def working(room: Room, text: str = "Solve it") -> str:
    """A turn whose work has begun."""
    turn = await room.client.start(room.chat, text)
    await until(lambda: room.said.startswith("on "))
    return turn


async def handed_over(room: Room) -> None:
    await until(lambda: room.work().get("queuedMessages"))


async def says(room: Room, words: str) -> None:
    await until(lambda: words in room.said)


async def ended(room: Room) -> Json:
    await until(lambda: not room.active)
    turn: Json = room.state["turns"][-1]
    return turn


async def test_B16_it_is_queued_behind_the_works_turn_and_the_open_turn_goes_on(room: Room) -> None:
    turn = await working(room)
    assert "rejectionReason" not in await room.steer("Only a hint")
    await handed_over(room)
    assert [waits["message"]["text"] for waits in room.work()["queuedMessages"]] == ["Only a hint"]
    assert room.state["steeringMessage"]["id"] == "s1", "it is on its way, and not taken up"
    room.worker.words.put_nowait("more")
    await until(lambda: room.said == "on Solve it more")
    room.worker.words.put_nowait("done")
    await until(lambda: "on Only a hint" in room.said)
    assert room.active["id"] == turn
    assert "steeringMessage" not in room.state
    room.worker.words.put_nowait("done")
    last = await ended(room)
    assert [one["id"] for one in room.state["turns"]] == [turn]
    assert (last["state"], read(last)) == ("complete", ["Only a hint"])
    assert answer_of(last) == "on Solve it moreon Only a hint"


async def test_B16_it_is_taken_out_once_a_turn_of_the_work_takes_it_up(room: Room) -> None:
    await working(room)
    await room.steer("Only a hint")
    await handed_over(room)
    await quiet_work(room)
    assert "chat/pendingMessageRemoved" not in room.other.kinds(room.chat)
    room.worker.words.put_nowait("done")
    await until(lambda: "chat/pendingMessageRemoved" in room.other.kinds(room.chat))
    assert room.work()["activeTurn"]["message"]["text"] == "Only a hint"
    room.worker.words.put_nowait("done")
    await ended(room)


async def quiet_work(room: Room) -> None:
    """What the work said so far is said."""
    room.worker.words.put_nowait("still")
    await until(lambda: room.said.endswith("still"))


async def test_B16_G2_one_whose_turn_ended_on_its_way_is_run_next(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    await working(room)
    gate, waits = asyncio.Event(), asyncio.Event()
    own = next(iter(room.host.works._known.values())).session.chats[room.work()["resource"]]
    store = own.waiting.store

    async def slow(action: Json) -> bool:
        waits.set()
        await gate.wait()
        return await store(action)

    monkeypatch.setattr(own.waiting, "store", slow)
    await room.steer("Only a hint")
    await asyncio.wait_for(waits.wait(), 5)
    room.worker.words.put_nowait("done")
    await until(lambda: not room.active)
    gate.set()
    await until(lambda: room.said == "on Only a hint")
    assert room.active["message"]["text"] == "Only a hint"
    assert [read(turn) for turn in room.state["turns"]] == [[]]
    room.worker.words.put_nowait("done")
    await ended(room)
    assert [turn["message"]["text"] for turn in room.work()["turns"]] == ["Solve it", "Only a hint"]


async def test_B16_one_that_cannot_be_sent_is_taken_out_with_the_reason_in_the_log_and_the_turn_goes_on(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turn = await working(room)
    own = next(iter(room.host.works._known.values())).session.chats[room.work()["resource"]]

    async def full(action: Json) -> bool:
        raise StoreError("the disk is full")

    monkeypatch.setattr(own.waiting, "store", full)
    await room.steer("Only a hint")
    await until(lambda: "steeringMessage" not in room.state)
    assert "the disk is full" in caplog.text
    room.worker.words.put_nowait("done")
    last = await ended(room)
    assert (last["id"], last["state"], answer_of(last)) == (turn, "complete", "on Solve it")


async def test_B16_one_that_is_never_taken_up_is_taken_out_when_the_turn_ends_and_stays_in_its_record(
    room: Room,
) -> None:
    await working(room)
    await room.steer("Only a hint")
    await handed_over(room)
    room.worker.words.put_nowait("fail")
    last = await ended(room)
    assert last["state"] == "error"
    assert last["responseParts"][-1]["error"]["message"] == "The worker failed."
    assert read(last) == ["Only a hint"]
    assert ["before it took this up" in words for words in notices(last)] == [True]
    assert "steeringMessage" not in room.state
    assert "queuedMessages" not in room.work()
    order = [
        kind for kind in room.other.kinds(room.chat) if kind in ("chat/pendingMessageRemoved", "chat/error")
    ]
    assert order == ["chat/pendingMessageRemoved", "chat/error"]
    assert len(room.worker.prompts) == 1


async def test_B16_the_record_reads_back_after_a_restart_as_the_live_chat_does(room: Room) -> None:
    await working(room)
    await room.steer("Only a hint")
    await handed_over(room)
    room.worker.words.put_nowait("done")
    await until(lambda: "on Only a hint" in room.said)
    room.worker.words.put_nowait("done")
    live = await ended(room)
    await room.again()
    assert room.state["turns"] == [live]
    assert read(room.state["turns"][0]) == ["Only a hint"]


async def test_B16_steering_that_came_before_the_work_began_is_handed_over_when_it_has(room: Room) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    room.worker.on_open = slow
    await room.client.start(room.chat, "Solve it")
    await room.steer("Only a hint")
    gate.set()
    await handed_over(room)
    room.worker.words.put_nowait("done")
    room.worker.words.put_nowait("done")
    last = await ended(room)
    assert read(last) == ["Only a hint"]


async def test_G7_one_that_is_taken_back_in_time_is_never_sent(room: Room) -> None:
    await working(room)
    await room.steer("Only a hint")
    await handed_over(room)
    taken = await room.other.do(room.chat, "chat/pendingMessageRemoved", kind="steering", id="s1")
    assert "rejectionReason" not in taken
    assert "queuedMessages" not in room.work()
    room.worker.words.put_nowait("done")
    assert read(await ended(room)) == []
    assert [prompt.text for prompt in room.worker.prompts] == ["Solve it"]


async def test_G6_a_stop_takes_it_out_and_stops_the_work_and_nothing_runs_behind_it(room: Room) -> None:
    turn = await working(room)
    await room.steer("Only a hint")
    await handed_over(room)
    await room.other.do(room.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await until(lambda: room.worker.stops == 1)
    await quiet(room.host)
    assert "activeTurn" not in room.work()
    assert "queuedMessages" not in room.work()
    assert [one["state"] for one in room.work()["turns"]] == ["cancelled"]
    assert room.state["turns"][-1]["state"] == "cancelled"
    assert "steeringMessage" not in room.state
    room.worker.words.put_nowait("done")
    await room.client.say(room.chat, "Anew")
    assert [prompt.text for prompt in room.worker.prompts] == ["Solve it", "Anew"]


async def test_G5_it_is_not_handed_over_twice_and_another_is_refused(room: Room) -> None:
    await working(room)
    await room.steer("Only a hint")
    await handed_over(room)
    await quiet_work(room)
    assert "rejectionReason" not in await room.steer("Only a hint")
    assert "while it is being processed" in (await room.steer("Something else"))["rejectionReason"]
    assert len(room.work()["queuedMessages"]) == 1
    room.worker.words.put_nowait("done")
    room.worker.words.put_nowait("done")
    await ended(room)


async def test_several_steer_one_turn_one_after_the_other(room: Room) -> None:
    turn = await working(room)
    for number in range(3):
        await room.steer(f"Hint {number}", f"s{number}")
        await handed_over(room)
        room.worker.words.put_nowait("done")
        await says(room, f"on Hint {number}")
    room.worker.words.put_nowait("done")
    last = await ended(room)
    assert (last["id"], read(last)) == (turn, ["Hint 0", "Hint 1", "Hint 2"])


async def test_Q_what_is_queued_in_the_bots_chat_waits_for_its_whole_turn(room: Room) -> None:
    await working(room)
    queued: Json = {"kind": "queued", "id": "q", "message": {"text": "Next", "origin": {"kind": "user"}}}
    await room.client.do(room.chat, "chat/pendingMessageSet", **queued)
    await room.steer("Only a hint")
    await handed_over(room)
    for _ in range(3):
        room.worker.words.put_nowait("done")
    await until(lambda: len(room.state["turns"]) == 2 and not room.active)
    assert [prompt.text for prompt in room.worker.prompts] == ["Solve it", "Only a hint", "Next"]


async def test_a_turn_of_the_work_that_cannot_start_ends_the_bots_turn_with_words(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    await working(room)
    await room.steer("Only a hint")
    await handed_over(room)
    place = next(iter(room.host.works._known.values()))
    chat = place.session.chats[place.chat]

    async def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(chat.turns, "accept", full)
    room.worker.words.put_nowait("done")
    last = await ended(room)
    assert "the disk is full" in last["responseParts"][-1]["error"]["message"]
    assert read(last) == ["Only a hint"]


async def test_a_stop_before_the_work_began_sends_nothing(room: Room) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    room.worker.on_open = slow
    turn = await room.client.start(room.chat, "Solve it")
    await until(lambda: room.work().get("activeTurn"))
    await room.other.do(room.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(room.host)
    gate.set()
    assert room.worker.prompts == []
    assert "activeTurn" not in room.work()
    room.worker.on_open = None
    room.worker.words.put_nowait("done")
    last = await room.client.say(room.chat, "Anew")
    assert answer_of(last) == "on Anew"


async def test_a_stop_in_a_tool_ends_the_tool(room: Room) -> None:
    stopped: list[str] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("run", title="Run")
        call.run("Running")
        call.on_stop(lambda: stopped.append(prompt.text))
        await room.worker.words.get()

    room.worker.play = play
    turn = await room.client.start(room.chat, "Solve it")
    await room.client.call_in(room.chat, "running")
    await room.other.do(room.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await quiet(room.host)
    assert stopped == ["Solve it"]
    assert [call["status"] for call in room.client.calls(room.chat)] == ["cancelled"]
    assert room.work()["turns"][-1]["state"] == "cancelled"


@pytest.mark.parametrize("moment", range(12))
async def test_G6_a_stop_at_any_moment_of_a_hand_over_leaves_no_work_running(room: Room, moment: int) -> None:
    """The stop comes so many ticks behind the end of the work's first turn, while steering is taken up."""
    turn = await working(room)
    await room.steer("Only a hint")
    await handed_over(room)
    room.worker.words.put_nowait("done")
    for _ in range(moment):
        await asyncio.sleep(0)
    await room.other.dispatch(room.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await until(lambda: not room.active)
    await quiet(room.host)
    await until(lambda: "activeTurn" not in room.work())
    assert "queuedMessages" not in room.work()
    assert "steeringMessage" not in room.state
    while not room.worker.words.empty():
        room.worker.words.get_nowait()
    room.worker.words.put_nowait("done")
    last = await room.client.say(room.chat, "Anew")
    assert answer_of(last) == "on Anew"


@pytest.mark.parametrize("moment", range(16))
async def test_B16_G2_steering_at_any_moment_of_the_works_end_is_answered_once(
    room: Room, moment: int
) -> None:
    """In the turn that it found, or in one of its own; never in both, never in none."""
    await working(room)
    room.worker.words.put_nowait("done")
    for _ in range(moment):
        await asyncio.sleep(0)
    fields: Json = {"kind": "steering", "id": "s1", "message": message("Only a hint")}
    await room.other.dispatch(room.chat, "chat/pendingMessageSet", **fields)
    await until(lambda: "on Only a hint" in room.said)
    room.worker.words.put_nowait("done")
    await until(lambda: not room.active)
    await quiet(room.host)
    assert [prompt.text for prompt in room.worker.prompts] == ["Solve it", "Only a hint"]
    turns = room.state["turns"]
    own = [turn for turn in turns if turn["message"]["text"] == "Only a hint"]
    assert len(own) + sum(len(read(turn)) for turn in turns) == 1
    assert {turn["state"] for turn in turns} == {"complete"}
    assert "steeringMessage" not in room.state


async def test_B16_steering_in_a_tool_waits_behind_what_the_work_does(room: Room) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("run", title="Run")
        call.run(f"Running for {prompt.text}")
        await room.worker.words.get()
        call.done("Ran")

    room.worker.play = play
    turn = await room.client.start(room.chat, "Solve it")
    await room.client.call_in(room.chat, "running")
    await room.steer("Only a hint")
    await handed_over(room)
    assert len(room.client.calls(room.chat)) == 1
    room.worker.words.put_nowait("done")
    await until(lambda: len(room.client.calls(room.chat)) == 2)
    room.worker.words.put_nowait("done")
    last = await ended(room)
    assert (last["id"], read(last)) == (turn, ["Only a hint"])
