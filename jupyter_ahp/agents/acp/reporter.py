"""What an ACP agent says in one conversation, its own or a worker's, reported to that one's sink.

Text is the answer, a thought is reasoning; a plan is one tool call that shows the list as it stands.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ImageContentBlock,
    PlanEntry,
    ResourceContentBlock,
    TextContentBlock,
    Usage,
    UsageUpdate,
)

from jupyter_ahp.agents.base import Json, ToolCall, TurnSink
from jupyter_ahp.protocol.meta import COST

from .content import text_content

log = logging.getLogger(__name__)

_STEPS = {"completed": "✓", "in_progress": "▸", "pending": "·"}


class Reporter:
    """`title` is what people know the agent by."""

    def __init__(self, sink: TurnSink, title: str) -> None:
        self.sink = sink
        self._title = title
        self._plan: ToolCall | None = None
        self._steps: Sequence[PlanEntry] = ()
        self._used: Json | None = None

    def say(self, update: Any) -> None:
        """An update of the session that is no tool call's."""
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text)) if "kind" in claude(update):
                self.sink.notice(text)  # of its program, not of its model
            case AgentMessageChunk(content=TextContentBlock(text=text)):
                self.sink.markdown(text)
            case AgentMessageChunk(content=ImageContentBlock(data=data, mime_type=kind)):
                self.sink.resource(f"data:{kind};base64,{data}", content_type=kind, size=len(data) * 3 // 4)
            case AgentMessageChunk(content=ResourceContentBlock(uri=uri, mime_type=kind)):
                self.sink.resource(uri, content_type=kind)
            case AgentMessageChunk(content=content):
                what = f"something of the kind “{content.type}”, which cannot be shown"
                self.sink.notice(f"{self._title} said {what}.")
            case AgentThoughtChunk(content=TextContentBlock(text=text)):
                self.sink.reasoning(text)
            case AgentPlanUpdate(entries=entries):
                self._show_plan(entries)
            case UsageUpdate(used=used, size=size, cost=cost):
                spent = {COST: {"amount": cost.amount, "currency": cost.currency}} if cost else {}
                self._used = {"contextTokens": used, "contextWindow": size, **spent}
                self.sink.usage(meta=self._used)
            case _:
                log.debug("%s: an update of the kind %s is not shown", self._title, type(update).__name__)

    def _show_plan(self, entries: Sequence[PlanEntry]) -> None:
        self._steps = entries
        if self._plan is None:
            self._plan = self.sink.tool("plan", title="Plan")
            self._plan.run("Plan")
        if entries and all(step.status == "completed" for step in entries):
            self._end_plan(self._plan)
        else:
            self._plan.content([self._list])

    @property
    def _list(self) -> Json:
        return text_content("\n".join(f"{_STEPS[step.status]} {step.content}" for step in self._steps))

    def _end_plan(self, plan: ToolCall) -> None:
        done = sum(step.status == "completed" for step in self._steps)
        plan.done(f"Plan: {done} of {len(self._steps)} done", content=[self._list])
        self._plan = None

    def end(self, usage: Usage | None = None) -> None:
        """It says nothing more."""
        if self._plan is not None:
            self._end_plan(self._plan)
        if usage is not None:
            self.sink.usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cached_read_tokens,
                meta=self._used,
            )


def claude(update: Any) -> Json:
    """What claude-agent-acp says beside ACP: a tool's own name, whose worker says something, what is no model's word."""
    said = (update.field_meta or {}).get("claudeCode")
    return said if isinstance(said, dict) else {}
