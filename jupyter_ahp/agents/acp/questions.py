"""Questions of an ACP agent to the person (`elicitation/create`), as AHP asks them (4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acp import RequestError
from acp.schema import AcceptElicitationResponse, CancelElicitationResponse, DeclineElicitationResponse
from pydantic import BaseModel

from jupyter_ahp.agents.base import Json, TurnOver, TurnSink


async def ask(sink: TurnSink | None, params: Mapping[str, Any]) -> BaseModel:
    """Ask a person what an agent wants to know; `cancel` when no turn runs, or it ends first. Raises `RequestError`."""
    if params.get("mode", "form") != "form":
        raise RequestError.invalid_params({"details": "Only forms can be shown here."})
    schema = params.get("requestedSchema") or {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = set(schema.get("required") or ())
    questions = [_question(name, field, name in required) for name, field in properties.items()]
    if sink is None:
        return CancelElicitationResponse(action="cancel")
    try:
        answer = await sink.ask(str(params.get("message", "")), questions)
    except TurnOver:
        return CancelElicitationResponse(action="cancel")
    if answer.response == "decline":
        return DeclineElicitationResponse(action="decline")
    if answer.response != "accept":
        return CancelElicitationResponse(action="cancel")
    said = {
        name: _value(given) for name, given in answer.answers.items() if given.get("state") == "submitted"
    }
    return AcceptElicitationResponse(action="accept", content=said)


def _question(name: str, field: Mapping[str, Any], required: bool) -> Json:
    title = str(field.get("title") or name)
    question: Json = {
        "id": name,
        "title": title,
        "message": str(field.get("description") or title),
        "required": required,
    }
    default = field.get("default")
    match field.get("type"):
        case "boolean" | "number" | "integer" as kind:
            question["kind"] = kind
            if default is not None:
                question["defaultValue"] = default
        case "array":
            items = field.get("items") or {}
            question |= {"kind": "multi-select", "options": _options(items.get("anyOf"), items.get("enum"))}
        case "string" if field.get("oneOf") or field.get("enum"):
            question |= {"kind": "single-select", "options": _options(field.get("oneOf"), field.get("enum"))}
        case _:
            question["kind"] = "text"
            if isinstance(default, str):
                question["defaultValue"] = default
    return question


def _options(titled: Any, plain: Any) -> list[Json]:
    if titled:
        return [{"id": one["const"], "label": one.get("title") or one["const"]} for one in titled]
    return [{"id": one, "label": one} for one in plain or ()]


def _value(given: Mapping[str, Any]) -> Any:
    value = given.get("value") or {}
    if value.get("kind") in ("selected", "selected-many") and (free := value.get("freeformValues")):
        return [*value.get("value", ()), *free] if value["kind"] == "selected-many" else free[0]
    return value.get("value")
