"""What a chat says, as plain Python objects: snapshots, which never change.

One place where AHP's JSON (4.2 to 4.5) becomes data classes; `raw` is the JSON where ours leave something out.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..protocol import status
from ..protocol.meta import COMMAND, steering_of

Json: TypeAlias = dict[str, Any]
TurnState: TypeAlias = Literal["running", "complete", "cancelled", "error"]
Doing: TypeAlias = Literal["idle", "running", "waiting", "failed"]

_SHOWN = 60  # characters of a text in a repr


def _short(text: str) -> str:
    """On one line, and not all of it."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…")


def _plain(text: Any) -> str:
    """AHP's StringOrMarkdown."""
    return str(text.get("markdown", "")) if isinstance(text, dict) else str(text or "")


class _Shown:
    """Shown in a notebook as it is in the chat."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from .html import part_html

        return part_html(self)


# ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Markdown(_Shown):
    """A piece of the answer. `delta` is what is new since the part was given last, in `Chat.stream`."""

    id: str
    content: str
    delta: str = ""

    def _repr_markdown_(self) -> str:
        return self.content

    def __repr__(self) -> str:
        return f"Markdown({_short(self.content)})"


@dataclass(frozen=True, slots=True)
class Reasoning(_Shown):
    """What the model thought, where it tells. `delta` as for `Markdown`."""

    id: str
    content: str
    delta: str = ""

    def __repr__(self) -> str:
        return f"Reasoning({_short(self.content)})"


@dataclass(frozen=True, slots=True)
class ToolCallPart(_Shown):
    """A tool call. `status` is AHP's: `pending-confirmation` waits for `Chat.approve`, `completed` has its result."""

    id: str
    name: str
    title: str
    status: str
    message: str
    """What it does, or did, for people."""
    input: str | None = None
    content: Sequence[Json] = ()
    """What it showed or gave back, as AHP's tool result content."""
    success: bool | None = None
    """Of a completed call."""
    error: str | None = None
    options: Sequence[Json] = ()
    """The answers that a waiting call offers, `{id, label, kind}` each."""
    raw: Json = field(default_factory=dict)
    delta: str = ""

    @property
    def waits(self) -> bool:
        """Whether it waits for `Chat.approve`."""
        return self.status in ("pending-confirmation", "pending-result-confirmation")

    @property
    def text(self) -> str:
        """The text in its content."""
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")

    def __repr__(self) -> str:
        how = "failed" if self.success is False else self.status
        return f"ToolCallPart({self.name}, {how}, {_short(self.message)})"


@dataclass(frozen=True, slots=True)
class Question(_Shown):
    """What the agent asks; open while `response` is None. `Chat.answer` answers it."""

    id: str
    message: str
    questions: Sequence[Json] = ()
    """AHP 4.4: each has `id`, `kind`, `message`, perhaps `options`."""
    response: Literal["accept", "decline", "cancel"] | None = None
    answers: Mapping[str, Json] = field(default_factory=dict)
    url: str | None = None
    delta: str = ""

    @property
    def waits(self) -> bool:
        """Whether it waits for `Chat.answer`."""
        return self.response is None

    def __repr__(self) -> str:
        words = self.message or "; ".join(str(question.get("message", "")) for question in self.questions)
        return f"Question({_short(words)}, {self.response or 'open'})"


@dataclass(frozen=True, slots=True)
class Notice(_Shown):
    """A line from the system in the turn."""

    content: str
    delta: str = ""

    def __repr__(self) -> str:
        return f"Notice({_short(self.content)})"


@dataclass(frozen=True, slots=True)
class Steering(_Shown):
    """What somebody said while the turn ran (`Chat.steer`), at the place where the agent read it."""

    message: Message
    delta: str = ""

    @property
    def content(self) -> str:
        """The words."""
        return self.message.text

    def __repr__(self) -> str:
        return f"Steering({_short(self.content)})"


@dataclass(frozen=True, slots=True)
class ErrorPart(_Shown):
    """Why the turn failed. `resumable`: `Chat.resume` may help."""

    message: str
    type: str
    resumable: bool = False
    details: str | None = None
    delta: str = ""

    def __repr__(self) -> str:
        return f"ErrorPart({self.type}, {_short(self.message)})"


@dataclass(frozen=True, slots=True)
class Resource(_Shown):
    """Content that is fetched rather than carried."""

    uri: str
    content_type: str | None = None
    size: int | None = None
    delta: str = ""


