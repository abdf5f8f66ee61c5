"""What a backend is handed of a turn: its message, what came before it, and what the host has to say (B3, A1, A7, S6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .branching import prefaces
from .commands import for_the_agent, told_of_commands
from .memory import retold
from .ports import Block, Json, Prompt, Tool
from .references import blocks_for, told_before

if TYPE_CHECKING:
    from .chat import Chat


@dataclass(slots=True)
class Told:
    """A turn, ready to be sent."""

    active: Json
    history: list[Json]
    """The turns before it that are the backend's."""
    blocks: Sequence[Block]
    said: dict[str, str]
    """What the host has to say, by turn."""

    def ahead(self, words: str) -> None:
        """The host has this to say on the turn too, first of all."""
        turn_id = self.active["id"]
        self.said[turn_id] = f"{words}\n\n{self.said[turn_id]}" if turn_id in self.said else words

    def all_of_it(self) -> None:
        """The backend has not seen the turns before it: it is told what they said (S4)."""
        self.ahead(retold(self.history, self.said))

    def prompt(self, chat: Chat) -> Prompt:
        session, message = chat.session, self.active["message"]
        model = message.get("model") or {}
        return Prompt(
            turn_id=self.active["id"],
            text=message["text"],
            blocks=self.blocks,
            model=model.get("id"),
            model_config=model.get("config") or {},
            config=session.config,
            history=self.history,
            prefaces=self.said,
            so_far=self.active["responseParts"],
            tools=_tools(chat, self.active),
            approvals=session.approvals,
        )


async def gather(chat: Chat, active: Json, turns: list[Json]) -> Told:
    """Look into what the turn's message carries and points at. Raises `TurnFailed` for a pin that nobody can honour (A10)."""
    host = chat.session.host
    blocks = await blocks_for(host, active["message"])
    commands = told_of_commands(turns, active["id"])
    history = for_the_agent(turns)
    said = prefaces(chat.record, history, active["id"])
    for told in (commands, await told_before(host, history)):
        for turn_id, words in told.items():
            said[turn_id] = f"{said[turn_id]}\n\n{words}" if turn_id in said else words
    return Told(active, history, blocks, said)


def _tools(chat: Chat, active: Json) -> Sequence[Tool]:
    """What the turn offers: where one agent works for another, what that one's turn does."""
    session = chat.session
    if not session.takes_tools:
        return ()
    return session.host.tools.of_turn(chat, active) if session.work is None else session.work.tools
