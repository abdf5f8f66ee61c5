"""`!` commands: M5, Q2, Q3, S5, X4; AHP 1.4 (`terminalCommandPrefix`), 4.3 (content `terminal`).

A turn whose text begins with `!` runs in a terminal of its own, as a tool call of the turn. Its agent is never sent it: the
next message that it is sent tells what was run and what that said. What it printed is on disk a second later, so that it is
in the turn though the server dies (design, *Store*).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol.commands import command_of
from ..protocol.meta import COMMAND, PLUGIN, ran_command, runs_here
from .ports import Json, Launch, ToolCall, TurnSink
from .terminals import Terminal, first_path, uri_of
from .titles import title_of_command

if TYPE_CHECKING:
    from .chat import Chat

TOOL: Final = "terminal"
PREVIEW: Final = 16_000
"""How many characters of a command's output its turn keeps, at most."""
_PRINTED: Final = "printed"  # in a chat's record: the end of what its command has printed so far
_PACE = 0.6  # seconds between two looks at it; the record is written a moment later
_TOLD = 4_000  # of each command's output, for the model
_TOLD_IN_ALL = 16_000
_SHELLS = {"bash", "dash", "fish", "ksh", "sh", "zsh"}  # whose `-c` runs a line
_ENVIRONMENT = {"PAGER": "cat", "GIT_PAGER": "cat"}  # nobody is there to turn the pages


def marked(message: Json, runs: bool, plugin: str | None = None) -> Json:
    """The message of a turn that begins, saying whether it runs as a command, or as which one of a plugin's.

    That is the host's to say, and no client's.
    """
    meta = {key: value for key, value in (message.get("_meta") or {}).items() if key not in (COMMAND, PLUGIN)}
    if runs:
        meta[COMMAND] = True
    elif plugin is not None:
        meta[PLUGIN] = plugin
    elif len(meta) == len(message.get("_meta") or {}):
        return message
    return {**message, "_meta": meta}


class Command:
    """The command of one turn."""

    def __init__(self, chat: Chat, turn_id: str, text: str) -> None:
        self._chat = chat
        self._turn_id = turn_id
        self._line = command_of(text) or text
        self._name = title_of_command(self._line)
        self._call: ToolCall | None = None
        self._terminal: Terminal | None = None

    async def run(self, sink: TurnSink) -> None:
        """Run it to its end, whatever its exit code. Being cancelled is a stop: it has ended, with all its group, after."""
        call = self._call = sink.tool(
            TOOL, title="Terminal", meta={"toolKind": "terminal", "language": "shellscript", COMMAND: True}
        )
        call.run(f"Running {self._name}", tool_input=json.dumps({"command": self._line}, ensure_ascii=False))
        try:
            terminal = self._terminal = self._start(call)
        except (OSError, ValueError) as error:
            call.failed(f"Not run: {self._name}", error=f"It could not start: {error}")
            return
        call.content([self._block(terminal)])
        try:
            await self._over(terminal)
        except BaseException:
            assert terminal.pty is not None, "it was started"
            await terminal.pty.kill()
            raise
        finally:
            self._keep(None)
        code = terminal.state["lifecycle"].get("exitCode")
        if terminal.running:
            done = "Goes on in the background"
        else:
            done = "Ran" if not code else f"Failed with exit code {code}"
        call.done(f"{done}: {self._name}", content=[self._result(terminal)])

    async def _over(self, terminal: Terminal) -> None:
        """Until it is over; what it prints meanwhile is kept."""
        kept = 0
        while True:
            try:
                async with asyncio.timeout(_PACE):
                    await terminal.over.wait()
                    return
            except TimeoutError:
                if terminal.printed_in_all != kept:
                    kept = terminal.printed_in_all
                    preview, truncated = terminal.text(PREVIEW)
                    self._keep({"turn": self._turn_id, "preview": preview, "truncated": truncated})

    def _keep(self, printed: Json | None) -> None:
        """In the chat's record, which is written soon and as a whole: a journal would grow with the output."""
        record = self._chat.record
        if printed is not None:
            record.meta = {**record.meta, _PRINTED: printed}
        elif _PRINTED in record.meta:
            record.meta = without_printed(record.meta)
        else:
            return
        self._chat.saver.soon()

    def stopped(self) -> None:
        """A stop is about to end the turn: what it printed so far stays in the turn."""
        if self._call is not None and self._terminal is not None:
            content = [self._result(self._terminal)]
            self._call.failed(f"Stopped: {self._name}", error="It was stopped.", content=content)

    def _start(self, call: ToolCall) -> Terminal:
        """Raises `OSError` and `ValueError`, with words."""
        chat = self._chat
        session, terminals = chat.session, chat.session.host.terminals
        directory = first_path(session.host, session.directories)
        if directory is None:
            raise OSError(f"{session.directories[0]} is not a directory of this machine.")
        if not os.path.isdir(directory):
            raise OSError(f"there is no directory {directory}.")
        if "\0" in self._line:
            raise ValueError("a command cannot hold a NUL character.")
        where = {"session": session.uri, "chat": chat.uri, "turnId": self._turn_id}
        return terminals.launch(
            uri_of(chat.uri, self._turn_id),
            Launch(directory, argv=[_shell(), "-c", self._line], environment=_ENVIRONMENT),
            title=self._name,
            claim={"kind": "session", **where, "toolCallId": call.id},
        )

    @staticmethod
    def _block(terminal: Terminal) -> Json:
        return {"type": "terminal", "resource": terminal.uri, "title": terminal.state["title"], "isPty": True}

    def _result(self, terminal: Terminal) -> Json:
        preview, truncated = terminal.text(PREVIEW)
        result: Json = {"preview": preview, "truncated": truncated}
        code = terminal.state["lifecycle"].get("exitCode")
        return {**self._block(terminal), "result": result if code is None else {"exitCode": code, **result}}


