"""T9: a chat that is longer than its model can read goes on with a summary of its beginning, and says so with numbers.

Where no summary is to be had, it goes on without its beginning.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.agents.assistant.compaction import SUMMARISE
from jupyter_ahp.agents.assistant.history import LEFT_OUT, SUMMARISED
from jupyter_ahp.agents.base import ImageBlock, Json, Prompt, ToolResult
from jupyter_ahp.protocol.meta import SUMMARY
from jupyter_ahp.store.memory import MemoryStore
from tests.agents.conftest import MakeAssistant
from tests.agents.desk import at_desk
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
    """How many messages each request had, without the system prompt; those that asked for a summary are 0."""
    return [
        0
        if request.texts[-1][1].endswith(SUMMARISE)
        else len([1 for role, _ in request.texts if role != "system"])
        for request in model.requests
    ]


def summaries(sink: RecordingSink) -> list[Json]:
    return [part["_meta"][SUMMARY] for part in sink.parts if SUMMARY in part.get("_meta", {})]


def after(sink: RecordingSink) -> list[Json]:
    """The chat with that turn as its last."""
    return [*HISTORY, turn("before", parts=sink.parts)]


# ── A summary ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_T9_what_was_said_first_is_summarised_and_the_person_is_told(
    agent: AssistantAgent, model: MockModel
) -> None:
    ask = "!!overflow 6\n!!text Well."
    sink = await tell(agent, ask, history=HISTORY)
    assert sink.text == "Well."
    refused, *asked, answered = sizes(model)
    assert (refused, answered) == (17, 5)
    assert asked
    assert set(asked) == {0}

    [summary] = summaries(sink)
    assert summary["through"] == HISTORY[5]["id"], "two turns fit as they are"
    assert summary["text"].startswith("The mock model was told")
    first, *kept, last = model.requests[-1].texts[-5:]
    assert first[1].startswith(f"[{SUMMARISED}]\n\n{summary['text']}\n\n6 why")
    assert [text[:5] for _, text in kept] == ["6 bec", "7 why", "7 bec"]
    assert last[1] == ask

    [notice] = sink.notices
    assert notice.startswith(f"This chat became longer than {model.model} can read")
    assert "6 turns" in notice
    before, became = (int(number.replace(",", "")) for number in re.findall(r"about (\d[\d,]*)", notice))
    assert before > 1000 > became
    assert [part["kind"] for part in sink.parts] == ["systemNotification", "markdown"]
    assert "Summarising what was said first, to make room" in sink.activities


async def test_T9_all_that_is_summarised_is_told_to_whoever_summarises_it(
    agent: AssistantAgent, model: MockModel
) -> None:
    await tell(agent, "!!overflow 6\n!!text Well.", history=HISTORY)
    asked = [request.texts[-1][1] for request in model.requests if request.texts[-1][1].endswith(SUMMARISE)]
    asked = [text.rpartition("<conversation>")[2] for text in asked]
    for number in range(6):
        assert sum(f"Person: {number} why" in text for text in asked) == 1
        assert sum(f"You: {number} because" in text for text in asked) == 1
    assert len(asked) > 1, "in pieces that it can read"
    assert "A summary of what was said ahead of this" in model.requests[-2].texts[-1][1]


async def test_T9_later_turns_are_told_the_summary_and_ask_for_none(
    agent: AssistantAgent, model: MockModel
) -> None:
    first = await tell(agent, "!!overflow 6\n!!text Well.", history=HISTORY)
    count = len(model.requests)
    again = await tell(agent, "!!overflow 8\n!!text Again.", history=after(first))
    assert (again.text, again.notices) == ("Again.", [])
    assert sizes(model)[count:] == [7], "in one request"
    assert model.requests[-1].texts[-7][1].startswith(f"[{SUMMARISED}]")


async def test_X1_S2_a_rewind_ahead_of_it_has_all_again_and_a_fork_behind_it_has_the_summary(
    agent: AssistantAgent, model: MockModel
) -> None:
    first = await tell(agent, "!!overflow 6\n!!text Well.", history=HISTORY)
    await tell(agent, "!!text Rewound.", history=HISTORY[:7])
    assert sizes(model)[-1] == 15
    assert SUMMARISED not in str(model.requests[-1].body)
    await tell(agent, "!!text Forked.", history=after(first))
    assert SUMMARISED in str(model.requests[-1].body)


async def test_T9_a_summary_grows_with_the_chat(agent: AssistantAgent, model: MockModel) -> None:
    first = await tell(agent, "!!overflow 6\n!!text Well.", history=HISTORY)
    longer = [*after(first), *(turn(f"{n} " + "why " * 100, f"{n} " + "because " * 50) for n in "abcdef")]
    again = await tell(agent, "!!overflow 8\n!!text Again.", history=longer)
    [summary] = summaries(again)
    assert summary["through"] in [one["id"] for one in longer[9:]]
    asked = [request.texts[-1][1] for request in model.requests if request.texts[-1][1].endswith(SUMMARISE)]
    assert any(
        "A summary of what was said ahead of this" in text and "Person: before" in text for text in asked
    )


async def test_a_turn_that_is_resumed_behind_its_summary_is_told_it(
    agent: AssistantAgent, model: MockModel
) -> None:
    first = await tell(agent, "!!overflow 6\n!!text Half.", history=HISTORY)
    await tell(agent, Prompt("t1", "ask", so_far=first.parts, history=HISTORY))
    texts = [text for role, text in model.requests[-1].texts if role != "system"]
    assert texts[0].startswith(f"[{SUMMARISED}]")
    assert len(texts) == 7


async def test_T9_where_the_window_is_known_no_request_is_refused(
    make_assistant: MakeAssistant, model: MockModel
) -> None:
    entry = {"base_url": model.base_url, "model": model.model, "context_window": 1500}
    sink = await tell(make_assistant(models=[entry]), "!!overflow 6\n!!text Well.", history=HISTORY)
    assert sink.text == "Well."
    assert len(summaries(sink)) == 1
    assert sizes(model)[0] == 0
    assert sizes(model)[-1] <= 5


async def test_what_a_summary_used_is_in_what_the_turn_used(agent: AssistantAgent, model: MockModel) -> None:
    sink = await tell(agent, "!!overflow 6\n!!text Well.", history=HISTORY)
    assert sink.used is not None
    assert sink.used["outputTokens"] > 10, "Well. is one"


async def test_T9_a_restart_knows_the_summary(
    make_assistant: MakeAssistant, model: MockModel, tmp_path: Path
) -> None:
    entry = {"base_url": model.base_url, "model": model.model}
    store = MemoryStore()
    async with at_desk(make_assistant(models=[entry]), model, tmp_path, store) as desk:
        for number in range(4):
            await desk.client.start(desk.chat, f"{'words ' * 300}\n!!text {'answer ' * 300}")
            await desk.ended(number + 1)
        await desk.client.start(desk.chat, "!!overflow 3\n!!text Well.")
        await desk.ended(5)
    count = len(model.requests)
    async with at_desk(make_assistant(models=[entry]), model, tmp_path, store) as desk:
        await desk.client.start(desk.chat, "!!text There?")
        await desk.ended(6)
    assert len(model.requests) == count + 1
    assert model.requests[-1].texts[1][1].startswith(f"[{SUMMARISED}]")


async def test_a_refusal_of_pictures_says_nothing_of_how_much_text_a_model_reads(
    make_assistant: MakeAssistant, model: MockModel
) -> None:
    entry = {"base_url": model.base_url, "model": model.model, "vision": True}
    agent = make_assistant(models=[entry])
    blocks = [ImageBlock("p.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(16))]
    failed = await failure(agent, Prompt("t1", "!!overflow", blocks))
    assert failed.error_type == "context_length"
    count = len(model.requests)
    await tell(agent, "!!text Well.", history=HISTORY)
    assert sizes(model)[count:] == [17], "all of it, at once"


# ── Without one ──────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def without(agent: AssistantAgent, model: MockModel) -> AssistantAgent:
    """Its model makes no summaries."""
    model.refuses = SUMMARISE
    return agent


async def test_T9_the_older_half_is_left_out_until_it_fits_and_the_person_is_told(
    without: AssistantAgent, model: MockModel
) -> None:
    ask = "!!overflow 4\n!!text Well."
    sink = await tell(without, ask, history=HISTORY)
    assert sink.text == "Well."
    assert sizes(model) == [17, 0, 7, 3]
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


async def test_T9_it_is_said_once_a_chat_and_the_limit_is_remembered(
    without: AssistantAgent, model: MockModel
) -> None:
    first = await tell(without, "!!overflow 7\n!!text Well.", history=HISTORY)
    count = len(model.requests)
    again = await tell(without, "!!overflow 9\n!!text Well.", history=after(first))
    assert len(first.notices) == 1
    assert again.notices == []
    assert again.text == "Well."
    [size] = sizes(model)[count:]
    assert 1 < size < 19, "nothing is sent that is known to be refused"


async def test_a_message_that_does_not_fit_alone_fails_with_what_to_do(
    without: AssistantAgent, model: MockModel
) -> None:
    sink = RecordingSink()
    failed = await failure(without, "!!overflow", sink, history=HISTORY)
    assert failed.error_type == "context_length"
    assert sizes(model) == [17, 0, 7, 3, 1]
    assert sink.notices == [], "nothing went on"


async def test_a_turn_that_is_resumed_is_kept_whole(without: AssistantAgent, model: MockModel) -> None:
    steered = {"text": "!!overflow 4\n!!text Well.", "origin": {"kind": "user"}}
    so_far: list[Json] = [
        {"kind": "markdown", "id": "a", "content": "Half " * 500},
        {"kind": "systemNotification", "content": "", "_meta": {"jupyter-ahp.steering": steered}},
    ]
    sink = await tell(without, Prompt("t1", "tell", so_far=so_far, history=HISTORY))
    assert sink.text == "Well."
    assert sizes(model)[-1] == 3
    assert [text[:4] for _, text in model.requests[-1].texts[1:]] == ["tell", "Half", "!!ov"]


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────
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
    first, refused, *asked, last = sizes(model)
    assert (first, refused, set(asked)) == (17, 19, {0})
    assert last < 12
    assert [text for role, text in model.requests[-1].texts if role == "tool"] == ["seen"]
    assert [part["kind"] for part in sink.parts] == ["toolCall", "systemNotification", "markdown"]


async def test_T9_a_turn_that_gets_too_long_by_what_its_tools_say_goes_on_with_less_of_it(
    make_assistant: MakeAssistant, model: MockModel
) -> None:
    async def read() -> ToolResult:
        """Read it all."""
        return ToolResult("begin " + "word " * 5000 + "end")

    model.largest = 10_000
    agent = make_assistant(models=[{"base_url": model.base_url, "model": model.model}])
    sink = await tell(agent, "!!tool read {}\n!!text Well.", tools=[Made(read)])
    assert sink.text == "Well."
    [result] = [text for role, text in model.requests[-1].texts if role == "tool"]
    assert result.startswith("begin word")
    assert result.endswith("end")
    assert len(result) < 3000
    assert "with less of what its tools said" in sink.notices[0]
