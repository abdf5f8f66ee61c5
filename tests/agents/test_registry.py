"""Which agents there are, and that a broken one of somebody else harms nobody."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from jupyter_ahp.agents.base import (
    Agent,
    Conversation,
    ImageBlock,
    PathBlock,
    Probe,
    Prompt,
    Start,
    TextBlock,
)
from jupyter_ahp.agents.echo import EchoAgent, code, split
from jupyter_ahp.agents.registry import GROUP, find_agents
from tests.agents.recording import tell


class Parrot(Agent):
    provider = "parrot"
    display_name = "Parrot"
    description = "For tests"

    async def probe(self) -> Probe:
        return Probe(ready=True)

    async def open(self, start: Start) -> Conversation:
        raise NotImplementedError


class Misnamed(Parrot):
    provider = "budgie"


def not_an_agent() -> object:
    return object()


def broken() -> Agent:
    raise RuntimeError("no licence found")


def point(name: str, attribute: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{attribute}", GROUP)


def providers(agents: list[Agent]) -> list[str]:
    return [agent.provider for agent in agents]


def test_the_built_in_agents_come_real_ones_first() -> None:
    assert providers(find_agents(installed=())) == ["assistant", "echo"]


def test_agents_of_packages_stand_between_by_name() -> None:
    assert providers(find_agents(installed=[point("parrot", "Parrot")])) == ["assistant", "parrot", "echo"]


def test_only_what_is_served_is_made_in_that_order(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert providers(find_agents(["echo", "nobody", "assistant"], installed=())) == ["echo", "assistant"]
    assert "nobody" in caplog.text


@pytest.mark.parametrize(
    ("name", "attribute", "said"),
    [
        ("broken", "broken", "no licence found"),
        ("missing", "Missing", "Missing"),
        ("odd", "not_an_agent", "not a jupyter_ahp.agents.base.Agent"),
        ("parrot", "Misnamed", "budgie"),
        ("echo", "Parrot", "taken"),
        ("1st", "Parrot", "1st"),
    ],
)
def test_a_broken_agent_is_named_in_the_log_and_left_out(
    caplog: pytest.LogCaptureFixture, name: str, attribute: str, said: str
) -> None:
    with caplog.at_level(logging.ERROR):
        assert providers(find_agents(installed=[point(name, attribute)])) == ["assistant", "echo"]
    assert name in caplog.text
    assert said in caplog.text


def test_finding_agents_imports_no_model_library() -> None:
    code = (
        "import sys; from jupyter_ahp.agents.registry import find_agents; find_agents(installed=());"
        "print([name for name in ('pydantic_ai', 'openai', 'anthropic', 'xllamacpp', 'tornado') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


# ── Echo ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_echo_says_it_back_in_a_few_pieces() -> None:
    text = "One two\nthree `four` five $x$ six seven eight nine ten."
    said = await tell(EchoAgent(), text)
    assert said.text == text
    assert 2 <= len(said.deltas) <= 8


async def test_A1_echo_says_what_the_attachments_became() -> None:
    blocks = [
        TextBlock("a.csv", "1,2"),
        ImageBlock("b.png", "image/png", b"123"),
        PathBlock("c d.bin", "/c d.bin"),
    ]
    said = await tell(EchoAgent(), "look", blocks=blocks)
    assert said.text == (
        "look\n\n- `a.csv` as text, 3 characters\n- `b.png` as an image, image/png, 3 bytes\n"
        "- `c d.bin` by its path, `/c d.bin`"
    )


async def test_echo_alone_says_how_to_get_a_model(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in ("OPENAI", "ANTHROPIC", "OPENROUTER", "GROQ", "MISTRAL"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    [_, echo] = find_agents(installed=(), data_dir=str(tmp_path))
    said = await tell(echo, "hello")
    assert "OPENAI_API_KEY" in said.text
    assert "jupyter-ahp local-model" in said.text

    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert (await tell(echo, "hello")).text == "hello"


async def test_echo_says_nothing_to_an_empty_message_with_nothing() -> None:
    assert (await tell(EchoAgent(), Prompt("t1", ""))).text == ""


def test_pieces_are_the_text() -> None:
    text = "  a b\n\n c  d " * 9
    assert "".join(split(text, 8)) == text
    assert len(split(text, 8)) <= 8


@pytest.mark.parametrize(("text", "shown"), [("a b", "`a b`"), ("a`b", "`` a`b ``"), ("a\nb", "`a b`")])
def test_any_label_is_one_piece_of_code(text: str, shown: str) -> None:
    assert code(text) == shown
