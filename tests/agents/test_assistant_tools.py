"""The assistant with tools: what its model is offered and told, what people see, and what later turns know of it.

The witness is the log of the model server.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jupyter_ahp.agents.assistant import runtime
from jupyter_ahp.agents.assistant.standing import MOST_TOOLS
from jupyter_ahp.agents.assistant.used import LONGEST, ROOM
from jupyter_ahp.agents.base import Confirmation, ImageBlock, Json, Prompt, ToolResult
from tests.agents.conftest import MakeAssistant
from tests.agents.recording import START, RecordingSink, failure, tell, turn, until
from tests.agents.some_tools import Made
from tests.mock_model import MockModel
from tests.mock_model.server import Request

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


async def fail() -> ToolResult:
    """Does not work."""
    return ToolResult("The disk is full.", failed=True)


class Api:
    """One of the two dialects: an assistant that speaks it, and how its requests are read."""

    def __init__(self, name: str, model: MockModel, make: MakeAssistant, *, vision: bool = False) -> None:
        self.name = name
        if name == "openai":
            entry = {"base_url": model.base_url, "model": model.model, "vision": vision}
            self.assistant = make(models=[entry])
        else:
            environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": model.root_url}
            environ |= {"ANTHROPIC_MODEL": model.model, "OLLAMA_HOST": "127.0.0.1:1"}
            self.assistant = make(environ=environ)

    def offered(self, request: Request) -> list[tuple[str, str, Json]]:
        """Name, description and schema of each tool."""
        tools = request.body.get("tools", [])
        if self.name == "openai":
            tools = [tool["function"] for tool in tools]
            return [(tool["name"], tool["description"], tool["parameters"]) for tool in tools]
        return [(tool["name"], tool["description"], tool["input_schema"]) for tool in tools]

    def calls(self, request: Request) -> list[tuple[str, Any]]:
        """Name and arguments of each call that the model is told it made."""
        found: list[tuple[str, Any]] = []
        for message in request.body["messages"]:
            for call in message.get("tool_calls") or []:
                found.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
            if isinstance(message["content"], list):
                blocks = [block for block in message["content"] if block["type"] == "tool_use"]
                found += [(block["name"], block["input"]) for block in blocks]
        return found

    def results(self, request: Request) -> list[str]:
        """What each call said, as the model is told."""
        found: list[str] = []
        for message in request.body["messages"]:
            if message["role"] == "tool":
                found.append(message["content"])
            elif isinstance(message["content"], list):
                blocks = [block for block in message["content"] if block["type"] == "tool_result"]
                found += [_text(block["content"]) for block in blocks]
        return found


def _text(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@pytest.fixture(params=["openai", "anthropic"])
def api(request: pytest.FixtureRequest, model: MockModel, make_assistant: MakeAssistant) -> Api:
    return Api(request.param, model, make_assistant)


def calls_of(sink: RecordingSink) -> list[Json]:
    return [part["toolCall"] for part in sink.parts if part["kind"] == "toolCall"]


# ── What is offered ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_the_model_is_offered_the_turns_tools_and_told_that_it_has_some(
    api: Api, model: MockModel
) -> None:
    tool = Made(add)
    await tell(api.assistant, "!!text Hello", tools=[tool])
    await tell(api.assistant, "!!text Hello")
    with_tools, without = model.requests
    assert api.offered(with_tools) == [("add", "Add two numbers.", tool.parameters)]
    assert "your tools" in with_tools.texts[0][1]
    assert "you cannot run code" not in with_tools.texts[0][1]
    assert "tools" not in without.body
    assert "you cannot run code" in without.texts[0][1]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
            "properties": {
                "node": {"$ref": "#/$defs/node"},
                "any": {},
                "of": {"anyOf": [{"type": "string"}, {}]},
            },
            "patternProperties": {"^x-": {"type": "string"}},
        },
        {"type": "object", "properties": {"lost": {"$ref": "#/$defs/nowhere"}}},
        {"type": "object", "properties": {"odd": {"type": "no such type"}}},
    ],
)
async def test_any_schema_of_an_object_can_be_offered_and_called(
    api: Api, model: MockModel, schema: Json
) -> None:
    """It is a client's or a plugin's; what an API thinks of it is the API's matter."""
    tool = Made(add)
    tool.parameters = schema
    sink = await tell(api.assistant, '!!tool add {"a": 1, "b": 2}\n!!text Three.', tools=[tool])
    assert sink.text == "Three."
    [(name, _, offered)] = api.offered(model.requests[0])
    assert (name, offered["type"]) == ("add", "object")
    assert tool.calls == [{"a": 1, "b": 2}]


