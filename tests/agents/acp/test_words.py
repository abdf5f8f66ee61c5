"""What ACP agents say of their errors, in no fixed place, as people read it."""

from __future__ import annotations

from typing import Any

import pytest
from acp import RequestError
from acp.schema import PromptCapabilities, TextContentBlock

from jupyter_ahp.agents.acp import Server
from jupyter_ahp.agents.acp.content import blocks_of
from jupyter_ahp.agents.acp.words import of_error, told_by
from jupyter_ahp.agents.base import Json, Prompt

BUSY = '{"error": {"message": "Slow down", "code": 429}}'


@pytest.mark.parametrize(
    ("code", "message", "data", "told", "kind"),
    [
        (-32603, "Internal error", {"details": "no disk"}, "no disk", "agentFailed"),
        (-32603, "Internal error", {"details": f"429: {BUSY}"}, "429: Slow down", "rateLimited"),
        (
            -32603,
            "Internal error",
            {"error": {"message": "401 Unauthorized"}},
            "401 Unauthorized",
            "authFailed",
        ),
        (500, BUSY, None, "Slow down", "modelFailed"),
        (429, "Too many", None, "Too many", "rateLimited"),
        (-32602, "Invalid params", {"errors": [{"message": "cwd"}]}, "Invalid params: cwd", "agentFailed"),
        (-32603, "Internal error: no session", {"service": "s"}, "Internal error: no session", "agentFailed"),
        (-32603, "Internal error", "{half", "{half", "agentFailed"),
        (-32603, "Internal error", None, "Internal error", "agentFailed"),
    ],
)
def test_an_error_is_said_in_words(code: int, message: str, data: Any, told: str, kind: str) -> None:
    error = RequestError(code, message, data)
    assert told_by(error) == told
    failure = of_error(Server("mine", "Mine", "mine"), error)
    assert failure.message.startswith(f"Mine could not go on: {told}. ")
    assert (failure.error_type, failure.resumable) == (kind, True)
    assert message in (failure.details or "").replace('\\"', '"')


def test_a_turn_that_goes_on_is_said_again_to_an_agent_that_has_lost_it() -> None:
    so_far: list[Json] = [
        {"kind": "markdown", "id": "p1", "content": "One, tw"},
        {"kind": "error", "error": {}},
    ]
    prompt = Prompt("t1", "Count to ten", so_far=so_far)
    [again], _ = blocks_of(prompt, PromptCapabilities(), begins=True)
    assert isinstance(again, TextContentBlock)
    assert again.text == "Count to ten"
    [further], _ = blocks_of(prompt, PromptCapabilities(), begins=False)
    assert isinstance(further, TextContentBlock)
    assert "Go on" in further.text
