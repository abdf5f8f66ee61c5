from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from jupyter_ahp.client.connection import Connection, Pace
from jupyter_ahp.client.discovery import Server
from tests.client.fake_host import FakeHost, ThreadedHost

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
