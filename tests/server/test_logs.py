"""Token hygiene (vscode T38): what a client was given to connect with is in no log line and in no message."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from websockets.exceptions import InvalidStatus

from tests.support.server import JupyterServer
from tests.support.wire import open_peer

SECRET = "s3cret-value"

IDENTITY = """
from jupyter_server.auth.identity import IdentityProvider
import asyncio
from jupyter_server.auth.authorizer import Authorizer

class Broken(Authorizer):
    async def is_authorized(self, handler, user, action, resource):
        if "X-Break" in handler.request.headers:
            raise RuntimeError("the authorizer is broken")
        return "X-Deny" not in handler.request.headers

c.ServerApp.authorizer_class = Broken
"""


async def test_T38_no_log_line_and_no_message_holds_the_token(
    configured: Callable[..., JupyterServer],
) -> None:
    server = configured(IDENTITY, token=SECRET)
    before = len(server.log)  # Jupyter itself prints its link, with the token, when it starts.
    for key in ("tkn", "token"):
        async with open_peer(server, query=f"?{key}={SECRET}") as peer:
            hello = await peer.initialize(initialSubscriptions=["ahp-root://"])
            assert SECRET not in json.dumps(hello)
        for headers in ({"X-Deny": "1"}, {"X-Break": "1"}):
            with pytest.raises(InvalidStatus) as refused:
                async with open_peer(server, query=f"?{key}={SECRET}", headers=headers):
                    pass
            assert SECRET.encode() not in (refused.value.response.body or b"")
        with pytest.raises(InvalidStatus):
            async with open_peer(server, query=f"?{key}={SECRET}-not-quite", origin="https://evil.example"):
                pass
        assert server.request(f"ahp?{key}={SECRET}")[0] == 400  # no upgrade
        assert server.request(f"ahp/status?{key}={SECRET}", headers={})[0] in (200, 403)
        assert server.request(f"ahp/nothing-here?{key}={SECRET}")[0] == 404
    server.stop()
    log = server.log[before:]
    assert "/ahp" in log
    assert "broken" in log
    assert SECRET not in log
