"""T2 to T7, T33, T36: the first minute of every client that is known, as each of them sends it."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from tests.interop.kinds import AHPC, AHPX, EVERY, NEWEST, ROOT, UI, VSCODE_140, VSCODE_141, Kind
from tests.interop.window import Refused, window
from tests.support.server import JupyterServer


def named(kind: Kind) -> str:
    return kind.name


@pytest.mark.parametrize("kind", [VSCODE_141, NEWEST], ids=named)
async def test_T2_a_ping_is_answered_before_and_after_the_greeting(server: JupyterServer, kind: Kind) -> None:
    async with window(server, kind, greet=False) as client:
        assert await client.request("ping") is None
        await client.initialize()
        assert await client.request("ping") is None


@pytest.mark.slow
async def test_T2_a_window_that_only_pings_stays(server: JupyterServer) -> None:
    """For as long as it takes a window to give up on a host that says nothing: 5 s, and 20 s more."""
    async with window(server, VSCODE_141) as client:
        for _ in range(6):
            await asyncio.sleep(4.5)
            assert await client.request("ping") is None


@pytest.mark.parametrize("kind", EVERY, ids=named)
async def test_T3_each_client_gets_the_version_that_it_works_with(server: JupyterServer, kind: Kind) -> None:
    async with window(server, kind, greet=False) as client:
        hello = await client.initialize()
        assert hello["protocolVersion"] == kind.chosen
        assert isinstance(hello["serverSeq"], int)


@pytest.mark.parametrize(
    ("offered", "code"), [(["99.0.0"], -32005), (["0.8.0", "0.7.0"], -32005), (["x"], -32602)]
)
async def test_T3_an_offer_that_nothing_can_be_made_of(
    server: JupyterServer, offered: list[str], code: int
) -> None:
    async with window(server, UI, greet=False) as client:
        with pytest.raises(Refused) as refused:
            await client.request("initialize", clientId="c", protocolVersions=offered)
        assert refused.value.code == code
        if code == -32005:
            assert refused.value.data["supportedVersions"]


@pytest.mark.parametrize("kind", EVERY, ids=named)
async def test_T4_T36_every_agent_can_be_chosen_and_asks_nobody_to_sign_in(
    server: JupyterServer, kind: Kind
) -> None:
    """An agent without `protectedResources` counts as one behind a sign-in, one without models as unusable."""
    async with window(server, kind, greet=False) as client:
        hello = await client.initialize()
        (shot,) = hello["snapshots"]
        agents = {agent["provider"]: agent for agent in shot["state"]["agents"]}
        assert {"echo", "assistant", "puppet"} <= agents.keys()
        for provider, agent in agents.items():
            assert agent["protectedResources"] == []
            assert agent["models"]
            assert agent["displayName"]
            assert isinstance(agent["description"], str)
            for model in agent["models"]:
                assert model["provider"] == provider
                assert model["id"]
                assert model["name"]
        assert [model["id"] for model in agents["puppet"]["models"]] == ["small", "large"]
        assert agents["puppet"]["capabilities"]["multipleChats"]["fork"]
        said = json.dumps(hello)
        assert "hostBuild" not in said
        assert "vscode.agentHost" not in said
        assert hello.get("defaultDirectory", "file:").startswith("file:")


async def test_T4_a_greeting_while_the_list_is_not_read_yet(server: JupyterServer) -> None:
    """Requests made before the answer wait in the client; a client that does not wait is answered in order all the same."""
    async with window(server, VSCODE_140, greet=False) as client:
        client.version = "0.9.0"
        hello = asyncio.ensure_future(client.request("initialize", **client.greeting()))
        rows = asyncio.ensure_future(client.request("listSessions"))
        assert (await hello)["protocolVersion"] == "0.9.0"
        assert "items" in await rows


SETTINGS = {
    "telemetryLevel": "all",
    "terminalAutoApproveEnabled": True,
    "terminalAutoApproveRules": {"rm": False},
    "autoApprovePolicyRestricted": False,
    "workspaceTrust": {"enabled": True, "trustedUris": ["file:///home/mia"]},
    "disableRepoInfoTelemetry": False,
    "chat.tools.autoApprove": False,
    "anythingElse": None,
}


@pytest.mark.parametrize("kind", [VSCODE_140, VSCODE_141, NEWEST], ids=named)
async def test_T5_the_burst_of_settings_is_taken_and_concerns_nobody_else(
    server: JupyterServer, kind: Kind
) -> None:
    async with window(server, kind) as client, window(server, NEWEST) as other:
        for key, value in SETTINGS.items():
            await client.dispatch(ROOT, {"type": "root/configChanged", "config": {key: value}}, seq=0)
        await client.notify("setClientManagedSettingsPermissions", permissions={})
        await client.notify("setClientSandboxRequired", required=False)
        assert await client.request("ping") is None
        await client.list()
        assert await other.request("ping") is None
        assert other.inbox == []
        assert [
            message["params"] for message in client.inbox if "rejectionReason" in json.dumps(message)
        ] == []


@pytest.mark.parametrize(
    "method",
    [
        "vscode/getNetworkDiagnosticsInfo",
        "vscode/whatever",
        "shutdown",
        "listAutomationTriggerDefinitions",
    ],
)
async def test_T6_what_is_not_served_is_not_found(server: JupyterServer, method: str) -> None:
    async with window(server, VSCODE_141) as client:
        with pytest.raises(Refused) as refused:
            await client.request(method, uri="file:///tmp")
        assert refused.value.code == -32601


async def test_T6_what_is_told_and_not_known_is_passed_over(server: JupyterServer) -> None:
    async with window(server, VSCODE_141) as client:
        await client.notify("vscode/something", more=1)
        await client.notify("unsubscribe", "echo:/nobody-has-it")
        assert await client.request("ping") is None
        assert client.inbox == []


async def test_T7_each_window_lists_its_own_spelling_and_follows_what_happens(server: JupyterServer) -> None:
    """Harness: no message to a window holds the other spelling, and its list, kept as told, is the host's."""
    identity = str(uuid.uuid4())
    async with (
        window(server, VSCODE_140) as older,
        window(server, NEWEST) as newest,
        window(server, UI) as ui,
    ):
        await older.list()
        await newest.list()
        session = await newest.create("echo", identity)
        chat = await newest.open(session)
        await newest.say(chat, "What is a median?")
        await newest.request("ping")
        assert newest.rows is not None
        row = newest.rows[session]
        for key in ("resource", "provider", "title", "status", "createdAt", "modifiedAt"):
            assert key in row
        assert row["title"] == "What is a median?"
        assert row["status"] & 1
        await older.request("ping")
        assert older.rows is not None
        assert older.rows[f"echo:/{identity}"]["title"] == "What is a median?"
        assert f"ahp-session:/{identity}" in await ui.list()
        await older.request("disposeSession", f"echo:/{identity}")
        assert session not in await newest.list()


