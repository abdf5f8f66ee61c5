"""The CLI's messages of one conversation, the chat's or a worker's, into a sink: text and thoughts as they come, tool
calls, results, usage, and what the CLI says of itself (T9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from claude_agent_sdk import (
    AssistantMessage,
    RateLimitEvent,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from jupyter_ahp.agents.base import Tool, ToolCall, TurnSink
from jupyter_ahp.agents.claude import calls
from jupyter_ahp.protocol.meta import COST

_ASKS_SOON: Final = 0.3  # seconds after which a call that has not asked is said to run


@dataclass(slots=True)
class Entry:
    """A tool call of the model's, from its first word to its result."""

    name: str
    call: ToolCall
    sink: TurnSink
    tool: Tool | None = None
    """One of the host's: it does everything that people see of the call."""
    given: dict[str, Any] | None = None
    """Its input, once it is whole."""
    begun: bool = False
    """Somebody was told what it does."""
    served: bool = False
    """A tool of the host's has been called for it."""
    over: bool = False
    soon: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """It runs, without asking."""
        if self.soon is not None:
            self.soon.cancel()
        if self.begun or self.over or self.given is None or self.tool is not None:
            return
        self.begun = True
        words = calls.shown(self.name, self.given)
        self.call.run(words.doing, tool_input=calls.input_of(self.name, self.given))


