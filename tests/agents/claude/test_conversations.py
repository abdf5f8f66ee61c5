"""Conversations that outlive a CLI: restarts, forks, rewinds, other programs' sessions. B12, B13, S2 to S4, U5, X1, X3."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_ahp.agents.base import RESUME_POINT, Prompt
from jupyter_ahp.agents.claude import ClaudeAgent, sessions
from jupyter_ahp.agents.claude.settings import Settings
from jupyter_ahp.host.ports import Json
from tests.agents.claude.room import SESSION, Room, calls_of, kinds, said
from tests.agents.recording import START, RecordingSink
from tests.mock_model import MockModel

NEW = "ahp-chat:/new"


async def three(room: Room) -> list[Json]:
    for number, word in enumerate(("one", "two", "three")):
        await room.say(f"{word}\n!!text {number}")
    return await room.ended(3)


async def test_a_restarted_host_goes_on_with_its_memory(room: Room) -> None:
    await room.say("my name is Ada\n!!text hello Ada")
    await room.restart()
    await room.say("who am I?\n!!text Ada")

    assert room.told() == ["my name is Ada\n!!text hello Ada", "hello Ada", "who am I?\n!!text Ada"]
    assert len(await room.ended(2)) == 2


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_what_a_turn_cost_is_its_own_cost_after_a_restart_too(room: Room) -> None:
    def cost(turn: Json) -> float:
        amount: float = turn["usage"]["_meta"]["jupyter-ahp.cost"]["amount"]
        return amount

    before = [cost(await room.say(f"{number}\n!!text 1")) for number in range(3)]
    await room.restart()
    after = [cost(await room.say(f"{number}\n!!text 1")) for number in range(2)]

    assert max(after) < 1.5 * min(before)
    assert min(after) > 0


async def test_an_idle_cli_is_closed_and_resumed(settings: Settings, model: MockModel, work: Path) -> None:
    room = Room(replace(settings, idle_seconds=0.5), model, work)
    await room.enter()
    try:
        await room.say("one\n!!text 1")
        pid = room.pid
        await room.see(lambda: not is_there(pid))
        await room.say("two\n!!text 2")
        assert room.told() == ["one\n!!text 1", "1", "two\n!!text 2"]
    finally:
        await room.leave()


async def test_S3_a_fork_goes_on_at_its_turn_and_leaves_its_source_alone(room: Room) -> None:
    turns = await three(room)
    source = {"kind": "fork", "chat": room.chat, "turnId": turns[1]["id"]}
    await room.client.request("createChat", channel=SESSION, chat=NEW, source=source)
    await room.client.subscribe(NEW)
    await room.say("other\n!!text 9", NEW)
    assert room.told() == ["one\n!!text 0", "0", "two\n!!text 1", "1", "other\n!!text 9"]

    await room.say("four\n!!text 3")
    assert room.told()[-3:] == ["three\n!!text 2", "2", "four\n!!text 3"]
    await room.say("more\n!!text 8", NEW)
    assert room.told()[-3:] == ["other\n!!text 9", "9", "more\n!!text 8"]


async def test_X1_a_rewind_forgets_what_came_behind(room: Room) -> None:
    turns = await three(room)
    await room.client.do(room.chat, "chat/truncated", turnId=turns[0]["id"])
    await room.say("other\n!!text 9")
    assert room.told() == ["one\n!!text 0", "0", "other\n!!text 9"]

    await room.restart()
    await room.say("more\n!!text 8")
    assert room.told() == ["one\n!!text 0", "0", "other\n!!text 9", "9", "more\n!!text 8"]


async def test_X1_a_rewind_behind_a_stop(room: Room) -> None:
    await room.say("one\n!!text 0")
    await room.begin("two\n!!chunks 200 0.02")
    await room.see(lambda: said(room.active).count("c") > 3)
    await room.stop()
    first, second = await room.ended(2)
    await room.say("three\n!!text 2")
    await room.client.do(room.chat, "chat/truncated", turnId=second["id"])
    await room.say("other\n!!text 9")

    assert room.told()[0] == "one\n!!text 0"
    assert "three\n!!text 2" not in room.told()
    assert any(text.startswith("c0 c1") for text in room.told())
    assert first["state"] == "complete"


async def test_X3_a_chat_that_starts_over_has_its_conversation_deleted(
    room: Room, settings: Settings
) -> None:
    await three(room)
    [before] = settings.home.glob("projects/*/*.jsonl")
    await room.client.do(room.chat, "chat/truncated")
    await room.say("anew\n!!text 9")

    assert room.told() == ["anew\n!!text 9"]
    assert not before.exists()


async def test_a_rewind_behind_a_compaction(room: Room) -> None:
    await room.say("one\n!!text 0")
    await room.say("/compact")
    turn = await room.say("two\n!!text 1")
    await room.say("three\n!!text 2")
    await room.client.do(room.chat, "chat/truncated", turnId=turn["id"])
    await room.say("other\n!!text 9")

    assert room.told()[-2:] == ["1", "other\n!!text 9"]
    assert room.told()[-3].endswith("two\n!!text 1")


async def test_a_conversation_that_is_gone_is_told_again(room: Room) -> None:
    await room.say("my name is Ada\n!!text hello Ada")
    await room.leave()
    await room.agent.delete(await memory_of(room))
    await room.enter()
    turn = await room.say("who am I?\n!!text Ada")

    assert kinds(turn) == ["systemNotification", "markdown"]
    [told] = room.told()
    assert "Person: my name is Ada" in told
    assert "You: hello Ada" in told
    assert told.endswith("who am I?\n!!text Ada")
    await room.say("and now?\n!!text still Ada")
    assert room.told()[-1] == "and now?\n!!text still Ada"


async def test_X2_what_cannot_be_gone_back_to_is_kept(room: Room, settings: Settings) -> None:
    await three(room)
    memory = await memory_of(room)
    await room.leave()
    at = "00000000-0000-4000-8000-000000000000"
    start = replace(START, directories=(str(room.work),), memory=memory, at=at)
    sink = RecordingSink()
    conversation = await ClaudeAgent(settings).open(start)
    try:
        await conversation.send(Prompt("t4", "four\n!!text 3"), sink)
    finally:
        await conversation.close()
    await room.enter()

    assert sink.text == "3"
    assert room.told()[-3:] == ["three\n!!text 2", "2", "four\n!!text 3"]


async def test_a_cleared_conversation_begins_anew_and_stays_so(room: Room) -> None:
    await room.say("one\n!!text 0")
    await room.say("/clear")
    await room.say("two\n!!text 1")
    [told] = room.told()
    assert told.endswith("two\n!!text 1")
    assert "one\n!!text 0" not in told

    await room.restart()
    await room.say("three\n!!text 2")
    assert room.told() == [told, "1", "three\n!!text 2"]


# ── read back ────────────────────────────────────────────────────────────────────────────────────────────────────
async def memory_of(room: Room) -> str:
    [path] = room.settings.home.glob("projects/*/*.jsonl")
    return path.stem


async def test_B12_a_conversation_reads_back_as_it_was_shown(room: Room) -> None:
    await room.begin(
        f'one\n!!think hm\n!!tool Write {{"file_path":"{room.work}/a.txt","content":"x\\n"}}\n!!text done'
    )
    await room.answer(await room.call("pending-confirmation"), "allow-once")
    await room.ended(1)
    await room.begin('two\n!!tool Bash {"command":"sleep 1"}\n!!text unsteered')
    await room.call("running")
    await room.steer("STEER")
    await room.ended(2)
    await room.begin("three\n!!chunks 200 0.02")
    await room.see(lambda: said(room.active).count("c") > 3)
    await room.steer("late\n!!text answered late", "late")
    await room.see(lambda: "steeringMessage" in room.client.state(room.chat))
    await room.stop()
    shown = await room.ended(4)
    read = await room.agent.transcript(await memory_of(room))

    assert [turn["message"]["text"] for turn in read] == [turn["message"]["text"] for turn in shown]
    assert [turn["state"] for turn in read] == [turn["state"] for turn in shown]
    assert [turn["state"] for turn in read] == ["complete", "complete", "cancelled", "complete"]
    assert [kinds(turn) for turn in read] == [kinds(turn) for turn in shown]
    for kept, seen in zip(read, shown, strict=True):
        if seen["state"] == "cancelled":  # the stop was said before the CLI had taken it in
            assert said(kept).startswith(said(seen))
        else:
            assert said(kept) == said(seen)
    [call], [own] = calls_of(read[0]), calls_of(shown[0])
    for key in ("toolName", "displayName", "status", "success", "pastTenseMessage", "content", "toolInput"):
        assert call[key] == own[key], key


async def test_B12_background_work_that_came_back_is_a_turn_of_the_system(room: Room) -> None:
    await room.say(
        'one\n!!tool Bash {"command":"sleep 0.5; echo hi","run_in_background":true}\n!!text started'
    )
    shown = await room.ended(2)
    read = await room.agent.transcript(await memory_of(room))

    assert [turn["message"]["origin"]["kind"] for turn in read] == ["user", "systemNotification"]
    assert shown[1]["message"]["text"] == read[1]["message"]["text"]
    assert "sleep 0.5" in read[1]["message"]["text"]


async def test_B13_a_conversation_of_another_program_is_listed_read_and_gone_on_with(
    room: Room, settings: Settings, model: MockModel
) -> None:
    await three(room)
    memory = await memory_of(room)
    await room.leave()
    other = Room(settings, model, room.work)  # knows nothing of what that host had
    await other.enter()
    try:
        [found] = await other.agent.catalogue([str(room.work)])
        assert (found.memory, found.title, found.directory) == (memory, "one !!text 0", str(room.work))
        read = await other.agent.transcript(memory)
        assert [said(turn) for turn in read] == ["0", "1", "2"]
        assert all(turn[RESUME_POINT] for turn in read)
        assert all(turn["duration"] >= 0 for turn in read)
        assert await other.agent.catalogue([str(room.work.parent)]) == []
        assert len(model.requests) == 3  # nothing was started for it

        rows = (await other.client.request("listSessions"))["items"]
        [row] = [row for row in rows if row["title"] == found.title]
        chat = (await other.client.subscribe(row["resource"]))["defaultChat"]
        state = await other.client.subscribe(chat)
        assert [said(turn) for turn in state["turns"]] == ["0", "1", "2"]
        assert len(model.requests) == 3
        await other.say("four\n!!text 3", chat)
        assert other.told()[-3:] == ["three\n!!text 2", "2", "four\n!!text 3"]
    finally:
        await other.leave()


async def test_X3_a_deleted_conversation_is_gone(room: Room) -> None:
    await room.say("one\n!!text 0")
    memory = await memory_of(room)
    await room.agent.delete(memory)
    await room.agent.delete(memory)  # is deleted already

    assert await room.agent.catalogue([str(room.work)]) == []


def test_what_is_no_conversation_is_not_listed(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-work"
    folder.mkdir(parents=True)
    (folder / "notes.jsonl").write_text("{}\n")
    (folder / "5a1f6ab4-41c0-4b8a-9be6-3c6f1f0f2d57.jsonl").write_text('{"type":"mode"}\nnot json\n')

    assert sessions.catalogue(tmp_path, ("/work",)) == []
    assert sessions.find(tmp_path, "../../etc/passwd") is None
    assert sessions.find(tmp_path, "5a1f6ab4-41c0-4b8a-9be6-3c6f1f0f2d58") is None


def test_a_long_directory_is_found(tmp_path: Path) -> None:
    directory = "/" + "d" * 250
    folder = tmp_path / "projects" / f"-{'d' * 199}-1x2y3z"
    folder.mkdir(parents=True)
    entry = (
        '{"type":"user","uuid":"u","timestamp":"2026-01-01T00:00:00.000Z",'
        '"message":{"role":"user","content":"hello there"}}'
    )
    (folder / "5a1f6ab4-41c0-4b8a-9be6-3c6f1f0f2d57.jsonl").write_text(entry + "\n")

    [found] = sessions.catalogue(tmp_path, (directory,))
    assert found.title == "hello there"


@pytest.mark.parametrize("named", ["custom-title", "ai-title"])
def test_a_name_that_was_given_is_the_title(tmp_path: Path, named: str) -> None:
    folder = tmp_path / "projects" / "-work"
    folder.mkdir(parents=True)
    key = "customTitle" if named == "custom-title" else "aiTitle"
    lines = [
        '{"type":"user","uuid":"u","timestamp":"2026-01-01T00:00:00.000Z","message":{"content":"hello"}}',
        f'{{"type":"{named}","{key}":"Called so"}}',
    ]
    (folder / "5a1f6ab4-41c0-4b8a-9be6-3c6f1f0f2d57.jsonl").write_text("\n".join(lines))

    [found] = sessions.catalogue(tmp_path, ("/work",))
    assert (found.title, found.created_at) == ("Called so", "2026-01-01T00:00:00.000Z")
