"""The HTTP server of the mock model: an event loop on a thread of its own, so that any test can use it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from tests.mock_model.script import Step, behind_calls, default_answer, parse, pieces

Json: TypeAlias = dict[str, Any]

SECRET_HEADERS = ("authorization", "x-api-key", "cookie")


@dataclass(slots=True)
class Request:
    """One request as it came, for assertions: the best witness of what the model was told."""

    method: str
    path: str
    headers: dict[str, str]
    """Lower-case names; secrets are shown as `***`."""
    body: Json
    authorized: bool
    aborted: bool = False
    """The client went away before the answer was finished."""
    finished: bool = False
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None

    @property
    def texts(self) -> list[tuple[str, str]]:
        """(role, text) of each message, the system prompt first; an image is `[image/png]`."""
        found: list[tuple[str, str]] = []
        if "system" in self.body:
            found.append(("system", text_of(self.body["system"])))
        found.extend(
            (message["role"], text_of(message.get("content"))) for message in self.body.get("messages", [])
        )
        return found


def text_of(content: object) -> str:
    """The text of a message's content, in OpenAI's or Anthropic's form."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    return "\n\n".join(_text_of_part(part) for part in content)


def _text_of_part(part: Json) -> str:
    match part["type"]:
        case "text":
            return str(part["text"])
        case "image_url":
            url: str = part["image_url"]["url"]
            return "[" + url.removeprefix("data:").split(";")[0] + "]"
        case "image":
            return f"[{part['source']['media_type']}]"
        case "tool_result":
            return text_of(part.get("content"))
        case kind:
            return f"[{kind}]"


def last_words(messages: list[Json]) -> tuple[str, int]:
    """What the person said last, and how many tools the model called since."""
    calls = 0
    for message in reversed(messages):
        content = message.get("content")
        if message["role"] == "assistant":
            blocks = content if isinstance(content, list) else []
            calls += len(message.get("tool_calls") or [])
            calls += sum(block["type"] == "tool_use" for block in blocks)
        elif message["role"] == "user":
            if isinstance(content, list):  # Anthropic's results of tools are the user's
                content = [block for block in content if block["type"] != "tool_result"]
            if content:
                return text_of(content), calls
    return "", calls


