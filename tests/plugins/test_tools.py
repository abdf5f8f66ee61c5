"""Tools of plugins: a typed function is a tool of every agent that takes tools."""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from jupyter_ahp.host.ports import Json, Prompt, ToolCall, TurnSink
from jupyter_ahp.plugins import PluginHost, Tool, ToolResult, TurnContext
from tests.host.harness import Scripted, WireClient, until


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    x: int
    y: int = 0


@pytest.fixture
def agent() -> Scripted:
    agent = Scripted()
    agent.capabilities = replace(agent.capabilities, tools=True)
    return agent


class Model:
    """Calls one tool in each turn, and remembers what it was offered and told."""

    def __init__(self, agent: Scripted) -> None:
        self.offered: dict[str, Tool] = {}
        self.calls: tuple[str, Mapping[str, Any]] | None = None
        self.told: list[ToolResult] = []
        agent.play = self._play

    async def _play(self, prompt: Prompt, sink: TurnSink) -> None:
        self.offered = {tool.name: tool for tool in prompt.tools}
        if self.calls is not None:
            tool = self.offered[self.calls[0]]
            call = sink.tool(tool.name, title=tool.title, contributor=tool.contributor)
            self.told.append(await tool.call(call, self.calls[1]))


@pytest.fixture
def model(agent: Scripted) -> Model:
    return Model(agent)


async def called(
    model: Model, client: WireClient, chat: str, name: str, **arguments: Any
) -> tuple[ToolResult, Json]:
    """What the model was told, and the call as people see it."""
    model.calls = name, arguments
    turn = await client.say(chat, "Do it")
    return model.told[-1], turn["responseParts"][0]["toolCall"]


async def test_a_function_is_offered_with_what_its_signature_says(
    plugin: PluginHost, client: WireClient, chat: str, model: Model
) -> None:
    def paint(
        colour: Colour,
        where: Place,
        turn: TurnContext,
        mood: Literal["calm", "wild"] = "calm",
        layers: Annotated[int, msgspec.Meta(description="How many", ge=1)] = 1,
        names: list[str] = [],  # noqa: B006
    ) -> str:
        """Paint something.

        It stays.
        """
        return f"{colour.name} at {where.x},{where.y}, {mood}, {layers}, {names}, in {turn.chat}"

    plugin.register_tool(paint, effects="none")
    await client.say(chat, "What is there?")
    tool = model.offered["paint"]
    assert (tool.title, tool.effects, tool.contributor) == ("Paint", "none", None)
    assert tool.description == "Paint something.\n\nIt stays."
    properties = tool.parameters["properties"]
    assert set(properties) == {"colour", "where", "mood", "layers", "names"}, (
        "where it is called is no business of a model"
    )
    assert tool.parameters["required"] == ["colour", "where"]
    assert properties["layers"] == {"type": "integer", "minimum": 1, "description": "How many", "default": 1}

    result, call = await called(model, client, chat, "paint", colour="blue", where={"x": 3}, layers=2)
    assert result.text == f"BLUE at 3,0, calm, 2, [], in {chat}"
    assert not result.failed
    assert call["status"] == "completed"
    assert call["confirmed"] == "not-needed"
    assert call["success"] is True

    await plugin.unregister()
    model.calls = None
    await client.say(chat, "And now?")
    assert "paint" not in model.offered


@pytest.mark.parametrize(
    "arguments",
    [{}, {"colour": "green", "where": {"x": 1}}, {"colour": "red", "where": {"x": "1"}}, {"a": 1}],
)
async def test_what_a_model_gets_wrong_is_told_it_and_nothing_runs(
    plugin: PluginHost, client: WireClient, chat: str, model: Model, arguments: Json
) -> None:
    ran = []

    def paint(colour: Colour, where: Place) -> None:
        """Paint."""
        ran.append(colour)

    plugin.register_tool(paint, effects="none")
    result, call = await called(model, client, chat, "paint", **arguments)
    assert result.failed
    assert "arguments" in result.text
    assert call["success"] is False
    assert ran == []


async def test_a_tool_that_changes_something_asks_first(
    plugin: PluginHost, client: WireClient, chat: str, model: Model
) -> None:
    ran = []

    async def delete(name: str) -> None:
        """Delete it."""
        ran.append(name)

    plugin.register_tool(delete)  # "run", as nothing else was said
    model.calls = "delete", {"name": "it"}
    turn = await client.start(chat, "Do it")
    await until(lambda: client.state(chat)["status"] & 16)
    assert ran == []
    part = client.state(chat)["activeTurn"]["responseParts"][0]["toolCall"]
    assert part["status"] == "pending-confirmation"
    await client.do(
        chat,
        "chat/toolCallConfirmed",
        turnId=turn,
        toolCallId=part["toolCallId"],
        approved=True,
        confirmed="user-action",
    )
    await until(lambda: not client.running(chat))
    assert ran == ["it"]
    assert model.told[-1].text == "Done."


async def test_what_it_returns_and_raises_is_what_the_model_is_told(
    plugin: PluginHost, client: WireClient, chat: str, model: Model
) -> None:
    threads = []

    def answer(kind: str) -> Any:
        """Answer."""
        threads.append(threading.current_thread())
        match kind:
            case "place":
                return Place(1, 2)
            case "list":
                return [1, "zwei"]
            case "result":
                return ToolResult("told", message="Answered", structured={"a": 1})
        raise ValueError(f"There is no {kind}.")

    plugin.register_tool(answer, effects="read", name="give-answer", title="Give an answer")
    result, call = await called(model, client, chat, "give-answer", kind="place")
    assert result.text == '{"x": 1, "y": 2}'
    assert call["structuredContent"] == {"x": 1, "y": 2}
    result, _ = await called(model, client, chat, "give-answer", kind="list")
    assert result.text == '[1, "zwei"]'
    result, call = await called(model, client, chat, "give-answer", kind="result")
    assert (result.text, call["pastTenseMessage"]) == ("told", "Answered")
    result, call = await called(model, client, chat, "give-answer", kind="moon")
    assert (result.failed, call["success"]) == (True, False)
    assert "There is no moon." in result.text
    assert threading.main_thread() not in threads


async def test_a_tool_of_ones_own_making_does_everything_itself(
    plugin: PluginHost, client: WireClient, chat: str, model: Model
) -> None:
    class Own(Tool):
        name = "own"
        title = "Own"
        description = "Does it its own way."
        parameters: Json = {"type": "object", "properties": {}}
        effects = "none"

        async def call(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
            call.run("Going")
            call.done("Gone")
            return ToolResult("gone")

    plugin.register_tool(Own())
    result, call = await called(model, client, chat, "own")
    assert (result.text, call["pastTenseMessage"]) == ("gone", "Gone")


def untyped(name, size: int) -> None:  # type: ignore[no-untyped-def]
    """Has a parameter without a type."""


def silent(name: str) -> None: ...


def with_rest(*names: str) -> None:
    """Takes any number."""


def with_path(path: Path) -> None:
    """Takes what JSON does not have."""


@pytest.mark.parametrize(
    ("function", "more", "words"),
    [
        (untyped, {}, "parameter name of the tool untyped needs a type"),
        (silent, {}, "says nothing of what it does"),
        (with_rest, {}, "cannot give by its name"),
        (with_path, {}, "cannot be said in JSON"),
        (untyped, {"name": "two words"}, "cannot name a tool"),
        (untyped, {"effects": "all"}, "There are: none, read, write, run"),
    ],
)
def test_a_function_that_does_not_do_is_refused_with_the_reason(
    plugin: PluginHost, function: Any, more: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        plugin.register_tool(function, **more)
