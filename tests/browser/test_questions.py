"""A question of every kind, filled in by two at once, and after a reload."""

from __future__ import annotations

import asyncio
import json

import pytest
from playwright.async_api import expect

from tests.support.server import Home, JupyterServer
from tests.support.wire import open_peer

from .conftest import OpenLab
from .lab import PATIENCE
from .test_chat import newest_chat
from .test_turns import shots

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    config = {"AHPExtension": {"plugins": ["tests.browser.stage:register"]}}
    (home.config / "jupyter_server_config.json").write_text(json.dumps(config))
    return home


async def test_answers_are_shared_as_they_are_typed_outlive_a_reload_and_reach_the_agent(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    async with lab() as page, open_peer(lab_server) as peer:
        await page.execute("jupyter-ahp:new-chat", agent="stage", area="main")
        await expect(page.tab.composer).to_be_focused(timeout=PATIENCE)
        await page.tab.say("ask")
        form = page.tab.log.get_by_role("group", name="Before I plot it")
        await expect(form).to_be_visible(timeout=PATIENCE)
        chat = await newest_chat(lab_server)
        await peer.initialize()
        await peer.request("subscribe", chat)

        await form.get_by_role("textbox", name="Name").fill("Rain")
        async with asyncio.timeout(PATIENCE / 1000):
            said = await peer.action("chat/inputAnswerChanged", chat)
        assert said["answer"] == {"state": "draft", "value": {"kind": "text", "value": "Rain"}}
        await form.get_by_role("radio", name="Bars").check()
        async with asyncio.timeout(PATIENCE / 1000):
            await peer.action("chat/inputAnswerChanged", chat)

        await page.reload()
        await expect(form.get_by_role("textbox", name="Name")).to_have_value("Rain", timeout=PATIENCE)
        await expect(form.get_by_role("radio", name="Bars")).to_be_checked()
        await expect(form).not_to_contain_text("Somebody else")
        theirs = {"type": "chat/inputAnswerChanged", "requestId": said["requestId"], "questionId": "share"}
        theirs["answer"] = {"state": "draft", "value": {"kind": "number", "value": 0.5}}
        await peer.dispatch(chat, theirs)
        await expect(form.get_by_role("spinbutton", name="Which share")).to_have_value("0.5")
        await expect(form).to_contain_text("Somebody else is filling this in, too.")
        await form.get_by_role("spinbutton", name="How many rows").fill("11")
        await form.get_by_role("button", name="Answer").click()
        await expect(form.get_by_role("alert")).to_have_text("How many rows: at most 10.")
        await shots(page, "question")
        await form.get_by_role("spinbutton", name="How many rows").fill("4")
        await form.get_by_role("checkbox", name="Tuesday").check()
        await form.get_by_role("button", name="Answer").click()
        card = page.tab.log.get_by_role("group", name="Run a command?")
        await card.get_by_role("button", name="Allow once").click()
        await page.tab.shows("Answered: accept.")
        await page.tab.ended()
        answers = (await peer.turns(chat))[-1]["responseParts"][-1]["content"]
        for part in ("'value': 'Rain'", "'value': 4", "'value': 0.5", "'value': 'bars'", "['tue']"):
            assert part in answers
        assert page.problems == []
