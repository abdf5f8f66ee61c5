"""Fixtures that every test directory shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.server import Home, JupyterServer


@pytest.fixture
def home(tmp_path: Any) -> Home:
    """One person's directories, empty."""
    return Home(tmp_path)


@pytest.fixture
def with_server(home: Home) -> Iterator[Callable[..., JupyterServer]]:
    """Starts real servers: `with_server(token=…, base_url=…, args=[…], env={…}, home=…)`; they end with the test."""
    started: list[JupyterServer] = []

    def start(*, home: Home = home, **options: Any) -> JupyterServer:
        server = JupyterServer(home, **options)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()
