"""Writing a file and editing one. Files are replaced whole, so that a full disk costs the new text and not the old.

What a call is about to change is looked up before a person is asked: they see it (AHP 4.3, `FileEdit`), and are not asked
for what cannot be done.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import difflib
import os
import stat
import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jupyter_ahp.agents.assistant.tools.workspace import PATH, Place, Refused, WorkTool, schema, size, text_in
from jupyter_ahp.agents.base import Json, ToolCall, ToolResult

EDITABLE: Final = 4 * 1024 * 1024
"""Bytes of a file that is edited, or looked at before it is overwritten."""
SHOWN: Final = 20_000
"""Characters of each side of a change that people are shown: they go into the chat's journal."""
_BOM: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Change:
    """What a call makes of a file."""

    place: Place
    before: str | None
    """None: there is no file yet."""
    after: str
    encoding: str = "utf-8"

    @property
    def edit(self) -> Json:
        """AHP `FileEdit`. The text of both sides goes along, since the file does not stay as it is: all of it where that is
        short, else the places that change."""
        before, after = (self.before or "").splitlines(), self.after.splitlines()
        changes = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        added = sum(line.startswith("+") for line in changes)
        removed = sum(line.startswith("-") for line in changes)
        old, new = self.before or "", self.after
        if max(len(old), len(new)) > SHOWN:
            around = [
                line for line in difflib.unified_diff(before, after, lineterm="") if not line.startswith("@@")
            ][2:]
            old = "\n".join(line[1:] for line in around if line[:1] in "- ")
            new = "\n".join(line[1:] for line in around if line[:1] in "+ ")
        edit: Json = {"after": self._side(new), "diff": {"added": added, "removed": removed}}
        return edit if self.before is None else {"before": self._side(old), **edit}

    def _side(self, text: str) -> Json:
        if len(text) > SHOWN:
            text = f"{text[:SHOWN]}\n[… {len(text) - SHOWN:,} characters more]"
        data = base64.b64encode(text.encode("utf-8", "replace")).decode()
        uri = f"data:text/plain;charset=utf-8;base64,{data}"
        return {"uri": Path(self.place.path).as_uri(), "content": {"uri": uri}}


