"""Plugins: what others add to this host. `docs/plugins.md` is the guide.

A plugin is a function that is handed a `PluginHost`, sync or async:

```python
from jupyter_ahp.plugins import CommandRun, PluginHost


def register(host: PluginHost) -> None:
    async def hello(run: CommandRun) -> str:
        canvas = await host.open_canvas(run.chat, title="Hello", html="<h1>Hello</h1>")
        await canvas.update(status="drawn")
        return f"Hello, {run.argument or 'world'}."

    host.register_command("hello", "Says hello, and draws it", hello, argument_hint="[name]")
```

It is named in the configuration (`c.AHPExtension.plugins = ["module:register"]`), or by a package's entry point in the
group `jupyter_ahp.plugins`. One that fails is named in the log, with what it had registered taken out again, and harms
nobody else.
"""

from __future__ import annotations

from jupyter_ahp.host.ports import (
    Canvas,
    CanvasError,
    CommandHandler,
    CommandRun,
    Event,
    EventName,
    GuardedTool,
    Listener,
    ShowHandler,
    ShowRequest,
    Tool,
    ToolResult,
    TurnContext,
    TurnFailed,
    TurnOver,
)

from .host import PluginHost

__all__ = [
    "Canvas",
    "CanvasError",
    "CommandHandler",
    "CommandRun",
    "Event",
    "EventName",
    "GuardedTool",
    "Listener",
    "PluginHost",
    "ShowHandler",
    "ShowRequest",
    "Tool",
    "ToolResult",
    "TurnContext",
    "TurnFailed",
    "TurnOver",
]
