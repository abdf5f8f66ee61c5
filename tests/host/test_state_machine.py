"""Q, G, T, X, S and restarts, all at once: whatever people, agents, networks and crashes do, in whatever order,

*every message a person submitted is delivered exactly once, visible as pending, or was refused with a reason; order is
kept; nothing runs that was taken back.*

A hypothesis state machine over a `World`: a real host, its files and five clients in simulated time, so that a seed is
a run. What it found is below it, each as the shortest story, by its rule.

    JUPYTER_AHP_SEED    the seed of a run that failed, as it was printed
    JUPYTER_AHP_STEPS   how many steps; 10,000 in CI, else 1,000
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from jupyter_ahp.host.ports import Json
from jupyter_ahp.host.saver import Saver
from tests.host.chat_world import World

STEPS = int(os.environ.get("JUPYTER_AHP_STEPS") or (10_000 if os.environ.get("CI") else 1_000))
STEPS_OF_ONE = 50
"""Steps of one history, behind which a new world begins."""

WHO = st.integers(0, 4)
CHAT = st.sampled_from([0, 0, 0, 1, 2])
WHICH = st.integers(0, 7)
PACE = st.sampled_from([0.0, 0.0, 0.002, 0.02, 0.2])
"""Seconds until the next thing happens."""
FLAG = st.booleans()
SELDOM = st.integers(0, 7).map(lambda number: number == 7)
MOSTLY = st.sampled_from([True, True, True, False])
WORDS = ["say", "read", "read", "done", "use", "fail", "resumable", "break"]
DEEDS = [
    "queue",
    "steer",
    "stop",
    "take_back",
    "edit",
    "start",
    "rewind",
    "resume",
    "send_on",
    "reorder",
    "late",
]


class Chats(RuleBasedStateMachine):
    """Each rule is something that happens, and a while after it in which more may."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.sound = False
        """It began, and nothing is wrong yet."""

    def live(self, coroutine: Coroutine[Any, Any, None], pace: float = 0) -> None:
        async def step() -> None:
            await coroutine
            if pace:
                await asyncio.sleep(pace)

        self.sound = False
        self.world.loop.run_until_complete(step())
        assert not self.world.problems, "\n".join(self.world.problems)
        self.sound = True

    @initialize(disk=st.integers(0, 2**16))
    def begin(self, disk: int) -> None:
        self.world.open(random.Random(disk))
        self.sound = True

    def teardown(self) -> None:
        try:
            if self.sound:
                self.live(self.world.everyone_rests())
                self.live(self.world.end())
        finally:
            self.world.close()

    @rule(who=WHO, chat=CHAT, hold=SELDOM, lost=SELDOM, pace=PACE)
    def queue(self, who: int, chat: int, hold: bool, lost: bool, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.queue(self.world.person(who, uri), uri, hold=hold, lost=lost), pace)

    @rule(who=WHO, chat=CHAT, lost=SELDOM, pace=PACE)
    def steer(self, who: int, chat: int, lost: bool, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.steer(self.world.person(who, uri), uri, lost=lost), pace)

    @rule(who=WHO, chat=CHAT, which=WHICH, hold=FLAG, pace=PACE)
    def edit(self, who: int, chat: int, which: int, hold: bool, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.edit(self.world.person(who, uri), uri, which, hold=hold), pace)

    @rule(who=WHO, chat=CHAT, pace=PACE)
    def say_again(self, who: int, chat: int, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.say_again(self.world.person(who, uri), uri), pace)

    @rule(who=WHO, chat=CHAT, which=WHICH, hold=FLAG, lost=SELDOM, pace=PACE)
    def take_back(self, who: int, chat: int, which: int, hold: bool, lost: bool, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.take_back(self.world.person(who, uri), uri, which, hold=hold, lost=lost), pace)

    @rule(who=WHO, chat=CHAT, which=WHICH, hold=FLAG, pace=PACE)
    def reorder(self, who: int, chat: int, which: int, hold: bool, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.reorder(self.world.person(who, uri), uri, which, hold=hold), pace)

    @rule(who=WHO, chat=CHAT, lost=SELDOM, pace=PACE)
    def start(self, who: int, chat: int, lost: bool, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.start(self.world.person(who, uri), uri, lost=lost), pace)

    @rule(who=WHO, chat=CHAT, which=WHICH, pace=PACE)
    def send_on(self, who: int, chat: int, which: int, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.send_on(self.world.person(who, uri), uri, which), pace)

    @rule(who=WHO, chat=CHAT, pace=PACE)
    def stop(self, who: int, chat: int, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.stop(self.world.person(who, uri), uri), pace)

    @rule(who=WHO, chat=CHAT, pace=PACE)
    def resume(self, who: int, chat: int, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.resume(self.world.person(who, uri), uri), pace)

    @rule(who=WHO, chat=CHAT, which=WHICH, lost=SELDOM, pace=PACE)
    def rewind(self, who: int, chat: int, which: int, lost: bool, pace: float) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.rewind(self.world.person(who, uri), uri, which, lost=lost), pace)

    @rule(who=WHO, chat=CHAT, which=WHICH, pace=PACE)
    def edit_and_resend(self, who: int, chat: int, which: int, pace: float) -> None:
        uri = self.world.chat(chat)
        person = self.world.person(who, uri)
        self.live(self.world.rewind(person, uri, which))
        self.live(self.world.start(person, uri), pace)

    @rule(chat=CHAT, pace=PACE)
    def undo(self, chat: int, pace: float) -> None:
        self.live(self.world.undo(self.world.direct, self.world.chat(chat)), pace)

    @rule(chat=CHAT, which=WHICH, kind=st.sampled_from(["fork", "fork", "sideChat"]), pace=PACE)
    def branch(self, chat: int, which: int, kind: str, pace: float) -> None:
        self.live(self.world.branch(self.world.chat(chat), which, kind), pace)

    @rule(chat=CHAT, words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), pace=PACE)
    def agent_does(self, chat: int, words: list[str], pace: float) -> None:
        self.live(self.world.agent_does(self.world.chat(chat), *words), pace)

    @rule(chat=CHAT, pace=PACE)
    def agent_begins(self, chat: int, pace: float) -> None:
        self.live(self.world.agent_begins(self.world.chat(chat)), pace)

    @rule(chat=CHAT, pace=PACE)
    def turn_completes(self, chat: int, pace: float) -> None:
        self.live(self.world.agent_does(self.world.chat(chat), "say", "done"), pace)

    @rule(who=WHO, chat=CHAT)
    def whole_turn(self, who: int, chat: int) -> None:
        uri = self.world.chat(chat)
        self.live(self.world.start(self.world.person(who, uri), uri), 0.5)
        self.live(self.world.agent_does(uri, "say", "done"), 0.1)

    @rule(
        who=WHO,
        chat=CHAT,
        begins=st.sampled_from(["", "a turn", "a steered turn"]),
        deeds=st.lists(st.sampled_from(DEEDS + WORDS), min_size=1, max_size=4),
        which=WHICH,
        pace=PACE,
        crash=SELDOM,
    )
    def at_once(
        self, who: int, chat: int, begins: str, deeds: list[str], which: int, pace: float, crash: bool
    ) -> None:
        """Several things in one moment, and perhaps the last ones of this process."""
        uri = self.world.chat(chat)
        person = self.world.person(who, uri)
        if begins:
            self.live(self.world.start(person, uri), 0.5)
        if begins == "a steered turn":
            self.live(self.world.steer(person, uri), 0.5)
        self.live(self.world.burst(person, uri, deeds, which), pace)
        if crash:
            self.live(self.world.restart(crash=True))

    @rule(open_to_steering=MOSTLY, gives_back=MOSTLY, slowness=st.sampled_from([0.0, 0.01, 0.3]))
    def agent_is(self, open_to_steering: bool, gives_back: bool, slowness: float) -> None:
        self.live(self.world.agent_is(open_to_steering, gives_back, slowness))

    @rule(who=WHO, pace=PACE)
    def leave(self, who: int, pace: float) -> None:
        self.live(self.world.leave(self.world.person(who)), pace)

    @rule(pace=PACE)
    def come_back(self, pace: float) -> None:
        self.live(self.world.come_back(), pace)

    @rule(who=WHO, chat=CHAT, which=WHICH, view=st.integers(0, 1))
    def rewind_unseen(self, who: int, chat: int, which: int, view: int) -> None:
        """While somebody is away who had not been given every turn."""
        uri = self.world.chat(chat)
        person = self.world.person(who, uri)
        if person.can_ask and person is not self.world.direct:
            self.live(self.world.look_anew(person, uri, view))
            self.live(self.world.leave(person))
            self.live(self.world.rewind(self.world.direct, uri, which), 0.2)
            self.live(self.world.come_back())

    @rule(who=WHO, pace=PACE)
    def repeat(self, who: int, pace: float) -> None:
        self.live(self.world.person(who).repeat(), pace)

    @rule(stalled=FLAG)
    def stall(self, stalled: bool) -> None:
        self.live(self.world.stall(stalled))

    @rule(frames=WHICH)
    def trickle(self, frames: int) -> None:
        self.live(self.world.trickle(frames))

    @rule(chat=CHAT)
    def fetch(self, chat: int) -> None:
        self.live(self.world.fetch(self.world.chat(chat)))

    @rule(how=st.sampled_from(["not", "not", "well", "crash"]), pace=PACE)
    def restart(self, how: str, pace: float) -> None:
        if how != "not":
            self.live(self.world.restart(crash=how == "crash"), pace)

    @rule()
    def rest(self) -> None:
        self.live(self.world.rest())


