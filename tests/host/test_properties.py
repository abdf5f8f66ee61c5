"""Whatever happens in whatever order, everyone who watches holds what the pure reducer makes of it (the one idea)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ahp.host import connection as connection_module
from jupyter_ahp.host import line as line_module
from jupyter_ahp.host.channels import ChatChannel
from jupyter_ahp.host.ports import Json, Prompt, ToolCall, TurnFailed, TurnSink
from jupyter_ahp.host.sink import ChatSink
from jupyter_ahp.protocol.reducers import REDUCERS
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Scripted, WireClient, agree, comparable, message, quiet, started, until

S = "ahp-session:/s"

# ── chunked and plain ────────────────────────────────────────────────────────────────────────────────────────────
_turns = st.sampled_from(["t1", "t2"])
_parts = st.sampled_from(["p1", "p2", "c1"])
_words = st.text("ab😀", max_size=3)


def _action(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


_part = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["markdown", "reasoning"]), "id": _parts, "content": _words}
    ),
    st.fixed_dictionaries({"kind": st.just("systemNotification"), "content": _words}),
)
_message = st.just(message("x"))
_actions = st.lists(
    st.one_of(
        _action("chat/delta", turnId=_turns, partId=_parts, content=_words),
        _action("chat/delta", turnId=_turns, partId=_parts, content=_words),
        _action("chat/reasoning", turnId=_turns, partId=_parts, content=_words),
        _action("chat/responsePart", turnId=_turns, part=_part),
        _action(
            "chat/turnStarted", turnId=_turns, startedAt=st.just("2026-03-01T10:00:00Z"), message=_message
        ),
        _action("chat/turnComplete", turnId=_turns, duration=st.integers(0, 9)),
        _action(
            "chat/error",
            turnId=_turns,
            duration=st.just(1),
            part=st.just({"kind": "error", "resumable": True}),
        ),
        _action("chat/turnResume", turnId=_turns),
        _action("chat/truncated", turnId=st.one_of(st.none(), _turns)),
        _action("chat/toolCallStart", turnId=_turns, toolCallId=_parts, toolName=_words, displayName=_words),
        _action("chat/toolCallReady", turnId=_turns, toolCallId=_parts, invocationMessage=_words),
        _action("chat/draftChanged", draft=st.one_of(st.none(), _message)),
        _action("chat/activityChanged", activity=st.one_of(st.none(), _words)),
        st.just({"type": "(look)"}),
    ),
    max_size=40,
)


@given(_actions)
@settings(deadline=None, max_examples=300)
def test_a_channel_that_keeps_text_in_pieces_is_the_plain_reducer(actions: list[Json]) -> None:
    state: Json = {
        "resource": "ahp-chat:/c",
        "title": "",
        "status": 1,
        "modifiedAt": "2026-03-01T09:00:00Z",
        "turns": [],
    }
    channel = ChatChannel("ahp-chat:/c", state)
    for action in actions:
        if action["type"] == "(look)":
            assert channel.state == state
        else:
            state = REDUCERS["chat"](state, action)
            channel.apply(action)

    assert channel.state == state


# ── many watchers ────────────────────────────────────────────────────────────────────────────────────────────────
class World:
    """A host, one chat, five who watch it in five ways, and what may happen."""

    NAMES = ("direct", "coalesced", "windowed", "slow", "fickle")

    def __init__(self) -> None:
        self.agent = Scripted()
        self.agent.play = self._play
        self.sink: ChatSink | None = None
        self.call: ToolCall | None = None
        self.over = asyncio.Event()
        self.outcome: str = "complete"
        self.away: set[str] = set()
        self.waits: set[asyncio.Task[Any]] = set()
        self.count = 0

    async def begin(self) -> None:
        self.host = await started(MemoryStore(), self.agent)
        self.watchers = {name: WireClient(self.host, client_id=name) for name in self.NAMES}
        for client in self.watchers.values():
            await client.initialize(ROOT)
        self.direct = self.watchers["direct"]
        self.chat = await self.direct.create(S)
        for name, how in (
            ("coalesced", {"delivery": {"maxLatencyMs": 500}}),
            ("windowed", {"view": {"turns": 1}}),
            ("slow", {}),
            ("fickle", {"view": {"turns": 2}, "delivery": {"maxLatencyMs": 500}}),
        ):
            await self.watchers[name].subscribe(S)
            await self.watchers[name].subscribe(self.chat, **how)

    async def _play(self, prompt: Prompt, sink: TurnSink) -> None:
        assert isinstance(sink, ChatSink)
        self.sink, self.call, self.over = sink, None, asyncio.Event()
        await self.over.wait()
        if self.outcome == "fail":
            raise TurnFailed("x", "Broke.", resumable=True)

    @property
    def state(self) -> Json:
        return self.direct.state(self.chat)

    @property
    def running(self) -> str | None:
        """The id of the turn that runs."""
        turn: str | None = self.state.get("activeTurn", {}).get("id")
        return turn

    # What may happen; each does nothing where it cannot.
    async def start(self, number: int) -> None:
        name = self.NAMES[number % 3]
        who = self.watchers["direct" if name in self.away else name]
        self.count += 1
        turn = f"t{self.count}"
        sent = await who.dispatch(
            self.chat,
            "chat/turnStarted",
            turnId=turn,
            startedAt=f"2026-03-01T10:{self.count % 60:02}:00.000Z",
            message=message(f"go {self.count}"),
        )
        await until(lambda: sent not in who.pending)
        if self.running == turn:
            await self._handed(turn)

    async def _handed(self, turn: str) -> None:
        """The agent has it."""
        await until(lambda: self.sink is not None and self.sink.turn_id == turn and not self.sink.over)

    async def queue(self, number: int) -> None:
        waiting = [entry["id"] for entry in self.state.get("queuedMessages", ())]
        match number % 4:
            case 0 | 1:
                self.count += 1
                fields: Json = {
                    "kind": "queued",
                    "id": f"q{self.count}",
                    "message": message(f"queued {self.count}"),
                }
                await self.direct.do(self.chat, "chat/pendingMessageSet", **fields)
            case 2:
                await self.direct.do(self.chat, "chat/queuedMessagesReordered", order=waiting[::-1])
            case 3:
                gone = waiting[number % len(waiting)] if waiting else "none"
                await self.direct.do(self.chat, "chat/pendingMessageRemoved", kind="queued", id=gone)

    async def say(self, number: int) -> None:
        sink = self.sink
        if sink is None:
            return
        match number % 9:
            case 0 | 1 | 2:
                sink.markdown("word " * (number % 7 + 1))
            case 3:
                sink.reasoning("hm ")
            case 4:
                sink.notice("n" * (number * 10))
            case 5:
                sink.activity(f"a{number}")
            case 6 if not sink.over:
                self.call = sink.tool("t", title="T")
                self.call.input("{}")
                if number > 20:
                    self._wait(self.call.confirm("Do", title="Do?"))
                else:
                    self.call.run("Doing")
            case 7 if self.call is not None:
                self.call.done("Did", content=[{"type": "text", "text": "x" * number}])
            case 8 if not sink.over:
                self._wait(sink.ask("Why?", [{"id": "q", "kind": "text", "message": "Why?"}]))
        await asyncio.sleep(0)

    def _wait(self, waiting: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(waiting)
        self.waits.add(task)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def end(self, number: int) -> None:
        turn = self.running
        if turn is not None:
            await self._handed(turn)
            self.outcome = "fail" if number % 3 == 0 else "complete"
            self.over.set()
            await until(lambda: self.running != turn)

    async def stop(self, number: int) -> None:
        if self.running is not None:
            await self.direct.do(self.chat, "chat/turnCancelled", turnId=self.running, duration=number)

    async def resume(self, number: int) -> None:
        if self.state["turns"]:
            turn = self.state["turns"][-1]["id"]
            echo = await self.direct.do(self.chat, "chat/turnResume", turnId=turn)
            if "rejectionReason" not in echo:
                await self._handed(turn)

    async def burst(self, number: int) -> None:
        """Text, with something of the session's between."""
        if self.sink is not None:
            self.sink.markdown("long " * 100 * (number % 5))
            for index in range(number % 4):
                self.sink.markdown(f"before {index} ")
                await self.direct.do(
                    S, "session/titleChanged", title=f"between {self.count} {number} {index}"
                )
                self.sink.markdown(f"after {index} ")

    async def turn(self, number: int) -> None:
        """A whole turn."""
        await self.start(number)
        await self.say(number)
        await self.end(1)

    async def rewind(self, number: int) -> None:
        turns = self.state["turns"]
        if number % 8 > 3 and len(turns) < 8:
            return
        keep = {"turnId": turns[number % len(turns)]["id"]} if turns and number % 4 else {}
        await self.direct.do(self.chat, "chat/truncated", **keep)

    async def answer(self, number: int) -> None:
        parts = self.state.get("activeTurn", {}).get("responseParts", ())
        for part in parts:
            if part["kind"] == "inputRequest" and "response" not in part:
                request = part["request"]["id"]
                await self.direct.do(self.chat, "chat/inputCompleted", requestId=request, response="decline")
                return
            call = part.get("toolCall", {})
            if call.get("status") == "pending-confirmation":
                turn, call_id = self.state["activeTurn"]["id"], call["toolCallId"]
                yes: Json = {"approved": True, "confirmed": "user-action"}
                how = yes if number % 2 else {"approved": False, "reason": "denied"}
                await self.direct.do(
                    self.chat, "chat/toolCallConfirmed", turnId=turn, toolCallId=call_id, **how
                )
                return

    async def change(self, number: int) -> None:
        match number % 4:
            case 0:
                await self.direct.do(S, "session/titleChanged", title=f"title {number}")
            case 1:
                await self.direct.do(self.chat, "chat/draftChanged", draft=message(f"draft {number}"))
            case 2:
                await self.direct.do(self.chat, "chat/isReadChanged", isRead=number % 8 > 3)
            case 3:
                me: Json = {"clientId": "direct", "tools": [{"name": f"t{number}"}]}
                await self.direct.dispatch(S, "session/activeClientSet", activeClient=me)

    async def fetch(self, number: int) -> None:
        windowed = self.watchers["windowed"]
        cursor = windowed.state(self.chat).get("turnsNextCursor") if self.chat in windowed.mirrors else None
        if cursor is not None and "windowed" not in self.away:
            await windowed.request("fetchTurns", channel=self.chat, cursor=cursor)

    async def leave(self, number: int) -> None:
        name = self.NAMES[1 + number % 4]
        if name not in self.away:
            self.away.add(name)
            await self.watchers[name].drop()

    async def back(self, number: int) -> None:
        for name in sorted(self.away):
            await self.watchers[name].reconnect()
            self.away.discard(name)

    async def stall(self, number: int) -> None:
        if "slow" not in self.away:
            self.watchers["slow"].wire.stalled = True

    async def trickle(self, number: int) -> None:
        if "slow" not in self.away:
            self.watchers["slow"].wire.pass_on(number % 9)

    async def resubscribe(self, number: int) -> None:
        name = self.NAMES[1 + number % 2]
        if name not in self.away:
            how: list[Json] = [{}, {"view": {"turns": number % 3}}, {"delivery": {"maxLatencyMs": 500}}]
            await self.watchers[name].subscribe(self.chat, **how[number % 3])

    async def check(self) -> None:
        """Everyone comes back, everything is passed on: all hold the same."""
        slow = self.watchers["slow"]
        slow.wire.stalled = False
        slow.wire.pass_on()
        if slow.wire.closed is not None and "slow" not in self.away:
            self.away.add("slow")
            await slow.drop()
        await self.back(0)
        await asyncio.sleep(0)
        for client in self.watchers.values():
            client.connection.release()
        pure = comparable("chat", self.state)
        for name in ("coalesced", "slow"):
            held = comparable("chat", self.watchers[name].state(self.chat))
            turns = held["turns"]
            assert held == {**pure, "turns": pure["turns"][len(pure["turns"]) - len(turns) :]}, name
        await agree(self.host, *self.watchers.values())

    async def finish(self) -> None:
        for entry in self.state.get("queuedMessages", ()):
            fields: Json = {"kind": "queued", "id": entry["id"], "_meta": {"jupyter-ahp.hold": True}}
            await self.direct.do(self.chat, "chat/pendingMessageRemoved", **fields)
        await self.check()
        while self.running is not None:
            await self.end(1)
        await quiet(self.host)
        await self.check()
        channel = self.host.sessions["s"].chats[self.chat].channel
        assert channel is not None
        stored = await self.host.store.load_chat("s", self.chat)
        assert stored.turns == channel.state["turns"]
        assert stored.active is None
        for client in self.watchers.values():
            await client.drop()
        assert not channel.watched
        assert channel._held == {}
        assert channel._begins == {}
        await self.host.stop()
        await asyncio.gather(*self.waits, return_exceptions=True)


