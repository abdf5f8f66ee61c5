"""A chat under a cell: it needs no kernel, and outlives the server that it was begun on."""

from __future__ import annotations

import asyncio
import json

import pytest
from playwright.async_api import expect

from tests.support.server import JupyterServer

from .conftest import OpenLab
from .lab import PATIENCE, write_notebook

pytestmark = pytest.mark.browser

CHAT_MIME = "application/vnd.jupyter-ahp.chat+json"
CELL = "from jupyter_ahp import Chat\nchat = Chat(agent='echo')\nchat"


async def test_a_chat_under_a_cell_is_there_after_the_server_was_restarted(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    notebook = lab_server.home.files / "kept.ipynb"
    write_notebook(notebook, [CELL])
    async with lab() as page:
        await page.open_notebook("kept.ipynb")
        await page.run_cells()
        await expect(page.widget.composer).to_be_visible(timeout=PATIENCE)
        # d d deletes a cell, a and b make one, in a notebook that takes these keys for its own
        await page.widget.say("add bad dd, before the restart")
        await page.widget.shows("add bad dd, before the restart")
        await page.widget.ended()
        await page.widget.log.focus()
        await page.page.keyboard.type("ddab")
        await expect(page.page.locator(".jp-NotebookPanel .jp-Cell")).to_have_count(1)

        await page.execute("kernelmenu:shutdown")
        await page.widget.say("Without a kernel")
        await page.widget.shows("Without a kernel")
        await page.widget.ended()
        await page.execute("docmanager:save")

        await asyncio.to_thread(lab_server.stop)
        await asyncio.to_thread(lab_server.start, 120)
        await page.reload()
        await page.widget.shows("before the restart")
        await page.widget.say("After the restart")
        await page.widget.shows("After the restart")
        await page.widget.ended()
        await expect(page.widget.log).to_contain_text("Without a kernel")
        await expect(page.page.locator(".jp-NotebookPanel")).not_to_contain_text("model not found")
        await page.shot("cell-after-restart")
        assert page.problems == []


async def test_a_chat_of_another_server_in_an_untrusted_notebook_is_what_was_saved_of_it(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    path = lab_server.home.files / "foreign.ipynb"
    write_notebook(path, ["chat"])
    notebook = json.loads(path.read_text())
    saved = "<p>Said <b>long ago</b><img src=x onerror='console.error(\"jupyter-ahp: ran\")'></p>"
    notebook["cells"][0]["outputs"] = [
        {
            "output_type": "execute_result",
            "execution_count": 1,
            "metadata": {},
            "data": {
                CHAT_MIME: {
                    "chat": "ahp-chat:/elsewhere",
                    "session": "ahp-session:/elsewhere",
                    "height": 300,
                },
                "application/vnd.jupyter.widget-view+json": {
                    "model_id": "0" * 32,
                    "version_major": 2,
                    "version_minor": 1,
                },
                "text/html": [saved],
            },
        }
    ]
    path.write_text(json.dumps(notebook))
    async with lab() as page:
        await page.open_notebook("foreign.ipynb")
        kept = page.page.get_by_role("region", name="Saved chat")
        await expect(kept).to_contain_text("not on this server", timeout=PATIENCE)
        await expect(kept.locator("b")).to_have_text("long ago")
        # the store forgets after 5 s what nobody holds: it must not be asked for again and again
        await asyncio.sleep(6)
        await expect(kept).to_be_visible()
        await expect(page.page.locator(".jp-OutputArea")).not_to_contain_text("model not found")
        await page.shot("cell-foreign")
        assert page.problems == []