def test_every_message_is_delivered_once_or_waits_or_was_refused() -> None:
    number = int(os.environ.get("JUPYTER_AHP_SEED") or random.SystemRandom().randrange(2**32))
    try:
        run_state_machine_as_test(
            seed(number)(Chats),
            settings=settings(
                max_examples=max(1, STEPS // STEPS_OF_ONE),
                stateful_step_count=STEPS_OF_ONE,
                deadline=None,
                database=None,
                derandomize=False,
                report_multiple_bugs=False,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
    except BaseException as error:
        error.add_note(f"The same run again: JUPYTER_AHP_SEED={number} JUPYTER_AHP_STEPS={STEPS}")
        raise


# ── What it found ────────────────────────────────────────────────────────────────────────────────────────────────
class Story:
    """A world with one chat, one step after another; at the end nothing may be wrong with it."""

    def __init__(self) -> None:
        self.world = World()
        self.world.open(random.Random(0))
        self.chat = self.world.chat(0)
        self.person = self.world.direct

    def at_once(self, *steps: Coroutine[Any, Any, None]) -> None:
        """Nothing else happens between these."""

        async def all_of_it() -> None:
            for step in steps:
                await step

        self.world.loop.run_until_complete(all_of_it())

    def rest(self) -> None:
        self.at_once(self.world.rest())

    def turn(self, *words: str) -> None:
        """A turn in which the agent does this."""
        self.at_once(self.world.start(self.person, self.chat), asyncio.sleep(1))
        self.at_once(self.world.agent_does(self.chat, *words), asyncio.sleep(1))

    @property
    def state(self) -> Json:
        return self.person.state(self.chat)

    @property
    def waiting(self) -> list[str]:
        queued = [entry["id"] for entry in self.state.get("queuedMessages", ())]
        return [*([self.state["steeringMessage"]["id"]] if "steeringMessage" in self.state else []), *queued]


async def test_D2_what_changes_just_before_a_flush_does_not_keep_later_changes_from_being_saved() -> None:
    saved: list[int] = []
    count = 0

    async def write() -> None:
        saved.append(count)

    saver = Saver("It", write)
    saver.soon()
    await saver.flush()
    count = 1
    saver.soon()
    await asyncio.sleep(0.3)

    assert saved == [0, 1]


@pytest.fixture
def story() -> Iterator[Story]:
    story = Story()
    try:
        yield story
        story.at_once(story.world.everyone_rests(), story.world.end())
        assert not story.world.problems, "\n".join(story.world.problems)
    finally:
        story.world.close()


def test_Q4_a_message_queued_just_before_a_stop_waits(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.queue(person, chat), world.stop(person, chat))
    story.rest()

    assert "activeTurn" not in story.state
    assert len(story.waiting) == 1


def test_G3_what_a_dropped_turn_reported_starts_no_steering(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.agent_is(False, True, 0.0), world.steer(person, chat), asyncio.sleep(1))
    story.at_once(world.rewind(person, chat, 7), world.agent_does(chat, "say"))
    story.rest()

    assert "activeTurn" not in story.state
    assert len(story.waiting) == 1


def test_X1_a_message_whose_turn_was_rewound_does_not_wait_again_behind_a_crash(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.queue(person, chat), world.agent_does(chat, "done"), asyncio.sleep(0.1))
    assert "activeTurn" in story.state
    story.at_once(world.rewind(person, chat, 7), asyncio.sleep(0.05))
    assert story.state["turns"] == []
    story.at_once(world.restart(crash=True))

    assert story.waiting == []


def test_X1_what_was_cut_can_come_back_behind_a_crash_and_only_once(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    for _ in range(3):
        story.turn("say", "done")
    before = story.state["turns"]
    for which in (1, 0):  # two rewinds
        story.at_once(world.rewind(person, chat, which), asyncio.sleep(0.2))
    story.at_once(world.restart(crash=True), world.undo(person, chat))
    assert story.state["turns"] == before
    story.at_once(world.restart(crash=True))
    assert "jupyter-ahp.undo" not in story.state.get("_meta", {})
    story.at_once(world.undo(person, chat))

    assert story.state["turns"] == before


def test_X1_what_was_cut_does_not_come_back_behind_a_turn_and_a_crash(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    for _ in range(2):
        story.turn("say", "done")
    story.at_once(world.rewind(person, chat, 0), asyncio.sleep(1))
    story.at_once(world.start(person, chat), asyncio.sleep(0.1))
    assert "activeTurn" in story.state
    story.at_once(world.restart(crash=True))

    assert "jupyter-ahp.undo" not in story.state.get("_meta", {})


def test_G6_steering_that_went_with_a_stop_does_not_wait_again_behind_a_crash(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.steer(person, chat), asyncio.sleep(1))
    story.at_once(world.stop(person, chat), asyncio.sleep(0.05))
    assert story.waiting == []
    story.at_once(world.restart(crash=True))

    assert story.waiting == []


def test_G6_a_turn_that_ends_while_its_stop_is_written_runs_its_steering_next(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.agent_is(False, True, 0.0), world.steer(person, chat), asyncio.sleep(1))
    [name] = story.waiting
    story.at_once(world.stop(person, chat), world.agent_does(chat, "done"))
    story.rest()

    ended = [turn["state"] for turn in story.state["turns"]]
    started = (
        story.state.get("activeTurn", {}).get("message", {}).get("_meta", {}).get("jupyter-ahp.pendingId")
    )
    assert (ended, started) in ((["complete"], name), (["cancelled"], None)), (
        "one or the other, and not half of each"
    )


def test_M3_who_begins_to_watch_while_a_rewind_is_written_is_shown_the_turn_that_it_names(
    story: Story,
) -> None:
    world, person, chat = story.world, story.person, story.chat
    for _ in range(3):
        story.turn("say", "done")
    late = world.people["windowed"]
    story.at_once(world.leave(late))
    story.at_once(world.rewind(person, chat, 0), asyncio.sleep(0), world.come_back())
    story.rest()

    assert [turn["id"] for turn in late.state(chat)["turns"]] == [story.state["turns"][0]["id"]]


def test_Q1_an_edit_of_what_was_sent_is_refused_while_its_turn_can_come_back(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.at_once(world.queue(person, chat), asyncio.sleep(1))
    story.at_once(world.rewind(person, chat, 7), asyncio.sleep(1))
    story.at_once(world.edit(person, chat, 7), asyncio.sleep(1))

    [refusal] = person.refusals
    assert refusal["rejectionReason"] == "This message was sent already. What was sent cannot be changed."


def test_G5_steering_that_is_read_while_it_is_sent_again_is_delivered_once(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.steer(person, chat), asyncio.sleep(1))
    story.at_once(world.say_again(person, chat), world.agent_does(chat, "read"))
    story.rest()

    assert story.waiting == []
    [refusal] = person.refusals
    assert refusal["rejectionReason"] == "This message was sent already. What was sent cannot be changed."


def test_G6_steering_that_is_stopped_while_it_is_written_is_refused(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.steer(person, chat), asyncio.sleep(0), world.stop(person, chat))
    story.rest()

    assert story.waiting == []
    assert "activeTurn" not in story.state
    [refusal] = person.refusals
    assert refusal["rejectionReason"].startswith("The turn that this was to steer was stopped.")


def test_Q2_a_message_that_is_written_while_its_turn_completes_is_started(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.queue(person, chat), world.agent_does(chat, "done"))
    story.rest()

    assert story.waiting == []
    assert "activeTurn" in story.state


def test_M3_a_rewind_to_a_turn_that_one_who_was_away_had_not_been_given_is_a_snapshot(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    for _ in range(3):
        story.turn("say", "done")
    away = world.people["windowed"]
    story.at_once(world.look_anew(away, chat, 1), world.leave(away))
    story.at_once(world.rewind(person, chat, 0), asyncio.sleep(1), world.come_back())

    assert away.state(chat)["turns"] == story.state["turns"]


def test_Q1_a_message_that_is_written_while_a_stop_takes_steering_out_is_on_the_disk(story: Story) -> None:
    world, person, chat = story.world, story.person, story.chat
    story.turn()
    story.at_once(world.steer(person, chat), asyncio.sleep(1))
    story.at_once(world.queue(person, chat), asyncio.sleep(0), world.stop(person, chat), asyncio.sleep(1))
    [name] = story.waiting
    story.at_once(world.restart(crash=True))

    assert story.waiting == [name]
