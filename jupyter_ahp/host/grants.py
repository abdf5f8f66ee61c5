"""Who may do what: roles, and the one gate that every request, action and read goes through.

P1 to P9, A9, AHP 1.3 (-32009). `TAKES` says which operation each method and each action takes; what is not in it is
refused. A role grants operations; who holds which role follows from who the handshake said is asking. Jupyter's
`Authorizer` is asked too, and both must agree. Nothing here is asked for what streams: whoever watches a channel was
let in when it subscribed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..protocol import uris
from ..protocol.commands import command_of
from ..protocol.errors import PERMISSION_DENIED, ProtocolError
from . import clock
from .ports import Json, Principal
from .rewind import UNDO_REWIND
from .uploads import NAMED as _UPLOADED

log = logging.getLogger(__name__)

_TRUST = 3000.0  # ms that an answer of the authorizer holds, for one connection

Asks: TypeAlias = Literal["read", "write", "execute"]
"""What Jupyter's authorizer is asked for: to see, to change what is kept, to make something run."""

Authorize: TypeAlias = Callable[[Asks], Awaitable[bool]]
"""Jupyter's authorizer, about the person of one connection."""


class _Operation(NamedTuple):
    asks: Asks
    undone: str
    """How a refusal begins."""
    may_not: str


OPERATIONS: Final[Mapping[str, _Operation]] = MappingProxyType(
    {
        "session:read": _Operation("read", "Not shown", "you may not see the sessions here"),
        "session:write": _Operation("write", "Not done", "you may not change sessions here"),
        "chat:turns": _Operation("read", "Not shown", "you may not read this chat"),
        "chat:create": _Operation("write", "Not opened", "you may not open chats here"),
        "chat:dispose": _Operation("write", "Not closed", "you may not close chats here"),
        "chat:send": _Operation("execute", "Not sent", "you may not send messages here"),
        "chat:cancel": _Operation("execute", "Not stopped", "you may not stop turns here"),
        "chat:answer": _Operation("execute", "Not answered", "you may not answer for this chat"),
        "chat:tool": _Operation("execute", "Not done", "you may not run tools of yours here"),
        "chat:draft": _Operation("write", "Not kept", "you may not write drafts here"),
        "chat:folders": _Operation("write", "Not changed", "you may not change a chat's directories here"),
        "chat:mark": _Operation("write", "Not marked", "you may not mark chats here"),
        "chat:truncate": _Operation("write", "Not rewound", "you may not rewind chats here"),
        "terminal:read": _Operation("read", "Not shown", "you may not see terminals here"),
        "terminal:create": _Operation("execute", "Not opened", "you may not open terminals here"),
        "terminal:dispose": _Operation("execute", "Not closed", "you may not close terminals here"),
        "terminal:write": _Operation("execute", "Not typed", "you may not use terminals here"),
        "resource:read": _Operation("read", "Not read", "you may not read files here"),
        "resource:write": _Operation("write", "Not written", "you may not write files here"),
    }
)
"""Every operation that can be granted. A grant is one of them, `<group>:*`, or `*:*`."""

_READING: Final = frozenset(name for name, operation in OPERATIONS.items() if operation.asks == "read")
_OF_CHATS: Final = frozenset(name for name in OPERATIONS if name.startswith("chat:"))
_COVERS: Final[Mapping[str, frozenset[str]]] = {
    "session:read": _OF_CHATS & _READING,
    "session:write": _OF_CHATS - _READING,
}
"""P9: what a session's operations cover of its chats'."""

_OPEN: Final[tuple[str, ...]] = ()
_CARRIED: Final = re.compile(
    r"(?i:file):.*/attachments/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/[^/]+"
)
"""What the URI of a file that a message carries looks like. Whether it is one is looked at where it is read."""

