"""A transcript as plain HTML: no script, no style, native details; everything that was said is escaped.

For where no front end runs (nbviewer, a static site, a PDF), so nothing is fetched from elsewhere either: pictures in
an answer become links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import mistune

from .model import (
    ErrorPart,
    Markdown,
    Message,
    Notice,
    OtherPart,
    Part,
    Question,
    Reasoning,
    Resource,
    Steering,
    ToolCallPart,
    Turn,
)

_WHY_ENDED = {"cancelled": "Stopped.", "running": "Still running when this was saved."}


class _Renderer(mistune.HTMLRenderer):
    def __init__(self) -> None:
        super().__init__(escape=True)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return self.link(text or url, url, title)


def markdown_html(text: str) -> str:
    """What a model wrote, rendered. HTML in it is shown as text; links of script schemes go nowhere."""
    render = mistune.create_markdown(renderer=_Renderer(), plugins=["strikethrough", "table"])
    return str(render(text)).strip()


def answer_html(turn: Turn) -> str:
    """The answer of one turn."""
    parts = [*_parts_html(turn.parts), *_ending(turn)]
    return "\n".join(parts) or "<p><i>No answer.</i></p>"


def part_html(part: Any) -> str:
    """One part of an answer."""
    return "\n".join(_parts_html([part]))


def transcript_html(title: str, agent: str, turns: Sequence[Turn], *, keep: int, saved: str) -> str:
    """A chat's last `keep` turns. `saved` says when, for people."""
    count = "1 turn" if len(turns) == 1 else f"{len(turns)} turns"
    head = (
        f"<p><b>Chat: {escape(title or 'untitled')}</b><br>{count} with {escape(agent)}, saved {escape(saved)}. "
        "To go on, run this cell in JupyterLab.</p>"
    )
    if len(turns) > keep:
        head += f"\n<p><i>The first {len(turns) - keep} turns are not shown here.</i></p>"
    shown = turns[-keep:]
    return "\n".join([head, *(f"<hr>\n{_message_html(turn.message)}\n{answer_html(turn)}" for turn in shown)])


def _message_html(message: Message) -> str:
    who = "You" if message.sender == "user" else message.sender.capitalize()
    lines = [f"<b>{escape(who)}:</b> {escape(message.text)}".replace("\n", "<br>")]
    if message.attachments:
        labels = ", ".join(str(attachment.get("label", "")) for attachment in message.attachments)
        lines.append(f"<i>Attached: {escape(labels)}</i>")
    return f"<blockquote><p>{'<br>'.join(lines)}</p></blockquote>"


def _parts_html(parts: Iterable[Part]) -> Iterable[str]:
    for part in parts:
        match part:
            case Markdown():
                yield markdown_html(part.content)
            case Reasoning():
                yield _details("Thought", markdown_html(part.content))
            case ToolCallPart():
                yield _tool_html(part)
            case Question():
                yield _question_html(part)
            case Steering():
                yield _message_html(part.message)
            case Notice():
                yield f"<p><i>{escape(part.content)}</i></p>"
            case ErrorPart():
                details = _details("Details", _pre(part.details)) if part.details else ""
                yield f"<p><b>{escape(part.message)}</b></p>{details}"
            case Resource():
                yield f"<p>{escape(part.uri)}</p>"
            case OtherPart():
                yield f"<p><i>Something that this version does not show: {escape(part.kind)}</i></p>"


def _tool_html(call: ToolCallPart) -> str:
    done = {"completed": "failed" if call.success is False else "done", "cancelled": "not run"}
    summary = f"{call.title or call.name}, {done.get(call.status, 'unfinished')}: {call.message}"
    inside = [text for text in (call.input, call.text, call.error) if text]
    return _details(summary, "".join(_pre(text) for text in inside))


def _question_html(question: Question) -> str:
    asked = [question.message, *(str(entry.get("message", "")) for entry in question.questions)]
    given = [_value(answer) for answer in question.answers.values()]
    reply = {"accept": ", ".join(given) or "answered", None: "not answered", "decline": "declined"}
    answer = reply.get(question.response, "cancelled")
    return f"<p>{escape(' '.join(filter(None, asked)))}<br><i>{escape(answer)}</i></p>"


def _value(answer: Any) -> str:
    value = (answer.get("value") or {}).get("value", "") if isinstance(answer, dict) else ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _ending(turn: Turn) -> Iterable[str]:
    if why := _WHY_ENDED.get(turn.state):
        yield f"<p><i>{why}</i></p>"


def _details(summary: str, inside: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"
