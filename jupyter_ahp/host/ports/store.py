"""Where sessions and chats are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .wire import Json


@dataclass(slots=True)
class SessionRecord:
    """What is kept of a session beside its chats' turns: enough to list it and to open it."""

    id: str
    provider: str
    created_at: str
    """ISO 8601."""
    default_chat: str
    title: str = ""
    marks: int = 0
    """Its own status bits: IsRead 32, IsArchived 64."""
    directories: list[str] = field(default_factory=list)
    """URIs."""
    config: Json = field(default_factory=dict)
    chats: list[Json] = field(default_factory=list)
    """ChatSummary of each, in order."""
    last_turns: dict[str, str] = field(default_factory=dict)
    """By chat, the id of its last ended turn: what another chat can point at, known without reading any turns."""
    meta: Json = field(default_factory=dict)


@dataclass(slots=True)
class ChatRecord:
    """What is kept of a chat beside its summary and its turns."""

    uri: str
    draft: Json | None = None
    steering: Json | None = None
    queued: list[Json] = field(default_factory=list)
    memory: str | None = None
    """`Conversation.memory`; while `fork`, another chat's."""
    at: str | None = None
    """The resume point of `memory` at which its backend goes on (`Start.at`), until something is said behind it."""
    fork: bool = False
    """The backend is to begin a copy of `memory` (`Start.fork`), and has none of its own yet."""
    began: str | None = None
    """The turn with which `memory` began, if the chat had turns before it: what was said in those it was only told."""
    meta: Json = field(default_factory=dict)


@dataclass(slots=True)
class StoredChat:
    """A chat as read back."""

    record: ChatRecord
    turns: list[Json]
    """AHP `Turn`, oldest first."""
    active: Json | None = None
    """The `ActiveTurn` that ran when the last process ended, as it was at its start."""
    active_actions: list[Json] = field(default_factory=list)
    """What was reported of it, in order (chat actions), to be reduced onto it."""
    points: dict[str, str] = field(default_factory=dict)
    """By turn, the backend's name for where it ended (`TurnSink.resume_point`); of `active`, what was said while it ran."""
    problems: list[str] = field(default_factory=list)
    """What could not be read, for people: which line of which file, and that the rest is whole."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A session whose document cannot be read; nothing is written over it."""

    id: str
    path: str
    reason: str


class StoreError(Exception):
    """The store could not do what was asked; the message says what and why, for people."""


class Store(ABC):
    """Where sessions and chats are kept. Every awaited write is on disk (fsync) when it returns.

    Methods may be called from one event loop only and never block it; calls for one chat are made in order.
    """

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None:
        """Write what waits, release the locks."""

    @abstractmethod
    async def reserve(self, count: int) -> int:
        """Reserve `count` sequence numbers over all processes that share the store, for ever; returns the first."""

    @abstractmethod
    async def sessions(self) -> list[SessionRecord | Unreadable]:
        """Every session in the store, in no order; reads no turns."""

    async def session(self, session_id: str) -> SessionRecord | Unreadable | None:
        """One session as the store has it now; None: it is not there."""
        return next((found for found in await self.sessions() if found.id == session_id), None)

    @abstractmethod
    async def claim(self, session_id: str) -> str | None:
        """Take the session for this process. None when it is ours now; else who has it, in words."""

    @abstractmethod
    async def put_session(self, record: SessionRecord) -> None: ...

    @abstractmethod
    async def delete_session(self, session_id: str, keep: Collection[str] = ()) -> None:
        """The session, its chats and their turns. Unknown: nothing happens.

        `keep`: folders in its attachments that stay, since messages elsewhere name what is in them.
        """

    @abstractmethod
    async def delete_attachments(self, session_id: str, folders: Collection[str]) -> None:
        """Folders that stayed when the session was deleted. Unknown ones: nothing happens."""

    @abstractmethod
    def attachments_dir(self, session_id: str) -> Path:
        """Where the files live that a session's messages carry: an absolute path. It goes with the session.

        The folder is called `attachments`, and need not be there; the one that it is in is, once the session was put.
        """

    @abstractmethod
    def uploads_dir(self) -> Path:
        """Where clients put files that messages are to carry: an absolute path, on the file system of the attachments.

        The folder is called `uploads`, and need not be there; the one that it is in is.
        """

    @abstractmethod
    async def put_chat(self, session_id: str, record: ChatRecord) -> None: ...

    @abstractmethod
    async def load_chat(self, session_id: str, chat: str) -> StoredChat:
        """A chat that was never written is an empty one. Raises `StoreError` when it is there and cannot be read."""

    @abstractmethod
    async def delete_chat(self, session_id: str, chat: str) -> None: ...

    @abstractmethod
    async def begin_turn(self, session_id: str, chat: str, turn: Json) -> None:
        """A turn was accepted: its `ActiveTurn` (for a resumed one, with the parts that it has) begins the journal.

        It has no resume point until one is said.
        """

    @abstractmethod
    def journal(self, session_id: str, chat: str, action: bytes) -> None:
        """An encoded chat action of the running turn. Returns at once; is written (not fsynced) within 50 ms.

        Without a turn that was begun since `open`, it is not kept. Never raises for a failing disk (that is logged, and
        made good by `end_turn`), only `StoreError` when the store is not open.
        """

    @abstractmethod
    async def put_turns(
        self, session_id: str, chat: str, turns: Sequence[Json], points: Mapping[str, str] | None = None
    ) -> None:
        """Ended turns all at once, behind those that are there: what a fork copies, what a rewind gives back.

        `points`: their resume points, by turn.
        """

    @abstractmethod
    async def put_point(self, session_id: str, chat: str, turn_id: str, point: str) -> None:
        """Where a turn ended, kept beside it as long as it is there; for the running turn, while it runs (not fsynced).

        Of a turn that is not there, nothing is kept.
        """

    @abstractmethod
    async def end_turn(self, session_id: str, chat: str, turn: Json) -> None:
        """The running turn became this `Turn`; its journal is done with. A turn with the id of the last line replaces it.

        A turn of another id than the running one's is added, and the running one goes on. After a `StoreError` the turn
        is kept in memory and written with the next line that the disk takes.
        """

    @abstractmethod
    async def truncate(self, session_id: str, chat: str, keep: str | None) -> None:
        """Drop the turns after the one named, or all. A line in the journal; what was cut stays in the file.

        Nothing is dropped if the one named is not there.
        """

    @abstractmethod
    async def put_conversation(self, provider: str, memory: str) -> None:
        """A backend's conversation is, or was, a chat's of this store: kept for ever, whatever becomes of the chat (U9)."""

    @abstractmethod
    async def conversations(self) -> frozenset[tuple[str, str]]:
        """Provider and memory of all of them, those that other processes added included."""
