"""What changes under a directory, or in one file: the blocking half of a resource watch (AHP 5.4).

The system tells (`watchfiles`), nothing is looked at over and over. Only directories that somebody may mean are watched,
each by itself: those of tools (`.git`, `node_modules`, …), those that are excluded, and links are left out, so that a
watch neither leads out of its directory nor takes in more of the system's watches than it is worth.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ..protocol.errors import INTERNAL_ERROR, ProtocolError, invalid_params
from .files import NEVER
from .patterns import takes_for_ever

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
    from watchfiles._rust_notify import RustNotify

DIRECTORIES: Final = 4000
"""Directories that one watch takes in. Taking them in holds this process for 7 µs each."""
PATTERNS: Final = 200
_STEP: Final = 100  # ms of quiet that end a batch; a watch that is to end is heard as soon
_LONGEST: Final = 500  # ms that a batch takes at most
_QUIET: Final = 5000  # ms without a change after which it is looked whether all this is still there
_ALTERNATIVES: Final = 64  # that one pattern with braces stands for
_OURS: Final = re.compile(r"\.[0-9a-f]{32}\.tmp")  # what `fileops` writes beside a file that it replaces
_BRACES = re.compile(r"\{([^{}]*)\}")

Kind: TypeAlias = Literal["added", "updated", "deleted"]
_KINDS: Final[dict[int, Kind]] = {1: "added", 2: "updated", 3: "deleted"}


class Tree:
    """One directory with what is under it (`recursive`), or without, or one file. All methods block, and belong to one thread.

    `excludes` and `includes` are patterns as in a `.gitignore`, from the directory, with `{a,b}` for alternatives.
    Raises `ProtocolError`, in words, and `OSError` when it cannot be watched.
    """

    def __init__(
        self, path: str, *, recursive: bool, excludes: Sequence[str] = (), includes: Sequence[str] = ()
    ) -> None:
        found = os.stat(path)
        is_directory = stat.S_ISDIR(found.st_mode)
        if not is_directory and not stat.S_ISREG(found.st_mode):
            raise invalid_params(f"{path} is neither a file nor a directory: it cannot be watched.")
        self.path = path
        self._file = None if is_directory else path
        """A file is watched from its directory, so that it may be replaced."""
        self._top = path if is_directory else os.path.dirname(path)
        self._recursive = recursive and is_directory
        self._identity = _identity(os.stat(self._top))
        self._excludes = _spec(excludes, path)
        self._includes = _spec(includes, path)
        self._directories = self._walk()
        if len(self._directories) > DIRECTORIES:
            raise invalid_params(
                f"{path} has more than {DIRECTORIES} directories, which is more than one watch takes in. "
                "Watch one of them, or exclude some."
            )
        self._notify: RustNotify | None = _notify(self._directories)

    def next(self, stop: threading.Event) -> dict[str, Kind] | None:
        """What changed, by path, as soon as something has; nothing after a few quiet seconds.

        None when `stop` is set, or there is nothing to watch any more (`gone`).
        """
        assert self._notify is not None, "not closed"
        raw = self._notify.watch(_LONGEST, _STEP, _QUIET, stop)
        if stop.is_set() or self.gone:
            return None
        changes: dict[str, Kind] = {}
        for number, path in raw if not isinstance(raw, str) else ():
            self._note(changes, path, _KINDS[number])
        if self._recursive and any(kind == "added" and _is_directory(path) for path, kind in changes.items()):
            self._extend(changes)
        return changes

    @property
    def gone(self) -> bool:
        """The directory is not there any more, or another one is in its place."""
        try:
            return _identity(os.stat(self._top)) != self._identity
        except OSError:
            return True

    def close(self) -> None:
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    # ── what counts ──────────────────────────────────────────────────────────────────────────────────────────
    def _note(self, changes: dict[str, Kind], path: str, kind: Kind) -> None:
        """Take one change of a batch in, whose order is not known: what is there now says how it went."""
        if not self._counts(path):
            return
        if not os.path.lexists(path):
            changes[path] = "deleted"
        else:
            changes[path] = "added" if "added" in (kind, changes.get(path)) else "updated"

    def _counts(self, path: str) -> bool:
        if self._file is not None:
            return path == self._file
        if path == self._top:
            return False
        name = os.path.relpath(path, self._top)
        parts = name.split(os.sep)
        if parts[0] == os.pardir or not NEVER.isdisjoint(parts) or _OURS.fullmatch(parts[-1]):
            return False
        if _matches(self._excludes, name, path):
            return False
        return self._includes is None or _matches(self._includes, name, path)

    # ── which directories ────────────────────────────────────────────────────────────────────────────────────
    def _walk(self) -> list[str]:
        """The directories to watch, top first; one more than the bound where there are more."""
        found = [self._top]
        if not self._recursive:
            return found
        for directory in found:  # grows on the way: nearest first
            for entry in _scan(directory):
                if len(found) > DIRECTORIES:
                    return found
                if (
                    _is_real_directory(entry)
                    and entry.name not in NEVER
                    and not self._is_excluded(entry.path)
                ):
                    found.append(entry.path)
        return found

    def _is_excluded(self, directory: str) -> bool:
        name = os.path.relpath(directory, self._top)
        return self._excludes is not None and self._excludes.match_file(name.replace(os.sep, "/") + "/")

    def _extend(self, changes: dict[str, Kind]) -> None:
        """Directories came: watch them too, and say what was put in them before they were."""
        assert self._notify is not None
        before = set(self._directories)
        self._directories = self._walk()[:DIRECTORIES]  # of a tree that outgrows a watch, the nearest
        notify = _notify(self._directories)
        rest = self._notify.watch(1, 1, 1, None)  # what came meanwhile is told by the new one too, or by this
        for number, path in rest if not isinstance(rest, str) else ():
            self._note(changes, path, _KINDS[number])
        self._notify.close()
        self._notify = notify
        for directory in self._directories:
            if directory not in before:
                for entry in _scan(directory):
                    self._note(changes, entry.path, "added")


def _notify(directories: list[str]) -> RustNotify:
    """Raises `ProtocolError` when the system watches no more."""
    from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

    try:
        return RustNotify(directories, False, False, 300, False, True)
    except (OSError, WatchfilesRustInternalError) as error:
        raise ProtocolError(INTERNAL_ERROR, _in_words(error, directories[0])) from error


def _in_words(error: Exception, directory: str) -> str:
    said = str(error)
    if "limit" in said or "Too many open files" in said:
        said = (
            "this machine watches no more directories. Fewer watches, excludes, or a larger "
            "fs.inotify.max_user_watches and max_user_instances help."
        )
    return f"{directory} cannot be watched: {said}"


def _scan(directory: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError:
        return  # gone meanwhile, or not this server's to read: there is nothing in it to tell


def _is_real_directory(entry: os.DirEntry[str]) -> bool:
    try:
        is_junction = getattr(entry, "is_junction", None)  # Python 3.12
        return entry.is_dir(follow_symlinks=False) and not (is_junction is not None and is_junction())
    except OSError:
        return False


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


# ── patterns ─────────────────────────────────────────────────────────────────────────────────────────────────────
def _spec(patterns: Sequence[str], top: str) -> GitIgnoreSpec | None:
    """None for no patterns. Raises `ProtocolError` for what is none."""
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    if len(patterns) > PATTERNS:
        raise invalid_params(f"A watch takes {PATTERNS} patterns at most.")
    lines: list[str] = []
    for pattern in patterns:
        absolute = os.path.join(top, "").replace(os.sep, "/")
        lines += _alternatives(
            f"/{pattern.removeprefix(absolute)}" if pattern.startswith(absolute) else pattern
        )
    if (slow := next(filter(takes_for_ever, lines), None)) is not None:
        raise invalid_params(f"The pattern {slow!r} has too many stars.")
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise invalid_params(f"That is no pattern: {error}") from error


def _alternatives(pattern: str) -> list[str]:
    """The patterns that one with braces stands for. Raises `ProtocolError` when they are too many."""
    found = [pattern]
    while (braces := next((match for one in found if (match := _BRACES.search(one))), None)) is not None:
        one = braces.string
        found.remove(one)
        found += [one[: braces.start()] + choice + one[braces.end() :] for choice in braces[1].split(",")]
        if len(found) > _ALTERNATIVES:
            raise invalid_params(f"The pattern {pattern!r} stands for too many.")
    return found


def _matches(spec: GitIgnoreSpec | None, name: str, path: str) -> bool:
    if spec is None:
        return False
    name = name.replace(os.sep, "/")
    return spec.match_file(name) or (_is_directory(path) and spec.match_file(f"{name}/"))
