"""How a call of one of Claude's own tools is shown: in words, and what came of it (AHP 4.3, 4.5)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from jupyter_ahp.agents.base import Json

OURS: Final = "jupyter"
"""The MCP server of the host's tools."""
SPAWNS: Final = frozenset({"Agent", "Task"})
"""The tool that runs a subagent; its name changed between versions."""
EDITS: Final = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})

_LONGEST: Final = 32 * 1024  # characters of a result that everybody is sent


@dataclass(frozen=True, slots=True)
class Shown:
    """A call in words for people."""

    title: str
    doing: str
    """What it does, while it runs."""
    did: str
    failed: str
    meta: Json | None = None
    intention: str | None = None


def title_of(name: str) -> str:
    """What a tool is called, before its input is known."""
    server, tool = _mcp(name)
    if server is not None:
        return f"{_spaced(tool)} ({server})"
    return _TITLES.get(name, _spaced(name))


def kind_of(name: str) -> Json | None:
    """`_meta` for faces that draw some kinds of tools in their own way."""
    kind = _KINDS.get(name)
    return {"toolKind": kind} if kind is not None else None


def shown(name: str, given: Mapping[str, Any]) -> Shown:
    """A call with its whole input."""
    title, what = title_of(name), _object(name, given)
    intention = given.get("description") if name in ("Bash", "PowerShell") else None
    doing, did, failed = _VERBS.get(name, ("Using", "Used", "Could not use"))
    if name not in _VERBS:
        what = f"{title}" + (f", {what}" if what else "")
    return Shown(
        title,
        f"{doing} {what}".strip(),
        f"{did} {what}".strip(),
        f"{failed} {what}".strip(),
        kind_of(name),
        intention if isinstance(intention, str) else None,
    )


def input_of(name: str, given: Mapping[str, Any]) -> str:
    """The input as people see it, and may edit."""
    if name in ("Bash", "PowerShell") and isinstance(given.get("command"), str):
        kept = ("command", "run_in_background")
        given = {key: value for key, value in given.items() if key in kept and value is not False}
    return json.dumps(given, ensure_ascii=False, indent=2)


def edited(name: str, given: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The input that a person made of it. Raises ValueError if it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        if name in ("Bash", "PowerShell"):
            return {**given, "command": text}
        raise
    if not isinstance(value, dict):
        raise ValueError("The input of a tool is a JSON object.")
    return {**given, **value} if name in ("Bash", "PowerShell") else value


def result(name: str, given: Mapping[str, Any], content: Any, structured: Any) -> list[Json]:
    """What came of it, for people: an edit with its lines, pictures, else the text that the model was told."""
    if name in EDITS and isinstance(structured, dict):
        return _edited(given, structured)
    if isinstance(structured, dict) and "stdout" in structured:
        output = "\n".join(text for text in (structured.get("stdout"), structured.get("stderr")) if text)
        return _texts(output)
    return _blocks(content)


def edits(name: str, given: Mapping[str, Any]) -> list[Json]:
    """What a call that asks is about to do to files (AHP 4.3, `FileEdit`)."""
    path = _path(given)
    if name not in EDITS or path is None:
        return []
    if name == "Write":
        content = str(given.get("content") or "")
        there = Path(path).is_file()
        before = {"before": {"uri": _uri(path), "content": {"uri": _uri(path)}}} if there else {}
        return [{**before, "after": _side(path, content), "diff": {"added": _count(content)}}]
    changes = given.get("edits") if isinstance(given.get("edits"), list) else [given]
    return [
        _change(
            path, str(one.get("old_string") or ""), str(one.get("new_string", one.get("new_source")) or "")
        )
        for one in changes or ()
        if isinstance(one, dict)
    ]


def _edited(given: Mapping[str, Any], structured: Mapping[str, Any]) -> list[Json]:
    """AHP `FileEdit`s of what the CLI says that it did: a new file, or each place that was changed."""
    path = str(structured.get("filePath") or structured.get("notebook_path") or _path(given) or "")
    places = [hunk.get("lines") or () for hunk in structured.get("structuredPatch") or ()]
    if not places:
        content = str(structured.get("content", structured.get("new_source")) or "")
        return [
            {
                "type": "fileEdit",
                "after": _side(path, content),
                "diff": {"added": _count(content), "removed": 0},
            }
        ]
    return [
        {
            "type": "fileEdit",
            **_change(
                path,
                "\n".join(line[1:] for line in lines if line[:1] in ("-", " ")),
                "\n".join(line[1:] for line in lines if line[:1] in ("+", " ")),
            ),
            "diff": {
                "added": sum(line.startswith("+") for line in lines),
                "removed": sum(line.startswith("-") for line in lines),
            },
        }
        for lines in places
    ]


def _change(path: str, before: str, after: str) -> Json:
    diff = {"added": _count(after), "removed": _count(before)}
    return {"before": _side(path, before), "after": _side(path, after), "diff": diff}


def _side(path: str, text: str) -> Json:
    """How a file looks at the place of an edit: the text goes along, since the file does not stay as it is."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} more characters"
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    return {"uri": _uri(path), "content": {"uri": f"data:text/plain;charset=utf-8;base64,{encoded}"}}


def _uri(path: str) -> str:
    return Path(path).as_uri() if Path(path).is_absolute() else path


def words(content: Any) -> str:
    """The text of a tool's result."""
    if isinstance(content, str):
        return content
    pieces = [block.get("text", "") for block in content or () if isinstance(block, dict)]
    return "\n".join(piece for piece in pieces if piece)


def error_of(content: Any) -> str:
    """Why a call failed, without the CLI's marks."""
    text = words(content).strip()
    return text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>") or "It failed."


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str) or content is None:
        return _texts(content or "")
    found: list[Json] = []
    for block in content:
        if not isinstance(block, dict):
            continue
        source = block.get("source")
        if block.get("type") == "image" and isinstance(source, dict) and source.get("type") == "base64":
            found.append(
                {"type": "embeddedResource", "data": source["data"], "contentType": source["media_type"]}
            )
        elif block.get("text"):
            found += _texts(str(block["text"]))
    return found


