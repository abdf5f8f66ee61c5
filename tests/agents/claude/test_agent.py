"""What Claude says of itself before anything was started: probe, settings, what a missing part is worth."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.claude import ClaudeAgent
from jupyter_ahp.agents.claude.settings import Settings
from jupyter_ahp.agents.registry import find_agents
from tests.mock_model import MockModel


async def test_it_is_ready_with_the_cli_of_the_wheel_and_a_key(settings: Settings, model: MockModel) -> None:
    probe = await ClaudeAgent(settings).probe()

    assert (probe.ready, probe.reason) == (True, "")
    assert [one.id for one in probe.models] == ["mock-model", "default", "opus", "sonnet", "haiku"]
    assert model.requests == []  # nothing was started


async def test_without_the_sdk_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    probe = await ClaudeAgent(settings).probe()

    assert not probe.ready
    assert "jupyter-ahp[claude]" in probe.fix


async def test_without_its_program_it_says_so(settings: Settings) -> None:
    probe = await ClaudeAgent(replace(settings, cli_path="/nowhere/claude")).probe()

    assert (probe.ready, probe.reason) == (False, "There is no program /nowhere/claude.")
    assert "ClaudeAgent.cli_path" in probe.fix


async def test_without_a_login_it_says_how_to_sign_in(settings: Settings, tmp_path: Path) -> None:
    alone = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")}
    agent = ClaudeAgent(replace(settings, env=alone))
    probe = await agent.probe()
    if sys.platform != "darwin":  # there, a keychain may have it
        assert not probe.ready
        assert "ANTHROPIC_API_KEY" in probe.fix
        assert "/login" in probe.fix

    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    assert (await agent.probe()).ready  # looked at anew: the list is live


@pytest.mark.parametrize(
    "variable", ["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_OAUTH_TOKEN"]
)
async def test_other_ways_to_sign_in(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    alone = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")}

    assert (await ClaudeAgent(replace(settings, env=alone)).probe()).ready


def test_a_mode_that_root_may_not_have_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IS_SANDBOX", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    properties = Settings(permission_mode="bypassPermissions").schema({})["properties"]
    assert "bypassPermissions" not in properties["permissionMode"]["enum"]
    assert properties["permissionMode"]["default"] == "default"

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    properties = Settings(permission_mode="bypassPermissions").schema({})["properties"]
    assert properties["permissionMode"]["default"] == "bypassPermissions"
    for setting in properties.values():
        assert len(setting["enum"]) == len(setting["enumLabels"])


def test_it_is_made_from_its_configuration() -> None:
    traits: dict[str, Any] = {
        "cli_path": "",
        "env": {"A": "b"},
        "model": "opus",
        "permission_mode": "plan",
        "stop_ends": "query",
        "idle_seconds": 60.0,
    }
    agents = find_agents(installed=(), claude=traits)

    assert [agent.provider for agent in agents] == ["assistant", "claude", "echo"]


def test_neither_looking_nor_listing_imports_the_sdk(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from jupyter_ahp.agents.claude import ClaudeAgent; agent = ClaudeAgent(); "
        f"asyncio.run(agent.probe()); asyncio.run(agent.catalogue([{str(tmp_path)!r}])); "
        "print([name for name in ('claude_agent_sdk', 'mcp') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert run.stdout.strip() == "[]"
