"""M4: what is offered while a message is written, by the keyboard, in the panel and in a cell."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from tests.support.server import JupyterServer

from .conftest import OpenLab
from .lab import PATIENCE, ChatOnPage, write_notebook

pytestmark = pytest.mark.browser


def marked(face: ChatOnPage) -> Locator:
    return face.root.get_by_role("option", selected=True)


async def attach(face: ChatOnPage) -> None:
    """Name a file of the working directory with the keyboard alone, and send."""
    await face.composer.click()
    await face.composer.press_sequentially("Look at @")
    await expect(face.root.get_by_role("listbox", name="Suggestions")).to_be_visible(timeout=PATIENCE)
    await expect(marked(face)).to_have_count(0)
    await face.composer.press_sequentially("wea")
    await expect(marked(face)).to_contain_text("weather data.csv", timeout=PATIENCE)
    await face.composer.press("Tab")
    await expect(face.composer).to_have_value('Look at @"notes/weather data.csv" ')
    await expect(face.composer).to_be_focused()
    await expect(face.root.get_by_role("button", name="Remove weather data.csv")).to_be_visible()
    await face.composer.press("Enter")
    await face.shows("weather data.csv")
    await expect(face.log.locator(".ahp-Chip")).to_have_text("weather data.csv")
    await face.ended()


async def test_M4_a_file_is_named_by_the_keyboard_in_the_panel_and_in_a_cell(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    notes = lab_server.home.files / "notes"
    notes.mkdir()
    (notes / "weather data.csv").write_text("hour,degrees\n")
    write_notebook(
        lab_server.home.files / "widget.ipynb", ["from jupyter_ahp import Chat\nChat(agent='echo')"]
    )
    async with lab() as page:
        await page.new_chat("Echo")
        await attach(page.panel)

        await page.panel.composer.press_sequentially("Also @wea")
        await expect(marked(page.panel)).to_be_visible(timeout=PATIENCE)
        await page.shot("suggestions")
        await page.panel.composer.press("Escape")
        await expect(page.panel.root.get_by_role("listbox")).to_have_count(0)
        await expect(page.panel.composer).to_be_focused()
        await expect(page.panel.composer).to_have_value("Also @wea")

        await page.open_notebook("widget.ipynb")
        await page.run_cells()
        await expect(page.widget.composer).to_be_visible(timeout=PATIENCE)
        await attach(page.widget)
        await page.widget.composer.press_sequentially("#chat:look")
        await expect(marked(page.widget)).to_contain_text("Look at", timeout=PATIENCE)
        await page.shot("suggestions-in-a-cell")
        await page.widget.composer.press("Enter")
        await expect(page.widget.composer).to_have_value('#chat:Look at @"notes/weather data.csv" ')
        assert page.problems == []
