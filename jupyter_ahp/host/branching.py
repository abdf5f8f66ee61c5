"""Chats made from others, and chats that move: S1 to S8, U3, U11, U12; AHP 4.9.

A fork copies turns and continues them; a side chat copies nothing, and its backend is told on its first turn what the
source turn said. Either is on disk before anybody is told of it, and the chat that it came from is untouched.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..protocol.errors import NOT_FOUND, TURN_IN_PROGRESS, ProtocolError, channel_not_found, invalid_params
from ..protocol.meta import ran_command
from . import carried
from .commands import transcript
from .memory import Held
from .ports import ChatRecord, Json, StoreError
from .workers import is_worker, workers_of

if TYPE_CHECKING:
    from .chat import Chat
    from .session import Session

ASIDE = "aside"
"""In a chat record's `meta`: what its backend is told on the chat's first turn (S6)."""
_LONGEST = 16_000  # characters of a source turn


@dataclass(slots=True)
class Branch:
    """What a new chat begins with."""

    origin: Json
    title: str = ""
    directories: list[str] | None = None
    turns: list[Json] = field(default_factory=list)
    points: dict[str, str] = field(default_factory=dict)
    held: Held = field(default_factory=Held)
    """Where its backend begins (S3)."""
    meta: Json = field(default_factory=dict)


async def branch(session: Session, source: Json, new: str, directories: list[str] | None) -> Branch:
    """What `createChat.source` asks for. Raises `ProtocolError`: what it names is not there, or cannot be done here."""
    kind = source.get("kind")
    if kind not in ("fork", "sideChat"):  # decides whether the rest means anything (S1)
        raise invalid_params(f"A chat cannot be made from a source of kind {kind!r}.")
    uri, turn_id = source.get("chat"), source.get("turnId")
    chat = session.chats.get(uri) if isinstance(uri, str) else None
    if chat is None or uri == new:
        raise invalid_params(f"The source {uri} is not a chat of this session.")
    await chat.loaded()
    if kind == "sideChat":
        return _aside(chat, source, directories)
    agent = session.agent
    if agent is None or not agent.capabilities.fork:
        raise invalid_params(f"{session.agent_name} cannot fork a chat.")
    turns = chat.state["turns"]
    end = next((at for at, turn in enumerate(turns) if turn["id"] == turn_id), None)
    if end is None:
        raise invalid_params(f"The chat has no ended turn {turn_id!r} to fork at.")
    title = chat.summary["title"]
    held, points = chat.memory.forked(turns[: end + 1])
    return Branch(
        origin={"kind": "fork", "chat": uri, "turnId": turn_id},
        title=f"Forked: {title}" if title else "",
        directories=chat.summary.get("workingDirectories"),
        turns=turns[: end + 1],
        points=points,
        held=held,
        meta={ASIDE: chat.record.meta[ASIDE]} if ASIDE in chat.record.meta else {},
    )


def _aside(chat: Chat, source: Json, directories: list[str] | None) -> Branch:
    state, turn_id = chat.state, source.get("turnId")
    running = [state["activeTurn"]] if "activeTurn" in state else []
    turn = next((turn for turn in [*state["turns"], *running] if turn["id"] == turn_id), None)
    if turn is None:
        raise invalid_params(f"The chat has no turn {turn_id!r} to talk about.")
    origin: Json = {"kind": "sideChat", "chat": chat.uri, "turnId": turn_id}
    selection = source.get("selection")
    picked = selection.get("text") if isinstance(selection, dict) else None
    if isinstance(picked, str) and picked:  # S7
        origin["selection"] = selection
    return Branch(
        origin=origin,
        directories=directories,
        meta={ASIDE: _told(turn, picked if isinstance(picked, str) else "")},
    )


def _told(turn: Json, picked: str) -> str:
    """What a person said and what the agent answered, for the model."""
    if ran_command(turn["message"]):
        answer = transcript(turn)
    else:
        answer = "\n\n".join(part["content"] for part in turn["responseParts"] if part["kind"] == "markdown")
    if len(answer) > _LONGEST:
        answer = "[…]" + answer[-_LONGEST:]
    told = (
        "This chat is beside another one and talks about a part of it. There, the person said:\n\n"
        f"{turn['message']['text']}\n\nand the answer was:\n\n{answer or '(nothing yet)'}"
    )
    return f"{told}\n\nThey picked this out of it:\n\n{picked}" if picked else told


def prefaces(record: ChatRecord, history: list[Json], turn_id: str) -> dict[str, str]:
    """What the host has to say on the chat's turns, by turn (B3): on its first alone (S6)."""
    told = record.meta.get(ASIDE)
    first = history[0]["id"] if history else turn_id
    return {first: told} if isinstance(told, str) else {}


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def move(chat: Chat, target: Session, after: str | None) -> None:
    """Transfer a chat with those of its workers, or order it within its session, under its URI and origin (U3, U12).

    `after`: the chat that it is to stand behind; None: it stands first. Raises `ProtocolError` without having moved
    anything, `StoreError` when it is not on disk where it went.
    """
    source = chat.session
    if chat.uri == source.default_chat:
        raise invalid_params("A session's default chat does not move.")
    if is_worker(chat.summary):
        raise invalid_params("A worker's chat moves with the chat that it works for.")
    if after is not None and (after == chat.uri or after not in target.chats):
        raise ProtocolError(NOT_FOUND, f"There is no chat {after} to stand behind in that session.")
    if target is source:
        source.order_chat(chat.uri, after)
        await source.saver.now()
        return
    if target.provider != source.provider:
        raise invalid_params(
            f"A chat of {source.agent_name} cannot go on in a session of {target.agent_name}."
        )
    chosen = chat.summary.get("workingDirectories")
    if chosen is not None and set(chosen) - set(target.state["workingDirectories"]):
        raise invalid_params("The chat works in a directory that the other session does not have.")
    moving = [chat, *workers_of(source, chat.uri)]
    for each in moving:
        await each.loaded()
    if any("activeTurn" in each.state for each in moving):
        raise ProtocolError(TURN_IN_PROGRESS, "A turn is running in this chat. Wait for it, or stop it.")
    store = source.host.store
    async with AsyncExitStack() as resting:
        for each in moving:
            await resting.enter_async_context(each.at_rest())
        places = carried.homes(source)
        files = [
            await asyncio.to_thread(carried.named, each.record, each.state["turns"], places)
            for each in moving
        ]
        for each in moving:
            if "activeTurn" in each.state or source.chats.get(each.uri) is not each or target.closed:
                raise channel_not_found(chat.uri)
        for brought in files:
            carried.bring(target, brought)
        summaries = [each.summary for each in moving]
        await resting.enter_async_context(target.gaining)
        try:
            for each in moving:
                await store.delete_chat(target.id, each.uri)  # what a crash left of an earlier try
                await store.put_chat(target.id, each.record)
                await store.put_turns(target.id, each.uri, each.state["turns"], each.memory.points)
            await target.expect(*summaries, moving=True)
            gone = any(source.chats.get(each.uri) is not each for each in moving)
            if gone or source.closed or target.closed:  # somebody closed one of them meanwhile
                target.came(*summaries)
                await target.saver.now()
                raise channel_not_found(chat.uri)
        except (ProtocolError, StoreError):
            for each in moving:
                await store.delete_chat(target.id, each.uri)
            raise
        for each, summary in zip(moving, summaries, strict=True):
            source.host.canvases.end_of_chat(each.uri)
            source.host.terminals.chat_moved(each.uri, target)
            source.lose(each)
            each.session = target
            target.gain(each, summary, each.state["turns"])
        target.order_chat(chat.uri, after)
        if chat.uri == target.default_chat:
            chat.publish({"type": "chat/movableChanged", "movable": False})
        try:
            await source.saver.now()
        finally:
            target.came(*summaries)
    await target.saver.now()
    for each in moving:
        await store.delete_chat(source.id, each.uri)
