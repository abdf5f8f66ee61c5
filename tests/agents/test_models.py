"""Which models there are: configured, in the environment, on loopback, the small one; and what is said when none is."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.assistant.models import BadModels, discover, from_ollama, ollama_url, parse
from jupyter_ahp.agents.assistant.weights import SMOLLM2, Weights
from tests.agents.conftest import MakeAssistant
from tests.mock_model import MockModel

NO_OLLAMA = {"OLLAMA_HOST": "127.0.0.1:1"}


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    return Weights(tmp_path)


def place(weights: Weights) -> None:
    """A file that looks like the small model, and takes no room."""
    weights.path.parent.mkdir(parents=True)
    with weights.path.open("wb") as file:
        file.write(b"GGUF")
        file.truncate(SMOLLM2.size)


async def ids(environ: dict[str, str], weights: Weights, configured: Any = ()) -> list[str]:
    return [endpoint.id for endpoint in await discover(configured, NO_OLLAMA | environ, weights)]


async def test_configured_models_are_all_there_is(weights: Weights) -> None:
    entry = {"id": "one", "base_url": "http://h/v1", "model": "m"}
    assert await ids({"OPENAI_API_KEY": "k"}, weights, [entry]) == ["one"]


async def test_keys_of_the_environment_give_a_model_each(weights: Weights) -> None:
    found = await discover(
        (), NO_OLLAMA | {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "GROQ_API_KEY": "g"}, weights
    )
    assert [endpoint.key_variable for endpoint in found] == [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GROQ_API_KEY",
    ]
    assert [endpoint.api for endpoint in found] == ["openai", "anthropic", "openai"]
    assert all(endpoint.model for endpoint in found)


async def test_the_environment_chooses_model_and_address(weights: Weights) -> None:
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://models.example/v1", "OPENAI_MODEL": "big"}
    [endpoint] = await discover((), NO_OLLAMA | environ, weights)
    assert (endpoint.id, endpoint.model, endpoint.base_url) == (
        "openai/big",
        "big",
        "https://models.example/v1",
    )
    assert endpoint.name == "big at models.example"


async def test_an_own_server_needs_no_key_and_is_asked_for_its_model(
    model: MockModel, weights: Weights
) -> None:
    [endpoint] = await discover((), NO_OLLAMA | {"OPENAI_BASE_URL": model.base_url}, weights)
    assert endpoint.model == "mock-model"
    assert endpoint.key_variable is None


async def test_ollama_on_loopback_is_found(model: MockModel, weights: Weights) -> None:
    [endpoint] = await discover((), {"OLLAMA_HOST": model.root_url}, weights)
    assert (endpoint.id, endpoint.base_url) == ("ollama/mock:1b", model.base_url)


async def test_a_key_comes_before_ollama(model: MockModel, weights: Weights) -> None:
    found = await discover((), {"OLLAMA_HOST": model.root_url, "MISTRAL_API_KEY": "k"}, weights)
    assert [endpoint.id.split("/")[0] for endpoint in found] == ["mistral", "ollama"]


async def test_a_server_elsewhere_is_never_asked_while_looking() -> None:
    assert await from_ollama({"OLLAMA_HOST": "http://192.0.2.1:11434"}) == []


async def test_a_server_that_does_not_answer_costs_a_moment(weights: Weights) -> None:
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        began = time.monotonic()
        assert await discover((), {"OLLAMA_HOST": f"127.0.0.1:{port}"}, weights) == []
        assert time.monotonic() - began < 1
        silent.close()


@pytest.mark.parametrize(
    "answer",
    [b"", b"not json", b"[1]", b'{"models": null}', b'{"models": [{"size": 1}, 7]}', b'{"models": "x"}'],
)
async def test_a_server_that_is_no_ollama_is_passed_over(weights: Weights, answer: bytes) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(answer) + answer
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await discover((), {"OLLAMA_HOST": f"127.0.0.1:{port}"}, weights) == []


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("localhost:99", "http://localhost:99"),
        ("https://h:1", "https://h:1"),
        (":1234", "http://127.0.0.1:1234"),
        ("[::1]", "http://[::1]:11434"),
    ],
)
def test_ollama_host_as_ollama_reads_it(host: str, url: str) -> None:
    assert ollama_url(host) == url


async def test_the_small_model_is_there_when_nothing_else_is(weights: Weights) -> None:
    assert await ids({}, weights) == []
    place(weights)
    assert await ids({}, weights) == ["local/smollm2-135m"]
    assert await ids({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, weights) == ["openai/m"]


def test_half_a_file_is_not_the_small_model(weights: Weights) -> None:
    place(weights)
    with weights.path.open("r+b") as file:
        file.truncate(1000)
    assert not weights.present


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"model": "m"}, "base_url is missing"),
        ({"base_url": "http://h"}, "model is missing"),
        ({"base_url": "h:1", "model": "m"}, "http://"),
        ({"base_url": "http://h", "model": "m", "api_key": "k"}, "there is no api_key"),
    ],
)
def test_a_wrong_entry_is_named(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(BadModels, match=f"entry 2.*{said}"):
        parse([{"base_url": "http://h", "model": "ok"}, entry])


def test_an_id_is_used_once() -> None:
    with pytest.raises(BadModels, match="twice"):
        parse([{"base_url": "http://h", "model": "m"}, {"base_url": "http://g", "model": "m"}])


# ── Probing ──────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_probe_lists_the_models(make_assistant: MakeAssistant) -> None:
    entry = {"base_url": "http://h/v1", "model": "m", "name": "M", "vision": True, "context_window": 8192}
    probe = await make_assistant(models=[entry]).probe()
    assert probe.ready
    [listed] = probe.models
    assert (listed.id, listed.name, listed.vision, listed.context_window) == ("m", "M", True, 8192)


async def test_probe_with_nothing_says_what_to_do(make_assistant: MakeAssistant, tmp_path: Path) -> None:
    probe = await make_assistant(environ=NO_OLLAMA, data_dir=tmp_path).probe()
    assert not probe.ready
    assert "OPENAI_API_KEY" in probe.fix
    assert "jupyter-ahp local-model" in probe.fix


async def test_probe_names_a_variable_that_is_not_set(make_assistant: MakeAssistant) -> None:
    entry = {"base_url": "http://h/v1", "model": "m", "api_key_env": "MY_KEY"}
    probe = await make_assistant(models=[entry]).probe()
    assert not probe.ready
    assert "MY_KEY" in probe.reason
    assert "MY_KEY" in probe.fix


async def test_probe_says_what_is_wrong_in_the_configuration(make_assistant: MakeAssistant) -> None:
    probe = await make_assistant(models=[{"model": "m"}]).probe()
    assert not probe.ready
    assert "AssistantAgent.models" in probe.reason


@pytest.mark.parametrize(("absent", "extra"), [("pydantic_ai", "assistant"), ("xllamacpp", "local")])
async def test_probe_names_the_extra_that_is_missing(
    make_assistant: MakeAssistant, weights: Weights, monkeypatch: pytest.MonkeyPatch, absent: str, extra: str
) -> None:
    place(weights)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == absent else find_spec(name))
    probe = await make_assistant(environ=NO_OLLAMA, data_dir=weights.data_dir).probe()
    assert not probe.ready
    assert f"pip install 'jupyter-ahp[{extra}]'" in probe.fix


async def test_the_small_model_is_labelled_as_often_wrong(
    make_assistant: MakeAssistant, weights: Weights
) -> None:
    place(weights)
    probe = await make_assistant(environ=NO_OLLAMA, data_dir=weights.data_dir).probe()
    assert probe.ready
    assert "often wrong" in probe.note
    assert "often wrong" in probe.models[0].name
