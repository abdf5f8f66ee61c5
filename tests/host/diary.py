"""A little backend with a memory of its own, as real ones have it: a conversation is a list of what was said in it, under a
name that outlives the process; a fork copies the list, a rewind goes on behind an earlier entry and forgets the rest once
something new is written.

It answers with everything that it remembers, so what a chat shows says what its backend knows.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import (
    RESUME_POINT,
    Agent,
    Capabilities,
    Conversation,
    Found,
    Json,
    Model,
    Probe,
    Prompt,
    Start,
    Store,
    TurnFailed,
    TurnSink,
)
from jupyter_ahp.host.rewind import UNDO_REWIND
from jupyter_ahp.ptys import PlainPtys
from tests.host.harness import ROOT, WireClient, answer_of, quiet


@dataclass(frozen=True)
class Entry:
    """One turn, as the backend keeps it."""

    turn: str
    """The host's id of it; "" when another program said it."""
    text: str
    point: str
    told: str = ""
    """What the host had to say on it."""
    answer: str = ""


@dataclass
class Shelf:
    """Where the conversations are: what is on the disk of a real backend."""

    books: dict[str, list[Entry]] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    """What its catalogue says of conversations that other programs began."""
    names: Any = field(default_factory=lambda: itertools.count(1))

    def name(self, kind: str) -> str:
        return f"{kind}-{next(self.names)}"


Play = Callable[[Prompt, TurnSink], Awaitable[None]]


class Diary(Agent):
    """`play` runs within each turn; a test replaces it to see turns hang and fail."""

    provider = "test"
    display_name = "Diary"
    description = "Remembers by itself"

    def __init__(self, shelf: Shelf, **capabilities: bool) -> None:
        self.shelf = shelf
        self.capabilities = Capabilities(
            **{"fork": True, "rewind": True, "delete": True, "several_directories": True, **capabilities}
        )
        self.names_points = True
        self.play: Play = quietly
        self.opened: list[Start] = []
        self.closed: list[Start] = []
        self.deleted: list[str] = []
        self.prompts: list[Prompt] = []
        self.on_open: Callable[[], Awaitable[None]] | None = None
        self.on_delete: Callable[[str], Awaitable[None]] | None = None
        self.on_catalogue: Callable[[], Awaitable[None]] | None = None
        self.looked: list[Sequence[str]] = []

    async def probe(self) -> Probe:
        return Probe(ready=True, models=[Model("m", "M")])

    async def open(self, start: Start) -> Conversation:
        if self.on_open is not None:
            await self.on_open()
        if start.memory is not None and start.memory not in self.shelf.books:
            raise TurnFailed("gone", f"There is no conversation {start.memory}.")
        self.opened.append(start)
        return Writing(self, start)

    async def delete(self, memory: str) -> None:
        self.deleted.append(memory)
        if self.on_delete is not None:
            await self.on_delete(memory)
        self.shelf.books.pop(memory, None)
        self.shelf.found.pop(memory, None)

    async def catalogue(self, directories: Sequence[str]) -> Sequence[Found]:
        self.looked.append(directories)
        if self.on_catalogue is not None:
            await self.on_catalogue()
        elsewhere = [
            Found(memory, entries[0].text, BEGAN, BEGAN, directories[0])
            for memory, entries in self.shelf.books.items()
            if memory not in self.shelf.found
        ]
        return [*self.shelf.found.values(), *elsewhere]

    async def transcript(self, memory: str) -> Sequence[Json]:
        if memory not in self.shelf.books:
            raise TurnFailed("gone", f"There is no conversation {memory}.")
        return [_turn(entry, number) for number, entry in enumerate(self.shelf.books[memory])]

    def knows(self, memory: str) -> list[str]:
        return [entry.text for entry in self.shelf.books[memory]]


BEGAN = "2026-02-01T08:00:00.000Z"


def _turn(entry: Entry, number: int) -> Json:
    return {
        "id": entry.turn or f"found-{entry.point}",
        "startedAt": BEGAN,
        "message": {"text": entry.text, "origin": {"kind": "user"}},
        "responseParts": [{"kind": "markdown", "id": "p1", "content": entry.answer}],
        "state": "complete",
        "duration": number,
        RESUME_POINT: entry.point,
    }


async def quietly(prompt: Prompt, sink: TurnSink) -> None:
    return