async def test_no_more_tools_are_offered_than_a_model_takes_and_that_is_said(
    api: Api, model: MockModel
) -> None:
    tools = [Made(add) for _ in range(MOST_TOOLS + 3)]
    for number, tool in enumerate(tools):
        tool.name = f"add{number}"
    sink = await tell(api.assistant, "!!text Hello", tools=[*tools, Made(add), tools[0]])
    assert [name for name, _, _ in api.offered(model.requests[0])] == [f"add{n}" for n in range(MOST_TOOLS)]
    assert sink.notices == ["A model takes 128 tools at most: 4 of them are left out here."]


async def test_a_call_is_run_and_the_model_goes_on_from_its_result(api: Api, model: MockModel) -> None:
    sink = await tell(
        api.assistant, '!!text I add.\n!!tool add {"a": 2, "b": 3}\n!!text Five.', tools=[Made(add)]
    )
    [call] = calls_of(sink)
    assert (call["toolName"], call["displayName"]) == ("add", "Title of add")
    assert (call["status"], call["success"], call["confirmed"]) == ("completed", True, "not-needed")
    assert call["content"] == [{"type": "text", "text": "5"}]
    assert [part["kind"] for part in sink.parts] == ["markdown", "toolCall", "markdown"]
    assert api.calls(model.requests[1]) == [("add", {"a": 2, "b": 3})]
    assert api.results(model.requests[1]) == ["5"]
    written = "".join(
        action.get("content", "") for action in sink.actions if action["type"] == "chat/toolCallDelta"
    )
    assert json.loads(written) == {"a": 2, "b": 3}, "people see it written"


async def test_calls_of_one_answer_run_at_the_same_time(api: Api, model: MockModel) -> None:
    meeting = asyncio.Barrier(2)

    async def meet(who: int) -> str:
        """Both have to come."""
        await meeting.wait()
        return f"met {who}"

    ask = '!!and meet {"who": 1}\n!!tool meet {"who": 2}\n!!text Done.'
    sink = await asyncio.wait_for(tell(api.assistant, ask, tools=[Made(meet)]), 20)
    assert [call["content"][0]["text"] for call in calls_of(sink)] == ["met 1", "met 2"]
    assert len(model.requests) == 2
    assert sorted(api.results(model.requests[1])) == ["met 1", "met 2"]


# ── What goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("call", "words"),
    [
        ('add {"a": 2, "b": "three"}', "arguments.b: 'three' is not of type 'integer'"),
        ("fail {}", "The disk is full."),
        ("missing {}", "Unknown tool name: 'missing'"),
    ],
)
async def test_what_fails_is_told_to_the_model_which_goes_on(
    api: Api, model: MockModel, call: str, words: str
) -> None:
    sink = await tell(
        api.assistant, f"!!tool {call}\n!!tool {call}\n!!text I see.", tools=[Made(add), Made(fail)]
    )
    assert sink.text == "I see."
    assert len(model.requests) == 3
    for result in api.results(model.requests[2]):
        assert words in result
    for shown in calls_of(sink):
        assert (shown["status"], shown["success"]) == ("completed", False)
        assert words in shown["error"]["message"]


async def test_arguments_that_are_no_json_are_told_to_the_model(
    model: MockModel, make_assistant: MakeAssistant
) -> None:
    api = Api("openai", model, make_assistant)
    for written in ('{"a": 2,', "[2, 3]"):
        model.requests.clear()
        sink = await tell(api.assistant, f"!!tool add {written}\n!!text I see.", tools=[Made(add)])
        assert sink.text == "I see."
        [result] = api.results(model.requests[1])
        assert "cannot be read as JSON" in result
        [call] = calls_of(sink)
        assert call["success"] is False


