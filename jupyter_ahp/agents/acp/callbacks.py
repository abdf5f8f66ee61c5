"""What an ACP agent asks of us: permission, files and commands in the session's directories, answers to questions.

Files and commands need no permission of ours: an agent asks for that by itself, ahead of them. Paths are taken as they
are behind all links, so none leads out of the directories.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from acp import RequestError
from acp.schema import (
    AllowedOutcome,
    CreateTerminalRequest,
    CreateTerminalResponse,
    DeniedOutcome,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from pydantic import BaseModel, ValidationError

from jupyter_ahp.agents.processes import NotStarted

from . import words
from .questions import ask
from .terminals import Job, Terminals
from .turn import Turn

log = logging.getLogger(__name__)

_LARGEST = 10 * 1024 * 1024  # bytes of a file that is read as text

_UPDATES = {
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "usage_update",
}


class Listener(Protocol):
    """The conversation, as what it is asked needs it."""

    @property
    def turn(self) -> Turn | None: ...

    def updated(self, session_id: str, update: Any) -> None: ...


class Callbacks:
    """Answers the requests of one conversation's agent: `handle` is what `acp.connection` calls."""

    def __init__(self, listener: Listener, directories: Sequence[str], terminals: Terminals) -> None:
        self._listener = listener
        self._directories = directories
        self._terminals = terminals
        self._answers: Mapping[str, Callable[[Any], Awaitable[Any]]] = {
            "session/request_permission": self._permission,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
            "elicitation/create": self._elicit,
        }

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Raises `RequestError`, which is the answer."""
        if method == "session/update":
            self._update(params)
            return None
        answer = self._answers.get(method)
        if answer is not None:
            return await answer(params)
        if is_notification:
            log.debug("A notification that is of no use here: %s", method)
            return None
        raise RequestError.method_not_found(method)

    def _update(self, params: Any) -> None:
        kind = ((params or {}).get("update") or {}).get("sessionUpdate")
        if kind not in _UPDATES:
            log.debug("An update that is of no use here: %s", kind)
            return
        try:
            said = SessionNotification.model_validate(params)
        except ValidationError as error:
            log.warning("An agent's %s is not shown, since it is not ACP: %s", kind, error)
            return
        self._listener.updated(said.session_id, said.update)

    # ── people ───────────────────────────────────────────────────────────────────────────────────────────────
    async def _permission(self, params: Any) -> RequestPermissionResponse:
        asked = RequestPermissionRequest.model_validate(params)
        turn = self._listener.turn
        chosen = await turn.permission(asked.tool_call, asked.options) if turn is not None else None
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def _elicit(self, params: Any) -> BaseModel:
        turn = self._listener.turn
        return await ask(turn.sink if turn is not None else None, params or {})

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────
    async def _read(self, params: Any) -> ReadTextFileResponse:
        asked = ReadTextFileRequest.model_validate(params)
        path = self._inside(asked.path)
        text = await asyncio.to_thread(_read, path)
        if asked.line is not None or asked.limit is not None:
            lines = text.splitlines(keepends=True)
            first = max(0, (asked.line or 1) - 1)
            text = "".join(lines[first : None if asked.limit is None else first + asked.limit])
        return ReadTextFileResponse(content=text)

    async def _write(self, params: Any) -> WriteTextFileResponse:
        asked = WriteTextFileRequest.model_validate(params)
        await asyncio.to_thread(_write, self._inside(asked.path), asked.content)
        return WriteTextFileResponse()

    def _inside(self, path: str) -> Path:
        """The file that a path leads to, if that is in the session's directories. Raises `RequestError`."""
        if not os.path.isabs(path):
            raise RequestError.invalid_params({"details": f"{path} is not an absolute path."})
        real = Path(os.path.realpath(path))
        if any(real.is_relative_to(os.path.realpath(directory)) for directory in self._directories):
            return real
        raise RequestError.invalid_params({"details": f"{path} is not in this session's directories."})

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────
    async def _create(self, params: Any) -> CreateTerminalResponse:
        asked = CreateTerminalRequest.model_validate(params)
        cwd = self._inside(asked.cwd or next(iter(self._directories), os.sep))
        env = {variable.name: variable.value for variable in asked.env or ()}
        try:
            terminal_id = await self._terminals.start(
                asked.command, asked.args or (), env, str(cwd), asked.output_byte_limit
            )
        except NotStarted as error:
            raise RequestError.invalid_params({"details": str(error)}) from error
        return CreateTerminalResponse(terminal_id=terminal_id)

    def _job(self, terminal_id: str) -> Job:
        try:
            return self._terminals.job(terminal_id)
        except KeyError as error:
            raise RequestError(words.NOT_FOUND, f"There is no terminal {terminal_id!r}.") from error

    async def _output(self, params: Any) -> TerminalOutputResponse:
        job = self._job(TerminalOutputRequest.model_validate(params).terminal_id)
        return TerminalOutputResponse(output=job.output, truncated=job.truncated, exit_status=job.status)

    async def _wait(self, params: Any) -> WaitForTerminalExitResponse:
        job = self._job(WaitForTerminalExitRequest.model_validate(params).terminal_id)
        await job.ended.wait()
        assert job.status is not None
        return WaitForTerminalExitResponse(exit_code=job.status.exit_code, signal=job.status.signal)

    async def _kill(self, params: Any) -> KillTerminalResponse:
        await self._job(KillTerminalRequest.model_validate(params).terminal_id).kill()
        return KillTerminalResponse()

    async def _release(self, params: Any) -> ReleaseTerminalResponse:
        terminal_id = ReleaseTerminalRequest.model_validate(params).terminal_id
        self._job(terminal_id)
        await self._terminals.release(terminal_id)
        return ReleaseTerminalResponse()


def _read(path: Path) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would hold a thread for ever
            raise RequestError.invalid_params({"details": f"{path} is no ordinary file."})
        if found.st_size > _LARGEST:
            raise RequestError.invalid_params({"details": f"{path} is larger than {_LARGEST} bytes."})
        return path.read_bytes().decode(errors="replace")
    except FileNotFoundError as error:
        raise RequestError(words.NOT_FOUND, f"There is no file {path}.", {"uri": path.as_uri()}) from error
    except OSError as error:
        raise RequestError.invalid_params({"details": f"{path}: {error.strerror}."}) from error


def _write(path: Path, content: str) -> None:
    try:
        if path.exists() and not path.is_file():
            raise RequestError.invalid_params({"details": f"{path} is no ordinary file."})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode(errors="replace"))
    except OSError as error:
        raise RequestError.invalid_params({"details": f"{path}: {error.strerror}."}) from error
