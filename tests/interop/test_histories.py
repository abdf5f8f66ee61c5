"""Long random histories of several windows on one session, with sockets that break: what they have is what the host has.

The invariant of issue and rules alike: every message that a person sent was delivered exactly once, waits where it can
be seen, was taken back, or was refused with a reason; order is kept; nothing runs that was taken back.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

from tests.interop.kinds import AHPC, NEWEST, UI, VSCODE_140, VSCODE_141, Kind
from tests.interop.mirror import Json
from tests.interop.window import Window, started, user_message, window
from tests.support.server import JupyterServer

WORDS = (
    "say {}",
    "slowly 3",
    "slowly 8",
    "deaf 0.05",
    "tool find",
    "fail it broke",
    "stumble over it",
    "think {}",
    "delegate {0} say {0}",
)


@dataclass
class Person:
    """Somebody at a window, whose socket may break: what was not answered is sent again, under its number."""

    server: JupyterServer
    kind: Kind
    session: str
    client_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    chats: list[str] = field(default_factory=list)
    open: dict[int, tuple[str, Json]] = field(default_factory=dict)
    """What was dispatched and not answered yet."""
    refused: list[tuple[Json, str]] = field(default_factory=list)
    done: list[Json] = field(default_factory=list)

    async def connect(self, before: Window | None = None) -> None:
        self.stack = AsyncExitStack()
        self.client = await self.stack.enter_async_context(
            window(self.server, self.kind, client_id=self.client_id, greet=before is None)
        )
        if before is None:
            await self.client.list()
            await self.client.subscribe(self.session)
            for chat in self.chats:
                await self.client.subscribe(chat)
            return
        await self.client.reconnect(before)
        self.settle()
        for number, (channel, action) in sorted(self.open.items()):
            await self.client.dispatch(channel, action, seq=number)

    async def do(self, channel: str, action: Json) -> None:
        number = await self.client.dispatch(channel, action)
        self.open[number] = channel, action

    def settle(self) -> None:
        """Take in what was answered."""
        for message in self.client.inbox:
            params = message.get("params", {})
            origin = params.get("origin") or {}
            if origin.get("clientId") == self.client_id and origin["clientSeq"] in self.open:
                _, action = self.open.pop(origin["clientSeq"])
                if "rejectionReason" in params:
                    self.refused.append((action, params["rejectionReason"]))
                else:
                    self.done.append(action)

    async def break_off(self) -> None:
        before = self.client
        before.socket.transport.abort()
        await before._reader
        self.settle()
        await self.stack.aclose()
        await self.connect(before)

    def choose(self, dice: random.Random, chat: str, number: int, *, gentle: bool) -> Json | None:
        """An action that somebody who looks at this window could do now."""
        state = self.client.state(chat)
        turns, queue = state["turns"], state.get("queuedMessages", [])
        text = dice.choice(WORDS).format(f"m{number}") + f"\n#{number}"
        kinds = [
            "start",
            "start",
            "queue",
            "queue",
            "steer",
            "edit",
            "remove",
            "order",
            "stop",
            "resume",
            "draft",
        ]
        match dice.choice(kinds if gentle else [*kinds, "truncate", "clear"]):
            case "start":
                return started(f"t{number}", text)
            case "queue":
                return pending("queued", f"q{number}", text)
            case "steer":
                return pending("steering", f"s{number}", text)
            case "edit" if queue:
                return pending("queued", dice.choice(queue)["id"], text)
            case "remove" if queue:
                name = dice.choice(queue)["id"]
                return {"type": "chat/pendingMessageRemoved", "kind": "queued", "id": name}
            case "order" if queue:
                order = [waiting["id"] for waiting in queue]
                dice.shuffle(order)
                return {"type": "chat/queuedMessagesReordered", "order": order}
            case "stop" if "activeTurn" in state:
                return {"type": "chat/turnCancelled", "turnId": state["activeTurn"]["id"], "duration": 1}
            case "resume" if turns and turns[-1]["state"] == "error":
                return {"type": "chat/turnResume", "turnId": turns[-1]["id"]}
            case "draft":
                return {"type": "chat/draftChanged", "draft": user_message(text)}
            case "truncate" if turns:
                return {"type": "chat/truncated", "turnId": dice.choice(turns)["id"]}
            case "clear" if dice.random() < 0.2:
                return {"type": "chat/truncated"}
        return None


def pending(kind: str, name: str, text: str) -> Json:
    return {"type": "chat/pendingMessageSet", "kind": kind, "id": name, "message": user_message(text)}


def tag(message: Json) -> str:
    """What tells a message from all others."""
    return str(message["text"].rpartition("\n")[2])


def delivered(state: Json) -> list[str]:
    """The tags of all messages that the chat's turns hold, in order, those that went into a turn included."""
    found = []
    running = [state["activeTurn"]] if "activeTurn" in state else []
    for turn in [*state["turns"], *running]:
        found.append(tag(turn["message"]))
        found += [
            tag({"text": part["content"]})
            for part in turn["responseParts"]
            if part["kind"] == "systemNotification"
        ]
    return found


