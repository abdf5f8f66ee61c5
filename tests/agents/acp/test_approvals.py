"""What an ACP agent asks permission for: with its own options, answered once, and `cancelled` when the turn is over."""

from __future__ import annotations

from pathlib import Path

from tests.agents.acp.conftest import MakeRoom
from tests.agents.acp.room import SESSION, Room, calls_of, notices_of
from tests.host.harness import quiet

WRITE = '!!tool write {"path": "a.txt", "text": "new\\n"}'


async def test_an_edit_is_shown_before_it_is_allowed(room: Room) -> None:
    path = room.folder / "a.txt"
    path.write_text("old\nsame\n")
    turn = await room.client.start(
        room.chat, '!!tool write {"path": "a.txt", "text": "new\\nsame\\n"}\n!!text done'
    )
    call = await room.asked()
    assert call["confirmationTitle"] == "Puppet asks: Write a.txt"
    assert call["options"] == [
        {"id": "once", "label": "Allow", "kind": "approve"},
        {"id": "always", "label": "Always allow", "kind": "approve"},
        {"id": "no", "label": "Deny", "kind": "deny"},
    ]
    [edit] = call["edits"]["items"]
    assert edit["diff"] == {"added": 1, "removed": 1}
    assert edit["after"]["uri"] == path.as_uri()
    assert room.client.state("ahp-session:/s")["inputNeeded"][0]["kind"] == "toolConfirmation"
    assert path.read_text() == "old\nsame\n"

    await room.answer(call, True)
    await room.until(lambda: not room.client.running(room.chat))
    assert path.read_text() == "new\nsame\n"
    [call] = calls_of(room.client.turn(room.chat, turn))
    assert (call["status"], call["success"], call["confirmed"]) == ("completed", True, "user-action")
    [edit] = call["content"]
    assert (edit["type"], edit["diff"]) == ("fileEdit", {"added": 1, "removed": 1})
    for side, text in (("before", "old\nsame\n"), ("after", "new\nsame\n")):
        held = edit[side]["content"]["uri"]
        assert (await room.client.request("resourceRead", uri=held, encoding="utf-8"))["data"] == text


async def test_a_denial_is_heard(room: Room) -> None:
    await room.client.start(room.chat, f"{WRITE}\n!!text done")
    await room.answer(await room.asked(), False)
    await room.until(lambda: not room.client.running(room.chat))
    [turn] = room.client.state(room.chat)["turns"]
    [call] = calls_of(turn)
    assert (turn["state"], call["status"], call["reason"]) == ("complete", "cancelled", "denied")
    assert not (room.folder / "a.txt").exists()
    assert room.told()[-1] == "The person does not want that."


async def test_allowed_for_the_session_is_not_asked_again(room: Room) -> None:
    await room.client.start(room.chat, f"{WRITE}\n!!text done")
    await room.answer(await room.asked(), True, "always")
    await room.until(lambda: not room.client.running(room.chat))
    turn = await room.say('!!tool write {"path": "b.txt", "text": "b"}\n!!text done')
    assert calls_of(turn)[0]["confirmed"] == "not-needed"
    assert (room.folder / "b.txt").read_text() == "b"


async def test_a_stop_answers_with_cancelled(room: Room) -> None:
    await room.client.start(room.chat, f"{WRITE}\n!!text done")
    await room.asked()
    turn = await room.cancel()
    assert (turn["state"], calls_of(turn)[0]["reason"]) == ("cancelled", "skipped")
    pid = room.pid
    await quiet(room.host)
    turn = await room.say("!!text and now?")
    assert turn["state"] == "complete"
    assert room.pid == pid, "it had heard of the stop: the process is the same"
    assert not (room.folder / "a.txt").exists()


async def test_a_mode_that_asks_nobody_is_chosen_in_the_session(make_room: MakeRoom, tmp_path: Path) -> None:
    room = await make_room(learned=tmp_path / "learned")
    await room.say("!!text hello")
    await room.leave()

    room = await make_room(
        learned=tmp_path / "learned",
    )
    config = room.client.state("ahp-session:/s").get("config")
    assert config is not None, "what the agent said is known from the start"
    assert config["schema"]["properties"]["mode"]["enum"] == ["ask", "auto"]
    await room.client.do("ahp-session:/s", "session/configChanged", config={"mode": "auto"})
    turn = await room.say(f"{WRITE}\n!!text done")
    assert calls_of(turn)[0]["confirmed"] == "not-needed"
    assert notices_of(turn) == [], "the agent says again what a person has chosen"
    await room.client.do("ahp-session:/s", "session/configChanged", config={"mode": "ask"})
    await room.client.start(room.chat, f"{WRITE}\n!!text done")
    await room.answer(await room.asked(), True)
    await room.until(lambda: not room.client.running(room.chat))
    assert calls_of(room.client.state(room.chat)["turns"][-1])[0]["confirmed"] == "user-action"


async def test_what_a_setting_lets_run_is_not_asked_about(room: Room) -> None:
    """Nor waited for any more, when it is set meanwhile."""
    await room.client.start(room.chat, f"{WRITE}\n!!text done")
    await room.asked()
    await room.client.do(SESSION, "session/configChanged", config={"approvals": "auto"})
    await room.until(lambda: not room.client.running(room.chat))
    turn = await room.say('!!tool write {"path": "b.txt", "text": "b"}\n!!text done')
    assert calls_of(turn)[0]["confirmed"] == "setting"
    assert (room.folder / "a.txt").read_text() == "new\n"
    assert (room.folder / "b.txt").read_text() == "b"
