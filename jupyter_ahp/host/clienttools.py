"""Tools that run in a client: offered to agents, called on the wire, and what the client says of them (AHP 3.5, 5.9, 6.1).

P5. A client announces its tools with `session/activeClientSet`. A call of one asks as any other does, by the tool's own
`annotations`, then runs: the session's `inputNeeded` names it, the client does it and answers `chat/toolCallComplete`.
Only that client may; what it says is looked at before it is everybody's. A client that is lost fails its calls.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .ports import ImageBlock, Json, Tool, ToolCall, ToolResult
from .ports.guarded import LONGEST_TEXT, cut, guard
from .sink import CLIENT_LEFT

if TYPE_CHECKING:
    from .session import Session

LARGEST_CONTENT: Final = 4 * 1024 * 1024
"""Bytes of a call's content, or of its whole result: it is in the chat's state, so it goes to everybody and into the journal."""
LARGEST_SCHEMA: Final = 64 * 1024
MOST_ANNOUNCED: Final = 512
LARGEST_ANNOUNCED: Final = 2 * 1024 * 1024
"""Bytes of all that a client says of its tools: it is in the session's state."""
LONGEST_DESCRIPTION: Final = 10_000
_MODELS_SEE: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "embeddedResource": ("data", "contentType"),
    "resource": ("uri",),
    "fileEdit": (),
}
"""Tool result content that a client may say (AHP 4.3), with the fields, all strings, that it needs."""
_HOSTS: Final = frozenset({"terminal", "subagent"})
"""Content that stands for something of the host's."""


def offered_by(session: Session, *, first: str | None) -> Iterator[Tool]:
    """What the session's clients announce, `first`'s ahead of the others'."""
    clients = session.state["activeClients"]
    for client in sorted(clients, key=lambda one: bool(one["clientId"] != first)):
        for definition in client["tools"]:
            yield ClientTool(session, client["clientId"], definition)


