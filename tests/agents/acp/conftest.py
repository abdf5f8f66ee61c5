from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from jupyter_ahp.agents.acp import Server
from jupyter_ahp.store.memory import MemoryStore
from tests.agents.acp.room import Room, puppet
from tests.mock_model import MockModel

MakeRoom: TypeAlias = Callable[..., Awaitable[Room]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The session's directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def make_room(
    model: MockModel, tmp_path: Path, folder: Path, store: MemoryStore
) -> AsyncIterator[MakeRoom]:
    """Rooms with our own agent (or the one that is given), left at the end, whatever happened in them."""
    made: list[Room] = []

    async def make(
        server: Server | None = None, *, env: dict[str, str] | None = None, **options: Any
    ) -> Room:
        room = await Room.enter(
            server or puppet(model, tmp_path / "home", **(env or {})), store, model, folder, **options
        )
        made.append(room)
        return room

    yield make
    for room in made:
        await room.stop()


@pytest.fixture
async def room(make_room: MakeRoom) -> AsyncIterator[Room]:
    room = await make_room()
    yield room
    await room.leave()
