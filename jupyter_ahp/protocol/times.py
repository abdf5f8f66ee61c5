"""Timestamps of the wire, without a clock: reducers compute with them and never ask what time it is (AHP 4.6 rule 1)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def parse_ms(text: object) -> int | None:
    """Milliseconds since the epoch of an ISO 8601 timestamp with `Z` or an offset; None if it is none.

    Stricter than `datetime.fromisoformat` and than JavaScript's `Date`, so that both languages read the same.
    """
    match = _ISO.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = match.groups()
    offset = timedelta(hours=int(off_hours or 0), minutes=int(off_minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=zone)
        whole = (moment - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):  # the 30th of February, an offset of a day
        return None
    return whole + int((fraction or "")[:3].ljust(3, "0"))


def to_iso(ms: float) -> str | None:
    """The timestamp as AHP writes it, `2026-03-01T10:00:00.000Z`; None outside the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=int(ms))
    except (OverflowError, ValueError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
