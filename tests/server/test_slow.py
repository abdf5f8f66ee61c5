"""A client that does not read: it slows nobody, it grows nothing without bound, and it gets everything or is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.server import JupyterServer
from tests.support.wire import Peer, open_peer

MEGABYTE = 1024 * 1024


@asynccontextmanager
async def slow_peer(server: JupyterServer) -> AsyncIterator[Peer]:
    """Its socket takes 32 KiB, and what is not asked for is not read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", server.port))
    async with open_peer(server, sock=sock, max_queue=1, ping_interval=None, close_timeout=1) as peer:
        yield peer


async def say(peer: Peer, chat: str, size: int) -> str:
    """A turn whose message and whose answer are each of that size."""
    turn = await peer.start_turn(chat, "word " * (size // 5))
    await peer.action("chat/turnComplete", chat)
    return turn


async def test_a_client_that_reads_late_gets_everything_and_slows_nobody(server: JupyterServer) -> None:
    async with open_peer(server) as quick, slow_peer(server) as slow:
        await quick.initialize()
        await slow.initialize()
        _, chat = await quick.new_chat()
        await slow.request("subscribe", chat)
        turns = [await say(quick, chat, int(1.7 * MEGABYTE)) for _ in range(2)]
        for turn in turns:
            ended = await slow.action("chat/turnComplete", chat)
            assert ended["turnId"] == turn
        answers = [
            "".join(
                message["params"]["action"]["content"]
                for message in peer.inbox
                if message.get("method") == "action"
                and message["params"]["action"]["type"] == "chat/delta"
                and message["params"]["action"]["turnId"] == turns[1]
            )
            for peer in (quick, slow)
        ]
        assert answers[0] == answers[1]
        assert len(answers[0]) > MEGABYTE


async def test_a_client_too_far_behind_is_sent_away_and_comes_back_for_a_snapshot(
    server: JupyterServer,
) -> None:
    async with open_peer(server) as quick:
        await quick.initialize()
        _, chat = await quick.new_chat()
        async with slow_peer(server) as slow:
            await slow.initialize()
            await slow.request("subscribe", chat)
            for _ in range(8):
                last = await say(quick, chat, 2 * MEGABYTE)
            with pytest.raises(ConnectionClosed):
                await slow.until(lambda _: False)
            assert slow.socket.close_code == 4008
        async with open_peer(server) as back:
            answer = await back.request(
                "reconnect", clientId=slow.client_id, lastSeenServerSeq=0, subscriptions=[chat]
            )
            assert answer["type"] == "snapshot"
            (snapshot,) = answer["snapshots"]
            assert snapshot["state"]["turns"][-1]["id"] == last
