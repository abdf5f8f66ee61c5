"""The WebSocket itself: handshake, bad frames, large frames, heartbeat (vscode T2, T3, T6)."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.server import TOKEN, JupyterServer
from tests.support.wire import ROOT_CHANNEL, Peer, RpcError, open_peer


async def test_T2_ping_before_initialize(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        assert await peer.request("ping") is None
        await peer.initialize()
        assert await peer.request("ping") is None


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["1.0.0", "0.9.0"], "1.0.0"),
        (["0.9.0", "1.0.0"], "1.0.0"),
        (["0.9.0", "0.8.0"], "0.9.0"),
        (["0.9.4"], "0.9.4"),
        (["0.10.0"], "0.10.0"),
        (["2.0.0", "1.4.0"], "1.4.0"),
    ],
)
async def test_T3_the_highest_served_version_is_chosen(
    server: JupyterServer, offered: list[str], chosen: str
) -> None:
    async with open_peer(server) as peer:
        assert (await peer.initialize(protocolVersions=offered))["protocolVersion"] == chosen


@pytest.mark.parametrize("offered", [["99.0.0"], ["0.8.0"], []])
async def test_T3_no_served_version_says_which_are_and_closes(
    server: JupyterServer, offered: list[str]
) -> None:
    async with open_peer(server) as peer:
        with pytest.raises(RpcError) as refused:
            await peer.initialize(protocolVersions=offered)
        assert refused.value.code == -32005
        assert "^1.0.0" in refused.value.data["supportedVersions"]
        with pytest.raises(ConnectionClosed):
            await peer.receive()


@pytest.mark.parametrize("offered", [["x"], ["1.0", "1.0.0"], ["v1.0.0"], ["01.0.0"], ["1.0.0-rc.1"]])
async def test_T3_a_malformed_version_is_bad_params(server: JupyterServer, offered: list[str]) -> None:
    async with open_peer(server) as peer:
        with pytest.raises(RpcError) as refused:
            await peer.initialize(protocolVersions=offered)
        assert refused.value.code == -32602


PARSE, INVALID, UNKNOWN, PARAMS = -32700, -32600, -32601, -32602


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", PARSE),
        ("", PARSE),
        (b"\xff\xfe", INVALID),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"channel": "ahp-root://"}}', INVALID),
        ("[]", INVALID),
        ('"ping"', INVALID),
        ("null", INVALID),
        ('{"jsonrpc": "2.0", "id": 7}', INVALID),
        ('{"id": 7, "method": "ping", "params": {"channel": "ahp-root://"}}', INVALID),
        ('{"jsonrpc": "2.0", "id": 7, "method": "vscode/x", "params": {"channel": "ahp-root://"}}', UNKNOWN),
        ('{"jsonrpc": "2.0", "id": 7, "method": "shutdown", "params": {"channel": "ahp-root://"}}', UNKNOWN),
        ('{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"channel": "ahp-root://"}}', PARAMS),
        ('{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": 3}', PARAMS),
    ],
)
async def test_T6_a_bad_frame_gets_its_code_and_the_connection_lives(
    server: JupyterServer, frame: str | bytes, code: int
) -> None:
    async with open_peer(server) as peer:
        await peer.socket.send(frame)
        assert (await peer.receive())["error"]["code"] == code
        await peer.initialize()


async def test_T6_an_unknown_notification_is_not_answered(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        await peer.notify("vscode/somethingHappened", ROOT_CHANNEL)
        assert await peer.request("ping") is None
        assert peer.inbox == []


async def test_requests_of_one_client_are_answered_in_the_order_sent(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        for number in range(200):
            await peer.send(
                {"jsonrpc": "2.0", "id": number, "method": "ping", "params": {"channel": ROOT_CHANNEL}}
            )
        assert [(await peer.receive())["id"] for _ in range(200)] == list(range(200))


@pytest.mark.parametrize("size", [100, 125, 126, 65_535, 65_536, 12 * 1024 * 1024])
async def test_a_message_of_any_size_goes_both_ways(server: JupyterServer, size: int) -> None:
    """Twelve MiB is over Tornado's own limit. The turn's message comes back in its echo."""
    async with open_peer(server) as peer:
        await peer.initialize()
        _, chat = await peer.new_chat()
        text = "é" * (size // 2)
        await peer.start_turn(chat, text)
        started = await peer.action("chat/turnStarted", chat)
        assert started["message"]["text"] == text
        await peer.action("chat/turnComplete", chat, timeout=60)


async def test_a_message_over_the_configured_limit_closes_with_1009(
    with_server: Callable[..., JupyterServer],
) -> None:
    server = with_server(args=["--AHPExtension.max_message_bytes=65536"])
    async with open_peer(server) as peer:
        with pytest.raises(ConnectionClosed):
            await peer.initialize(_meta={"padding": "x" * 70_000})
        assert peer.socket.close_code == 1009


async def test_a_plain_get_is_told_to_upgrade(server: JupyterServer) -> None:
    assert server.request("ahp")[0] == 400


# ── The heartbeat ────────────────────────────────────────────────────────────────────────────────────────────────
async def raw_upgrade(server: JupyterServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A WebSocket of which nobody answers the pings."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET {server.base_url}ahp?token={TOKEN} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head.splitlines()[0]
    return reader, writer


async def next_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Opcode and payload of a short frame from the server."""
    first, size = await reader.readexactly(2)
    return first & 0x0F, await reader.readexactly(size)


