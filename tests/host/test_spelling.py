"""U1: two spellings of a session, one for each connection, and never the other in its inbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Json
from jupyter_ahp.protocol import uris
from tests.host.harness import NEWER, ROOT, Scripted, Wire, WireClient, agree, message, until

WINDOW: Json = {"info": {"name": "vscode-editor-window"}, "versions": ["0.10.0", "0.9.0"]}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


async def scenario(host: Host, client: WireClient, window: WireClient, agent: Scripted) -> None:
    """Everything that names a session, seen by both."""
    await window.create("test:/old", activeClient={"clientId": window.client_id, "tools": []})
    await client.create("ahp-session:/new")
    for one, name in ((client, "ahp-session:/old"), (window, "test:/new")):
        await one.request("listSessions")
        state = await one.subscribe(name)
        await one.subscribe(state["defaultChat"])
    for one, session in ((window, "test:/old"), (client, "ahp-session:/new")):
        chat = one.state(session)["defaultChat"]
        await one.say(chat, "Say ahp-session:/old and test:/new")
        await one.do(session, "session/titleChanged", title="T")
        await one.do(session, "session/ready")  # refused
        await one.request("createChat", channel=session, chat=f"ahp-chat:/{one.client_id}")
        await one.do(chat, "chat/draftChanged", draft=message("About ahp-session:/old"))
        await one.fails("createSession", channel=session, provider="test")
    await agree(host, client, window)
    for one in (client, window):
        await one.drop()
        await one.reconnect()
    await agree(host, client, window)
    await window.request("disposeSession", channel="test:/new")
    await client.request("disposeSession", channel="ahp-session:/old")
    await window.fails("subscribe", channel="test:/new")


@pytest.mark.parametrize("newest", [False, True])
async def test_U1_no_other_spelling_is_ever_in_the_inbox(host: Host, agent: Scripted, newest: bool) -> None:
    client = (
        WireClient(host, meta=NEWER, info={"name": "vscode-agents-window"}) if newest else WireClient(host)
    )
    window = WireClient(host, **WINDOW)
    wires: dict[WireClient, list[Wire]] = {client: [], window: []}
    for one in (client, window):
        await one.initialize(ROOT)
        wires[one].append(one.wire)

    await scenario(host, client, window, agent)

    for one, own, foreign in ((client, "ahp-session:/", "test:/"), (window, "test:/", "ahp-session:/")):
        assert one.wire not in wires[one], "it came back on another socket"
        got = {text for wire in (*wires[one], one.wire) for text in strings(wire.frames)}
        assert any(text.startswith(own) for text in got)
        assert not {text for text in got if text.startswith(foreign)}


async def test_U1_a_client_that_names_sessions_by_provider_is_answered_so(host: Host) -> None:
    client = WireClient(host)
    await client.initialize(ROOT)

    await client.create("test:/a")
    await client.request("listSessions")

    assert list(client.rows) == ["test:/a"]
    assert set(client.mirrors) >= {"test:/a"}
    await client.subscribe("ahp-session:/a")
    assert "ahp-session:/a" not in client.mirrors, "one spelling throughout"


async def test_U1_users_words_are_never_respelled(host: Host) -> None:
    window = WireClient(host, **WINDOW)
    await window.initialize(ROOT)
    chat = await window.create("test:/old")

    turn = await window.say(chat, "ahp-session:/old")

    assert turn["message"]["text"] == "ahp-session:/old"
    assert turn["responseParts"][0]["content"] == "You said: ahp-session:/old"


@pytest.mark.parametrize("spelled", ["ahp-root:", "ahp-root://", "AHP-ROOT://"])
async def test_T33_the_root_is_spelled_as_it_was_asked_for(host: Host, agent: Scripted, spelled: str) -> None:
    client = WireClient(host)
    await client.initialize()

    await client.subscribe(spelled)
    await client.create("ahp-session:/s")

    assert client.state(spelled)["activeSessions"] == 1
    assert {note["params"]["channel"] for note in client.notes} == {spelled}


async def test_T33_as_initial_subscription_too(host: Host) -> None:
    client = WireClient(host, root="ahp-root:")
    result = await client.initialize("ahp-root:")

    await client.create("ahp-session:/s")

    assert [shot["resource"] for shot in result["snapshots"]] == ["ahp-root:"]
    assert client.state("ahp-root:")["activeSessions"] == 1


async def test_U1_both_windows_see_one_chat_under_one_name(host: Host) -> None:
    window, newest = WireClient(host, **WINDOW), WireClient(host, meta=NEWER)
    await window.initialize(ROOT)
    await newest.initialize(ROOT)
    chat = await window.create("test:/s")
    state = await newest.subscribe("ahp-session:/s")
    await newest.subscribe(state["defaultChat"])

    await newest.say(chat, "hello")

    assert state["defaultChat"] == chat == uris.default_chat_uri("test:/s")
    assert json.dumps(window.state(chat)) == json.dumps(newest.state(chat))
    await until(lambda: window.rows["test:/s"]["title"] == "hello")
    assert newest.rows["ahp-session:/s"]["title"] == "hello"
