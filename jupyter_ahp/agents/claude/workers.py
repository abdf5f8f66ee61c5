"""Subagents as worker chats, and what runs behind the turns. W1 to W5."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from claude_agent_sdk import TaskNotificationMessage, TaskStartedMessage, TaskUpdatedMessage
from claude_agent_sdk.types import TERMINAL_TASK_STATUSES

from jupyter_ahp.agents.base import ConversationHost, Json, Tool, TurnSink, Worker
from jupyter_ahp.agents.claude.reporter import Entry, Registry, Reporter

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """A task of the CLI's that has not ended."""

    id: str
    call_id: str
    title: str
    is_worker: bool
    in_background: bool
    command: str = ""
    """What a shell runs."""
    spawned_by: TurnSink | None = None
    worker: Worker | None = None
    reporter: Reporter | None = None
    backlog: list[Any] = field(default_factory=list)
    """What it said before its chat was there."""
    ended: tuple[str, str] | None = None
    """How it ended, and its last words, where it did before its chat was there."""


class Workers:
    """The tasks of one CLI. `stop` ends one of them."""

    def __init__(
        self,
        registry: Registry,
        host: ConversationHost,
        tools: Callable[[], Mapping[str, Tool]],
        stop: Callable[[str], Awaitable[None]],
    ) -> None:
        self._registry = registry
        self._host = host
        self._tools = tools
        self._stop = stop
        self._running: dict[str, _Running] = {}
        self._by_call: dict[str, _Running] = {}
        self._behind: dict[str, str] = {}
        """What the CLI says runs in the background and is no worker: its description, by task."""
        self._listed: set[str] = set()
        self.last = ""
        """What came back last, in words: the CLI answers it in a turn of its own."""

    @property
    def busy(self) -> bool:
        """Something runs behind the turns: the CLI is not to be closed."""
        return bool(self._running)

    def of_turn(self, sink: TurnSink) -> list[str]:
        """The tasks that were spawned in a turn and run yet."""
        return [task.id for task in self._running.values() if task.spawned_by is sink]

    # ── what the CLI says ────────────────────────────────────────────────────────────────────────────────────
    def started(self, message: TaskStartedMessage) -> None:
        data = message.data
        call_id = message.tool_use_id or ""
        task = _Running(
            message.task_id,
            call_id,
            message.description or "Background work",
            message.task_type == "local_agent",
            bool(data.get("is_backgrounded")),
        )
        self._running[task.id] = task
        if call_id:
            self._by_call[call_id] = task
        if task.is_worker and call_id:
            prompt, name = str(data.get("prompt") or task.title), data.get("subagent_type")
            self._registry.when_whole(call_id, partial(self._spawn, task, prompt, name))
        elif call_id:
            self._registry.when_whole(call_id, partial(self._belongs, task))

    def _belongs(self, task: _Running, entry: Entry) -> None:
        task.spawned_by = entry.sink
        task.command = str((entry.given or {}).get("command") or "")
        self._list()

    def _spawn(self, task: _Running, prompt: str, name: str | None, entry: Entry) -> None:
        task.spawned_by = entry.sink
        entry.begin()
        task.worker = entry.sink.worker(
            entry.call,
            prompt,
            title=task.title,
            agent_name=name,
            background=task.in_background,
            stop=partial(self._stop, task.id),
        )
        task.reporter = Reporter(task.worker.sink, self._registry, self._tools())
        backlog, task.backlog = task.backlog, []
        for message in backlog:
            task.reporter.hear(message)
        if task.ended is not None:
            self._end(task, *task.ended)

    def hear(self, call_id: str, message: Any) -> None:
        """A message of the worker that this call runs."""
        task = self._by_call.get(call_id)
        if task is None:
            return
        if task.reporter is None:
            task.backlog.append(message)
        else:
            task.reporter.hear(message)

    def changed(self, tasks: list[Json]) -> None:
        """The CLI's list of what runs in the background: shells are listed by us, workers by the host."""
        self._behind = {
            task["task_id"]: str(task.get("description") or "Command in the background")
            for task in tasks
            if task.get("task_type") != "local_agent"
        }
        self._list()

    def _list(self) -> None:
        for gone in self._listed - set(self._behind):
            self._host.background(None, gone)
        self._listed &= set(self._behind)
        for task_id, label in self._behind.items():
            task = self._running.get(task_id)
            if task_id not in self._listed and task is not None and task.spawned_by is not None:
                self._listed.add(task_id)
                self._host.background(
                    {"kind": "shell", "label": label, "command": task.command or label}, task_id
                )

    def updated(self, message: TaskUpdatedMessage) -> None:
        if message.status in TERMINAL_TASK_STATUSES:
            self._ended(message.task_id, message.status or "completed", str(message.patch.get("error") or ""))

    def notified(self, message: TaskNotificationMessage) -> None:
        self._ended(message.task_id, message.status, message.summary)
        if message.task_id in self._behind:
            self.last = message.summary

    def _ended(self, task_id: str, how: str, words: str) -> None:
        task = self._running.pop(task_id, None)
        if task is None:
            return
        if task.in_background and task.is_worker:
            self.last = f"“{task.title}” {'has come back' if how == 'completed' else 'has ended'}."
        if not task.is_worker or not task.call_id:
            self._by_call.pop(task.call_id, None)
        elif task.worker is None:
            task.ended = (how, words)
        else:
            self._end(task, how, words)

    def _end(self, task: _Running, how: str, words: str) -> None:
        self._by_call.pop(task.call_id, None)
        worker = task.worker
        assert worker is not None, "spawned before it ends"
        if how == "completed":
            worker.done()
        elif how == "failed":
            error = task.reporter.error if task.reporter is not None else ""
            worker.failed(error or words or "It failed.")
        else:
            worker.cancelled()
        self._registry.forget(worker.sink)

    def lost(self, why: str) -> None:
        """The CLI is gone, and all of them with it."""
        for task in [*self._running.values()]:
            if task.worker is not None:
                task.worker.failed(why)
                self._registry.forget(task.worker.sink)
        for listed in self._listed:
            self._host.background(None, listed)
        self._running.clear()
        self._by_call.clear()
        self._behind.clear()
        self._listed.clear()
