"""T9: a chat that is longer than its model can read goes on without its beginning, and says so once, with numbers."""

from __future__ import annotations

import re

import pytest

from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.agents.assistant.history import LEFT_OUT
from jupyter_ahp.agents.base import Json, Prompt
from tests.agents.conftest import MakeAssistant
from tests.agents.recording import RecordingSink, failure, tell, turn
from tests.agents.some_tools import Made
from tests.mock_model import MockModel

HISTORY = [turn(f"{number} " + "why " * 100, f"{number} " + "because " * 50) for number in range(8)]
OPENAI = "openai"


@pytest.fixture(params=[OPENAI, "anthropic"])
def agent(request: pytest.FixtureRequest, make_assistant: MakeAssistant, model: MockModel) -> AssistantAgent:
    if request.param == OPENAI:
        return make_assistant(models=[{"base_url": model.base_url, "model": model.model}])
    environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": model.root_url}
    return make_assistant(environ=environ | {"OLLAMA_HOST": "127.0.0.1:1", "ANTHROPIC_MODEL": model.model})


def sizes(model: MockModel) -> list[int]:
    """How many messages each request had, without the system prompt."""
    return [len(request.texts) - 1 for request in model.requests]


async def test_T9_the_older_half_is_left_out_until_it_fits_and_the_person_is_told(
    agent: AssistantAgent, model: MockModel
) -> None:
    ask = "!!overflow 4\n!!text Well."
    sink = await tell(agent, ask, history=HISTORY)
    assert sink.text == "Well."
    assert sizes(model) == [17, 7, 3]
    told = model.requests[-1].texts[1:]
    assert [role for role, _ in told] == ["user", "assistant", "user"]
    assert told[0][1].startswith("7 why")
    assert told[-1][1] == ask
    [notice] = sink.notices
    assert notice.startswith(f"This chat is longer than {model.model} can read: {LEFT_OUT}")
    assert "14 of 17 messages" in notice
    left, whole = (
        int(number.replace(",", "")) for number in re.findall(r"(\d[\d,]*) (?:of|tokens)", notice)[-2:]
    )
    assert 0.6 < left / whole < 0.9
    assert [part["kind"] for part in sink.parts] == ["systemNotification", "markdown"]


async def test_T9_it_is_said_once_a_chat(agent: AssistantAgent, model: MockModel) -> None:
    first = await tell(agent, "!!overflow 6\n!!text Well.", history=HISTORY)
    again = await tell(
        agent, "!!overflow 6\n!!text Well.", history=[*HISTORY, turn("before", parts=first.parts)]
    )
    assert len(first.notices) == 1
    assert again.notices == []
    assert again.text == "Well."


async def test_a_message_that_does_not_fit_alone_fails_with_what_to_do(
    agent: AssistantAgent, model: MockModel
) -> None:
    sink = RecordingSink()
    failed = await failure(agent, "!!overflow", sink, history=HISTORY)
    assert failed.error_type == "context_length"
    assert sizes(model) == [17, 7, 3, 1]
    assert sink.notices == [], "nothing went on"


async def test_a_turn_that_is_resumed_is_kept_whole(agent: AssistantAgent, model: MockModel) -> None:
    steered = {"text": "!!overflow 4\n!!text Well.", "origin": {"kind": "user"}}
    so_far: list[Json] = [
        {"kind": "markdown", "id": "a", "content": "Half " * 500},
        {"kind": "systemNotification", "content": "", "_meta": {"jupyter-ahp.steering": steered}},
    ]
    sink = await tell(agent, Prompt("t1", "tell", so_far=so_far, history=HISTORY))
    assert sink.text == "Well."
    assert sizes(model)[-1] == 3
    assert [text[:4] for _, text in model.requests[-1].texts[1:]] == ["tell", "Half", "!!ov"]


async def test_what_a_tool_did_is_not_done_again(make_assistant: MakeAssistant, model: MockModel) -> None:
    async def look(at: int) -> str:
        """Look at it."""
        return "seen"

    tool = Made(look)
    agent = make_assistant(models=[{"base_url": model.base_url, "model": model.model}])
    ask = '!!tool look {"at": 1}\n!!overflow 12\n!!text Well.'
    sink = await tell(agent, ask, history=HISTORY, tools=[tool])
    assert sink.text == "Well."
    assert tool.calls == [{"at": 1}]
    assert [len(request.body["messages"]) for request in model.requests] == [18, 20, 10]
    assert [text for role, text in model.requests[-1].texts if role == "tool"] == ["seen"]
    assert [part["kind"] for part in sink.parts] == ["toolCall", "systemNotification", "markdown"]
