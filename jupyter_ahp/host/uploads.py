"""Where clients put what is too large for one message: A2; ours, beyond the protocol (AHP 5.3 carries it).

`initialize` names a folder of the client's own in `_meta["jupyter-ahp.uploads"]`. There the client writes a file, piece by
piece with `resourceWrite`, and then sends a message with a `resource` attachment that names it: the file itself becomes
the message's own (`snapshots.py`). Its name is a secret of the client's, so whoever knows it may go on with it, on the
next server too. What no message has taken goes after a day.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import stat
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol.errors import ProtocolError, invalid_params
from ..protocol.meta import UPLOADS
from .ports import Json

if TYPE_CHECKING:
    from .connection import Client
    from .host import Host

log = logging.getLogger(__name__)

LIMIT: Final = 1024 * 1024 * 1024
"""Bytes in a client's folder."""
FILES: Final = 64
"""Files in it."""
PIECE: Final = 1024 * 1024
"""Bytes that a client is asked to write at a time: others on its socket wait no longer than for that."""
KEPT: Final = 24 * 3600.0
"""Seconds that a file stays that no message has taken."""
_SWEEP: Final = 3600.0  # seconds between two looks at what nobody took

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
NAMED: Final = re.compile(f"(?i:file):.*/uploads/{_UUID.pattern}/{_NAME.pattern}")
"""What the URI of an upload looks like. Whether it is one is looked at where it is written (`Uploads.find`)."""


class Uploads:
    """What clients have put there. The methods that touch files block; they are called in threads."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._swept = -_SWEEP

    @property
    def _folder(self) -> Path:
        return self._host.store.uploads_dir()

    def offer(self, client: Client) -> Json:
        """For `_meta`: where this client writes, and how much."""
        uri = (self._folder / client.uploads).as_uri()
        return {UPLOADS: {"uri": f"{uri}/", "pieceBytes": PIECE, "maxBytes": LIMIT}}

    def find(self, path: str | None) -> Path | None:
        """The path, if it is one of an upload; None for any other."""
        if path is None:
            return None
        found = Path(path)
        is_one = _NAME.fullmatch(found.name) and _UUID.fullmatch(found.parent.name)
        return found if is_one and found.parent.parent == self._folder else None

    def write(self, client: Client, path: Path, data: bytes, params: Json) -> None:
        """A piece of a file. Raises `ProtocolError`, and `OSError`.

        With `truncate` (the default) and the piece's `position`, a piece may be sent again: one whose answer was lost.
        """
        mode, position = params.get("mode") or "truncate", params.get("position") or 0
        if mode == "insert" or (mode == "append" and position) or params.get("ifMatch") is not None:
            raise invalid_params(
                "An upload is written piece by piece: `truncate` with a `position`, or `append`."
            )
        if path.parent.name == client.uploads:  # only this client's is made: others have to be there
            for folder in (path.parent.parent, path.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
        size = self._size_if_room(path, position if mode != "append" else None, len(data))
        at = size if mode == "append" else position
        if at > size:
            raise invalid_params(f"A piece at {at} does not follow: {size} bytes of the file are here.")
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        if params.get("createOnly") is True:
            flags |= os.O_EXCL
        with open(os.open(path, flags, 0o600), "wb", buffering=0) as file:
            file.truncate(at)
            file.seek(at)
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                file.truncate(at)  # this piece can be sent again
                raise

    def _size_if_room(self, path: Path, position: int | None, added: int) -> int:
        """How large the file is, if the folder holds what is added at the position (None: its end). Raises `ProtocolError`."""
        with os.scandir(path.parent) as entries:
            sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}
        size = sizes.pop(path.name, 0)
        at = size if position is None else position
        if len(sizes) >= FILES or sum(sizes.values()) + at + added > LIMIT:
            raise _too_much()
        return size

    def delete(self, path: Path) -> None:
        """Somebody thought better of it. Raises `OSError`."""
        os.unlink(path)

    # ── what nobody took ─────────────────────────────────────────────────────────────────────────────────────
    async def sweep(self) -> None:
        """Remove what no message took in a day; looks now and then, however often it is called."""
        if time.monotonic() - self._swept < _SWEEP:
            return
        self._swept = time.monotonic()
        removed = await asyncio.to_thread(self._sweep)
        if removed:
            log.info("%d uploads that no message had taken in a day were removed", removed)

    def _sweep(self) -> int:
        removed = 0
        before = time.time() - KEPT
        try:
            folders = [one for one in self._folder.iterdir() if _UUID.fullmatch(one.name) and one.is_dir()]
        except OSError:
            return 0  # nobody ever uploaded
        for folder in folders:
            try:
                for path in folder.iterdir():
                    found = path.lstat()
                    if stat.S_ISREG(found.st_mode) and found.st_mtime < before:
                        path.unlink()
                        removed += 1
                if folder.stat().st_mtime < before:
                    folder.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    log.warning("Old uploads in %s were not removed: %s", folder, error)
        return removed


def new_name() -> str:
    """Of a client's folder: nobody guesses it."""
    return str(uuid.uuid4())


def _too_much() -> ProtocolError:
    return invalid_params(
        f"There is no room for this: a client's files that wait for their message are {LIMIT >> 20} MiB "
        f"and {FILES} files at most. Send the message, or delete some."
    )
