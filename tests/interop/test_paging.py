"""M3: a long chat in pages, with one window that has all of it and one that has its end."""

from __future__ import annotations

import uuid

import pytest

from tests.interop.kinds import NEWEST, VSCODE_141
from tests.interop.pairs import Two, two
from tests.interop.window import Refused, Window, window
from tests.support.server import JupyterServer


def texts(client: Window, chat: str) -> list[str]:
    return [turn["message"]["text"] for turn in client.state(chat)["turns"]]


async def long_chat(chats: Two, turns: int) -> list[str]:
    for number in range(turns):
        await chats.one.say(chats.chat, f"say {number}")
    await chats.other.unsubscribe(chats.chat)
    return [f"say {number}" for number in range(turns)]


async def test_M3_without_a_view_every_turn_is_given(server: JupyterServer) -> None:
    async with two(server) as chats:
        said = await long_chat(chats, 60)
        state = await chats.other.subscribe(chats.chat)
        assert "turnsNextCursor" not in state
        assert texts(chats.other, chats.chat) == said


async def test_M3_pages_go_to_everybody_and_leave_no_gap(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        said = await long_chat(chats, 56)
        state = await other.subscribe(chat, view={"turns": 3})
        assert texts(other, chat) == said[-3:]
        cursor = state["turnsNextCursor"]
        assert await other.request("fetchTurns", chat, cursor=cursor) == {}
        assert texts(other, chat) == said[3:]
        cursor = other.state(chat)["turnsNextCursor"]
        assert texts(one, chat) == said  # it had them all
        async with window(server, VSCODE_141) as third:
            await third.subscribe(chat, view={"turns": 1})
            assert await other.request("fetchTurns", chat, cursor=cursor) == {}
            assert texts(other, chat) == said
            assert "turnsNextCursor" not in other.state(chat)
            await third.request("ping")
            assert texts(third, chat) == said
        with pytest.raises(Refused) as refused:
            await other.request("fetchTurns", chat, cursor="nobody's")
        assert refused.value.code == -32602


async def test_M3_what_names_an_older_turn_brings_it_first(server: JupyterServer) -> None:
    """A rewind to a turn that one window was not given: it is given that, then the rewind."""
    async with two(server) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        said = await long_chat(chats, 6)
        await other.subscribe(chat, view={"turns": 1})
        second = one.state(chat)["turns"][1]["id"]
        await one.done(chat, {"type": "chat/truncated", "turnId": second})
        await other.request("ping")
        assert texts(one, chat) == said[:2]
        assert texts(other, chat) in (said[:2], said[1:2])
        turn = await one.say(chat, "say again")
        await other.ended(chat, turn["id"])


async def test_M3_a_fork_at_a_turn_that_was_not_shown_has_all_before_it(server: JupyterServer) -> None:
    async with two(server) as chats:
        said = await long_chat(chats, 6)
        async with window(server, NEWEST) as third:
            await third.subscribe(chats.other_session)
            await third.subscribe(chats.chat, view={"turns": 1})
            fork = f"ahp-chat:/{uuid.uuid4()}"
            turn = chats.one.state(chats.chat)["turns"][2]["id"]
            source = {"kind": "fork", "chat": chats.chat, "turnId": turn}
            await third.request("createChat", chats.other_session, chat=fork, source=source)
            await third.subscribe(fork)
            assert texts(third, fork) == said[:3]


async def test_M3_a_window_that_has_a_page_comes_back(server: JupyterServer) -> None:
    async with two(server) as chats:
        one, chat = chats.one, chats.chat
        said = await long_chat(chats, 8)
        async with window(server, VSCODE_141, client_id=f"back-{uuid.uuid4()}") as first:
            await first.subscribe(chat, view={"turns": 2})
            first.socket.transport.abort()
            await first._reader
        third = one.state(chat)["turns"][2]["id"]
        await one.say(chat, "say meanwhile")
        async with window(server, VSCODE_141, client_id=first.client_id, greet=False) as second:
            await second.reconnect(first)
            assert texts(second, chat)[-3:] == [*said[-2:], "say meanwhile"]
            await one.done(chat, {"type": "chat/truncated", "turnId": third})
            await second.request("ping")
            assert texts(second, chat)[-1] == said[2]
