"""A1: files that are attached by their path, as the model is told them. The witness is the model server's log."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from jupyter_ahp.agents.assistant import AssistantAgent, files
from jupyter_ahp.agents.assistant.files import NOT_SEEN, Files, Note, in_time
from jupyter_ahp.agents.base import Block, ImageBlock, Json, PathBlock, Prompt, Start, Steering, TextBlock
from jupyter_ahp.host.attachments import IMAGE_LIMIT, TEXT_LIMIT
from tests.agents.conftest import MakeAssistant
from tests.agents.recording import RecordingHost, RecordingSink, turn, until
from tests.mock_model import MockModel

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)

Ask: TypeAlias = Callable[..., Awaitable[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The chat's directory, with others' files beside it."""
    (tmp_path / "secret.txt").write_text("the combination is 1234")
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "README.md").write_text("# Penguins\nMeasured in 2009 – by hand.\n")
    return directory


def start(*directories: Path) -> Start:
    paths = [str(one) for one in directories]
    return Start("s1", "ahp-chat:/c1", directories=paths, config={}, host=RecordingHost())


@pytest.fixture
def ask(assistant: AssistantAgent, model: MockModel, project: Path) -> Ask:
    """Send a message with attached paths, and give what the model was told of it."""

    async def ask(*names: str, agent: AssistantAgent = assistant, **fields: Any) -> str:
        blocks = [PathBlock(os.path.basename(name) or name, os.path.join(project, name)) for name in names]
        conversation = await agent.open(start(project))
        await conversation.send(Prompt("t1", "What is this?", blocks, **fields), RecordingSink())
        text = model.requests[-1].texts[-1][1]
        assert text.endswith("What is this?")
        return text

    return ask


async def test_A1_the_model_reads_a_text_file_that_was_attached(
    ask: Ask, project: Path, model: MockModel
) -> None:
    assert await ask("README.md") == (
        "Attached, README.md:\n```\n# Penguins\nMeasured in 2009 – by hand.\n\n```\n\nWhat is this?"
    )
    assert str(project) not in json.dumps(model.requests[-1].body)


async def test_a_file_is_named_by_its_path_below_the_chats_directory(
    ask: Ask, project: Path, model: MockModel
) -> None:
    (project / "data" / "raw").mkdir(parents=True)
    (project / "data" / "raw" / "a.csv").write_text("x\n1\n")
    assert "Attached, data/raw/a.csv:" in await ask("data/raw/a.csv")
    assert str(project) not in json.dumps(model.requests[-1].body)


async def test_A1_an_image_file_is_seen_by_a_model_that_sees(
    ask: Ask, make_assistant: MakeAssistant, model: MockModel, project: Path
) -> None:
    (project / "plot").write_bytes(PNG)  # by content: the name says nothing
    entry = {"base_url": model.base_url, "model": model.model}
    assert "plot, which you cannot see" in await ask("plot")
    assert "[image/png]" in await ask("plot", agent=make_assistant(models=[entry | {"vision": True}]))


async def test_a_directory_gives_the_names_in_it(ask: Ask, project: Path) -> None:
    (project / "data").mkdir()
    (project / "data" / "b.csv").write_text("what is in it")
    (project / "data" / "a").mkdir()
    text = await ask("data")
    assert "the directory data:\n```\na/\nb.csv\n```" in text
    assert "what is in it" not in text


async def test_a_large_directory_is_bounded(ask: Ask, project: Path) -> None:
    (project / "many").mkdir()
    for number in range(files.ENTRIES + 5):
        (project / "many" / f"{number:04}").touch()
    text = await ask("many")
    assert "0199\n… and more\n```" in text
    assert "0200" not in text


async def test_a_notebook_is_its_cells_and_what_they_said(ask: Ask, project: Path) -> None:
    picture = {
        "output_type": "display_data",
        "data": {"image/png": "iVBORw0KGgo" * 50_000, "text/plain": ["<Figure>"]},
    }
    cells = [
        {"cell_type": "markdown", "source": ["# Plots\n", "of penguins"]},
        {
            "cell_type": "code",
            "source": "print(1)\nplot()",
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}, picture],
        },
        {
            "cell_type": "code",
            "source": "1 / 0",
            "outputs": [{"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero"}],
        },
    ]
    (project / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}))
    text = await ask("n.ipynb")
    assert "# Plots\nof penguins" in text
    assert "[cell 2, code]\nprint(1)\nplot()\n\n[output of cell 2]\n1\n" in text
    assert "<Figure>\n(and a picture, left out here)" in text
    assert "ZeroDivisionError: division by zero" in text
    assert "iVBORw0KGgo" not in text


