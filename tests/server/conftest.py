from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.server import Home, JupyterServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """One server for a module's tests, with a token and a prefix, as behind a hub's proxy."""
    server = JupyterServer(Home(tmp_path_factory.mktemp("home")), base_url="/user/mia/").start()
    yield server
    server.stop()


@pytest.fixture
def configured(home: Home, with_server: Callable[..., JupyterServer]) -> Callable[..., JupyterServer]:
    """Like `with_server`, with a `jupyter_server_config.py` of the given text."""

    def start(config: str, **options: object) -> JupyterServer:
        home.make()
        (home.config / "jupyter_server_config.py").write_text(config)
        return with_server(**options)

    return start
