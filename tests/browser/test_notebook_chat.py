"""Cells to chats, and code of answers into cells: as a person does it beside a notebook."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from tests.mock_model import MockModel
from tests.support.server import Home, JupyterServer

from .conftest import OpenLab
from .lab import PATIENCE, ChatOnPage, Lab, write_notebook
from .test_turns import turns

pytestmark = pytest.mark.browser

CODE = "Show me\n!!text Try this:\\n\\n```python\\nprint(6 * 7)\\n```\\n"


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """With terminals."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    wanted = {"ServerApp": {"jpserver_extensions": {"jupyter_server_terminals": True}}}
    (home.config / "jupyter_server_config.d" / "terminals.json").write_text(json.dumps(wanted))
    return home


def chips(where: Locator) -> Locator:
    return where.get_by_role("list", name="attachment").get_by_role("listitem")


def cells(page: Lab) -> Locator:
    return page.page.locator(".jp-NotebookPanel:visible .jp-Cell")


async def state(page: Lab) -> dict[str, Any]:
    """Of the notebook in front: which cell is active, and what is in each."""
    said: dict[str, Any] = await page.page.evaluate(
        """() => {
            const {content} = jupyterapp.shell.currentWidget;
            return {active: content.activeCellIndex,
                    sources: content.widgets.map(cell => cell.model.sharedModel.getSource())};
        }"""
    )
    return said


async def beside(page: Lab, server: JupyterServer, name: str, sources: list[str]) -> ChatOnPage:
    """A notebook, and a chat with the assistant in the panel beside it."""
    write_notebook(server.home.files / name, sources)
    await page.open_notebook(name)
    await page.new_chat("Assistant")
    return page.panel


async def both(page: Lab, name: str) -> None:
    for theme in ("Light", "Dark"):
        await page.theme(f"JupyterLab {theme}")
        await page.shot(f"{name}-{theme.lower()}")
    await page.theme("JupyterLab Light")


async def test_an_error_is_asked_about_from_under_it_and_its_cell_is_one_click_away(
    lab: OpenLab, lab_server: JupyterServer, model: MockModel
) -> None:
    async with lab() as page:
        chat = await beside(page, lab_server, "fix.ipynb", ["x = 1", "x / 0", "print('unrelated')"])
        await page.run_cells()
        fix = cells(page).nth(1).get_by_role("button", name="Fix this error")
        await expect(fix).to_be_visible(timeout=PATIENCE)
        await expect(cells(page).nth(1)).to_contain_text("ZeroDivisionError")  # shown as ever
        await page.idle()
        await cells(page).nth(2).locator(".cm-content").click()
        await fix.click()
        await expect(chat.composer).to_have_value("Fix this error.")
        await expect(chat.composer).to_be_focused()
        await expect(chips(chat.root)).to_have_text(["Cell 2, fix.ipynb"])
        await both(page, "notebook-fix")
        await chat.composer.press("Enter")
        await expect(turns(chat)).to_have_count(1)
        await chat.ended()
        told = "\n".join(text for role, text in model.requests[-1].texts if role == "user")
        assert "Fix this error." in told
        assert "Cell 2 (code, id cell-1) of the notebook fix.ipynb" in told
        assert "x / 0" in told
        assert "ZeroDivisionError: division by zero" in told
        assert "\x1b[" not in told
        assert "unrelated" not in told

        # back to its cell
        await page.page.locator(".jp-NotebookPanel .jp-Cell").first.locator(".cm-content").click()
        assert (await state(page))["active"] == 0
        await turns(chat).first.get_by_role("button", name="Cell 2, fix.ipynb").click()
        await page.page.wait_for_function(
            "() => jupyterapp.shell.currentWidget.content?.activeCellIndex === 1", timeout=PATIENCE
        )
        await page.execute("notebook:delete-cell")
        await turns(chat).first.get_by_role("button", name="Cell 2, fix.ipynb").click()
        await expect(turns(chat).first.get_by_role("alert")).to_have_text(
            "The cell is not in fix.ipynb any more."
        )
        assert page.problems == []


