"""What requests and notifications carry: envelopes, params and results (AHP 1.4 to 1.8, 2.4, 3.4, 4.9)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from .chat import Message
from .common import JsonObject
from .session import SessionActiveClient, SessionSummary

Action: TypeAlias = JsonObject
"""`{"type": "<channel>/<name>", …}`. What each type carries: `versions.INTRODUCED`, AHP 2.2, 3.2, 4.7 and 5."""


class ActionOrigin(TypedDict):
    clientId: str
    clientSeq: int


class ActionEnvelope(TypedDict):
    """Params of the notification `action`."""

    channel: str
    action: Action
    serverSeq: int
    origin: NotRequired[ActionOrigin]
    """Absent, never null, for what the host itself says."""
    rejectionReason: NotRequired[str]


class DispatchActionParams(TypedDict):
    channel: str
    clientSeq: int
    """0 = neither ordered nor deduplicated."""
    action: Action


class Snapshot(TypedDict):
    resource: str
    state: JsonObject
    fromSeq: int


class Implementation(TypedDict):
    name: str
    version: NotRequired[str]
    title: NotRequired[str]


class InitializeParams(TypedDict):
    channel: str
    protocolVersions: list[str]
    clientId: str
    clientInfo: NotRequired[Implementation]
    initialSubscriptions: NotRequired[list[str]]
    locale: NotRequired[str]
    capabilities: NotRequired[JsonObject]
    _meta: NotRequired[JsonObject]


class InitializeResult(TypedDict):
    protocolVersion: str
    serverSeq: int
    snapshots: list[Snapshot]
    serverInfo: NotRequired[Implementation]
    defaultDirectory: NotRequired[str]
    completionTriggerCharacters: NotRequired[list[str]]
    terminalCommandPrefix: NotRequired[str]
    telemetry: NotRequired[dict[str, str]]
    automations: NotRequired[JsonObject]
    _meta: NotRequired[JsonObject]


class SubscribeView(TypedDict, total=False):
    turns: int


class SubscribeDelivery(TypedDict, total=False):
    maxLatencyMs: float


class SubscribeParams(TypedDict):
    channel: str
    view: NotRequired[SubscribeView]
    delivery: NotRequired[SubscribeDelivery]


class SubscribeResult(TypedDict):
    snapshot: NotRequired[Snapshot]


class ReconnectParams(TypedDict):
    channel: str
    clientId: str
    lastSeenServerSeq: int
    subscriptions: list[str]


class ReplayResult(TypedDict):
    type: Literal["replay"]
    actions: list[ActionEnvelope]
    missing: list[str]


class SnapshotResult(TypedDict):
    """A subscription without a snapshot is gone."""

    type: Literal["snapshot"]
    snapshots: list[Snapshot]


class ListSessionsResult(TypedDict):
    items: list[SessionSummary]
    nextCursor: NotRequired[str]


class CreateSessionParams(TypedDict):
    channel: str
    provider: NotRequired[str]
    workingDirectories: NotRequired[list[str]]
    config: NotRequired[dict[str, Any]]
    activeClient: NotRequired[SessionActiveClient]
    progressToken: NotRequired[str | int]


class CreateChatParams(TypedDict):
    channel: str
    """The session."""
    chat: str
    initialMessage: NotRequired[Message]
    source: NotRequired[JsonObject]
    """By `kind`: `fork` (chat, turnId), `sideChat` (chat, turnId, selection)."""
    workingDirectories: NotRequired[list[str]]
