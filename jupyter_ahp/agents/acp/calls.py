"""A tool call of an ACP agent's, as people see it."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)

from jupyter_ahp.agents.base import Json, Tool, ToolCall, TurnSink, Worker

from .content import cut, difference, edit_of, shown, text_content
from .terminals import Terminals

Reported: TypeAlias = ToolCallStart | ToolCallProgress | ToolCallUpdate

_PENDING = 1.0  # seconds


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent works, and what it has us run."""

    directory: str
    terminals: Terminals

    def path(self, path: str) -> str:
        """The absolute path of one that the agent may have said as it stands in its directory."""
        return os.path.join(self.directory, path)


class Shown:
    """One call. Updates carry only what has changed; this holds the whole, and goes along AHP's table whatever order the
    agent reports in (AHP 4.5)."""

    def __init__(self, call: ToolCall, sink: TurnSink, place: Place, tool: Tool | None) -> None:
        self.call = call
        self.sink = sink
        """Whose it is: the turn's, or a worker's."""
        self.tool = tool
        """The tool of ours that it calls."""
        self.title = ""
        self.kind: str | None = None
        self.input: Any = None
        self.taken = False
        """The tool of ours runs, and says how it goes."""
        self.worker: Worker | None = None
        """What it runs, of an agent that says what its workers say (W1)."""
        self.over = False
        """The agent has said how it ended."""
        self.asking = asyncio.Lock()
        self._content: list[Any] = []
        self._edits: dict[str, FileEditToolCallContent] = {}
        """What it changes, by path: some agents show that while they ask, and not any more when it is done."""
        self._locations: list[str] = []
        self._output: Any = None
        self._place = place
        self._soon: asyncio.TimerHandle | None = None

    def merge(self, update: Reported) -> None:
        """Take in what an update says, without showing it."""
        self.title = update.title or self.title
        self.kind = update.kind or self.kind
        if update.raw_input is not None:
            self.input = update.raw_input
        if update.content is not None:
            self._content = list(update.content)
            self._edits |= {
                self._place.path(edit.path): edit
                for edit in self._content
                if isinstance(edit, FileEditToolCallContent)
            }
        if update.locations is not None:
            self._locations = [self._place.path(location.path) for location in update.locations]
        if update.raw_output is not None:
            self._output = update.raw_output

    def show(self, status: str | None) -> None:
        """Show how it stands. One that is `pending` may grow, and may still be asked about: it is said to run when it is
        not a little later."""
        self.over = status in ("completed", "failed")
        if self.taken:
            return
        self.rest()
        if status in ("in_progress", "completed", "failed"):
            self.run()
        elif self.input or self._content:
            self._soon = asyncio.get_running_loop().call_later(_PENDING, self.run)
        match status:
            case "completed":
                if self.worker is not None:
                    self.worker.done()
                self.call.done(self.title, content=self.content())
            case "failed":
                if self.worker is not None:
                    self.worker.failed(self._error())
                self.call.failed(self.title, error=self._error(), content=self.content())
            case _ if self._content:
                self.call.content(self.content())

    def run(self, *, by_setting: bool = False) -> None:
        self.call.run(self.title, tool_input=self.tool_input, by_setting=by_setting)
        if self._content:
            self.call.content(self.content())

    def rest(self) -> None:
        """Nothing is said of it any more, unless the agent does."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    @property
    def tool_input(self) -> str | None:
        if self.input in (None, {}, ""):
            text = "\n".join(difference(path, edit) for path, edit in self._edits.items())
        else:
            text = self.input if isinstance(self.input, str) else json.dumps(self.input, ensure_ascii=False)
        return cut(text) or None

    @property
    def edits(self) -> list[Json]:
        return [edit_of(path, edit) for path, edit in self._edits.items()]

    def content(self) -> list[Json]:
        """AHP tool result content. A file that it was about is named, unless an edit of it is there."""
        blocks: list[Json] = []
        blocks += [{"type": "fileEdit", **edit} for edit in self.edits]
        for block in self._content:
            match block:
                case ContentToolCallContent(content=inner):
                    blocks.append(shown(inner))
                case TerminalToolCallContent(terminal_id=terminal_id):
                    blocks.append(text_content(self._place.terminals.output(terminal_id)))
        if not blocks and self._output and isinstance(self._output, str):
            blocks.append(text_content(self._output))
        if self.kind in ("read", "edit", "delete", "move"):
            named = [path for path in dict.fromkeys(self._locations) if path not in self._edits]
            blocks += [{"type": "resource", "uri": Path(path).as_uri()} for path in named[:5]]
        return blocks

    def shows(self, terminal_id: str) -> bool:
        return any(
            isinstance(block, TerminalToolCallContent) and block.terminal_id == terminal_id
            for block in self._content
        )

    def refresh(self) -> None:
        """A terminal that it shows has said something."""
        if not self.taken:
            self.call.content(self.content())

    def _error(self) -> str:
        """What the model was told, as far as the agent says that."""
        inner = [block.content for block in self._content if isinstance(block, ContentToolCallContent)]
        told = "\n".join(content.text for content in inner if isinstance(content, TextContentBlock))
        output = self._output if isinstance(self._output, str) else ""
        return told or output or "It failed, and the agent does not say why."
