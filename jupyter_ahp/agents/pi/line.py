"""The line to a running pi: its RPC mode, one JSON object a line in either direction.

A request is answered by its id; everything else that pi says is an event. Some requests are never answered by some
versions, so none is waited for without a limit.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyter_ahp.agents.base import Json
from jupyter_ahp.agents.processes import Child

log = logging.getLogger(__name__)

_PATIENCE = 20.0  # seconds for an answer


class Ended(Exception):
    """pi has ended; the words say how, with the end of what it said."""


class Declined(Exception):
    """pi did not do what it was asked to, for this reason."""


class Line:
    """One pi. `heard` is called with each event, in order, on the event loop; with None when pi has ended."""

    def __init__(self, child: Child, heard: Callable[[Json | None], None]) -> None:
        self._child = child
        self._heard = heard
        self._ids = itertools.count(1)
        self._waiting: dict[str, tuple[str, asyncio.Future[Json]]] = {}
        """By id, the kind of request and its answer."""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        heard: Callable[[Json | None], None],
    ) -> Line:
        """Start pi. Raises `NotStarted`."""
        return cls(await Child.start(argv, cwd=cwd, env=env), heard)

    @property
    def alive(self) -> bool:
        return self._child.alive and not self._reading.done()

    def say(self, what: Mapping[str, Any]) -> None:
        """Say something that nobody answers."""
        self._child.write(json.dumps(what, ensure_ascii=False).encode(errors="replace"))

    async def ask(self, kind: str, *, patience: float = _PATIENCE, **fields: Any) -> Any:
        """Have something done; its result. Raises `Declined`, `Ended`, `TimeoutError`."""
        if not self.alive:
            raise self.ended()
        name = f"r{next(self._ids)}"
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[name] = kind, answer
        self.say({"id": name, "type": kind, **fields})
        try:
            async with asyncio.timeout(patience):
                said = await answer
        finally:
            del self._waiting[name]
        if not said.get("success"):
            raise Declined(str(said.get("error") or f"pi did not {kind}, and does not say why."))
        return said.get("data")

    def ended(self) -> Ended:
        """How it ended, in words."""
        code = self._child.code
        how = "" if code is None else f" (killed by signal {-code})" if code < 0 else f" (exit code {code})"
        tail = self._child.stderr
        return Ended(f"pi ended{how}." + (f" The end of what it said:\n{tail[-2000:]}" if tail else ""))

    async def close(self) -> None:
        """End pi, and everything that it has started."""
        await self._child.close()
        await asyncio.wait([self._reading])

    async def _read(self) -> None:
        try:
            while (line := await self._child.read()) is not None:
                try:
                    said = json.loads(line)
                except ValueError:
                    log.warning("pi said something that is not JSON: %.200r", line)
                    continue
                if isinstance(said, dict):
                    self._take(said)
            await self._child.wait()
        finally:
            for _, answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(self.ended())
                    answer.exception()
            self._heard(None)

    def _take(self, said: Json) -> None:
        if said.get("type") == "response":
            answer = self._answer_of(said)
            if answer is not None:
                answer.set_result(said)
            elif not said.get("success"):
                log.warning("pi did not take %s: %s", said.get("command"), said.get("error"))
            return
        try:
            self._heard(said)
        except Exception:
            log.exception("An event of pi could not be taken: %s", said.get("type"))

    def _answer_of(self, said: Json) -> asyncio.Future[Json] | None:
        """What waits for this answer. One to a request that a version does not know comes without an id (0.73)."""
        for name, (kind, answer) in self._waiting.items():
            if not answer.done() and (
                said.get("id") == name or ("id" not in said and said.get("command") == kind)
            ):
                return answer
        return None
