"""Where the tools work: the chat's directories, and nothing outside of them."""

from __future__ import annotations

import asyncio
import os
import stat
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jupyter_ahp.agents.base import Approvals, GuardedTool, Json, ToolCall, ToolResult

PATH: Final[Json] = {
    "type": "string",
    "description": "From the chat's first directory, or absolute. It has to be in a directory of the chat.",
}
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Refused(Exception):
    """A call that cannot be done; the words are for the model."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path in the chat's directories. There need be nothing."""

    path: str
    """Absolute, behind all links."""
    name: str
    """As it is said: from the chat's first directory where it is in there, else absolute."""


class Workspace:
    """The directories of one chat, absolute. Its workers share it, so that they write one after the other."""

    def __init__(self, directories: Sequence[str]) -> None:
        self.directories = [os.path.abspath(directory) for directory in directories]
        self.writing = asyncio.Lock()
        """Held from the look at a file to its replacement: several calls of one answer run at once."""

    def roots(self) -> list[str]:
        """The directories, behind all links. Blocks."""
        return [os.path.realpath(directory) for directory in self.directories]

    def place(self, path: str) -> Place:
        """What a path of the model's means. Blocks. Raises `Refused` if it is outside."""
        first = self.directories[0]
        wanted = os.path.normpath(os.path.join(first, os.path.expanduser(path)))
        try:
            real = os.path.realpath(wanted)
            inside = any(Path(real).is_relative_to(root) for root in self.roots())
        except (
            OSError,
            ValueError,
        ) as error:  # ValueError: a path that no system has, such as one with a NUL
            raise Refused(f"{path!r} is no path on this machine.") from error
        if not inside:
            raise Refused(f"{path} is outside of the chat's directories, so it is not touched.")
        name = os.path.relpath(wanted, first) if Path(wanted).is_relative_to(first) else wanted
        return Place(real, name.replace(os.sep, "/"))

    def read(self, place: Place, most: int) -> tuple[bytes, int]:
        """At most that many bytes of a file, and its size. Blocks. Raises `Refused`."""
        try:
            if os.path.isdir(place.path):
                raise Refused(f"{place.name} is a directory.")
            descriptor = os.open(place.path, _OPEN)
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise Refused(f"{place.name} is no ordinary file.")
                data = file.read(most)
        except FileNotFoundError as error:
            raise Refused(f"There is no file {place.name}.") from error
        except OSError as error:
            raise Refused(f"{place.name} cannot be read: {error.strerror or error}.") from error
        return data, max(found.st_size, len(data))


class WorkTool(GuardedTool):
    """A tool in a workspace. What it refuses is a failed result, in its words."""

    def __init__(self, workspace: Workspace, approvals: Approvals) -> None:
        super().__init__(approvals)
        self.workspace = workspace

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        try:
            return await self.work(call, arguments)
        except Refused as refused:
            return ToolResult(str(refused), failed=True)

    @abstractmethod
    async def work(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        """Do it. Raises `Refused`."""


def schema(required: Sequence[str], **properties: Json) -> Json:
    """The JSON Schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def size(count: int) -> str:
    """A number of bytes, for people."""
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.0f} KiB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MiB"


def text_in(data: bytes) -> str | None:
    """The text that a file's bytes are (UTF-8, or UTF-16 that says so); None for anything else."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in data:
        return None
    else:
        encoding = "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None
