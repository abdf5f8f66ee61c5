"""A tool to offer to a model in tests, made from a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import jsonschema.validators  # noqa: F401  (a second of import, or five: not while a test waits for a call)

from jupyter_ahp.agents.base import Approvals, Effects, GuardedTool, ToolCall, ToolResult

Work: TypeAlias = Callable[..., Awaitable[ToolResult | str]]


class Made(GuardedTool):
    """Calls `work` with the arguments by name, which are integers: those that its signature has."""

    def __init__(self, work: Work, *, effects: Effects = "read", approvals: Approvals | None = None) -> None:
        super().__init__(approvals or Approvals())
        self.work = work
        self.name = work.__name__
        self.title = f"Title of {self.name}"
        self.description = work.__doc__ or ""
        self.effects = effects
        names = [name for name in work.__annotations__ if name != "return"]
        self.parameters = {
            "type": "object",
            "properties": {name: {"type": "integer"} for name in names},
            "required": names,
            "additionalProperties": False,
        }
        self.calls: list[Mapping[str, Any]] = []

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        self.calls.append(arguments)
        result = await self.work(**arguments)
        return ToolResult(result) if isinstance(result, str) else result
