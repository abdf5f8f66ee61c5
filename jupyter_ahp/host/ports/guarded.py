"""Tools that run in this process: what has to happen around them is done here, and the same for all.

T4, T5, AHP 4.5, 4.7. A call's arguments are held against the tool's schema; a person is asked where its effects ask, and
may change the input, allow the tool for the whole session, or say why not; the end is said, and the model is told.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import itertools
import json
import logging
import sys
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from .agents import Confirmation, ToolCall, TurnOver
from .tools import Approvals, Tool, ToolResult
from .wire import Json

log = logging.getLogger(__name__)

ALLOW_ONCE: Final = "allow-once"
ALLOW_SESSION: Final = "allow-session"
DENY: Final = "deny"

OPTIONS: Final = (
    {"id": ALLOW_ONCE, "label": "Allow once", "kind": "approve"},
    {"id": ALLOW_SESSION, "label": "Allow in this session", "kind": "approve"},
    {"id": DENY, "label": "Deny", "kind": "deny"},
)

LONGEST_TEXT: Final = 100_000
"""Characters of a result that a model is told, and people are shown, at most."""
LARGEST_IMAGE: Final = 1024 * 1024
"""Bytes of an image that people are shown where the tool says nothing of its own: it goes into the chat's journal."""
_SHOWN_PROBLEMS: Final = 3
_MOST_REFERENCES: Final = 2000
"""References that are followed to look at the arguments of one call."""
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_PATTERNS: Final = ("pattern", "patternProperties", "unevaluatedProperties")
"""What matches regular expressions, or asks what those matched."""
_SCHEMAS: Final = "jsonschema.validators"


