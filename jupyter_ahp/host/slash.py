"""Commands of plugins: a message that begins with `/name` is a turn that a plugin answers (M4).

It is never sent to the chat's agent, now or in a later history. Everything else is as in any turn: it streams, asks, can be
stopped and is stored; one that fails starts nothing behind it (Q4).
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Final

from ..protocol.meta import plugin_command
from .events import is_async
from .ports import Command, CommandHandler, CommandRun, Json, TurnFailed, TurnOver, TurnSink

if TYPE_CHECKING:
    from .chat import Chat

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_MESSAGE: Final = re.compile(r"/(\S+)(?:\s+|\Z)")


class Commands:
    """The commands of all plugins, by name."""

    def __init__(self) -> None:
        self._commands: dict[str, tuple[str, Command, CommandHandler]] = {}

    def add(self, plugin: str, command: Command, handler: CommandHandler) -> None:
        """Raises `ValueError`, with words."""
        name = command.name
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot name a command: letters, digits and `_.:-`, at most 64 of them."
            )
        if name in self._commands:
            raise ValueError(f"The plugin {self._commands[name][0]} has a command /{name} already.")
        self._commands[name] = plugin, command, handler

    def remove(self, command: Command) -> None:
        self._commands.pop(command.name, None)

    def all(self) -> list[Command]:
        """What a message of any chat can begin with."""
        return [command for _, command, _ in self._commands.values()]

    def named_in(self, text: str) -> str | None:
        """The name of the command that a message is; None for one that is for the agent."""
        found = _MESSAGE.match(text)
        return found[1] if found is not None and found[1] in self._commands else None

    async def run(self, chat: Chat, active: Json, sink: TurnSink) -> None:
        """Answer the turn, which is marked as a plugin's. Raises `TurnFailed`; being cancelled is a stop."""
        name, text = plugin_command(active["message"]), active["message"]["text"]
        if name not in self._commands:
            words = f"No plugin of this server has a command /{name}. Install or configure it, and start the server again."
            raise TurnFailed("noPlugin", words)
        plugin, _, handler = self._commands[name]
        run = CommandRun(
            name=name,
            argument=text[1 + len(name) :].strip(),
            session=chat.session.uri,
            chat=chat.uri,
            turn_id=active["id"],
            directories=chat.session.paths_of(chat),
            sink=sink,
        )
        try:
            if is_async(handler):
                answer = await handler(run)  # type: ignore[misc]
            else:
                answer = await asyncio.to_thread(handler, run)
        except (TurnFailed, TurnOver):
            raise
        except Exception as error:
            log.exception("/%s of plugin %s failed", name, plugin)
            words = (
                f"/{name} failed: {str(error) or type(error).__name__}. It is the plugin {plugin!r} that did."
            )
            raise TurnFailed("pluginFailed", words) from error
        if isinstance(answer, str):
            sink.markdown(answer)
