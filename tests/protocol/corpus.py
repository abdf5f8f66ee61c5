"""Reads the fixtures beside this file, and the upstream conformance files where they are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"


def load(name: str) -> Any:
    """One of our own fixture files."""
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def conformance_dir() -> Path:
    """Where upstream's files are: `AHP_CONFORMANCE_DIR`, else a folder beside the repository, if it is there."""
    named = os.environ.get("AHP_CONFORMANCE_DIR")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "conformance"


def conformance_files(folder: str) -> list[Path]:
    return sorted((conformance_dir() / folder).glob("*.json"))


WHY_SKIPPED = (
    "upstream's conformance files are not part of this project: set AHP_CONFORMANCE_DIR to a folder with "
    "reducers/*.json and round-trips/*.json of the agent-host-protocol repository to run them"
)


def present(value: Any) -> Any:
    """The value without keys whose value is null: null, undefined and absent are one thing (AHP 4.6 rule 8)."""
    if isinstance(value, dict):
        return {key: present(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [present(item) for item in value]
    return value


def superseded() -> dict[str, list[str]]:
    """Upstream's reducer cases that AHP 0.9 and 1.0 contradict: file name to the paths whose expected value is outdated."""
    listed = conformance_dir() / "superseded.txt"
    if not listed.is_file():
        return {}
    rows = [line.split("\t") for line in listed.read_text(encoding="utf-8").splitlines()]
    return {row[0]: row[1].split(",") for row in rows if len(row) >= 2 and not row[0].startswith("#")}
