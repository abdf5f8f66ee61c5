"""Records as JSON documents: encoding, reading back, and what a document from another version means.

Each document has a `version`. One that is newer than `VERSION`, or that is damaged, is refused with words and never
written over. Keys that this version does not know are carried over when a document is replaced.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jupyter_ahp.host.ports import ChatRecord, Json, SessionRecord, StoreError

VERSION = 1
"""The format of the store's documents and of the journals beside them."""

Record = TypeVar("Record", SessionRecord, ChatRecord)


class Damaged(Exception):
    """A document is there and cannot be used. The message says why: the end of a sentence, for people."""

    def __init__(self, reason: str, document: Json | None = None) -> None:
        super().__init__(reason)
        self.document = document
        """What it says all the same, if that much can be read."""


def encode(value: Any, what: str) -> bytes:
    """`value` as JSON, one line. Raises StoreError, naming it as `what`, if it is not JSON."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(f"{what} could not be saved: it is not JSON ({error}).") from error


def turn_id(turn: Json) -> str:
    """The id of a turn. Raises StoreError if it has none: it could never be found again."""
    value = turn.get("id")
    if not isinstance(value, str):
        raise StoreError(
            f"A turn could not be saved: it has no id (its keys: {', '.join(sorted(turn)) or 'none'})."
        )
    return value


def parse(data: bytes) -> Json:
    """A document of ours as plain JSON. Raises Damaged."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Damaged(f"it is damaged: {error}") from error
    if not isinstance(document, dict):
        raise Damaged("it is damaged: it is not an object")
    version = document.get("version")
    if not isinstance(version, int):
        raise Damaged("it is damaged: it does not say its version", document)
    if version > VERSION:
        raise Damaged(
            f"a newer jupyter-ahp wrote it (format {version}; this one knows {VERSION}): update jupyter-ahp",
            document,
        )
    return document


def to_record(document: Json, kind: type[Record]) -> Record:
    """Raises Damaged if a key is missing or of a wrong type."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise Damaged(f"it is damaged: {error}", document) from error


def read(path: Path) -> Json | None:
    """The document at `path`, None if there is none. Raises Damaged, OSError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return parse(data)


def replacement(record: bytes, kind: type[SessionRecord | ChatRecord], old: Json | None) -> bytes:
    """The encoded record as a document to be written where `old` is now, with what only `old` knows."""
    known = {field.name for field in fields(kind)} | {"version"}
    unknown = {key: value for key, value in (old or {}).items() if key not in known}
    return msgspec.json.encode({"version": VERSION, **msgspec.json.decode(record), **unknown})