class MockModel:
    """A mock model server. `key`: the only API key that it takes (None: any, or none)."""

    model = "mock-model"

    def __init__(self, *, port: int = 0, key: str | None = None) -> None:
        self._port = port
        self._key = key
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="mock-model", daemon=True)
        self._changed = threading.Condition()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._counts: Counter[str] = Counter()
        self._calls = itertools.count(1)
        self.answers: dict[str, str] = {}
        """What is answered to a message without steps, word for word."""
        self.refuses = ""
        """A piece of text: messages that have it are answered with 400. "": none are."""
        self.largest = 0
        """Characters of the messages that a request may have; more are too long for the model. 0: any."""
        self.requests: list[Request] = []
        """Posts to a model, oldest first."""

    # ── Life ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def start(self) -> MockModel:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def __enter__(self) -> MockModel:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def root_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """For an OpenAI-compatible client; Anthropic's takes `root_url`."""
        return f"{self.root_url}/v1"

    def wait(self, condition: Callable[[MockModel], bool], seconds: float = 5) -> None:
        """Wait until the requests are as told; AssertionError when they are not in time."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), seconds), (
                f"not in {seconds} s: {self.requests}"
            )

    async def until(self, condition: Callable[[MockModel], bool], seconds: float = 5) -> None:
        """`wait`, for a test in an event loop."""
        await asyncio.to_thread(self.wait, condition, seconds)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # ── A connection: one request each ───────────────────────────────────────────────────────────────────────────
    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # close(): the streams' protocol would log a cancelled handler
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(method, path, headers, json.loads(body or b"{}"), self._is_authorized(headers))
        for name in SECRET_HEADERS:
            if name in headers:
                headers[name] = "***"
        reply = Reply(writer)
        if method == "GET":
            await self._get(path, reply)
            return
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        answer = asyncio.ensure_future(self._post(request, reply))
        gone = asyncio.ensure_future(reader.read())
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            request.aborted = not answer.done()
            request.finished = answer.done()
            if answer.done():
                answer.result()
        except ConnectionError:
            request.aborted = True
        finally:
            for task in (answer, gone):
                task.cancel()
            await asyncio.gather(answer, gone, return_exceptions=True)
            request.ended = time.monotonic()
            with self._changed:
                self._changed.notify_all()

    def _is_authorized(self, headers: dict[str, str]) -> bool:
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        return self._key is None or given == self._key

    async def _get(self, path: str, reply: Reply) -> None:
        if path == "/v1/models":
            await reply.json(200, {"object": "list", "data": [{"id": self.model, "object": "model"}]})
        elif path == "/api/tags":
            await reply.json(200, {"models": [{"name": "mock:1b", "details": {"families": ["llama"]}}]})
        else:
            await reply.json(404, {"error": {"message": f"nothing at {path}"}})

    async def _post(self, request: Request, reply: Reply) -> None:
        if not request.authorized:
            await reply.json(
                401,
                {
                    "error": {
                        "message": "Incorrect API key provided.",
                        "code": "invalid_api_key",
                        "type": "auth",
                    }
                },
            )
            return
        dialect: Dialect
        match request.path:
            case "/v1/chat/completions":
                dialect = OpenAI(request.body, self.model)
            case "/v1/messages" | "/v1/messages?beta=true":
                dialect = Anthropic(request.body, self.model)
            case path:
                await reply.json(404, {"error": {"message": f"nothing at {path}"}})
                return
        if request.body.get("model") == "no-such-model":
            await reply.json(
                404,
                {
                    "error": {
                        "message": "The model does not exist",
                        "code": "model_not_found",
                        "type": "not_found",
                    }
                },
            )
            return
        messages = request.body["messages"]
        last, calls = last_words(messages)
        if self.largest and sum(len(text_of(each.get("content"))) for each in messages) > self.largest:
            await reply.json(400, dialect.overflow())
            return
        if self.refuses and self.refuses in last:
            await reply.json(400, {"error": {"message": "Not this.", "type": "invalid_request_error"}})
            return
        said = self.answers.get(last) or default_answer(last, len(messages))
        steps = behind_calls(parse(last), calls) or [Step("text", said)]
        await self._play(steps, dialect, reply, messages, request.body)

    async def _play(
        self, steps: list[Step], dialect: Dialect, reply: Reply, messages: list[Json], body: Json
    ) -> None:
        """Do the steps. Text is held back while no chunk was sent, so that a status can still be answered."""
        conversation = json.dumps(messages)
        offered, offered_effort = bool(body.get("tools")), "reasoning_effort" in body
        reason = "stop"
        usage = not any(step.word == "no-usage" for step in steps)
        for index, step in enumerate(steps):
            match step.word:
                case "text" | "think":
                    for piece in pieces(step.rest):
                        await dialect.chunk(reply, piece, thinking=step.word == "think")
                case "chunks":
                    for number in range(int(step.number(0, 10))):
                        await dialect.chunk(reply, f"c{number} ", thinking=False)
                        await asyncio.sleep(step.number(1, 0))
                case "tool" | "and":
                    name, _, arguments = step.rest.partition(" ")
                    await dialect.tool(reply, name, arguments or "{}", f"call-{next(self._calls)}")
                    if step.word == "tool":
                        await dialect.end(reply, "tool", usage=usage)
                        return
                case "no-tools":
                    if offered:
                        message = f"{self.model} does not support tools"
                        await reply.json(
                            400, {"error": {"message": message, "type": "invalid_request_error"}}
                        )
                        return
                case "no-effort":
                    if offered_effort:
                        message = "Unrecognized request argument supplied: reasoning_effort"
                        await reply.json(
                            400, {"error": {"message": message, "type": "invalid_request_error"}}
                        )
                        return
                case "cost":
                    dialect.cost = step.number(0, 0.0)
                case "delay":
                    await asyncio.sleep(step.number(0, 0.1))
                case "status":
                    if self._still(f"{conversation} {index}", step.number(1, 0)):
                        assert not reply.streaming, "a status stands before any text"
                        code = int(step.number(0, 500))
                        wait = step.number(2, -1)
                        extra = {"retry-after": f"{wait:g}"} if wait >= 0 else {}
                        message = f"The mock model was told to answer {code}."
                        await reply.json(
                            code, {"type": "error", "error": {"message": message, "type": "mock"}}, extra
                        )
                        return
                case "overflow":
                    if len(messages) > step.number(0, 0):
                        await reply.json(400, dialect.overflow())
                        return
                case "quota":
                    message = "You exceeded your current quota."
                    await reply.json(
                        429, {"error": {"message": message, "code": "insufficient_quota", "type": "q"}}
                    )
                    return
                case "drop":
                    if self._still(f"{conversation} {index}", step.number(0, 0)):
                        await reply.cut()
                        return
                case "end":
                    await reply.finish()
                    return
                case "hang":
                    await dialect.begin(reply)
                    await asyncio.Event().wait()
                case "sse-error":
                    await dialect.error(reply, step.rest or "The mock model failed.")
                    return
                case "garbage":
                    await dialect.begin(reply)
                    await reply.sse("{this is not JSON", None)
                case "html":
                    await reply.whole(
                        200, b"<html><body>Please sign in to the network</body></html>", "text/html"
                    )
                    return
                case "length":
                    reason = "length"
        await dialect.end(reply, reason, usage=usage)

    def _still(self, key: str, times: float) -> bool:
        """Whether a step that is done `times` times (0: always) is done once more."""
        self._counts[key] += 1
        return times == 0 or self._counts[key] <= times


class Reply:
    """Writes one HTTP answer, whole or as server-sent events in chunks."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.streaming = False

    async def whole(
        self, status: int, body: bytes, content_type: str, extra: dict[str, str] | None = None
    ) -> None:
        lines = [f"HTTP/1.1 {status} Mock", f"content-type: {content_type}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (extra or {}).items()]
        self._writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
        await self._writer.drain()

    async def json(self, status: int, body: Json, extra: dict[str, str] | None = None) -> None:
        await self.whole(status, json.dumps(body).encode(), "application/json", extra)

    async def sse(self, data: str, event: str | None) -> None:
        if not self.streaming:
            self.streaming = True
            lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
            self._writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode())
        payload = (f"event: {event}\n" if event else "") + f"data: {data}\n\n"
        encoded = payload.encode()
        self._writer.write(f"{len(encoded):x}\r\n".encode() + encoded + b"\r\n")
        await self._writer.drain()

    async def finish(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def cut(self) -> None:
        """What was written arrives, then the socket is closed in the middle of the answer."""
        await self._writer.drain()
        self._writer.close()


class Dialect(Protocol):
    """How a provider's API says the same things."""

    cost: float
    """What the request is said to cost; 0: nothing is said of it."""

    async def begin(self, reply: Reply) -> None: ...
    async def chunk(self, reply: Reply, text: str, *, thinking: bool) -> None: ...
    async def tool(self, reply: Reply, name: str, arguments: str, call_id: str) -> None: ...
    async def end(self, reply: Reply, reason: str, *, usage: bool) -> None: ...
    async def error(self, reply: Reply, message: str) -> None: ...
    def overflow(self) -> Json: ...


class OpenAI:
    """POST /v1/chat/completions, streamed or whole."""

    def __init__(self, body: Json, model: str) -> None:
        self.cost = 0.0
        self._stream = bool(body.get("stream"))
        self._wants_usage = not self._stream or bool(body.get("stream_options", {}).get("include_usage"))
        self._model = model
        self._said: Json = {"content": "", "reasoning_content": ""}
        self._sent = 0
        self._prompt = sum(len(text_of(message.get("content")).split()) for message in body["messages"])

    async def begin(self, reply: Reply) -> None:
        if self._stream and not reply.streaming:
            await self._choice(reply, {"role": "assistant", "content": ""})

    async def _choice(self, reply: Reply, delta: Json, reason: str | None = None) -> None:
        await self._send(reply, {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    async def _send(self, reply: Reply, fields: Json) -> None:
        common = {"id": "mock", "object": "chat.completion.chunk", "created": 1, "model": self._model}
        await reply.sse(json.dumps({**common, **fields}), None)

    async def chunk(self, reply: Reply, text: str, *, thinking: bool) -> None:
        name = "reasoning_content" if thinking else "content"
        self._said[name] += text
        self._sent += 1
        await self.begin(reply)
        if self._stream:
            await self._choice(reply, {name: text})

    async def tool(self, reply: Reply, name: str, arguments: str, call_id: str) -> None:
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        calls = self._said.setdefault("tool_calls", [])
        index = len(calls)
        calls.append(call)
        await self.begin(reply)
        if self._stream:
            begun = {**call, "index": index, "function": {"name": name, "arguments": ""}}
            await self._choice(reply, {"tool_calls": [begun]})
            for piece in pieces(arguments):
                delta = {"index": index, "function": {"arguments": piece}}
                await self._choice(reply, {"tool_calls": [delta]})

    async def end(self, reply: Reply, reason: str, *, usage: bool) -> None:
        reason = "tool_calls" if reason == "tool" else reason
        tokens: Json = {
            "prompt_tokens": self._prompt,
            "completion_tokens": self._sent,
            "total_tokens": self._prompt + self._sent,
            "prompt_tokens_details": {"cached_tokens": 3},
        }
        if self.cost:
            tokens["cost"] = self.cost
        if not self._stream:
            message = {"role": "assistant", **self._said}
            choice = {"index": 0, "message": message, "finish_reason": reason}
            body = {
                "id": "mock",
                "object": "chat.completion",
                "created": 1,
                "model": self._model,
                "choices": [choice],
            }
            await reply.json(200, {**body, "usage": tokens} if usage else body)
            return
        await self.begin(reply)
        await self._choice(reply, {}, reason)
        if usage and self._wants_usage:
            await self._send(reply, {"choices": [], "usage": tokens})
        await reply.sse("[DONE]", None)
        await reply.finish()

    async def error(self, reply: Reply, message: str) -> None:
        await self.begin(reply)
        await reply.sse(
            json.dumps({"error": {"message": message, "type": "server_error", "code": None}}), None
        )
        await reply.finish()

    def overflow(self) -> Json:
        message = "This model's maximum context length is 8192 tokens."
        return {
            "error": {"message": message, "code": "context_length_exceeded", "type": "invalid_request_error"}
        }


class Anthropic:
    """POST /v1/messages, streamed or whole."""

    def __init__(self, body: Json, model: str) -> None:
        self.cost = 0.0
        self._stream = bool(body.get("stream"))
        self._said: list[Json] = []
        self._model = model
        self._blocks = itertools.count()
        self._open: tuple[int, bool] | None = None
        self._sent = 0
        self._prompt = sum(len(text_of(message["content"]).split()) for message in body["messages"])

    async def _send(self, reply: Reply, kind: str, fields: Json) -> None:
        await reply.sse(json.dumps({"type": kind, **fields}), kind)

    async def begin(self, reply: Reply) -> None:
        if self._stream and not reply.streaming:
            await self._send(reply, "message_start", {"message": self._message(0)})
            await self._send(reply, "ping", {})

    def _message(self, output_tokens: int) -> Json:
        return {
            "id": f"msg_{uuid.uuid4().hex}",  # clients take messages of one id for one message
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self._prompt, "output_tokens": output_tokens},
        }

    async def chunk(self, reply: Reply, text: str, *, thinking: bool) -> None:
        if not self._stream:
            self._sent += 1
            self._said.append(
                {"type": "thinking", "thinking": text, "signature": "bW9jaw=="}
                if thinking
                else {"type": "text", "text": text}
            )
            return
        await self.begin(reply)
        if self._open is None or self._open[1] != thinking:
            await self._close_block(reply)
            self._open = (next(self._blocks), thinking)
            block = (
                {"type": "thinking", "thinking": "", "signature": ""}
                if thinking
                else {"type": "text", "text": ""}
            )
            await self._send(reply, "content_block_start", {"index": self._open[0], "content_block": block})
        self._sent += 1
        delta = (
            {"type": "thinking_delta", "thinking": text} if thinking else {"type": "text_delta", "text": text}
        )
        await self._send(reply, "content_block_delta", {"index": self._open[0], "delta": delta})

    async def tool(self, reply: Reply, name: str, arguments: str, call_id: str) -> None:
        if not self._stream:
            self._said.append(
                {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}
            )
            return
        await self.begin(reply)
        await self._close_block(reply)
        self._open = (next(self._blocks), False)
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        await self._send(reply, "content_block_start", {"index": self._open[0], "content_block": block})
        for piece in pieces(arguments):
            delta = {"type": "input_json_delta", "partial_json": piece}
            await self._send(reply, "content_block_delta", {"index": self._open[0], "delta": delta})

    async def _close_block(self, reply: Reply) -> None:
        if self._open is None:
            return
        index, thinking = self._open
        if thinking:
            signature = {"type": "signature_delta", "signature": "bW9jaw=="}
            await self._send(reply, "content_block_delta", {"index": index, "delta": signature})
        await self._send(reply, "content_block_stop", {"index": index})
        self._open = None

    async def end(self, reply: Reply, reason: str, *, usage: bool) -> None:
        reasons = {"length": "max_tokens", "tool": "tool_use"}
        stop = {"stop_reason": reasons.get(reason, "end_turn"), "stop_sequence": None}
        if not self._stream:
            await reply.json(200, {**self._message(self._sent), "content": self._said, **stop})
            return
        await self.begin(reply)
        await self._close_block(reply)
        await self._send(reply, "message_delta", {"delta": stop, "usage": {"output_tokens": self._sent}})
        await self._send(reply, "message_stop", {})
        await reply.finish()

    async def error(self, reply: Reply, message: str) -> None:
        await self.begin(reply)
        await self._send(reply, "error", {"error": {"type": "overloaded_error", "message": message}})
        await reply.finish()

    def overflow(self) -> Json:
        message = "prompt is too long: 210000 tokens > 200000 maximum"
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
