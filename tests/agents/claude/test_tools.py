"""Tools of the host, of plugins and of clients for Claude's model. AHP 4.5, 5.9."""

from __future__ import annotations

from functools import partial

from tests.agents.claude.room import SESSION, Room, calls_of, said

PEEK = {
    "name": "peek",
    "title": "Look at a cell",
    "description": "Looks at a cell of the notebook.",
    "inputSchema": {"type": "object", "properties": {"cell": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True},
}


async def test_a_tool_of_the_host_is_called(room: Room) -> None:
    names = await room.say("one\n!!text 1") and [tool["name"] for tool in room.requests[-1].body["tools"]]
    assert "mcp__jupyter__get_session_context" in names
    turn = await room.say("rename\n!!tool mcp__jupyter__get_session_context {}\n!!text done")

    [call] = calls_of(turn)
    assert call["toolName"] == "get_session_context"
    assert call["status"] == "completed"
    assert said(turn) == "done"


async def test_a_tool_of_a_client_is_run_by_that_client_and_the_cli_is_told_of_it(room: Room) -> None:
    await room.say("one\n!!text 1")
    pid = room.pid
    await room.client.announce(SESSION, PEEK)
    await room.begin('two\n!!tool mcp__jupyter__peek {"cell": 3}\n!!text seen')
    call = await room.call("running", "peek")
    assert call["contributor"] == {"kind": "client", "clientId": room.client.client_id}
    assert room.pid != pid  # the model is shown another set of tools
    result = {
        "success": True,
        "pastTenseMessage": "Looked at cell 3",
        "content": [{"type": "text", "text": "x = 3"}],
    }
    await room.client.do(
        room.chat,
        "chat/toolCallComplete",
        turnId=room.active["id"],
        toolCallId=call["toolCallId"],
        result=result,
    )
    _, turn = await room.ended(2)

    assert said(turn) == "seen"
    assert "x = 3" in room.told()[-1]
    assert room.told()[:2] == ["one\n!!text 1", "1"]  # the conversation was gone on with


async def test_two_calls_at_once_find_their_own_answers(room: Room) -> None:
    await room.client.announce(SESSION, PEEK)
    await room.begin(
        'one\n!!tool mcp__jupyter__peek {"cell": 1}\n!!tool mcp__jupyter__peek {"cell": 2}\n!!text done'
    )

    def answered(count: int) -> bool:
        done = [call for call in room.client.calls(room.chat) if call["status"] == "completed"]
        return len(done) == count or not room.client.running(room.chat)

    for cell in (1, 2):
        await room.see(lambda: [c for c in room.client.calls(room.chat) if c["status"] == "running"])
        [call] = [one for one in room.client.calls(room.chat) if one["status"] == "running"]
        assert f'"cell": {cell}' in str(call.get("toolInput"))
        result = {
            "success": True,
            "pastTenseMessage": "Looked",
            "content": [{"type": "text", "text": f"cell {cell}"}],
        }
        await room.client.do(
            room.chat,
            "chat/toolCallComplete",
            turnId=room.active["id"],
            toolCallId=call["toolCallId"],
            result=result,
        )
        await room.see(partial(answered, cell))
    [turn] = await room.ended(1)

    assert [call["content"][0]["text"] for call in calls_of(turn)] == ["cell 1", "cell 2"]


async def test_a_stop_while_a_client_runs_its_tool(room: Room) -> None:
    await room.client.announce(SESSION, PEEK)
    await room.begin('one\n!!tool mcp__jupyter__peek {"cell": 1}\n!!text done')
    await room.call("running", "peek")
    await room.stop()
    turn = await room.say("two\n!!text second")

    assert said(turn) == "second"