@pytest.mark.parametrize("spelling", ["ahp-root:", "ahp-root://", "ahp-root:/", "AHP-ROOT://"])
async def test_T33_the_root_is_called_as_the_client_calls_it(server: JupyterServer, spelling: str) -> None:
    async with window(server, replace(UI, root=spelling)) as client:
        assert client.watched.keys() == {spelling}
        async with window(server, AHPX) as other:
            await other.create("echo")
        added = await client.message(lambda message: message.get("method") == "root/sessionAdded")
        assert added["params"]["channel"] == spelling
        assert (await client.envelope("root/activeSessionsChanged"))["channel"] == spelling


async def test_authenticate_of_a_window_that_tries_says_that_no_token_is_wanted(
    server: JupyterServer,
) -> None:
    """T35 as far as it goes: no agent here asks for a token, so none is announced and none is taken."""
    async with window(server, VSCODE_141) as client:
        with pytest.raises(Refused) as refused:
            await client.request("authenticate", resource="https://api.github.com", token="secret-of-mine")
        assert refused.value.code == -32602
        assert "secret-of-mine" not in refused.value.message
        assert await client.create("echo")
    assert "secret-of-mine" not in server.log


@pytest.mark.parametrize("kind", EVERY, ids=named)
async def test_T32_connect_create_say(server: JupyterServer, kind: Kind) -> None:
    directory = (
        {"workingDirectory": "file:///tmp"} if kind is AHPX else {"workingDirectories": ["file:///tmp"]}
    )
    async with window(server, kind) as client:
        await client.list()
        if kind is AHPC:
            trusted = {"workspaceTrust": {"enabled": True, "trustedUris": ["file:///tmp"]}}
            await client.dispatch(ROOT, {"type": "root/configChanged", "config": trusted}, seq=0)
        config = await client.request("resolveSessionConfig", kind.root, provider="echo", config={})
        assert config["schema"]["type"] == "object"
        session = kind.session("echo", str(uuid.uuid4()))
        active = {} if kind in (AHPX, AHPC) else {"activeClient": client.active()}
        assert await client.request("createSession", session, provider="echo", **directory, **active) is None
        chat = await client.open(session)
        assert client.state(session)["workingDirectories"] == ["file:///tmp"]
        turn = await client.say(chat, "one two three")
        assert turn["state"] == "complete"
        assert turn["message"]["text"] == "one two three"
        await client.unsubscribe(chat)
        assert await client.request("disposeSession", session) is None


async def test_T32_a_binary_frame_does_not_end_a_conversation(server: JupyterServer) -> None:
    """Some clients of the field have sent JSON in binary frames."""
    async with window(server, AHPX) as client:
        _, chat = await client.new_chat()
        answers: list[dict[str, Any]] = []
        client.unasked = answers.append
        await client.socket.send(
            b'{"jsonrpc":"2.0","id":900,"method":"ping","params":{"channel":"ahp-root://"}}'
        )
        assert (await client.say(chat, "still here"))["state"] == "complete"
        assert [answer["error"]["code"] for answer in answers] == [-32600]


@pytest.mark.parametrize("number", ["a-name", "1", 0, -3, 2**53])
async def test_an_answer_has_the_id_of_its_request_whatever_that_is(
    server: JupyterServer, number: str | int
) -> None:
    async with window(server, UI) as client:
        answers: list[dict[str, Any]] = []
        client.unasked = answers.append
        await client.send({"id": number, "method": "ping", "params": {"channel": ROOT}})
        await client.send({"id": number, "method": "listSessions", "params": {"channel": ROOT, "limit": 1}})
        await client.until(lambda: len(answers) == 2, "two answers")
        assert [answer["id"] for answer in answers] == [number, number]


async def test_the_list_in_pages_is_the_list(server: JupyterServer) -> None:
    async with window(server, UI) as client, window(server, VSCODE_140) as older:
        for _ in range(5):
            await client.create("echo")
        whole = (await client.request("listSessions"))["items"]
        paged: list[object] = []
        cursor: dict[str, str] = {}
        while True:
            page = await client.request("listSessions", limit=2, **cursor)
            paged += page["items"]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert paged == whole
        moments = [row["modifiedAt"] for row in whole]
        assert moments == sorted(moments, reverse=True)
        page = await client.request("listSessions", limit=2)
        with pytest.raises(Refused) as refused:  # a cursor is its connection's own
            await older.request("listSessions", cursor=page["nextCursor"])
        assert refused.value.code == -32602
