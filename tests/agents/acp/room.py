"""A host with one ACP agent, two clients that watch a chat of it, and the model's log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_ahp.agents.acp import ACPAgent, Server
from jupyter_ahp.agents.acp.conversation import ACPConversation
from jupyter_ahp.agents.base import Json
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Store
from tests.host.harness import ROOT, WireClient, agree, quiet, started, until
from tests.mock_model import MockModel

SESSION = "ahp-session:/s"
PATIENCE = 60.0
"""Seconds for what takes a program's start; a test waits for what it wants, and no longer."""


def puppet(model: MockModel, home: Path, **env: str) -> Server:
    """Our own agent, `agent.py`."""
    script = Path(__file__).with_name("agent.py")
    return Server(
        "puppet",
        "Puppet",
        sys.executable,
        (str(script),),
        {"MODEL_URL": model.base_url, "AGENT_HOME": str(home), **env},
    )


class Room:
    """`folder` is the session's directory."""

    def __init__(self, host: Host, model: MockModel, folder: Path) -> None:
        self.host = host
        self.model = model
        self.folder = folder
        self.client = WireClient(host)
        self.other = WireClient(host)
        self.chat = ""

    @classmethod
    async def enter(
        cls,
        server: Server,
        store: Store,
        model: MockModel,
        folder: Path,
        *,
        learned: Path | None = None,
        **session: Any,
    ) -> Room:
        """Start a host with the agent; the session is made unless it is there."""
        room = cls(await started(store, ACPAgent(server, learned)), model, folder)
        for watcher in (room.client, room.other):
            await watcher.initialize(ROOT)
        listed = await room.client.request("listSessions")
        if SESSION not in {entry["resource"] for entry in listed["items"]}:
            made = {"provider": server.provider, "workingDirectories": [folder.as_uri()], **session}
            await room.client.request("createSession", channel=SESSION, **made)
        for watcher in (room.client, room.other):
            room.chat = (await watcher.subscribe(SESSION))["defaultChat"]
            await watcher.subscribe(room.chat)
        return room

    async def leave(self) -> None:
        """What both watched is what a newcomer is given; then the server stops."""
        await quiet(self.host)
        await agree(self.host, self.client, self.other)
        await self.stop()

    async def stop(self) -> None:
        for connection in tuple(self.host.connections):
            await connection.closed()
        await self.host.stop()

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────
    async def say(self, text: str, chat: str | None = None, **message: Any) -> Json:
        """A turn, ended."""
        chat = chat or self.chat
        turn = await self.client.start(chat, text, **message)
        await self.until(lambda: not self.client.running(chat))
        return self.client.turn(chat, turn)

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition, PATIENCE)

    @property
    def parts(self) -> list[Json]:
        """Of the turn that runs."""
        running: Mapping[str, Any] = self.client.state(self.chat).get("activeTurn") or {"responseParts": []}
        return list(running["responseParts"])

    def calls(self, status: str) -> list[Json]:
        """The running turn's tool calls of that status."""
        calls = [part["toolCall"] for part in self.parts if part["kind"] == "toolCall"]
        return [call for call in calls if call["status"] == status]

    async def asked(self) -> Json:
        """The tool call that waits for a person."""
        await self.until(lambda: self.calls("pending-confirmation"))
        return self.calls("pending-confirmation")[0]

    async def answer(self, call: Json, approved: bool, option: str | None = None) -> None:
        fields: Json = (
            {"approved": True, "confirmed": "user-action"}
            if approved
            else {"approved": False, "reason": "denied"}
        )
        if option is not None:
            fields["selectedOptionId"] = option
        running = self.client.state(self.chat)["activeTurn"]["id"]
        await self.client.do(
            self.chat, "chat/toolCallConfirmed", turnId=running, toolCallId=call["toolCallId"], **fields
        )

    async def cancel(self) -> Json:
        """Stop the turn that runs: the turn."""
        running: str = self.client.state(self.chat)["activeTurn"]["id"]
        await self.client.do(self.chat, "chat/turnCancelled", turnId=running, duration=1)
        return self.client.turn(self.chat, running)

    async def queue(self, kind: str, name: str, text: str) -> Json:
        said = {"text": text, "origin": {"kind": "user"}}
        return await self.other.do(self.chat, "chat/pendingMessageSet", kind=kind, id=name, message=said)

    # ── behind it ────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def conversation(self) -> ACPConversation:
        [session] = [one for one in self.host.sessions.values() if self.chat in one.chats]
        conversation = session.chats[self.chat].turns.line.conversation
        assert isinstance(conversation, ACPConversation)
        return conversation

    @property
    def pid(self) -> int:
        """Of the agent's process."""
        pid = self.conversation.pid
        assert pid is not None
        return pid

    def told(self, request: int = -1) -> list[str]:
        """What the model was told in a request, its own words included."""
        return [text for _, text in self.model.requests[request].texts]


def calls_of(turn: Json) -> list[Json]:
    return [part["toolCall"] for part in turn["responseParts"] if part["kind"] == "toolCall"]


def notices_of(turn: Json) -> list[str]:
    return [part["content"] for part in turn["responseParts"] if part["kind"] == "systemNotification"]


def error_of(turn: Json) -> Json:
    error: Json = turn["responseParts"][-1]["error"]
    return error


def texts_of(call: Json) -> list[str]:
    return [block["text"] for block in call.get("content", ()) if block["type"] == "text"]
