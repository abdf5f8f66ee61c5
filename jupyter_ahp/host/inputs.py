"""What a running turn waits for: confirmations and questions, as they stand in a chat's state (AHP 3.5, 4.4, 4.5)."""

from __future__ import annotations

from .ports import Json

_PENDING = {"pending-confirmation", "pending-result-confirmation"}


def find_call(state: Json, turn_id: str, call_id: str) -> Json | None:
    """The running turn's tool call, or None."""
    active = state.get("activeTurn")
    if active is None or active["id"] != turn_id:
        return None
    for part in active["responseParts"]:
        call: Json = part.get("toolCall") or {}
        if call.get("toolCallId") == call_id:
            return call
    return None


def find_request(state: Json, request_id: str) -> Json | None:
    """The running turn's open question, or None."""
    for part in (state.get("activeTurn") or {}).get("responseParts", ()):
        if part["kind"] == "inputRequest" and "response" not in part and part["request"]["id"] == request_id:
            request: Json = part["request"]
            return request
    return None


def missing_answers(request: Json, answers: Json) -> list[str]:
    """The questions that must be answered and are not, in words."""
    return [
        question.get("title") or question.get("message") or question["id"]
        for question in request.get("questions") or ()
        if question.get("required") and (answers.get(question["id"]) or {}).get("state") != "submitted"
    ]


def needed(chat: str, state: Json) -> dict[str, Json]:
    """The session's `inputNeeded` entries that this chat gives rise to, by their id."""
    active = state.get("activeTurn")
    if active is None:
        return {}
    entries = {}
    for part in active["responseParts"]:
        entry: Json | None = None
        if part["kind"] == "inputRequest" and "response" not in part:
            entry = {"kind": "chatInput", "request": part["request"]}
            key = part["request"]["id"]
        elif part["kind"] == "toolCall" and part["toolCall"]["status"] in _PENDING:
            entry = {"kind": "toolConfirmation", "turnId": active["id"], "toolCall": part["toolCall"]}
            key = part["toolCall"]["toolCallId"]
        elif part["kind"] == "toolCall" and (client := _runs_it(part["toolCall"])) is not None:
            turn = {"turnId": active["id"], "clientId": client}
            entry = {"kind": "toolClientExecution", **turn, "toolCall": part["toolCall"]}
            key = part["toolCall"]["toolCallId"]
        if entry is not None:
            entry_id = f"{chat}#{key}"
            entries[entry_id] = {"id": entry_id, "chat": chat, **entry}
    return entries


def _runs_it(call: Json) -> str | None:
    """The client that is to run this call now."""
    contributor = call.get("contributor") or {}
    if call["status"] == "running" and contributor.get("kind") == "client":
        return str(contributor["clientId"])
    return None
