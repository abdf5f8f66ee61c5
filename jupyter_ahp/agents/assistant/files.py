"""A1: what stands in the files that a person attached by their path, so that no model has to read them by a tool first.

Only what lies in the chat's directories is read, symbolic links resolved first. What is not shown is named with the
reason, so that the model does not make it up; a path is told as it is below the chat's directory.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Final, TypeAlias, TypeVar

from jupyter_ahp.agents.assistant.notebooks import text_of_notebook
from jupyter_ahp.agents.assistant.sizes import cut, estimated_tokens
from jupyter_ahp.agents.base import Block, ImageBlock, PathBlock, TextBlock
from jupyter_ahp.host.attachments import IMAGE_LIMIT, TEXT_LIMIT, image_type, text_of

TEXT_TOKENS: Final = 80_000
"""How much text of files one request carries: about four of the largest."""
IMAGE_BYTES: Final = 16 * 1024 * 1024
FILES: Final = 100
"""How many files are looked at for one request."""
ENTRIES: Final = 200
"""How many names of a directory are shown."""
NOTEBOOK_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of a notebook that is read: most of a large one are the pictures in it, which are left out."""
READ_SECONDS: Final = 10.0
WORTH_SHOWING: Final = 50
"""Tokens; less of a file says nothing."""

NOT_SEEN: Final = "You have not seen what is in it: do not guess it, say that you have not."

OUTSIDE: Final = (
    "it is not in the directories of this chat, where files are read, and did not come as a text or an image of a size "
    "that you can be shown"
)

_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Note:
    """What the model is told of an attachment that it is not shown."""

    text: str


Shown: TypeAlias = TextBlock | ImageBlock | Note
Read = TypeVar("Read")


