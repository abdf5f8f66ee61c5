"""The smaller channels: terminal, canvas, changeset, annotations, resource watch (AHP 5)."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from .common import ErrorInfo, FileEdit, JsonObject, TextRange


class TerminalLifecycle(TypedDict):
    status: Literal["running", "exited"]
    exitCode: NotRequired[int]


class TerminalClaim(TypedDict):
    """`client` (clientId), or `session` (session and chat)."""

    kind: Literal["client", "session"]
    clientId: NotRequired[str]
    session: NotRequired[str]
    chat: NotRequired[str]
    turnId: NotRequired[str]
    toolCallId: NotRequired[str]


class TerminalInfo(TypedDict):
    resource: str
    title: str
    claim: TerminalClaim
    lifecycle: TerminalLifecycle


class TerminalState(TypedDict):
    title: str
    content: list[JsonObject]
    """`unclassified` (value), or `command` (commandId, commandLine, output, timestamp, isComplete, …)."""
    lifecycle: TerminalLifecycle
    claim: TerminalClaim
    cwd: NotRequired[str]
    cols: NotRequired[int]
    rows: NotRequired[int]
    supportsCommandDetection: NotRequired[bool]
    isPty: NotRequired[bool]


class CanvasState(TypedDict):
    instanceId: str
    extensionId: str
    canvasId: str
    extensionName: NotRequired[str]
    title: NotRequired[str]
    status: NotRequired[str]
    url: NotRequired[str]
    """Never logged, never stored (V6)."""


class Changeset(TypedDict):
    """An entry of a catalogue: where the changeset itself is found."""

    label: str
    uriTemplate: str
    changeKind: str
    description: NotRequired[str]
    capabilities: NotRequired[JsonObject]


class ChangesetFile(TypedDict):
    id: str
    edit: FileEdit
    reviewed: NotRequired[bool]
    _meta: NotRequired[JsonObject]


class ChangesetOperation(TypedDict):
    id: str
    label: str
    scopes: list[Literal["changeset", "resource", "range"]]
    status: Literal["idle", "running", "error", "disabled"]
    description: NotRequired[str]
    confirmation: NotRequired[JsonObject | str]
    icon: NotRequired[str]
    group: NotRequired[str]
    error: NotRequired[ErrorInfo]


class ChangesetState(TypedDict):
    status: Literal["computing", "ready", "error", "recomputing"]
    files: list[ChangesetFile]
    error: NotRequired[ErrorInfo]
    operations: NotRequired[list[ChangesetOperation]]


class AnnotationEntry(TypedDict):
    id: str
    text: str
    _meta: NotRequired[JsonObject]


class AnnotationOrigin(TypedDict):
    session: str
    chat: NotRequired[str]
    turnId: NotRequired[str]


class Annotation(TypedDict):
    id: str
    origin: AnnotationOrigin
    resource: str
    resolved: bool
    entries: list[AnnotationEntry]
    range: NotRequired[TextRange]
    _meta: NotRequired[JsonObject]


class AnnotationsState(TypedDict):
    annotations: list[Annotation]


class ResourceWatchState(TypedDict):
    root: str
    recursive: bool
    excludes: NotRequired[JsonObject]
    includes: NotRequired[JsonObject]
