"""Who may do what on a real server (P1 to P9): roles, people named by an identity provider, Jupyter's authorizer."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.support.server import JupyterServer
from tests.support.wire import Json, Peer, RpcError, open_peer

# People are named by a header. Whoever sends the server's token instead is nobody by name.
PEOPLE = """
from jupyter_server.auth.identity import IdentityProvider, User

class Named(IdentityProvider):
    async def get_user(self, handler):
        name = handler.request.headers.get("X-User")
        if name:
            return User(name, name, name.title())
        return await super().get_user(handler)

c.ServerApp.identity_provider_class = Named
"""
ROLES = """
c.AHPExtension.roles = {"student": ["session:read", "chat:create", "chat:send", "chat:cancel"]}
c.AHPExtension.members = {"tess": "owner", "sam": "student"}
c.AHPExtension.default_role = "guest"
"""
BY_ACTION = """
import asyncio
from jupyter_server.auth.authorizer import Authorizer

class ByAction(Authorizer):
    async def is_authorized(self, handler, user, action, resource):
        await asyncio.sleep(0.001)
        return resource != "ahp" or action in ALLOWED

c.ServerApp.authorizer_class = ByAction
"""

Configured = Callable[..., JupyterServer]


def person(server: JupyterServer, name: str) -> AbstractAsyncContextManager[Peer]:
    return open_peer(server, query="", headers={"X-User": name})


async def told(peer: Peer) -> Json:
    meta: Json = (await peer.initialize())["_meta"]
    return meta


async def refusal(peer: Peer) -> str:
    """The reason in the next refusal."""
    message = await peer.until(lambda message: "rejectionReason" in message.get("params", {}))
    reason: str = message["params"]["rejectionReason"]
    return reason


async def test_P_roles_of_named_people(configured: Configured) -> None:
    server = configured(PEOPLE + ROLES)
    async with person(server, "tess") as tess, person(server, "sam") as sam, person(server, "gus") as gus:
        roles = [(await told(peer))["jupyter-ahp.role"] for peer in (tess, sam, gus)]
        assert roles == ["owner", "student", "guest"]
        session, chat = await tess.new_chat()

        await sam.request("subscribe", chat)
        await sam.start_turn(chat, "a student may ask")
        await sam.action("chat/turnComplete", chat)
        await sam.dispatch(chat, {"type": "chat/truncated"})
        assert await refusal(sam) == (
            "Not rewound: you may not rewind chats here (needs chat:truncate). Your role here is student."
        )
        with pytest.raises(RpcError) as refused:
            await sam.request("disposeSession", session)
        assert refused.value.code == -32009
        assert refused.value.data == {
            "jupyter-ahp.needs": ["session:write"],
            "jupyter-ahp.role": "student",
        }

        assert len(await gus.turns(chat)) == 1
        await gus.start_turn(chat, "a guest may not")
        assert await refusal(gus) == (
            "Not sent: you may read this chat only (needs chat:send). Your role here is guest."
        )
        assert len(await tess.turns(chat)) == 1


async def test_P_who_may_read_nothing_is_told_so(configured: Configured) -> None:
    server = configured(
        PEOPLE + 'c.AHPExtension.roles = {"nobody": []}\nc.AHPExtension.members = {"eve": "nobody"}'
    )
    async with person(server, "tess") as tess, person(server, "eve") as eve:
        await tess.initialize()
        session, chat = await tess.new_chat()
        hello = await eve.initialize(initialSubscriptions=["ahp-root://", session, chat])

        assert [shot["resource"] for shot in hello["snapshots"]] == ["ahp-root://"]
        for method, channel in (("subscribe", chat), ("subscribe", session), ("listSessions", "ahp-root://")):
            with pytest.raises(RpcError) as refused:
                await eve.request(method, channel)
            assert refused.value.code == -32009


async def test_P_the_servers_token_is_owner_whatever_the_roles(configured: Configured) -> None:
    """Also where people have names, and a person's name is no way to the token's role."""
    server = configured(PEOPLE + ROLES)
    made_up = uuid.uuid4().hex  # what Jupyter calls whoever comes with the token
    async with open_peer(server) as root, person(server, made_up) as spoof:
        assert (await told(root))["jupyter-ahp.role"] == "owner"
        meta = await told(spoof)
        assert (meta["jupyter-ahp.principal"], meta["jupyter-ahp.role"]) == (f"user:{made_up}", "guest")


async def test_P_an_async_authorizer_is_asked_by_operation(configured: Configured) -> None:
    server = configured('ALLOWED = ("read", "write")\n' + BY_ACTION)
    async with open_peer(server) as peer:
        meta = await told(peer)
        assert meta["jupyter-ahp.role"] == "owner"
        assert {"session:read", "chat:turns", "session:write", "chat:draft"} <= set(
            meta["jupyter-ahp.grants"]
        )
        assert "chat:send" not in meta["jupyter-ahp.grants"]
        _, chat = await peer.new_chat()
        await peer.start_turn(chat, "run")
        assert "authorizer does not let you (needs chat:send" in await refusal(peer)
        assert await peer.turns(chat) == []


async def test_P_who_may_only_read_can_connect_and_watch(configured: Configured) -> None:
    server = configured('ALLOWED = ("read",)\n' + BY_ACTION)
    async with open_peer(server) as peer:
        assert (await told(peer))["jupyter-ahp.grants"] == [
            "session:read",
            "chat:turns",
            "terminal:read",
            "resource:read",
        ]
        assert (await peer.request("listSessions"))["items"] == []
        with pytest.raises(RpcError) as refused:
            await peer.new_chat()
        assert refused.value.code == -32009


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('c.AHPExtension.default_role = "gest"', "AHPExtension.default_role: 'gest' is no role"),
        (
            'c.AHPExtension.members = {"ana": "teacher"}',
            "AHPExtension.members: 'teacher', of 'ana', is no role",
        ),
        ('c.AHPExtension.roles = {"x": ["chat:sned"]}', "AHPExtension.roles: 'x' has 'chat:sned'"),
        ('c.AHPExtension.members = ["ana"]', "AHPExtension"),
        ('c.AHPExtension.members = ["ana"]\nc.AHPExtension.default_role = "guest"', "AHPExtension"),
    ],
)
async def test_P_a_wrong_configuration_is_said_at_the_start_and_serves_nobody(
    configured: Configured, config: str, words: str
) -> None:
    """Never with everybody as owner instead."""
    server = configured(config)

    assert "jupyter_ahp | extension failed loading" in server.log
    assert words in server.log
    assert server.request("ahp/status")[0] == 404
    assert server.request("api")[0] == 200, "the server itself goes on"
