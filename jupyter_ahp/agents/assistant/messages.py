"""What was said, as pydantic-ai's messages. Imported with it, at the first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from jupyter_ahp.agents.assistant.history import Said
from jupyter_ahp.agents.assistant.sizes import estimated_tokens, shortened

_SHORT = 2_000
"""Characters of what a tool said that are left when there is no room for more."""
_IN_WORDS = 300
"""Characters told of a call's result to a model that takes no tools."""


def messages_of(said: Sequence[Said], *, tools: bool) -> list[ModelMessage]:
    """All of it. `tools`: the model is offered some, so earlier calls are told as calls; else in words."""
    return [message for one in said for message in _messages(one, tools)]


def _messages(said: Said, tools: bool) -> list[ModelMessage]:
    if said.role == "user":
        return [ModelRequest(parts=[UserPromptPart(content_of(said))])]
    if not tools:
        return [ModelResponse(parts=[TextPart(_in_words(said))])]
    answer: list[TextPart | ToolCallPart] = [TextPart(said.text)] if said.text else []
    answer += [ToolCallPart(call.name, call.arguments, call.id) for call in said.calls]
    results = [ToolReturnPart(call.name, call.result, call.id) for call in said.calls]
    return [ModelResponse(parts=answer), *([ModelRequest(parts=results)] if results else [])]


def size_of(messages: Sequence[ModelMessage]) -> int:
    """About how many tokens they take, without their images."""
    return sum(
        estimated_tokens(text) for message in messages for part in message.parts for text in _texts(part)
    )


def has_images(messages: Sequence[ModelMessage]) -> bool:
    """Whether any goes along with them."""
    contents = [getattr(part, "content", None) for message in messages for part in message.parts]
    return any(
        isinstance(piece, BinaryContent)
        for content in contents
        for piece in (content if isinstance(content, list) else [content])
    )


def _texts(part: ModelRequestPart | ModelResponsePart) -> list[str]:
    match part:
        case ToolCallPart(tool_name=name):
            return [f"{name} {part.args_as_json_str()}"]
        case UserPromptPart(content=content) | ToolReturnPart(content=content) if not isinstance(
            content, str
        ):
            return [each for each in content if isinstance(each, str)] if isinstance(content, list) else []
        case _:
            content = getattr(part, "content", "")
            return [content] if isinstance(content, str) else []


def with_short_results(messages: Sequence[ModelMessage]) -> list[ModelMessage] | None:
    """With what tools said cut to its beginning and end; None if all of that is short."""
    changed = False
    short: list[ModelMessage] = []
    for message in messages:
        parts = []
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if (
                isinstance(part, ToolReturnPart)
                and isinstance(part.content, str)
                and len(part.content) > _SHORT
            ):
                text = shortened(part.content, _SHORT)
                part = ToolReturnPart(part.tool_name, text, part.tool_call_id, outcome=part.outcome)
                changed = True
            parts.append(part)
        short.append(replace(message, parts=parts) if isinstance(message, ModelRequest) else message)
    return short if changed else None


def content_of(said: Said) -> str | list[UserContent]:
    """What a person said, for a prompt."""
    if not said.images:
        return said.text
    images = [BinaryContent(data=image.data, media_type=image.media_type) for image in said.images]
    return [*images, said.text] if said.text else list(images)


def _in_words(said: Said) -> str:
    calls = [f"[The tool {call.name} said: {shortened(call.result, _IN_WORDS)}]" for call in said.calls]
    return "\n\n".join([said.text, *calls] if said.text else calls)
