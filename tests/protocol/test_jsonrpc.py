"""Frames (AHP 1.1, 1.3)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ahp.protocol import jsonrpc
from jupyter_ahp.protocol.errors import FrameError, ProtocolError

from .corpus import load

CASES = load("jsonrpc.json")["cases"]


def frame_of(case: dict[str, Any]) -> str | bytes:
    if "bytes" in case:
        return base64.b64decode(case["bytes"])
    frame: str = case["frame"]
    if repeat := case.get("repeat"):
        long = repeat["text"] * repeat["times"] + repeat.get("close", "") * repeat["times"]
        frame = frame.replace("%", long)
    return frame


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.get("frame", "bytes")[:70])
def test_frame(case: dict[str, Any]) -> None:
    frame = frame_of(case)
    if "error" in case:
        with pytest.raises(FrameError) as raised:
            jsonrpc.decode(frame)
        assert (raised.value.code, raised.value.request_id) == (case["error"]["code"], case["error"]["id"])
        assert raised.value.message
        return
    message = jsonrpc.decode(frame)
    if isinstance(message, jsonrpc.Request):
        want = case["request"]
        assert message == jsonrpc.Request(want["id"], want["method"], want["params"])
        assert type(message.id) is type(want["id"])
    elif isinstance(message, jsonrpc.Notification):
        want = case["notification"]
        assert message == jsonrpc.Notification(want["method"], want["params"])
    else:
        want = case["response"]
        assert message.id == want["id"]
        assert message.result == want.get("result")
        assert (message.error.to_wire() if message.error else None) == want.get("error")


def test_half_an_emoji_becomes_a_replacement_character() -> None:
    frame = r'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"x\ud83dy","b":"\ude00","c":"\ud83d\ude00"}}'
    message = jsonrpc.decode(frame)
    assert isinstance(message, jsonrpc.Request)
    assert message.params == {"a": "x\ufffdy", "b": "\ufffd", "c": "😀"}
    assert jsonrpc.encode(message.params)


@pytest.mark.parametrize(
    "frame",
    [
        '{"jsonrpc":"2.0","method":"m","params":{"a":"\ud800"}}',
        '{"a":"\\ud800',
        '{"a":"\\ud800","n":NaN}',
        '{"a":1e999}',
        '{"jsonrpc":"2.0","id":1,"result":' + "[" * 500 + "]" * 500 + "}",
    ],
    ids=["surrogate", "cut", "NaN", "infinite", "deep answer"],
)
def test_hostile_frames(frame: str) -> None:
    with pytest.raises(FrameError):
        jsonrpc.decode(frame)


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
_messages = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "extra"]),
    st.just("2.0") | st.just({"code": -1, "message": "x"}) | _json,
)


@given(st.text() | st.binary() | (_json | _messages).map(json.dumps))
def test_any_frame_is_a_message_or_a_frame_error(frame: str | bytes) -> None:
    try:
        outcome: object = jsonrpc.decode(frame)
    except FrameError as error:
        outcome = error.code
    kinds = (jsonrpc.Request, jsonrpc.Notification, jsonrpc.Response)
    assert isinstance(outcome, kinds) or outcome in (-32700, -32600, -32602)


def test_encoded_messages_decode_again() -> None:
    params = {"channel": "ahp-root://", "text": "é😀"}
    failure = ProtocolError(-32005, "no", {"supportedVersions": ["^1.0.0"]})
    assert jsonrpc.decode(jsonrpc.request("a", "ping", params).decode()) == jsonrpc.Request(
        "a", "ping", params
    )
    assert jsonrpc.decode(jsonrpc.notification("x", params).decode()) == jsonrpc.Notification("x", params)
    assert jsonrpc.decode(jsonrpc.result(3, None).decode()) == jsonrpc.Response(3)
    answer = jsonrpc.decode(jsonrpc.error(None, failure).decode())
    assert isinstance(answer, jsonrpc.Response)
    assert answer.error is not None
    assert answer.error.to_wire() == failure.to_wire()
