"""One turn of an ACP agent: its session's updates, reported to the sink.

Text is the answer, a thought is reasoning; a plan is one tool call that shows the list as it stands. A tool call goes
along AHP's table whatever order the agent reports in: `Shown`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, Literal, TypeAlias

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    FileEditToolCallContent,
    ImageContentBlock,
    PermissionOption,
    PlanEntry,
    PromptResponse,
    ResourceContentBlock,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
)

from jupyter_ahp.agents.base import Json, Tool, ToolCall, ToolResult, TurnFailed, TurnOver, TurnSink

from .content import difference, edit_of, shown, text_content
from .terminals import Terminals

log = logging.getLogger(__name__)

Reported: TypeAlias = ToolCallStart | ToolCallProgress | ToolCallUpdate

OURS = "jupyter"
"""What agents know the server by through which they reach the tools of a turn."""

_APPROVE = ("allow_once", "allow_always")
_DENY = ("reject_once", "reject_always")
_STEPS = {"completed": "✓", "in_progress": "▸", "pending": "·"}


class Shown:
    """A tool call of the agent's, as people see it. Updates carry only what has changed; this holds the whole."""

    def __init__(self, call: ToolCall, terminals: Terminals, tool: Tool | None) -> None:
        self.call = call
        self.tool = tool
        """The tool of ours that it calls."""
        self.title = ""
        self.kind: str | None = None
        self.input: Any = None
        self.taken = False
        """The tool of ours runs, and says how it goes."""
        self.asking = asyncio.Lock()
        self._content: list[Any] = []
        self._edits: dict[str, FileEditToolCallContent] = {}
        """What it changes, by path: some agents show that while they ask, and not any more when it is done."""
        self._locations: list[str] = []
        self._output: Any = None
        self._terminals = terminals

    def merge(self, update: Reported) -> None:
        """Take in what an update says, without showing it."""
        self.title = update.title or self.title
        self.kind = update.kind or self.kind
        if update.raw_input is not None:
            self.input = update.raw_input
        if update.content is not None:
            self._content = list(update.content)
            self._edits |= {
                edit.path: edit for edit in self._content if isinstance(edit, FileEditToolCallContent)
            }
        if update.locations is not None:
            self._locations = [location.path for location in update.locations]
        if update.raw_output is not None:
            self._output = update.raw_output

    def show(self, status: str | None) -> None:
        """Show how it stands. `pending` may still be asked about: it runs once there is something to see of it."""
        if self.taken:
            return
        if status in ("in_progress", "completed", "failed") or self.input or self._content:
            self.call.run(self.title, tool_input=self.tool_input)
        match status:
            case "completed":
                self.call.done(self.title, content=self.content())
            case "failed":
                self.call.failed(self.title, error=self._error(), content=self.content())
            case _ if self._content:
                self.call.content(self.content())

    @property
    def tool_input(self) -> str | None:
        if self.input in (None, {}, ""):
            return "\n".join(map(difference, self._edits.values())) or None
        return self.input if isinstance(self.input, str) else json.dumps(self.input, ensure_ascii=False)

    @property
    def edits(self) -> list[Json]:
        return [edit_of(edit) for edit in self._edits.values()]

    def content(self) -> list[Json]:
        """AHP tool result content. A file that it was about is named, unless an edit of it is there."""
        blocks: list[Json] = []
        for edit in self._edits.values():
            blocks += [{"type": "fileEdit", **edit_of(edit)}, text_content(difference(edit))]
        for block in self._content:
            match block:
                case ContentToolCallContent(content=inner):
                    blocks.append(shown(inner))
                case TerminalToolCallContent(terminal_id=terminal_id):
                    blocks.append(text_content(self._terminals.output(terminal_id)))
        if not blocks and self._output and isinstance(self._output, str):
            blocks.append(text_content(self._output))
        if self.kind in ("read", "edit", "delete", "move"):
            paths = [path for path in dict.fromkeys(self._locations) if path.startswith("/")]
            named = [path for path in paths if path not in self._edits]
            blocks += [{"type": "resource", "uri": f"file://{path}"} for path in named[:5]]
        return blocks

    def shows(self, terminal_id: str) -> bool:
        return any(
            isinstance(block, TerminalToolCallContent) and block.terminal_id == terminal_id
            for block in self._content
        )

    def refresh(self) -> None:
        """A terminal that it shows has said something."""
        if not self.taken:
            self.call.content(self.content())

    def _error(self) -> str:
        """What the model was told, as far as the agent says that."""
        inner = [block.content for block in self._content if isinstance(block, ContentToolCallContent)]
        told = "\n".join(content.text for content in inner if isinstance(content, TextContentBlock))
        output = self._output if isinstance(self._output, str) else ""
        return told or output or "It failed, and the agent does not say why."


