from __future__ import annotations

import json
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
def environment(installed: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(ROOT), str(installed)]), "MOCK_KEY": "sk-for-tests"}


def configure(home: Home, model: MockModel) -> None:
    """Two models for the assistant, the second one sees; and terminals."""
    home.make()
    wanted = {"ServerApp": {"jpserver_extensions": {"jupyter_server_terminals": True}}}
    # Read after `others.json`, which turns off what most tests have no use for.
    (home.config / "jupyter_server_config.d" / "zz_terminals.json").write_text(json.dumps(wanted))
    mock = {"base_url": model.base_url, "model": model.model, "api_key_env": "MOCK_KEY"}
    models = [
        {"id": "plain", "name": "Plain", **mock},
        {"id": "seeing", "name": "Seeing", "vision": True, **mock},
    ]
    config = {"AssistantAgent": {"models": models}}
    (home.config / "jupyter_server_config.json").write_text(json.dumps(config))


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str], model: MockModel
) -> Iterator[JupyterServer]:
    """One server for all conversations that need none of their own, behind a prefix as a hub's proxy gives it."""
    home = Home(tmp_path_factory.mktemp("home"))
    configure(home, model)
    server = JupyterServer(home, base_url="/user/mia/", env=environment).start()
    yield server
    server.stop()


@pytest.fixture
def own_server(
    home: Home, with_server: Callable[..., JupyterServer], environment: dict[str, str], model: MockModel
) -> JupyterServer:
    """A server of the test's own, to be stopped and started again."""
    configure(home, model)
    return with_server(env=environment)
