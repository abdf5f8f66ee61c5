"""One chat: an actor that admits what arrives for it in order, and says what changes.

T7, T8, D1 to D3, W3. What is admitted is on disk before it is said (a turn's message), or within a second (a draft, a mark).
The chat's state changes by actions alone, and only here: `starting` has how turns begin and stop, `turns` what runs, `waiting`
what waits behind it, `answers` what people say to what a turn asks, `rewinding` what drops turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..protocol import status
from ..protocol.errors import (
    INTERNAL_ERROR,
    ProtocolError,
    channel_not_found,
)
from ..protocol.meta import runs_here
from ..protocol.reducers import REDUCERS
from ..protocol.validate import rejection
from . import clock, directories, rewind
from .answers import Answers
from .arrivals import Arrival, Occasion, Refused, is_duration, origin_of, stamp
from .channels import ChatChannel
from .envelope import STREAMED, Envelope
from .events import CALL_ENDS
from .memory import Memory
from .pending import Cause
from .ports import ChatRecord, Json, StoreError
from .recovery import restore
from .rewinding import Rewinding
from .saver import Saver
from .snapshots import Snapshots
from .starting import Starting
from .turns import Turns
from .waiting import Waiting
from .workers import READ_ONLY, Workers, is_worker

if TYPE_CHECKING:
    from .connection import Connection
    from .session import Session

log = logging.getLogger(__name__)

# What the running turn's journal holds: the actions that name a turn, and these.
_OF_THE_TURN = {"chat/inputRequested", "chat/inputAnswerChanged", "chat/inputCompleted"}
_OF_THE_CHAT = {"chat/turnStarted", "chat/turnResume", "chat/truncated"}
_TURNING = _OF_THE_CHAT | {"chat/turnComplete", "chat/error", "chat/turnCancelled"}

_OF_PEOPLE = {"chat/turnStarted", "chat/turnResume", "chat/pendingMessageSet"}
"""What makes a chat go on: not in one that people only read (W3)."""


class Chat:
    """Known by its summary in the session; its turns are read when somebody needs them."""

    def __init__(self, session: Session, uri: str) -> None:
        self.session = session
        self.uri = uri
        self.hub = session.host.hub
        self.store = session.host.store
        self.channel: ChatChannel | None = None
        self.record = ChatRecord(uri)
        self.memory = Memory(self)
        self.workers = Workers(self)
        self.turns = Turns(self)
        self.snapshots = Snapshots(self)
        self.saver = Saver(f"Chat {uri}", self._save)
        self.touched = clock.monotonic_ms()
        """When it was last asked for, or busy."""
        self._loading = asyncio.Lock()
        self.waiting = Waiting(self)
        self.starting = Starting(self)
        self.answers = Answers(self)
        self.rewinding = Rewinding(self)
        self._inbox: asyncio.Queue[Arrival | Occasion] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self.admitting = asyncio.Lock()
        """Held by whoever admits: one thing at a time, awaits included."""
        self._closed = False
        self.during: str | None = None
        """The turn that ran when the action that is being admitted came."""
        self._turnings = 0
        """How often a turn began, ended or was dropped."""
        self._offering = False
        """A steering message is to be handed over: every action of the turn is an occasion (G1)."""
        self._offered = False
        """The next occasion is in the inbox."""
        self._admits: dict[str, Callable[[Connection, int, Json], Awaitable[None]]] = {
            "chat/turnStarted": self.starting.turn_started,
            "chat/turnResume": self.starting.turn_resumed,
            "chat/turnCancelled": self.starting.turn_cancelled,
            "chat/toolCallConfirmed": self.answers.call_confirmed,
            "chat/toolCallComplete": self.answers.client_says,
            "chat/toolCallContentChanged": self.answers.client_says,
            "chat/toolCallResultConfirmed": self.answers.result_confirmed,
            "chat/inputAnswerChanged": self.answers.answer_changed,
            "chat/inputCompleted": self.answers.input_completed,
            "chat/draftChanged": self._draft_changed,
            "chat/isReadChanged": self._mark_changed,
            "chat/isArchivedChanged": self._mark_changed,
            "chat/pendingMessageSet": self.waiting.pending_set,
            "chat/pendingMessageRemoved": self.waiting.pending_changed,
            "chat/queuedMessagesReordered": self.waiting.pending_changed,
            "chat/truncated": self.rewinding.truncated,
            "session/titleChanged": self._title_changed,
            directories.CHAT_SET: self._directories_changed,
            directories.CHAT_REMOVED: self._directories_changed,
        }

    # ── state ────────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def summary(self) -> Json:
        return self.session.summary_of(self.uri)

    async def loaded(self) -> ChatChannel:
        """Its channel, with its turns read. Raises `ProtocolError` when they are there and cannot be read."""
        self.touched = clock.monotonic_ms()
        await self.session.open()
        async with self._loading:
            if self.channel is None:
                await self._load()
        assert self.channel is not None
        return self.channel

    async def _load(self) -> None:
        elsewhere = self.session.read_only is not None
        try:
            if self.session.found is not None:
                stored = await self.session.host.catalogue.transcript(self.session)
            else:
                stored = await self.store.load_chat(self.session.id, self.uri)
        except StoreError as error:
            raise ProtocolError(INTERNAL_ERROR, f"This chat could not be read: {error}") from error
        if self._closed:
            raise channel_not_found(self.uri)
        written = stored.record
        state, recovered = restore(self.summary, stored, elsewhere=elsewhere)
        self.record = stored.record
        self.memory.restore(stored.points, stored.turns, mended=stored.record.meta != written.meta)
        state |= self.session.host.canvases.listed(self.uri)
        self._show_as(state)
        if not elsewhere and self.session.found is None and not self.summary["title"]:
            self._name_again()
        if self.record != written and not elsewhere:
            self.saver.soon()
        if recovered is not None and not elsewhere:
            try:
                await self.store.end_turn(self.session.id, self.uri, recovered)
            except StoreError as error:  # it is recovered again at the next start
                log.warning("What was running in %s is shown but could not be stored: %s", self.uri, error)

    def _name_again(self) -> None:
        """A name is on disk a little later than the turn that gave it: a crash may have lost it (T8)."""
        said = [
            turn["message"] for turn in self.state["turns"] if turn["message"]["origin"]["kind"] == "user"
        ]
        if said:
            self.starting.name_after(next((message for message in said if not runs_here(message)), said[0]))

    def begin_anew(self) -> None:
        """It is new, and nothing was ever written of it: its channel is there at once."""
        self._show_as({**self.summary, "turns": []})

    def _show_as(self, state: Json) -> None:
        self.channel = ChatChannel(self.uri, state, provider=self.session.provider)
        self.channel.overlay = self._overlay
        self._mirror()

    def _overlay(self) -> Json:
        """What a snapshot shows that no action carries."""
        meta = {**(self.state.get("_meta") or {}), **rewind.offer(self.record)}
        return {"title": self.summary["title"], **({"_meta": meta} if meta else {})}

    @property
    def state(self) -> Json:
        assert self.channel is not None, "loaded before it is used"
        return self.channel.state

    def after(self, action: Json) -> Json:
        """What the action would make of the state."""
        state: Json = REDUCERS["chat"](self.state, action)
        return state

    def publish(self, action: Json, origin: Json | None = None) -> Envelope:
        """Reduce, send, write down: the one way in which a chat changes."""
        channel = self.channel
        assert channel is not None, "loaded before it is used"
        kind = action["type"]
        before = channel.state if kind in _TURNING else None
        envelope = self.hub.publish(channel, action, origin)
        if before is not None and channel.state is not before:
            self._turnings += 1
        is_taken_out = kind == "chat/pendingMessageRemoved" and origin is None  # by the turn, or by its stop
        if (
            self.turns.journalled
            and ("turnId" in action or kind in _OF_THE_TURN or is_taken_out)
            and kind not in _OF_THE_CHAT
        ):
            try:
                self.turns.journal(envelope.action_bytes)
            except StoreError as error:  # it was said; the turn's end writes the whole turn
                log.warning("What streams in %s is not written down: %s", self.uri, error)
        if kind not in STREAMED:
            if kind in CALL_ENDS:
                self.session.host.extensions.events.call_ended(self, action)
            self._mirror()
            self._offering = self.waiting.offers
        if self._offering and not self._offered:
            self._offered = True
            self._put(Occasion("reported", self._turnings))
        if self.session.work is not None:
            self.session.work.said(self, action)
        return envelope

    def _mirror(self) -> None:
        """What of this state the session's catalogue and its `inputNeeded` show (AHP 3.3, 3.5)."""
        self.session.chat_changed(self)

    # ── the actor ────────────────────────────────────────────────────────────────────────────────────────────
    def admit(self, sender: Connection, client_seq: int, action: Json) -> None:
        """Take an action in; it is answered in its turn by an echo to all, or a refusal to its sender.

        A stop of the turn that runs does not wait behind a message whose attachments are still being fetched.
        """
        if action["type"] == "chat/turnCancelled":
            if not is_duration(action.get("duration")):
                action["duration"] = self.turns.duration()
            runs = self.turns.running and self.runs
            is_sound = runs and runs == action.get("turnId") and rejection(action, "chat") is None
            if is_sound and self.turns.can_stop:
                self.starting.stop(sender, client_seq, action)
                return
        self._put(Arrival(sender, client_seq, action, self.runs))

    @property
    def runs(self) -> str | None:
        """The id of the turn that runs."""
        return self.channel.running if self.channel is not None else None

    def go_on(self, cause: Cause) -> None:
        """Something happened behind which a waiting message may start, once what arrived before is admitted."""
        self._put(Occasion(cause, self._turnings))

    def _put(self, item: Arrival | Occasion) -> None:
        if self._closed:
            return  # on no channel any more (AHP 1.8)
        self._inbox.put_nowait(item)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            while not self._inbox.empty() and not self._closed:
                item = self._inbox.get_nowait()
                async with self.admitting:
                    if isinstance(item, Arrival):
                        self.during = item.during
                        await self._answer(item.sender, item.client_seq, item.action)
                    else:
                        await self._go_on(item)
        finally:
            self._worker = None

    async def _go_on(self, occasion: Occasion) -> None:
        if occasion.cause == "reported":
            self._offered = False
        # What has turned since is behind it now: a stop in between, say, starts nothing (Q4).
        is_past = occasion.turnings != self._turnings
        try:
            await self.waiting.go_on("reported" if is_past else occasion.cause)
            self._offering = self.waiting.offers
        except (Refused, StoreError) as error:
            self.session.say_problem(f"A waiting message was not started, and still waits: {error}")
        except Exception:
            log.exception("A waiting message of %s was not started, and still waits", self.uri)

    async def _answer(self, sender: Connection, client_seq: int, action: Json) -> None:
        try:
            await self._admit(sender, client_seq, action)
        except Refused as refusal:
            sender.reject(self.uri, action, client_seq, str(refusal))
        except (ProtocolError, StoreError) as error:
            sender.reject(self.uri, action, client_seq, f"Not done: {error}")
        except Exception as error:
            log.exception("%s on %s failed", action.get("type"), self.uri)
            sender.reject(self.uri, action, client_seq, f"Not done: {type(error).__name__}: {error}")

    async def _admit(self, sender: Connection, client_seq: int, action: Json) -> None:
        kind = action["type"]
        problem = rejection(action, "chat")
        if problem is not None:
            raise Refused(problem)
        admit = self._admits.get(kind)
        if admit is None:
            raise Refused(f"This host does not act on {kind}.")
        await self.loaded()
        await self.session.take()
        if self.session.read_only is not None:
            raise Refused(self.session.read_only)
        if kind in _OF_PEOPLE and is_worker(self.state):
            raise Refused(READ_ONLY)
        await admit(sender, client_seq, action)

    def echo(self, sender: Connection, client_seq: int, action: Json) -> None:
        sender.took(client_seq, self.publish(action, origin_of(sender, client_seq)))

    def show(self, turn_id: str) -> None:
        """An action that names this turn is said next: watchers whose view begins behind it are given it first (AHP 4.9).

        In one tick with that action, or somebody begins to watch in between who has not been given it.
        """
        assert self.channel is not None, "loaded before it is used"
        page = self.channel.page_to_show(turn_id)
        if page is not None:
            self.publish(page)

    # ── drafts, marks, title ─────────────────────────────────────────────────────────────────────────────────
    async def _draft_changed(self, sender: Connection, client_seq: int, action: Json) -> None:
        draft = action.get("draft")
        if draft is not None:
            draft = {**draft, "_meta": {**(draft.get("_meta") or {}), **stamp(sender)}}
            action = {**action, "draft": draft}
            self.session.use()
        self.echo(sender, client_seq, action)
        self.record.draft = draft
        self.saver.soon()

    def set_draft(self, draft: Json) -> None:
        """Words that would be lost are the draft, for whoever opens the chat."""
        self.publish({"type": "chat/draftChanged", "draft": draft})
        self.record.draft = draft
        self.saver.soon()

    async def _mark_changed(self, sender: Connection, client_seq: int, action: Json) -> None:
        self.echo(sender, client_seq, action)

    async def _directories_changed(self, sender: Connection, client_seq: int, action: Json) -> None:
        directories.check_of_chat(self.session, action)
        self.echo(sender, client_seq, action)
        self.session.use()

    def changed_elsewhere(self, actions: list[Json]) -> None:
        """What a change of its session changes for this chat, loaded or not."""
        if self.channel is None:
            state: Json = {**self.summary, "turns": []}
            for action in actions:
                state = REDUCERS["chat"](state, action)
            self.session.summary_changed(self.uri, {"workingDirectories": state["workingDirectories"]})
            return
        for action in actions:
            self.publish(action)

    async def _title_changed(self, sender: Connection, client_seq: int, action: Json) -> None:
        self.echo(sender, client_seq, action)
        self.session.rename_chat(self, action["title"])

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def _save(self) -> None:
        await self.store.put_chat(self.session.id, self.record)

    async def known_record(self) -> ChatRecord | None:
        """Its record, read for this alone if it is not loaded; None if it cannot be read."""
        if self.channel is not None:
            return self.record
        try:
            return (await self.store.load_chat(self.session.id, self.uri)).record
        except StoreError as error:
            log.warning("%s could not be looked into: %s", self.uri, error)
            return None

    @property
    def closed(self) -> bool:
        """Nothing is taken in any more."""
        return self._closed

    @property
    def idle(self) -> bool:
        """Nobody watches, nothing runs, nothing waits."""
        watched = self.channel is not None and self.channel.watched
        busy = self.turns.busy or self.workers.running or self._worker is not None or self.admitting.locked()
        return not watched and not busy

    async def read_again(self) -> None:
        """It was another server's: if that one wrote in it, whoever watches comes back for what is there now.

        Raises `StoreError`.
        """
        async with self._loading:
            if self.channel is None:
                return
            stored = await self.store.load_chat(self.session.id, self.uri)
            held = self.state
            if stored.active is None and stored.record == self.record and stored.turns == held["turns"]:
                return
            channel, self.channel = self.channel, None
            for watcher in channel.watchers:
                watcher.send_away("this chat was changed by another server: reconnect for a snapshot")

    def stale(self) -> None:
        """It was changed elsewhere: read it again when somebody asks for it, unless somebody looks at it now."""
        if self.idle:
            self.channel = None

    @asynccontextmanager
    async def at_rest(self) -> AsyncIterator[None]:
        """Meanwhile nothing is admitted, and the backend has let go of the chat."""
        async with self.admitting:
            await self.turns.close()
            yield

    async def unload(self) -> None:
        """Keep nothing of an idle chat in memory but its summary."""
        asked = self.touched
        await self.turns.close()
        try:
            await self.saver.flush()
        except StoreError:
            return  # it waits to be saved, and is tried again
        async with self._loading:
            if self.idle and self.touched == asked:
                self.channel = None

    async def close(self, *, gone: bool = False) -> None:
        """End what runs; what is being admitted is let through, what waits behind it is not.

        `gone`: the chat is to be deleted, so nothing more is written of it.
        """
        self._closed = True
        self.snapshots.give_up()
        if self.starting.first is not None:
            await asyncio.wait([self.starting.first])
        async with self.admitting:
            if gone:
                self.turns.drop()
                self.saver.drop()
        await self.turns.close()
        await self.saver.close()


def empty_summary(uri: str, *, title: str = "", origin: Json | None = None) -> Json:
    """The `ChatSummary` of a new chat."""
    summary: Json = {
        "resource": uri,
        "title": title,
        "status": status.IDLE | status.IS_READ,
        "modifiedAt": clock.now(),
        "origin": origin or {"kind": "user"},
    }
    return summary