@dataclass(frozen=True, slots=True)
class OtherPart(_Shown):
    """A part of a kind that this client does not know."""

    kind: str
    raw: Json = field(default_factory=dict)
    delta: str = ""

    def __repr__(self) -> str:
        return f"OtherPart({self.kind})"


Part: TypeAlias = (
    Markdown | Reasoning | ToolCallPart | Question | Notice | Steering | ErrorPart | Resource | OtherPart
)


def part_of(raw: Json, *, known: str = "") -> Part:
    """An AHP response part. `known` is the text that was given before, so that `delta` is the rest."""
    kind = raw.get("kind")
    if kind in ("markdown", "reasoning"):
        content = str(raw.get("content", ""))
        new = content[len(known) :] if content.startswith(known) else content
        return (Markdown if kind == "markdown" else Reasoning)(str(raw.get("id", "")), content, new)
    if kind == "toolCall":
        return _tool_call(raw["toolCall"])
    if kind == "inputRequest":
        return _question(raw)
    if kind == "systemNotification":
        steering = steering_of(raw)
        if steering is not None:
            return Steering(message_of(steering))
        return Notice(_plain(raw.get("content")))
    if kind == "error":
        error = raw.get("error") or {}
        return ErrorPart(
            str(error.get("message", "")),
            str(error.get("errorType", "")),
            raw.get("resumable") is True,
            error.get("stack"),
        )
    if kind == "contentRef":
        return Resource(str(raw.get("uri", "")), raw.get("contentType"), raw.get("sizeHint"))
    return OtherPart(str(kind), raw)


def _tool_call(call: Json) -> ToolCallPart:
    tool_input = call.get("toolInput", call.get("partialInput"))
    error = call.get("error") or {}
    return ToolCallPart(
        id=str(call.get("toolCallId", "")),
        name=str(call.get("toolName", "")),
        title=str(call.get("displayName", "")),
        status=str(call.get("status", "")),
        message=_plain(call.get("pastTenseMessage") or call.get("invocationMessage")),
        input=tool_input if isinstance(tool_input, str) else None,
        content=tuple(call.get("content") or ()),
        success=call.get("success"),
        error=error.get("message"),
        options=tuple(call.get("options") or ()),
        raw=call,
    )


def _question(raw: Json) -> Question:
    request = raw.get("request") or {}
    return Question(
        id=str(request.get("id", "")),
        message=_plain(request.get("message")),
        questions=tuple(request.get("questions") or ()),
        response=raw.get("response"),
        answers=dict(request.get("answers") or {}),
        url=request.get("url"),
    )


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Message:
    """What was said to the agent."""

    text: str
    attachments: Sequence[Json] = ()
    """As AHP 4.2 has them."""
    sender: str = "user"
    """`user`, `agent`, `tool`, `automation` or `systemNotification`."""

    def __repr__(self) -> str:
        more = f", {len(self.attachments)} attached" if self.attachments else ""
        return f"Message({_short(self.text)}{more})"


def message_of(raw: Json) -> Message:
    """An AHP message."""
    origin = raw.get("origin") or {}
    return Message(
        str(raw.get("text", "")), tuple(raw.get("attachments") or ()), str(origin.get("kind", "user"))
    )


