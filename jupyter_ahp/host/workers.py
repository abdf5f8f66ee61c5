"""Worker chats: what a tool call of a turn runs in a conversation of its own. W1 to W5, B8; AHP 4.1 to 4.3.

A worker's chat is a chat of its session like any other, and is kept like one. What is different: its one turn is run by
whoever runs the turn that spawned it, people only read it, and it goes with the chat that it works for. The call shows it
(`sink.Call`), its origin names the call. A worker of a worker is spawned by a call in that worker's chat.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..protocol import status, uris
from . import clock
from .ports import Json, TurnFailed, Worker
from .sink import ChatSink, Spawning
from .titles import title_of

if TYPE_CHECKING:
    from .chat import Chat
    from .session import Session

log = logging.getLogger(__name__)

READ_ONLY = "This chat is read-only: a worker's. Write to the chat that it works for."
NO_STOP = "This worker cannot be stopped by itself. Stop the turn that it works for."
_CANCELLED: Json = {"type": "chat/turnCancelled"}


def is_worker(summary: Json) -> bool:
    """Whether a chat is a worker's."""
    return bool((summary.get("origin") or {}).get("kind") == "tool")


def workers_of(session: Session, chat: str) -> Iterator[Chat]:
    """The chats of a chat's workers, and of theirs: each ahead of its own workers."""
    for summary in session.state["chats"]:
        if is_worker(summary) and summary["origin"].get("chat") == chat:
            yield session.chats[summary["resource"]]
            yield from workers_of(session, summary["resource"])


def _root(chat: Chat) -> str:
    """The chat that a worker works for in the end."""
    session, uri = chat.session, chat.uri
    while uri in session.chats and is_worker(summary := session.summary_of(uri)):
        uri = summary["origin"]["chat"]
    return uri


def _names(chat: Chat, asked: Spawning) -> Iterator[str]:
    """What a worker's chat may be called (W1). Some models number their calls anew in each turn: then by the turn, too."""
    older = uris.session_of_default_chat(chat.session.default_chat)
    root = _root(chat)
    for call in (asked.call_id, f"{asked.sink.turn_id}/{asked.call_id}"):
        yield uris.opaque_worker_chat_uri(root, call) if older is None else uris.worker_chat_uri(older, call)
    yield uris.new_chat_uri()


class Workers:
    """Those of one chat that run."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._run: list[_Worker] = []

    def spawn(self, asked: Spawning) -> Worker:
        """Open its chat: told of, its turn begun with the prompt, all in this tick (W3)."""
        chat = self._chat
        session = chat.session
        if asked.sink.over or chat.closed or session.closed or session.chats.get(chat.uri) is not chat:
            return _Unheard(asked)
        uri = next(name for name in _names(chat, asked) if not session.host.chat_taken(name))
        now = clock.now()
        summary: Json = {
            "status": status.IN_PROGRESS,  # as its turn makes it at once: so it is told of once
            "modifiedAt": now,
            "origin": {"kind": "tool", "chat": chat.uri, "toolCallId": asked.call_id},
            "interactivity": "read-only",
            "title": title_of(asked.title) or title_of(asked.prompt),
        }
        if "workingDirectories" in chat.summary:
            summary["workingDirectories"] = chat.summary["workingDirectories"]
        of = session.open_chat(uri, summary)
        of.publish(
            {
                "type": "chat/turnStarted",
                "turnId": str(uuid.uuid4()),
                "startedAt": now,
                "message": {"text": asked.prompt, "origin": {"kind": "agent"}},
            }
        )
        worker = _Worker(self, of, asked)
        self._run.append(worker)
        if asked.background:
            self._list(worker, asked.title)
        return worker

    def _list(self, worker: _Worker, label: str) -> None:
        work = {
            "id": worker.chat,
            "kind": "subagent",
            "chat": worker.chat,
            "label": label,
            "startedAt": clock.now(),
        }
        self._chat.publish({"type": "chat/backgroundWorkSet", "work": work})

    def gone(self, worker: _Worker) -> None:
        """It has ended."""
        self._run.remove(worker)
        if worker.background:
            self._chat.publish({"type": "chat/backgroundWorkRemoved", "id": worker.chat})

    @property
    def running(self) -> bool:
        return bool(self._run)

    # ── what ends them ───────────────────────────────────────────────────────────────────────────────────────
    def turn_ended(self, turn_id: str, *, stopped: bool) -> None:
        """Those that it spawned end with it; what runs in the background goes on, but behind a stop (B8)."""
        for worker in tuple(self._run):
            if worker.turn_id == turn_id and (stopped or not worker.background):
                worker.end(_CANCELLED, tell=worker.background)

    def turns_left(self, turn_ids: Iterable[str]) -> None:
        """The chat was rewound to these turns: what others of its turns spawned ends."""
        left = set(turn_ids)
        for worker in tuple(self._run):
            if worker.turn_id not in left:
                worker.end(_CANCELLED, tell=True)

    def end(self, part: Json | None = None) -> None:
        """Whoever ran them is gone: all end, stopped or with this error part."""
        for worker in tuple(self._run):
            worker.end(_CANCELLED if part is None else {"type": "chat/error", "part": part}, tell=False)


class _Worker(Worker):
    """One that runs, or ran."""

    def __init__(self, of: Workers, chat: Chat, asked: Spawning) -> None:
        self.chat = chat.uri
        self.background = asked.background
        self.turn_id = asked.sink.turn_id
        """The turn that spawned it."""
        self._turns = chat.turns
        self._sink = self._turns.adopt(gone=lambda: of.gone(self), stop=asked.stop)
        self.sink = self._sink

    def done(self) -> None:
        self._turns.end(self._sink, None)

    def failed(self, error: str, *, details: str | None = None) -> None:
        self._turns.end(self._sink, TurnFailed("workerFailed", error, details=details))

    def cancelled(self) -> None:
        self.end(_CANCELLED, tell=False)

    def end(self, end: Json, *, tell: bool) -> None:
        """End it by this action; `tell`: whoever runs it is to stop it."""
        self._turns.cut_short(self._sink, end, tell=tell)


class _Unheard(Worker):
    """Spawned by a turn that is over: nothing that it says reaches anybody (T5)."""

    def __init__(self, asked: Spawning) -> None:
        self.chat = f"ahp-chat:/{asked.call_id}"
        sink = ChatSink(asked.sink.turn_id, lambda action: None)
        sink.end()
        self.sink = sink

    def done(self) -> None:
        """Nobody is told."""

    def failed(self, error: str, *, details: str | None = None) -> None:
        """Nobody is told."""

    def cancelled(self) -> None:
        """Nobody is told."""
