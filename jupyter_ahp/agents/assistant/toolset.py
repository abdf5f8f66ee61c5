"""The tools of a turn, as pydantic-ai takes them. Imported with it, at the first use.

What a model sends is handed on as it came: whether it fits is the tool's to say, in words, and never ends the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import BinaryContent
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from jupyter_ahp.agents.base import Tool, ToolCall, ToolResult

_NOT_JSON: Final = "\0not JSON"


class _AsItCame:
    """Takes whatever a model sends as arguments (pydantic-ai's `SchemaValidatorProt`)."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> Any:
        try:
            arguments = json.loads(input or "{}")
        except ValueError as error:
            return {_NOT_JSON: str(error)}
        return arguments if isinstance(arguments, dict) else {_NOT_JSON: "they are no object"}

    def validate_python(self, input: Any, **_: Any) -> Any:
        return input if isinstance(input, dict) else {_NOT_JSON: "they are no object"}


class Offered(AbstractToolset[None]):
    """What a turn offers. `begun` gives the call of that provider's id, which people see since the model wrote it."""

    def __init__(
        self, tools: Sequence[Tool], begun: Callable[[str, Tool], ToolCall], *, vision: bool
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._begun = begun
        self._vision = vision

    @property
    def id(self) -> str | None:
        return "offered"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        return {name: self._described(tool) for name, tool in self._tools.items()}

    def _described(self, tool: Tool) -> ToolsetTool[None]:
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.parameters,
            strict=False,  # not every API has it, and not every schema is one that it takes
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=0, args_validator=_AsItCame())

    async def call_tool(
        self, name: str, tool_args: Mapping[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> Any:
        offered = self._tools[name]
        call = self._begun(ctx.tool_call_id or "", offered)
        if _NOT_JSON in tool_args:
            words = f"Not done: the arguments cannot be read as JSON: {tool_args[_NOT_JSON]}"
            call.failed(f"{offered.title}: not done", error=words)
            raise ToolFailed(words)
        return self._told(await offered.call(call, tool_args))

    def _told(self, result: ToolResult) -> Any:
        if result.failed:
            raise ToolFailed(result.text)
        if not result.images:
            return result.text
        if not self._vision:
            names = ", ".join(image.label for image in result.images)
            return f"{result.text}\n\n[Images that you cannot see: {names}. Do not guess what they show.]"
        images = [BinaryContent(data=image.data, media_type=image.media_type) for image in result.images]
        return [result.text, *images]
