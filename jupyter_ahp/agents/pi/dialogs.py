"""What extensions of pi ask a person, other than ours: a dialog becomes a question of the turn (AHP 4.4)."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_ahp.agents.base import Json, TurnOver, TurnSink

KINDS = frozenset({"select", "confirm", "input", "editor"})
"""The dialogs that wait for an answer; what else an extension says through pi's interface waits for none."""

_QUESTION = "answer"


async def answered(request: Json, sink: TurnSink | None) -> Json:
    """The answer as pi takes it. Nobody to ask, a question that is declined, and one whose time is up are cancelled."""
    cancelled: Json = {"cancelled": True}
    if sink is None:
        return cancelled
    title = str(request.get("title") or "pi asks")
    try:
        async with asyncio.timeout(_seconds(request.get("timeout"))):
            answer = await sink.ask(str(request.get("message") or title), [_question(request, title)])
    except (TurnOver, TimeoutError):
        return cancelled
    if answer.response != "accept":
        return cancelled
    value: Any = ((answer.answers.get(_QUESTION) or {}).get("value") or {}).get("value")
    match request["method"]:
        case "confirm":
            return {"confirmed": bool(value)}
        case "select":
            options = request.get("options") or []
            chosen = int(value) if isinstance(value, str) and value.isdigit() else -1
            return {"value": options[chosen]} if 0 <= chosen < len(options) else cancelled
        case _:
            return {"value": str(value or "")}


def _question(request: Json, title: str) -> Json:
    question: Json = {"id": _QUESTION, "title": title, "message": str(request.get("message") or title)}
    match request["method"]:
        case "confirm":
            return {**question, "kind": "boolean", "required": True}
        case "select":
            options = [
                {"id": str(at), "label": str(label)} for at, label in enumerate(request.get("options") or [])
            ]
            return {**question, "kind": "single-select", "options": options, "required": True}
        case _:
            filled = request.get("prefill")
            return {**question, "kind": "text", **({"defaultValue": str(filled)} if filled else {})}


def _seconds(milliseconds: object) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) else None
