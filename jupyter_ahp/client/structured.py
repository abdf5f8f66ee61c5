"""Answers of a form: a JSON Schema, or a Python type from which one is made, that a model is told and its answer held against."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from .attach import Text

Json: TypeAlias = dict[str, Any]

LABEL: Final = "The form of the answer"
_FENCED: Final = re.compile(r"```[\w-]*\s*\n(.*?)\n\s*```", re.DOTALL)
_BEGINS: Final = re.compile(r"[{\[]")


class Misfit(Exception):
    """An answer is not of the form; the message says what is wrong, for the model."""


class Form:
    """What an answer is to be: a JSON Schema (a dict), a dataclass, a TypedDict, a model of pydantic's, `list[…]` of these.

    Raises `TypeError` for what no schema can be made of.
    """

    def __init__(self, returns: Any) -> None:
        self._parse: Callable[[str], Any]
        self.schema, self._parse = _of_schema(returns) if isinstance(returns, Mapping) else _of_type(returns)

    @property
    def asked(self) -> Text:
        """What the model is told."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return Text(
            LABEL,
            f"Answer with JSON alone: no other words, no fence. It has to fit this JSON Schema:\n{schema}",
        )

    def again(self, misfit: Misfit) -> str:
        """What the model is told about an answer that does not fit."""
        return f"That answer cannot be used: {misfit} Answer again, with JSON alone that fits the schema."

    def value(self, text: str) -> Any:
        """What the answer is. Raises `Misfit`."""
        found = next(_json_in(text), None)
        if found is None:
            raise Misfit("It is not JSON." if text.strip() else "It is empty.")
        return self._parse(found)


def _json_in(text: str) -> Iterator[str]:
    """The JSON in an answer, though it may be fenced, or among words."""
    for candidate in (text.strip(), *(match[1] for match in _FENCED.finditer(text))):
        try:
            json.loads(candidate)
        except ValueError:
            continue
        yield candidate
    decoder = json.JSONDecoder()
    for match in _BEGINS.finditer(text):
        try:
            _, end = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        yield text[match.start() : end]


def _of_schema(schema: Mapping[str, Any]) -> tuple[Json, Callable[[str], Any]]:
    validators: Any = importlib.import_module("jsonschema.validators")
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except importlib.import_module("jsonschema.exceptions").SchemaError as error:
        raise TypeError(f"returns= is no JSON Schema: {error.message}") from error
    validator = kind(schema)

    def parse(text: str) -> Any:
        value = json.loads(text)
        problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
        if problems:
            raise Misfit(f"{'; '.join(problems[:3])}.")
        return value

    return dict(schema), parse


def _of_type(returns: Any) -> tuple[Json, Callable[[str], Any]]:
    import msgspec

    try:
        schema = msgspec.json.schema(returns)
        decoder = msgspec.json.Decoder(returns)
    except (TypeError, RuntimeError) as error:
        if "pydantic" in sys.modules:
            return _of_pydantic(returns)
        raise TypeError(f"returns={returns!r} is nothing that JSON can be held against: {error}") from error

    def parse(text: str) -> Any:
        try:
            return decoder.decode(text)
        except msgspec.ValidationError as error:
            raise Misfit(f"{error}.") from error

    return schema, parse


def _of_pydantic(returns: Any) -> tuple[Json, Callable[[str], Any]]:
    """A model of pydantic's, or what has one in it: whoever made it has imported pydantic."""
    pydantic: Any = sys.modules["pydantic"]
    try:
        adapter = pydantic.TypeAdapter(returns)
        schema = adapter.json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(f"returns={returns!r} is nothing that JSON can be held against: {error}") from error

    def parse(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except pydantic.ValidationError as error:
            problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            raise Misfit(f"{'; '.join(problems[:3])}.") from error

    return schema, parse
