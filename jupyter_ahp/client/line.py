"""How one chat is talked in: a message that is said becomes a turn, at once or behind those that run, and once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, TypeAlias

from ..protocol.meta import HOLD
from ..protocol.times import parse_ms, to_iso
from .connection import Connection
from .errors import Refused, TurnFailed
from .mirror import Mirror
from .model import Turn, turn_of
from .places import Kind, pending_in, turn_in, turn_with

Json: TypeAlias = dict[str, Any]


class Line:
    """A chat's mirror, and the connection that leads to its host."""

    def __init__(self, connection: Connection, mirror: Mirror) -> None:
        self._connection = connection
        self.mirror = mirror

    @property
    def state(self) -> Json:
        return self.mirror.state

    def dispatch(self, action: Json) -> asyncio.Future[None]:
        """As `Connection.dispatch`."""
        return self._connection.dispatch(self.mirror.channel, action)

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def say(self, message: Json) -> AsyncGenerator[Json, None]:
        """Say a message; then its turn at each change, the end included. Leaving earlier stops it.

        Behind a turn that runs it waits in the queue for its own; leaving takes it back then. Where that turn starts
        nothing behind itself (a stop, a failure, a rewind: Q4), it is started from here: a caller who waits is not left
        waiting. Raises `Refused`.
        """
        turn_id: str | None = None
        while turn_id is None:
            if "activeTurn" in self.state:
                turn_id = await self._in_line(message)
            else:
                turn_id = await self._begin(message)
        async with aclosing(self._follow(turn_id)) as turns:
            async for turn in turns:
                yield turn

    async def send_on(self, message_id: str, message: Json) -> AsyncGenerator[Json, None]:
        """Start a message that waits as soon as nothing runs; otherwise as `say`, but that it stays where it waits."""
        turn_id = await self._turn_of(message_id, message, now=True)
        async with aclosing(self._follow(turn_id)) as turns:
            async for turn in turns:
                yield turn

    async def resume(self) -> AsyncGenerator[Json, None]:
        """Go on with the last turn, which failed; otherwise as `say`."""
        last = (self.state.get("turns") or [{"id": ""}])[-1]["id"]
        await self._start({"type": "chat/turnResume", "turnId": last})
        async with aclosing(self._follow(last)) as turns:
            async for turn in turns:
                yield turn

    async def _start(self, action: Json) -> None:
        """Done when the turn runs. Leaving earlier stops it."""
        try:
            await self.dispatch(action)
        except asyncio.CancelledError:
            self._leave(action["turnId"])
            raise

    async def _begin(self, message: Json) -> str | None:
        """Start its turn: the id; None where somebody else's was faster."""
        before = _latest(self.state)
        start = _start_of(message)
        try:
            await self._start(start)
        except Refused:
            if self.mirror.ended is not None or _latest(self.state) == before:
                raise
            return None
        return str(start["turnId"])

    async def _in_line(self, message: Json) -> str:
        """Queue it, and wait until it has its turn: the turn's id. Leaving earlier takes it back."""
        waiting = str(uuid.uuid4())
        try:
            await self.put("queued", waiting, message)
            return await self._turn_of(waiting, message)
        except BaseException:
            if self._connection.status != "closed":
                answer = self.take_back("queued", waiting)
                # It may have started just before.
                answer.add_done_callback(lambda _: self._leave_turn_with(waiting))
            raise

    async def _turn_of(self, waiting: str, message: Json, *, now: bool = False) -> str:
        """The turn that a message which waits becomes, or is read in, once it has begun.

        Where nothing else would start it, it is started from here; with `now`, whenever nothing runs.
        """
        behind = _latest(self.state)
        async with aclosing(self.mirror.states()) as states:
            async for state in states:
                if pending_in(state, waiting) is None:
                    turn = turn_with(state, waiting)
                    if turn is None:
                        raise Refused("Somebody took the message back before its turn came.")
                    return str(turn["id"])
                if "activeTurn" not in state and (now or _is_stuck(state, behind)):
                    start = _start_of(message)
                    try:
                        await self._start({**start, "queuedMessageId": waiting})
                    except Refused:
                        if self.mirror.ended is not None or _latest(self.state) == _latest(state):
                            raise
                    else:
                        return str(start["turnId"])
                behind = _latest(state)
        raise Refused(self.mirror.ended or "The chat is gone.")

    async def _follow(self, turn_id: str) -> AsyncGenerator[Json, None]:
        """The turn at each change, its end included. Leaving earlier stops it."""
        over = False
        try:
            async with aclosing(self.mirror.states()) as states:
                async for state in states:
                    turn = turn_in(state, turn_id)
                    over = turn is None or "state" in turn
                    if turn is None:
                        raise Refused("The turn was taken out of the chat before it had ended.")
                    yield turn
                    if over:
                        return
            over = True
            raise Refused(self.mirror.ended or "The chat is gone.")
        finally:
            if not over:
                self._leave(turn_id)

    def cancel(self, turn_id: str) -> asyncio.Future[None]:
        """Stop a turn. Done when it has stopped; `Refused` if it does not run."""
        active = self.state.get("activeTurn") or {}
        started = parse_ms(active.get("startedAt"))
        duration = 0 if started is None else max(0, _now_ms() - started)
        return self.dispatch({"type": "chat/turnCancelled", "turnId": turn_id, "duration": duration})

    def _leave(self, turn_id: str) -> None:
        """Nobody waits for this turn any more."""
        if self._connection.status != "closed":
            self.cancel(turn_id)

    def _leave_turn_with(self, waiting: str) -> None:
        turn = turn_with(self.state, waiting)
        if turn is not None and "state" not in turn:
            self._leave(turn["id"])

    # ── what waits ───────────────────────────────────────────────────────────────────────────────────────────────
    def put(self, kind: Kind, message_id: str, message: Json, *, hold: bool = False) -> asyncio.Future[None]:
        """Have a message wait, or change it under its id."""
        action: Json = {"type": "chat/pendingMessageSet", "kind": kind, "id": message_id, "message": message}
        return self.dispatch({**action, "_meta": {HOLD: True}} if hold else action)

    def take_back(self, kind: Kind, message_id: str) -> asyncio.Future[None]:
        """Take a waiting message out; nothing starts for that."""
        action = {"type": "chat/pendingMessageRemoved", "kind": kind, "id": message_id}
        return self.dispatch({**action, "_meta": {HOLD: True}})


