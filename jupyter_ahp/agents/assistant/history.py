"""What the model is told: the chat's turns and the new message as an alternation of two speakers.

Built anew from the chat for each turn, so a rewind, a fork or another model needs nothing more. Knows AHP's turns, but
no model library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from jupyter_ahp.agents.assistant.models import Endpoint
from jupyter_ahp.agents.base import (
    Block,
    ImageBlock,
    Json,
    PathBlock,
    Prompt,
    TextBlock,
    blocks_of,
    steering_of,
)

GO_ON: Final = (
    "Your answer above was cut off before its end. Go on exactly where it stopped, with nothing before it: "
    "do not begin again, and do not repeat what is there."
)
STOPPED: Final = "[The answer was stopped here.]"


@dataclass(frozen=True, slots=True)
class Said:
    """What one side said."""

    role: Literal["user", "assistant"]
    text: str
    images: tuple[ImageBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One answer to be had of a model."""

    endpoint: Endpoint
    base_url: str
    key: str | None
    instructions: str
    said: Sequence[Said]
    """The last one is the user's."""
    max_tokens: int | None = None


def conversation(prompt: Prompt, *, vision: bool) -> list[Said]:
    """Everything for one request: earlier turns, this turn's message, what it has so far. The last one is the user's.

    What the host has to say on an earlier turn stands ahead of that turn's message (B3); on this turn, it is
    `instructions`' matter. The speakers alternate, beginning with the user; empty messages are left out.
    """
    said: list[Said] = []
    for turn in prompt.history:
        message = turn.get("message") or {}
        said.append(Said("user", prompt.prefaces.get(turn["id"], "")))
        said.append(user_said(message.get("text", ""), blocks_of(message), vision=vision))
        answer = _answer(turn.get("responseParts") or [], vision=vision)
        if turn.get("state") == "cancelled" and answer and answer[-1].role == "assistant":
            answer[-1] = Said("assistant", f"{answer[-1].text}\n\n{STOPPED}")
        said += answer
    said.append(user_said(prompt.text, prompt.blocks, vision=vision))
    so_far = _answer(prompt.so_far, vision=vision)
    said += so_far
    if so_far and so_far[-1].role == "assistant":
        said.append(Said("user", GO_ON))
    return _merged(said)


def instructions(standing: str, prompt: Prompt) -> str:
    """The system prompt: what always stands there, and what the host has to say on this turn (B3)."""
    preface = prompt.prefaces.get(prompt.turn_id)
    return f"{standing}\n\n{preface}" if preface else standing


def _answer(parts: Sequence[Json], *, vision: bool) -> list[Said]:
    """What was said in a turn behind its message: the answer, and at its place what a person steered it with (B15).

    A part that went on after an error follows without a break.
    """
    said: list[Said] = []
    text = ""
    went_on = False
    for part in parts:
        if part.get("kind") == "markdown":
            text += part.get("content", "") if went_on or not text else f"\n\n{part.get('content', '')}"
        elif message := steering_of(part):
            said += [Said("assistant", text.strip())]
            said += [user_said(message.get("text", ""), blocks_of(message), vision=vision)]
            text = ""
        went_on = part.get("kind") == "error"
    said.append(Said("assistant", text.strip()))
    return [one for one in said if one.text or one.images]


def user_said(text: str, blocks: Sequence[Block], *, vision: bool) -> Said:
    """A message with what came with it before it, so that the words of the person stand last."""
    pieces: list[str] = []
    images: list[ImageBlock] = []
    for block in blocks:
        match block:
            case TextBlock(label, content):
                fence = "`" * max(3, _longest_fence(content) + 1)
                pieces.append(f"Attached, {label}:\n{fence}\n{content}\n{fence}")
            case ImageBlock(label) if vision:
                pieces.append(f"Attached, the image {label}.")
                images.append(block)
            case ImageBlock(label):
                pieces.append(f"Attached, the image {label}, which you cannot see.")
            case PathBlock(label, path):
                named = label if label == path else f"{label}, at {path}"
                pieces.append(f"Attached, not shown to you: {named}")
    return Said("user", "\n\n".join([*pieces, text] if text else pieces), tuple(images))


def _longest_fence(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def _merged(said: Sequence[Said]) -> list[Said]:
    merged: list[Said] = []
    for one in said:
        if not one.text and not one.images:
            continue
        if merged and merged[-1].role == one.role:
            last = merged.pop()
            one = Said(one.role, f"{last.text}\n\n{one.text}", last.images + one.images)
        merged.append(one)
    return merged


# ── A small context ──────────────────────────────────────────────────────────────────────────────────────────────────
def fit(said: Sequence[Said], tokens: int) -> list[Said]:
    """The newest part of a conversation that fits; begins with the user. Empty when not even the last message does."""
    kept: list[Said] = []
    room = tokens
    for one in reversed(said):
        room -= estimated_tokens(one.text)
        if room < 0:
            break
        kept.append(one)
    kept.reverse()
    while kept and kept[0].role != "user":
        kept.pop(0)
    return kept


def estimated_tokens(text: str) -> int:
    """Tokens of a text for a small English vocabulary, rather too many than too few."""
    plain = sum(1 for character in text if character.isascii())
    return plain // 3 + 2 * (len(text) - plain) + 8
