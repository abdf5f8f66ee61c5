"""Claude's `AskUserQuestion` as a question of the chat (AHP 4.4), and the answer back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claude_agent_sdk import PermissionResult, PermissionResultAllow, PermissionResultDeny

from jupyter_ahp.agents.base import Answer, Json
from jupyter_ahp.agents.claude.reporter import Entry


async def ask(entry: Entry, given: dict[str, Any]) -> PermissionResult:
    """Ask all its questions at once. Raises `TurnOver`."""
    entry.begin()
    asked = [question for question in given.get("questions") or () if isinstance(question, dict)]
    message = "Claude asks" if len(asked) != 1 else str(asked[0].get("question") or "Claude asks")
    answer = await entry.sink.ask(message, [_question(str(number), one) for number, one in enumerate(asked)])
    if answer.response != "accept":
        return PermissionResultDeny(
            message="The person did not answer. Go on without, or ask in another way."
        )
    answers = {
        str(one.get("question")): text
        for number, one in enumerate(asked)
        if (text := _answered(answer, str(number), one))
    }
    return PermissionResultAllow(updated_input={**given, "answers": answers})


def _question(number: str, asked: Mapping[str, Any]) -> Json:
    options = [
        {
            "id": str(at),
            "label": str(option.get("label") or at),
            "description": str(option.get("description") or ""),
        }
        for at, option in enumerate(_options(asked))
    ]
    return {
        "id": number,
        "kind": "multi-select" if asked.get("multiSelect") else "single-select",
        "title": str(asked.get("header") or ""),
        "message": str(asked.get("question") or ""),
        "options": options,
        "allowFreeformInput": True,
        "required": True,
    }


def _answered(answer: Answer, number: str, asked: Mapping[str, Any]) -> str:
    """The labels that were chosen, and what was written beside them."""
    given = answer.answers.get(number) or {}
    value = given.get("value") or {}
    chosen = value.get("value")
    options = _options(asked)
    labels = [
        str(options[int(one)].get("label"))
        for one in (chosen if isinstance(chosen, list) else [chosen])
        if isinstance(one, str) and one.isdecimal() and int(one) < len(options)
    ]
    written = [
        str(text) for text in (value.get("freeformValues") or given.get("freeformValues") or ()) if text
    ]
    return ", ".join([*labels, *written])


def _options(asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [option for option in asked.get("options") or () if isinstance(option, dict)]