class Files:
    """The files of one request, read while its budget lasts: ask for the newest message first.

    Parameters
    ----------
    directories:
        Those of the chat, absolute. Nothing outside of them is read.
    tokens:
        For the text of all of them together; what is longer is cut, with a mark.
    unreadable:
        Why nothing is read at all, if so.
    """

    def __init__(
        self, directories: Sequence[str] = (), *, tokens: int = TEXT_TOKENS, unreadable: str = ""
    ) -> None:
        self._directories = [os.path.abspath(directory) for directory in directories]
        self._tokens = tokens
        self._image_bytes = IMAGE_BYTES
        self._left = FILES
        self._unreadable = unreadable
        self._known: dict[str, Note] = {}
        """What to say of a file that is attached again, by its real path."""

    def shown(self, blocks: Sequence[Block], *, earlier: bool = False) -> list[Shown]:
        """A message's attachments with their files read. Not to be called on the event loop.

        `earlier`: they came with an earlier turn, and what is in them now may not be what was in them then.
        """
        shown: list[Shown] = []
        for block in blocks:
            if not isinstance(block, PathBlock):
                shown.append(block)
                continue
            found = self._path(block)
            if earlier and not isinstance(found, Note):
                found = replace(found, label=f"{found.label}, as it is now")
            shown.append(found)
        return shown

    def _path(self, block: PathBlock) -> Shown:
        if not os.path.isabs(block.path):
            return _elsewhere(block)
        name, why = self._name(block), self._unreadable
        if why:
            return _not_shown(name, why)
        try:
            real = os.path.realpath(block.path)
            inside = any(_is_in(real, os.path.realpath(directory)) for directory in self._directories)
        except (OSError, ValueError):  # ValueError: a path that no system has, such as one with a NUL
            return _not_shown(name, "there is no such file")
        if not inside:
            return _not_shown(name, OUTSIDE)
        if real in self._known:
            return self._known[real]
        if self._left == 0:
            return _not_shown(name, "more files are attached to this chat than are read for one answer")
        self._left -= 1
        try:
            shown = self._look(name, real)
        except FileNotFoundError:
            shown = _not_shown(name, "there is no such file any more")
        except OSError as error:
            shown = _not_shown(name, f"it cannot be read ({error.strerror or 'it is not to be had'})")
        again = Note(f"Attached, and shown elsewhere in this chat: {name}.")
        self._known[real] = shown if isinstance(shown, Note) else again
        return shown

    def _name(self, block: PathBlock) -> str:
        """The path as it is below a directory of the chat; else its name, without where it is."""
        path = os.path.normpath(block.path)
        for directory in self._directories:
            if _is_in(path, directory):
                return _line(PurePath(path).relative_to(directory).as_posix())
        return _line(PurePath(block.label).name or block.label)

    def _look(self, name: str, real: str) -> Shown:
        if os.path.isdir(real):
            return self._text(f"the names of what is in the directory {name}", _entries(real))
        descriptor = os.open(real, _OPEN)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return _not_shown(name, "it is no ordinary file")
            is_notebook = name.lower().endswith(".ipynb")
            data = file.read((NOTEBOOK_LIMIT if is_notebook else IMAGE_LIMIT) + 1)
        size = max(found.st_size, len(data))
        media_type = image_type(data)
        if media_type is not None:
            return self._image(name, media_type, data, size)
        if is_notebook and (text := text_of_notebook(data)) is not None:
            return self._notebook(name, text)
        if (text := text_of(data)) is not None:
            return self._text(name, text)
        if len(data) > TEXT_LIMIT and _begins_as_text(data):
            return _not_shown(
                name, f"it is too large: {_size(size)}, and {_size(TEXT_LIMIT)} of text is the most"
            )
        return _not_shown(name, f"it is neither text nor an image that you can be shown ({_size(size)})")

    def _image(self, name: str, media_type: str, data: bytes, size: int) -> Shown:
        if size > IMAGE_LIMIT:
            return _not_shown(
                name, f"it is too large an image: {_size(size)}, and {_size(IMAGE_LIMIT)} is the most"
            )
        if size > self._image_bytes:
            return _not_shown(name, "more is attached to this chat than you can be shown at once")
        self._image_bytes -= size
        return ImageBlock(name, media_type, data)

    def _notebook(self, name: str, text: str) -> Shown:
        size = len(text.encode())
        if size > TEXT_LIMIT:
            why = f"it is too large: {_size(size)} without its pictures, and {_size(TEXT_LIMIT)} is the most"
            return _not_shown(name, why)
        return self._text(f"the notebook {name}, without its pictures", text)

    def _text(self, name: str, text: str) -> Shown:
        """The text, or as much of it as there is room for."""
        needed = estimated_tokens(text)
        if needed <= self._tokens:
            self._tokens -= needed
            return TextBlock(name, text)
        if self._tokens < WORTH_SHOWING:
            return _not_shown(name, "more is attached to this chat than you can be shown at once")
        short, self._tokens = cut(text, self._tokens), 0
        return TextBlock(
            f"{name}, of which you see the beginning and the end: […] is what was cut out", short
        )


async def in_time(read: Callable[[Files], Read], files: Files) -> Read:
    """What `read` makes of the files, in a thread; without what is in them if their disk does not answer."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await asyncio.to_thread(read, files)
    except TimeoutError:
        return await asyncio.to_thread(read, Files(unreadable="its disk did not answer in time"))


def _not_shown(name: str, why: str) -> Note:
    return Note(f"Attached, but not shown to you: {name}, because {why}. {NOT_SEEN}")


def _elsewhere(block: PathBlock) -> Note:
    """What has no path here. An address is told, unless it is of some machine's files."""
    if "://" not in block.path:
        why = "it is neither a text nor an image of a size that you can be shown"
        return _not_shown(_line(block.label), why)
    is_told = block.label != block.path and not block.path.startswith("file:")
    name = f"{block.label}, at {block.path}" if is_told else block.label
    return _not_shown(_line(name), "it is not on this machine")


def _line(text: str) -> str:
    return " ".join(text.split())


def _is_in(path: str, directory: str) -> bool:
    return Path(path).is_relative_to(directory)


def _entries(directory: str) -> str:
    """The names in a directory, sorted, a line each; directories end in a slash."""
    with os.scandir(directory) as found:
        entries = list(islice(found, ENTRIES * 50))
    names = sorted(
        _line(entry.name) + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries
    )
    more = ["… and more"] if len(names) > ENTRIES else []
    return "\n".join([*names[:ENTRIES], *more]) or "(It is empty.)"


def _begins_as_text(data: bytes) -> bool:
    head = data[:TEXT_LIMIT]
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut in two
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.0f} KiB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MiB"
