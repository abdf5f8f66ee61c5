"""pi's own tools, as people see their calls: what one is about to do, whether it asks, and how it went (AHP 4.5)."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from jupyter_ahp.agents.base import (
    Approvals,
    Effects,
    GuardedTool,
    ImageBlock,
    Json,
    ToolCall,
    ToolResult,
)

_EFFECTS: Final[dict[str, Effects]] = {
    "read": "read",
    "grep": "read",
    "find": "read",
    "ls": "read",
    "edit": "write",
    "write": "write",
}
_TITLES: Final = {
    "read": "Read a file",
    "grep": "Search in files",
    "find": "Find files",
    "ls": "List a directory",
    "edit": "Edit a file",
    "write": "Write a file",
    "bash": "Run a command",
}
_DOING: Final = {
    "read": ("Read {}", "path"),
    "grep": ("Search for {}", "pattern"),
    "find": ("Find {}", "pattern"),
    "ls": ("List {}", "path"),
    "edit": ("Edit {}", "path"),
    "write": ("Write {}", "path"),
    "bash": ("Run {}", "command"),
}
_KINDS: Final = {
    "read": "read",
    "ls": "read",
    "grep": "search",
    "find": "search",
    "edit": "edit",
    "write": "edit",
}
_SHOWN = 120  # characters of what a call is about


def title_of(name: str) -> str:
    """A tool of pi's, for people."""
    return _TITLES.get(name, name)


def meta_of(name: str) -> Json | None:
    """What tells a client how to draw a call of it, and what it does."""
    if name == "bash":
        return {"toolKind": "terminal", "language": "shellscript"}
    return {"toolKind": _KINDS[name]} if name in _KINDS else None


class PiTool(GuardedTool):
    """One call of a tool that pi runs itself. `go` tells pi to run it, with these arguments; `ended` is how it went."""

    description = ""
    parameters: Json = {"type": "object"}

    def __init__(
        self, approvals: Approvals, name: str, go: Callable[[Json], None], ended: asyncio.Future[Json]
    ) -> None:
        super().__init__(approvals)
        self.name = name
        self.title = title_of(name)
        self.effects = _EFFECTS.get(name, "run")
        self._go = go
        self._ended = ended

    def doing(self, arguments: Mapping[str, Any]) -> str:
        words, key = _DOING.get(self.name, ("", ""))
        what = " ".join(str(arguments.get(key) or "").split())
        if not what:
            return self.title
        return words.format(what if len(what) <= _SHOWN else f"{what[:_SHOWN]}…")

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        self._go(dict(arguments))
        event = await self._ended
        result = event.get("result") or {}
        text, images = texts_and_images(result)
        failed = bool(event.get("isError"))
        done = self.doing(arguments)
        message = f"{done}: failed" if failed else done
        diff = (result.get("details") or {}).get("diff") if isinstance(result.get("details"), dict) else None
        content = content_of(result)
        if isinstance(diff, str) and diff and not failed:
            content.append({"type": "text", "text": f"```diff\n{diff}\n```"})
        return ToolResult(text, failed=failed, message=message, content=content, images=images)


def content_of(result: Mapping[str, Any]) -> list[Json]:
    """What pi has of a result, so far or at its end, as AHP tool result content."""
    text, images = texts_and_images(result)
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    for image in images:
        data = base64.b64encode(image.data).decode()
        content.append({"type": "embeddedResource", "data": data, "contentType": image.media_type})
    return content


def texts_and_images(result: Mapping[str, Any]) -> tuple[str, list[ImageBlock]]:
    texts: list[str] = []
    images: list[ImageBlock] = []
    for part in result.get("content") or ():
        if part.get("type") == "text":
            texts.append(str(part.get("text") or ""))
        elif part.get("type") == "image":
            try:
                data = base64.b64decode(part.get("data") or "", validate=True)
            except (binascii.Error, ValueError):
                texts.append("[An image that cannot be read]")
                continue
            images.append(ImageBlock("image", str(part.get("mimeType") or "image/png"), data))
    return "\n".join(texts), images
