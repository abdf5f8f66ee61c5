"""The model loop, on pydantic-ai. With `failures.py` the only module that knows it; imported at the first use.

Retries are ours, not the SDKs': the person sees them, and none happens once a word of the answer came.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from jupyter_ahp.agents.assistant.failures import (
    FAILURES,
    explain,
    refuse_web_page,
    unfinished,
    wait_before_retry,
)
from jupyter_ahp.agents.assistant.history import Call, Said
from jupyter_ahp.agents.assistant.models import Endpoint
from jupyter_ahp.agents.base import TurnSink

ATTEMPTS: Final = 5
CONNECT_SECONDS: Final = 15.0
NO_KEY: Final = "none"
"""What is sent where an API needs no key: the SDKs insist on one."""


@dataclass(slots=True)
class Heard:
    """Whether something of the answer came, so that asking again would say it twice."""

    anything: bool = False


class Runtime:
    """Asks models and streams what they say. Holds the connections; `close` ends them."""

    def __init__(self, *, stall_seconds: float, backoff_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._backoff_seconds = backoff_seconds
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._models: dict[tuple[Endpoint, str, str | None], Model] = {}

    async def answer(self, call: Call, sink: TurnSink) -> None:
        """Stream one answer into the sink. Raises `TurnFailed`. Being cancelled closes the connection."""
        sink.activity("Thinking")
        for attempt in range(1, ATTEMPTS + 1):
            heard = Heard()
            try:
                await self._stream(call, sink, heard)
                break
            except FAILURES as error:
                wait = wait_before_retry(error, attempt, self._backoff_seconds)
                if heard.anything or wait is None or attempt == ATTEMPTS:
                    raise explain(
                        error,
                        call.endpoint,
                        key=call.key,
                        came=heard.anything,
                        stall_seconds=self._stall_seconds,
                    ) from error
                sink.activity(f"Asking again, the server was busy ({attempt + 1} of {ATTEMPTS})")
                await asyncio.sleep(wait)
        sink.activity(None)

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        self._models.clear()
        await asyncio.gather(*(client.aclose() for client in clients))

    async def _stream(self, call: Call, sink: TurnSink, heard: Heard) -> None:
        agent = Agent(self._model(call), instructions=call.instructions, retries=0)
        settings = ModelSettings(max_tokens=call.max_tokens) if call.max_tokens else ModelSettings()
        *before, last = call.said
        history = [_message(said) for said in before]
        async with agent.iter(_content(last), message_history=history, model_settings=settings) as run:
            async for node in run:
                if not Agent.is_model_request_node(node):
                    continue
                async with node.stream(run.ctx) as stream:
                    async for event in stream:
                        _report(event, sink, heard)
                    response = stream.response
                _report_end(response, sink)
                if response.finish_reason is None and "finish_reason" not in (
                    response.provider_details or {}
                ):
                    raise unfinished(call.endpoint.model)

    def _model(self, call: Call) -> Model:
        found = (call.endpoint, call.base_url, call.key)
        if found not in self._models:
            self._models[found] = self._make_model(call)
        return self._models[found]

    def _make_model(self, call: Call) -> Model:
        client = self._client(call.base_url)
        # The SDKs have timeouts of their own, which would win over the client's.
        timeout = httpx2.Timeout(self._stall_seconds, connect=min(CONNECT_SECONDS, self._stall_seconds))
        key = call.key or NO_KEY
        if call.endpoint.api == "anthropic":
            anthropic = AsyncAnthropic(
                base_url=call.base_url, api_key=key, max_retries=0, timeout=timeout, http_client=client
            )
            return AnthropicModel(call.endpoint.model, provider=AnthropicProvider(anthropic_client=anthropic))
        openai = AsyncOpenAI(
            base_url=call.base_url, api_key=key, max_retries=0, timeout=timeout, http_client=client
        )
        # Without this an answer that a proxy cuts off in good order would pass for a whole one.
        profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
        return OpenAIChatModel(
            call.endpoint.model, provider=OpenAIProvider(openai_client=openai), profile=profile
        )

    def _client(self, base_url: str) -> httpx2.AsyncClient:
        """One for this machine, which no proxy of the environment may see, one for the rest of the world."""
        host = urlsplit(base_url).hostname or ""
        here = host in ("localhost", "::1") or host.startswith("127.")
        if here not in self._clients:
            hooks = {"response": [refuse_web_page]}
            self._clients[here] = httpx2.AsyncClient(
                trust_env=not here, follow_redirects=True, event_hooks=hooks
            )
        return self._clients[here]


def _report(event: object, sink: TurnSink, heard: Heard) -> None:
    match event:
        case (
            PartStartEvent(part=TextPart(content=text))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
        ) if text:
            if not heard.anything:
                sink.activity(None)
            heard.anything = True
            sink.markdown(text)
        case (
            PartStartEvent(part=ThinkingPart(content=thought))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought))
        ) if thought:
            heard.anything = True
            sink.reasoning(thought)


def _report_end(response: ModelResponse, sink: TurnSink) -> None:
    used = response.usage
    if used.input_tokens or used.output_tokens:
        sink.usage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens or None,
            model=response.model_name,
        )
    if response.finish_reason == "length":
        sink.notice("The answer stops here: it reached the model's limit of length. Ask it to go on.")


def _message(said: Said) -> ModelMessage:
    if said.role == "assistant":
        return ModelResponse(parts=[TextPart(said.text)])
    return ModelRequest(parts=[UserPromptPart(_content(said))])


def _content(said: Said) -> str | list[UserContent]:
    if not said.images:
        return said.text
    images = [BinaryContent(data=image.data, media_type=image.media_type) for image in said.images]
    return [*images, said.text] if said.text else list(images)
