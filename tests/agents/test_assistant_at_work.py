"""The assistant with its own tools in a real host: what people are asked, what they stop, and what the model is told of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.agents.assistant import AssistantAgent
from tests.agents.conftest import MakeAssistant
from tests.agents.desk import PATIENCE, Desk, at_desk
from tests.host.harness import answer_of, message, until
from tests.mock_model import MockModel

WRITE = '!!tool write_file {"path": "a.txt", "content": "new"}\n!!text Written.'


@pytest.fixture
async def desk(tmp_path: Path, make_assistant: MakeAssistant, model: MockModel) -> AsyncIterator[Desk]:
    directory = tmp_path / "work"
    directory.mkdir()
    entry = {"id": "mock", "name": "Mock", "base_url": model.base_url, "model": model.model}
    async with at_desk(make_assistant(models=[entry], backoff_seconds=0.3), model, directory) as desk:
        yield desk


async def test_the_model_is_told_where_it_works_and_what_it_has(desk: Desk) -> None:
    await desk.client.start(desk.chat, "!!text Hello")
    await desk.ended()
    [request] = desk.model.requests
    names = [tool["function"]["name"] for tool in request.body["tools"]]
    assert names[:6] == [
        "read_file",
        "list_directory",
        "search_files",
        "write_file",
        "edit_file",
        "run_command",
    ]
    assert "get_session_context" in names, "and the host's"
    assert "You work in the directory work: relative paths begin there." in request.texts[0][1]


async def test_reading_runs_without_asking_and_the_model_goes_on(desk: Desk) -> None:
    (desk.directory / "a.txt").write_text("the content")
    await desk.client.start(desk.chat, '!!tool read_file {"path": "a.txt"}\n!!text Read.')
    turn = await desk.ended()
    assert answer_of(turn) == "Read."
    assert desk.results() == ["     1\tthe content"]


async def test_what_is_allowed_once_is_done_and_asks_again(desk: Desk) -> None:
    for turns in (1, 2):
        await desk.client.start(desk.chat, WRITE)
        call = await desk.asked()
        assert call["edits"]["items"][0]["after"]["uri"] == (desk.directory / "a.txt").as_uri()
        await desk.answer("allow-once")
        await desk.ended(turns)
        assert (desk.directory / "a.txt").read_text() == "new"
        (desk.directory / "a.txt").unlink()
    assert desk.results()[-1] == "a.txt is written, 3 bytes."


async def test_what_is_denied_is_not_done_and_the_model_is_told_why(desk: Desk) -> None:
    await desk.client.start(desk.chat, WRITE)
    await desk.asked()
    await desk.answer("deny", "Keep it as it is.")
    turn = await desk.ended()
    assert turn["state"] == "complete"
    assert "Keep it as it is." in desk.results()[-1]
    assert os.listdir(desk.directory) == []


async def test_what_is_allowed_for_the_session_asks_no_more(desk: Desk) -> None:
    await desk.client.start(desk.chat, WRITE)
    await desk.asked()
    await desk.answer("allow-session")
    await desk.ended()
    await desk.client.start(desk.chat, '!!tool write_file {"path": "b.txt", "content": "x"}\n!!text Done.')
    turn = await desk.ended(2)
    assert (desk.directory / "b.txt").read_text() == "x"
    assert turn["responseParts"][0]["toolCall"]["confirmed"] == "setting"
    await desk.client.start(desk.chat, '!!tool run_command {"command": "true"}\n!!text Done.')
    assert (await desk.asked())["toolName"] == "run_command", "another tool asks"
    await desk.answer("deny")
    await desk.ended(3)


async def test_T5_a_stop_in_a_command_ends_it(desk: Desk) -> None:
    turn = await desk.client.start(
        desk.chat, '!!tool run_command {"command": "echo $$ > pid; exec sleep 600"}\n!!text Done.'
    )
    await desk.asked()
    await desk.answer("allow-once")
    pid = desk.directory / "pid"
    await until(lambda: pid.is_file() and pid.read_text().strip(), PATIENCE)
    await desk.client.do(desk.chat, "chat/turnCancelled", turnId=turn, duration=1)
    ended = await desk.ended()
    assert ended["state"] == "cancelled"
    await until(lambda: not os.path.exists(f"/proc/{pid.read_text().strip()}"), PATIENCE)
    assert len(desk.model.requests) == 1
    await desk.client.start(desk.chat, "!!text And now?")
    await desk.ended(2)
    assert desk.results() == ["It was not finished: the turn ended before."]


async def test_T5_a_stop_in_an_approval_does_nothing_of_it(desk: Desk) -> None:
    turn = await desk.client.start(desk.chat, WRITE)
    await desk.asked()
    await desk.client.do(desk.chat, "chat/turnCancelled", turnId=turn, duration=1)
    assert (await desk.ended())["state"] == "cancelled"
    await quiet_model(desk)
    assert os.listdir(desk.directory) == []


async def quiet_model(desk: Desk) -> None:
    """Every request has ended."""
    await desk.model.until(lambda model: all(request.ended is not None for request in model.requests))
    assert len(desk.model.requests) == 1


@pytest.mark.parametrize("when", ["approval", "tool"])
async def test_G1_B15_steering_in_a_call_is_behind_its_result(desk: Desk, when: str) -> None:
    await desk.client.start(
        desk.chat,
        '!!tool run_command {"command": "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo ran"}\n!!text Done.',
    )
    await desk.asked()
    if when == "tool":
        await desk.answer("allow-once")
        await until((desk.directory / "begun").exists, PATIENCE)
    said = message("In French, please.")
    await desk.other.do(desk.chat, "chat/pendingMessageSet", kind="steering", id="s", message=said)
    if when == "approval":
        await desk.answer("allow-once")
    (desk.directory / "go").touch()
    turn = await desk.ended()
    assert [part["kind"] for part in turn["responseParts"]] == ["toolCall", "systemNotification", "markdown"]
    told = desk.model.requests[-1].texts
    assert told[-2:] == [("tool", "ran"), ("user", "In French, please.")]


async def test_a_file_is_what_later_turns_know_that_it_was_read(desk: Desk) -> None:
    (desk.directory / "a.txt").write_text("the content")
    await desk.client.start(desk.chat, '!!tool read_file {"path": "a.txt"}\n!!text Read.')
    await desk.ended()
    await desk.client.start(desk.chat, "!!text Again.")
    await desk.ended(2)
    assert desk.results() == ["     1\tthe content"]


async def test_commands_are_the_extensions_to_forbid(make_assistant: MakeAssistant, tmp_path: Path) -> None:
    from jupyter_ahp.agents.registry import find_agents

    [agent] = find_agents(["assistant"], commands=False, data_dir=tmp_path, installed=[])
    assert isinstance(agent, AssistantAgent)
    assert agent.runs_commands is False
    await agent.close()
