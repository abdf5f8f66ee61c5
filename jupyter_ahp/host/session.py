"""A session: its chats, its settings, and what the catalogue shows of it.

U1 to U10, T8, AHP 3. Its state is small and changes in one tick; what takes time belongs to a chat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..protocol import status, uris
from ..protocol.errors import INVALID_PARAMS, INVALID_REQUEST, ProtocolError, channel_not_found
from ..protocol.validate import rejection
from . import clock, directories
from .approvals import SessionApprovals
from .arrivals import Refused
from .branching import Branch
from .channels import Channel
from .chat import Chat, empty_summary
from .clienttools import tools_problem
from .coming import with_coming, without_coming
from .inputs import needed
from .paths import path_of
from .ports import Agent, ChatRecord, Found, Json, SessionRecord, StoreError
from .saver import Saver
from .workers import is_worker

if TYPE_CHECKING:
    from .connection import Connection
    from .host import Host
    from .works import Workplace

log = logging.getLogger(__name__)

_MIRRORED = ("status", "modifiedAt", "activity", "interactivity", "workingDirectories", "movable")
_MARKS = (
    (status.IS_READ, "session/isReadChanged", "isRead"),
    (status.IS_ARCHIVED, "session/isArchivedChanged", "isArchived"),
)
PROVISIONAL = "provisionalTitle"
"""In a chat record's `meta`: the title that the chat has of a command, until its first message."""
_ANNOUNCEMENTS = ("session/activeClientSet", "session/activeClientRemoved")
"""What concerns those who are here, and nothing that is kept."""
_COMPACT = ("resource", "title", "origin", "interactivity", "status", "modifiedAt", "movable")
"""AHP's `SessionChatSummary`, and beyond it when a chat was last changed and whether it can be moved."""


