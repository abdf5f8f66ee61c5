"""The tools that a turn offers its agent: the host's own, those of plugins, and those of clients (AHP 5.9).

They are gathered when the turn is sent, and belong to that turn: its chat, its sender. Of equal names the host's wins,
then a plugin's, then one of the client that started the turn; the others are left out, with a line in the log.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, get_args

from ..protocol.meta import CLIENT, SENDER
from .clienttools import offered_by
from .hosttools import of_the_host
from .ports import Effects, Json, Tool, ToolFactory, TurnContext

if TYPE_CHECKING:
    from .chat import Chat

log = logging.getLogger(__name__)

MOST: Final = 128
"""Tools of one turn: what common model APIs take."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Tools:
    """Who has tools to offer (`Host.tools`)."""

    def __init__(self) -> None:
        self._factories: list[ToolFactory] = []

    def register(self, factory: ToolFactory) -> Callable[[], None]:
        """Have a plugin's tools in every turn of an agent that takes tools, from the next one on.

        Returns what takes them out again. A factory that raises costs its tools, and is logged.
        """
        self._factories.append(factory)
        return lambda: self._factories.remove(factory)

    def of_turn(self, chat: Chat, active: Json) -> list[Tool]:
        """What the chat's active turn offers."""
        session = chat.session
        meta = active["message"].get("_meta") or {}
        context = TurnContext(
            session_id=session.id,
            chat=chat.uri,
            turn_id=active["id"],
            directories=session.paths_of(chat),
            sender=meta.get(SENDER),
            approvals=session.approvals,
        )
        return _unique(
            itertools.chain(
                of_the_host(chat, active["message"], context),
                *(self._made_by(factory, context) for factory in self._factories),
                offered_by(session, first=meta.get(CLIENT)),
            ),
            chat.uri,
        )

    @staticmethod
    def _made_by(factory: ToolFactory, context: TurnContext) -> Sequence[Tool]:
        try:
            made = list(factory(context))
        except Exception:
            log.exception("Some tools of a plugin are missing in %s: %r failed", context.chat, factory)
            return ()
        for tool in made:
            if not _is_one(tool):
                log.error(
                    "%r of a plugin is left out of %s: it lacks what a tool says of itself",
                    tool,
                    context.chat,
                )
        return [tool for tool in made if _is_one(tool)]


def _is_one(tool: object) -> bool:
    """Whether it says all that a tool says of itself, as whoever writes one may forget."""
    words = [getattr(tool, name, None) for name in ("name", "title", "description")]
    return (
        isinstance(tool, Tool)
        and all(isinstance(one, str) for one in words)
        and isinstance(getattr(tool, "parameters", None), dict)
        and tool.effects in get_args(Effects)
    )


def _unique(tools: Iterator[Tool], chat: str) -> list[Tool]:
    kept: dict[str, Tool] = {}
    for tool in tools:
        if not _NAME.fullmatch(tool.name):
            log.info("The tool %r is left out of %s: no model takes such a name", tool.name, chat)
        elif tool.name in kept:
            log.info("A second tool called %s is left out of %s", tool.name, chat)
        elif len(kept) == MOST:
            log.info("The tool %s is left out of %s, which has %d already", tool.name, chat, MOST)
        else:
            kept[tool.name] = tool
    return list(kept.values())