TAKES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # The connection itself. What a client asks to read as it connects is asked for channel by channel.
        "initialize": _OPEN,
        "reconnect": _OPEN,
        "ping": _OPEN,
        "unsubscribe": _OPEN,
        "subscribe": _OPEN,  # and `CHANNELS`, by what it names
        "dispatchAction": _OPEN,  # and what its action takes
        "root/configChanged": _OPEN,  # changes nothing, and is answered to its sender alone
        # Reading (P1).
        "listSessions": ("session:read",),
        "resolveSessionConfig": ("session:read",),
        "fetchTurns": ("chat:turns",),
        # Sessions (P9).
        "createSession": ("session:write",),
        "disposeSession": ("session:write",),
        "sessionConfigCompletions": ("session:write",),
        "authenticate": ("session:write",),
        "moveChat": ("session:write",),
        UNDO_REWIND: ("chat:truncate",),
        "invokeChangesetOperation": ("session:write",),
        "session/titleChanged": ("session:write",),  # on a chat's channel, too
        "session/isReadChanged": ("session:write",),
        "session/isArchivedChanged": ("session:write",),
        "session/configChanged": ("session:write",),
        "session/workingDirectorySet": ("session:write",),
        "session/workingDirectoryRemoved": ("session:write",),
        "session/workingDirectoryReplaced": ("session:write",),
        "session/customizationToggled": ("session:write",),
        "session/mcpServerStartRequested": ("session:write",),
        "session/mcpServerStopRequested": ("session:write",),
        "session/mcpServerBackgroundRequested": ("session:write",),
        "changeset/filesReviewChanged": ("session:write",),
        "annotations/set": ("session:write",),
        "annotations/updated": ("session:write",),
        "annotations/removed": ("session:write",),
        "annotations/entrySet": ("session:write",),
        "annotations/entryRemoved": ("session:write",),
        # Opening and closing chats (P2).
        "createChat": ("chat:create",),  # and what its message and its source take
        "disposeChat": ("chat:dispose",),
        # Turns (P3). What changes the queue may start its head (Q4), so it takes what sending takes.
        "chat/turnStarted": ("chat:send",),
        "chat/turnResume": ("chat:send",),
        "chat/pendingMessageSet": ("chat:send",),
        "chat/pendingMessageRemoved": ("chat:send",),
        "chat/queuedMessagesReordered": ("chat:send",),
        "chat/turnCancelled": ("chat:cancel",),
        "completions": ("chat:send", "chat:turns"),  # names paths and commands, for whoever writes a message
        # Answers (P4).
        "chat/toolCallConfirmed": ("chat:answer",),
        "chat/toolCallResultConfirmed": ("chat:answer",),
        "chat/inputAnswerChanged": ("chat:answer",),
        "chat/inputCompleted": ("chat:answer",),
        # A client's own tools: to offer them, and to run them (P5).
        "session/activeClientSet": ("chat:tool",),
        "session/activeClientRemoved": ("chat:tool",),
        "chat/toolCallComplete": ("chat:tool",),
        "chat/toolCallContentChanged": ("chat:tool",),
        # Drafts (P6), directories and marks (P7), rewinds (P8).
        "chat/draftChanged": ("chat:draft",),
        "chat/workingDirectorySet": ("chat:folders",),
        "chat/workingDirectoryRemoved": ("chat:folders",),
        "chat/isReadChanged": ("chat:mark",),
        "chat/isArchivedChanged": ("chat:mark",),
        "chat/truncated": ("chat:truncate",),
        "x-jupyter-ahp/undoRewind": ("chat:truncate",),
        "x-jupyter-ahp/show": ("chat:send",),  # and what it reads
        # Terminals, and the server's files.
        "createTerminal": ("terminal:create",),
        "disposeTerminal": ("terminal:dispose",),
        "terminal/input": ("terminal:write",),
        "terminal/resized": ("terminal:write",),
        "terminal/claimed": ("terminal:write",),
        "terminal/titleChanged": ("terminal:write",),
        "terminal/cleared": ("terminal:write",),
        "resourceRead": ("resource:read",),  # or what reading a chat takes, for what its messages carry
        "resourceList": ("resource:read",),
        "resourceResolve": ("resource:read",),
        "createResourceWatch": ("resource:read",),
        "resourceCopy": ("resource:read", "resource:write"),
        "resourceMove": ("resource:read", "resource:write"),
        "resourceWrite": ("resource:write",),
        "resourceDelete": ("resource:write",),
        "resourceMkdir": ("resource:write",),
        "resourceRequest": _OPEN,  # and what it requests
    }
)
"""Each method and each client's action, with the operations that it takes. One that is missing is refused."""

CHANNELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "root": _OPEN,  # the agents; what it tells of sessions goes to those who may see them
        "session": ("session:read",),
        "changeset": ("session:read",),
        "annotations": ("session:read",),
        "chat": ("chat:turns",),
        "canvas": ("chat:turns",),
        "terminal": ("terminal:read",),
        "resourceWatch": ("resource:read",),
    }
)
"""What it takes to read a channel, by its kind: for `subscribe`, `initialize` and `reconnect` alike."""


def takes(name: str, content: Json, *, commands: bool = False) -> tuple[str, ...] | None:
    """What it takes to make this request (`content`: its params) or to dispatch this action; None if nobody may.

    `commands`: a message may be one that runs in a terminal (M5).
    """
    needed = TAKES.get(name)
    if needed is None:
        return None
    match name:
        case "subscribe":
            return to_read(content["channel"])
        case "x-jupyter-ahp/show":
            if content.get("path") is not None or content.get("port") is not None:
                needed += ("resource:read",)
        case "createChat":
            if content.get("initialMessage") is not None:
                needed += ("chat:send",)
            if content.get("source") is not None:
                needed += ("chat:turns",)
            if commands and _is_command(content.get("initialMessage")):
                needed += ("terminal:create",)
        case "chat/turnStarted" | "chat/pendingMessageSet":
            if commands and _is_command(content.get("message")):
                needed += ("terminal:create",)
        case "resourceRead" | "resourceResolve":
            # What a message carries is a part of its chat (P1), as its canvases are.
            if _CARRIED.fullmatch(content["uri"]) or content["uri"].startswith(("ahp-canvas:", "data:")):
                needed = ("chat:turns",)
        case "resourceWrite" | "resourceDelete":
            if _UPLOADED.fullmatch(content["uri"]):  # what a message is to carry is a part of sending it (P3)
                needed = ("chat:send",)
        case "resourceRequest":
            if content.get("write"):
                needed += ("resource:write",)
            if content.get("read") or not content.get("write"):
                needed += ("resource:read",)
    return needed


def _is_command(message: Any) -> bool:
    text = message.get("text") if isinstance(message, dict) else None
    return isinstance(text, str) and command_of(text) is not None


def to_read(channel: str) -> tuple[str, ...] | None:
    """What it takes to read the channel of that URI; None if nobody may. Raises ValueError for what is no URI."""
    kind = uris.channel_kind(channel)
    return (
        _OPEN if kind is None else CHANNELS.get(kind)
    )  # of no kind: there is nothing, which `subscribe` says


# ── Roles ────────────────────────────────────────────────────────────────────────────────────────────────────────
OWNER: Final = "owner"
ROLES: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "guest": ("session:read",),
        "member": ("session:read", "session:write", "terminal:*"),
        OWNER: ("*:*",),
    }
)
"""The roles that are there without any configuration."""


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    operations: frozenset[str]
    """All that it allows, P9 worked in."""


class Grants:
    """Roles, and who holds which."""

    def __init__(
        self,
        roles: Mapping[str, Sequence[str]] = ROLES,
        members: Mapping[str, str] = MappingProxyType({}),
        default_role: str = OWNER,
    ) -> None:
        """`roles` are added to the built-in ones; `members` maps a username to a role.

        Raises ValueError, in words for whoever wrote the configuration.
        """
        granted = {**ROLES, **roles}
        if list(granted[OWNER]) != list(ROLES[OWNER]):
            raise ValueError(f"roles: {OWNER!r} may do everything and cannot be changed. Name another role.")
        self._roles = {name: _role(name, grants) for name, grants in granted.items()}
        for who, role in members.items():
            if role not in self._roles:
                raise ValueError(f"members: {role!r}, of {who!r}, {self._is_no_role()}")
        if default_role not in self._roles:
            raise ValueError(f"default_role: {default_role!r} {self._is_no_role()}")
        self._members = dict(members)
        self._default = default_role

    def _is_no_role(self) -> str:
        return f"is no role. Roles: {', '.join(self._roles)}."

    def role_of(self, principal: Principal) -> Role:
        """The role of whoever the handshake named: the server's own token holds `owner`."""
        kind, _, name = principal.id.partition(":")
        if kind == "root":
            return self._roles[OWNER]
        return self._roles[self._members.get(name, self._default)]


