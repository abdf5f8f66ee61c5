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
    ConversationResetMessage,
    PermissionResult,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    ToolPermissionContext,
    ToolUseBlock,
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
from jupyter_ahp.agents.claude import failures, permissions, prompts, sessions
from jupyter_ahp.agents.claude.program import Learned, Program
from jupyter_ahp.agents.claude.reporter import Registry, Reporter
from jupyter_ahp.agents.claude.runs import Run
from jupyter_ahp.agents.claude.settings import Settings
from jupyter_ahp.agents.claude.workers import Workers

log = logging.getLogger(__name__)

STOPPED_IN: Final = 2.0
"""Seconds that the CLI has to be through with an interrupt."""
_TURNS: Final = uuid.UUID("5a1f6ab4-41c0-4b8a-9be6-3c6f1f0f2d57")


def prompt_id(turn_id: str) -> str:
    """The uuid of a turn's prompt, for the first time that it is sent: whether the CLI has it can be looked up."""
    return str(uuid.uuid5(_TURNS, turn_id))


class ClaudeConversation(Conversation):
    """One chat. `learned` is told what a CLI says of itself when it was started."""

    def __init__(self, settings: Settings, start: Start, learned: Learned) -> None:
        self._settings = settings
        self._start = start
        self._registry = Registry()
        self._program = Program(
            settings,
            start,
            self._registry,
            heard=self._heard,
            lost=self._lost,
            may=self._may,
            learned=learned,
        )
        self._workers = Workers(self._registry, start.host, lambda: self._tools, self._stop_task)
        self._runs: list[Run] = []
        """In the order in which the CLI was handed them."""
        self._active: Run | None = None
        """The host's turn that runs."""
        self._current: Run | None = None
        """Whose turn of the CLI's is running, as far as it has said."""
        self._names = False
        """The CLI says which prompts its turns took in."""
        self._seen: set[str] = set()
        """Messages that were shown: after a compaction the CLI says some again."""
        self._tools: dict[str, Tool] = {}
        self._approvals = Approvals()
        self._closed = False
        self._idle: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None

    @property
    def memory(self) -> str | None:
        return self._program.memory

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        self._wake()
        self._tools = {tool.name: tool for tool in prompt.tools}
        self._approvals = prompt.approvals
        try:
            line = await self._program.ready(prompt, sink, busy=self._workers.busy)
            content, name = await self._said(prompt, sink)
            if line is not self._program.line:
                raise failures.of_death(None, line.stderr)
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

    async def _said(self, prompt: Prompt, sink: TurnSink) -> tuple[list[Any], str]:
        """What is handed over, and its uuid. A turn that is gone on with may not have reached the CLI at all."""
        name = prompt_id(prompt.turn_id)
        home, memory = self._settings.home, self._program.memory
        if prompt.resumed and await asyncio.to_thread(sessions.holds, home, memory, name):
            return prompts.of_resumed(), str(uuid.uuid4())
        content = prompts.of_turn(prompt)
        if self._program.knows_nothing and prompt.history:
            sink.notice(
                "Claude does not keep this conversation any more. It was told the end of what was said."
            )
            content = [*prompts.of_history(prompt.history), *content]
        return content, str(uuid.uuid4()) if prompt.resumed else name

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

    async def configure(self, config: Mapping[str, Any]) -> None:
        await self._program.configure(config)

    async def _may(
        self, name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        return await permissions.ask(name, given, context, self._registry, self._approvals)

    def _lost(self, failure: TurnFailed) -> None:
        """The CLI ended by itself."""
        self._over()
        runs, self._runs = self._runs, []
        for run in runs:
            if run.stopped:
                run.finish()
            else:
                run.fail(failure)
        self._workers.lost("Claude's program ended.")

    async def _hang_up(self) -> None:
        """Close the CLI, and what runs behind the turns with it."""
        at_work = self._current is not None
        self._over()
        self._workers.lost("Claude's program was closed.")
        await self._program.hang_up(at_work=at_work)

    def _over(self) -> None:
        """What is known of the CLI that ran is of no use for the next one."""
        self._current = None
        self._seen.clear()

    # ── what the CLI says ────────────────────────────────────────────────────────────────────────────────────
    def _heard(self, message: Any) -> None:
        match message:
            case SystemMessage(subtype="init", data=data):
                self._program.memory = str(data.get("session_id") or self._program.memory)
                self._current = None
            case SystemMessage(subtype="status", data={"permissionMode": str(mode)}):
                self._program.changed_mode(mode)
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
        if run.deaf and isinstance(message, AssistantMessage):
            self._registry.refuse([block.id for block in message.content if isinstance(block, ToolUseBlock)])
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
            self._program.went_on()
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
        spent = self._program.spent(result.total_cost_usd)
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
        run, line = self._active, self._program.line
        if run is None or line is None or run.over:
            running.cancel()
            return
        run.stopped = True
        if self._settings.stop_ends == "query":
            await self._give_up(run)
            return
        tasks = self._workers.of_turn(run.sink) if run.sink is not None else []
        for task in tasks:
            await self._stop_task(task)
        # That these have ended is no news to be answered, unless steering waits that is not to be dropped with it.
        all_of_it = not run.taken or (bool(tasks) and not run.steering)
        try:
            async with asyncio.timeout(STOPPED_IN):
                if not all_of_it:
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
        line = self._program.line
        if line is None:
            return
        try:
            await line.client.stop_task(task_id)
        except Exception as error:  # noqa: BLE001 the SDK raises it for a refusal: it may have ended
            log.info("Claude's CLI did not stop %s: %s", task_id, error)

    async def steer(self, message: Steering) -> bool:
        run, line = self._active, self._program.line
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
                line = self._program.line
                if held == message_id and line is not None and await line.withdraw(name):
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
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(self._settings.idle_seconds, self._tired)

    def _tired(self) -> None:
        self._idle = None
        if self._active is not None or self._program.line is None:
            return
        if self._runs or self._workers.busy:
            self._rest()
        else:
            self._resting = asyncio.create_task(self._hang_up())

    async def close(self) -> None:
        self._closed = True
        self._wake()
        runs, self._runs = self._runs, []
        for run in runs:
            run.finish()
        self._over()
        self._workers.lost("The chat was closed.")
        await self._program.close()
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
