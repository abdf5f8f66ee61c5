"""A session of the assistant's in a directory of a real host, with a person who answers, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Json
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, WireClient, agree, quiet, started, until
from tests.mock_model import MockModel

SESSION = "ahp-session:/work"


PATIENCE = 60.0
"""The first turn imports the model library, which takes seconds."""


def _asks(call: Json) -> bool:
    return str(call["status"]) == "pending-confirmation"


class Desk:
    """A session in a directory, and a person who answers."""

    def __init__(self, host: Host, model: MockModel, directory: Path) -> None:
        self.host = host
        self.client = WireClient(host)
        self.other = WireClient(host)
        self.model = model
        self.directory = directory
        self.chat = ""

    async def enter(self) -> None:
        for watcher in (self.client, self.other):
            await watcher.initialize(ROOT)
        listed = await self.client.request("listSessions")
        if SESSION not in {entry["resource"] for entry in listed["items"]}:
            await self.client.request(
                "createSession",
                channel=SESSION,
                provider="assistant",
                workingDirectories=[self.directory.as_uri()],
            )
        for watcher in (self.client, self.other):
            self.chat = (await watcher.subscribe(SESSION))["defaultChat"]
            await watcher.subscribe(self.chat)

    async def asked(self) -> Json:
        """The call that waits for an answer."""
        await until(lambda: any(map(_asks, self.client.calls(self.chat))), PATIENCE)
        return next(filter(_asks, self.client.calls(self.chat)))

    async def answer(self, option: str, reason: str | None = None) -> None:
        approved = option != "deny"
        how: Json = {"confirmed": "user-action"} if approved else {"reason": "denied"}
        if reason is not None:
            how["reasonMessage"] = reason
        await self.client.of_call(
            self.chat, "chat/toolCallConfirmed", approved=approved, selectedOptionId=option, **how
        )

    async def ended(self, turns: int = 1) -> Json:
        """The last turn, when that many ended and none runs."""
        state = self.client.state
        await until(
            lambda: len(state(self.chat)["turns"]) == turns and not self.client.running(self.chat), PATIENCE
        )
        last: Json = state(self.chat)["turns"][-1]
        return last

    def results(self, request: int = -1) -> list[str]:
        """What the model was told that its calls said."""
        return [text for role, text in self.model.requests[request].texts if role == "tool"]


@asynccontextmanager
async def at_desk(
    agent: AssistantAgent, model: MockModel, directory: Path, store: MemoryStore | None = None
) -> AsyncIterator[Desk]:
    """With a host of its own, which ends with it. What both clients watched is what a newcomer is given."""
    desk = Desk(await started(store or MemoryStore(), agent), model, directory)
    await desk.enter()
    try:
        yield desk
        await quiet(desk.host)
        await agree(desk.host, desk.client, desk.other)
    finally:
        for connection in tuple(desk.host.connections):
            await connection.closed()
        await desk.host.stop()