class Session:
    """One session of the catalogue. `open` takes it for this server; until then it is only listed."""

    def __init__(
        self,
        host: Host,
        record: SessionRecord,
        *,
        used: bool,
        lifecycle: str = "ready",
        found: Found | None = None,
    ) -> None:
        self.host = host
        self.id = record.id
        self.provider = record.provider
        self.created_at = record.created_at
        self.default_chat = record.default_chat
        self.last_turns = record.last_turns
        self.meta = record.meta
        self.used = used
        """Something was said or set in it; an unused one goes when nobody watches it."""
        self.touched = clock.monotonic_ms()
        self.read_only: str | None = None
        """Why nothing can be changed in it here."""
        self.closed = False
        """It is not here any more."""
        self.found = found
        """What its agent's catalogue says of it, while another program made it and nothing of it is in the store (U5)."""
        self.work: Workplace | None = None
        """For whom it works, if it is for no client to see (B16)."""
        self.uri = uris.session_uri(record.id)
        self.opening = asyncio.Lock()
        """Held while it becomes this server's."""
        self.gaining = asyncio.Lock()
        """Held while a chat is written into it: it is not deleted meanwhile, but behind that."""
        self.to_copy: list[str] = []
        """Conversations that forks on their way are to begin with a copy of."""
        self._opened = False
        self._coming: list[Json] = []
        """Summaries of chats that are being stored before they are told of."""
        self._moving: list[Json] = []
        """Of these, those of chats that another session has, as it is stored."""
        self.chats = {summary["resource"]: Chat(self, summary["resource"]) for summary in record.chats}
        self.channel = Channel(
            self.uri, "session", self._first_state(record, lifecycle), provider=record.provider
        )
        self.channel.overlay = self._activity
        self.saver = Saver(f"Session {record.title or record.id}", self._save)
        self.approvals = SessionApprovals(self)

    def _first_state(self, record: SessionRecord, lifecycle: str) -> Json:
        state: Json = {
            "provider": record.provider,
            "title": record.title,
            "status": status.IDLE | record.marks,
            "lifecycle": lifecycle,
            "workingDirectories": record.directories,
            "activeClients": [],
            "chats": record.chats,
            "defaultChat": record.default_chat,
        }
        schema = self.host.roster.schema(record.provider, record.config)
        if schema.get("properties"):
            state["config"] = {"schema": schema, "values": record.config}
        return state

    # ── what it is ───────────────────────────────────────────────────────────────────────────────────────────
    @property
    def state(self) -> Json:
        state: Json = self.channel.state
        return state

    @property
    def agent(self) -> Agent | None:
        return self.host.roster.agents.get(self.provider)

    @property
    def takes_tools(self) -> bool:
        return self.agent is not None and self.agent.capabilities.tools

    @property
    def agent_name(self) -> str:
        return self.agent.display_name if self.agent else self.provider

    @property
    def config(self) -> Json:
        values: Json = (self.state.get("config") or {}).get("values", {})
        return values

    @property
    def directories(self) -> list[str]:
        """URIs; the first is where its agent works."""
        directories: list[str] = self.state["workingDirectories"]
        return directories

    def summary_of(self, chat: str) -> Json:
        summary: Json = next(entry for entry in self.state["chats"] if entry["resource"] == chat)
        return summary

    def paths_of(self, chat: Chat) -> list[str]:
        """The absolute paths that a chat works in (U11)."""
        chosen = self.summary_of(chat.uri).get("workingDirectories", self.directories)
        return [path for uri in chosen if (path := path_of(uri)) is not None]

    @property
    def paths(self) -> list[str]:
        """The absolute paths of its directories."""
        return [path for uri in self.directories if (path := path_of(uri)) is not None]

    def status(self) -> tuple[int, str | None]:
        """Its status bits and activity, from its chats (AHP 3.3); the marks are its own.

        That a worker failed is for the chat to tell that it worked for: a person cannot go on in it.
        """
        chats = self.state["chats"]
        lead = next((chat for chat in chats if chat["resource"] == self.default_chat), None)
        lead = lead or max(chats, key=lambda chat: str(chat["modifiedAt"]), default=None)
        bits = lead["status"] & status.ACTIVITY_MASK if lead else status.IDLE
        if any(chat["status"] & status.INPUT_NEEDED == status.INPUT_NEEDED for chat in chats):
            bits = status.INPUT_NEEDED
        elif any(chat["status"] & status.ERROR for chat in chats if not is_worker(chat)):
            bits = (bits & ~status.IDLE) | status.ERROR
        return (self.state["status"] & ~status.ACTIVITY_MASK) | bits, (lead or {}).get("activity")

    def _activity(self) -> Json:
        bits, activity = self.status()
        return {"status": bits, "activity": activity} if activity else {"status": bits}

    def summary(self) -> Json:
        """`SessionSummary`, with the compact list of its chats."""
        state = self.state
        bits, activity = self.status()
        summary: Json = {
            "resource": self.uri,
            "provider": self.provider,
            "title": state["title"],
            "status": bits,
            "createdAt": self.created_at,
            "modifiedAt": self.modified_at,
            "workingDirectories": state["workingDirectories"],
            "defaultChat": self.default_chat,
            "chats": self._compact(),
        }
        if activity:
            summary["activity"] = activity
        return summary

    @property
    def modified_at(self) -> str:
        return max((str(chat["modifiedAt"]) for chat in self.state["chats"]), default=self.created_at)

    def _compact(self) -> list[Json]:
        return [{key: chat[key] for key in _COMPACT if key in chat} for chat in self.state["chats"]]

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def open(self) -> None:
        """Take it for this server; if another has it, it is read-only here (design, *Store*). Raises nothing."""
        async with self.opening:
            if self.closed or self.found is not None or (self._opened and self.read_only is None):
                return
            try:
                owner = await self.host.store.claim(self.id)
                if owner is None:
                    await self._catch_up()
            except StoreError as error:
                owner = str(error)
            self._opened = True
            self.read_only = f"This session is read-only here. {owner}" if owner else None

    async def take(self) -> None:
        """Take it for this server, to change it: one that another program made comes into the store.

        Raises `ProtocolError` when that cannot be done.
        """
        await self.open()
        if self.found is not None:
            try:
                await self.host.catalogue.adopt(self)
            except (Refused, StoreError) as error:
                raise ProtocolError(INVALID_REQUEST, str(error)) from error

    def took(self) -> None:
        """It is in the store now."""
        self.found = None
        self._opened = True

    def found_again(self, found: Found) -> None:
        """What the catalogue says of it now."""
        before, self.found = self.found, found
        if before == found or self.found is None:
            return
        for chat in self.chats.values():
            changes = {"title": found.title, "modifiedAt": found.modified_at}
            self._publish({"type": "session/chatUpdated", "chat": chat.uri, "changes": changes})
            chat.stale()
        if found.title != self.state["title"]:
            self._publish({"type": "session/titleChanged", "title": found.title})
        self._tell(title=self.state["title"], modifiedAt=self.modified_at, chats=self._compact())

    @property
    def watched(self) -> bool:
        """Somebody looks at it, or at a chat of it."""
        return self.channel.watched or any(not chat.idle for chat in self.chats.values())

    async def _catch_up(self) -> None:
        """What another server did with it since the catalogue was read, before it becomes ours. Raises `StoreError`."""
        record = await self.host.store.session(self.id)
        if not isinstance(record, SessionRecord) or self.closed:
            return
        self.host.settle(record)
        without_coming(record, self.host.chats_elsewhere(self))
        state = self.state
        for uri in [chat for chat in self.chats if all(chat != entry["resource"] for entry in record.chats)]:
            self.host.index_chat(uri, None)
            del self.chats[uri]
            self._publish({"type": "session/chatRemoved", "chat": uri})
        for entry in record.chats:
            uri = entry["resource"]
            if uri not in self.chats:
                self.chats[uri] = Chat(self, uri)
                self.host.index_chat(uri, self)
            if entry not in state["chats"]:
                self._publish({"type": "session/chatAdded", "summary": entry})
        if record.title != state["title"]:
            self._publish({"type": "session/titleChanged", "title": record.title})
        for bit, kind, key in _MARKS:
            if (record.marks ^ state["status"]) & bit:
                self._publish({"type": kind, key: bool(record.marks & bit)})
        for uri in record.directories:
            if uri not in self.directories:
                self._publish({"type": directories.SET, "directory": uri})
        for uri in set(self.directories) - set(record.directories):
            self._publish({"type": directories.REMOVED, "directory": uri})
        if record.config != self.config:
            self._publish({"type": "session/configChanged", "config": record.config, "replace": True})
        self.default_chat = record.default_chat
        self.last_turns = record.last_turns
        self.meta = record.meta
        if self.read_only is not None:
            for chat in tuple(self.chats.values()):
                await chat.read_again()

    @property
    def opened(self) -> bool:
        """Somebody asked for it since the start, rather than for the catalogue alone."""
        return self._opened and not self.closed

    def check_open(self) -> None:
        """Whether a turn may start. Raises `Refused`."""
        if self.state["lifecycle"] != "ready":
            error = self.state.get("creationError") or {}
            raise Refused(error.get("message") or "The session is not ready.")
        if self.state["status"] & status.IS_ARCHIVED:
            raise Refused("This session is archived. Take it out of the archive to go on.")

    def ready(self) -> None:
        """Creation ends: well, or with the reason why its agent cannot be used."""
        about = {"provider": self.provider, "workingDirectories": self.directories}
        self.host.extensions.events.emit("session_start", session=self.uri, data=about)
        probe = self.host.roster.probed(self.provider)
        if probe.ready:
            self._publish({"type": "session/ready"})
            return
        words = " ".join(
            text for text in (f"{self.agent_name} cannot be used.", probe.reason, probe.fix) if text
        )
        self._publish({"type": "session/creationFailed", "error": {"errorType": "noAgent", "message": words}})

    async def close(self, *, gone: bool = False) -> None:
        """End what runs in it; `gone`: it is to be deleted."""
        self.closed = True
        await asyncio.gather(*(chat.close(gone=gone) for chat in self.chats.values()))
        if gone:
            async with self.gaining:
                self.saver.drop()
        await self.saver.close()

    def record(self) -> SessionRecord:
        state = self.state
        meta = with_coming(self.meta, self._moving)
        return SessionRecord(
            id=self.id,
            provider=self.provider,
            created_at=self.created_at,
            default_chat=self.default_chat,
            title=state["title"],
            marks=state["status"] & ~status.ACTIVITY_MASK,
            directories=state["workingDirectories"],
            config=self.config,
            chats=[*state["chats"], *(one for one in self._coming if one["resource"] not in self.chats)],
            last_turns=dict(self.last_turns),
            meta=meta,
        )

    async def _save(self) -> None:
        if self._opened and self.read_only is None and self.found is None:
            await self.host.store.put_session(self.record())

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────────
    def _publish(self, action: Json, origin: Json | None = None) -> Any:
        envelope = self.host.hub.publish(self.channel, action, origin)
        if action["type"] not in _ANNOUNCEMENTS:
            self.saver.soon()
        return envelope

    def _tell(self, **changes: Any) -> None:
        """Everyone who watches the catalogue."""
        if self.work is not None:
            return
        self.host.tell_root(
            "root/sessionSummaryChanged", {"session": self.uri, "changes": changes}, self.provider
        )

    def chat_changed(self, chat: Chat) -> None:
        """A chat's state moved: mirror it (AHP 3.3, 3.5)."""
        if self.chats.get(chat.uri) is not chat:
            return  # it is being closed
        entry = self.summary_of(chat.uri)
        state = chat.state
        changes = {key: state.get(key) for key in _MIRRORED if state.get(key) != entry.get(key)}
        if changes:
            before = self.status()
            self._publish({"type": "session/chatUpdated", "chat": chat.uri, "changes": changes})
            bits, activity = self.status()
            told: Json = {"modifiedAt": self.modified_at}
            if (bits, activity) != before:
                told |= {"status": bits, "activity": activity or ""}
            if any(key in _COMPACT for key in changes):
                told["chats"] = self._compact()
            self._tell(**told)
        self._mirror_inputs(chat, state)
        self._note_last_turn(chat.uri, state["turns"])

    def _note_last_turn(self, chat: str, turns: list[Json]) -> None:
        last = turns[-1]["id"] if turns else None
        if last == self.last_turns.get(chat):
            return
        if last is None:
            del self.last_turns[chat]
        else:
            self.last_turns[chat] = last
        self.saver.soon()

    def _mirror_inputs(self, chat: Chat, state: Json) -> None:
        held = {
            entry["id"]: entry for entry in self.state.get("inputNeeded", ()) if entry["chat"] == chat.uri
        }
        # A client that runs a tool raises no bit of the status; there is none where no client has tools.
        asks = state["status"] & 16 or any(client["tools"] for client in self.state["activeClients"])
        wanted = needed(chat.uri, state) if held or asks else {}
        for entry_id, entry in wanted.items():
            if held.get(entry_id) != entry:
                self._publish({"type": "session/inputNeededSet", "request": entry})
        for entry_id in held.keys() - wanted.keys():
            self._publish({"type": "session/inputNeededRemoved", "id": entry_id})

    def first_words(self, chat: Chat, title: str, *, provisional: bool) -> None:
        """T8: the first message names what has no name, or has that of a command (`provisional`)."""
        self.use()
        named, seeded = self.summary_of(chat.uri)["title"], chat.record.meta.get(PROVISIONAL)
        if not title or (named and (provisional or seeded != named)):
            return
        session_too = bool(named) and self.state["title"] == named
        self.rename_chat(chat, title)
        if session_too and self.state["title"] == named:
            self._publish({"type": "session/titleChanged", "title": title})
            self._tell(title=title)
        if provisional:
            chat.record.meta[PROVISIONAL] = title
        elif seeded is not None:
            del chat.record.meta[PROVISIONAL]
        chat.saver.soon()

    def summary_changed(self, chat: str, changes: Json) -> None:
        self._publish({"type": "session/chatUpdated", "chat": chat, "changes": changes})

    def rename_chat(self, chat: Chat, title: str) -> None:
        """A session is named with its default chat, until somebody names the one and not the other."""
        self.use()
        together = chat.uri == self.default_chat and self.state["title"] in (
            "",
            self.summary_of(chat.uri)["title"],
        )
        self.summary_changed(chat.uri, {"title": title})
        self._tell(chats=self._compact())
        if together and self.state["title"] != title:
            self._publish({"type": "session/titleChanged", "title": title})
            self._tell(title=title)

    def turn_ended(self, chat: Chat) -> None:
        """Something new to read, for whoever did not watch: not what a worker wrote, which is for its agent."""
        if is_worker(chat.state):
            return
        if self.state["status"] & status.IS_READ:
            self._publish({"type": "session/isReadChanged", "isRead": False})
            self._tell(status=self.status()[0])
        self.saver.soon()

    def say_problem(self, words: str) -> None:
        """Something went wrong that no turn can say any more."""
        log.error("%s: %s", self.uri, words)
        if self.work is not None:
            self.work.problem(words)
        meta = {**(self.state.get("_meta") or {}), "jupyter-ahp.problem": words}
        self._publish({"type": "session/metaChanged", "_meta": meta})

    def use(self) -> None:
        self.used = True

    # ── chats ────────────────────────────────────────────────────────────────────────────────────────────────
    async def add_chat(self, uri: str, begins: Branch) -> Chat:
        """Another chat (U8, U11, S2, S8), on disk before it is told of. Raises `ProtocolError`, `StoreError`."""
        chosen = begins.directories
        if chosen is not None and (outside := set(chosen) - set(self.directories)):
            raise ProtocolError(
                INVALID_PARAMS, f"Not among the session's directories: {', '.join(sorted(outside))}"
            )
        summary = {**empty_summary(uri, title=begins.title, origin=begins.origin), "movable": True}
        if chosen is not None:
            summary["workingDirectories"] = chosen
        store, memory = self.host.store, begins.held.memory
        self.to_copy += [memory] if memory else []
        try:
            async with self.gaining:
                await store.delete_chat(self.id, uri)  # what a crash left of an earlier try
                if begins.meta or memory:
                    record = ChatRecord(uri, meta=begins.meta)
                    begins.held.put(record)
                    await store.put_chat(self.id, record)
                if begins.turns:
                    await store.put_turns(self.id, uri, begins.turns, begins.points)
                await self.expect(summary)
                self.came(summary)
                if self.closed:
                    raise channel_not_found(self.uri)
                chat = Chat(self, uri)
                self.gain(chat, summary, begins.turns)
                return chat
        finally:
            if memory:
                self.to_copy.remove(memory)

    def open_chat(self, uri: str, changes: Json) -> Chat:
        """A chat that the host opens itself, told of at once (U4); whoever opens it has it written down."""
        chat = Chat(self, uri)
        self.gain(chat, {**empty_summary(uri), **changes}, [])
        chat.begin_anew()
        return chat

    async def expect(self, *summaries: Json, moving: bool = False) -> None:
        """Write down that the session has these chats, which nobody was told of yet, and which `came` is to follow.

        `moving`: another session has them, until it is written down without. Raises `StoreError`: they do not come.
        """
        self._coming += summaries
        self._moving += summaries if moving else ()
        try:
            await self.saver.now()
        except BaseException:
            self.came(*summaries)
            raise

    def came(self, *summaries: Json) -> None:
        """They are on their way no more."""
        self._coming = [one for one in self._coming if one not in summaries]
        self._moving = [one for one in self._moving if one not in summaries]

    def gain(self, chat: Chat, summary: Json, turns: list[Json]) -> None:
        """A chat is this session's now, with these ended turns."""
        self.chats[chat.uri] = chat
        self._note_last_turn(chat.uri, turns)
        self.host.index_chat(chat.uri, self)
        self.use()
        self._publish({"type": "session/chatAdded", "summary": summary})
        self._tell(chats=self._compact(), status=self.status()[0], modifiedAt=self.modified_at)

    def lose(self, chat: Chat) -> None:
        """A chat is not this session's any more."""
        del self.chats[chat.uri]
        self.last_turns.pop(chat.uri, None)
        self._publish({"type": "session/chatRemoved", "chat": chat.uri})
        for entry in self.state.get("inputNeeded", ()):
            if entry["chat"] == chat.uri:
                self._publish({"type": "session/inputNeededRemoved", "id": entry["id"]})
        self._tell(chats=self._compact(), status=self.status()[0], modifiedAt=self.modified_at)

    def order_chat(self, uri: str, after: str | None) -> None:
        """The chat stands behind another one, or first (U12)."""
        order = [chat["resource"] for chat in self.state["chats"] if chat["resource"] != uri]
        order.insert(0 if after is None else order.index(after) + 1, uri)
        if order != [chat["resource"] for chat in self.state["chats"]]:
            self._publish({"type": "session/chatsReordered", "chats": order})
            self._tell(chats=self._compact())

    async def remove_chats(self, chats: Sequence[Chat]) -> None:
        """Close chats of which none is the default one (U7, U9). Raises `StoreError` when only files of theirs stay."""
        for chat in chats:
            self.lose(chat)
        for chat in chats:
            await chat.close(gone=True)
            self.host.canvases.end_of_chat(chat.uri)
            await self.host.terminals.end_of_chat(chat.uri)
        await self.saver.now()
        failed: StoreError | None = None
        for chat in chats:
            await chat.memory.let_go()
            try:
                await self.host.store.delete_chat(self.id, chat.uri)
            except StoreError as error:
                failed = error
        if failed is not None:
            raise StoreError(f"The chat is closed, but its turns could not be deleted: {failed}") from failed

    # ── what clients ask of it ───────────────────────────────────────────────────────────────────────────────
    async def admit(self, sender: Connection, client_seq: int, action: Json) -> None:
        """An action on the session's channel: an echo to all, or a refusal to its sender (T7)."""
        try:
            problem = rejection(action, "session")
            if problem is not None:
                raise Refused(problem)
            await self.open()
            if self.closed:
                return  # on no channel any more (AHP 1.8)
            if self.read_only is not None:
                raise Refused(self.read_only)
            if action["type"] not in _ANNOUNCEMENTS:
                await self.take()
            self._admit(sender, client_seq, action)
        except (Refused, ProtocolError) as refusal:
            sender.reject(self.uri, action, client_seq, str(refusal))
        except Exception as error:
            log.exception("%s on %s failed", action.get("type"), self.uri)
            sender.reject(self.uri, action, client_seq, f"Not done: {type(error).__name__}: {error}")

    def _admit(self, sender: Connection, client_seq: int, action: Json) -> None:
        match action["type"]:
            case "session/titleChanged":
                before = self.state["title"]
                self._echo(sender, client_seq, action)
                self.use()
                self._tell(title=action["title"])
                default = self.chats.get(self.default_chat)
                if default is not None and self.summary_of(default.uri)["title"] in ("", before):
                    self.rename_chat(default, action["title"])
            case "session/isReadChanged" | "session/isArchivedChanged":
                self._echo(sender, client_seq, action)
                if action["type"] == "session/isArchivedChanged":
                    self.use()
                self._tell(status=self.status()[0])
            case "session/configChanged":
                self._check_config(action)
                self._echo(sender, client_seq, action)
                for chat in self.chats.values():
                    chat.turns.line.configured()
                self.approvals.setting_changed(action["config"])
            case directories.SET | directories.REMOVED | directories.REPLACED:
                directories.check_of_session(self, action)
                self._echo(sender, client_seq, action)
                directories.of_chats(self, action)
                self.use()
                self._tell(workingDirectories=self.directories)
            case "session/activeClientSet":
                self._set_client(sender, client_seq, action)
            case "session/activeClientRemoved":
                if action["clientId"] != sender.client_id:
                    raise Refused("A client takes only itself away.")
                self._echo(sender, client_seq, action)
                self._client_lost(sender.client_id)
            case kind:
                raise Refused(f"This host does not act on {kind}.")

    def _echo(self, sender: Connection, client_seq: int, action: Json) -> None:
        envelope = self._publish(action, {"clientId": sender.client_id, "clientSeq": client_seq})
        sender.took(client_seq, envelope)

    def _check_config(self, action: Json) -> None:
        properties = ((self.state.get("config") or {}).get("schema") or {}).get("properties", {})
        if (problem := unfit(properties, action["config"])) is not None:
            raise Refused(problem)
        for key in action["config"]:
            if key not in properties:
                raise Refused(f"This session has no setting {key!r}.")
            if self.used and not properties[key].get("sessionMutable"):
                raise Refused(f"{properties[key].get('title', key)} cannot be changed once a chat has begun.")

    def configured(self, values: Mapping[str, Any]) -> None:
        """The agent changed settings by itself: what of that is new is said, and the session's other chats are told."""
        properties = ((self.state.get("config") or {}).get("schema") or {}).get("properties", {})
        new = {
            key: value
            for key, value in values.items()
            if key in properties and _fits(value, properties[key]) and self.config.get(key) != value
        }
        if new:
            self._publish({"type": "session/configChanged", "config": new})
            for chat in self.chats.values():
                chat.turns.line.configured()

    def _set_client(self, sender: Connection, client_seq: int, action: Json) -> None:
        client = action["activeClient"]
        if client["clientId"] != sender.client_id:
            raise Refused("A client announces only itself.")
        if (problem := tools_problem(client["tools"])) is not None:
            raise Refused(problem)
        if (
            client not in self.state["activeClients"]
        ):  # an unchanged one is not echoed: clients exist that loop
            self._echo(sender, client_seq, action)

    def drop_client(self, client_id: str) -> None:
        """A client left: what it announced is gone."""
        if any(client["clientId"] == client_id for client in self.state["activeClients"]):
            self._publish({"type": "session/activeClientRemoved", "clientId": client_id})
            self._client_lost(client_id)

    def _client_lost(self, client_id: str) -> None:
        """The calls of its tools fail (AHP 5.9)."""
        for chat in tuple(self.chats.values()):
            chat.turns.client_lost(client_id)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def unfit(properties: Json, config: Json) -> str | None:
    """Which of these settings cannot have its value; None if all can. Those that there are not are passed over."""
    for key, value in config.items():
        if key in properties and not _fits(value, properties[key]):
            return f"{properties[key].get('title', key)} cannot be {value!r}."
    return None


def _fits(value: object, setting: Json) -> bool:
    """Whether a setting can have this value (AHP 2.1, `ConfigPropertySchema`)."""
    kind = _TYPES.get(setting.get("type", ""), object)
    is_right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    return (is_right or kind is object) and ("enum" not in setting or value in setting["enum"])
