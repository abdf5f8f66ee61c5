"""Fixtures of the tests with Claude's real CLI."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.agents.claude.settings import Settings
from tests.agents.claude.room import Room, settings_for
from tests.mock_model import MockModel


@pytest.fixture(autouse=True)
def no_environment_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("ANTHROPIC", "CLAUDE")):
            monkeypatch.delenv(name)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The session's directory."""
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


@pytest.fixture
def settings(tmp_path: Path, model: MockModel) -> Settings:
    home = tmp_path / "home"
    home.mkdir()
    return settings_for(model, home)


@pytest.fixture
async def room(settings: Settings, model: MockModel, work: Path) -> AsyncIterator[Room]:
    room = Room(settings, model, work)
    await room.enter()
    yield room
    await room.leave()