OPERATIONS: tuple[Callable[[World, int], Awaitable[None]], ...] = (
    World.start,
    World.turn,
    World.turn,
    World.turn,
    World.say,
    World.say,
    World.say,
    World.say,
    World.say,
    World.say,
    World.burst,
    World.burst,
    World.end,
    World.stop,
    World.resume,
    World.rewind,
    World.answer,
    World.answer,
    World.answer,
    World.change,
    World.queue,
    World.queue,
    World.fetch,
    World.fetch,
    World.leave,
    World.back,
    World.stall,
    World.stall,
    World.trickle,
    World.resubscribe,
)
_steps = st.lists(
    st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 40)),
    min_size=10,
    max_size=90,
)


async def _live(steps: list[tuple[int, int]]) -> None:
    world = World()
    await world.begin()
    try:
        await world.start(0)
        for at, (operation, number) in enumerate(steps):
            await OPERATIONS[operation](world, number)
            if at % 15 == 14:
                await world.check()
        await world.finish()
    finally:
        with contextlib.suppress(Exception):  # what failed is what is told
            await world.host.stop()


@given(_steps)
@settings(deadline=None, max_examples=60)
def test_every_watcher_holds_what_the_pure_reducer_makes_of_it(steps: list[tuple[int, int]]) -> None:
    with (
        mock.patch.object(connection_module, "SOFT_LIMIT", 1_500),
        mock.patch.object(connection_module, "HARD_LIMIT", 12_000),
        mock.patch.object(line_module, "_GRACE", 0.2),
    ):
        asyncio.run(_live(steps))
