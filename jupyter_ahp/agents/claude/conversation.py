"""One chat with Claude: turns, steering, stops. B4 to B11, G1, G7, X1, S3, U11.

Every prompt has a uuid; the CLI says which ones a turn of its own took in, and by that alone its messages find their turn.
A CLI is started with the first prompt, closed when nothing is asked of it for a while, and resumed when something is.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ConversationResetMessage,
    PermissionResult,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    ToolPermissionContext,
    UserMessage,
)

from jupyter_ahp.agents.base import (
    Approvals,
    Conversation,
    Prompt,
    Start,
    Steering,
    Tool,
    TurnFailed,
    TurnSink,
)
from jupyter_ahp.agents.claude import failures, permissions, prompts, sessions, tools
from jupyter_ahp.agents.claude.line import LONGEST, Line
from jupyter_ahp.agents.claude.reporter import Registry, Reporter
from jupyter_ahp.agents.claude.runs import Run
from jupyter_ahp.agents.claude.settings import EFFORTS, Settings
from jupyter_ahp.agents.claude.workers import Workers
from jupyter_ahp.agents.processes import Deaths

log = logging.getLogger(__name__)

STOPPED_IN: Final = 2.0
"""Seconds that the CLI has to be through with an interrupt."""
INSTRUCTIONS: Final = (
    "You talk with a person in a chat in Jupyter, beside their notebooks. They read Markdown: code in fenced blocks that "
    "name their language, formulas as LaTeX between $ or $$."
)
_TURNS: Final = uuid.UUID("5a1f6ab4-41c0-4b8a-9be6-3c6f1f0f2d57")


def prompt_id(turn_id: str) -> str:
    """The uuid of a turn's prompt, for the first time that it is sent: whether the CLI has it can be looked up."""
    return str(uuid.uuid5(_TURNS, turn_id))


