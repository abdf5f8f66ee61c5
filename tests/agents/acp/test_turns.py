"""What an ACP agent says becomes a turn; what a turn has becomes its prompt."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from jupyter_ahp.agents.base import Json
from tests.agents.acp.conftest import MakeRoom
from tests.agents.acp.room import SESSION, Room, calls_of, error_of, notices_of, texts_of
from tests.host.harness import answer_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)


async def test_an_answer_streams_with_its_reasoning_and_what_was_used(room: Room) -> None:
    turn = await room.say("!!think let me see\n!!text one two three")
    reasoning, answer = turn["responseParts"]
    assert (reasoning["kind"], reasoning["content"]) == ("reasoning", "let me see")
    assert answer["content"] == "one two three"
    assert room.client.kinds(room.chat).count("chat/delta") == 3
    assert turn["state"] == "complete"
    assert turn["usage"]["outputTokens"] == 6
    assert turn["usage"]["_meta"]["jupyter-ahp.cost"] == {"amount": 0.5, "currency": "USD"}
    assert "activity" not in room.client.state(room.chat)


async def test_a_chat_is_one_session_of_one_process(room: Room) -> None:
    await room.say("!!text one")
    pid = room.pid
    await room.say("!!text two")
    assert room.pid == pid
    assert room.told() == ["!!text one", "one", "!!text two"]


async def test_G4_it_takes_no_steering(room: Room) -> None:
    said = await room.queue("steering", "s", "In French")
    assert said["rejectionReason"] == "The session provider does not support steering messages."
    await room.client.start(room.chat, "!!text one\n!!hang")
    await room.until(lambda: room.parts)
    said = await room.queue("steering", "s", "In French")
    assert said["rejectionReason"] == "The session provider does not support steering messages."
    await room.cancel()


async def test_Q2_B1_what_is_queued_is_sent_when_the_turn_in_front_ends(room: Room) -> None:
    await room.client.start(room.chat, "!!chunks 20 0.02")
    await room.until(lambda: room.parts)
    for name in ("a", "b"):
        await room.queue("queued", name, f"!!text {name}")
    await room.until(lambda: len(room.client.state(room.chat)["turns"]) == 3)
    first, second, third = room.model.requests
    assert first.ended is not None
    assert second.ended is not None
    assert first.ended < second.began
    assert second.ended < third.began
    assert room.told()[2:] == ["!!text a", "a", "!!text b"]


# ── What its prompt has ──────────────────────────────────────────────────────────────────────────────────────────────
def attached(name: str, path: Path) -> Json:
    return {"type": "resource", "uri": path.as_uri(), "label": name}


def carried(name: str, data: bytes, kind: str) -> Json:
    return {
        "type": "embeddedResource",
        "data": base64.b64encode(data).decode(),
        "contentType": kind,
        "label": name,
    }


async def test_A1_pictures_texts_and_paths_reach_the_model(room: Room) -> None:
    (room.folder / "data.csv").write_text("a,b\n")
    attachments = [
        carried("dot.png", PNG, "image/png"),
        carried("note.txt", b"remember", "text/plain"),
        attached("data.csv", room.folder / "data.csv"),
    ]
    await room.say("!!text seen", attachments=attachments)
    content = room.model.requests[-1].body["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text", "text"]
    assert content[2]["text"].endswith("note.txt>remember")
    assert content[3]["text"] == f"<data.csv: {(room.folder / 'data.csv').as_uri()}>"


async def test_A1_an_agent_without_eyes_is_told_and_so_is_the_person(make_room: MakeRoom) -> None:
    room = await make_room(env={"AGENT_WITHOUT": "image embedded"})
    attachments = [carried("dot.png", PNG, "image/png"), carried("note.txt", b"remember", "text/plain")]
    turn = await room.say("What is it?", attachments=attachments)
    assert notices_of(turn) == ["Puppet cannot be shown pictures: it was told of dot.png only."]
    assert "“dot.png” is attached, but you cannot be shown pictures" in room.told()[-1]
    assert "note.txt:\n\nremember" in room.told()[-1]
    await room.leave()


async def test_B3_what_the_host_has_to_say_goes_ahead_of_what_was_said(room: Room) -> None:
    await room.say("!!text The median is robust.")
    source = {"kind": "sideChat", "chat": room.chat, "turnId": room.client.state(room.chat)["turns"][0]["id"]}
    await room.client.request("createChat", channel=SESSION, chat="ahp-chat:/side", source=source)
    for watcher in (room.client, room.other):
        await watcher.subscribe("ahp-chat:/side")
    await room.say("Why?", "ahp-chat:/side")
    [told] = room.model.requests[-1].body["messages"]
    *ahead, said = [part["text"] for part in told["content"]]
    assert said == "Why?"
    assert "The median is robust." in ahead[0]

    await room.say("Really?", "ahp-chat:/side")
    assert [part["text"] for part in room.model.requests[-1].body["messages"][-1]["content"]] == ["Really?"]


async def test_directories_that_acp_has_no_words_for_are_told(
    make_room: MakeRoom, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.txt").write_text("more")
    both = [folder.as_uri(), (tmp_path / "more").as_uri()]
    room = await make_room(workingDirectories=both)
    await room.say("!!text first")
    ahead, said = [part["text"] for part in room.model.requests[-1].body["messages"][-1]["content"]]
    assert ahead == f"You may work in these directories as well: {tmp_path / 'more'}"
    [call] = calls_of(await room.say('!!tool read {"path": "../more/a.txt"}\n!!text done'))
    assert texts_of(call) == ["more"]
    assert [text for text in room.told() if "directories" in text] == [f"{ahead}\n\n{said}"], "once"
    await room.leave()


async def test_a_command_of_the_agents_stays_in_front(room: Room) -> None:
    await room.say("!!text The median is robust.")
    items = (
        await room.client.request("completions", channel=room.chat, kind="userMessage", text="/sh", offset=3)
    )["items"]
    assert [item["insertText"] for item in items] == ["/shout "]
    source = {"kind": "sideChat", "chat": room.chat, "turnId": room.client.state(room.chat)["turns"][0]["id"]}
    await room.client.request("createChat", channel=SESSION, chat="ahp-chat:/side", source=source)
    for watcher in (room.client, room.other):
        await watcher.subscribe("ahp-chat:/side")
    await room.say("/shout it", "ahp-chat:/side")
    said, ahead = [part["text"] for part in room.model.requests[-1].body["messages"][-1]["content"]]
    assert said == "/shout it"
    assert "The median is robust." in ahead


# ── What it does ─────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_plan_is_one_call_that_shows_the_list_as_it_stands(room: Room) -> None:
    first = '!!tool plan {"steps": [["look", "in_progress"], ["think", "pending"]]}'
    second = '!!tool plan {"steps": [["look", "completed"], ["think", "in_progress"]]}'
    turn = await room.say(f"{first}\n{second}\n!!text done")
    [call] = calls_of(turn)
    assert (call["displayName"], call["pastTenseMessage"]) == ("Plan", "Plan: 1 of 2 done")
    assert texts_of(call) == ["✓ look\n▸ think"]
    shown = [
        env["action"]["content"]
        for env in room.client.envelopes
        if env["action"]["type"] == "chat/toolCallContentChanged"
    ]
    assert [blocks[0]["text"] for blocks in shown] == ["▸ look\n· think", "✓ look\n▸ think"]


async def test_pictures_that_it_makes_are_shown(room: Room) -> None:
    turn = await room.say("!!tool draw {}\n!!text done")
    picture, call, _ = turn["responseParts"]
    assert (picture["kind"], picture["contentType"]) == ("contentRef", "image/png")
    read = await room.client.request("resourceRead", uri=picture["uri"], encoding="base64")
    assert read == {"data": "iVBORw0KGgo=", "encoding": "base64", "contentType": "image/png"}
    [made] = call["toolCall"]["content"]
    assert made == {"type": "embeddedResource", "data": "iVBORw0KGgo=", "contentType": "image/png"}


async def test_a_file_is_read_through_us_and_named(room: Room) -> None:
    (room.folder / "a.txt").write_text("one\ntwo\nthree\n")
    turn = await room.say('!!tool read {"path": "a.txt", "line": 2, "limit": 1}\n!!text done')
    [call] = calls_of(turn)
    assert (call["toolName"], call["displayName"], call["success"]) == ("read", "Read a.txt", True)
    assert call["content"] == [
        {"type": "text", "text": "two\n"},
        {"type": "resource", "uri": (room.folder / "a.txt").as_uri()},
    ]


async def test_files_outside_of_the_directories_are_out_of_reach(room: Room, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    (room.folder / "link").symlink_to(tmp_path / "secret")
    (room.folder / "way").symlink_to(tmp_path)
    for path in ("../secret", "link", "way/secret", str(tmp_path / "secret")):
        [call] = calls_of(await room.say(f'!!tool read {{"path": "{path}"}}\n!!text done'))
        assert call["success"] is False
        assert "is not in this session's directories" in call["error"]["message"]
    turn = await room.client.start(room.chat, '!!tool write {"path": "way/new", "text": "x"}\n!!text done')
    await room.answer(await room.asked(), True)
    await room.until(lambda: not room.client.running(room.chat))
    [call] = calls_of(room.client.turn(room.chat, turn))
    assert "is not in this session's directories" in call["error"]["message"]
    assert not (tmp_path / "new").exists()


async def test_a_file_that_is_not_there_is_an_answer(room: Room) -> None:
    [call] = calls_of(await room.say('!!tool read {"path": "none"}\n!!text done'))
    assert call["error"]["message"].startswith(f"There is no file {room.folder / 'none'}.")


async def test_a_commands_output_is_shown_as_it_comes(room: Room) -> None:
    await room.say('!!tool switch {"mode": "auto"}\n!!text done')
    command = "echo one; while ! test -e go; do sleep 0.01; done; echo two; exit 3"
    turn = await room.client.start(room.chat, f'!!tool run {{"command": "{command}"}}\n!!text done')
    await room.until(lambda: any(texts_of(call) == ["one\n"] for call in room.calls("running")))
    (room.folder / "go").touch()
    await room.until(lambda: not room.client.running(room.chat))
    [call] = calls_of(room.client.turn(room.chat, turn))
    assert texts_of(call) == ["one\ntwo\n"]
    assert (call["toolName"], call["success"]) == ("execute", False)
    assert room.told()[-1].endswith("one\ntwo\n\nexit code 3, signal None")


async def test_it_asks_a_person(room: Room) -> None:
    schema = (
        '{"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "title": "Name"},'
        ' "sure": {"type": "boolean"}, "size": {"type": "string", "enum": ["S", "L"]}}}'
    )
    await room.client.start(room.chat, f'!!tool ask {{"message": "Who?", "schema": {schema}}}\n!!text done')
    await room.until(lambda: any(part["kind"] == "inputRequest" for part in room.parts))
    [part] = [part for part in room.parts if part["kind"] == "inputRequest"]
    request = part["request"]
    assert request["message"] == "Who?"
    assert [(one["id"], one["kind"], one["required"]) for one in request["questions"]] == [
        ("name", "text", True),
        ("sure", "boolean", False),
        ("size", "single-select", False),
    ]
    answers = {
        "name": {"state": "submitted", "value": {"kind": "text", "value": "Ana"}},
        "size": {"state": "submitted", "value": {"kind": "selected", "value": "L"}},
        "sure": {"state": "skipped"},
    }
    await room.client.do(
        room.chat, "chat/inputCompleted", requestId=request["id"], response="accept", answers=answers
    )
    await room.until(lambda: not room.client.running(room.chat))
    assert '"content": {"name": "Ana", "size": "L"}' in room.told()[-1]


async def test_a_line_that_is_not_acp_and_a_very_long_one_harm_nothing(room: Room) -> None:
    await room.say('!!tool switch {"mode": "auto"}\n!!text done')
    turn = await room.say(
        '!!tool say {"line": "Loading…"}\n!!tool say {"line": "x", "times": 30000000}\n!!text still here'
    )
    assert answer_of(turn) == "still here"


# ── How it ends badly ────────────────────────────────────────────────────────────────────────────────────────────────
async def test_what_goes_wrong_with_the_model_is_said(room: Room) -> None:
    for directive, kind, words in (
        ("!!status 401", "authFailed", "did not take the key or the login"),
        ("!!status 429", "rateLimited", "Wait a little"),
        ("!!status 500", "modelFailed", "has a problem"),
        ("!!text one\n!!drop", "agentFailed", "the model's answer was cut off"),
        ("!!sse-error too busy", "agentFailed", "too busy"),
    ):
        turn = await room.say(directive)
        error = error_of(turn)
        assert (turn["state"], error["errorType"]) == ("error", kind)
        assert error["message"].startswith("Puppet could not go on: ")
        assert words in error["message"]
        assert turn["responseParts"][-1]["resumable"] is True
        assert answer_of(await room.say("!!text better")) == "better"


async def test_a_failed_turn_is_resumed(room: Room) -> None:
    """With its message, when nothing had been answered; else the agent is told to go on."""
    turn = await room.say("!!status 500 1\n!!text first")
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"])
    await room.until(lambda: not room.client.running(room.chat))
    assert answer_of(room.client.turn(room.chat, turn["id"])) == "first"

    turn = await room.say("!!text half\n!!drop 1")
    await room.client.do(room.chat, "chat/turnResume", turnId=turn["id"])
    await room.until(lambda: not room.client.running(room.chat))
    assert room.told()[-1].startswith("The answer above was cut off")


@pytest.mark.parametrize(
    ("how", "words"),
    [("max_tokens", "limit of its length"), ("max_turn_requests", "asked its model as often")],
)
async def test_a_limit_is_told(make_room: MakeRoom, how: str, words: str) -> None:
    room = await make_room(env={"AGENT_ENDS": how})
    turn = await room.say("!!text a")
    assert turn["state"] == "complete"
    assert words in notices_of(turn)[0]
    await room.leave()


async def test_a_refusal_is_a_failure_in_words(make_room: MakeRoom) -> None:
    room = await make_room(env={"AGENT_ENDS": "refusal"})
    assert error_of(await room.say("!!text a"))["message"].startswith("Puppet refuses")
    await room.leave()