@dataclass(frozen=True, slots=True)
class Usage:
    """What the backend reported; None where it said nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    model: str | None = None


# ── Turns ────────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Turn:
    """One message and the answer to it."""

    id: str
    state: TurnState
    message: Message
    parts: Sequence[Part] = ()
    usage: Usage | None = None
    duration: float | None = None
    """Seconds; None while it runs."""
    started_at: str | None = None
    """ISO 8601."""
    value: Any = None
    """What `returns=` asked for, once it is there."""

    @property
    def text(self) -> str:
        """The answer: its markdown parts, a blank line between two."""
        return "\n\n".join(part.content for part in self.parts if isinstance(part, Markdown))

    @property
    def output(self) -> str | None:
        """The end of what its command printed, as plain text (`Chat.send("!ls")`); None of a turn that ran none."""
        ran = self._command()
        return None if ran is None else str(ran.get("preview") or "")

    @property
    def exit_code(self) -> int | None:
        """Of its command; None while that runs, when it was stopped or could not start, and of a turn that ran none."""
        ran = self._command()
        return None if ran is None else ran.get("exitCode")

    def _command(self) -> Json | None:
        for part in self.parts:
            if isinstance(part, ToolCallPart) and (part.raw.get("_meta") or {}).get(COMMAND) is True:
                blocks = (block for block in part.content if block.get("type") == "terminal")
                return next((block.get("result") or {} for block in blocks), {})
        return None

    @property
    def error(self) -> ErrorPart | None:
        """Why it failed; None of a turn that did not."""
        if self.state != "error":
            return None
        return next((part for part in reversed(self.parts) if isinstance(part, ErrorPart)), None)

    @property
    def waits(self) -> Question | ToolCallPart | None:
        """What the running turn waits for a person to answer; None when it goes on by itself."""
        if self.state != "running":
            return None
        waiting = (part for part in self.parts if isinstance(part, Question | ToolCallPart) and part.waits)
        return next(waiting, None)

    def __repr__(self) -> str:
        took = f", {self.duration:.1f} s" if self.duration is not None else ""
        count = f", {len(self.parts)} parts" if len(self.parts) > 1 else ""
        said = _short(self.text or (self.output or "").strip())
        value = f", value={reprlib.repr(self.value)}" if self.value is not None else ""
        return f"Turn({self.state}, {said}{value}{count}{took})"

    def _repr_markdown_(self) -> str:
        error = self.error
        ending = (
            f"**{error.message}**" if error is not None else "*Stopped.*" if self.state == "cancelled" else ""
        )
        ran = self.output
        output = f"```\n{ran.rstrip()}\n```" if ran else ""
        return "\n\n".join(filter(None, [self.text, output, ending]))

    def _repr_html_(self) -> str:
        from .html import answer_html

        return answer_html(self)


def turn_of(raw: Json) -> Turn:
    """An AHP turn: an ended one, or the active one, which has no state."""
    usage = raw.get("usage")
    duration = raw.get("duration")
    return Turn(
        id=str(raw["id"]),
        state=raw.get("state", "running"),
        message=message_of(raw.get("message") or {}),
        parts=tuple(part_of(part) for part in raw.get("responseParts", ())),
        usage=_usage(usage) if usage else None,
        duration=duration / 1000 if duration is not None else None,
        started_at=raw.get("startedAt"),
    )


def _usage(raw: Json) -> Usage:
    return Usage(
        raw.get("inputTokens"), raw.get("outputTokens"), raw.get("cacheReadTokens"), raw.get("model")
    )


# ── Chats ────────────────────────────────────────────────────────────────────────────────────────────────────────
def doing(bits: int) -> Doing:
    """What AHP's status bits (3.3) say that a chat does."""
    if bits & status.INPUT_NEEDED == status.INPUT_NEEDED:
        return "waiting"
    if bits & status.IN_PROGRESS:
        return "running"
    return "failed" if bits & status.ERROR else "idle"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a chat comes from. `kind` is AHP's: `user`, `fork`, `sideChat`, `tool`."""

    kind: str = "user"
    chat: str | None = None
    """The URI of the chat that it was made from, or that it works for."""
    turn: str | None = None
    """The id of the turn there that it begins behind, or is about."""
    selection: str | None = None
    """What was picked out of that turn."""
    call: str | None = None
    """Of a worker's chat (`tool`): the id of the tool call in `chat` that it does the work of."""


def origin_of(raw: Json) -> Origin:
    """An AHP chat origin (4.1)."""
    selection = raw.get("selection") or {}
    return Origin(
        kind=str(raw.get("kind", "user")),
        chat=raw.get("chat"),
        turn=raw.get("turnId"),
        selection=selection.get("text"),
        call=raw.get("toolCallId"),
    )


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A chat as its session lists it; `Chat.open(summary.uri)` opens it."""

    uri: str
    title: str
    state: Doing
    origin: Origin
    archived: bool = False
    read: bool = True


def summary_of(raw: Json) -> ChatSummary:
    """An AHP chat summary (4.1)."""
    bits = int(raw.get("status", status.IDLE))
    return ChatSummary(
        uri=str(raw["resource"]),
        title=str(raw.get("title") or ""),
        state=doing(bits),
        origin=origin_of(raw.get("origin") or {}),
        archived=bool(bits & status.IS_ARCHIVED),
        read=bool(bits & status.IS_READ),
    )
