"""Words are found in a chat, and a chat is put elsewhere in the list: as a person does it."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.support.server import JupyterServer
from tests.support.wire import open_peer

from .conftest import OpenLab
from .lab import PATIENCE, Lab
from .test_turns import shots, turns

pytestmark = pytest.mark.browser


async def both(page: Lab, name: str) -> None:
    for theme in ("Light", "Dark"):
        await page.theme(f"JupyterLab {theme}")
        await page.shot(f"{name}-{theme.lower()}")
    await page.theme("JupyterLab Light")


async def test_find_in_chat_reaches_the_turns_that_are_not_loaded(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    async with open_peer(lab_server) as peer:
        await peer.initialize()
        session, chat = await peer.new_chat()
        for number in range(120):
            word = "needle" if number in (1, 60, 119) else "straw"
            await peer.start_turn(chat, f"Number {number} is {word}")
            await peer.action("chat/turnComplete", chat)
    async with lab() as page:
        await page.execute("jupyter-ahp:open-chat", uri=chat, session=session, area="main")
        face = page.tab
        await expect(face.log).to_contain_text("Number 119", timeout=PATIENCE)
        if await page.page.locator("#jp-left-stack").is_visible():
            await page.execute("application:toggle-left-area")
        loaded = await turns(face).count()
        assert loaded < 120
        await face.log.focus()
        await page.page.keyboard.press("Control+f")
        field = face.root.get_by_role("textbox", name="Find in this chat")
        await expect(field).to_be_focused()
        await field.fill("NEEDLE")
        bar = face.root.get_by_role("search")
        # each is said twice: by the person, and by the echo
        await expect(bar).to_contain_text("6 of 6", timeout=PATIENCE)
        await expect(turns(face).last).to_have_accessible_name("Turn 120", timeout=PATIENCE)  # all are loaded
        await field.press("Enter")
        await field.press("Enter")
        await expect(bar).to_contain_text("4 of 6")
        await expect(face.log.get_by_text("Number 60 is needle").first).to_be_in_viewport(timeout=PATIENCE)
        await shots(page, "find")
        marked = "() => [...(CSS.highlights.get('ahp-found-here') ?? [])].map(range => range.toString())"
        assert await page.page.evaluate(marked) == ["needle"]
        await field.fill("hay")
        await expect(bar).to_contain_text("Not found")
        await field.press("Escape")
        await expect(bar).to_have_count(0)
        await expect(face.log).to_be_focused()

        # those far from what is in sight are not on the page, and are there when somebody goes to them
        await page.page.keyboard.press("End")
        await expect(face.log.get_by_role("article", name="Turn 120")).to_be_focused()
        await expect(face.log.get_by_role("article", name="Turn 1", exact=True)).to_have_count(0)
        assert await turns(face).count() < 120
        await page.page.keyboard.press("Home")
        first = face.log.get_by_role("article", name="Turn 1", exact=True)
        await expect(first).to_be_focused(timeout=PATIENCE)
        await expect(first.get_by_text("Number 0 is straw").first).to_be_in_viewport()
        for number in range(2, 50):
            await page.page.keyboard.press("j")
            await expect(face.log.get_by_role("article", name=f"Turn {number}", exact=True)).to_be_focused()
        assert page.problems == []


async def test_U12_a_chat_is_moved_in_the_list_and_to_a_session_of_its_own(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    async with open_peer(lab_server) as peer:
        await peer.initialize()
        session, first = await peer.new_chat()
        await peer.start_turn(first, "The outline")
        await peer.action("chat/turnComplete", first)
        for name in ("second", "third"):
            uri = f"ahp-chat:/{name}-chat"
            await peer.request("createChat", session, chat=uri)
            await peer.request("subscribe", uri)
            await peer.start_turn(uri, f"The {name} one")
            await peer.action("chat/turnComplete", uri)
    async with lab() as page:
        await page.open_panel()
        chats = page.page.get_by_role("navigation", name="Chats")
        children = chats.locator(".ahp-Row.is-child .ahp-Row-title")
        await expect(children).to_have_text(
            ["The outline", "The second one", "The third one"], timeout=PATIENCE
        )
        await expect(chats.locator(".ahp-Row.is-child time").last).not_to_be_empty()
        await both(page, "list-children")

        await children.nth(2).focus()
        await page.page.keyboard.press("Alt+ArrowUp")
        await expect(children).to_have_text(["The outline", "The third one", "The second one"])
        await expect(children.nth(1)).to_be_focused()

        row = chats.locator(".ahp-Row.is-child").nth(1)
        await row.hover()
        await row.get_by_role("button", name="More for The third one").click()
        await both(page, "list-move-menu")
        await chats.get_by_role("menuitem", name="Move to another session…").click()
        dialog = page.page.get_by_role("dialog", name="Move “The third one”")
        await expect(dialog.get_by_role("radio", name="A session of its own")).to_be_checked()
        await both(page, "list-move")
        await dialog.get_by_role("button", name="Move", exact=True).click()
        await expect(dialog).to_have_count(0)
        await expect(children).to_have_text(["The outline", "The second one"], timeout=PATIENCE)
        own = chats.locator(".ahp-Row:not(.is-child) .ahp-Row-title", has_text="The third one")
        await expect(own).to_be_visible(timeout=PATIENCE)

        # the focus stays in the list when its row is archived
        await own.focus()
        await page.page.keyboard.press("e")
        await expect(own).to_have_count(0)
        await expect(chats.locator(".ahp-Row-title:focus")).to_have_count(1)
        assert page.problems == []