class GuardedTool(Tool):
    """A tool whose work is `run`; the rest of its call is done for it."""

    def __init__(self, approvals: Approvals) -> None:
        """`approvals`: the turn's, as in `Prompt.approvals`."""
        self.approvals = approvals

    @abstractmethod
    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        """Do it; `arguments` fit `parameters`. What this raises becomes a failed result, in the exception's words.

        Cancelled when the turn ends meanwhile.
        """

    def doing(self, arguments: Mapping[str, Any]) -> str:
        """What a call is about to do, for people ("Read a.csv")."""
        return self.title

    async def preview(self, arguments: Mapping[str, Any]) -> ToolResult | Sequence[Json]:
        """Looked at before a person is asked: the file edits that the call is about to make (AHP 4.3, `FileEdit`); or,
        for one that cannot be done, its failed result, so that nobody is asked in vain. Does not raise."""
        return ()

    async def call(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        allowed = await guard(self, call, arguments, self.approvals, doing=self.doing, preview=self.preview)
        if isinstance(allowed, ToolResult):
            return allowed
        running = asyncio.ensure_future(self.run(call, allowed))
        call.on_stop(running.cancel)  # whoever waits for us may be a process that is not told of a stop
        try:
            result = await running
        except TurnOver:
            raise
        except asyncio.CancelledError:
            if running.cancelled() and not _cancelled_by_us():
                raise TurnOver from None
            raise
        except Exception as error:
            log.warning("The tool %s failed; the model is told so", self.name, exc_info=error)
            result = ToolResult(f"It failed. {str(error) or type(error).__name__}", failed=True)
        return finish(self, call, result)


async def guard(
    tool: Tool,
    call: ToolCall,
    arguments: Mapping[str, Any],
    approvals: Approvals,
    *,
    doing: Callable[[Mapping[str, Any]], str],
    key: str | None = None,
    preview: Callable[[Mapping[str, Any]], Awaitable[ToolResult | Sequence[Json]]] | None = None,
) -> Mapping[str, Any] | ToolResult:
    """Up to the point at which the call runs: its arguments, as people left them; else how it ended instead.

    `doing` says what it is about to do, for people. `key`: under which name the tool is allowed for the session, where its own is not enough. Raises `TurnOver`.
    """
    if _SCHEMAS not in sys.modules:  # no server did it yet: a second or more, in which others must not wait
        await asyncio.to_thread(importlib.import_module, _SCHEMAS)
    if call.over:
        raise TurnOver
    key = key or tool.name
    is_foreign = tool.contributor is not None
    problem = misfit(tool.parameters, arguments, patterns=not is_foreign)
    if problem is not None:
        return finish(tool, call, ToolResult(f"Not done: {problem}", failed=True))
    said, shown = doing(arguments), json.dumps(arguments, ensure_ascii=False)
    edits: Sequence[Json] = ()
    if preview is not None and approvals.asks(key, tool.effects):
        looked = await preview(arguments)
        if isinstance(looked, ToolResult):
            return finish(tool, call, looked)
        edits = looked
    if not approvals.asks(key, tool.effects):
        call.run(said, tool_input=shown, by_setting=tool.effects in ("write", "run"))
        return arguments

    def look() -> None:
        if not approvals.asks(key, tool.effects):
            call.waive()

    with approvals.watched(look):
        answer = await call.confirm(
            said, title=f"{tool.title}?", tool_input=shown, options=OPTIONS, edits=edits, editable=True
        )
    if not answer.approved:
        return ToolResult(_denied(answer), failed=True)
    if answer.option == ALLOW_SESSION:
        approvals.allow(key)
    if answer.edited_input is None:
        return arguments
    edited = _edited(tool.parameters, answer.edited_input, patterns=not is_foreign)
    if isinstance(edited, str):
        words = (
            f"Not done: the person changed the input into something that this tool does not take: {edited}"
        )
        return finish(tool, call, ToolResult(words, failed=True))
    return edited


def _cancelled_by_us() -> bool:
    """Whether the task that runs was itself asked to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _denied(answer: Confirmation) -> str:
    if not answer.reason:
        return "The person did not allow this call. Do not try it again in another way: ask what they want."
    return f"The person did not allow this call, and said: {answer.reason}"


def _edited(schema: Json, text: str, *, patterns: bool) -> Json | str:
    """The arguments that a person wrote instead, or what is wrong with them."""
    try:
        edited = json.loads(text)
    except ValueError as error:
        return f"it is not JSON ({error})"
    if not isinstance(edited, dict):
        return "it is not a JSON object"
    return misfit(schema, edited, patterns=patterns) or edited


def misfit(schema: Json, arguments: Mapping[str, Any], *, patterns: bool = True) -> str | None:
    """What of the arguments is not as the schema (JSON Schema) says, in words for the model; None if nothing.

    `patterns`: regular expressions are heeded. Some take for ever, so whoever is not trusted has none.
    """
    from jsonschema.validators import validator_for
    from referencing import Registry

    try:
        kind = validator_for(schema)
        kind.check_schema(schema)
        # With a registry of its own it looks nothing up on the network.
        bounded = _bounded(kind, patterns=patterns)
        errors = list(bounded(schema, registry=Registry()).iter_errors(dict(arguments)))
    except (
        Exception
    ) as error:  # schemas are others' words, and what is made of odd ones raises all kinds of things
        log.warning(
            "A tool's schema cannot be used, so its arguments are not looked at: %s",
            cut(str(error) or type(error).__name__, 300),
            exc_info=error,
        )
        return None
    if not errors:
        return None
    from jsonschema.exceptions import best_match

    shown = [best_match([error]) for error in errors[:_SHOWN_PROBLEMS]]
    return "; ".join(
        f"{error.json_path.replace('$', 'arguments', 1)}: {cut(error.message, 300)}" for error in shown
    )


def _bounded(kind: Any, *, patterns: bool) -> Any:
    """A validator whose references lead so far and no farther: a small schema can lead in circles, or to millions of them."""
    from jsonschema import validators

    extend: Any = validators.extend  # which says nothing of its types
    left = itertools.repeat(None, _MOST_REFERENCES)

    def followed(follow: Any) -> Any:
        def follows(validator: Any, ref: Any, instance: Any, schema: Any) -> Any:
            if next(left, left) is left:
                raise ValueError("it has too many references")
            yield from follow(validator, ref, instance, schema) or ()

        return follows

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if "patternProperties" not in schema:
            yield from kind.VALIDATORS["additionalProperties"](validator, value, instance, schema) or ()

    changed = {name: followed(kind.VALIDATORS[name]) for name in _REFERENCES if name in kind.VALIDATORS}
    if not patterns:
        changed |= {**dict.fromkeys(_PATTERNS), "additionalProperties": additional}
    return extend(kind, changed)


def finish(tool: Tool, call: ToolCall, result: ToolResult) -> ToolResult:
    """Say how the call ended; the result as the model is told it, not longer than a model can use."""
    result = replace(result, text=cut(result.text, LONGEST_TEXT))
    content = result.content or _shown(result)
    if result.failed:
        call.failed(result.message or f"{tool.title}: failed", error=result.text, content=content)
    else:
        call.done(result.message or f"{tool.title}: done", content=content, structured=result.structured)
    return result


def _shown(result: ToolResult) -> list[Json]:
    content: list[Json] = [{"type": "text", "text": result.text}] if result.text else []
    for image in result.images:
        if len(image.data) <= LARGEST_IMAGE:
            data = base64.b64encode(image.data).decode()
            content.append({"type": "embeddedResource", "data": data, "contentType": image.media_type})
        else:
            content.append({"type": "text", "text": f"[An image, too large to show here: {image.label}]"})
    return content


def cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return f"{text[:length]}\n[Cut here: {len(text) - length:,} characters more.]"
