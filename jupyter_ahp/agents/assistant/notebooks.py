"""A notebook as a model reads it: its cells and what they said, without JSON, pictures and metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from jupyter_ahp.agents.assistant.sizes import shortened

OUTPUT_CHARACTERS: Final = 4000
"""How much of one output is kept."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def text_of_notebook(data: bytes) -> str | None:
    """The cells of a notebook (format 4) in order, each below a line that says which it is; None if it is none."""
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        return None
    return "\n\n".join(
        part for number, cell in enumerate(cells, 1) if isinstance(cell, dict) for part in _cell(number, cell)
    )


def _cell(number: int, cell: dict[str, Any]) -> Iterator[str]:
    yield f"[cell {number}, {cell.get('cell_type')}]\n{_joined(cell.get('source'))}"
    for output in cell.get("outputs") or []:
        if isinstance(output, dict) and (text := _output(output)):
            yield f"[output of cell {number}]\n{shortened(text, OUTPUT_CHARACTERS)}"


def _output(output: dict[str, Any]) -> str:
    if output.get("output_type") == "error":
        return f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data")
    text = _joined(data.get("text/plain") if isinstance(data, dict) else output.get("text"))
    pictures = [kind for kind in data if str(kind).startswith("image/")] if isinstance(data, dict) else []
    if pictures:
        text = f"{text}\n(and a picture, left out here)"
    return _COLOURS.sub("", text).strip()


def _joined(text: object) -> str:
    """nbformat has a text as one string or as lines."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")
