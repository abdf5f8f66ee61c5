"""A plugin for the tests: `/draw` draws a page, a harmless or a hostile one; `/redraw`; `/close`; and a tool that asks."""

from __future__ import annotations

import json

from jupyter_ahp.plugins import Canvas, CommandRun, PluginHost

HARMLESS = """\
<!doctype html><title>Rainfall</title>
<style>body {font: 14px sans-serif; margin: 16px} i {display: inline-block; width: 24px; background: steelblue}</style>
<h2>Rainfall, mm</h2><div id="bars"></div>
<script>for (const h of [12, 45, 80, 61, 30]) bars.innerHTML += `<i style="height:${h}px"></i> `</script>
"""

# What a page could try against who shows it. Each try says what came of it; none may say anything but "no".
HOSTILE = """\
<!doctype html><title>Hostile</title><pre id="out">{}</pre>
<iframe name="sink" hidden></iframe>
<form id="form" method="post" target="_top" action="__SERVER__api/contents?form"><input name="x"></form>
<form id="quiet" method="post" target="sink" action="__SERVER__api/contents?quiet"><input name="x"></form>
<a id="top" target="_top" href="__SERVER__lab/tree/stolen">go</a>
<script>
const said = {};
const say = (what, result) => {
  said[what] = String(result);
  out.textContent = JSON.stringify(said);
};
const attempt = async (what, work) => {
  try {
    const result = await work();
    say(what, result === undefined ? 'no' : result);
  } catch (error) {
    say(what, 'no');
  }
};
const flood = () => setInterval(() => {
  for (let n = 0; n < 500; n++) {
    top.postMessage({jsonrpc: '2.0', method: 'disposeSession', n, text: 'x'.repeat(100)}, '*');
  }
}, 5);
const api = '__SERVER__api/contents';
const read = async response => `read ${response.status} ${(await response.text()).length}`;
(async () => {
  await attempt('cookie', () => document.cookie || undefined);
  await attempt('storage', () => localStorage.length);
  await attempt('session storage', () => sessionStorage.length);
  await attempt('parent', () => parent.document.title);
  await attempt('parent token', () => parent.jupyterapp);
  await attempt('parent config', () => top.document.getElementById('jupyter-config-data').textContent);
  await attempt('fetch', () => fetch(api, {credentials: 'include'}).then(read));
  await attempt('fetch relative', () => fetch('../../api/contents', {credentials: 'include'}).then(read));
  await attempt('fetch blind', async () => {
    await fetch(api + '?blind', {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'});
    return undefined; // sent or not, nothing of it can be read; that it did nothing is looked at from outside
  });
  await attempt('socket', () => new Promise((open, refused) => {
    const socket = new WebSocket('__SERVER__ahp'.replace('http', 'ws'));
    socket.onopen = () => open('open');
    socket.onerror = () => refused(new Error());
  }));
  await attempt('open', () => window.open('__SERVER__lab/tree/stolen') ?? undefined);
  await attempt('alert', () => alert('hostile'));
  await attempt('confirm', () => confirm('hostile') || undefined);
  await attempt('prompt', () => prompt('hostile') ?? undefined);
  await attempt('clipboard', () => navigator.clipboard.readText());
  await attempt('place', () => new Promise((got, no) => navigator.geolocation.getCurrentPosition(got, no)));
  await attempt('form', () => form.submit());
  await attempt('quiet form', () => quiet.submit());
  await attempt('link', () => document.getElementById('top').click());
  await attempt('download', () => {
    const link = document.createElement('a');
    link.href = 'data:text/plain,x';
    link.download = 'hostile.txt';
    link.click();
  });
  await attempt('full screen', () => document.documentElement.requestFullscreen().then(() => 'yes'));
  await attempt('top', () => { top.location = '__SERVER__lab/tree/stolen'; });
  await attempt('replace', () => { top.location.replace('__SERVER__lab/tree/stolen'); });
  say('done', 'no');
})();
</script>
"""


def hostile(server: str) -> str:
    """The page, against the server at that URL."""
    return HOSTILE.replace("__SERVER__", server)


def register(host: PluginHost) -> None:
    drawn: dict[str, list[Canvas]] = {}

    async def draw(run: CommandRun) -> str:
        about = json.loads(run.argument) if run.argument else {}
        if "hostile" in about:
            about["html"] = hostile(about.pop("hostile"))
        elif "url" not in about:
            about["html"] = HARMLESS
        canvas = await host.open_canvas(run.chat, **{"title": "Rainfall", "status": "live", **about})
        drawn.setdefault(run.chat, []).append(canvas)
        return "Drawn."

    async def redraw(run: CommandRun) -> str:
        for canvas in drawn.get(run.chat, []):
            await canvas.update(title="Sunshine", html="<h1>Redrawn</h1>")
        return "Redrawn."

    async def close(run: CommandRun) -> str:
        for canvas in drawn.pop(run.chat, []):
            await canvas.close()
        return "Closed."

    def note(text: str) -> str:
        """Write something down."""
        return f"Noted: {text}"

    host.register_tool(note, effects="write", title="Write it down")
    host.register_command("draw", "Draws a page", draw, argument_hint="[JSON]")
    host.register_command("redraw", "Draws another page in its place", redraw)
    host.register_command("close", "Takes what was drawn away", close)
