"""The first minute of VS Code's agents window, as it sends it (vscode T4, T5, T7, T8)."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest

from tests.support.server import JupyterServer
from tests.support.wire import ROOT_CHANNEL, Peer, RpcError, open_peer

WINDOW = {"name": "vscode-agents-window", "version": "1.141.0"}
OFFERED = ["1.0.0", "0.10.0", "0.9.0"]


async def greet(peer: Peer, *, newest: bool) -> dict[str, Any]:
    meta = {"_meta": {"vscode.ahpSessionUris": True}} if newest else {}
    return await peer.initialize(
        clientInfo=WINDOW, protocolVersions=OFFERED, initialSubscriptions=[ROOT_CHANNEL], **meta
    )


async def test_T4_the_root_snapshot_lets_a_window_offer_every_agent(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        hello = await greet(peer, newest=False)
        assert hello["protocolVersion"] == "1.0.0"
        (root,) = hello["snapshots"]
        for agent in root["state"]["agents"]:
            assert agent["protectedResources"] == []
            assert len(agent["models"]) >= 1
        assert "hostBuild" not in json.dumps(root)
        assert "vscode.agentHost" not in json.dumps(hello)


async def test_T5_a_burst_of_unknown_settings_changes_nothing_and_reaches_nobody(
    server: JupyterServer,
) -> None:
    async with open_peer(server) as window, open_peer(server) as other:
        await greet(window, newest=True)
        await greet(other, newest=True)
        for number in range(8):
            await window.notify(
                "dispatchAction",
                ROOT_CHANNEL,
                clientSeq=0,
                action={"type": "root/configChanged", "config": {f"setting{number}": True}},
            )
        await window.notify("setClientManagedSettingsPermissions", ROOT_CHANNEL, permissions={})
        assert await window.request("ping") is None
        assert await other.request("ping") is None
        assert "setting" not in json.dumps(other.inbox)


async def test_T8_an_older_windows_session_has_the_derived_chat(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        await greet(peer, newest=False)
        session = f"echo:/{uuid.uuid4()}"
        active = {"clientId": peer.client_id, "tools": [], "customizations": []}
        create = {"provider": "echo", "workingDirectories": ["file:///tmp"], "config": {}}
        with pytest.raises(RpcError) as refused:
            await peer.request(
                "createSession", session, **create, activeClient={**active, "clientId": "else"}
            )
        assert refused.value.code == -32602
        assert await peer.request("createSession", session, **create, activeClient=active) is None
        state = (await peer.request("subscribe", session))["snapshot"]["state"]
        encoded = base64.urlsafe_b64encode(session.encode()).decode().rstrip("=")
        assert state["defaultChat"] == f"ahp-chat://default/{encoded}"
        chat = (await peer.request("subscribe", state["defaultChat"]))["snapshot"]["state"]
        assert chat["resource"] == state["defaultChat"]
        with pytest.raises(RpcError) as again:
            await peer.request("createSession", session, **create)
        assert again.value.code == -32003


async def test_T7_each_window_reads_one_spelling_throughout(server: JupyterServer) -> None:
    async with open_peer(server) as old, open_peer(server) as new:
        await greet(old, newest=False)
        await greet(new, newest=True)
        identity = str(uuid.uuid4())
        await new.request("createSession", f"ahp-session:/{identity}", provider="echo")
        await new.request("subscribe", f"ahp-session:/{identity}")
        await old.request("subscribe", f"echo:/{identity}")
        await new.dispatch(
            f"ahp-session:/{identity}", {"type": "session/titleChanged", "title": "Seen by both"}
        )
        for peer, mine, other in ((old, "echo:/", "ahp-session:/"), (new, "ahp-session:/", "echo:/")):
            await peer.action("session/titleChanged")
            rows = (await peer.request("listSessions"))["items"]
            assert mine + identity in [row["resource"] for row in rows]
            for field in ("resource", "provider", "title", "status", "createdAt", "modifiedAt"):
                assert all(field in row for row in rows)
            everything = json.dumps([rows, peer.inbox])
            assert mine + identity in everything
            assert other not in everything
