"""A tutor whose work the assistant does, against the mock model: its log is the witness of what the model was told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import jupyter_ahp.agents.assistant.runtime  # noqa: F401  (seconds of import: not while a test waits for an answer)
from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.host.ports import Store
from tests.agents.conftest import MakeAssistant
from tests.host.harness import ROOT, WireClient, agree, answer_of, quiet, until
from tests.mock_model import MockModel

from .conftest import Room, S

HINTS = "You are a tutor. Give one hint at a time, and never the answer."


@pytest.fixture
async def room(store: Store, tmp_path: Path, assistant: AssistantAgent) -> AsyncIterator[Room]:
    room = Room(store, tmp_path, agent="assistant", instructions=HINTS)
    room.agents = [assistant]
    await room.open()
    yield room
    await room.close()


async def test_B16_the_model_has_the_instructions_what_was_said_and_the_steering_in_turn(
    room: Room, model: MockModel
) -> None:
    await room.client.start(room.chat, "Solve exercise 3\n!!chunks 40 0.02")
    await until(lambda: "c1 " in room.said, 20)
    await room.steer("Do not give the formula\n!!text Think of the mean.")
    await until(lambda: not room.active, 20)
    [turn] = room.state["turns"]
    assert turn["state"] == "complete"
    assert answer_of(turn).endswith("Think of the mean.")
    first, second = model.requests
    for request in (first, second):
        assert HINTS in request.texts[0][1], "the system prompt"
    said = [text for role, text in second.texts if role == "user"]
    assert [text.split("\n")[0] for text in said] == ["Solve exercise 3", "Do not give the formula"]
    assert "c39" in second.texts[-2][1], "the answer that it came behind"


async def test_a_file_is_written_in_the_bots_folder_once_a_person_says_so(
    room: Room, model: MockModel, tmp_path: Path
) -> None:
    await room.client.start(
        room.chat, 'Keep notes\n!!tool write_file {"path": "notes.md", "content": "week 1"}\n!!text kept'
    )
    call = await room.client.call_in(room.chat, "pending-confirmation")
    assert call["toolName"] == "write_file"
    assert not (tmp_path / "bots" / "tutor" / "notes.md").exists()
    await room.other.of_call(room.chat, "chat/toolCallConfirmed", approved=True, confirmed="user-action")
    await until(lambda: not room.active, 20)
    assert (tmp_path / "bots" / "tutor" / "notes.md").read_text() == "week 1"


async def test_a_restart_and_another_persons_chat(
    room: Room, model: MockModel, make_assistant: MakeAssistant
) -> None:
    await room.client.say(room.chat, "My name is Ana\n!!text Hello Ana")
    await quiet(room.host)
    await agree(room.host, room.client, room.other)
    await room.leave()
    entry = {"id": "mock", "name": "Mock", "base_url": model.base_url, "model": model.model}
    room.agents = [make_assistant(models=[entry])]
    await room.open()
    model.requests.clear()
    await room.client.say(room.chat, "Who am I?\n!!text Ana")
    assert "Hello Ana" in str(model.requests[0].texts)

    stranger = WireClient(room.host)
    await stranger.initialize(ROOT)
    await stranger.request("createSession", channel=f"{S}2", provider="bot")
    chat = (await stranger.subscribe(f"{S}2"))["defaultChat"]
    await stranger.subscribe(chat)
    model.requests.clear()
    await stranger.say(chat, "Who am I?\n!!text Somebody else")
    assert "Ana" not in str(model.requests[0].texts)
    assert HINTS in model.requests[0].texts[0][1]


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_what_the_models_api_refuses_is_said_and_can_be_tried_again(
    room: Room, model: MockModel, status: int
) -> None:
    await room.client.start(room.chat, f"Hi\n!!status {status}")
    await until(lambda: room.state["turns"], 30)
    [turn] = room.state["turns"]
    assert turn["state"] == "error"
    assert turn["responseParts"][-1]["error"] == room.work()["turns"][0]["responseParts"][-1]["error"]
    assert answer_of(await room.client.say(room.chat, "Again\n!!text back")) == "back"


async def test_a_stream_that_is_cut_keeps_what_came_and_is_resumed(room: Room, model: MockModel) -> None:
    await room.client.start(room.chat, "Hi\n!!text half of\n!!drop")
    await until(lambda: room.state["turns"], 30)
    [turn] = room.state["turns"]
    assert answer_of(turn).startswith("half of")
    error = turn["responseParts"][-1]
    assert (turn["state"], error["resumable"]) == ("error", True)
    asked = len(model.requests)
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"], startedAt="2026-03-01T10:00:00Z")
    await until(lambda: not room.active, 30)
    assert len(model.requests) > asked
    assert len(room.work()["turns"]) == 1, "the work's turn went on"
