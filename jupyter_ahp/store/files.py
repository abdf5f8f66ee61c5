"""Sessions and chats in files: one folder a session, one a chat.

    data_dir/sequence.json, sequence.lock      the next free sequence number, for all processes
    data_dir/conversations.jsonl               backends' conversations that are, or were, a chat's: only grows
    data_dir/trash/                            what was deleted and is still being removed
    data_dir/sessions/<session>/session.json   the SessionRecord
                               /lock, owner.json         which process has it open
                               /attachments/             what its messages carry; the host's to fill
                               /chats/<chat>/            see `jupyter_ahp.store.journal`

Folder names are made from ids by `disk.folder_name`: a client's id never chooses a path. Folders and files are the
owner's only. Home directories of a hub are on network drives, where a database's locks are not safe; hence files.

Nothing blocks the event loop: what is to be written is encoded at the call and handed to a thread. A session has one
thread, of a few, so what is written of a session is written in the order of the calls, and sessions seldom wait for
each other. A call that was made is carried out, also when the task that awaits it is cancelled.

The running turn's actions are gathered and written together (`FLUSH_SECONDS`): an action costs the loop one append to
a list. They reach the system's cache, which survives the death of this process; only a turn's end is synced.
"""

from __future__ import annotations

import asyncio
import logging
import os
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from jupyter_ahp.host.ports import ChatRecord, Json, SessionRecord, Store, StoredChat, StoreError, Unreadable
from jupyter_ahp.store import documents
from jupyter_ahp.store.disk import (
    LineFile,
    because,
    discard,
    folder_name,
    make_private,
    purge,
    remove_attachments,
    remove_but,
    write_whole,
)
from jupyter_ahp.store.journal import ChatFiles
from jupyter_ahp.store.locks import SessionLocks, reserve

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

FLUSH_SECONDS = 0.04
"""How long a journalled action may wait for others; with the way through the thread, within the promised 50 ms."""
WRITERS = 4
_CONVERSATIONS = "conversations.jsonl"


@dataclass(slots=True, eq=False)
class _Chat:
    files: ChatFiles
    writer: ThreadPoolExecutor
    waiting: list[bytes] = field(default_factory=list)
    """Actions of the running turn that are not handed to the thread yet."""


