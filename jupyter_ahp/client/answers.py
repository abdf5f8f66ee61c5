"""Answers to what a turn asks: from Python values to AHP's input answers and tool confirmations (4.4, 4.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def input_answers(questions: Sequence[Json], answers: Any) -> dict[str, Json]:
    """`{question id: value}`, or the value alone where one question is asked, as AHP's answers.

    Raises `ValueError` for a question that was not asked, or an option that it does not have.
    """
    if not isinstance(answers, Mapping):
        if len(questions) != 1:
            ids = ", ".join(str(question["id"]) for question in questions) or "none"
            raise ValueError(f"Say which question is answered, {{id: value}}. The questions are: {ids}.")
        answers = {questions[0]["id"]: answers}
    by_id = {question["id"]: question for question in questions}
    if unknown := set(answers) - set(by_id):
        raise ValueError(f"No such question: {', '.join(sorted(unknown))}. They are: {', '.join(by_id)}.")
    return {
        question: {"state": "submitted", "value": _value(by_id[question], value)}
        for question, value in answers.items()
    }


def _value(question: Json, value: Any) -> Json:
    kind = question.get("kind")
    if kind == "boolean":
        return {"kind": "boolean", "value": bool(value)}
    if kind in ("number", "integer"):
        return {"kind": "number", "value": value}
    if kind == "single-select":
        chosen, free = _options(question, [value])
        return _selected("selected", chosen[0] if chosen else free[0], free)
    if kind == "multi-select":
        values = [value] if isinstance(value, str) else list(value)
        chosen, free = _options(question, values)
        return _selected("selected-many", chosen, free)
    return {"kind": "text", "value": str(value)}


def _selected(kind: str, value: Any, free: list[str]) -> Json:
    return {"kind": kind, "value": value, "freeformValues": free} if free else {"kind": kind, "value": value}


def _options(question: Json, values: Sequence[Any]) -> tuple[list[str], list[str]]:
    """The ids of the options that these ids or labels name, and the values that name none."""
    names = {option["label"]: option["id"] for option in question.get("options", ())}
    names |= {option["id"]: option["id"] for option in question.get("options", ())}
    chosen = [names[value] for value in values if value in names]
    free = [str(value) for value in values if value not in names]
    if free and not question.get("allowFreeformInput"):
        raise ValueError(f"{free[0]!r} is none of the options: {', '.join(names)}.")
    return chosen, free


def confirmation(
    call: Json,
    turn_id: str,
    approved: bool,
    *,
    option: str | None,
    edited_input: str | None,
    reason: str | None,
) -> Json:
    """The action that answers a tool call which waits. Raises `ValueError` when it waits for nothing."""
    target = {"turnId": turn_id, "toolCallId": call["toolCallId"], "approved": approved}
    if call["status"] == "pending-result-confirmation":
        return {"type": "chat/toolCallResultConfirmed", **target}
    if call["status"] != "pending-confirmation":
        raise ValueError(
            f"{call.get('displayName') or call['toolName']} waits for no approval: {call['status']}."
        )
    more: Json = {"confirmed": "user-action"} if approved else {"reason": "denied"}
    for key, value in (
        ("selectedOptionId", option),
        ("editedToolInput", edited_input if approved else None),
        ("reasonMessage", None if approved else reason),
    ):
        if value is not None:
            more[key] = value
    return {"type": "chat/toolCallConfirmed", **target, **more}
