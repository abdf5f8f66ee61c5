"""What is done beyond the SDK's public API, and what happens where a version does not have it.

| what | without it |
|---|---|
| the command line that the SDK makes of its options, for a process of ours (own group, any event loop) | the SDK starts the CLI itself |
| `perTaskStopAffordance` in `initialize`: an interrupt spares background work (B8) | an interrupt ends it |
| `cancel_queued` with `interrupt`: a prompt that is about to be run is not (B2) | it may be run, and is interrupted then |
| `cancel_async_message`: a prompt is taken back (G7) | it stays |
| `apply_flag_settings`: effort while a CLI runs | with the next CLI |
| the name of what it raises for a message of a form that it does not know | such a message ends the line |
"""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from jupyter_ahp.agents.base import Json

try:
    from claude_agent_sdk._errors import MessageParseError

    Unreadable: type[Exception] = MessageParseError
except ImportError:

    class _Never(Exception):
        """Such a message ends the line."""

    Unreadable = _Never

log = logging.getLogger(__name__)


def command_line(options: ClaudeAgentOptions, cli: str) -> list[str] | None:
    """How the SDK would start this CLI; None if this version does not say."""
    try:
        from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

        if options.can_use_tool is not None:
            options = dataclasses.replace(options, permission_prompt_tool_name="stdio")
        transport: Any = SubprocessCLITransport(prompt=_nothing(), options=options)
        transport._cli_path = cli
        argv = transport._build_command()
    except (ImportError, AttributeError, TypeError) as error:
        log.warning("This version of the Claude Agent SDK starts its CLI itself: %s", error)
        return None
    return [str(argument) for argument in argv]


async def _nothing() -> Any:
    return
    yield {}


def declared(data: str) -> str:
    """What the client writes, with what our faces can do added to its first request: they stop a task by itself."""
    if '"initialize"' not in data:
        return data
    message = json.loads(data)
    request = message.get("request")
    if message.get("type") == "control_request" and request.get("subtype") == "initialize":
        request["perTaskStopAffordance"] = True
    return json.dumps(message) + "\n"


async def control(client: ClaudeSDKClient, request: Json) -> Json | None:
    """Ask something of the CLI that the client has no method for; None if that cannot be asked, or is refused."""
    send = getattr(getattr(client, "_query", None), "_send_control_request", None)
    if send is None:
        return None
    try:
        answer: Json = await send(request, timeout=5.0)
    except TypeError:
        return None
    except Exception as error:  # noqa: BLE001 the SDK raises Exception itself for a refusal
        log.debug("Claude's CLI refused %s: %s", request.get("subtype"), error)
        return None
    return answer
