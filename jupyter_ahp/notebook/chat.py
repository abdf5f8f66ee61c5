"""`Chat` as people have it: held by this kernel's server, or by this process where there is none; shown in a notebook, it is
the chat itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..client import chat as client
from ..client import sync
from ..client.discovery import find_server
from ..client.errors import NoServer
from ..client.host import AnyHost, Host
from ..client.progress import in_kernel
from .transcript import transcript

if TYPE_CHECKING:
    from .widget import ChatWidget


CHAT_MIME = "application/vnd.jupyter-ahp.chat+json"
"""Which chat it is: `{"chat": uri, "session": uri, "height": pixels}`. Our JupyterLab extension shows the chat from it
alone, with no kernel and no widget model, so that it outlives both."""


def own_host() -> AnyHost:
    """This kernel's own server, else a host in this process. Raises `NoHost` for a server that cannot be used."""
    try:
        find_server()
    except NoServer:
        from ..inprocess import host_in_process

        host = host_in_process()
        host.say()
        return host
    return Host()


def connect(url: str | None = None, token: str | None = None) -> AnyHost:
    """A host to give to `Chat(host=…)`: the server at `url` (as Jupyter prints it, with or without the token).

    Without a `url`, this kernel's own server, or a host in this process where there is none. Raises `NoHost` when it
    cannot be reached, or does not let us in.
    """
    return own_host() if url is None and token is None else sync.connect(url, token)


class AsyncChat(client.AsyncChat):
    __doc__ = client.AsyncChat.__doc__

    _default_host = staticmethod(own_host)


class Chat(sync.Chat):
    __doc__ = sync.Chat.__doc__

    _default_host = staticmethod(own_host)

    @cached_property
    def widget(self) -> ChatWidget:
        """The chat's widget: one, however often it is shown. `chat.widget.height` is its height in pixels, and that of
        the chat when it is shown from then on.
        """
        from .widget import ChatWidget

        return ChatWidget(self)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Which chat it is for our JupyterLab extension, the widget for other front ends that can run it, and the
        transcript for where none can.
        """
        data: dict[str, Any] = {"text/html": transcript(self)}
        metadata: dict[str, Any] = {}
        if in_kernel():
            shown = {"chat": self.uri, "session": self.session_uri, "height": 400}
            try:
                data, metadata = self.widget._repr_mimebundle_()
                shown["height"] = self.widget.height
            except FileNotFoundError as unbuilt:
                data["text/html"] += f"\n<p><i>{unbuilt}</i></p>"
            data = {**data, CHAT_MIME: shown}
        return {**data, "text/plain": repr(self)}, metadata
