"""What the panel costs in a browser: a long chat that is opened, read to its beginning, streamed into, and left alone.

    python -m bench.panel [--turns 2000] [--seconds 10] [--idle 60]

A real JupyterLab in Chromium (needs both, and the built extension). Times are of the page's main thread, as Chromium
counts them (`Performance.getMetrics`); a frame that came later than 1/60 s after the one before is counted as dropped,
beside what the same page drops while nothing happens in it, since a machine that does other work drops some by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from pathlib import Path

from playwright.async_api import CDPSession

from tests.browser.conftest import BROWSERS, missing
from tests.browser.lab import Lab, open_lab
from tests.support.server import Home, JupyterServer
from tests.support.wire import Peer, open_peer

RATE = 200
"""Deltas a second."""
SESSION = "ahp-session:/bench-panel"
FRAMES = """seconds => new Promise(done => {
    const began = performance.now();
    let last = began, frames = 0, dropped = 0, longest = 0;
    const look = now => {
        const gap = now - last;
        last = now;
        frames++;
        dropped += Math.max(0, Math.round(gap / (1000 / 60)) - 1);
        longest = Math.max(longest, gap);
        now - began < seconds * 1000 ? requestAnimationFrame(look) : done({frames, dropped, longest});
    };
    requestAnimationFrame(look);
})"""
OPEN = """uri => new Promise(async done => {
    const began = performance.now();
    const look = () => {
        const turns = document.querySelectorAll('#jp-main-dock-panel [data-turn] table');
        turns.length ? requestAnimationFrame(() => done(performance.now() - began)) : requestAnimationFrame(look);
    };
    look();
    await jupyterapp.commands.execute('jupyter-ahp:open-chat', {uri, area: 'main'});
})"""
TO_BEGINNING = """count => new Promise(done => {
    const began = performance.now();
    const log = document.querySelector('#jp-main-dock-panel [role=log]');
    const look = () => {
        const away = [...log.querySelectorAll('[data-turns]')].map(box => box.dataset.turns.split(' ').length);
        const there = log.querySelectorAll('[data-turn]').length;
        if (away.reduce((sum, each) => sum + each, there) >= count) {
            done(performance.now() - began);
        } else {
            log.scrollTop = 0;
            requestAnimationFrame(look);
        }
    };
    look();
})"""


class Meter:
    """The main thread of a page."""

    def __init__(self, cdp: CDPSession) -> None:
        self._cdp = cdp

    async def read(self) -> dict[str, float]:
        metrics = (await self._cdp.send("Performance.getMetrics"))["metrics"]
        return {one["name"]: one["value"] for one in metrics}

    async def nodes(self) -> int:
        await self._cdp.send("HeapProfiler.collectGarbage")
        return int((await self.read())["Nodes"])


def say(what: str, value: str) -> None:
    print(f"{what:<66} {value}", flush=True)


async def fill(peer: Peer, turns: int) -> str:
    """A chat with so many turns; its URI."""
    await peer.request("createSession", SESSION, provider="pacer")
    chat: str = (await peer.request("subscribe", SESSION))["snapshot"]["state"]["defaultChat"]
    await peer.request("subscribe", chat)
    for number in range(turns):
        await peer.start_turn(chat, f"Question {number}")
        await peer.action("chat/turnComplete", chat)
    await peer.send({"jsonrpc": "2.0", "method": "unsubscribe", "params": {"channel": chat}})
    return chat


async def busy(page: Lab, meter: Meter, seconds: float, name: str) -> None:
    """Follow the page for some seconds, and say what its main thread did and which frames it dropped."""
    before = await meter.read()
    seen: dict[str, float] = await page.page.evaluate(FRAMES, seconds)
    after = await meter.read()

    def ms(metric: str) -> float:
        return (after[metric] - before[metric]) * 1000 / seconds

    say(
        f"{name}: script, style, layout, all (ms a second)",
        f"{ms('ScriptDuration'):.0f}, {ms('RecalcStyleDuration'):.0f}, {ms('LayoutDuration'):.0f}, "
        f"{ms('TaskDuration'):.0f}",
    )
    say(
        f"{name}: frames dropped, the longest",
        f"{seen['dropped']:.0f} of {seen['frames'] + seen['dropped']:.0f}, {seen['longest']:.0f} ms",
    )


async def stream(page: Lab, meter: Meter, peer: Peer, chat: str, seconds: int, name: str) -> None:
    await peer.start_turn(chat, f"stream {RATE} {seconds + 2}")
    running = page.page.locator("#jp-main-dock-panel [data-turn].is-active")
    await running.wait_for()
    await busy(page, meter, seconds, name)
    await running.wait_for(state="detached")


async def idle(page: Lab, meter: Meter, seconds: int, name: str) -> None:
    await page.page.evaluate("() => document.activeElement?.blur()")  # a caret blinks
    before = await meter.read()
    await asyncio.sleep(seconds)
    after = await meter.read()
    spent = after["TaskDuration"] - before["TaskDuration"]
    say(f"{name}: main thread over {seconds} s", f"{spent * 1000:.0f} ms, {spent / seconds:.2%}")


async def measure(server: JupyterServer, chromium: str, folder: Path, wanted: argparse.Namespace) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        chat = await fill(peer, wanted.turns)
        async with open_lab(server, chromium, folder / "profile", shots=folder) as page:
            cdp = await page.page.context.new_cdp_session(page.page)
            await cdp.send("Performance.enable")
            meter = Meter(cdp)
            empty = await meter.nodes()
            await idle(page, meter, wanted.idle, "JupyterLab alone, idle")
            await busy(page, meter, wanted.seconds, "JupyterLab alone")

            took = await page.page.evaluate(OPEN, chat)
            say(f"a chat of {wanted.turns} turns, opened (aim: under 1000)", f"{took:.0f} ms")
            say("its DOM nodes", f"{await meter.nodes() - empty}")
            await stream(page, meter, peer, chat, wanted.seconds, f"{RATE} deltas a second")
            await idle(page, meter, wanted.idle, "open, idle")

            took = await page.page.evaluate(TO_BEGINNING, wanted.turns)
            say("scrolled to its beginning, all turns loaded", f"{took / 1000:.1f} s")
            say("its DOM nodes", f"{await meter.nodes() - empty}")
            await page.page.evaluate(
                "() => { const log = document.querySelector('#jp-main-dock-panel [role=log]');"
                " log.scrollTop = log.scrollHeight; }"
            )
            await stream(page, meter, peer, chat, wanted.seconds, f"{RATE} deltas a second, all turns loaded")
            await idle(page, meter, wanted.idle, "all turns loaded, idle")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--seconds", type=int, default=10, help="how long each stream is followed")
    parser.add_argument("--idle", type=int, default=60, help="seconds of each rest")
    wanted = parser.parse_args()
    reason = missing()
    if reason is not None:
        raise SystemExit(reason)
    chromium = next(path for path in map(shutil.which, BROWSERS) if path)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder, "home"))
        home.make()
        config = {"AHPExtension": {"plugins": ["bench.panel_side:register"]}}
        (home.config / "jupyter_server_config.json").write_text(json.dumps(config))
        server = JupyterServer(home, module="jupyterlab", args=["--expose-app-in-browser"])
        server.start(timeout=120)
        try:
            asyncio.run(measure(server, chromium, Path(folder), wanted))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