async def finish(turns: AsyncGenerator[Json, None], timeout: float | None) -> Turn:
    """Wait for the end of what `say` or `resume` gives. Raises `TurnFailed`, `TimeoutError`, `Refused`."""
    turn: Json = {}
    try:
        async with asyncio.timeout(timeout), aclosing(turns):
            async for latest in turns:
                turn = latest
    except TimeoutError:
        raise TimeoutError(f"The turn had not ended after {timeout:g} s, and was stopped.") from None
    return ended(turn)


def ended(raw: Json) -> Turn:
    """A turn that has ended. Raises `TurnFailed`."""
    turn = turn_of(raw)
    if turn.state == "error":
        raise TurnFailed(turn)
    return turn


def _start_of(message: Json) -> Json:
    """The start of a new turn."""
    turn_id = str(uuid.uuid4())
    return {
        "type": "chat/turnStarted",
        "turnId": turn_id,
        "startedAt": to_iso(_now_ms()),
        "message": message,
    }


def _is_stuck(state: Json, behind: str | None) -> bool:
    """What ran last, `behind` at the last look, lets nothing start behind it (Q4)."""
    turns = state.get("turns") or []
    was_cut = behind is not None and turn_in(state, behind) is None
    return was_cut or (bool(turns) and turns[-1]["state"] != "complete")


def _latest(state: Json) -> str | None:
    """The turn that runs, or ran last."""
    turns = [*(state.get("turns") or [])[-1:], *([state["activeTurn"]] if "activeTurn" in state else [])]
    return str(turns[-1]["id"]) if turns else None


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
