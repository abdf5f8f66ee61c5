"""The line to a CLI: long lines, damaged ones, and SDKs without what is private (`private`)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from jupyter_ahp.agents.claude.settings import Settings
from tests.agents.claude.room import Room, calls_of, error_of, said
from tests.mock_model import MockModel


async def test_a_line_of_megabytes_is_one_message(tmp_path: Path) -> None:
    from jupyter_ahp.agents.claude.line import ChildTransport

    code = "import json; print('not json'); print(json.dumps({'type': 'x', 'text': 'y' * 30_000_000})); print('{}')"
    transport = ChildTransport([sys.executable, "-c", code], str(tmp_path), dict(os.environ))
    await transport.connect()
    messages = [message async for message in transport.read_messages()]
    await transport.close()

    assert [len(message.get("text", "")) for message in messages] == [30_000_000, 0]


async def test_an_sdk_that_starts_its_cli_itself_will_do(
    settings: Settings, model: MockModel, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_ahp.agents.claude import private

    async def refuses(*_: object) -> None:
        return None

    monkeypatch.setattr(private, "command_line", lambda *_: None)
    monkeypatch.setattr(private, "control", refuses)
    for name, value in settings.env.items():  # the functions of the SDK look there
        monkeypatch.setenv(name, value)
    room = Room(settings, model, work)
    await room.enter()
    try:
        await room.begin(f'write\n!!tool Write {{"file_path":"{work}/a.txt","content":"x"}}\n!!text done')
        await room.answer(await room.call("pending-confirmation"), "allow-once")
        [turn] = await room.ended(1)
        assert (said(turn), calls_of(turn)[0]["success"]) == ("done", True)

        await room.begin("one\n!!chunks 200 0.02")
        await room.see(lambda: said(room.active).count("c") > 3)
        await room.steer("go left\n!!text left it is")
        await room.see(lambda: "steeringMessage" in room.client.state(room.chat))
        refused = await room.client.do(room.chat, "chat/pendingMessageRemoved", kind="steering", id="steer")
        assert "being processed" in refused["rejectionReason"]  # G7: it cannot be withdrawn
        await room.stop()
        turns = await room.ended(3)
        assert [turn["state"] for turn in turns] == ["complete", "cancelled", "complete"]
        assert said(turns[-1]) == "left it is"
        await room.begin("two\n!!delay 5\n!!text never")
        await room.stop()
        assert said(await room.say("three\n!!text 3")) == "3"
    finally:
        await room.leave()


async def test_a_cli_that_is_stopped_and_takes_no_interrupt_is_closed(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_ahp.agents.claude import conversation

    monkeypatch.setattr(conversation, "STOPPED_IN", 0.3)
    await room.say("zero\n!!text 0")
    pid = room.pid
    await room.begin("one\n!!chunks 100 0.02")
    await room.see(lambda: said(room.active).count("c") > 3)
    os.kill(pid, signal.SIGSTOP)
    await room.stop()
    turn = await room.say("two\n!!text second")

    assert said(turn) == "second"
    assert room.pid != pid
    assert room.told()[:2] == ["zero\n!!text 0", "0"]


async def test_a_missing_directory_is_named(settings: Settings, model: MockModel, work: Path) -> None:
    room = Room(settings, model, work)
    await room.enter()
    os.rmdir(work)
    try:
        turn = await room.say("one")
        assert "could not be started" in error_of(turn)["message"]
        assert error_of(turn)["resumable"]
    finally:
        await room.leave()