async def test_what_only_is_called_a_notebook_is_told_as_text(ask: Ask, project: Path) -> None:
    (project / "n.ipynb").write_text("not JSON")
    assert "Attached, n.ipynb:\n```\nnot JSON\n```" in await ask("n.ipynb")


# ── What is not shown ────────────────────────────────────────────────────────────────────────────────────────────────
async def not_shown(ask: Ask, name: str) -> str:
    """Why a file is not shown to the model."""
    text = await ask(name)
    prefix = f"Attached, but not shown to you: {os.path.basename(name)}, because "
    assert text.startswith(prefix)
    assert NOT_SEEN in text
    return text.removeprefix(prefix).partition(f". {NOT_SEEN}")[0]


async def test_A1_a_text_that_is_too_large_is_named_with_its_size(ask: Ask, project: Path) -> None:
    (project / "at.txt").write_text("a" * TEXT_LIMIT)
    assert "not shown" not in await ask("at.txt")
    (project / "big.txt").write_text("é" * TEXT_LIMIT)
    assert await not_shown(ask, "big.txt") == "it is too large: 128 KiB, and 64 KiB of text is the most"


async def test_A1_an_image_that_is_too_large_is_named_with_its_size(ask: Ask, project: Path) -> None:
    (project / "big.png").write_bytes(PNG + bytes(IMAGE_LIMIT))
    assert await not_shown(ask, "big.png") == "it is too large an image: 5.0 MiB, and 5.0 MiB is the most"


@pytest.mark.parametrize("data", [b"PAR1\0\1", b"PAR1\0" * TEXT_LIMIT, b"\xff\xfe" * TEXT_LIMIT])
async def test_A1_a_binary_file_is_said_to_be_one(ask: Ask, project: Path, data: bytes) -> None:
    (project / "d.parquet").write_bytes(data)
    assert "neither text nor an image" in await not_shown(ask, "d.parquet")


async def test_a_file_that_is_gone_is_said_to_be(ask: Ask) -> None:
    assert await not_shown(ask, "gone.txt") == "there is no such file any more"
    assert await not_shown(ask, "a\0b") == "there is no such file"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_is_said_to_be(ask: Ask, project: Path) -> None:
    (project / "locked").write_text("secret")
    (project / "locked").chmod(0)
    assert await not_shown(ask, "locked") == "it cannot be read (Permission denied)"


async def test_a_pipe_keeps_nobody_waiting(ask: Ask, project: Path) -> None:
    os.mkfifo(project / "pipe")
    assert await asyncio.wait_for(not_shown(ask, "pipe"), 5) == "it is no ordinary file"


@pytest.mark.parametrize("name", ["../secret.txt", "link.txt", "out/secret.txt", "/etc/hostname"])
async def test_what_is_outside_of_the_chats_directories_is_not_read(
    ask: Ask, project: Path, model: MockModel, name: str
) -> None:
    (project / "link.txt").symlink_to(project.parent / "secret.txt")
    (project / "out").symlink_to(project.parent)
    text = await ask(name)
    assert "it is not in the directories of this chat" in text
    assert NOT_SEEN in text
    told = json.dumps(model.requests[-1].body)
    assert "1234" not in told
    assert str(project.parent) not in told


async def test_a_link_within_the_chats_directory_is_followed(ask: Ask, project: Path) -> None:
    (project / "link.md").symlink_to("README.md")
    assert "Penguins" in await ask("link.md")


async def test_a_chat_without_directories_reads_nothing(
    assistant: AssistantAgent, model: MockModel, project: Path
) -> None:
    conversation = await assistant.open(start())
    block = PathBlock("README.md", str(project / "README.md"))
    await conversation.send(Prompt("t1", "What is this?", [block]), RecordingSink())
    assert "Penguins" not in model.requests[-1].texts[-1][1]


