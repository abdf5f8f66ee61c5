"""What a model is told of Python objects: schema, size and a sample, a picture, text; and never more than is said."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from jupyter_ahp import AsyncChat, Data, Text
from jupyter_ahp.client.attach import attachment
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.objects import CELL, COLUMNS, PIXELS, ROWS, TEXT, bounded, carried
from jupyter_ahp.host.ports import TextBlock
from tests.client.real_host import ByHand

MARGIN = 200
"""Characters that a bound says about what it left out."""


def text(value: Any) -> str:
    (said,) = carried(value)
    assert isinstance(said, Text)
    assert len(said.text) <= TEXT + MARGIN
    return said.text


def png(value: Any) -> Any:
    from PIL import Image

    (said,) = carried(value)
    assert isinstance(said, Data)
    return Image.open(io.BytesIO(said.data))


def test_a_pandas_table_is_its_schema_its_size_and_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    df = pd.DataFrame({"year": range(1_000), "what|ever": [f"row {n}" for n in range(1_000)]})
    said = text(df)
    assert "1,000 rows, 2 columns, about" in said
    assert "- year: int64" in said
    assert f"the first {ROWS} and the last {ROWS // 2} of 1,000" in said
    assert "| 0 | 0 | row 0 |" in said
    assert "| 999 | 999 | row 999 |" in said
    assert "row 500" not in said
    assert "what\\|ever" in said
    monkeypatch.setattr(sys.modules["__main__"], "sales", df, raising=False)
    (named,) = carried(df)
    assert isinstance(named, Text)
    assert named.label == "sales"
    assert named.text.startswith("sales (pandas DataFrame)")
    assert text(df["year"]).count("- year: int64") == 1


def test_a_table_is_bounded_whatever_is_in_it() -> None:
    wide = pd.DataFrame({f"c{n}": ["x" * 10_000] * 30 for n in range(3 * COLUMNS)})
    said = text(wide)
    assert f"… and {2 * COLUMNS} more" in said
    assert "x" * (CELL + 1) not in said
    assert "Rows: none." in text(pd.DataFrame({"a": []}))
    assert "Rows: all." in text(pd.DataFrame({"a": [1, 2]}))
    two = pd.DataFrame({("a", "b"): [1]}, index=pd.MultiIndex.from_tuples([("x", 1)]))
    assert "('x', 1)" in text(two)


def test_a_polars_table_is_told_alike() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": range(100), "b": ["y"] * 100})
    said = text(frame)
    assert "100 rows, 2 columns" in said
    assert "- a: Int64" in said
    assert "| 99 | y |" in said
    assert "| 50 | y |" not in said
    assert "- a: Int64" in text(frame["a"])
    lazy = text(frame.lazy())
    assert "not computed yet" in lazy
    assert "- b: String" in lazy


def test_a_table_of_another_kind_is_told_by_the_interchange_protocol() -> None:
    class Foreign:
        def __init__(self, rows: int) -> None:
            self._frame = pd.DataFrame({"a": range(rows)})

        def __dataframe__(self, **options: Any) -> Any:
            return self._frame.__dataframe__()

    said = text(Foreign(20))
    assert "20 rows, 1 columns" in said
    assert "- a: int" in said
    assert "| 19 | 19 |" in said
    assert "No sample" in text(Foreign(100_000))


def test_an_array_is_its_shape_and_its_corners() -> None:
    said = text(np.arange(1_000_000).reshape(1000, 1000))
    assert "shape (1000, 1000), int64, 1,000,000 elements." in said
    assert "Least 0, mean 500000, greatest 999999." in said
    assert len(said) < 2_000
    assert "shape (2,), <U1" in text(np.array(["a", "b"]))
    assert len(text(np.zeros((2,) * 16))) <= TEXT + MARGIN


def test_figures_and_pictures_are_pictures() -> None:
    from PIL import Image

    mpl.use("agg")
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2])
    assert png(figure).format == "PNG"
    assert png(axes).format == "PNG"
    large = png(Image.new("CMYK", (4 * PIXELS, PIXELS)))
    assert large.size == (PIXELS, PIXELS // 4)


def test_a_plotly_figure_is_its_layout_and_some_points() -> None:
    graph = pytest.importorskip("plotly.graph_objects")
    figure = graph.Figure(graph.Scatter(x=list(range(5_000)), y=["v"] * 5_000, name="Sales"))
    figure.update_layout(title="By year")
    said = text(figure)
    assert "By year" in said
    assert "scatter Sales" in said
    assert len(said) < 2_000


def test_what_shows_itself_is_told_as_it_does() -> None:
    from IPython.display import HTML, Markdown

    markdown, page = Markdown("**Bold**"), HTML("<b>Bold</b>")  # type: ignore[no-untyped-call]
    assert text(markdown) == "**Bold**"
    assert text(page) == "<b>Bold</b>"
    (picture,) = carried(SimpleNamespace(_repr_png_=lambda: b"\x89PNG"))
    assert isinstance(picture, Data)
    assert picture.data == b"\x89PNG"


def test_dicts_and_other_objects() -> None:
    assert text({"a": [1, {2}], "b": np.int64(3)}) == '{\n "a": [\n  1,\n  "{2}"\n ],\n "b": "3"\n}'
    me: dict[str, Any] = {}
    me["me"] = me
    assert "Recursion" in text(me)
    assert text({(1, 2): 3}) == "{(1, 2): 3}"
    assert text([[1, 2]]) == "[\n 1,\n 2\n]", "a list is several; one in it is one"
    assert list(map(text, [3, None, b"x"])) == ["3", "null", "\"b'x'\""]
    assert "left out" in text({"a": "x" * 3 * TEXT})

    class Plain:
        def __repr__(self) -> str:
            return "<plain>"

    assert text(Plain()) == "<plain>"


def test_an_exception_is_its_traceback() -> None:
    def fail() -> None:
        raise ValueError("it is <odd>")

    with pytest.raises(ValueError, match="odd") as raised:
        fail()
    assert "in fail" in text(raised.value)
    assert text(raised.value).endswith("ValueError: it is <odd>\n")


def test_several_things_keep_their_order_and_what_is_ready_stays_as_it_is(tmp_path: Path) -> None:
    def made() -> Iterator[Any]:
        yield tmp_path
        yield Text("a", "b")

    assert carried(made()) == [tmp_path, Text("a", "b")]
    assert carried(["a.csv", "https://example.org"]) == ["a.csv", "https://example.org"]
    assert carried(()) == []
    assert "https://example.org" in attachment("https://example.org")["modelRepresentation"]


def test_the_bound_keeps_both_ends() -> None:
    cut = bounded("a" * 50 + "b" * 50, 20)
    assert cut.startswith("a" * 15)
    assert cut.endswith("b" * 5)
    assert "80 characters left out" in cut


def test_nothing_is_imported_for_it() -> None:
    script = (
        "import sys; from jupyter_ahp.client.objects import carried\n"
        "class Odd: pass\n"
        "carried([Odd(), {}, ValueError()])\n"
        "print(sorted({'pandas', 'numpy', 'polars', 'matplotlib', 'PIL', 'IPython'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


async def test_a10_an_object_and_another_chat_reach_the_agent(line: Connection, agent: ByHand) -> None:
    agent.echoes = True
    async with AsyncChat("hand", host=line) as chat, AsyncChat("hand", title="Earlier", host=line) as other:
        await other.send("We spoke of ducks")
        await chat.send("And these?", [pd.DataFrame({"a": [1]}), other])
        table, pointer = agent.prompts[-1].blocks
    assert isinstance(table, TextBlock)
    assert "1 rows, 1 columns" in table.text
    assert isinstance(pointer, TextBlock)
    assert "We spoke of ducks" in pointer.text
    assert pointer.label == "Earlier"