async def test_what_is_denied_is_told_with_its_reason(api: Api, model: MockModel) -> None:
    sink = RecordingSink()
    ask = '!!tool add {"a": 2, "b": 3}\n!!text As you like.'
    going = asyncio.create_task(tell(api.assistant, ask, sink, tools=[Made(add, effects="run")]))
    await until(lambda: any(call["status"] == "pending-confirmation" for call in calls_of(sink)))
    [call] = calls_of(sink)
    sink.confirmed(call["toolCallId"], Confirmation(approved=False, reason="Not on Sundays."))
    await going
    assert sink.text == "As you like."
    [result] = api.results(model.requests[1])
    assert "did not allow this call, and said: Not on Sundays." in result


async def test_a_model_that_goes_round_in_circles_stops_and_can_go_on(
    api: Api, model: MockModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "MOST_STEPS", 3)
    ask = '!!tool add {"a": 1, "b": 1}\n' * 9 + "!!text Done."
    failed = await failure(api.assistant, ask, tools=[Made(add)])
    assert (failed.error_type, failed.resumable) == ("steps", True)
    assert "3 times" in failed.message
    assert len(model.requests) == 3


async def test_it_may_call_more_often_than_the_librarys_own_limit(
    model: MockModel, make_assistant: MakeAssistant
) -> None:
    api = Api("openai", model, make_assistant)
    ask = '!!tool add {"a": 1, "b": 1}\n' * 55 + "!!text Done."
    sink = await tell(api.assistant, ask, tools=[Made(add)])
    assert sink.text == "Done."
    assert len(calls_of(sink)) == 55