class ClientTool(Tool):
    """One tool of one client."""

    def __init__(self, session: Session, client_id: str, definition: Json) -> None:
        """`definition` is AHP's `ToolDefinition`, as that client wrote it."""
        hints = definition.get("annotations")
        hints = hints if isinstance(hints, dict) else {}
        self.name = definition["name"]
        self.title = _text(definition.get("title")) or _text(hints.get("title")) or self.name
        self.description = _text(definition.get("description"))[:LONGEST_DESCRIPTION]
        # Models' APIs want an object's properties, be there none.
        self.parameters = {"type": "object", "properties": {}, **(definition.get("inputSchema") or {})}
        self.effects = "read" if hints.get("readOnlyHint") is True else "run"
        self.contributor = {"kind": "client", "clientId": client_id}
        self._session = session
        self._client_id = client_id

    async def call(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        if not self._is_there:
            call.failed(f"{self.title}: not done", error=CLIENT_LEFT)
            return ToolResult(CLIENT_LEFT, failed=True)
        allowed = await guard(
            self, call, arguments, self._session.approvals, doing=lambda _: self.title, key=self._key()
        )
        if isinstance(allowed, ToolResult):
            return allowed if self._is_there else ToolResult(CLIENT_LEFT, failed=True)
        return _for_the_model(await call.by_client())

    @property
    def _is_there(self) -> bool:
        """The client still announces it."""
        return any(
            client["clientId"] == self._client_id and any(one["name"] == self.name for one in client["tools"])
            for client in self._session.state["activeClients"]
        )

    def _key(self) -> str:
        """What is allowed for a session is allowed for that person's clients, not for another's tool of that name."""
        client = self._session.host.clients.get(self._client_id)
        whose = client.principal if client is not None else self._client_id
        return f"{self.name} of {whose}"


def tools_problem(tools: Sequence[Json]) -> str | None:
    """What is wrong with tools that a client announces; None if nothing is."""
    names = [one["name"] for one in tools]
    if twice := {name for name in names if names.count(name) > 1}:
        return f"Announced twice: {', '.join(sorted(twice))}."
    for one in tools:
        if not _is_of_an_object(one.get("inputSchema") or {}):
            return f"The inputSchema of {one['name']} is not an object's."
        if len(json.dumps(one.get("inputSchema"))) > LARGEST_SCHEMA:
            return f"The inputSchema of {one['name']} is larger than {LARGEST_SCHEMA // 1024} KiB."
    if len(tools) > MOST_ANNOUNCED:
        return f"{len(tools)} tools are too many: {MOST_ANNOUNCED} at most."
    if _size(tools) > LARGEST_ANNOUNCED:
        return f"What is said of these tools is too large: {LARGEST_ANNOUNCED:,} bytes at most."
    return None


def _is_of_an_object(schema: Json) -> bool:
    """Whether models' APIs take it: of one that they do not, they turn down every turn in which it is offered."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return (
        schema.get("type", "object") == "object"
        and isinstance(properties, dict)
        and all(isinstance(one, dict | bool) for one in properties.values())
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
    )


def not_its_call(call: Json, client_id: str) -> str | None:
    """Why this client may not say how the call goes (AHP 6.1); None if it may. `call` is empty where there is none."""
    if not call:
        return "This turn has no such tool call, or does not run any more."
    contributor = call.get("contributor") or {}
    if contributor.get("kind") != "client":
        return "This tool is not a client's: only the host says how its call goes."
    if contributor.get("clientId") != client_id:
        return "This tool is another client's, which alone says how its call goes."
    if call["status"] != "running":
        return "This tool call does not run. One that waits for approval is turned down by denying it."
    return None


def result_problem(result: Json) -> str | None:
    """What is wrong with how a client says that a call went (AHP 4.5): its content, or its size; None if nothing is."""
    return content_problem(result.get("content") or (), within=result)


def content_problem(content: Sequence[Json], *, within: Json | None = None) -> str | None:
    """What is wrong with the content that a client wants to show (AHP 4.3); None if nothing is."""
    for block in content:
        kind = block.get("type")
        if not isinstance(kind, str):
            return "Content has a type."
        if kind in _HOSTS:
            return f"Content of type {kind} is for the host to say."
        for field in _FIELDS.get(kind, ()):
            if not isinstance(block.get(field), str):
                return f"Content of type {kind} needs {field}, a string."
        if kind == "fileEdit" and not all(_is_side(block.get(side)) for side in ("before", "after")):
            return "Content of type fileEdit has before and after, each with its uri and its content's uri."
    size = _size(content if within is None else within)
    if size > LARGEST_CONTENT:
        return f"This is too large to show: {size:,} bytes, of {LARGEST_CONTENT:,} at most."
    return None


def _is_side(side: Any) -> bool:
    """Whether it can be what a file was before an edit, or is after it (AHP `FileEdit`)."""
    if side is None:
        return True
    content = side.get("content") if isinstance(side, dict) else None
    return (
        isinstance(content, dict) and isinstance(content.get("uri"), str) and isinstance(side.get("uri"), str)
    )


def _size(value: object) -> int:
    """Bytes of it on the wire."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _for_the_model(result: Json) -> ToolResult:
    """A client's result (AHP 4.5), which is shown already, as the model is told it."""
    failed = not result["success"]
    content = result.get("content") or ()
    texts = [text for block in content if (text := _told(block))]
    if failed and (error := (result.get("error") or {}).get("message")):
        texts.insert(0, error)
    structured = result.get("structuredContent")
    if structured is not None and not any(block.get("type") == "text" for block in content):
        texts.append(json.dumps(structured, ensure_ascii=False))
    images = [image for block in content if (image := _image(block)) is not None]
    text = "\n\n".join(texts) or ("It failed." if failed else "It was done; there is nothing to say of it.")
    return ToolResult(cut(text, LONGEST_TEXT), failed=failed, content=content, images=images)


def _told(block: Json) -> str:
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "embeddedResource":
            return f"[Shown to the person: {block['contentType']}, {len(block['data']) * 3 // 4:,} bytes]"
        case "resource":
            return f"[{block['uri']}]"
        case "fileEdit":
            side = block.get("after") or block.get("before") or {"uri": "a file"}
            return f"[Edited: {side['uri']}]"
    return ""


def _image(block: Json) -> ImageBlock | None:
    if block.get("type") != "embeddedResource" or block["contentType"] not in _MODELS_SEE:
        return None
    try:
        data = base64.b64decode(block["data"], validate=True)
    except (binascii.Error, ValueError):
        return None
    return ImageBlock("a tool's image", block["contentType"], data)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