@dataclass(slots=True)
class Registry:
    """The tool calls of a CLI, by id: the chat's and its workers'."""

    entries: dict[str, Entry] = field(default_factory=dict)
    waiting: dict[str, list[Callable[[Entry], None]]] = field(default_factory=dict)
    _asked: dict[str, list[asyncio.Future[Entry | None]]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Calls of an answer that goes nowhere: nobody can be asked."""
    plan: str = ""
    """What was last written into the file of a plan."""

    def add(self, call_id: str, entry: Entry) -> None:
        self.entries[call_id] = entry

    def whole(self, call_id: str, given: dict[str, Any]) -> None:
        """Its input is known now."""
        entry = self.entries[call_id]
        entry.given = given
        if entry.name == "Write":
            self.plan = calls.written_plan(given) or self.plan
        for then in self.waiting.pop(call_id, ()):
            then(entry)

    def when_whole(self, call_id: str, then: Callable[[Entry], None]) -> None:
        """Now, or as soon as the call and its input are known: what is said of a call may come before it."""
        entry = self.entries.get(call_id)
        if entry is not None and entry.given is not None:
            then(entry)
        else:
            self.waiting.setdefault(call_id, []).append(then)

    async def known(self, call_id: str) -> Entry | None:
        """The call, once its input is known; None if nobody will be shown it."""
        if call_id in self.refused:
            return None
        found: asyncio.Future[Entry | None] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(call_id, []).append(found)
        self.when_whole(call_id, lambda entry: self._answer(call_id, entry))
        return await found

    def _answer(self, call_id: str, entry: Entry | None) -> None:
        for found in self._asked.pop(call_id, ()):
            if not found.done():
                found.set_result(entry)

    def refuse(self, call_ids: Iterable[str]) -> None:
        """Nobody will be shown these calls."""
        for call_id in call_ids:
            self.refused.add(call_id)
            self._answer(call_id, None)

    def serve(self, tool: str, arguments: Mapping[str, Any]) -> Entry | None:
        """The call that the CLI wants done: the MCP request for it does not carry its id."""
        name = f"mcp__{calls.OURS}__{tool}"
        open_ones = [entry for entry in self.entries.values() if entry.name == name and not entry.served]
        same = [entry for entry in open_ones if entry.given == dict(arguments)]
        entry = next(iter(same or open_ones), None)
        if entry is not None:
            entry.served = True
        return entry

    def forget(self, sink: TurnSink) -> None:
        """The turn or worker of this sink is over."""
        for call_id, entry in [*self.entries.items()]:
            if entry.sink is sink:
                entry.over = True
                if entry.soon is not None:
                    entry.soon.cancel()
                del self.entries[call_id]


class Reporter:
    """Reports to one sink. `tools` are the host's that the model is shown, by name."""

    def __init__(self, sink: TurnSink, registry: Registry, tools: Mapping[str, Tool]) -> None:
        self.sink = sink
        self._registry = registry
        self._tools = tools
        self._streamed: set[str] = set()
        """Ids of messages whose text came as it was written."""
        self._message = ""
        self._unfinished = False
        self._blocks: dict[int, str] = {}
        """The tool call that a block of the running message is, by index."""
        self._last: str | None = None
        self.error = ""
        """What the CLI says in the place of an answer, when a request failed for good."""
        self.error_kind: str | None = None
        self._input = self._output = self._cached = 0
        self._cost = 0.0
        self._warned: set[str] = set()

    def hear(self, message: Any) -> None:
        match message:
            case StreamEvent():
                self._event(message.event)
            case AssistantMessage():
                self._assistant(message)
            case UserMessage():
                self._user(message)
            case SystemMessage(subtype="status"):
                self._status(message.data)
            case SystemMessage(subtype="api_retry"):
                self.sink.activity(_retrying(message.data))
            case SystemMessage(subtype="compact_boundary"):
                self._compacted(message.data.get("compact_metadata") or {})
            case RateLimitEvent():
                self._limits(message)

    # ── as it is written ─────────────────────────────────────────────────────────────────────────────────────
    def _event(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._begin_anew()
                self._message = event["message"].get("id") or ""
                self._blocks = {}
                self.sink.activity(None)
            case "content_block_start":
                block = event["content_block"]
                if block.get("type") == "tool_use":
                    self._blocks[event["index"]] = block["id"]
                    self._begin(block["id"], block["name"])
                else:
                    self._new_block(block.get("type"))
            case "content_block_delta":
                self._delta(event["index"], event["delta"])
            case "message_delta":
                self._unfinished = False  # it has a reason to end; one that was cut off has none

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        match delta.get("type"):
            case "text_delta":
                self._unfinished = True
                self._streamed.add(self._message)
                self._say("text", delta["text"])
            case "thinking_delta":
                self._streamed.add(self._message)
                self._say("thinking", delta["thinking"])
            case "input_json_delta":
                entry = self._registry.entries.get(self._blocks.get(index, ""))
                if entry is not None:
                    entry.call.input(delta["partial_json"])

    def _begin_anew(self) -> None:
        """What was written of an answer that was cut off is said again."""
        if self._unfinished:
            self._unfinished = False
            self._notice("The connection broke off; the answer begins anew.")

    def _new_block(self, kind: str | None) -> None:
        """Two blocks in a row are two paragraphs, though one part."""
        if kind == self._last == "text":
            self.sink.markdown("\n\n")
        elif kind == self._last == "thinking":
            self.sink.reasoning("\n\n")

    def _say(self, kind: str, text: str) -> None:
        if text:
            self._last = kind
            if kind == "text":
                self.sink.markdown(text)
            else:
                self.sink.reasoning(text)

    # ── whole messages ───────────────────────────────────────────────────────────────────────────────────────
    def _assistant(self, message: AssistantMessage) -> None:
        if message.error is not None:
            self.error = "".join(block.text for block in message.content if isinstance(block, TextBlock))
            self.error_kind = message.error
            return
        streamed = (message.message_id or "") in self._streamed
        if not streamed:
            self._begin_anew()
        for block in message.content:
            match block:
                case TextBlock(text=text) if not streamed:
                    self._new_block("text")
                    self._say("text", text)
                case ThinkingBlock(thinking=text) if not streamed:
                    self._new_block("thinking")
                    self._say("thinking", text)
                case ToolUseBlock(id=call_id, name=name, input=given):
                    self._begin(call_id, name)
                    self._whole(call_id, given)

    def _user(self, message: UserMessage) -> None:
        if isinstance(message.content, str):
            return
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        for block in results:
            self._result(block, message.tool_use_result if len(results) == 1 else None)

    # ── tool calls ───────────────────────────────────────────────────────────────────────────────────────────
    def _begin(self, call_id: str, name: str) -> None:
        if call_id in self._registry.entries:
            return
        self._last = None
        tool = (
            self._tools.get(name.removeprefix(f"mcp__{calls.OURS}__")) if name.startswith("mcp__") else None
        )
        if tool is not None:
            call = self.sink.tool(tool.name, title=tool.title, call_id=call_id, contributor=tool.contributor)
        else:
            call = self.sink.tool(name, title=calls.title_of(name), call_id=call_id, meta=calls.kind_of(name))
        self._registry.add(call_id, Entry(name, call, self.sink, tool))

    def _whole(self, call_id: str, given: dict[str, Any]) -> None:
        entry = self._registry.entries[call_id]
        if entry.given is not None:
            return
        entry.soon = asyncio.get_running_loop().call_later(_ASKS_SOON, entry.begin)
        self._registry.whole(call_id, given)

    def _result(self, block: ToolResultBlock, structured: Any) -> None:
        entry = self._registry.entries.get(block.tool_use_id)
        if entry is None or entry.over or (entry.tool is not None and entry.served):
            return
        given = entry.given or {}
        entry.begin()
        entry.over = True
        if entry.soon is not None:
            entry.soon.cancel()
        words = calls.shown(entry.name, given)
        content = calls.result(entry.name, given, block.content, structured)
        if block.is_error:
            entry.call.failed(words.failed, error=calls.error_of(block.content), content=content)
        else:
            entry.call.done(words.did, content=content)

    # ── what the CLI says of itself ──────────────────────────────────────────────────────────────────────────
    def _status(self, data: Mapping[str, Any]) -> None:
        if data.get("status") == "compacting":
            self.sink.activity("Compacting the conversation")
        elif "compact_result" in data:
            self.sink.activity(None)

    def _compacted(self, numbers: Mapping[str, Any]) -> None:
        before, after = numbers.get("pre_tokens"), numbers.get("post_tokens")
        why = "It had become long. " if numbers.get("trigger") == "auto" else ""
        tokens = f" {before:,} tokens became {after:,}." if before and after else ""
        self._notice(f"The conversation was compacted for the model.{tokens} {why}Every turn is still here.")

    def _limits(self, event: RateLimitEvent) -> None:
        info = event.rate_limit_info
        if info.status != "allowed_warning" or (info.rate_limit_type or "") in self._warned:
            return
        self._warned.add(info.rate_limit_type or "")
        used = f"{info.utilization:.0%} of " if info.utilization is not None else "Most of "
        kind = (info.rate_limit_type or "the").replace("_", " ")
        self._notice(f"{used}your {kind} limit with Claude is used.")

    def _notice(self, text: str) -> None:
        self._last = None
        self.sink.notice(text)

    def read_steering(self, message_id: str) -> None:
        """The model has read it: what it says from here on stands behind it."""
        self._last = None
        self.sink.steering_read(message_id)

    def used(self, result: ResultMessage, cost: float | None) -> None:
        """What the CLI reported of one of its turns; a turn of the host's may be several."""
        usage = result.usage or {}
        self._input += _sum(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        self._output += _sum(usage, "output_tokens")
        self._cached += _sum(usage, "cache_read_input_tokens")
        self._cost += cost or 0.0
        if self._input or self._output:
            model = max(
                result.model_usage or {},
                key=lambda name: (result.model_usage or {})[name]["outputTokens"],
                default=None,
            )
            self.sink.usage(
                input_tokens=self._input,
                output_tokens=self._output,
                cache_read_tokens=self._cached,
                model=model,
                meta={COST: {"amount": round(self._cost, 6), "currency": "USD"}} if self._cost else None,
            )


def _sum(usage: Mapping[str, Any], *names: str) -> int:
    return sum(value for name in names if isinstance(value := usage.get(name), int))


def _retrying(data: Mapping[str, Any]) -> str:
    status = data.get("error_status")
    wait = data.get("retry_delay_ms")
    why = {
        401: "Claude's API did not take the key",
        429: "Claude's API is busy",
        529: "Claude's API is overloaded",
    }.get(status or 0, "Claude's API failed" if status else "The connection to Claude's API broke off")
    number = f" ({status})" if status else ""
    seconds = f" in {wait / 1000:.0f} s" if isinstance(wait, int | float) and wait >= 1000 else ""
    return f"{why}{number}; asking again{seconds}, {data.get('attempt')} of {data.get('max_retries')}"
