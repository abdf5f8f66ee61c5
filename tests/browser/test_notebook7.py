"""The panel and the widget in Notebook 7, which has one document to a page and no tabs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from tests.mock_model import MockModel
from tests.support.server import Home, JupyterServer

from .conftest import OpenLab
from .lab import PATIENCE, write_notebook

pytest.importorskip("notebook", reason="needs Notebook 7: pip install notebook")
pytestmark = pytest.mark.browser

ITS_OWN = "Cannot read properties of undefined (reading 'schema')"
"""What Notebook 7.6 says on its page by itself, as it loads its settings; without this extension, too."""


@pytest.fixture(scope="module")
def lab_server(chromium: str, model: MockModel, lab_home: Home) -> Iterator[JupyterServer]:
    """Notebook 7 in JupyterLab's place."""
    env = {"OPENAI_API_KEY": "sk-for-tests", "OPENAI_BASE_URL": model.base_url}
    server = JupyterServer(lab_home, module="notebook", args=["--expose-app-in-browser"], env=env)
    lab_home.make()
    write_notebook(
        lab_home.files / "seven.ipynb",
        ["1 / 0", "from jupyter_ahp import Chat\nchat = Chat(agent='echo')\nchat"],
    )
    server.start(timeout=120)
    yield server
    server.stop()


async def test_chats_beside_and_under_a_notebook_and_a_cell_that_goes_into_one(
    lab: OpenLab, lab_server: JupyterServer, model: MockModel
) -> None:
    async with lab(path="notebooks/seven.ipynb") as page:
        await page.idle()
        await page.new_chat("Assistant")
        chat = page.panel
        await chat.say("Hello\n!!text Here, too:\\n\\n```python\\nprint(6 * 7)\\n```\\n")
        await chat.shows("Here, too")
        await chat.ended()
        figure = chat.log.get_by_role("figure", name="Python code")
        await figure.get_by_role("button", name="Insert below the active cell of seven.ipynb").click()
        cells = page.page.locator(".jp-NotebookPanel .jp-Cell")
        await expect(cells).to_have_count(3)
        await expect(cells.nth(1)).to_contain_text("print(6 * 7)")

        await cells.nth(0).locator(".jp-InputPrompt").click()
        await page.execute("notebook:run-cell")
        await cells.nth(0).get_by_role("button", name="Fix this error").click(timeout=PATIENCE)
        await expect(chat.composer).to_have_value("Fix this error.")
        await page.shot("notebook7")
        await chat.composer.press("Enter")
        await expect(chat.log.get_by_role("article")).to_have_count(2)
        await chat.ended()
        told = "\n".join(text for role, text in model.requests[-1].texts if role == "user")
        assert "ZeroDivisionError" in told

        await cells.nth(2).locator(".jp-InputPrompt").click()
        await page.execute("notebook:run-cell")
        await expect(page.widget.composer).to_be_visible(timeout=PATIENCE)
        await page.widget.say("Under a cell")
        await page.widget.shows("Under a cell")
        await page.widget.ended()
        await page.shot("notebook7-widget")
        assert [each for each in page.problems if each != ITS_OWN] == []
