"""B15: what a person says while the assistant works goes into the model's next request, or is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.agents.assistant.history import GO_ON, STOPPED
from jupyter_ahp.agents.base import (
    Block,
    Conversation,
    ImageBlock,
    Json,
    Prompt,
    Steering,
    TextBlock,
    TurnFailed,
)
from tests.agents.conftest import MakeAssistant
from tests.agents.recording import START, RecordingSink, tell, turn, until
from tests.agents.some_tools import Made
from tests.mock_model import MockModel

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
BUSY = "!!status 503 1\n!!text done"
FRENCH = Steering("s1", "In French, please.")


class Reading(RecordingSink):
    """Keeps which steering messages were said to be read, and how many requests had gone out by then."""

    def __init__(self, model: MockModel) -> None:
        super().__init__()
        self._model = model
        self.read: list[tuple[str, int]] = []

    def steering_read(self, message_id: str) -> None:
        self.read.append((message_id, len(self._model.requests)))


class Talk:
    """A conversation and the turn that runs in it."""

    def __init__(self, conversation: Conversation, model: MockModel) -> None:
        self.conversation = conversation
        self.model = model
        self.sink = Reading(model)
        self.running: asyncio.Task[None] | None = None

    def start(self, text: str, **fields: object) -> None:
        self.sink = Reading(self.model)
        prompt = Prompt("t1", text, **fields)  # type: ignore[arg-type]
        self.running = asyncio.create_task(self.conversation.send(prompt, self.sink))

    async def asked(self, times: int = 1) -> None:
        """That many requests were answered."""
        await self.model.until(
            lambda model: len([one for one in model.requests if one.ended is not None]) >= times
        )

    async def end(self) -> None:
        assert self.running is not None
        await self.running

    def told(self, request: int) -> list[tuple[str, str]]:
        """What the model was told in a request, behind the system prompt."""
        return self.model.requests[request].texts[1:]


@pytest.fixture
async def busy(make_assistant: MakeAssistant, model: MockModel) -> Talk:
    """A talk with a model whose retries leave time to say something."""
    assistant = make_assistant(
        models=[{"base_url": model.base_url, "model": model.model, "vision": True}], backoff_seconds=0.3
    )
    return Talk(await assistant.open(START), model)


async def test_B15_the_next_request_carries_it_and_only_then_it_is_read(busy: Talk) -> None:
    busy.start(BUSY)
    await busy.asked()
    assert await busy.conversation.steer(FRENCH)
    assert busy.sink.read == [], "no request has carried it yet"
    await busy.end()
    assert busy.told(0) == [("user", BUSY)]
    assert busy.told(1) == [("user", BUSY), ("user", "In French, please.")]
    assert busy.sink.read == [("s1", 1)], "after the first request, before the second"


async def test_B15_what_was_read_stays_in_the_requests_that_follow(busy: Talk) -> None:
    busy.start(BUSY)
    await busy.asked()
    await busy.conversation.steer(Steering("s1", "!!status 503 1\n!!text oui"))
    await busy.end()
    told = [("user", BUSY), ("user", "!!status 503 1\n!!text oui")]
    assert [busy.told(request) for request in (1, 2)] == [told, told]
    assert busy.sink.read == [("s1", 1)]
    assert busy.sink.text == "oui"


async def test_B15_several_go_in_their_order_with_what_is_attached(busy: Talk) -> None:
    busy.start(BUSY)
    await busy.asked()
    blocks: list[Block] = [TextBlock("a.csv", "x,y"), ImageBlock("p.png", "image/png", PNG)]
    await busy.conversation.steer(Steering("s1", "Use this.", blocks))
    await busy.conversation.steer(Steering("s2", "And hurry."))
    await busy.end()
    (_, first), (_, second) = busy.told(1)[1:]
    assert "[image/png]" in first
    assert "a.csv:\n```\nx,y\n```" in first
    assert first.endswith("Use this.")
    assert second == "And hurry."
    assert [name for name, _ in busy.sink.read] == ["s1", "s2"]


async def test_G1_one_that_comes_before_the_first_request_is_in_it(busy: Talk) -> None:
    busy.start("hello")
    await asyncio.sleep(0)
    assert await busy.conversation.steer(FRENCH)
    await busy.end()
    assert busy.told(0) == [("user", "hello"), ("user", "In French, please.")]
    assert busy.sink.read == [("s1", 0)]


async def test_G1_nothing_is_taken_while_no_turn_runs(busy: Talk) -> None:
    assert not await busy.conversation.steer(FRENCH)
    busy.start("hello")
    await busy.end()
    assert not await busy.conversation.steer(FRENCH)
    assert not await busy.conversation.withdraw("s1")
    busy.start("again")
    await busy.end()
    assert busy.told(1) == [("user", "again")]


async def test_B15_a_run_that_settles_before_a_request_reads_it_gives_it_back(busy: Talk) -> None:
    busy.start("!!chunks 20 0.02")
    await until(lambda: len(busy.sink.deltas) > 2)
    assert await busy.conversation.steer(FRENCH)
    await busy.end()
    assert len(busy.model.requests) == 1, "the answer was whole: there is no request for its sake alone"
    assert busy.sink.read == []
    busy.start("next")
    await busy.end()
    assert busy.told(1) == [("user", "next")], "it is the host's again, not the next turn's"


async def test_G2_a_turn_that_fails_gives_it_back(busy: Talk) -> None:
    busy.start("!!chunks 20 0.02\n!!drop")
    await until(lambda: len(busy.sink.deltas) > 2)
    await busy.conversation.steer(FRENCH)
    with pytest.raises(TurnFailed):
        await busy.end()
    assert busy.sink.read == []
    assert len(busy.model.requests) == 1


async def test_G7_one_that_is_withdrawn_is_never_seen(busy: Talk) -> None:
    busy.start(BUSY)
    await busy.asked()
    await busy.conversation.steer(FRENCH)
    await busy.conversation.steer(Steering("s2", "And hurry."))
    assert await busy.conversation.withdraw("s1")
    await busy.end()
    assert busy.told(1) == [("user", BUSY), ("user", "And hurry.")]
    assert [name for name, _ in busy.sink.read] == ["s2"]


async def test_G7_one_that_was_read_is_not_given_up(busy: Talk) -> None:
    busy.start(BUSY)
    await busy.asked()
    await busy.conversation.steer(Steering("s1", "!!chunks 20 0.02"))
    await until(lambda: bool(busy.sink.deltas))
    assert not await busy.conversation.withdraw("s1")
    await busy.end()


async def test_G6_a_stop_forgets_it(busy: Talk) -> None:
    busy.start("!!hang")
    await busy.model.until(lambda model: bool(model.requests))
    await busy.conversation.steer(FRENCH)
    assert busy.running is not None
    await busy.conversation.stop(busy.running)
    with suppress(asyncio.CancelledError):
        await busy.running
    busy.start("next")
    await busy.end()
    assert busy.told(1) == [("user", "next")]
    assert busy.sink.read == []


# ── A run of several steps ───────────────────────────────────────────────────────────────────────────────────────────
class Adding:
    """One tool, `add`, that waits until the test lets it go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.tool = Made(self.add)

    @property
    def runs(self) -> int:
        return len(self.tool.calls)

    async def add(self, a: int, b: int) -> str:
        """Add two numbers."""
        await self.gate.wait()
        return str(a + b)


