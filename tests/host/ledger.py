"""What became of every message that a person submitted, kept by somebody who sees only what the host says.

The rule of Q and G that all others serve: a message is delivered exactly once, or is visible as pending, or was refused
with a reason, or was taken back by a person, and then it never runs. Rules are looked at as each action comes; a breach
is put down in `problems`, since an error raised here would be the host's to catch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from jupyter_ahp.host.ports import Json

Fate: TypeAlias = Literal[
    "sent",  # and no word of it yet
    "refused",
    "waits",
    "ran",  # as a turn of its own
    "read",  # by the model, in a turn
    "taken back",
    "replaced",  # by an edit
    "stopped",  # steering that went with a stop (G6)
    "copied",  # into a fork, in a turn
]
_MOVES: dict[Fate, set[Fate]] = {
    "sent": {"refused", "waits", "ran"},
    "waits": {"ran", "read", "taken back", "replaced", "stopped"},
}
Start: TypeAlias = Literal["must", "may", "steering", "no"]
"""Whether the host has to start what waits (Q2, Q4), may, has to if it is steering (G3), or must not."""

STEERING = "jupyter-ahp.steering"
HOLD = "jupyter-ahp.hold"
_TOUCHING = ("chat/pendingMessageSet", "chat/pendingMessageRemoved", "chat/queuedMessagesReordered")


def resumable(state: Json) -> bool:
    """Whether the chat's last turn failed in a way that can be resumed."""
    turns = state["turns"]
    if not turns or turns[-1]["state"] != "error":
        return False
    return bool(turns[-1]["responseParts"][-1].get("resumable"))


def waiting(state: Json) -> list[Json]:
    """What waits, in the order in which it is to go."""
    steering = [state["steeringMessage"]] if "steeringMessage" in state else []
    return [*steering, *state.get("queuedMessages", ())]


def turns_of(state: Json) -> list[Json]:
    """The ended turns and the one that runs."""
    return [*state["turns"], *([state["activeTurn"]] if "activeTurn" in state else [])]


def read_in(turn: Json) -> list[Json]:
    """The steering messages that were read in a turn."""
    found = [part.get("_meta", {}).get(STEERING) for part in turn["responseParts"]]
    return [message for message in found if message is not None]


def is_duration(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) and value >= 0


