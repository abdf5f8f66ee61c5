"""The line to models' APIs: clients, models and what is set for a request. Imported with the model library, at the first use."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings, OpenAIStreamedResponse
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from jupyter_ahp.agents.assistant.failures import refuse_web_page
from jupyter_ahp.agents.assistant.history import Call
from jupyter_ahp.agents.assistant.models import Endpoint

CONNECT_SECONDS: Final = 15.0
NO_KEY: Final = "none"
"""What is sent where an API needs no key: the SDKs insist on one."""
COST_DETAIL: Final = "cost"
"""In a response's provider details: what the API says that the request cost, in US dollars."""
_OPENROUTER: Final = "openrouter.ai"


class Connections:
    """Holds them, one for this machine and one for the rest of the world; `close` ends them."""

    def __init__(self, stall_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._models: dict[tuple[Endpoint, str, str | None], Model] = {}

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        self._models.clear()
        await asyncio.gather(*(client.aclose() for client in clients))

    def model(self, call: Call) -> Model:
        found = (call.endpoint, call.base_url, call.key)
        if found not in self._models:
            self._models[found] = self._make_model(call)
        return self._models[found]

    @staticmethod
    def settings(call: Call, *, effort: bool = True) -> ModelSettings:
        """What is set for its requests. `effort`: how much the model is to think, if somebody said."""
        settings = OpenAIChatModelSettings()
        if call.max_tokens:
            settings["max_tokens"] = call.max_tokens
        if call.effort is not None and effort:
            if call.endpoint.api == "anthropic":
                settings["thinking"] = call.effort
            else:
                settings["openai_reasoning_effort"] = call.effort
        if (urlsplit(call.base_url).hostname or "").endswith(_OPENROUTER):
            settings["extra_body"] = {"usage": {"include": True}}
        return settings

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
        return _Model(call.endpoint.model, provider=OpenAIProvider(openai_client=openai), profile=profile)

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


class _Stream(OpenAIStreamedResponse):
    def _map_usage(self, response: ChatCompletionChunk) -> RequestUsage:
        said: Any = getattr(response.usage, "cost", None)  # no key of OpenAI's: OpenRouter and others have it
        if isinstance(said, int | float) and not isinstance(said, bool):
            self.provider_details = {**(self.provider_details or {}), COST_DETAIL: float(said)}
        return super()._map_usage(response)


class _Model(OpenAIChatModel):
    """Keeps what an API says that a request cost."""

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _Stream
