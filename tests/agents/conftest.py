from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias

import pytest

from jupyter_ahp.agents.assistant import AssistantAgent
from tests.mock_model import MockModel

MakeAssistant: TypeAlias = Callable[..., AssistantAgent]


@pytest.fixture
def model() -> Iterator[MockModel]:
    with MockModel() as running:
        yield running


@pytest.fixture
async def make_assistant() -> AsyncIterator[MakeAssistant]:
    """Make assistants that ask no environment of ours and wait for nothing long; closed at the end."""
    made: list[AssistantAgent] = []

    def make(**options: Any) -> AssistantAgent:
        defaults: dict[str, Any] = {"environ": {}, "backoff_seconds": 0.01, "stall_seconds": 5}
        made.append(AssistantAgent(**{**defaults, **options}))
        return made[-1]

    yield make
    for agent in made:
        await agent.close()


@pytest.fixture
def assistant(make_assistant: MakeAssistant, model: MockModel) -> AssistantAgent:
    """An assistant that talks to the mock model."""
    entry = {"id": "mock", "name": "Mock", "base_url": model.base_url, "model": model.model}
    return make_assistant(models=[entry])
