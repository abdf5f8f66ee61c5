"""Who a request comes from, in the words that the host uses (T3)."""

from __future__ import annotations

import re
import socket
import uuid

from jupyter_server.auth.identity import User

from .host.ports import Principal

_HEX_32 = re.compile(r"[0-9a-f]{32}")


def principal_of(user: User) -> Principal:
    """The principal of an authenticated request.

    A person that the identity provider names is `user:<username>`. A server with one token or password for everybody
    knows nobody by name: Jupyter makes up a user for each browser, with a random UUID as its username, and such a
    request came on the deployment's own credential: `root:<host>`.
    """
    name = user.display_name or user.name or user.username
    if _made_up(user.username):
        return Principal(id=f"root:{socket.gethostname()}", name=name)
    return Principal(id=f"user:{user.username}", name=name)


def _made_up(username: str) -> bool:
    return _HEX_32.fullmatch(username) is not None and uuid.UUID(hex=username).version == 4
