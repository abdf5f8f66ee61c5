"""A program that looks for files by name and by what is in them: `python -P finder.py`, one JSON request on its input.

A process of its own, since a pattern of a model's may take for ever, and Python's `re` lets nobody else work meanwhile:
whoever started it ends it. Needs `pathspec` and nothing of ours. Each line that it prints is a JSON object: `{"file"}` for
a file that was found by name, `{"file", "line", "text"}` for a line, `{"more": true}` when there is more than was asked for,
`{"error"}` for a pattern that is none, `{"looked"}`, the number of files, at the end.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator

from pathspec import GitIgnoreSpec

NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".ipynb_checkpoints", ".venv"})
LARGEST = 4 * 1024 * 1024
LINE = 400
Rules = tuple[tuple[str, GitIgnoreSpec], ...]


def walk(top: str, roots: list[str]) -> Iterator[str]:
    """The files under a directory, nearest first; without what is ignored, and into no link."""
    waiting: deque[tuple[str, Rules]] = deque([(top, rules_above(top, roots))])
    while waiting:
        directory, rules = waiting.popleft()
        rules = with_rules(directory, rules)
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            try:
                is_directory = entry.is_dir(follow_symlinks=False)
                is_file = entry.is_file(follow_symlinks=False)
            except OSError:
                continue
            if ignored(rules, entry.path, is_directory):
                continue
            if is_directory and entry.name not in NEVER:
                waiting.append((entry.path, rules))
            elif is_file:
                yield entry.path


def rules_above(top: str, roots: list[str]) -> Rules:
    """What holds in a directory from those above it, up to the one of the chat that it is in. None of it, if that leaves
    out the directory itself: then somebody chose it all the same."""
    above: list[str] = []
    directory = top
    while directory not in roots:
        parent = os.path.dirname(directory)
        if parent == directory:
            return ()
        directory = parent
        above.append(parent)
    rules: Rules = ()
    for directory in reversed(above):
        rules = with_rules(directory, rules)
    return () if ignored(rules, top, True) else rules


def with_rules(directory: str, rules: Rules) -> Rules:
    try:
        with open(os.path.join(directory, ".gitignore"), encoding="utf-8", errors="replace") as file:
            spec = GitIgnoreSpec.from_lines(file.read(256 * 1024).splitlines())
    except (OSError, ValueError):
        return rules
    return (*rules, (directory, spec))


def ignored(rules: Rules, path: str, is_directory: bool) -> bool:
    """The nearest file that says something of it has the word."""
    for directory, spec in reversed(rules):
        name = os.path.relpath(path, directory).replace(os.sep, "/") + ("/" if is_directory else "")
        said = spec.check_file(name).include
        if said is not None:
            return said
    return False


def lines_in(path: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The lines of a text file that a pattern is found in."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError:
        return
    if len(data) > LARGEST or b"\0" in data:
        return
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
        if (found := pattern.search(line)) is not None:
            begin = max(0, found.start() - LINE // 4)
            yield number, line[begin : begin + LINE]


def search(request: dict[str, object]) -> Iterator[dict[str, object]]:
    written, glob, most = request.get("pattern"), request.get("glob"), int(str(request["most"]))
    flags = re.IGNORECASE if request.get("ignore_case") else 0
    try:
        pattern = re.compile(str(written), flags) if written is not None else None
    except re.error as error:
        yield {"error": f"the pattern is no regular expression: {error}"}
        return
    try:
        names = GitIgnoreSpec.from_lines([str(glob)]) if glob is not None else None
    except ValueError as error:
        yield {"error": f"the glob cannot be used: {error}"}
        return
    top, roots = str(request["top"]), request.get("roots")
    said = looked = 0
    for path in [top] if os.path.isfile(top) else walk(top, roots if isinstance(roots, list) else []):
        name = os.path.basename(path) if path == top else os.path.relpath(path, top)
        if names is not None and not names.match_file(name.replace(os.sep, "/")):
            continue
        looked += 1
        hits: Iterator[dict[str, object]] = iter([{"file": path}])
        if pattern is not None:
            hits = ({"file": path, "line": line, "text": text} for line, text in lines_in(path, pattern))
        for hit in hits:
            if said == most:
                yield {"more": True}
                yield {"looked": looked}
                return
            said += 1
            yield hit
    yield {"looked": looked}


def main() -> None:
    for answer in search(json.loads(sys.stdin.readline())):
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
