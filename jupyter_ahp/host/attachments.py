"""A1, A6: what a message's attachments become for the model, decided once for every backend, by what they contain.

jpeg, png, gif and webp of at most 5 MiB are images; text of at most 64 KiB is inlined; everything else is named. A file
is looked into only where the host itself wrote it, which it marks (`BECAME`): one that somebody works in is named by its
path, and left for the model to read.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from typing import Final, Literal, TypeAlias

from .paths import path_of
from .ports import Block, ImageBlock, Json, PathBlock, TextBlock

IMAGE_LIMIT: Final = 5 * 1024 * 1024
TEXT_LIMIT: Final = 64 * 1024

SNAPSHOT: Final = "vscode.agentHost.snapshotAttachment"
"""In an attachment's `_meta`: the file is the message's own, a copy that the host wrote."""
BECAME: Final = "jupyter-ahp.became"
"""In an attachment's `_meta`: which of the three the copy is for the model. The host's to say: a client's is taken out."""

Became: TypeAlias = Literal["image", "text", "path"]

_MAGIC = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def blocks_of(message: Json) -> list[Block]:
    """The message's attachments, in order, as a backend is handed them. An unknown kind is named, never an error.

    Reads files: not to be called on the event loop.
    """
    return [_block(attachment) for attachment in message.get("attachments") or ()]


def _block(attachment: Json) -> Block:
    label = str(attachment.get("label") or "attachment")
    kind = attachment.get("type")
    if kind == "simple":
        return TextBlock(label, str(attachment.get("modelRepresentation") or label))
    if kind == "embeddedResource":
        return _with(label, label, inline(attachment))
    named = str(attachment.get("uri") or attachment.get("resource") or label)
    path = path_of(named)
    if path is None:
        return PathBlock(label, named)
    is_ours = kind == "resource" and (attachment.get("_meta") or {}).get(BECAME) in ("image", "text")
    return _with(label, path, content(path) if is_ours else None)


def _with(label: str, path: str, data: bytes | None) -> Block:
    if data is not None:
        media_type = image_type(data)
        if media_type is not None and len(data) <= IMAGE_LIMIT:
            return ImageBlock(label, media_type, data)
        text = text_of(data)
        if text is not None:
            return TextBlock(label, text)
    return PathBlock(label, path)


def became(data: bytes) -> Became:
    """Which of the three a file with this content is."""
    if image_type(data) is not None:
        return "image" if len(data) <= IMAGE_LIMIT else "path"
    return "path" if text_of(data) is None else "text"


def image_type(data: bytes) -> str | None:
    """The media type of an image that models take, by content; None for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _MAGIC if data.startswith(magic)), None)


def text_of(data: bytes) -> str | None:
    """The text that this is, if it is one, and of a size to be inlined."""
    if len(data) > TEXT_LIMIT or b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def inline(attachment: Json) -> bytes | None:
    """The bytes of an embedded resource; None if they are not base64."""
    try:
        return base64.b64decode(str(attachment.get("data", "")), validate=True)
    except (binascii.Error, ValueError):
        return None


def content(path: str) -> bytes | None:
    """What is in a file; None if there is no file, it cannot be read, or it is larger than anything that is carried."""
    try:
        descriptor = os.open(path, _OPEN)
    except (OSError, ValueError):  # ValueError: a path that no system has, such as one with a NUL
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > IMAGE_LIMIT:
            return None
        try:
            return file.read(IMAGE_LIMIT + 1)
        except OSError:
            return None
