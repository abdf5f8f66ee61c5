"""What an ACP agent lets people choose: known from the first chat on, also in the next server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from acp.schema import (
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from jupyter_ahp.agents.acp.settings import Learned, options_of
from tests.agents.acp.conftest import MakeRoom
from tests.agents.acp.room import Room, notices_of
from tests.host.harness import ROOT, answer_of

MODES = SessionModeState(current_mode_id="ask", available_modes=[SessionMode(id="ask", name="Ask")])


async def test_models_modes_and_commands_are_learned_and_kept(make_room: MakeRoom, tmp_path: Path) -> None:
    room = await make_room(learned=tmp_path / "learned")
    [info] = room.client.state(ROOT)["agents"]
    assert [model["id"] for model in info["models"]] == ["default"]
    assert "mode" not in room.client.state("ahp-session:/s")["config"]["schema"]["properties"]
    await room.say("!!text hello")
    await room.leave()

    kept = json.loads((tmp_path / "learned" / "puppet.json").read_text())
    assert [option["id"] for option in kept["options"]] == ["which", "mode"]
    room = await make_room(learned=tmp_path / "learned")
    [info] = room.client.state(ROOT)["agents"]
    assert [model["id"] for model in info["models"]] == ["mock-model", "other-model", "no-such-model"]
    assert all(model["supportsVision"] for model in info["models"])
    asked = await room.client.request("resolveSessionConfig", provider="puppet")
    assert asked["schema"]["properties"]["mode"]["enumLabels"] == ["Ask", "Do not ask"]
    assert asked["values"]["mode"] == "ask"
    items = await room.client.request(
        "completions", channel=room.chat, kind="userMessage", text="/", offset=1
    )
    assert [item["insertText"] for item in items["items"]] == ["/shout "]
    await room.say('!!tool switch {"mode": "auto"}\n!!text done')
    assert room.client.state("ahp-session:/s")["config"]["values"]["mode"] == "auto"
    await room.leave()


async def test_the_model_of_a_message_is_the_agents_for_it(room: Room) -> None:
    await room.say("!!text one", model={"id": "other-model"})
    await room.say("!!text two", model={"id": "other-model"})
    await room.say("!!text three", model={"id": "mock-model"})
    assert [request.body["model"] for request in room.model.requests] == [
        "other-model",
        "other-model",
        "mock-model",
    ]


async def test_a_model_that_it_will_not_take_is_told_and_the_turn_runs(room: Room) -> None:
    turn = await room.say("!!text one", model={"id": "no-such-model"})
    assert notices_of(turn) == [
        "Puppet did not take Model “no-such-model”: Invalid params: there is no such model. It goes on with “mock-model”."
    ]
    assert answer_of(turn) == "one"
    assert notices_of(await room.say("!!text two", model={"id": "default"})) == []
    turn = await room.say("!!text three", model={"id": "gone"})
    assert notices_of(turn) == ["Puppet has no model “gone” any more. It goes on with the one that it has."]


async def test_a_mode_that_the_agent_changes_is_told_and_not_taken_back(room: Room) -> None:
    turn = await room.say('!!tool switch {"mode": "auto"}\n!!text done')
    assert notices_of(turn) == ["Mode: Do not ask"]
    turn = await room.say('!!tool write {"path": "a", "text": "b"}\n!!text done')
    assert (room.folder / "a").read_text() == "b"


def test_options_take_the_place_of_modes_and_older_models() -> None:
    group = SessionConfigSelectGroup(
        group="g", name="G", options=[SessionConfigSelectOption(value="m", name="M")]
    )
    model = SessionConfigOptionSelect(
        id="model", name="Model", category="model", type="select", current_value="m", options=[group]
    )
    fast = SessionConfigOptionBoolean(id="fast", name="Fast", type="boolean", current_value=True)
    older = {"availableModels": [{"modelId": "old", "name": "Old"}], "currentModelId": "old"}
    found = options_of([model, fast], MODES, older)
    assert list(found) == ["model", "fast", "mode"]
    assert [choice.value for choice in found["model"].choices] == ["m"]
    assert found["fast"].schema == {
        "type": "boolean",
        "title": "Fast",
        "default": True,
        "sessionMutable": True,
    }
    assert (found["fast"].takes(False), found["fast"].takes("yes"), found["model"].takes("x")) == (
        True,
        False,
        False,
    )
    assert (found["mode"].told, found["model"].told) == ("mode", "option")
    assert options_of(None, None, older)["model"].told == "model"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"options": [{}], "commands": [], "vision": true}'])
def test_what_was_kept_and_cannot_be_read_is_learned_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "puppet.json"
    path.write_text(text)
    assert Learned.read(path).options == {}
