"""Upstream's round-trip cases: we keep raw JSON, so every message survives decoding and encoding as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_ahp.protocol import jsonrpc

from .corpus import WHY_SKIPPED, conformance_files

CASES = conformance_files("round-trips")


@pytest.mark.skipif(not CASES, reason=WHY_SKIPPED)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_round_trip(path: Path) -> None:
    """Key presence matters here: null is not absent. Where decoders with types drop keys, ours must not."""
    case = json.loads(path.read_text(encoding="utf-8"))
    (canonical,) = case["acceptableOutputs"]
    wanted = case.get("preservedOutput", canonical)
    assert through_a_frame(case["input"]) == wanted


def through_a_frame(value: Any) -> Any:
    """`value` as the payload of a message, or as the message where it is one, sent and received."""
    if isinstance(value, dict) and value.get("jsonrpc") == "2.0":
        message = jsonrpc.decode(jsonrpc.encode(value).decode())
        if isinstance(message, jsonrpc.Request):
            return msgspec.json.decode(jsonrpc.request(message.id, message.method, message.params))
        if isinstance(message, jsonrpc.Notification):
            return msgspec.json.decode(jsonrpc.notification(message.method, message.params))
        assert message.id is not None
        if message.error is not None:
            return msgspec.json.decode(jsonrpc.error(message.id, message.error))
        return msgspec.json.decode(jsonrpc.result(message.id, message.result))
    message = jsonrpc.decode(jsonrpc.notification("x", {"value": value}).decode())
    assert isinstance(message, jsonrpc.Notification)
    return message.params["value"]
