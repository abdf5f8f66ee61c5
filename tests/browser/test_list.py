"""The list of chats in the side panel, with a mouse and with keys, and the chat that is opened from it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, expect

from tests.support.server import JupyterServer

from .conftest import OpenLab
from .lab import PATIENCE, Lab, write_notebook

pytestmark = pytest.mark.browser


def rows(page: Lab) -> Locator:
    return page.page.get_by_role("navigation", name="Chats").locator(".ahp-Row")


def row(page: Lab, title: str) -> Locator:
    link = page.page.get_by_role("link", name=title, exact=True)
    return rows(page).filter(has=link)


async def rename(page: Lab, title: str, to: str, *, keys: bool) -> None:
    """From the row's menu, as a person does it."""
    more = row(page, title).first.get_by_role("button", name=re.compile("^More"))
    if keys:
        await more.focus()
        await page.page.keyboard.press("Enter")
        item = page.page.get_by_role("menuitem", name=re.compile("^Rename"))
        await expect(item).to_be_visible()
        while not await item.evaluate("item => item === document.activeElement"):
            await page.page.keyboard.press("ArrowDown")
        await page.page.keyboard.press("Enter")
    else:
        await row(page, title).first.hover()
        await more.click()
        await page.page.get_by_role("menuitem", name=re.compile("^Rename")).click()
    await expect(page.page.get_by_role("textbox", name="Title")).to_be_focused()
    await page.page.keyboard.type(to)
    await page.page.keyboard.press("Enter")
    renamed = page.page.get_by_role("link", name=to, exact=True)
    await expect(renamed.first).to_be_visible(timeout=PATIENCE)


async def test_a_row_is_renamed_from_its_menu_and_the_open_chat_has_the_name_at_once(lab: OpenLab) -> None:
    async with lab() as page:
        await page.execute("jupyter-ahp:new-chat", agent="assistant", area="main")
        await expect(page.tab.composer).to_be_focused(timeout=PATIENCE)
        await expect(page.tab.log).to_contain_text("Type / for commands")
        await page.shot("chat-empty")
        await page.tab.say("Edited early\n!!text Elk.")
        await page.tab.shows("Elk.")
        await page.open_panel()
        title = await rows(page).first.get_by_role("link").inner_text()
        head = page.tab.root.get_by_role("heading", level=1)
        for to, keys in (("Early letters", False), ("Every reed", True)):
            await rename(page, title, to, keys=keys)
            await expect(head).to_contain_text(to)
            await expect(page.page.get_by_role("link", name=to, exact=True).first).to_be_focused()
            title = to
        # Letters on a button of the row are nobody's.
        await row(page, title).get_by_role("button", name="More").focus()
        await page.page.keyboard.press("e")
        await expect(row(page, title)).to_have_count(1)
        # Nothing is deleted by Enter alone.
        await page.page.get_by_role("link", name=title, exact=True).focus()
        await page.page.keyboard.press("Delete")
        await expect(page.page.get_by_role("button", name="Cancel")).to_be_focused()
        await page.page.keyboard.press("Enter")
        await expect(row(page, title)).to_have_count(1)
        # The time of a row stays in sight in a narrow panel, under the pointer, too.
        await row(page, title).hover()
        await expect(row(page, title).locator("time")).to_be_visible()
        await page.shot("list-row")
        assert page.problems == []


async def test_a_fork_is_under_its_session_is_found_by_its_title_and_opens(lab: OpenLab) -> None:
    async with lab() as page:
        await page.execute("jupyter-ahp:new-chat", agent="assistant", area="main")
        await expect(page.tab.composer).to_be_focused(timeout=PATIENCE)
        await page.tab.say("Parent words\n!!text The first answer.")
        await page.tab.shows("The first answer.")
        await page.tab.ended()
        first = page.tab.log.get_by_role("article").first
        await first.hover()
        await page.shot("turn-pencils")
        await first.get_by_role("button", name=re.compile("Fork")).click()
        await expect(
            page.page.locator(".jp-ahp-Panel:visible").get_by_text("Forked from").first
        ).to_be_visible(timeout=PATIENCE)
        await page.open_panel()
        forks = rows(page).filter(has=page.page.get_by_label("Fork", exact=True))
        await expect(forks).to_have_count(1)
        before = await forks.get_by_role("link").inner_text()
        await page.shot("list-fork")
        await forks.hover()
        await forks.get_by_role("button", name=re.compile("^More")).click()
        await page.page.get_by_role("menuitem", name=re.compile("^Rename")).click()
        await expect(page.page.get_by_role("textbox", name="Title")).to_be_focused()
        await page.page.keyboard.type("Quince branch")
        await page.page.keyboard.press("Enter")
        await expect(forks.get_by_role("link")).to_have_text("Quince branch", timeout=PATIENCE)
        head = page.tab.root.get_by_role("heading", level=1)
        await expect(head).to_contain_text("Quince branch")
        assert before != "Quince branch"
        await page.page.get_by_role("searchbox", name="Search chats").fill("quince")
        await expect(rows(page)).to_have_count(2)
        await page.shot("list-search")
        await forks.get_by_role("link").click()
        await expect(page.panel.root.get_by_role("heading", level=1)).to_contain_text("Quince branch")
        await expect(page.panel.composer).to_be_visible(timeout=PATIENCE)
        assert page.problems == []


async def test_the_chat_in_a_cell_has_no_scrollbar_around_it(lab: OpenLab, lab_server: JupyterServer) -> None:
    cells = ["from jupyter_ahp import Chat\nChat(agent='assistant')"]
    write_notebook(lab_server.home.files / "scroll.ipynb", cells)
    async with lab() as page:
        await page.open_notebook("scroll.ipynb")
        await page.run_cells()
        await expect(page.widget.composer).to_be_visible(timeout=2 * PATIENCE)
        heights = await page.widget.root.locator(".jp-OutputArea-output").last.evaluate(
            "output => [output.clientHeight, output.scrollHeight]"
        )
        assert heights[0] == heights[1] >= 400
