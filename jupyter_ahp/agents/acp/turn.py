"""One turn of an ACP agent: its session's updates to the sink, its questions to people, its calls of our tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Literal

from acp.schema import PermissionOption, PromptResponse, ToolCallProgress, ToolCallStart, ToolCallUpdate

from jupyter_ahp.agents.base import Json, Prompt, Tool, ToolCall, ToolResult, TurnFailed, TurnOver, TurnSink

from .calls import Place, Reported, Shown
from .reporter import Reporter, claude

OURS = "jupyter"
"""What agents know the server by through which they reach the tools of a turn."""

_APPROVE = ("allow_once", "allow_always")
_DENY = ("reject_once", "reject_always")


class Turn:
    """What runs between a prompt and its answer."""

    def __init__(self, sink: TurnSink, prompt: Prompt, place: Place, *, title: str) -> None:
        self.sink = sink
        self.tools = {tool.name: tool for tool in prompt.tools}
        self._approvals = prompt.approvals
        self.stopped = False
        self.sent = False
        """The prompt is out: a stop is for the agent to take in."""
        self.heard = False
        """The agent has said something in it."""
        self.over = asyncio.Event()
        """Set with a stop: whoever waits for a person, waits no more."""
        self._title = title
        self._place = place
        self._reporter = Reporter(sink, title)
        self._workers: dict[str, Reporter] = {}
        """By the id of the call that spawned it."""
        self._calls: dict[str, Shown] = {}
        self._early: dict[str, ToolCall] = {}
        """Calls of our tools that the agent has not reported yet."""

    def stop(self) -> None:
        self.stopped = True
        self.over.set()

    @property
    def busy(self) -> bool:
        """A call goes on."""
        return any(not call.over for call in self._calls.values())

    # ── what the agent reports ───────────────────────────────────────────────────────────────────────────────
    def update(self, update: Any) -> None:
        self.heard = True
        if isinstance(update, ToolCallStart | ToolCallProgress):
            call = self._shown(update)
            if call.tool is None or update.status in ("completed", "failed"):
                call.show(update.status)  # a tool of ours says by itself how it goes, if it was called at all
        else:
            self._reporter_of(update).say(update)

    def _reporter_of(self, update: Any) -> Reporter:
        """Where something is told: in the turn, or in the chat of the worker that says it (W1)."""
        parent = str(claude(update).get("parentToolUseId"))
        if parent in self._workers:
            return self._workers[parent]
        spawning = self._calls.get(parent)
        if spawning is None or spawning.worker is not None:
            return self._reporter
        asked = spawning.input if isinstance(spawning.input, dict) else {}
        worker = spawning.worker = spawning.sink.worker(
            spawning.call,
            str(asked.get("prompt") or spawning.title),
            title=str(asked.get("description") or spawning.title),
            agent_name=asked.get("subagent_type"),
        )
        reporter = self._workers[parent] = Reporter(worker.sink, self._title)
        return reporter

    def _shown(self, update: Reported) -> Shown:
        known = self._calls.get(update.tool_call_id)
        if known is None:
            sink = self._reporter_of(update).sink
            tool = self._ours(update)
            early = self._early.pop(tool.name, None) if tool is not None else None
            known = Shown(early or _begun(sink, tool, update), sink, self._place, tool)
            known.taken = early is not None
            self._calls[update.tool_call_id] = known
        known.merge(update)
        return known

    def _ours(self, update: Reported) -> Tool | None:
        """The tool of ours that a call is one of, by the names that agents give what MCP servers offer.

        Only of the kind that they have for such tools: a command whose description reads like one is none.
        """
        if update.kind not in (None, "other"):
            return None
        for prefix in (f"mcp__{OURS}__", f"{OURS}_", f"{OURS}/", f"{OURS}."):
            name = (update.title or "").removeprefix(prefix)
            if name != update.title and name in self.tools:
                return self.tools[name]
        return None

    def terminal_said(self, terminal_id: str) -> None:
        """A terminal that the agent has us run has said something: show it where it is shown."""
        for call in self._calls.values():
            if call.shows(terminal_id):
                call.refresh()

    # ── its end ──────────────────────────────────────────────────────────────────────────────────────────────
    def close(self) -> None:
        """It is over, however it ended."""
        for call in self._calls.values():
            call.rest()

    def answered(self, answer: PromptResponse) -> None:
        """The prompt was answered: the turn is over. Raises `TurnFailed` when that is no good end."""
        self._reporter.end(answer.usage)
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
            asked.rest()
            if asked.tool is not None:
                return _option(options, _APPROVE)  # our tools ask by themselves, where they have to
            if not self._asks(asked):
                asked.run(by_setting=True)
                return _option(options, _APPROVE)
            async with asked.asking:
                return await self._until_over(self._ask(asked, options))
        except TurnOver:
            return None

    def _asks(self, asked: Shown) -> bool:
        """Whether a person is asked: unless a setting lets everything run. What the agent asks about is never nothing."""
        return self._approvals.asks(f"acp:{asked.kind}", "run")  # no tool has a name like it

    async def _ask(self, asked: Shown, options: Sequence[PermissionOption]) -> str | None:
        def look() -> None:
            if not self._asks(asked):
                asked.call.waive()

        with self._approvals.watched(look):
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


_KINDS = {"read": "read", "search": "search", "execute": "terminal"}
"""`_meta.toolKind` by ACP's kind of a call: what faces and approvals go by."""


def _begun(sink: TurnSink, tool: Tool | None, update: Reported) -> ToolCall:
    if tool is not None:
        return sink.tool(tool.name, title=tool.title, contributor=tool.contributor)
    own = claude(update).get("toolName")
    name = str(own or update.kind or "tool")
    kind = _KINDS.get(update.kind or "")
    return sink.tool(
        name,
        title=name if own else update.title or name,
        meta={"toolKind": kind} if kind is not None else None,
    )


def _offered(option: PermissionOption) -> Json:
    kind: Literal["approve", "deny"] = "approve" if option.kind in _APPROVE else "deny"
    return {"id": option.option_id, "label": option.name, "kind": kind}


def _option(options: Sequence[PermissionOption], kinds: Sequence[str]) -> str | None:
    """The option of these kinds that binds least."""
    return next((option.option_id for kind in kinds for option in options if option.kind == kind), None)
