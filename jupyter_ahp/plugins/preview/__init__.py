"""Shows files, values and running web apps beside a chat: `/preview`, the tool `show_preview`, and `chat.show` in Python.

A page that is drawn holds all that it shows, since a canvas reaches nobody: pictures of a Markdown file are put into it.
Only files in the directories that the chat works in are shown, links resolved.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jupyter_ahp.plugins import (
    Canvas,
    CanvasError,
    CommandRun,
    PluginHost,
    ShowRequest,
    ToolResult,
    TurnContext,
    TurnFailed,
)

from .files import Unshown, find, page_of_file
from .pages import page_of_html, page_of_markdown

# A port, or an address on this machine; `2024/sales.csv` is a file.
_LOCAL: Final = re.compile(
    r"(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\]):(?P<of>\d{1,5})(?P<path>/\S*)?|:?(?P<port>\d{1,5})"
)
_FOR_MODELS: Final = (
    "Show the person something beside the chat: a file, by its path (HTML, Markdown, a picture, CSV or text), or a web app "
    "that runs on this machine, by its port. Give one of the two. An HTML file is shown without any network: it has to hold "
    "its scripts, styles and data. Showing the same again draws it anew."
)
_KNOCK = 2.0  # seconds that an app has to answer


def register(host: PluginHost) -> None:
    """Offer all of it to this host."""
    preview = Preview(host)
    host.register_command(
        "preview", "Shows a file or a running web app", preview.command, argument_hint="<path or port>"
    )
    host.register_tool(preview.show_preview, effects="read", title="Show a preview", description=_FOR_MODELS)
    host.register_show(preview.shown)


@dataclass(frozen=True, slots=True)
class _Page:
    """What a canvas shows: `html`, what is at `url`, or the app on `port`, opened at `path`."""

    title: str
    html: str | None = None
    url: str | None = None
    port: int | None = None
    path: str = "/"

    @property
    def what(self) -> dict[str, Any]:
        """For a canvas."""
        return {"html": self.html, "url": self.url, "port": self.port, "path": self.path}


class Preview:
    """What is shown where: a thing that is shown again is drawn anew in the canvas that it has."""

    def __init__(self, host: PluginHost) -> None:
        self._host = host
        self._canvases: dict[tuple[str, str], Canvas] = {}
        """By chat, and by what is shown."""

    # ── who asks for it ──────────────────────────────────────────────────────────────────────────────────────
    async def command(self, run: CommandRun) -> str:
        """`/preview <path or port>`"""
        asked = run.argument.strip("\"'`")
        if not asked:
            raise TurnFailed("previewFailed", "Say what to show: /preview <path or port>.")
        try:
            page = await self._look_at(asked, run.directories)
            await self._draw(run.chat, asked, page)
        except (Unshown, CanvasError) as error:
            raise TurnFailed("previewFailed", str(error)) from error
        return f"Shown: {page.title}"

    async def show_preview(
        self, turn: TurnContext, path: str | None = None, port: int | None = None, title: str | None = None
    ) -> ToolResult:
        """What a model calls: see `_FOR_MODELS`."""
        if (path is None) == (port is None):
            return ToolResult("Give either a path or a port.", failed=True)
        asked = path if path is not None else str(port)
        try:
            page = await self._look_at(asked, turn.directories, is_path=path is not None)
            await self._draw(turn.chat, asked, page, title)
        except (Unshown, CanvasError) as error:
            return ToolResult(str(error), failed=True)
        return ToolResult(f"The person sees {page.title} now.", message=f"Showed {title or page.title}")

    async def shown(self, request: ShowRequest) -> Canvas:
        """`chat.show(…)`"""
        held = self._held(request)
        if request.html is not None:
            page = _Page("Value", html=page_of_html(request.html))
        elif request.markdown is not None:
            page = _Page("Text", html=await asyncio.to_thread(page_of_markdown, request.markdown))
        elif request.path is not None or request.port is not None:
            asked = request.path if request.path is not None else str(request.port)
            try:
                page = await self._look_at(asked, request.directories, is_path=request.path is not None)
            except Unshown as error:
                raise CanvasError(str(error)) from error
        else:
            assert held is not None, "asked for with a canvas or something to show"
            await held.close()
            return held
        title = request.title or page.title
        if held is None:
            return await self._open(request.chat, title, page, request.key and f"key {request.key}")
        await held.update(title=request.title or None, **page.what)
        return held

    def _held(self, request: ShowRequest) -> Canvas | None:
        """The canvas that is meant. Raises `CanvasError`: there is none of ours of that name on this chat."""
        if request.canvas is None:
            made = self._canvases.get((request.chat, f"key {request.key}"))
            return made if made is not None and made.open else None
        for (chat, _), canvas in self._canvases.items():
            if canvas.uri == request.canvas and chat == request.chat and canvas.open:
                return canvas
        raise CanvasError(f"Canvas is no longer available: {request.canvas}")

    # ── what is shown ────────────────────────────────────────────────────────────────────────────────────────
    async def _look_at(self, asked: str, directories: Sequence[str], *, is_path: bool = False) -> _Page:
        """Raises `Unshown`."""
        local = None if is_path else _LOCAL.fullmatch(asked)
        if local is not None:
            return await _app(int(local["of"] or local["port"]), local["path"] or "/")

        def look() -> _Page:
            path = find(asked, directories)
            return _Page(path.name, html=page_of_file(path, directories))

        return await asyncio.to_thread(look)

    async def _draw(self, chat: str, asked: str, page: _Page, title: str | None = None) -> None:
        held = self._canvases.get((chat, asked))
        if held is not None and held.open:
            await held.update(title=title, **page.what)
        else:
            await self._open(chat, title or page.title, page, asked)

    async def _open(self, chat: str, title: str, page: _Page, asked: str | None = None) -> Canvas:
        canvas = await self._host.open_canvas(chat, title=title, **page.what, canvas_id="preview")
        self._canvases = {key: held for key, held in self._canvases.items() if held.open}
        self._canvases[chat, asked or canvas.uri] = canvas
        return canvas


async def _app(port: int, page: str) -> _Page:
    """A web app on this machine. Raises `Unshown`."""
    if not 0 < port < 65536:
        raise Unshown(f"{port} is no port.")
    try:
        async with asyncio.timeout(_KNOCK):
            _, writer = await asyncio.open_connection("localhost", port)
        writer.close()
    except (OSError, TimeoutError) as error:
        raise Unshown(f"Nothing answers on port {port} of this machine. Start the app first.") from error
    if importlib.util.find_spec("jupyter_server_proxy") is not None:
        return _Page(f"Port {port}", port=port, path=page)
    return _Page(f"Port {port}", url=f"http://localhost:{port}{page}")