def _role(name: str, grants: Sequence[str]) -> Role:
    if isinstance(grants, str) or not isinstance(grants, Sequence):
        raise ValueError(f"roles: {name!r} is not a list of grants: {grants!r}")
    operations: set[str] = set()
    for grant in grants:
        meant = _meant(grant)
        if not meant:
            known = ", ".join(OPERATIONS)
            raise ValueError(
                f"roles: {name!r} has {grant!r}, which is no grant. Grants: *:*, <group>:*, {known}."
            )
        for operation in meant:
            operations |= {operation, *_COVERS.get(operation, ())}
    return Role(name, frozenset(operations))


def _meant(grant: object) -> list[str]:
    """The operations of a grant; none if it is no grant."""
    if grant == "*:*":
        return list(OPERATIONS)
    if isinstance(grant, str) and grant.endswith(":*"):
        return [operation for operation in OPERATIONS if operation.startswith(grant[:-1])]
    return [operation for operation in OPERATIONS if operation == grant]


# ── The gate ─────────────────────────────────────────────────────────────────────────────────────────────────────
class Gate:
    """What one connection may do. `authorize` is Jupyter's authorizer; None where there is none."""

    def __init__(self, role: Role, authorize: Authorize | None, *, commands: bool = False) -> None:
        """`commands`: a message may be one that runs in a terminal."""
        self.role = role
        self.commands = commands
        self._authorize = authorize
        self._said: dict[Asks, tuple[float, bool]] = {}
        """The authorizer's last answers, and when they were given."""

    async def refusal(self, needed: Iterable[str]) -> str | None:
        """Why this connection may not, in words that name the operation; None if it may."""
        for name in needed:
            if name not in self.role.operations:
                return self._words(name)
            if self._authorize is not None and not await self._authorized(OPERATIONS[name].asks):
                return (
                    f"{OPERATIONS[name].undone}: this server's authorizer does not let you "
                    f"(needs {name}, for which it is asked {OPERATIONS[name].asks!r})."
                )
        return None

    async def check(self, name: str, content: Json) -> None:
        """Raises `ProtocolError` -32009 if this connection may not make this request."""
        needed = takes(name, content, commands=self.commands)
        if needed is None:
            raise ProtocolError(PERMISSION_DENIED, f"Not done: nobody is granted {name}.")
        reason = await self.refusal(needed)
        if reason is not None:
            data = {"jupyter-ahp.needs": list(needed), "jupyter-ahp.role": self.role.name}
            raise ProtocolError(PERMISSION_DENIED, reason, data)

    async def may(self, *operations: str) -> bool:
        return await self.refusal(operations) is None

    async def may_read(self, channel: str) -> bool:
        """Whether it may read the channel of that (canonical) URI."""
        needed = to_read(channel)
        return needed is not None and await self.may(*needed)

    async def granted(self) -> list[str]:
        """All that it may do, as far as is known now."""
        return [name for name in OPERATIONS if await self.may(name)]

    def holds(self, operation: str) -> bool:
        """Whether it may, as the authorizer said last. For what goes out in one tick to many."""
        if operation not in self.role.operations:
            return False
        return self._authorize is None or self._said.get(OPERATIONS[operation].asks, (0.0, False))[1]

    async def _authorized(self, asks: Asks) -> bool:
        assert self._authorize is not None
        when, answer = self._said.get(asks, (0.0, False))
        now = clock.monotonic_ms()
        if asks in self._said and now - when < _TRUST:
            return answer
        try:
            answer = await self._authorize(asks)
        except Exception:
            log.exception("Jupyter's authorizer failed when asked %r: that is taken for a no", asks)
            answer = False
        self._said[asks] = clock.monotonic_ms(), answer
        return answer

    def _words(self, name: str) -> str:
        operation = OPERATIONS[name]
        why = operation.may_not
        if name not in _READING and self.role.operations <= _READING:
            if name.startswith("chat:") and "chat:turns" in self.role.operations:
                why = "you may read this chat only"
            elif "session:read" in self.role.operations:
                why = "you may only read here"
        return f"{operation.undone}: {why} (needs {name}). Your role here is {self.role.name}."
