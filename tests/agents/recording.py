"""The host's own sink over the host's own reducers, kept for a test to look at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from jupyter_ahp.agents.base import (
    Agent,
    ConversationHost,
    Json,
    Prompt,
    Start,
    TurnFailed,
    TurnSink,
    Worker,
)
from jupyter_ahp.host.sink import ChatSink, Spawning
from jupyter_ahp.protocol.reducers import REDUCERS


class RecordingSink(ChatSink):
    """A turn that runs in a chat of its own. What it has is read from the chat's state, as a client would."""

    def __init__(self, turn_id: str = "t1") -> None:
        super().__init__(turn_id, self._reduce, spawn=self._spawned)
        self.workers: list[RecordedWorker] = []
        """Those that the turn spawned, in order."""
        self._state: Json = {"resource": "ahp-chat:/c1", "title": "", "status": 1, "turns": []}
        self.actions: list[Json] = []
        message = {"text": "", "origin": {"kind": "user"}}
        began = {"turnId": turn_id, "startedAt": "2026-01-01T00:00:00.000Z", "message": message}
        self._reduce({"type": "chat/turnStarted", **began})

    def _reduce(self, action: Json) -> None:
        self.actions.append(action)
        self._state = REDUCERS["chat"](self._state, action)

    def _spawned(self, asked: Spawning) -> Worker:
        worker = RecordedWorker(asked)
        self.workers.append(worker)
        return worker

    @property
    def parts(self) -> list[Json]:
        return list(self._state["activeTurn"]["responseParts"])

    @property
    def used(self) -> Json | None:
        """`UsageInfo` of the turn."""
        used: Json | None = self._state["activeTurn"].get("usage")
        return used

    @property
    def deltas(self) -> list[str]:
        """Each piece of the answer as it came."""
        return [action["content"] for action in self.actions if action["type"] == "chat/delta"]

    @property
    def activities(self) -> list[str | None]:
        return [action.get("activity") for action in self.actions if action["type"] == "chat/activityChanged"]

    @property
    def text(self) -> str:
        return self._said("markdown")

    @property
    def thought(self) -> str:
        return self._said("reasoning")

    @property
    def notices(self) -> list[str]:
        return [part["content"] for part in self.parts if part["kind"] == "systemNotification"]

    def _said(self, kind: str) -> str:
        return "".join(part["content"] for part in self.parts if part["kind"] == kind)


class RecordedWorker(Worker):
    """A worker, its sink a `RecordingSink` of its own. `outcome` is how it ended, None while it runs."""

    def __init__(self, asked: Spawning) -> None:
        self.asked = asked
        self.chat = f"ahp-chat:/worker-of-{asked.call_id}"
        self.recorded = RecordingSink(f"turn-of-{asked.call_id}")
        self.sink: TurnSink = self.recorded
        self.outcome: str | None = None

    def done(self) -> None:
        self._ended("done")

    def failed(self, error: str, *, details: str | None = None) -> None:
        self._ended(f"failed: {error}")

    def cancelled(self) -> None:
        self._ended("cancelled")

    def _ended(self, outcome: str) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.recorded.end()


class RecordingHost(ConversationHost):
    """Runs every late turn at once, on a sink of its own, and keeps what is listed."""

    def __init__(self) -> None:
        self.late: list[tuple[str, str | None, RecordingSink]] = []
        """Text, the steering message's id, and what the turn was told."""
        self.works: dict[str, Json] = {}
        self.settings: Json = {}

    def late_turn(
        self,
        text: str,
        answer: Callable[[TurnSink], Awaitable[None]],
        *,
        message_id: str | None = None,
        meta: Json | None = None,
    ) -> Awaitable[None]:
        sink = RecordingSink(f"late-{len(self.late) + 1}")
        self.late.append((text, message_id, sink))
        return asyncio.ensure_future(answer(sink))

    def configured(self, values: Mapping[str, Any]) -> None:
        self.settings |= values

    def background(self, work: Json | None, id: str) -> None:
        if work is None:
            self.works.pop(id, None)
        else:
            self.works[id] = work


START = Start(session_id="s1", chat="ahp-chat:/c1", directories=(), config={}, host=RecordingHost())


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


async def until(condition: Callable[[], bool], seconds: float = 5) -> None:
    """Wait for something that a sink was told."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s"
        await asyncio.sleep(0.005)
