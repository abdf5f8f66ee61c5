"""What an ACP agent says when it was not asked: a turn of its own, such as of a background task that came back.

ACP has no word for its end: it ends when nothing was said for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from acp.schema import AgentMessageChunk, ToolCallStart

from jupyter_ahp.agents.base import ConversationHost, TurnSink

from .turn import Turn

_QUIET = 3.0  # seconds


class Late:
    """The turns that a conversation's agent begins by itself, one at a time.

    `begin` makes one for a sink and has what the agent says go there; `end` is told when it is over.
    """

    def __init__(
        self,
        host: ConversationHost,
        title: str,
        begin: Callable[[TurnSink], Turn],
        end: Callable[[Turn], None],
    ) -> None:
        self._host = host
        self._title = title
        self._begin = begin
        self._end = end
        self._said: list[Any] = []
        """What has been said before the turn is open."""

    def hear(self, update: Any) -> bool:
        """Something that was said while no turn runs; whether it is shown. Only words and new calls begin a turn."""
        if not self._said and not isinstance(update, AgentMessageChunk | ToolCallStart):
            return False
        self._said.append(update)
        if len(self._said) == 1:
            self._host.late_turn(f"{self._title} goes on by itself", self._show)
        return True

    async def _show(self, sink: TurnSink) -> None:
        turn = self._begin(sink)
        try:
            said, self._said = self._said, []
            for update in said:
                turn.update(update)
            while not turn.stopped and (turn.busy or turn.heard):
                turn.heard = False
                try:
                    async with asyncio.timeout(_QUIET):
                        await turn.over.wait()
                except TimeoutError:
                    continue
        finally:
            self._end(turn)
