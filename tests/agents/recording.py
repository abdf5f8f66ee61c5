"""A sink that keeps what a backend reports, as response parts in AHP's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jupyter_ahp.agents.base import Agent, Answer, Block, Json, Prompt, Start, ToolCall, TurnFailed, TurnSink


class RecordingSink(TurnSink):
    def __init__(self, turn_id: str = "t1") -> None:
        self.turn_id = turn_id
        self.parts: list[Json] = []
        self.deltas: list[str] = []
        """Each piece of the answer as it came."""
        self.activities: list[str | None] = []
        self.used: Json | None = None

    @property
    def text(self) -> str:
        return "".join(part["content"] for part in self.parts if part["kind"] == "markdown")

    @property
    def thought(self) -> str:
        return "".join(part["content"] for part in self.parts if part["kind"] == "reasoning")

    @property
    def notices(self) -> list[str]:
        return [part["content"] for part in self.parts if part["kind"] == "systemNotification"]

    def _append(self, kind: str, text: str) -> None:
        if not self.parts or self.parts[-1]["kind"] != kind:
            self.parts.append({"kind": kind, "id": f"p{len(self.parts)}", "content": ""})
        self.parts[-1]["content"] += text

    def markdown(self, text: str) -> None:
        self.deltas.append(text)
        self._append("markdown", text)

    def reasoning(self, text: str) -> None:
        self._append("reasoning", text)

    def notice(self, text: str) -> None:
        self.parts.append({"kind": "systemNotification", "content": text})

    def activity(self, text: str | None) -> None:
        if not self.activities or self.activities[-1] != text:
            self.activities.append(text)

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        model: str | None = None,
        meta: Json | None = None,
    ) -> None:
        self.used = {"in": input_tokens, "out": output_tokens, "cached": cache_read_tokens, "model": model}

    def resource(self, uri: str, *, content_type: str | None = None, size: int | None = None) -> None:
        raise NotImplementedError

    def tool(
        self,
        name: str,
        *,
        title: str,
        call_id: str | None = None,
        intention: str | None = None,
        meta: Json | None = None,
    ) -> ToolCall:
        raise NotImplementedError

    async def ask(self, message: str, questions: Sequence[Json] = (), *, url: str | None = None) -> Answer:
        raise NotImplementedError


START = Start(session_id="s1", chat="ahp-chat:/c1", directories=(), config={})


def turn(
    text: str,
    answer: str = "",
    *,
    state: str = "complete",
    parts: Sequence[Json] | None = None,
    **message: Any,
) -> Json:
    """An ended AHP turn."""
    said = [{"kind": "markdown", "id": "p0", "content": answer}] if answer else []
    return {
        "id": f"turn-{text[:8]}",
        "startedAt": "2026-01-01T00:00:00.000Z",
        "duration": 1,
        "message": {"text": text, "origin": {"kind": "user"}, **message},
        "responseParts": list(parts) if parts is not None else said,
        "state": state,
    }


async def tell(
    agent: Agent, prompt: str | Prompt, sink: RecordingSink | None = None, **fields: Any
) -> RecordingSink:
    """Send one turn on a new conversation and wait for its end. Raises what `send` raises."""
    sink = sink or RecordingSink()
    conversation = await agent.open(START)
    try:
        await conversation.send(
            prompt if isinstance(prompt, Prompt) else Prompt("t1", prompt, **fields), sink
        )
    finally:
        await conversation.close()
    return sink


async def failure(
    agent: Agent, prompt: str | Prompt, sink: RecordingSink | None = None, **fields: Any
) -> TurnFailed:
    """Send one turn that is to fail, and give how it did."""
    try:
        await tell(agent, prompt, sink, **fields)
    except TurnFailed as failed:
        return failed
    raise AssertionError("the turn did not fail")


__all__ = ["START", "Block", "RecordingSink", "failure", "tell", "turn"]
