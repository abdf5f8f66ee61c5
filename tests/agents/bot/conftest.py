"""A host with a bot and a scripted agent that does its work, and two people who watch the bot's chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.bot import BotAgent
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Agent, Json, Prompt, Store, TurnFailed, TurnSink
from jupyter_ahp.host.works import WORKS_FOR
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, TOOLS, Scripted, WireClient, agree, answer_of, message, quiet, started

S = "ahp-session:/s"
HINTS = "Give hints, never the answer."


class Worker(Scripted):
    """Goes on when the test says a word: what it is told to do, or `done`."""

    capabilities = TOOLS

    def __init__(self, provider: str = "work") -> None:
        super().__init__(provider)
        self.words: asyncio.Queue[str] = asyncio.Queue()
        self.stops = 0
        self.play = self.step

    async def step(self, prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown(f"on {prompt.text}")
        try:
            while (word := await self.words.get()) != "done":
                if word == "fail":
                    raise TurnFailed("test", "The worker failed.")
                if word == "resumable":
                    raise TurnFailed("test", "The worker is busy.", resumable=True)
                sink.markdown(f" {word}")
        except asyncio.CancelledError:
            self.stops += 1
            raise


class Room:
    """Who is there."""

    def __init__(self, store: Store, folder: Path, **bot: Any) -> None:
        self.store = store
        self.folder = folder
        self.worker = Worker()
        self.agents: list[Agent] = []
        self.setup: Json = {"tutor": {"name": "Tutor", "instructions": HINTS, "agent": "work", **bot}}

    async def open(self) -> None:
        """The server starts, and two people open the bot's chat."""
        bots = BotAgent(self.setup, self.folder)
        self.host: Host = await started(self.store, bots, *(self.agents or [self.worker]))
        self.client, self.other = WireClient(self.host), WireClient(self.host)
        for person in (self.client, self.other):
            await person.initialize(ROOT)
        listed = (await self.client.request("listSessions"))["items"]
        if S not in [entry["resource"] for entry in listed]:
            await self.client.request("createSession", channel=S, provider="bot")
        for person in (self.client, self.other):
            self.chat: str = (await person.subscribe(S))["defaultChat"]
            await person.subscribe(self.chat)

    async def again(self) -> None:
        """The server is started again."""
        await self.close()
        self.worker = Worker()
        await self.open()

    async def close(self) -> None:
        await quiet(self.host)
        await agree(self.host, self.client, self.other)
        await self.leave()

    async def leave(self) -> None:
        before = asyncio.current_task()
        for connection in tuple(self.host.connections):
            await connection.closed()
        async with asyncio.timeout(10):
            await self.host.stop()
        await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() if not task.done() and task is not before]
        left = [task for task in left if "jupyter_ahp" in str(task.get_coro())]
        assert not left, f"tasks without an owner: {left}"

    @property
    def state(self) -> Json:
        return self.client.state(self.chat)

    @property
    def active(self) -> Json:
        return self.state.get("activeTurn") or {}

    @property
    def said(self) -> str:
        """The answer of the turn that runs, so far."""
        return answer_of(self.active) if self.active else ""

    async def steer(self, text: str, name: str = "s1") -> Json:
        fields: Json = {"kind": "steering", "id": name, "message": message(text)}
        return await self.other.do(self.chat, "chat/pendingMessageSet", **fields)

    def work(self) -> Json:
        """The state of the working session's chat, as the host has it; empty while there is none."""
        if not self.host.works._known:
            return {}
        [place] = self.host.works._known.values()
        chat = place.session.chats[place.chat]
        return chat.state if chat.channel is not None else {}

    def work_of(self, chat: str) -> Json:
        """The same, of the work for one of several chats."""
        places = self.host.works._known.values()
        place = next(place for place in places if place.session.meta[WORKS_FOR] == chat)
        return place.session.chats[place.chat].state


@pytest.fixture
def store() -> Store:
    return MemoryStore()


@pytest.fixture
async def room(store: Store, tmp_path: Path) -> AsyncIterator[Room]:
    room = Room(store, tmp_path)
    await room.open()
    yield room
    await room.close()
