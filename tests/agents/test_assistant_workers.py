"""Workers of the assistant (W1 to W5), what they use with what the turn uses, and how much a model is to think."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.base import Json
from jupyter_ahp.protocol.meta import COST
from tests.agents.conftest import MakeAssistant
from tests.agents.desk import PATIENCE, SESSION, Desk, at_desk
from tests.agents.recording import tell
from tests.host.harness import answer_of, until
from tests.mock_model import MockModel


@pytest.fixture
async def desk(tmp_path: Path, make_assistant: MakeAssistant, model: MockModel) -> AsyncIterator[Desk]:
    directory = tmp_path / "work"
    directory.mkdir()
    entry = {"id": "mock", "name": "Mock", "base_url": model.base_url, "model": model.model}
    async with at_desk(make_assistant(models=[entry]), model, directory) as desk:
        yield desk


def delegate(title: str, prompt: str) -> str:
    return f"delegate {json.dumps({'title': title, 'prompt': prompt})}"


async def workers(desk: Desk, count: int) -> list[str]:
    """The chats of that many workers, watched."""
    link = desk.chat

    def found() -> list[str]:
        chats = desk.client.state(SESSION)["chats"]
        return [
            chat["resource"]
            for chat in chats
            if (chat.get("origin") or {}).get("kind") == "tool" and chat["origin"]["chat"] == link
        ]

    await until(lambda: len(found()) == count, PATIENCE)
    for chat in found():
        for client in (desk.client, desk.other):
            await client.subscribe(chat)
    return found()


async def test_W1_W3_a_worker_does_its_task_in_a_chat_of_its_own_and_its_answer_goes_back(desk: Desk) -> None:
    (desk.directory / "a.txt").write_text("42")
    task = '!!tool read_file {"path": "a.txt"}\n!!text It is 42.'
    await desk.client.start(desk.chat, f"!!tool {delegate('Look it up', task)}\n!!text They say 42.")
    turn = await desk.ended()
    assert answer_of(turn) == "They say 42."
    assert desk.results() == ["It is 42."]
    [chat] = await workers(desk, 1)
    state = desk.client.state(chat)
    [worked] = state["turns"]
    assert (state["title"], worked["message"]["text"], worked["state"]) == ("Look it up", task, "complete")
    assert answer_of(worked) == "It is 42."
    [shown, *_] = turn["responseParts"][0]["toolCall"]["content"]
    assert (shown["type"], shown["resource"]) == ("subagent", chat)

    first, inner, _, _ = desk.model.requests
    offered = [[tool["function"]["name"] for tool in each.body["tools"]] for each in (first, inner)]
    assert "delegate" in offered[0]
    assert "delegate" not in offered[1], "one level"
    assert set(offered[0]) - set(offered[1]) == {"delegate"}
    assert [text for _, text in inner.texts[1:]] == [task], "it sees nothing of the chat"
    assert "You are a worker" in inner.texts[0][1]


async def test_W4_what_a_worker_asks_is_answered_in_its_chat(desk: Desk) -> None:
    task = '!!tool write_file {"path": "a.txt", "content": "x"}\n!!text Written.'
    await desk.client.start(desk.chat, f"!!tool {delegate('Write', task)}\n!!text Good.")
    [chat] = await workers(desk, 1)
    await until(lambda: any(c["status"] == "pending-confirmation" for c in desk.client.calls(chat)), PATIENCE)
    assert not (desk.directory / "a.txt").exists()
    await desk.client.of_call(
        chat,
        "chat/toolCallConfirmed",
        approved=True,
        confirmed="user-action",
        selectedOptionId="allow-once",
    )
    await desk.ended()
    assert (desk.directory / "a.txt").read_text() == "x"
    assert desk.results() == ["Written."]


async def test_several_work_at_the_same_time(desk: Desk) -> None:
    def waits(mine: str, other: str) -> str:
        command = f"touch {mine}; while [ ! -e {other} ]; do sleep 0.05; done; echo met"
        return f'!!tool run_command {{"command": "{command}"}}\n!!text {mine} met {other}.'

    said = f"!!and {delegate('A', waits('a', 'b'))}\n!!tool {delegate('B', waits('b', 'a'))}\n!!text Both."
    await desk.client.do(SESSION, "session/configChanged", config={"approvals": "auto"})
    await desk.client.start(desk.chat, said)
    await desk.ended()
    assert sorted(desk.results()) == ["a met b.", "b met a."]


async def test_a_worker_that_fails_is_told_to_the_model_which_goes_on(desk: Desk) -> None:
    await desk.client.start(desk.chat, f"!!tool {delegate('Fail', '!!status 401')}\n!!text So be it.")
    turn = await desk.ended()
    assert answer_of(turn) == "So be it."
    assert "The worker failed" in desk.results()[0]
    [chat] = await workers(desk, 1)
    assert desk.client.state(chat)["turns"][0]["state"] == "error"


async def test_W4_a_worker_is_stopped_alone(desk: Desk) -> None:
    await desk.client.start(desk.chat, f"!!tool {delegate('Long', '!!chunks 10000 0.01')}\n!!text So be it.")
    [chat] = await workers(desk, 1)
    await until(lambda: "chat/delta" in desk.client.kinds(chat), PATIENCE)
    turn = desk.client.state(chat)["activeTurn"]["id"]
    await desk.client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    assert answer_of(await desk.ended()) == "So be it."
    assert "A person stopped the worker." in desk.results()[0]
    assert desk.client.state(chat)["turns"][0]["state"] == "cancelled"
    assert desk.model.requests[1].aborted


async def test_a_stop_of_the_turn_ends_its_workers(desk: Desk) -> None:
    turn = await desk.client.start(
        desk.chat, f"!!tool {delegate('Long', '!!chunks 10000 0.01')}\n!!text So be it."
    )
    [chat] = await workers(desk, 1)
    await until(lambda: "chat/delta" in desk.client.kinds(chat), PATIENCE)
    await desk.client.do(desk.chat, "chat/turnCancelled", turnId=turn, duration=1)
    await desk.ended()
    await until(lambda: "activeTurn" not in desk.client.state(chat), PATIENCE)
    assert desk.client.state(chat)["turns"][0]["state"] == "cancelled"
    await desk.model.until(lambda model: model.requests[1].aborted, PATIENCE)


async def test_what_workers_use_is_in_what_the_turn_used(desk: Desk) -> None:
    task = "!!cost 0.02\n!!text one two three"
    await desk.client.start(desk.chat, f"!!cost 0.01\n!!tool {delegate('Count', task)}\n!!text four")
    turn = await desk.ended()
    [chat] = await workers(desk, 1)
    [worked] = desk.client.state(chat)["turns"]
    assert worked["usage"]["outputTokens"] == 3
    assert worked["usage"]["_meta"] == {COST: {"amount": 0.02, "currency": "USD"}}
    assert turn["usage"]["outputTokens"] >= 4
    assert turn["usage"]["_meta"] == {COST: {"amount": 0.03, "currency": "USD"}}
    assert turn["usage"]["model"] == desk.model.model


# ── How much to think ────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_model_is_told_how_much_to_think_when_somebody_says_so(desk: Desk) -> None:
    await desk.client.start(desk.chat, "!!text one")
    await desk.ended()
    await desk.client.do(SESSION, "session/configChanged", config={"effort": "high"})
    await desk.client.start(desk.chat, "!!text two")
    await desk.ended(2)
    said = [request.body.get("reasoning_effort") for request in desk.model.requests]
    assert said == [None, "high"]


async def test_anthropic_is_told_in_its_own_way(make_assistant: MakeAssistant, model: MockModel) -> None:
    environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": model.root_url}
    environ |= {"ANTHROPIC_MODEL": "claude-sonnet-4-5", "OLLAMA_HOST": "127.0.0.1:1"}
    config: dict[str, Any] = {"effort": "high"}
    sink = await tell(make_assistant(environ=environ), "!!text Hello", config=config)
    assert sink.text == "Hello"
    body = model.requests[0].body
    assert body.get("thinking") is not None or "effort" in str(body.get("output_config"))


async def test_a_model_that_is_not_to_be_told_is_asked_without_and_never_again_with(
    make_assistant: MakeAssistant, model: MockModel
) -> None:
    agent = make_assistant(models=[{"base_url": model.base_url, "model": model.model}])
    config: Json = {"effort": "low"}
    first = await tell(agent, "!!no-effort\n!!text Well.", config=config)
    again = await tell(agent, "!!text Again.", config=config)
    assert (first.text, again.text) == ("Well.", "Again.")
    assert [("reasoning_effort" in request.body) for request in model.requests] == [True, False, False]
    assert first.notices == [f"{model.model} takes no setting of its effort: it is asked without."]
    assert again.notices == []


async def test_no_cost_is_said_where_the_api_says_none(
    make_assistant: MakeAssistant, model: MockModel
) -> None:
    agent = make_assistant(models=[{"base_url": model.base_url, "model": model.model}])
    sink = await tell(agent, "!!text Hello")
    assert sink.used is not None
    assert "_meta" not in sink.used
