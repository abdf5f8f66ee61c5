"""A picture that is pasted into a chat, all the way: to the model, to the disk, and back to the screen."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from tests.mock_model import MockModel
from tests.support.server import Home, JupyterServer
from tests.support.wire import open_peer

from .conftest import OpenLab
from .lab import PATIENCE, ChatOnPage
from .test_chat import newest_chat
from .test_turns import open_chat, shots, turns

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab_home(tmp_path_factory: pytest.TempPathFactory, model: MockModel) -> Home:
    """A model that looks at pictures."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    seeing = {
        "base_url": model.base_url,
        "model": "mock-model",
        "api_key_env": "OPENAI_API_KEY",
        "vision": True,
    }
    config = home.config / "jupyter_server_config.json"
    config.write_text(json.dumps({"AssistantAgent": {"models": [seeing]}}))
    return home


def png(width: int, height: int) -> bytes:
    """A picture of its own kind: colours that go from one corner to the other."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\0" + b"".join(bytes((x * 255 // width, y * 255 // height, 160)) for x in range(width))
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def paste(chat: ChatOnPage, data: bytes, name: str, kind: str) -> None:
    """Paste a file; what the clipboard itself would do to a picture's bytes is left out."""
    await chat.composer.focus()
    await chat.composer.evaluate(
        """(box, {data, name, type}) => {
            const bytes = Uint8Array.from(atob(data), character => character.charCodeAt(0));
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([bytes], name, {type}));
            box.dispatchEvent(
                new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true}));
        }""",
        {"data": base64.b64encode(data).decode(), "name": name, "type": kind},
    )


async def drawn(picture: Locator) -> tuple[int, int]:
    """The size in pixels of a picture that the browser has decoded."""
    await expect(picture).to_be_visible(timeout=PATIENCE)
    size: list[int] = await picture.evaluate(
        "async img => { await img.decode(); return [img.naturalWidth, img.naturalHeight]; }"
    )
    return size[0], size[1]


def pictures(body: dict[str, Any]) -> list[bytes]:
    """The pictures in what the model was sent, decoded."""
    urls = [
        part["image_url"]["url"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
    return [base64.b64decode(url.partition("base64,")[2]) for url in urls]


def copies(server: JupyterServer, data: bytes) -> list[Path]:
    """The files of the store that hold it, under whatever name."""
    files = (path for path in (server.home.data / "ahp").rglob("*") if path.is_file())
    return [path for path in files if path.stat().st_size == len(data) and path.read_bytes() == data]


async def drafted(server: JupyterServer) -> None:
    """The newest chat's draft is with the host, with what goes along."""
    chat = await newest_chat(server)
    async with asyncio.timeout(PATIENCE / 1000), open_peer(server) as peer:
        await peer.initialize()
        draft = (await peer.chat_state(chat)).get("draft") or {}
        while not draft.get("attachments"):
            draft = (await peer.action("chat/draftChanged", chat)).get("draft") or {}


async def test_A1_A2_A11_a_pasted_png_reaches_the_model_as_it_was_and_outlives_reload_fork_and_restart(
    lab: OpenLab, lab_server: JupyterServer, model: MockModel
) -> None:
    data = png(400, 300)
    async with lab() as page:
        chat = await open_chat(page)
        await paste(chat, data, "rainfall.png", "image/png")
        form = chat.root.get_by_role("form", name="Message")
        assert await drawn(form.locator("img")) == (400, 300)
        await shots(page, "picture-pasted")
        await chat.composer.press_sequentially("What does it show?")
        await drafted(lab_server)
        await page.reload()  # what was pasted is the host's already: a draft outlives the page
        chat = page.tab
        await expect(chat.composer).to_have_value("What does it show?", timeout=PATIENCE)
        await expect(chat.root.get_by_role("button", name="Remove rainfall.png")).to_be_visible()
        await page.shot("picture-drafted")
        await chat.composer.press("Enter")
        await chat.shows("The mock model was told")
        await chat.ended()
        assert [digest(sent) for sent in pictures(model.requests[-1].body)] == [digest(data)]
        assert len(copies(lab_server, data)) == 1

        chip = turns(chat).first.get_by_role("button", name="rainfall.png")
        assert await drawn(chip.locator("img")) == (400, 300)
        await chip.click()
        large = turns(chat).first.get_by_role("img", name="rainfall.png")
        assert await drawn(large) == (400, 300)
        await shots(page, "picture-sent")

        # a hard reload: nothing of the old page is left
        await page.page.evaluate("async () => { await caches.keys(); location.reload(); return null; }")
        await page.page.wait_for_load_state("load")
        await page.ready()
        chip = turns(page.tab).first.get_by_role("button", name="rainfall.png")
        assert await drawn(chip.locator("img")) == (400, 300)

        # a fork shares it
        await turns(page.tab).first.get_by_role("button", name="Fork from here").click()
        await expect(page.tab.log.get_by_role("note")).to_contain_text("Forked from", timeout=PATIENCE)
        fork = page.tab
        assert await drawn(turns(fork).first.get_by_role("button", name="rainfall.png").locator("img")) == (
            400,
            300,
        )
        await fork.say("And in the fork?")
        await fork.shows("And in the fork?” and saw")
        await fork.ended()
        assert digest(data) in [digest(sent) for sent in pictures(model.requests[-1].body)]
        assert len(copies(lab_server, data)) == 1

        # so does the next server; while there is none, JupyterLab itself has complaints
        assert page.problems == []
        await asyncio.to_thread(lab_server.stop)
        await asyncio.to_thread(lab_server.start, 120)
        await page.reload()
        chip = turns(page.tab).first.get_by_role("button", name="rainfall.png")
        assert await drawn(chip.locator("img")) == (400, 300)
        await page.tab.say("And after the restart?")
        await page.tab.shows("And after the restart?” and saw")
        await page.tab.ended()
        assert digest(data) in [digest(sent) for sent in pictures(model.requests[-1].body)]
        assert len(copies(lab_server, data)) == 1


async def test_A3_a_file_of_megabytes_goes_by_itself_beside_a_small_message(
    lab: OpenLab, lab_server: JupyterServer
) -> None:
    data = bytes(range(256)) * (12 * 2**20 // 256)  # base64 of it is over Tornado's usual frame
    async with lab() as page:
        await page.execute("jupyter-ahp:new-chat", agent="echo", area="main")
        chat = page.tab
        await expect(chat.composer).to_be_focused(timeout=PATIENCE)
        await paste(chat, data, "counts.bin", "application/octet-stream")
        await expect(chat.root.get_by_role("form", name="Message")).to_contain_text("13 MB")
        await chat.say("Count these")
        await chat.shows("counts.bin")
        await chat.ended()
        assert len(copies(lab_server, data)) == 1
        await expect(turns(chat).first.locator(".ahp-Chip")).to_contain_text("13 MB")
        assert page.problems == []
