"""One chat in two faces: the panel and a notebook cell."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from tests.support.server import JupyterServer
from tests.support.wire import open_peer

from .conftest import OpenLab
from .lab import PATIENCE, write_notebook

pytestmark = pytest.mark.browser


async def newest_chat(server: JupyterServer) -> str:
    async with open_peer(server) as peer:
        await peer.initialize()
        rows = (await peer.request("listSessions"))["items"]
        newest = max(rows, key=lambda row: row["modifiedAt"])
        chat: str = (await peer.request("subscribe", newest["resource"]))["snapshot"]["state"]["defaultChat"]
        return chat


async def test_one_chat_streams_in_the_panel_and_in_a_cell_and_is_there_after_a_reload(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    async with lab() as page:
        await page.new_chat("Assistant")
        await page.panel.say("From the panel\n!!text The **first** answer, with $x^2$ and `code`.")
        await page.panel.shows("The first answer")
        await page.panel.ended()
        await expect(page.panel.log.locator("strong")).to_have_text("first")

        chat = await newest_chat(lab_server)
        source = f"from jupyter_ahp import Chat\nchat = Chat.open({chat!r})\nchat"
        write_notebook(lab_server.home.files / "both.ipynb", [source])
        await page.open_notebook("both.ipynb")
        await page.run_cells()
        await page.widget.shows("The first answer")

        # Both stream the same turn: neither waits for its end.
        await page.widget.say("From the cell\n!!chunks 12 0.25")
        for face in (page.panel, page.widget):
            await face.shows("From the cell")
            await face.shows("c2 c3")
            await expect(face.stop).to_be_visible()
        for face in (page.panel, page.widget):
            await face.shows("c10 c11")
            await face.ended()
        await page.shot("both-light")
        await page.theme("JupyterLab Dark")
        await page.shot("both-dark")
        await page.theme("JupyterLab Light")

        await page.execute("docmanager:save")
        await page.reload()
        for face in (page.panel, page.widget):
            await face.shows("The first answer")
            await face.shows("c10 c11")
        await page.panel.say("After the reload\n!!text Still here.")
        for face in (page.panel, page.widget):
            await face.shows("Still here.")
        assert page.problems == []


async def test_stop_works_in_a_cell_while_the_kernel_is_busy(lab: OpenLab, lab_server: JupyterServer) -> None:
    cells = [
        "from jupyter_ahp import Chat\nchat = Chat(agent='assistant')\nchat",
        "import time\ntime.sleep(120)",
    ]
    write_notebook(lab_server.home.files / "busy.ipynb", cells)
    async with lab() as page:
        await page.open_notebook("busy.ipynb")
        await page.run_cells()
        busy = ".jp-NotebookPanel .jp-Notebook-ExecutionIndicator[data-status=busy]"
        await page.page.locator(busy).first.wait_for(state="attached", timeout=PATIENCE)
        await expect(page.widget.composer).to_be_visible(timeout=PATIENCE)
        await page.widget.say("Go on for ever\n!!chunks 3\n!!hang")
        await page.widget.shows("c0 c1 c2")
        await page.widget.stop.click()
        await page.widget.shows("Stopped")
        await page.widget.ended()
        await expect(page.page.locator(busy).first).to_be_attached()
        await page.shot("stopped-while-busy")
        await page.execute("kernelmenu:interrupt")
        await page.idle()
        assert page.problems == []


async def test_keyboard_alone_from_the_palette_to_an_answer(lab: OpenLab) -> None:
    async with lab() as page:
        await page.execute("jupyter-ahp:new-chat", agent="echo", area="main")
        await expect(page.tab.composer).to_be_focused(timeout=PATIENCE)
        await page.page.keyboard.type("Typed without a mouse")
        await page.page.keyboard.press("Enter")
        await page.tab.shows("Typed without a mouse")
        await page.tab.ended()
        await page.page.keyboard.press("ArrowUp")
        await expect(page.tab.composer).to_have_value("Typed without a mouse")
        await page.shot("main-area")
        assert page.problems == []


async def test_a_failed_turn_says_what_to_do_and_can_be_retried(lab: OpenLab) -> None:
    async with lab() as page:
        await page.new_chat("Assistant")
        await page.panel.say("Fail once\n!!drop 1\n!!text Now it works.")
        retry = page.panel.log.get_by_role("button", name="Retry")
        await expect(retry).to_be_visible(timeout=2 * PATIENCE)
        await page.shot("retry")
        await retry.click()
        await page.panel.shows("Now it works.")
        await page.panel.ended()
        assert page.problems == []


async def test_the_panel_comes_back_when_the_server_does(lab: OpenLab, lab_server: JupyterServer) -> None:
    async with lab() as page:
        await page.new_chat("Echo")
        await page.panel.say("Before the restart")
        await page.panel.shows("Before the restart")
        await page.panel.ended()
        await asyncio.to_thread(lab_server.stop)
        await expect(page.panel.root.get_by_text("No connection to the server")).to_be_visible(
            timeout=2 * PATIENCE
        )
        # not key by key: JupyterLab's own dialog about the server takes some when it opens
        await page.panel.composer.fill("Sent while it was away")
        await page.panel.composer.press("Enter")
        await page.shot("offline")
        await asyncio.to_thread(lab_server.start, 120)
        # Twice: in the message, and in what the echo says of it.
        said = page.panel.log.get_by_text("Sent while it was away")
        await expect(said).to_have_count(2, timeout=4 * PATIENCE)
