"""The model loop, on pydantic-ai. Imported at the first use, as all modules that know that library.

Retries are ours, not the SDKs': the person sees them, and none happens once a word of the answer came.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from pydantic_ai import Agent
from pydantic_ai.usage import UsageLimits

from jupyter_ahp.agents.assistant.connections import Connections
from jupyter_ahp.agents.assistant.failures import (
    FAILURES,
    explain,
    takes_no_effort,
    takes_no_tools,
    too_long,
    wait_before_retry,
)
from jupyter_ahp.agents.assistant.history import (
    Call,
)
from jupyter_ahp.agents.assistant.models import Endpoint
from jupyter_ahp.agents.assistant.room import Room
from jupyter_ahp.agents.assistant.run import (
    Run,
    begun,
    report,
    report_end,
    report_result,
    say_left_out,
    steer,
)
from jupyter_ahp.agents.assistant.tally import Tally
from jupyter_ahp.agents.assistant.toolset import Offered
from jupyter_ahp.agents.base import Steering, TurnFailed, TurnSink

log = logging.getLogger(__name__)

ATTEMPTS: Final = 5
MOST_STEPS: Final = 200
"""Requests of one turn: a model that goes round in circles stops there, and a person may let it go on."""


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
        self._room = Room(self._connections)

    async def answer(self, call: Call, sink: TurnSink, steering: dict[str, Steering]) -> str:
        """Stream one answer into the sink, and give its last words, behind the last tool. Raises `TurnFailed`. Being
        cancelled closes the connection.

        Each request carries what is in `steering` when it goes out, and takes it out of there (B15). What comes in behind
        the last request stays there: there is no request for its sake alone. A model whose server takes no tools is
        asked without, from then on.
        """
        tools = () if call.endpoint in self._without_tools else call.tools
        run = Run(
            call,
            sink,
            steering,
            messages=[],
            whole=call.said,
            said=call.said,
            summary=call.summary,
            told=call.told,
            tools=tools,
            tally=call.tally or Tally(sink),
            effort=call.endpoint not in self._without_effort,
        )
        run.messages = run.history()
        await self._room.fit(run)
        while True:
            try:
                await self._go_on(run)
                break
            except FAILURES as error:
                if not run.heard and too_long(error) and await self._room.refused(run):
                    continue
                if run.tools and not run.steps and not run.heard and takes_no_tools(error):
                    run.tools = ()
                    run.messages = run.history()
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
        offered = Offered(run.tools, partial(begun, run), vision=call.endpoint.vision)
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
                    await steer(node.request, run)
                    run.messages, run.heard = [*steps.all_messages(), node.request], False
                    if run.attempt == 1:
                        run.sink.activity("Thinking")
                    run.calls.clear()
                    async with node.stream(steps.ctx) as stream:
                        async for event in stream:
                            say_left_out(run)
                            report(event, run)
                        response = stream.response
                    report_end(response, run)
                    self._note_tools(run)
                    run.attempt, run.heard = 1, True
                    run.steps += 1
                elif Agent.is_call_tools_node(node):
                    async with node.stream(steps.ctx) as events:
                        async for event in events:
                            report_result(event, run)

    def _note_tools(self, run: Run) -> None:
        """A model that would not be offered tools answered without them: so it is from now on."""
        endpoint = run.call.endpoint
        if run.call.tools and not run.tools and endpoint not in self._without_tools:
            self._without_tools.add(endpoint)
            run.sink.notice(f"{endpoint.model} takes no tools: it answers from what it is told alone.")


def _too_many_steps() -> TurnFailed:
    return TurnFailed(
        "steps",
        f"The model called tools {MOST_STEPS} times in this turn and is not done. What it did is kept. "
        "Let it go on, or say what it should do differently.",
        resumable=True,
    )
