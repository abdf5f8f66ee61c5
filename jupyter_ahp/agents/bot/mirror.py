"""What is said in a chat of the working session, said again in another sink; answers go the other way (B16).

A mirror is told the actions of one turn, in the tick in which they are said, so the order is the same in both chats.
What asks a person asks in the chat that people see. Chats of the work's workers become workers of that chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from jupyter_ahp.agents.base import (
    Confirmation,
    Json,
    ToolCall,
    TurnOver,
    TurnSink,
    Worker,
    WorkingSession,
)
from jupyter_ahp.protocol.meta import COST

_COUNTED: Final = ("inputTokens", "outputTokens", "cacheReadTokens")


@dataclass(slots=True)
class _Call:
    shown: ToolCall
    is_clients: bool
    asks: bool = False
    """A person is asked, or is about to be."""
    asked: bool = False
    """They have been."""
    worker: str | None = None


class Shown:
    """What all mirrors of a working session share."""

    def __init__(self, work: WorkingSession) -> None:
        self.work = work
        self.workers: dict[str, tuple[Worker, Mirror]] = {}
        """By the URI of their chat in the working session."""
        self.prompts: dict[str, str] = {}
        self.background: set[str] = set()
        """The chats of workers that outlive their turn."""
        self._tasks: set[asyncio.Task[None]] = set()

    def own(self, waiting: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(waiting)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Nobody is asked any more."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def of_worker(self, chat: str, action: Json) -> None:
        """An action of a worker's chat."""
        kind = action["type"]
        if kind == "chat/turnStarted":
            self.prompts[chat] = action["message"]["text"]
            return
        if chat not in self.workers:
            return
        worker, mirror = self.workers[chat]
        if kind not in ("chat/turnComplete", "chat/turnCancelled", "chat/error"):
            mirror.hear(action)
            return
        del self.workers[chat]
        self.background.discard(chat)
        if kind == "chat/turnComplete":
            worker.done()
        elif kind == "chat/turnCancelled":
            worker.cancelled()
        else:
            error = action["part"]["error"]
            worker.failed(error["message"], details=error.get("stack"))


