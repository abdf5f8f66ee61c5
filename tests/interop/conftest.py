from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mock_model import MockModel
from tests.support.server import ROOT, Home, JupyterServer

PACKAGE = Path(__file__).parent / "agent_package"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as pip leaves it: the agent's module, and the entry point by which the server finds it."""
    site = tmp_path_factory.mktemp("site")
    (site / "puppet.py").write_text((PACKAGE / "puppet.py").read_text())
    info = site / "puppet-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: puppet\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jupyter_ahp.agents]\npuppet = puppet:Puppet\n")
    return site


@pytest.fixture(scope="session")
def model() -> Iterator[MockModel]:
    with MockModel() as model:
        yield model


@pytest.fixture(scope="session")
def settings(installed: Path, model: MockModel) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(installed)]),
        "OPENAI_API_KEY": "sk-for-tests",
        "OPENAI_BASE_URL": model.base_url,
    }


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Iterator[JupyterServer]:
    """One server for all conversations that need none of their own, behind a prefix as a hub's proxy gives it."""
    home = Home(tmp_path_factory.mktemp("home"))
    server = JupyterServer(home, base_url="/user/mia/", env=settings).start()
    yield server
    server.stop()


@pytest.fixture
def own_server(
    with_server: Callable[..., JupyterServer], settings: dict[str, str]
) -> Callable[..., JupyterServer]:
    """A server of the test's own, to be stopped and started again."""

    def start(*args: str) -> JupyterServer:
        return with_server(env=settings, args=list(args))

    return start
