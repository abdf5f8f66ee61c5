"""What a terminal prints, as text: the marks that a shell puts in it, and what is left of it to read.

AHP 5.1: OSC 133 (and 633, VS Code's) say where a prompt, a command and its output begin; OSC 7 says the directory. They
are taken out of the output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

_MARK = re.compile(r"\x1b\](133|633|7|0|2);([^\x07\x1b]*)(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b(?:\][^\x07\x1b]*\x1b?)?\Z")
_LONGEST = 4096  # characters of a mark

_ALTERNATE = re.compile(r"\x1b\[\?(?:1049|1047|47)h.*?(?:\x1b\[\?(?:1049|1047|47)l|\Z)", re.DOTALL)
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)"  # CSI
    r"|[\]PX^_].*?(?:\x07|\x1b\\|\Z)"  # OSC, DCS and their like
    r"|[ -/]+[0-~]|[0-~]|\Z)",
    re.DOTALL,
)
_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]")
_ERASED = re.compile(r"[^\x08\n]\x08")


# ── Marks ────────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Printed:
    text: str


@dataclass(frozen=True, slots=True)
class Executed:
    """A command begins."""

    line: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The command that runs has ended."""

    exit_code: int | None


@dataclass(frozen=True, slots=True)
class Directory:
    path: str


@dataclass(frozen=True, slots=True)
class Title:
    text: str


Item: TypeAlias = Printed | Executed | Finished | Directory | Title


class Marks:
    """Takes output apart, piece by piece as it comes."""

    def __init__(self) -> None:
        self._rest = ""
        self._typed: list[str] | None = None
        """What is shown between the prompt and the output: the command, as it was typed."""
        self._line = ""

    def take(self, text: str, *, last: bool = False) -> Iterator[Item]:
        """What is in it, in order. The beginning of a mark is kept for the next piece, unless it is the `last` one."""
        text, self._rest = self._rest + text, ""
        begun = None if last else _BEGUN.search(text)
        if begun is not None and len(begun[0]) < _LONGEST:
            text, self._rest = text[: begun.start()], begun[0]
        at = 0
        for mark in _MARK.finditer(text):
            if mark[1] in ("0", "2"):  # a title: who shows the output takes it from there, too
                yield from self._printed(text[at : mark.end()])
                yield Title(mark[2])
            else:
                yield from self._printed(text[at : mark.start()])
                yield from self._marked(mark[1], mark[2])
            at = mark.end()
        yield from self._printed(text[at:])

    def _printed(self, text: str) -> Iterator[Item]:
        if text:
            if self._typed is not None:
                self._typed.append(text)
            yield Printed(text)

    def _marked(self, kind: str, content: str) -> Iterator[Item]:
        if kind == "7":
            yield Directory(unquote(urlsplit(content).path))
            return
        letter, _, more = content.partition(";")
        match letter:
            case "B":
                self._typed = []
            case "E" if kind == "633":
                self._line = _unescaped(more.partition(";")[0])
            case "C":
                typed = plain("".join(self._typed or ())).strip()
                line, self._typed, self._line = self._line or typed, None, ""
                yield Executed(line)
            case "D":
                code = more.partition(";")[0]
                yield Finished(int(code) if code.isdecimal() else None)
            case "P" if kind == "633" and more.startswith("Cwd="):
                yield Directory(_unescaped(more.removeprefix("Cwd=")))


def _unescaped(text: str) -> str:
    return re.sub(
        r"\\x([0-9a-fA-F]{2})|\\\\", lambda found: chr(int(found[1], 16)) if found[1] else "\\", text
    )


# ── Plain text ───────────────────────────────────────────────────────────────────────────────────────────────────
def plain(output: str) -> str:
    """Output as text to read: no colours, a line that was written over as it was last, no full-screen program."""
    text = _ESCAPES.sub("", _ALTERNATE.sub("", output))
    text = _CONTROLS.sub("", re.sub(r"\r+\n", "\n", text))
    while "\x08" in text:
        text, changed = _ERASED.subn("", text)
        if not changed:
            text = text.replace("\x08", "")
    return "\n".join(_last_written(line) for line in text.split("\n"))


def _last_written(line: str) -> str:
    """Of a line that goes back to its beginning: what is seen in the end."""
    seen = ""
    for part in line.split("\r"):
        seen = part + seen[len(part) :]
    return seen