async def test_cells_are_attached_by_key_toolbar_menu_and_drag_with_what_they_put_out(
    lab: OpenLab, lab_server: JupyterServer, model: MockModel
) -> None:
    picture = (
        "from IPython.display import Image\nimport base64\n"
        "Image(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='))"
    )
    async with lab() as page:
        chat = await beside(page, lab_server, "attach.ipynb", ["print('first')", "print('second')", picture])
        await page.run_cells()
        await expect(cells(page).nth(2).locator(".jp-OutputArea img")).to_be_visible(timeout=PATIENCE)
        await page.idle()

        # the key, with two cells selected
        await cells(page).nth(0).locator(".jp-InputPrompt").click()
        await page.page.keyboard.press("Shift+ArrowDown")
        await page.page.keyboard.press("Alt+Shift+KeyA")
        await expect(chips(chat.root)).to_have_text(["Cell 1, attach.ipynb", "Cell 2, attach.ipynb"])
        # the toolbar of the active cell, with the picture that it put out
        await cells(page).nth(2).locator(".jp-InputPrompt").click()
        await cells(page).nth(2).get_by_role("button", name="Attach the selected cells").click()
        await expect(chips(chat.root)).to_have_count(4, timeout=PATIENCE)
        await expect(chips(chat.root).nth(3)).to_contain_text("cell-3-1.png")
        # its context menu, for what a cell put out alone
        await cells(page).nth(0).locator(".jp-InputPrompt").click()
        await cells(page).nth(0).locator(".jp-OutputArea-output").click(button="right")
        await page.page.get_by_role("menuitem", name="Attach the output to a chat").click()
        await expect(chips(chat.root)).to_have_count(5)
        await expect(chips(chat.root).nth(4)).to_contain_text("Output of cell 1, attach.ipynb")
        await both(page, "notebook-attached")
        # by hand
        grip = await cells(page).nth(1).locator(".jp-InputPrompt").bounding_box()
        box = await chat.composer.bounding_box()
        assert grip is not None
        assert box is not None
        await page.page.mouse.move(grip["x"] + 20, grip["y"] + 10)
        await page.page.mouse.down()
        await page.page.mouse.move(grip["x"] + 60, grip["y"] + 30, steps=5)
        await page.page.mouse.move(box["x"] + 40, box["y"] + 10, steps=10)
        await page.page.mouse.up()
        await expect(chips(chat.root)).to_have_count(6)
        await expect(chips(chat.root).nth(5)).to_contain_text("Cell 2, attach.ipynb")
        assert len((await state(page))["sources"]) == 3  # copied, not moved

        await chat.composer.fill("What is this?")
        await chat.composer.press("Enter")
        await expect(turns(chat)).to_have_count(1)
        await chat.ended()
        told = "\n".join(text for role, text in model.requests[-1].texts if role == "user")
        assert "print('first')" in told
        assert "It put out:\n```\nsecond\n```" in told
        assert page.problems == []


async def test_code_of_an_answer_goes_into_the_notebook_and_undo_takes_it_back(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    async with lab() as page:
        chat = await beside(page, lab_server, "code.ipynb", ["a = 1", "b = 2"])
        await cells(page).nth(0).locator(".jp-InputPrompt").click()
        await chat.say(CODE)
        await chat.shows("print(6 * 7)")
        await chat.ended()
        figure = chat.log.get_by_role("figure", name="Python code")
        insert = figure.get_by_role("button", name="Insert below the active cell of code.ipynb")
        await insert.hover()
        await both(page, "notebook-code")
        await insert.click()
        await expect(cells(page)).to_have_count(3)
        assert (await state(page)) == {"active": 1, "sources": ["a = 1", "print(6 * 7)", "b = 2"]}
        await figure.get_by_role("button", name="Run in a new cell of code.ipynb").click()
        await expect(cells(page).nth(2).locator(".jp-OutputArea-output")).to_have_text("42", timeout=PATIENCE)

        await cells(page).nth(0).locator(".jp-InputPrompt").click()
        await figure.get_by_role("button", name="Replace the active cell of code.ipynb").click()
        await expect(cells(page).nth(0)).to_contain_text("print(6 * 7)")
        # what is in a cell is taken back in the cell, and which cells there are in the notebook
        await cells(page).nth(0).locator(".cm-content").click()
        await page.page.keyboard.press("Control+z")
        await expect(cells(page).nth(0)).to_contain_text("a = 1")
        await page.page.keyboard.press("Escape")
        for _ in range(2):  # what was done within a moment is taken back at once
            if await cells(page).count() > 2:
                await page.execute("notebook:undo-cell-action")
        assert (await state(page))["sources"] == ["a = 1", "b = 2"]
        assert page.problems == []


async def test_a_cell_with_a_command_is_run_in_the_chat_and_the_box_stays_as_it_is(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    async with lab() as page:
        chat = await beside(page, lab_server, "command.ipynb", ["a = 1", "!echo from the cell"])
        await chat.composer.press_sequentially("half a thou")
        await cells(page).nth(1).locator(".jp-InputPrompt").click(button="right")
        await page.page.get_by_role("menuitem", name="Run the command of this cell in a chat").click()
        await expect(turns(chat).first.get_by_label("Output")).to_contain_text(
            "from the cell", timeout=PATIENCE
        )
        await expect(turns(chat).first.get_by_role("heading", name="You ran")).to_have_count(1)
        await expect(chat.composer).to_have_value("half a thou")
        await cells(page).nth(0).locator(".jp-InputPrompt").click(button="right")
        await expect(page.page.get_by_role("menuitem", name="Attach to a chat")).to_be_visible()
        await expect(page.page.get_by_role("menuitem", name="Run the command of this cell")).to_have_count(0)
        assert page.problems == []
