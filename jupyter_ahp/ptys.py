"""Pseudo-terminals: Jupyter Server's own, which Lab lists and opens, and plain ones where there is no such server.

POSIX only: a stop has to reach a whole process group, which Windows' pseudo-terminals do not have.
"""

from __future__ import annotations

import asyncio
import codecs
import ctypes
import itertools
import logging
import os
import signal
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from .host.ports import Launch, Pty, Ptys

log = logging.getLogger(__name__)

_PATIENCE = 0.4  # seconds between asking a process group to end and making it
_LOOKS = 40  # in that time, at whether it has
_DRAIN = 0.3  # seconds that the last output may take when something in the background holds the terminal
_TYPED = 256 * 1024  # characters that may wait to be read by what runs
_ASKING = (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT) if os.name == "posix" else ()


class _ProcessPty(Pty):
    """A process on a pty, in whosever hands the reading is. Owns the tasks that wait for its end and type into it.

    The terminal's other end is held open here until the process has ended. So the end of the output is never seen before
    that of the process (for which `ptyprocess` would block the event loop), and its exit code is known.
    """

    def __init__(
        self, process: Any, output: Callable[[str], None], ended: Callable[[int | None], None]
    ) -> None:
        self._process = process
        self._output = output
        self._told = ended
        self._held = os.open(_other_end(process.fd), os.O_RDWR | os.O_NOCTTY)
        self._read_all = asyncio.Event()
        self._typed: deque[bytes] = deque()
        self._typing: asyncio.Task[None] | None = None
        self._killing: asyncio.Task[None] | None = None
        self._ending = asyncio.create_task(self._wait())

    def write(self, text: str) -> None:
        if self._ending.done():
            return
        if sum(map(len, self._typed)) + len(text) > _TYPED:
            raise OSError("it has not read what was typed before.")
        self._typed.append(text.encode(errors="replace"))
        if self._typing is None:
            self._typing = asyncio.create_task(self._type())

    async def _type(self) -> None:
        """In a thread, since a write waits for a program that does not read."""
        try:
            while self._typed:
                await asyncio.to_thread(os.write, self._process.fd, self._typed.popleft())
        except OSError as error:  # it ended meanwhile
            log.debug("What was typed into a terminal was not read: %s", error)
            self._typed.clear()
        finally:
            self._typing = None

    def resize(self, columns: int, rows: int) -> None:
        if not self._ending.done():
            self._process.setwinsize(rows, columns)

    async def kill(self) -> None:
        if self._killing is None:
            if self._ending.done():
                return
            self._killing = asyncio.create_task(self._kill())
        await asyncio.shield(self._killing)

    async def _kill(self) -> None:
        groups = {self._process.pid}
        try:
            groups.add(os.tcgetpgrp(self._process.fd))  # what a shell runs is a group of its own
        except OSError as error:
            log.debug("A terminal has no group in front: %s", error)
        groups.discard(0)
        away = await asyncio.to_thread(_descendants, self._process.pid, groups)
        for number in _ASKING:
            _signal(groups, away, number)
        for _ in range(_LOOKS):
            if not any(_lives(os.killpg, group) for group in groups) and not any(
                _lives(os.kill, process) for process in away
            ):
                break
            await asyncio.sleep(_PATIENCE / _LOOKS)
        _signal(groups, away, signal.SIGKILL)
        await asyncio.wait([self._ending])

    async def _wait(self) -> None:
        pause = 0.005
        while self._runs():
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        os.close(self._held)
        try:
            async with asyncio.timeout(_DRAIN):
                await self._read_all.wait()
        except TimeoutError:  # something in the background holds it
            self._let_go()
        code, by_signal = self._process.exitstatus, self._process.signalstatus
        self._told(code if by_signal is None else 128 + int(by_signal))

    def _runs(self) -> bool:
        from ptyprocess import PtyProcessError  # type: ignore[import-untyped]

        try:
            return bool(self._process.isalive())
        except PtyProcessError as error:  # somebody else was told how it ended
            log.warning("How a command ended is not known: %s", error)
            return False

    @abstractmethod
    def _let_go(self) -> None:
        """Read no more; close the terminal."""


def _other_end(terminal: int) -> str:
    """The path of a pseudo-terminal's other end (`os.ptsname`, which Python has from 3.13 on)."""
    libc = ctypes.CDLL(None)
    libc.ptsname.restype = ctypes.c_char_p
    path = libc.ptsname(terminal)
    if path is None:
        raise OSError("the terminal has no name on this system.")
    return os.fsdecode(path)


