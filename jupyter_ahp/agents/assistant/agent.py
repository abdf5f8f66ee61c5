"""The assistant: conversation with history over any OpenAI-compatible API or Anthropic's, in this process."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jupyter_core.paths import jupyter_data_dir

from jupyter_ahp.agents.assistant import delegate, local
from jupyter_ahp.agents.assistant.files import Files, in_time
from jupyter_ahp.agents.assistant.history import (
    Call,
    Effort,
    Said,
    conversation,
    fit,
    instructions,
    left_out,
    merged,
    was_told,
)
from jupyter_ahp.agents.assistant.mcp.config import parse
from jupyter_ahp.agents.assistant.mcp.servers import Servers
from jupyter_ahp.agents.assistant.models import SMALL, BadModels, Endpoint, discover
from jupyter_ahp.agents.assistant.sizes import cut, estimated_tokens
from jupyter_ahp.agents.assistant.standing import ALONE, INSTRUCTIONS, all_of, with_tools
from jupyter_ahp.agents.assistant.tally import Tally
from jupyter_ahp.agents.assistant.tools import Workspace, own_tools
from jupyter_ahp.agents.assistant.weights import Weights
from jupyter_ahp.agents.base import (
    Agent,
    Capabilities,
    Conversation,
    ImageBlock,
    Json,
    Probe,
    Prompt,
    Start,
    Steering,
    TurnFailed,
    TurnSink,
)

if TYPE_CHECKING:
    from jupyter_ahp.agents.assistant.runtime import Runtime

EFFORT: Final = "effort"
EFFORTS: Final[tuple[Effort, ...]] = ("minimal", "low", "medium", "high")
STALL_SECONDS: Final = 120.0

TINY_NOTE: Final = (
    "A tiny model on this machine, often wrong. For real work set OPENAI_API_KEY or ANTHROPIC_API_KEY."
)

NO_MODEL_FIX: Final = (
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY and restart the server, or start Ollama. "
    "For a tiny model with no key, run `jupyter-ahp local-model`."
)


class AssistantAgent(Agent):
    """Talks to models from within the server.

    Parameters
    ----------
    models:
        `AssistantAgent.models`: `{id, name, base_url, model, api_key_env}`, and `vision`, `context_window`; only
        `base_url` and `model` must be there. The first is the default. Empty: what the environment has.
    stall_seconds:
        How long an API may send nothing at all before the turn fails (and can be resumed).
    backoff_seconds:
        The wait before a busy server is asked again; doubles each time.
    mcp_servers:
        `AssistantAgent.mcp_servers`: MCP servers for all chats, as `mcpServers` of a `.mcp.json`.
    commands:
        Whether its models may run commands (`AHPExtension.terminals`); asked first, as all that runs something.
    data_dir:
        Where the small model is, in `models/`; by default the store's default directory.
    environ:
        The environment to look for keys in; by default this process's.

    Its chats are the host's turns and nothing else: it is told them anew each time, so that forks and rewinds need
    nothing of it, and what the host deletes is gone.
    """

    provider = "assistant"
    display_name = "Assistant"
    description = (
        "Talks to a model: OpenAI, Anthropic, Ollama, any OpenAI-compatible server, or a tiny one built in."
    )
    capabilities = Capabilities(fork=True, steering=True, tools=True, several_directories=True)

    def __init__(
        self,
        *,
        models: Sequence[Mapping[str, Any]] = (),
        stall_seconds: float = STALL_SECONDS,
        backoff_seconds: float = 1.0,
        mcp_servers: Mapping[str, Any] | None = None,
        commands: bool = True,
        data_dir: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._configured = list(models)
        self._stall_seconds = stall_seconds
        self._backoff_seconds = backoff_seconds
        self.runs_commands = commands
        self._mcp_servers = parse(mcp_servers or {}, where="AssistantAgent.mcp_servers")
        self._weights = Weights(Path(data_dir) if data_dir is not None else Path(jupyter_data_dir()) / "ahp")
        self._environ = os.environ if environ is None else environ
        self._runtime: asyncio.Future[Runtime] | None = None
        self._local: local.LocalModel | None = None

    async def probe(self) -> Probe:
        return (await self._look())[0]

    async def _look(self) -> tuple[Probe, list[Endpoint]]:
        """What there is now, and the models that can be used."""
        try:
            endpoints = await discover(self._configured, self._environ, self._weights)
        except BadModels as error:
            return Probe(
                False, reason=str(error), fix="Correct Jupyter's configuration and restart the server."
            ), []
        if not endpoints:
            return Probe(False, reason="No model is set up.", fix=NO_MODEL_FIX), []
        if missing := _missing_extra(endpoints):
            reason = f"What it needs to talk to {endpoints[0].name} is not installed."
            fix = f"Run `pip install 'jupyter-ahp[{missing}]'` and restart the server."
            return Probe(False, reason=reason, fix=fix), []
        usable = [endpoint for endpoint in endpoints if self._has_key(endpoint)]
        if not usable:
            variables = ", ".join(sorted({endpoint.key_variable or "" for endpoint in endpoints}))
            reason = f"{variables} is not set in the server's environment."
            return Probe(False, reason=reason, fix=f"Set {variables} and restart the server."), []
        note = TINY_NOTE if usable[0].api == "local" else ""
        return Probe(True, models=[endpoint.described() for endpoint in usable], note=note), usable

    def config_schema(self, values: Mapping[str, Any]) -> Json:
        effort: Json = {
            "type": "string",
            "title": "Effort",
            "description": "How much a reasoning model thinks before it answers.",
            "enum": ["", *EFFORTS],
            "enumLabels": ["As the model has it", "Minimal", "Low", "Medium", "High"],
            "default": "",
            "sessionMutable": True,
        }
        return {"type": "object", "properties": {EFFORT: effort}}

    async def open(self, start: Start) -> Conversation:
        servers = Servers(self._mcp_servers, start.directories, self._environ)
        return AssistantConversation(self, Workspace(start.directories), servers)

    async def close(self) -> None:
        """Close connections and free the small model."""
        loading, self._runtime = self._runtime, None
        if loading is not None and not isinstance(runtime := await _settled(loading), BaseException):
            await runtime.close()
        small, self._local = self._local, None
        if small is not None:
            await small.close()

    # ── For its conversations ────────────────────────────────────────────────────────────────────────────────────
    async def endpoint(self, model: str | None) -> Endpoint:
        """The model that was asked for, or the default one. Raises `TurnFailed`."""
        probe, usable = await self._look()
        if not probe.ready:
            raise TurnFailed("not_ready", f"{probe.reason} {probe.fix}", resumable=True)
        for endpoint in usable:
            if model is None or endpoint.id == model:
                return endpoint
        known = ", ".join(endpoint.name for endpoint in usable)
        raise TurnFailed(
            "model_not_found", f"There is no model {model} here now. Choose one of these: {known}."
        )

    async def answer(
        self,
        endpoint: Endpoint,
        prompt: Prompt,
        sink: TurnSink,
        steering: dict[str, Steering],
        workspace: Workspace,
        servers: Servers,
    ) -> None:
        """Run one turn with a model; what it read of `steering` is taken out of there. Raises `TurnFailed`."""
        runtime = await self._loaded_runtime(sink)
        unseen = [block.label for block in prompt.blocks if isinstance(block, ImageBlock)]
        if unseen and not endpoint.vision:
            sink.notice(f"{endpoint.name} does not see images: {', '.join(unseen)} was only named to it.")
        sink.activity("Thinking")
        if endpoint.api == "local":
            await self._answer_small(runtime, endpoint, prompt, sink, steering, workspace.directories)
            return
        key = self._environ.get(endpoint.key_variable) if endpoint.key_variable else None
        files = Files(workspace.directories)
        told = await in_time(partial(conversation, prompt, vision=endpoint.vision), files)
        own = own_tools(workspace, prompt.approvals, commands=self.runs_commands)
        brought = await servers.tools(prompt, sink)
        tally = Tally(sink)
        alone = instructions(INSTRUCTIONS + ALONE, prompt)

        async def work(task: str, worker: TurnSink) -> str:
            of_worker = replace(
                call,
                instructions=instructions(with_tools(workspace) + delegate.INSTRUCTIONS, prompt),
                said=[Said("user", task)],
                own=1,
                earlier=(),
                summary=None,
                told=True,
                tools=[tool for tool in call.tools if tool is not delegating],
                tally=Tally(worker, above=tally),
            )
            return await runtime.answer(of_worker, worker, {})

        delegating = delegate.Delegate(prompt.approvals, sink, work)
        tools = all_of(own, [delegating] if own else [], prompt.tools, brought, sink=sink)
        call = Call(
            endpoint,
            endpoint.base_url,
            key,
            instructions(with_tools(workspace), prompt) if tools else alone,
            told.said,
            len(told.own),
            told.earlier,
            told.summary,
            told=was_told(prompt),
            files=files,
            tools=tools,
            instructions_alone=alone,
            effort=_effort(prompt),
            tally=tally,
        )
        await runtime.answer(call, sink, steering)

    async def _answer_small(
        self,
        runtime: Runtime,
        endpoint: Endpoint,
        prompt: Prompt,
        sink: TurnSink,
        steering: dict[str, Steering],
        directories: Sequence[str],
    ) -> None:
        room = local.CONTEXT_TOKENS - local.ANSWER_TOKENS
        # What the host has to say may be longer than all that this model reads.
        prompt = replace(
            prompt, prefaces={turn: cut(text, room // 3) for turn, text in prompt.prefaces.items()}
        )
        system = instructions(local.INSTRUCTIONS, prompt)
        files = Files(directories, tokens=room // 2)
        told = await in_time(partial(conversation, prompt, vision=False), files)
        whole, own = merged([told.summary, *told.said] if told.summary else told.said), len(told.own)
        said = fit(whole, room - estimated_tokens(system), own)
        if not said:
            raise TurnFailed(
                "context_length",
                "This message is too long for the small model, which reads about 1,000 words. Say less, or use "
                "another model.",
            )
        if len(said) < len(whole) and not was_told(prompt):
            sink.notice(left_out("the small model", whole, said))
        if self._local is None:
            self._local = local.LocalModel(self._weights.path, endpoint.model)
        async with self._local.turn(sink.activity) as (base_url, key):
            call = Call(
                endpoint,
                base_url,
                key,
                system,
                said,
                own,
                told=True,
                max_tokens=local.ANSWER_TOKENS,
                files=files,
            )
            await runtime.answer(call, sink, steering)

    async def _loaded_runtime(self, sink: TurnSink) -> Runtime:
        """The model library, imported in a thread: it takes seconds, in which others must not wait."""
        if self._runtime is None:
            self._runtime = asyncio.ensure_future(asyncio.to_thread(self._load_runtime))
        if not self._runtime.done():
            sink.activity("Starting the assistant, first time only")
        try:
            return await asyncio.shield(self._runtime)
        except ImportError as error:
            self._runtime = None
            raise TurnFailed(
                "not_ready",
                "The model library that is installed cannot be used. "
                "Run `pip install -U 'jupyter-ahp[assistant]'` and restart the server.",
                details=str(error),
            ) from error

    def _load_runtime(self) -> Runtime:
        from jupyter_ahp.agents.assistant.runtime import Runtime

        return Runtime(stall_seconds=self._stall_seconds, backoff_seconds=self._backoff_seconds)

    def _has_key(self, endpoint: Endpoint) -> bool:
        return endpoint.key_variable is None or bool(self._environ.get(endpoint.key_variable))


async def _settled(loading: asyncio.Future[Runtime]) -> Runtime | BaseException:
    [result] = await asyncio.gather(loading, return_exceptions=True)
    return result


class AssistantConversation(Conversation):
    """One chat. Keeps nothing: each turn brings the chat's history with it."""

    def __init__(self, agent: AssistantAgent, workspace: Workspace, servers: Servers) -> None:
        self._agent = agent
        self._workspace = workspace
        self._servers = servers
        self._steering: dict[str, Steering] | None = None
        """What the turn that runs was handed and the model has not read, by id (B15); None while none runs."""

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        self._steering = {}
        try:
            endpoint = await self._agent.endpoint(prompt.model)
            await self._agent.answer(endpoint, prompt, sink, self._steering, self._workspace, self._servers)
        finally:
            self._steering = None

    async def steer(self, message: Steering) -> bool:
        if self._steering is None:
            return False
        self._steering[message.id] = message
        return True

    async def withdraw(self, message_id: str) -> bool:
        return self._steering is not None and self._steering.pop(message_id, None) is not None

    async def close(self) -> None:
        await self._servers.close()


def _effort(prompt: Prompt) -> Effort | None:
    """How much the model is to think, as this message or the session says."""
    said = prompt.model_config.get(EFFORT) or prompt.config.get(EFFORT)
    return next((effort for effort in EFFORTS if effort == said), None)


def _missing_extra(endpoints: Sequence[Endpoint]) -> str:
    """The extras that are needed and not installed, as pip takes them; empty when nothing is missing."""
    needed = (
        []
        if all(importlib.util.find_spec(name) for name in ("pydantic_ai", "openai", "anthropic"))
        else ["assistant"]
    )
    if endpoints[0] == SMALL and not local.is_installed():
        needed.append("local")
    return ",".join(needed)
