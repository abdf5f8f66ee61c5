from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from jupyter_ahp.client.connection import Connection, Pace
from jupyter_ahp.client.discovery import Server
from jupyter_ahp.store.memory import MemoryStore
from tests.client.fake_host import FakeHost, ThreadedHost
from tests.client.real_host import ByHand, RealHost

QUICK = Pace(first=0.01, most=0.05, quiet=5, patience=5)


@pytest.fixture
async def fake() -> AsyncIterator[FakeHost]:
    """A host by hand, in the test's own event loop."""
    async with FakeHost() as host:
        yield host


@pytest.fixture
async def connection(fake: FakeHost) -> AsyncIterator[Connection]:
    """An open connection to it, which finds it again wherever it is."""
    connection = Connection(lambda: Server(fake.url, fake.token), pace=QUICK)
    await connection.open()
    yield connection
    await connection.close()


@pytest.fixture
def threaded() -> Iterator[ThreadedHost]:
    """A host by hand on a thread of its own."""
    host = ThreadedHost()
    with host:
        yield host


@pytest.fixture
def agent() -> ByHand:
    return ByHand()


@pytest.fixture
async def real(agent: ByHand) -> AsyncIterator[RealHost]:
    """The host itself, in the test's own event loop, with that agent."""
    async with RealHost(MemoryStore(), agent) as host:
        yield host


@pytest.fixture
async def line(real: RealHost) -> AsyncIterator[Connection]:
    """An open connection to it."""
    line = Connection(lambda: Server(real.url, ""), pace=QUICK)
    await line.open()
    yield line
    await line.close()