async def test_a_stop_ends_a_tool_that_runs(api: Api, model: MockModel) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def sleep() -> str:
        """Sleeps."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    conversation = await api.assistant.open(START)
    prompt = Prompt("t1", "!!tool sleep {}\n!!text Done.", tools=[Made(sleep)])
    running = asyncio.create_task(conversation.send(prompt, RecordingSink()))
    await asyncio.wait_for(begun.wait(), 10)
    await conversation.stop(running)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    assert len(model.requests) == 1


async def test_a_cut_while_a_call_is_written_is_no_second_call(api: Api, model: MockModel) -> None:
    tool = Made(add)
    ask = '!!and add {"a": 1, "b": 1}\n!!drop'
    failed = await failure(api.assistant, ask, tools=[tool])
    assert failed.resumable
    assert tool.calls == []
    assert len(model.requests) == 1


# ── Models that take none ────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_model_that_takes_no_tools_is_asked_without_from_then_on(api: Api, model: MockModel) -> None:
    used = _called("look", '{"at": 1}', content=[{"type": "text", "text": "a duck"}])
    history = [turn("before", parts=[used, {"kind": "markdown", "id": "m", "content": "A duck."}])]
    first = await tell(api.assistant, "!!no-tools\n!!text Hello.", tools=[Made(add)], history=history)
    assert first.text == "Hello."
    assert len(model.requests) == 2
    assert ["tools" in request.body for request in model.requests] == [True, False]
    assert "you cannot run code" in model.requests[1].texts[0][1]
    assert api.calls(model.requests[0]) == [("look", {"at": 1})]
    assert api.calls(model.requests[1]) == []
    assert "[The tool look said: a duck]" in model.requests[1].texts[2][1]
    [notice] = first.notices
    assert notice == f"{model.model} takes no tools: it answers from what it is told alone."

    again = await tell(api.assistant, "!!no-tools\n!!text Again.", tools=[Made(add)])
    assert len(model.requests) == 3
    assert again.notices == []


async def test_another_refusal_is_no_word_on_tools(api: Api, model: MockModel) -> None:
    await failure(api.assistant, "!!status 400", tools=[Made(add)])
    sink = await tell(api.assistant, '!!tool add {"a": 1, "b": 1}\n!!text Two.', tools=[Made(add)])
    assert len(calls_of(sink)) == 1, "it is offered them still"


# ── Images ───────────────────────────────────────────────────────────────────────────────────────────────────────────
async def draw() -> ToolResult:
    """Draws."""
    return ToolResult("Here it is.", images=[ImageBlock("a plot", "image/png", PNG)])


async def test_an_image_of_a_tool_is_shown_to_a_model_that_sees(
    model: MockModel, make_assistant: MakeAssistant
) -> None:
    anthropic = Api("anthropic", model, make_assistant)
    await tell(anthropic.assistant, "!!tool draw {}\n!!text I see.", tools=[Made(draw)])
    last = json.dumps(model.requests[-1].body["messages"])
    assert "image/png" in last
    assert "Here it is." in last

    openai = Api("openai", model, make_assistant, vision=True)
    await tell(openai.assistant, "!!tool draw {}", tools=[Made(draw)])
    assert "data:image/png" in json.dumps(model.requests[-1].body["messages"])


async def test_a_model_that_sees_none_is_told_that_there_is_one(
    model: MockModel, make_assistant: MakeAssistant
) -> None:
    api = Api("openai", model, make_assistant)
    sink = await tell(api.assistant, "!!tool draw {}\n!!text I do not see.", tools=[Made(draw)])
    [result] = api.results(model.requests[1])
    assert "Images that you cannot see: a plot" in result
    assert calls_of(sink)[0]["content"][1]["type"] == "embeddedResource", "people see it"


# ── What later turns know of it ──────────────────────────────────────────────────────────────────────────────────────
def _called(name: str, written: str | None, **fields: Any) -> Json:
    call: Json = {
        "toolCallId": f"id-{name}",
        "toolName": name,
        "displayName": name,
        "status": "completed",
        "success": True,
        "pastTenseMessage": f"Did {name}",
    }
    if written is not None:
        call["toolInput"] = written
    return {"kind": "toolCall", "toolCall": {**call, **fields}}


def _said(text: str) -> Json:
    return {"kind": "markdown", "id": f"p-{text}", "content": text}


async def test_earlier_calls_and_their_results_are_told_again_at_their_place(
    api: Api, model: MockModel
) -> None:
    tool = Made(add)
    first = await tell(
        api.assistant,
        '!!text One.\n!!tool add {"a": 1, "b": 1}\n!!text Two.\n!!and add {"a": 2, "b": 2}\n!!tool add {"a": 3, "b": 3}',
        tools=[tool],
    )
    model.requests.clear()
    await tell(api.assistant, "And then?", tools=[tool], history=[turn("sums", parts=first.parts)])
    [request] = model.requests
    assert api.calls(request) == [("add", {"a": number, "b": number}) for number in (1, 2, 3)]
    assert api.results(request) == ["2", "4", "6"]
    said = [text for role, text in request.texts if role in ("user", "assistant")]
    assert any("One." in text for text in said)
    assert said[-1].endswith("And then?")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"content": [], "structuredContent": {"rows": 3}}, '{"rows": 3}'),
        ({"content": []}, "Did look"),
        ({"success": False, "error": {"message": "No file."}}, "It failed. No file."),
        (
            {"status": "cancelled", "reason": "denied", "reasonMessage": "Not now."},
            "The person did not allow this call. They said: Not now.",
        ),
        ({"status": "cancelled", "reason": "skipped"}, "It was not finished: the turn ended before."),
        (
            {"status": "cancelled", "reason": "result-denied"},
            "It was done, and the person does not let you see what came out.",
        ),
        (
            {"content": [{"type": "embeddedResource", "data": "eA==", "contentType": "image/png"}]},
            "[Shown: image/png]",
        ),
        ({"content": [{"type": "resource", "uri": "file:///a.csv"}]}, "[file:///a.csv]"),
        (
            {
                "content": [
                    {"type": "terminal", "resource": "x:/", "title": "t", "result": {"preview": "a.csv"}}
                ]
            },
            "a.csv",
        ),
        ({"content": [{"type": "fileEdit", "after": {"uri": "file:///b.py"}}]}, "[Edited: file:///b.py]"),
        ({"content": [{"type": "fileEdit", "after": "odd"}, {"type": "later"}]}, "[Edited: a file]"),
        ({"content": [{"type": "terminal", "result": "odd"}]}, "[A terminal]"),
    ],
)
async def test_how_a_call_went_is_told_in_words(
    model: MockModel, make_assistant: MakeAssistant, fields: Json, told: str
) -> None:
    api = Api("openai", model, make_assistant)
    parts = [_called("look", '{"at": 1}', **fields), _said("Well.")]
    await tell(api.assistant, "Go on", tools=[Made(add)], history=[turn("before", parts=parts)])
    assert api.results(model.requests[0]) == [told]


async def test_odd_calls_are_told_so_that_an_api_takes_them(api: Api, model: MockModel) -> None:
    """Another backend's names and inputs, a call that was never written to its end."""
    parts = [
        _called("mcp: read file", "cat a.csv", content=[{"type": "text", "text": "1,2"}]),
        _called("half", None, status="cancelled", reason="skipped"),
        _said("Well."),
    ]
    parts[0]["toolCall"]["toolCallId"] = "über/1"
    await tell(api.assistant, "Go on", tools=[Made(add)], history=[turn("before", parts=parts)])
    assert api.calls(model.requests[0]) == [("mcp__read_file", {"input": "cat a.csv"})]
    assert api.results(model.requests[0]) == ["1,2"]
    assert "ü" not in json.dumps(model.requests[0].body, ensure_ascii=False)


