from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_ahp import Chat, connect
from jupyter_ahp.notebook import widget
from tests.client.fake_host import FakeHost, ThreadedHost


@pytest.fixture
def threaded() -> Iterator[ThreadedHost]:
    host = ThreadedHost()
    with host:
        yield host


@pytest.fixture
def fake(threaded: ThreadedHost) -> FakeHost:
    return threaded.host


@pytest.fixture
def chat(fake: FakeHost) -> Iterator[Chat]:
    with Chat("fake", host=connect(fake.url, fake.token)) as chat:
        yield chat


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A front end that was built, though only in name."""
    (tmp_path / "widget.js").write_text("export default {}")
    (tmp_path / "widget.css").write_text(".ahp {}")
    monkeypatch.setattr(widget, "STATIC", tmp_path)
    return tmp_path
