"""The tool calls that a turn shows, as its model is told them again in later requests.

What is kept of a call is what people see of it (AHP 4.3, 4.5), which is close to what the model was told then. Bounded:
of earlier turns the newest calls are told first, and when there is no more room, only that they were made.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from jupyter_ahp.agents.assistant.sizes import shortened
from jupyter_ahp.agents.base import Json

_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
LONGEST: Final = 4_000
"""Characters that are told of what one call of an earlier turn said."""
LONGEST_NOW: Final = 20_000
"""The same, for a call of this turn, which goes on after a failure."""
ROOM: Final = 40_000
"""Characters for all calls of earlier turns."""
GONE: Final = "[What it said is left out here.]"


@dataclass(frozen=True, slots=True)
class Used:
    """A call that a model made, and what came of it."""

    id: str
    name: str
    arguments: str
    """A JSON object."""
    result: str


class Room:
    """How much may still be told of the calls of earlier turns."""

    def __init__(self, characters: int = ROOM) -> None:
        self.left = characters

    def take(self, text: str) -> str:
        """As much of it as may be told."""
        text = shortened(text, LONGEST)
        if len(text) > self.left:
            return GONE if len(text) > len(GONE) else text
        self.left -= len(text)
        return text


def used(call: Json, room: Room | None) -> Used | None:
    """A tool call of a turn (AHP `ToolCallState`); None for one that the model never finished to write.

    `room`: of an earlier turn's; None: it is of this turn.
    """
    written = call.get("toolInput")
    if call.get("status") == "cancelled" and written is None:
        return None
    said = _result(call)
    result = room.take(said) if room is not None else shortened(said, LONGEST_NOW)
    arguments = _arguments(written if isinstance(written, str) else "")
    return Used(
        id=_NAME.sub("_", call["toolCallId"])[:64],
        name=_NAME.sub("_", call["toolName"])[:64] or "tool",
        arguments=arguments if room is None else _arguments(room.take(arguments)),
        result=result,
    )


def _arguments(written: str) -> str:
    """A JSON object, as APIs want it, whatever was written."""
    try:
        if isinstance(json.loads(written or "{}"), dict):
            return written or "{}"
    except ValueError:
        pass  # of an agent or a person that wrote something else, or cut
    return json.dumps({"input": written}, ensure_ascii=False)


def _result(call: Json) -> str:
    status = call.get("status")
    if status == "completed":
        shown = "\n\n".join(text for block in call.get("content") or () if (text := _shown(block)))
        if not call.get("success"):
            error = _object(call.get("error")).get("message") or _words(call.get("pastTenseMessage"))
            return f"It failed. {error}" if error in shown or not shown else f"It failed. {error}\n\n{shown}"
        if not shown and call.get("structuredContent") is not None:
            return json.dumps(call["structuredContent"], ensure_ascii=False)
        return shown or _words(call.get("pastTenseMessage")) or "It was done."
    if status == "cancelled" and call.get("reason") == "denied":
        why = _words(call.get("reasonMessage"))
        return "The person did not allow this call." + (f" They said: {why}" if why else "")
    if status == "cancelled" and call.get("reason") == "result-denied":
        return "It was done, and the person does not let you see what came out."
    return "It was not finished: the turn ended before."


def _shown(block: Json) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "embeddedResource":
            return f"[Shown: {block.get('contentType')}]"
        case "resource" | "subagent":
            return f"[{block.get('title') or block.get('uri') or block.get('resource')}]"
        case "fileEdit":
            side = _object(block.get("after") or block.get("before"))
            return f"[Edited: {side.get('uri', 'a file')}]"
        case "terminal":
            return str(_object(block.get("result")).get("preview") or "[A terminal]")
    return ""


def _object(value: object) -> Json:
    """What should be one, and is from who knows which client or agent."""
    return value if isinstance(value, dict) else {}


def _words(text: object) -> str:
    if isinstance(text, dict):
        text = text.get("markdown")
    return text if isinstance(text, str) else ""
