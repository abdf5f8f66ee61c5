"""From AHP's JSON to Python objects, and how they show themselves."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from jupyter_ahp.client.errors import TurnFailed
from jupyter_ahp.client.html import markdown_html, transcript_html
from jupyter_ahp.client.model import (
    ErrorPart,
    Markdown,
    Notice,
    OtherPart,
    Question,
    Reasoning,
    Resource,
    Steering,
    ToolCallPart,
    Usage,
    part_of,
    turn_of,
)

Json = dict[str, Any]

CALL = {
    "toolCallId": "c1",
    "toolName": "read",
    "displayName": "Read file",
    "status": "completed",
    "invocationMessage": "Reading a.csv",
    "pastTenseMessage": {"markdown": "Read `a.csv`"},
    "toolInput": '{"path": "a.csv"}',
    "success": True,
    "content": [{"type": "text", "text": "a,b"}, {"type": "resource", "uri": "file:///a"}],
}
TERMINAL = {
    "type": "terminal",
    "resource": "ahp-terminal:/t",
    "title": "ls",
    "result": {"exitCode": 2, "preview": "no such file", "truncated": False},
}
PARTS: list[Json] = [
    {"kind": "reasoning", "id": "r", "content": "Hm."},
    {"kind": "markdown", "id": "m1", "content": "One"},
    {"kind": "toolCall", "toolCall": CALL},
    {"kind": "systemNotification", "content": "Compacted."},
    {
        "kind": "systemNotification",
        "content": "Mind <the> date",
        "_meta": {"jupyter-ahp.steering": {"text": "Mind <the> date", "origin": {"kind": "user"}}},
    },
    {
        "kind": "inputRequest",
        "request": {"id": "q", "message": "Which?", "questions": []},
        "response": "decline",
    },
    {"kind": "contentRef", "uri": "file:///b", "contentType": "text/csv", "sizeHint": 3},
    {"kind": "x-new", "id": "n"},
    {"kind": "markdown", "id": "m2", "content": "Two"},
]
ERROR = {
    "kind": "error",
    "error": {"errorType": "rateLimited", "message": "Busy.", "stack": "429"},
    "resumable": True,
}


def turn(state: str = "complete", parts: list[Json] = PARTS, **more: Any) -> Json:
    message = {
        "text": "Go",
        "origin": {"kind": "user"},
        "attachments": [{"type": "resource", "label": "a.csv"}],
    }
    return {"id": "t", "state": state, "message": message, "responseParts": parts, "duration": 1234, **more}


def test_every_kind_of_part_has_its_class() -> None:
    parts = turn_of(turn("error", [*PARTS, ERROR])).parts
    assert [type(part) for part in parts] == [
        Reasoning,
        Markdown,
        ToolCallPart,
        Notice,
        Steering,
        Question,
        Resource,
        OtherPart,
        Markdown,
        ErrorPart,
    ]
    call = parts[2]
    assert isinstance(call, ToolCallPart)
    assert (call.message, call.text, call.waits) == ("Read `a.csv`", "a,b", False)
    assert parts[-1] == ErrorPart("Busy.", "rateLimited", resumable=True, details="429")


def test_a_turn_says_what_was_answered() -> None:
    ended = turn_of(turn(usage={"inputTokens": 3, "outputTokens": 5}))
    assert ended.text == "One\n\nTwo"
    assert ended.duration == 1.234
    assert ended.usage == Usage(3, 5)
    assert ended.error is None
    assert ended.message.text == "Go"
    assert repr(ended) == "Turn(complete, 'One Two', 9 parts, 1.2 s)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        ended.id = "other"  # type: ignore[misc]


def test_a_turn_that_runs_has_no_ending() -> None:
    raw = turn()
    del raw["state"], raw["duration"]
    running = turn_of(raw)
    assert (running.state, running.duration, running.error) == ("running", None, None)


def test_a_failed_turn_says_why_and_how_to_go_on() -> None:
    failed = turn_of(turn("error", [PARTS[1], ERROR]))
    error = TurnFailed(failed)
    assert error.turn is failed
    assert str(error).startswith("Busy.")
    assert "resume()" in str(error)
    assert "**Busy.**" in failed._repr_markdown_()
    once = {**ERROR, "resumable": False}
    assert "resume" not in str(TurnFailed(turn_of(turn("error", [once]))))


def test_what_a_turn_waits_for() -> None:
    asks: Json = {"kind": "inputRequest", "request": {"id": "q", "questions": []}}
    call = {"kind": "toolCall", "toolCall": {**CALL, "status": "pending-confirmation"}}
    raw = turn(parts=[call, asks])
    del raw["state"]
    waits = turn_of(raw).waits
    assert isinstance(waits, ToolCallPart)
    assert waits.id == "c1"
    assert turn_of(turn(parts=[asks])).waits is None  # It ended: nobody waits any more.


def test_a_part_says_what_is_new() -> None:
    raw = {"kind": "markdown", "id": "m", "content": "Hello"}
    assert part_of(raw, known="Hel") == Markdown("m", "Hello", "lo")
    assert part_of(raw, known="Good") == Markdown("m", "Hello", "Hello")


@pytest.mark.parametrize("raw", [*PARTS, ERROR])
def test_a_repr_is_one_short_line(raw: Json) -> None:
    long = {**raw, "content": "word\n" * 100} if "content" in raw else raw
    assert "\n" not in repr(part_of(long))
    assert len(repr(part_of(long))) < 120


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.mark.parametrize(
    "part",
    [
        {"kind": "markdown", "id": "m", "content": EVIL},
        {"kind": "reasoning", "id": "m", "content": EVIL},
        {"kind": "systemNotification", "content": EVIL},
        {"kind": "toolCall", "toolCall": {**CALL, "displayName": EVIL, "pastTenseMessage": EVIL}},
        {
            "kind": "toolCall",
            "toolCall": {**CALL, "toolInput": EVIL, "content": [{"type": "text", "text": EVIL}]},
        },
        {"kind": "error", "error": {"errorType": "x", "message": EVIL, "stack": EVIL}},
        {"kind": "inputRequest", "request": {"id": "q", "message": EVIL, "questions": [{"message": EVIL}]}},
        {"kind": "contentRef", "uri": EVIL},
        {"kind": EVIL},
    ],
)
def test_nothing_that_was_said_is_html(part: Json) -> None:
    raw = turn("error" if part["kind"] == "error" else "complete", [part])
    raw["message"] = {"text": EVIL, "attachments": [{"label": EVIL}]}
    shown = turn_of(raw)
    html = transcript_html(EVIL, EVIL, [shown], keep=5, saved="today") + shown._repr_html_()
    assert "<script" not in html
    assert "<img" not in html
    assert html.count("&lt;script&gt;") >= 4


def test_parts_and_values_are_shown_in_a_notebook() -> None:
    said = part_of({"kind": "markdown", "id": "m", "content": f"**Bold** {EVIL}"})
    assert said._repr_html_().startswith("<p><strong>Bold</strong>")
    assert "<script" not in said._repr_html_()
    assert "done" in part_of({"kind": "toolCall", "toolCall": CALL})._repr_html_()
    ended = turn_of(turn("cancelled", [{"kind": "markdown", "id": "m", "content": "So far"}]))
    assert ended._repr_markdown_() == "So far\n\n*Stopped.*"
    assert "value=[1, 2]" in repr(replace(ended, value=[1, 2]))
    assert len(repr(replace(ended, value="x" * 1000))) < 200


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **b**", "<p>a <strong>b</strong></p>"),
        ("`x < 1`", "<p><code>x &lt; 1</code></p>"),
        ("![cat](http://elsewhere/cat.png)", '<p><a href="http://elsewhere/cat.png">cat</a></p>'),
    ],
)
def test_markdown_is_rendered_and_fetches_nothing(text: str, html: str) -> None:
    assert markdown_html(text) == html


def test_a_link_runs_no_script() -> None:
    assert "javascript:" not in markdown_html("[x](javascript:alert(1))")


def test_a_transcript_reads_like_one() -> None:
    html = transcript_html("Weather", "echo", [turn_of(turn())], keep=5, saved="1 Dec 2026")
    assert "<b>Chat: Weather</b><br>1 turn with echo, saved 1 Dec 2026." in html
    assert "<blockquote><p><b>You:</b> Go<br><i>Attached: a.csv</i></p></blockquote>" in html
    assert "<details><summary>Read file, done: Read `a.csv`</summary><pre>" in html
    assert "<blockquote><p><b>You:</b> Mind &lt;the&gt; date</p></blockquote>" in html
    assert "style=" not in html


def test_a_long_transcript_keeps_its_end() -> None:
    turns = [turn_of({**turn(parts=[]), "message": {"text": f"Number {index}"}}) for index in range(5)]
    html = transcript_html("", "echo", turns, keep=2, saved="today")
    assert "The first 3 turns are not shown here." in html
    assert "Number 2" not in html
    assert "Number 4" in html


def test_M5_a_command_has_an_exit_code_and_what_it_printed() -> None:
    call = {**CALL, "_meta": {"jupyter-ahp.command": True}, "content": [TERMINAL]}

    def turn(**more: Any) -> Any:
        return turn_of(
            {
                "id": "t",
                "message": {"text": "!ls"},
                "responseParts": [{"kind": "toolCall", "toolCall": {**call, **more}}],
            }
        )

    assert (turn().exit_code, turn().output) == (2, "no such file")
    running = turn(status="running", content=[{**TERMINAL, "result": None}])
    assert (running.exit_code, running.output) == (None, "")
    assert (turn(content=None).exit_code, turn(content=None).output) == (None, "")
    assert (turn(_meta=None).exit_code, turn(_meta=None).output) == (None, None), "an agent's own terminal"
