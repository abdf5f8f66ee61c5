"""Claude's subagents as worker chats, and what runs behind the turns. W1 to W5, B8, Q6."""

from __future__ import annotations

import json

from jupyter_ahp.host.ports import Json
from tests.agents.claude.room import PATIENCE, SESSION, Room, calls_of, said


def agent(prompt: str, *, background: bool = False) -> str:
    """A line that has the model spawn a subagent."""
    given = {"description": "Look around", "prompt": prompt, "subagent_type": "general-purpose"}
    return f"!!tool Agent {json.dumps({**given, 'run_in_background': background})}"


def chats(room: Room) -> list[Json]:
    """The session's worker chats."""
    return [one for one in room.client.state(SESSION)["chats"] if one["origin"]["kind"] == "tool"]


async def worker(room: Room) -> str:
    """The one worker's chat, watched."""
    await room.see(lambda: chats(room))
    [chat] = chats(room)
    uri: str = chat["resource"]
    await room.client.subscribe(uri)
    return uri


async def test_W1_W3_W5_a_subagent_is_a_chat_of_its_own(room: Room) -> None:
    await room.begin(f"one\n{agent('find it' + chr(10) + '!!text found it')}\n!!text done")
    [turn] = await room.ended(1)
    uri = await worker(room)

    [call] = calls_of(turn)
    assert (call["status"], call["success"]) == ("completed", True)
    assert call["content"][0] == {
        "type": "subagent",
        "resource": uri,
        "title": "Look around",
        "agentName": "general-purpose",
    }
    state = room.client.state(uri)
    assert state["interactivity"] == "read-only"
    assert state["origin"] == {"kind": "tool", "chat": room.chat, "toolCallId": call["toolCallId"]}
    [own] = state["turns"]
    assert own["message"]["text"] == "find it\n!!text found it"
    assert (said(own), own["state"]) == ("found it", "complete")
    assert said(turn) == "done"


async def test_W4_a_worker_asks_in_its_own_chat(room: Room) -> None:
    path = room.work / "a.txt"
    write = f'!!tool Write {{"file_path":"{path}","content":"x"}}'
    await room.begin(f"one\n{agent(f'write it{chr(10)}{write}{chr(10)}!!text written')}\n!!text done")
    uri = await worker(room)
    await room.see(
        lambda: room.client.calls(uri) and room.client.calls(uri)[-1]["status"] == "pending-confirmation"
    )
    call = room.client.calls(uri)[-1]
    turn = room.client.state(uri)["activeTurn"]["id"]
    answer = {"turnId": turn, "toolCallId": call["toolCallId"], "approved": True, "confirmed": "user-action"}
    await room.client.do(uri, "chat/toolCallConfirmed", **answer)
    await room.ended(1)

    assert path.read_text() == "x"
    [own] = room.client.state(uri)["turns"]
    assert [one["status"] for one in calls_of(own)] == ["completed"]
    assert said(own) == "written"


async def test_a_stop_ends_the_workers_of_its_turn(room: Room) -> None:
    await room.begin(f"one\n{agent('wait' + chr(10) + '!!hang')}\n!!text done")
    uri = await worker(room)
    await room.asked(2)
    await room.stop()
    turn = await room.say("two\n!!text second")

    assert said(turn) == "second"
    assert [one["state"] for one in room.client.state(uri)["turns"]] == ["cancelled"]


async def test_a_background_worker_outlives_its_turn_and_comes_back_in_one_of_its_own(room: Room) -> None:
    prompt = "look\n!!delay 2.5\n!!text found"
    await room.begin(f"one\n{agent(prompt, background=True)}\n!!text started")
    await room.see(lambda: room.client.state(room.chat)["turns"])
    assert [work["kind"] for work in room.client.state(room.chat)["backgroundWork"]] == ["subagent"]
    uri = await worker(room)
    assert "activeTurn" in room.client.state(uri)
    first, second = await room.ended(2)

    assert said(first) == "started"
    assert second["message"]["origin"]["kind"] == "systemNotification"
    assert second["message"]["text"] == "“Look around” has come back."
    assert "The mock model was told" in said(second)
    assert [said(turn) for turn in room.client.state(uri)["turns"]] == ["found"]
    assert not room.client.state(room.chat).get("backgroundWork")


