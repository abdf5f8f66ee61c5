"""How far a turn is, and what people see of what its model says. Imported with the model library, at the first use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from pydantic_ai.messages import (
    FunctionToolResultEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    UserPromptPart,
)

from jupyter_ahp.agents.assistant.connections import COST_DETAIL
from jupyter_ahp.agents.assistant.failures import unfinished
from jupyter_ahp.agents.assistant.files import Files, in_time
from jupyter_ahp.agents.assistant.history import Call, Said, left_out, merged, user_said
from jupyter_ahp.agents.assistant.messages import content_of, messages_of
from jupyter_ahp.agents.assistant.tally import Tally
from jupyter_ahp.agents.base import Steering, Tool, ToolCall, TurnSink


@dataclass(slots=True)
class Run:
    """How far a turn is: all that it takes to send its last request again."""

    call: Call
    sink: TurnSink
    steering: dict[str, Steering]
    """What a person said meanwhile and no request has carried, by id, in order (B15)."""
    messages: list[ModelMessage]
    """Everything up to the request that is to be answered, which is the last."""
    whole: Sequence[Said]
    """The chat, as it is told, but for a summary."""
    said: Sequence[Said]
    """What of it the messages begin with, behind the summary."""
    summary: Said | None
    """Of what was said before that."""
    told: bool
    """The person knows that the beginning of the chat is left out."""
    tools: Sequence[Tool]
    """What the model is offered: none if it takes none."""
    tally: Tally
    effort: bool
    """The model is told how much to think, if somebody said."""
    summarised: bool = False
    """It was tried to have the beginning of the chat summarised."""
    steps: int = 0
    """Requests that were answered."""
    last_words: str = ""
    """The text of the answer that came last."""
    attempt: int = 1
    """Which one to have that request answered."""
    heard: bool = False
    """Something of the answer to that request came: asking again would say it twice."""
    came: bool = False
    """Something came, of this or an earlier answer of the turn."""
    calls: dict[str, ToolCall] = field(default_factory=dict)
    """The tool calls of the answer that came last, by the model's id of them."""
    writing: dict[int, ToolCall] = field(default_factory=dict)
    """Those that it still writes, by their place in it."""

    def history(self) -> list[ModelMessage]:
        """What the messages begin with: all that was said ahead of what this turn did."""
        said = self.said if self.summary is None else merged([self.summary, *self.said])
        return messages_of(said, tools=bool(self.tools))

    def tell(self, said: Sequence[Said], summary: Said | None) -> None:
        """Have the messages begin with this instead."""
        done = self.messages[len(self.history()) :]
        self.said, self.summary = said, summary
        self.messages = [*self.history(), *done]


async def steer(request: ModelRequest, run: Run) -> None:
    """What a person said meanwhile goes into the request that is about to go out, behind what it has (B15)."""
    while run.steering:
        message_id, message = next(iter(run.steering.items()))
        shown = await in_time(partial(Files.shown, blocks=message.blocks), run.call.files)
        if run.steering.get(message_id) is not message:  # taken back, or changed, while its files were read
            continue
        said = user_said(message.text, shown, vision=run.call.endpoint.vision)
        request.parts = [*request.parts, UserPromptPart(content_of(said))]
        del run.steering[message_id]
        run.sink.steering_read(message_id)


def say_left_out(run: Run) -> None:
    """Once a chat, when the model begins to answer what was left."""
    if len(run.said) < len(run.whole) and not run.told:
        run.sink.notice(left_out(run.call.endpoint.model, run.whole, run.said))
        run.told = True


def report(event: object, run: Run) -> None:
    match event:
        case (
            PartStartEvent(part=TextPart(content=text))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
        ) if text:
            if not run.heard:
                run.sink.activity(None)
            run.heard = run.came = True
            run.sink.markdown(text)
        case (
            PartStartEvent(part=ThinkingPart(content=thought))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought))
        ) if thought:
            run.heard = run.came = True
            run.sink.reasoning(thought)
        case PartStartEvent(index=index, part=ToolCallPart() as part):
            run.heard = run.came = True
            run.sink.activity(None)
            tool = next((tool for tool in run.tools if tool.name == part.tool_name), None)
            call = run.writing[index] = run.calls[part.tool_call_id] = _call(run, part.tool_name, tool)
            call.input(_written(part.args))
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=args)) if index in run.writing:
            run.writing[index].input(_written(args))


def report_end(response: ModelResponse, run: Run) -> None:
    """The end of an answer, also of one that calls tools. Raises `ModelAPIError` if it is not whole."""
    add_usage(run.tally, response)
    run.last_words = "".join(part.content for part in response.parts if isinstance(part, TextPart)).strip()
    if response.finish_reason == "length":
        run.sink.notice("The answer stops here: it reached the model's limit of length. Ask it to go on.")
    if response.finish_reason is None and "finish_reason" not in (response.provider_details or {}):
        raise unfinished(run.call.endpoint.model)


def add_usage(tally: Tally, response: ModelResponse) -> None:
    """What one request used, as its API says."""
    used, cost = response.usage, (response.provider_details or {}).get(COST_DETAIL)
    tally.add(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cost=cost or 0.0,
        model=response.model_name,
    )


def report_result(event: object, run: Run) -> None:
    """A call that no tool of ours took, such as one of a tool that there is not, is told to people here."""
    match event:
        case FunctionToolResultEvent(part=result):
            call = run.calls.get(result.tool_call_id)
            if call is not None and not call.over:
                words = str(result.content)
                call.failed(f"{result.tool_name}: not done", error=words)


def begun(run: Run, call_id: str, tool: Tool) -> ToolCall:
    """The call that people see since the model began to write it."""
    if call_id not in run.calls:
        run.calls[call_id] = _call(run, tool.name, tool)
    return run.calls[call_id]


def _call(run: Run, name: str, tool: Tool | None) -> ToolCall:
    title, contributor = (tool.title, tool.contributor) if tool is not None else (name, None)
    return run.sink.tool(name, title=title, contributor=contributor)


def _written(arguments: str | dict[str, object] | None) -> str:
    """What a model wrote of a call's arguments, as people watch it."""
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else arguments or ""