async def still(chat: str, watcher: Window) -> None:
    """Nothing runs, and nothing is about to."""

    def idle() -> bool:
        state = watcher.state(chat)
        return "activeTurn" not in state

    for _ in range(3):
        await watcher.until(idle, "the end of what runs")
        await asyncio.sleep(0.15)


@pytest.mark.parametrize("gentle", [True, False], ids=["each-once", "rewinds-too"])
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_random_histories_converge(server: JupyterServer, seed: int, gentle: bool) -> None:
    dice = random.Random(seed)
    identity = str(uuid.uuid4())
    async with window(server, UI) as watcher:
        await watcher.create("puppet", identity)
        chats = [await watcher.open(f"ahp-session:/{identity}")]
        for _ in range(1):
            chats.append(f"ahp-chat:/{uuid.uuid4()}")
            await watcher.request("createChat", f"ahp-session:/{identity}", chat=chats[-1])
            await watcher.subscribe(chats[-1])
        people = [
            Person(server, kind, kind.session("puppet", identity), chats=chats)
            for kind in (VSCODE_140, VSCODE_141, NEWEST, AHPC)
        ]
        for person in people:
            await person.connect()
        for number in range(150):
            person = dice.choice(people)
            if dice.random() < 0.04:
                await person.break_off()
            chat = dice.choice(chats)
            action = person.choose(dice, chat, number, gentle=gentle)
            if action is not None:
                await person.do(chat, action)
            await asyncio.sleep(dice.choice((0, 0, 0, 0.005, 0.03)))
        for chat in chats:
            await still(chat, watcher)
        for person in people:
            await person.client.request("ping")
            person.settle()
            assert not person.open, f"seed {seed}: never answered: {person.open}"
        for chat in chats:
            check(seed, chat, watcher, people, gentle=gentle)
        for person in people:
            await person.stack.aclose()


def check(seed: int, chat: str, watcher: Window, people: list[Person], *, gentle: bool) -> None:
    state = watcher.state(chat)
    for person in people:
        assert person.client.state(chat) == state, f"seed {seed}: {person.kind.name} has another chat"
    starts = [tag(action["message"]) for action in watcher.actions(chat, "chat/turnStarted")]
    assert len(starts) == len(set(starts)), f"seed {seed}: sent twice: {starts}"
    if not gentle:
        return
    found = delivered(state)
    assert len(found) == len(set(found)), f"seed {seed}: delivered twice: {found}"
    waits = [tag(waiting["message"]) for waiting in state.get("queuedMessages", ())]
    if "steeringMessage" in state:
        waits.append(tag(state["steeringMessage"]["message"]))
    # What was said of the chat by the host, in order: who was put there, and who was taken out by whom.
    wanted: dict[str, str] = {}
    gone: set[str] = set()
    for action in watcher.actions(chat):
        if action["type"] == "chat/pendingMessageSet":
            if action["id"] in wanted:
                gone.add(wanted[action["id"]])
            wanted[action["id"]] = tag(action["message"])
        elif action["type"] == "chat/pendingMessageRemoved" and action["id"] in wanted:
            taken = wanted.pop(action["id"])
            if taken not in found:
                gone.add(taken)
    sent = {tag(action["message"]) for action in watcher.actions(chat, "chat/turnStarted")}
    sent |= {tag(action["message"]) for action in watcher.actions(chat, "chat/pendingMessageSet")}
    assert sent - gone == {*found, *waits} - gone, f"seed {seed}: lost or conjured up"
    assert not gone & {*found, *waits}, f"seed {seed}: delivered though it was taken back or edited"
