"""The root and the session channel (AHP 2, 3)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from .channels import Changeset, TerminalInfo
from .chat import ChatOrigin, ChatSummary
from .common import ChangesSummary, ErrorInfo, JsonObject


# ── Root ─────────────────────────────────────────────────────────────────────────────────────────────────────────
class ConfigSchema(TypedDict):
    type: Literal["object"]
    properties: dict[str, JsonObject]
    required: NotRequired[list[str]]


class Config(TypedDict):
    schema: ConfigSchema
    values: dict[str, Any]


class SessionModelInfo(TypedDict):
    id: str
    provider: str
    name: str
    maxContextWindow: NotRequired[int]
    maxOutputTokens: NotRequired[int]
    maxPromptTokens: NotRequired[int]
    supportsVision: NotRequired[bool]
    policyState: NotRequired[Literal["enabled", "disabled", "unconfigured"]]
    configSchema: NotRequired[ConfigSchema]
    _meta: NotRequired[JsonObject]


class Customization(TypedDict):
    """By `type`: `plugin directory mcpServer agent skill prompt rule hook`; the rest goes by it (AHP 3.1)."""

    type: str
    id: str
    uri: str
    name: str
    children: NotRequired[list[Customization]]
    enablement: NotRequired[list[JsonObject]]
    enabled: NotRequired[bool]
    state: NotRequired[JsonObject]
    channel: NotRequired[str]
    _meta: NotRequired[JsonObject]


class AgentInfo(TypedDict):
    provider: str
    displayName: str
    description: str
    models: list[SessionModelInfo]
    protectedResources: NotRequired[list[JsonObject]]
    """This host always says it: a window takes a missing one for "sign in first"."""
    customizations: NotRequired[list[Customization]]
    capabilities: NotRequired[dict[str, JsonObject]]


class RootState(TypedDict):
    agents: list[AgentInfo]
    activeSessions: NotRequired[int]
    terminals: NotRequired[list[TerminalInfo]]
    config: NotRequired[Config]
    _meta: NotRequired[JsonObject]


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────
class SessionMetadata(TypedDict):
    """What state and summary share."""

    provider: str
    title: str
    status: int
    activity: NotRequired[str]
    origin: NotRequired[JsonObject]
    project: NotRequired[dict[str, str]]
    workingDirectories: NotRequired[list[str]]
    annotations: NotRequired[JsonObject]
    _meta: NotRequired[JsonObject]


class ToolDefinition(TypedDict):
    name: str
    title: NotRequired[str]
    description: NotRequired[str]
    inputSchema: NotRequired[JsonObject]
    outputSchema: NotRequired[JsonObject]
    annotations: NotRequired[JsonObject]
    _meta: NotRequired[JsonObject]


class SessionActiveClient(TypedDict):
    clientId: str
    tools: list[ToolDefinition]
    displayName: NotRequired[str]
    customizations: NotRequired[list[JsonObject]]


class SessionInputRequest(TypedDict):
    """By `kind`: `chatInput` (request), `toolConfirmation`, `toolClientExecution`, `toolAuthentication` (AHP 3.5)."""

    id: str
    kind: str
    chat: str
    turnId: NotRequired[str]
    clientId: NotRequired[str]
    request: NotRequired[JsonObject]
    toolCall: NotRequired[JsonObject]


class SessionState(SessionMetadata):
    lifecycle: Literal["creating", "ready", "failed"]
    activeClients: list[SessionActiveClient]
    chats: list[ChatSummary]
    defaultChat: NotRequired[str]
    creationError: NotRequired[ErrorInfo]
    serverTools: NotRequired[list[ToolDefinition]]
    config: NotRequired[Config]
    customizations: NotRequired[list[Customization]]
    changesets: NotRequired[list[Changeset]]
    inputNeeded: NotRequired[list[SessionInputRequest]]


class SessionChatSummary(TypedDict):
    resource: str
    title: str
    status: NotRequired[int]
    """Always sent, never to be relied on (defect 16)."""
    origin: NotRequired[ChatOrigin]
    interactivity: NotRequired[str]
    changes: NotRequired[ChangesSummary]


class SessionSummary(SessionMetadata):
    """A row of the catalogue."""

    resource: str
    createdAt: str
    modifiedAt: str
    changes: NotRequired[ChangesSummary]
    chats: NotRequired[list[SessionChatSummary]]
    defaultChat: NotRequired[str]
