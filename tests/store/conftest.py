"""Stores to test: one in files, one in memory, each in the hands of somebody who can stop and start it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_ahp.host.ports import Store
from jupyter_ahp.store.files import FileStore
from jupyter_ahp.store.memory import MemoryStore


class Kept:
    """A store that is open, and what a restart of the server makes of it."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self.store: Store = MemoryStore() if data_dir is None else FileStore(data_dir)

    async def restart(self) -> Store:
        await self.store.close()
        if self._data_dir is not None:
            self.store = FileStore(self._data_dir)
        await self.store.open()
        return self.store


@pytest.fixture(params=["files", "memory"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    kept = Kept(tmp_path / "ahp" if request.param == "files" else None)
    await kept.store.open()
    yield kept
    await kept.store.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "ahp"


@pytest.fixture
async def files(data_dir: Path) -> AsyncIterator[FileStore]:
    store = FileStore(data_dir)
    await store.open()
    yield store
    await store.close()
