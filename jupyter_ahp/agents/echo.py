"""The echo: says back what it was told and what the message's attachments became. Needs nothing, always works."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from jupyter_ahp.agents.base import (
    Agent,
    Block,
    Capabilities,
    Conversation,
    ImageBlock,
    PathBlock,
    Probe,
    Prompt,
    Start,
    TextBlock,
    TurnSink,
)

PIECES = 8
PAUSE = 0.01
"""Seconds between two pieces: enough to see that an answer streams."""

HOW_TO_GET_A_MODEL = """\
*This is the echo: no model is set up here.* For a real answer set `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` and install \
`pip install 'jupyter-ahp[assistant]'`; a running Ollama is found by itself. For a tiny model with no key, often wrong: \
`pip install 'jupyter-ahp[assistant,local]'`, then `jupyter-ahp local-model`. Then restart the server."""


class EchoAgent(Agent):
    """Says back what it was told.

    `is_alone` says whether no other agent is ready; then the answer tells how to get a real one.
    """

    provider = "echo"
    display_name = "Echo"
    description = "Says back what it was told. Needs no model."
    capabilities = Capabilities(fork=True)  # it remembers nothing

    def __init__(self, is_alone: Callable[[], Awaitable[bool]] | None = None) -> None:
        self._is_alone = is_alone

    async def probe(self) -> Probe:
        return Probe(ready=True)

    async def open(self, start: Start) -> Conversation:
        return Echo(self._is_alone)


class Echo(Conversation):
    """One chat with the echo."""

    def __init__(self, is_alone: Callable[[], Awaitable[bool]] | None) -> None:
        self._is_alone = is_alone

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        for piece in split(prompt.text, PIECES):
            sink.markdown(piece)
            await asyncio.sleep(PAUSE)
        if prompt.blocks:
            sink.markdown("\n\n" + "\n".join(f"- {became(block)}" for block in prompt.blocks))
        if self._is_alone is not None and await self._is_alone():
            sink.markdown(f"\n\n{HOW_TO_GET_A_MODEL}")


def split(text: str, count: int) -> list[str]:
    """A text in at most `count` pieces of whole words; joined they are the text."""
    words = re.findall(r"\S+\s*|\s+", text)
    size = max(1, -(-len(words) // count))
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


def became(block: Block) -> str:
    """What an attachment became for the model, in words (A1)."""
    match block:
        case TextBlock():
            return f"{code(block.label)} as text, {len(block.text):,} characters"
        case ImageBlock():
            return f"{code(block.label)} as an image, {block.media_type}, {len(block.data):,} bytes"
        case PathBlock():
            return f"{code(block.label)} by its path, {code(block.path)}"


def code(text: str) -> str:
    """Text as inline code in Markdown, whatever backticks and line breaks it has."""
    text = " ".join(text.split())
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"
