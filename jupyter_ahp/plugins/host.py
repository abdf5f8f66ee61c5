"""`PluginHost`: what one plugin registers, and how all of it is taken out again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from jupyter_ahp.host.ports import (
    Agent,
    Canvas,
    Command,
    CommandHandler,
    Effects,
    EventName,
    Extensible,
    Listener,
    ShowHandler,
    Tool,
    Undo,
)

from .functions import tools_of

_PATIENCE = 5.0  # seconds to take out one thing


class PluginHost:
    """The host, in the hands of one plugin. All of it belongs to the server's event loop.

    What cannot be taken raises `ValueError` with words: an agent or a command of a name that is taken, an event that there
    is not.
    """

    def __init__(self, name: str, host: Extensible, log: logging.Logger) -> None:
        self.name = name
        """The plugin's: of its entry point, or of its module."""
        self.log = log.getChild(f"plugins.{name}")
        self._host = host
        self._undo: list[Undo] = []
        self._canvases: list[Canvas] = []
        self._closed = False

    def register_agent(self, agent: Agent) -> None:
        """Offer a backend. See `jupyter_ahp.agents.base`."""
        self._keep(self._host.add_agent(agent))

    def register_tool(
        self,
        tool: Tool | Callable[..., Any],
        *,
        effects: Effects = "run",
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> None:
        """Offer a tool to every agent that takes tools, from its next turn on.

        `tool` is a `Tool`, or a typed function: a model is told its name, its docstring and its parameters, whose types are
        JSON's, `Literal`, enums, dataclasses, and lists and dicts of them (`Annotated[str, msgspec.Meta(description=…)]`
        says more of one). A parameter of type `TurnContext` is not the model's: it says where the tool is called. What the
        function returns, a text, something that is JSON or a `ToolResult`, is what the model is told; so are the words of
        what it raises. `effects` says what a call does to the world: `none` and `read` run without asking, `write` and
        `run` ask a person first.
        """
        if isinstance(tool, Tool):
            self._keep(self._host.add_tools(lambda context: [tool]))
            return
        factory = tools_of(tool, effects=effects, name=name, title=title, description=description)
        self._keep(self._host.add_tools(factory))

    def register_command(
        self, name: str, description: str, handler: CommandHandler, *, argument_hint: str = ""
    ) -> None:
        """Offer `/name` in every chat, and answer the messages that begin with it.

        Such a message is a turn of its own, which the chat's agent is never sent. `argument_hint` says what may stand
        behind the name ("[path]").
        """
        self._keep(self._host.add_command(self.name, Command(name, description, argument_hint), handler))

    def register_show(self, handler: ShowHandler) -> None:
        """Show what `chat.show(…)` in Python asks for. One plugin does: the built-in `preview`, unless it is left out."""
        self._keep(self._host.add_show(self.name, handler))

    def on(self, event: EventName, handler: Listener) -> None:
        """Have `handler` told of every `event`, in order, one after the other: see `Event`."""
        self._keep(self._host.listen(self.name, event, handler))

    async def open_canvas(
        self,
        chat_uri: str,
        *,
        title: str,
        html: str | None = None,
        url: str | None = None,
        port: int | None = None,
        path: str = "/",
        status: str | None = None,
        canvas_id: str = "page",
    ) -> Canvas:
        """Open a page on a chat: of `html`, of what is at a `url`, or of the web app on a `port` of this machine.

        HTML is shown apart from everything else: it has scripts, and holds all that it shows; it can reach neither this
        server nor any other. A `url` is http(s), or a path of this server (`/proxy/8050/`), which each client is given as
        it reaches the server. An app on a `port`, opened at `path`, goes through jupyter-server-proxy, which has to be
        installed: wherever it is looked at, it reaches itself alone. `canvas_id` says what kind of page of the plugin's it is.

        Raises `CanvasError`, with words: the chat is not here, or what is to be shown cannot be.
        """
        if self._closed:
            raise RuntimeError(f"The plugin {self.name} was taken out: it opens no canvas any more.")
        canvas = await self._host.open_canvas(
            self.name,
            chat_uri,
            title=title,
            html=html,
            url=url,
            port=port,
            path=path,
            status=status,
            canvas_id=canvas_id,
        )
        self._canvases = [*(other for other in self._canvases if other.open), canvas]
        return canvas

    def _keep(self, undo: Undo) -> None:
        self._undo.append(undo)

    async def unregister(self) -> None:
        """Take out all that it registered, the last first, and close its canvases. Raises nothing."""
        self._closed = True
        undone: list[Undo] = [canvas.close for canvas in self._canvases]
        undone += reversed(self._undo)
        self._undo, self._canvases = [], []
        for undo in undone:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await undo()
            except Exception:
                self.log.exception("Something of the plugin %s was not taken out", self.name)