class Changing(WorkTool):
    """A tool that changes one file."""

    effects = "write"

    @abstractmethod
    def change(self, arguments: Mapping[str, Any]) -> Change:
        """What it would do. Blocks. Raises `Refused`."""

    async def preview(self, arguments: Mapping[str, Any]) -> ToolResult | Sequence[Json]:
        try:
            return [(await asyncio.to_thread(self.change, arguments)).edit]
        except Refused as refused:
            return ToolResult(f"Not done: {refused}", failed=True)

    async def work(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        async with self.workspace.writing:
            change, edit, written = await asyncio.to_thread(self._write, arguments)
        name = change.place.name
        content = [{"type": "fileEdit", **edit}]
        counts = f"+{edit['diff']['added']} −{edit['diff']['removed']}"
        if change.before is None:
            return ToolResult(
                f"{name} is written, {size(written)}.",
                message=f"Wrote {name}, {size(written)}",
                content=content,
            )
        return ToolResult(f"{name} is changed ({counts}).", message=f"Edited {name}", content=content)

    def _write(self, arguments: Mapping[str, Any]) -> tuple[Change, Json, int]:
        change = self.change(arguments)
        edit = change.edit
        data = change.after.encode(change.encoding)
        _replace(change.place, data)
        return change, edit, len(data)

    def old(self, place: Place) -> tuple[str, str]:
        """The text of a file, and how it is encoded. Raises `Refused`."""
        data, whole = self.workspace.read(place, EDITABLE)
        if whole > len(data):
            raise Refused(f"{place.name} is too large to be changed here: {size(whole)}.")
        if (text := text_in(data)) is None:
            raise Refused(f"{place.name} is no text, so it is not changed.")
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return text, "utf-16"
        return text, "utf-8-sig" if data.startswith(_BOM.encode()) else "utf-8"


class WriteFile(Changing):
    name = "write_file"
    title = "Write a file"
    description = (
        "Write a whole text file; directories that are missing are made, a file that is there is replaced. To change a "
        "part of a file use edit_file. A notebook (.ipynb) has to be a whole one in nbformat 4."
    )
    parameters = schema(["path", "content"], path=PATH, content={"type": "string"})

    def doing(self, arguments: Mapping[str, Any]) -> str:
        return f"Write {arguments['path']}"

    def change(self, arguments: Mapping[str, Any]) -> Change:
        place, content = self.workspace.place(arguments["path"]), arguments["content"]
        if os.path.isdir(place.path):
            raise Refused(f"{place.name} is a directory.")
        if place.path.lower().endswith(".ipynb"):
            _check_notebook(place, content)
        if not os.path.lexists(place.path):
            return Change(place, None, content)
        before, encoding = self.old(place)
        if "\r\n" in before and "\n" not in before.replace("\r\n", "") and "\r" not in content:
            content = content.replace("\n", "\r\n")
        return Change(place, before, content, encoding)


class EditFile(Changing):
    name = "edit_file"
    title = "Edit a file"
    description = (
        "Replace a piece of a text file. `old` has to stand there exactly so, once: take enough lines around it. "
        "`all` replaces each time that it stands there. Line endings stay as they are. Not for notebooks."
    )
    parameters = schema(
        ["path", "old", "new"],
        path=PATH,
        old={"type": "string", "minLength": 1, "description": "What stands there, without line numbers."},
        new={"type": "string", "description": "What is to stand there instead."},
        all={"type": "boolean"},
    )

    def doing(self, arguments: Mapping[str, Any]) -> str:
        return f"Edit {arguments['path']}"

    def change(self, arguments: Mapping[str, Any]) -> Change:
        place = self.workspace.place(arguments["path"])
        if place.path.lower().endswith(".ipynb"):
            raise Refused(
                f"{place.name} is a notebook, whose text on disk is JSON: it is not edited as text. Use a tool for its "
                "cells if you have one, or tell the person what to change."
            )
        before, encoding = self.old(place)
        old, new = arguments["old"], arguments["new"]
        if old not in before and "\r\n" in before:
            old = _with_crlf(old)
        if "\r\n" in before and "\n" not in before.replace("\r\n", ""):
            new = _with_crlf(new)
        found = before.count(old)
        if old == new:
            raise Refused("`old` and `new` are the same.")
        if not found:
            raise Refused(
                f"`old` does not stand in {place.name}. Read it again: it has to be exactly the same."
            )
        if found > 1 and not arguments.get("all"):
            raise Refused(
                f"`old` stands in {place.name} {found} times. Take more lines around it, or say all=true."
            )
        return Change(place, before, before.replace(old, new), encoding)


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _check_notebook(place: Place, content: str) -> None:
    """Raises `Refused` for what Jupyter could not open."""
    import nbformat

    try:
        notebook = nbformat.reads(content, as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
        if notebook.get("nbformat") != 4:
            raise Refused(f"{place.name} is not written: a notebook has to be in nbformat 4.")
        nbformat.validate(notebook)
    except Refused:
        raise
    except Exception as error:  # of JSON, of nbformat and of its validators, which share no ancestor
        words = (str(error) or type(error).__name__).splitlines()[0]
        raise Refused(f"{place.name} is not written, since this is no notebook: {words}") from error


def _replace(place: Place, data: bytes) -> None:
    directory = os.path.dirname(place.path)
    fresh = os.path.join(directory, f".{uuid.uuid4().hex}.tmp")
    try:
        os.makedirs(directory, exist_ok=True)
        with open(fresh, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(fresh, stat.S_IMODE(os.stat(place.path).st_mode))
        os.replace(fresh, place.path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise Refused(f"{place.name} could not be written: {error.strerror or error}.") from error