class ClaudeConversation(Conversation):
    """One chat. `learned` is told what a CLI says of itself when it was started."""

    def __init__(self, settings: Settings, start: Start, learned: Any) -> None:
        self._settings = settings
        self._start = start
        self._learned = learned
        self._memory = start.memory if start.memory is not None and not start.fork else str(uuid.uuid4())
        self._fork_of = start.memory if start.fork else None
        self._at = start.at
        self._registry = Registry()
        self._workers = Workers(self._registry, start.host, lambda: self._tools, self._stop_task)
        self._line: Line | None = None
        self._runs: list[Run] = []
        """In the order in which the CLI was handed them."""
        self._active: Run | None = None
        """The host's turn that runs."""
        self._current: Run | None = None
        """Whose turn of the CLI's is running, as far as it has said."""
        self._seen: set[str] = set()
        """Messages that were shown: after a compaction the CLI says some again."""
        self._tools: dict[str, Tool] = {}
        self._approvals = Approvals()
        self._signature = ""
        self._config: Mapping[str, Any] = start.config
        self._mode = ""
        self._model: str | None = settings.model or None
        self._effort = ""
        self._anew = False
        """The next turn needs another CLI: a setting changed that this one cannot heed."""
        self._cost = 0.0
        self._deaths = Deaths()
        self._idle: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._resting: asyncio.Task[None] | None = None
        self._names = False
        """The CLI says which prompts its turns took in."""

    @property
    def memory(self) -> str | None:
        return self._memory

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        self._wake()
        try:
            line = await self._ready(prompt, sink)
            content, name = await self._said(prompt)
            run = Run(name)
            run.attach(Reporter(sink, self._registry, self._tools))
            if self._current is not None and self._current.reporter is None and not self._current.deaf:
                # Something that nobody asked for began just before: the CLI is through with it first.
                self._current.attach(Reporter(sink, self._registry, self._tools))
            self._runs.append(run)
            line.say(content, name)
            await self._answered_in(run)
        finally:
            self._rest()

    async def _said(self, prompt: Prompt) -> tuple[list[Any], str]:
        """What is handed over, and its uuid. A turn that is gone on with may not have reached the CLI at all."""
        name = prompt_id(prompt.turn_id)
        if prompt.resumed and await asyncio.to_thread(
            sessions.holds, self._settings.home, self._memory, name
        ):
            return prompts.of_resumed(prompt), str(uuid.uuid4())
        return prompts.of_turn(prompt), str(uuid.uuid4()) if prompt.resumed else name

    async def _answered_in(self, run: Run) -> None:
        """The host's turn is this run's until it is over."""
        self._active = run
        try:
            await run.wait()
        finally:
            self._drop(run)
            if self._active is run:
                self._active = None
            if run.sink is not None:
                self._registry.forget(run.sink)

    async def _late(self, run: Run, sink: TurnSink) -> None:
        """A turn that no person began, opened by the host."""
        self._wake()
        if run.reporter is not None:
            sink.notice("Shown in the turn before.")
            return
        run.attach(Reporter(sink, self._registry, self._tools))
        try:
            await self._answered_in(run)
        finally:
            self._rest()

    def _open_late(self, run: Run, text: str, message_id: str | None = None) -> None:
        run.message_id = message_id
        self._runs.append(run)
        self._start.host.late_turn(text, lambda sink: self._late(run, sink), message_id=message_id)

    # ── the CLI ──────────────────────────────────────────────────────────────────────────────────────────────
    async def _ready(self, prompt: Prompt, sink: TurnSink) -> Line:
        """A CLI that has this turn's tools, settings and model. Raises `TurnFailed`."""
        self._tools = {tool.name: tool for tool in prompt.tools}
        self._approvals = prompt.approvals
        self._config = prompt.config or self._start.config
        signature = tools.signature(prompt.tools)
        if self._line is not None and (self._anew or signature != self._signature) and not self._workers.busy:
            await self._hang_up()
        if self._line is None:
            sink.activity("Starting Claude")
            self._signature = signature
            # A stop of the turn does not break off the start: the next turn wants it, too.
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.create_task(self._connect(prompt))
            await asyncio.shield(self._connecting)
            sink.activity(None)
        assert self._line is not None, "connected"
        await self._heed(self._line)
        await self._choose(self._line, prompt.model, sink)
        return self._line

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
        cli = self._settings.cli()
        if cli is None:
            raise TurnFailed(
                "not_ready",
                "Claude's program is not there. Run `pip install 'jupyter-ahp[claude]'`, or name it as "
                "ClaudeAgent.cli_path, and restart the server.",
                resumable=True,
            )
        options = await self._options(prompt)
        line = Line(options, cli, self._settings.environment(), heard=self._heard, lost=self._lost)
        try:
            await line.connect()
        except Exception as error:
            self._deaths.note()
            raise failures.of_start(error, line.stderr, cli) from error
        self._line = line
        self._anew = False
        self._cost = 0.0
        self._seen.clear()
        self._learned(self._start.directories, line.info)

    async def _options(self, prompt: Prompt) -> ClaudeAgentOptions:
        directories = self._start.directories
        self._mode = self._wanted_mode
        self._effort = self._wanted_effort
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
        home = self._settings.home
        if self._fork_of is not None:
            options.resume, options.fork_session, options.session_id = self._fork_of, True, self._memory
            options.resume_session_at = self._at
        elif await asyncio.to_thread(sessions.find, home, self._memory) is not None:
            options.resume, options.resume_session_at = self._memory, self._at
        else:
            options.session_id = self._memory
        return options

    async def _hang_up(self) -> None:
        """Close the CLI, what runs behind the turns with it; the next turn resumes the conversation."""
        line, self._line = self._line, None
        at_work, self._current = self._current is not None, None
        if line is not None:
            self._closing = asyncio.create_task(line.close(at_work=at_work))
        self._workers.lost("Claude's program was closed.")
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _lost(self, line: Line, error: BaseException | None) -> None:
        """The CLI ended by itself."""
        if line is not self._line:
            return
        self._line = None
        self._current = None
        self._deaths.note()
        failure = failures.of_death(error, line.stderr)
        log.warning("The CLI of %s ended: %s %s", self._start.chat, failure.message, failure.details)
        runs, self._runs = self._runs, []
        for run in runs:
            if run.stopped:
                run.finish()
            else:
                run.fail(failure)
        self._workers.lost("Claude's program ended.")
        self._closing = asyncio.create_task(line.close())

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────────
    async def configure(self, config: Mapping[str, Any]) -> None:
        self._config = config
        if self._line is not None:
            await self._heed(self._line)

    @property
    def _wanted_mode(self) -> str:
        return str(self._config.get("permissionMode") or self._settings.permission_mode)

    @property
    def _wanted_effort(self) -> str:
        effort = str(self._config.get("effort") or "")
        return effort if effort in EFFORTS else ""

    async def _heed(self, line: Line) -> None:
        """Changed settings, as far as a running CLI takes them; the rest is for the next one."""
        mode, effort = self._wanted_mode, self._wanted_effort
        if mode != self._mode:
            if "bypassPermissions" in (mode, self._mode):
                self._anew = True  # taken at the start alone
            else:
                self._mode = mode
                await line.client.set_permission_mode(mode)  # type: ignore[arg-type]
        if effort != self._effort:
            if await line.set_effort(effort or None):
                self._effort = effort
            else:
                self._anew = True

    def _changed_mode(self, mode: str) -> None:
        """The CLI changed its mode by itself, such as when its plan was approved: the session's setting follows."""
        if mode != self._mode:
            self._mode = mode
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

    async def _may(
        self, name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        return await permissions.ask(name, given, context, self._registry, self._approvals)

    # ── what the CLI says ────────────────────────────────────────────────────────────────────────────────────
    def _heard(self, message: Any) -> None:
        match message:
            case SystemMessage(subtype="init", data=data):
                self._memory = str(data.get("session_id") or self._memory)
                self._current = None
            case SystemMessage(subtype="status", data={"permissionMode": str(mode)}):
                self._changed_mode(mode)
            case ConversationResetMessage():
                log.info("The conversation of %s was cleared", self._start.chat)
            case TaskStartedMessage():
                self._workers.started(message)
            case TaskUpdatedMessage():
                self._workers.updated(message)
            case TaskNotificationMessage():
                self._workers.notified(message)
            case SystemMessage(subtype="background_tasks_changed", data=data):
                self._workers.changed(data.get("tasks") or [])
            case ResultMessage():
                self._result(message)
            case StreamEvent() | AssistantMessage() | UserMessage() if message.parent_tool_use_id:
                self._workers.hear(message.parent_tool_use_id, message)
            case _:
                self._said_in_turn(message)

    def _said_in_turn(self, message: Any) -> None:
        named = _named(message)
        if named:
            self._assign(named, told=not isinstance(message, UserMessage))
        elif isinstance(message, SystemMessage) and message.data.get("status") == "requesting":
            self._unasked()
        if isinstance(message, AssistantMessage | UserMessage) and message.uuid:
            if message.uuid in self._seen:
                return
            self._seen.add(message.uuid)
        run = self._current or self._next()
        if run is None:
            return
        if isinstance(message, AssistantMessage | UserMessage) and message.uuid:
            run.reached(message.uuid)
        if message.__class__ is not UserMessage or not run.waits & set(named):
            run.tell(lambda reporter: reporter.hear(message))

    def _assign(self, named: list[str], *, told: bool) -> None:
        """The CLI's turn took these prompts in: it is of the run that they are of. `told`: they are prompts, all of them."""
        owner: Run | None = None
        for name in named:
            run = next((run for run in self._runs if name in run.waits), None)
            if run is not None:
                owner = run
                run.take()
                run.read(name)
        if owner is not None:
            self._current = owner
            self._at = self._fork_of = None  # the conversation has gone on from there
        elif told and self._current is None:
            self._current = Run()  # of a turn that has failed, or was given up: nobody hears its answer (B7)
            self._current.deaf = True
        self._names = self._names or told

    def _unasked(self) -> None:
        """The CLI asks its model for something that nobody has said: background work has come back."""
        if self._current is not None or not (self._names or self._next() is None):
            return
        if self._active is not None:
            self._current = self._active  # it stands in front of the turn that waits, and is shown in it
            return
        self._current = Run()
        self._current.take()
        self._open_late(self._current, self._workers.last or "Claude goes on by itself.")
        self._workers.last = ""

    def _next(self) -> Run | None:
        """A command of the CLI's own is answered before its prompt is named: it is the one in front."""
        return next((run for run in self._runs if run.waits and not run.over and not run.taken), None)

    def _result(self, result: ResultMessage) -> None:
        """The CLI's turn is over; perhaps the host's is, too (B5)."""
        named = [
            *(result.user_message_uuids or ()),
            *([result.user_message_uuid] if result.user_message_uuid else ()),
        ]
        if named:
            self._assign(named, told=True)
        run, self._current = self._current or self._next(), None
        cost = result.total_cost_usd
        spent = max(0.0, cost - self._cost) if cost is not None else None
        self._cost = cost if cost is not None else self._cost
        if run is None or run.deaf:
            return
        run.tell(lambda reporter: reporter.used(result, spent))
        if run is self._active and not run.taken and self._names and not named:
            return  # what stood in front of the turn that waits
        run.take()
        run.waits -= {name for name in run.waits if name not in run.steering}
        if run.stopped or (result.terminal_reason or "").startswith("aborted"):
            self._stopped(run)
        elif result.is_error:
            self._drop(run)
            self._failed(run, result)
        elif not run.waits:
            self._drop(run)
            run.finish()

    def _drop(self, run: Run) -> None:
        """The CLI owes it nothing any more."""
        self._runs = [other for other in self._runs if other is not run]

    def _failed(self, run: Run, result: ResultMessage) -> None:
        reporter = run.reporter
        kind, said = (reporter.error_kind, reporter.error) if reporter is not None else (None, "")
        run.fail(failures.of_result(result, kind, said))

    def _stopped(self, run: Run) -> None:
        """The interrupt is through: steering that the CLI holds yet is answered in a turn of its own (B9)."""
        self._drop(run)
        for name, message_id in run.steering.items():
            self._open_late(Run(name), run.texts[name], message_id)
        run.steering = {}
        run.finish()

    # ── stop, steer ──────────────────────────────────────────────────────────────────────────────────────────
    async def stop(self, running: asyncio.Task[None]) -> None:
        run, line = self._active, self._line
        if run is None or line is None or run.over:
            running.cancel()
            return
        run.stopped = True
        if self._settings.stop_ends == "query":
            await self._give_up(run)
            return
        for task in self._workers.of_turn(run.sink) if run.sink is not None else ():
            await self._stop_task(task)
        try:
            async with asyncio.timeout(STOPPED_IN):
                if run.taken:
                    await line.client.interrupt()
                elif run.waits <= await line.interrupt_all():
                    self._stopped(run)  # it had not begun
                await run.wait()
        except TimeoutError:
            log.warning(
                "The CLI of %s takes no interrupt; it is closed, and resumed by the next turn",
                self._start.chat,
            )
            await self._give_up(run)
        except TurnFailed:
            return  # it has failed meanwhile; the turn was over

    async def _give_up(self, run: Run) -> None:
        """End the CLI rather than the turn (B10)."""
        self._drop(run)
        run.finish()
        await self._hang_up()

    async def _stop_task(self, task_id: str) -> None:
        if self._line is None:
            return
        try:
            await self._line.client.stop_task(task_id)
        except Exception as error:  # noqa: BLE001 the SDK raises it for a refusal: it may have ended
            log.info("Claude's CLI did not stop %s: %s", task_id, error)

    async def steer(self, message: Steering) -> bool:
        run, line = self._active, self._line
        if run is None or line is None or run.over or run.stopped or not run.taken:
            return False
        name = str(uuid.uuid4())
        run.waits.add(name)
        run.steering[name] = message.id
        run.texts[name] = message.text
        line.say(prompts.of_steering(message), name)
        return True

    async def withdraw(self, message_id: str) -> bool:
        for run in [*self._runs]:
            for name, held in [*run.steering.items()]:
                if held == message_id and self._line is not None and await self._line.withdraw(name):
                    run.steering.pop(name, None)
                    run.waits.discard(name)
                    if not run.waits and self._current is not run:
                        self._drop(run)  # it had waited for nothing but this
                        run.finish()
                    return True
        return False

    @property
    def holds(self) -> str | None:
        return next((run.message_id for run in self._runs if run.message_id and run.reporter is None), None)

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────
    def _wake(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _rest(self) -> None:
        """Nothing is asked of it: it is closed after a while."""
        self._wake()
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(self._settings.idle_seconds, self._tired)

    def _tired(self) -> None:
        self._idle = None
        if self._active is not None or self._line is None:
            return
        if self._runs or self._workers.busy:
            self._rest()
        else:
            self._resting = asyncio.create_task(self._hang_up())

    async def close(self) -> None:
        self._wake()
        runs, self._runs = self._runs, []
        for run in runs:
            run.finish()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        await self._hang_up()
        if self._resting is not None:
            await asyncio.wait([self._resting])


def _named(message: Any) -> list[str]:
    """The prompts that a message says the CLI's turn took in."""
    if isinstance(message, UserMessage):
        return [message.uuid] if message.uuid else []
    if isinstance(message, SystemMessage):
        return list(message.data.get("user_message_uuids") or ())
    if isinstance(message, AssistantMessage | StreamEvent):
        return list(message.user_message_uuids or ())
    return []
