"""An agent works in the notebook that a person has open: it reads, inserts, runs, and leaves alone what is being typed."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.mock_model import MockModel
from tests.support.server import JupyterServer
from tests.support.wire import open_peer

from .conftest import OpenLab
from .lab import PATIENCE, write_notebook
from .test_turns import turns

pytestmark = pytest.mark.browser


async def allow(server: JupyterServer) -> None:
    """Allow what the newest chat asks for, as another client of the same person."""
    async with open_peer(server) as peer:
        await peer.initialize()
        rows = (await peer.request("listSessions"))["items"]
        newest = max(rows, key=lambda row: row["modifiedAt"])
        state = (await peer.request("subscribe", newest["resource"]))["snapshot"]["state"]
        (asked,) = [one for one in state["inputNeeded"] if one["kind"] == "toolConfirmation"]
        answer = {
            "type": "chat/toolCallConfirmed",
            "turnId": asked["turnId"],
            "toolCallId": asked["toolCall"]["toolCallId"],
            "approved": True,
            "confirmed": "user-action",
        }
        await peer.request("subscribe", asked["chat"])
        await peer.dispatch(asked["chat"], answer)
        await peer.action("chat/toolCallConfirmed", asked["chat"])


async def test_an_agent_reads_inserts_edits_and_runs_cells_and_the_person_can_undo_it(
    lab: OpenLab, lab_server: JupyterServer, model: MockModel
) -> None:
    def told() -> list[str]:
        return [text for role, text in model.requests[-1].texts if role == "tool"]

    write_notebook(lab_server.home.files / "tools.ipynb", ["x = 20", "x + 1"])
    async with lab() as page:
        await page.open_notebook("tools.ipynb")
        await page.new_chat("Assistant")
        chat = page.panel
        cells = page.page.locator(".jp-NotebookPanel .jp-Cell")

        await chat.say('Look\n!!tool read_notebook {"path": "tools.ipynb"}\n!!text I have read it.')
        await chat.shows("I have read it.")
        await chat.ended()
        (read,) = told()
        assert read.startswith("tools.ipynb: 2 cells, here 0 to 1.")
        assert "--- 0: code cell, id cell-0\nx = 20" in read
        await expect(turns(chat).last).to_contain_text("Read 2 cells of tools.ipynb")

        # what changes something asks first; once allowed in this session it asks no more
        await chat.say(
            'Add one\n!!tool insert_cell {"source": "print(x * 2)", "after": "cell-0"}\n!!text It is in.'
        )
        card = chat.log.get_by_role("group", name="Insert a cell?")
        await expect(card).to_be_visible(timeout=PATIENCE)
        await page.shot("tools-ask")
        await card.get_by_role("button", name="Allow in this session").click()
        await chat.shows("It is in.")
        await chat.ended()
        await expect(cells).to_have_count(3)
        await expect(cells.nth(1)).to_contain_text("print(x * 2)")
        match = re.search(r"id (\S+)\.$", told()[-1])
        assert match is not None, told()
        new = match[1]

        for cell, says in (("cell-0", "put out nothing"), (new, "40")):
            await chat.say(f'Run {cell}\n!!tool run_cell {{"id": "{cell}"}}\n!!text It ran {cell}.')
            run = chat.log.get_by_role("group", name="Run a cell?")
            if cell == "cell-0":
                await run.get_by_role("button", name="Allow in this session").click()
            await chat.shows(f"It ran {cell}.")
            await chat.ended()
            assert says in told()[-1]
        await expect(cells.nth(1).locator(".jp-OutputArea")).to_contain_text("40")
        await expect(cells.nth(1).locator(".jp-InputPrompt")).to_contain_text("[2]")
        await page.shot("tools-ran")

        # an error is the model's to read
        await chat.say(f'Edit\n!!tool edit_cell {{"id": "{new}", "source": "1 / 0"}}\n!!text Edited it.')
        await (
            chat.log.get_by_role("group", name="Edit a cell?")
            .get_by_role("button", name="Allow in this session")
            .click()
        )
        await chat.shows("Edited it.")
        await chat.ended()
        await chat.say(f'Run it\n!!tool run_cell {{"id": "{new}"}}\n!!text It failed.')
        await chat.shows("It failed.")
        await chat.ended()
        assert "ZeroDivisionError" in told()[-1]

        # not where the person types: here before the call is allowed
        await chat.say(
            'And that\n!!tool delete_cell {"id": "cell-1"}\n!!text That did not work.',
        )
        delete = chat.log.get_by_role("group", name="Delete a cell?")
        await expect(delete).to_be_visible(timeout=PATIENCE)
        await cells.nth(2).locator(".cm-content").click()
        await page.page.keyboard.type(" + 2")
        await allow(lab_server)  # from elsewhere: a click here would end the typing
        await chat.shows("That did not work.")
        await chat.ended()
        assert "The person types in cell cell-1 of tools.ipynb right now." in told()[-1]
        await expect(cells).to_have_count(3)

        # the notebook's own undo takes back what the agent did
        await page.page.keyboard.press("Escape")
        await cells.nth(1).locator(".jp-InputPrompt").click()
        for _ in range(6):
            if "1 / 0" not in await cells.nth(1).inner_text():
                break
            await page.execute("notebook:undo-cell-action")
        await expect(cells.nth(1)).not_to_contain_text("1 / 0")
        assert page.problems == []
