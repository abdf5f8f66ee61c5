"""The agent's process: started by the first message, started again when it died, gone with its chat."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from jupyter_ahp.agents.acp import ACPAgent, Server
from jupyter_ahp.agents.processes import Deaths
from tests.agents.acp.conftest import MakeRoom
from tests.agents.acp.room import SESSION, Room, error_of, notices_of, puppet
from tests.agents.test_processes import gone, linux, lives
from tests.host.harness import answer_of, quiet
from tests.mock_model import MockModel


async def test_nothing_is_started_before_the_first_message(room: Room) -> None:
    [session] = room.host.sessions.values()
    assert session.chats[room.chat].turns.line.conversation is None


async def test_killed_between_two_turns_it_is_started_again_with_its_memory(room: Room) -> None:
    await room.say("!!text remember")
    pid = room.pid
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    turn = await room.say("!!text on")
    assert [part["kind"] for part in turn["responseParts"]] == ["markdown"], "what it tells again is no news"
    assert answer_of(turn) == "on"
    assert room.told() == ["!!text remember", "remember", "!!text on"]
    assert room.pid != pid


async def test_dead_in_a_turn_it_says_why_and_the_turn_can_be_resumed(room: Room) -> None:
    await room.say("!!text remember")
    turn = await room.say('!!text half\n!!tool die {"code": 3}\n!!text rest')
    error = error_of(turn)
    assert error["message"].startswith("Puppet (`")
    assert "ended in the middle of it, with exit code 3" in error["message"]
    assert "I cannot go on like this." in error["stack"]
    assert answer_of(turn) == "half"
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"])
    await room.until(lambda: not room.client.running(room.chat))
    assert room.told()[:2] == ["!!text remember", "remember"]
    assert room.told()[-1].startswith("The answer above was cut off")


async def test_one_that_always_dies_is_not_started_for_ever(
    make_room: MakeRoom, model: MockModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_ahp.agents.acp.session.Deaths", lambda: Deaths(most=2, seconds=1000))
    script = 'echo "no model configured" >&2; echo x >> starts; exit 4'
    room = await make_room(Server("broken", "Broken", "/bin/sh", ("-c", script)))
    errors = [error_of(await room.say("hello")) for _ in range(3)]
    assert "ended while it was starting, with exit code 4" in errors[0]["message"]
    assert "no model configured" in errors[0]["stack"]
    assert "ends as soon as it is started. It is not started again for" in errors[2]["message"]
    assert (folder / "starts").read_text().count("x") == 2
    await room.leave()


async def test_a_restart_of_the_server_forgets_nothing(make_room: MakeRoom) -> None:
    room = await make_room()
    await room.say("!!text remember")
    pid = room.pid
    await room.leave()
    await gone(pid)
    room = await make_room()
    assert answer_of(room.client.state(room.chat)["turns"][0]) == "remember"
    turn = await room.say("!!text on")
    assert room.told() == ["!!text remember", "remember", "!!text on"]
    assert [part["kind"] for part in turn["responseParts"]] == ["markdown"]
    assert len(room.client.state(room.chat)["turns"]) == 2
    await room.leave()


@pytest.mark.parametrize("how", ["load", "gone"])
async def test_an_agent_that_cannot_go_on_is_told_what_was_said(
    make_room: MakeRoom, tmp_path: Path, how: str
) -> None:
    """It has no memory of its own, or has lost it."""
    room = await make_room(env={"AGENT_WITHOUT": "load"} if how == "load" else None)
    await room.say("!!text remember")
    await room.leave()
    if how == "gone":
        for kept in (tmp_path / "home").iterdir():
            kept.unlink()
    room = await make_room(env={"AGENT_WITHOUT": "load"} if how == "load" else None)
    turn = await room.say("And?")
    assert notices_of(turn) == [
        "Puppet could not go on in its own memory of this chat. It begins a new one, and is told what was said."
    ]
    [told] = room.model.requests[-1].body["messages"]
    before, said = [part["text"] for part in told["content"]]
    assert before.endswith("Person: !!text remember\n\nYou: remember")
    assert said == "And?"
    await room.leave()


async def test_one_that_is_not_used_for_long_ends_and_comes_back(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.say("!!text first")
    monkeypatch.setattr("jupyter_ahp.agents.acp.conversation._IDLE", 0.01)
    await room.say("!!text remember")
    await room.until(lambda: room.conversation.pid is None)
    await room.say("!!text on")
    assert room.told()[-3:] == ["!!text remember", "remember", "!!text on"]


async def test_one_that_could_not_go_on_is_left_as_it_is(
    make_room: MakeRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = await make_room(env={"AGENT_WITHOUT": "load"})
    await room.say("!!text first")
    pid = room.pid
    monkeypatch.setattr("jupyter_ahp.agents.acp.conversation._IDLE", 0.0)
    await room.say("!!text remember")
    await room.until(lambda: room.conversation._idle is None)
    await room.say("!!text on")
    assert room.pid == pid
    await room.leave()


@linux
async def test_nothing_is_left_of_a_chat_that_was_closed_or_of_a_server_that_stopped(
    make_room: MakeRoom,
) -> None:
    room = await make_room()
    pids: dict[str, list[int]] = {}
    await room.client.request("createChat", channel=SESSION, chat="ahp-chat:/two")
    for watcher in (room.client, room.other):
        await watcher.subscribe("ahp-chat:/two")
    for chat, name in ((room.chat, "one"), ("ahp-chat:/two", "two")):
        await room.say(f'!!tool spend {{"pid_file": "{name}"}}\n!!text done', chat)
        pids[name] = [int(pid) for pid in (room.folder / name).read_text().split()]
    await room.client.request("disposeChat", channel="ahp-chat:/two")
    await gone(*pids["two"])
    assert all(map(lives, pids["one"])), "the other chat's process is another"
    await quiet(room.host)
    await room.host.stop()
    await gone(*pids["one"])


# ── Before it can be used ────────────────────────────────────────────────────────────────────────────────────────────
async def test_one_that_is_not_there_is_listed_with_what_to_do(make_room: MakeRoom) -> None:
    agent = ACPAgent(Server("none", "None", "no-such-agent", ("--acp",)))
    probe = await agent.probe()
    assert not probe.ready
    assert "“no-such-agent”" in probe.reason
    assert "ACPAgent.servers" in probe.fix


async def test_without_the_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, model: MockModel, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    probe = await ACPAgent(puppet(model, tmp_path)).probe()
    assert (probe.ready, "jupyter-ahp[acp]" in probe.fix) == (False, True)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("terminal", f"{Path(sys.executable).name} login` in a terminal of this machine."),
        ("agent", "Log in: Say `puppet login` first."),
        ("env", "A key: set `PUPPET_KEY` in the server's environment, then restart it."),
    ],
)
async def test_a_login_that_it_wants_is_explained(make_room: MakeRoom, how: str, words: str) -> None:
    room = await make_room(env={"AGENT_LOGIN": how})
    error = error_of(await room.say("hello"))
    assert error["errorType"] == "authRequired"
    assert error["message"].startswith("Puppet has to be logged in first. ")
    assert error["message"].endswith(words)
    await room.leave()


async def test_a_key_that_is_in_the_environment_logs_it_in(make_room: MakeRoom) -> None:
    room = await make_room(env={"AGENT_LOGIN": "env", "PUPPET_KEY": "k"})
    assert answer_of(await room.say("!!text hello")) == "hello"
    await room.leave()


async def test_another_version_of_the_protocol_is_said(make_room: MakeRoom) -> None:
    room = await make_room(env={"AGENT_VERSION": "7"})
    assert "speaks version 7 of ACP" in error_of(await room.say("hello"))["message"]
    await room.leave()
