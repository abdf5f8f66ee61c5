"""The small model in this process, behind the same API as any other: llama.cpp's own server on loopback.

One instance for all chats, loaded at the first message, one request at a time. The server takes only our key, since
other people may be on the same machine.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from jupyter_ahp.agents.base import TurnFailed

CONTEXT_TOKENS: Final = 2048
"""What it remembers of a chat. More costs memory, and at 150 tokens a second a long wait before the first word."""
ANSWER_TOKENS: Final = 512

INSTRUCTIONS: Final = "You are a helpful assistant in JupyterLab. Answer briefly, in Markdown."


def is_installed() -> bool:
    """Whether the extra `local` is there. Imports nothing."""
    return importlib.util.find_spec("xllamacpp") is not None


class LocalModel:
    """The model of a GGUF file; loads when it is first used, is freed by `close`."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._key = secrets.token_urlsafe(24)
        self._one_at_a_time = asyncio.Lock()
        self._loading: asyncio.Future[Any] | None = None

    @asynccontextmanager
    async def turn(self, activity: Callable[[str], None]) -> AsyncIterator[tuple[str, str]]:
        """Have the model to oneself: its base URL and key. `activity` is told what is being waited for.

        Raises `TurnFailed` when it cannot be loaded.
        """
        if self._one_at_a_time.locked():
            activity("Waiting: the small model answers one chat at a time")
        async with self._one_at_a_time:
            if self._loading is None:
                self._loading = asyncio.ensure_future(asyncio.to_thread(self._start))
            if not self._loading.done():
                activity("Loading the model, first time only")
            try:
                # A stop while it loads does not throw away what is loaded.
                server = await asyncio.shield(self._loading)
            except (RuntimeError, OSError, ImportError) as error:
                self._loading = None
                raise TurnFailed(
                    "local_model",
                    "The small model could not be loaded. Run `jupyter-ahp local-model` to fetch it again.",
                    resumable=True,
                    details=f"{self._path}: {error}",
                ) from error
            yield f"{server.listening_address}/v1", self._key

    async def close(self) -> None:
        """Free its memory and its port. Waits for a load that is under way."""
        loading, self._loading = self._loading, None
        if loading is None:
            return
        held = list(await asyncio.gather(loading, return_exceptions=True))
        del loading
        # Dropping the last reference ends llama.cpp's threads, which may have to finish a step first.
        await asyncio.to_thread(held.clear)

    def _start(self) -> Any:
        xllamacpp: Any = importlib.import_module("xllamacpp")
        if not self._path.is_file():
            raise FileNotFoundError("the file is not there")
        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.model_alias = {self._name}
        params.n_ctx = CONTEXT_TOKENS
        params.n_parallel = 1
        # One thread: on a machine of two cores two threads are several times slower, and leave none for the server.
        params.cpuparams.n_threads = 1
        params.cpuparams_batch.n_threads = 1
        params.n_batch = params.n_ubatch = 256  # a stop is noticed between batches, so within two seconds
        params.n_threads_http = 2
        params.n_cache_reuse = 32  # when a chat's beginning is left out, the rest need not be read anew
        params.cache_ram_mib = 0
        params.port = 0
        params.api_keys = [self._key]
        params.ui = False
        params.endpoint_slots = False
        params.verbosity = 0
        return xllamacpp.Server(params)