@pytest.fixture
def brisk(with_server: Callable[..., JupyterServer]) -> JupyterServer:
    return with_server(args=["--AHPExtension.heartbeat_interval=0.2"])


async def test_a_silent_client_is_pinged_three_times_and_then_closed(brisk: JupyterServer) -> None:
    reader, writer = await raw_upgrade(brisk)
    async with asyncio.timeout(20):
        for _ in range(3):
            assert await next_frame(reader) == (0x9, b"")
        opcode, payload = await next_frame(reader)
    writer.close()
    assert opcode == 0x8
    assert int.from_bytes(payload[:2], "big") == 1001


async def test_a_client_that_answers_pings_stays_for_as_long_as_it_likes(brisk: JupyterServer) -> None:
    async with open_peer(brisk, ping_interval=None) as peer:
        await asyncio.sleep(0.2 * 8)
        assert await peer.request("ping") is None


async def test_connections_that_are_gone_are_forgotten(brisk: JupyterServer) -> None:
    async def connections() -> Any:
        return (await asyncio.to_thread(brisk.get_json, "ahp/status"))["connections"]

    reader, writer = await raw_upgrade(brisk)
    await next_frame(reader)
    assert await connections() == 1
    writer.transport.abort()
    async with asyncio.timeout(20):
        while await connections():  # noqa: ASYNC110 - it is the server that is waited for
            await asyncio.sleep(0.05)


async def test_two_clients_see_one_chat_in_the_same_order(server: JupyterServer) -> None:
    async with open_peer(server) as ana, open_peer(server) as ben:
        await ana.initialize()
        await ben.initialize()
        _, chat = await ana.new_chat()
        await ben.request("subscribe", chat)
        await ana.start_turn(chat, "Say this to both of us")
        envelopes = [await seen(peer, chat) for peer in (ana, ben)]
        assert envelopes[0] == envelopes[1]
        assert [e["serverSeq"] for e in envelopes[0]] == sorted({e["serverSeq"] for e in envelopes[0]})


async def seen(peer: Peer, chat: str) -> list[Any]:
    """The envelopes of the chat up to the end of its turn."""
    await peer.action("chat/turnComplete", chat)
    return [m["params"] for m in peer.inbox if m.get("method") == "action" and m["params"]["channel"] == chat]
