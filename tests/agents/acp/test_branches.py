"""Chats made from others, and rewinds: a session is copied where the agent can, else begun anew and told what was said."""

from __future__ import annotations

from tests.agents.acp.conftest import MakeRoom
from tests.agents.acp.room import SESSION, Room, notices_of

NEW = "ahp-chat:/new"


async def three(room: Room) -> list[str]:
    return [(await room.say(f"!!text {name}"))["id"] for name in ("one", "two", "three")]


async def fork(room: Room, turn: str) -> None:
    source = {"kind": "fork", "chat": room.chat, "turnId": turn}
    await room.client.request("createChat", channel=SESSION, chat=NEW, source=source)
    for watcher in (room.client, room.other):
        await watcher.subscribe(NEW)


async def test_S3_a_fork_at_the_end_is_a_copy_of_the_session(room: Room) -> None:
    *_, last = await three(room)
    await fork(room, last)
    await room.say("And then?", NEW)
    assert room.told() == ["!!text one", "one", "!!text two", "two", "!!text three", "three", "And then?"]
    await room.say("Here?")
    assert "And then?" not in room.told(), "S2: the chat that it was made from is as it was"


async def test_S4_a_fork_at_an_earlier_turn_is_told_what_was_said(room: Room) -> None:
    _, second, _ = await three(room)
    await fork(room, second)
    turn = await room.say("And then?", NEW)
    [told] = room.told()
    assert told.endswith("Person: !!text one\n\nYou: one\n\nPerson: !!text two\n\nYou: two\n\nAnd then?")
    assert notices_of(turn) == []
    await room.say("And now?", NEW)
    assert room.told()[-1] == "And now?"


async def test_S4_so_is_one_whose_agent_cannot_fork(make_room: MakeRoom) -> None:
    room = await make_room(env={"AGENT_WITHOUT": "fork"})
    *_, last = await three(room)
    await fork(room, last)
    await room.say("And then?", NEW)
    [told] = room.told()
    assert told.endswith("Person: !!text three\n\nYou: three\n\nAnd then?")
    await room.leave()


async def test_X1_what_a_rewind_cut_is_not_known_any_more(make_room: MakeRoom) -> None:
    room = await make_room()
    first, *_ = await three(room)
    await room.client.do(room.chat, "chat/truncated", turnId=first)
    await room.say("another way")
    assert len(room.told()) == 1
    assert room.told()[0].endswith("Person: !!text one\n\nYou: one\n\nanother way")
    await room.leave()

    room = await make_room()
    await room.say("and on")
    assert room.told()[-1] == "and on"
    assert room.told()[0].endswith("another way"), "the session that began then is the chat's"
    await room.client.do(room.chat, "chat/truncated")
    await room.say("anew")
    assert room.told() == ["anew"], "X3"
    await room.leave()


async def test_a_rewind_that_is_taken_back_cut_nothing(room: Room) -> None:
    first, *_ = await three(room)
    await room.client.do(room.chat, "chat/truncated", turnId=first)
    assert await room.client.request("x-jupyter-ahp/undoRewind", channel=room.chat) == {"turns": 2}
    await room.say("all there?")
    assert room.told()[:-1] == ["!!text one", "one", "!!text two", "two", "!!text three", "three"]
