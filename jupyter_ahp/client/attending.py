"""What a chat's turns ask a person, answered by a policy while somebody waits for a turn: nobody may be there to be asked.

`"none"` allows nothing that asks, `"reads"` what only reads, `"session-directories"` also edits of files in the session's own
directories, a function what it says yes to. What is not allowed stops the turn, which then fails by `NeedsApproval`. So
does a question, which no policy can answer. Workers of the chat ask in chats of their own, and are attended to as well.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

from .answers import confirmation
from .errors import NeedsApproval, Refused
from .model import Question, ToolCallPart, Turn, part_of

if TYPE_CHECKING:
    from .window import Window

Json: TypeAlias = dict[str, Any]
Policy: TypeAlias = (
    Literal["none", "reads", "session-directories"] | Callable[[ToolCallPart], bool | Awaitable[bool]]
)

POLICIES: Final = ("none", "reads", "session-directories")
_READS: Final = ("read", "search")
"""`_meta.toolKind` of calls that change nothing."""


def checked(policy: Policy | None) -> Policy | None:
    """Raises `ValueError` for what is none."""
    if policy is None or policy in POLICIES or callable(policy):
        return policy
    raise ValueError(
        f"approve={policy!r} is none of {', '.join(map(repr, POLICIES))}, nor a function of a call."
    )


class Attendant:
    """For the time of one wait: `async with chat._attendant() as attendant`. Without a policy it does nothing."""

    def __init__(self, chat: Window, policy: Policy | None) -> None:
        self._chat = chat
        self._policy = policy
        self._needs: dict[str, ToolCallPart | Question] = {}
        """By turn, what it was stopped at."""
        self._problem: Exception | None = None
        """What the policy's function raised."""
        self._answered: set[tuple[str, str]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._policy is not None:
            self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def check(self, turn: Turn) -> Turn:
        """The turn, if nothing was asked in vain. Raises `NeedsApproval`, and what the policy's function raised."""
        if turn.state == "cancelled" and turn.id in self._needs:
            raise NeedsApproval(turn, self._needs[turn.id]) from self._problem
        return turn

    async def _watch(self) -> None:
        async with aclosing(self._chat.changes()) as changes:
            async for chat in changes:
                for asked in chat._asked:
                    await self._attend(asked)

    async def _attend(self, asked: Json) -> None:
        """One entry of the session's `inputNeeded` (AHP 3.5)."""
        call: Json = asked.get("toolCall") or {}
        key = (str(asked["id"]), str(call.get("status", "")))
        active = self._chat._running
        if key in self._answered or active is None:
            return
        self._answered.add(key)
        if not call:
            request: Json = {"kind": "inputRequest", "request": asked.get("request") or {}}
            await self._stop(active, part_of(request))
        elif call.get("status") != "auth-required" and await self._allows(call):
            yes = confirmation(call, asked["turnId"], True, option=None, edited_input=None, reason=None)
            with suppress(Refused):  # Somebody was faster.
                await self._chat._say_in(asked["chat"], yes)
        else:
            await self._stop(active, part_of({"kind": "toolCall", "toolCall": call}))

    async def _allows(self, call: Json) -> bool:
        policy = self._policy
        if callable(policy):
            part = part_of({"kind": "toolCall", "toolCall": call})
            assert isinstance(part, ToolCallPart)
            try:
                said = (
                    policy(part)
                    if inspect.iscoroutinefunction(policy)
                    else await asyncio.to_thread(policy, part)
                )
                return bool(await said if inspect.isawaitable(said) else said)
            except Exception as error:  # noqa: BLE001 (a person's own; raised again by `check`)
                self._problem = error
                return False
        if policy == "none":
            return False
        if (call.get("_meta") or {}).get("toolKind") in _READS:
            return True
        return policy == "session-directories" and edits_within(call, self._chat._directories)

    async def _stop(self, turn_id: str, part: Any) -> None:
        self._needs[turn_id] = part
        with suppress(Refused):  # It has ended.
            await self._chat._cancel(turn_id)


def edits_within(call: Json, directories: Sequence[str]) -> bool:
    """Whether all that a call is about to do is to edit files (AHP 4.3) in these directories (`file:` URIs)."""
    edits = (call.get("edits") or {}).get("items") or []
    touched = [(edit.get(side) or {}).get("uri") for edit in edits for side in ("before", "after")]
    files = [_path(uri) for uri in touched if uri is not None]
    roots = [root for root in map(_path, directories) if root is not None]
    return bool(files) and all(
        file is not None and any(file.is_relative_to(root) for root in roots) for file in files
    )


def _path(uri: str) -> Path | None:
    """The file, links and `..` resolved."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(os.path.realpath(url2pathname(parts.path)))
