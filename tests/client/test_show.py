"""What `chat.show` makes of Python objects, and that it arrives."""

from __future__ import annotations

import asyncio
import base64
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas  # type: ignore[import-untyped]
import plotly.graph_objects as plotly  # type: ignore[import-untyped]
import pytest
from matplotlib.figure import Figure

from jupyter_ahp import AsyncChat, Chat, Refused, connect
from jupyter_ahp.client.show import Canvas, shown
from tests.support.server import JupyterServer
from tests.support.wire import open_peer

Servers = Callable[..., JupyterServer]


# ── what becomes of an object ────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("rows", [1, 999, 1000, 1001])
def test_a_dataframe_is_a_table_of_its_first_rows(rows: int) -> None:
    with pandas.option_context("display.max_rows", 10):
        html = shown(pandas.DataFrame({"name": ["a<b>"] * rows, "n": range(rows)}))["html"]
    assert html.count("<td>a&lt;b&gt;</td>") == min(rows, 1000)
    assert ("1,000 of 1,001 rows" in html) == (rows > 1000)


def test_a_wide_dataframe_is_a_table_of_its_first_columns() -> None:
    html = shown(pandas.DataFrame({f"column {number}": [1] for number in range(101)}))["html"]
    assert "column 99" in html
    assert "column 100" not in html
    assert "100 of 101 columns" in html


def test_a_series_is_a_table() -> None:
    assert "<td>3</td>" in shown(pandas.Series([1, 2, 3], name="n"))["html"]


def test_a_table_without_html_of_its_own_is_made_one() -> None:
    class Polars:
        """As polars has it."""

        columns = ["name", "n"]
        shape = (2, 2)

        def head(self, count: int) -> Polars:
            assert count == 1000
            return self

        def iter_rows(self) -> Any:
            return iter([("a<b>", 1), (None, 2)])

    html = shown(Polars())["html"]
    assert "<th>name</th><th>n</th>" in html
    assert "<tr><td>a&lt;b&gt;</td><td>1</td></tr><tr><td></td><td>2</td></tr>" in html


def test_a_figure_of_matplotlib_is_a_picture_and_so_is_what_is_on_it() -> None:
    axes = Figure().subplots()
    axes.plot([1, 2])
    for value in (axes, axes.figure):
        html = shown(value)["html"]
        data = base64.b64decode(html.split("base64,")[1].split('"')[0])
        assert data.startswith(b"\x89PNG")


def test_a_figure_of_plotly_brings_its_library() -> None:
    html = shown(plotly.Figure(plotly.Scatter(y=[1, 2])))["html"]
    assert "Plotly.newPlot" in html
    assert "https://cdn" not in html.split("Plotly.newPlot")[0][-2000:]
    assert 1_000_000 < len(html) < 16 * 1024 * 1024


def test_text_is_a_path_html_or_markdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a")
    assert shown("a.csv") == shown(Path("a.csv")) == {"path": str(tmp_path / "a.csv")}
    assert shown(Path("missing.csv")) == {"path": str(tmp_path / "missing.csv")}
    assert shown(" <b>x</b>") == {"html": " <b>x</b>"}
    for text in ("# Title\n", "", "x" * 5000, "a\0b"):
        assert shown(text) == {"markdown": text}


@pytest.mark.parametrize("name", ["nofile.csv", "a/b/nothing.html", "~/plot.PNG"])
def test_what_can_only_be_a_file_is_no_text(name: str) -> None:
    with pytest.raises(FileNotFoundError, match="There is no file"):
        shown(name)


@pytest.mark.parametrize("text", ["See report.md", "<b>a.html</b>", "a.b", "Done."])
def test_what_can_be_text_is(text: str) -> None:
    assert shown(text) in ({"markdown": text}, {"html": text})


def test_a_number_is_a_port_and_what_says_how_it_looks_is_shown_so() -> None:
    class Shows:
        def __init__(self, **looks: Any) -> None:
            for name, value in looks.items():
                setattr(self, f"_repr_{name}_", lambda value=value: value)

    assert shown(8050) == {"port": 8050}
    assert shown(Shows(html="<i>", png=b"x")) == {"html": "<i>"}
    assert shown(Shows(html=None, svg="<svg/>")) == {"html": "<svg/>"}
    assert shown(Shows(png=b"\x89PNG")) == {"html": '<img alt="" src="data:image/png;base64,iVBORw==">'}
    assert shown(Shows(png=("iVBORw==", {"width": 1}))) == shown(Shows(png=b"\x89PNG"))
    assert shown(Shows(markdown="*x*")) == {"markdown": "*x*"}
    assert shown(True) == {"html": "<pre>True</pre>"}
    assert shown({"<": 1}) == {"html": "<pre>{&#x27;&lt;&#x27;: 1}</pre>"}


# ── that it arrives ──────────────────────────────────────────────────────────────────────────────────────────────
def test_a_dataframe_is_shown_beside_the_chat_redrawn_and_taken_away(with_server: Servers) -> None:
    server = with_server(base_url="/user/mia/")
    frame = pandas.DataFrame({"n": [41, 42]})
    with Chat("echo", directory=server.home.files, host=connect(server.url, server.token)) as chat:
        canvas = chat.show(frame, title="Sales")
        assert chat.canvases == [canvas]
        assert "<td>42</td>" in page_of(server, canvas)
        assert chat.show("*less*", canvas=canvas) == canvas
        assert "<em>less</em>" in page_of(server, canvas)
        (server.home.files / "a.md").write_text("# From a file")
        other = chat.show(server.home.files / "a.md")
        assert "<h1>From a file</h1>" in page_of(server, other)
        assert chat.canvases == [canvas, other]
        with pytest.raises(Refused, match="outside of the directories"):
            chat.show(Path(os.devnull))
        chat.unshow(canvas)
        assert chat.canvases == [other]
        with pytest.raises(Refused, match="no longer available"):
            chat.unshow(canvas)
        with pytest.raises(Refused, match="too large: 16,77"):
            chat.show("<p>" + "x" * 16 * 1024 * 1024)


def page_of(server: JupyterServer, canvas: Canvas) -> str:
    async def read() -> tuple[str, str]:
        async with open_peer(server) as peer:
            await peer.initialize()
            state = (await peer.request("subscribe", canvas.uri))["snapshot"]["state"]
            return state["url"], (await peer.request("resourceRead", uri=canvas.uri))["data"]

    url, read_page = asyncio.run(read())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    page: str = opener.open(url.replace("?", "/page?"), timeout=20).read().decode()
    assert page == read_page
    return page


async def test_showing_is_awaited_where_one_awaits(with_server: Servers) -> None:
    server = await asyncio.to_thread(with_server)
    host = connect(server.url, server.token)
    async with AsyncChat("echo", directory=server.home.files, host=host) as chat:
        canvas = await chat.show(pandas.DataFrame({"n": [42]}), title="Sales")
        assert chat.canvases == [canvas]
        await chat.unshow(canvas)
        assert chat.canvases == []


def test_a_server_without_the_plugin_says_so(with_server: Servers) -> None:
    server = with_server(args=["--AHPExtension.without_plugins=preview"])
    with (
        Chat("echo", directory=server.home.files, host=connect(server.url, server.token)) as chat,
        pytest.raises(Refused) as caught,
    ):
        chat.show("*x*")
    assert caught.value.code == -32601
