"""Turns with Claude: what is streamed, asked, and shown. B3, B4, A1, T9."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from jupyter_ahp.agents.claude.settings import Settings
from jupyter_ahp.host.ports import Json
from tests.agents.claude.room import SESSION, Room, calls_of, kinds, said
from tests.mock_model import MockModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_an_answer_is_streamed_and_counted(room: Room) -> None:
    turn = await room.say("hello\n!!think let me see\n!!text one two three")

    assert kinds(turn) == ["reasoning", "markdown"]
    assert said(turn) == "one two three"
    assert said(turn, "reasoning") == "let me see"
    assert turn["state"] == "complete"
    assert turn["usage"]["outputTokens"] == 6
    assert turn["usage"]["model"] == "mock-model"
    assert room.told() == ["hello\n!!think let me see\n!!text one two three"]
    assert "chat/delta" in room.client.kinds(room.chat)


async def test_the_conversation_goes_on(room: Room) -> None:
    await room.say("my name is Ada\n!!text hello Ada")
    await room.say("who am I?\n!!text Ada")

    assert room.told() == ["my name is Ada\n!!text hello Ada", "hello Ada", "who am I?\n!!text Ada"]


async def test_a_call_is_approved(room: Room) -> None:
    path = room.work / "a.txt"
    await room.begin(
        f'write\n!!text first\n!!tool Write {{"file_path":"{path}","content":"hi\\nyou\\n"}}\n!!text done'
    )
    call = await room.call("pending-confirmation")
    assert call["confirmationTitle"] == "Write this file?"
    assert [option["id"] for option in call["options"]] == ["allow-once", "allow-session", "deny"]
    await room.answer(call, "allow-once")
    [turn] = await room.ended(1)

    [call] = calls_of(turn)
    assert call["status"] == "completed"
    assert call["success"]
    assert call["pastTenseMessage"] == "Wrote a.txt"
    assert call["content"][0]["type"] == "fileEdit"
    assert call["content"][0]["diff"] == {"added": 2, "removed": 0}
    assert path.read_text() == "hi\nyou\n"
    assert kinds(turn) == ["markdown", "toolCall", "markdown"]


async def test_an_edit_shows_its_lines_before_and_after_it_is_made(room: Room) -> None:
    path = room.work / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    read = f'!!tool Read {{"file_path":"{path}"}}'
    await room.begin(
        f'edit\n{read}\n!!tool Edit {{"file_path":"{path}","old_string":"two","new_string":"2"}}\n!!text done'
    )
    call = await room.call("pending-confirmation", "Edit")
    [asked] = call["edits"]["items"]
    assert [await contents(room, asked[side]) for side in ("before", "after")] == ["two", "2"]
    await room.answer(call, "allow-once")
    [turn] = await room.ended(1)

    [done] = calls_of(turn)[-1]["content"]
    assert done["diff"] == {"added": 1, "removed": 1}
    assert done["after"]["uri"] == path.as_uri()
    assert await contents(room, done["before"]) == "one\ntwo\nthree"
    assert await contents(room, done["after"]) == "one\n2\nthree"


async def contents(room: Room, side: Json) -> str:
    """One side of an edit, as a client reads it."""
    answer = await room.client.request("resourceRead", uri=side["content"]["uri"])
    text: str = answer["data"]
    return text


async def test_a_call_is_denied_with_a_reason(room: Room) -> None:
    path = room.work / "a.txt"
    await room.begin(f'write\n!!tool Write {{"file_path":"{path}","content":"hi"}}\n!!text done')
    call = await room.call("pending-confirmation")
    await room.answer(call, "deny", approved=False, reasonMessage="Use another name")
    [turn] = await room.ended(1)

    [call] = calls_of(turn)
    assert (call["status"], call["reason"]) == ("cancelled", "denied")
    assert not path.exists()
    assert "Use another name" in room.told()[-1]
    assert turn["state"] == "complete"


async def test_what_is_allowed_for_the_session_is_not_asked_again(room: Room) -> None:
    run = '!!tool Bash {"command":"env"}\n!!text done'
    await room.begin(f"one\n{run}")
    call = await room.call("pending-confirmation")
    assert call["confirmationTitle"] == "Run this command?"
    assert [(option["id"], option["label"]) for option in call["options"]] == [
        ("allow-once", "Allow once"),
        ("allow-session", "Allow “env” in this session"),
        ("allow-always", "Always allow “env” in this project"),
        ("deny", "Deny"),
    ]
    await room.answer(call, "allow-session")
    await room.ended(1)
    turn = await room.say(f"two\n{run}")
    assert (calls_of(turn)[0]["status"], calls_of(turn)[0]["confirmed"]) == ("completed", "setting")

    await room.restart()  # the session keeps it, not the CLI
    assert calls_of(await room.say(f"three\n{run}"))[0]["confirmed"] == "setting"
    await room.client.do(SESSION, "session/configChanged", config={"approvals": "ask"})
    await room.begin(f"four\n{run}")
    await room.call("pending-confirmation")
    await room.client.do(SESSION, "session/configChanged", config={"approvals": "auto"})
    assert calls_of((await room.ended(4))[-1])[0]["status"] == "completed"


async def test_a_command_is_edited_before_it_runs(room: Room) -> None:
    await room.begin(f'one\n!!tool Bash {{"command":"mkdir {room.work}/x"}}\n!!text done')
    call = await room.call("pending-confirmation")
    assert call["editable"]
    await room.answer(call, "allow-once", editedToolInput=f'{{"command": "mkdir {room.work}/z"}}')
    await room.ended(1)

    assert [path.name for path in room.work.iterdir()] == ["z"]


async def test_a_failed_command_says_so(room: Room) -> None:
    turn = await room.say('one\n!!tool Bash {"command":"echo out; ls ./nowhere"}\n!!text done')

    [call] = calls_of(turn)
    assert (call["status"], call["success"]) == ("completed", False)
    assert call["pastTenseMessage"].startswith("Failed: echo out")
    assert "out" in call["content"][0]["text"]
    assert call["_meta"]["toolKind"] == "terminal"


async def test_a_question_is_answered(room: Room) -> None:
    asked = (
        '{"questions":[{"question":"Which?","header":"Kind","multiSelect":false,'
        '"options":[{"label":"Bars","description":"b"},{"label":"Lines","description":"l"}]},'
        '{"question":"What else?","header":"More","multiSelect":true,'
        '"options":[{"label":"Axes","description":"a"},{"label":"Title","description":"t"}]}]}'
    )
    await room.begin(f"plot\n!!tool AskUserQuestion {asked}\n!!text done")

    def requests() -> list[Json]:
        return [part["request"] for part in room.active["responseParts"] if part["kind"] == "inputRequest"]

    await room.see(requests)
    [request] = requests()
    assert [question["kind"] for question in request["questions"]] == ["single-select", "multi-select"]
    answers = {
        "0": {"state": "submitted", "value": {"kind": "selected", "value": "1"}},
        "1": {
            "state": "submitted",
            "value": {"kind": "selected-many", "value": ["0"], "freeformValues": ["a grid"]},
        },
    }
    await room.client.do(
        room.chat, "chat/inputCompleted", requestId=request["id"], response="accept", answers=answers
    )
    [turn] = await room.ended(1)

    assert '"Which?"="Lines"' in room.told()[-1]
    assert '"What else?"="Axes, a grid"' in room.told()[-1]
    assert said(turn) == "done"


async def test_a_question_that_is_declined_is_told_as_that(room: Room) -> None:
    asked = '{"questions":[{"question":"Which?","header":"H","multiSelect":false,"options":[{"label":"A","description":"a"},{"label":"B","description":"b"}]}]}'
    await room.begin(f"plot\n!!tool AskUserQuestion {asked}\n!!text done")
    await room.see(lambda: kinds(room.active)[-1:] == ["inputRequest"])
    request = room.active["responseParts"][-1]["request"]
    await room.client.do(room.chat, "chat/inputCompleted", requestId=request["id"], response="decline")
    [turn] = await room.ended(1)

    assert "did not answer" in room.told()[-1]
    assert said(turn) == "done"


async def test_a_plan_is_approved_and_the_mode_changes(
    settings: Settings, model: MockModel, work: Path
) -> None:
    room = Room(settings, model, work)
    await room.enter(permissionMode="plan")
    try:
        await room.begin('plan\n!!tool ExitPlanMode {"plan":"# Go\\n1. go"}\n!!text done')
        call = await room.call("pending-confirmation")
        assert call["confirmationTitle"] == "Go ahead with this plan?"
        assert call["invocationMessage"] == "# Go\n1. go"
        await room.answer(call, "edit")
        await room.ended(1)
        assert room.client.state(SESSION)["config"]["values"]["permissionMode"] == "acceptEdits"
        turn = await room.say(
            f'write\n!!tool Write {{"file_path":"{work}/a.txt","content":"hi"}}\n!!text done'
        )
        assert calls_of(turn)[0]["confirmed"] == "not-needed"  # edits are accepted from here on
    finally:
        await room.leave()


async def test_a_changed_mode_is_heeded_in_the_turn_that_runs(room: Room) -> None:
    await room.begin(
        f'one\n!!tool Bash {{"command":"sleep 2"}}\n!!tool Write {{"file_path":"{room.work}/a.txt","content":"x"}}\n!!text done'
    )
    await room.call("running")
    await room.client.do(SESSION, "session/configChanged", config={"permissionMode": "acceptEdits"})
    [turn] = await room.ended(1)

    assert [call["confirmed"] for call in calls_of(turn)] == ["not-needed", "not-needed"]
    assert (room.work / "a.txt").exists()


async def test_effort_and_model_are_heeded_by_a_running_cli(room: Room) -> None:
    await room.say("one\n!!text 1")
    pid = room.pid
    await room.client.do(SESSION, "session/configChanged", config={"effort": "low"})
    await room.say("two\n!!text 2")
    assert room.requests[-1].body["output_config"] == {"effort": "low"}
    await room.say("three\n!!text 3", model={"id": "other-model"})
    assert room.requests[-1].body["model"] == "other-model"
    await room.say("four\n!!text 4")
    assert room.requests[-1].body["model"] == "mock-model"
    assert room.pid == pid


async def test_B11_a_model_that_is_not_taken_leaves_the_turn_on_the_one_it_has(room: Room) -> None:
    turn = await room.say("one\n!!text 1", model={"id": "no-such-model"})

    assert said(turn) == "1"
    assert room.requests[-1].body["model"] == "mock-model"
    [notice] = [part["content"] for part in turn["responseParts"] if part["kind"] == "systemNotification"]
    assert "no-such-model" in notice


async def test_A1_attachments_stand_before_the_words(room: Room) -> None:
    png = base64.b64encode(PNG).decode()
    (room.work / "big.bin").write_bytes(b"\0" * 10)
    attached: list[Json] = [
        {"type": "embeddedResource", "label": "plot.png", "data": png, "contentType": "image/png"},
        {"type": "simple", "label": "cell", "modelRepresentation": "x = 1"},
        {"type": "resource", "label": "big.bin", "uri": (room.work / "big.bin").as_uri()},
    ]
    await room.say("look\n!!text seen", attachments=attached)

    [told] = room.told()
    assert "Attached, the image plot.png:\n\n[image/png]" in told
    assert "Attached, cell:\n```\nx = 1\n```" in told
    assert f"Attached, big.bin: {room.work}/big.bin" in told
    assert told.index("Attached, big.bin") < told.index("look\n!!text seen")


async def test_pictures_come_back_from_tools(room: Room) -> None:
    path = room.work / "plot.png"
    path.write_bytes(PNG)
    turn = await room.say(f'read\n!!tool Read {{"file_path":"{path}"}}\n!!text done')

    [call] = calls_of(turn)
    assert [(one["type"], one["contentType"]) for one in call["content"]] == [
        ("embeddedResource", "image/png")
    ]


async def test_T9_a_compaction_is_a_notice_and_drops_nothing(room: Room) -> None:
    await room.say("one\n!!text first answer")
    turn = await room.say("/compact")
    await room.say("two\n!!text second answer")

    notices = [part["content"] for part in turn["responseParts"] if part["kind"] == "systemNotification"]
    assert len(notices) == 1
    assert re.search(r"compacted for the model\. [\d,]+ tokens became [\d,]+\.", notices[0])
    assert [one["message"]["text"].split("\n")[0] for one in await room.ended(3)] == [
        "one",
        "/compact",
        "two",
    ]
    assert said(turn) == ""  # what was said before is not said again


async def test_commands_of_the_cli_are_offered_and_answered(room: Room) -> None:
    before = {command.name for command in await room.agent.commands([str(room.work)], {})}
    turn = await room.say("/context")
    after = {command.name for command in await room.agent.commands([str(room.work)], {})}

    assert "Context Usage" in said(turn)
    assert {"compact", "context", "init"} <= before <= after
    assert "clear" not in after
    assert "model" not in after


async def test_B3_what_the_host_has_to_say_goes_ahead(room: Room) -> None:
    await room.say("the secret is 42\n!!text noted")
    turn = room.client.state(room.chat)["turns"][0]["id"]
    side = "ahp-chat:/side"
    source = {"kind": "sideChat", "chat": room.chat, "turnId": turn}
    await room.client.request("createChat", channel=SESSION, chat=side, source=source)
    await room.client.subscribe(side)
    await room.say("what was it?\n!!text 42", side)
    await room.say("again?\n!!text 42", side)

    first, *_ = room.told()
    assert "the secret is 42" in first
    assert first.endswith("what was it?\n!!text 42")
    assert room.told()[-1] == "again?\n!!text 42"


async def test_nothing_of_a_claude_session_around_the_server_leaks(
    settings: Settings, model: MockModel, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_PROJECT_DIR", "JUPYTER_TOKEN"):
        monkeypatch.setenv(name, "of-the-parent")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    room = Room(settings, model, work)
    await room.enter(permissionMode="acceptEdits")
    try:
        await room.begin('env\n!!tool Bash {"command":"env"}\n!!text done')
        await room.answer(await room.call("pending-confirmation"), "allow-once")
        await room.ended(1)
        printed = room.told()[-1]
        assert "of-the-parent" not in printed
        assert "HTTPS_PROXY=http://proxy.invalid:1" in printed
    finally:
        await room.leave()
