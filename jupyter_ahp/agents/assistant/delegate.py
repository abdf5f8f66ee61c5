"""Workers of the assistant: a tool by which its model has another run of itself do a part of the work (W1 to W5).

A worker has the same model and the same tools, but for this one: it has none of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from jupyter_ahp.agents.base import (
    Approvals,
    GuardedTool,
    Json,
    ToolCall,
    ToolResult,
    TurnFailed,
    TurnOver,
    TurnSink,
)

AT_ONCE: Final = 4
"""Workers of one turn that run at the same time; more wait."""

INSTRUCTIONS: Final = """\


You are a worker: another agent has given you a task, and you see nothing of its chat. Do the task, then answer with what \
it needs to know of it, complete and brief: your last answer is all that it is told. Nobody answers questions: where \
something is not said, choose what is sensible, and say what you chose."""

Work: TypeAlias = Callable[[str, TurnSink], Awaitable[str]]
"""Does a task, reports to a worker's sink, and gives its last answer. Raises `TurnFailed`."""


class Delegate(GuardedTool):
    """Opens a worker's chat for each call."""

    name = "delegate"
    title = "Delegate"
    description = (
        "Give a task to a worker, which has your tools and none of what was said here: say in `prompt` all that it needs. "
        "Several calls in one answer run at the same time. For work that stands by itself and would fill this chat, such as "
        "a search through many files. You are told the worker's last answer."
    )
    parameters: Json = {
        "type": "object",
        "properties": {
            "title": {
                "type": "string",
                "minLength": 1,
                "description": "The task in a few words, for people.",
            },
            "prompt": {"type": "string", "minLength": 1},
        },
        "required": ["title", "prompt"],
        "additionalProperties": False,
    }
    effects = "none"

    def __init__(self, approvals: Approvals, sink: TurnSink, work: Work) -> None:
        super().__init__(approvals)
        self._sink = sink
        self._work = work
        self._slots = asyncio.Semaphore(AT_ONCE)

    def doing(self, arguments: Mapping[str, Any]) -> str:
        return str(arguments["title"])

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        title, prompt = arguments["title"], arguments["prompt"]
        async with self._slots:
            working: asyncio.Task[str] | None = None
            stopped = False

            async def stop() -> None:
                nonlocal stopped
                stopped = True
                if working is not None:
                    working.cancel()

            worker = self._sink.worker(call, prompt, title=title, agent_name=self.title, stop=stop)
            working = asyncio.ensure_future(self._work(prompt, worker.sink))
            try:
                text = await working
            except TurnFailed as failed:
                worker.failed(failed.message, details=failed.details)
                return ToolResult(f"The worker failed: {failed.message}", failed=True)
            except (asyncio.CancelledError, TurnOver):
                if stopped:  # alone: the turn that it works for goes on
                    return ToolResult(
                        "A person stopped the worker.", failed=True, message=f"Stopped: {title}"
                    )
                worker.cancelled()
                raise
            worker.done()
        return ToolResult(text or "The worker said nothing.", message=title)
