"""The handshake and what comes before it (AHP 1.1 to 1.5)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Model, Probe
from tests.host.harness import ROOT, Failing, RpcError, Scripted, WireClient, agree, started, until


async def test_a_ping_is_answered_before_initialize(host: Host) -> None:
    assert await WireClient(host).request("ping") is None


@pytest.mark.parametrize("method", ["subscribe", "listSessions", "createSession", "fetchTurns"])
async def test_nothing_else_is_answered_before_initialize(host: Host, method: str) -> None:
    assert (await WireClient(host).fails(method)).code == -32600


async def test_an_action_before_initialize_is_ignored(host: Host) -> None:
    client = WireClient(host)

    await client.dispatch(ROOT, "root/configChanged", config={})

    assert client.wire.frames == []


async def test_initialize_gives_version_number_and_root(host: Host, agent: Scripted) -> None:
    client = WireClient(host, versions=["1.0.0", "0.9.0"])

    result = await client.initialize(ROOT)

    assert result["protocolVersion"] == "1.0.0"
    assert result["serverSeq"] == result["snapshots"][0]["fromSeq"]
    (info,) = client.state(ROOT)["agents"]
    assert info["protectedResources"] == []
    assert info["models"]
    assert "hostBuild" not in client.state(ROOT).get("_meta", {})
    assert "vscode.agentHost" not in result["_meta"]
    await agree(host, client)


async def test_an_unknown_initial_subscription_has_no_snapshot(host: Host) -> None:
    result = await WireClient(host).initialize("ahp-session:/none", "ahp-chat:/none", "no uri", ROOT)

    assert [shot["resource"] for shot in result["snapshots"]] == [ROOT]


async def test_a_channel_named_twice_is_given_once(host: Host) -> None:
    result = await WireClient(host).initialize(ROOT, ROOT)

    assert len(result["snapshots"]) == 1


async def test_a_second_initialize_is_refused_and_harms_nothing(client: WireClient) -> None:
    error = await client.fails("initialize", protocolVersions=["1.0.0"], clientId="somebody-else")

    assert error.code == -32600
    assert await client.request("ping") is None
    assert client.connection.client_id == client.client_id


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["1.0.0", "0.9.0"], "1.0.0"),
        (["0.9.0", "1.0.0"], "1.0.0"),
        (["0.10.0", "0.9.0", "0.7.0"], "0.10.0"),
        (["0.9.0", "0.8.0"], "0.9.0"),
        (["0.9.4"], "0.9.4"),
        (["2.0.0", "1.4.0"], "1.4.0"),
    ],
)
async def test_the_highest_served_version_is_chosen(host: Host, offered: list[str], chosen: str) -> None:
    assert (await WireClient(host, versions=offered).initialize())["protocolVersion"] == chosen


@pytest.mark.parametrize("offered", [["0.8.0"], ["99.0.0"], []])
async def test_no_common_version_is_said_and_the_connection_closed(host: Host, offered: list[str]) -> None:
    client = WireClient(host)

    error = await client.fails("initialize", protocolVersions=offered, clientId="c")

    assert error.code == -32005
    assert error.data["supportedVersions"]
    assert client.wire.closed is not None


@pytest.mark.parametrize("offered", [["x"], ["1.0", "1.0.0"], ["v1.0.0"], ["01.0.0"], ["1.0.0-rc.1"]])
async def test_a_malformed_version_is_said_and_the_connection_closed(host: Host, offered: list[str]) -> None:
    client = WireClient(host)

    error = await client.fails("initialize", protocolVersions=offered, clientId="c")

    assert error.code == -32602
    assert client.wire.closed is not None


async def test_other_bad_params_leave_the_connection_open(host: Host) -> None:
    client = WireClient(host)

    assert (await client.fails("initialize", protocolVersions=["1.0.0"])).code == -32602
    assert client.wire.closed is None
    await client.initialize(ROOT)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", -32700),
        ("[]", -32600),
        ("1", -32600),
        (b"{}", -32600),
        ('{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        ('{"id":1,"method":"ping","params":{}}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"vscode/x","params":{"channel":"ahp-root://"}}', -32601),
        ('{"jsonrpc":"2.0","id":1,"method":"shutdown","params":{"channel":"ahp-root://"}}', -32601),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"listSessions","params":{"channel":"ahp-session:/x"}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"channel":"no uri"}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"channel":"ahp-terminal:/x"}}', -32008),
        ('{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"channel":"ahp-session:/x"}}', -32001),
        ('{"jsonrpc":"2.0","id":1,"method":"disposeSession","params":{"channel":"ahp-session:/x"}}', -32001),
        ('{"jsonrpc":"2.0","id":1,"method":"fetchTurns","params":{"channel":"ahp-chat:/x"}}', -32001),
        (
            '{"jsonrpc":"2.0","id":1,"method":"createSession","params":{"channel":"ahp-session:/x","provider":"no"}}',
            -32002,
        ),
        ('{"jsonrpc":"2.0","id":1,"method":"listSessions","params":{"cursor":"made up"}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"listSessions","params":{"limit":0}}', -32602),
    ],
)
async def test_bad_input_is_answered_with_its_code(client: WireClient, frame: str | bytes, code: int) -> None:
    before = len(client.wire.frames)

    await client.raw(frame)

    await until(lambda: len(client.wire.frames) > before)
    (answer,) = client.wire.frames[before:]
    assert answer["error"]["code"] == code
    assert client.wire.closed is None
    assert await client.request("ping") is None


async def test_notifications_that_nobody_knows_are_ignored(client: WireClient) -> None:
    before = len(client.wire.frames)

    await client.notify("setClientManagedSettingsPermissions", channel=ROOT, permissions={})
    await client.notify("unsubscribe", channel="no uri")
    await client.notify("unsubscribe", channel="ahp-session:/none")
    await client.notify("dispatchAction", channel=7, clientSeq="x")
    await client.notify("dispatchAction", channel="ahp-session:/none", clientSeq=1, action={"type": "x"})

    assert client.wire.frames[before:] == []


async def test_a_windows_mirrored_settings_change_nothing_and_concern_nobody_else(
    client: WireClient, other: WireClient
) -> None:
    state, heard = client.state(ROOT), len(other.wire.frames)

    for key in ("telemetryLevel", "terminalAutoApproveEnabled", "workspaceTrust"):
        await client.dispatch(ROOT, "root/configChanged", client_seq=0, config={key: {"x": 1}})
    await client.do(ROOT, "root/configChanged", config={"telemetryLevel": "off"})

    assert client.refusals == []
    assert client.state(ROOT) == state
    assert len(other.wire.frames) == heard


async def test_each_request_is_answered_under_its_own_id(client: WireClient) -> None:
    for request_id in (7, "seven", 7.5):
        frame = json.dumps(
            {"jsonrpc": "2.0", "id": request_id, "method": "ping", "params": {"channel": ROOT}}
        )
        await client.raw(frame)
        await until(lambda wanted=request_id: client.wire.frames[-1].get("id") == wanted)  # type: ignore[misc]


async def test_an_agent_that_cannot_be_used_is_listed_with_what_to_do(host: Host, agent: Scripted) -> None:
    agent.probed = Probe(ready=False, reason="No key is set.", fix="Set KEY.")

    client = WireClient(host)
    await client.initialize(ROOT)

    (info,) = client.state(ROOT)["agents"]
    assert info["_meta"]["jupyter-ahp.unavailable"] == {"reason": "No key is set.", "fix": "Set KEY."}
    assert info["models"][0]["policyState"] == "disabled"


async def test_the_list_of_agents_is_live(host: Host, agent: Scripted, client: WireClient) -> None:
    agent.probed = Probe(ready=True, models=[Model("big", "Big")])

    await WireClient(host).initialize()  # somebody comes: the agents are looked at again

    await until(lambda: client.state(ROOT)["agents"][0]["models"][0]["id"] == "big")
    await agree(host, client)


class Moody(Scripted):
    """Raises wherever it is asked."""

    async def probe(self) -> Probe:
        raise RuntimeError("I am not a well-behaved agent")

    def config_schema(self, values: Any) -> Any:
        raise RuntimeError("Nor here")


async def test_an_agent_that_raises_anything_breaks_no_other(failing: Failing) -> None:
    host = await started(failing, Moody("moody"), Scripted())
    client = WireClient(host)

    await client.initialize(ROOT)

    moody, test = client.state(ROOT)["agents"]
    assert "I am not a well-behaved agent" in moody["_meta"]["jupyter-ahp.unavailable"]["reason"]
    assert "_meta" not in test
    assert await client.request("resolveSessionConfig", provider="moody") == {
        "schema": {"type": "object", "properties": {}},
        "values": {},
    }
    await client.create("ahp-session:/s")
    await client.request("createSession", channel="ahp-session:/m", provider="moody")
    state = await client.subscribe("ahp-session:/m")
    assert state["lifecycle"] == "failed"
    assert "I am not a well-behaved agent" in state["creationError"]["message"]
    await host.stop()


async def test_a_store_that_cannot_be_read_is_said_and_tried_again(failing: Failing) -> None:
    host = await started(failing)
    failing.fails = {"sessions"}
    client = WireClient(host)
    with pytest.raises(RpcError, match="the disk is full"):
        await client.initialize()
    assert client.wire.closed is None

    failing.fails = set()

    await client.initialize(ROOT)
    await host.stop()


async def test_two_first_clients_at_once_look_at_the_store_once(failing: Failing) -> None:
    host = await started(failing)
    clients = [WireClient(host), WireClient(host)]

    await asyncio.gather(*(client.initialize(ROOT) for client in clients))

    await agree(host, *clients)
    await host.stop()
