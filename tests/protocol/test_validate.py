"""What a client may send (AHP 6.1, T7)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ahp.protocol.errors import ProtocolError
from jupyter_ahp.protocol.validate import CLIENT_TOOL_ACTIONS, DISPATCHABLE, check_params, rejection
from jupyter_ahp.protocol.versions import INTRODUCED

from .corpus import FIXTURES

MESSAGE: dict[str, Any] = {"text": "Hi", "origin": {"kind": "user"}}
NOW = "2026-03-01T10:00:00.000Z"
SESSION = "ahp-session:/1"
CALL = {"turnId": "t1", "toolCallId": "tc1"}
ANSWER = {"state": "draft", "value": {"kind": "selected-many", "value": ["a"], "freeformValues": ["b"]}}
ANNOTATION = {
    "id": "n1",
    "origin": {"session": SESSION},
    "resource": "file:///a",
    "resolved": False,
    "entries": [{"id": "e1", "text": "Why?"}],
}

ACCEPTED: dict[str, dict[str, Any]] = {
    "root/configChanged": {"config": {"a": None}},
    "session/titleChanged": {"title": ""},
    "session/isReadChanged": {"isRead": True},
    "session/isArchivedChanged": {"isArchived": False},
    "session/configChanged": {"config": {}, "replace": True},
    "session/activeClientSet": {"activeClient": {"clientId": "me", "tools": [{"name": "edit"}]}},
    "session/activeClientRemoved": {"clientId": "me"},
    "session/workingDirectorySet": {"directory": "file:///a"},
    "session/workingDirectoryRemoved": {"directory": "file:///a"},
    "session/workingDirectoryReplaced": {"directory": "file:///a", "replacement": "file:///b"},
    "session/customizationToggled": {"id": "p", "enablement": [{"kind": "session", "enabled": False}]},
    "session/mcpServerStartRequested": {"id": "m"},
    "session/mcpServerStopRequested": {"id": "m"},
    "session/mcpServerBackgroundRequested": {"id": "m"},
    "chat/turnStarted": {"turnId": "t1", "startedAt": NOW, "message": MESSAGE},
    "chat/turnCancelled": {"turnId": "t1", "duration": 12.5},
    "chat/turnResume": {"turnId": "t1"},
    "chat/toolCallConfirmed": {**CALL, "approved": True, "confirmed": "user-action"},
    "chat/toolCallComplete": {**CALL, "result": {"success": True, "pastTenseMessage": {"markdown": "Done"}}},
    "chat/toolCallResultConfirmed": {**CALL, "approved": False},
    "chat/toolCallContentChanged": {**CALL, "content": [{"type": "text", "text": "x"}]},
    "chat/workingDirectorySet": {"directory": "file:///a"},
    "chat/workingDirectoryRemoved": {"directory": "file:///a"},
    "chat/pendingMessageSet": {"kind": "queued", "id": "q1", "message": MESSAGE},
    "chat/pendingMessageRemoved": {"kind": "steering", "id": "q1"},
    "chat/queuedMessagesReordered": {"order": ["q1"]},
    "chat/draftChanged": {"draft": MESSAGE},
    "chat/isReadChanged": {"isRead": True},
    "chat/isArchivedChanged": {"isArchived": True},
    "chat/inputAnswerChanged": {"requestId": "r", "questionId": "q", "answer": ANSWER},
    "chat/inputCompleted": {"requestId": "r", "response": "accept", "answers": {"q": {"state": "skipped"}}},
    "chat/truncated": {},
    "terminal/input": {"data": "ls\n"},
    "terminal/resized": {"cols": 80, "rows": 24},
    "terminal/claimed": {"claim": {"kind": "client", "clientId": "me"}},
    "terminal/titleChanged": {"title": "sh"},
    "terminal/cleared": {},
    "changeset/filesReviewChanged": {"files": ["a"], "reviewed": True},
    "annotations/set": {"annotation": ANNOTATION},
    "annotations/updated": {"annotationId": "n1", "resolved": True},
    "annotations/removed": {"annotationId": "n1"},
    "annotations/entrySet": {"annotationId": "n1", "entry": {"id": "e", "text": "t"}},
    "annotations/entryRemoved": {"annotationId": "n1", "entryId": "e"},
}


def action(name: str, **changes: Any) -> dict[str, Any]:
    return {"type": name, **ACCEPTED.get(name, {}), **changes}


def reject(name: str, **changes: Any) -> str | None:
    return rejection(action(name, **changes), name.partition("/")[0])


def test_every_action_that_a_client_may_dispatch_has_an_example_here() -> None:
    assert set(ACCEPTED) == DISPATCHABLE
    assert INTRODUCED.keys() >= DISPATCHABLE
    assert CLIENT_TOOL_ACTIONS < DISPATCHABLE


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_a_good_action_is_taken_with_keys_that_nobody_knows(name: str) -> None:
    assert reject(name) is None
    assert reject(name, _meta={"x": 1}, **{"x-mine": [1]}) is None


@pytest.mark.parametrize("name", sorted(name for name, fields in ACCEPTED.items() if fields))
def test_T7_an_action_with_a_field_of_the_wrong_kind_is_refused(name: str) -> None:
    for field in ACCEPTED[name]:
        reason = reject(name, **{field: object()})
        assert reason is not None
        assert reason.startswith(f"{name}: ")


@pytest.mark.parametrize("name", sorted(INTRODUCED.keys() - DISPATCHABLE))
def test_T7_what_the_host_says_no_client_dispatches(name: str) -> None:
    assert reject(name) == f"{name} is for the host to say."


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("chat/turnStarted", {"message": {**MESSAGE, "origin": {"kind": "agent"}}}, "origin user, not agent"),
        ("chat/turnStarted", {"message": {"text": "x"}}, "`origin`"),
        ("chat/turnStarted", {"startedAt": "yesterday"}, "startedAt must be a timestamp"),
        ("chat/turnStarted", {"startedAt": "2026-02-30T10:00:00Z"}, "startedAt must be a timestamp"),
        ("chat/turnStarted", {"turnId": ""}, "`turnId`"),
        ("chat/turnCancelled", {"duration": float("nan")}, "finite"),
        ("chat/turnCancelled", {"duration": 10**400}, "`duration`"),
        ("chat/turnCancelled", {"duration": True}, "`duration`"),
        ("chat/turnCancelled", {"duration": None}, "`duration`"),
        (
            "chat/pendingMessageSet",
            {"message": {**MESSAGE, "origin": {"kind": "tool"}}},
            "origin user, not tool",
        ),
        ("chat/draftChanged", {"draft": {**MESSAGE, "origin": {"kind": "automation"}}}, "origin user"),
        ("chat/pendingMessageSet", {"kind": "later"}, "'later'"),
        ("chat/toolCallConfirmed", {"confirmed": None}, "how it was confirmed"),
        ("chat/toolCallConfirmed", {"approved": False, "reason": "bored"}, "denied or skipped"),
        ("chat/inputAnswerChanged", {"answer": {"state": "submitted"}}, "`value`"),
        (
            "chat/inputAnswerChanged",
            {"answer": {"state": "draft", "value": {"kind": "number", "value": "1"}}},
            "float",
        ),
        ("chat/inputCompleted", {"response": "maybe"}, "'maybe'"),
        ("terminal/resized", {"cols": 0}, "`cols`"),
        ("terminal/claimed", {"claim": {"kind": "session", "session": SESSION}}, "`chat`"),
        ("annotations/set", {"annotation": {**ANNOTATION, "entries": []}}, "entries"),
        ("session/customizationToggled", {"enablement": [{"enabled": True}]}, "`kind`"),
    ],
)
def test_T7_refused(name: str, changes: dict[str, Any], reason: str) -> None:
    assert reason in (reject(name, **changes) or "nothing wrong")


@pytest.mark.parametrize(
    ("attachment", "reason"),
    [
        ({"type": "simple", "label": "a"}, None),
        ({"type": "x-new", "label": "a"}, None),
        ({"type": "resource", "label": "a", "uri": "file:///a", "selection": {"range": {}}}, None),
        ({"type": "resource", "label": "a"}, "has no uri"),
        ({"type": "embeddedResource", "label": "a", "data": ""}, "has no contentType"),
        ({"type": "annotations", "label": "a"}, "has no resource"),
        ({"type": "chat", "label": "a", "endTurn": "t1"}, "has no resource"),
        ({"label": "a"}, "`type`"),
    ],
)
def test_attachments(attachment: dict[str, Any], reason: str | None) -> None:
    refused = reject("chat/turnStarted", message={**MESSAGE, "attachments": [attachment]})
    assert refused is None if reason is None else reason in (refused or "nothing wrong")


def test_actions_keep_to_channels_of_their_kind() -> None:
    assert rejection(action("session/titleChanged"), "chat") is None
    assert rejection(action("session/isReadChanged"), "chat") is not None
    assert rejection(action("chat/truncated"), "session") is not None
    assert rejection(action("chat/truncated"), None) is not None
    assert rejection({"type": "x-mine/thing"}, "chat") == "This host does not know the action 'x-mine/thing'."
    assert rejection({}, "chat") == "An action has a type."


PARAMS: list[tuple[str, dict[str, Any]]] = [
    (
        "initialize",
        {"protocolVersions": ["1.0.0"], "clientId": "me", "capabilities": {}, "clientInfo": {"name": "n"}},
    ),
    ("ping", {}),
    ("reconnect", {"clientId": "me", "lastSeenServerSeq": 0, "subscriptions": ["ahp-root://"]}),
    ("listSessions", {"limit": 5}),
    ("createSession", {"channel": "echo:/1", "provider": "echo", "progressToken": 3, "unknown": 1}),
    (
        "createChat",
        {"channel": SESSION, "chat": "ahp-chat:/c", "source": {"kind": "fork", "chat": "c", "turnId": "t"}},
    ),
    ("subscribe", {"channel": "ahp-chat:/c", "view": {"turns": 20}, "delivery": {"maxLatencyMs": 12.5}}),
    ("subscribe", {"channel": "ahp-chat:/c", "view": None, "delivery": {}}),
    ("dispatchAction", {"channel": "ahp-root:", "clientSeq": 0, "action": {}}),
    ("moveChat", {"channel": "ahp-chat:/c", "destination": {"kind": "newSession"}}),
    ("completions", {"channel": "ahp-chat:/c", "kind": "userMessage", "text": "/", "offset": 1}),
    ("disposeChat", {"channel": "ahp-chat:/nobody"}),
    ("createTerminal", {"channel": "ahp-terminal:/1", "claim": {"kind": "client", "clientId": "me"}}),
    ("authenticate", {"resource": "https://a", "token": ""}),
    ("resourceRead", {"uri": "file:///a"}),
]


@pytest.mark.parametrize(
    ("method", "params"), PARAMS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_good_params(method: str, params: dict[str, Any]) -> None:
    check_params(method, params)


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("nope", {}, -32601, "'nope'"),
        ("ping", {"channel": SESSION}, -32602, "ahp-root://"),
        ("initialize", {"protocolVersions": "1.0.0", "clientId": "me"}, -32602, "`protocolVersions`"),
        ("initialize", {"protocolVersions": ["1.0.0"]}, -32602, "`clientId`"),
        (
            "reconnect",
            {"clientId": "me", "lastSeenServerSeq": -1, "subscriptions": []},
            -32602,
            "lastSeenServerSeq",
        ),
        ("subscribe", {}, -32602, "need a channel"),
        ("subscribe", {"channel": "no uri"}, -32602, "not a URI"),
        ("subscribe", {"channel": "ahp-chat:/c", "view": {"turns": -1}}, -32602, "`view.turns`"),
        ("createSession", {"channel": "ahp-chat:/c"}, -32602, "session's URI"),
        (
            "createChat",
            {"channel": SESSION, "chat": "c", "source": {"chat": "c", "turnId": "t"}},
            -32602,
            "`kind`",
        ),
        ("createChat", {"channel": SESSION, "chat": "c", "source": {"kind": "copy"}}, -32602, "'copy'"),
        (
            "createChat",
            {"channel": SESSION, "chat": "c", "initialMessage": {"text": "x", "origin": {"kind": "agent"}}},
            -32602,
            "origin user",
        ),
        ("dispatchAction", {"channel": SESSION, "clientSeq": 1.5, "action": {}}, -32602, "`clientSeq`"),
        ("authenticate", {"resource": "https://a", "token": "t", "expiresIn": 0}, -32602, "`expiresIn`"),
    ],
)
def test_bad_params(method: str, params: dict[str, Any], code: int, words: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        check_params(method, params)
    assert raised.value.code == code
    assert words in raised.value.message


def test_every_client_action_of_the_reducer_cases_has_its_shape() -> None:
    """The cases feed reducers what hosts accept, so the two agree on shapes; those that are about malformed input aside."""
    for path in (FIXTURES / "reducers").glob("*.json"):
        for case_action in json.loads(path.read_text(encoding="utf-8"))["actions"]:
            name = case_action["type"]
            if name in DISPATCHABLE:
                assert rejection(case_action, name.partition("/")[0]) is None, path.name


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(ACCEPTED)), st.data())
def test_any_action_is_taken_or_refused_and_never_raises(name: str, data: st.DataObject) -> None:
    fields = sorted(ACCEPTED[name]) or ["x"]
    changes = data.draw(st.dictionaries(st.sampled_from(fields), _json))
    reason = reject(name, **changes)
    assert reason is None or reason.startswith(name)


@given(st.sampled_from([method for method, _ in PARAMS]), st.dictionaries(st.text(), _json), st.data())
def test_any_params_are_taken_or_refused(method: str, junk: dict[str, Any], data: st.DataObject) -> None:
    good = next(params for name, params in PARAMS if name == method)
    changes = data.draw(st.dictionaries(st.sampled_from(sorted(good) or ["channel"]), _json))
    try:
        check_params(method, {**junk, **good, **changes})
        code = 0
    except ProtocolError as error:
        code = error.code
    assert code in (0, -32602)
