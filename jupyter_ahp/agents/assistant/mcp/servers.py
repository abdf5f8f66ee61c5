"""The MCP servers of one conversation: started with its first turn, ended with it, and asked for where a directory names them.

One that fails costs its tools, and is said once.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from jupyter_ahp.agents.assistant.mcp.config import Spec, of_directory
from jupyter_ahp.agents.base import Json, Prompt, Tool, TurnSink
from jupyter_ahp.agents.processes import Deaths

if TYPE_CHECKING:
    from jupyter_ahp.agents.assistant.mcp.line import Line

log = logging.getLogger(__name__)

READ_SECONDS: Final = 5.0
ASK: Final = (
    "This directory's .mcp.json names MCP servers: programs, or addresses, that bring tools of their own. Start only those "
    "that you know. What is started stays allowed in this session."
)


class Servers:
    """Those of one conversation. `configured` (with what is wrong with others) are trusted; those of the first directory's `.mcp.json` are asked for."""

    def __init__(
        self,
        configured: tuple[Sequence[Spec], Sequence[str]],
        directories: Sequence[str],
        environ: Mapping[str, str],
    ) -> None:
        self._configured, self._problems = configured
        self._directories = directories
        self._environ = environ
        self._lines: dict[str, Line] = {}
        self._deaths: dict[str, Deaths] = {}
        self._failed: set[str] = set()
        """Those that did not start: not again as long as they are written down so."""
        self._said: set[str] = set()

    async def tools(self, prompt: Prompt, sink: TurnSink) -> list[Tool]:
        """What they bring to a turn, with those started that may be. Asks, once for each; raises `TurnOver`."""
        specs = await self._specs(sink)
        may = await self._allowed(specs, prompt, sink)
        allowed = [spec for spec in specs if spec.key in may]
        await self._end([key for key in self._lines if key not in {spec.key for spec in allowed}])
        if not allowed or not await self._is_installed(sink):
            return []
        await self._start([spec for spec in allowed if self._is_missing(spec)], sink)
        from jupyter_ahp.agents.assistant.mcp.tools import tools_of

        lines = [self._lines[spec.key] for spec in allowed if spec.key in self._lines]
        return [tool for line in lines for tool in tools_of(line, prompt.approvals)]

    async def close(self) -> None:
        await self._end(list(self._lines))

    async def _specs(self, sink: TurnSink) -> list[Spec]:
        """Of equal names the configured one counts."""
        for problem in self._problems:
            self._say(problem, sink)
        if not self._directories:
            return list(self._configured)
        try:
            async with asyncio.timeout(READ_SECONDS):
                found, problems = await asyncio.to_thread(of_directory, self._directories[0])
        except TimeoutError:
            found, problems = [], [".mcp.json is not read: its disk did not answer in time."]
        for problem in problems:
            self._say(problem, sink)
        names = {spec.name for spec in self._configured}
        return [*self._configured, *(spec for spec in found if spec.name not in names)]

    async def _allowed(self, specs: Sequence[Spec], prompt: Prompt, sink: TurnSink) -> set[str]:
        """The keys of those that may be started."""
        asks = [spec for spec in specs if not spec.trusted and not prompt.approvals.granted(spec.key)]
        if asks and not {spec.key for spec in asks} <= (known := _answered(prompt)):
            await self._ask([spec for spec in asks if spec.key not in known], prompt, sink)
        return {spec.key for spec in specs if spec.trusted or prompt.approvals.granted(spec.key)}

    async def _ask(self, specs: Sequence[Spec], prompt: Prompt, sink: TurnSink) -> None:
        questions: list[Json] = [
            {"id": spec.key, "kind": "boolean", "title": spec.name, "message": f"Start {spec.described}?"}
            for spec in specs
        ]
        answer = await sink.ask(ASK, questions)
        for spec in specs:
            value = (answer.answers.get(spec.key) or {}).get("value") or {}
            if answer.response == "accept" and value.get("value") is True:
                prompt.approvals.allow(spec.key)

    async def _is_installed(self, sink: TurnSink) -> bool:
        if importlib.util.find_spec("mcp") is None:
            self._say("MCP servers need `pip install 'jupyter-ahp[assistant]'` and a restart.", sink)
            return False
        await asyncio.to_thread(importlib.import_module, "jupyter_ahp.agents.assistant.mcp.tools")
        return True

    def _is_missing(self, spec: Spec) -> bool:
        line = self._lines.get(spec.key)
        if line is not None and not line.alive:
            self._deaths.setdefault(spec.key, Deaths()).note()
        return (line is None or not line.alive) and spec.key not in self._failed

    async def _start(self, specs: Sequence[Spec], sink: TurnSink) -> None:
        if not specs:
            return
        sink.activity(f"Starting {', '.join(spec.name for spec in specs)}")
        await self._end([spec.key for spec in specs if spec.key in self._lines])
        await asyncio.gather(*(self._start_one(spec, sink) for spec in specs))

    async def _start_one(self, spec: Spec, sink: TurnSink) -> None:
        from jupyter_ahp.agents.assistant.mcp.line import Line, Unavailable

        if spec.key in self._deaths and (wait := self._deaths[spec.key].wait):
            self._say(
                f"The MCP server {spec.name} ended again and again; it is started in {wait:.0f} s.", sink
            )
            return
        try:
            self._lines[spec.key] = await Line.open(spec, self._directories, self._environ)
        except Unavailable as error:
            self._failed.add(spec.key)
            log.info("The MCP server %s could not be started: %s", spec.name, error)
            self._say(
                f"The MCP server {spec.name} could not be started: {error}. This chat goes on without its tools.",
                sink,
            )

    async def _end(self, keys: Sequence[str]) -> None:
        lines = [self._lines.pop(key) for key in keys]
        await asyncio.gather(*(line.close() for line in lines))

    def _say(self, words: str, sink: TurnSink) -> None:
        if words not in self._said:
            self._said.add(words)
            sink.notice(words)


def _answered(prompt: Prompt) -> set[str]:
    """The keys that were asked about in this chat, and answered."""
    asked = (
        part["request"]
        for turn in prompt.history
        for part in turn.get("responseParts") or ()
        if part.get("kind") == "inputRequest" and part.get("response")
    )
    return {question.get("id", "") for request in asked for question in request.get("questions") or ()}
