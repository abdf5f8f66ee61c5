from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.host import line
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Store
from jupyter_ahp.store.files import FileStore
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Failing, Scripted, WireClient, started


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that hangs in a stop is left behind soon."""
    monkeypatch.setattr(line, "_GRACE", 0.1)


@pytest.fixture
def agent() -> Scripted:
    return Scripted()


@pytest.fixture
def store() -> Store:
    return MemoryStore()


@pytest.fixture
def failing() -> Failing:
    return Failing()


@pytest.fixture
async def host(store: Store, agent: Scripted) -> AsyncIterator[Host]:
    """A host with the scripted agent; when it has stopped, no task of its is left."""
    before = asyncio.all_tasks()
    host = await started(store, agent)
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    async with asyncio.timeout(10):
        await host.stop()
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()} - {asyncio.current_task()}
    assert not left, f"tasks without an owner: {left}"


@pytest.fixture
async def client(host: Host) -> WireClient:
    """A client that is initialised and watches the root."""
    client = WireClient(host)
    await client.initialize(ROOT)
    return client


@pytest.fixture
async def other(host: Host) -> WireClient:
    """Another one."""
    client = WireClient(host)
    await client.initialize(ROOT)
    return client


@pytest.fixture
def files(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")
