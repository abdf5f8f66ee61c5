"""Which paths under a chat's directories a person may mean by what they have typed (M4, U11).

Walked in threads, never on the event loop, breadth first, and bounded in entries and in time: what is deeper than a
bound reaches is found by typing the directory it is in. A walk is kept for a few seconds, and shared.

Not offered: what the tree's `.gitignore` files exclude (those above it too, up to the repository's top), the
directories of tools (`.git`, `node_modules`, …), hidden names unless a dot is typed, and symbolic links that lead out
of the chat's directories. What is in a directory that is hidden or excluded is offered to whoever writes out its name
and a slash.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .patterns import takes_for_ever

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

log = logging.getLogger(__name__)

NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".ipynb_checkpoints", ".venv"})
"""Directories of tools, which nobody means."""
ENTRIES = 20_000
"""How many entries a walk takes in."""
SECONDS = 1.5
"""How long a walk goes on."""
_PATIENCE = 3.0  # seconds that a request waits for a walk: a file system may hang
_FRESH = 5.0  # seconds that a walk is good for
_RULES = 256 * 1024  # characters of a .gitignore that are read

_Rules: TypeAlias = "tuple[tuple[str, GitIgnoreSpec], ...]"
"""The `.gitignore` files that hold in a directory, each with the directory it is in; the nearest last, and first heard."""


class Entry(NamedTuple):
    """A file or a directory that a walk came by."""

    path: str
    """From where the walk began, with `/`."""
    directory: bool


class Found(NamedTuple):
    """A path to offer."""

    shown: str
    """As a person writes it: from the chat's directory that it is in, with `/`."""
    path: str
    """Absolute, as the system writes it."""
    directory: bool


class _Place(NamedTuple):
    """Where a walk begins."""

    path: str
    prefix: str
    """How it is written, with a slash at the end; "" for the chat's first directory."""


class _Walk(NamedTuple):
    begun: float
    entries: asyncio.Future[list[Entry]]


class Files:
    """Finds paths, and keeps the last walks. Belongs to one event loop; `close` ends what walks."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, "jupyter-ahp-files")
        self._closing = threading.Event()
        self._walks: dict[tuple[str, tuple[str, ...]], _Walk] = {}

    def close(self) -> None:
        self._closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def find(self, directories: Sequence[str], typed: str, limit: int) -> list[Found]:
        """The paths under these (absolute) directories that fit `typed`, best first.

        `typed` is a name, a part of one, or a path from one of the directories; "" is what lies at the top.
        """
        typed = typed.replace(os.sep, "/").removeprefix("./")
        if typed.startswith("/") or ".." in typed.split("/"):
            return []
        places = _places(directories)
        bounds = tuple(place.path for place in places)
        if "/" in typed:
            head, _, tail = typed.rpartition("/")
            found = await self._best(_inside(places, f"{head}/"), bounds, tail, limit, whole=False)
            if found:
                return found
        return await self._best(places, bounds, typed, limit, whole=True)

    async def _best(
        self, places: Sequence[_Place], bounds: tuple[str, ...], query: str, limit: int, *, whole: bool
    ) -> list[Found]:
        """The best in these places, by all that is written of a path (`whole`), or by what is written behind the place."""
        walks = await asyncio.gather(*(self._walk(place.path, bounds) for place in places))
        return await asyncio.to_thread(_choose, list(zip(places, walks, strict=True)), query, limit, whole)

    async def _walk(self, top: str, bounds: tuple[str, ...]) -> list[Entry]:
        """What is under `top`, not older than a few seconds. Nothing, if the file system does not answer."""
        if self._closing.is_set():
            return []
        now = time.monotonic()
        self._walks = {
            key: kept
            for key, kept in self._walks.items()
            if now - kept.begun < _FRESH or not kept.entries.done()  # one that hangs is not begun again
        }
        held = self._walks.get((top, bounds))
        if held is None:
            loop = asyncio.get_running_loop()
            held = _Walk(now, loop.run_in_executor(self._threads, walk, top, bounds, self._closing))
            self._walks[top, bounds] = held
        try:
            async with asyncio.timeout(_PATIENCE):
                return await asyncio.shield(held.entries)
        except TimeoutError:
            log.warning("%s could not be listed in %.0f s: its files are not offered", top, _PATIENCE)
            return []


def _places(directories: Sequence[str]) -> list[_Place]:
    """The chat's directories, without those that are in one before them. All but the first are written with a name."""
    places: list[_Place] = []
    for path in map(os.path.normpath, directories):
        if not any(_within(path, [place.path]) for place in places):
            places.append(_Place(path, f"{os.path.basename(path)}/" if places else ""))
    return places


def _inside(places: Sequence[_Place], head: str) -> list[_Place]:
    """The directories that a written `head` (with its slash) may be, in these places."""
    return [
        _Place(os.path.join(place.path, *names), head)
        for place in places
        if head.startswith(place.prefix)
        and NEVER.isdisjoint(names := [name for name in head[len(place.prefix) :].split("/") if name])
    ]


