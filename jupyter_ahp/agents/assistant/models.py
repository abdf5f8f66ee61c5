"""Which models the assistant can talk to: configured ones, else those of the environment, else the small local one.

Looking never leaves this machine: a key in the environment is taken at its word, and only servers on loopback are
asked what they have.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from jupyter_ahp.agents.assistant.local import CONTEXT_TOKENS
from jupyter_ahp.agents.assistant.weights import Weights
from jupyter_ahp.agents.base import Model

LOOPBACK_SECONDS = 0.3
"""How long a server on loopback may take to say what it has."""


class BadModels(ValueError):
    """`AssistantAgent.models` cannot be used; the message says which entry and why."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model behind one API."""

    id: str
    name: str
    api: Literal["openai", "anthropic", "local"]
    base_url: str
    model: str
    """What the API calls it."""
    key_variable: str | None = None
    """The environment variable with its key; None when it needs none."""
    model_variable: str | None = None
    """The environment variable that chooses the model, where there is one."""
    vision: bool = False
    context_window: int | None = None
    guessed: bool = False
    """Nobody named the model: it is what the provider has, and the API may be another one's."""

    def described(self) -> Model:
        """As the host lists it."""
        return Model(id=self.id, name=self.name, context_window=self.context_window, vision=self.vision)

    @property
    def where(self) -> str:
        """The endpoint for people: its URL without credentials and query."""
        if self.api == "local":
            return "this machine"
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


@dataclass(frozen=True, slots=True)
class Provider:
    """A row of what the environment may name. The model is the provider's general one when the table was written; the
    environment variable `<prefix>_MODEL` names another."""

    prefix: str
    name: str
    api: Literal["openai", "anthropic"]
    base_url: str
    model: str
    vision: bool


