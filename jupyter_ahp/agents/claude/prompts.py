"""A message as the CLI takes it: what came with it before it, so that the person's own words stand last.

The CLI looks for a slash command in the last block alone, and takes what stands before it along (B3, A1).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from jupyter_ahp.agents.base import Block, ImageBlock, Json, PathBlock, Prompt, Steering, TextBlock

GO_ON: Final = "[Your last answer broke off here. Go on with it from where it ended, and do not say again what you have said.]"


UNKNOWN: Final = "[What was said before in this chat, for you to know and not to answer:]"
_LONGEST = 16_000  # characters of it


def of_turn(prompt: Prompt) -> list[Json]:
    """A turn's message, with what the host has to say on it ahead of everything."""
    preface = prompt.prefaces.get(prompt.turn_id)
    return [*([_text(preface)] if preface else []), *_content(prompt.text, prompt.blocks)]


def of_history(history: Sequence[Json]) -> list[Json]:
    """What was said in earlier turns, the end of it, for a model that does not know them."""
    told: list[str] = []
    for turn in history:
        answer = "".join(part["content"] for part in turn["responseParts"] if part["kind"] == "markdown")
        told += [f"Person: {turn['message']['text']}", *([f"You: {answer}"] if answer else [])]
    text = "\n\n".join(told)
    return [_text(f"{UNKNOWN}\n\n{text[-_LONGEST:]}")]


def of_resumed() -> list[Json]:
    """A turn that broke off is gone on with; the CLI has its message."""
    return [_text(GO_ON)]


def of_steering(message: Steering) -> list[Json]:
    return _content(message.text, message.blocks)


def _content(text: str, blocks: Sequence[Block]) -> list[Json]:
    content: list[Json] = []
    for block in blocks:
        content += _shown(block)
    if text.strip() or not content:
        content.append(_text(text or " "))
    return content


def _shown(block: Block) -> list[Json]:
    match block:
        case TextBlock(label, text):
            fence = "`" * max(3, _longest_fence(text) + 1)
            return [_text(f"Attached, {label}:\n{fence}\n{text}\n{fence}")]
        case ImageBlock(label, media_type, data):
            source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
            return [_text(f"Attached, the image {label}:"), {"type": "image", "source": source}]
        case PathBlock(label, path):
            return [_text(f"Attached, {label}: {path}" if label != path else f"Attached: {path}")]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _longest_fence(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
