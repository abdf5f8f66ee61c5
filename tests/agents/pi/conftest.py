from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.agents.pi import PiAgent
from tests.agents.pi.room import Room, pi_agent
from tests.mock_model import MockModel


@pytest.fixture
def agent(request: pytest.FixtureRequest, model: MockModel, tmp_path: Path) -> PiAgent:
    """pi of the older generation, unless the test asks for others."""
    return pi_agent(model, tmp_path, getattr(request, "param", "0.73"))


@pytest.fixture
async def room(agent: PiAgent, model: MockModel, tmp_path: Path) -> AsyncIterator[Room]:
    work = tmp_path / "work"
    work.mkdir()
    room = Room(agent, model, tmp_path / "store", work)
    await room.enter()
    yield room
    await room.leave()
