"""A turn of the host's beside what the CLI was handed in it. B5, B7, B9.

The CLI answers prompts in turns of its own: one of the host's may take several of them (steering that came during the last
answer), and some belong to no turn that a person began.
"""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_ahp.agents.base import TurnFailed, TurnSink
from jupyter_ahp.agents.claude.reporter import Reporter


class Run:
    """What the CLI was handed and has not answered, and where its answer goes."""

    def __init__(self, *prompts: str) -> None:
        self.waits: set[str] = set(prompts)
        """Prompts that the CLI has not answered, by uuid."""
        self.steering: dict[str, str] = {}
        """Of these, what steers: the message's id by uuid, as long as the model has not read it."""
        self.texts: dict[str, str] = {}
        """What steers, in words, by uuid."""
        self.taken = False
        """The CLI has begun with it: it can be steered, and stopped by an interrupt (B6)."""
        self.stopped = False
        self.deaf = False
        """Nobody hears what is said to it."""
        self.message_id: str | None = None
        """The steering message that a late run answers (B9)."""
        self.point: str | None = None
        """The last entry of the CLI's transcript that belongs to it."""
        self.reporter: Reporter | None = None
        self._backlog: list[Any] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def over(self) -> bool:
        return self._done.done()

    @property
    def sink(self) -> TurnSink | None:
        return self.reporter.sink if self.reporter is not None else None

    def attach(self, reporter: Reporter) -> None:
        """The host has opened its turn: what came before goes there now."""
        self.reporter = reporter
        backlog, self._backlog = self._backlog, []
        for act in backlog:
            act(reporter)
        if self.point is not None:
            reporter.sink.resume_point(self.point)

    def tell(self, act: Any) -> None:
        """`act` is called with the reporter, now or once there is one."""
        if self.reporter is not None:
            act(self.reporter)
        elif not self.deaf:
            self._backlog.append(act)

    def take(self) -> None:
        self.taken = True

    def reached(self, point: str) -> None:
        """Its answer came this far: named soon, so that a crash does not lose what was said (X1)."""
        first = self.point is None
        self.point = point
        if first and self.sink is not None:
            self.sink.resume_point(point)

    def read(self, uuid: str) -> None:
        """The model has read this prompt."""
        message_id = self.steering.pop(uuid, None)
        if message_id is not None:
            self.tell(lambda reporter: reporter.read_steering(message_id))

    def finish(self) -> None:
        self._end(None)

    def fail(self, failure: TurnFailed) -> None:
        """It takes the steering that it holds with it (B7)."""
        for uuid in [*self.steering]:
            self.read(uuid)
        self._end(failure)

    def _end(self, failure: TurnFailed | None) -> None:
        if self._done.done():
            return
        if self.point is not None and self.sink is not None:
            self.sink.resume_point(self.point)
        if failure is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(failure)
            self._done.exception()  # a turn that was never opened has nobody to hear of it

    async def wait(self) -> None:
        """Until it is over. Raises `TurnFailed`. Being cancelled leaves it as it is."""
        await asyncio.shield(self._done)