async def test_B8_a_stop_spares_the_background_workers_of_earlier_turns(room: Room) -> None:
    await room.say(
        f"one\n{agent('look' + chr(10) + '!!delay 3' + chr(10) + '!!text found', background=True)}\n!!text 1"
    )
    uri = await worker(room)
    await room.begin("two\n!!hang")
    await room.asked(4)
    await room.stop()
    turns = await room.ended(3)

    assert [turn["state"] for turn in turns] == ["complete", "cancelled", "complete"]
    assert [said(turn) for turn in room.client.state(uri)["turns"]] == ["found"]


async def test_B8_a_stop_ends_the_background_workers_of_its_own_turn(room: Room) -> None:
    await room.begin(f"one\n{agent('look' + chr(10) + '!!hang', background=True)}\n!!hang")
    uri = await worker(room)
    await room.asked(3)
    await room.stop()
    await room.see(lambda: not room.client.state(room.chat).get("backgroundWork"))
    turn = await room.say("two\n!!text second")

    assert said(turn) == "second"
    assert [one["state"] for one in room.client.state(uri)["turns"]] == ["cancelled"]
    assert [one["message"]["text"][:3] for one in await room.ended(2)] == ["one", "two"]
    await room.model.until(lambda model: model.requests[1].ended is not None, PATIENCE)
    assert room.requests[1].aborted or room.requests[2].aborted  # its model is not asked any more


async def test_W4_a_background_worker_asks_behind_its_turn(room: Room) -> None:
    path = room.work / "a.txt"
    write = f'!!delay 0.5\n!!tool Write {{"file_path":"{path}","content":"x"}}\n!!text written'
    await room.say(f"one\n{agent(f'write it{chr(10)}{write}', background=True)}\n!!text started")
    uri = await worker(room)
    await room.see(
        lambda: room.client.calls(uri) and room.client.calls(uri)[-1]["status"] == "pending-confirmation"
    )
    call = room.client.calls(uri)[-1]
    turn = room.client.state(uri)["activeTurn"]["id"]
    answer = {"turnId": turn, "toolCallId": call["toolCallId"], "approved": True, "confirmed": "user-action"}
    await room.client.do(uri, "chat/toolCallConfirmed", **answer)
    await room.ended(2)  # it came back

    assert path.read_text() == "x"


async def test_a_background_worker_is_stopped_by_itself(room: Room) -> None:
    await room.say(f"one\n{agent('look' + chr(10) + '!!hang', background=True)}\n!!text 1")
    uri = await worker(room)
    turn = room.client.state(uri)["activeTurn"]["id"]
    await room.client.do(uri, "chat/turnCancelled", turnId=turn, duration=1)
    await room.see(lambda: not room.client.state(room.chat).get("backgroundWork"))

    assert [one["state"] for one in room.client.state(uri)["turns"]] == ["cancelled"]
    await room.say("two\n!!text 2")


async def test_a_command_in_the_background_is_listed(room: Room) -> None:
    command = (
        '!!tool Bash {"command":"sleep 2.5; echo hi","run_in_background":true,"description":"Wait a little"}'
    )
    await room.begin(f"one\n{command}\n!!text started")
    await room.see(lambda: room.client.state(room.chat).get("backgroundWork"))
    [work] = room.client.state(room.chat)["backgroundWork"]
    assert (work["kind"], work["command"]) == ("shell", "sleep 2.5; echo hi")
    first, second = await room.ended(2)

    assert said(first) == "started"
    assert second["message"]["origin"]["kind"] == "systemNotification"
    assert "completed (exit code 0)" in second["message"]["text"]
    assert not room.client.state(room.chat).get("backgroundWork")
