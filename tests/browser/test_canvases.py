"""Canvases in the real browser: seen, sized, in a tab, gone; and what a hostile one can do, which is nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.async_api import FrameLocator, Locator, expect

from tests.support.server import Home, JupyterServer

from .conftest import OpenLab
from .drawing import hostile
from .lab import PATIENCE, ChatOnPage, Lab
from .test_turns import shots

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """With a plugin that draws."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    config = {"AHPExtension": {"plugins": ["tests.browser.drawing:register"]}}
    (home.config / "jupyter_server_config.json").write_text(json.dumps(config))
    return home


@contextmanager
def website(page: str) -> Iterator[str]:
    """A web site of somebody else's, with one page. Its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def open_chat(page: Lab) -> ChatOnPage:
    await page.execute("jupyter-ahp:new-chat", agent="echo", area="main")
    await expect(page.tab.composer).to_be_focused(timeout=PATIENCE)
    if await page.page.locator("#jp-left-stack").is_visible():
        await page.execute("application:toggle-left-area")
    return page.tab


async def command(chat: ChatOnPage, text: str, says: str) -> None:
    await chat.composer.fill(text)
    await chat.composer.press("Enter")
    await chat.shows(says)
    await chat.ended()


def canvas(chat: ChatOnPage, title: str) -> Locator:
    return chat.root.get_by_role("region", name=f"Canvas: {title}")


def drawn_in(where: Locator) -> FrameLocator:
    """A page that the server draws, in the frame that the server puts around it."""
    return where.frame_locator("iframe").frame_locator("iframe")


async def test_V1_V2_V3_a_canvas_is_drawn_sized_popped_out_redrawn_and_gone(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    async with lab() as page:
        chat = await open_chat(page)
        await command(chat, "/draw", "Drawn.")
        drawn = canvas(chat, "Rainfall")
        await expect(drawn_in(drawn).get_by_role("heading")).to_have_text("Rainfall, mm")
        await expect(drawn_in(drawn).locator("i")).to_have_count(5)
        await expect(drawn).to_contain_text("live")
        await shots(page, "canvas")

        # by mouse and by keys
        grip = drawn.get_by_role("separator", name="Height of the canvas")
        before = await drawn.locator("iframe").bounding_box()
        place = await grip.bounding_box()
        assert before is not None
        assert place is not None
        await page.page.mouse.move(place["x"] + 40, place["y"] + 4)
        await page.page.mouse.down()
        await page.page.mouse.move(place["x"] + 40, place["y"] - 60, steps=5)  # over the page itself
        await page.page.mouse.up()
        after = await drawn.locator("iframe").bounding_box()
        assert after is not None
        assert after["height"] == pytest.approx(before["height"] - 64, abs=2)
        await grip.focus()
        await page.page.keyboard.press("ArrowDown")
        await expect(grip).to_have_attribute("aria-valuenow", str(round(after["height"]) + 16))

        # in a tab, which follows it
        await drawn.get_by_role("button", name="Open in a tab").click()
        await expect(drawn.locator("iframe")).to_have_count(0)
        tab = page.page.locator("#jp-main-dock-panel .jp-ahp-Panel:has(.jp-ahp-Canvas)")
        await expect(drawn_in(tab).get_by_role("heading")).to_have_text("Rainfall, mm")
        await page.shot("canvas-tab")
        chat = ChatOnPage(page.page.locator("#jp-main-dock-panel .jp-ahp-Panel:has(.ahp-Chat)"))
        await command(chat, "/redraw", "Redrawn.")
        await expect(drawn_in(tab).get_by_role("heading")).to_have_text("Redrawn")
        label = page.page.locator("#jp-main-dock-panel .lm-TabBar-tabLabel", has_text="Sunshine")
        await expect(label).to_be_visible()

        # a reload finds it again: it is the server's, not the page's
        await page.reload()
        chat = page.tab
        await expect(drawn_in(canvas(chat, "Sunshine")).get_by_role("heading")).to_have_text(
            "Redrawn", timeout=PATIENCE
        )
        await canvas(chat, "Sunshine").get_by_role("button", name="Open in a tab").click()
        await expect(tab).to_have_count(1)
        chat = ChatOnPage(page.page.locator("#jp-main-dock-panel .jp-ahp-Panel:has(.ahp-Chat)"))
        await command(chat, "/close", "Closed.")
        await expect(tab).to_have_count(0)
        await expect(chat.root.get_by_role("region", name="Canvas: Sunshine")).to_have_count(0)
        assert "/ahp/canvas/[secret]" in lab_server.log  # V6
        assert page.problems == []


@pytest.mark.parametrize("where", ["html", "url"])
async def test_V_a_hostile_canvas_reaches_nothing_opens_nothing_and_leads_nowhere(
    lab: OpenLab, lab_server: JupyterServer, where: str
) -> None:
    with website(hostile(lab_server.url)) as address:
        about = {"hostile": lab_server.url} if where == "html" else {"url": address}
        async with lab() as page:
            dialogs: list[str] = []
            downloads: list[str] = []

            async def dismiss(dialog: Any) -> None:
                dialogs.append(dialog.message)
                await dialog.dismiss()

            page.page.on("dialog", dismiss)
            page.page.on("download", lambda download: downloads.append(download.url))
            chat = await open_chat(page)
            before = page.page.url
            files = sorted(lab_server.home.files.iterdir())
            await command(chat, f"/draw {json.dumps(about)}", "Drawn.")
            shown = canvas(chat, "Rainfall")
            frame = drawn_in(shown) if where == "html" else shown.frame_locator("iframe")
            await expect(frame.locator("#out")).to_contain_text('"done"', timeout=PATIENCE)
            said = json.loads(await frame.locator("#out").inner_text())
            assert {what: result for what, result in said.items() if result != "no"} == {}
            assert len(said) > 22

            # its flood of messages is its end, and the chat goes on
            await frame.locator("#out").evaluate("() => { flood(); }")
            await expect(canvas(chat, "Rainfall")).to_contain_text(
                "This canvas was stopped.", timeout=PATIENCE
            )
            await command(chat, "Still there?", "Still there?")
            await page.shot(f"canvas-hostile-{where}")
            assert page.page.url.split("?")[0] == before.split("?")[0]
            assert len(page.page.context.pages) == 1
            assert dialogs == []
            assert downloads == []
            assert sorted(lab_server.home.files.iterdir()) == files
            await command(chat, "/close", "Closed.")
            await expect(chat.root.locator("iframe")).to_have_count(0)
            assert page.problems == []
