"""The page of a canvas by its address alone, where nothing of ours is around it: its own policy keeps it in."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import plotly.graph_objects as plotly  # type: ignore[import-untyped]
import pytest
from playwright.async_api import Page, async_playwright, expect

from jupyter_ahp import AsyncChat, connect
from tests.support.server import Home, JupyterServer
from tests.support.wire import open_peer

from .drawing import hostile
from .lab import FLAGS, PATIENCE
from .test_canvases import website

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    server = JupyterServer(Home(tmp_path_factory.mktemp("home")), base_url="/user/mia/").start()
    yield server
    server.stop()


@pytest.fixture
async def page(chromium: str) -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield await browser.new_page()
        await browser.close()


async def address_of(server: JupyterServer, value: object) -> str:
    """Where a page is that shows this."""
    host = connect(server.url, server.token)
    async with AsyncChat("echo", directory=server.home.files, host=host) as chat:
        canvas = await chat.show(value)
    async with open_peer(server) as peer:
        await peer.initialize()
        url: str = (await peer.request("subscribe", canvas.uri))["snapshot"]["state"]["url"]
    return url


async def test_V2_a_hostile_page_is_kept_in_by_its_own_policy(server: JupyterServer, page: Page) -> None:
    """Framed by a page of the server's own, whose reader is signed in, with no `sandbox` of the frame's."""
    url = await address_of(server, hostile(server.url))
    await page.goto(f"{server.url}login?token={server.token}")
    before = page.url
    files = sorted(server.home.files.iterdir())
    await page.evaluate(
        "url => { const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame); }",
        url,
    )
    out = page.frame_locator(f'iframe[src="{url}"]').frame_locator("iframe").locator("#out")
    await expect(out).to_contain_text('"done"', timeout=PATIENCE)
    said = json.loads(await out.inner_text())
    assert {what: result for what, result in said.items() if result != "no"} == {}
    assert len(said) > 22
    assert page.url == before
    assert len(page.context.pages) == 1
    assert sorted(server.home.files.iterdir()) == files


async def test_V2_a_chart_with_its_library_is_drawn_within_that_policy(
    server: JupyterServer, page: Page
) -> None:
    figure = plotly.Figure(plotly.Bar(x=["a", "b"], y=[1, 2]))
    await page.goto(await address_of(server, figure))
    await expect(page.frame_locator("iframe").locator("svg.main-svg .bars path")).to_have_count(
        2, timeout=PATIENCE
    )


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize(
    "how",
    [
        "<script>location.href = '{there}'</script>",
        "<meta http-equiv='refresh' content='0;url={there}'>",
        "<a id='go' href='{there}'>go</a><script>go.click()</script>",
        "<a id='go' target='_top' href='{there}'>go</a><script>go.click()</script>",
        "<script>top.location = '{there}'</script>",
        "<script>open('{there}')</script>",
    ],
)
async def test_V2_a_page_leads_nowhere_and_so_tells_nobody_what_it_holds(
    server: JupyterServer, page: Page, how: str, framed: bool
) -> None:
    with website("<p>You came.") as elsewhere:
        asked: list[str] = []
        page.context.on("request", lambda request: asked.append(request.url))
        held = f"<html><p id='held'>here</p>{how.format(there=f'{elsewhere}?what-it-holds')}"
        url = await address_of(server, held)
        if framed:
            await page.goto(f"{server.url}login?token={server.token}")
            await page.evaluate(
                "url => { const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame); }",
                url,
            )
        else:
            await page.goto(url)
        await page.wait_for_load_state("networkidle")
        assert any("/page" in request for request in asked)
        assert not any("what-it-holds" in request for request in asked)
        assert len(page.context.pages) == 1


@contextmanager
def web_app() -> Iterator[int]:
    """An app whose page has a script, which asks its server for data. Its port."""
    parts = {
        "/": "<p id='out'>nothing yet</p><script src='app.js'></script>",
        "/app.js": "fetch('data.json').then(answer => answer.json()).then(data => { out.textContent = data.n; });",
        "/data.json": '{"n": 42}',
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind = "text/javascript" if self.path.endswith(".js") else "text/html"
            self.send_response(200 if self.path in parts else 404)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(parts.get(self.path, "").encode())

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_V2_an_app_loads_its_parts_in_a_frame_without_an_origin(
    server: JupyterServer, page: Page
) -> None:
    pytest.importorskip("jupyter_server_proxy")
    with web_app() as port:
        url = await address_of(server, port)
        await page.goto(f"{server.url}login?token={server.token}")
        await page.evaluate(
            "url => { const frame = document.createElement('iframe'); frame.sandbox = 'allow-scripts'; frame.src = url;"
            " document.body.append(frame); }",
            url,
        )
        app = page.frame_locator(f'iframe[src="{url}"]').frame_locator("iframe")
        await expect(app.locator("#out")).to_have_text("42", timeout=PATIENCE)
        assert await app.locator("#out").evaluate("() => origin") == "null"


async def test_V2_a_page_is_walked_through_by_its_own_links(server: JupyterServer, page: Page) -> None:
    long = "<html><a href='#far'>go</a><div style='height: 5000px'></div><h1 id='far'>Far</h1>"
    await page.goto(await address_of(server, long))
    inner = page.frame_locator("iframe")
    await inner.get_by_text("go").click()
    await expect(inner.get_by_role("heading")).to_be_in_viewport(timeout=PATIENCE)
