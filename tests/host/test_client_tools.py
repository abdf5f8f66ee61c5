"""P5, AHP 5.9: tools that run in a client, from its announcement to what the model is told."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from typing import Any

import pytest

from jupyter_ahp.host import host as host_module
from jupyter_ahp.host.clienttools import (
    LARGEST_ANNOUNCED,
    LARGEST_CONTENT,
    LARGEST_SCHEMA,
    MOST_ANNOUNCED,
)
from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Json, Principal, Prompt, ToolResult, TurnSink
from tests.host.harness import (
    ROOT,
    TOOLS,
    Scripted,
    WireClient,
    agree,
    answer_of,
    quiet,
    until,
    use,
    using,
)

S = "ahp-session:/s"
CELL: Json = {
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
RUN: Json = {"name": "run_cell", "annotations": {"title": "Run a cell", "destructiveHint": True}}
PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20


@pytest.fixture
def agent() -> Scripted:
    agent = Scripted()
    agent.capabilities = TOOLS
    agent.play = using("read_cell", {"index": 2})
    return agent


@pytest.fixture
async def chat(client: WireClient, other: WireClient) -> str:
    """A chat that two clients watch; the first has tools."""
    chat = await client.create(S)
    await other.subscribe(S)
    await other.subscribe(chat)
    await client.announce(S, CELL, RUN)
    return chat


async def running(client: WireClient, chat: str, text: str = "Read it") -> Json:
    """A turn whose call waits for its client."""
    await client.start(chat, text)
    return await client.call_in(chat, "running")


async def completes(
    client: WireClient, chat: str, text: str = "", *, success: bool = True, **more: Any
) -> Json:
    """The client says how its call went: the answer."""
    result: Json = {"success": success, "pastTenseMessage": "Read cell 2", **more}
    if text:
        result["content"] = [{"type": "text", "text": text}]
    return await client.of_call(chat, "chat/toolCallComplete", result=result)


async def ended(client: WireClient, chat: str) -> str:
    """The turn is over: what its model was told."""
    await until(lambda: not client.running(chat))
    return answer_of(client.state(chat)["turns"][-1])


# ── What is offered ──────────────────────────────────────────────────────────────────────────────────────────────
async def test_an_announced_tool_is_offered_as_the_client_describes_it(
    agent: Scripted, client: WireClient, chat: str
) -> None:
    await running(client, chat)
    await completes(client, chat, "df")
    await ended(client, chat)
    cell, run = agent.prompts[0].tools[-2:]
    assert (cell.name, cell.title, cell.description) == (
        "read_cell",
        "Read a cell",
        "Reads a cell of the open notebook.",
    )
    assert (cell.parameters, cell.effects) == (CELL["inputSchema"], "read")
    assert cell.contributor == {"kind": "client", "clientId": client.client_id}
    assert (run.title, run.effects, run.parameters) == (
        "Run a cell",
        "run",
        {"type": "object", "properties": {}},
    )

    await client.announce(S, RUN)
    agent.play = lambda prompt, sink: _nothing()
    await client.say(chat, "hi")
    assert [tool.name for tool in agent.prompts[-1].tools][2:] == ["run_cell"]
    await client.do(S, "session/activeClientRemoved", clientId=client.client_id)
    await client.say(chat, "hi")
    assert len(agent.prompts[-1].tools) == 2


async def _nothing() -> None:
    return


@pytest.mark.parametrize("first", [0, 1])
async def test_of_equal_names_the_client_that_started_the_turn_wins(
    agent: Scripted,
    client: WireClient,
    other: WireClient,
    chat: str,
    first: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await other.announce(S, CELL, {**RUN, "name": "rename_chat"})
    starter, bystander = [(client, other), (other, client)][first]
    with caplog.at_level(logging.INFO):
        call = await running(starter, chat)
    assert call["contributor"]["clientId"] == starter.client_id
    assert "called read_cell" in caplog.text
    assert "called rename_chat" in caplog.text, "the host's wins over any client's"
    assert "another client's" in (await completes(bystander, chat, "forged"))["rejectionReason"]
    await completes(starter, chat, "mine")
    assert await ended(starter, chat) == "mine"


async def test_a_queued_message_is_its_clients_turn_as_well(
    agent: Scripted, client: WireClient, other: WireClient, chat: str
) -> None:
    await other.announce(S, CELL)
    await running(client, chat)
    queued = {"text": "Again", "origin": {"kind": "user"}}
    await other.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=queued)
    await completes(client, chat, "one")
    await until(lambda: len(client.state(chat)["turns"]) == 1)
    call = await other.call_in(chat, "running")
    assert call["contributor"]["clientId"] == other.client_id
    await completes(other, chat, "two")
    assert await ended(client, chat) == "two"


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([CELL, CELL], "twice: read_cell"),
        ([{"name": f"t{number}"} for number in range(MOST_ANNOUNCED + 1)], "too many"),
        ([{"name": "long", "description": "x" * LARGEST_ANNOUNCED}], "too large"),
        ([{"name": "text", "inputSchema": {"type": "string"}}], "inputSchema of text"),
        ([{"name": "odd", "inputSchema": {"properties": ["a"]}}], "inputSchema of odd"),
        ([{"name": "odd", "inputSchema": {"properties": {"a": "string"}}}], "inputSchema of odd"),
        ([{"name": "odd", "inputSchema": {"required": "a"}}], "inputSchema of odd"),
        ([{"name": "odd", "inputSchema": {"required": [1]}}], "inputSchema of odd"),
        ([{"name": "big", "inputSchema": {"description": "x" * LARGEST_SCHEMA}}], "inputSchema of big"),
    ],
)
async def test_tools_that_cannot_be_offered_are_refused(
    client: WireClient, chat: str, tools: list[Json], words: str
) -> None:
    assert words in (await client.announce(S, *tools))["rejectionReason"]
    assert client.state(S)["activeClients"][0]["tools"] == [CELL, RUN]


# ── A call ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_call_is_run_by_its_client_and_its_result_is_the_models(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    call = await running(client, chat)
    assert call["contributor"] == {"kind": "client", "clientId": client.client_id}
    assert (call["confirmed"], json.loads(call["toolInput"])) == ("not-needed", {"index": 2})
    [entry] = other.state(S)["inputNeeded"]
    assert (entry["kind"], entry["clientId"], entry["chat"]) == (
        "toolClientExecution",
        client.client_id,
        chat,
    )
    assert entry["toolCall"] == call
    assert other.state(chat)["status"] & 31 == 8, "it raises no InputNeeded"

    shown = [{"type": "text", "text": "reading"}]
    await client.of_call(chat, "chat/toolCallContentChanged", content=shown)
    await until(lambda: other.calls(chat)[0].get("content") == shown)
    assert other.state(S)["inputNeeded"][0]["toolCall"]["content"] == shown

    number = await client.dispatch(
        chat,
        "chat/toolCallComplete",
        turnId=client.state(chat)["activeTurn"]["id"],
        toolCallId=call["toolCallId"],
        result={
            "success": True,
            "pastTenseMessage": "Read cell 2",
            "content": [{"type": "text", "text": "df.head()"}],
            "structuredContent": {"index": 2},
        },
        _meta={"mine": 1},
    )
    assert await ended(other, chat) == "df.head()"
    [done] = other.calls(chat)
    assert (done["status"], done["success"], done["pastTenseMessage"]) == ("completed", True, "Read cell 2")
    assert done["structuredContent"] == {"index": 2}
    assert done["_meta"] == {"mine": 1}
    echo = next(env for env in other.envelopes if env["action"]["type"] == "chat/toolCallComplete")
    assert echo["origin"] == {"clientId": client.client_id, "clientSeq": number}
    assert "inputNeeded" not in other.state(S)
    assert other.kinds(chat).count("chat/toolCallComplete") == 1
    await agree(host, client, other)


async def test_what_runs_something_asks_and_is_allowed_for_that_persons_clients(
    host: Host, agent: Scripted, client: WireClient, chat: str
) -> None:
    agent.play = using("run_cell")
    await client.start(chat, "Run it")
    await client.call_in(chat, "pending-confirmation")
    assert "does not run" in (await completes(client, chat, "early"))["rejectionReason"]
    chosen = {"approved": True, "confirmed": "user-action", "selectedOptionId": "allow-session"}
    await client.of_call(chat, "chat/toolCallConfirmed", **chosen)
    await client.call_in(chat, "running")
    await completes(client, chat, "ran")
    assert await ended(client, chat) == "ran"

    call = await running(client, chat, "Again")
    assert call["confirmed"] == "setting"
    await completes(client, chat, "ran")
    await ended(client, chat)

    bob = WireClient(host, principal=Principal("user:bob", "Bob"))
    await bob.initialize()
    await bob.subscribe(S)
    await bob.subscribe(chat)
    await bob.announce(S, RUN)
    await bob.start(chat, "Run mine")
    call = await bob.call_in(chat, "pending-confirmation")
    assert call["contributor"]["clientId"] == bob.client_id
    await bob.of_call(chat, "chat/toolCallConfirmed", approved=False, reason="denied")
    assert "did not allow" in await ended(bob, chat)


async def test_a_client_that_could_not_says_so(client: WireClient, chat: str) -> None:
    await running(client, chat)
    await completes(client, chat, "Traceback", success=False, error={"message": "No notebook is open."})
    assert await ended(client, chat) == "No notebook is open.\n\nTraceback"
    assert client.calls(chat)[0]["success"] is False


async def test_arguments_that_do_not_fit_never_reach_the_client(
    agent: Scripted, client: WireClient, chat: str
) -> None:
    agent.play = using("read_cell", {"index": "two"})
    await client.say(chat, "Read it")
    assert "not of type 'integer'" in await ended(client, chat)
    asked = [env["action"] for env in client.envelopes if env["action"]["type"] == "session/inputNeededSet"]
    assert "toolClientExecution" not in [action["request"]["kind"] for action in asked]


def a_bomb(levels: int) -> Json:
    """Of a few hundred bytes, and 2 to that power of steps to go through."""
    twice = [{"allOf": [{"$ref": f"#/$defs/{level + 1}"}] * 2} for level in range(levels)]
    return {"$ref": "#/$defs/0", "$defs": {str(level): step for level, step in enumerate([*twice, {}])}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "http://[::1"},
        {"$schema": ["x"]},
        a_bomb(20),
        {"properties": {"text": {"type": "string", "pattern": "(a+)+$"}}},
        {
            "properties": {"text": {}},
            "patternProperties": {"(t|e|x|t|te)+$": {}},
            "additionalProperties": False,
        },
    ],
    ids=str,
)
async def test_P5_no_schema_of_a_client_holds_up_the_host_or_fails_a_turn(
    agent: Scripted, client: WireClient, chat: str, schema: Json
) -> None:
    await client.announce(S, {**CELL, "inputSchema": schema})
    agent.play = using("read_cell", {"text": "a" * 25 + "!"})
    await running(client, chat)
    await completes(client, chat, "df")
    assert await ended(client, chat) == "df"


async def test_P5_what_a_clients_tool_does_not_know_never_reaches_it(
    agent: Scripted, client: WireClient, chat: str
) -> None:
    await client.announce(S, {**CELL, "inputSchema": {**CELL["inputSchema"], "additionalProperties": False}})
    agent.play = using("read_cell", {"index": 1, "cell": 2})
    await client.say(chat, "Read it")
    assert "'cell' was unexpected" in await ended(client, chat)


async def test_two_calls_at_once_are_each_answered(agent: Scripted, client: WireClient, chat: str) -> None:
    async def both(prompt: Prompt, sink: TurnSink) -> None:
        uses = (use(prompt, sink, "read_cell", {"index": index}) for index in (1, 2))
        for result in await asyncio.gather(*uses):
            sink.markdown(f"{result.text} ")

    agent.play = both
    await client.start(chat, "Both")
    await until(lambda: [call["status"] for call in client.calls(chat)] == ["running"] * 2)
    assert len(client.state(S)["inputNeeded"]) == 2
    for call in reversed(client.calls(chat)):
        index = json.loads(call["toolInput"])["index"]
        content = [{"type": "text", "text": f"cell {index}"}]
        result = {"success": True, "pastTenseMessage": "Read", "content": content}
        await client.of_call(chat, "chat/toolCallComplete", toolCallId=call["toolCallId"], result=result)
    assert await ended(client, chat) == "cell 1 cell 2 "


async def test_images_and_other_content_for_the_model(agent: Scripted, client: WireClient, chat: str) -> None:
    results: list[ToolResult] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        results.append(await use(prompt, sink, "read_cell", {"index": 2}))

    agent.play = play
    await running(client, chat)
    content = [
        {"type": "embeddedResource", "data": base64.b64encode(PNG).decode(), "contentType": "image/png"},
        {"type": "embeddedResource", "data": "no base64!", "contentType": "image/png"},
        {"type": "embeddedResource", "data": "e30=", "contentType": "application/json"},
        {"type": "resource", "uri": "file:///data/a.csv"},
        {"type": "fileEdit", "after": {"uri": "file:///data/b.py", "content": {"uri": "x:/y"}}},
        {"type": "fileEdit"},
        {"type": "laterKind", "of": "who knows"},
    ]
    await completes(client, chat, content=content, structuredContent={"rows": 3})
    await ended(client, chat)
    assert client.calls(chat)[0]["content"] == content
    [result] = results
    [image] = result.images
    assert (image.media_type, image.data) == ("image/png", PNG)
    for words in ("image/png", "application/json", "file:///data/a.csv", "file:///data/b.py", '{"rows": 3}'):
        assert words in result.text


# ── What is refused ──────────────────────────────────────────────────────────────────────────────────────────────
async def test_T7_a_call_is_its_clients_alone(
    agent: Scripted, client: WireClient, other: WireClient, chat: str
) -> None:
    await running(client, chat)
    content = [{"type": "text", "text": "forged"}]
    for action, fields in (
        ("chat/toolCallComplete", {"result": {"success": True, "pastTenseMessage": "x", "content": content}}),
        ("chat/toolCallContentChanged", {"content": content}),
    ):
        refused = await other.of_call(chat, action, **fields)
        assert "another client's" in refused["rejectionReason"]
        refused = await client.of_call(chat, action, toolCallId="no such call", **fields)
        assert "no such tool call" in refused["rejectionReason"]
    assert "content" not in client.calls(chat)[0]
    await completes(client, chat, "mine")
    assert await ended(client, chat) == "mine"

    async def own(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("look", title="Look")
        call.run("Looking")
        await until(
            lambda: bool(client.refusals and "not a client's" in client.refusals[-1]["rejectionReason"])
        )
        call.done("Looked")

    agent.play = own
    await client.start(chat, "look")
    await client.call_in(chat, "running")
    assert "not a client's" in (await completes(client, chat, "forged"))["rejectionReason"]
    await ended(client, chat)


async def test_P5_it_takes_the_right_to_run_tools(host: Host, client: WireClient, chat: str) -> None:
    host.options.grants = Grants({"toolless": ("session:read", "chat:send")}, {"bob": "toolless"})
    bob = WireClient(host, principal=Principal("user:bob", "Bob"))
    await bob.initialize()
    await bob.subscribe(S)
    await bob.subscribe(chat)
    assert "chat:tool" in (await bob.announce(S, CELL))["rejectionReason"]
    await running(client, chat)
    assert "chat:tool" in (await completes(bob, chat, "forged"))["rejectionReason"]
    asked = await bob.of_call(chat, "chat/toolCallResultConfirmed", approved=True)
    assert "chat:answer" in asked["rejectionReason"]
    await completes(client, chat, "mine")
    assert await ended(client, chat) == "mine"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([{"type": "subagent", "resource": "ahp-chat:/x", "title": "forged"}], "for the host to say"),
        ([{"type": "terminal", "resource": "ahp-terminal:/x", "title": "forged"}], "for the host to say"),
        ([{"type": "text"}], "needs text"),
        ([{"type": "embeddedResource", "data": 1, "contentType": "image/png"}], "needs data"),
        ([{"text": "x"}], "has a type"),
        ([{"type": "fileEdit", "after": "odd"}], "fileEdit has before and after"),
        ([{"type": "fileEdit", "before": {"uri": "x:/", "content": {}}}], "fileEdit has before and after"),
        ([{"type": "text", "text": "x" * LARGEST_CONTENT}], "too large"),
    ],
)
async def test_content_that_cannot_be_is_refused_and_fails_the_call(
    host: Host, client: WireClient, other: WireClient, chat: str, content: list[Json], words: str
) -> None:
    await running(client, chat)
    refused = await client.of_call(chat, "chat/toolCallContentChanged", content=content)
    assert words in refused["rejectionReason"]
    assert client.calls(chat)[0]["status"] == "running", "it may still end well"
    assert words in (await completes(client, chat, content=content))["rejectionReason"]
    assert words in await ended(other, chat), "the turn does not wait for ever"
    [call] = other.calls(chat)
    assert (call["status"], call["success"]) == ("completed", False)
    assert "content" not in call
    await agree(host, client, other)


async def test_a_result_that_is_too_large_in_all_fails_the_call(client: WireClient, chat: str) -> None:
    await running(client, chat)
    structured = {"rows": "x" * LARGEST_CONTENT}
    assert "too large" in (await completes(client, chat, structuredContent=structured))["rejectionReason"]
    assert "too large" in await ended(client, chat)


# ── A person looks at the result first ───────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("approved", [True, False])
async def test_a_result_that_waits_for_a_person(
    host: Host, client: WireClient, other: WireClient, chat: str, approved: bool
) -> None:
    await running(client, chat)
    refused = await other.of_call(chat, "chat/toolCallResultConfirmed", approved=True)
    assert "does not wait" in refused["rejectionReason"]
    content = [{"type": "text", "text": "secret"}]
    result = {"success": True, "pastTenseMessage": "Read", "content": content}
    await client.of_call(chat, "chat/toolCallComplete", result=result, requiresResultConfirmation=True)
    await other.call_in(chat, "pending-result-confirmation")
    [entry] = other.state(S)["inputNeeded"]
    assert entry["kind"] == "toolConfirmation"
    assert "does not run" in (await completes(client, chat, "twice"))["rejectionReason"]
    assert client.running(chat)
    await other.of_call(chat, "chat/toolCallResultConfirmed", approved=approved)
    said = await ended(client, chat)
    [call] = client.calls(chat)
    assert call["_meta"]["jupyter-ahp.sender"] == "user:alice"
    if approved:
        assert said == "secret"
        assert call["status"] == "completed"
    else:
        assert "secret" not in said
        assert "does not let you see" in said
        assert (call["status"], call["reason"]) == ("cancelled", "result-denied")
    await agree(host, client, other)


# ── A client that goes, a turn that stops ────────────────────────────────────────────────────────────────────────
async def test_a_client_that_comes_back_in_time_goes_on_with_its_call(
    host: Host, client: WireClient, chat: str
) -> None:
    await running(client, chat)
    await client.drop()
    await client.reconnect()
    await completes(client, chat, "back")
    assert await ended(client, chat) == "back"
    await agree(host, client)


@pytest.mark.parametrize("state", ["running", "pending-confirmation"])
@pytest.mark.parametrize("how", ["lost", "leaves"])
async def test_a_client_that_is_lost_fails_its_calls(
    host: Host,
    agent: Scripted,
    client: WireClient,
    other: WireClient,
    chat: str,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    how: str,
) -> None:
    if state == "pending-confirmation":
        agent.play = using("run_cell")
    await client.start(chat, "Do it")
    await client.call_in(chat, state)
    if how == "leaves":
        await client.do(S, "session/activeClientRemoved", clientId=client.client_id)
    else:
        await client.drop()
        await host.sweep()
        assert other.calls(chat)[0]["status"] == state, "it has its time to come back"
        monkeypatch.setattr(host_module, "_CLIENT_GRACE", -1.0)
        await host.sweep()
    assert "is gone" in await ended(other, chat)
    [call] = other.calls(chat)
    assert (call["status"], call["success"]) == ("completed", False)
    assert other.state(S)["activeClients"] == []
    assert "inputNeeded" not in other.state(S)
    await agree(host, other)


async def test_a_call_behind_the_clients_leaving_fails(
    host: Host, agent: Scripted, client: WireClient, other: WireClient, chat: str
) -> None:
    async def late(prompt: Prompt, sink: TurnSink) -> None:
        await client.do(S, "session/activeClientRemoved", clientId=client.client_id)
        sink.markdown((await use(prompt, sink, "read_cell", {"index": 1})).text)

    agent.play = late
    await other.say(chat, "Read it")
    assert "is gone" in await ended(other, chat)
    assert other.calls(chat)[0]["success"] is False
    await agree(host, other)


async def test_a_stop_ends_a_call_that_a_client_runs(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    call = await running(client, chat)
    turn = client.state(chat)["activeTurn"]["id"]
    await other.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    result = {"success": True, "pastTenseMessage": "late"}
    ids = {"turnId": turn, "toolCallId": call["toolCallId"]}
    late = await client.do(chat, "chat/toolCallComplete", **ids, result=result)
    assert "does not run any more" in late["rejectionReason"]
    [call] = other.calls(chat)
    assert (call["status"], call["reason"]) == ("cancelled", "skipped")
    await quiet(host)
    assert "inputNeeded" not in other.state(S)
    await agree(host, client, other)


async def test_W4_a_worker_calls_a_clients_tool(
    host: Host, agent: Scripted, client: WireClient, other: WireClient, chat: str
) -> None:
    """The client runs it in the worker's chat, and what came out goes to the backend that runs the worker."""

    async def delegate(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("delegate", title="Delegate")
        worker = sink.worker(call, "Read cell 2", title="Reader")
        result = await use(prompt, worker.sink, "read_cell", {"index": 2})
        worker.done()
        call.done("Delegated", content=[{"type": "text", "text": result.text}])
        sink.markdown(result.text)

    agent.play = delegate
    await client.start(chat, "Delegate")
    await until(
        lambda: any(
            entry["kind"] == "toolClientExecution" for entry in client.state(S).get("inputNeeded", ())
        )
    )
    [entry] = client.state(S)["inputNeeded"]
    assert entry["chat"] != chat
    await client.subscribe(entry["chat"])
    ids = {"turnId": entry["turnId"], "toolCallId": entry["toolCall"]["toolCallId"]}
    result = {"success": True, "pastTenseMessage": "Read", "content": [{"type": "text", "text": "df"}]}
    await other.subscribe(entry["chat"])
    refused = await other.do(entry["chat"], "chat/toolCallComplete", **ids, result=result)
    assert "another client's" in refused["rejectionReason"]
    await client.do(entry["chat"], "chat/toolCallComplete", **ids, result=result)
    assert await ended(client, chat) == "df"
    [call] = client.calls(entry["chat"])
    assert (call["status"], call["success"]) == ("completed", True)
    await agree(host, client, other)


async def test_a_newcomer_sees_what_is_asked_of_a_client(host: Host, client: WireClient, chat: str) -> None:
    await running(client, chat)
    visitor = WireClient(host)
    await visitor.initialize(ROOT)
    [entry] = (await visitor.subscribe(S))["inputNeeded"]
    assert entry["kind"] == "toolClientExecution"
    await completes(client, chat, "done")
    assert await ended(client, chat) == "done"
