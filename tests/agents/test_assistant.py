"""The assistant against a model server over real HTTP: what it streams, what the model is told, stop and resume."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.agents.assistant.history import GO_ON
from jupyter_ahp.agents.base import ImageBlock, Json, PathBlock, Prompt, TextBlock
from tests.agents.conftest import MakeAssistant
from tests.agents.recording import START, RecordingSink, failure, tell, turn, until
from tests.mock_model import MockModel

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


async def test_an_answer_streams_piece_by_piece(assistant: AssistantAgent, model: MockModel) -> None:
    said = await tell(assistant, "!!text The mean is $\\bar x$.")
    assert said.text == "The mean is $\\bar x$."
    assert len(said.deltas) == 5
    assert said.activities == ["Starting the assistant, first time only", "Thinking", None]
    again = await tell(assistant, "!!text It is the median.")
    assert again.activities == ["Thinking", None]
    assert model.requests[0].body["stream"] is True


async def test_text_reaches_the_sink_while_the_model_still_writes(
    assistant: AssistantAgent, model: MockModel
) -> None:
    sink = RecordingSink()
    running = asyncio.create_task(tell(assistant, "!!text first \n!!hang", sink))
    await until(lambda: sink.text == "first ")
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_reasoning_comes_before_the_answer(assistant: AssistantAgent) -> None:
    said = await tell(assistant, "!!think Two and two\n!!text Four")
    assert [part["kind"] for part in said.parts] == ["reasoning", "markdown"]
    assert (said.thought, said.text) == ("Two and two", "Four")


async def test_usage_is_what_the_model_reported(assistant: AssistantAgent) -> None:
    said = await tell(assistant, "!!text one two three")
    assert said.used is not None
    assert said.used["outputTokens"] == 3
    assert said.used["inputTokens"] > 3
    assert said.used["cacheReadTokens"] == 3
    assert said.used["model"] == "mock-model"


async def test_no_usage_is_said_when_none_was_reported(assistant: AssistantAgent) -> None:
    assert (await tell(assistant, "!!text one\n!!no-usage")).used is None


async def test_an_answer_at_the_length_limit_says_so(assistant: AssistantAgent) -> None:
    said = await tell(assistant, "!!text one\n!!length")
    assert said.text == "one"
    assert "limit of length" in said.notices[0]


async def test_stop_closes_the_connection_within_a_second(
    assistant: AssistantAgent, model: MockModel
) -> None:
    sink = RecordingSink()
    conversation = await assistant.open(START)
    running = asyncio.create_task(conversation.send(Prompt("t1", "!!chunks 10000 0.01"), sink))
    await until(lambda: len(sink.deltas) > 5)
    began = time.monotonic()
    await conversation.stop(running)
    with pytest.raises(asyncio.CancelledError):
        await running
    await model.until(lambda model: model.requests[0].aborted, 1)
    assert time.monotonic() - began < 1
    assert sink.text.startswith("c0 c1 ")


async def test_stop_before_the_first_word_closes_the_connection(
    assistant: AssistantAgent, model: MockModel
) -> None:
    running = asyncio.create_task(tell(assistant, "!!delay 30"))
    await model.until(lambda model: len(model.requests) == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await model.until(lambda model: model.requests[0].aborted, 1)


async def test_stop_while_waiting_to_ask_again_asks_no_more(
    make_assistant: MakeAssistant, model: MockModel
) -> None:
    entry = {"base_url": model.base_url, "model": model.model}
    assistant = make_assistant(models=[entry], backoff_seconds=5)
    sink = RecordingSink()
    running = asyncio.create_task(tell(assistant, "!!status 503", sink))
    await until(lambda: sink.activities[-1:] == ["Asking again, the server was busy (2 of 5)"])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(model.requests) == 1


async def test_a_conversation_goes_on_after_a_stop(assistant: AssistantAgent) -> None:
    conversation = await assistant.open(START)
    running = asyncio.create_task(conversation.send(Prompt("t1", "!!hang"), RecordingSink()))
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    again = RecordingSink()
    await conversation.send(Prompt("t2", "!!text well"), again)
    assert again.text == "well"


# ── What the model is told ───────────────────────────────────────────────────────────────────────────────────────────
async def test_the_model_is_told_the_whole_chat_in_order(assistant: AssistantAgent, model: MockModel) -> None:
    history = [turn("My name is Ana.", "Hello Ana."), turn("And Bo?", "Hello Bo.")]
    await tell(assistant, "Who am I?", history=history)
    [(role, instructions), *rest] = model.requests[0].texts
    assert role == "system"
    assert "Jupyter" in instructions
    assert rest == [
        ("user", "My name is Ana."),
        ("assistant", "Hello Ana."),
        ("user", "And Bo?"),
        ("assistant", "Hello Bo."),
        ("user", "Who am I?"),
    ]


async def test_reasoning_notices_and_errors_are_not_told_again(
    assistant: AssistantAgent, model: MockModel
) -> None:
    parts = [
        {"kind": "reasoning", "id": "a", "content": "hmm"},
        {"kind": "markdown", "id": "b", "content": "One."},
        {"kind": "systemNotification", "content": "compacted"},
        {"kind": "markdown", "id": "c", "content": "Two."},
    ]
    await tell(assistant, "more", history=[turn("count", parts=parts)])
    assert model.requests[0].texts[2] == ("assistant", "One.\n\nTwo.")


async def test_turns_without_an_answer_are_merged_with_what_follows(
    assistant: AssistantAgent, model: MockModel
) -> None:
    history = [turn("first", state="cancelled"), turn("second", state="error")]
    await tell(assistant, "third", history=history)
    assert model.requests[0].texts[1:] == [("user", "first\n\nsecond\n\nthird")]


async def test_a_stopped_answer_is_kept_and_said_to_be_stopped(
    assistant: AssistantAgent, model: MockModel
) -> None:
    await tell(assistant, "next", history=[turn("long", "It begins", state="cancelled")])
    role, text = model.requests[0].texts[2]
    assert role == "assistant"
    assert text.startswith("It begins\n")
    assert "stopped" in text


async def test_an_empty_message_is_said_to_be_one_and_asks_nobody(
    assistant: AssistantAgent, model: MockModel
) -> None:
    failed = await failure(assistant, "", history=[turn("before", "An answer.")])
    assert failed.error_type == "empty"
    assert model.requests == []


async def test_attachments_stand_before_the_message(assistant: AssistantAgent, model: MockModel) -> None:
    blocks = [TextBlock("a.csv", "x,y\n1,2"), PathBlock("big.parquet", "/data/big.parquet")]
    await tell(assistant, "What is this?", blocks=blocks)
    _, text = model.requests[0].texts[-1]
    assert "a.csv:\n```\nx,y\n1,2\n```" in text
    assert "not shown to you: big.parquet" in text
    assert text.endswith("What is this?")


async def test_A1_an_image_goes_to_a_model_that_sees(make_assistant: MakeAssistant, model: MockModel) -> None:
    entry = {"base_url": model.base_url, "model": model.model, "vision": True}
    await tell(
        make_assistant(models=[entry]), "What is this?", blocks=[ImageBlock("plot.png", "image/png", PNG)]
    )
    _, text = model.requests[0].texts[-1]
    assert "[image/png]" in text
    assert "plot.png" in text


async def test_an_image_is_named_to_a_model_that_does_not_see(
    assistant: AssistantAgent, model: MockModel
) -> None:
    sink = await tell(assistant, "What is this?", blocks=[ImageBlock("plot.png", "image/png", PNG)])
    _, text = model.requests[0].texts[-1]
    assert "plot.png, which you cannot see" in text
    assert "Mock does not see images: plot.png was only named to it." in str(sink.parts[0]), (
        "nor does the person guess"
    )
    assert "[image/png]" not in text


async def test_attachments_of_earlier_turns_are_told_again(
    assistant: AssistantAgent, model: MockModel
) -> None:
    attachments = [
        {"type": "simple", "label": "cell 3", "modelRepresentation": "df.head()"},
        {"type": "embeddedResource", "label": "n.txt", "contentType": "text/plain", "data": "bm90ZXM="},
        {"type": "embeddedResource", "label": "p.png", "contentType": "image/png", "data": "AAAA"},
        {"type": "resource", "label": "d.csv", "uri": "file:///home/me/d%20.csv"},
    ]
    await tell(assistant, "again", history=[turn("look", "Seen.", attachments=attachments)])
    _, text = model.requests[0].texts[1]
    for told in ("df.head()", "notes", "p.png", "not shown to you: d.csv"):
        assert told in text
    assert text.endswith("look")


# ── Resuming ─────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_resumed_turn_has_its_own_words_and_is_asked_to_go_on(
    assistant: AssistantAgent, model: MockModel
) -> None:
    so_far: list[Json] = [
        {"kind": "markdown", "id": "a", "content": "The first half"},
        {"kind": "error", "error": {"errorType": "connection", "message": "cut"}, "resumable": True},
    ]
    await tell(assistant, Prompt("t1", "Tell me all.", so_far=so_far))
    assert model.requests[0].texts[1:] == [
        ("user", "Tell me all."),
        ("assistant", "The first half"),
        ("user", GO_ON),
    ]


async def test_a_turn_that_failed_before_a_word_is_asked_again_as_it_was(
    assistant: AssistantAgent, model: MockModel
) -> None:
    so_far = [{"kind": "error", "error": {"errorType": "busy", "message": "busy"}, "resumable": True}]
    await tell(assistant, Prompt("t1", "Tell me.", so_far=so_far))
    assert model.requests[0].texts[1:] == [("user", "Tell me.")]


async def test_later_turns_see_a_resumed_answer_in_one_piece(
    assistant: AssistantAgent, model: MockModel
) -> None:
    parts: list[Json] = [
        {"kind": "markdown", "id": "a", "content": "The first ha"},
        {"kind": "error", "error": {"errorType": "connection", "message": "cut"}, "resumable": True},
        {"kind": "markdown", "id": "b", "content": "lf and the second."},
    ]
    await tell(assistant, "thanks", history=[turn("tell", parts=parts)])
    assert model.requests[0].texts[2] == ("assistant", "The first half and the second.")


async def test_a_cut_answer_can_be_resumed_to_its_end(assistant: AssistantAgent) -> None:
    sink = RecordingSink()
    failed = await failure(assistant, "!!chunks 3\n!!drop", sink)
    assert failed.resumable
    assert sink.text == "c0 c1 c2 "
    so_far = [
        *sink.parts,
        {"kind": "error", "error": {"errorType": failed.error_type, "message": failed.message}},
    ]
    again = await tell(assistant, Prompt("t1", "!!chunks 3\n!!drop", so_far=so_far))
    assert GO_ON[:30] in again.text


# ── Which model ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_the_chosen_model_is_asked(make_assistant: MakeAssistant, model: MockModel) -> None:
    models = [{"id": name, "base_url": model.base_url, "model": name} for name in ("one", "two")]
    assistant = make_assistant(models=models)
    await tell(assistant, "hello", model="two")
    await tell(assistant, "hello")
    assert [request.body["model"] for request in model.requests] == ["two", "one"]


async def test_a_model_that_is_gone_is_said_with_what_there_is(assistant: AssistantAgent) -> None:
    failed = await failure(assistant, "hello", model="gone")
    assert failed.error_type == "model_not_found"
    assert "gone" in failed.message
    assert "Mock" in failed.message


async def test_anthropic_streams_text_and_reasoning(make_assistant: MakeAssistant, model: MockModel) -> None:
    environ = {
        "ANTHROPIC_API_KEY": "sk-ant-secret",
        "ANTHROPIC_BASE_URL": model.root_url,
        "OLLAMA_HOST": "127.0.0.1:1",
    }
    said = await tell(make_assistant(environ=environ), "!!think Hm\n!!text Yes indeed")
    assert (said.thought, said.text) == ("Hm", "Yes indeed")
    assert said.used is not None
    assert said.used["outputTokens"] == 3
    assert model.requests[0].path.startswith("/v1/messages")
    assert model.requests[0].authorized


async def test_the_import_of_the_model_library_does_not_stop_the_loop() -> None:
    code = """
import asyncio, sys, time
from jupyter_ahp.agents.assistant import AssistantAgent
from tests.agents.recording import failure
assert "pydantic_ai" not in sys.modules
async def main():
    worst = last = 0.0
    agent = AssistantAgent(models=[{"base_url": "http://127.0.0.1:1/v1", "model": "m"}], environ={})
    load = asyncio.ensure_future(failure(agent, 'hello'))
    began = last = time.monotonic()
    while not load.done():
        await asyncio.sleep(0.001)
        worst, last = max(worst, time.monotonic() - last), time.monotonic()
    await agent.close()
    print(worst / (time.monotonic() - began))
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert float(out) < 0.5, "of the time that it took: in the loop's own thread it would be nearly all"
