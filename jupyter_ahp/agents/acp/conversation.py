"""One chat with an ACP agent: a process of its own, and a session in it.

B1, B2, B3, B17. The process is started by the first message and ends with the chat; one that has died is started again by
the next message, which goes on in the same session. The session's id is what the host keeps as the chat's memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acp import RequestError

from jupyter_ahp.agents.base import Approvals, Conversation, Prompt, Start, TurnFailed, TurnSink

from . import words
from .bridge import Bridge
from .callbacks import Callbacks
from .calls import Place
from .content import blocks_of
from .late import Late
from .session import Session
from .settings import Learned
from .terminals import Terminals
from .turn import Turn

if TYPE_CHECKING:
    from .known import Server

log = logging.getLogger(__name__)

_IDLE = 600.0  # seconds without a word, after which a process that can be done without ends


class _Stopped(Exception):
    """A person stopped the turn before its prompt was sent (B2)."""


class ACPConversation(Conversation):
    """Made by `ACPAgent.open`; starts nothing before the first message."""

    def __init__(self, server: Server, start: Start, learned: Learned, ends: dict[str, str]) -> None:
        self._server = server
        self._learned = learned
        self._turn: Turn | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None
        self._terminals = Terminals(self._terminal_said)
        directory = start.directories[0] if start.directories else str(Path.home())
        self._place = Place(directory, self._terminals)
        self._bridge = Bridge(lambda: self._turn)
        callbacks = Callbacks(self, start.directories, self._terminals)
        self._late = Late(start.host, server.title, self._begun_by_itself, self._over)
        self._approvals = Approvals()
        self._was_stopped = False
        """The last turn was: what the agent says of it now is heard by nobody (T5)."""
        self._session = Session(server, start, directory, learned, ends, self._bridge, callbacks.handle)

    @property
    def memory(self) -> str | None:
        """The session's id, once the agent was told anything in it."""
        return None if self._session.is_new else self._session.id

    @property
    def turn(self) -> Turn | None:
        return self._turn

    @property
    def pid(self) -> int | None:
        """Of the agent's process, while there is one."""
        return self._session.line.pid if self._session.line is not None else None

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        turn = self._turn = Turn(sink, prompt, self._place, title=self._server.title)
        self._approvals = prompt.approvals
        try:
            await self._wake()
            try:
                await self._run(turn, prompt)
            except TurnFailed as failure:
                # It had died unnoticed since the last turn, or does so at this one: once more will show.
                if failure.error_type != words.ENDED or not turn.sent or turn.heard or turn.stopped:
                    raise
                turn.sent = False
                await self._run(turn, prompt)
        except _Stopped:
            return
        except RequestError as error:
            if not turn.stopped:
                raise words.of_error(self._server, error) from error
        except asyncio.CancelledError:
            # It did not take in the stop, or is still starting: the next turn is another process's.
            await self._hang_up()
            raise
        finally:
            self._over(turn)
            if turn.sent:
                sink.resume_point(prompt.turn_id)

    async def _run(self, turn: Turn, prompt: Prompt) -> None:
        def step() -> None:
            """Between two steps of the turn's preparation (B2)."""
            if turn.stopped:
                raise _Stopped

        step()
        await self._bridge.offer(turn.tools.values())
        step()
        await self._session.connect(turn.sink.activity, turn.sink.notice, step)
        step()
        await self._session.apply(prompt.config, turn.sink.notice, prompt.model)
        step()
        commands = [command.name for command in self._learned.commands]
        blocks, unseen = await asyncio.to_thread(
            blocks_of,
            prompt,
            self._session.takes,
            begins=self._session.is_new,
            directories=self._session.untold,
            commands=commands,
        )
        step()
        if unseen:
            turn.sink.notice(
                f"{self._server.title} cannot be shown pictures: it was told of {', '.join(unseen)} only."
            )
        turn.sent = True
        turn.answered(await self._session.prompt(prompt.turn_id, blocks))

    def _begun_by_itself(self, sink: TurnSink) -> Turn:
        asked_nothing = Prompt("", "", approvals=self._approvals)
        turn = self._turn = Turn(sink, asked_nothing, self._place, title=self._server.title)
        turn.sent = True
        return turn

    def _over(self, turn: Turn) -> None:
        self._turn = None
        self._was_stopped = turn.stopped
        turn.close()
        self._rest_later()

    async def stop(self, running: asyncio.Task[None]) -> None:
        turn = self._turn
        if turn is None:
            running.cancel()
            return
        turn.stop()
        if turn.sent:
            await self._session.cancel()

    async def configure(self, config: Mapping[str, Any]) -> None:
        await self._session.apply(config, self._say)

    async def close(self) -> None:
        await self._wake()
        await self._hang_up()
        await self._bridge.close()

    async def _hang_up(self) -> None:
        try:
            await self._session.hang_up()
        finally:  # behind it: an agent whose command ends starts the next one
            await self._terminals.close()

    # ── between two turns ────────────────────────────────────────────────────────────────────────────────────
    def _rest_later(self) -> None:
        """A process takes hundreds of megabytes, in many agents: one that is not used for long ends."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(_IDLE, self._rest)

    def _rest(self) -> None:
        self._idle = None
        if self._turn is None and self._session.comes_back:
            self._resting = asyncio.create_task(self._hang_up())

    async def _wake(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._resting is not None:
            await asyncio.shield(self._resting)
            self._resting = None

    # ── what it says ─────────────────────────────────────────────────────────────────────────────────────────
    def updated(self, session_id: str, update: Any) -> None:
        """An update of the session; of what was said before, while it is loaded, nothing is news."""
        if self._session.heard(update, self._say):
            return
        if self._session.loading:
            return
        if self._turn is not None:
            self._turn.update(update)
        elif self._was_stopped or not self._late.hear(update):
            log.debug("%s said something behind a turn: %s", self._server.title, type(update).__name__)
            if self._idle is not None:
                self._rest_later()

    @property
    def _say(self) -> Callable[[str], None]:
        """A line in the turn that runs; in the log, where none does."""
        return self._turn.sink.notice if self._turn is not None else log.info

    def _terminal_said(self, terminal_id: str) -> None:
        if self._turn is not None:
            self._turn.terminal_said(terminal_id)
