"""What a message carries beside its text: from Python objects to AHP attachments (4.2)."""

from __future__ import annotations

import mimetypes
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Text for the model to read, under a name: `Text("the log", log)`."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes under a name: `Data("plot.png", png)`. Of which type they are says the name, unless `content_type` does."""

    label: str
    data: bytes = field(repr=False)
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Pointer:
    """Another chat of the same host: what it is called, and its URI."""

    label: str
    uri: str


Attachable: TypeAlias = Any
"""The path of a file or directory, the address of a page, the URI of a chat; `Text`, `Data`; or any Python object, of which
`jupyter_ahp.client.objects` makes one of these."""


def path_of(item: str | os.PathLike[str]) -> Path:
    """The absolute path that is meant."""
    return Path(item).expanduser().absolute()


def attachment(item: str | os.PathLike[str] | Text | Pointer) -> Json:
    """The AHP attachment. Raises `FileNotFoundError` for a path with nothing there."""
    if isinstance(item, Text):
        return {"type": "simple", "label": item.label, "modelRepresentation": item.text}
    if isinstance(item, Pointer):
        return {"type": "chat", "label": item.label, "resource": item.uri}
    if isinstance(item, str) and item.startswith("ahp-chat:"):
        return {"type": "chat", "label": "Chat", "resource": item}
    if isinstance(item, str) and item.startswith(("https://", "http://")):
        return {"type": "simple", "label": item, "modelRepresentation": f"A page that is meant: {item}"}
    path = path_of(item)
    if not path.exists():
        raise FileNotFoundError(
            f"Nothing to attach at {path}. (To attach text rather than a file: Text(label, text).)"
        )
    found: Json = {"type": "resource", "uri": path.as_uri(), "label": path.name or str(path)}
    if path.is_dir():
        return {**found, "displayKind": "directory"}
    content_type = mimetypes.guess_type(path.name)[0]
    if content_type is not None:
        found["contentType"] = content_type
    return {**found, "sizeHint": path.stat().st_size, "displayKind": _kind(content_type)}


def described(item: Data) -> Json:
    """What an attachment says of it, but not what it is: in the message, or elsewhere."""
    content_type = item.content_type or mimetypes.guess_type(item.label)[0] or "application/octet-stream"
    return {"label": item.label, "contentType": content_type, "displayKind": _kind(content_type)}


def _kind(content_type: str | None) -> str:
    return "image" if (content_type or "").startswith("image/") else "document"
