"""AI agents where data work happens: chats with them, from Python and in a notebook.

```python
from jupyter_ahp import Chat

chat = Chat()
chat.send("What is a p-value?")
```

Importing this imports nothing heavy: each name is looked up when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .client.attach import Data, Text
    from .client.errors import BadAnswer, NeedsApproval, NoHost, Refused, TurnFailed
    from .client.model import Turn
    from .notebook.cells import Cell, last_error
    from .notebook.chat import AsyncChat, Chat, connect
    from .notebook.widget import ChatWidget

__all__ = [
    "AsyncChat",
    "BadAnswer",
    "Cell",
    "Chat",
    "ChatWidget",
    "Data",
    "NeedsApproval",
    "NoHost",
    "Refused",
    "Text",
    "Turn",
    "TurnFailed",
    "__version__",
    "connect",
    "last_error",
]

_HOMES = {
    "AsyncChat": "notebook.chat",
    "BadAnswer": "client.errors",
    "Cell": "notebook.cells",
    "Chat": "notebook.chat",
    "ChatWidget": "notebook.widget",
    "Data": "client.attach",
    "NeedsApproval": "client.errors",
    "NoHost": "client.errors",
    "Refused": "client.errors",
    "Text": "client.attach",
    "Turn": "client.model",
    "TurnFailed": "client.errors",
    "connect": "notebook.chat",
    "last_error": "notebook.cells",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext jupyter_ahp`: the magics `%chat` and `%%chat`."""
    from .notebook.magics import load

    load(ipython)


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Jupyter Server asks for this when the extension is enabled."""
    from .app import AHPExtension

    return [{"module": "jupyter_ahp.app", "app": AHPExtension}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """JupyterLab asks for this to develop the extension in place."""
    return [{"src": "labextension", "dest": "jupyter-ahp"}]
