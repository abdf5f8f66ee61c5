"""An ACP agent's process and the session in it: started, gone on with, begun anew, and told what people have chosen.

A session cannot be cut (X1), and be copied only as a whole, where the agent can do that (S3). So a chat that goes on at an
earlier point begins a session anew, which is told what the turns up to there said.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from acp import RequestError
from acp.schema import (
    AgentCapabilities,
    AuthenticateRequest,
    AuthenticateResponse,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    EnvVarAuthMethod,
    ForkSessionRequest,
    ForkSessionResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptCapabilities,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SetSessionConfigOptionBooleanRequest,
    SetSessionConfigOptionResponse,
    SetSessionConfigOptionSelectRequest,
    SetSessionModeRequest,
    SetSessionModeResponse,
)

from jupyter_ahp.agents.base import Start, TurnFailed
from jupyter_ahp.agents.processes import Deaths

from . import words
from .content import ContentBlock
from .line import Handler, Line
from .settings import MODE, Learned, Option, options_of

if TYPE_CHECKING:
    from .bridge import Bridge
    from .known import Server

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Say = Callable[[str], None]
"""Tells a person something that is worth a line in the turn."""

ANY_MODEL = "default"
"""What clients are offered of an agent that has not said its models yet."""

_STARTING = "while it was starting"


class _New(NewSessionResponse):
    models: Any = None
    """Of agents that are older than options."""


class _Loaded(LoadSessionResponse):
    models: Any = None


class Session:
    """One chat's session. `id` is the agent's name for it; None before there is one.

    `ends` says of sessions with which turn they end, as far as that is known in this process.
    """

    def __init__(
        self,
        server: Server,
        start: Start,
        directory: str,
        learned: Learned,
        ends: dict[str, str],
        bridge: Bridge,
        handler: Handler,
    ) -> None:
        goes_on = start.memory is not None and start.at is None and not start.fork
        self.id = start.memory if goes_on else None
        self.line: Line | None = None
        self.is_new = not goes_on
        """The agent knows nothing yet of what was said in the chat."""
        self.loading = False
        """What it tells is what was said before."""
        self._server = server
        self._host = start.host
        self._directory = directory
        self._directories = start.directories
        is_whole = start.at is None or (start.memory is not None and ends.get(start.memory) == start.at)
        self._source = start.memory if start.fork and is_whole else None
        self._learned = learned
        self._ends = ends
        self._bridge = bridge
        self._handler = handler
        self._ready = False
        self._deaths = Deaths()
        self._options: dict[str, Option] = {}
        self._applied: dict[str, Any] = {}

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────
    async def connect(
        self, activity: Callable[[str | None], None], say: Say, step: Callable[[], None]
    ) -> None:
        """Have a process, and the session in it. `step` is called between two steps, and may raise.

        Raises `TurnFailed`, `RequestError`.
        """
        if self.line is not None and not self.line.alive:
            self._deaths.note()
            await self.hang_up()
        if self._ready:
            return
        if wait := self._deaths.wait:
            raise TurnFailed(
                words.ENDED,
                f"{self._server.title} (`{self._server.words}`) ends as soon as it is started. It is not started again "
                f"for {math.ceil(wait)} s. Try it in a terminal to see what is wrong.",
                resumable=True,
            )
        activity(f"Starting {self._server.title}")
        step()
        try:
            if self.line is None:
                self.line = await Line.open(
                    self._server, self._directory, self._handler, files=bool(self._directories)
                )
                step()
            await self._go_on(self.line, say)
        except (TurnFailed, RequestError) as failure:
            line = self.line
            await self.hang_up()
            if isinstance(failure, TurnFailed):
                if failure.error_type == words.ENDED:
                    self._deaths.note()
            elif failure.code == words.AUTH_REQUIRED and line is not None:
                raise words.login(self._server, line.info.auth_methods or (), words.raw(failure)) from failure
            raise
        self._ready = True
        activity(None)

    async def hang_up(self) -> None:
        """End the process."""
        line, self.line = self.line, None
        self._ready = False
        if line is not None:
            await line.close()

    async def prompt(self, turn_id: str, blocks: Sequence[ContentBlock]) -> PromptResponse:
        """Run a turn of it. Raises `TurnFailed`, `RequestError`."""
        assert self.line is not None, "connected"
        assert self.id is not None, "connected"
        self.is_new = False
        self._ends[self.id] = turn_id
        return await self.line.ask(
            "session_prompt", PromptRequest(session_id=self.id, prompt=list(blocks)), PromptResponse
        )

    async def cancel(self) -> None:
        if self.line is not None and self.id is not None:
            await self.line.cancel(self.id)

    @property
    def comes_back(self) -> bool:
        """Whether another process can go on with it."""
        sessions = self._can.session_capabilities
        resumes = sessions is not None and sessions.resume is not None
        return self._ready and not self.is_new and (resumes or bool(self._can.load_session))

    @property
    def takes(self) -> PromptCapabilities:
        """What a prompt may have in it."""
        return self._can.prompt_capabilities or PromptCapabilities()

    @property
    def _can(self) -> AgentCapabilities:
        return (self.line.info.agent_capabilities if self.line else None) or AgentCapabilities()

    async def _go_on(self, line: Line, say: Say) -> None:
        """Go on with the chat's session, or begin one."""
        self._learned.learn(vision=bool(self.takes.image))
        if self._source is not None and await self._copied(line, self._source):
            return
        if self.id is not None:
            if await self._again(line, self.id):
                return
            say(
                f"{self._server.title} could not go on in its own memory of this chat. It begins a new one, and is told "
                "what was said."
            )
            self.id = None
        answer = await self._logged_in(
            line, lambda: line.ask("session_new", NewSessionRequest(**self._place), _New, _STARTING)
        )
        self.id = answer.session_id
        self.is_new = True
        self._offered(answer)

    async def _copied(self, line: Line, source: str) -> bool:
        """Begin with a copy of another chat's session (S3). False: it cannot."""
        if not (self._can.session_capabilities and self._can.session_capabilities.fork is not None):
            return False
        self.loading = True
        try:
            fork = ForkSessionRequest(session_id=source, **self._place)
            answer = await self._logged_in(
                line, lambda: line.ask("session_fork", fork, ForkSessionResponse, _STARTING)
            )
        except RequestError as error:
            if error.code == words.AUTH_REQUIRED:
                raise
            log.warning("%s cannot fork session %s: %s", self._server.title, source, words.told_by(error))
            return False
        finally:
            self.loading = False
        self.id, self._source = answer.session_id, None
        self.is_new = False
        self._offered(answer)
        return True

    async def _again(self, line: Line, session: str) -> bool:
        """Go on with a session of before. What it tells of that is in our own record already. False: it cannot."""
        place: Any = {"session_id": session, **self._place}
        resumes = self._can.session_capabilities and self._can.session_capabilities.resume is not None
        self.loading = True
        try:
            if resumes:
                resume = ResumeSessionRequest(**place)
                ask = lambda: line.ask("session_resume", resume, ResumeSessionResponse, _STARTING)  # noqa: E731
                self._offered(await self._logged_in(line, ask))
                return True
            if self._can.load_session:
                load = LoadSessionRequest(**place)
                self._offered(
                    await self._logged_in(line, lambda: line.ask("session_load", load, _Loaded, _STARTING))
                )
                return True
        except RequestError as error:
            if error.code == words.AUTH_REQUIRED:
                raise
            log.warning(
                "%s cannot go on with session %s: %s", self._server.title, session, words.told_by(error)
            )
        finally:
            self.loading = False
        return False

    @property
    def _place(self) -> dict[str, Any]:
        """Where a session works, and with which tools."""
        more = list(self._directories[1:]) if self._takes_directories else []
        return {
            "cwd": self._directory,
            "mcp_servers": [self._bridge.server],
            **({"additional_directories": more} if more else {}),
        }

    @property
    def _takes_directories(self) -> bool:
        sessions = self._can.session_capabilities
        return sessions is not None and sessions.additional_directories is not None

    @property
    def untold(self) -> Sequence[str]:
        """Directories that it may work in as well, and has not been told of."""
        return self._directories[1:] if self.is_new and not self._takes_directories else ()

    async def _logged_in(self, line: Line, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask; where that needs a login that the environment has the keys for, log in and ask again."""
        try:
            return await ask()
        except RequestError as error:
            if error.code != words.AUTH_REQUIRED:
                raise
            environ = {**os.environ, **self._server.env}
            for method in line.info.auth_methods or ():
                if not isinstance(method, EnvVarAuthMethod):
                    continue
                if all(environ.get(variable.name) or variable.optional for variable in method.vars):
                    await line.ask(
                        "authenticate", AuthenticateRequest(method_id=method.id), AuthenticateResponse
                    )
                    return await ask()
            raise

    # ── what can be chosen ───────────────────────────────────────────────────────────────────────────────────
    def _offered(
        self, answer: NewSessionResponse | LoadSessionResponse | ResumeSessionResponse | ForkSessionResponse
    ) -> None:
        self._options = options_of(answer.config_options, answer.modes, getattr(answer, "models", None))
        self._applied = {}
        self._learned.learn(options=self._options)

    async def apply(self, config: Mapping[str, Any], say: Say, model: str | None = None) -> None:
        """Tell the agent what people have chosen since it was told last, if there is a session. Raises `TurnFailed`."""
        if not self._ready:
            return
        chosen: dict[str, Any] = {key: value for key, value in config.items() if key in self._options}
        of_model = next((option.id for option in self._options.values() if option.category == "model"), None)
        if of_model is not None and model is not None:
            chosen[of_model] = model
            if not self._options[of_model].takes(model) and model != ANY_MODEL:
                say(
                    f"{self._server.title} has no model “{model}” any more. It goes on with the one that it has."
                )
        for key, value in chosen.items():
            option = self._options[key]
            if self._applied.get(key) == value or not option.takes(value):
                continue
            self._applied[key] = value
            if option.current == value:
                continue
            self._options[key] = option.with_current(value)  # ahead of the agent's own word of it
            try:
                await self._choose(option, value)
            except RequestError as error:
                self._options[key] = option
                why = f"{self._server.title} did not take {option.name} “{value}”: {words.told_by(error)}"
                log.warning("%s", why)
                say(f"{why}. It goes on with “{option.current}”.")

    async def _choose(self, option: Option, value: str | bool) -> None:
        line, session = self.line, self.id
        assert line is not None, "connected"
        assert session is not None, "connected"
        match option.told:
            case "mode":
                asked = SetSessionModeRequest(session_id=session, mode_id=str(value))
                await line.ask("session_set_mode", asked, SetSessionModeResponse)
            case "model":
                await line.ask_plain("session/set_model", {"sessionId": session, "modelId": value})
            case "option":
                common: Any = {"config_id": option.id, "session_id": session}
                choice = (
                    SetSessionConfigOptionBooleanRequest(**common, value=value, type="boolean")
                    if isinstance(value, bool)
                    else SetSessionConfigOptionSelectRequest(**common, value=value)
                )
                said = await line.ask("session_set_config_option", choice, SetSessionConfigOptionResponse)
                self._options |= options_of(said.config_options, None)

    def heard(self, update: Any, say: Say) -> bool:
        """Take in an update of what can be chosen; whether it was one."""
        match update:
            case AvailableCommandsUpdate(available_commands=commands):
                self._learned.learn(commands=commands)
            case CurrentModeUpdate(current_mode_id=mode):
                self._changed_itself(MODE, mode, say)
            case ConfigOptionUpdate(config_options=options):
                for key, option in options_of(options, None).items():
                    self._changed_itself(key, option.current, say)
                    self._options[key] = option
                self._learned.learn(options=self._options)
            case _:
                return False
        return True

    def _changed_itself(self, key: str, value: str | bool, say: Say) -> None:
        option = self._options.get(key)
        if option is None or option.current == value:
            return
        self._options[key] = option.with_current(value)
        self._applied[key] = value
        self._host.configured({key: value})
        names = {choice.value: choice.name for choice in option.choices} | {True: "on", False: "off"}
        say(f"{option.name}: {names.get(value, value)}")