async def test_what_earlier_calls_said_is_bounded_and_the_newest_is_told_first(
    model: MockModel, make_assistant: MakeAssistant
) -> None:
    api = Api("openai", model, make_assistant)
    count = 3 * ROOM // LONGEST
    history = [
        turn(
            f"t{number}",
            parts=[
                _called("look", "{}", content=[{"type": "text", "text": f"{number} " + "x" * 3 * LONGEST}]),
                _said("Well."),
            ],
        )
        for number in range(count)
    ]
    await tell(api.assistant, "Go on", tools=[Made(add)], history=history)
    results = api.results(model.requests[0])
    assert len(results) == count
    assert sum(map(len, results)) < ROOM + 50 * count
    assert results[-1].startswith(f"{count - 1} xx")
    assert results[0] == "[What it said is left out here.]"


async def test_a_turn_that_is_resumed_goes_on_from_its_calls(api: Api, model: MockModel) -> None:
    """What was done is not done again: the model is told, and asked for what comes behind it."""
    tool = Made(add)
    so_far = [
        _said("I add."),
        _called("add", '{"a": 2, "b": 3}', content=[{"type": "text", "text": "5"}]),
        {"kind": "error", "error": {"errorType": "busy", "message": "Busy"}, "resumable": True},
    ]
    ask = '!!tool add {"a": 2, "b": 3}\n!!text Five.'
    sink = await tell(api.assistant, Prompt("t1", ask, so_far=so_far, tools=[tool]))
    assert sink.text == "Five."
    assert tool.calls == []
    [request] = model.requests
    assert api.results(request) == ["5"]
    assert next(text for role, text in request.texts if role == "user").endswith("!!text Five.")


async def test_a_stopped_turn_says_so_behind_its_calls(api: Api, model: MockModel) -> None:
    parts = [_called("look", "{}", status="cancelled", reason="skipped")]
    history = [turn("before", state="cancelled", parts=parts)]
    await tell(api.assistant, "Go on", tools=[Made(add)], history=history)
    texts = [text for role, text in model.requests[0].texts if role == "assistant"]
    assert "[The answer was stopped here.]" in texts


async def test_a_long_chat_leaves_out_calls_with_their_results(api: Api, model: MockModel) -> None:
    """No result stands without its call: an API would refuse it."""
    history = [
        turn(
            f"{number} " + "why " * 50,
            parts=[
                _called("look", "{}", content=[{"type": "text", "text": f"{number}" * 200}]),
                _said("because " * 20),
            ],
        )
        for number in range(8)
    ]
    sink = await tell(api.assistant, "!!overflow 8\n!!text Well.", tools=[Made(add)], history=history)
    assert sink.text == "Well."
    last = model.requests[-1]
    assert len(api.calls(last)) == len(api.results(last)) < 8
    assert last.texts[1][0] == "user"
