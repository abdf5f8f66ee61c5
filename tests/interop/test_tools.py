"""Tools on the wire: a window that has some and runs them, what asks first, and the host's own (T13; AHP 3.5, 5.9).

The agent is the real assistant, on a scripted model; what it was offered and told is read in that model's log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.interop.kinds import EVERY, NEWEST, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.pairs import Two, two
from tests.interop.window import Window, answer_text, window
from tests.mock_model import MockModel
from tests.support.server import JupyterServer

READ: Json = {
    "name": "read_cell",
    "title": "Read a cell",
    "description": "Reads a cell of the open notebook.",
    "inputSchema": {
        "type": "object",
        "properties": {"index": {"type": "integer"}},
        "required": ["index"],
    },
    "annotations": {"readOnlyHint": True},
}
RUN: Json = {"name": "run_cell", "description": "Runs a cell.", "inputSchema": {"type": "object"}}
# A message that begins with `!` would be a command.
READS = 'Read it.\n!!tool read_cell {"index": 2}\n!!text I see.'
RUNS = "Run it.\n!!tool run_cell {}\n!!text It ran."


def named(kind: Kind) -> str:
    return kind.name


def calls(turn: Json) -> list[Json]:
    return [part["toolCall"] for part in turn["responseParts"] if part["kind"] == "toolCall"]


def result(text: str, *, success: bool = True) -> Json:
    """What a window says of a call (AHP 4.5)."""
    said: Json = {
        "success": success,
        "pastTenseMessage": "Did it",
        "content": [{"type": "text", "text": text}],
    }
    return said if success else {**said, "error": {"message": text}}


@dataclass
class Tooled:
    """A window with tools, in a chat that another one watches."""

    chats: Two
    model: MockModel

    async def announce(self, who: Window, session: str, *tools: Json) -> None:
        active = {**who.active(), "tools": list(tools)}
        await who.done(session, {"type": "session/activeClientSet", "activeClient": active})

    async def call(self, status: str) -> Json:
        """The ids of the newest call of the turn that runs, once it is in that state, with what it is."""
        one, chat = self.chats.one, self.chats.chat

        def look() -> Json | None:
            active = one.state(chat).get("activeTurn")
            shown = calls(active) if active else []
            return shown[-1] if shown and shown[-1]["status"] == status else None

        await one.until(look, f"a call that is {status}")
        found = look()
        assert found is not None
        return found

    async def answer(self, who: Window, kind: str, call: Json, **fields: object) -> Json:
        active = self.chats.one.state(self.chats.chat)["activeTurn"]["id"]
        action = {"type": kind, "turnId": active, "toolCallId": call["toolCallId"], **fields}
        return await who.answer_to(await who.dispatch(self.chats.chat, action))

    async def complete(self, who: Window, call: Json, said: Json) -> Json:
        return await self.answer(who, "chat/toolCallComplete", call, result=said)

    def told(self) -> list[str]:
        """What the model was told that tools said, in its last request."""
        messages = self.model.requests[-1].body["messages"]
        return [message["content"] for message in messages if message["role"] == "tool"]


def asked_of_clients(window: Window, session: str) -> list[Json]:
    return [
        entry
        for entry in window.state(session).get("inputNeeded", ())
        if entry["kind"] == "toolClientExecution"
    ]


@pytest.mark.parametrize("kind", EVERY, ids=named)
async def test_T13_a_windows_tool_is_offered_run_by_it_and_told(
    server: JupyterServer, model: MockModel, kind: Kind
) -> None:
    async with two(server, kind, "assistant") as chats:
        room = Tooled(chats, model)
        one, other, chat = chats.one, chats.other, chats.chat
        await room.announce(one, chats.session, READ)
        model.requests.clear()
        turn = await one.start(chat, READS)
        call = await room.call("running")
        assert call["contributor"] == {"kind": "client", "clientId": one.client_id}
        assert (call["displayName"], call["confirmed"]) == ("Read a cell", "not-needed")
        assert json.loads(call["toolInput"]) == {"index": 2}
        offered = [tool["function"] for tool in model.requests[0].body["tools"]]
        assert {"get_session_context", "rename_chat", "read_cell"} <= {tool["name"] for tool in offered}
        [described] = [tool for tool in offered if tool["name"] == "read_cell"]
        assert described["description"] == READ["description"]
        assert described["parameters"] == READ["inputSchema"]

        for watcher, session in ((one, chats.session), (other, chats.other_session)):
            await watcher.until(lambda at=watcher, of=session: asked_of_clients(at, of), "asked of a client")  # type: ignore[misc]
            [entry] = asked_of_clients(watcher, session)
            assert (entry["chat"], entry["turnId"], entry["clientId"]) == (chat, turn, one.client_id)
            assert entry["toolCall"]["toolCallId"] == call["toolCallId"]
        shown = [{"type": "text", "text": "half"}]
        changed = await room.answer(one, "chat/toolCallContentChanged", call, content=shown)
        assert "rejectionReason" not in changed
        await room.complete(one, call, result("df.head()"))
        ended = await other.ended(chat, turn)
        assert answer_text(ended) == "I see."
        [call] = calls(ended)
        assert (call["status"], call["success"]) == ("completed", True)
        assert call["content"] == [{"type": "text", "text": "df.head()"}]
        assert room.told() == ["df.head()"]
        assert asked_of_clients(other, chats.other_session) == []
        await chats.same()


@pytest.mark.parametrize("kind", [VSCODE_140, NEWEST], ids=named)
async def test_T13_what_runs_something_asks_and_a_denials_reason_reaches_the_model(
    server: JupyterServer, model: MockModel, kind: Kind
) -> None:
    async with two(server, kind, "assistant") as chats:
        room = Tooled(chats, model)
        one, other, chat = chats.one, chats.other, chats.chat
        await room.announce(one, chats.session, RUN)
        turn = await one.start(chat, RUNS)
        call = await room.call("pending-confirmation")
        assert [option["kind"] for option in call["options"]] == ["approve", "approve", "deny"]
        early = await room.complete(one, call, result("too early"))
        assert "does not run" in early["rejectionReason"]
        denial = {"approved": False, "reason": "denied", "reasonMessage": "The kernel is busy."}
        await room.answer(other, "chat/toolCallConfirmed", call, **denial)
        [call] = calls(await one.ended(chat, turn))
        assert (call["status"], call["reason"]) == ("cancelled", "denied")
        assert "The kernel is busy." in room.told()[0]

        turn = await one.start(chat, RUNS)
        call = await room.call("pending-confirmation")
        approval = {"approved": True, "confirmed": "user-action", "selectedOptionId": "allow-session"}
        await room.answer(other, "chat/toolCallConfirmed", call, **approval)
        call = await room.call("running")
        await room.complete(one, call, result("no kernel", success=False))
        [call] = calls(await one.ended(chat, turn))
        assert (call["status"], call["success"]) == ("completed", False)
        assert "no kernel" in room.told()[-1]

        turn = await one.start(chat, RUNS)
        call = await room.call("running")
        assert call["confirmed"] == "setting"
        await room.complete(one, call, result("42"))
        assert answer_text(await one.ended(chat, turn)) == "It ran."
        await chats.same()


async def test_T13_of_two_windows_with_one_tool_the_one_whose_turn_it_is_runs_it(
    server: JupyterServer, model: MockModel
) -> None:
    async with two(server, VSCODE_141, "assistant") as chats:
        room = Tooled(chats, model)
        one, other, chat = chats.one, chats.other, chats.chat
        await room.announce(one, chats.session, READ)
        await room.announce(other, chats.other_session, READ)
        for starter, bystander in ((other, one), (one, other)):
            turn = await starter.start(chat, READS)
            call = await room.call("running")
            assert call["contributor"]["clientId"] == starter.client_id
            forged = await room.complete(bystander, call, result("forged"))
            assert "another client's" in forged["rejectionReason"]
            await room.complete(starter, call, result("mine"))
            await one.ended(chat, turn)
            assert room.told()[-1] == "mine"
        names = [tool["function"]["name"] for tool in model.requests[-1].body["tools"]]
        assert names.count("read_cell") == 1
        await chats.same()


async def test_T28_a_window_that_leaves_fails_what_it_runs_and_one_that_is_back_goes_on(
    server: JupyterServer, model: MockModel
) -> None:
    async with two(server, VSCODE_141, "assistant") as chats:
        room = Tooled(chats, model)
        one, other, chat = chats.one, chats.other, chats.chat
        async with window(server, NEWEST) as third:
            await third.open(chats.other_session)
            await room.announce(third, chats.other_session, READ)
            turn = await one.start(chat, READS)
            await room.call("running")
            await third.leave(chats.other_session)
            [call] = calls(await other.ended(chat, turn))
            assert (call["status"], call["success"]) == ("completed", False)
            assert "is gone" in room.told()[0]
            assert asked_of_clients(other, chats.other_session) == []
            turn = await one.start(chat, "Go on.\n!!text Without it.")
            await one.ended(chat, turn)
            offered = [tool["function"]["name"] for tool in model.requests[-1].body["tools"]]
            assert "read_cell" not in offered
        await chats.same()


async def test_T16_a_stop_ends_what_a_window_runs(server: JupyterServer, model: MockModel) -> None:
    async with two(server, VSCODE_141, "assistant") as chats:
        room = Tooled(chats, model)
        one, other, chat = chats.one, chats.other, chats.chat
        await room.announce(one, chats.session, READ)
        turn = await one.start(chat, READS)
        call = await room.call("running")
        await other.done(chat, {"type": "chat/turnCancelled", "turnId": turn, "duration": 5})
        late = {"type": "chat/toolCallComplete", "turnId": turn, "toolCallId": call["toolCallId"]}
        assert await one.refused(chat, {**late, "result": result("late")})
        [call] = calls(await one.ended(chat, turn))
        assert (call["status"], call["reason"]) == ("cancelled", "skipped")
        await one.request("ping")
        assert asked_of_clients(one, chats.session) == []
        assert (await one.say(chat, "Go on.\n!!text On."))["state"] == "complete"
        await chats.same()


@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
async def test_T8_the_agent_renames_the_chat_when_somebody_asks(
    server: JupyterServer, model: MockModel, kind: Kind
) -> None:
    async with two(server, kind, "assistant") as chats:
        one, other = chats.one, chats.other
        await one.say(
            chats.chat, 'Call it so.\n!!tool rename_chat {"title": "Sales by region"}\n!!text Done.'
        )
        for watcher, session in ((one, chats.session), (other, chats.other_session)):
            await watcher.request("ping")
            [summary] = watcher.state(session)["chats"]
            assert summary["title"] == watcher.state(session)["title"] == "Sales by region"
        assert one.rows is not None
        assert one.rows[chats.session]["title"] == "Sales by region"
        await chats.same()


async def test_A8_the_agent_reads_another_chat_by_its_link(server: JupyterServer, model: MockModel) -> None:
    async with two(server, VSCODE_141, "assistant") as chats:
        room = Tooled(chats, model)
        one = chats.one
        _, past = await one.new_chat("puppet")
        await one.say(past, "think hard\ntool find\nsay Use a join.")
        for link in (past, past + "x", "nothing"):
            asked = json.dumps({"session": link})
            turn = await one.say(chats.chat, f"Read it.\n!!tool get_session_context {asked}\n!!text I see.")
            assert turn["state"] == "complete"
            assert answer_text(turn) == "I see."
            told = room.told()[-1]
            if link == past:
                assert "User: think hard\ntool find\nsay Use a join.\n\nAgent: Use a join." in told
                assert "found" not in told
            else:
                assert "There is no chat" in told


async def test_what_is_allowed_for_the_session_is_allowed_behind_a_kill(
    own_server: JupyterServer, model: MockModel
) -> None:
    async def through(client: Window, chat: str, *, asks: bool) -> None:
        turn = await client.start(chat, RUNS)
        approval = {"approved": True, "confirmed": "user-action", "selectedOptionId": "allow-session"}

        def call() -> Json:
            shown = calls(client.state(chat).get("activeTurn") or {"responseParts": []})
            return shown[-1] if shown else {"status": "not there yet"}

        if asks:
            await client.until(lambda: call()["status"] == "pending-confirmation", "asked")
            ids = {"turnId": turn, "toolCallId": call()["toolCallId"]}
            await client.done(chat, {"type": "chat/toolCallConfirmed", **ids, **approval})
        await client.until(lambda: call()["status"] == "running", "running")
        assert call()["confirmed"] == ("user-action" if asks else "setting")
        ids = {"turnId": turn, "toolCallId": call()["toolCallId"]}
        await client.done(chat, {"type": "chat/toolCallComplete", **ids, "result": result("ran")})
        await client.ended(chat, turn)

    async with window(own_server, NEWEST) as client:
        session, chat = await client.new_chat("assistant")
        active = {**client.active(), "tools": [RUN]}
        await client.done(session, {"type": "session/activeClientSet", "activeClient": active})
        await through(client, chat, asks=True)
        await through(
            client, chat, asks=False
        )  # it is on disk a second later at most: a turn's end writes it, too
        await client.request("ping")
    own_server.stop()
    own_server.start()
    async with window(own_server, NEWEST) as client:
        await client.subscribe(session)
        await client.subscribe(chat)
        active = {**client.active(), "tools": [RUN]}
        await client.done(session, {"type": "session/activeClientSet", "activeClient": active})
        await through(client, chat, asks=False)