def _texts(text: str) -> list[Json]:
    text = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    if not text:
        return []
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} more characters"
    return [{"type": "text", "text": text}]


def _mcp(name: str) -> tuple[str | None, str]:
    if not name.startswith("mcp__"):
        return None, name
    server, _, tool = name.removeprefix("mcp__").partition("__")
    return server, tool


def _spaced(name: str) -> str:
    """`WebFetch`, `read_file` as words."""
    text = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).replace("_", " ")
    text = text.strip()
    return text[:1].upper() + text[1:]


def _path(given: Mapping[str, Any]) -> str | None:
    path = given.get("file_path") or given.get("notebook_path") or given.get("path")
    return path if isinstance(path, str) else None


def _object(name: str, given: Mapping[str, Any]) -> str:
    """What a call is about, in a few words."""
    path = _path(given)
    if path is not None and name not in ("Grep", "Glob"):
        return Path(path).name or path
    for key in ("command", "pattern", "query", "url", "description", "skill", "subject", "server"):
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            text = " ".join(value.split())
            if key == "url":
                text = urlsplit(text).netloc or text
            return text if len(text) <= 80 else f"{text[:79]}…"
    return ""


def _count(text: object) -> int:
    return len(text.splitlines()) if isinstance(text, str) else 0


_TITLES: Final = {
    "Agent": "Worker",
    "AskUserQuestion": "Question",
    "Bash": "Command",
    "ExitPlanMode": "Plan",
    "Glob": "Find files",
    "Grep": "Search in files",
    "MultiEdit": "Edit",
    "NotebookEdit": "Edit a notebook",
    "PowerShell": "Command",
    "Read": "Read",
    "Task": "Worker",
    "TodoWrite": "To do",
    "WebFetch": "Fetch a page",
    "WebSearch": "Search the web",
    "Write": "Write",
}

_KINDS: Final = {
    "Agent": "subagent",
    "Bash": "terminal",
    "Glob": "search",
    "Grep": "search",
    "PowerShell": "terminal",
    "Read": "read",
    "Task": "subagent",
}

_VERBS: Final = {
    "Agent": ("Working on", "Worked on", "Could not finish"),
    "AskUserQuestion": ("Asking", "Asked", "Could not ask"),
    "Bash": ("Running", "Ran", "Failed:"),
    "Edit": ("Editing", "Edited", "Could not edit"),
    "ExitPlanMode": ("Planning", "Planned", "Not approved"),
    "Glob": ("Looking for", "Looked for", "Could not look for"),
    "Grep": ("Searching for", "Searched for", "Could not search for"),
    "MultiEdit": ("Editing", "Edited", "Could not edit"),
    "NotebookEdit": ("Editing", "Edited", "Could not edit"),
    "PowerShell": ("Running", "Ran", "Failed:"),
    "Read": ("Reading", "Read", "Could not read"),
    "Task": ("Working on", "Worked on", "Could not finish"),
    "WebFetch": ("Fetching from", "Fetched from", "Could not fetch from"),
    "WebSearch": ("Searching the web for", "Searched the web for", "Could not search the web for"),
    "Write": ("Writing", "Wrote", "Could not write"),
}


def plan_in(given: Mapping[str, Any]) -> str:
    """The plan in the input of a call that has one approved; "": it stands in a file."""
    plan = given.get("plan")
    return plan.strip() if isinstance(plan, str) else ""


def written_plan(given: Mapping[str, Any]) -> str:
    """What a call writes, if it is a plan: those have a folder of their own."""
    path, content = _path(given), given.get("content")
    is_plan = path is not None and Path(path).parent.name == "plans"
    return content if is_plan and isinstance(content, str) else ""
