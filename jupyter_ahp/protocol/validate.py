"""What is wrong with what a client sent, before anything is done about it (AHP 6.1; T7).

Only shapes, and what can be told from the message alone. Whether a turn runs, a call waits or a person may: that is the
host's to know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from . import uris
from ._shapes import ACTIONS, ATTACHMENT_NEEDS, CHANNEL_METHODS, ROOT_METHODS, SESSION_METHODS
from .errors import invalid_params, method_not_found
from .times import parse_ms
from .versions import introduced

_ALL_METHODS: Mapping[str, Any] = {**ROOT_METHODS, **SESSION_METHODS, **CHANNEL_METHODS}

DISPATCHABLE = frozenset(ACTIONS)
"""The actions that a client may dispatch."""

CLIENT_TOOL_ACTIONS = frozenset({"chat/toolCallComplete", "chat/toolCallContentChanged"})
"""Of these, the ones for the client whose tool the call runs, and for nobody else."""


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────
def check_params(method: str, params: Mapping[str, Any]) -> None:
    """Whether the params of a method have their shape and a channel that can be the method's.

    A method of the connection may leave the channel out. Raises `ProtocolError`: -32601 for a method that AHP does not
    have, -32602 with what is wrong and where.
    """
    shape = _ALL_METHODS.get(method)
    if shape is None:
        raise method_not_found(method)
    _check_channel(method, params.get("channel"))
    problem = _mismatch(params, shape) or _message_problem(params.get("initialMessage"))
    if problem is not None:
        raise invalid_params(f"{method}: {problem}")


def _check_channel(method: str, channel: object) -> None:
    if channel is None and method in ROOT_METHODS:
        return
    try:
        if not isinstance(channel, str):
            raise ValueError("params need a channel")
        is_root, session = uris.is_root(channel), uris.session_id(channel)
    except ValueError as error:
        raise invalid_params(f"{method}: {error}.") from None
    if method in ROOT_METHODS and not is_root:
        raise invalid_params(f"{method}: its channel is {uris.ROOT}, not {channel}.")
    if method in SESSION_METHODS and session is None:
        raise invalid_params(f"{method}: its channel is a session's URI (ahp-session:/<id>), not {channel}.")


# ── Actions ──────────────────────────────────────────────────────────────────────────────────────────────────────
def rejection(action: Mapping[str, Any], kind: str | None) -> str | None:
    """Why a client's action cannot be, on a channel of this kind (`uris.channel_kind`); None if nothing speaks against it.

    The reason is for people: it goes back to the sender as `rejectionReason`.
    """
    name = action.get("type")
    if not isinstance(name, str):
        return "An action has a type."
    shape = ACTIONS.get(name)
    if shape is None:
        known = introduced(name) is not None
        return f"{name} is for the host to say." if known else f"This host does not know the action {name!r}."
    if not _belongs(name, kind):
        return f"{name} does not go to a channel of this kind ({kind or 'unknown'})."
    problem = _mismatch(action, shape) or _content_problem(name, action)
    return None if problem is None else f"{name}: {problem}"


def _belongs(name: str, kind: str | None) -> bool:
    """An action goes to channels of its own kind; a title on a chat's channel renames the chat."""
    return name.partition("/")[0] == kind or (name == "session/titleChanged" and kind == "chat")


def _mismatch(value: Mapping[str, Any], shape: Any) -> str | None:
    """What of `value` does not have the shape, and where."""
    try:
        msgspec.convert(value, shape)
    except (msgspec.ValidationError, OverflowError) as error:
        return str(error).replace("`$.", "`")
    return None


def _content_problem(name: str, action: Mapping[str, Any]) -> str | None:
    """What a shape alone cannot say."""
    if name == "chat/turnStarted" and parse_ms(action["startedAt"]) is None:
        return "startedAt must be a timestamp like 2026-03-01T10:00:00.000Z."
    if name == "chat/turnCancelled" and not math.isfinite(action["duration"]):
        return "duration must be a finite number of milliseconds."
    if name == "chat/toolCallConfirmed":
        if action["approved"] and action.get("confirmed") is None:
            return "an approval says how it was confirmed (`confirmed`)."
        if not action["approved"] and action.get("reason") not in ("denied", "skipped"):
            return "a denial's `reason` is denied or skipped."
    for field in ("message", "draft", "userSuggestion"):
        problem = _message_problem(action.get(field))
        if problem is not None:
            return problem
    return None


def _message_problem(message: Any) -> str | None:
    """What is wrong with a message that has its shape. None for no message."""
    if message is None:
        return None
    kind = message["origin"]["kind"]
    if kind != "user":
        return f"a client's message has the origin user, not {kind}."
    for attachment in message.get("attachments") or ():
        for field in ATTACHMENT_NEEDS.get(attachment["type"], ()):
            if attachment.get(field) is None:
                return f"the {attachment['type']} attachment {attachment['label']!r} has no {field}."
    return None
