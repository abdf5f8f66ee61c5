"""Commands that an ACP agent has us run for it, in the session's directories (`terminal/…`)."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

from acp.schema import TerminalExitStatus

from jupyter_ahp.agents.processes import Program, environment

_KEPT = 1_000_000  # characters of output, unless the agent asks for less
_PAUSE = 0.1  # seconds between two looks at what a command says
_CHUNK = 65536
_DRAIN = 1.0  # seconds for the last output, when a command has ended


class Terminals:
    """The commands of one conversation. `said` is told the id of one that has said something, or ended."""

    def __init__(self, said: Callable[[str], None]) -> None:
        self._said = said
        self._jobs: dict[str, Job] = {}
        self._released: dict[str, str] = {}
        self._count = 0

    async def start(
        self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str, limit: int | None
    ) -> str:
        """Start a command: its id. One without arguments is a line for the shell. Raises `NotStarted`."""
        self._count += 1
        terminal_id = f"terminal-{self._count}"
        argv = [command, *args] if args else _shell(command)
        program = await asyncio.to_thread(
            Program, argv, cwd, environment(env), errors=subprocess.STDOUT, typed=subprocess.DEVNULL
        )
        self._jobs[terminal_id] = Job(program, min(limit or _KEPT, _KEPT), lambda: self._said(terminal_id))
        return terminal_id

    def job(self, terminal_id: str) -> Job:
        """Raises `KeyError`."""
        return self._jobs[terminal_id]

    def output(self, terminal_id: str) -> str:
        """What it has said so far; "" for one that never was."""
        job = self._jobs.get(terminal_id)
        return job.output if job is not None else self._released.get(terminal_id, "")

    async def release(self, terminal_id: str) -> None:
        """End it, if it runs; what it has said can be shown until the conversation ends. Raises `KeyError`."""
        job = self._jobs.pop(terminal_id)
        await job.kill()
        self._released[terminal_id] = job.output

    async def close(self) -> None:
        jobs, self._jobs = self._jobs, {}
        await asyncio.gather(*(job.kill() for job in jobs.values()))


class Job:
    """A command that runs, or has run."""

    def __init__(self, program: Program, limit: int, said: Callable[[], None]) -> None:
        self.output = ""
        self.truncated = False
        self.status: TerminalExitStatus | None = None
        self.ended = asyncio.Event()
        self._program = program
        self._limit = limit
        self._said = said
        self._telling: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._room = threading.Event()
        """The loop has taken what came before: a command that prints without end leaves it time for others."""
        self._room.set()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        reading = threading.Thread(target=self._read, name=f"job-{program.process.pid}", daemon=True)
        reading.start()
        threading.Thread(target=self._wait, args=(reading,), daemon=True).start()

    async def kill(self) -> None:
        """End it and what it has started. Its output and status stay."""
        if self.status is None:
            await asyncio.to_thread(self._program.end)
            await self.ended.wait()

    def _read(self) -> None:
        assert self._program.process.stdout is not None
        with self._program.process.stdout as pipe:
            while self._room.wait() and (said := os.read(pipe.fileno(), _CHUNK)):
                self._room.clear()
                self._tell(self._took, said)

    def _wait(self, reading: threading.Thread) -> None:
        code = self._program.wait()
        reading.join(_DRAIN)
        self._tell(self._exited, code)

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(what, *arguments)

    def _took(self, said: bytes) -> None:
        self._room.set()
        self.output += self._decoder.decode(said)
        if len(self.output) > self._limit:
            self.output = self.output[-self._limit :]
            self.truncated = True
        if self._telling is None:
            self._telling = self._loop.call_later(_PAUSE, self._told)

    def _told(self) -> None:
        self._telling = None
        self._said()

    def _exited(self, code: int) -> None:
        by_signal = signal.Signals(-code).name if code < 0 else None
        self.status = TerminalExitStatus(exit_code=code if code >= 0 else None, signal=by_signal)
        self.ended.set()
        if self._telling is not None:
            self._telling.cancel()
        self._told()


def _shell(line: str) -> list[str]:
    return ["cmd", "/c", line] if os.name == "nt" else ["/bin/sh", "-c", line]
