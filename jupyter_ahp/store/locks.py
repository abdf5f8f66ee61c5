"""What processes that share a store agree on: who has a session open, and which sequence numbers are whose.

Both hold a lock of the operating system (`filelock`), which the death of a process releases.
"""

from __future__ import annotations

import logging
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from jupyter_ahp.host.ports import StoreError
from jupyter_ahp.store import documents
from jupyter_ahp.store.disk import because, make_private, write_whole

_log = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0
"""How long a process waits for another that is taking sequence numbers, which takes milliseconds."""


class SessionLocks:
    """The sessions that this process has claimed. Calls for one session come from one thread at a time."""

    def __init__(self) -> None:
        self._held: dict[Path, FileLock] = {}

    def claim(self, folder: Path) -> str | None:
        """Take the session of this folder. None when it is ours; else who has it. Raises OSError, StoreError."""
        if folder in self._held:
            return None
        make_private(folder)
        lock = _lock(folder / "lock", 0)
        owner = folder / "owner.json"
        try:
            _acquire(lock)
        except Timeout:
            return f"It is open in another server: {_name_of(owner)}."
        self._held[folder] = lock
        try:
            write_whole(owner, msgspec.json.encode(_we()))
        except OSError as error:
            # The lock counts, this file only names its holder.
            _log.warning("Another server that is refused this session cannot be told why: %s", because(error))
        return None

    def release(self, folder: Path) -> None:
        lock = self._held.pop(folder, None)
        if lock is None:
            return
        try:
            (folder / "owner.json").unlink(missing_ok=True)
        except OSError as error:
            _log.warning("%s names an owner that has left: %s", folder, because(error))
        lock.release()

    def release_all(self) -> None:
        for folder in list(self._held):
            self.release(folder)


def reserve(folder: Path, count: int) -> int:
    """Take `count` sequence numbers that no process was ever given; returns the first. Raises OSError, StoreError.

    The numbers begin at 1 and only rise: what is taken is on disk before it is returned, and a process that dies in
    between costs numbers, never gives one twice.
    """
    path = folder / "sequence.json"
    lock = _lock(folder / "sequence.lock", PATIENCE_SECONDS)
    try:
        _acquire(lock)
    except Timeout:
        raise StoreError(
            f"No sequence numbers: another process has held {lock.lock_file} for {PATIENCE_SECONDS:.0f} seconds. "
            "If it hangs, end it."
        ) from None
    try:
        document = documents.read(path)
        first = 1 if document is None else document.get("next")
        if not isinstance(first, int) or first < 1:
            raise documents.Damaged("it is damaged: it has no number")
        write_whole(path, documents.encode({"version": documents.VERSION, "next": first + count}, "A number"))
    except documents.Damaged as damage:
        raise StoreError(
            f"No sequence numbers: {damage} ({path}). Restore it, or write a greater number than clients have seen."
        ) from damage
    finally:
        lock.release()
    return first


def _lock(path: Path, patience: float) -> FileLock:
    return FileLock(path, timeout=patience, mode=0o600, thread_local=False)


def _acquire(lock: FileLock) -> None:
    try:
        lock.acquire(poll_interval=0.01)
    except NotImplementedError as error:
        raise StoreError(
            f"{lock.lock_file} cannot be locked: its file system has no locks. Set AHPExtension.data_dir to a folder on "
            "another one."
        ) from error


def _we() -> dict[str, object]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"version": documents.VERSION, "pid": os.getpid(), "host": platform.node(), "since": now}


def _name_of(owner: Path) -> str:
    try:
        who = documents.read(owner) or {}
    except (OSError, documents.Damaged):
        who = {}
    if not {"pid", "host", "since"} <= who.keys():
        return "which one could not be read"
    return f"process {who['pid']} on {who['host']}, since {who['since']}"