class FileStore(Store):
    """The contract is `Store`'s; every method but `journal` raises StoreError, with words, for a disk that fails.

    `data_dir` is made if it is not there (its parents too). Several stores, in this process or others, may share it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._root = data_dir
        self._sessions = data_dir / "sessions"
        self._trash = data_dir / "trash"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writers: list[ThreadPoolExecutor] = []
        self._locks = SessionLocks()
        self._chats: dict[tuple[str, str], _Chat] = {}
        self._dirty: list[_Chat] = []
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        if self._loop is not None:
            raise StoreError(f"The store in {self._root} is open already.")
        try:
            await asyncio.to_thread(self._make_folders)
        except OSError as error:
            raise StoreError(f"Chats cannot be kept in {self._root}: {because(error)}.") from error
        self._writers = [ThreadPoolExecutor(1, "ahp-store") for _ in range(WRITERS)]
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        if self._loop is None:
            return
        self._flush()
        self._loop = None
        chats, self._chats = self._chats, {}
        failures = []
        try:
            for (_, uri), chat in chats.items():
                try:
                    await self._do(
                        chat.writer, f"The last turns of {uri} could not be saved", chat.files.close
                    )
                except StoreError as error:
                    failures.append(str(error))
        finally:
            await asyncio.to_thread(self._stop)
        if failures:
            raise StoreError("\n".join(failures))

    async def reserve(self, count: int) -> int:
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        self._running_loop()
        try:
            return await asyncio.to_thread(reserve, self._root, count)
        except OSError as error:
            raise StoreError(f"No sequence numbers could be taken: {because(error)}.") from error

    # ── Sessions
    async def sessions(self) -> list[SessionRecord | Unreadable]:
        self._running_loop()
        try:
            return await asyncio.to_thread(_list, self._sessions)
        except OSError as error:
            raise StoreError(f"The sessions could not be listed: {because(error)}.") from error

    async def session(self, session_id: str) -> SessionRecord | Unreadable | None:
        folder = self._folder(session_id)
        return await self._do(
            self._writer(session_id), f"The session {session_id} could not be read", lambda: _session(folder)
        )

    async def claim(self, session_id: str) -> str | None:
        folder = self._folder(session_id)
        return await self._do(
            self._writer(session_id),
            f"The session {session_id} could not be opened for writing",
            lambda: self._locks.claim(folder),
        )

    async def put_session(self, record: SessionRecord) -> None:
        what = f"The session {record.id}"
        path = self._folder(record.id) / "session.json"
        data = documents.encode(record, what)

        def put() -> None:
            make_private(path.parent)
            try:
                old = documents.read(path)
            except documents.Damaged as damage:
                raise StoreError(
                    f"{what} was not saved: nothing is written over {path}, since {damage}."
                ) from damage
            write_whole(path, documents.replacement(data, SessionRecord, old))

        await self._do(self._writer(record.id), f"{what} could not be saved", put)

    async def delete_session(self, session_id: str, keep: Collection[str] = ()) -> None:
        folder = self._folder(session_id)
        chats = [self._forget(key) for key in list(self._chats) if key[0] == session_id]
        kept = set(keep)

        def delete() -> None:
            if not folder.exists():
                return
            if refusal := self._locks.claim(folder):
                raise StoreError(f"The session {session_id} was not deleted. {refusal} Delete it there.")
            for chat in chats:
                chat.files.abandon()
            if os.name == "nt":  # where a folder with an open file cannot be moved
                self._locks.release(folder)
            if kept:
                remove_but(folder, kept, self._trash)
            else:
                discard(folder, self._trash)
            self._locks.release(folder)

        await self._do(self._writer(session_id), f"The session {session_id} could not be deleted", delete)

    async def delete_attachments(self, session_id: str, folders: Collection[str]) -> None:
        folder = self._folder(session_id)
        await self._do(
            self._writer(session_id),
            f"Attachments of the session {session_id} could not be deleted",
            lambda: remove_attachments(folder, folders),
        )

    def attachments_dir(self, session_id: str) -> Path:
        return self._folder(session_id).absolute() / "attachments"

    def uploads_dir(self) -> Path:
        return self._root.absolute() / "uploads"

    # ── Chats
    async def put_chat(self, session_id: str, record: ChatRecord) -> None:
        data = documents.encode(record, f"The chat {record.uri}")
        await self._write(session_id, record.uri, "could not be saved", lambda files: files.put(data))

    async def load_chat(self, session_id: str, chat: str) -> StoredChat:
        return await self._write(session_id, chat, "could not be read", lambda files: files.load())

    async def delete_chat(self, session_id: str, chat: str) -> None:
        self._chat(session_id, chat)
        gone = self._forget((session_id, chat))
        await self._do(
            gone.writer, f"The chat {chat} could not be deleted", lambda: gone.files.delete(self._trash)
        )

    async def begin_turn(self, session_id: str, chat: str, turn: Json) -> None:
        turn_id = documents.turn_id(turn)
        data = documents.encode(turn, f"The turn {turn_id}")
        await self._write(
            session_id, chat, "did not take the message", lambda files: files.begin(turn_id, data)
        )

    def journal(self, session_id: str, chat: str, action: bytes) -> None:
        target = self._chat(session_id, chat)
        if not target.waiting:
            self._dirty.append(target)
        target.waiting.append(action)
        if self._timer is None:
            self._timer = self._running_loop().call_later(FLUSH_SECONDS, self._flush)

    async def end_turn(self, session_id: str, chat: str, turn: Json) -> None:
        turn_id = documents.turn_id(turn)
        data = documents.encode(turn, f"The turn {turn_id}")
        await self._write(
            session_id,
            chat,
            "has a turn that ended and could not be saved",
            lambda files: files.end(turn_id, data),
        )

    async def put_turns(
        self, session_id: str, chat: str, turns: Sequence[Json], points: Mapping[str, str] | None = None
    ) -> None:
        data = _encoded(turns, points or {})
        await self._write(
            session_id, chat, "has turns that could not be saved", lambda files: files.add(data)
        )

    async def put_point(self, session_id: str, chat: str, turn_id: str, point: str) -> None:
        await self._write(
            session_id,
            chat,
            "has a resume point that could not be saved",
            lambda files: files.point(turn_id, point),
        )

    async def truncate(self, session_id: str, chat: str, keep: str | None) -> None:
        await self._write(
            session_id, chat, "was rewound, which could not be saved", lambda files: files.truncate(keep)
        )

    # ── Conversations of backends
    async def put_conversation(self, provider: str, memory: str) -> None:
        line = documents.encode({"provider": provider, "memory": memory}, "A conversation's name") + b"\n"

        def put() -> None:
            file = LineFile(self._root / _CONVERSATIONS)
            try:
                file.append(line, sync=True)
            finally:
                file.close()

        self._running_loop()
        await self._do(self._writers[0], "The name of a conversation could not be saved", put)

    async def conversations(self) -> frozenset[tuple[str, str]]:
        path = self._root / _CONVERSATIONS
        self._running_loop()
        return await self._do(
            self._writers[0], "The names of conversations could not be read", lambda: _conversations(path)
        )

    # ── Threads
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise StoreError(f"The store in {self._root} is not open.")
        return self._loop

    def _folder(self, session_id: str) -> Path:
        return self._sessions / folder_name(session_id)

    def _writer(self, session_id: str) -> ThreadPoolExecutor:
        """The thread of a session: all that is written of it, and all that is read of its turns, is done there."""
        self._running_loop()
        return self._writers[zlib.crc32(session_id.encode("utf-8", "surrogatepass")) % WRITERS]

    def _chat(self, session_id: str, uri: str) -> _Chat:
        self._running_loop()
        chat = self._chats.get((session_id, uri))
        if chat is None:
            folder = self._folder(session_id) / "chats" / folder_name(uri)
            chat = self._chats[session_id, uri] = _Chat(ChatFiles(folder, uri), self._writer(session_id))
        return chat

    def _forget(self, key: tuple[str, str]) -> _Chat:
        """For a deletion: what is called after it begins anew."""
        chat = self._chats.pop(key)
        chat.waiting.clear()
        return chat

    async def _write(self, session_id: str, uri: str, failed: str, work: Callable[[ChatFiles], _T]) -> _T:
        """Work on a chat's files, after what was journalled before."""
        chat = self._chat(session_id, uri)
        self._hand_over(chat)
        return await self._do(chat.writer, f"The chat {uri} {failed}", lambda: work(chat.files))

    async def _do(self, writer: ThreadPoolExecutor, failed: str, work: Callable[[], _T]) -> _T:
        try:
            # Shielded: a cancelled caller must not leave out one write of several.
            return await asyncio.shield(asyncio.wrap_future(writer.submit(work)))
        except OSError as error:
            raise StoreError(f"{failed}: {because(error)}.") from error

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dirty, self._dirty = self._dirty, []
        for chat in dirty:
            self._hand_over(chat)

    def _hand_over(self, chat: _Chat) -> None:
        if chat.waiting:
            actions, chat.waiting = chat.waiting, []
            chat.writer.submit(chat.files.write, actions).add_done_callback(_report)

    def _make_folders(self) -> None:
        self._root.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self._root, self._sessions, self._trash):
            make_private(folder)
        purge(self._trash)

    def _stop(self) -> None:
        self._locks.release_all()
        for writer in self._writers:
            writer.shutdown()


