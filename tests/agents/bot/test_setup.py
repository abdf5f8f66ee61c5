"""What a bot is set up with: what is sound, what is listed with a reason and a fix, and the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.bot import BotAgent
from jupyter_ahp.agents.bot.settings import bots_of
from jupyter_ahp.agents.registry import find_agents
from jupyter_ahp.app import BotAgent as Traits
from jupyter_ahp.host.ports import Agent, Json, Probe, Store
from jupyter_ahp.host.roster import UNAVAILABLE
from tests.host.harness import ROOT, Scripted, WireClient, started, until

from .conftest import Room, S


async def listed(store: Store, bots: BotAgent, *others: Agent) -> Json:
    """What clients are told of the bots."""
    host = await started(store, bots, *others)
    client = WireClient(host)
    await client.initialize(ROOT)
    info: Json = next(agent for agent in client.state(ROOT)["agents"] if agent["provider"] == "bot")
    await host.stop()
    return info


@pytest.mark.parametrize(
    ("slug", "given", "words"),
    [
        ("Tutor", {}, "a short name has lower-case letters"),
        ("../up", {}, "a short name has lower-case letters"),
        ("tutor", "Be kind", "Make it a dictionary"),
        ("tutor", {"prompt": "Be kind"}, "prompt, which is no setting"),
        ("tutor", {"instructions": ["Be kind"]}, "instructions must be text"),
        ("tutor", {"workspace": "course"}, "not a whole path"),
        ("tutor", {"workspace": "/nowhere/at/all"}, "/nowhere/at/all is not there"),
        ("tutor", {"agent": "bot"}, "cannot do another one's work"),
    ],
)
async def test_a_bot_that_is_set_up_wrong_is_listed_with_the_reason_and_the_fix(
    store: Store, tmp_path: Path, slug: str, given: Any, words: str
) -> None:
    info = await listed(store, BotAgent({slug: given}, tmp_path), Scripted())
    said = info["_meta"][UNAVAILABLE]
    assert words in said["reason"]
    assert slug in said["reason"]
    assert "Correct Jupyter's configuration" in said["fix"]
    assert not (tmp_path / "bots").exists()


async def test_without_a_bot_it_says_where_one_is_set_up(store: Store) -> None:
    said = (await listed(store, BotAgent({}), Scripted()))["_meta"][UNAVAILABLE]
    assert said["reason"] == "No bot is set up."
    assert "BotAgent.bots" in said["fix"]


async def test_a_bot_whose_agent_cannot_work_says_what_that_one_needs(store: Store, tmp_path: Path) -> None:
    worker = Scripted("work")
    worker.probed = Probe(ready=False, reason="There is no key.", fix="Set THE_KEY.")
    bots = BotAgent({"tutor": {"name": "Tutor", "agent": "work"}, "aide": {"agent": "gone"}}, tmp_path)
    said = (await listed(store, bots, worker))["_meta"][UNAVAILABLE]
    assert "“Tutor” is without its agent “work”: There is no key." in said["reason"]
    assert "There is no agent 'gone' here." in said["reason"]
    assert "Set THE_KEY." in said["fix"]
    assert "Name another one; there are: work." in said["fix"]


async def test_one_that_is_sound_can_be_used_beside_one_that_is_not_and_a_note_says_so(
    store: Store, tmp_path: Path
) -> None:
    room = Room(store, tmp_path)
    room.setup = {"1st!": {}, **room.setup}
    await room.open()
    info = next(one for one in room.client.state(ROOT)["agents"] if one["provider"] == "bot")
    assert UNAVAILABLE not in info["_meta"]
    assert "1st!" in info["_meta"]["jupyter-ahp.note"]
    config = room.client.state(S)["config"]
    which = config["schema"]["properties"]["bot"]
    assert (which["enum"], which["enumLabels"]) == (["1st!", "tutor"], ["1st!", "Tutor"])
    assert "lower-case" in which["enumDescriptions"][0]
    assert config["values"]["bot"] == "tutor"
    wrong = await room.client.do(S, "session/configChanged", config={"bot": "nobody"})
    assert "cannot be" in wrong["rejectionReason"]
    await room.client.do(S, "session/configChanged", config={"bot": "1st!"})
    turn = await room.client.say(room.chat, "Hi")
    assert "lower-case" in turn["responseParts"][-1]["error"]["message"]
    await room.close()


async def test_a_bot_that_is_gone_is_told_in_words_and_its_chat_can_be_read(
    store: Store, tmp_path: Path
) -> None:
    room = Room(store, tmp_path)
    await room.open()
    room.worker.words.put_nowait("done")
    await room.client.say(room.chat, "One")
    room.setup = {"aide": {"name": "Aide", "agent": "work"}}
    await room.again()
    assert len(room.state["turns"]) == 1
    turn = await room.client.say(room.chat, "Two")
    words = turn["responseParts"][-1]["error"]["message"]
    assert "no bot 'tutor' on this server any more" in words
    assert "Aide" in words
    await room.close()


async def test_a_bot_without_an_agent_has_the_default_one_and_never_itself(
    store: Store, tmp_path: Path
) -> None:
    room = Room(store, tmp_path, agent="")
    await room.open()
    room.host.options.default_agent = "bot"
    room.worker.words.put_nowait("done")
    assert (await room.client.say(room.chat, "Hi"))["state"] == "complete"
    await room.close()


async def test_another_agent_that_does_the_work_is_told_what_was_said(store: Store, tmp_path: Path) -> None:
    room = Room(store, tmp_path)
    await room.open()
    room.worker.words.put_nowait("done")
    await room.client.say(room.chat, "One")
    await room.close()
    room.setup["tutor"]["agent"] = "other"
    other = Scripted("other")
    room.agents = [other]
    await room.open()
    turn = await room.client.say(room.chat, "Two")
    assert turn["state"] == "complete"
    [prompt] = other.prompts
    assert "on One" in prompt.prefaces[prompt.turn_id]
    await room.close()


async def test_a_bots_model_is_the_one_that_its_work_is_asked_with(store: Store, tmp_path: Path) -> None:
    room = Room(store, tmp_path, model="large")
    await room.open()
    await room.client.start(room.chat, "Hi", model={"id": "default"})
    await until(lambda: room.said)
    await room.steer("Hint")
    for _ in range(2):
        room.worker.words.put_nowait("done")
    await until(lambda: not room.active)
    assert {prompt.model for prompt in room.worker.prompts} == {"large"}
    await room.close()


def test_what_a_person_wrote_into_its_folder_is_left_alone(tmp_path: Path) -> None:
    bots = bots_of({"tutor": {"instructions": "Only hints."}}, tmp_path)
    assert "Only hints." in bots["tutor"].prepare()
    file = tmp_path / "tutor" / "AGENTS.md"
    assert "Only hints." in file.read_text()
    bots_of({"tutor": {"instructions": "Only questions."}}, tmp_path)["tutor"].prepare()
    assert "Only questions." in file.read_text()
    file.write_text("Mine.")
    assert "Only hints." in bots["tutor"].prepare()
    assert file.read_text() == "Mine."
    assert "Mine." in bots_of({"tutor": {}}, tmp_path)["tutor"].prepare()


def test_instructions_that_are_too_long_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="100,000 at most"):
        bots_of({"tutor": {"instructions": "x" * 100_001}}, tmp_path)["tutor"].prepare()


def test_the_registry_has_the_bots_ahead_of_the_echo() -> None:
    agents = find_agents(installed=(), bots={"tutor": {}})
    assert [agent.provider for agent in agents] == ["assistant", "bot", "echo"]
    assert [agent.provider for agent in find_agents(installed=())] == ["assistant", "echo"]


def test_the_setting_is_described() -> None:
    assert Traits().bots == {}
    assert "AGENTS.md" in Traits.bots.help
