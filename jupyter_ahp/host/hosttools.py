"""The host's own tools: reading another chat, and renaming this one.

A7, A8, A9, T8. A chat that cannot be read, or that the person whose turn it is may not read, is answered in words and
never fails the turn. The host names a chat once, by its first message; from then on the agent renames it when somebody
asks for that (deferred titles).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..protocol.errors import ProtocolError
from .ports import GuardedTool, Json, Principal, Tool, ToolCall, ToolResult, TurnContext
from .references import MAY_READ, chat_meant, said_in
from .titles import title_of

if TYPE_CHECKING:
    from .chat import Chat

PAGE: Final = 20_000
"""Characters of a transcript that one call tells, about."""


def of_the_host(chat: Chat, message: Json, context: TurnContext) -> list[Tool]:
    """For a turn of this chat, begun by this message."""
    return [SessionContext(chat, message, context), RenameChat(chat, context)]


class SessionContext(GuardedTool):
    """Reads a chat: what was said and answered there, nothing else (A8)."""

    name = "get_session_context"
    title = "Read another chat"
    description = (
        "Read what was said in another chat, or in an earlier part of a long one: the messages of people and the answers "
        "of the agent, oldest first. A long chat comes in pages; without `page` you get the last one."
    )
    parameters: Json = {
        "type": "object",
        "properties": {
            "session": {
                "type": "string",
                "description": "The link of the chat, or of its session, as you were told it (ahp-chat:/…).",
            },
            "page": {"type": "integer", "minimum": 1, "description": "1 is the beginning."},
        },
        "required": ["session"],
        "additionalProperties": False,
    }
    effects = "read"

    def __init__(self, chat: Chat, message: Json, context: TurnContext) -> None:
        super().__init__(context.approvals)
        self._host = chat.session.host
        self._may_read = (message.get("_meta") or {}).get(MAY_READ) is True

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        link = arguments["session"].strip()
        if not self._may_read:
            return _no("The person whose message this is may not read other chats here (needs chat:turns).")
        chat = chat_meant(self._host, link)
        if chat is None:
            return _no(f"There is no chat {link!r} here. Give the link as you were told it.")
        title = chat.summary["title"] or "Untitled chat"
        try:
            await chat.loaded()
        except ProtocolError as error:
            return _no(f"{title!r} cannot be read: {error.message}")
        pages = await asyncio.to_thread(_pages, chat.state["turns"])
        number = arguments.get("page", len(pages))
        if not pages:
            return ToolResult(
                f"Nothing was said in {title!r} yet.", message=f"Read {title}: nothing is there"
            )
        if number > len(pages):
            return _no(f"{title!r} has {len(pages)} page(s), and no page {number}.")
        head = f"The chat {title!r}"
        if len(pages) > 1:
            head += f", page {number} of {len(pages)}"
        return ToolResult(f"{head}:\n\n{pages[number - 1]}", message=f"Read {title}")


class RenameChat(GuardedTool):
    """Gives the chat that it is called in another title."""

    name = "rename_chat"
    title = "Rename this chat"
    description = (
        "Give this chat another title, for everybody. Only when a person asks for it: chats are named by themselves. "
        "A few words, in the person's language."
    )
    parameters: Json = {
        "type": "object",
        "properties": {"title": {"type": "string", "minLength": 1}},
        "required": ["title"],
        "additionalProperties": False,
    }
    effects = "none"

    def __init__(self, chat: Chat, context: TurnContext) -> None:
        super().__init__(context.approvals)
        self._chat = chat
        grants = chat.session.host.options.grants
        sender = context.sender
        self._may = sender is not None and "session:write" in grants.role_of(Principal(sender, "")).operations

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        session = self._chat.session
        title = title_of(arguments["title"])
        if not self._may:
            return _no("The person whose message this is may not rename chats here (needs session:write).")
        if session.read_only is not None:
            return _no(session.read_only)
        if not title:
            return _no("There is nothing in this title.")
        session.rename_chat(self._chat, title)
        return ToolResult(f"The chat is called {title!r} now.", message=f"Renamed this chat to {title}")


def _no(words: str) -> ToolResult:
    return ToolResult(words, failed=True)


def _pages(turns: Sequence[Json]) -> list[str]:
    """A transcript in pages that stay as they are when the chat goes on."""
    pages: list[str] = []
    page: list[str] = []
    length = 0
    for text in (piece for turn in turns for said in said_in(turn) for piece in _pieces(said)):
        if page and length + len(text) > PAGE:
            pages.append("\n\n".join(page))
            page, length = [], 0
        page.append(text)
        length += len(text)
    return [*pages, "\n\n".join(page)] if page else pages


def _pieces(text: str) -> list[str]:
    return [text[at : at + PAGE] for at in range(0, len(text), PAGE)]