class Mirror:
    """One turn of one chat."""

    def __init__(self, shown: Shown, chat: str, sink: TurnSink, used: Json | None = None) -> None:
        """`used`: the usage of earlier turns of the work that the same sink shows."""
        self._shown = shown
        self._work = shown.work
        self._chat = chat
        self._sink = sink
        self._calls: dict[str, _Call] = {}
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._before = used or {}
        self.used: Json = self._before

    def hear(self, action: Json) -> None:
        """Say it again. What is of no turn, or says that people answered, changes nothing."""
        match action["type"]:
            case "chat/delta":
                self._sink.markdown(action["content"])
            case "chat/reasoning":
                self._sink.reasoning(action["content"])
            case "chat/responsePart":
                self._part(action["part"])
            case "chat/activityChanged":
                self._sink.activity(action.get("activity"))
            case "chat/usage":
                self._use(action["usage"])
            case "chat/inputRequested":
                request = action["request"]
                self._questions[request["id"]] = self._shown.own(self._ask(request))
            case "chat/inputCompleted":
                if (asking := self._questions.pop(action["requestId"], None)) is not None:
                    asking.cancel()  # it is withdrawn there
            case "chat/toolCallStart":
                self._begin(action)
            case kind if kind.startswith("chat/toolCall") and action["toolCallId"] in self._calls:
                self._of_call(kind, self._calls[action["toolCallId"]], action)

    def end(self) -> None:
        """The turn is over there and goes on here: what it left open is closed."""
        for call in self._calls.values():
            call.shown.failed("Not done", error="The turn ended first.")
        for asking in self._questions.values():
            asking.cancel()
        self._questions.clear()

    def _part(self, part: Json) -> None:
        match part["kind"]:
            case "markdown":
                self._sink.markdown(part["content"])
            case "reasoning":
                self._sink.reasoning(part["content"])
            case "systemNotification":
                content = part["content"]
                self._sink.notice(content if isinstance(content, str) else content.get("markdown", ""))
            case "contentRef":
                self._sink.resource(
                    part["uri"], content_type=part.get("contentType"), size=part.get("sizeHint")
                )

    def _use(self, usage: Json) -> None:
        """Several turns of the work in one of the chat: tokens and costs are added up; the rest is the last one's."""
        used = self.used = {**self._before, **usage}
        for key in _COUNTED:
            if key in self._before and key in usage:
                used[key] = self._before[key] + usage[key]
        before, cost = ((said.get("_meta") or {}).get(COST) for said in (self._before, usage))
        if before and (not cost or cost["currency"] == before["currency"]):
            added = before["amount"] + (cost["amount"] if cost else 0)
            used["_meta"] = {**(usage.get("_meta") or {}), COST: {**before, "amount": round(added, 6)}}
        self._sink.usage(
            input_tokens=used.get("inputTokens"),
            output_tokens=used.get("outputTokens"),
            cache_read_tokens=used.get("cacheReadTokens"),
            model=used.get("model"),
            meta=used.get("_meta"),
        )

    async def _ask(self, request: Json) -> None:
        try:
            answer = await self._sink.ask(
                request["message"], request.get("questions") or (), url=request.get("url")
            )
        except TurnOver:
            return
        if self._questions.pop(request["id"], None) is not None:
            self._work.answered(self._chat, request["id"], answer)

    # ── tool calls ───────────────────────────────────────────────────────────────────────────────────────────
    def _begin(self, action: Json) -> None:
        contributor = action.get("contributor")
        shown = self._sink.tool(
            action["toolName"],
            title=action["displayName"],
            intention=action.get("intention"),
            contributor=contributor,
            meta=action.get("_meta"),
        )
        is_clients = (contributor or {}).get("kind") == "client"
        self._calls[action["toolCallId"]] = _Call(shown, is_clients)

    def _of_call(self, kind: str, call: _Call, action: Json) -> None:
        match kind:
            case "chat/toolCallDelta":
                call.shown.input(action["content"])
            case "chat/toolCallReady":
                self._ready_to_run(call, action)
            case "chat/toolCallContentChanged":
                self._content(call, action["content"])
            case "chat/toolCallComplete":
                self._complete(call, action["result"])

    def _ready_to_run(self, call: _Call, action: Json) -> None:
        confirmed = action.get("confirmed")
        if confirmed is None and "confirmationTitle" in action:
            call.asks, call.asked = True, False
            self._shown.own(self._confirm(call, action))
        elif confirmed is not None and call.asked:
            call.asks = False
            call.shown.waive()
        elif confirmed is not None:
            call.asks = False
            by_setting = confirmed == "setting"
            call.shown.run(
                action["invocationMessage"], tool_input=action.get("toolInput"), by_setting=by_setting
            )
            self._has_client_run(call, action["toolCallId"])

    async def _confirm(self, call: _Call, action: Json) -> None:
        if not call.asks:
            return  # it was let run before anybody could be asked
        call.asked = True
        try:
            answer: Confirmation = await call.shown.confirm(
                action["invocationMessage"],
                title=action["confirmationTitle"],
                tool_input=action.get("toolInput"),
                options=action.get("options") or (),
                edits=(action.get("edits") or {}).get("items") or (),
                editable=action.get("editable") is True,
            )
        except TurnOver:
            return
        self._work.confirmed(self._chat, action["toolCallId"], answer)
        if answer.approved:
            self._has_client_run(call, action["toolCallId"])

    def _has_client_run(self, call: _Call, call_id: str) -> None:
        """A client's tool runs where the client sees it: in the chat that people see."""
        if call.is_clients:
            self._shown.own(self._by_client(call, call_id))

    async def _by_client(self, call: _Call, call_id: str) -> None:
        try:
            result = await call.shown.by_client()
        except TurnOver:
            return
        self._work.client_ran(self._chat, call_id, result)

    def _content(self, call: _Call, content: list[Json]) -> None:
        rest = [block for block in content if block["type"] != "subagent"]
        for block in content:
            if block["type"] == "subagent" and call.worker is None:
                self._spawn(call, block)
        if rest:
            call.shown.content(rest)

    def _spawn(self, call: _Call, block: Json) -> None:
        chat = call.worker = block["resource"]
        stop = partial(self._work.stop_worker, chat) if self._work.can_stop(chat) else None
        worker = self._sink.worker(
            call.shown,
            self._shown.prompts.pop(chat, block["title"]),
            title=block["title"],
            agent_name=block.get("agentName"),
            background=chat in self._shown.background,
            stop=stop,
        )
        self._shown.workers[chat] = worker, Mirror(self._shown, chat, worker.sink)

    def _complete(self, call: _Call, result: Json) -> None:
        content = [block for block in result.get("content") or () if block["type"] != "subagent"]
        if result["success"]:
            call.shown.done(
                result.get("pastTenseMessage") or "Done",
                content=content,
                structured=result.get("structuredContent"),
            )
        else:
            error = (result.get("error") or {}).get("message") or "It failed."
            call.shown.failed(result.get("pastTenseMessage") or "It failed", error=error, content=content)
