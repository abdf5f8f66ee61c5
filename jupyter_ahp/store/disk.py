"""The file system, as the store needs it: safe names, private folders, whole documents, files that only grow.

Everything here blocks: it is called in the store's threads, never on the event loop. Errors are `OSError`s; `because`
puts them into words.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from io import FileIO
from pathlib import Path

_log = logging.getLogger(__name__)

_WORDS = {
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.EACCES: "permission was denied; check who owns the folder and its permissions",
    errno.EPERM: "permission was denied; check who owns the folder and its permissions",
    errno.EROFS: "the disk is read-only",
    errno.ENOENT: "the file or its folder is gone; was it moved or deleted?",
    errno.EEXIST: "a file is where a folder should be; was it replaced?",
    errno.ENOTDIR: "a file is where a folder should be; was it replaced?",
    errno.ESTALE: "the folder is gone from the file server; was it moved or deleted?",
}


def because(error: OSError) -> str:
    """What went wrong and what to do, for people: the end of a sentence, without a full stop."""
    where = f" ({error.filename})" if error.filename else ""
    words = _WORDS.get(error.errno) if error.errno is not None else None
    return (words or error.strerror or str(error) or type(error).__name__) + where


def folder_name(key: str) -> str:
    """A folder's name for an id or a URI that somebody else chose.

    Whatever `key` is (`..`, `CON`, `a/b`, a trailing dot, a megabyte), the name is one short path component of
    `a-z0-9-`, valid on Windows too, and other for each key, also where the file system ignores case.
    """
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    readable = re.sub(r"[^a-z0-9]+", "-", key[-48:].lower())[-24:].strip("-")
    return f"{readable}-{digest}" if readable else digest


def make_private(folder: Path) -> None:
    """Make a folder, for its owner only. Its parent must be there."""
    folder.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Make names that were added to, or replaced in, a folder survive a power cut, where the system can do it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and FUSE file systems do not know fsync of a folder; they write names through.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file at once: a reader, and a start after a crash, sees the old or the new one, never a half."""
    temp = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with _open(temp, "wb") as file:
            _write_all(file, data)
            os.fsync(file.fileno())
        _replace(temp, path)
    except OSError:
        with suppress(OSError):  # the disk that failed may refuse this too; the error that counts is raised
            temp.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def discard(folder: Path, trash: Path) -> None:
    """Delete a folder: gone in one step, whatever it holds. What cannot be removed at once is, at the next `purge`."""
    gone = trash / uuid.uuid4().hex
    try:
        folder.rename(gone)
    except FileNotFoundError:
        return
    sync_folder(folder.parent)
    _remove(gone)


def remove_but(folder: Path, keep: set[str], trash: Path | None = None) -> None:
    """Remove a session's folder, but for what is in these folders of its attachments.

    `trash`: where what is removed is moved first, so that it is gone in one step; the chats before the session's document.
    """
    attachments = folder / "attachments"
    kept = {name for name in keep if (attachments / name).is_dir()}
    if not kept:
        _remove(folder)
        return
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.is_file()):
        if entry == attachments:
            remove_attachments(folder, [each.name for each in entry.iterdir() if each.name not in kept])
        elif entry.is_file():
            entry.unlink()
        elif trash is not None:
            discard(entry, trash)
        else:
            _remove(entry)
    sync_folder(folder)


def remove_attachments(folder: Path, names: Collection[str]) -> None:
    """Remove these folders of a session's attachments, and what is empty then."""
    for name in names:
        if Path(name).name == name and name != "..":
            _remove(folder / "attachments" / name)
    with suppress(OSError):  # there is something else in them
        (folder / "attachments").rmdir()
        folder.rmdir()


def purge(trash: Path) -> None:
    """Remove what earlier deletions left over."""
    for left in trash.iterdir():
        _remove(left)


def _remove(folder: Path) -> None:
    try:
        if os.name == "nt":  # where a file that is not writable is not removed either
            for file in folder.glob("attachments/*/*"):
                file.chmod(stat.S_IWRITE)
        shutil.rmtree(folder)
    except FileNotFoundError:
        return  # another process purges as well
    except OSError as error:
        _log.warning("What was deleted still takes space, until a start can remove it: %s", because(error))


class LineFile:
    """A file that only grows, line by line, open for appending. What fails half way is taken back."""

    def __init__(self, path: Path) -> None:
        self._file = _open(path, "ab+")
        try:
            self.size = self._file.seek(0, os.SEEK_END)
            self._torn = self.size > 0 and self._last_byte() != b"\n"
        except OSError:
            self._file.close()
            raise

    def append(self, lines: bytes, *, sync: bool = False) -> None:
        """Write whole lines (the last newline included), all or none. A torn last line is ended first."""
        data = b"\n" + lines if self._torn else lines
        try:
            _write_all(self._file, data)
            if sync:
                self.sync()
        except OSError:
            # A full disk takes a part of it. Without that part the next try begins on a line of its own.
            try:
                self._file.truncate(self.size)
            except OSError:
                self.size = os.fstat(self._file.fileno()).st_size
                self._torn = True
            raise
        self.size += len(data)
        self._torn = False

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def _last_byte(self) -> bytes:
        self._file.seek(-1, os.SEEK_END)
        return self._file.read(1)


def _open(path: Path, mode: str) -> FileIO:
    """Unbuffered, for the owner only, not inherited by child processes."""
    return FileIO(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


def _write_all(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _replace(source: Path, target: Path) -> None:
    for pause in (0.01, 0.02, 0.05, 0.1, 0.2):
        try:
            source.replace(target)
        except PermissionError:
            # On Windows a reader (or a virus scanner) that has the target open makes this fail for a moment.
            if os.name != "nt":
                raise
            time.sleep(pause)
        else:
            return
    source.replace(target)
