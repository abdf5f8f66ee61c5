"""URIs (U1, U2, U8)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ahp.protocol import uris

from .corpus import load

CASES = load("uris.json")
BUILDERS: dict[str, Callable[..., str]] = {
    "sessionUri": uris.session_uri,
    "providerUri": uris.provider_uri,
    "annotationsUri": uris.annotations_uri,
    "defaultChatUri": uris.default_chat_uri,
}
READERS: list[Callable[[Any], object]] = [
    uris.canonical,
    uris.is_root,
    uris.channel_kind,
    uris.session_id,
    uris.annotations_uri,
    uris.session_of_annotations,
    uris.default_chat_uri,
    uris.session_of_default_chat,
]


@pytest.mark.parametrize("case", CASES["canonical"], ids=lambda case: case["in"])
def test_canonical(case: dict[str, Any]) -> None:
    assert uris.canonical(case["in"]) == case["out"]
    assert uris.canonical(case["out"]) == case["out"]


@pytest.mark.parametrize("case", CASES["kind"], ids=lambda case: case["in"])
def test_kind(case: dict[str, Any]) -> None:
    assert uris.channel_kind(case["in"]) == case["kind"]
    assert uris.is_root(case["in"]) == (case["kind"] == "root")


@pytest.mark.parametrize("case", CASES["sessionId"], ids=lambda case: case["in"])
def test_U1_U8_session_id(case: dict[str, Any]) -> None:
    assert uris.session_id(case["in"]) == case["id"]


@pytest.mark.parametrize("case", CASES["build"], ids=str)
def test_U2_built(case: dict[str, Any]) -> None:
    (name,) = set(case) & set(BUILDERS)
    given = case[name] if isinstance(case[name], list) else [case[name]]
    if case.get("error"):
        with pytest.raises(ValueError, match="not a"):
            BUILDERS[name](*given)
    else:
        assert BUILDERS[name](*given) == case["out"]


@pytest.mark.parametrize("case", CASES["defaultChat"], ids=lambda case: case["in"])
def test_U2_derived_chat(case: dict[str, Any]) -> None:
    assert uris.session_of_default_chat(case["in"]) == case["session"]


@pytest.mark.parametrize("uri", CASES["invalid"], ids=repr)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_no_uri_is_refused(read: Any, uri: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        read(uri)


@given(st.one_of(st.text(), st.none(), st.integers(), st.from_regex(r"ahp-[a-z]+:/{0,3}[^/]{0,5}(/.*)?")))
def test_bad_input_raises_nothing_but_value_error(value: Any) -> None:
    for read in READERS:
        with contextlib.suppress(ValueError):
            read(value)


@given(
    st.from_regex(r"[A-Za-z0-9_.~-]+", fullmatch=True),
    st.sampled_from(["ahp-session", "copilotcli", "my-agent"]),
)
def test_U2_derived_chats_read_back(session: str, scheme: str) -> None:
    uri = f"{scheme}:/{session}"
    if uris.session_id(uri) is None:
        assert session in (".", "..")
    else:
        assert uris.session_of_default_chat(uris.default_chat_uri(uri)) == uri


def test_U2_new_chats_are_opaque_and_differ() -> None:
    first, second = uris.new_chat_uri(), uris.new_chat_uri()
    assert first != second
    assert uris.channel_kind(first) == "chat"
    assert uris.session_id(first) is None