@dataclass
class Ledger:
    """Of one chat."""

    chat: str
    problems: list[str] = field(default_factory=list)
    fates: dict[str, Fate] = field(default_factory=dict)
    """By the message's text, which is its own."""
    again: set[str] = field(default_factory=set)
    """Messages that were submitted more than once."""
    names: dict[str, str] = field(default_factory=dict)
    """The id under which a message was submitted, by its text."""
    delivered: dict[str, str] = field(default_factory=dict)
    """The turn that a message became or was read in, by the id under which it had waited."""
    turns: dict[str, str] = field(default_factory=dict)
    """The text of each turn's message, by the turn's id."""
    cut: list[str] = field(default_factory=list)
    """Turns that can be brought back."""
    late: dict[str, bool] = field(default_factory=dict)
    """Whether each turn that its agent began by itself was opened, by its text."""
    start: Start = "no"
    returning: bool = False
    stopped: str | None = None
    """Steering whose removal has to be the next that is said (G6)."""
    stops: dict[str, str] = field(default_factory=dict)
    """The turn whose stop took out a message, by the message's text."""

    def wrong(self, words: str) -> None:
        self.problems.append(f"{self.chat}: {words}")

    def check(self, holds: object, words: str) -> None:
        if not holds:
            self.wrong(words)

    def move(self, text: str, fate: Fate) -> None:
        before = self.fates.get(text)
        if before == fate == "waits":
            return
        # One that is submitted again is a message anew, unless it was delivered (`_set` looks at that).
        anew = text in self.again and fate == "waits"
        if before is None or (fate not in _MOVES.get(before, ()) and not anew):
            self.wrong(f"{text!r} is {fate}, and was {before}")
        self.fates[text] = fate

    # ── what people do ───────────────────────────────────────────────────────────────────────────────────────────
    def submitted(self, text: str, name: str) -> None:
        self.fates[text], self.names[text] = "sent", name

    def refused(self, action: Json, reason: object) -> None:
        self.check(isinstance(reason, str) and reason, f"{action} was refused without a reason")
        text = action.get("message", {}).get("text")
        if self.fates.get(text) == "sent":
            self.fates[text] = "refused"

    # ── what the host says ───────────────────────────────────────────────────────────────────────────────────────
    def saw(self, action: Json, by_person: bool, before: Json, after: Json, *, in_turn: bool = False) -> None:
        """`in_turn`: a person's action that came while a turn ran."""
        kind = action["type"]
        touches = by_person and not in_turn and before is not after and "activeTurn" not in before
        if kind in _TOUCHING and touches:
            if not action.get("_meta", {}).get(HOLD):
                self.start = "no" if resumable(before) else "must"
            elif not waiting(before) and self.start != "no":
                self.start = "may"  # the turn that ended may have found nothing that waited
        if self.stopped is not None:
            removed = kind == "chat/pendingMessageRemoved" and action["id"] == self.stopped
            self.check(
                removed and not by_person, f"G6: {kind} came between a stop and the removal of its steering"
            )
        if kind in ("chat/turnStarted", "chat/turnResume"):
            self.check("activeTurn" not in before, "a turn began while one ran")
        elif "turnId" in action and kind != "chat/truncated":
            running = before.get("activeTurn", {}).get("id") == action["turnId"]
            self.check(running, f"T5: {kind} of a turn that does not run")
        match kind:
            case "chat/turnStarted":
                self._turn_started(action, by_person, before)
            case "chat/turnResume":
                self.check(resumable(before), "a turn was resumed that cannot be")
                self.returning = not by_person
                self.start = "no"
                if by_person:
                    self._forget_cut()
            case "chat/turnComplete" | "chat/error" | "chat/turnCancelled":
                self._turn_ended(action, before, after)
            case "chat/truncated" if before is not after:
                left = {turn["id"] for turn in after["turns"]}
                self.cut = [turn["id"] for turn in turns_of(before) if turn["id"] not in left] + self.cut
                self.start = "may" if self.start == "must" else "no"
            case "chat/pendingMessageSet":
                self._set(action, before)
            case "chat/pendingMessageRemoved":
                self._removed(action, by_person, before, after)
            case "chat/queuedMessagesReordered":
                names = [sorted(entry["id"] for entry in waiting(state)) for state in (before, after)]
                self.check(names[0] == names[1], "a reorder lost or made a message")
            case "chat/responsePart":
                said = action["part"].get("_meta", {}).get(STEERING)
                if said is not None and not self.returning:
                    waits = before.get("steeringMessage", {})
                    self.check(waits.get("message", {}).get("text") == said["text"], "read what did not wait")
                    self.move(said["text"], "read")
                    self.delivered[waits.get("id", "")] = action["turnId"]

    def _turn_started(self, action: Json, by_person: bool, before: Json) -> None:
        text, turn, name = action["message"]["text"], action["turnId"], action.get("queuedMessageId")
        if text in self.late and self.cut[:1] != [turn]:
            self._late_turn_started(action, by_person)
            return
        if name is None and not by_person:
            self.check(self.cut[:1] == [turn], f"turn {turn} came back, to be brought back are {self.cut}")
            self.check(self.turns.get(turn) == text, f"turn {turn} came back as {text!r}")
            self.cut = self.cut[1:]
            self.returning = True
            return
        if by_person and name is not None:
            self.check(
                name in {entry["id"] for entry in waiting(before)}, f"{name} was sent on, and did not wait"
            )
            self.delivered[name] = turn
        elif name is not None:
            first = next(iter(waiting(before)), {})
            self.check(first.get("id") == name, f"order: {name} started ahead of {first.get('id')}")
            self.check(not resumable(before), f"Q5: {name} started behind what can be resumed")
            is_steering = before.get("steeringMessage", {}).get("id") == name
            allowed = self.start in ("must", "may") or (self.start == "steering" and is_steering)
            self.check(allowed, f"Q4: {name} started, and nothing was to start")
            self.delivered[name] = turn
        self.move(text, "ran")
        self.check(turn not in self.turns, f"turn {turn} began twice")
        self.turns[turn] = text
        self.start = "no"
        self._forget_cut()

    def _late_turn_started(self, action: Json, by_person: bool) -> None:
        text, turn = action["message"]["text"], action["turnId"]
        self.check(not by_person and "queuedMessageId" not in action, f"{text!r} was begun by somebody else")
        self.check(action["message"]["origin"] == {"kind": "systemNotification"}, f"{text!r} is a person's")
        self.check(not self.late[text], f"{text!r} was opened twice")
        self.check(turn not in self.turns, f"turn {turn} began twice")
        self.late[text] = True
        self.turns[turn] = text
        self.start = "no"
        self._forget_cut()

    def _forget_cut(self) -> None:
        """What was cut is gone: an id that was in it is as good as new."""
        self.delivered = {name: turn for name, turn in self.delivered.items() if turn not in self.cut}
        self.cut = []

    def _turn_ended(self, action: Json, before: Json, after: Json) -> None:
        self.check(is_duration(action.get("duration")), f"T4: it ended with {action}")
        if self.returning:
            self.returning = False
            self.start = "no"
            return
        if action["type"] == "chat/turnComplete":
            self.start = "must"
        elif action["type"] == "chat/error" and not resumable(after):
            self.start = "steering"
        else:
            self.start = "no"
        if action["type"] == "chat/turnCancelled" and "steeringMessage" in before:
            self.stopped = before["steeringMessage"]["id"]

    def _set(self, action: Json, before: Json) -> None:
        text, name = action["message"]["text"], action["id"]
        old = next((entry for entry in waiting(before) if entry["id"] == name), None)
        steering = before.get("steeringMessage")
        if action["kind"] == "steering" and steering is not None:
            self.check(steering["id"] == name, f"{name} took the place of {steering['id']}")
        self.check(name not in self.delivered, f"{name} waits again, and was delivered")
        if old is not None and old["message"]["text"] != text:
            self.move(old["message"]["text"], "replaced")
        self.move(text, "waits")

    def _removed(self, action: Json, by_person: bool, before: Json, after: Json) -> None:
        name = action["id"]
        gone = [entry for entry in waiting(before) if entry not in waiting(after)]
        if by_person:
            for entry in gone:
                self.check(entry["id"] == name, f"{entry['id']} went with {name}")
                self.move(entry["message"]["text"], "taken back")
            return
        for entry in gone:
            text = entry["message"]["text"]
            if self.stopped == name:
                self.move(text, "stopped")
                self.stops[text] = before["turns"][-1]["id"]
            else:
                self.check(self.fates.get(text) == "read", f"the host took out {text!r}, which was not read")
        self.stopped = None

    # ── at rest, and behind a restart ────────────────────────────────────────────────────────────────────────────
    def at_rest(self, state: Json) -> None:
        """Nothing is under way: what had to start has started, and what waits is what the host holds."""
        for turn in state["turns"]:
            self.check(is_duration(turn.get("duration")), f"T4: {turn['id']} has no duration")
        held = [entry["message"]["text"] for entry in waiting(state)]
        expected = sorted(text for text, fate in self.fates.items() if fate == "waits")
        self.check(sorted(held) == expected, f"there wait {held}, and should {expected}")
        ids = [turn["id"] for turn in turns_of(state)]
        self.check(len(ids) == len(set(ids)), f"a turn is there twice: {ids}")
        if held and "activeTurn" not in state and not resumable(state):
            must = self.start == "must" or (self.start == "steering" and "steeringMessage" in state)
            self.check(not must, f"Q2, Q4, G3: {held[0]!r} waits, and should have started")

    def reopened(
        self, before: Json, now: Json, *, under_way: Iterable[Json] = (), crashed: bool = False
    ) -> None:
        """Another process has the chat. `under_way`: actions of which nothing was said yet when the one before ended."""
        under_way = list(under_way)
        turns, at_first = turns_of(now), turns_of(before)
        ids = [turn["id"] for turn in turns]
        said = [turn["id"] for turn in at_first]
        self.check(len(ids) == len(set(ids)), f"a turn is there twice: {ids}")
        if not any(action["type"] == "chat/truncated" for action in under_way):
            self.check(ids[: len(said)] == said, f"turns {said} became {ids}")
            self.check(len(ids) <= len(said) + 1, f"turns {said} became {ids}")
        if not crashed:
            self.check(ids == said, f"turns {said} became {ids}")
        there = {entry["message"]["text"]: entry["id"] for entry in waiting(now)}
        cancelled = {turn["id"] for turn in now["turns"] if turn["state"] == "cancelled"}
        for text in there:
            if self.fates[text] == "stopped" and self.stops[text] not in cancelled:
                self.fates[text] = "waits"  # the crash took the stop as a whole
        self._reopen_delivered(at_first, turns, there)
        self._reopen_waiting(before, now, there, under_way, crashed)
        offered = now.get("_meta", {}).get("jupyter-ahp.undo", {}).get("turns", 0)
        self.check(offered in (0, len(self.cut)), f"X1: {offered} can be brought back, cut were {self.cut}")
        if not offered:
            self._forget_cut()
        self.start, self.returning, self.stopped = "no", False, None

    def _reopen_delivered(self, before: list[Json], turns: list[Json], there: dict[str, str]) -> None:
        for turn in turns:
            text = turn["message"]["text"]
            if turn["id"] not in self.turns:  # it was started, and nobody was told yet
                self.turns[turn["id"]] = text
                if text in self.late:
                    self.late[text] = True
                else:
                    self.move(text, "ran")
                    self.delivered[self.names[text]] = turn["id"]
                self._forget_cut()
        read = {message["text"]: turn["id"] for turn in turns for message in read_in(turn)}
        for text, turn_id in read.items():
            if self.fates[text] == "waits":
                self.move(text, "read")
                self.delivered[self.names[text]] = turn_id
        kept = {turn["id"] for turn in turns}
        for message in (message for turn in before if turn["id"] in kept for message in read_in(turn)):
            text = message["text"]
            if text not in read and text in there:
                # What a model read just before the crash is not on record: neither is what it made of it.
                self.fates[text] = "waits"
                self.delivered.pop(there[text], None)

    def _reopen_waiting(
        self, before: Json, now: Json, there: dict[str, str], under_way: list[Json], crashed: bool
    ) -> None:
        for text in there:
            if self.fates[text] == "sent" or (text in self.again and under_way):
                self.fates[text] = "waits"
            self.check(self.fates[text] == "waits", f"{text!r} waits, and was {self.fates[text]}")
        touched: set[Any] = {action.get("id") for action in under_way}
        stops = any(action["type"] == "chat/turnCancelled" for action in under_way)
        for entry in waiting(before):
            text = entry["message"]["text"]
            if self.fates[text] != "waits" or text in there:
                continue
            if entry["id"] in touched:
                is_edit = entry["id"] in there.values()
                self.fates[text] = "replaced" if is_edit else "taken back"
            elif stops and entry == before.get("steeringMessage"):
                self.fates[text] = "stopped"
            else:
                self.wrong(f"{text!r} waited, and is lost")
        order = [[entry["id"] for entry in state.get("queuedMessages", ())] for state in (before, now)]
        common = [[name for name in names if name in order[0] and name in order[1]] for names in order]
        if not any(action["type"] == "chat/queuedMessagesReordered" for action in under_way):
            self.check(common[0] == common[1], f"order: {order[0]} became {order[1]}")