class Writing(Conversation):
    """One open conversation."""

    def __init__(self, agent: Diary, start: Start) -> None:
        self._agent = agent
        self._start = start
        self._shelf = agent.shelf
        self._copy = start.fork or start.memory is None
        self._name = self._shelf.name("book") if self._copy else str(start.memory)
        self._at = start.at

    @property
    def memory(self) -> str | None:
        return self._name

    def _turn_to_the_page(self) -> list[Entry]:
        """Where it writes on: only now is a copy made, or forgotten what comes behind."""
        books = self._shelf.books
        if self._copy:
            source = [] if self._start.memory is None else books[self._start.memory]
            books[self._name] = _through(source, self._at)
        elif self._at is not None:
            books[self._name] = _through(books[self._name], self._at)
        self._copy, self._at = False, None
        return books[self._name]

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        agent = self._agent
        agent.prompts.append(prompt)
        page = self._turn_to_the_page()
        point = self._shelf.name("point")
        told = prompt.prefaces.get(prompt.turn_id, "")
        page.append(Entry(prompt.turn_id, prompt.text, point, told))
        where = len(page) - 1
        try:
            await agent.play(prompt, sink)
            answer = " | ".join(entry.text for entry in page)
            sink.markdown(answer)
            page[where] = replace(page[where], answer=answer)
        finally:
            if agent.names_points:
                sink.resume_point(point)

    async def close(self) -> None:
        self._agent.closed.append(self._start)


def _through(entries: Sequence[Entry], at: str | None) -> list[Entry]:
    if at is None:
        return list(entries)
    end = [entry.point for entry in entries].index(at)
    return list(entries[: end + 1])


def entries(**texts: str) -> list[Entry]:
    """A conversation of another program, by point."""
    return [Entry("", text, point, answer=f"about {text}") for point, text in texts.items()]


S = "ahp-session:/s"
NEW = "ahp-chat:/new"


class Server:
    """A host with the diary, and two clients of it, which can be started again."""

    def __init__(self, store: Store, directory: Path) -> None:
        self.store = store
        self.shelf = Shelf()
        self.options = HostOptions(
            ptys=None if os.name == "nt" else PlainPtys(), default_directory=str(directory)
        )
        self.make: dict[str, bool] = {}
        """Capabilities."""

    async def start(self, *channels: str) -> None:
        self.agent = Diary(self.shelf, **self.make)
        self.host = Host(self.store, [self.agent], self.options)
        await self.host.start()
        self.client, self.other = [WireClient(self.host) for _ in "ab"]
        for client in (self.client, self.other):
            await client.initialize(ROOT)
            for channel in channels:
                await client.subscribe(channel)

    async def stop(self) -> None:
        for connection in tuple(self.host.connections):
            await connection.closed()
        await self.host.stop()

    async def restart(self, store: Store | None = None) -> None:
        """The same, with another process behind it: its clients watch what they watched."""
        channels = [channel for channel in self.client.mirrors if channel != ROOT]
        await quiet(self.host)
        await self.stop()
        self.store = store or self.store
        await self.start(*channels)

    async def chat(self, *said: str) -> str:
        """A session's chat in which this was said, as `t-<text>`."""
        chat = await self.client.create(S)
        for channel in (S, chat):
            await self.other.subscribe(channel)
        for text in said:
            await self.say(chat, text)
        return chat

    async def say(self, chat: str, text: str) -> str:
        """The answer: all that the backend remembers."""
        turn = await self.client.say(chat, text, turn=f"t-{text}")
        await quiet(self.host)
        return answer_of(turn)

    async def rewind(self, chat: str, keep: str | None) -> None:
        more = {} if keep is None else {"turnId": f"t-{keep}"}
        echo = await self.client.do(chat, "chat/truncated", **more)
        assert "rejectionReason" not in echo

    async def undo(self, chat: str) -> None:
        await self.client.request(UNDO_REWIND, channel=chat)

    async def fork(self, chat: str, turn: str, new: str = NEW) -> str:
        source = {"kind": "fork", "chat": chat, "turnId": f"t-{turn}"}
        await self.client.request("createChat", channel=S, chat=new, source=source)
        for client in (self.client, self.other):
            await client.subscribe(new)
        return new

    def shows(self, chat: str) -> list[str]:
        return [turn["message"]["text"] for turn in self.other.state(chat)["turns"]]

    @property
    def last(self) -> Any:
        """What the backend was opened with last."""
        start = self.agent.opened[-1]
        return start.memory, start.at, start.fork

    def point(self, text: str) -> str:
        """Where the turn of this text ended, as the backend calls it."""
        return next(entry.point for book in self.shelf.books.values() for entry in book if entry.text == text)
