"""One running CLI behind the SDK's client: prompts go in through one generator that stays open (B4), messages come out.

The process is ours rather than the SDK's (`private.command_line`): it has a group of its own, ends with the server
however that ends, runs on any event loop, may say lines of any length, and keeps the end of its standard error.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    Message,
    ProcessError,
    Transport,
    __version__,
)

from jupyter_ahp.agents.base import Json
from jupyter_ahp.agents.claude import private
from jupyter_ahp.agents.processes import Child

log = logging.getLogger(__name__)

LONGEST: Final = 512 * 1024 * 1024
"""Characters of a line, where the SDK reads it."""
_LONG = 1024 * 1024  # bytes of a line that is not taken apart on the event loop
_PATIENCE = 3.0  # seconds that the CLI has to write down its last messages
_AT_WORK = 0.2  # the same, before it is asked to end by a signal


class ChildTransport(Transport):
    """The SDK's line to a process of ours."""

    def __init__(self, argv: list[str], cwd: str | None, env: dict[str, str]) -> None:
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self.child: Child | None = None
        self.patience = _PATIENCE

    async def connect(self) -> None:
        """Raises `NotStarted`."""
        self.child = await Child.start(self._argv, cwd=self._cwd, env=self._env)

    async def write(self, data: str) -> None:
        if self.child is None or not self.child.alive:
            raise CLIConnectionError("Claude's program has ended.")
        self.child.write(private.declared(data).rstrip("\n").encode())

    async def read_messages(self) -> AsyncIterator[Json]:
        child = self.child
        assert child is not None, "connected before it is read"
        while (line := await child.read()) is not None:
            if line.lstrip()[:1] == b"{":  # anything else is no message
                yield await asyncio.to_thread(json.loads, line) if len(line) > _LONG else json.loads(line)
        code = await child.wait()
        if code:
            raise ProcessError("Claude's program has ended.", exit_code=code, stderr=child.stderr)

    async def close(self) -> None:
        if self.child is not None:
            await self.child.close(self.patience)

    def is_ready(self) -> bool:
        return self.child is not None and self.child.alive

    async def end_input(self) -> None:
        """The prompt generator stays open until the process is closed: nothing to do."""


class Line:
    """A CLI. `heard` is called with each message in order and must not block; `lost` once, when it ends by itself."""

    def __init__(
        self,
        options: ClaudeAgentOptions,
        cli: str,
        env: dict[str, str],
        *,
        heard: Callable[[Message], None],
        lost: Callable[[Line, BaseException | None], None],
    ) -> None:
        argv = private.command_line(options, cli)
        cwd = str(options.cwd) if options.cwd else None
        if cwd is not None:
            env = {**env, "PWD": cwd}
        env["CLAUDE_AGENT_SDK_VERSION"] = __version__
        self._transport = ChildTransport(argv, cwd, env) if argv is not None else None
        self._stderr: list[str] = []
        if self._transport is None:
            options.cli_path, options.env, options.stderr = cli, env, self._said
        self.client = ClaudeSDKClient(options, transport=self._transport)
        self._heard = heard
        self._lost = lost
        self._prompts: asyncio.Queue[Json] = asyncio.Queue()
        self._unwritten: dict[str, asyncio.Event] = {}
        """Prompts that are not on their way yet, by uuid."""
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        self.info: Json = {}
        """What the CLI said of itself: its commands and models."""

    async def connect(self) -> None:
        """Raises what the SDK raises, and `NotStarted`."""
        try:
            await self.client.connect(self._prompted())
        except BaseException:
            await self.close()
            raise
        self.info = await self.client.get_server_info() or {}
        self._reading = asyncio.create_task(self._read())

    @property
    def pid(self) -> int | None:
        child = self._transport.child if self._transport is not None else None
        return child.pid if child is not None else None

    @property
    def stderr(self) -> str:
        """The end of what it said on its standard error."""
        if self._transport is not None:
            return self._transport.child.stderr if self._transport.child is not None else ""
        return "\n".join(self._stderr)

    def say(self, content: list[Json], uuid: str) -> None:
        """Hand it a prompt: to be run next, or, while it runs one, at that one's next tool call (B4)."""
        message = {"role": "user", "content": content}
        self._unwritten[uuid] = asyncio.Event()
        self._prompts.put_nowait(
            {
                "type": "user",
                "message": message,
                "parent_tool_use_id": None,
                "session_id": "default",
                "uuid": uuid,
            }
        )

    async def withdraw(self, uuid: str) -> bool:
        """Take a prompt back; whether the model will not see it."""
        if (written := self._unwritten.get(uuid)) is not None:
            await (
                written.wait()
            )  # what is taken back before it comes is dropped, and reported as not taken back
        answer = await private.control(self.client, {"subtype": "cancel_async_message", "message_uuid": uuid})
        return bool(answer and answer.get("cancelled"))

    async def interrupt_all(self) -> set[str]:
        """Interrupt what runs and what is about to; the prompts, by uuid, that will not be run at all."""
        for written in [*self._unwritten.values()]:
            await written.wait()
        answer = await private.control(self.client, {"subtype": "interrupt", "cancel_queued": True})
        if answer is None:
            await self.client.interrupt()
            return set()
        return {str(name) for name in answer.get("cancelled") or ()}

    async def set_effort(self, effort: str | None) -> bool:
        """Whether it is heeded at once."""
        settings = {"effortLevel": effort}
        answer = await private.control(self.client, {"subtype": "apply_flag_settings", "settings": settings})
        return answer is not None

    async def close(self, *, at_work: bool = False) -> None:
        """End it, and all that it has started. `at_work`: a turn runs, which it would first come to the end of."""
        self._closing = True
        if self._transport is not None and at_work:
            self._transport.patience = _AT_WORK
        try:
            await self.client.disconnect()
        finally:
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.wait([self._reading])
            if self._transport is not None:
                await self._transport.close()

    async def _prompted(self) -> AsyncIterator[Json]:
        while True:
            message = await self._prompts.get()
            yield message
            self._unwritten.pop(message["uuid"]).set()

    def _said(self, line: str) -> None:
        self._stderr = [*self._stderr[-100:], line]

    async def _read(self) -> None:
        failure: BaseException | None = None
        try:
            while True:
                try:
                    async for message in self.client.receive_messages():
                        self._hear(message)
                    break
                except private.Unreadable as error:  # the ones behind it can be read
                    log.warning(
                        "A message of Claude's CLI is of a form that the SDK does not know: %s", error
                    )
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 whatever the SDK raises, the line is dead
            failure = error
        if not self._closing:
            self._lost(self, failure)

    def _hear(self, message: Any) -> None:
        try:
            self._heard(message)
        except Exception:
            log.exception("A message of Claude's CLI is not shown: %s", type(message).__name__)
