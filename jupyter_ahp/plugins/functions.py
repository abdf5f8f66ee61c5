"""A plain typed function as a tool: its name, its documentation and its annotations say all that a model has to know."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from jupyter_ahp.host.ports import Effects, GuardedTool, Json, ToolCall, ToolFactory, ToolResult, TurnContext

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is known of a function once it is registered."""

    function: Callable[..., Any]
    name: str
    title: str
    description: str
    effects: Effects
    arguments: type[msgspec.Struct]
    parameters: Json
    context: str | None
    """The parameter that is given the `TurnContext`."""


def tools_of(
    function: Callable[..., Any],
    *,
    effects: Effects,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
) -> ToolFactory:
    """What makes the tool of a function for each turn. Raises `ValueError`: what about it does not do for a tool."""
    shape = _shape_of(function, effects, name, title, description)
    return lambda context: [FunctionTool(shape, context)]


def _shape_of(
    function: Callable[..., Any],
    effects: Effects,
    name: str | None,
    title: str | None,
    description: str | None,
) -> _Shape:
    name = name or str(getattr(function, "__name__", type(function).__name__))
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a tool: letters, digits, `_` and `-`, at most 64 of them.")
    if effects not in typing.get_args(Effects):
        raise ValueError(
            f"The tool {name} has effects {effects!r}. There are: {', '.join(typing.get_args(Effects))}."
        )
    description = description or inspect.getdoc(function)
    if not description:
        raise ValueError(f"The function {name} says nothing of what it does: a model needs its docstring.")
    fields, context = _fields_of(function, name)
    try:
        arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        (top,), parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise ValueError(f"The parameters of the tool {name} cannot be said in JSON: {error}") from error
    parameters = parts.pop(top["$ref"].rpartition("/")[2])
    parameters.pop("title", None)
    if parts:
        parameters["$defs"] = parts
    title = title or name.replace("_", " ").replace("-", " ").capitalize()
    return _Shape(function, name, title, description, effects, arguments, parameters, context)


def _fields_of(function: Callable[..., Any], name: str) -> tuple[list[Any], str | None]:
    """The parameters as fields of a struct, without the one that is given the turn's context."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    context = None
    for parameter in inspect.signature(function).parameters.values():
        kind = hints.get(parameter.name)
        if parameter.kind not in _NAMED:
            raise ValueError(
                f"The tool {name} has a parameter {parameter}, which a model cannot give by its name."
            )
        if kind is None:
            raise ValueError(f"The parameter {parameter.name} of the tool {name} needs a type.")
        if kind is TurnContext:
            context = parameter.name
        elif parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    return fields, context


def _default(value: Any) -> Any:
    """A parameter's default; one that is more than a plain value is made anew for each call, and not told the model."""
    if value is None or isinstance(value, str | int | float):
        return value
    return msgspec.field(default_factory=partial(copy.deepcopy, value))


class FunctionTool(GuardedTool):
    """A function, in one turn. One that is no coroutine function runs in a thread."""

    def __init__(self, shape: _Shape, context: TurnContext) -> None:
        super().__init__(context.approvals)
        self.name, self.title, self.description = shape.name, shape.title, shape.description
        self.parameters, self.effects = shape.parameters, shape.effects
        self._shape, self._context = shape, context

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        shape = self._shape
        given = msgspec.convert(dict(arguments), shape.arguments)
        named = {field: getattr(given, field) for field in shape.arguments.__struct_fields__}
        if shape.context is not None:
            named[shape.context] = self._context
        if inspect.iscoroutinefunction(shape.function):
            answer = await shape.function(**named)
        else:
            answer = await asyncio.to_thread(lambda: shape.function(**named))
            if inspect.isawaitable(answer):
                answer = await answer
        return _result(answer)


def _result(answer: Any) -> ToolResult:
    if isinstance(answer, ToolResult):
        return answer
    if answer is None:
        return ToolResult("Done.")
    if isinstance(answer, str):
        return ToolResult(answer)
    plain = msgspec.to_builtins(answer)
    structured = plain if isinstance(plain, dict) else None
    return ToolResult(json.dumps(plain, ensure_ascii=False), structured=structured)
