"""Who may connect, and as whom (vscode T1, chats T3): every form of credential, and every refusal with its words."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.support.server import TOKEN, JupyterServer
from tests.support.wire import open_peer

VSCODE = "vscode-file://vscode-app"
EVIL = "https://evil.example"


async def refusal(server: JupyterServer, **how: Any) -> tuple[int, str]:
    """Status and message of a handshake that must not succeed."""
    with pytest.raises(InvalidStatus) as refused:
        async with open_peer(server, **how):
            pass
    response = refused.value.response
    assert response.body is not None
    return response.status_code, json.loads(response.body)["message"]


@pytest.mark.parametrize("origin", [VSCODE, EVIL, None])
@pytest.mark.parametrize(
    ("query", "authorization"),
    [
        (f"?token={TOKEN}", None),
        (f"?tkn={TOKEN}", None),
        ("", f"token {TOKEN}"),
        ("", f"Bearer {TOKEN}"),
    ],
)
async def test_T1_token_in_every_form_from_any_origin(
    server: JupyterServer, query: str, authorization: str | None, origin: str | None
) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    async with open_peer(server, query=query, headers=headers, origin=origin) as peer:
        assert peer.socket.subprotocol is None
        assert peer.socket.response is not None
        assert "Sec-WebSocket-Protocol" not in peer.socket.response.headers
        assert await peer.request("ping") is None


@pytest.mark.parametrize("query", ["?tkn=bad", "?token=bad", "?tkn=", ""])
async def test_T1_no_or_bad_token_is_refused_with_words(server: JupyterServer, query: str) -> None:
    status, message = await refusal(server, query=query, origin=VSCODE)
    assert status == 403
    assert "credential" in message
    assert "?tkn=" in message


async def test_T1_login_cookie_from_the_servers_own_page_only(server: JupyterServer) -> None:
    cookie = {"Cookie": server.login_cookie()}
    own = f"http://127.0.0.1:{server.port}"
    async with open_peer(server, query="", headers=cookie, origin=own) as peer:
        assert await peer.request("ping") is None
    status, message = await refusal(server, query="", headers=cookie, origin=EVIL)
    assert status == 403
    assert "origin" in message


async def test_T1_foreign_origin_without_credential(server: JupyterServer) -> None:
    assert (await refusal(server, query="", origin=EVIL))[0] == 403


async def test_token_wins_over_a_wrong_tkn(server: JupyterServer) -> None:
    async with open_peer(server, query=f"?tkn=bad&token={TOKEN}") as peer:
        assert await peer.request("ping") is None


async def test_a_foreign_host_header_is_refused_with_words(server: JupyterServer) -> None:
    status, body, _ = server.request("ahp", headers={"Host": "evil.example"})
    assert status == 403
    assert "Host" in json.loads(body)["message"]


async def test_without_authentication_only_foreign_origins_are_refused(
    with_server: Callable[..., JupyterServer],
) -> None:
    server = with_server(token="")
    status, message = await refusal(server, origin=EVIL)
    assert status == 403
    assert "origin" in message
    async with open_peer(server) as peer:
        assert await peer.request("ping") is None


async def test_a_server_with_a_password_takes_its_cookie_and_no_empty_token(
    configured: Callable[..., JupyterServer],
) -> None:
    config = """
from jupyter_server.auth import passwd
c.PasswordIdentityProvider.hashed_password = passwd("open sesame")
"""
    server = configured(config, token=None)
    for query in ("", "?token=", "?tkn="):
        assert (await refusal(server, query=query))[0] == 403
    _, _, page = server.request("login", headers={})
    xsrf = page["Set-Cookie"].split(";")[0]
    form = f"password=open+sesame&_xsrf={xsrf.partition('=')[2]}".encode()
    _, _, answer = server.request("login", headers={"Cookie": xsrf}, body=form, follow=False)
    cookie = answer["Set-Cookie"].split(";")[0]
    async with open_peer(server, query="", headers={"Cookie": cookie}) as peer:
        assert await peer.request("ping") is None


async def test_a_server_that_authenticates_everything_by_itself(
    configured: Callable[..., JupyterServer],
) -> None:
    server = configured("c.ServerApp.allow_unauthenticated_access = False")
    status, message = await refusal(server, query="?tkn=bad")
    assert status == 403
    assert "credential" in message
    async with open_peer(server, query=f"?tkn={TOKEN}") as peer:
        assert await peer.request("ping") is None


AUTHORIZER = """
import asyncio
from jupyter_server.auth.authorizer import Authorizer

class Slow(Authorizer):
    async def is_authorized(self, handler, user, action, resource):
        await asyncio.sleep(0.01)
        return resource != "ahp"

c.ServerApp.authorizer_class = Slow
"""


async def test_an_async_authorizer_that_denies_is_awaited(configured: Callable[..., JupyterServer]) -> None:
    server = configured(AUTHORIZER)
    status, message = await refusal(server)
    assert status == 403
    assert "may not use" in message
    status, body, _ = server.request("ahp/status")
    assert status == 403
    assert "may not read" in json.loads(body)["message"]


IDENTITY = """
from jupyter_server.auth.identity import IdentityProvider, User

class Named(IdentityProvider):
    def get_user(self, handler):
        name = handler.request.headers.get("X-User")
        return User(name, name, name.title()) if name else None

c.ServerApp.identity_provider_class = Named
"""


async def test_T3_a_named_person_and_the_servers_token_are_told_apart(
    server: JupyterServer, configured: Callable[..., JupyterServer]
) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        _, chat = await peer.new_chat()
        await peer.start_turn(chat, "hello")
        started = await peer.action("chat/turnStarted", chat)
        assert f"root:{socket.gethostname()}" in json.dumps(started["message"]["_meta"])

    named = configured(IDENTITY, token=None)
    async with open_peer(named, query="", headers={"X-User": "mia"}) as peer:
        await peer.initialize()
        _, chat = await peer.new_chat()
        await peer.start_turn(chat, "hello")
        started = await peer.action("chat/turnStarted", chat)
        assert "user:mia" in json.dumps(started["message"]["_meta"])
        assert "Mia" in json.dumps(started["message"]["_meta"])
