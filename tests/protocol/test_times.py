"""Timestamps that reducers compute with (AHP 4.6 rule 1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ahp.protocol.times import parse_ms, to_iso


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T00:00:00.0019Z", 1),
        ("1970-01-01T02:30:00.5+02:30", 500),
        ("1969-12-31T19:00:00-05:00", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2024-02-29T00:00:00Z", 1709164800000),
        ("2026-02-29T00:00:00Z", None),
        ("2026-03-01T24:00:00Z", None),
        ("2026-03-01T10:00:60Z", None),
        ("2026-03-01T10:00:00", None),
        ("2026-03-01", None),
        ("2026-03-01 10:00:00Z", None),
        ("20260301T100000Z", None),
        ("2026-03-01T10:00:00.Z", None),
        ("2026-03-01T10:00:00+99:00", None),
        ("0001-01-01T00:00:00+12:00", -62135640000000),
        ("٢٠٢٦-03-01T10:00:00Z", None),
        ("", None),
        (None, None),
        (1772359200000, None),
    ],
)
def test_parse(text: object, ms: int | None) -> None:
    assert parse_ms(text) == ms


@given(st.integers(-62135596800000, 253402300799999))
def test_written_and_read_again(ms: int) -> None:
    assert parse_ms(to_iso(ms)) == ms


@pytest.mark.parametrize("ms", [10**15, -(10**15), 10**400, float("inf"), float("nan")])
def test_outside_the_years_that_there_are(ms: float) -> None:
    assert to_iso(ms) is None
