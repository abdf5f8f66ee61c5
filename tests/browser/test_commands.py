"""Commands in terminals (M5), and what a tool may do only when somebody allows it: as a person sees and answers it."""

from __future__ import annotations

import json
import re

import pytest
from playwright.async_api import expect

from tests.mock_model import MockModel
from tests.support.server import Home

from .conftest import OpenLab
from .lab import PATIENCE
from .test_turns import open_chat, shots, turns

pytestmark = pytest.mark.browser

TOOL = """Write it down
!!tool note {"text": "milk"}
!!text It is written."""


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """With terminals, and with a tool that asks."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    wanted = {"ServerApp": {"jpserver_extensions": {"jupyter_server_terminals": True}}}
    (home.config / "jupyter_server_config.d" / "terminals.json").write_text(json.dumps(wanted))
    config = {"AHPExtension": {"plugins": ["tests.browser.drawing:register"]}}
    (home.config / "jupyter_server_config.json").write_text(json.dumps(config))
    return home


async def test_M5_a_command_looks_like_one_streams_ends_with_its_code_and_is_there_after_a_reload(
    lab: OpenLab,
) -> None:
    async with lab() as page:
        chat = await open_chat(page)
        await chat.composer.press_sequentially("!for i in 1 2 3; do echo line $i; sleep 0.3; done; exit 3")
        await expect(chat.root.locator(".ahp-Composer.is-command")).to_have_count(1)
        await shots(page, "command-typed")
        await chat.composer.press("Enter")
        first = turns(chat).first
        await expect(first.get_by_role("heading", name="You ran")).to_have_count(1)
        await expect(first.locator(".ahp-User.is-command pre")).to_contain_text("!for i in 1 2 3")
        output = first.get_by_label("Output")
        await expect(output).to_contain_text("line 1", timeout=PATIENCE)
        await expect(chat.stop).to_be_visible()  # it comes while it runs
        await expect(output).to_contain_text("line 3", timeout=PATIENCE)
        await chat.ended()
        await expect(first).to_contain_text("exit 3")
        await expect(first.get_by_role("img", name="Failed")).to_be_visible()

        await chat.say(r"!printf '\033[31mred\033[0m and \033[1;32mgreen\033[0m plain\n'")
        colours = turns(chat).nth(1).get_by_label("Output")
        await expect(colours).to_contain_text("red and green plain", timeout=PATIENCE)
        await chat.ended()
        await expect(turns(chat).nth(1)).to_contain_text("exit 0")
        await expect(colours.locator(".ahp-ansi-red")).to_have_text("red")
        await expect(colours.locator(".ahp-ansi-green.ahp-ansi-bold")).to_have_text("green")
        await shots(page, "command-ended")

        # a stop ends all of it
        await chat.say("!echo going; sleep 300 & sleep 300")
        await expect(turns(chat).nth(2).get_by_label("Output")).to_contain_text("going", timeout=PATIENCE)
        await chat.stop.click()
        await chat.ended()
        await expect(turns(chat).nth(2)).to_contain_text("Stopped")

        await page.reload()
        chat = page.tab
        await expect(turns(chat)).to_have_count(3, timeout=PATIENCE)
        await expect(turns(chat).first).to_contain_text("line 2")
        await expect(turns(chat).first).to_contain_text("exit 3")
        await expect(turns(chat).nth(1)).to_contain_text("red and green plain")
        await expect(turns(chat).nth(2)).to_contain_text("going")
        assert page.problems == []


async def test_an_approval_is_answered_once_for_the_session_changed_or_with_a_word(
    lab: OpenLab, model: MockModel
) -> None:
    def told() -> str:
        return [text for role, text in model.requests[-1].texts if role == "tool"][-1]

    async with lab() as page:
        chat = await open_chat(page)
        card = chat.log.get_by_role("group", name="Write it down?")

        await chat.say(TOOL)
        await expect(card).to_be_visible(timeout=PATIENCE)
        await expect(card).to_contain_text("milk")
        for answer in ("Allow once", "Allow in this session", "Deny"):
            await expect(card.get_by_role("button", name=answer)).to_be_visible()
        await expect(page.page.locator("#jp-main-dock-panel .lm-TabBar-tabLabel").last).to_contain_text(
            "Needs you"
        )
        await shots(page, "approval")

        # other words, as JSON or not at all
        await card.get_by_role("button", name="Change it").click()
        field = card.get_by_role("textbox", name="What it is to be given")
        await expect(field).to_be_focused()
        await field.fill('{"text": "bread"')
        await expect(card.get_by_role("alert")).to_contain_text("no valid JSON")
        await expect(card.get_by_role("button", name="Allow once")).to_be_disabled()
        await field.fill('{"text": "bread"}')
        await shots(page, "approval-changed")
        await card.get_by_role("button", name="Allow once").click()
        await chat.shows("It is written.")
        await chat.ended()
        assert told() == "Noted: bread"

        # not now, with a word to the model
        await chat.say(TOOL)
        await card.get_by_role("button", name="Deny").click()
        await card.get_by_role("textbox").fill("we have milk")
        await shots(page, "approval-denied")
        await card.get_by_role("button", name="Deny").click()
        await expect(card).to_have_count(0)
        await chat.ended()
        assert "and said: we have milk" in told()

        # in this session: it does not ask again
        await chat.say(TOOL)
        await card.get_by_role("button", name="Allow in this session").click()
        await expect(card).to_have_count(0)
        await chat.ended()
        await chat.say(TOOL)
        await expect(turns(chat)).to_have_count(4)
        await expect(turns(chat).last).to_contain_text("It is written.", timeout=PATIENCE)
        await chat.ended()
        assert told() == "Noted: milk"
        await expect(turns(chat).last.locator(".ahp-ToolCall")).to_contain_text(re.compile("Write it down"))
        assert page.problems == []
