"""Files as pages. Everything here blocks: call it in a thread."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from .pages import (
    Fetch,
    page_of_html,
    page_of_image,
    page_of_markdown,
    page_of_table,
    page_of_text,
)

LARGEST: Final = 10 * 1024 * 1024
"""Bytes of a file, at most: as a page it is a third larger."""
ROWS: Final = 1000
"""Of a table, at most."""
COLUMNS: Final = 100
_PICTURE: Final = 2 * 1024 * 1024  # bytes of a picture in a Markdown file, at most
_TEXT: Final = 1024 * 1024  # bytes of a text, at most

_IMAGES: Final = (
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF8"),
    ("image/webp", b"RIFF"),
    ("image/bmp", b"BM"),
)


class Unshown(Exception):
    """What cannot be shown, in words."""


def find(asked: str, directories: Sequence[str]) -> Path:
    """The file of that name: below one of the directories, links resolved. Raises `Unshown`."""
    if not directories:
        raise Unshown("This chat works in no directory of this machine, so it has no files to show.")
    if "\0" in asked:
        raise Unshown("A path cannot hold a NUL character.")
    tops = [Path(os.path.realpath(directory)) for directory in directories]
    inside = [
        path
        for top in tops
        if any(
            (path := Path(os.path.realpath(top / os.path.expanduser(asked)))).is_relative_to(one)
            for one in tops
        )
    ]
    if not inside:  # whether there is such a file is nobody's business
        raise Unshown(f"{asked} is outside of the directories that this chat works in.")
    for path in inside:
        if path.is_file():
            return path
    if any(path.exists() for path in inside):
        raise Unshown(f"{asked} is not a file.")
    raise Unshown(f"There is no file {asked} in {', '.join(map(str, tops))}.")


def page_of_file(path: Path, directories: Sequence[str]) -> str:
    """Raises `Unshown`."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise Unshown(f"{path.name} is too large to show: {size:,} bytes, of {LARGEST:,} at most.")
        data = path.read_bytes()
    except OSError as error:
        raise Unshown(f"{path.name} cannot be read: {error.strerror}.") from error
    return _page(path, data, directories)


def _page(path: Path, data: bytes, directories: Sequence[str]) -> str:
    suffix = path.suffix.lower()
    kind = image_type(data, suffix)
    if kind is not None:
        return page_of_image(kind, data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        if b"\0" in data or suffix not in (".csv", ".tsv", ".txt"):
            raise Unshown(f"{path.name} is neither a picture nor text, so it cannot be shown.") from None
    if suffix in (".html", ".htm", ".xhtml"):
        return page_of_html(text)
    if suffix in (".md", ".markdown"):
        return page_of_markdown(text, _pictures_beside(path, directories))
    if suffix in (".csv", ".tsv"):
        return _table(text, suffix)
    if len(data) > _TEXT:
        text = f"{text[:_TEXT]}\n[Cut here: {len(text) - _TEXT:,} characters more.]"
    return page_of_text(text)


def image_type(data: bytes, suffix: str) -> str | None:
    """The media type of a picture, by its content; None for anything else."""
    for kind, magic in _IMAGES:
        if data.startswith(magic) and (kind != "image/webp" or data[8:12] == b"WEBP"):
            return kind
    if suffix == ".svg" and b"<svg" in data[:4096]:
        return "image/svg+xml"
    return None


def _pictures_beside(path: Path, directories: Sequence[str]) -> Fetch:
    def fetch(address: str) -> tuple[str, bytes] | None:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or not parts.path:
            return None
        try:
            found = find(str(path.parent / unquote(parts.path)), directories)
            data = found.read_bytes() if found.stat().st_size <= _PICTURE else b""
        except (Unshown, OSError, ValueError):
            return None
        kind = image_type(data, found.suffix.lower())
        return (kind, data) if kind is not None else None

    return fetch


def _table(text: str, suffix: str) -> str:
    delimiter = "\t" if suffix == ".tsv" else ","
    if suffix == ".csv":
        with suppress(csv.Error):  # one column, or too little to tell: a comma does
            delimiter = csv.Sniffer().sniff(text[:8192], delimiters=",;\t|").delimiter
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    try:
        header = next(reader, [])
        rows = [row[:COLUMNS] for row in islice(reader, ROWS)]
        more = sum(1 for _ in reader)
    except csv.Error as error:
        raise Unshown(f"This is no table: {error}.") from error
    notes = [f"{len(rows):,} of {len(rows) + more:,} rows"] if more else []
    if len(header) > COLUMNS:
        notes.append(f"{COLUMNS} of {len(header):,} columns")
    return page_of_table(header[:COLUMNS], rows, ", ".join(notes))
