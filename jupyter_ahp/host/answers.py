"""What people and clients say of what a turn waits for: calls that ask, calls of clients' tools, questions.

P4, P5, W4; AHP 4.4, 4.5, 5.9, 6.1. Each says an action to all, or refuses it to its sender; the turn is told behind that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arrivals import Refused, stamp
from .clienttools import content_problem, not_its_call, result_problem
from .inputs import find_call, find_request, missing_answers
from .ports import Answer, Confirmation, Json

if TYPE_CHECKING:
    from .chat import Chat
    from .connection import Connection


class Answers:
    """Of one chat; all of it runs in the chat's own order."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def call_confirmed(self, sender: Connection, client_seq: int, action: Json) -> None:
        call = find_call(self._chat.state, action["turnId"], action["toolCallId"])
        if call is None or call["status"] != "pending-confirmation":
            raise Refused("This tool call does not wait for an answer any more.")
        # `_meta` of an action replaces the call's (AHP 4.6 rule 6): keep what the agent said there.
        meta = {**(call.get("_meta") or {}), **(action.get("_meta") or {}), **stamp(sender)}
        self._chat.echo(sender, client_seq, {**action, "_meta": meta})
        self._chat.turns.confirmed(
            action["toolCallId"],
            Confirmation(
                approved=action["approved"],
                option=action.get("selectedOptionId"),
                edited_input=action.get("editedToolInput"),
                reason=_words(action.get("reasonMessage")),
            ),
        )

    async def client_says(self, sender: Connection, client_seq: int, action: Json) -> None:
        """A client, of a call of its own tool (P5, AHP 5.9)."""
        call = find_call(self._chat.state, action["turnId"], action["toolCallId"]) or {}
        if (reason := not_its_call(call, sender.client_id)) is not None:
            raise Refused(reason)
        result = action.get("result")
        problem = content_problem(action["content"]) if result is None else result_problem(result)
        if problem is not None:
            if result is not None:  # the turn would wait for another one for ever
                self._chat.turns.client_failed(action["toolCallId"], problem)
            raise Refused(problem)
        if action.get("_meta"):  # it replaces the call's (AHP 4.6 rule 6): keep what is there
            action = {**action, "_meta": {**(call.get("_meta") or {}), **action["_meta"]}}
        self._chat.echo(sender, client_seq, action)
        if result is not None:
            review = action.get("requiresResultConfirmation") is True
            self._chat.turns.client_ran(action["toolCallId"], result, review=review)

    async def result_confirmed(self, sender: Connection, client_seq: int, action: Json) -> None:
        call = find_call(self._chat.state, action["turnId"], action["toolCallId"])
        if call is None or call["status"] != "pending-result-confirmation":
            raise Refused("The result of this tool call does not wait for an answer any more.")
        meta = {**(call.get("_meta") or {}), **(action.get("_meta") or {}), **stamp(sender)}
        self._chat.echo(sender, client_seq, {**action, "_meta": meta})
        self._chat.turns.reviewed(action["toolCallId"], action["approved"])

    async def answer_changed(self, sender: Connection, client_seq: int, action: Json) -> None:
        if find_request(self._chat.state, action["requestId"]) is None:
            raise Refused("This question is not open any more.")
        self._chat.echo(sender, client_seq, action)

    async def input_completed(self, sender: Connection, client_seq: int, action: Json) -> None:
        request = find_request(self._chat.state, action["requestId"])
        if request is None:
            raise Refused("This question is not open any more.")
        answers = {**(request.get("answers") or {}), **(action.get("answers") or {})}
        if action["response"] == "accept" and (missing := missing_answers(request, answers)):
            raise Refused(f"Not answered yet: {', '.join(missing)}.")
        self._chat.echo(sender, client_seq, action)
        self._chat.turns.answered(action["requestId"], Answer(action["response"], answers))


def _words(text: object) -> str | None:
    if isinstance(text, dict):
        text = text.get("markdown")
    return text if isinstance(text, str) and text else None
