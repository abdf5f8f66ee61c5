"""axe-core finds nothing to object to, in whatever a chat shows, in every theme of JupyterLab."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.server import ROOT, Home, JupyterServer

from .conftest import OpenLab
from .lab import PATIENCE, ChatOnPage, Lab, write_notebook
from .test_turns import waiting

pytestmark = pytest.mark.browser

AXE = ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """With an agent that shows everything, and a plugin that draws."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    plugins = ["tests.browser.drawing:register", "tests.browser.stage:register"]
    (home.config / "jupyter_server_config.json").write_text(
        json.dumps({"AHPExtension": {"plugins": plugins}})
    )
    return home


@pytest.fixture(scope="module", autouse=True)
def axe() -> str:
    if not AXE.exists():
        reason = "needs axe-core: cd labextension && jlpm install"
        if os.environ.get("JUPYTER_AHP_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return AXE.read_text()


async def violations(page: Lab, axe: str) -> list[str]:
    """What axe has against our own faces on the page, a line for each element. What a canvas draws is its author's."""
    if not await page.page.evaluate("() => 'axe' in globalThis"):
        await page.page.evaluate(axe)
    found: list[dict[str, Any]] = await page.page.evaluate(
        """async rules => {
            const {violations, passes} = await axe.run({include: [['.ahp']]}, {
                runOnly: {type: 'tag', values: rules}, iframes: false, resultTypes: ['violations']});
            if (passes.length < 10) { throw new Error(`axe looked at too little: ${passes.length} rules`); }
            return violations.flatMap(({id, help, nodes}) => nodes.map(node => ({
                id, help, html: node.html, why: node.failureSummary})));
        }""",
        RULES,
    )
    return [f"{one['id']}: {one['help']}\n  {one['html'][:300]}\n  {one['why']}" for one in found]


async def fine(page: Lab, axe: str, name: str) -> None:
    """No violation in any theme; a picture of each."""
    found = []
    for theme in THEMES:
        await page.theme(theme)
        await page.drawn()
        found += [f"[{name}, {theme}] {one}" for one in await violations(page, axe)]
        await page.shot(f"axe-{name}-{theme.removeprefix('JupyterLab ').lower().replace(' ', '-')}")
    await page.theme(THEMES[0])
    assert not found, "\n" + "\n".join(found)


async def say(chat: ChatOnPage, text: str, answer: str) -> None:
    await chat.composer.fill(text)
    await chat.composer.press("Enter")
    await chat.shows(answer)


async def open_stage(page: Lab) -> ChatOnPage:
    await page.execute("jupyter-ahp:new-chat", agent="stage", area="main")
    await expect(page.tab.composer).to_be_focused(timeout=PATIENCE)
    if await page.page.locator("#jp-left-stack").is_visible():
        await page.execute("application:toggle-left-area")
    return page.tab


async def test_axe_finds_what_is_wrong(lab: OpenLab, axe: str) -> None:
    async with lab() as page:
        await open_stage(page)
        await page.page.evaluate(
            "() => document.querySelector('.ahp-Foot').append(document.createElement('button'))"
        )
        (found,) = await violations(page, axe)
        assert found.startswith("button-name")


async def test_every_kind_of_part_and_the_list(lab: OpenLab, axe: str) -> None:
    async with lab() as page:
        chat = await open_stage(page)
        await fine(page, axe, "empty")
        await say(chat, "everything", "It rained.")
        await chat.ended()
        await say(chat, "/draw", "Drawn.")
        await chat.ended()
        await say(chat, "fail", "The model's server is busy")
        await chat.ended()
        folds = chat.log.locator("button[aria-expanded=false]:not([aria-haspopup]):visible")
        for _ in range(20):  # one may be in another
            if not await folds.count():
                break
            await folds.first.click()
        await page.open_panel()
        await page.page.set_viewport_size({"width": 1440, "height": 3000})  # all of it in sight
        await fine(page, axe, "parts")
        assert page.problems == []


async def test_what_waits_for_people_and_the_composer(lab: OpenLab, axe: str) -> None:
    async with lab() as page:
        chat = await open_stage(page)
        await say(chat, "ask", "Run a command?")
        await chat.shows("Before I plot it")
        await say(chat, "One that waits", "")
        await expect(waiting(chat)).to_have_count(1)
        await chat.composer.fill("typed")
        await page.open_panel()
        await fine(page, axe, "asks")
        await chat.root.get_by_role("button", name="Move, position 1 of 1").focus()
        await chat.root.get_by_role("button", name="Edit", exact=True).last.click()
        await fine(page, axe, "waiting-edited")
        await page.page.keyboard.press("Escape")
        await chat.composer.fill("")
        await chat.composer.press_sequentially("/")
        await expect(chat.root.get_by_role("listbox")).to_be_visible(timeout=PATIENCE)
        await chat.composer.press("ArrowDown")
        await fine(page, axe, "popup")
        await chat.composer.fill("")
        await chat.log.focus()
        await page.page.keyboard.press("Control+f")
        await fine(page, axe, "find")
        assert page.problems == []


async def test_a_chat_under_a_cell(lab: OpenLab, lab_server: JupyterServer, axe: str) -> None:
    cell = "from jupyter_ahp import Chat\nchat = Chat(agent='stage')\nchat"
    write_notebook(lab_server.home.files / "axe.ipynb", [cell])
    async with lab() as page:
        await page.open_notebook("axe.ipynb")
        await page.run_cells()
        await expect(page.widget.composer).to_be_visible(timeout=PATIENCE)
        await say(page.widget, "everything", "It rained.")
        await page.widget.ended()
        await fine(page, axe, "widget")
        assert page.problems == []