async def test_a_disk_that_does_not_answer_is_not_waited_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "READ_SECONDS", 0.05)
    answers = threading.Event()

    def read(some: Files) -> list[files.Shown]:
        if not answers.is_set() and some is hanging:
            answers.wait(5)
        return some.shown([PathBlock("README.md", str(project / "README.md"))])

    hanging = Files([str(project)])
    [shown] = await in_time(read, hanging)
    answers.set()
    assert isinstance(shown, Note)
    assert "README.md, because its disk did not answer in time" in shown.text


# ── More than one message ────────────────────────────────────────────────────────────────────────────────────────────
def attached(path: Path) -> Json:
    return {"type": "resource", "label": path.name, "uri": path.as_uri()}


async def test_a_file_of_an_earlier_turn_is_read_again(ask: Ask, project: Path, model: MockModel) -> None:
    await ask(history=[turn("look", "Seen.", attachments=[attached(project / "README.md")])])
    text = model.requests[-1].texts[1][1]
    assert text.startswith("Attached, README.md, as it is now:\n```\n# Penguins\nMeasured in 2009")


async def test_a_file_that_is_attached_twice_is_shown_once(ask: Ask, project: Path, model: MockModel) -> None:
    earlier = turn("look", "Seen.", attachments=[attached(project / "README.md")])
    assert "Measured in 2009" in await ask("README.md", history=[earlier])
    before = model.requests[-1].texts[1][1]
    assert before == "Attached, and shown elsewhere in this chat: README.md.\n\nlook"


def test_what_there_is_room_for_goes_to_the_newest_message(project: Path) -> None:
    (project / "long.txt").write_text("begin " + "word " * 2000 + "end")
    some = Files([str(project)], tokens=500)
    [own] = some.shown([PathBlock("long.txt", str(project / "long.txt"))])
    [earlier] = some.shown([PathBlock("README.md", str(project / "README.md"))])
    assert isinstance(own, TextBlock)
    assert own.text.startswith("begin")
    assert own.text.endswith("end")
    assert "\n[…]\n" in own.text
    assert len(own.text) < 1500
    assert "you see the beginning and the end" in own.label
    assert isinstance(earlier, Note)
    assert "more is attached to this chat than you can be shown" in earlier.text


def test_images_have_an_end_too(project: Path) -> None:
    blocks: list[Block] = []
    for number in range(5):
        (project / f"{number}.png").write_bytes(PNG + bytes(IMAGE_LIMIT - len(PNG)))
        blocks.append(PathBlock(f"{number}.png", str(project / f"{number}.png")))
    assert [type(one) for one in Files([str(project)]).shown(blocks)] == [ImageBlock] * 3 + [Note] * 2


async def test_B15_a_file_that_a_steering_message_brings_is_read(
    make_assistant: MakeAssistant, model: MockModel, project: Path
) -> None:
    entry = {"base_url": model.base_url, "model": model.model}
    conversation = await make_assistant(models=[entry], backoff_seconds=0.5).open(start(project))
    sink = RecordingSink()
    running = asyncio.create_task(conversation.send(Prompt("t1", "!!status 503 1\n!!text done"), sink))
    block = PathBlock("README.md", str(project / "README.md"))
    assert await conversation.steer(Steering("p1", "See this.", [block])) is False
    await until(lambda: "Asking again, the server was busy (2 of 5)" in sink.activities)
    assert await conversation.steer(Steering("p1", "See this.", [block]))
    await running
    assert "Measured in 2009" in model.requests[-1].texts[-1][1]


def test_an_address_is_told_and_a_path_elsewhere_is_not(project: Path) -> None:
    shown = Files([str(project)]).shown(
        [
            PathBlock("docs", "https://example.org/docs"),
            PathBlock("x", "file://other/home/ana/x"),
            PathBlock("b", "b"),
        ]
    )
    texts = [one.text for one in shown if isinstance(one, Note)]
    assert "docs, at https://example.org/docs, because" in texts[0]
    assert "ana" not in texts[1]
    assert texts[2].startswith("Attached, but not shown to you: b, because it is neither")
