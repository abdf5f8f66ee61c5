"""The CLI of one chat: started when a turn needs it, told the session's settings, closed, started again. B11, S3, U11, X1.

It goes on with the conversation that the CLI keeps, at the point that the host asks for, or as a copy of another chat's.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from claude_agent_sdk import CanUseTool, ClaudeAgentOptions, Message

from jupyter_ahp.agents.base import Json, Prompt, Start, TurnFailed, TurnSink
from jupyter_ahp.agents.claude import failures, sessions, tools
from jupyter_ahp.agents.claude.line import LONGEST, Line
from jupyter_ahp.agents.claude.reporter import Registry
from jupyter_ahp.agents.claude.settings import EFFORTS, Settings
from jupyter_ahp.agents.processes import Deaths

log = logging.getLogger(__name__)

INSTRUCTIONS: Final = (
    "You talk with a person in a chat in Jupyter, beside their notebooks. They read Markdown: code in fenced blocks that "
    "name their language, formulas as LaTeX between $ or $$."
)

Learned = Callable[[Sequence[str], Json], None]


class Program:
    """`heard` is called with each message of the CLI, `lost` when one ended by itself (it is `line` no more), `learned`
    with what a CLI says of itself when it has started, `may` for what it asks."""

    def __init__(
        self,
        settings: Settings,
        start: Start,
        registry: Registry,
        *,
        heard: Callable[[Message], None],
        lost: Callable[[TurnFailed], None],
        may: CanUseTool,
        learned: Learned,
    ) -> None:
        self._settings = settings
        self._start = start
        self._registry = registry
        self._heard = heard
        self._lost = lost
        self._may = may
        self._learned = learned
        self.memory = start.memory if start.memory is not None and not start.fork else str(uuid.uuid4())
        """The CLI's name of the conversation."""
        self._fork_of = start.memory if start.fork else None
        self._at = start.at
        self.knows_nothing = False
        """The CLI has lost what was said before, and is to be told it."""
        self.line: Line | None = None
        self._signature = ""
        self._config: Mapping[str, Any] = start.config
        self._mode = ""
        self._model: str | None = settings.model or None
        self._effort = ""
        self._anew = False
        """The next turn needs another CLI: a setting changed that this one cannot heed."""
        self._total: float | None = 0.0
        """What the conversation has cost so far, as the CLI counts; None: unknown."""
        self._deaths = Deaths()
        self._connecting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────
    async def ready(self, prompt: Prompt, sink: TurnSink, *, busy: bool) -> Line:
        """A CLI that has this turn's tools, settings and model. `busy`: something runs behind the turns, which would end
        with it. Raises `TurnFailed`."""
        self._config = prompt.config or self._start.config
        signature = tools.signature(prompt.tools)
        if self.line is not None and (self._anew or signature != self._signature) and not busy:
            await self.hang_up()
        if self.line is None:
            sink.activity("Starting Claude")
            self._signature = signature
            # A stop of the turn does not break off the start: the next turn wants it, too.
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.create_task(self._connect(prompt))
            await asyncio.shield(self._connecting)
            sink.activity(None)
        line = self.line
        if line is None:
            raise failures.of_death(None, "")
        await self._tell(line, sink)
        await self._choose(line, prompt.model, sink)
        return line

    async def _connect(self, prompt: Prompt) -> None:
        """Raises `TurnFailed`."""
        if self._closing is not None:
            await asyncio.wait([self._closing])  # one CLI at a time has the conversation
        if wait := self._deaths.wait:
            raise TurnFailed(
                "died_often",
                f"Claude's program has ended several times in a row, and is not started again for {wait:.0f} s. "
                "The server's log says more.",
                resumable=True,
            )
        cli = await asyncio.to_thread(self._settings.cli)
        if cli is None:
            raise TurnFailed(
                "not_ready",
                "Claude's program is not there. Run `pip install 'jupyter-ahp[claude]'`, or name it as "
                "ClaudeAgent.cli_path, and restart the server.",
                resumable=True,
            )
        line = await self._line(prompt, cli)
        try:
            await line.connect()
        except Exception as error:
            if self._at is not None and "No message found" in f"{error} {line.stderr}":
                # It cannot go back there: it keeps what was cut (X2).
                log.warning("Claude has no entry %s in %s; it goes on at its end", self._at, self.memory)
                self._at = None
                await self._connect(prompt)
                return
            self._deaths.note()
            raise failures.of_start(error, line.stderr, cli) from error
        self.line = line
        self._anew = False
        self._learned(self._start.directories, line.info)

    async def _line(self, prompt: Prompt, cli: str) -> Line:
        directories = self._start.directories
        self._mode, self._effort = self._wanted_mode, self._wanted_effort
        options = ClaudeAgentOptions(
            cwd=directories[0] if directories else None,
            add_dirs=list(directories[1:]),
            system_prompt={"type": "preset", "preset": "claude_code", "append": INSTRUCTIONS},
            permission_mode=self._mode,  # type: ignore[arg-type]
            model=self._model,
            effort=self._effort or None,  # type: ignore[arg-type]
            mcp_servers=tools.servers(prompt.tools, self._registry),
            can_use_tool=self._may,
            include_partial_messages=True,
            forward_subagent_text=True,
            max_buffer_size=LONGEST,
            # Each prompt is said back at the moment that the model is given it; thoughts are sent in words.
            extra_args={"replay-user-messages": None, "thinking-display": "summarized"},
        )
        kept = self._fork_of or self.memory
        if await asyncio.to_thread(sessions.find, self._settings.home, kept) is None:
            options.session_id = self.memory
            self._total = 0.0
            self.knows_nothing = self._start.memory is not None
        else:
            options.resume, options.resume_session_at = kept, self._at
            self._total = await asyncio.to_thread(sessions.cost, self._settings.home, kept)
            if self._fork_of is not None:
                self._total = None
                options.fork_session, options.session_id = True, self.memory
        return Line(options, cli, self._settings.environment(), heard=self._heard, lost=self._ended)

    def went_on(self) -> None:
        """The CLI has taken a prompt in: what it goes on with is its own from here on."""
        self._at = self._fork_of = None
        self.knows_nothing = False

    def spent(self, total: float | None) -> float | None:
        """What a turn of the CLI's has cost, of the sum that it says for the whole conversation; None: unknown."""
        before, self._total = self._total, total
        return max(0.0, total - before) if total is not None and before is not None else None

    def _ended(self, line: Line, error: BaseException | None) -> None:
        """The CLI ended by itself."""
        if line is not self.line:
            return
        self.line = None
        self._deaths.note()
        failure = failures.of_death(error, line.stderr)
        log.warning("The CLI of %s ended: %s", self._start.chat, failure.details or failure.message)
        self._closing = asyncio.create_task(line.close())
        self._lost(failure)

    async def hang_up(self, *, at_work: bool = False) -> None:
        """Close the CLI; the next turn resumes the conversation. `at_work`: it runs a turn, and is not to finish it."""
        line, self.line = self.line, None
        if line is not None:
            self._closing = asyncio.create_task(line.close(at_work=at_work))
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        await self.hang_up()

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────────
    async def configure(self, config: Mapping[str, Any]) -> None:
        """The session's settings changed. Raises what the SDK raises."""
        self._config = config
        if self.line is not None:
            await self._heed(self.line)

    @property
    def _wanted_mode(self) -> str:
        return str(self._config.get("permissionMode") or self._settings.permission_mode)

    @property
    def _wanted_effort(self) -> str:
        effort = str(self._config.get("effort") or "")
        return effort if effort in EFFORTS else ""

    async def _tell(self, line: Line, sink: TurnSink) -> None:
        try:
            await self._heed(line)
        except Exception as error:  # noqa: BLE001 the SDK raises Exception itself for a refusal
            log.warning("Claude's CLI does not take the settings of %s: %s", self._start.chat, error)
            sink.notice(f"Claude does not take the mode “{self._wanted_mode}” here: {error}")

    async def _heed(self, line: Line) -> None:
        """Changed settings, as far as a running CLI takes them; the rest is for the next one."""
        mode, effort = self._wanted_mode, self._wanted_effort
        if effort != self._effort:
            if await line.set_effort(effort or None):
                self._effort = effort
            else:
                self._anew = True
        if mode != self._mode:
            if "bypassPermissions" in (mode, self._mode):
                self._anew = True  # taken at the start alone
            else:
                await line.client.set_permission_mode(mode)  # type: ignore[arg-type]
                self._mode = mode

    def changed_mode(self, mode: str) -> None:
        """The CLI is in this mode now. Where nobody wanted that, such as when its plan was approved, the session's setting
        follows."""
        before, self._mode = self._mode, mode
        if mode not in (before, self._wanted_mode):
            self._config = {**self._config, "permissionMode": mode}
            self._start.host.configured({"permissionMode": mode})

    async def _choose(self, line: Line, model: str | None, sink: TurnSink) -> None:
        """The turn's model; one that the CLI does not take is logged, and the turn runs on the one that it has (B11)."""
        wanted = (model if model != "default" else None) or self._settings.model or None
        if wanted == self._model:
            return
        try:
            await line.client.set_model(wanted)
            self._model = wanted
        except Exception as error:  # noqa: BLE001 the SDK raises Exception itself for a refusal
            log.warning("Claude's CLI does not take the model %s for %s: %s", wanted, self._start.chat, error)
            has = self._model or "its default"
            sink.notice(f"Claude does not take the model {wanted} here: {error}. This turn runs on {has}.")