def _report(done: Future[None]) -> None:
    # `ChatFiles.write` says itself what a failing disk costs; anything else is a fault of ours.
    if error := done.exception():
        _log.error("A part of a running turn was not saved", exc_info=error)


def _list(sessions: Path) -> list[SessionRecord | Unreadable]:
    return [found for folder in sessions.iterdir() if (found := _session(folder)) is not None]


def _session(folder: Path) -> SessionRecord | Unreadable | None:
    """What a session's folder holds; None for one that holds nothing yet (claimed and not written, or no folder)."""
    path = folder / "session.json"
    document: Json | None = None
    try:
        document = documents.read(path)
        if document is None:
            if not any(folder.glob("chats/*/turns.jsonl")):
                return None
            raise documents.Damaged("it is missing, though turns of its chats are there")
        if not _belongs(document, folder):
            raise documents.Damaged(f"it is the document of another session, {document.get('id')}")
        return documents.to_record(document, SessionRecord)
    except NotADirectoryError:
        return None
    except OSError as error:
        reason = because(error)
    except documents.Damaged as damage:
        reason = str(damage)
        document = damage.document
    _log.warning("The session in %s cannot be read: %s", folder, reason)
    session_id = document["id"] if document and _belongs(document, folder) else folder.name
    return Unreadable(session_id, str(path), reason)


def _belongs(document: Json, folder: Path) -> bool:
    session_id = document.get("id")
    return isinstance(session_id, str) and folder_name(session_id) == folder.name


def _encoded(turns: Sequence[Json], points: Mapping[str, str]) -> list[tuple[bytes, str | None]]:
    known = [documents.turn_id(turn) for turn in turns]
    return [
        (documents.encode(turn, f"The turn {name}"), points.get(name))
        for name, turn in zip(known, turns, strict=True)
    ]


class _Conversation(msgspec.Struct):
    provider: str
    memory: str


def _conversations(path: Path) -> frozenset[tuple[str, str]]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return frozenset()
    found = set()
    for line in lines:
        try:
            read = msgspec.json.decode(line, type=_Conversation)
        except (msgspec.DecodeError, ValueError):
            # A crash tore it: that conversation may be listed beside the chat that had it.
            _log.warning("A line of %s cannot be read: %r", path, line[:200])
        else:
            found.add((read.provider, read.memory))
    return frozenset(found)
