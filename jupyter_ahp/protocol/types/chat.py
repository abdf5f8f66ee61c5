"""The chat channel (AHP 4)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from .channels import Changeset
from .common import (
    AgentSelection,
    ChangesSummary,
    ContentRef,
    ErrorInfo,
    JsonObject,
    ModelSelection,
    StringOrMarkdown,
    TextRange,
    UsageInfo,
)


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────
class MessageOrigin(TypedDict):
    kind: Literal["user", "agent", "tool", "automation", "systemNotification"]
    """Clients send `user` and nothing else."""


class Attachment(TypedDict):
    """By `type`: `simple`, `embeddedResource` (data, contentType), `resource` (uri), `annotations` and `chat` (resource)."""

    type: str
    label: str
    range: NotRequired[TextRange]
    displayKind: NotRequired[str]
    modelRepresentation: NotRequired[str]
    data: NotRequired[str]
    contentType: NotRequired[str]
    uri: NotRequired[str]
    sizeHint: NotRequired[int]
    nonce: NotRequired[str]
    selection: NotRequired[JsonObject]
    resource: NotRequired[str]
    annotationIds: NotRequired[list[str]]
    endTurn: NotRequired[str]
    _meta: NotRequired[JsonObject]


class Message(TypedDict):
    text: str
    origin: MessageOrigin
    attachments: NotRequired[list[Attachment]]
    model: NotRequired[ModelSelection]
    agent: NotRequired[AgentSelection]
    _meta: NotRequired[JsonObject]


class PendingMessage(TypedDict):
    id: str
    message: Message


# ── Questions ────────────────────────────────────────────────────────────────────────────────────────────────────
class ChatInputQuestion(TypedDict):
    """By `kind`: `text number integer boolean single-select multi-select` (AHP 4.4)."""

    id: str
    kind: str
    message: str
    title: NotRequired[str]
    required: NotRequired[bool]
    options: NotRequired[list[JsonObject]]
    allowFreeformInput: NotRequired[bool]
    format: NotRequired[str]
    min: NotRequired[float]
    max: NotRequired[float]
    defaultValue: NotRequired[Any]


class ChatInputAnswer(TypedDict):
    state: Literal["draft", "submitted", "skipped"]
    value: NotRequired[JsonObject]
    freeformValues: NotRequired[list[str]]


class ChatInputRequest(TypedDict):
    id: str
    message: NotRequired[str]
    url: NotRequired[str]
    questions: NotRequired[list[ChatInputQuestion]]
    answers: NotRequired[dict[str, ChatInputAnswer]]


# ── Tool calls ───────────────────────────────────────────────────────────────────────────────────────────────────
ToolCallStatus: TypeAlias = Literal[
    "streaming",
    "pending-confirmation",
    "running",
    "auth-required",
    "pending-result-confirmation",
    "completed",
    "cancelled",
]


class ToolCallState(TypedDict):
    """Which fields are there goes by `status` (AHP 4.5)."""

    status: ToolCallStatus
    toolCallId: str
    toolName: str
    displayName: str
    intention: NotRequired[str]
    contributor: NotRequired[JsonObject]
    _meta: NotRequired[JsonObject]
    partialInput: NotRequired[str]
    invocationMessage: NotRequired[StringOrMarkdown]
    toolInput: NotRequired[str | ContentRef]
    confirmationTitle: NotRequired[StringOrMarkdown]
    riskAssessment: NotRequired[JsonObject]
    edits: NotRequired[JsonObject]
    editable: NotRequired[bool]
    options: NotRequired[list[JsonObject]]
    confirmed: NotRequired[Literal["not-needed", "user-action", "setting"]]
    selectedOption: NotRequired[JsonObject]
    auth: NotRequired[JsonObject]
    success: NotRequired[bool]
    pastTenseMessage: NotRequired[StringOrMarkdown]
    content: NotRequired[list[JsonObject]]
    structuredContent: NotRequired[JsonObject]
    error: NotRequired[JsonObject]
    reason: NotRequired[Literal["denied", "skipped", "result-denied"]]
    reasonMessage: NotRequired[StringOrMarkdown]
    userSuggestion: NotRequired[Message]


# ── Response parts ───────────────────────────────────────────────────────────────────────────────────────────────
class TextPart(TypedDict):
    kind: Literal["markdown", "reasoning"]
    id: str
    content: str


class ToolCallPart(TypedDict):
    kind: Literal["toolCall"]
    toolCall: ToolCallState


class InputRequestPart(TypedDict):
    kind: Literal["inputRequest"]
    request: ChatInputRequest
    response: NotRequired[Literal["accept", "decline", "cancel"]]


class NoticePart(TypedDict):
    kind: Literal["systemNotification"]
    content: StringOrMarkdown
    _meta: NotRequired[JsonObject]


class ErrorPart(TypedDict):
    """Only with `chat/error`, as the last part of its turn."""

    kind: Literal["error"]
    error: ErrorInfo
    resumable: NotRequired[bool]


class ContentRefPart(ContentRef):
    kind: Literal["contentRef"]


ResponsePart: TypeAlias = TextPart | ToolCallPart | InputRequestPart | NoticePart | ErrorPart | ContentRefPart


# ── Turns ────────────────────────────────────────────────────────────────────────────────────────────────────────
class ActiveTurn(TypedDict):
    id: str
    startedAt: str
    message: Message
    responseParts: list[ResponsePart]
    usage: NotRequired[UsageInfo]


class Turn(TypedDict):
    id: str
    startedAt: NotRequired[str]
    duration: NotRequired[float]
    """Milliseconds."""
    message: Message
    responseParts: list[ResponsePart]
    usage: NotRequired[UsageInfo]
    state: Literal["complete", "cancelled", "error"]


# ── Chats ────────────────────────────────────────────────────────────────────────────────────────────────────────
class ChatOrigin(TypedDict):
    """By `kind`: `user`, `fork` and `sideChat` (chat, turnId), `tool` (chat, toolCallId)."""

    kind: str
    chat: NotRequired[str]
    turnId: NotRequired[str]
    toolCallId: NotRequired[str]
    selection: NotRequired[JsonObject]


class BackgroundWork(TypedDict):
    """By `kind`: `shell` (command, terminal), `subagent` (chat)."""

    kind: str
    id: str
    label: str
    startedAt: str
    command: NotRequired[str]
    terminal: NotRequired[str]
    chat: NotRequired[str]
    _meta: NotRequired[JsonObject]


class ChatSummary(TypedDict):
    """What a session says of a chat; every change of it is announced with `session/chatUpdated`."""

    resource: str
    title: str
    status: int
    modifiedAt: str
    activity: NotRequired[str]
    changes: NotRequired[ChangesSummary]
    origin: NotRequired[ChatOrigin]
    movable: NotRequired[bool]
    interactivity: NotRequired[Literal["full", "read-only", "hidden"]]
    workingDirectories: NotRequired[list[str]]


class ChatState(ChatSummary):
    turns: list[Turn]
    """Oldest first; the running one is not among them."""
    turnsNextCursor: NotRequired[str]
    activeTurn: NotRequired[ActiveTurn]
    steeringMessage: NotRequired[PendingMessage]
    queuedMessages: NotRequired[list[PendingMessage]]
    draft: NotRequired[Message]
    changesets: NotRequired[list[Changeset]]
    backgroundWork: NotRequired[list[BackgroundWork]]
    canvases: NotRequired[list[dict[str, str]]]
    _meta: NotRequired[JsonObject]
