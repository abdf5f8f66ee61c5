"""A JupyterLab in a process of its own, and a Chromium that looks at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tests.mock_model import MockModel
from tests.support.server import ROOT, Home, JupyterServer

from .lab import Lab, open_lab

SHOTS = Path(__file__).parent / "shots"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str | None:
    """What these tests need and this machine lacks, in words; None when all is there."""
    if not any(map(shutil.which, BROWSERS)):
        return "needs Chromium: apt-get install chromium fonts-dejavu-core"
    if not (ROOT / "jupyter_ahp" / "labextension" / "static" / "style.js").exists():
        return "needs the built JupyterLab extension: cd labextension && jlpm install && jlpm build"
    return None


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path. Skips without it, with what to do; fails where a browser is required, as in CI."""
    reason = missing()
    if reason is not None:
        if os.environ.get("JUPYTER_AHP_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return next(path for path in map(shutil.which, BROWSERS) if path)


@pytest.fixture(scope="module")
def model() -> Iterator[MockModel]:
    with MockModel() as model:
        yield model


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Where the server's person is at home; a module may set it up otherwise."""
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def lab_server(chromium: str, model: MockModel, lab_home: Home) -> Iterator[JupyterServer]:
    """JupyterLab behind a prefix, whose assistant talks to the model of `tests/mock_model`."""
    home = lab_home
    env = {"OPENAI_API_KEY": "sk-for-tests", "OPENAI_BASE_URL": model.base_url}
    server = JupyterServer(
        home, base_url="/user/mia/", module="jupyterlab", args=["--expose-app-in-browser"], env=env
    )
    home.make()
    settings = home.config / "labconfig"
    settings.mkdir()
    (settings / "default_setting_overrides.json").write_text(
        '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}'
    )
    server.start(timeout=120)
    yield server
    server.stop()


OpenLab = Callable[..., AbstractAsyncContextManager[Lab]]


@pytest.fixture
def lab(chromium: str, lab_server: JupyterServer, tmp_path: Path) -> OpenLab:
    """`async with lab() as page`: JupyterLab in a browser with a profile of its own."""

    @asynccontextmanager
    async def start(path: str | None = None) -> AsyncIterator[Lab]:
        async with open_lab(lab_server, chromium, tmp_path / "profile", shots=SHOTS, path=path) as page:
            yield page

    return start
