"""Chats on their way from one session to another, in the record of the one they go to. U12.

A crash on the way leaves a chat in one session, and in one only: that record lists the chat before the other one is written
down without it, and says so. What the other one still has, then, never arrived.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from .ports import Json, SessionRecord

_COMING: Final = "coming"
"""In a session record's `meta`: which of its chats were on their way when it was written."""


def with_coming(meta: Json, summaries: Sequence[Json]) -> Json:
    """A record's `meta` while these chats are on their way."""
    return {**meta, _COMING: [summary["resource"] for summary in summaries]} if summaries else meta


def is_coming(record: SessionRecord) -> bool:
    """Whether some of its chats were on their way."""
    return _COMING in record.meta


def without_coming(record: SessionRecord, elsewhere: Container[str]) -> bool:
    """Have in the record what arrived, `elsewhere` being the chats that others have; whether something did not."""
    coming = record.meta.get(_COMING, ())
    lost = {chat for chat in coming if chat in elsewhere}
    record.chats = [chat for chat in record.chats if chat["resource"] not in lost]
    record.meta = {key: value for key, value in record.meta.items() if key != _COMING}
    return bool(lost)


def arrived(records: Iterable[object]) -> set[str]:
    """The chats that sessions have for sure."""
    found: set[str] = set()
    for record in records:
        if isinstance(record, SessionRecord):
            coming = record.meta.get(_COMING, ())
            found |= {chat.get("resource", "") for chat in record.chats if isinstance(chat, dict)} - {*coming}
    return found