# ── walking ──────────────────────────────────────────────────────────────────────────────────────────────────────
def walk(top: str, bounds: Sequence[str], closing: threading.Event) -> list[Entry]:
    """What is under `top`, nearest first, up to a bound. Nothing, if it is no directory within the bounds."""
    bounds = [os.path.realpath(bound) for bound in bounds]
    top = os.path.realpath(top)
    if not _within(top, bounds):
        return []
    until = time.monotonic() + SECONDS
    found: list[Entry] = []
    waiting = deque([("", _rules_above(top, bounds))])
    while waiting:
        prefix, rules = waiting.popleft()
        directory = os.path.join(top, *prefix.split("/"))
        rules = _with_rules_in(directory, rules)
        for entry in _scan(directory, ENTRIES - len(found)):
            if closing.is_set() or time.monotonic() > until:
                return found
            kind = _kind(entry, bounds)
            if kind is None or (kind == "directory" and entry.name in NEVER):
                continue
            is_directory = kind != "file"
            if _ignored(rules, entry.path, is_directory):
                continue
            found.append(Entry(prefix + entry.name, is_directory))
            if kind == "directory" and not entry.name.startswith("."):
                waiting.append((f"{prefix}{entry.name}/", rules))
    return found


def _scan(directory: str, room: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(islice(entries, room), key=lambda entry: entry.name)
    except OSError:
        return []  # gone meanwhile, or not this server's to read: there is nothing to offer in it


def _kind(entry: os.DirEntry[str], bounds: Sequence[str]) -> str | None:
    """file, directory, or link (to a directory: not walked into, so that no walk goes round); None is not offered."""
    try:
        is_directory = entry.is_dir()
        if not is_directory and not entry.is_file():
            return None
        if not _is_link(entry):
            return "directory" if is_directory else "file"
        if not _within(os.path.realpath(entry.path), bounds):
            return None
    except OSError:
        return None
    return "link" if is_directory else "file"


def _is_link(entry: os.DirEntry[str]) -> bool:
    is_junction = getattr(entry, "is_junction", None)  # Python 3.12
    return entry.is_symlink() or (is_junction is not None and is_junction())


def _within(path: str, bounds: Sequence[str]) -> bool:
    path = os.path.normcase(path)
    return any(
        path == bound or path.startswith(os.path.join(bound, ""))
        for bound in (os.path.normcase(bound) for bound in bounds)
    )


# ── .gitignore ───────────────────────────────────────────────────────────────────────────────────────────────────
def _rules_above(top: str, bounds: Sequence[str]) -> _Rules:
    """What holds in `top` from the directories above: up to the repository's top, or the bound where there is none.

    None of it, if it excludes `top` itself: then somebody chose that all the same.
    """
    above: list[str] = []
    directory = top
    while not os.path.lexists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            above = [path for path in above if _within(path, bounds)]
            break
        above.append(parent)
        directory = parent
    rules: _Rules = ()
    for path in reversed(above):
        rules = _with_rules_in(path, rules)
        below = os.path.join(path, os.path.relpath(top, path).split(os.sep)[0])
        if _ignored(rules, below, True):
            return ()
    return rules


def _with_rules_in(directory: str, rules: _Rules) -> _Rules:
    try:
        with open(os.path.join(directory, ".gitignore"), encoding="utf-8", errors="replace") as file:
            lines = file.read(_RULES).splitlines()
    except OSError:
        return rules
    return (*rules, (os.path.join(directory, ""), _spec(lines)))


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # here: it takes longer to import than all of this module

    lines = [line for line in lines if not takes_for_ever(line)]  # nor does it exclude anything then
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:  # a line that is no pattern: git passes over it
        return GitIgnoreSpec.from_lines(list(_patterns(lines)))


def _patterns(lines: Sequence[str]) -> Iterator[str]:
    from pathspec import GitIgnoreSpec

    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        yield line


def _ignored(rules: _Rules, path: str, directory: bool) -> bool:
    for base, spec in reversed(rules):
        verdict = spec.check_file(path[len(base) :] + ("/" if directory else "")).include
        if verdict is not None:
            return verdict
    return False


# ── choosing ─────────────────────────────────────────────────────────────────────────────────────────────────────
def _choose(walks: Sequence[tuple[_Place, list[Entry]]], query: str, limit: int, whole: bool) -> list[Found]:
    query = query.casefold()
    fits = (
        (rank, prefix + entry.path, path, entry)
        for (path, prefix), entries in walks
        for entry in entries
        if (rank := _rank(query, (prefix + entry.path if whole else entry.path).casefold())) is not None
    )
    best = heapq.nsmallest(limit, fits, key=lambda fit: fit[:2])
    return [
        Found(shown, os.path.join(path, *entry.path.split("/")), entry.directory)
        for rank, shown, path, entry in best
        if rank[0] < _SCATTERED
        or best[0][0][0] >= _SCATTERED  # scattered letters count where nothing else fits
    ]


_SCATTERED = 5


def _rank(query: str, path: str) -> tuple[int, int, int] | None:
    """How well a path fits what was typed (the least fits best), None if it does not. Both are casefolded."""
    name = path.rpartition("/")[2]
    if name.startswith(".") and not query.rpartition("/")[2].startswith("."):
        return None
    depth = path.count("/")
    if not query:
        return 0, depth, 0
    if query in (name, path, name.rpartition(".")[0]):
        kind = 0
    elif name.startswith(query) or path.startswith(query):
        kind = 1
    elif query in name:
        kind = 2 if re.search(rf"[\W_]{re.escape(query)}", name) else 3
    elif query in path:
        kind = 4
    elif _spread(query, name):
        kind = _SCATTERED
    elif _spread(query, path):
        kind = _SCATTERED + 1
    else:
        return None
    return kind, depth, len(path)


def _spread(query: str, text: str) -> bool:
    """Whether the letters are there, in this order."""
    letters = iter(text)
    return all(letter in letters for letter in query)
