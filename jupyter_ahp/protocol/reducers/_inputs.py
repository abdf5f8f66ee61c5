"""Questions to people in the running turn: `inputRequest` parts (AHP 4.4, 4.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..status import IS_READ
from ._base import Action, Rule, State, assign, entries, on, status_of
from ._turn import is_open_request, refreshed, running, with_part


def _open_request(turn: State, request_id: object) -> tuple[int, State]:
    """Where the open request of that id stands among the parts, and the part; -1 and {} if there is none."""
    for index, part in enumerate(entries(turn, "responseParts")):
        if is_open_request(part):
            request = part.get("request")
            if isinstance(request, dict) and request.get("id") == request_id:
                return index, part
    return -1, {}


def _requested(state: State, action: Action) -> State:
    """Ask, or ask again: an open request of the same id is replaced and keeps its answers, unless new ones are given."""
    turn = running(state)
    if turn is None:
        return state
    request: dict[str, Any] = action["request"]
    index, part = _open_request(turn, request.get("id"))
    if index < 0:
        part = {"kind": "inputRequest", "request": request}
    else:
        answers = request.get("answers")
        kept = part["request"].get("answers") if answers is None else answers
        part = {**part, "request": assign(request, answers=kept)}
    asked = with_part(state, turn, index, part)
    return refreshed(assign(asked, status=status_of(state) & ~IS_READ))


def _answer_changed(state: State, action: Action) -> State:
    turn = running(state)
    index, part = _open_request(turn or {}, action["requestId"])
    if turn is None or index < 0:
        return state
    request = part["request"]
    old = request.get("answers")
    answers = dict(old) if isinstance(old, dict) else {}
    answer = action.get("answer")
    if answer is None:
        answers.pop(action["questionId"], None)
    else:
        answers[action["questionId"]] = answer
    return with_part(state, turn, index, {**part, "request": assign(request, answers=answers or None)})


def _completed(state: State, action: Action) -> State:
    """The answers go over the drafts, whatever the response was."""
    turn = running(state)
    index, part = _open_request(turn or {}, action["requestId"])
    if turn is None or index < 0:
        return state
    request, answers = part["request"], action.get("answers")
    if isinstance(answers, dict):
        drafts = request.get("answers")
        request = {**request, "answers": {**(drafts if isinstance(drafts, dict) else {}), **answers}}
    answered = {**part, "request": request, "response": action["response"]}
    return refreshed(with_part(state, turn, index, answered))


INPUT_RULES: Mapping[str, Rule] = {
    "chat/inputRequested": on(_requested, request=dict),
    "chat/inputAnswerChanged": on(_answer_changed, requestId=str, questionId=str),
    "chat/inputCompleted": on(_completed, requestId=str, response=str),
}
