"""One chat with pi: a program that runs while the chat is in use, and is resumed when it is needed again (B1 to B3, B14).

pi keeps the conversation in a file of its own, a tree of entries; the entry at which a turn ended is its resume point.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_ahp.agents.base import (
    Conversation,
    Json,
    Prompt,
    Start,
    Steering,
    SteeringRefused,
    Tool,
    TurnFailed,
    TurnOver,
    TurnSink,
)
from jupyter_ahp.agents.processes import NotStarted

from . import dialogs
from .failures import died, failed
from .line import Declined, Ended, Line
from .prompts import GO_ON, prompt_of
from .report import Report
from .tools import PiTool

if TYPE_CHECKING:
    from .agent import PiAgent

log = logging.getLogger(__name__)

TITLE = "jupyter-ahp"
"""Of the dialogs and commands of our extension (extension.ts)."""
_START = 60.0  # seconds that pi has to start: it compiles extensions, and a home may be slow
_PROMPT = 120.0  # to take a prompt: extensions may do something first
_IDLE = 600.0  # seconds without a turn after which pi is ended; the next turn resumes it


class PiConversation(Conversation):
    """`open` starts pi on the conversation that it is to go on with."""

    def __init__(self, agent: PiAgent, start: Start) -> None:
        self._agent = agent
        self._start = start
        self._file: str | None = start.memory
        self._lost = False
        """pi does not have the conversation any more that it was to go on with."""
        self._line: Line | None = None
        self._leaf: str | None = None
        """The entry at which pi's session ends now."""
        self._before: str | None = None
        """The one behind which the last turn began."""
        self._prompt: Prompt | None = None
        self._report: Report | None = None
        self._used = False
        """pi was sent something since it began or went on."""
        self._failed = ""
        """What our extension could not do, in its words."""
        self._sent = False
        self._taken = False
        """pi has said that it begins with what it was sent: an abort ends that."""
        self._over: asyncio.Future[None] | None = None
        self._busy = False
        """pi is about to go on by itself, though its run has ended."""
        self._moves = 0
        """How often a run began, or one is about to: what pi said of itself before that is past."""
        self._steered: dict[str, str] = {}
        """What pi's queue holds, by id, as it was sent."""
        self._model: str | None = None
        self._thinking: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None

    @property
    def memory(self) -> str | None:
        return self._file

    # ── its process ──────────────────────────────────────────────────────────────────────────────────────────
    async def open(self) -> None:
        """Start pi. Raises `TurnFailed`."""
        start = self._start
        goes_on = self._file is not None and await asyncio.to_thread(os.path.exists, self._file)
        self._lost = self._file is not None and not goes_on
        argv = self._agent.argv(["--session", self._file] if goes_on and self._file else [])
        cwd = start.directories[0] if start.directories else None
        self._agent.check_deaths(start.chat)
        try:
            line = self._line = await Line.open(
                argv, cwd=cwd, env=self._agent.environment(), heard=self._heard
            )
            try:
                if goes_on and start.fork:
                    await self._fork(line, start.at)
                elif goes_on and start.at:
                    await self._command(line, f"{TITLE}-at {start.at}")
                state = await line.ask("get_state", patience=_START)
            except BaseException:
                await line.close()
                raise
        except NotStarted as error:
            raise TurnFailed("notStarted", f"{error} {self._agent.fix}") from error
        except (Declined, Ended, TimeoutError) as error:
            self._agent.deaths[start.chat].note()
            first, _, rest = (str(error) or "It did not answer.").partition("\n")
            raise TurnFailed(
                "notStarted", f"pi could not be started. {first}", resumable=True, details=rest or None
            ) from error
        self._file = state.get("sessionFile")
        self._model = _name_of(state.get("model"))
        self._thinking = state.get("thinkingLevel")
        self._agent.learn(line, cwd)

    async def _fork(self, line: Line, at: str | None) -> None:
        if at:
            await self._command(line, f"{TITLE}-fork {at}")
        else:
            await line.ask("clone", patience=_START)

    async def _command(self, line: Line, command: str) -> None:
        """Have our extension do something: it has when this returns. Raises as `Line.ask`."""
        self._failed = ""
        await line.ask("prompt", message=f"/{command}", patience=_START)
        if self._failed:
            raise Declined(f"It could not go to that point of its session: {self._failed}")

    async def _running(self) -> Line:
        """pi, started again if it has ended. Raises `TurnFailed`."""
        if self._resting is not None:
            await asyncio.shield(self._resting)  # a stop meanwhile ends this turn alone
            self._resting = None
        if self._line is None or not self._line.alive:
            if self._line is not None:
                await self._line.close()
                self._agent.deaths[self._start.chat].note()
            at = None if self._used else self._start.at  # nothing came behind it yet
            self._start = replace(self._start, memory=self._file, at=at, fork=False)
            await self.open()
        assert self._line is not None
        return self._line

    def _awake(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _rest(self) -> None:
        """Nobody has used it for long: what it holds in memory is worth more than the second it takes to come back."""
        line, self._idle, self._line = self._line, None, None
        if line is not None:
            self._resting = asyncio.create_task(line.close())

    async def _hang_up(self) -> None:
        """End pi; the next turn starts it on the same session."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def close(self) -> None:
        self._awake()
        if self._resting is not None:
            await self._resting
        for task in tuple(self._tasks):
            task.cancel()
        await self._hang_up()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._awake()

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        self._awake()
        self._prompt, self._report = prompt, Report(sink)
        self._sent, self._taken, self._busy = False, False, False
        self._steered.clear()
        self._over = asyncio.get_running_loop().create_future()
        try:
            line = await self._running()
            knows_nothing, self._lost = self._lost, False
            if knows_nothing and prompt.history:  # pi writes none before its first answer is whole
                sink.notice("pi's own record of this chat is gone, so pi does not know what was said before.")
            await self._settings(line, prompt)
            text, images = await self._words(line, prompt, anew=knows_nothing)
            self._before = self._leaf
            self._sent = self._used = True
            moves = self._moves
            await line.ask("prompt", message=text, images=images, patience=_PROMPT)
            self._taken = True
            if not await self._is_idle(line, moves):
                await self._over
            if self._report.error is not None:
                raise failed(self._report.error)
        except Declined as error:
            raise failed(str(error)) from error
        except Ended as error:
            raise died(str(error)) from error
        except TimeoutError as error:
            await self._hang_up()  # what it does from now on is no turn's
            words = "pi does not answer, so it was ended. Send the message again."
            raise TurnFailed("stalled", words, resumable=True) from error
        except asyncio.CancelledError:
            if self._sent:  # nor is what it does behind a stop that it has not taken in (B2)
                await self._hang_up()
            raise
        finally:
            if self._leaf:
                sink.resume_point(self._leaf)
            self._report = self._prompt = None
            self._sent = False
            self._drop_tasks()
            self._idle = asyncio.get_running_loop().call_later(_IDLE, self._rest)

    async def _settings(self, line: Line, prompt: Prompt) -> None:
        model = prompt.model
        if model and model != "default" and model != self._model:
            provider, _, name = model.partition("/")
            await line.ask("set_model", provider=provider, modelId=name)
            self._model = model
        thinking = prompt.config.get("thinking")
        if thinking and thinking != self._thinking:
            await line.ask("set_thinking_level", level=thinking)
            self._thinking = thinking

    async def _words(self, line: Line, prompt: Prompt, *, anew: bool) -> tuple[str, list[Json]]:
        """What pi is sent. A turn that failed before anything was answered is said again in its place, and one that pi
        does not know (`anew`) is said again in any case."""
        if prompt.resumed and not anew and any(part["kind"] != "error" for part in prompt.so_far):
            return GO_ON, []
        if prompt.resumed and not anew and self._before:
            await self._command(line, f"{TITLE}-at {self._before}")
        return prompt_of(prompt.text, prompt.blocks, prompt.prefaces.get(prompt.turn_id))

    async def _is_idle(self, line: Line, moves: int) -> bool:
        """Whether pi has had nothing to do since `moves`, and is not about to go on by itself."""
        state = await line.ask("get_state")
        works = state.get("isStreaming") or state.get("isCompacting")
        return not works and not self._busy and moves == self._moves

    async def _settle(self) -> None:
        """A run, or something between two runs, has ended: the turn has too, unless pi goes on."""
        line, over = self._line, self._over
        assert line is not None
        try:
            if await self._is_idle(line, self._moves) and over is not None and not over.done():
                over.set_result(None)
        except (Declined, TimeoutError) as error:
            if over is not None and not over.done():  # or the turn would never end
                over.set_exception(error)
                over.exception()
        except Ended:
            log.debug("pi ended, which its turn is told by its line")

    async def stop(self, running: asyncio.Task[None]) -> None:
        line = self._line
        if not self._taken or line is None or not line.alive:
            running.cancel()  # an abort ends nothing that has not begun
            return
        # 0.73 has no such request: what its queue holds stays in its session.
        with contextlib.suppress(Declined, Ended):
            await line.ask("clear_queue")
        with contextlib.suppress(Ended):
            await line.ask("abort")
        self._own(self._settle())
        await asyncio.wait([running])

    # ── steering (B14) ───────────────────────────────────────────────────────────────────────────────────────
    async def steer(self, message: Steering) -> bool:
        line = self._line
        if not self._sent or line is None or self._over is None or self._over.done():
            return False
        text, images = prompt_of(message.text, message.blocks)
        self._steered[message.id] = text
        try:
            await line.ask("steer", message=text, images=images)
        except Declined as error:
            self._steered.pop(message.id, None)
            raise SteeringRefused(f"pi does not take it: {error}") from error
        except (Ended, TimeoutError) as error:
            self._steered.pop(message.id, None)
            log.warning("pi did not take a steering message: %s", error)
            return False
        return True

    async def withdraw(self, message_id: str) -> bool:
        line = self._line
        if message_id not in self._steered or line is None:
            return False
        with contextlib.suppress(Declined, Ended, TimeoutError):  # 0.73 has no such request
            await line.ask("clear_queue")
            return self._steered.pop(message_id, None) is not None
        return False

    def _read(self, message: Json) -> None:
        """A message of a person begins in pi's run: steering, if it is one that pi's queue held."""
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        text = "".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")
        for message_id, sent in self._steered.items():
            if sent == text:
                del self._steered[message_id]
                if self._report is not None:
                    self._report.sink.steering_read(message_id)
                return

    # ── what pi says ─────────────────────────────────────────────────────────────────────────────────────────
    def _heard(self, event: Json | None) -> None:
        if event is None:
            if self._over is not None and not self._over.done() and self._line is not None:
                self._over.set_exception(self._line.ended())
                self._over.exception()  # a stop may have stopped waiting
            return
        kind = event.get("type")
        if kind == "extension_ui_request":
            self._interface(event)
            return
        if self._report is None:
            return
        self._report.take(event)
        match kind:
            case "message_start" if event["message"].get("role") == "user":
                self._read(event["message"])
            case "agent_start":
                self._busy = False
                self._moves += 1
            case "auto_retry_start":
                self._busy = True
                self._moves += 1
            case "compaction_end":
                self._busy = bool(event.get("willRetry"))
                self._own(self._settle())
            case "auto_retry_end":
                self._busy = False
                self._own(self._settle())
            case "agent_end" | "agent_settled":
                self._own(self._settle())

    def _interface(self, request: Json) -> None:
        """What an extension shows or asks."""
        method = request.get("method")
        if method == "setStatus" and request.get("statusKey") == f"{TITLE}.leaf":
            self._leaf = request.get("statusText") or None
        elif method == "setStatus" and request.get("statusKey") == f"{TITLE}.failed":
            self._failed = request.get("statusText") or ""
        elif method == "input" and request.get("title") == TITLE:
            self._own(self._reply(request, self._ours(json.loads(request["placeholder"]))))
        elif method in dialogs.KINDS:
            sink = self._report.sink if self._report is not None else None
            self._own(self._reply(request, dialogs.answered(request, sink)))
        elif method == "notify" and request.get("notifyType") in ("warning", "error"):
            log.warning("pi: %s", request.get("message"))

    async def _reply(self, request: Json, answer: Coroutine[Any, Any, Json]) -> None:
        said: Mapping[str, Any] = {"cancelled": True}
        try:
            said = await answer
        finally:
            if self._line is not None:
                self._line.say({"type": "extension_ui_response", "id": request["id"], **said})

    async def _ours(self, question: Json) -> Json:
        """A question of our extension."""
        prompt, report = self._prompt, self._report
        if prompt is None or report is None:
            return {"cancelled": True}
        try:
            match question["kind"]:
                case "tools":
                    answer: Any = [
                        {
                            "name": tool.name,
                            "title": tool.title,
                            "description": tool.description,
                            "parameters": tool.parameters,
                        }
                        for tool in prompt.tools
                    ]
                case "run":
                    answer = await self._run(prompt, report, question)
                case _:
                    answer = await self._may_run(prompt, report, question)
        except TurnOver:
            return {"cancelled": True}
        return {"value": json.dumps(answer, ensure_ascii=False)}

    @staticmethod
    async def _run(prompt: Prompt, report: Report, question: Json) -> Json:
        """A tool of the host's, a plugin's or a client's, called by pi's model."""
        tool = _tool(prompt, question["name"])
        if tool is None:
            return {"failed": True, "text": "There is no such tool any more."}
        call = report.call(question["id"], tool.name, tool.title, tool.contributor)
        result = await tool.call(call, question["input"])
        content = [{"type": "text", "text": result.text}]
        content += [_image(image.data, image.media_type) for image in result.images]
        return {"failed": result.failed, "text": result.text, "content": content}

    async def _may_run(self, prompt: Prompt, report: Report, question: Json) -> Json:
        """A tool of pi's own: whether it may run, and with what. Its call goes on until pi says that it has ended."""
        name, call_id = question["name"], question["id"]
        decided: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        tool = PiTool(
            prompt.approvals,
            name,
            lambda arguments: decided.set_result({"approved": True, "input": arguments}),
            report.end_of(call_id),
        )

        async def calling() -> None:
            refused: Json = {"approved": False}
            try:
                refused["reason"] = (await tool.call(report.call(call_id, name), question["input"])).text
            except TurnOver:
                log.debug("A call of %s outlived its turn", name)
            finally:
                if not decided.done():  # it was not run
                    decided.set_result(refused)

        self._own(calling())
        return await decided

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _drop_tasks(self) -> None:
        """The turn is over: nobody waits for what is left of it."""
        for task in tuple(self._tasks):
            task.cancel()


def _tool(prompt: Prompt, name: str) -> Tool | None:
    return next((tool for tool in prompt.tools if tool.name == name), None)


def _image(data: bytes, media_type: str) -> Json:
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": media_type}


def _name_of(model: Json | None) -> str | None:
    return f"{model['provider']}/{model['id']}" if model else None
