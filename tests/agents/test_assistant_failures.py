"""What the person reads when a model's API fails, over real HTTP: what happened, what is safe, what to do."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator

import pytest
import trustme

from jupyter_ahp.agents.assistant import AssistantAgent
from tests.agents.conftest import MakeAssistant
from tests.agents.recording import RecordingSink, failure, tell
from tests.mock_model import MockModel

KEY = "sk-very-secret"


@pytest.fixture
def with_key(make_assistant: MakeAssistant, model: MockModel) -> AssistantAgent:
    entry = {"base_url": model.base_url, "model": model.model, "api_key_env": "MY_KEY"}
    return make_assistant(models=[entry], environ={"MY_KEY": KEY})


async def test_401_names_the_variable_and_the_endpoint_and_never_the_key(
    make_assistant: MakeAssistant,
) -> None:
    with MockModel(key="another") as model:
        entry = {"base_url": model.base_url, "model": model.model, "api_key_env": "MY_KEY"}
        failed = await failure(make_assistant(models=[entry], environ={"MY_KEY": KEY}), "hello")
    assert failed.error_type == "authentication"
    assert "MY_KEY" in failed.message
    assert model.base_url in failed.message
    assert KEY not in failed.message + (failed.details or "")
    assert len(model.requests) == 1


async def test_the_key_is_sent(make_assistant: MakeAssistant) -> None:
    with MockModel(key=KEY) as model:
        entry = {"base_url": model.base_url, "model": model.model, "api_key_env": "MY_KEY"}
        assert (await tell(make_assistant(models=[entry], environ={"MY_KEY": KEY}), "!!text in")).text == "in"


async def test_a_key_in_the_servers_words_is_blotted_out(with_key: AssistantAgent) -> None:
    failed = await failure(with_key, f"!!sse-error you sent {KEY}")
    assert KEY not in failed.message
    assert KEY not in (failed.details or "")


async def test_401_without_a_key_says_how_to_give_one(make_assistant: MakeAssistant) -> None:
    with MockModel(key="wanted") as model:
        failed = await failure(make_assistant(models=[{"base_url": model.base_url, "model": "m"}]), "hello")
    assert "api_key_env" in failed.message


async def test_403_is_about_the_key(with_key: AssistantAgent) -> None:
    failed = await failure(with_key, "!!status 403")
    assert failed.error_type == "authentication"
    assert "403" in failed.message


async def test_404_names_the_model_and_what_chooses_it(
    make_assistant: MakeAssistant, model: MockModel
) -> None:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.base_url, "OPENAI_MODEL": "no-such-model"}
    failed = await failure(make_assistant(environ=environ | {"OLLAMA_HOST": "127.0.0.1:1"}), "hello")
    assert failed.error_type == "model_not_found"
    assert "no-such-model" in failed.message
    assert "OPENAI_MODEL" in failed.message
    assert not failed.resumable


async def test_a_model_that_nobody_named_is_not_blamed(make_assistant: MakeAssistant) -> None:
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OLLAMA_HOST": "127.0.0.1:1"}
    failed = await failure(make_assistant(environ=environ), "hello")
    assert failed.error_type == "connection"
    assert "Nothing answers for http://127.0.0.1:1/v1." in failed.message
    assert "gpt" not in failed.message
    named = await failure(make_assistant(environ=environ | {"OPENAI_MODEL": "mine"}), "hello")
    assert "Nothing answers for mine at http://127.0.0.1:1/v1." in named.message


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_busy_server_is_asked_again(assistant: AssistantAgent, model: MockModel, status: int) -> None:
    said = await tell(assistant, f"!!status {status} 2\n!!text at last")
    assert said.text == "at last"
    assert len(model.requests) == 3
    assert "Asking again, the server was busy (2 of 5)" in said.activities
    assert "Asking again, the server was busy (3 of 5)" in said.activities
    assert said.activities[-1] is None


@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_a_server_that_stays_busy_fails_resumably(
    assistant: AssistantAgent, model: MockModel, status: int
) -> None:
    failed = await failure(assistant, f"!!status {status}")
    assert failed.error_type == "busy"
    assert failed.resumable
    assert str(status) in failed.message
    assert "Nothing was lost" in failed.message
    assert model.base_url in failed.message
    assert len(model.requests) == 5


async def test_retry_after_is_waited_for(assistant: AssistantAgent) -> None:
    began = time.monotonic()
    assert (await tell(assistant, "!!status 429 1 1\n!!text now")).text == "now"
    assert time.monotonic() - began >= 1


async def test_a_long_retry_after_is_told_instead_of_waited_for(
    assistant: AssistantAgent, model: MockModel
) -> None:
    failed = await failure(assistant, "!!status 429 0 90")
    assert "wait 90 s" in failed.message
    assert failed.resumable
    assert len(model.requests) == 1


async def test_an_empty_account_is_not_asked_again(assistant: AssistantAgent, model: MockModel) -> None:
    failed = await failure(assistant, "!!quota")
    assert failed.error_type == "quota"
    assert "credit" in failed.message
    assert len(model.requests) == 1


async def test_a_rejected_request_says_what_the_server_said(
    assistant: AssistantAgent, model: MockModel
) -> None:
    failed = await failure(assistant, "!!status 400")
    assert failed.error_type == "rejected"
    assert "The mock model was told to answer 400" in failed.message
    assert not failed.resumable


async def test_a_chat_that_is_too_long_says_what_to_do(assistant: AssistantAgent, model: MockModel) -> None:
    failed = await failure(assistant, "!!overflow")
    assert failed.error_type == "context_length"
    assert "rewind" in failed.message
    assert not failed.resumable
    assert len(model.requests) == 1


async def test_nothing_listening_names_the_address(make_assistant: MakeAssistant) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    failed = await failure(
        make_assistant(models=[{"base_url": f"http://127.0.0.1:{port}/v1", "model": "m"}]), "hello"
    )
    assert failed.error_type == "connection"
    assert f"http://127.0.0.1:{port}/v1" in failed.message
    assert failed.resumable


async def test_credentials_in_an_address_are_not_shown(make_assistant: MakeAssistant) -> None:
    entry = {"base_url": "http://me:pw@127.0.0.1:1/v1", "model": "m"}
    failed = await failure(make_assistant(models=[entry]), "hello")
    assert "http://127.0.0.1:1/v1" in failed.message
    assert "pw" not in failed.message


async def test_a_certificate_that_is_not_trusted_is_said(make_assistant: MakeAssistant, tls_url: str) -> None:
    failed = await failure(make_assistant(models=[{"base_url": tls_url, "model": "m"}]), "hello")
    assert failed.error_type == "tls"
    assert "SSL_CERT_FILE" in failed.message


async def test_a_proxy_that_refuses_is_named(
    make_assistant: MakeAssistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        failed = await failure(
            make_assistant(models=[{"base_url": "https://model.example/v1", "model": "m"}]), "hello"
        )
    assert failed.error_type == "proxy"
    assert "HTTPS_PROXY" in failed.message


async def test_a_model_on_this_machine_is_not_asked_through_a_proxy(
    assistant: AssistantAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await tell(assistant, "!!text direct")).text == "direct"


@pytest.mark.parametrize("end", ["!!drop", "!!end", "!!sse-error the model fell over"])
async def test_a_cut_answer_keeps_what_came_and_can_be_resumed(
    assistant: AssistantAgent, model: MockModel, end: str
) -> None:
    sink = RecordingSink()
    failed = await failure(assistant, f"!!text half an answer\n{end}", sink)
    assert sink.text == "half an answer"
    assert failed.resumable
    assert "kept" in failed.message
    assert len(model.requests) == 1


async def test_a_server_that_hangs_up_at_once_is_resumable(assistant: AssistantAgent) -> None:
    failed = await failure(assistant, "!!drop")
    assert failed.error_type == "connection"
    assert failed.resumable
    assert "Nothing was lost" in failed.message


@pytest.mark.parametrize("before", ["", "!!text half\n"])
async def test_a_stalled_stream_fails_and_closes_the_connection(
    make_assistant: MakeAssistant, model: MockModel, before: str
) -> None:
    entry = {"base_url": model.base_url, "model": model.model}
    sink = RecordingSink()
    began = time.monotonic()
    failed = await failure(make_assistant(models=[entry], stall_seconds=0.3), f"{before}!!hang", sink)
    assert 0.3 <= time.monotonic() - began < 4
    assert failed.error_type == "stalled"
    assert failed.resumable
    assert "0.3 s" in failed.message
    assert ("kept" if before else "Nothing was lost") in failed.message
    await model.until(lambda model: model.requests[0].aborted, 1)


async def test_a_slow_stream_is_no_stall(make_assistant: MakeAssistant, model: MockModel) -> None:
    entry = {"base_url": model.base_url, "model": model.model}
    said = await tell(make_assistant(models=[entry], stall_seconds=0.5), "!!chunks 12 0.1")
    assert said.text.endswith("c11 ")


@pytest.mark.parametrize("what", ["!!html", "!!garbage"])
async def test_an_answer_that_is_none_is_said_to_be_none(assistant: AssistantAgent, what: str) -> None:
    failed = await failure(assistant, what)
    assert failed.error_type == "malformed"
    assert failed.resumable


async def test_an_empty_answer_is_an_error(assistant: AssistantAgent) -> None:
    failed = await failure(assistant, "!!delay 0")
    assert failed.error_type == "empty"


@pytest.mark.parametrize(
    ("script", "error_type"),
    [
        ("!!status 401", "authentication"),
        ("!!status 404", "model_not_found"),
        ("!!status 529", "busy"),
        ("!!overflow", "context_length"),
        ("!!text half\n!!drop", "connection"),
        ("!!text half\n!!end", "connection"),
        ("!!text half\n!!sse-error overloaded", "busy"),
        ("!!html", "malformed"),
    ],
)
async def test_anthropic_fails_in_the_same_words(
    make_assistant: MakeAssistant, model: MockModel, script: str, error_type: str
) -> None:
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.root_url, "OLLAMA_HOST": "127.0.0.1:1"}
    failed = await failure(make_assistant(environ=environ), script)
    assert failed.error_type == error_type
    assert KEY not in failed.message + (failed.details or "")


@pytest.fixture
async def tls_url() -> AsyncIterator[str]:
    """An HTTPS server with a certificate that nobody signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
