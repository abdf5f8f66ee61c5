"""The CLI's own files of conversations: where they are, what is in one, which there are. U5, X3.

`<home>/projects/<directory>/<id>.jsonl`, one entry a line, with what belongs to it in `<id>/`. Nothing of this starts the
CLI. All of it reads files: not to be called on the event loop.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import unicodedata
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from jupyter_ahp.agents.base import Found, Json

_HEAD: Final = 1024 * 1024  # bytes, in which a conversation says how it began
_TAIL: Final = 64 * 1024  # bytes, in which it says what it is called
_LONGEST_NAME: Final = 200
_ROWS: Final = 200  # of a directory, the newest


def find(home: Path, memory: str) -> Path | None:
    """The file of a conversation; None if there is none, or the name is none for one."""
    if not _is_uuid(memory):
        return None
    return next(iter(home.joinpath("projects").glob(f"*/{memory}.jsonl")), None)


def holds(home: Path, memory: str, entry: str) -> bool:
    """Whether the conversation has an entry of that uuid."""
    path = find(home, memory)
    if path is None:
        return False
    wanted = f'"uuid":"{entry}"'.encode()
    with open(path, "rb") as file:
        return any(wanted in line for line in file)


def cost(home: Path, memory: str) -> float:
    """What the CLI wrote down last of the conversation's whole cost, in dollars: from there it counts on."""
    path = find(home, memory)
    if path is None:
        return 0.0
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        rows = [entry for entry in _read(file.read().splitlines()) if entry.get("type") == "cost-state"]
    total = rows[-1].get("totalCostUSD") if rows else None
    return float(total) if isinstance(total, int | float) else 0.0


def delete(home: Path, memory: str) -> None:
    """Forget a conversation. Raises `OSError`."""
    path = find(home, memory)
    if path is None:
        return
    path.unlink(missing_ok=True)
    beside = path.with_suffix("")
    if beside.is_dir():
        shutil.rmtree(beside)


def entries(path: Path) -> Iterator[Json]:
    """What is in it, oldest first; a line that cannot be read is left out. Raises `OSError`."""
    with open(path, "rb") as file:
        yield from _read(file.read().splitlines())


def catalogue(home: Path, directories: tuple[str, ...]) -> list[Found]:
    """The conversations in these directories, the newest first."""
    found: list[Found] = []
    for directory in directories:
        paths = [path for folder in _folders(home, directory) for path in folder.glob("*.jsonl")]
        newest = sorted(((_modified(path), path) for path in paths if _is_uuid(path.stem)), reverse=True)[
            :_ROWS
        ]
        found += [row for modified, path in newest if (row := _row(path, modified, directory)) is not None]
    return sorted(found, key=lambda row: row.modified_at, reverse=True)


def _folders(home: Path, directory: str) -> list[Path]:
    """Where the CLI keeps what was said in a directory: everything but letters and digits is a dash in the folder's name;
    a long name is cut, and ends in a number of its own."""
    path = unicodedata.normalize("NFC", os.path.realpath(directory))
    name = re.sub(r"[^a-zA-Z0-9]", "-", path)
    projects = home / "projects"
    return [projects / name] if len(name) <= _LONGEST_NAME else [*projects.glob(f"{name[:_LONGEST_NAME]}-*")]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0


def _row(path: Path, modified: float, directory: str) -> Found | None:
    try:
        with open(path, "rb") as file:
            began, first = _beginning(file)
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            title = _title(list(_read(file.read().splitlines()))) or first
    except OSError:
        return None
    if began is None or not title:
        return None  # nothing was said in it
    changed = datetime.fromtimestamp(modified, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Found(path.stem, title, began, changed, directory)


def _beginning(file: BinaryIO) -> tuple[str | None, str]:
    """When it began, and the first words that a person said in it."""
    began: str | None = None
    while file.tell() < _HEAD and (line := file.readline()):
        for entry in _read([line]):
            if began is None and isinstance(entry.get("timestamp"), str):
                began = entry["timestamp"]
            text = said(entry)
            if text is not None and not text.startswith("<"):
                words = " ".join(text.split())
                return began, words if len(words) <= 80 else f"{words[:79]}…"
    return began, ""


def _title(tail: list[Json]) -> str:
    """What a person, or the CLI, has called it."""
    for kind, key in (("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary")):
        named = [
            entry[key] for entry in tail if entry.get("type") == kind and isinstance(entry.get(key), str)
        ]
        if named:
            return str(named[-1])
    return ""


def said(entry: Json) -> str | None:
    """What a person said with this entry: the last text of a prompt. None for anything else."""
    if (
        entry.get("type") != "user"
        or entry.get("isMeta")
        or entry.get("isSidechain")
        or entry.get("isCompactSummary")
    ):
        return None
    content = (entry.get("message") or {}).get("content")
    if isinstance(content, str):
        return content
    blocks = [block for block in content or () if isinstance(block, dict)]
    if any(block.get("type") == "tool_result" for block in blocks):
        return None
    texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
    return texts[-1] if texts else None


def _read(lines: list[bytes]) -> Iterator[Json]:
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # cut off by a crash, or by where we began to read
            continue
        if isinstance(entry, dict):
            yield entry


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
