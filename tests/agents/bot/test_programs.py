"""Bots whose work is done by real programs, our own ACP agent and Claude's CLI, against the mock model (B16)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_ahp.agents.acp import ACPAgent
from jupyter_ahp.agents.claude import ClaudeAgent
from jupyter_ahp.host.ports import Agent, Store
from jupyter_ahp.protocol.meta import steering_of
from tests.agents.acp.room import puppet
from tests.agents.claude.room import settings_for
from tests.host.harness import answer_of, until
from tests.mock_model import MockModel

from .conftest import HINTS, Room, S

PATIENCE = 60.0
YES = {"approved": True, "confirmed": "user-action"}


@pytest.fixture(autouse=True)
def no_environment_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("ANTHROPIC", "CLAUDE")):
            monkeypatch.delenv(name)


@pytest.fixture(params=["puppet", "claude"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def worker(name: str, model: MockModel, home: Path) -> Agent:
    home.mkdir(exist_ok=True)
    return ACPAgent(puppet(model, home)) if name == "puppet" else ClaudeAgent(settings_for(model, home))


async def asked(room: Room, chat: str) -> None:
    await until(
        lambda: any(call["status"] == "pending-confirmation" for call in room.client.calls(chat)), PATIENCE
    )


async def test_B16_a_program_works_asks_is_steered_and_goes_on_after_a_restart(
    store: Store, tmp_path: Path, model: MockModel, name: str
) -> None:
    room = Room(store, tmp_path, agent=name)
    room.agents = [worker(name, model, tmp_path / "home")]
    await room.open()
    file = tmp_path / "bots" / "tutor" / "notes.md"
    write = {
        "puppet": f'!!tool write {{"path": "{file.name}", "text": "week 1"}}',
        "claude": f'!!tool Write {{"file_path": "{file}", "content": "week 1"}}',
    }[name]
    await room.client.start(room.chat, f"Keep notes\n{write}\n!!text kept")
    await asked(room, room.chat)
    await room.steer("And say hello\n!!text hello")
    await until(lambda: room.work().get("queuedMessages"))
    await room.other.of_call(room.chat, "chat/toolCallConfirmed", **YES, selectedOptionId=first_option(room))
    await until(lambda: not room.active, PATIENCE)
    [turn] = room.state["turns"]
    assert (turn["state"], file.read_text()) == ("complete", "week 1")
    assert [found["text"][:13] for part in turn["responseParts"] if (found := steering_of(part))] == [
        "And say hello"
    ]
    assert answer_of(turn).endswith("hello")
    assert any(HINTS in str(request.body) for request in model.requests), "it was told its instructions"

    await room.close()
    model.requests.clear()
    room.agents = [worker(name, model, tmp_path / "home")]
    await room.open()
    await room.client.start(room.chat, "Still there?\n!!text yes")
    await until(lambda: not room.active, PATIENCE)
    assert answer_of(room.state["turns"][-1]) == "yes"
    assert "Keep notes" in str([request.body for request in model.requests]), "its own memory"
    await room.close()


def first_option(room: Room) -> str:
    """The id of the option that approves once."""
    options = room.client.calls(room.chat)[-1]["options"]
    return str(next(option["id"] for option in options if option["kind"] == "approve"))


async def test_W4_what_a_programs_worker_asks_is_answered_in_a_chat_of_the_bots_session(
    store: Store, tmp_path: Path, model: MockModel
) -> None:
    room = Room(store, tmp_path, agent="puppet")
    room.agents = [worker("puppet", model, tmp_path / "home")]
    await room.open()
    spawn = '!!tool worker {"prompt": "Find it", "text": "I look.", "path": "it.txt"}\n!!text done'
    await room.client.start(room.chat, spawn)
    await until(lambda: len(room.client.state(S)["chats"]) == 2, PATIENCE)
    chat = room.client.state(S)["chats"][1]["resource"]
    for person in (room.client, room.other):
        await person.subscribe(chat)
    await asked(room, chat)
    await room.client.of_call(chat, "chat/toolCallConfirmed", **YES, selectedOptionId="once")
    await until(lambda: not room.active, PATIENCE)
    [turn] = room.state["turns"]
    [work] = room.client.state(chat)["turns"]
    assert (answer_of(turn), answer_of(work), work["state"]) == ("done", "I look.", "complete")
    assert (tmp_path / "bots" / "tutor" / "it.txt").read_text() == "it"
    await room.close()


async def test_a_program_that_dies_is_told_in_words(store: Store, tmp_path: Path, model: MockModel) -> None:
    room = Room(store, tmp_path, agent="puppet")
    room.agents = [worker("puppet", model, tmp_path / "home")]
    await room.open()
    await room.client.start(room.chat, '!!tool die {"code": 3}')
    await until(lambda: not room.active and room.state["turns"], PATIENCE)
    error = room.state["turns"][-1]["responseParts"][-1]
    assert "Puppet" in error["error"]["message"]
    await room.client.start(room.chat, "!!text back")
    await until(lambda: not room.active, PATIENCE)
    assert answer_of(room.state["turns"][-1]) == "back"
    await room.close()
