"""What a message carries beside its text: from Python objects to AHP attachments (4.2)."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Text for the model to read, under a name: `Text("the log", log)`."""

    label: str
    text: str


Attachable: TypeAlias = str | os.PathLike[str] | Text
"""The path of a file or directory, or `Text`."""


def attachments(attach: Attachable | Iterable[Attachable]) -> list[Json]:
    """AHP attachments. Raises `FileNotFoundError` for a path with nothing there, `TypeError` for what cannot be sent."""
    if isinstance(attach, str | os.PathLike | Text):
        attach = [attach]
    return [_attachment(item) for item in attach]


def _attachment(item: Attachable) -> Json:
    if isinstance(item, Text):
        return {"type": "simple", "label": item.label, "modelRepresentation": item.text}
    if not isinstance(item, str | os.PathLike):
        raise TypeError(
            f"A value of type {type(item).__name__} cannot be attached: give the path of a file, or Text(label, text)."
        )
    path = Path(item).expanduser().absolute()
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
    kind = "image" if (content_type or "").startswith("image/") else "document"
    return {**found, "sizeHint": path.stat().st_size, "displayKind": kind}
