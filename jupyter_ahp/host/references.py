"""A message that points at another chat: A7 to A10.

A backend cannot read another chat, so for the backend each chat attachment is a pointer: what it is called, its link, and
the end of what was said there. The message keeps what the person attached (A11). Whether they may read that chat is
settled when the message is taken, and written in its `_meta`: it may be sent long after they left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..protocol import uris
from ..protocol.errors import ProtocolError
from .attachments import blocks_of
from .ports import Block, Json, TurnFailed

if TYPE_CHECKING:
    from .chat import Chat
    from .host import Host

log = logging.getLogger(__name__)

EXCERPT: Final = 1000
"""How many characters of the other chat are told, at most."""
MAY_READ: Final = "jupyter-ahp.mayRead"
"""In a message's `_meta`: whether its sender may read other chats here, for what it points at and for a tool that reads
them. The host's to say."""


def points_at_chats(message: Json) -> bool:
    return any(attachment.get("type") == "chat" for attachment in message.get("attachments") or ())


async def blocks_for(host: Host, message: Json) -> list[Block]:
    """The message's attachments as the backend is handed them, those that point at chats resolved (A7).

    Raises `TurnFailed` for a pin that nobody can honour (A10).
    """
    if not message.get("attachments"):
        return []
    if points_at_chats(message):
        attachments = [await _resolved(host, one, message) for one in message["attachments"]]
        message = {**message, "attachments": attachments}
    return await asyncio.to_thread(blocks_of, message)


async def told_before(host: Host, history: Sequence[Json]) -> dict[str, str]:
    """What earlier messages pointed at, by turn, for a backend that is handed its history anew."""
    told = {}
    for turn in history:
        message = turn["message"]
        if points_at_chats(message):
            pointers = [one for one in message["attachments"] if one.get("type") == "chat"]
            told[turn["id"]] = "\n\n".join(
                [await _pointer(host, one, message, pinned=False) for one in pointers]
            )
    return told


async def _resolved(host: Host, attachment: Json, message: Json) -> Json:
    if attachment.get("type") != "chat":
        return attachment
    pointer = await _pointer(host, attachment, message, pinned=True)
    return {"type": "simple", "label": attachment["label"], "modelRepresentation": pointer}


async def _pointer(host: Host, attachment: Json, message: Json, *, pinned: bool) -> str:
    """What a model is told of another chat. `pinned`: a pin that cannot be honoured raises `TurnFailed`."""
    lines = [f"The person points at another chat: {attachment['label']}"]
    chat = chat_meant(host, attachment["resource"])
    if chat is not None:
        lines.append(f"Its link: {chat.uri}")
        lines.append(
            "To read more of it, call the tool get_session_context with this link, if you have that tool."
        )
        if (message.get("_meta") or {}).get(MAY_READ) is True:
            try:
                transcript = await _transcript(chat, attachment, pinned)
            except ProtocolError as error:
                log.warning("%s was attached and cannot be read: only its link is told (%s)", chat.uri, error)
            else:
                if len(transcript) > EXCERPT:
                    lines.append(f"The last {EXCERPT} characters of what was said there:")
                elif transcript:
                    lines.append("What was said there:")
                lines.append(transcript[-EXCERPT:])
    return "\n".join(line for line in lines if line)


def chat_meant(host: Host, resource: str) -> Chat | None:
    """The chat that is meant, if this host has it; a session stands for its default chat."""
    try:
        uri = uris.canonical(resource)
    except ValueError:
        return None
    session = host.session_named(uri)
    return host.chat_named(session.default_chat if session is not None else uri)


async def _transcript(chat: Chat, attachment: Json, pinned: bool) -> str:
    """What was said and answered up to the pinned turn. Raises `ProtocolError`, and `TurnFailed` (A10)."""
    await chat.loaded()
    turns: list[Json] = chat.state["turns"]
    pin = attachment.get("endTurn")
    if pin is not None:
        end = next((at for at, turn in enumerate(turns) if turn["id"] == pin), None)
        if end is None and pinned:
            raise _cannot(chat, attachment, pin)
        turns = [] if end is None else turns[: end + 1]
    return "\n\n".join(text for turn in turns for text in said_in(turn))


def said_in(turn: Json) -> Iterator[str]:
    """What a person said and what the agent answered; nothing else (A8)."""
    if text := turn["message"]["text"].strip():
        yield f"User: {text}"
    answer = "\n\n".join(part["content"] for part in turn["responseParts"] if part["kind"] == "markdown")
    if answer := answer.strip():
        yield f"Agent: {answer}"


def _cannot(chat: Chat, attachment: Json, pin: str) -> TurnFailed:
    label = attachment["label"]
    if chat.state.get("activeTurn", {}).get("id") == pin:
        words = f"Not sent: {label!r} is to be read up to a turn that still runs. Send it again when that has ended."
    else:
        words = (
            f"Not sent: the turn up to which {label!r} is to be read was not found in the retained transcript. "
            "It was rewound, perhaps: attach the chat again."
        )
    return TurnFailed("sendFailed", words)
