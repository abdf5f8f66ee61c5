"""A tool of an MCP server as one of ours. Imports the `mcp` package: at the first use, in a thread."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import mcp_types as types

from jupyter_ahp.agents.assistant.mcp.line import Line, Unavailable
from jupyter_ahp.agents.base import (
    Approvals,
    Effects,
    GuardedTool,
    ImageBlock,
    Json,
    Tool,
    ToolCall,
    ToolResult,
)

_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_SEEN: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
LONGEST: Final = 64
"""Characters of a tool's name that models take."""


def tools_of(line: Line, approvals: Approvals) -> list[Tool]:
    """What a server has, for one turn."""
    made: list[Tool] = []
    taken: set[str] = set()
    for tool in line.tools:
        name = _unique(f"mcp__{_NAME.sub('_', line.spec.name)}__{_NAME.sub('_', tool.name)}", taken)
        taken.add(name)
        made.append(McpTool(name, tool, line, approvals))
    return made


def _unique(name: str, taken: Iterable[str]) -> str:
    name = name[:LONGEST]
    number = 2
    while name in taken:
        end = f"_{number}"
        name = f"{name[: LONGEST - len(end)]}{end}"
        number += 1
    return name


class McpTool(GuardedTool):
    """Asks first, unless its server says that it only reads."""

    def __init__(self, name: str, tool: types.Tool, line: Line, approvals: Approvals) -> None:
        super().__init__(approvals)
        notes = tool.annotations
        self.name = name
        self.title = f"{tool.title or (notes.title if notes else None) or tool.name} ({line.spec.name})"
        self.description = tool.description or self.title
        self.parameters: Json = {"type": "object", **tool.input_schema}
        self.effects: Effects = "read" if notes is not None and notes.read_only_hint else "run"
        self._called = tool.name
        self._line = line

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        try:
            result = await self._line.call(self._called, arguments)
        except Unavailable as error:
            return ToolResult(f"It failed: {error}.", failed=True)
        shown, told, images = _content(result.content)
        structured = result.structured_content
        if structured is not None and not told:
            told.append(json.dumps(structured, ensure_ascii=False))
        return ToolResult(
            "\n\n".join(told) or "It was done, and said nothing.",
            failed=result.is_error,
            content=shown,
            structured=structured if isinstance(structured, dict) else None,
            images=images,
        )


def _content(blocks: Iterable[types.ContentBlock]) -> tuple[list[Json], list[str], list[ImageBlock]]:
    """What people see, what the model is told, and what it is shown."""
    shown: list[Json] = []
    told: list[str] = []
    images: list[ImageBlock] = []
    for block in blocks:
        match block:
            case types.TextContent(text=text):
                told.append(text)
                shown.append({"type": "text", "text": text})
            case types.ImageContent(data=data, mime_type=kind):
                shown.append({"type": "embeddedResource", "data": data, "contentType": kind})
                if kind in _SEEN and (raw := _bytes(data)) is not None:
                    images.append(ImageBlock(f"image {len(images) + 1}", kind, raw))
            case types.AudioContent(data=data, mime_type=kind):
                shown.append({"type": "embeddedResource", "data": data, "contentType": kind})
                told.append(f"[Played to the person: {kind}]")
            case types.ResourceLink(uri=uri, mime_type=kind):
                shown.append({"type": "resource", "uri": str(uri), **({"contentType": kind} if kind else {})})
                told.append(f"[{uri}]")
            case types.EmbeddedResource(resource=types.TextResourceContents(text=text, uri=uri)):
                told.append(f"{uri}:\n{text}")
                shown.append({"type": "text", "text": text})
            case types.EmbeddedResource(resource=resource):
                shown.append({"type": "resource", "uri": str(resource.uri)})
                told.append(f"[{resource.uri}]")
    return shown, told, images


def _bytes(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
