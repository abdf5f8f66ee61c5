"""What holds for reducers whatever happens: pure, total, and the same for joined text."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ahp.protocol.reducers import REDUCERS
from jupyter_ahp.protocol.versions import INTRODUCED

from .corpus import FIXTURES, present

CASES = [
    json.loads(path.read_text(encoding="utf-8")) for path in sorted((FIXTURES / "reducers").glob("*.json"))
]
KINDS = sorted(REDUCERS)
IDS = st.sampled_from(
    ["t1", "t2", "p1", "p2", "tc1", "q1", "s1", "w1", "ahp-chat:/c1", "file:///a", "file:///b"]
)

_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | IDS | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "kind", "status", "enabled", "resource", "x"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def frozen(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def states(kind: str) -> list[Any]:
    return [case[key] for case in CASES if case["reducer"] == kind for key in ("initial", "expected")]


def actions(kind: str) -> list[Any]:
    return [action for case in CASES if case["reducer"] == kind for action in case["actions"]]


@st.composite
def mangled(draw: st.DrawFn, source: Any) -> Any:
    """A value like `source`, with something in it left out, put in, or of another kind."""
    value = copy.deepcopy(source)
    for _ in range(draw(st.integers(0, 2))):
        target = value
        while isinstance(target, dict) and target:
            key = draw(st.sampled_from(sorted(target)))
            inner = target[key]
            if isinstance(inner, list) and inner and draw(st.booleans()):
                target = draw(st.sampled_from(inner))
                continue
            if isinstance(inner, dict) and draw(st.booleans()):
                target = inner
                continue
            if draw(st.booleans()):
                target[key] = draw(_json)
            else:
                del target[key]
            break
    return value


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_sequence_of_actions_leaves_its_input_alone_and_never_raises(
    kind: str, data: st.DataObject
) -> None:
    """From states and actions of the cases, whole and mangled, and from actions of nothing but a type and junk."""
    reduce = REDUCERS[kind]
    state = data.draw(mangled(data.draw(st.sampled_from(states(kind)))))
    names = st.sampled_from(sorted(name for name in INTRODUCED if name.startswith(kind)))
    junk = st.builds(
        lambda fields, name: {**fields, "type": name}, st.dictionaries(st.just("id") | IDS, _json), names
    )
    known = st.sampled_from(actions(kind)).flatmap(mangled)
    for action in data.draw(st.lists(known | known | junk, max_size=6)):
        before, sent = frozen(state), frozen(action)
        after = reduce(state, action)
        assert frozen(state) == before
        assert frozen(action) == sent
        assert isinstance(after, dict)
        state = after
        json.dumps(state)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_not_named_by_an_action_survives(data: st.DataObject) -> None:
    """Keys that nobody knows, on the chat, stay through any sequence."""
    state = {**data.draw(st.sampled_from(states("chat"))), "x-mine": {"a": [1]}, "_meta": {"by": "user:ada"}}
    for action in data.draw(st.lists(st.sampled_from(actions("chat")), max_size=8)):
        state = REDUCERS["chat"](state, action)
    assert (state["x-mine"], state["_meta"]) == ({"a": [1]}, {"by": "user:ada"})


STREAMING: dict[str, Any] = {
    "status": 8,
    "turns": [],
    "activeTurn": {
        "id": "t1",
        "startedAt": "2026-03-01T10:00:00.000Z",
        "message": {"text": "Hi", "origin": {"kind": "user"}},
        "responseParts": [
            {"kind": "markdown", "id": "p1", "content": ""},
            {"kind": "reasoning", "id": "p2", "content": "so"},
        ],
    },
}
DELTAS = st.builds(
    lambda kind, part, content: {"type": f"chat/{kind}", "turnId": "t1", "partId": part, "content": content},
    st.sampled_from(["delta", "reasoning"]),
    st.sampled_from(["p1", "p2", "nope"]),
    st.text(max_size=4),
)


def joined(stream: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours that append to the same part, as one action."""
    result: list[dict[str, Any]] = []
    for action in stream:
        last = result[-1] if result else None
        if last and (last["type"], last["partId"]) == (action["type"], action["partId"]):
            result[-1] = {**last, "content": last["content"] + action["content"]}
        else:
            result.append(action)
    return result


@given(st.lists(DELTAS, max_size=12))
def test_joined_deltas_reduce_to_the_same_state(stream: list[dict[str, Any]]) -> None:
    """What `delivery.maxLatencyMs` and a slow client's outbox rest on (AHP 1.6)."""
    one, other = STREAMING, STREAMING
    for action in stream:
        one = REDUCERS["chat"](one, action)
    for action in joined(stream):
        other = REDUCERS["chat"](other, action)
    assert one == other


@given(st.lists(st.sampled_from(actions("chat")), max_size=10))
def test_null_and_absent_are_one_thing(sequence: list[dict[str, Any]]) -> None:
    """Fields given as null change as much as fields left out (AHP 4.6 rule 8)."""
    one, other = STREAMING, STREAMING
    for action in sequence:
        one = REDUCERS["chat"](one, present(action))
        other = REDUCERS["chat"](other, {"_meta": None, "intention": None, "duration": None, **action})
    assert present(one) == present(other)


def test_a_turn_copies_no_more_than_the_way_to_what_changed() -> None:
    """The transcript is shared between the states before and after, turn by turn, part by part."""
    turns = [{"id": f"o{n}", "responseParts": [], "state": "complete"} for n in range(50)]
    before = {**STREAMING, "turns": turns}
    grown = REDUCERS["chat"](before, {"type": "chat/delta", "turnId": "t1", "partId": "p1", "content": "x"})
    assert grown["turns"] is turns
    assert grown["activeTurn"]["responseParts"][1] is before["activeTurn"]["responseParts"][1]
    ended = REDUCERS["chat"](grown, {"type": "chat/turnComplete", "turnId": "t1", "duration": 1})
    assert all(new is old for new, old in zip(ended["turns"], turns, strict=False))
    assert ended["turns"][-1]["responseParts"][0] is grown["activeTurn"]["responseParts"][0]
