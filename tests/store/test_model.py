"""Any sequence of calls, restarts and crashes: both stores hold what a plain model of the contract holds."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from jupyter_ahp.host.ports import ChatRecord, Json, StoredChat
from jupyter_ahp.store.files import FileStore
from jupyter_ahp.store.memory import MemoryStore

from .samples import active, delta, encoded, ended

T = TypeVar("T")
CHATS = [("s1", "ahp-chat:/1"), ("s1", "ahp-chat:/2"), ("s2", "ahp-chat:/1")]
IDS = [f"t{number}" for number in range(5)]
chats = st.sampled_from(CHATS)
turn_ids = st.sampled_from(IDS)
texts = st.text(max_size=8)


class Model:
    """The contract, said as plainly as can be."""

    def __init__(self) -> None:
        self.chats = {key: StoredChat(ChatRecord(key[1]), []) for key in CHATS}
        self.points: dict[tuple[str, str], list[str | None]] = {key: [] for key in CHATS}
        """Beside each turn."""
        self.active_point: dict[tuple[str, str], str | None] = dict.fromkeys(CHATS)
        self.running: set[tuple[str, str]] = set()
        """Where a turn was begun since the last start."""

    def expected(self, key: tuple[str, str]) -> StoredChat:
        kept = self.chats[key]
        turns = list(kept.turns)
        if kept.active and turns and turns[-1]["id"] == kept.active["id"]:
            turns.pop()
        points = {
            turn["id"]: point
            for turn, point in zip(turns, self.points[key], strict=False)
            if point is not None
        }
        if kept.active and (said := self.active_point[key]) is not None:
            points[kept.active["id"]] = said
        return StoredChat(kept.record, turns, kept.active, list(kept.active_actions), points)

    def begin(self, key: tuple[str, str], turn: Json) -> None:
        self.running.add(key)
        self.active_point[key] = None
        self.chats[key].active = turn
        self.chats[key].active_actions = []

    def journal(self, key: tuple[str, str], action: Json) -> None:
        if key in self.running:
            self.chats[key].active_actions.append(action)

    def end(self, key: tuple[str, str], turn: Json) -> None:
        kept = self.chats[key]
        if kept.turns and kept.turns[-1]["id"] == turn["id"]:
            kept.turns.pop()
            self.points[key].pop()
        ran = kept.active is not None and kept.active["id"] == turn["id"]
        kept.turns.append(turn)
        self.points[key].append(self.active_point[key] if ran else None)
        if ran:
            kept.active = None
            kept.active_actions = []
            self.running.discard(key)

    def point(self, key: tuple[str, str], turn_id: str, point: str) -> None:
        kept = self.chats[key]
        if key in self.running and kept.active and kept.active["id"] == turn_id:
            self.active_point[key] = point
            return
        there = [at for at, turn in enumerate(kept.turns) if turn["id"] == turn_id]
        if there:
            self.points[key][there[-1]] = point

    def truncate(self, key: tuple[str, str], keep: str | None) -> None:
        turns = self.chats[key].turns
        ids = [turn["id"] for turn in turns]
        if keep is None:
            turns.clear()
            self.points[key].clear()
        elif keep in ids:
            last = len(ids) - 1 - ids[::-1].index(keep)
            del turns[last + 1 :], self.points[key][last + 1 :]


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="ahp-store-"))
        self.generation = 0
        self.model = Model()
        self.files = FileStore(self.root / "0")
        self.memory = MemoryStore()
        self.run(self.files.open())
        self.run(self.memory.open())

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    def both(self, name: str, *args: Any) -> None:
        async def call() -> None:
            for store in (self.files, self.memory):
                result = getattr(store, name)(*args)
                if result is not None:
                    await result

        self.run(call())

    @rule(key=chats, turn_id=turn_ids, text=texts)
    def begin(self, key: tuple[str, str], turn_id: str, text: str) -> None:
        self.model.begin(key, active(turn_id, text))
        self.both("begin_turn", *key, active(turn_id, text))

    @rule(key=chats)
    def resume(self, key: tuple[str, str]) -> None:
        if turns := self.model.chats[key].turns:
            self.begin(key, turns[-1]["id"], "again")

    @rule(key=chats, numbers=st.lists(st.integers(0, 99), min_size=1, max_size=5))
    def journal(self, key: tuple[str, str], numbers: list[int]) -> None:
        for number in numbers:
            self.model.journal(key, delta("t", number))
            self.both("journal", *key, encoded(delta("t", number)))

    @rule(key=chats, answer=texts)
    def end(self, key: tuple[str, str], answer: str) -> None:
        if running := self.model.chats[key].active:
            self.end_late(key, running["id"], answer)

    @rule(key=chats, turn_id=turn_ids, answer=texts)
    def end_late(self, key: tuple[str, str], turn_id: str, answer: str) -> None:
        self.model.end(key, ended(turn_id, answer=answer))
        self.both("end_turn", *key, ended(turn_id, answer=answer))

    @rule(key=chats, turn_id=turn_ids, point=texts)
    def say_where_a_turn_ended(self, key: tuple[str, str], turn_id: str, point: str) -> None:
        self.model.point(key, turn_id, point)
        self.both("put_point", *key, turn_id, point)

    @rule(key=chats, points=st.dictionaries(st.sampled_from(["p1", "p2"]), texts))
    def put_turns(self, key: tuple[str, str], points: dict[str, str]) -> None:
        kept = self.model.chats[key]
        if {"p1", "p2"} & {turn["id"] for turn in kept.turns}:
            return
        turns = [ended("p1"), ended("p2")]
        kept.turns += turns
        self.model.points[key] += [points.get("p1"), points.get("p2")]
        self.both("put_turns", *key, turns, points)

    @rule(key=chats, keep=st.none() | turn_ids | st.just("p1"))
    def truncate(self, key: tuple[str, str], keep: str | None) -> None:
        if keep is None or any(turn["id"] == keep for turn in self.model.chats[key].turns):
            self.model.truncate(key, keep)
            self.both("truncate", *key, keep)

    @rule(key=chats, text=texts)
    def put(self, key: tuple[str, str], text: str) -> None:
        record = ChatRecord(
            key[1], draft={"text": text}, memory=text or None, at=text or None, fork=bool(text)
        )
        self.model.chats[key].record = record
        self.both("put_chat", key[0], record)

    @rule(key=chats)
    def delete(self, key: tuple[str, str]) -> None:
        self.model.chats[key] = StoredChat(ChatRecord(key[1]), [])
        self.model.points[key], self.model.active_point[key] = [], None
        self.model.running.discard(key)
        self.both("delete_chat", *key)

    @rule()
    def restart(self) -> None:
        self.run(self.files.close())
        self.start_again()

    def start_again(self) -> None:
        self.files = FileStore(self.root / str(self.generation))
        self.run(self.files.open())
        self.run(self.memory.close())
        self.run(self.memory.open())
        self.model.running.clear()

    @rule(torn=st.sampled_from([b"", b'{"turn":{"id":"t0"', b"\0\0"]))
    def crash(self, torn: bytes) -> None:
        """The files as they are now, without anything that closing would write; perhaps with half a line more."""
        for key in CHATS:
            self.run(self.files.load_chat(*key))  # what was journalled is written
        before, self.generation = self.root / str(self.generation), self.generation + 1
        shutil.copytree(before, self.root / str(self.generation))
        for path in (self.root / str(self.generation)).rglob("*.jsonl"):
            with path.open("ab") as file:
                file.write(torn)
        self.run(self.files.close())
        self.start_again()

    @invariant()
    def all_hold_the_same(self) -> None:
        for key in CHATS:
            expected = self.model.expected(key)
            loaded = self.run(self.files.load_chat(*key))
            loaded.problems.clear()  # of torn lines
            assert loaded == expected
            assert self.run(self.memory.load_chat(*key)) == expected

    def teardown(self) -> None:
        self.run(self.files.close())
        self.runner.close()
        shutil.rmtree(self.root)


def test_any_sequence_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is said here is about contents; a wait for the disk at each step would only make it slow.
    monkeypatch.setattr("os.fsync", lambda descriptor: None)

    run_state_machine_as_test(
        StoreMachine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None)
    )