PROVIDERS: Final = (
    Provider("OPENAI", "OpenAI", "openai", "https://api.openai.com/v1", "gpt-6.1-terra", True),
    Provider("ANTHROPIC", "Anthropic", "anthropic", "https://api.anthropic.com", "claude-sonnet-5-5", True),
    Provider("OPENROUTER", "OpenRouter", "openai", "https://openrouter.ai/api/v1", "openrouter/auto", False),
    Provider("GROQ", "Groq", "openai", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", False),
    Provider("MISTRAL", "Mistral", "openai", "https://api.mistral.ai/v1", "mistral-medium-latest", True),
)


async def discover(
    configured: Sequence[Mapping[str, Any]], environ: Mapping[str, str], weights: Weights
) -> list[Endpoint]:
    """The models to offer, the default first; empty when there is nothing. Raises `BadModels`."""
    if configured:
        return parse(configured)
    from_keys, ollama = await asyncio.gather(from_environment(environ), from_ollama(environ))
    if from_keys or ollama:
        return [*from_keys, *ollama]
    return [SMALL] if weights.present else []


def parse(configured: Sequence[Mapping[str, Any]]) -> list[Endpoint]:
    """Read `AssistantAgent.models`. Raises `BadModels`."""
    endpoints: list[Endpoint] = []
    for number, entry in enumerate(configured, 1):
        unknown = set(entry) - {"id", "name", "base_url", "model", "api_key_env", "vision", "context_window"}
        where = f"AssistantAgent.models, entry {number}"
        if unknown:
            raise BadModels(f"{where}: there is no {', '.join(sorted(unknown))}.")
        for key in ("base_url", "model"):
            if not entry.get(key) or not isinstance(entry[key], str):
                raise BadModels(f"{where}: {key} is missing.")
        if urlsplit(entry["base_url"]).scheme not in ("http", "https"):
            raise BadModels(f"{where}: base_url must begin with http:// or https://.")
        identity = str(entry.get("id") or entry["model"])
        if identity in {endpoint.id for endpoint in endpoints}:
            raise BadModels(f"{where}: the id {identity} is used twice.")
        endpoints.append(
            Endpoint(
                id=identity,
                name=str(entry.get("name") or identity),
                api="openai",
                base_url=entry["base_url"],
                model=entry["model"],
                key_variable=entry.get("api_key_env") or None,
                vision=bool(entry.get("vision", False)),
                context_window=entry.get("context_window"),
            )
        )
    return endpoints


async def from_environment(environ: Mapping[str, str]) -> list[Endpoint]:
    """One model for each provider whose key is set; OpenAI's also without one when `OPENAI_BASE_URL` names a server."""
    endpoints = []
    for row in PROVIDERS:
        base_url = environ.get(f"{row.prefix}_BASE_URL") or row.base_url
        key = f"{row.prefix}_API_KEY"
        is_own_server = row.prefix == "OPENAI" and base_url != row.base_url
        if not environ.get(key) and not is_own_server:
            continue
        chosen = environ.get(f"{row.prefix}_MODEL")
        if not chosen and is_own_server and _is_loopback(base_url):
            chosen = await _first_model(base_url, environ.get(key))
        model = chosen or row.model
        place = f" at {urlsplit(base_url).hostname}" if base_url != row.base_url else f" ({row.name})"
        endpoints.append(
            Endpoint(
                id=f"{row.prefix.lower()}/{model}",
                name=f"{model}{place}",
                api=row.api,
                base_url=base_url,
                model=model,
                key_variable=key if environ.get(key) else None,
                model_variable=f"{row.prefix}_MODEL",
                vision=row.vision and not is_own_server,
                guessed=is_own_server and not chosen,
            )
        )
    return endpoints


async def from_ollama(environ: Mapping[str, str]) -> list[Endpoint]:
    """The models of an Ollama that runs on this machine; none when none answers in time."""
    base_url = ollama_url(environ.get("OLLAMA_HOST", ""))
    if not _is_loopback(base_url):
        return []
    endpoints = []
    for entry in _dicts((await _get_json(f"{base_url}/api/tags", None)).get("models")):
        name, details = entry.get("name"), entry.get("details")
        if not isinstance(name, str):
            continue
        families = details.get("families") if isinstance(details, dict) else None
        seen = {str(fact) for fact in [*(families or []), *(entry.get("capabilities") or [])]}
        endpoints.append(
            Endpoint(
                id=f"ollama/{name}",
                name=f"{name} (Ollama)",
                api="openai",
                base_url=f"{base_url}/v1",
                model=name,
                vision=bool(seen & {"clip", "mllama", "vision"}),
            )
        )
    return endpoints


def ollama_url(host: str) -> str:
    """The URL of what `OLLAMA_HOST` names: a host, a port after a colon, or a URL. 0.0.0.0 is what it listens on."""
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname or "127.0.0.1"
    name = "127.0.0.1" if name == "0.0.0.0" else name
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{parts.port or 11434}"


async def _first_model(base_url: str, key: str | None) -> str | None:
    for entry in _dicts((await _get_json(f"{base_url.rstrip('/')}/models", key)).get("data")):
        if isinstance(entry.get("id"), str):
            return str(entry["id"])
    return None


def _dicts(value: object) -> list[dict[str, Any]]:
    """The objects of a JSON list; none when it is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


async def _get_json(url: str, key: str | None) -> dict[str, Any]:
    """What a server on loopback answers, or nothing: not running, too slow, or not what we took it for."""
    from tornado.httpclient import AsyncHTTPClient, HTTPError

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client = AsyncHTTPClient(force_instance=True)
    try:
        response = await client.fetch(
            url, headers=headers, connect_timeout=LOOPBACK_SECONDS, request_timeout=LOOPBACK_SECONDS
        )
        found = json.loads(response.body)
    except (OSError, HTTPError, ValueError):
        return {}
    finally:
        client.close()
    return found if isinstance(found, dict) else {}


SMALL: Final = Endpoint(
    id="local/smollm2-135m",
    name="SmolLM2 135M: tiny, often wrong",
    api="local",
    base_url="",
    model="smollm2-135m",
    context_window=CONTEXT_TOKENS,
)
