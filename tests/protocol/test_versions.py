"""Negotiation over the three ranges that we serve, and what a client of a version is sent (AHP 1.5, 6.3; V5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ahp.protocol import versions
from jupyter_ahp.protocol.errors import ProtocolError

from .corpus import load

CASES = load("versions.json")


@pytest.mark.parametrize("case", CASES["negotiate"], ids=lambda case: str(case["offered"]))
def test_negotiate(case: dict[str, Any]) -> None:
    if "chosen" in case:
        assert versions.negotiate(case["offered"]) == case["chosen"]
        return
    with pytest.raises(ProtocolError) as raised:
        versions.negotiate(case["offered"])
    assert raised.value.code == case["error"]
    if "supportedVersions" in case:
        assert raised.value.data == {"supportedVersions": case["supportedVersions"]}


def test_served_ranges() -> None:
    assert list(versions.SERVED_RANGES) == CASES["supported"]


def test_a_version_of_thousands_of_digits_is_malformed() -> None:
    with pytest.raises(ProtocolError) as raised:
        versions.negotiate([f"1.{'9' * 10_000}.0"])
    assert raised.value.code == -32602


@given(st.lists(st.text()))
def test_any_offer_is_chosen_from_or_refused(offered: list[str]) -> None:
    try:
        outcome: object = versions.negotiate(offered)
    except ProtocolError as error:
        outcome = error.code
    assert outcome in [*offered, -32602, -32005]


def test_introduced() -> None:
    assert dict(versions.INTRODUCED) == CASES["introduced"]
    assert versions.introduced("chat/turnResume") == "0.9.0"
    assert versions.introduced("x-mine/thing") is None


@pytest.mark.parametrize("case", CASES["visible"], ids=lambda case: f"{case['action']} to {case['version']}")
def test_V5_visible(case: dict[str, Any]) -> None:
    assert versions.visible_to(case["action"], case["version"]) is case["visible"]


@pytest.mark.parametrize("case", CASES["downgrade"], ids=str)
def test_V5_downgrade(case: dict[str, Any]) -> None:
    if "action" in case:
        assert versions.action_for(case["action"], case["version"]) == case["expected"]
    else:
        assert versions.state_for(case["kind"], case["state"], case["version"]) == case["expected"]
