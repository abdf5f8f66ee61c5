"""Cells of the notebook that this kernel runs, and its last error, to be attached to a message."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..client.attach import Data, Text
from ..client.discovery import find_server
from ..client.errors import NoHost
from ..client.objects import bounded, picture_bytes

Json: TypeAlias = dict[str, Any]

_PICTURES: Final = 4  # of one cell
_OUTPUT: Final = 8_000  # characters of one output


class Cell:
    """A code cell with what it put out: `Cell(3)` by its number in the notebook (`In [3]`), `Cell(id="…")` by its id.

    By number it is what this kernel ran, by id what the saved notebook has. Raises `LookupError` where there is none.
    """

    def __init__(self, number: int | None = None, *, id: str | None = None) -> None:
        if (number is None) == (id is None):
            raise TypeError("A cell is named by its number, or by its id.")
        self.label = f"Cell [{number}]" if number is not None else f"Cell {id}"
        self.source, self.outputs = _ran(number) if number is not None else _saved(str(id))
        """What is in it, and its outputs as nbformat has them."""

    def _ahp_attachments_(self) -> list[Text | Data]:
        texts = [f"```python\n{self.source}\n```"]
        pictures: list[Data] = []
        for output in self.outputs:
            text, picture = _shown(output)
            if text:
                texts.append(f"It put out:\n\n{bounded(text, _OUTPUT)}")
            if picture is not None and len(pictures) < _PICTURES:
                pictures.append(Data(f"{self.label}, picture {len(pictures) + 1}.{picture[0]}", picture[1]))
        return [Text(self.label, bounded("\n\n".join(texts))), *pictures]

    def __repr__(self) -> str:
        return f"<{self.label}, {len(self.outputs)} outputs>"


def last_error() -> BaseException:
    """The exception that ended a cell last, to be attached: `chat.send("Why?", last_error())`.

    Raises `LookupError` when none did.
    """
    error = getattr(sys, "last_value", None)
    if error is None:
        raise LookupError("No cell has failed here so far.")
    return error  # type: ignore[no-any-return]


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _ran(number: int) -> tuple[str, list[Json]]:
    """What IPython keeps of a cell that it ran."""
    shell = _shell()
    if shell is None:
        raise LookupError("There are no cells here: this is not IPython.")
    history = shell.history_manager
    sources = history.input_hist_raw
    if not 0 < number < len(sources):
        raise LookupError(f"No cell [{number}] was run in this kernel. The last one is [{len(sources) - 1}].")
    outputs = list(_kept(history, number))
    if (
        not any(output["output_type"] == "execute_result" for output in outputs)
        and number in history.output_hist
    ):
        bundle, _ = shell.display_formatter.format(history.output_hist[number])
        outputs.append({"output_type": "execute_result", "data": bundle})
    return str(sources[number]), outputs


def _kept(history: Any, number: int) -> Iterator[Json]:
    """What it printed and showed, where this IPython keeps that (9.0 and later), and how it failed."""
    for output in getattr(history, "outputs", {}).get(number, ()):
        bundle = output.bundle
        if "stream" in bundle:
            yield {"output_type": "stream", "text": "".join(bundle["stream"])}
        else:
            yield {"output_type": output.output_type, "data": bundle}
    error: Mapping[str, Any] | None = getattr(history, "exceptions", {}).get(number)
    if error:
        yield {"output_type": "error", **error}


def _saved(cell_id: str) -> tuple[str, list[Json]]:
    path = notebook_path()
    if path is None:
        raise LookupError(
            "The notebook's file is not known here, so its cells are found by number only: Cell(3)."
        )
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
    except (OSError, ValueError, LookupError) as error:
        raise LookupError(f"The cells of {path} cannot be read: {error}") from error
    cell = next((cell for cell in cells if cell.get("id") == cell_id), None)
    if cell is None:
        raise LookupError(f"No cell of {path} has the id {cell_id}; is it saved?")
    return _joined(cell.get("source", "")), list(cell.get("outputs") or ())


def notebook_path() -> Path | None:
    """The file of the notebook that this kernel is of, where the server or VS Code says so."""
    shell = _shell()
    named = shell.user_ns.get("__vsc_ipynb_file__") if shell is not None else None
    with suppress(NoHost):
        find_server()  # or the name was inherited, by nbconvert in a cell say, and is another notebook's
        named = os.environ.get("JPY_SESSION_NAME") or named
    if not isinstance(named, str) or not named.endswith(".ipynb"):
        return None
    path = Path(named)
    return path if path.is_absolute() else Path.cwd() / path.name


def _shown(output: Json) -> tuple[str, tuple[str, bytes] | None]:
    """An output's words, and its picture with the extension of its name."""
    kind = output.get("output_type")
    if kind in ("stream", "error"):
        return _joined(output.get("text") or output.get("traceback") or ""), None
    data = output.get("data") or {}
    picture = next(
        (
            (name, picture_bytes(_joined(data[f"image/{name}"])))
            for name in ("png", "jpeg")
            if f"image/{name}" in data
        ),
        None,
    )
    words = next((data[mime] for mime in ("text/markdown", "text/plain", "text/html") if data.get(mime)), "")
    return ("" if picture is not None else _joined(words)), picture


def _joined(text: Any) -> Any:
    return "".join(text) if isinstance(text, list) else text
