"""Python objects as a model is to be told of them: schema, size and a sample, a picture, text; bounded, never the lot.

No library is imported: an object is asked what it can do, and one of pandas', say, has brought pandas along.
"""

from __future__ import annotations

import base64
import io
import json
import os
import pprint
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .attach import Attachable, Data, Pointer, Text

Carried: TypeAlias = str | os.PathLike[str] | Text | Data | Pointer
"""What a message can carry as it is."""

HOOK: Final = "_ahp_attachments_"
"""A method of objects that say by themselves what they are: it returns `Text` and `Data`."""
TEXT: Final = 20_000
"""Characters of one object, at most."""
ROWS: Final = 10
"""Of a table, from its beginning; and half as many from its end."""
COLUMNS: Final = 50
CELL: Final = 80
PIXELS: Final = 1568
"""Of the longer side of a picture: models make it smaller anyway."""
_DPI: Final = 100
_POINTS: Final = 10
_COUNTED: Final = 10_000_000  # elements of an array up to which its least and greatest are looked for
_CONVERTED: Final = 10_000  # rows of a table of an unknown kind up to which it is converted for a sample


def items_of(attach: Any) -> list[Any]:
    """One thing, or several: a list, tuple, set, or what is made on the way. What holds data itself is one."""
    if isinstance(attach, list | tuple | set | frozenset | Iterator):
        return list(attach)
    return [attach]


def carried(attach: Attachable | Iterable[Attachable]) -> list[Carried]:
    """What messages can carry of these. On the thread that made them: some can be drawn there only."""
    return [one for item in items_of(attach) for one in _carried(item)]


def is_plain(item: Any) -> bool:
    """Whether it is carried as it is."""
    return isinstance(item, str | os.PathLike | Text | Data | Pointer)


def _carried(item: Any) -> Sequence[Carried]:
    if is_plain(item):
        return [item]
    hook = getattr(item, HOOK, None)
    if callable(hook):
        return [one for said in hook() for one in _carried(said)]
    for represent in _WAYS:
        found = represent(item)
        if found is not None:
            return [found]
    return [_text(item, pprint.pformat(item, width=100, compact=True))]


def _text(value: Any, text: str, kind: str = "") -> Text:
    return Text(_label(value, kind), bounded(text))


def bounded(text: str, most: int = TEXT) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= most:
        return text
    left = most * 3 // 4
    right = most - left
    return f"{text[:left]}\n[… {len(text) - most:,} characters left out …]\n{text[-right:]}"


def _label(value: Any, kind: str = "") -> str:
    """Its name in the notebook or script, if it has one: then people and the model mean the same by it."""
    names = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    found = (name for name, held in list(names.items()) if held is value and not name.startswith("_"))
    return next(found, kind or type(value).__name__)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────
def _table(value: Any) -> Text | None:
    """A DataFrame of pandas' or polars', a column of one, or what has the interchange protocol."""
    if _has(value, "to_frame", "head", "dtype", "name"):
        of, frame = "a column", value.to_frame()
    else:
        of, frame = "a table", value
    if _has(frame, "iloc", "dtypes", "columns", "memory_usage"):
        return _text(value, _pandas(value, frame, of))
    if _has(frame, "iter_rows", "schema", "head", "tail"):
        return _text(value, _polars(value, frame, of))
    if _has(frame, "collect_schema", "collect"):
        schema = _columns((str(name), str(kind)) for name, kind in frame.collect_schema().items())
        return _text(value, f"{_what(value)}, a table that is not computed yet.\n\n{schema}")
    if _has(frame, "__dataframe__"):
        return _text(value, _interchange(value, of))
    return None


def _pandas(value: Any, frame: Any, of: str) -> str:
    rows, columns = frame.shape
    size = int(frame.memory_usage(deep=False).sum())
    schema = _columns((str(name), str(kind)) for name, kind in zip(frame.columns, frame.dtypes, strict=True))
    index = frame.index
    names = [str(index.name or "index") if index.nlevels == 1 else str(tuple(index.names))]
    header = names + [str(name) for name in frame.columns[:COLUMNS]]
    shown = frame.iloc[:, :COLUMNS]

    def cells(part: Any) -> list[list[Any]]:
        return [list(row) for row in part.itertuples(index=True, name=None)]

    sample = _sample(
        header, rows, lambda: cells(shown.iloc[:ROWS]), lambda count: cells(shown.iloc[rows - count :])
    )
    return (
        f"{_what(value)}, {of}: {rows:,} rows, {columns:,} columns, about {_bytes(size)}; index: {type(index).__name__} "
        f"({index.dtype}).\n\n{schema}\n\n{sample}"
    )


