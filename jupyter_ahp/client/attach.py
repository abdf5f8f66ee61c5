"""What a message carries beside its text: from Python objects to AHP attachments (4.2)."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterable
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


Attachable: TypeAlias = str | os.PathLike[str] | Text | Data
"""The path of a file or directory, `Text`, or `Data`."""


def items_of(attach: Attachable | Iterable[Attachable]) -> list[Attachable]:
    """One, or several."""
    return [attach] if isinstance(attach, str | os.PathLike | Text | Data) else list(attach)


def path_of(item: str | os.PathLike[str]) -> Path:
    """The absolute path that is meant."""
    return Path(item).expanduser().absolute()


def attachment(item: str | os.PathLike[str] | Text) -> Json:
    """The AHP attachment. Raises `FileNotFoundError` for a path with nothing there, `TypeError` for what cannot be sent."""
    if isinstance(item, Text):
        return {"type": "simple", "label": item.label, "modelRepresentation": item.text}
    if not isinstance(item, str | os.PathLike):
        raise TypeError(
            f"A value of type {type(item).__name__} cannot be attached: give the path of a file, Text(label, text), "
            "or Data(label, bytes)."
        )
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
