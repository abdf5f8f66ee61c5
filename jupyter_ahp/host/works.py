"""Sessions in which one agent of the host works for another one's chat. B16; S3, X1, X3.

Such a session is an ordinary one, stored, claimed and recovered like all others, but for this: it is in no list and no
client reaches it, so the rights of the chat that it works for are all that counts. What its agent is offered (tools,
approvals) is that chat's. Whoever it works for hears its actions (`Chat.publish`) and answers in people's stead.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ..protocol import status, uris
from ..protocol.errors import ProtocolError
from ..protocol.meta import PENDING_ID
from . import clock
from .arrivals import Refused
from .branching import Branch
from .chat import Chat
from .inputs import find_call, find_request
from .memory import Held, retold
from .pending import can_resume
from .ports import (
    Answer,
    Confirmation,
    Heard,
    Job,
    Json,
    Probe,
    Prompt,
    SessionRecord,
    Start,
    SteeringRefused,
    StoreError,
    Tool,
    TurnFailed,
    WorkingSession,
    Works,
)
from .session import Session

if TYPE_CHECKING:
    from .host import Host

log = logging.getLogger(__name__)

WORKS_FOR: Final = "worksFor"
"""In a session record's `meta`: the chat that it works for. Of a message's `_meta` there: that chat's turn."""
_SHARED: Final = ("approvals",)
"""Settings that a working session has of the session that it works for."""


def is_working(record: SessionRecord) -> bool:
    """Whether a session of the store is one of these."""
    return WORKS_FOR in record.meta


