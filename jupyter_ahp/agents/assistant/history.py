"""What the model is told: the chat's turns and the new message as an alternation of two speakers.

Built anew from the chat for each turn, so a rewind, a fork or another model needs nothing more. Knows AHP's turns, but
no model library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from jupyter_ahp.agents.assistant.files import Files, Note, Shown
from jupyter_ahp.agents.assistant.models import Endpoint
from jupyter_ahp.agents.assistant.sizes import estimated_tokens
from jupyter_ahp.agents.assistant.tally import Tally
from jupyter_ahp.agents.assistant.used import Room, Used, used
from jupyter_ahp.agents.base import (
    ImageBlock,
    Json,
    Prompt,
    TextBlock,
    Tool,
    TurnFailed,
    blocks_of,
    steering_of,
)
from jupyter_ahp.protocol.meta import SUMMARY

GO_ON: Final = (
    "Your answer above was cut off before its end. Go on exactly where it stopped, with nothing before it: "
    "do not begin again, and do not repeat what is there."
)
STOPPED: Final = "[The answer was stopped here.]"
SUMMARISED: Final = "What was said before this is left out. This is a summary of it, which you wrote:"
LEFT_OUT: Final = "it no longer sees the beginning of this chat."


Effort: TypeAlias = Literal["minimal", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Said:
    """What one side said."""

    role: Literal["user", "assistant"]
    text: str
    images: tuple[ImageBlock, ...] = ()
    calls: tuple[Used, ...] = ()
    """The tools that it called then, with what they said; it went on when it knew that."""

    @property
    def is_empty(self) -> bool:
        return not (self.text or self.images or self.calls)

    @property
    def tokens(self) -> int:
        """About how many of a model's tokens it takes, without its images."""
        texts = [self.text, *(f"{call.name} {call.arguments} {call.result}" for call in self.calls)]
        return sum(map(estimated_tokens, texts))


@dataclass(frozen=True, slots=True)
class Call:
    """One answer to be had of a model."""

    endpoint: Endpoint
    base_url: str
    key: str | None
    instructions: str
    said: Sequence[Said]
    """The last one is the user's, or has calls, whose results are the model's to go on from."""
    own: int = 1
    """How many of them, at the end, are this turn's: those are never left out."""
    earlier: Sequence[Earlier] = ()
    """What the others were made from, turn by turn."""
    summary: Said | None = None
    """Of what was said before them."""
    told: bool = False
    """The person knows that the beginning of this chat is left out."""
    max_tokens: int | None = None
    files: Files = field(default_factory=Files)
    """Reads what a person attaches while it answers."""
    tools: Sequence[Tool] = ()
    instructions_alone: str = ""
    """The instructions for a model that takes no tools, where some would be offered."""
    effort: Effort | None = None
    """How much the model is to think; None: as it does by itself."""
    tally: Tally | None = None
    """Where its usage is added up; None: in one of its own."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was said in an ended turn."""

    turn_id: str
    said: Sequence[Said]


@dataclass(frozen=True, slots=True)
class Told:
    """Everything for one request."""

    summary: Said | None
    """Of what was said before the others."""
    earlier: Sequence[Earlier]
    own: Sequence[Said]
    """This turn's message, and what it has so far."""

    @property
    def said(self) -> list[Said]:
        """The speakers alternate, beginning and ending with the user, or with calls; empty messages are left out."""
        return merged([*(one for turn in self.earlier for one in turn.said), *self.own])


def conversation(prompt: Prompt, files: Files, *, vision: bool) -> Told:
    """Earlier turns, this turn's message, what it has so far.

    What the host has to say on an earlier turn stands ahead of that turn's message (B3); on this turn, it is
    `instructions`' matter. Turns of which there is a summary are told by that. The files that were attached are read now,
    whatever they were then: this turn's first, then those of earlier turns, back from the newest, while there is room.
    Raises `TurnFailed` when there is nothing in this turn's message.
    """
    own = [user_said(prompt.text, files.shown(prompt.blocks), vision=vision)]
    own += _answer(prompt.so_far, files, vision=vision)
    if own[-1].role == "assistant" and not own[-1].calls:
        own.append(Said("user", GO_ON))
    own = merged(own)
    if not own:
        raise TurnFailed("empty", "There is nothing in this message. Write something.")
    summary, history = _summarised(prompt)
    room = Room()
    earlier = [
        Earlier(turn["id"], _of_turn(turn, prompt, files, room, vision=vision)) for turn in reversed(history)
    ]
    earlier.reverse()
    return Told(summary, earlier, own)


def summary_said(text: str) -> Said:
    """A summary, as the model is told it."""
    return Said("user", f"[{SUMMARISED}]\n\n{text}")


