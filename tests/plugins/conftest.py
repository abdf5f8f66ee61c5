"""A host with a client, and plugins that a test registers in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema  # noqa: F401  (the first call of a tool imports it, which takes seconds on a busy machine)
import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.plugins import PluginHost
from jupyter_ahp.plugins.loading import Plugins, load_plugins
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Scripted, WireClient, started

SESSION = "ahp-session:/with-plugins"

Load = Callable[..., Awaitable[Plugins]]


@pytest.fixture
def agent() -> Scripted:
    return Scripted()


@pytest.fixture
async def host(agent: Scripted, tmp_path: Path) -> AsyncIterator[Host]:
    """When it has stopped, no task of its or of a plugin's is left."""
    before = asyncio.all_tasks()
    host = await started(MemoryStore(), agent, directory=tmp_path)
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    async with asyncio.timeout(20):
        await host.stop()
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()} - {asyncio.current_task()}
    assert not left, f"tasks without an owner: {left}"


@pytest.fixture
async def plugin(host: Host) -> AsyncIterator[PluginHost]:
    """What a plugin named `painter` is handed."""
    plugin = PluginHost("painter", host.extensions, logging.getLogger("test"))
    yield plugin
    await plugin.unregister()


@pytest.fixture
async def load(host: Host) -> AsyncIterator[Load]:
    """`load_plugins` with no installed plugins but those that are given."""
    loaded: list[Plugins] = []

    async def load(*configured: str, **options: Any) -> Plugins:
        options.setdefault("installed", ())
        plugins = await load_plugins(host.extensions, configured, **options)
        loaded.append(plugins)
        return plugins

    yield load
    for plugins in loaded:
        await plugins.close()


@pytest.fixture
async def client(host: Host) -> WireClient:
    client = WireClient(host)
    await client.initialize(ROOT)
    return client


@pytest.fixture
async def chat(client: WireClient) -> str:
    return await client.create(SESSION)
