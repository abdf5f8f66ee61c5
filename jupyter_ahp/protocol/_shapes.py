"""The shapes of what clients send, as tables: params of each method (AHP 1.2, 2.4, 3.4, 4.9, 5) and fields of each action.

A field whose type allows None may be missing or null. Keys that are not named are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

Json = dict[str, Any]


def _shape(**fields: Any) -> Any:
    """An object with these fields, by their names on the wire."""
    return msgspec.defstruct(
        "Shape",
        [
            (name, kind, None) if type(None) in get_args(kind) else (name, kind)
            for name, kind in fields.items()
        ],
        kw_only=True,
    )


def _variants(field: str, **variants: Mapping[str, Any]) -> Any:
    """An object whose `field` says which of these it is; `_` in a name stands for `-`."""
    union: Any = None
    for name, fields in variants.items():
        tag = name.replace("_", "-")
        optional = [(key, kind, None) for key, kind in fields.items() if type(None) in get_args(kind)]
        required = [(key, kind) for key, kind in fields.items() if type(None) not in get_args(kind)]
        struct = msgspec.defstruct(tag, [*required, *optional], kw_only=True, tag_field=field, tag=tag)
        union = struct if union is None else union | struct
    return union


Named = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Text: Any = str | Json
"""StringOrMarkdown."""

_RANGE: Any = _shape(start=Json, end=Json)
ATTACHMENT: Any = _shape(
    type=Named,
    label=str,
    uri=str | None,
    resource=str | None,
    data=str | None,
    contentType=str | None,
    modelRepresentation=str | None,
    displayKind=str | None,
    endTurn=str | None,
    annotationIds=list[str] | None,
    sizeHint=float | None,
    range=_RANGE | None,
    selection=Json | None,
    _meta=Json | None,
)
ATTACHMENT_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "embeddedResource": ("data", "contentType"),
    "resource": ("uri",),
    "annotations": ("resource",),
    "chat": ("resource",),
}
"""Beyond `label`, by type (AHP 4.2). Types that nobody knows are kept as they are."""

MESSAGE: Any = _shape(
    text=str,
    origin=_shape(kind=str),
    attachments=list[ATTACHMENT] | None,
    model=_shape(id=Named, config=Json | None) | None,
    agent=_shape(uri=str) | None,
    _meta=Json | None,
)
_VALUE = _variants(
    "kind",
    text={"value": str},
    number={"value": float},
    boolean={"value": bool},
    selected={"value": str, "freeformValues": list[str] | None},
    selected_many={"value": list[str], "freeformValues": list[str] | None},
)
_ANSWER: Any = _variants(
    "state",
    draft={"value": _VALUE},
    submitted={"value": _VALUE},
    skipped={"freeformValues": list[str] | None},
)
_TOOL: Any = _shape(name=Named, inputSchema=Json | None)
_ACTIVE_CLIENT: Any = _shape(
    clientId=Named,
    displayName=str | None,
    tools=list[_TOOL],
    customizations=list[Json] | None,
)
_CLAIM = _variants(
    "kind",
    client={"clientId": Named},
    session={"session": Named, "chat": Named, "turnId": str | None, "toolCallId": str | None},
)
_TOOL_RESULT = _shape(
    success=bool,
    pastTenseMessage=Text,
    content=list[Json] | None,
    structuredContent=Json | None,
    error=_shape(message=str, code=str | None) | None,
)
_ENTRY: Any = _shape(id=Named, text=str)
_ORIGIN: Any = _shape(session=Named, chat=str | None, turnId=str | None)
_ANNOTATION = _shape(
    id=Named,
    origin=_ORIGIN,
    resource=Named,
    range=_RANGE | None,
    resolved=bool,
    entries=Annotated[list[_ENTRY], Meta(min_length=1)],
)

# ── Actions that a client may dispatch ───────────────────────────────────────────────────────────────────────────
_CONFIG: Any = _shape(config=Json, replace=bool | None)
_DIRECTORY = _shape(directory=Named)
_READ = _shape(isRead=bool)
_ARCHIVED = _shape(isArchived=bool)
_ENABLEMENT: Any = _shape(kind=Named, enabled=bool, uri=str | None)
_ID = _shape(id=Named)
_TITLE = _shape(title=str)
_PENDING_KIND = Literal["steering", "queued"]

ACTIONS: Final[Mapping[str, Any]] = {
    "root/configChanged": _CONFIG,
    "session/titleChanged": _TITLE,
    "session/isReadChanged": _READ,
    "session/isArchivedChanged": _ARCHIVED,
    "session/configChanged": _CONFIG,
    "session/activeClientSet": _shape(activeClient=_ACTIVE_CLIENT),
    "session/activeClientRemoved": _shape(clientId=Named),
    "session/workingDirectorySet": _DIRECTORY,
    "session/workingDirectoryRemoved": _DIRECTORY,
    "session/workingDirectoryReplaced": _shape(directory=Named, replacement=Named),
    "session/customizationToggled": _shape(id=Named, enablement=list[_ENABLEMENT]),
    "session/mcpServerStartRequested": _ID,
    "session/mcpServerStopRequested": _ID,
    "session/mcpServerBackgroundRequested": _ID,
    "chat/turnStarted": _shape(turnId=Named, startedAt=str, message=MESSAGE, queuedMessageId=str | None),
    "chat/turnCancelled": _shape(turnId=Named, duration=float),
    "chat/turnResume": _shape(turnId=Named),
    "chat/toolCallConfirmed": _shape(
        turnId=Named,
        toolCallId=Named,
        approved=bool,
        confirmed=str | None,
        reason=str | None,
        reasonMessage=Text | None,
        userSuggestion=MESSAGE | None,
        editedToolInput=str | None,
        selectedOptionId=str | None,
    ),
    "chat/toolCallComplete": _shape(
        turnId=Named, toolCallId=Named, result=_TOOL_RESULT, requiresResultConfirmation=bool | None
    ),
    "chat/toolCallResultConfirmed": _shape(turnId=Named, toolCallId=Named, approved=bool),
    "chat/toolCallContentChanged": _shape(turnId=Named, toolCallId=Named, content=list[Json]),
    "chat/workingDirectorySet": _DIRECTORY,
    "chat/workingDirectoryRemoved": _DIRECTORY,
    "chat/pendingMessageSet": _shape(kind=_PENDING_KIND, id=Named, message=MESSAGE),
    "chat/pendingMessageRemoved": _shape(kind=_PENDING_KIND, id=Named),
    "chat/queuedMessagesReordered": _shape(order=list[str]),
    "chat/draftChanged": _shape(draft=MESSAGE | None),
    "chat/isReadChanged": _READ,
    "chat/isArchivedChanged": _ARCHIVED,
    "chat/inputAnswerChanged": _shape(requestId=Named, questionId=Named, answer=_ANSWER | None),
    "chat/inputCompleted": _shape(
        requestId=Named, response=Literal["accept", "decline", "cancel"], answers=dict[str, _ANSWER] | None
    ),
    "chat/truncated": _shape(turnId=str | None),
    "terminal/input": _shape(data=str),
    "terminal/resized": _shape(cols=Positive, rows=Positive),
    "terminal/claimed": _shape(claim=_CLAIM),
    "terminal/titleChanged": _TITLE,
    "terminal/cleared": _shape(),
    "changeset/filesReviewChanged": _shape(files=list[str], reviewed=bool),
    "annotations/set": _shape(annotation=_ANNOTATION),
    "annotations/updated": _shape(
        annotationId=Named,
        origin=_ORIGIN | None,
        resource=str | None,
        range=_RANGE | None,
        resolved=bool | None,
    ),
    "annotations/removed": _shape(annotationId=Named),
    "annotations/entrySet": _shape(annotationId=Named, entry=_ENTRY),
    "annotations/entryRemoved": _shape(annotationId=Named, entryId=Named),
}

# ── Methods ──────────────────────────────────────────────────────────────────────────────────────────────────────
_SOURCE = _variants(
    "kind",
    fork={"chat": Named, "turnId": Named},
    sideChat={
        "chat": Named,
        "turnId": Named,
        "selection": _shape(text=str, responsePartId=str | None) | None,
    },
)
_DESTINATION = _variants("kind", session={"session": Named, "after": str | None}, newSession={})
_NOTHING = _shape()
_CONFIG_OF = {"provider": str | None, "workingDirectory": str | None, "config": Json | None}
_TRANSFER = _shape(source=Named, destination=Named, failIfExists=bool | None)

ROOT_METHODS: Final[Mapping[str, Any]] = {
    "initialize": _shape(
        protocolVersions=list[str],
        clientId=Named,
        clientInfo=_shape(name=str, version=str | None, title=str | None) | None,
        initialSubscriptions=list[str] | None,
        locale=str | None,
        capabilities=Json | None,
    ),
    "ping": _NOTHING,
    "reconnect": _shape(clientId=Named, lastSeenServerSeq=Count, subscriptions=list[str]),
    "listSessions": _shape(limit=Positive | None, cursor=str | None),
    "resolveSessionConfig": _shape(**_CONFIG_OF),
    "sessionConfigCompletions": _shape(**_CONFIG_OF, property=Named, query=str | None),
    "authenticate": _shape(
        resource=Named, token=str, scopes=list[str] | None, expiresIn=Annotated[float, Meta(gt=0)] | None
    ),
    "resourceRead": _shape(uri=Named, encoding=Literal["base64", "utf-8"] | None),
    "resourceWrite": _shape(
        uri=Named,
        data=str,
        encoding=Literal["base64", "utf-8"],
        contentType=str | None,
        createOnly=bool | None,
        mode=Literal["truncate", "append", "insert"] | None,
        position=Count | None,
        ifMatch=str | None,
    ),
    "resourceList": _shape(uri=Named),
    "resourceCopy": _TRANSFER,
    "resourceMove": _TRANSFER,
    "resourceDelete": _shape(uri=Named, recursive=bool | None),
    "resourceResolve": _shape(uri=Named, followSymlinks=bool | None),
    "resourceMkdir": _shape(uri=Named),
    "resourceRequest": _shape(uri=Named, read=bool | None, write=bool | None),
    "createResourceWatch": _shape(
        uri=Named,
        recursive=bool | None,
        excludes=_shape(items=list[str]) | None,
        includes=_shape(items=list[str]) | None,
    ),
}
"""Methods of the connection: their `channel` is the root."""

SESSION_METHODS: Final[Mapping[str, Any]] = {
    "createSession": _shape(
        provider=str | None,
        workingDirectories=list[str] | None,
        config=Json | None,
        activeClient=_ACTIVE_CLIENT | None,
        progressToken=str | int | None,
    ),
    "disposeSession": _NOTHING,
    "createChat": _shape(
        chat=Named, initialMessage=MESSAGE | None, source=_SOURCE | None, workingDirectories=list[str] | None
    ),
}
"""Methods whose `channel` is a session's URI."""

CHANNEL_METHODS: Final[Mapping[str, Any]] = {
    "subscribe": _shape(
        delivery=_shape(maxLatencyMs=Annotated[float, Meta(ge=0)] | None) | None,
        view=_shape(turns=Count | None) | None,
    ),
    "unsubscribe": _NOTHING,
    "dispatchAction": _shape(clientSeq=Count, action=Json),
    "disposeChat": _NOTHING,
    "moveChat": _shape(destination=_DESTINATION),
    "fetchTurns": _shape(cursor=str | None),
    "completions": _shape(kind=Named, text=str, offset=Count),
    "createTerminal": _shape(
        claim=_CLAIM, name=str | None, cwd=str | None, cols=Positive | None, rows=Positive | None
    ),
    "disposeTerminal": _NOTHING,
    "invokeChangesetOperation": _shape(operationId=Named, target=Json | None),
}
"""Methods whose `channel` is what they work on."""
