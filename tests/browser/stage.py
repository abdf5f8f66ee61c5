"""An agent for the tests: `everything` says every kind of part there is, `fail` fails, `ask` waits for people."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_ahp.agents.base import (
    Agent,
    Capabilities,
    Conversation,
    Probe,
    Prompt,
    Start,
    TurnFailed,
    TurnSink,
)
from jupyter_ahp.plugins import PluginHost

ANSWER = """\
## What I found

The mean is **12.4**, see [the guide](https://example.org/guide), `df.mean()` and $\\sigma = 3$.

| day | mm |
|---|---:|
| Monday | 12 |
| Tuesday | 45 |

1. Read the file
2. Plot it

> It rained.

```python
import pandas as pd  # comment
total = sum(df["mm"]) + 1
print(f"{total} mm")
```
"""

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

QUESTIONS: list[dict[str, Any]] = [
    {"id": "name", "kind": "text", "title": "Name", "message": "What it is called", "required": True},
    {"id": "rows", "kind": "integer", "message": "How many rows", "min": 1, "max": 10, "defaultValue": 3},
    {"id": "share", "kind": "number", "message": "Which share"},
    {"id": "sure", "kind": "boolean", "message": "Overwrite what is there"},
    {
        "id": "kind",
        "kind": "single-select",
        "message": "Which plot",
        "allowFreeformInput": True,
        "options": [
            {"id": "line", "label": "Line", "recommended": True, "description": "One line a day"},
            {"id": "bars", "label": "Bars"},
        ],
    },
    {
        "id": "days",
        "kind": "multi-select",
        "message": "Which days",
        "options": [{"id": "mon", "label": "Monday"}, {"id": "tue", "label": "Tuesday"}],
    },
]


class StageAgent(Agent):
    provider = "stage"
    display_name = "Stage"
    description = "Says what it is told to show."
    capabilities = Capabilities(fork=True, rewind=True)

    async def probe(self) -> Probe:
        return Probe(ready=True)

    async def open(self, start: Start) -> Conversation:
        return Stage()


class Stage(Conversation):
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        match prompt.text.split("\n")[0]:
            case "everything":
                everything(sink)
            case "fail":
                sink.markdown("As far as I came.")
                raise TurnFailed("busy", "The model's server is busy.", resumable=True, details="HTTP 503")
            case "ask":
                await ask(sink)
            case _:
                sink.markdown(f"You said: {prompt.text}")


def everything(sink: TurnSink) -> None:
    sink.reasoning("First the file, then the plot.\n\nThe days are in the first column.")
    for name in ("rain.csv", "sun.csv"):
        read = sink.tool("read_file", title=f"Read {name}", intention="See what is in it")
        read.run(f"Reading {name}", tool_input=f'{{"path": "{name}"}}')
        read.done(f"Read {name}, 4 KB", content=[{"type": "text", "text": "day,mm\nMonday,12"}])
    failed = sink.tool("run_command", title="Run pytest")
    failed.run("Running pytest", tool_input="pytest -q")
    failed.failed(
        "pytest failed", error="exit 1", content=[{"type": "text", "text": "\x1b[31mFAILED\x1b[0m test_rain"}]
    )
    plot = sink.tool("plot", title="Plot the rain")
    plot.run("Plotting")
    plot.done("Plotted it", content=[{"type": "embeddedResource", "data": DOT, "contentType": "image/png"}])
    helper = sink.tool("task", title="Look at the sun")
    worker = sink.worker(helper, "Look at sun.csv", title="Sun", agent_name="Helper")
    worker.sink.markdown("It shone.")
    worker.done()
    helper.done("Looked at the sun")
    sink.notice("The conversation was made shorter.")
    sink.markdown(ANSWER)
    sink.usage(input_tokens=1200, output_tokens=340, model="stage-1", meta={"cost": 0.0123})


async def ask(sink: TurnSink) -> None:
    command = sink.tool("run_command", title="Run a command")
    asked = command.confirm(
        "rm -r build",
        title="Run a command?",
        tool_input="rm -r build && echo \u202edone",
        options=[
            {"id": "once", "label": "Allow once", "kind": "approve"},
            {"id": "deny", "label": "Deny", "kind": "deny"},
        ],
    )
    _, answer = await asyncio.gather(asked, sink.ask("Before I plot it", QUESTIONS))
    command.done("Ran it")
    sink.markdown(f"Answered: {answer.response}. " + str(dict(answer.answers)))


def register(host: PluginHost) -> None:
    host.register_agent(StageAgent())
