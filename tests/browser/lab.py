"""JupyterLab as a person has it in front of them: what there is to see, to click and to type into."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Error, Locator, Page, async_playwright, expect

from tests.support.server import JupyterServer

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 30_000
"""Milliseconds. A machine with two cores that builds something else is slow; nothing is measured here."""


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """A notebook of code cells for the Python kernel."""
    spec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook = {
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": source,
            }
            for number, source in enumerate(cells)
        ],
        "metadata": {"kernelspec": spec},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook))


class ChatOnPage:
    """One face of a chat: the panel, a tab, or the widget under a cell."""

    def __init__(self, root: Locator) -> None:
        self.root = root
        self.log = root.get_by_role("log")
        self.composer = root.get_by_role("textbox", name="Message")
        self.stop = root.get_by_role("button", name=re.compile(r"^Stop(ping)?( the turn)?$"))

    async def say(self, text: str) -> None:
        """Type a message of one or more lines and press Enter."""
        first, *more = text.split("\n")
        await self.composer.click()
        await self.composer.press_sequentially(first)
        for line in more:
            await self.composer.press("Shift+Enter")
            await self.composer.press_sequentially(line)
        await self.composer.press("Enter")

    async def shows(self, text: str) -> None:
        await expect(self.log).to_contain_text(text, timeout=PATIENCE)

    async def ended(self) -> None:
        """The turn that was seen to run runs no more."""
        await expect(self.stop).to_have_count(0, timeout=PATIENCE)


class Lab:
    """A page with JupyterLab on it."""

    def __init__(self, page: Page, shots: Path) -> None:
        self.page = page
        self.problems: list[str] = []
        self._shots = shots
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on(
            "console",
            lambda message: (
                self.problems.append(message.text)
                if message.type == "error" and "jupyter-ahp" in message.text
                else None
            ),
        )

    @property
    def panel(self) -> ChatOnPage:
        return ChatOnPage(self.page.locator("#jupyter-ahp-chats"))

    @property
    def widget(self) -> ChatOnPage:
        """The chat in a cell's output."""
        return ChatOnPage(self.page.locator(".jp-OutputArea").filter(has=self.page.get_by_role("log")).last)

    @property
    def tab(self) -> ChatOnPage:
        """The chat in the main area that is in front."""
        return ChatOnPage(self.page.locator("#jp-main-dock-panel .jp-ahp-Panel:visible"))

    async def execute(self, command: str, **args: Any) -> None:
        """Run one of JupyterLab's commands, to its end."""
        call = f"jupyterapp.commands.execute({json.dumps(command)}, {json.dumps(args)})"
        async with asyncio.timeout(PATIENCE / 1000):
            await self.page.evaluate(f"async () => {{ await {call}; return null; }}")

    async def ready(self) -> None:
        """JupyterLab is there, with what it restores."""
        await self.page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=3 * PATIENCE)
        await self.page.wait_for_function("() => globalThis.jupyterapp?.restored", timeout=PATIENCE)
        await self.page.evaluate("async () => { await jupyterapp.restored; return null; }")

    async def idle(self) -> None:
        indicator = ".jp-NotebookPanel .jp-Notebook-ExecutionIndicator[data-status=idle]"
        await self.page.locator(indicator).first.wait_for(state="attached", timeout=2 * PATIENCE)

    async def open_panel(self) -> None:
        await self.execute("jupyter-ahp:open-chats")
        await expect(self.page.get_by_role("navigation", name="Chats")).to_be_visible(timeout=PATIENCE)

    async def new_chat(self, agent: str) -> None:
        """As a person does it: New, an agent, Start chat."""
        await self.open_panel()
        chats = self.page.get_by_role("navigation", name="Chats")
        first = chats.get_by_role("button", name="Start chat")
        if not await first.is_visible():
            await chats.get_by_role("button", name="New", exact=True).click()
        await chats.get_by_role("radio", name=agent).check()
        await first.click()
        await expect(self.panel.composer).to_be_visible(timeout=PATIENCE)

    async def open_notebook(self, path: str) -> None:
        """The notebook is open and its kernel waits for work."""
        async with asyncio.timeout(2 * PATIENCE / 1000):
            await self.page.evaluate(
                """async path => {
                    const panel = await jupyterapp.commands.execute('docmanager:open', { path });
                    await panel.context.ready;
                    await panel.sessionContext.ready;
                    await panel.sessionContext.session.kernel.info;
                    return null;
                }""",
                path,
            )
        await self.idle()

    async def run_cells(self) -> None:
        """Have the cells run; the last one may take as long as it likes."""
        await self.page.evaluate("() => { void jupyterapp.commands.execute('notebook:run-all-cells'); }")

    async def reload(self) -> None:
        await self.page.reload()
        await self.ready()

    async def shot(self, name: str) -> None:
        """A picture for people, in `tests/browser/shots`."""
        self._shots.mkdir(exist_ok=True)
        await self.drawn()
        await self.page.screenshot(path=self._shots / f"{name}.png")

    async def fit(self, face: ChatOnPage, width: int) -> None:
        """Have that face so many pixels wide."""
        for _ in range(3):  # what is beside it may give way, too
            box, size = await face.root.bounding_box(), self.page.viewport_size
            assert box is not None
            assert size is not None
            await self.page.set_viewport_size({**size, "width": round(size["width"] + width - box["width"])})
            await self.drawn()

    async def drawn(self) -> None:
        """What changed is on the screen."""
        await self.page.evaluate(
            "() => new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn, 100)))"
        )

    async def theme(self, name: str) -> None:
        await self.execute("apputils:change-theme", theme=name)
        body = self.page.locator(f"body[data-jp-theme-name='{name}']")
        await body.wait_for(state="attached", timeout=PATIENCE)
        await self.page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=PATIENCE)


@asynccontextmanager
async def open_lab(
    server: JupyterServer, chromium: str, profile: Path, *, shots: Path, path: str | None = None
) -> AsyncIterator[Lab]:
    """A browser with a workspace of its own on the server, or at another path; a test that fails leaves a picture."""
    own = f"lab/workspaces/{uuid.uuid4().hex}"
    address = f"{server.url}{path or own}?token={server.token}&reset"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch_persistent_context(
            str(profile),
            executable_path=chromium,
            args=FLAGS,
            headless=True,
            viewport={"width": 1440, "height": 900},
        )
        page = browser.pages[0]
        lab = Lab(page, shots)
        try:
            await page.goto(address)
            await lab.ready()
            if path is None:
                # The launcher opens last and takes the focus: not while a test types.
                await page.wait_for_function(
                    "() => document.activeElement?.closest('.jp-Launcher')", timeout=PATIENCE
                )
            yield lab
        except (AssertionError, Error, TimeoutError):
            await lab.shot(f"failed-{uuid.uuid4().hex[:6]}")
            raise
        finally:
            await browser.close()