def _summarised(prompt: Prompt) -> tuple[Said | None, Sequence[Json]]:
    """The newest summary, and the turns that it does not have. One whose turns are not there is none."""
    for parts in (prompt.so_far, *(turn.get("responseParts") for turn in reversed(prompt.history))):
        for part in reversed(parts or ()):
            summary = (
                (part.get("_meta") or {}).get(SUMMARY) if part.get("kind") == "systemNotification" else None
            )
            if not isinstance(summary, dict):
                continue
            through = summary.get("through")
            for at, turn in enumerate(prompt.history):
                if turn["id"] == through:
                    return summary_said(str(summary.get("text", ""))), prompt.history[at + 1 :]
    return None, prompt.history


def _of_turn(turn: Json, prompt: Prompt, files: Files, room: Room, *, vision: bool) -> list[Said]:
    """What both sides said in an earlier turn."""
    message = turn.get("message") or {}
    shown = files.shown(blocks_of(message), earlier=True)
    asked = user_said(message.get("text", ""), shown, vision=vision)
    answer = _answer(turn.get("responseParts") or [], files, vision=vision, room=room)
    if turn.get("state") == "cancelled" and answer and answer[-1].role == "assistant":
        if answer[-1].calls:
            answer.append(Said("assistant", STOPPED))
        else:
            answer[-1] = Said("assistant", f"{answer[-1].text}\n\n{STOPPED}")
    return [Said("user", prompt.prefaces.get(turn["id"], "")), asked, *answer]


def instructions(standing: str, prompt: Prompt) -> str:
    """The system prompt: what always stands there, and what the host has to say on this turn (B3)."""
    preface = prompt.prefaces.get(prompt.turn_id)
    return f"{standing}\n\n{preface}" if preface else standing


def _answer(parts: Sequence[Json], files: Files, *, vision: bool, room: Room | None = None) -> list[Said]:
    """What was said in a turn behind its message: the answer with the tools that were called, and at its place what a
    person steered it with (B15). `room`: for the calls of an earlier turn.

    A part that went on after an error follows without a break.
    """
    said: list[Said] = []
    text = ""
    calls: list[Used] = []
    went_on = False

    def spoken() -> None:
        nonlocal text, calls
        said.append(Said("assistant", text.strip(), calls=tuple(calls)))
        text, calls = "", []

    for part in parts:
        if part.get("kind") == "markdown":
            if calls:
                spoken()
            text += part.get("content", "") if went_on or not text else f"\n\n{part.get('content', '')}"
        elif part.get("kind") == "toolCall":
            if (call := used(part["toolCall"], room)) is not None:
                calls.append(call)
        elif message := steering_of(part):
            spoken()
            shown = files.shown(blocks_of(message), earlier=room is not None)
            said += [user_said(message.get("text", ""), shown, vision=vision)]
        went_on = part.get("kind") == "error"
    spoken()
    return [one for one in said if not one.is_empty]


def user_said(text: str, blocks: Sequence[Shown], *, vision: bool) -> Said:
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
                pieces.append(
                    f"Attached, the image {label}, which you cannot see: do not guess what it shows."
                )
            case Note(note):
                pieces.append(note)
    return Said("user", "\n\n".join([*pieces, text] if text else pieces), tuple(images))


def _longest_fence(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def merged(said: Sequence[Said]) -> list[Said]:
    """Without what is empty, and in one piece what one side said in several."""
    merged: list[Said] = []
    for one in said:
        if one.is_empty:
            continue
        if merged and merged[-1].role == one.role and not merged[-1].calls:
            last = merged.pop()
            text = f"{last.text}\n\n{one.text}" if last.text and one.text else last.text or one.text
            one = Said(one.role, text, last.images + one.images, one.calls)
        merged.append(one)
    return merged


# ── A context that is too small ──────────────────────────────────────────────────────────────────────────────────────
def fit(said: Sequence[Said], tokens: int, own: int = 1) -> list[Said]:
    """The newest part of a conversation that fits; begins with the user. Empty when not even its last `own` do."""
    kept: list[Said] = []
    room = tokens
    for one in reversed(said):
        room -= one.tokens
        if room < 0:
            break
        kept.append(one)
    kept.reverse()
    while kept and kept[0].role != "user":
        kept.pop(0)
    return kept if len(kept) >= own else []


def left_out(model: str, said: Sequence[Said], kept: Sequence[Said]) -> str:
    """What the person is told of it (T9). The numbers are ours, so they are round."""
    count = len(said) - len(kept)
    tokens = all_tokens(said)
    return (
        f"This chat is longer than {model} can read: {LEFT_OUT} "
        f"Left out: {count} of {len(said)} messages, about {rounded(tokens - all_tokens(kept))} of {rounded(tokens)} tokens."
    )


def was_told(prompt: Prompt) -> bool:
    """Whether an earlier turn of the chat says already that the beginning is left out."""
    parts = (part for turn in prompt.history for part in turn.get("responseParts") or [])
    return any(
        part.get("kind") == "systemNotification" and LEFT_OUT in str(part.get("content")) for part in parts
    )


def all_tokens(said: Sequence[Said]) -> int:
    return sum(one.tokens for one in said)


def rounded(number: int) -> str:
    """For people, who are to take no estimate for a measurement."""
    return f"{int(float(f'{number:.2g}')):,}"
