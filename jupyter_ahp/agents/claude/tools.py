"""The host's tools for Claude's model: an MCP server in this process (`mcp__jupyter__…`)."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server

from jupyter_ahp.agents.base import Tool, ToolResult, TurnOver
from jupyter_ahp.agents.claude import calls
from jupyter_ahp.agents.claude.reporter import Registry

log = logging.getLogger(__name__)

Given: TypeAlias = dict[str, Any]


def signature(tools: Sequence[Tool]) -> str:
    """Two sets of tools are the same to the model when this is the same."""
    return json.dumps([(tool.name, tool.description, tool.parameters) for tool in tools], sort_keys=True)


def servers(tools: Sequence[Tool], registry: Registry) -> dict[str, Any]:
    """For `ClaudeAgentOptions.mcp_servers`; none where there is no tool."""
    if not tools:
        return {}
    made = [
        SdkMcpTool(tool.name, tool.description, dict(tool.parameters), _handler(tool.name, registry))
        for tool in tools
    ]
    # Always in the model's context: else it has to search for them first.
    return {calls.OURS: {**create_sdk_mcp_server(calls.OURS, tools=made), "alwaysLoad": True}}


def _handler(name: str, registry: Registry) -> Callable[[Given], Awaitable[Given]]:
    async def handle(arguments: Given) -> Given:
        return await _call(name, arguments, registry)

    return handle


async def _call(name: str, arguments: Mapping[str, Any], registry: Registry) -> Given:
    entry = registry.serve(name, arguments)
    if entry is None or entry.tool is None:
        return _said(ToolResult("This tool is not there any more.", failed=True))
    try:
        result = await entry.tool.call(entry.call, arguments)
    except TurnOver:
        return _said(ToolResult("The person stopped this.", failed=True))
    except Exception as error:  # a tool raises nothing else: this one is broken, and the model has to go on
        log.exception("The tool %s failed", name)
        entry.call.failed(f"{entry.tool.title} failed", error=str(error) or type(error).__name__)
        return _said(ToolResult(f"The tool is broken: {error}", failed=True))
    finally:
        entry.over = True
    return _said(result)


def _said(result: ToolResult) -> Given:
    images = [
        {"type": "image", "data": base64.b64encode(image.data).decode(), "mimeType": image.media_type}
        for image in result.images
    ]
    return {"content": [{"type": "text", "text": result.text}, *images], "is_error": result.failed}
