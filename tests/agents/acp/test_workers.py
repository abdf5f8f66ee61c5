"""Workers of an ACP agent that says what they say, as claude-agent-acp does: chats of their own (W1, W3 to W5)."""

from __future__ import annotations

from jupyter_ahp.agents.base import Json
from tests.agents.acp.room import SESSION, Room, calls_of
from tests.host.harness import answer_of

WORK = '!!tool worker {"prompt": "Find it", "text": "I look.", "path": "it.txt"}\n!!text done'


async def worker(room: Room) -> str:
    """The worker's chat, watched."""
    await room.until(lambda: len(room.client.state(SESSION)["chats"]) == 2)
    chat: str = room.client.state(SESSION)["chats"][1]["resource"]
    for watcher in (room.client, room.other):
        await watcher.subscribe(chat)
    return chat


def question(room: Room, chat: str) -> Json | None:
    active = room.client.state(chat).get("activeTurn") or {"responseParts": []}
    calls = [part["toolCall"] for part in active["responseParts"] if part["kind"] == "toolCall"]
    return next((call for call in calls if call["status"] == "pending-confirmation"), None)


async def test_W1_W4_a_worker_has_a_chat_and_asks_there(room: Room) -> None:
    turn = await room.client.start(room.chat, WORK)
    chat = await worker(room)
    await room.until(lambda: question(room, chat))
    state = room.client.state(chat)
    assert state["title"] == "Look into it"
    assert state["interactivity"] == "read-only"
    assert state["activeTurn"]["message"]["text"] == "Find it"
    asked = question(room, chat)
    assert asked is not None
    fields: Json = {"approved": True, "confirmed": "user-action", "selectedOptionId": "once"}
    running = state["activeTurn"]["id"]
    await room.client.do(
        chat, "chat/toolCallConfirmed", turnId=running, toolCallId=asked["toolCallId"], **fields
    )
    await room.until(lambda: not room.client.running(room.chat))

    [call] = calls_of(room.client.turn(room.chat, turn))
    assert (call["displayName"], call["success"]) == ("Task", True)
    assert any(block["type"] == "subagent" and block["resource"] == chat for block in call["content"])
    assert answer_of(room.client.turn(room.chat, turn)) == "done"
    [work] = room.client.state(chat)["turns"]
    assert (work["state"], answer_of(work)) == ("complete", "I look.")
    assert (room.folder / "it.txt").read_text() == "it"


async def test_B8_a_stop_ends_its_workers(room: Room) -> None:
    await room.client.start(room.chat, WORK)
    chat = await worker(room)
    await room.until(lambda: question(room, chat))
    await room.cancel()
    await room.until(lambda: not room.client.running(chat))
    assert room.client.state(chat)["turns"][0]["state"] == "cancelled"
    assert answer_of(await room.say("!!text on")) == "on"
