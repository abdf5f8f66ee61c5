"""pi's own files: which conversations there are, and one read back as turns (U5, U9).

A session is a JSON document a line: a header, then entries that name the one before them; a branch is the way from the
last entry back to the first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jupyter_ahp.agents.base import RESUME_POINT, Found, Json

from .tools import content_of, title_of

log = logging.getLogger(__name__)

_LISTED = 200  # of the newest, for one directory
_TITLE = 80  # characters
_HEAD = 256 * 1024  # bytes in which the first message of a person is looked for


def found(root: Path, directories: Sequence[str]) -> list[Found]:
    """The sessions that were begun in these directories, the newest first."""
    rows: list[Found] = []
    for directory in directories:
        folder = (
            root / f"--{directory.strip('/').replace('/', '-').replace(chr(92), '-').replace(':', '-')}--"
        )
        files = sorted(folder.glob("*.jsonl"), key=lambda file: file.name, reverse=True)[:_LISTED]
        rows += [row for file in files if (row := _row(file, directory)) is not None]
    return rows


def _row(file: Path, directory: str) -> Found | None:
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD)
        modified = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except OSError as error:
        log.warning("A session of pi is left out of the list: %s", error)
        return None
    entries = list(_entries(head))
    if not entries or entries[0].get("type") != "session" or entries[0].get("cwd") != directory:
        return None
    said = (_text(entry["message"]) for entry in entries if _role(entry) == "user")
    title = " ".join(next(said, "").split())
    created = str(entries[0].get("timestamp") or modified.isoformat())
    return Found(str(file), title[:_TITLE], created, modified.isoformat().replace("+00:00", "Z"), directory)


def delete(root: Path, memory: str) -> None:
    """Raises `OSError`, and ValueError for a file that is none of pi's sessions."""
    file = Path(memory).resolve()
    if root.resolve() not in file.parents or file.suffix != ".jsonl":
        raise ValueError(f"{memory} is not among pi's sessions in {root}, so it is left alone.")
    file.unlink(missing_ok=True)


def transcript(memory: str) -> list[Json]:
    """The turns of a session, oldest first. Raises `OSError`."""
    turns: list[Json] = []
    for entry in _branch(list(_entries(Path(memory).read_bytes()))):
        role = _role(entry)
        message = entry.get("message") or {}
        if role == "user":
            turns.append(
                {
                    "id": f"pi-{entry['id']}",
                    "message": {"text": _text(message), "origin": {"kind": "user"}},
                    "responseParts": [],
                    "state": "complete",
                    "startedAt": entry.get("timestamp"),
                }
            )
        elif turns and role == "assistant":
            _answer(turns[-1], message)
        elif turns and role == "toolResult":
            _result(turns[-1], message)
        if turns:
            turns[-1][RESUME_POINT] = entry["id"]
    for turn in turns:
        for part in turn["responseParts"]:
            call = part.get("toolCall") or {}
            if call.get("status") == "running":
                for key in ("confirmed", "content"):
                    call.pop(key, None)
                call |= {"status": "cancelled", "reason": "skipped"}
    return turns


def _answer(turn: Json, message: Json) -> None:
    for part in message.get("content") or ():
        number = len(turn["responseParts"]) + 1
        match part.get("type"):
            case "text":
                turn["responseParts"].append(
                    {"kind": "markdown", "id": f"p{number}", "content": part["text"]}
                )
            case "thinking":
                turn["responseParts"].append(
                    {"kind": "reasoning", "id": f"p{number}", "content": part["thinking"]}
                )
            case "toolCall":
                title = title_of(part["name"])
                call = {
                    "toolCallId": part["id"],
                    "toolName": part["name"],
                    "displayName": title,
                    "status": "running",
                    "invocationMessage": title,
                    "confirmed": "not-needed",
                    "toolInput": json.dumps(part.get("arguments") or {}, ensure_ascii=False),
                }
                turn["responseParts"].append({"kind": "toolCall", "toolCall": call})
    reason = message.get("stopReason")
    if reason == "aborted":
        turn["state"] = "cancelled"
    elif reason == "error":
        turn["state"] = "error"
        words = str(message.get("errorMessage") or "The model's API failed.")
        error = {"errorType": "api_error", "message": words}
        turn["responseParts"].append({"kind": "error", "error": error})
    else:
        turn["state"] = "complete"


def _result(turn: Json, message: Json) -> None:
    for part in turn["responseParts"]:
        call: Json = part.get("toolCall") or {}
        if call.get("toolCallId") == message.get("toolCallId") and call.get("status") == "running":
            failed = bool(message.get("isError"))
            call |= {"status": "completed", "success": not failed, "content": content_of(message)}
            call["pastTenseMessage"] = f"{call['displayName']}: {'failed' if failed else 'done'}"
            if failed:
                call["error"] = {"message": _text(message)}


def _branch(entries: list[Json]) -> list[Json]:
    """The way to the last entry, from the first."""
    by_id = {
        entry["id"]: entry for entry in entries if isinstance(entry.get("id"), str) and "parentId" in entry
    }
    way: list[Json] = []
    at: Any = next((entry for entry in reversed(entries) if entry.get("id") in by_id), None)
    while at is not None and len(way) <= len(by_id):
        way.append(at)
        at = by_id.get(at.get("parentId"))
    return way[::-1]


def _entries(data: bytes) -> Iterator[Json]:
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:  # cut off, or torn by a crash: it costs this line
            continue
        if isinstance(entry, dict):
            yield entry


def _role(entry: Json) -> str | None:
    return (entry.get("message") or {}).get("role") if entry.get("type") == "message" else None


def _text(message: Json) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n\n".join(str(part.get("text") or "") for part in content or () if part.get("type") == "text")
