"""Who a request comes from, in the words that the host uses (T3), and whom else to ask what they may do (P)."""

from __future__ import annotations

import re
import socket
import uuid

from jupyter_server.auth.identity import IdentityProvider, LegacyIdentityProvider, User
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import ensure_async

from .host.grants import Asks, Authorize
from .host.ports import Principal

AUTH_RESOURCE = "ahp"
"""The resource that a Jupyter `Authorizer` is asked about."""

_HEX_32 = re.compile(r"[0-9a-f]{32}")


def principal_of(handler: JupyterHandler) -> Principal:
    """The principal of an authenticated request.

    A person that the identity provider names is `user:<username>`. A server with one token or password for everybody
    knows nobody by name: Jupyter makes up a user for each browser, with a random UUID as its username, and such a
    request came on the deployment's own credential: `root:<host>`.
    """
    user = handler.current_user
    name = user.display_name or user.name or user.username
    if _made_up(user.username) and not _names_people(handler):
        return Principal(id=f"root:{socket.gethostname()}", name=name)
    return Principal(id=f"user:{user.username}", name=name)


def authorizer_of(handler: JupyterHandler) -> Authorize:
    """Jupyter's authorizer, about this request's user and `AUTH_RESOURCE`; awaited where it is async."""
    user: User = handler.current_user

    async def authorize(asks: Asks) -> bool:
        answer = handler.authorizer.is_authorized(handler, user, asks, AUTH_RESOURCE)
        return bool(await ensure_async(answer))  # an awaitable that nobody awaits is true

    return authorize


def _names_people(handler: JupyterHandler) -> bool:
    """Whether the identity provider has users of its own, who may be called anything, a UUID included.

    One that falls back on the server's token is not asked for the name then.
    """
    provider = handler.identity_provider
    own = type(provider).get_user not in (IdentityProvider.get_user, LegacyIdentityProvider.get_user)
    return own and not provider.is_token_authenticated(handler)


def _made_up(username: str) -> bool:
    return _HEX_32.fullmatch(username) is not None and uuid.UUID(hex=username).version == 4
