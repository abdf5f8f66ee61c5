"""The host's clock: wall time for what is written down, a monotonic one for what is measured."""

from __future__ import annotations

import time

from ..protocol.times import to_iso


def now() -> str:
    """ISO 8601 with milliseconds, UTC."""
    stamp = to_iso(time.time() * 1000)
    assert stamp is not None, "the present is a year that ISO can write"
    return stamp


def wall_ms() -> int:
    return round(time.time() * 1000)


def monotonic_ms() -> float:
    return time.monotonic() * 1000
