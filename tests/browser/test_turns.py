"""What waits, what goes into a turn, and what is made of turns that ended: as a person does it in the main area."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, expect

from .conftest import OpenLab
from .lab import PATIENCE, ChatOnPage, Lab

pytestmark = pytest.mark.browser

WIDTHS = (420, 960)


def waiting(face: ChatOnPage) -> Locator:
    return face.root.get_by_role("list", name="Waiting messages").get_by_role("listitem")


def turns(face: ChatOnPage) -> Locator:
    return face.log.get_by_role("article")


async def open_chat(page: Lab) -> ChatOnPage:
    """A chat with the assistant that has the main area for itself."""
    await page.execute("jupyter-ahp:new-chat", agent="assistant", area="main")
    await expect(page.tab.composer).to_be_focused(timeout=PATIENCE)
    if await page.page.locator("#jp-left-stack").is_visible():
        await page.execute("application:toggle-left-area")
    return page.tab


async def shots(page: Lab, name: str) -> None:
    """Pictures of the chat at both widths and in both themes."""
    for theme in ("Light", "Dark"):
        await page.theme(f"JupyterLab {theme}")
        for width in WIDTHS:
            await page.fit(page.tab, width)
            await page.shot(f"{name}-{width}-{theme.lower()}")
    await page.theme("JupyterLab Light")


async def test_Q_G_messages_wait_are_put_in_order_are_held_by_a_stop_and_go(lab: OpenLab) -> None:
    async with lab() as page:
        chat = await open_chat(page)
        await chat.say("Go on for long\n!!chunks 3\n!!hang")
        await chat.shows("c0 c1 c2")
        await chat.composer.press_sequentially("One\n!!text The first.".replace("\n", " "))
        await expect(chat.root.get_by_role("button", name="Queue")).to_be_visible()
        await expect(chat.root.get_by_role("button", name="Steer", exact=True)).to_be_visible()
        await expect(chat.root.get_by_text("Queue sends it when this turn ends.")).to_be_visible()
        await shots(page, "turn-running-typed")
        await chat.composer.fill("")
        await chat.say("One\n!!text The first.")
        await chat.say("Two\n!!text The second.")
        await chat.say("Three\n!!text The third.")
        await expect(waiting(chat)).to_have_count(3)

        await chat.composer.press_sequentially("Use the date column")
        await chat.composer.press("Control+Enter")
        await expect(waiting(chat)).to_have_count(4)
        await expect(waiting(chat).first).to_contain_text("Steering: goes in at the next step")

        # With the keyboard: the last one goes to the front of the queue.
        await chat.root.get_by_role("button", name="Move, position 3 of 3").focus()
        await page.page.keyboard.press("Alt+ArrowUp")
        await page.page.keyboard.press("Alt+ArrowUp")
        await expect(waiting(chat).nth(1)).to_contain_text("Three")
        # With the pointer: the one that is last now goes up by one.
        handle = chat.root.get_by_role("button", name="Move, position 3 of 3")
        box, over = await handle.bounding_box(), await waiting(chat).nth(2).bounding_box()
        assert box is not None
        assert over is not None
        await page.page.mouse.move(box["x"] + 8, box["y"] + 8)
        await page.page.mouse.down()
        await page.page.mouse.move(over["x"] + 20, over["y"] + 4, steps=5)
        await page.shot("turn-dragged")
        await page.page.mouse.up()
        for place, text in enumerate(("Use the date column", "Three", "Two", "One")):
            await expect(waiting(chat).nth(place)).to_contain_text(text)
        await chat.root.get_by_role("button", name="Remove").nth(1).click()
        await expect(waiting(chat)).to_have_count(3)

        # In place, by ↑ in the empty box.
        await chat.composer.focus()
        await page.page.keyboard.press("ArrowUp")
        field = chat.root.get_by_role("textbox", name="Waiting message")
        await expect(field).to_be_focused()
        await field.press("Control+Home")
        await field.press_sequentially("Last: ")
        await shots(page, "turn-waiting")
        await field.press("Enter")
        await expect(chat.composer).to_be_focused()
        await expect(waiting(chat).nth(2)).to_contain_text("Last: One")

        # A stop holds what waits, and gives back what the model has not read.
        await page.page.keyboard.press("Escape")
        await page.page.keyboard.press("Escape")
        await chat.shows("Stopped")
        await expect(waiting(chat)).to_have_count(2)
        await expect(waiting(chat).first).to_contain_text("Held, because you stopped the turn")
        await expect(chat.composer).to_have_value("Use the date column")
        await shots(page, "turn-held")
        await chat.composer.fill("")

        # The second is sent now; the one that is left follows when its turn is done.
        await waiting(chat).nth(1).get_by_role("button", name="Send now").click()
        await chat.shows("The first.")
        await chat.shows("The third.")
        await expect(waiting(chat)).to_have_count(0)
        said = turns(chat).locator(".ahp-User")
        await expect(said.nth(1)).to_contain_text("Last: One")
        await expect(said.nth(2)).to_contain_text("Three")
        assert page.problems == []


async def test_G_steering_stands_where_the_model_read_it(lab: OpenLab) -> None:
    async with lab() as page:
        chat = await open_chat(page)
        # A busy server: the model is asked again, and then it is told of what was said meanwhile.
        await chat.say("Plot it\n!!status 503 1 4\n!!text Never said.")
        await expect(chat.stop).to_be_visible()
        await chat.composer.press_sequentially("The column is called date, not day.")
        await chat.composer.press("Shift+Enter")
        await chat.composer.press_sequentially("!!text Now by **date**.")
        await chat.composer.press("Control+Enter")
        await expect(waiting(chat).first).to_contain_text("Steering: goes in at the next step")
        await chat.shows("Now by date.")
        await expect(waiting(chat)).to_have_count(0)
        await expect(turns(chat)).to_have_count(1)
        block = turns(chat).locator(".ahp-User.is-steer")
        await expect(block).to_contain_text("You while it worked, taken here")
        order = await turns(chat).first.inner_text()
        assert order.index("Plot it") < order.index("called date") < order.index("Now by date.")
        await chat.ended()
        await shots(page, "turn-steered")
        assert page.problems == []


async def test_X_S_what_was_said_is_edited_forked_rewound_and_brought_back(lab: OpenLab) -> None:
    async with lab() as page:
        chat = await open_chat(page)
        for word in ("one", "two", "three"):
            await chat.say(f"Say {word}\n!!text This is {word}.")
            await chat.shows(f"This is {word}.")
            await chat.ended()
        await expect(turns(chat)).to_have_count(3)

        # Rewind, and back again.
        await turns(chat).first.get_by_role("button", name="More for turn 1").click()
        await shots(page, "turn-menu")
        await chat.root.get_by_role("menuitem", name="Rewind to here").click()
        await expect(turns(chat)).to_have_count(1)
        notice = chat.log.get_by_role("note")
        await expect(notice).to_contain_text("2 turns rewound. Files were not changed back.")
        await shots(page, "turn-rewound")
        await notice.get_by_role("button", name="Undo").click()
        await expect(turns(chat)).to_have_count(3)
        await expect(chat.log.get_by_role("note")).to_have_count(0)
        await chat.shows("This is three.")

        # Edit and resend, by the keyboard: up in the log, E, other words, Enter.
        await chat.log.focus()
        await page.page.keyboard.press("k")
        await page.page.keyboard.press("k")
        await page.page.keyboard.press("e")
        await expect(chat.composer).to_be_focused()
        await expect(chat.composer).to_have_value("Say two\n!!text This is two.")
        await expect(chat.root.get_by_text("You edit what was said.")).to_be_visible()
        await shots(page, "turn-edited")
        await chat.composer.fill("Say it otherwise\n!!text This is other.")
        await chat.composer.press("Enter")
        await chat.shows("This is other.")
        await chat.ended()
        await expect(turns(chat)).to_have_count(2)
        await expect(chat.log).not_to_contain_text("This is two.")

        # A fork goes on from there, says where it came from, and leaves the first chat alone.
        await turns(chat).first.get_by_role("button", name="Fork from here").click()
        await expect(turns(page.tab)).to_have_count(1, timeout=PATIENCE)
        fork = page.tab
        await expect(fork.log.get_by_role("note")).to_contain_text("Forked from Say one")
        await fork.say("Only here\n!!text In the fork.")
        await fork.shows("In the fork.")
        await fork.ended()
        await shots(page, "turn-forked")
        await fork.log.get_by_role("link", name=re.compile("Say one")).click()
        await expect(page.tab.log).to_contain_text("This is other.")
        await expect(page.tab.log).not_to_contain_text("In the fork.")

        # A side chat, about words of the answer.
        await page.tab.log.get_by_text("This is other.", exact=True).dblclick(position={"x": 12, "y": 10})
        await page.tab.log.get_by_role("button", name="Side chat").click()
        await expect(page.tab.log.get_by_role("note")).to_contain_text(
            "Side chat of Say one", timeout=PATIENCE
        )
        await expect(page.tab.log.get_by_role("note").locator("q")).not_to_be_empty()
        await page.tab.say("And this?\n!!text Aside.")
        await page.tab.shows("Aside.")
        await page.tab.ended()
        await page.page.set_viewport_size({"width": 1440, "height": 900})
        await page.open_panel()
        await expect(page.page.get_by_role("navigation", name="Chats").get_by_text("3 chats")).to_be_visible(
            timeout=PATIENCE
        )
        await page.shot("turn-list")
        assert page.problems == []
