"""Programs that a backend runs in: each a child process, spoken to in lines, of which nothing is left when it ends.

- Threads read, write and wait, not the event loop: so it works on loops that cannot spawn (Windows' selector loop). A
  line may have any length; what is not read yet is bounded.
- A child has a process group and an environment of its own. Everything that it has started goes with it, also what left
  its group (on Linux: whatever carries its mark in the environment).
- When this process is killed, the child's input closes, and a guard (a shell that waits for that) ends what does not end
  by itself. There is no guard on Windows.
- The end of what it said on its standard error is kept for whoever has to say why it died.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

log = logging.getLogger(__name__)

MARK = "JUPYTER_AHP_CHILD"
"""In the environment of a child and of all that it starts: whose it is."""

SERVERS_OWN = ("JUPYTER_TOKEN", "JPY_API_TOKEN", "JUPYTERHUB_API_TOKEN", "CONFIGPROXY_AUTH_TOKEN")
"""Credentials of the server that no agent needs, and that a model should not read."""

_STDERR_KEPT = 16 * 1024  # bytes
_UNREAD = 64 * 1024 * 1024  # bytes that may wait for a reader before the child has to wait
_CHUNK = 256 * 1024
_PATIENCE = 2.0  # seconds that a child has to end once its input is closed, and again once it was asked to
_DRAIN = 1.0  # seconds for the last output, when the child has ended

# The shell reads until the other end, which this process alone holds, is closed. $1 is the child's group, $2 its mark.
_GUARD = """
while read -r _; do :; done
kill -TERM -- "-$1" 2>/dev/null; sleep 1; kill -KILL -- "-$1" 2>/dev/null
for found in $(grep -lsF "$2" /proc/[0-9]*/environ 2>/dev/null); do
  found=${found#/proc/}; kill -KILL "${found%/environ}" 2>/dev/null
done
"""


class NotStarted(Exception):
    """A program could not be started; the words say which and why."""


def find_program(command: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The path of a command, as a shell would find it; on Windows with what `PATHEXT` adds, such as `.cmd`."""
    return shutil.which(command, path=(environ if environ is not None else os.environ).get("PATH"))


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a child is given: this process's environment without the server's own credentials, then `extra`.

    Proxies and certificates that the person has set for Python or curl are said in the words of Node, too.
    """
    env = {name: value for name, value in os.environ.items() if name not in SERVERS_OWN}
    certificates = next(
        (env[n] for n in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if env.get(n)), None
    )
    if certificates:
        env.setdefault("NODE_EXTRA_CA_CERTS", certificates)
    if any(env.get(name) for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")):
        env.setdefault("NODE_USE_ENV_PROXY", "1")
    return {**env, **(extra or {})}


class Deaths:
    """How often a program has died lately: one that dies as soon as it is started is not started for ever."""

    def __init__(
        self, most: int = 3, seconds: float = 60.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._now = now
        self._times: deque[float] = deque(maxlen=most)

    def note(self) -> None:
        self._times.append(self._now())

    @property
    def wait(self) -> float:
        """Seconds until it may be started again; 0: it may."""
        if len(self._times) < self._most:
            return 0.0
        return max(0.0, self._times[0] + self._seconds - self._now())


class Program:
    """A process that is started, with its guard. Its methods wait: for threads.

    `errors` is where its standard error goes: a pipe of its own, or `subprocess.STDOUT`; `typed` where its input comes
    from. Raises `NotStarted`.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str],
        *,
        errors: int = subprocess.PIPE,
        typed: int = subprocess.PIPE,
    ) -> None:
        path = find_program(argv[0], env)
        if path is None:
            raise NotStarted(f"There is no program “{argv[0]}” on this machine's PATH.")
        mark = uuid.uuid4().hex
        self._mark = f"{MARK}={mark}"
        no_window: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)
        try:
            self.process = subprocess.Popen(
                [path, *argv[1:]],
                stdin=typed,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=cwd,
                env={**env, MARK: mark},
                start_new_session=True,
                creationflags=no_window,
            )
        except OSError as error:
            raise NotStarted(f"“{argv[0]}” could not be started: {error.strerror or error}.") from error
        self.guard = self._guarded() if os.name == "posix" else None

    def _guarded(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "jupyter-ahp-guard", str(self.process.pid), self._mark],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self.end()
            self.process.wait()
            raise NotStarted(f"There is no shell that could guard a program: {error.strerror}.") from error

    def end(self, *, softly: bool = False) -> None:
        """End it, or ask it and its group to end."""
        if os.name == "nt":
            subprocess.run(
                ["taskkill", "/T", "/F", "/PID", str(self.process.pid)], capture_output=True, check=False
            )
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGTERM if softly else signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end, then end what it has left: its exit code; negative: the signal that ended it."""
        code = self.process.wait()
        if os.name == "posix":
            self.end()
            _kill_marked(self._mark)
        if self.guard is not None:
            self.guard.kill()
            self.guard.wait()
            assert self.guard.stdin is not None
            self.guard.stdin.close()
        return code


class Child:
    """A running program. `start` makes one; `close` ends it and all that it has started."""

    def __init__(self, program: Program, *, pieces: bool = False) -> None:
        self._program = program
        self._pieces = pieces
        self._process = program.process
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes] = deque()
        self._unread = 0
        self._came = asyncio.Event()
        self._counting = threading.Lock()
        self._to_the_end = False
        self._room = threading.Event()
        self._room.set()
        self._typed: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._said: deque[bytes] = deque()
        self._said_bytes = 0
        self._read_all = False
        self._ended = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self.code: int | None = None
        """Its exit code, once it has ended; negative: the signal that ended it."""
        reading = [self._thread(self._read)]
        if self._process.stderr is not None:
            reading.append(self._thread(self._read_errors))
        if self._process.stdin is not None:
            self._thread(self._write)
        self._thread(self._wait, reading)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        pieces: bool = False,
    ) -> Child:
        """Start a program, found as `find_program` finds it. Raises `NotStarted`.

        `pieces`: it is none that is spoken to. It has no input, and what it prints, its standard error among it, is read
        as it comes rather than line by line.
        """
        ends = {"errors": subprocess.STDOUT, "typed": subprocess.DEVNULL} if pieces else {}
        env = environment() if env is None else env
        starting = asyncio.ensure_future(asyncio.to_thread(partial(Program, argv, cwd, env, **ends)))
        try:
            return cls(await asyncio.shield(starting), pieces=pieces)
        except asyncio.CancelledError:
            # The thread starts it all the same. Shielded: a stop may cancel twice.
            await asyncio.shield(asyncio.ensure_future(cls._unwanted(starting)))
            raise

    @classmethod
    async def _unwanted(cls, starting: asyncio.Future[Program]) -> None:
        with contextlib.suppress(NotStarted):
            await cls(await starting).close(0)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    @property
    def stderr(self) -> str:
        """The end of what it has said on its standard error."""
        return b"".join(self._said)[-_STDERR_KEPT:].decode(errors="replace").strip()

    # ── what is said ─────────────────────────────────────────────────────────────────────────────────────────
    def write(self, line: bytes) -> None:
        """Say a line to it; the line break is added. One that has ended does not hear it."""
        self._typed.put(line + b"\n")

    async def read(self) -> bytes | None:
        """Its next line, without the line break, or its next piece; None when it will say nothing more. For one reader at
        a time."""
        while not self._lines:
            if self._read_all:
                return None
            self._came.clear()
            await self._came.wait()
        line = self._lines.popleft()
        self._count(-len(line))
        return line

    def _count(self, change: int) -> None:
        """What waits to be read, counted where it comes and where it goes: a loop that is busy does not read, too."""
        with self._counting:
            self._unread += change
            if self._unread <= _UNREAD or self._to_the_end:
                self._room.set()
            else:
                self._room.clear()

    def _make_room(self) -> None:
        """It is at its end: all that it has said is taken in."""
        with self._counting:
            self._to_the_end = True
            self._room.set()

    # ── its end ──────────────────────────────────────────────────────────────────────────────────────────────
    async def wait(self) -> int:
        """Its exit code, when it has ended."""
        await self._ended.wait()
        assert self.code is not None
        return self.code

    async def close(self, patience: float = _PATIENCE) -> None:
        """End it: its input is closed; then it is asked to end; then it is made to, with all that it has started."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(patience))
        await asyncio.shield(self._closing)

    async def _close(self, patience: float) -> None:
        self._typed.put(None)
        self._make_room()
        if not await self._ends(patience):
            self._program.end(softly=True)
            if not await self._ends(patience):
                self._program.end()
                await self._ended.wait()

    async def _ends(self, patience: float) -> bool:
        try:
            async with asyncio.timeout(patience):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    # ── threads ──────────────────────────────────────────────────────────────────────────────────────────────
    def _thread(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(
            target=work,
            args=arguments,
            name=f"child-{self._process.pid}-{work.__name__.strip('_')}",
            daemon=True,
        )
        thread.start()
        return thread

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(what, *arguments)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            read = _pieces_of if self._pieces else _lines_of
            for lines in read(pipe.fileno(), self._room):
                self._count(sum(map(len, lines)))
                self._tell(self._take, lines)
        self._tell(self._all_read)

    def _take(self, lines: list[bytes]) -> None:
        self._lines.extend(lines)
        self._came.set()

    def _all_read(self) -> None:
        self._read_all = True
        self._came.set()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as pipe:
            while said := os.read(pipe.fileno(), _CHUNK):
                self._said.append(said)
                self._said_bytes += len(said)
                while self._said_bytes - len(self._said[0]) >= _STDERR_KEPT:
                    self._said_bytes -= len(self._said.popleft())

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            while (line := self._typed.get()) is not None:
                pipe.write(line)
                pipe.flush()
        except OSError as error:  # it has ended, or has closed its input
            log.debug("Process %d did not read what was said to it: %s", self._process.pid, error)
        finally:
            with contextlib.suppress(OSError):
                pipe.close()

    def _wait(self, reading: list[threading.Thread]) -> None:
        code = self._program.wait()
        self._make_room()
        for thread in reading:
            thread.join(_DRAIN)
        self._typed.put(None)
        self._tell(self._exited, code)

    def _exited(self, code: int) -> None:
        self.code = code
        self._all_read()
        self._ended.set()


def _lines_of(file: int, room: threading.Event) -> Iterator[list[bytes]]:
    """The lines that are complete, as they come; the last one also without its line break. Waits while there is no room."""
    begun: list[bytes] = []
    while room.wait() and (chunk := os.read(file, _CHUNK)):
        first, *more = chunk.split(b"\n")
        begun.append(first)
        if not more:
            continue
        *whole, rest = more
        yield [line for line in (b"".join(begun), *whole) if line.strip()]
        begun = [rest]
    if last := b"".join(begun).strip():
        yield [last]


def _pieces_of(file: int, room: threading.Event) -> Iterator[list[bytes]]:
    """What comes, as it comes. Waits while there is no room."""
    while room.wait() and (chunk := os.read(file, _CHUNK)):
        yield [chunk]


def _kill_marked(mark: str) -> None:
    """End whatever still carries the mark (Linux; elsewhere the group is all that can be found)."""
    wanted = mark.encode()
    try:
        found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in found:
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                if wanted in environ.read().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)
        except OSError:  # gone, or somebody else's
            continue
