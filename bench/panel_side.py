"""The agent of `bench/panel.py`, a plugin: it answers at once, or streams at the pace that the message names."""

from __future__ import annotations

import asyncio
import time

from jupyter_ahp.agents.base import Agent, Conversation, Probe, Prompt, Start, TurnSink
from jupyter_ahp.plugins import PluginHost

ANSWER = """\
The mean of `rain` is **12.4 mm**; two days are missing.

| day | mm |
|---|---:|
| Monday | 12 |
| Tuesday | 45 |

```python
df = pd.read_csv("rain.csv")
df["mm"].mean()
```
"""
WORDS = [
    "Rain ",
    "**falls** ",
    "where ",
    "`clouds` ",
    "are. ",
    "The ",
    "mean ",
    "is ",
    "12.4.\n\n",
    "- one\n",
    "- two\n\n",
]


class Pacer(Agent):
    provider = "pacer"
    display_name = "Pacer"
    description = "Streams at a pace"

    async def probe(self) -> Probe:
        return Probe(ready=True)

    async def open(self, start: Start) -> Conversation:
        return Paced()


class Paced(Conversation):
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        if not prompt.text.startswith("stream "):
            sink.markdown(ANSWER)
            return
        rate, seconds = map(int, prompt.text.split()[1:])
        began = time.monotonic()
        for index in range(rate * seconds):
            sink.markdown(WORDS[index % len(WORDS)])
            ahead = began + (index + 1) / rate - time.monotonic()
            await asyncio.sleep(max(0, ahead))


def register(host: PluginHost) -> None:
    host.register_agent(Pacer())
