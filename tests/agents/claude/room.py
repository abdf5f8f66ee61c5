"""Claude's real CLI in a real host, with a client that watches, against the mock model server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_ahp.agents.claude import ClaudeAgent
from jupyter_ahp.agents.claude.settings import Settings
from jupyter_ahp.host.ports import Json
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, WireClient, message, started, until
from tests.mock_model import MockModel

SESSION = "ahp-session:/s"
PATIENCE = 30.0
"""Seconds for what a program of several hundred megabytes does on a loaded machine."""


def settings_for(model: MockModel, home: Path) -> Settings:
    """A home of its own, and an API that is the mock model's."""
    env = {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": model.root_url,
        "ANTHROPIC_API_KEY": "sk-dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }
    return Settings(env=env, model="mock-model")


class Room:
    """A host with Claude, a client of it in one chat, and the model's log."""

    def __init__(self, settings: Settings, model: MockModel, work: Path) -> None:
        self.settings = settings
        self.model = model
        self.work = work
        self.store = MemoryStore()
        self.chat = ""

    async def enter(self, **config: Any) -> None:
        self.agent = ClaudeAgent(self.settings)
        self.host = await started(self.store, self.agent, directory=self.work)
        self.client = WireClient(self.host)
        await self.client.initialize(ROOT)
        listed = await self.client.request("listSessions")
        if SESSION not in {entry["resource"] for entry in listed["items"]}:
            await self.client.request(
                "createSession",
                channel=SESSION,
                provider="claude",
                workingDirectories=[self.work.as_uri()],
                config=config,
            )
        self.chat = (await self.client.subscribe(SESSION))["defaultChat"]
        await self.client.subscribe(self.chat)

    async def leave(self) -> None:
        for connection in tuple(self.host.connections):
            await connection.closed()
        await self.host.stop()

    async def restart(self) -> None:
        """The server stops, and starts again on the same store."""
        await self.leave()
        await self.enter()

    # ── the conversation ─────────────────────────────────────────────────────────────────────────────────────
    async def say(self, text: str, chat: str = "", **more: Any) -> Json:
        """A turn, ended."""
        chat = chat or self.chat
        before = len(self.client.state(chat)["turns"])
        await self.client.start(chat, text, **more)
        return (await self.ended(before + 1, chat))[-1]

    async def begin(self, text: str, **more: Any) -> None:
        await self.client.start(self.chat, text, **more)

    async def ended(self, count: int, chat: str = "") -> list[Json]:
        """The chat's turns, once there are that many, and none runs."""
        chat = chat or self.chat
        await self.see(
            lambda: len(self.client.state(chat)["turns"]) >= count and not self.client.running(chat)
        )
        turns: list[Json] = self.client.state(chat)["turns"]
        return turns

    async def see(self, condition: Callable[[], object]) -> None:
        try:
            await until(lambda: bool(condition()), PATIENCE)
        except TimeoutError:
            raise AssertionError(f"not in time: {self.client.state(self.chat)}") from None

    async def asked(self, count: int) -> None:
        """The model was asked so often."""
        await self.model.until(lambda model: len(self.requests) >= count, PATIENCE)

    async def call(self, status: str, name: str = "") -> Json:
        """The newest tool call (of that name), once it is in that state."""

        def found() -> list[Json]:
            calls = self.client.calls(self.chat)
            return [one for one in calls if one["status"] == status and name in ("", one["toolName"])]

        await self.see(found)
        return found()[-1]

    async def answer(
        self, call: Json, option: str | None = None, *, approved: bool = True, **more: Any
    ) -> None:
        turn = self.client.state(self.chat)["activeTurn"]["id"]
        fields: Json = {"turnId": turn, "toolCallId": call["toolCallId"], "approved": approved, **more}
        fields |= {"confirmed": "user-action"} if approved else {"reason": "denied"}
        if option is not None:
            fields["selectedOptionId"] = option
        await self.client.do(self.chat, "chat/toolCallConfirmed", **fields)

    async def stop(self) -> None:
        turn = self.client.state(self.chat)["activeTurn"]["id"]
        await self.client.do(self.chat, "chat/turnCancelled", turnId=turn, duration=1)

    async def steer(self, text: str, name: str = "steer") -> None:
        await self.client.do(
            self.chat, "chat/pendingMessageSet", kind="steering", id=name, message=message(text)
        )

    async def queue(self, text: str, name: str) -> None:
        await self.client.do(
            self.chat, "chat/pendingMessageSet", kind="queued", id=name, message=message(text)
        )

    # ── what can be seen ─────────────────────────────────────────────────────────────────────────────────────
    @property
    def active(self) -> Json:
        turn: Json = self.client.state(self.chat)["activeTurn"]
        return turn

    @property
    def requests(self) -> list[Any]:
        """What the model was asked in conversations: not the CLI's side jobs."""
        return [request for request in self.model.requests if request.body.get("tools")]

    def told(self, at: int = -1) -> list[str]:
        """What the model was told in a request, its own words included, without the CLI's reminders."""
        return [plain(text) for role, text in self.requests[at].texts if role != "system" and plain(text)]

    @property
    def pid(self) -> int:
        """The CLI of the chat."""
        session = next(iter(self.host.sessions.values()))
        conversation: Any = session.chats[self.chat].turns.line.conversation
        pid: int = conversation._program.line.pid
        return pid


def plain(text: str) -> str:
    """A message without what the CLI puts ahead of it for the model alone."""
    while "<system-reminder>" in text:
        before, _, rest = text.partition("<system-reminder>")
        text = before + rest.partition("</system-reminder>")[2]
    return text.strip()


def said(turn: Json, kind: str = "markdown") -> str:
    return "".join(part["content"] for part in turn["responseParts"] if part["kind"] == kind)


def kinds(turn: Json) -> list[str]:
    return [part["kind"] for part in turn["responseParts"]]


def calls_of(turn: Json) -> list[Json]:
    return [part["toolCall"] for part in turn["responseParts"] if part["kind"] == "toolCall"]


def error_of(turn: Json) -> Json:
    [part] = [part for part in turn["responseParts"] if part["kind"] == "error"]
    error: Json = part["error"]
    return {**error, "resumable": part.get("resumable", False)}
