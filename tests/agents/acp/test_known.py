"""Which ACP agents are offered: those of the configuration, and known ones that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.acp.known import KNOWN, servers
from jupyter_ahp.agents.registry import PROVIDER, find_agents


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(path: Path, name: str) -> None:
    (path / name).write_text("#!/bin/sh\n")
    (path / name).chmod(0o755)


def test_known_agents_on_the_path_are_offered_by_name(path: Path) -> None:
    program(path, "gemini")
    program(path, "codex-acp")
    found = {server.provider: server for server in servers({})}
    assert list(found) == ["codex-acp", "gemini"]
    assert found["gemini"].words == "gemini --acp"
    agents = find_agents(installed=(), acp_servers={})
    assert [agent.provider for agent in agents] == ["assistant", "codex-acp", "gemini", "echo"]
    assert agents[2].display_name == "Gemini CLI"
    assert [agent.provider for agent in find_agents(installed=())] == ["assistant", "echo"]


def test_every_known_one_can_be_a_provider() -> None:
    assert all(PROVIDER.match(server.provider) for server in KNOWN)
    assert len({server.provider for server in KNOWN}) == len(KNOWN)


def test_a_configured_one_takes_the_place_of_a_known_one(path: Path) -> None:
    program(path, "gemini")
    configured = {
        "gemini": {"env": {"KEY": "k"}},
        "mine": {"command": "my-agent", "args": ["--acp"], "title": "Mine"},
        "goose": {"command": "/opt/goose"},
    }
    found = {server.provider: server for server in servers(configured)}
    assert list(found) == ["gemini", "mine", "goose"]
    assert (found["gemini"].words, found["gemini"].env) == ("gemini --acp", {"KEY": "k"})
    assert (found["mine"].words, found["mine"].title) == ("my-agent --acp", "Mine")
    assert (found["goose"].words, found["goose"].title) == ("/opt/goose", "Goose")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("my-agent", "it has to be a dictionary"),
        ({}, 'it needs a "command"'),
        ({"command": "a", "args": "--acp"}, '"args" has to be a list'),
        ({"command": "a", "env": {"A": 1}}, '"env" has to be'),
        ({"command": "a", "cmd": "b"}, "there is no 'cmd'"),
        ({"command": "a", "title": 1}, '"title" has to be'),
    ],
)
def test_one_that_makes_no_sense_is_named_and_harms_no_other(
    path: Path, entry: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = [server.provider for server in servers({"bad": entry, "good": {"command": "a"}})]
    assert found == ["good"]
    assert "ACPAgent.servers['bad'] is left out" in caplog.text
    assert words in caplog.text


def test_a_name_that_is_taken_is_left_out(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agents = find_agents(installed=(), acp_servers={"assistant": {"command": "a"}, "a/b": {"command": "a"}})
    assert [agent.provider for agent in agents] == ["assistant", "echo"]
    assert caplog.text.count("the name is taken, or none for an agent") == 2
