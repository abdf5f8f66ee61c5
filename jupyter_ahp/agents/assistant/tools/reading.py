"""Reading a file, and listing a directory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from jupyter_ahp.agents.assistant.notebooks import text_of_notebook
from jupyter_ahp.agents.assistant.tools.workspace import (
    PATH,
    Place,
    Refused,
    Workspace,
    WorkTool,
    schema,
    size,
    text_in,
)
from jupyter_ahp.agents.base import ImageBlock, ToolCall, ToolResult
from jupyter_ahp.host.attachments import IMAGE_LIMIT, image_type

LINES: Final = 2000
"""Lines of one read, unless the model asks for fewer."""
LINE: Final = 2000
"""Characters of a line that are told."""
CHARACTERS: Final = 60_000
"""Of one read."""
READABLE: Final = 32 * 1024 * 1024
"""Bytes of a file in which lines are looked for."""
ENTRIES: Final = 1000
"""Names of a directory that are told."""


class ReadFile(WorkTool):
    name = "read_file"
    title = "Read a file"
    description = (
        "Read a text file, a notebook (its cells and what they printed) or an image (png, jpeg, gif, webp). Lines come "
        f"with their numbers, which are not part of the file. At most {LINES} at once: ask again with `offset` for more."
    )
    parameters = schema(
        ["path"],
        path=PATH,
        offset={"type": "integer", "minimum": 1, "description": "The first line to read; 1 is the first."},
        limit={"type": "integer", "minimum": 1, "maximum": LINES, "description": "How many lines."},
    )
    effects = "read"

    def doing(self, arguments: Mapping[str, Any]) -> str:
        return f"Read {arguments['path']}"

    async def work(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        first, most = arguments.get("offset", 1), arguments.get("limit", LINES)
        return await asyncio.to_thread(_read, self.workspace, arguments["path"], first, most)


def _read(workspace: Workspace, path: str, first: int, most: int) -> ToolResult:
    place = workspace.place(path)
    data, whole = workspace.read(place, READABLE)
    if (kind := image_type(data)) is not None:
        if whole > IMAGE_LIMIT:
            raise Refused(f"{place.name} is an image of {size(whole)}; {size(IMAGE_LIMIT)} is the most.")
        image = ImageBlock(place.name, kind, data)
        return ToolResult(f"The image {place.name}:", message=f"Read {place.name}", images=[image])
    text = text_of_notebook(data) if place.name.lower().endswith(".ipynb") else None
    if text is None:
        text = text_in(data)
    if text is None:
        why = "and too large to be read" if whole > READABLE else "it is neither text nor an image"
        raise Refused(f"{place.name} cannot be read as text: {size(whole)}, {why}.")
    lines = text.splitlines()
    if not lines:
        return ToolResult(f"{place.name} is empty.", message=f"Read {place.name}, which is empty")
    if first > len(lines):
        raise Refused(f"{place.name} has {len(lines)} lines, and none with the number {first}.")
    shown = _numbered(lines[first - 1 : first - 1 + most], first)
    last = first + len(shown) - 1
    told = "\n".join(shown)
    if last < len(lines) or whole > len(data):
        told += f"\n[Lines {first} to {last} of {len(lines)}. Go on with offset={last + 1}.]"
    read = f"Read {place.name}, lines {first} to {last}" if len(shown) < len(lines) else f"Read {place.name}"
    return ToolResult(told, message=f"{read}, {size(whole)}")


def _numbered(lines: list[str], first: int) -> list[str]:
    """As many as there is room for, at least one."""
    shown: list[str] = []
    room = CHARACTERS
    for number, line in enumerate(lines, first):
        if len(line) > LINE:
            line = f"{line[:LINE]} [… {len(line) - LINE:,} characters more]"
        room -= len(line) + 8
        if room < 0 and shown:
            break
        shown.append(f"{number:6}\t{line}")
    return shown


class ListDirectory(WorkTool):
    name = "list_directory"
    title = "List a directory"
    description = (
        "The names in a directory, sorted, with the sizes of files; directories end in a slash. For what is deeper, "
        "search_files with a glob."
    )
    parameters = schema([], path={**PATH, "description": f"{PATH['description']} Default: the first."})
    effects = "read"

    def doing(self, arguments: Mapping[str, Any]) -> str:
        return f"List {arguments.get('path', '.')}"

    async def work(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        return await asyncio.to_thread(_list, self.workspace, arguments.get("path", "."))


def _list(workspace: Workspace, path: str) -> ToolResult:
    place = workspace.place(path)
    try:
        with os.scandir(place.path) as found:
            entries = sorted(islice(found, ENTRIES * 50), key=lambda entry: entry.name)
    except FileNotFoundError as error:
        raise Refused(f"There is no directory {place.name}.") from error
    except NotADirectoryError as error:
        raise Refused(f"{place.name} is a file, and no directory.") from error
    except OSError as error:
        raise Refused(f"{place.name} cannot be listed: {error.strerror or error}.") from error
    lines = [_entry(entry) for entry in entries[:ENTRIES]]
    if len(entries) > ENTRIES:
        lines.append(f"[… and more: {ENTRIES} names are shown. Search with a glob instead.]")
    return ToolResult(
        "\n".join(lines) or "It is empty.", message=f"Listed {_named(place)}, {len(entries)} names"
    )


def _entry(entry: os.DirEntry[str]) -> str:
    name = " ".join(entry.name.split("\n"))
    try:
        if entry.is_dir():
            return f"{name}/"
        return f"{name}\t{size(entry.stat().st_size)}"
    except OSError:  # gone meanwhile, or a link that leads nowhere
        return name


def _named(place: Place) -> str:
    return os.path.basename(place.path) if place.name == "." else place.name
