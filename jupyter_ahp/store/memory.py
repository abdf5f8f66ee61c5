"""Sessions and chats in memory: for a host that lives as long as its notebook, and for tests."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from jupyter_ahp.host.ports import ChatRecord, Json, SessionRecord, Store, StoredChat, StoreError, Unreadable
from jupyter_ahp.store.disk import folder_name, remove_attachments, remove_but
from jupyter_ahp.store.documents import encode, turn_id


@dataclass(slots=True)
class _Chat:
    """Encoded, so that nothing kept is shared with a caller, and what could not be stored in a file fails here too."""

    record: bytes | None = None
    turns: list[tuple[str, bytes, str | None]] = field(default_factory=list)
    """Each with its id and its resume point."""
    active: tuple[str, bytes] | None = None
    actions: list[bytes] = field(default_factory=list)
    point: str | None = None
    """Of `active`."""
    runs: bool = False
    """`active` was begun since the store was opened, not left over from before."""


class MemoryStore(Store):
    """The contract is `Store`'s. What it holds survives `close` and a new `open`, not the object.

    What messages carry is in a temporary folder, which goes with the object, or with the process.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._open = False
        self._next = 1
        self._sessions: dict[str, bytes] = {}
        self._chats: dict[tuple[str, str], _Chat] = {}
        self._conversations: set[tuple[str, str]] = set()

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False
        for chat in self._chats.values():
            chat.runs = False

    async def reserve(self, count: int) -> int:
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        self._check()
        first = self._next
        self._next += count
        return first

    async def sessions(self) -> list[SessionRecord | Unreadable]:
        self._check()
        return [msgspec.json.decode(data, type=SessionRecord) for data in self._sessions.values()]

    async def claim(self, session_id: str) -> str | None:
        self._check()
        return None

    async def put_session(self, record: SessionRecord) -> None:
        self._check()
        self._sessions[record.id] = encode(record, f"The session {record.id}")

    async def delete_session(self, session_id: str, keep: Collection[str] = ()) -> None:
        self._check()
        self._sessions.pop(session_id, None)
        for key in [key for key in self._chats if key[0] == session_id]:
            del self._chats[key]
        if self._folder is not None:
            folder = self._folder / folder_name(session_id)
            await asyncio.to_thread(remove_but, folder, set(keep))

    async def delete_attachments(self, session_id: str, folders: Collection[str]) -> None:
        self._check()
        if self._folder is not None:
            where = self._folder / folder_name(session_id)
            await asyncio.to_thread(remove_attachments, where, folders)

    def attachments_dir(self, session_id: str) -> Path:
        folder = self._files() / folder_name(session_id)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / "attachments"

    def uploads_dir(self) -> Path:
        return self._files() / "uploads"

    def _files(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="jupyter-ahp-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    async def put_chat(self, session_id: str, record: ChatRecord) -> None:
        self._chat(session_id, record.uri).record = encode(record, f"The chat {record.uri}")

    async def load_chat(self, session_id: str, chat: str) -> StoredChat:
        kept = self._chat(session_id, chat)
        record = (
            ChatRecord(chat) if kept.record is None else msgspec.json.decode(kept.record, type=ChatRecord)
        )
        turns = kept.turns
        if kept.active is not None and turns and turns[-1][0] == kept.active[0]:
            turns = turns[:-1]  # the ending that was resumed
        points = {known: point for known, _, point in turns if point is not None}
        if kept.active is not None and kept.point is not None:
            points[kept.active[0]] = kept.point
        return StoredChat(
            record,
            [msgspec.json.decode(turn) for _, turn, _ in turns],
            None if kept.active is None else msgspec.json.decode(kept.active[1]),
            [msgspec.json.decode(action) for action in kept.actions],
            points,
        )

    async def delete_chat(self, session_id: str, chat: str) -> None:
        self._check()
        self._chats.pop((session_id, chat), None)

    async def begin_turn(self, session_id: str, chat: str, turn: Json) -> None:
        known = turn_id(turn)
        kept = self._chat(session_id, chat)
        kept.active = known, encode(turn, f"The turn {known}")
        kept.actions = []
        kept.point = None
        kept.runs = True

    def journal(self, session_id: str, chat: str, action: bytes) -> None:
        kept = self._chat(session_id, chat)
        if kept.runs:
            kept.actions.append(action)

    async def end_turn(self, session_id: str, chat: str, turn: Json) -> None:
        known = turn_id(turn)
        data = encode(turn, f"The turn {known}")
        kept = self._chat(session_id, chat)
        if kept.turns and kept.turns[-1][0] == known:
            kept.turns.pop()
        ran = kept.active is not None and kept.active[0] == known
        kept.turns.append((known, data, kept.point if ran else None))
        if ran:
            kept.active = None
            kept.actions = []
            kept.runs = False

    async def put_turns(
        self, session_id: str, chat: str, turns: Sequence[Json], points: Mapping[str, str] | None = None
    ) -> None:
        points = points or {}
        added = [
            (known := turn_id(turn), encode(turn, f"The turn {known}"), points.get(known)) for turn in turns
        ]
        self._chat(session_id, chat).turns += added

    async def put_point(self, session_id: str, chat: str, turn_id: str, point: str) -> None:
        kept = self._chat(session_id, chat)
        if kept.runs and kept.active is not None and kept.active[0] == turn_id:
            kept.point = point
            return
        for at in range(len(kept.turns) - 1, -1, -1):
            if kept.turns[at][0] == turn_id:
                kept.turns[at] = (*kept.turns[at][:2], point)
                return

    async def truncate(self, session_id: str, chat: str, keep: str | None) -> None:
        kept = self._chat(session_id, chat)
        if keep is None:
            kept.turns.clear()
            return
        for at in range(len(kept.turns) - 1, -1, -1):
            if kept.turns[at][0] == keep:
                del kept.turns[at + 1 :]
                return

    async def put_conversation(self, provider: str, memory: str) -> None:
        self._check()
        self._conversations.add((provider, memory))

    async def conversations(self) -> frozenset[tuple[str, str]]:
        self._check()
        return frozenset(self._conversations)

    def _check(self) -> None:
        if not self._open:
            raise StoreError("The store is not open.")

    def _chat(self, session_id: str, uri: str) -> _Chat:
        self._check()
        return self._chats.setdefault((session_id, uri), _Chat())
