"""The sink that backends report a turn to: it writes the actions, so that they cannot be written wrong.

T4, T5, T9, B3; AHP 4.3 to 4.7. A part is opened before it streams and an append goes to the part that is open; a tool
call moves only along the table of AHP 4.5; what would change nothing is not said; after the turn's end nothing changes.
What an agent hands over is copied, and text that no message could carry is mended.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..protocol.meta import STEERING
from .ports import Answer, Confirmation, Json, ToolCall, TurnOver, TurnSink, Worker

Emit: TypeAlias = Callable[[Json], object]


@dataclass(frozen=True, slots=True)
class Spawning:
    """What a turn asks for when it spawns a worker (`TurnSink.worker`)."""

    sink: ChatSink
    """The turn's."""
    call_id: str
    prompt: str
    title: str
    agent_name: str | None
    background: bool
    stop: Callable[[], Awaitable[None]] | None


Spawn: TypeAlias = Callable[[Spawning], Worker]


def _spawns_none(asked: Spawning) -> Worker:
    raise RuntimeError("This sink has nowhere to put a worker's chat.")


STOPPED = {"completed", "cancelled"}
CLIENT_LEFT = "It was not done: the client that has this tool is gone."
WITHHELD = "It was done, and the person does not let you see what came out."


def sendable(value: Any) -> Any:
    """A copy of a JSON value whose strings are UTF-8: half a surrogate pair, as some models stream it, is replaced."""
    if isinstance(value, str):
        return _mended(value)
    if isinstance(value, dict):
        return {sendable(key): sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    return value


def _mended(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class ChatSink(TurnSink):
    """One turn's sink. `emit` takes a chat action, reduces it and sends it; it is not called after `end`.

    `parts` are those that the turn has already, of a resumed one. `steered` gives up the steering message of that id, as
    it was said, once the model has read it; None for one that nobody handed over. `spawn` makes the chat of a worker.
    `ended_at` is told the resume points, the turn being over or not.
    """

    def __init__(
        self,
        turn_id: str,
        emit: Emit,
        *,
        parts: Sequence[Json] = (),
        new_id: Callable[[], str] | None = None,
        steered: Callable[[str], Json | None] = lambda message_id: None,
        spawn: Spawn = _spawns_none,
        ended_at: Callable[[str], object] = lambda point: None,
    ) -> None:
        self.turn_id = turn_id
        self.over = False
        self._emit = emit
        self._steered = steered
        self._spawn = spawn
        self._ended_at = ended_at
        self._new_id = new_id or (lambda: uuid.uuid4().hex[:12])
        self._count = itertools.count(len(parts) + 1)
        self._open: tuple[str, str] | None = None
        self._taken = {part["toolCall"]["toolCallId"] for part in parts if "toolCall" in part}
        self._calls: dict[str, Call] = {}
        self._questions: dict[str, asyncio.Future[Answer]] = {}
        self._activity: str | None = None
        self._usage: Json = {}

    # ── what the backend says ────────────────────────────────────────────────────────────────────────────────
    def markdown(self, text: str) -> None:
        self._stream("markdown", "chat/delta", text)

    def reasoning(self, text: str) -> None:
        self._stream("reasoning", "chat/reasoning", text)

    def notice(self, text: str, *, meta: Json | None = None) -> None:
        part: Json = {"kind": "systemNotification", "content": text}
        self._part(part if meta is None else {**part, "_meta": meta})

    def resume_point(self, point: str) -> None:
        self._ended_at(_mended(point))

    def steering_read(self, message_id: str) -> None:
        if self.over:
            return
        message = self._steered(message_id)
        if message is None:
            return
        # AHP has no part for words of a person within a turn: a notice, in these words, that says whose they are.
        part = {"kind": "systemNotification", "content": message["text"], "_meta": {STEERING: message}}
        self._part(part)
        self._say("chat/pendingMessageRemoved", kind="steering", id=message_id)

    def resource(self, uri: str, *, content_type: str | None = None, size: int | None = None) -> None:
        part: Json = {"kind": "contentRef", "uri": uri}
        if content_type is not None:
            part["contentType"] = content_type
        if size is not None:
            part["sizeHint"] = size
        self._part(part)

    def activity(self, text: str | None) -> None:
        text = text or None
        if text == self._activity or self.over:
            return
        self._activity = text
        self._say("chat/activityChanged", **({"activity": text} if text else {}))

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        model: str | None = None,
        meta: Json | None = None,
    ) -> None:
        reported = {
            "inputTokens": input_tokens,
            "outputTokens": output_tokens,
            "cacheReadTokens": cache_read_tokens,
            "model": model,
            "_meta": meta,
        }
        usage = {key: value for key, value in reported.items() if value is not None}
        if usage and usage != self._usage:
            self._usage = sendable(usage)
            self._turn("chat/usage", usage=usage)

    def tool(
        self,
        name: str,
        *,
        title: str,
        call_id: str | None = None,
        intention: str | None = None,
        contributor: Json | None = None,
        meta: Json | None = None,
    ) -> ToolCall:
        call_id = _mended(call_id) if call_id else None
        if call_id in self._taken:
            raise ValueError(f"This turn has a tool call {call_id!r} already.")
        call = Call(self, call_id or f"call-{self._new_id()}", meta, contributor)
        self._taken.add(call.id)
        self._calls[call.id] = call
        self._open = None
        start: Json = {"toolCallId": call.id, "toolName": name, "displayName": title}
        if intention is not None:
            start["intention"] = intention
        if contributor is not None:
            start["contributor"] = contributor
        if meta is not None:
            start["_meta"] = meta
        self._turn("chat/toolCallStart", **start)
        return call

    def worker(
        self,
        call: ToolCall,
        prompt: str,
        *,
        title: str,
        agent_name: str | None = None,
        background: bool = False,
        stop: Callable[[], Awaitable[None]] | None = None,
    ) -> Worker:
        ours = self._calls.get(call.id)
        if ours is None or ours is not call:
            raise ValueError(f"{call.id!r} is no tool call of this turn.")
        if ours.has_worker:
            raise ValueError(f"The tool call {call.id!r} has a worker already.")
        prompt, title, agent_name = _mended(prompt), _mended(title), sendable(agent_name)
        worker = self._spawn(Spawning(self, call.id, prompt, title, agent_name, background, stop))
        ours.spawned(worker.chat, title, agent_name)
        return worker

    async def ask(self, message: str, questions: Sequence[Json] = (), *, url: str | None = None) -> Answer:
        if self.over:
            raise TurnOver
        request: Json = {"id": f"ask-{self._new_id()}", "message": message}
        if questions:
            request["questions"] = list(questions)
        if url is not None:
            request["url"] = url
        self._open = None
        self._say("chat/inputRequested", request=request)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._questions[request["id"]] = future
        try:
            return await future
        except asyncio.CancelledError:
            # The agent does not wait any more: the question is withdrawn, so that nobody answers it in vain.
            if self._questions.pop(request["id"], None) is not None:
                self._say("chat/inputCompleted", requestId=request["id"], response="cancel")
            raise

    # ── what people answer: the chat calls these after it said the action ────────────────────────────────────
    def answered(self, request_id: str, answer: Answer) -> None:
        future = self._questions.pop(request_id, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def confirmed(self, call_id: str, confirmation: Confirmation) -> None:
        call = self._calls.get(call_id)
        if call is not None:
            call.confirmed(confirmation)

    def client_ran(self, call_id: str, result: Json, *, review: bool) -> None:
        """The client whose tool it is said how it went. `review`: a person looks at that first."""
        call = self._calls.get(call_id)
        if call is not None:
            call.client_ran(result, review=review)

    def reviewed(self, call_id: str, approved: bool) -> None:
        call = self._calls.get(call_id)
        if call is not None:
            call.reviewed(approved)

    def client_failed(self, call_id: str, words: str) -> None:
        """What its client said of the call cannot be taken."""
        call = self._calls.get(call_id)
        if call is not None:
            call.client_failed(words)

    def client_lost(self, client_id: str) -> None:
        """A client left: what it runs, or would run, failed (AHP 5.9)."""
        for call in tuple(self._calls.values()):
            if call.client == client_id:
                call.client_failed(CLIENT_LEFT)

    def end(self) -> None:
        """The turn is over: nothing said from now on is heard, and whoever waits for a person stops waiting (T5)."""
        if self.over:
            return
        if self._activity is not None:
            self.activity(None)
        for call in self._calls.values():
            call.keep_worker()
        self.over = True
        for call in self._calls.values():
            call.end()
        for future in self._questions.values():
            if not future.done():
                future.set_exception(TurnOver())
                future.exception()  # the backend may have stopped waiting
        self._questions.clear()

    # ── actions ──────────────────────────────────────────────────────────────────────────────────────────────
    def _stream(self, kind: str, action: str, text: str) -> None:
        if not text or self.over:
            return
        if self._open is None or self._open[0] != kind:
            part_id = f"p{next(self._count)}"
            while part_id in self._taken:  # an append looks for the first part of that id (AHP 4.6 rule 7)
                part_id = f"p{next(self._count)}"
            self._part({"kind": kind, "id": part_id, "content": ""})
            self._open = (kind, part_id)
        self._emit(
            {"type": action, "turnId": self.turn_id, "partId": self._open[1], "content": _mended(text)}
        )

    def _part(self, part: Json) -> None:
        self._open = None
        self._turn("chat/responsePart", part=part)

    def _turn(self, action: str, /, **fields: Any) -> None:
        self._say(action, turnId=self.turn_id, **fields)

    def _say(self, action: str, /, **fields: Any) -> None:
        if not self.over:
            self._emit({"type": action, **sendable(fields)})

    def call_says(self, call: Call, action: str, /, **fields: Any) -> None:
        self._turn(action, toolCallId=call.id, **fields)


class Call(ToolCall):
    """A tool call. `state` follows AHP 4.5; a method that does not fit it changes nothing."""

    def __init__(
        self, sink: ChatSink, call_id: str, meta: Json | None = None, contributor: Json | None = None
    ) -> None:
        self.id = call_id
        self._sink = sink
        self._meta = meta or {}
        self._worker: Json | None = None
        """The content that shows its worker (AHP 4.3, W5): there from the spawn to the end."""
        self._state = "streaming"
        self._doing = ""
        """What it is said to do."""
        self._waiting: asyncio.Future[Confirmation] | None = None
        self.client = contributor.get("clientId") if contributor is not None else None
        """The client whose tool it is."""
        self._result: Json | None = None
        """What that client said of it (AHP 4.5)."""
        self._running: asyncio.Future[Json] | None = None
        self._stops: list[Callable[[], object]] = []

    @property
    def over(self) -> bool:
        return self._sink.over or self._state in STOPPED

    def on_stop(self, stop: Callable[[], object]) -> None:
        if not self.over:
            self._stops.append(stop)
        elif self._sink.over:
            stop()

    def input(self, delta: str) -> None:
        if delta and self._state == "streaming":
            self._say("chat/toolCallDelta", content=delta)

    def run(self, message: str, *, tool_input: str | None = None, by_setting: bool = False) -> None:
        if self._state == "streaming":
            self._ready(message, tool_input, confirmed="setting" if by_setting else "not-needed")
            self._state = "running"

    async def confirm(
        self,
        message: str,
        *,
        title: str,
        tool_input: str | None = None,
        options: Sequence[Json] = (),
        edits: Sequence[Json] = (),
        editable: bool = False,
    ) -> Confirmation:
        if self.over:
            raise TurnOver
        if self._waiting is not None:
            raise RuntimeError(f"Tool call {self.id!r} is asking already.")
        asked: Json = {"confirmationTitle": title}
        if options:
            asked["options"] = list(options)
        if edits:
            asked["edits"] = {"items": list(edits)}
        if editable:
            asked["editable"] = True
        self._ready(message, tool_input, **asked)
        self._state = "pending"
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def confirmed(self, confirmation: Confirmation) -> None:
        if self._state != "pending":
            return
        self._state = "running" if confirmation.approved else "cancelled"
        self._show_worker()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(confirmation)

    def waive(self) -> None:
        if self._state != "pending":
            return
        self._ready(self._doing, None, confirmed="setting")
        self._state = "running"
        self._show_worker()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Confirmation(approved=True))

    async def by_client(self) -> Json:
        if self._result is not None and self._state in STOPPED:
            return self._result
        if self.over:
            raise TurnOver
        self._running = asyncio.get_running_loop().create_future()
        return await self._running

    def client_ran(self, result: Json, *, review: bool) -> None:
        if self._state == "running":
            self._result = result
            self._state = "reviewing" if review else "completed"
            self._deliver()

    def reviewed(self, approved: bool) -> None:
        if self._state == "reviewing":
            self._state = "completed" if approved else "cancelled"
            if not approved:
                self._result = {"success": False, "error": {"message": WITHHELD}}
            self._deliver()

    def client_failed(self, words: str) -> None:
        if self._state not in ("running", "pending"):
            return
        waiting, self._waiting = self._waiting, None
        self._result = {"success": False, "error": {"message": words}}
        self.failed("Not done", error=words)
        if waiting is not None and not waiting.done():
            waiting.set_result(Confirmation(approved=False, reason=words))
        self._deliver()

    def _deliver(self) -> None:
        """Whoever waits for the client has its result, once people let it pass."""
        if self._running is not None and not self._running.done() and self._state in STOPPED:
            assert self._result is not None
            self._running.set_result(self._result)

    def content(self, blocks: Sequence[Json]) -> None:
        if self._state == "running":
            self._say("chat/toolCallContentChanged", content=self._with_worker(blocks))

    @property
    def has_worker(self) -> bool:
        return self._worker is not None

    def spawned(self, chat: str, title: str, agent_name: str | None) -> None:
        """It runs in that chat: shown by its content, and in `_meta` as VS Code's windows look for it (W5)."""
        self._worker = {"type": "subagent", "resource": chat, "title": title}
        meta = {"toolKind": "subagent", "subagentChatUri": chat, "subagentDescription": title}
        if agent_name is not None:
            self._worker["agentName"] = agent_name
            meta["subagentAgentName"] = agent_name
        self._meta = {**self._meta, **meta}
        if self._state == "streaming":
            self.run(title)
        self._show_worker()

    def _show_worker(self) -> None:
        if self._worker is not None and self._state == "running":
            self._say("chat/toolCallContentChanged", content=[self._worker], _meta=self._meta)

    def keep_worker(self) -> None:
        """The turn is about to end, and would take what an open call shows with it: one with a worker is ended first."""
        if self._worker is not None and self._state not in STOPPED:
            self.failed(f"Stopped: {self._worker['title']}", error="It was stopped.")

    def _with_worker(self, blocks: Sequence[Json]) -> list[Json]:
        return list(blocks) if self._worker is None else [self._worker, *blocks]

    def done(self, message: str, *, content: Sequence[Json] = (), structured: Json | None = None) -> None:
        result: Json = {"success": True, "pastTenseMessage": message}
        if structured is not None:
            result["structuredContent"] = structured
        self._complete(result, message, content)

    def failed(self, message: str, *, error: str, content: Sequence[Json] = ()) -> None:
        self._complete(
            {"success": False, "pastTenseMessage": message, "error": {"message": error}}, message, content
        )

    def end(self) -> None:
        if self._state not in STOPPED:
            self._state, self._result = "cancelled", None
            for stop in self._stops:
                stop()
        self._release()

    def _release(self) -> None:
        """Whoever waits for a person, or for a client, stops waiting: the call is over."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(TurnOver())
            self._waiting.exception()  # the backend may have stopped waiting
        if self._running is not None and not self._running.done() and self._result is None:
            self._running.set_exception(TurnOver())
            self._running.exception()

    def _complete(self, result: Json, message: str, content: Sequence[Json]) -> None:
        if self._state == "streaming":  # a call that was never said to run has to, to end
            if self.client is None:
                self.run(message)
            else:  # or its client would run it
                self._ready(message, None)
                self._state = "pending"
        if self._state not in ("running", "pending"):
            return
        if content or self._worker is not None:
            result["content"] = self._with_worker(content)
        self._say("chat/toolCallComplete", result=result)
        self._state = "completed"
        self._release()

    def _ready(self, message: str, tool_input: str | None, **fields: Any) -> None:
        self._doing = message
        if tool_input is not None:
            fields["toolInput"] = tool_input
        self._say("chat/toolCallReady", invocationMessage=message, **fields)

    def _say(self, kind: str, **fields: Any) -> None:
        self._sink.call_says(self, kind, **fields)