def _shell() -> str:
    shell = os.environ.get("SHELL") or ""
    return shell if Path(shell).name in _SHELLS and os.access(shell, os.X_OK) else "/bin/sh"


# ── After a crash ────────────────────────────────────────────────────────────────────────────────────────────────
def without_printed(meta: Json) -> Json:
    """A record's `meta` once the turn of the command has ended."""
    return {key: value for key, value in meta.items() if key != _PRINTED}


def cut_off(active: Json, meta: Json) -> Json | None:
    """The action that ends the call of a command under which the server died, with what it had printed; None if there is none."""
    printed = meta.get(_PRINTED) or {}
    for part in active["responseParts"]:
        call = part.get("toolCall") or {}
        block = next((one for one in call.get("content") or () if one["type"] == "terminal"), None)
        if call.get("status") == "running" and block is not None:
            result: Json = {"success": False, "pastTenseMessage": f"Cut off: {block['title']}"}
            result["error"] = {"message": "The server stopped while it ran."}
            if printed.get("turn") == active["id"]:
                block = {**block, "result": {key: printed[key] for key in ("preview", "truncated")}}
            result["content"] = [block]
            ended = {"turnId": active["id"], "toolCallId": call["toolCallId"], "result": result}
            return {"type": "chat/toolCallComplete", **ended}
    return None


# ── What the agent is told ───────────────────────────────────────────────────────────────────────────────────────
def for_the_agent(turns: Sequence[Json]) -> list[Json]:
    """The turns that the agent was sent."""
    return [turn for turn in turns if not runs_here(turn["message"])]


def told_of_commands(turns: Sequence[Json], turn_id: str) -> dict[str, str]:
    """What the agent is told of the commands ahead of each message of these turns, and of the one that is `turn_id`."""
    told: dict[str, str] = {}
    ran: list[Json] = []
    for turn in turns:
        if ran_command(turn["message"]):
            ran.append(turn)
        elif ran:
            told[turn["id"]], ran = _told(ran), []
    if ran:
        told[turn_id] = _told(ran)
    return told


def _told(ran: list[Json]) -> str:
    """The last of them, as far as there is room, in their order."""
    said: list[str] = []
    room = _TOLD_IN_ALL
    for turn in reversed(ran):
        one = transcript(turn)
        room -= len(one)
        if room < 0:
            said.append("(earlier commands are left out)")
            break
        said.append(one)
    commands = "\n\n".join(reversed(said))
    return f"Before this message, the person ran this in a terminal. It is for you to know, not to answer:\n\n{commands}"


def transcript(turn: Json) -> str:
    """A command's turn as a terminal shows it: what was run, the end of what it printed, how it ended."""
    line = command_of(turn["message"]["text"]) or ""
    lines = [f"$ {line if len(line) <= _TOLD else line[:_TOLD] + '…'}"]
    for part in turn["responseParts"]:
        call = part.get("toolCall") or {}
        for block in call.get("content") or ():
            result = block.get("result") or {}
            preview = result.get("preview") or ""
            if result.get("truncated") or len(preview) > _TOLD:
                preview = f"[…]\n{preview[-_TOLD:]}"
            lines += [preview] if preview else []
            if result.get("exitCode") is not None:
                lines.append(f"(exit code {result['exitCode']})")
        if error := (call.get("error") or {}).get("message"):
            lines.append(f"({error})")
    return "\n".join(lines)
