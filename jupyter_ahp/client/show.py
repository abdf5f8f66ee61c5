"""Python objects as pages: what `chat.show` sends. Nothing heavy is imported: an object is asked what it can do.

A page holds all that it shows, since it is shown where it reaches no network.
"""

from __future__ import annotations

import base64
import html
import io
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

SHOW: Final = "x-jupyter-ahp/show"
ROWS: Final = 1000
"""Of a table, at most."""
COLUMNS: Final = 100
_DPI: Final = 150


@dataclass(frozen=True, slots=True)
class Canvas:
    """A page on a chat. Give it to `show` to draw it anew, to `unshow` to take it away."""

    uri: str


def shown(value: Any) -> Json:
    """What the host is asked to show: one of `html`, `markdown`, `path`, `port`.

    Raises `ValueError` for what says that it can be drawn and cannot.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return {"port": value}
    if isinstance(value, os.PathLike):
        return {"path": str(Path(value).expanduser().absolute())}
    if isinstance(value, str):
        return _of_text(value)
    for draw in (_plotly, _figure, _frame, _rich):
        found = draw(value)
        if found is not None:
            return found
    return {"html": f"<pre>{html.escape(repr(value))}</pre>"}


_FILE_NAME = re.compile(
    r"[^\s<>]*[\w-]\.(csv|html?|md|png|jpe?g|gif|webp|svg|pdf|ipynb|parquet|json|txt)", re.IGNORECASE
)


def _of_text(text: str) -> Json:
    """The path of a file, HTML, else Markdown. Raises `FileNotFoundError` for what can only be a file's name."""
    if len(text) < 1024 and "\n" not in text and text.strip():
        path = Path(text).expanduser().absolute()
        with suppress(OSError, ValueError):  # no name that a file can have
            if path.is_file():
                return {"path": str(path)}
        if _FILE_NAME.fullmatch(text):
            raise FileNotFoundError(f"There is no file {path} to show.")
    return {"html": text} if text.lstrip().startswith("<") else {"markdown": text}


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────
def _plotly(value: Any) -> Json | None:
    """A figure of plotly's, with its library."""
    if not (hasattr(value, "to_plotly_json") and hasattr(value, "to_html")):
        return None
    return {"html": value.to_html(include_plotlyjs=True, full_html=True)}


def _figure(value: Any) -> Json | None:
    """A figure of matplotlib's, or what is drawn on one."""
    figure: Any = value if hasattr(value, "savefig") else getattr(value, "figure", None)
    if not hasattr(figure, "savefig"):
        return None
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=_DPI, bbox_inches="tight")
    return {"html": _image("image/png", out.getvalue())}


def _image(media_type: str, data: bytes) -> str:
    return f'<img alt="" src="data:{media_type};base64,{base64.b64encode(data).decode()}">'


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────
def _frame(value: Any) -> Json | None:
    """A table of pandas' or polars', or one column of it: its first rows and columns."""
    if hasattr(value, "to_frame") and hasattr(value, "head"):
        value = value.to_frame()
    if not (hasattr(value, "shape") and hasattr(value, "columns") and hasattr(value, "head")):
        return None
    rows, columns = value.shape
    if hasattr(value, "iter_rows"):
        names = [str(name) for name in value.columns[:COLUMNS]]
        table = _table(names, (row[:COLUMNS] for row in value.head(ROWS).iter_rows()))
    elif hasattr(value, "iloc") and hasattr(value, "to_html"):
        # `max_rows`: or a display option of pandas' would leave out the middle.
        table = value.iloc[:ROWS, :COLUMNS].to_html(border=0, max_rows=ROWS, max_cols=COLUMNS)
    else:
        return None
    notes = [f"{ROWS:,} of {rows:,} rows"] if rows > ROWS else []
    notes += [f"{COLUMNS} of {columns:,} columns"] if columns > COLUMNS else []
    footer = f"<footer>{', '.join(notes)}</footer>" if notes else ""
    return {"html": f"{table}{footer}"}


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def row(tag: str, cells: Iterable[Any]) -> str:
        shown = ("" if cell is None else html.escape(str(cell)) for cell in cells)
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in shown) + "</tr>"

    body = "".join(row("td", cells) for cells in rows)
    return f"<table><thead>{row('th', header)}</thead><tbody>{body}</tbody></table>"


# ── whatever shows itself in a notebook ──────────────────────────────────────────────────────────────────────────
def _rich(value: Any) -> Json | None:
    for method in ("_repr_html_", "_repr_svg_", "_repr_png_", "_repr_jpeg_", "_repr_markdown_"):
        show = getattr(value, method, None)
        found = show() if callable(show) else None
        if isinstance(found, tuple):  # with metadata
            found = found[0]
        if found is None:
            continue
        if method == "_repr_markdown_":
            return {"markdown": str(found)}
        if method in ("_repr_png_", "_repr_jpeg_"):
            data = base64.b64decode(found) if isinstance(found, str) else bytes(found)
            return {"html": _image("image/png" if method == "_repr_png_" else "image/jpeg", data)}
        return {"html": str(found)}
    return None
