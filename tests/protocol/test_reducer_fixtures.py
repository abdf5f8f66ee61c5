"""Every reducer case: our own, and upstream's where they are at hand."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.protocol.reducers import REDUCERS

from .corpus import FIXTURES, WHY_SKIPPED, conformance_files, present, superseded

OWN = sorted((FIXTURES / "reducers").glob("*.json"))
UPSTREAM = conformance_files("reducers")
SUPERSEDED = superseded()


def reduce_all(case: dict[str, Any]) -> Any:
    """The state after the case's actions; checks on the way that neither states nor actions were changed."""
    reduce = REDUCERS[case["reducer"]]
    state, actions = case["initial"], case["actions"]
    for action in actions:
        before, sent = copy.deepcopy(state), copy.deepcopy(action)
        after = reduce(state, action)
        assert state == before, f"{action['type']} changed its input"
        assert action == sent, f"{action['type']} was changed"
        if case.get("noop"):
            assert after is state, f"{action['type']} is a no-op and made a new state"
        state = after
    return state


def test_there_are_cases_for_every_reducer() -> None:
    kinds = {json.loads(path.read_text(encoding="utf-8"))["reducer"] for path in OWN}
    assert kinds == set(REDUCERS)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_own_case(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    assert set(case) <= {"description", "reducer", "noop", "initial", "actions", "expected"}
    assert present(reduce_all(case)) == present(case["expected"])


def without(value: Any, path: str) -> Any:
    """A copy without what stands at `a/0/b`."""
    value = copy.deepcopy(value)
    *parents, last = path.split("/")
    target = value
    for step in parents:
        target = target[int(step)] if isinstance(target, list) else target[step]
    target.pop(last, None)
    return value


@pytest.mark.skipif(not UPSTREAM, reason=WHY_SKIPPED)
@pytest.mark.parametrize("path", UPSTREAM, ids=lambda path: path.stem)
def test_upstream_case(path: Path) -> None:
    """An outdated expectation is compared on all else; what is right there now, our own cases say."""
    case = present(json.loads(path.read_text(encoding="utf-8")))
    result, expected = present(reduce_all(case)), case["expected"]
    for field in SUPERSEDED.get(path.name, []):
        result, expected = without(result, field), without(expected, field)
    assert result == expected


@pytest.mark.skipif(not UPSTREAM, reason=WHY_SKIPPED)
def test_upstream_list_of_outdated_cases_names_real_files() -> None:
    assert SUPERSEDED.keys() <= {path.name for path in UPSTREAM}