def _polars(value: Any, frame: Any, of: str) -> str:
    rows, columns = frame.shape
    schema = _columns((str(name), str(kind)) for name, kind in frame.schema.items())
    header = [str(name) for name in frame.columns[:COLUMNS]]

    def cells(part: Any) -> list[list[Any]]:
        return [list(row[:COLUMNS]) for row in part.iter_rows()]

    sample = _sample(header, rows, lambda: cells(frame.head(ROWS)), lambda count: cells(frame.tail(count)))
    size = f", about {_bytes(int(frame.estimated_size()))}" if _has(frame, "estimated_size") else ""
    return f"{_what(value)}, {of}: {rows:,} rows, {columns:,} columns{size}.\n\n{schema}\n\n{sample}"


def _interchange(value: Any, of: str) -> str:
    seen = value.__dataframe__()
    rows, columns = seen.num_rows(), seen.num_columns()
    names = list(seen.column_names())[:COLUMNS]
    kinds = ((str(name), seen.get_column_by_name(name).dtype[0].name.lower()) for name in names)
    more = f"\n- … and {columns - len(names):,} more" if columns > len(names) else ""
    text = f"{_what(value)}, {of}: {_count(rows)} rows, {columns:,} columns.\n\n{_columns(kinds)}{more}"
    pandas = sys.modules.get("pandas")
    if pandas is None or rows is None or rows > _CONVERTED:
        return f"{text}\n\nNo sample of its rows."
    converted = pandas.api.interchange.from_dataframe(value)
    _, word, sample = _pandas(converted, converted, of).rpartition(_SAMPLE)
    return f"{text}\n\n{word}{sample}"


_SAMPLE: Final = "Rows:"


def _columns(columns: Iterable[tuple[str, str]]) -> str:
    named = list(columns)
    lines = [f"- {_cell(name)}: {kind}" for name, kind in named[:COLUMNS]]
    if len(named) > COLUMNS:
        lines.append(f"- … and {len(named) - COLUMNS:,} more")
    return "\n".join(["Columns and their types:", *lines])


def _sample(
    header: Sequence[str],
    rows: int,
    first: Callable[[], list[list[Any]]],
    last: Callable[[int], list[list[Any]]],
) -> str:
    """The first rows and the last ones, as Markdown."""
    behind = min(ROWS // 2, max(0, rows - ROWS))
    if rows == 0:
        return f"{_SAMPLE} none."
    left_out = rows - ROWS - behind
    lines = [_row(header), _row(["---"] * len(header)), *map(_row, first())]
    if left_out > 0:
        lines.append(_row(["…"] * len(header)))
    lines += map(_row, last(behind)) if behind else []
    which = f"the first {ROWS} and the last {behind} of {rows:,}" if behind else "all"
    return f"{_SAMPLE} {which}.\n\n" + "\n".join(lines)


def _row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(value: Any) -> str:
    text = " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"


# ── arrays and pictures ──────────────────────────────────────────────────────────────────────────────────────────
def _array(value: Any) -> Text | None:
    """An array of numpy's, or what is like one."""
    if not _has(value, "shape", "dtype", "ndim", "size") or not _has(value, "__array__"):
        return None
    lines = [f"{_what(value)}: shape {tuple(value.shape)}, {value.dtype}, {int(value.size):,} elements."]
    kind = getattr(value.dtype, "kind", "")
    if kind in "iuf" and 0 < value.size <= _COUNTED:
        lines.append(f"Least {value.min()}, mean {value.mean():.6g}, greatest {value.max()}.")
    return _text(value, "\n\n".join([*lines, str(value)]))


def _figure(value: Any) -> Data | None:
    """A figure of matplotlib's, or what is drawn on one (seaborn, `ax`)."""
    figure: Any = value if _has(value, "savefig") else getattr(value, "figure", None)
    if not _has(figure, "savefig"):
        return None
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=_DPI, bbox_inches="tight")
    return Data(f"{_label(value, 'figure')}.png", out.getvalue())


