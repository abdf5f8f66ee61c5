"""A1: what a message's attachments become for the model, decided once for every backend.

jpeg, png, gif and webp of at most 5 MiB are images; text of at most 64 KiB is inlined; everything else is named.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from .ports import Block, ImageBlock, Json, PathBlock, TextBlock

IMAGE_LIMIT = 5 * 1024 * 1024
TEXT_LIMIT = 64 * 1024

_MAGIC = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"), (b"GIF8", "image/gif"))


def blocks_of(message: Json) -> list[Block]:
    """The message's attachments, in order, as a backend is handed them. An unknown kind is named, never an error."""
    return [_block(attachment) for attachment in message.get("attachments") or ()]


def _block(attachment: Json) -> Block:
    label = str(attachment.get("label") or "attachment")
    kind = attachment.get("type")
    if kind == "simple":
        return TextBlock(label, str(attachment.get("modelRepresentation") or label))
    if kind == "embeddedResource":
        return _embedded(label, attachment)
    return PathBlock(label, _path(str(attachment.get("uri") or attachment.get("resource") or label)))


def _embedded(label: str, attachment: Json) -> Block:
    try:
        data = base64.b64decode(str(attachment.get("data", "")), validate=True)
    except (binascii.Error, ValueError):
        return PathBlock(label, label)
    media_type = image_type(data)
    if media_type is not None and len(data) <= IMAGE_LIMIT:
        return ImageBlock(label, media_type, data)
    if media_type is None and len(data) <= TEXT_LIMIT:
        try:
            return TextBlock(label, data.decode())
        except UnicodeDecodeError:
            pass  # not text: named below
    return PathBlock(label, label)


def image_type(data: bytes) -> str | None:
    """The media type of an image that models take, by content; None for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _MAGIC if data.startswith(magic)), None)


def _path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    return (
        url2pathname(parts.path)
        if parts.netloc in ("", "localhost")
        else f"//{parts.netloc}{unquote(parts.path)}"
    )