@pytest.fixture
def adding() -> Adding:
    return Adding()


def _openai(model: MockModel) -> Json:
    return {"models": [{"base_url": model.base_url, "model": model.model}]}


def _anthropic(model: MockModel) -> Json:
    return {
        "environ": {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": model.root_url,
            "OLLAMA_HOST": "127.0.0.1:1",
        }
    }


@pytest.mark.parametrize("api", [_openai, _anthropic])
async def test_B15_behind_a_tools_result_and_before_the_next_answer(
    make_assistant: MakeAssistant, model: MockModel, adding: Adding, api: Callable[[MockModel], Json]
) -> None:
    assistant = make_assistant(**api(model))
    talk = Talk(await assistant.open(START), model)
    talk.start('!!text I add.\n!!tool add {"a": 2, "b": 3}\n!!text never said', tools=[adding.tool])
    await until(lambda: adding.runs == 1)
    assert await talk.conversation.steer(Steering("s1", "!!text As you like."))
    adding.gate.set()
    await talk.end()

    assert len(model.requests) == 2
    last = [text for _, text in talk.told(1)][-2:]
    assert last == ["5", "!!text As you like."] or last[-1] == "5\n\n!!text As you like."
    assert talk.sink.read == [("s1", 1)]
    assert [part["kind"] for part in talk.sink.parts] == ["markdown", "toolCall", "markdown"]
    call = talk.sink.parts[1]["toolCall"]
    assert (call["toolName"], call["toolInput"], call["status"]) == ("add", '{"a": 2, "b": 3}', "completed")
    assert call["content"] == [{"type": "text", "text": "5"}]
    assert talk.sink.parts[-1]["content"] == "As you like."