def _plotly(value: Any) -> Text | None:
    """A figure of plotly's, in words: a picture of it would take a browser."""
    if not _has(value, "to_plotly_json", "data", "layout"):
        return None
    layout = value.layout.to_plotly_json()
    layout.pop("template", None)
    lines = [
        f"{_what(value)}, a figure of plotly's with {len(value.data)} traces. Its layout: {_json(layout)}"
    ]
    for trace in value.data[:COLUMNS]:
        raw = trace.to_plotly_json()
        points = {key: _points(raw[key]) for key in ("x", "y", "z", "labels", "values", "text") if key in raw}
        lines.append(f"- {raw.get('type', 'trace')} {raw.get('name') or ''}: {_json(points)}")
    return _text(value, "\n".join(lines))


def _points(values: Any) -> Any:
    if isinstance(values, Mapping):  # packed by plotly; of which type and size it says
        return {key: part for key, part in values.items() if key != "bdata"}
    if isinstance(values, str) or not _has(values, "__len__"):
        return values
    head = list(values[:_POINTS]) if _has(values, "__getitem__") else []
    return {"first": head, "count": len(values)}


def _picture(value: Any) -> Data | None:
    """A picture of PIL's, made small."""
    if not _has(value, "thumbnail", "save", "copy", "mode"):
        return None
    small = value.copy()
    small.thumbnail((PIXELS, PIXELS))
    if small.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        small = small.convert("RGB")
    out = io.BytesIO()
    small.save(out, format="PNG")
    return Data(f"{_label(value, 'image')}.png", out.getvalue())


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def _error(value: Any) -> Text | None:
    """An exception, with its traceback."""
    if not isinstance(value, BaseException):
        return None
    return _text(value, "".join(traceback.format_exception(value)), f"{type(value).__name__} (traceback)")


def _plain(value: Any) -> Text | None:
    """Dicts, lists, numbers: as JSON, with what JSON does not have as Python shows it."""
    if (
        isinstance(value, Mapping | list | tuple | set | frozenset | int | float | complex | bytes)
        or value is None
    ):
        return _text(value, _json(value))
    return None


def _json(value: Any) -> str:
    try:
        return json.dumps(value, indent=1, ensure_ascii=False, default=_python)
    except (TypeError, ValueError, RecursionError):  # keys that are no strings, and what holds itself
        return pprint.pformat(value, width=100, compact=True)


def _python(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if _has(value, "tolist", "shape"):
        return str(value)
    return repr(value)


def _rich(value: Any) -> Text | Data | None:
    """What shows itself in a notebook: Markdown and pictures rather than HTML, which a model reads less well."""
    for method, extension in (
        ("_repr_markdown_", ""),
        ("_repr_png_", "png"),
        ("_repr_jpeg_", "jpeg"),
        ("_repr_html_", ""),
    ):
        show = getattr(value, method, None)
        found = show() if callable(show) else None
        if isinstance(found, tuple):  # with metadata
            found = found[0]
        if found is None:
            continue
        if extension:
            return Data(f"{_label(value, 'image')}.{extension}", picture_bytes(found))
        return _text(value, str(found))
    return None


def picture_bytes(found: Any) -> bytes:
    """A picture as a notebook has it: bytes, or base64."""
    return base64.b64decode(found) if isinstance(found, str) else bytes(found)


_WAYS: Final[Sequence[Callable[[Any], Text | Data | None]]] = (
    _error,
    _plotly,
    _figure,
    _picture,
    _table,
    _array,
    _plain,
    _rich,
)


def _has(value: Any, *names: str) -> bool:
    """Whether an object, not a class, has these."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _what(value: Any) -> str:
    kind = type(value)
    return f"{_label(value)} ({kind.__module__.partition('.')[0]} {kind.__name__})"


def _count(rows: int | None) -> str:
    return f"{rows:,}" if rows is not None else "an unknown number of"


def _bytes(size: int) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size //= 1000
    return f"{size:,} GB"
