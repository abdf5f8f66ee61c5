"""Looking for files by their names, and for lines by a pattern. `finder` does it, in a process that can be ended."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jupyter_ahp.agents.assistant.tools.workspace import PATH, Place, Refused, WorkTool, schema
from jupyter_ahp.agents.base import Json, ToolCall, ToolResult
from jupyter_ahp.agents.processes import Child, NotStarted

FINDER: Final = Path(__file__).with_name("finder.py")
MOST: Final = 200
"""Files or lines that one search gives."""
SECONDS: Final = 30.0
"""That one search may take."""


class SearchFiles(WorkTool):
    name = "search_files"
    title = "Search in files"
    description = (
        "Find files by a glob (as in a .gitignore: `*.py` is anywhere, `src/**/*.ts` from `path`), and lines by a regular "
        "expression (Python's). What .gitignore leaves out is left out, and so are binary files. "
        f"At most {MOST} results."
    )
    parameters = {
        **schema(
            [],
            pattern={"type": "string", "minLength": 1, "description": "What is to stand in a line."},
            glob={"type": "string", "minLength": 1, "description": "Which files."},
            path={**PATH, "description": "A directory, or a file, to look in. Default: the chat's first."},
            ignore_case={"type": "boolean"},
        ),
        "anyOf": [{"required": ["pattern"]}, {"required": ["glob"]}],
    }
    effects = "read"

    def doing(self, arguments: Mapping[str, Any]) -> str:
        what = [arguments[key] for key in ("pattern", "glob") if key in arguments]
        return f"Search for {' in '.join(what)}"

    async def work(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        place = await asyncio.to_thread(self.workspace.place, arguments.get("path", "."))
        if not await asyncio.to_thread(os.path.exists, place.path):
            raise Refused(f"There is no {place.name}.")
        roots = await asyncio.to_thread(self.workspace.roots)
        found, end = await _search({**arguments, "top": place.path, "roots": roots, "most": MOST})
        if "error" in end:
            raise Refused(f"Not done: {end['error']}")
        lines = [_line(hit, place) for hit in found]
        count = f"{len(found)}{' and more' if 'more' in end else ''}"
        if "more" in end:
            lines.append(f"[There are more than these {MOST}. Search for something narrower.]")
        if "late" in end:
            lines.append(f"[It took longer than {SECONDS:.0f} s: this is what was found by then.]")
        if not lines:
            looked = f"{end.get('looked', 0)} files were looked at."
            return ToolResult(f"Nothing was found. {looked}", message="Found nothing")
        return ToolResult("\n".join(lines), message=f"Found {count}")


async def _search(request: Json) -> tuple[list[Json], Json]:
    """What was found, and how it ended: the last words of `finder`, `late` among them when it was ended."""
    try:
        child = await Child.start([sys.executable, "-P", str(FINDER)])
    except NotStarted as error:
        raise Refused(f"The search could not be started. {error}") from error
    found: list[Json] = []
    end: Json = {}
    try:
        child.write(json.dumps(request).encode())
        async with asyncio.timeout(SECONDS):
            while (line := await child.read()) is not None:
                said = json.loads(line)
                if "file" in said:
                    found.append(said)
                else:
                    end.update(said)
            await child.wait()
        if child.code != 0:
            raise Refused(f"The search failed: {child.stderr[-500:]}")
    except TimeoutError:
        end["late"] = True
    finally:
        await child.close(0.1)
    return found, end


def _line(hit: Json, place: Place) -> str:
    """A hit as the model can name it: from the chat's first directory where it is in there, else absolute."""
    path = hit["file"]
    if not os.path.isabs(place.name):
        name = os.path.relpath(path, place.path)
        base = "" if place.name == "." else place.name
        path = base if name == "." else "/".join(part for part in (base, name.replace(os.sep, "/")) if part)
    return f"{path}:{hit['line']}: {hit['text']}" if "line" in hit else path
