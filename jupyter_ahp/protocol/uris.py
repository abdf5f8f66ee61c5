"""Names of channels (AHP 1.1; U1, U2, U8, W1): canonical spelling, what kind of channel a URI names, ids, derived chats.

Every function raises ValueError, and nothing else, for a string that is no URI.
"""

from __future__ import annotations

import base64
import re
import uuid
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

ROOT: Final = "ahp-root://"

ChannelKind: TypeAlias = Literal[
    "root", "session", "chat", "terminal", "changeset", "annotations", "resourceWatch", "canvas"
]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)((?:\?[^#]*)?(?:#.*)?)")
_UNFIT = re.compile(r"[\s\x00-\x1f\x7f\ud800-\udfff]")
_ID = re.compile(r"[^/?#]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")

_KINDS: Final[dict[str, ChannelKind]] = {
    "ahp-chat": "chat",
    "ahp-terminal": "terminal",
    "agenthost-terminal": "terminal",  # as VS Code's agents window names the terminals that it asks for
    "ahp-changeset": "changeset",
    "ahp-resource-watch": "resourceWatch",
    "ahp-canvas": "canvas",
}
# Schemes that name something else, so that no provider is called so.
_NOT_PROVIDERS = frozenset({"file", "http", "https", "ws", "wss", "mcp", "data", "virtual", "untitled"})
_ANNOTATIONS = "/annotations"
_KEPT = "!'()*-._~"  # what JavaScript's encodeURIComponent leaves as it is, beside letters and digits
_WORKERS: Final = uuid.UUID("6f0d1b52-6a0e-5c0e-9a55-6d0f3b3f8f2c")
"""The namespace of workers' names. Never to be changed: names are kept."""


class _Parts(NamedTuple):
    scheme: str
    authority: str | None
    path: str
    rest: str


def _split(uri: str) -> _Parts:
    match = _URI.fullmatch(uri) if isinstance(uri, str) and not _UNFIT.search(uri) else None
    if match is None:
        raise ValueError(f"not a URI: {uri!r}")
    scheme, authority, path, rest = match.groups()
    return _Parts(scheme.lower(), None if authority is None else authority.lower(), path, rest)


def canonical(uri: str) -> str:
    """The one spelling of a URI: `x:///p` is `x:/p`, authority and scheme in lower case, any bare `ahp-root:` the root.

    `file:` keeps its three slashes.
    """
    scheme, authority, path, rest = _split(uri)
    if _is_root(scheme, authority, path, rest):
        return ROOT
    if scheme == "file":
        return f"file://{authority or ''}{path}{rest}"
    if authority or (authority == "" and not path):
        return f"{scheme}://{authority}{path}{rest}"
    return f"{scheme}:{path}{rest}"


def _is_root(scheme: str, authority: str | None, path: str, rest: str) -> bool:
    return scheme == "ahp-root" and not authority and path in ("", "/") and not rest


def is_root(uri: str) -> bool:
    """Whether it names the root channel, in any spelling."""
    return _is_root(*_split(uri))


def channel_kind(uri: str) -> ChannelKind | None:
    """What kind of channel a URI names; None for a URI that names none of ours."""
    parts = _split(uri)
    if _is_root(*parts):
        return "root"
    kind = _KINDS.get(parts.scheme)
    if kind is not None:
        return kind if parts.path.strip("/") else None
    if _session_id(parts) is not None:
        return "session"
    return "annotations" if session_of_annotations(uri) is not None else None


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────
def _session_id(parts: _Parts) -> str | None:
    scheme, authority, path, rest = parts
    if authority or rest or not path.startswith("/") or not _names_sessions(scheme):
        return None
    session = path[1:]
    return session if _is_id(session) else None


def _names_sessions(scheme: str) -> bool:
    return scheme == "ahp-session" or not (
        scheme.startswith("ahp-") or scheme in _NOT_PROVIDERS or scheme in _KINDS
    )


def _is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None and text not in (".", "..")


def session_id(uri: str) -> str | None:
    """The id of the session that a URI names, in either spelling (U1); None if it names no session (`ahp-chat:`: U8)."""
    return _session_id(_split(uri))


def session_uri(session: str) -> str:
    """`ahp-session:/<id>`. Raises ValueError for an id that a URI cannot hold."""
    return _built("ahp-session", session)


def provider_uri(provider: str, session: str) -> str:
    """`<provider>:/<id>`, the spelling of older VS Code windows. Raises ValueError for a provider that is no such scheme."""
    if _SCHEME.fullmatch(provider) is None or not _names_sessions(provider):
        raise ValueError(f"not a provider's name: {provider!r}")
    return _built(provider, session)


def _built(scheme: str, session: str) -> str:
    if not _is_id(session) or _UNFIT.search(session):
        raise ValueError(f"not a session id: {session!r}")
    return f"{scheme}:/{session}"


def annotations_uri(session: str) -> str:
    """The annotations channel of a session, given its URI."""
    return canonical(session) + _ANNOTATIONS


def session_of_annotations(uri: str) -> str | None:
    """The URI of the session whose annotations channel this is; None if it is none."""
    name = canonical(uri)
    if not name.endswith(_ANNOTATIONS):
        return None
    session = name.removesuffix(_ANNOTATIONS)
    return session if _session_id(_split(session)) is not None else None


# ── Chats ────────────────────────────────────────────────────────────────────────────────────────────────────────
def new_chat_uri() -> str:
    """An opaque name for a new chat (U2)."""
    return f"ahp-chat:/{uuid.uuid4()}"


def default_chat_uri(session: str) -> str:
    """The derived name of a session's first chat (U2), from the session's URI in the spelling that its client uses.

    Raises ValueError if `session` is no session's URI.
    """
    return f"ahp-chat://default/{_encoded(session)}"


def _encoded(session: str) -> str:
    if session_id(session) is None:
        raise ValueError(f"not a session: {session!r}")
    return base64.urlsafe_b64encode(session.encode()).decode().rstrip("=")


def worker_chat_uri(session: str, call: str) -> str:
    """The derived name of the chat in which a tool call's worker runs (W1), as an older VS Code window derives it.

    Raises ValueError if `session` is no session's URI.
    """
    return f"ahp-chat://subagent/{_encoded(session)}/{quote(call, safe=_KEPT)}"


def opaque_worker_chat_uri(root: str, call: str) -> str:
    """The same for a session whose chats have opaque names: always the same one for a call of this root chat (W1)."""
    name = uuid.uuid5(_WORKERS, root + "\n" + call)
    return f"ahp-chat:/{name}"


def session_of_default_chat(chat: str) -> str | None:
    """The session URI that a chat's name is derived from; None for an opaque chat, and for what is no chat."""
    scheme, authority, path, rest = _split(chat)
    if scheme != "ahp-chat" or authority != "default" or rest:
        return None
    encoded = path.removeprefix("/")
    try:
        session = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        return session if default_chat_uri(session).rpartition("/")[2] == encoded else None
    except ValueError:  # not base64, not UTF-8, not a session
        return None
