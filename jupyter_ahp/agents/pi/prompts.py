"""What pi is sent: a message with what the host has to say ahead of it (B3) and what came attached (A1)."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from jupyter_ahp.agents.base import Block, ImageBlock, Json, PathBlock, TextBlock

GO_ON = "Go on where your answer was cut off. Do not begin again."


def prompt_of(text: str, blocks: Sequence[Block], preface: str | None = None) -> tuple[str, list[Json]]:
    """The words, and the images. A `/name` stays at the beginning, where pi looks for it."""
    around = [preface] if preface else []
    images: list[Json] = []
    for block in blocks:
        match block:
            case TextBlock(label, content):
                longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
                fence = "`" * max(3, longest + 1)
                around.append(f"Attached, {label}:\n{fence}\n{content}\n{fence}")
            case PathBlock(label, path):
                around.append(f"Attached by its path, {label}: {path}")
            case ImageBlock(label, media_type, data):
                around.append(f"Attached, the image {label}.")
                images.append(
                    {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": media_type}
                )
    words = [text, *around] if text.startswith("/") else [*around, text]
    return "\n\n".join(word for word in words if word), images
