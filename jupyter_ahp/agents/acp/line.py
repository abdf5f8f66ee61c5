"""A running ACP agent: the program, and the protocol spoken with it in lines of JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from acp import PROTOCOL_VERSION, RequestError
from acp.connection import Connection
from acp.meta import AGENT_METHODS
from acp.schema import (
    AuthCapabilities,
    BooleanConfigOptionCapabilities,
    CancelNotification,
    ClientCapabilities,
    ClientSessionCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    FileSystemCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    SessionConfigOptionsCapabilities,
)
from pydantic import BaseModel, ValidationError

from jupyter_ahp._version import __version__
from jupyter_ahp.agents.base import TurnFailed
from jupyter_ahp.agents.processes import Child, NotStarted, environment

from . import words

if TYPE_CHECKING:
    from .known import Server

log = logging.getLogger(__name__)

Handler = Callable[[str, Any, bool], Awaitable[Any]]
Answer = TypeVar("Answer", bound=BaseModel)

_FIRST_ANSWER = 60.0  # seconds to answer `initialize`: some look for updates first


class Line:
    """An agent that has been started and has said what it can do. Made by `open`, ended by `close`."""

    def __init__(self, server: Server, child: Child, handler: Handler) -> None:
        self.server = server
        self._child = child
        self._connection = Connection(handler, _Lines(child))
        self.info = InitializeResponse(protocol_version=PROTOCOL_VERSION)

    @classmethod
    async def open(cls, server: Server, directory: str, handler: Handler, *, files: bool) -> Line:
        """Start the agent. Raises `TurnFailed` with what to do about it.

        `handler` is called with each method, its parameters and whether nobody waits for an answer; see
        `acp.connection`. `files`: whether the agent may ask us to read and write files and to run commands.
        """
        try:
            child = await Child.start(
                [server.command, *server.args], cwd=directory, env=environment(server.env)
            )
        except NotStarted as error:
            raise TurnFailed(
                "notStarted",
                f"{server.title} is not there: {error} Install it, or say in `ACPAgent.servers` where it is.",
            ) from error
        line = cls(server, child, handler)
        try:
            await line._initialize(files)
        except BaseException:
            await line.close()
            raise
        return line

    async def _initialize(self, files: bool) -> None:
        capabilities = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=files, write_text_file=files),
            terminal=files,
            auth=AuthCapabilities(terminal=True),
            elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()),
            session=ClientSessionCapabilities(
                config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities())
            ),
        )
        asked = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=capabilities,
            client_info=Implementation(name="jupyter-ahp", title="Jupyter", version=__version__),
        )
        try:
            async with asyncio.timeout(_FIRST_ANSWER):
                self.info = await self.ask("initialize", asked, InitializeResponse, "while it was starting")
        except TimeoutError as error:
            raise TurnFailed(
                "notStarted",
                f"{self.server.title} was started as `{self.server.words}` and did not answer within "
                f"{_FIRST_ANSWER:.0f} s. Does this command speak ACP?",
                resumable=True,
                details=self._child.stderr or None,
            ) from error
        if self.info.protocol_version != PROTOCOL_VERSION:
            raise TurnFailed(
                "notStarted",
                f"{self.server.title} speaks version {self.info.protocol_version} of ACP, and this server version "
                f"{PROTOCOL_VERSION}. Install a version of it that speaks the latter.",
            )

    @property
    def alive(self) -> bool:
        return self._child.alive

    @property
    def pid(self) -> int:
        return self._child.pid

    async def ask(
        self, method: str, params: BaseModel, answer: type[Answer], doing: str = "in the middle of it"
    ) -> Answer:
        """Ask the agent, by the SDK's name of the method (`acp.meta`), and wait for its answer.

        Raises `RequestError` when it answers with an error, `TurnFailed` when it ends, `doing` what, or makes no sense.
        """
        try:
            said = await self._connection.send_request(AGENT_METHODS[method], _plain(params))
        except ConnectionError as error:
            await self.close()
            code = self._child.code
            log.warning(
                "%s (process %d) ended with code %s: %s",
                self.server.words,
                self.pid,
                code,
                self._child.stderr,
            )
            raise words.ended(self.server, code, self._child.stderr, doing) from error
        try:
            return answer.model_validate(said if isinstance(said, dict) else {})
        except ValidationError as error:
            raise TurnFailed(
                "agentFailed",
                f"{self.server.title} answered `{AGENT_METHODS[method]}` with what is not ACP. Is it up to date?",
                resumable=True,
                details=str(error),
            ) from error

    async def ask_plain(self, method: str, params: dict[str, Any]) -> None:
        """Ask for something that the SDK has no words for. Raises `RequestError`, `ConnectionError`."""
        await self._connection.send_request(method, params)

    async def cancel(self, session_id: str) -> None:
        """Stop the session's turn; its prompt is answered when that is through."""
        try:
            await self._connection.send_notification(
                AGENT_METHODS["session_cancel"], _plain(CancelNotification(session_id=session_id))
            )
        except ConnectionError as error:  # it has ended: whoever waits for the prompt is told
            log.debug("%s cannot be stopped: %s", self.server.title, error)

    async def close(self) -> None:
        """End the program and what it has started. Whoever waits for an answer gets a `ConnectionError`."""
        try:
            await self._connection.close()
        finally:
            await self._child.close()


class _Lines:
    """What `acp.connection` reads and writes, over a child."""

    def __init__(self, child: Child) -> None:
        self._child = child

    async def send(self, message: dict[str, Any]) -> None:
        if not self._child.alive:
            raise ConnectionError("The agent has ended.")
        self._child.write(
            json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        )

    async def receive(self) -> dict[str, Any] | None:
        while (line := await self._child.read()) is not None:
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                return message
            log.info(
                "Process %d said what is not ACP: %s", self._child.pid, line[:500].decode(errors="replace")
            )
        return None

    async def close(self) -> None:
        return


def _plain(params: BaseModel) -> dict[str, Any]:
    plain: dict[str, Any] = params.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain


__all__ = ["Line", "RequestError"]
