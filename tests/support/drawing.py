"""A plugin for tests that draws what a message says: `/draw <html>`, `/draw-url <url>`, `/redraw <html>`, `/status …`, `/undraw`.

A server has it with `--AHPExtension.plugins=tests.support.drawing:register`. Each command answers with the URI of the canvas.
"""

from __future__ import annotations

from jupyter_ahp.plugins import Canvas, CommandRun, PluginHost, TurnFailed


def register(host: PluginHost) -> None:
    drawn: dict[str, list[Canvas]] = {}

    def latest(run: CommandRun) -> Canvas:
        here = [canvas for canvas in drawn.get(run.chat, []) if canvas.open]
        if not here:
            raise TurnFailed("nothingDrawn", "There is no canvas here. Draw one with /draw.")
        return here[-1]

    async def draw(run: CommandRun) -> str:
        canvas = await host.open_canvas(run.chat, title="A drawing", html=run.argument)
        drawn.setdefault(run.chat, []).append(canvas)
        return canvas.uri

    async def draw_url(run: CommandRun) -> str:
        canvas = await host.open_canvas(run.chat, title="A page elsewhere", url=run.argument)
        drawn.setdefault(run.chat, []).append(canvas)
        return canvas.uri

    async def redraw(run: CommandRun) -> str:
        await latest(run).update(html=run.argument)
        return latest(run).uri

    async def status(run: CommandRun) -> str:
        await latest(run).update(status=run.argument)
        return latest(run).uri

    async def undraw(run: CommandRun) -> str:
        canvas = latest(run)
        await canvas.close()
        return canvas.uri

    host.register_command("draw", "Draws HTML on this chat", draw, argument_hint="<html>")
    host.register_command("draw-url", "Shows a page of another server", draw_url, argument_hint="<url>")
    host.register_command("redraw", "Draws the last canvas anew", redraw, argument_hint="<html>")
    host.register_command("status", "Says how the last canvas is", status, argument_hint="[words]")
    host.register_command("undraw", "Closes the last canvas", undraw)
