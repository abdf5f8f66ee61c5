"""The real pi in a real host, with two clients, against the mock model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jupyter_ahp.agents.pi import PiAgent
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Json, Store
from jupyter_ahp.store.files import FileStore
from tests.agents.programs import node_program
from tests.host.harness import ROOT, WireClient, agree, quiet, started, until
from tests.mock_model import MockModel

SESSION = "ahp-session:/s"

GENERATIONS = {"0.73": (20, 6), "1.6": (22, 19)}
"""Each with the Node that it needs."""


def pi_agent(model: MockModel, home: Path, generation: str) -> PiAgent:
    """pi with a home of its own, whose only model is the mock's. Skips the test where it is not installed."""
    program = node_program(f"pi-{generation}/dist/cli.js", at_least=GENERATIONS[generation])
    settings = home / "pi"
    settings.mkdir()
    provider = {
        "baseUrl": model.base_url,
        "api": "openai-completions",
        "apiKey": "sk-mock",
        "models": [
            {
                "id": model.model,
                "name": "Mock",
                "reasoning": False,
                "input": ["text", "image"],
                "contextWindow": 100_000,
                "maxTokens": 4096,
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
            }
        ],
    }
    (settings / "models.json").write_text(json.dumps({"providers": {"mock": provider}}))
    (settings / "settings.json").write_text(json.dumps({"retry": {"baseDelayMs": 10}}))
    command = [*program, "--provider", "mock", "--model", model.model]
    return PiAgent(command, {"PI_CODING_AGENT_DIR": str(settings), "HOME": str(home)})


class Room:
    """A host with pi, two clients that watch a chat, and the model's log. `restart` is another process on the same store."""

    def __init__(self, agent: PiAgent, model: MockModel, store: Path, work: Path) -> None:
        self.agent = agent
        self.model = model
        self.work = work
        self._store = store
        self.host: Host
        self.client: WireClient
        self.other: WireClient
        self.chat = ""

    async def enter(self) -> None:
        self.host = await started(self._new_store(), self.agent, directory=self.work)
        self.client, self.other = WireClient(self.host), WireClient(self.host)
        for watcher in (self.client, self.other):
            await watcher.initialize(ROOT)
        listed = await self.client.request("listSessions")
        if SESSION not in {entry["resource"] for entry in listed["items"]}:
            await self.client.request(
                "createSession",
                channel=SESSION,
                provider="pi",
                workingDirectories=[self.work.as_uri()],
            )
        for watcher in (self.client, self.other):
            self.chat = (await watcher.subscribe(SESSION))["defaultChat"]
            await watcher.subscribe(self.chat)

    def _new_store(self) -> Store:
        return FileStore(self._store)

    async def leave(self) -> None:
        await quiet(self.host)
        await agree(self.host, self.client, self.other)
        for connection in tuple(self.host.connections):
            await connection.closed()
        await self.host.stop()

    async def restart(self) -> None:
        await self.leave()
        await self.enter()

    @property
    def state(self) -> Json:
        return self.client.state(self.chat)

    @property
    def turns(self) -> list[Json]:
        turns: list[Json] = self.state["turns"]
        return turns

    async def say(self, text: str, *, chat: str | None = None, **more: Any) -> Json:
        chat = chat or self.chat
        turn = await self.client.start(chat, text, **more)
        await until(lambda: not self.client.running(chat), 60)
        return self.client.turn(chat, turn)

    async def begin(self, text: str, **more: Any) -> str:
        return await self.client.start(self.chat, text, **more)

    async def over(self) -> Json:
        await until(lambda: not self.client.running(self.chat), 60)
        return self.turns[-1]

    async def part(self, kind: str) -> Json:
        """The first part of that kind in the running turn, once it is there."""

        def found() -> list[Json]:
            parts = (self.state.get("activeTurn") or {}).get("responseParts", ())
            return [part for part in parts if part["kind"] == kind]

        await until(found, 60)
        return found()[0]

    async def asked(self) -> Json:
        """The tool call that waits for a person."""
        part = await self.part("toolCall")
        call_id = part["toolCall"]["toolCallId"]

        def pending() -> bool:
            calls = [p["toolCall"] for p in self.state["activeTurn"]["responseParts"] if "toolCall" in p]
            return any(c["toolCallId"] == call_id and c["status"] == "pending-confirmation" for c in calls)

        await until(pending, 60)
        return next(
            p["toolCall"]
            for p in self.state["activeTurn"]["responseParts"]
            if p.get("toolCall", {}).get("toolCallId") == call_id
        )

    async def answer(self, call: Json, approved: bool, **more: Any) -> None:
        if approved:
            more.setdefault("confirmed", "user-action")
        else:
            more.setdefault("reason", "denied")
        await self.client.do(
            self.chat,
            "chat/toolCallConfirmed",
            turnId=self.state["activeTurn"]["id"],
            toolCallId=call["toolCallId"],
            approved=approved,
            **more,
        )

    async def stop(self, turn: str) -> None:
        await self.client.do(self.chat, "chat/turnCancelled", turnId=turn, duration=1)

    def told(self) -> list[tuple[str, str]]:
        """What the model was last told, behind the system prompt."""
        return [
            (role, text)
            for role, text in self.model.requests[-1].texts
            if role not in ("system", "developer")
        ]
