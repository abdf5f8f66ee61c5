"""What clients do with files, as plain functions on paths that somebody else has checked (AHP 5.3).

Everything here blocks: it is called in threads. Raises `ProtocolError` for what AHP has a code for, and `OSError`.
A file is replaced whole, so that a full disk costs the new content and not the old.
"""

from __future__ import annotations

import errno
import mimetypes
import os
import shutil
import stat
import uuid
from typing import Final, Literal

from ..protocol.errors import (
    ALREADY_EXISTS,
    CONFLICT,
    INTERNAL_ERROR,
    NOT_FOUND,
    PERMISSION_DENIED,
    ProtocolError,
    invalid_params,
)
from ..protocol.times import to_iso
from .attachments import image_type
from .ports import Json

READ_LIMIT: Final = 32 * 1024 * 1024
"""Bytes of a file that go out in one answer, and that are spliced into."""
ENTRIES: Final = 20_000
"""Names in one listing."""

Mode = Literal["truncate", "append", "insert"]
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read(path: str) -> bytes:
    """The whole of a file."""
    with open(os.open(path, os.O_RDONLY | _PLAIN), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise _no_file(path, found)
        data = file.read(READ_LIMIT + 1) if found.st_size <= READ_LIMIT else b""
        if found.st_size > READ_LIMIT or len(data) > READ_LIMIT:
            raise invalid_params(f"{path} is larger than what is sent at once: {READ_LIMIT >> 20} MiB.")
        return data


def media_type(path: str, data: bytes = b"") -> str | None:
    """By content for images, else by the name."""
    return image_type(data) or mimetypes.guess_type(path)[0]


def entries(path: str) -> list[Json]:
    """What is in a directory, by name."""
    found: list[Json] = []
    with os.scandir(path) as inside:
        for entry in inside:
            if len(found) == ENTRIES:
                raise invalid_params(f"{path} has more entries than are listed at once: {ENTRIES}.")
            name = os.fsencode(entry.name).decode("utf-8", "replace")
            found.append({"name": name, "type": "directory" if _is_directory(entry) else "file"})
    return sorted(found, key=lambda entry: str(entry["name"]))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that goes round
        return False


def facts(path: str) -> Json:
    """What `resourceResolve` says of a path, of a link itself if it is one."""
    found = os.lstat(path)
    kind = (
        "symlink" if stat.S_ISLNK(found.st_mode) else "directory" if stat.S_ISDIR(found.st_mode) else "file"
    )
    said: Json = {"type": kind, "size": found.st_size, "etag": etag(found)}
    for key, seconds in (
        ("mtime", found.st_mtime),
        ("ctime", getattr(found, "st_birthtime", found.st_ctime)),
    ):
        moment = to_iso(seconds * 1000)
        if moment is not None:
            said[key] = moment
    if kind == "file" and (guess := media_type(path)) is not None:
        said["contentType"] = guess
    return said


def etag(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"


# ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────────
def write(
    path: str, data: bytes, *, mode: Mode, position: int | None, create_only: bool, if_match: str | None
) -> None:
    """Offsets are in bytes (AHP 5.3)."""
    found = _lstat(path)
    if found is not None and create_only:
        raise _exists(path)
    if if_match is not None and (found is None or etag(found) != if_match):
        raise ProtocolError(CONFLICT, f"{path} has changed since it was read. Read it again.")
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise _no_file(path, found)
    if found is None:
        _create(path, data)
    elif mode == "append" and not position:
        _append(path, data)
    elif mode == "truncate" and not position:
        _replace(path, data, found)
    else:
        before = read(path)
        at = min(position or 0, len(before))
        if mode == "append":
            at = len(before) - at
        _replace(path, before[:at] + data + (b"" if mode == "truncate" else before[at:]), found)


def _create(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666)
    try:
        _fill(descriptor, data)
    except OSError:
        os.unlink(path)
        raise


def _append(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | _PLAIN), "ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def _replace(path: str, data: bytes, before: os.stat_result) -> None:
    temp = _beside(path)
    try:
        _fill(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600), data)
        os.chmod(temp, stat.S_IMODE(before.st_mode))
        os.replace(temp, path)
    except OSError:
        if os.path.lexists(temp):
            os.unlink(temp)
        raise


def _fill(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _beside(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".{uuid.uuid4().hex}.tmp")


def copy(source: str, destination: str, *, fail_if_exists: bool) -> None:
    """A file, or a directory with all that is in it, links as links."""
    found = os.lstat(source)
    _check_free(source, destination, fail_if_exists, found)
    if stat.S_ISDIR(found.st_mode):
        try:
            shutil.copytree(source, destination, symlinks=True)
        except shutil.Error as error:
            failures = "; ".join(str(failure[2]) for failure in error.args[0])
            raise OSError(errno.EIO, f"some of it was not copied: {failures}") from error
        return
    temp = _beside(destination)
    try:
        shutil.copy2(source, temp, follow_symlinks=False)
        os.replace(temp, destination)
    except OSError:
        if os.path.lexists(temp):
            os.unlink(temp)
        raise


def move(source: str, destination: str, *, fail_if_exists: bool) -> None:
    _check_free(source, destination, fail_if_exists, os.lstat(source))
    try:
        os.replace(source, destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.move(source, destination)  # to another file system


def _check_free(source: str, destination: str, fail_if_exists: bool, found: os.stat_result) -> None:
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        raise _no_file(source, found)
    inside = os.path.join(source, "")
    if destination == source or destination.startswith(inside):
        raise invalid_params(f"{source} cannot go to itself, or into itself: {destination}.")
    there = _lstat(destination)
    if there is not None and (fail_if_exists or stat.S_ISDIR(there.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise _exists(destination)


def delete(path: str, *, recursive: bool) -> None:
    """A link goes, and not what it leads to."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(path)
    elif recursive:
        shutil.rmtree(path)
    else:
        os.rmdir(path)


def make_directory(path: str) -> None:
    """With those above it; there already is well."""
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise _exists(error.filename or path) from error


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _exists(path: str) -> ProtocolError:
    return ProtocolError(ALREADY_EXISTS, f"There is something at {path} already.")


def _no_file(path: str, found: os.stat_result) -> ProtocolError:
    kind = "a directory" if stat.S_ISDIR(found.st_mode) else "no file"
    return invalid_params(f"{path} is {kind}.")


def as_protocol(error: OSError, path: str) -> ProtocolError:
    """An error of the file system as AHP says it (1.3)."""
    why = error.strerror or str(error)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.ELOOP:
            return ProtocolError(NOT_FOUND, f"There is nothing at {path}.")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return ProtocolError(PERMISSION_DENIED, f"This server may not do that to {path}: {why}.")
        case errno.EEXIST:
            return _exists(path)
        case errno.ENOTEMPTY:
            return ProtocolError(CONFLICT, f"{path} is not empty. Say `recursive` to delete what is in it.")
        case errno.ENAMETOOLONG | errno.EINVAL | errno.EISDIR:
            return invalid_params(f"{path}: {why}.")
    return ProtocolError(INTERNAL_ERROR, f"{path}: {why}.")
