"""Building blocks that several channels share."""

from __future__ import annotations

from typing import Any, NotRequired, TypeAlias, TypedDict

JsonObject: TypeAlias = dict[str, Any]


class Markdown(TypedDict):
    markdown: str


StringOrMarkdown: TypeAlias = str | Markdown


class ErrorInfo(TypedDict):
    errorType: str
    message: str
    stack: NotRequired[str]
    _meta: NotRequired[JsonObject]


class UsageInfo(TypedDict, total=False):
    inputTokens: int
    outputTokens: int
    cacheReadTokens: int
    model: str
    _meta: JsonObject


class ModelSelection(TypedDict):
    id: str
    config: NotRequired[dict[str, str | float | bool | None]]


class AgentSelection(TypedDict):
    uri: str


class ContentRef(TypedDict):
    uri: str
    sizeHint: NotRequired[int]
    contentType: NotRequired[str]
    nonce: NotRequired[str]


class FileVersion(TypedDict):
    uri: str
    content: ContentRef


class FileEdit(TypedDict, total=False):
    before: FileVersion
    after: FileVersion
    diff: dict[str, int]
    """`added`, `removed`: lines."""


class ChangesSummary(TypedDict, total=False):
    additions: int
    deletions: int
    files: int


class Position(TypedDict):
    line: int
    character: int


class TextRange(TypedDict):
    """Half open, zero based."""

    start: Position
    end: Position