def _descendants(process: int, groups: set[int]) -> set[int]:
    """What a process started, and what that did, as far as it left these groups (`setsid`). Blocks.

    Known where there is a /proc. One whose parent has ended is nobody's child any more: it was meant to stay.
    """
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                _, parent, group, *_ = file.read().rpartition(") ")[2].split()
        except (OSError, ValueError):
            continue  # ended meanwhile
        children.setdefault(int(parent), []).append((int(entry), int(group)))
    found: set[int] = set()
    waiting = [process]
    while waiting:
        for child, of_group in children.get(waiting.pop(), ()):
            waiting.append(child)
            if of_group not in groups:
                found.add(child)
    return found


def _signal(groups: set[int], processes: set[int], number: int) -> None:
    for send, targets in ((os.killpg, groups), (os.kill, processes)):
        for target in targets:
            try:
                send(target, number)
            except (
                ProcessLookupError,
                PermissionError,
            ) as error:  # gone, or it became somebody else's (sudo)
                log.debug("Signal %d did not reach %d: %s", number, target, error)


def _lives(send: Callable[[int, int], None], target: int) -> bool:
    try:
        send(target, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# ── Without a server ─────────────────────────────────────────────────────────────────────────────────────────────
class PlainPtys(Ptys):
    """Pseudo-terminals of this process."""

    def start(
        self, launch: Launch, output: Callable[[str], None], ended: Callable[[int | None], None]
    ) -> Pty:
        from ptyprocess import PtyProcess

        process = PtyProcess.spawn(
            list(launch.argv) or [os.environ.get("SHELL") or "/bin/sh"],
            cwd=launch.directory,
            env={**os.environ, "TERM": "xterm-256color", **launch.environment},
            dimensions=(launch.rows, launch.columns),
        )
        return _PlainPty(process, output, ended)


class _PlainPty(_ProcessPty):
    def __init__(
        self, process: Any, output: Callable[[str], None], ended: Callable[[int | None], None]
    ) -> None:
        process.delayafterclose = 0
        super().__init__(process, output, ended)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(process.fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._process.fd, 65536)
        except OSError:  # on Linux, the end
            data = b""
        if text := self._decoder.decode(data, final=not data):
            self._output(text)
        if not data:
            self._let_go()
            self._read_all.set()

    def _let_go(self) -> None:
        self._loop.remove_reader(self._process.fd)
        self._process.close()


# ── In Jupyter Server ────────────────────────────────────────────────────────────────────────────────────────────
class JupyterPtys(Ptys):
    """Terminals of the server's terminal manager: in its list while they run, and open to Lab."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._names = itertools.count(1)

    def start(
        self, launch: Launch, output: Callable[[str], None], ended: Callable[[int | None], None]
    ) -> Pty:
        manager = self._manager
        names = (f"ahp_{number}" for number in self._names)
        name = next(name for name in names if name not in manager.terminals)
        what = {"shell_command": list(launch.argv)} if launch.argv else {}
        manager.create(
            name=name,
            cwd=launch.directory,
            extra_env=dict(launch.environment),
            width=launch.columns,
            height=launch.rows,
            **what,
        )
        return _JupyterPty(manager, manager.terminals[name], launch, output, ended)


class _JupyterPty(_ProcessPty):
    """One of them. It is a client of the terminal, as a browser is that shows it."""

    def __init__(
        self,
        manager: Any,
        terminal: Any,
        launch: Launch,
        output: Callable[[str], None],
        ended: Callable[[int | None], None],
    ) -> None:
        process = terminal.ptyproc
        process.delayafterclose = 0  # it would sleep on the event loop
        super().__init__(process, output, ended)
        self._manager = manager
        self._terminal = terminal
        self.size = (launch.rows, launch.columns)
        terminal.clients.append(self)
        terminal.resize_to_smallest()

    # What the manager calls.
    def on_pty_read(self, text: str) -> None:
        self._output(text)

    def on_pty_died(self) -> None:
        self._read_all.set()

    def resize(self, columns: int, rows: int) -> None:
        if not self._ending.done():
            self.size = (rows, columns)
            self._terminal.resize_to_smallest()

    def _let_go(self) -> None:
        if self._process.fd not in self._manager.ptys_by_fd:
            return
        self._manager.on_eof(self._terminal)
        for client in self._terminal.clients:
            client.on_pty_died()
