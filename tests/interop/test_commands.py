"""T30: `!` commands and terminals, as windows of both generations see them."""

from __future__ import annotations

import json
import sys
import uuid

import pytest

from tests.interop.kinds import NEWEST, UI, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.pairs import two
from tests.interop.window import window
from tests.support.server import JupyterServer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals on Windows")


def named(kind: Kind) -> str:
    return kind.name


def terminal_of(turn: Json) -> Json:
    (part,) = turn["responseParts"]
    (content,) = part["toolCall"]["content"]
    assert content["type"] == "terminal"
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
async def test_T30_a_command_is_a_turn_with_a_terminal_in_it(server: JupyterServer, kind: Kind) -> None:
    async with two(server, kind) as chats:
        one, other, chat = chats.one, chats.other, chats.chat
        turn = await one.say(chat, "!echo one two; exit 3")
        assert turn["state"] == "complete"
        call = turn["responseParts"][0]["toolCall"]
        assert call["_meta"]["toolKind"] == "terminal"
        content = terminal_of(turn)
        assert content["result"]["exitCode"] == 3
        assert "one two" in content["result"]["preview"]
        state = await one.subscribe(content["resource"])
        assert state["lifecycle"] == {"status": "exited", "exitCode": 3}
        assert "one two" in json.dumps(state["content"])
        assert state["claim"]["session"] == chats.session
        assert state["claim"]["chat"] == chat
        await other.request("ping")
        theirs = await other.subscribe(content["resource"])
        assert theirs["claim"]["session"] == chats.other_session
        await other.ended(chat, turn["id"])
        await chats.same()
        # A provisional title, until somebody says something.
        assert one.state(chats.session)["title"]
        await one.say(chat, "say what is a mode?")
        await one.request("ping")
        assert one.state(chats.session)["title"] == "say what is a mode?"
        assert (await one.say(chat, "! "))[
            "responseParts"
        ] == []  # no command: the agent's, which says nothing


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T30_the_list_of_terminals_is_spelled_for_each_window(
    server: JupyterServer, kind: Kind
) -> None:
    """The harness sees to it that no window reads the other spelling, in what the root says of terminals as well."""
    async with two(server, kind) as chats, window(server, UI) as late_new:
        one, chat = chats.one, chats.chat
        turn = await one.start(chat, "!sleep 30")
        await one.until(lambda: one.state("ahp-root://").get("terminals"), "a terminal in the list")
        (info,) = [
            info
            for info in one.state("ahp-root://")["terminals"]
            if info["claim"].get("session") == chats.session
        ]
        assert info["claim"]["chat"] == chat
        async with window(server, VSCODE_141) as late_old:
            claims = [info["claim"].get("session", "") for info in late_old.state("ahp-root://")["terminals"]]
            assert f"puppet:/{chats.session.rpartition('/')[2]}" in claims
        claims = [info["claim"].get("session") for info in late_new.state("ahp-root://")["terminals"]]
        assert chats.other_session in claims
        await one.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 3})
        await one.until(lambda: not one.state("ahp-root://").get("terminals"))


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T30_a_windows_own_terminal(server: JupyterServer, kind: Kind) -> None:
    async with window(server, kind) as client:
        session, chat = await client.new_chat("puppet")
        terminal = f"agenthost-terminal:/{uuid.uuid4()}"
        claim = {"kind": "client", "clientId": client.client_id}
        assert await client.request("createTerminal", terminal, claim=claim, cols=80, rows=24) is None
        state = await client.subscribe(terminal)
        assert state["lifecycle"] == {"status": "running"}
        await client.dispatch(terminal, {"type": "terminal/input", "data": "echo $((6*7))\r"})
        await client.until(lambda: "42" in json.dumps(client.state(terminal)["content"]), "an output")
        given = {"kind": "session", "session": session, "chat": chat}
        echo = await client.done(terminal, {"type": "terminal/claimed", "claim": given})
        assert echo["action"]["claim"]["session"] == session
        assert await client.request("disposeTerminal", terminal) is None
        client.watched.pop(terminal)
