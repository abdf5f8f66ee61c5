"""OpenCode, an ACP agent that others wrote, against the mock model: what our own agent proves, proved again."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from jupyter_ahp.agents.acp import Server
from tests.agents import programs
from tests.agents.acp.conftest import MakeRoom
from tests.agents.acp.room import SESSION, calls_of, error_of, texts_of
from tests.agents.test_processes import gone
from tests.host.harness import ROOT, answer_of
from tests.mock_model import MockModel

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
"""One black dot; it looks into pictures."""
WRITE = '!!tool write {"filePath": "%s", "content": "hello"}\n!!text done'


def opencode(model: MockModel, home: Path) -> Server:
    """With a home of its own, and no way to any network but loopback."""
    home.mkdir(exist_ok=True)
    names = {
        name: {
            "name": name,
            "attachment": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
        }
        for name in ("mock-model", "other-model")
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Mock",
        "options": {"baseURL": model.base_url, "apiKey": "none"},
        "models": names,
    }
    config = {
        "provider": {"mock": provider},
        "enabled_providers": ["mock"],
        "model": "mock/mock-model",
        "small_model": "mock/mock-model",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"bash": "ask", "edit": "ask"},
    }
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    env = {
        "HOME": str(home),
        **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")},
        **{f"OPENCODE_DISABLE_{what}": "1" for what in off},
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "npm_config_registry": "http://127.0.0.1:9",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"),
        "NO_PROXY": "127.0.0.1,localhost",
    }
    return Server("opencode", "OpenCode", str(programs.opencode()), ("acp",), env)


@pytest.fixture
def server(model: MockModel, tmp_path: Path) -> Server:
    return opencode(model, tmp_path / "home")


async def test_turns_tools_approvals_stops_and_its_memory(
    make_room: MakeRoom, server: Server, tmp_path: Path
) -> None:
    """One conversation for all of it, since its program takes seconds to start."""
    room = await make_room(server, learned=tmp_path / "learned")
    turn = await room.say("!!think let me see\n!!text one two")
    assert [(part["kind"], part["content"]) for part in turn["responseParts"]] == [
        ("reasoning", "let me see"),
        ("markdown", "one two"),
    ]
    assert turn["usage"]["outputTokens"] > 0
    pid = room.pid

    # what it offers is known from now on
    items = (
        await room.client.request("completions", channel=room.chat, kind="userMessage", text="/", offset=1)
    )["items"]
    assert "/init " in {item["insertText"] for item in items}
    schema = (await room.client.request("resolveSessionConfig", provider="opencode"))["schema"]
    assert schema["properties"]["mode"]["enum"] == ["build", "plan"]

    # allowed, denied, allowed for the session
    path = room.folder / "a.txt"
    await room.client.start(room.chat, WRITE % path)
    call = await room.asked()
    assert {option["id"] for option in call["options"]} == {"once", "always", "reject"}
    await room.answer(call, True)
    await room.until(lambda: not room.client.running(room.chat))
    assert path.read_text() == "hello"
    [call] = calls_of(room.client.state(room.chat)["turns"][-1])
    assert (call["status"], call["success"]) == ("completed", True)
    assert {block["type"] for block in call["content"]} >= {"fileEdit"}

    command = '!!tool bash {"command": "echo hi", "description": "says hi"}\n!!text done'
    await room.client.start(room.chat, command)
    await room.answer(await room.asked(), False)
    await room.until(lambda: not room.client.running(room.chat))
    [call] = calls_of(room.client.state(room.chat)["turns"][-1])
    assert (call["status"], call["reason"]) == ("cancelled", "denied")

    await room.client.start(room.chat, command)
    await room.answer(await room.asked(), True, "always")
    await room.until(lambda: not room.client.running(room.chat))
    [call] = calls_of(await room.say(command))
    assert (call["confirmed"], texts_of(call)) == ("not-needed", ["hi\n"])

    # stopped before the first word, in text, in a tool's question
    before = len(room.model.requests)
    for said, waits in (
        ("!!hang", lambda: len(room.model.requests) > before),
        ("!!chunks 10000 0.01", lambda: room.parts),
        (WRITE % (room.folder / "b.txt"), lambda: room.calls("pending-confirmation")),
    ):
        await room.client.start(room.chat, said)
        await room.until(waits)
        assert (await room.cancel())["state"] == "cancelled"
    assert answer_of(await room.say("!!text still here")) == "still here"
    assert room.pid == pid
    assert not (room.folder / "b.txt").exists()

    # what goes wrong is said; a picture is seen; a tool of ours is called; a model is chosen
    assert error_of(await room.say("!!status 401"))["errorType"] == "authFailed"
    await room.say(
        "!!text seen",
        attachments=[
            {"type": "embeddedResource", "data": PNG, "contentType": "image/png", "label": "dot.png"}
        ],
    )
    assert any("[image/png]" in text for text in room.told())
    [call] = calls_of(await room.say('!!tool jupyter_rename_chat {"title": "Medians"}\n!!text done'))
    assert (call["toolName"], call["success"]) == ("rename_chat", True)
    assert room.client.state("ahp-session:/s")["chats"][0]["title"] == "Medians"
    await room.say("!!text other", model={"id": "mock/other-model"})
    assert room.model.requests[-1].body["model"] == "other-model"
    [info] = room.client.state(ROOT)["agents"]
    assert info["provider"] == "opencode"

    # a fork at the end is its own copy of the session
    last = (await room.say("!!text here"))["id"]
    source = {"kind": "fork", "chat": room.chat, "turnId": last}
    await room.client.request("createChat", channel=SESSION, chat="ahp-chat:/fork", source=source)
    for watcher in (room.client, room.other):
        await watcher.subscribe("ahp-chat:/fork")
    assert answer_of(await room.say("!!text there", "ahp-chat:/fork")) == "there"
    assert room.told()[-3:] == ["!!text here", "here", "!!text there"]
    await room.say("!!text and here")
    assert room.told()[-3:] == ["!!text here", "here", "!!text and here"]

    # killed, it goes on with what was said; so does the next server's
    await room.say("!!text remember")
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    turn = await room.say("!!text on")
    assert [part["content"] for part in turn["responseParts"]] == ["on"], "what it tells again is no news"
    assert room.told()[-3:] == ["!!text remember", "remember", "!!text on"]
    pid = room.pid
    await room.leave()
    await gone(pid)

    room = await make_room(server)
    assert answer_of(await room.say("!!text and on")) == "and on"
    assert room.told()[-3:] == ["!!text on", "on", "!!text and on"]
    await room.leave()
