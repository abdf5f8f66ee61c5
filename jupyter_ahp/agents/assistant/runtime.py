"""The model loop, on pydantic-ai. With `failures.py` the only module that knows it; imported at the first use.

Retries are ours, not the SDKs': the person sees them, and none happens once a word of the answer came.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pydantic_ai import Agent
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
from pydantic_ai.usage import UsageLimits

from jupyter_ahp.agents.assistant.connections import COST_DETAIL, Connections
from jupyter_ahp.agents.assistant.failures import (
    FAILURES,
    explain,
    takes_no_effort,
    takes_no_tools,
    too_long,
    unfinished,
    wait_before_retry,
)
from jupyter_ahp.agents.assistant.files import Files, in_time
from jupyter_ahp.agents.assistant.history import Call, Said, all_tokens, fit, left_out, user_said
from jupyter_ahp.agents.assistant.messages import content_of, messages_of
from jupyter_ahp.agents.assistant.models import Endpoint
from jupyter_ahp.agents.assistant.tally import Tally
from jupyter_ahp.agents.assistant.toolset import Offered
from jupyter_ahp.agents.base import Steering, Tool, ToolCall, TurnFailed, TurnSink

ATTEMPTS: Final = 5
MOST_STEPS: Final = 200
"""Requests of one turn: a model that goes round in circles stops there, and a person may let it go on."""


@dataclass(slots=True)
class Run:
    """How far a turn is: all that it takes to send its last request again."""

    call: Call
    sink: TurnSink
    steering: dict[str, Steering]
    """What a person said meanwhile and no request has carried, by id, in order (B15)."""
    messages: list[ModelMessage]
    """Everything up to the request that is to be answered, which is the last."""
    said: Sequence[Said]
    """What of the chat these begin with."""
    told: bool
    """The person knows that the beginning of the chat is left out."""
    tools: Sequence[Tool]
    """What the model is offered: none if it takes none."""
    tally: Tally
    effort: bool
    """The model is told how much to think, if somebody said."""
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


class Runtime:
    """Asks models and streams what they say. Holds the connections; `close` ends them."""

    def __init__(self, *, stall_seconds: float, backoff_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._backoff_seconds = backoff_seconds
        self._without_tools: set[Endpoint] = set()
        """Models that were seen to take none."""
        self._without_effort: set[Endpoint] = set()
        """Models that were seen to take no word on how much to think."""
        self._connections = Connections(stall_seconds)

    async def answer(self, call: Call, sink: TurnSink, steering: dict[str, Steering]) -> str:
        """Stream one answer into the sink, and give its last words, behind the last tool. Raises `TurnFailed`. Being
        cancelled closes the connection.

        Each request carries what is in `steering` when it goes out, and takes it out of there (B15). What comes in behind
        the last request stays there: there is no request for its sake alone. A model whose server takes no tools is
        asked without, from then on.
        """
        tools = () if call.endpoint in self._without_tools else call.tools
        messages = messages_of(call.said, tools=bool(tools))
        tally = call.tally or Tally(sink)
        run = Run(
            call,
            sink,
            steering,
            messages,
            call.said,
            call.told,
            tools,
            tally,
            call.endpoint not in self._without_effort,
        )
        while True:
            try:
                await self._go_on(run)
                break
            except FAILURES as error:
                if not run.heard and too_long(error) and _forget(run):
                    continue
                if run.tools and not run.steps and not run.heard and takes_no_tools(error):
                    run.tools = ()
                    run.messages = messages_of(run.said, tools=False)
                    continue
                if call.effort and run.effort and not run.heard and takes_no_effort(error):
                    run.effort = False
                    self._without_effort.add(call.endpoint)
                    sink.notice(f"{call.endpoint.model} takes no setting of its effort: it is asked without.")
                    continue
                wait = wait_before_retry(error, run.attempt, self._backoff_seconds)
                if run.heard or wait is None or run.attempt == ATTEMPTS:
                    raise explain(
                        error,
                        call.endpoint,
                        key=call.key,
                        came=run.came,
                        stall_seconds=self._stall_seconds,
                    ) from error
                run.attempt += 1
                sink.activity(f"Asking again, the server was busy ({run.attempt} of {ATTEMPTS})")
                await asyncio.sleep(wait)
        sink.activity(None)
        return run.last_words

    async def close(self) -> None:
        await self._connections.close()

    async def _go_on(self, run: Run) -> None:
        """From the request that is to be answered to the answer that calls no tool."""
        call = run.call
        offered = Offered(run.tools, partial(_begun, run), vision=call.endpoint.vision)
        instructions = call.instructions if run.tools else call.instructions_alone or call.instructions
        agent = Agent(
            self._connections.model(call),
            instructions=instructions,
            toolsets=[offered] if run.tools else [],
            # A tool that there is not is told to the model as often as it asks for one; `MOST_STEPS` ends that.
            retries={"tools": MOST_STEPS, "output": 0},
        )
        settings = self._connections.settings(call, effort=run.effort)
        limits = UsageLimits(request_limit=None)
        async with agent.iter(
            message_history=run.messages, model_settings=settings, usage_limits=limits
        ) as steps:
            async for node in steps:
                if Agent.is_model_request_node(node):
                    if run.steps == MOST_STEPS:
                        raise _too_many_steps()
                    await _steer(node.request, run)
                    run.messages, run.heard = [*steps.all_messages(), node.request], False
                    if run.attempt == 1:
                        run.sink.activity("Thinking")
                    run.calls.clear()
                    async with node.stream(steps.ctx) as stream:
                        async for event in stream:
                            _say_left_out(run)
                            _report(event, run)
                        response = stream.response
                    _report_end(response, run)
                    self._note_tools(run)
                    run.attempt, run.heard = 1, True
                    run.steps += 1
                elif Agent.is_call_tools_node(node):
                    async with node.stream(steps.ctx) as events:
                        async for event in events:
                            _report_result(event, run)

    def _note_tools(self, run: Run) -> None:
        """A model that would not be offered tools answered without them: so it is from now on."""
        endpoint = run.call.endpoint
        if run.call.tools and not run.tools and endpoint not in self._without_tools:
            self._without_tools.add(endpoint)
            run.sink.notice(f"{endpoint.model} takes no tools: it answers from what it is told alone.")


async def _steer(request: ModelRequest, run: Run) -> None:
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


def _forget(run: Run) -> bool:
    """Leave the older half of what was said before this turn out of the request; False when there is nothing (T9)."""
    own = run.call.own
    if len(run.said) == own:
        return False
    kept = fit(run.said, all_tokens(run.said) // 2, own) or run.said[-own:]
    dropped = run.said[: len(run.said) - len(kept)]
    run.messages = run.messages[len(messages_of(dropped, tools=bool(run.tools))) :]
    run.said = kept
    return True


def _say_left_out(run: Run) -> None:
    """Once a chat, when the model begins to answer what was left."""
    if len(run.said) < len(run.call.said) and not run.told:
        run.sink.notice(left_out(run.call.endpoint.model, run.call.said, run.said))
        run.told = True


def _report(event: object, run: Run) -> None:
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


def _report_end(response: ModelResponse, run: Run) -> None:
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


def _report_result(event: object, run: Run) -> None:
    """A call that no tool of ours took, such as one of a tool that there is not, is told to people here."""
    match event:
        case FunctionToolResultEvent(part=result):
            call = run.calls.get(result.tool_call_id)
            if call is not None and not call.over:
                words = str(result.content)
                call.failed(f"{result.tool_name}: not done", error=words)


def _begun(run: Run, call_id: str, tool: Tool) -> ToolCall:
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


def _too_many_steps() -> TurnFailed:
    return TurnFailed(
        "steps",
        f"The model called tools {MOST_STEPS} times in this turn and is not done. What it did is kept. "
        "Let it go on, or say what it should do differently.",
        resumable=True,
    )