class HostWorks(Works):
    """The working sessions that were opened since the start, by id."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[str, Workplace] = {}
        self._finding = asyncio.Lock()

    async def usable(self, provider: str, *, but: str) -> tuple[str, Probe]:
        roster = self._host.roster
        names = [provider] if provider else [self._host.options.default_agent, *roster.agents]
        first: tuple[str, Probe] | None = None
        for name in names:
            if name == but or name not in roster.agents:
                continue
            probe = await roster.look(name)
            first = first or (name, probe)
            if probe.ready:
                return name, probe
        if first is not None:
            return first
        others = ", ".join(name for name in roster.agents if name != but) or "none"
        reason = (
            f"There is no agent {provider!r} here." if provider else "There is no agent here to do its work."
        )
        return provider, Probe(False, reason=reason, fix=f"Name another one; there are: {others}.")

    async def open(self, start: Start, job: Job) -> WorkingSession:
        chat = self._host.chat_named(start.chat)
        agent = self._host.roster.agents.get(job.provider)
        if chat is None or agent is None:
            raise TurnFailed("noAgent", f"There is no agent {job.provider!r} here any more.")
        directories = job.directories if agent.capabilities.several_directories else job.directories[:1]
        try:
            place = await self._find(start.memory) if start.memory is not None else None
            is_lost = start.memory is not None and (place is None or place.session.provider != job.provider)
            if place is None or is_lost:
                place = await self._make(job, directories, chat, Branch({"kind": "user"}))
            elif start.fork:
                begins = await place.copied(start.at)
                place = await self._make(job, directories, chat, begins)
            await place.enter(chat, None if start.fork or is_lost else start.at)
        except (StoreError, ProtocolError, Refused) as error:
            words = f"The session that does the work cannot be used: {error}"
            raise TurnFailed("workFailed", words, resumable=True) from error
        place.untold = is_lost
        return place

    async def _find(self, session_id: str) -> Workplace | None:
        async with self._finding:  # one object a session, whoever else looks for it
            if session_id not in self._known:
                record = await self._host.store.session(session_id)
                if not isinstance(record, SessionRecord) or not is_working(record):
                    return None
                self._host.settle(record)
                self._known[session_id] = Workplace(Session(self._host, record, used=True))
            return self._known[session_id]

    async def _make(self, job: Job, directories: Sequence[str], chat: Chat, begins: Branch) -> Workplace:
        uri = uris.new_chat_uri()
        record = SessionRecord(
            id=str(uuid.uuid4()),
            provider=job.provider,
            created_at=clock.now(),
            default_chat=uri,
            title=job.title,
            marks=status.IS_READ,
            directories=[Path(path).as_uri() for path in directories],
            config=self._host.roster.defaults(job.provider, {}),
            chats=[],
            meta={WORKS_FOR: chat.uri},
        )
        place = Workplace(Session(self._host, record, used=True))
        await place.session.open()
        if place.session.read_only is not None:
            raise StoreError(place.session.read_only)
        await place.session.add_chat(uri, begins)
        self._known[record.id] = place
        return place

    async def delete(self, session_id: str) -> None:
        place = await self._find(session_id)
        if place is None:
            return
        del self._known[session_id]
        session = place.session
        await session.open()
        await session.close(gone=True)
        await self._host.terminals.end_of_session(session.uri)
        for chat in session.chats.values():
            await chat.memory.let_go()
        await self._host.store.delete_session(session_id)

    async def close(self) -> None:
        """The host stops: what runs ends so that it can be resumed."""
        await asyncio.gather(*(place.session.close() for place in self._known.values()))
        self._known.clear()


class Workplace(WorkingSession):
    """One of them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        session.work = self
        self.id = session.id
        self.chat = session.default_chat
        self.tools: Sequence[Tool] = ()
        """What the turn of the chat that it works for offers."""
        self.untold = False
        """It was made anew, and its agent has not been told what was said before."""
        self._heard: Heard | None = None
        self._failed: Callable[[str], None] | None = None
        self._for: Chat | None = None
        self._standing = ""
        self._once: dict[str, str] = {}
        """What is told on one turn alone."""

    # ── for the host ─────────────────────────────────────────────────────────────────────────────────────────
    def said(self, chat: Chat, action: Json) -> None:
        """An action of one of its chats."""
        if self._heard is None:
            return
        try:
            self._heard(chat.uri, action)
        except Exception as error:
            of = self._for.uri if self._for is not None else "nobody"
            log.exception("What works for %s cannot be shown there, so that turn ends", of)
            if self._failed is not None:
                self._failed(f"what it says cannot be shown: {type(error).__name__}: {error}.")

    def problem(self, words: str) -> None:
        """Something of it went wrong that no turn can say (`Session.say_problem`)."""
        if self._failed is not None and not self.running:
            self._failed(words)

    def preface(self, turn_id: str) -> str:
        """What its agent is told on this turn, ahead of the message (B3)."""
        once = self._once.pop(turn_id, "")
        return f"{self._standing}\n\n{once}".strip()

    async def enter(self, chat: Chat, at: str | None) -> None:
        """It works for this chat from now on. Raises `Refused`, `StoreError`, `ProtocolError`."""
        session = self.session
        await session.open()
        if session.read_only is not None:
            raise Refused(session.read_only)
        self._for = chat
        session.approvals = chat.session.approvals
        self.configure(chat.session.config)
        own = await self._loaded()
        async with own.admitting:
            # What waited here when the server died waits in that chat, too, and is handed over again.
            for waits in own.state.get("queuedMessages", ()):
                await self._take_out(waits["id"])
            turns = own.state["turns"]
            if at is not None and any(turn["id"] == at for turn in turns) and turns[-1]["id"] != at:
                await own.rewinding.cut_back(at)

    async def copied(self, at: str | None) -> Branch:
        """What a copy of it begins with, up to a turn of its chat (S3, S4)."""
        own = await self._loaded()
        turns = own.state["turns"]
        end = next((number for number, turn in enumerate(turns) if turn["id"] == at), len(turns) - 1)
        agent = self.session.agent
        can = agent is not None and agent.capabilities.fork
        held, points = own.memory.forked(turns[: end + 1]) if can else (Held(), {})
        return Branch({"kind": "user"}, turns=turns[: end + 1], points=points, held=held)

    async def _loaded(self) -> Chat:
        chat = self.session.chats[self.chat]
        await chat.loaded()
        return chat

    # ── for whom it works ────────────────────────────────────────────────────────────────────────────────────
    def listen(self, heard: Heard | None, failed: Callable[[str], None]) -> None:
        self._heard, self._failed = heard, failed if heard is not None else None

    async def begin(self, prompt: Prompt, *, standing: str, model: str | None) -> None:
        turn_id = str(uuid.uuid4())
        self._ready(prompt, standing)
        once = [prompt.prefaces[prompt.turn_id]] if prompt.turn_id in prompt.prefaces else []
        if self.untold and prompt.history:
            once.insert(0, retold(prompt.history, prompt.prefaces))
        self._once = {turn_id: "\n\n".join(once)}
        try:
            own = await self._loaded()
            message = self._message(self._of_the_turn(prompt.turn_id), model)
            start = {"turnId": turn_id, "startedAt": clock.now(), "message": message}
            async with own.admitting:
                await own.starting.begin({"type": "chat/turnStarted", **start}, None)
        except Refused as refusal:
            words = f"The work could not begin: {refusal} Try again in a moment."
            raise TurnFailed("workBusy", words, resumable=True) from refusal
        except (StoreError, ProtocolError) as error:
            raise TurnFailed("workFailed", f"The work could not begin: {error}", resumable=True) from error
        self.untold = False

    async def go_on(self, prompt: Prompt, *, standing: str) -> Literal["resumed", "complete", "anew"]:
        try:
            own = await self._loaded()
            last = own.state["turns"][-1] if own.state["turns"] else None
            if last is None or (last["message"].get("_meta") or {}).get(WORKS_FOR) != prompt.turn_id:
                return "anew"
            if last["state"] == "complete":
                return "complete"
            if not can_resume(own.state):
                return "anew"
            self._ready(prompt, standing)
            async with own.admitting:
                await own.starting.resume_last()
            return "resumed"
        except (Refused, StoreError, ProtocolError) as error:
            raise TurnFailed("workFailed", f"The work could not go on: {error}", resumable=True) from error

    def _ready(self, prompt: Prompt, standing: str) -> None:
        self._standing, self.tools = standing, prompt.tools

    def _of_the_turn(self, turn_id: str) -> Json:
        """The message of the turn that runs in the chat that it works for."""
        active = self._for.state.get("activeTurn") if self._for is not None else None
        if active is None or active["id"] != turn_id:
            raise Refused("The turn that it is for has ended.")
        message: Json = active["message"]
        return {**message, "_meta": {**(message.get("_meta") or {}), WORKS_FOR: turn_id}}

    @staticmethod
    def _message(message: Json, model: str | None) -> Json:
        """A person's message as the working agent is sent it, with the model that does the work."""
        message = {key: value for key, value in message.items() if key != "model"}
        meta = {key: value for key, value in (message.get("_meta") or {}).items() if key != PENDING_ID}
        return {**message, "_meta": meta, **({"model": {"id": model}} if model else {})}

    @property
    def answered_last(self) -> str:
        turns = self.session.chats[self.chat].state["turns"]
        parts = turns[-1]["responseParts"] if turns else ()
        return "".join(part["content"] for part in parts if part["kind"] == "markdown")

    async def queue(self, message_id: str) -> bool:
        own, theirs = self.session.chats[self.chat], self._for
        waits = theirs.state.get("steeringMessage") if theirs is not None else None
        if theirs is None or waits is None or waits["id"] != message_id:
            return False
        turn = (theirs.state.get("activeTurn") or {}).get("id")
        meta = {**(waits["message"].get("_meta") or {}), WORKS_FOR: turn}
        async with own.admitting:
            active = own.state.get("activeTurn") if own.channel is not None else None
            if active is None:
                return False
            model = (active["message"].get("model") or {}).get("id")
            message = self._message({**waits["message"], "_meta": meta}, model)
            action = {
                "type": "chat/pendingMessageSet",
                "kind": "queued",
                "id": message_id,
                "message": message,
            }
            try:
                await own.waiting.store(action)
            except StoreError as error:
                raise SteeringRefused(f"It could not be written down for the work: {error}") from error
            if (own.state.get("activeTurn") or {}).get("id") != active["id"]:
                own.waiting.keep()  # its turn ended while it was on its way
                return False
            own.publish(action)
            return True

    async def take_back(self, message_id: str) -> bool:
        own = await self._loaded()
        async with own.admitting:
            if all(waits["id"] != message_id for waits in own.state.get("queuedMessages", ())):
                return False
            await self._take_out(message_id)
            return True

    async def _take_out(self, message_id: str) -> None:
        own = self.session.chats[self.chat]
        own.publish({"type": "chat/pendingMessageRemoved", "kind": "queued", "id": message_id})
        own.waiting.keep()

    @property
    def waits(self) -> bool:
        own = self.session.chats[self.chat]
        return own.channel is not None and bool(own.state.get("queuedMessages"))

    @property
    def running(self) -> bool:
        own = self.session.chats[self.chat]
        return own.channel is not None and "activeTurn" in own.state

    async def stop(self) -> None:
        own = self.session.chats[self.chat]
        self._halt(own)
        async with own.admitting:  # what was about to start meanwhile has
            self._halt(own)

    @staticmethod
    def _halt(own: Chat) -> None:
        if own.channel is None:
            return
        for waits in own.state.get("queuedMessages", ()):
            own.publish({"type": "chat/pendingMessageRemoved", "kind": "queued", "id": waits["id"]})
        own.waiting.keep()
        own.starting.stop_running()

    def can_stop(self, chat: str) -> bool:
        worker = self.session.chats.get(chat)
        return worker is not None and worker.turns.can_stop

    async def stop_worker(self, chat: str) -> None:
        worker = self.session.chats.get(chat)
        if worker is not None and worker.channel is not None and worker.turns.can_stop:
            worker.starting.stop_running()

    def confirmed(self, chat: str, call_id: str, confirmation: Confirmation) -> None:
        of = self.session.chats.get(chat)
        call = self._call(of, call_id)
        if of is None or call is None or call["status"] != "pending-confirmation":
            return
        action: Json = {"type": "chat/toolCallConfirmed", "turnId": of.state["activeTurn"]["id"]}
        action |= {"toolCallId": call_id, "approved": confirmation.approved}
        action |= {"confirmed": "user-action"} if confirmation.approved else {"reason": "denied"}
        more = {
            "selectedOptionId": confirmation.option,
            "editedToolInput": confirmation.edited_input,
            "reasonMessage": confirmation.reason,
            "_meta": call.get("_meta"),
        }
        of.publish({**action, **{key: value for key, value in more.items() if value is not None}})
        of.turns.confirmed(call_id, confirmation)

    @staticmethod
    def _call(of: Chat | None, call_id: str) -> Json | None:
        if of is None or of.channel is None or "activeTurn" not in of.state:
            return None
        return find_call(of.state, of.state["activeTurn"]["id"], call_id)

    def answered(self, chat: str, request_id: str, answer: Answer) -> None:
        of = self.session.chats.get(chat)
        if of is None or of.channel is None or find_request(of.state, request_id) is None:
            return
        said: Json = {"requestId": request_id, "response": answer.response}
        if answer.answers:
            said["answers"] = dict(answer.answers)
        of.publish({"type": "chat/inputCompleted", **said})
        of.turns.answered(request_id, answer)

    def client_ran(self, chat: str, call_id: str, result: Json) -> None:
        of = self.session.chats.get(chat)
        call = self._call(of, call_id)
        if of is None or call is None or call["status"] != "running":
            return
        ids = {"turnId": of.state["activeTurn"]["id"], "toolCallId": call_id}
        of.publish({"type": "chat/toolCallComplete", **ids, "result": result})
        of.turns.client_ran(call_id, result, review=False)

    def configure(self, config: Mapping[str, Any]) -> None:
        self.session.configured({key: config[key] for key in _SHARED if key in config})

    async def close(self) -> None:
        for chat in tuple(self.session.chats.values()):
            await chat.unload()