class Turn:
    """What runs between a prompt and its answer."""

    def __init__(self, sink: TurnSink, tools: Sequence[Tool], terminals: Terminals, *, title: str) -> None:
        self.sink = sink
        self.tools = {tool.name: tool for tool in tools}
        self.stopped = False
        self.sent = False
        """The prompt is out: a stop is for the agent to take in."""
        self.heard = False
        """The agent has said something in it."""
        self.over = asyncio.Event()
        """Set with a stop: whoever waits for a person, waits no more."""
        self._title = title
        self._terminals = terminals
        self._calls: dict[str, Shown] = {}
        self._early: dict[str, ToolCall] = {}
        """Calls of our tools that the agent has not reported yet."""
        self._plan: ToolCall | None = None
        self._steps: Sequence[PlanEntry] = ()
        self._used: Json | None = None

    def stop(self) -> None:
        self.stopped = True
        self.over.set()

    # ── what the agent reports ───────────────────────────────────────────────────────────────────────────────
    def update(self, update: Any) -> None:
        self.heard = True
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text)):
                self.sink.markdown(text)
            case AgentMessageChunk(content=ImageContentBlock(data=data, mime_type=kind)):
                self.sink.resource(f"data:{kind};base64,{data}", content_type=kind, size=len(data) * 3 // 4)
            case AgentMessageChunk(content=ResourceContentBlock(uri=uri, mime_type=kind)):
                self.sink.resource(uri, content_type=kind)
            case AgentMessageChunk(content=content):
                self.sink.notice(
                    f"{self._title} said something of the kind “{content.type}”, which cannot be shown."
                )
            case AgentThoughtChunk(content=TextContentBlock(text=text)):
                self.sink.reasoning(text)
            case AgentPlanUpdate(entries=entries):
                self._show_plan(entries)
            case ToolCallStart() | ToolCallProgress():
                self._tool_call(update)
            case UsageUpdate(used=used, size=size, cost=cost):
                spent = {"cost": {"amount": cost.amount, "currency": cost.currency}} if cost else {}
                self._used = {"contextTokens": used, "contextWindow": size, **spent}
                self.sink.usage(meta=self._used)
            case _:
                log.debug("%s: an update of the kind %s is not shown", self._title, type(update).__name__)

    def _tool_call(self, update: ToolCallStart | ToolCallProgress) -> None:
        call = self._shown(update)
        if call.tool is None or update.status in ("completed", "failed"):
            call.show(update.status)  # a tool of ours says by itself how it goes, if it was called at all

    def _shown(self, update: Reported) -> Shown:
        known = self._calls.get(update.tool_call_id)
        if known is None:
            tool = self._ours(update)
            early = self._early.pop(tool.name, None) if tool is not None else None
            known = Shown(early or self._begin(tool, update), self._terminals, tool)
            known.taken = early is not None
            self._calls[update.tool_call_id] = known
        known.merge(update)
        return known

    def _begin(self, tool: Tool | None, update: Reported) -> ToolCall:
        if tool is not None:
            return self.sink.tool(tool.name, title=tool.title, contributor=tool.contributor)
        name = _tool_name(update)
        return self.sink.tool(name, title=update.title or name)

    def _ours(self, update: Reported) -> Tool | None:
        """The tool of ours that a call is one of, by the names that agents give what MCP servers offer."""
        if update.kind not in (None, "other"):
            return None
        for separator in ("__", "_", "/", "."):
            prefix = f"mcp__{OURS}__" if separator == "__" else f"{OURS}{separator}"
            name = (update.title or "").removeprefix(prefix)
            if name != update.title and name in self.tools:
                return self.tools[name]
        return None

    def _show_plan(self, entries: Sequence[PlanEntry]) -> None:
        self._steps = entries
        if self._plan is None:
            self._plan = self.sink.tool("plan", title="Plan")
            self._plan.run("Plan")
        text = "\n".join(f"{_STEPS[step.status]} {step.content}" for step in entries)
        if entries and all(step.status == "completed" for step in entries):
            self._end_plan(text)
        else:
            self._plan.content([text_content(text)])

    def _end_plan(self, text: str) -> None:
        if self._plan is not None:
            done = sum(step.status == "completed" for step in self._steps)
            self._plan.done(f"Plan: {done} of {len(self._steps)} done", content=[text_content(text)])
            self._plan = None

    def terminal_said(self, terminal_id: str) -> None:
        """A terminal that the agent has us run has said something: show it where it is shown."""
        for call in self._calls.values():
            if call.shows(terminal_id):
                call.refresh()

    # ── its end ──────────────────────────────────────────────────────────────────────────────────────────────
    def answered(self, answer: PromptResponse) -> None:
        """The prompt was answered: the turn is over. Raises `TurnFailed` when that is no good end."""
        if self._plan is not None:
            self._end_plan("\n".join(f"{_STEPS[step.status]} {step.content}" for step in self._steps))
        if (usage := answer.usage) is not None:
            self.sink.usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cached_read_tokens,
                meta=self._used,
            )
        if self.stopped:
            return
        match answer.stop_reason:
            case "max_tokens":
                self.sink.notice(
                    "The answer ends here because it reached the limit of its length. Ask to go on."
                )
            case "max_turn_requests":
                self.sink.notice(
                    f"{self._title} has asked its model as often as it may for one message. Ask to go on."
                )
            case "refusal":
                raise TurnFailed(
                    "refused", f"{self._title} refuses to go on with this. Say it in another way."
                )
            case "cancelled":
                raise TurnFailed(
                    "agentStopped", f"{self._title} stopped by itself. Send it on.", resumable=True
                )

    # ── what it asks ─────────────────────────────────────────────────────────────────────────────────────────
    async def permission(self, update: ToolCallUpdate, options: Sequence[PermissionOption]) -> str | None:
        """The id of the option that a person chose; None when the turn is over, and for a denial without an option."""
        try:
            asked = self._shown(update)
            if asked.tool is not None:
                return _option(options, _APPROVE)  # our tools ask by themselves, where they have to
            async with asked.asking:
                return await self._until_over(self._ask(asked, options))
        except TurnOver:
            return None

    async def _ask(self, asked: Shown, options: Sequence[PermissionOption]) -> str | None:
        answer = await asked.call.confirm(
            asked.title,
            title=f"{self._title} asks: {asked.title}",
            tool_input=asked.tool_input,
            options=[_offered(option) for option in options],
            edits=asked.edits,
        )
        if answer.option is not None and any(option.option_id == answer.option for option in options):
            return answer.option
        return _option(options, _APPROVE if answer.approved else _DENY)

    async def _until_over(self, waiting: Awaitable[str | None]) -> str | None:
        task = asyncio.ensure_future(waiting)
        over = asyncio.ensure_future(self.over.wait())
        try:
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for one in (task, over):
                one.cancel()
            await asyncio.gather(task, over, return_exceptions=True)

    # ── tools of ours that it calls ──────────────────────────────────────────────────────────────────────────
    async def run_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool of this turn. Raises `TurnOver` when it ends first, `KeyError` for a tool that it does not offer."""
        tool = self.tools[name]
        reported = next((one for one in self._calls.values() if one.tool is tool and not one.taken), None)
        if reported is not None:
            reported.taken = True
            call = reported.call
        else:  # the agent says later that it calls it, or not at all
            call = self.sink.tool(tool.name, title=tool.title, contributor=tool.contributor)
            self._early[name] = call
        return await tool.call(call, arguments)


def _tool_name(update: Reported) -> str:
    claude = (update.field_meta or {}).get("claudeCode")
    named = claude.get("toolName") if isinstance(claude, dict) else None
    return str(named or update.kind or "tool")


def _offered(option: PermissionOption) -> Json:
    kind: Literal["approve", "deny"] = "approve" if option.kind in _APPROVE else "deny"
    return {"id": option.option_id, "label": option.name, "kind": kind}


def _option(options: Sequence[PermissionOption], kinds: Sequence[str]) -> str | None:
    """The option of these kinds that binds least."""
    return next((option.option_id for kind in kinds for option in options if option.kind == kind), None)
