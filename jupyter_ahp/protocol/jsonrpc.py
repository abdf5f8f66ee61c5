"""JSON-RPC 2.0 as AHP frames it (1.1): one message a text frame, no batches, params always an object.

`decode` is liberal in ids (numbers and strings, echoed as they came) and in keys that it does not know, and strict in
all else; whatever a frame holds, it raises `FrameError` and nothing else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from .errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, FrameError, ProtocolError

Id: TypeAlias = int | float | str
Json: TypeAlias = dict[str, Any]

MAX_DEPTH: Final = 128
"""How deep a message may nest: far more than AHP needs, far less than an encoder or a reducer could not take."""

_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Request:
    id: Id
    method: str
    params: Json


@dataclass(frozen=True, slots=True)
class Notification:
    method: str
    params: Json


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: `result`, or `error` if it is not None. `id` is None for an error of a frame that had none."""

    id: Id | None
    result: Any = None
    error: ProtocolError | None = None


Message: TypeAlias = Request | Notification | Response


# ── in ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def decode(frame: str | bytes) -> Message:
    """The message in a text frame (`str`).

    Raises `FrameError`: -32700 for what is not JSON, -32600 for what is not a JSON-RPC message (a binary frame and a
    batch included), -32602 for params that are no object. Its `request_id` is the id to answer under, if there is one.
    """
    if not isinstance(frame, str):
        raise FrameError(INVALID_REQUEST, "A message is a text frame, not a binary one.")
    message = _parse(frame)
    if not isinstance(message, dict):
        kind = "a batch" if isinstance(message, list) else "no object"
        raise FrameError(INVALID_REQUEST, f"A frame is one JSON-RPC message; this one is {kind}.")
    if "method" not in message and ("result" in message or "error" in message):
        return _response(message, frame)
    return _call(message, frame)


def _parse(frame: str) -> Any:
    try:
        return msgspec.json.decode(frame)
    except RecursionError:
        raise FrameError(PARSE_ERROR, "The frame nests too deep.") from None
    except UnicodeEncodeError:
        raise FrameError(PARSE_ERROR, "The frame is not UTF-8.") from None
    except msgspec.MsgspecError as error:
        if not _LONE_SURROGATE.search(frame):
            raise FrameError(PARSE_ERROR, f"The frame is not JSON: {error}") from None
    # Half an emoji, as JavaScript escapes it: no string of UTF-8 holds it, so it becomes a replacement character.
    try:
        text = json.dumps(json.loads(frame), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise FrameError(PARSE_ERROR, f"The frame is not JSON: {error}") from None


def _call(message: Json, frame: str) -> Request | Notification:
    has_id, request_id = "id" in message, message.get("id")
    answer_to = request_id if _is_id(request_id) else None
    method, params = message.get("method"), message.get("params")
    if message.get("jsonrpc") != "2.0":
        raise FrameError(INVALID_REQUEST, 'A message says "jsonrpc": "2.0".', answer_to)
    if not isinstance(method, str) or not method:
        raise FrameError(INVALID_REQUEST, "A message has a method, a result or an error.", answer_to)
    if has_id and answer_to is None:
        raise FrameError(INVALID_REQUEST, "A request's id is a number or a string.")
    if not (params is None or isinstance(params, dict)):
        raise FrameError(INVALID_PARAMS, f"The params of {method} must be an object.", answer_to)
    if _too_deep(message, frame):
        raise FrameError(INVALID_REQUEST, f"A message nests at most {MAX_DEPTH} deep.", answer_to)
    return (
        Notification(method, params or {}) if answer_to is None else Request(answer_to, method, params or {})
    )


def _response(message: Json, frame: str) -> Response:
    # A malformed answer is never answered under its id: that id is a request of ours, not of theirs.
    request_id, error = message.get("id"), message.get("error")
    well_formed = message.get("jsonrpc") == "2.0" and "id" in message
    if not well_formed or not (_is_id(request_id) or (request_id is None and "error" in message)):
        raise FrameError(INVALID_REQUEST, "An answer has the id of its request.")
    if _too_deep(message, frame):
        raise FrameError(INVALID_REQUEST, f"A message nests at most {MAX_DEPTH} deep.")
    if error is None and "result" in message:
        return Response(request_id, message["result"])
    error = error if isinstance(error, dict) else {}
    code, text = error.get("code"), error.get("message")
    if "result" in message or not isinstance(code, int) or not isinstance(text, str):
        raise FrameError(INVALID_REQUEST, "An answer has either a result or an error with code and message.")
    return Response(request_id, error=ProtocolError(code, text, error.get("data")))


def _is_id(value: object) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _too_deep(message: Json, frame: str) -> bool:
    """Whether it nests deeper than `MAX_DEPTH`. A frame with few brackets is settled by counting them."""
    if frame.count("{") + frame.count("[") <= MAX_DEPTH:
        return False
    level: list[Any] = [message]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


# ── out ──────────────────────────────────────────────────────────────────────────────────────────────────────────
encode = msgspec.json.Encoder().encode
"""Any JSON value as UTF-8: what goes into a text frame."""


def request(request_id: Id, method: str, params: Json) -> bytes:
    """A request, encoded."""
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def notification(method: str, params: Json) -> bytes:
    """A notification, encoded."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def result(request_id: Id, value: Any) -> bytes:
    """The answer to a request, encoded; a method without a result answers None."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": value})


def error(request_id: Id | None, failure: ProtocolError) -> bytes:
    """The error answer to a request, encoded."""
    return encode({"jsonrpc": "2.0", "id": request_id, "error": failure.to_wire()})
