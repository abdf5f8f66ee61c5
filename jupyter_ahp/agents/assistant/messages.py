"""What was said, as pydantic-ai's messages. Imported with it, at the first use."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from jupyter_ahp.agents.assistant.history import Said
from jupyter_ahp.agents.assistant.sizes import shortened

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


def content_of(said: Said) -> str | list[UserContent]:
    """What a person said, for a prompt."""
    if not said.images:
        return said.text
    images = [BinaryContent(data=image.data, media_type=image.media_type) for image in said.images]
    return [*images, said.text] if said.text else list(images)


def _in_words(said: Said) -> str:
    calls = [f"[The tool {call.name} said: {shortened(call.result, _IN_WORDS)}]" for call in said.calls]
    return "\n\n".join([said.text, *calls] if said.text else calls)
