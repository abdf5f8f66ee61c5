"""Terminals: AHP 5.1, and `terminals` of the root (2.2).

Each is a channel. Who holds the claim types in it. Its content is bounded: what is older is cleared, by actions that every
client follows. Output that comes faster than anybody reads is left out, with a mark where. What ran for a turn can be
read as long as the turn is there, after a restart too: its name says its chat, and the turn keeps the end of its output.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..protocol import uris
from ..protocol.errors import (
    ALREADY_EXISTS,
    INTERNAL_ERROR,
    NOT_FOUND,
    ProtocolError,
    invalid_params,
    method_not_found,
)
from ..protocol.validate import rejection
from . import clock
from .channels import Channel
from .envelope import Envelope
from .paths import path_of
from .ports import Json, Launch, Pty, Ptys
from .screen import Directory, Executed, Finished, Marks, Printed, Title, plain

if TYPE_CHECKING:
    from .connection import Connection
    from .host import Host
    from .session import Session

log = logging.getLogger(__name__)

SCROLLBACK = 128 * 1024
"""Characters of output that are kept at least, and twice as many at most."""
_PAUSE = 0.03  # seconds between two actions with output
_RATE = 1024 * 1024  # characters a second that are sent on
_KEPT = 20  # ended terminals that are kept though nobody watches them
_CLOSING = 5.0  # seconds that what runs has to end when the host stops

_EARLIER = "[earlier output left out]\r\n"
_NOT_YOURS = "This terminal is not yours to type in: claim it first."


class Terminal:
    """One terminal. `listed`: it is in the root's list, until it is disposed of."""

    def __init__(
        self, owner: Terminals, uri: str, state: Json, *, provider: str | None, listed: bool = True
    ) -> None:
        self.uri = uri
        self.listed = listed
        self.of_a_turn = "toolCallId" in state["claim"]
        """It runs for a turn, whoever types in it: its name is the command's, and its end is the turn's to show."""
        self.channel = Channel(uri, "terminal", state, provider=provider)
        self.pty: Pty | None = None
        self.over = asyncio.Event()
        """It has ended, or (a turn's) was claimed for its session: the turn need not wait for it any more."""
        self.printed_in_all = 0
        """Characters of output that were told."""
        self.left_out = 0
        """Characters of output that were left out or cleared."""
        self._owner = owner
        self._marks = Marks()
        self._pending: list[str] = []
        self._waiting = 0
        self._skipped = 0
        self._length = 0
        self._command: Json | None = None
        """The action that said the command which runs, of a shell that tells."""
        self._began = 0.0
        self._commands = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def state(self) -> Json:
        state: Json = self.channel.state
        return state

    @property
    def running(self) -> bool:
        return bool(self.state["lifecycle"]["status"] == "running")

    @property
    def info(self) -> Json:
        """`TerminalInfo`. `provider` is for the spelling of the session in the claim (U1)."""
        state = self.state
        info = {"resource": self.uri, **{key: state[key] for key in ("title", "claim", "lifecycle")}}
        return {**info, "provider": self.channel.provider} if self.channel.provider else info

    def text(self, longest: int) -> tuple[str, bool]:
        """The end of what it printed, to read; whether that is less than all of it."""
        self._flush()
        parts = (part.get("value") or part.get("output") or "" for part in self.state["content"])
        text = plain("".join(parts)).strip("\n")
        return text[-longest:], bool(self.left_out) or len(text) > longest

    def _publish(self, action: Json, origin: Json | None = None) -> Envelope:
        return self._owner.host.hub.publish(self.channel, action, origin)

    # ── what it prints ───────────────────────────────────────────────────────────────────────────────────────
    def printed(self, text: str) -> None:
        self._pending.append(text)
        self._waiting += len(text)
        if self._waiting > 2 * SCROLLBACK:
            kept = "".join(self._pending)[-SCROLLBACK:]
            self._skipped += self._waiting - len(kept)
            self._pending, self._waiting = [kept], len(kept)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._next)

    def _next(self) -> None:
        self._timer = None
        sent = self._waiting
        self._flush()
        if sent:  # the more there was, the later the next
            pause = max(_PAUSE, sent / _RATE)
            self._timer = asyncio.get_running_loop().call_later(pause, self._next)

    def _flush(self, *, last: bool = False) -> None:
        text, self._pending, self._waiting = "".join(self._pending), [], 0
        if self._skipped:
            text = f"\r\n[{self._skipped:,} characters left out]\r\n{text}"
            self.left_out, self._skipped = self.left_out + self._skipped, 0
        if not text and not last:
            return
        for item in self._marks.take(text, last=last):
            match item:
                case Printed(printed):
                    self._data(printed)
                case Executed(line):
                    self._executed(line)
                case Finished(code):
                    self._finished(code)
                case Directory(path) if os.path.isabs(path):
                    if (cwd := Path(path).as_uri()) != self.state.get("cwd"):
                        self._publish({"type": "terminal/cwdChanged", "cwd": cwd})
                case Title(title):
                    self.retitle(title)

    def _data(self, data: str) -> None:
        self._publish({"type": "terminal/data", "data": data})
        self.printed_in_all += len(data)
        self._length += len(data)
        if self._length > 2 * SCROLLBACK:
            self._trim()

    def _trim(self) -> None:
        parts = (part.get("value") or part.get("output") or "" for part in self.state["content"])
        text = "".join(parts)
        kept = text[-SCROLLBACK:]
        kept = kept[kept.find("\n", 0, 4096) + 1 :]
        self.left_out += len(text) - len(kept)
        self._publish({"type": "terminal/cleared"})
        if self._command is not None:
            self._publish(self._command)
        self._publish({"type": "terminal/data", "data": f"{_EARLIER}{kept}"})
        self._length = len(_EARLIER) + len(kept)

    def _executed(self, line: str) -> None:
        self._finished(None)
        self._commands += 1
        name = f"command-{self._commands}"
        what = {"type": "terminal/commandExecuted", "commandId": name, "commandLine": line}
        self._command = {**what, "timestamp": clock.wall_ms()}
        self._began = clock.monotonic_ms()
        self._publish(self._command)

    def _finished(self, code: int | None) -> None:
        if self._command is None:
            return
        end: Json = {"type": "terminal/commandFinished", "commandId": self._command["commandId"]}
        self._command = None
        if code is not None:
            end["exitCode"] = code
        self._publish({**end, "durationMs": round(clock.monotonic_ms() - self._began)})

    def ended(self, code: int | None) -> None:
        self._flush(last=True)
        self._finished(code)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._publish({"type": "terminal/exited", **({} if code is None else {"exitCode": code})})
        self.over.set()
        self._owner.changed(self)

    def retitle(self, title: str) -> None:
        """What runs in it calls itself so; one that runs for a turn keeps its command's name."""
        if title and title != self.state["title"] and not self.of_a_turn:
            self._publish({"type": "terminal/titleChanged", "title": title})
            self._owner.changed(self)

    # ── what clients do with it ──────────────────────────────────────────────────────────────────────────────
    def admit(self, sender: Connection, client_seq: int, action: Json) -> None:
        """An action on its channel: an echo, or a refusal to its sender (T7)."""
        reason = rejection(action, "terminal") or self._act(sender, action)
        if reason is not None:
            sender.reject(self.uri, action, client_seq, reason)
            return
        origin = {"clientId": sender.client_id, "clientSeq": client_seq}
        if action["type"] == "terminal/input":  # for nobody else to see: it may be a password
            echo = Envelope(self.uri, action, self._owner.host.hub.sequence.next(), origin)
            sender.took(client_seq, echo)
            if self.uri in sender.subscriptions:
                sender.deliver(echo)
            return
        sender.took(client_seq, self._publish(action, origin))
        if action["type"] == "terminal/cleared":
            self._length = 0
        elif action["type"] in ("terminal/claimed", "terminal/titleChanged"):
            self._owner.changed(self)

    def claimed(self, claim: Json, session: Session) -> None:
        """The host gives the claim to another session."""
        self.channel.provider = session.provider
        self._publish({"type": "terminal/claimed", "claim": claim})
        self._owner.changed(self)

    def _act(self, sender: Connection, action: Json) -> str | None:
        """Do it; why not, if not."""
        kind, claim = action["type"], self.state["claim"]
        if kind in ("terminal/input", "terminal/resized"):
            if claim.get("clientId") != sender.client_id:
                return _NOT_YOURS
            if self.pty is None or not self.running:
                return "What ran in this terminal has ended."
            if kind == "terminal/resized":
                self.pty.resize(action["cols"], action["rows"])
                return None
            try:
                self.pty.write(action["data"])
            except OSError as error:
                return f"Not typed: {error}"
        elif kind == "terminal/claimed":
            holder = claim.get("clientId")
            if holder not in (None, sender.client_id) and self._owner.host.connection_of(holder) is not None:
                return "Somebody else types in this terminal."
            problem = self._owner.claim_problem(sender, action["claim"])
            if problem is not None:
                return problem
            session = self._owner.session_of(action["claim"])
            action["claim"] = self._owner.canonical(action["claim"])
            self.channel.provider = session.provider if session is not None else None
            if session is not None and action["claim"].get("toolCallId") is None:
                self.over.set()  # it goes on behind the turn that it ran for
                self.of_a_turn = False
        return None


