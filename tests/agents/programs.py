"""Agents of others, pinned in `npm/package.json`: `npm ci --prefix tests/agents/npm` installs them.

Where they are not installed, their tests are skipped with these words; JUPYTER_AHP_REQUIRE_AGENTS=1, as in CI, makes
that a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

MODULES = Path(__file__).with_name("npm") / "node_modules"


def node_program(script: str, *, at_least: tuple[int, int] = (20, 6)) -> list[str]:
    """The command that runs a script of `npm/node_modules`, by a Node that is new enough for it; else the test is skipped."""
    path = MODULES / script
    if not path.is_file():
        missing(f"{script} is not installed: run `npm ci --prefix tests/agents/npm`")
    nodes = [shutil.which("node"), *map(str, sorted(MODULES.glob("node-*/bin/node")))]
    new = next((node for node in nodes if node is not None and _version(node) >= at_least), None)
    if new is None:
        missing(f"{script} needs Node {'.'.join(map(str, at_least))} or newer")
    return [new, str(path)]


def opencode() -> Path:
    """OpenCode, a program of its own; else the test is skipped."""
    path = next(iter(sorted(MODULES.glob("opencode-*/bin/opencode"))), None)
    if path is None:
        missing("opencode is not installed: run `npm ci --prefix tests/agents/npm`")
    return path


def missing(words: str) -> NoReturn:
    """Skip the test, or fail it where it has to run."""
    if os.environ.get("JUPYTER_AHP_REQUIRE_AGENTS"):
        pytest.fail(words)
    pytest.skip(words)


@cache
def _version(node: str) -> tuple[int, int]:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)