async def test_a_busy_server_in_the_middle_of_a_run_costs_no_step_twice(
    make_assistant: MakeAssistant, model: MockModel, adding: Adding
) -> None:
    adding.gate.set()
    assistant = make_assistant(**_openai(model))
    said = await tell(
        assistant, '!!tool add {"a": 2, "b": 3}\n!!status 503 2\n!!text Five.', tools=[adding.tool]
    )
    assert said.text == "Five."
    assert adding.runs == 1
    assert len(model.requests) == 4
    assert "Asking again, the server was busy (3 of 5)" in said.activities
    assert said.used is not None
    assert said.used["outputTokens"] >= 1


# ── What later turns know of it ──────────────────────────────────────────────────────────────────────────────────────
def read(text: str, **message: object) -> Json:
    """The part that a read steering message left in its turn."""
    return {
        "kind": "systemNotification",
        "content": text,
        "_meta": {"jupyter-ahp.steering": {"text": text, "origin": {"kind": "user"}, **message}},
    }


def answer(text: str) -> Json:
    return {"kind": "markdown", "id": text, "content": text}


async def test_B15_an_earlier_turns_steering_is_told_at_its_place(
    assistant: AssistantAgent, model: MockModel
) -> None:
    attachments = [{"type": "simple", "label": "cell 3", "modelRepresentation": "df.head()"}]
    parts = [
        answer("One."),
        read("In French.", attachments=attachments),
        answer("Deux."),
        read("Enough."),
        answer("Bien."),
    ]
    await tell(assistant, "more", history=[turn("count", parts=parts)])
    told = model.requests[0].texts[1:]
    assert [role for role, _ in told] == ["user", "assistant"] * 3 + ["user"]
    assert told[2][1].endswith("In French.")
    assert "df.head()" in told[2][1]
    assert [text for _, text in told][3:] == ["Deux.", "Enough.", "Bien.", "more"]


async def test_B15_steering_before_a_word_stands_behind_the_message(
    assistant: AssistantAgent, model: MockModel
) -> None:
    await tell(assistant, "more", history=[turn("count", parts=[read("To ten."), answer("One.")])])
    assert model.requests[0].texts[1:] == [
        ("user", "count\n\nTo ten."),
        ("assistant", "One."),
        ("user", "more"),
    ]


async def test_a_turn_stopped_behind_its_steering_says_so_of_its_answer_only(
    assistant: AssistantAgent, model: MockModel
) -> None:
    parts = [answer("One."), read("In French.")]
    history = [
        turn("count", parts=parts, state="cancelled"),
        turn("again", parts=[*parts, answer("Deux.")], state="cancelled"),
    ]
    await tell(assistant, "more", history=history)
    assert [text for _, text in model.requests[0].texts[1:]] == [
        "count",
        "One.",
        "In French.\n\nagain",
        "One.",
        "In French.",
        f"Deux.\n\n{STOPPED}",
        "more",
    ]


@pytest.mark.parametrize("begun", [True, False])
async def test_a_resumed_turn_has_its_steering(
    assistant: AssistantAgent, model: MockModel, begun: bool
) -> None:
    error = {"kind": "error", "error": {"errorType": "connection", "message": "cut"}, "resumable": True}
    so_far = [answer("One."), read("In French."), *([answer("Deux et")] if begun else []), error]
    await tell(assistant, Prompt("t1", "count", so_far=so_far))
    told = [text for _, text in model.requests[0].texts[1:]]
    assert told == ["count", "One.", "In French.", *(["Deux et", GO_ON] if begun else [])]


# ── What the host has to say ─────────────────────────────────────────────────────────────────────────────────────────
ASIDE = "Beside this, they talked of medians."


async def test_B3_what_the_host_says_on_this_turn_is_in_the_system_prompt(
    assistant: AssistantAgent, model: MockModel
) -> None:
    await tell(assistant, Prompt("t9", "Why?", history=[turn("first", "Yes.")], prefaces={"t9": ASIDE}))
    [(role, system), *rest] = model.requests[0].texts
    assert role == "system"
    assert system.endswith(f"\n\n{ASIDE}")
    assert [text for _, text in rest] == ["first", "Yes.", "Why?"]


async def test_B3_what_it_said_on_an_earlier_turn_stands_ahead_of_that_turns_message(
    assistant: AssistantAgent, model: MockModel
) -> None:
    history = [turn("first", "Yes."), turn("second", "No.")]
    prefaces = {history[1]["id"]: ASIDE}
    await tell(assistant, Prompt("t9", "Why?", history=history, prefaces=prefaces))
    [(_, system), *rest] = model.requests[0].texts
    assert ASIDE not in system
    assert [text for _, text in rest] == ["first", "Yes.", f"{ASIDE}\n\nsecond", "No.", "Why?"]