class Terminals:
    """All terminals of a host. Owns what runs in them."""

    def __init__(self, host: Host, ptys: Ptys | None) -> None:
        self.host = host
        self._ptys = ptys
        self._terminals: dict[str, Terminal] = {}
        self._shown: list[Json] = []

    @property
    def on(self) -> bool:
        """Whether anything can run here (M5)."""
        return self._ptys is not None

    def named(self, uri: str) -> Terminal | None:
        return self._terminals.get(uri)

    async def channel(self, uri: str) -> Channel:
        """Its channel; one that ran for a turn is made again from the turn. Raises `ProtocolError` -32008."""
        terminal = self._terminals.get(uri)
        if terminal is None:
            state = await self._from_turn(uri)
            terminal = self._terminals.get(uri)  # made meanwhile
            if terminal is None and state is not None:
                terminal = Terminal(self, uri, state, provider=self._provider(state["claim"]), listed=False)
                self._keep(terminal)
        if terminal is None:
            raise ProtocolError(NOT_FOUND, f"Terminal is no longer available: {uri}")
        return terminal.channel

    def launch(self, uri: str, launch: Launch, *, title: str, claim: Json) -> Terminal:
        """Run something in a new terminal. Raises `OSError` or `ValueError` when it cannot start."""
        assert self._ptys is not None, "asked only when terminals are on"
        state: Json = {"title": title, "content": [], "lifecycle": {"status": "running"}, "claim": claim}
        state |= {
            "cwd": Path(launch.directory).as_uri(),
            "isPty": True,
            "cols": launch.columns,
            "rows": launch.rows,
        }
        terminal = Terminal(self, uri, state, provider=self._provider(claim))
        terminal.pty = self._ptys.start(launch, terminal.printed, terminal.ended)
        self._keep(terminal)
        self._tell()
        return terminal

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────
    def create(self, sender: Connection, uri: str, params: Json) -> None:
        """`createTerminal`: a shell. Raises `ProtocolError`."""
        if not self.on:
            raise method_not_found("createTerminal")
        if uris.channel_kind(uri) != "terminal":
            raise invalid_params(f"{uri} cannot name a terminal.")
        if uri in self._terminals:
            raise ProtocolError(ALREADY_EXISTS, f"There is a terminal {uri} already.")
        problem = self.claim_problem(sender, params["claim"])
        if problem is not None:
            raise invalid_params(problem)
        directory = self._directory(params)
        size: Json = {"columns": params.get("cols"), "rows": params.get("rows")}
        launch = Launch(directory, **{key: value for key, value in size.items() if value is not None})
        title = params.get("name") or "Terminal"
        try:
            self.launch(uri, launch, title=title, claim=self.canonical(params["claim"]))
        except (OSError, ValueError) as error:
            raise ProtocolError(INTERNAL_ERROR, f"The terminal could not be opened: {error}") from error

    async def dispose(self, uri: str) -> None:
        """`disposeTerminal`: kill what runs, remove it. Raises `ProtocolError` -32008 for one that is not here."""
        terminal = self._terminals.get(uri)
        if terminal is None:
            raise ProtocolError(NOT_FOUND, f"Terminal is no longer available: {uri}")
        await self._end([terminal])

    def _directory(self, params: Json) -> str:
        asked = params.get("cwd")
        if asked is None:
            session = self.session_of(params["claim"])
            path = first_path(self.host, session.directories if session is not None else [])
        else:
            path = path_of(asked) if asked.startswith("file:") else asked
        if path is None or not os.path.isabs(path) or not os.path.isdir(path):
            raise invalid_params(f"There is no directory {asked or path} for a terminal to start in.")
        return path

    # ── claims ───────────────────────────────────────────────────────────────────────────────────────────────
    def claim_problem(self, sender: Connection, claim: Json) -> str | None:
        """Why this client may not make this claim; None if it may."""
        if claim["kind"] == "client":
            return None if claim["clientId"] == sender.client_id else "A client claims for itself alone."
        session = self.session_of(claim)
        if session is None or session.closed:
            return f"There is no session {claim['session']} to claim a terminal for."
        chat = claim.get("chat")
        return None if chat is None or chat in session.chats else f"There is no chat {chat} in that session."

    def session_of(self, claim: Json) -> Session | None:
        try:
            return self.host.session_named(uris.canonical(claim["session"])) if "session" in claim else None
        except ValueError:
            return None

    def canonical(self, claim: Json) -> Json:
        """The claim with its session in the one spelling."""
        session = self.session_of(claim)
        return {**claim, "session": session.uri} if session is not None else claim

    def _provider(self, claim: Json) -> str | None:
        session = self.session_of(claim)
        return session.provider if session is not None else None

    # ── what is here ─────────────────────────────────────────────────────────────────────────────────────────
    def changed(self, terminal: Terminal) -> None:
        if terminal.of_a_turn and not terminal.running:
            terminal.listed = False
        self._tell()

    def _tell(self) -> None:
        """The root's list, when it changed."""
        shown = [terminal.info for terminal in self._terminals.values() if terminal.listed]
        if shown != self._shown:
            self._shown = shown
            self.host.hub.publish(self.host.root, {"type": "root/terminalsChanged", "terminals": shown})

    def _keep(self, terminal: Terminal) -> None:
        self._terminals[terminal.uri] = terminal
        over = [
            other
            for other in self._terminals.values()
            if not (other.running or other.channel.watched or other is terminal)
        ]
        for other in over[: max(0, len(over) - _KEPT)]:
            del self._terminals[other.uri]

    async def end_of_session(self, session: str) -> None:
        """A session goes: so does what is claimed for it."""
        await self._end(
            [one for one in self._terminals.values() if one.state["claim"].get("session") == session]
        )

    def chat_moved(self, chat: str, target: Session) -> None:
        """A chat goes to another session: so does the claim of what still runs for it there."""
        for terminal in self._terminals.values():
            claim = terminal.state["claim"]
            if claim.get("chat") == chat and claim.get("session") != target.uri:
                terminal.claimed({**claim, "session": target.uri}, target)

    async def end_of_chat(self, chat: str) -> None:
        await self._end([one for one in self._terminals.values() if one.state["claim"].get("chat") == chat])

    async def close(self) -> None:
        """The host stops."""
        try:
            async with asyncio.timeout(_CLOSING):
                await self._end(list(self._terminals.values()))
        except TimeoutError:
            log.error("Something that runs in a terminal could not be ended; it may go on")

    async def _end(self, terminals: list[Terminal]) -> None:
        for terminal in terminals:
            if self._terminals.get(terminal.uri) is terminal:
                del self._terminals[terminal.uri]
        self._tell()
        running = [terminal.pty.kill() for terminal in terminals if terminal.pty is not None]
        await asyncio.gather(*running)
        for terminal in terminals:
            for watcher in terminal.channel.watchers:
                terminal.channel.leave(watcher)
                watcher.subscriptions.pop(terminal.uri, None)

    # ── after a restart ──────────────────────────────────────────────────────────────────────────────────────
    async def _from_turn(self, uri: str) -> Json | None:
        """The state of a terminal that ran for a turn, as far as the turn kept it; None if no turn names it."""
        named = chat_of(uri)
        chat = self.host.chat_named(named) if named is not None else None
        if chat is None:
            return None
        await chat.loaded()
        for turn in reversed(chat.state["turns"]):
            for part in turn["responseParts"]:
                call = part.get("toolCall") or {}
                for block in call.get("content") or ():
                    if block.get("type") == "terminal" and block.get("resource") == uri:
                        where = {"session": chat.session.uri, "chat": chat.uri, "turnId": turn["id"]}
                        claim = {"kind": "session", **where, "toolCallId": call["toolCallId"]}
                        return _kept(block, claim)
        return None


def _kept(block: Json, claim: Json) -> Json:
    result = block.get("result") or {}
    text = (result.get("preview") or "").replace("\n", "\r\n")
    lifecycle: Json = {"status": "exited"}
    if result.get("exitCode") is not None:
        lifecycle["exitCode"] = result["exitCode"]
    content = [{"type": "unclassified", "value": text}] if text else []
    return {
        "title": block["title"],
        "content": content,
        "lifecycle": lifecycle,
        "claim": claim,
        "isPty": True,
    }


def first_path(host: Host, directories: list[str]) -> str | None:
    """Where the terminals of a session with these directories begin: the first of them (M5), if it is one of this machine."""
    if not directories:
        return host.options.default_directory or os.path.expanduser("~")
    return path_of(directories[0])


def uri_of(chat: str, turn: str) -> str:
    """The name of the terminal in which the command of a turn runs."""
    return f"ahp-terminal:/{_packed(chat)}/{_packed(turn)}"


def chat_of(uri: str) -> str | None:
    """The chat of the turn that a terminal ran for, by its name; None for one that ran for no turn."""
    packed = uri.removeprefix("ahp-terminal:/").partition("/")[0]
    try:
        return base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
    except (ValueError, binascii.Error):
        return None


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
