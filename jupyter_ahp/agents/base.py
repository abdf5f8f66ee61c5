"""What the author of an agent needs: the whole contract between this host and a backend.

An agent is a backend that people pick by name. It is found by the entry point group `jupyter_ahp.agents` (the name of
the entry point is the provider; its value is a subclass of `Agent` that takes no arguments, or a function that returns
an agent), or registered by a plugin.

```python
from jupyter_ahp.agents.base import Agent, Conversation, Probe, Prompt, Start, TurnFailed, TurnSink


class Parrot(Agent):
    provider = "parrot"
    display_name = "Parrot"
    description = "Says the last word again"

    async def probe(self) -> Probe:
        return Probe(ready=True)

    async def open(self, start: Start) -> Conversation:
        return Echoing()


class Echoing(Conversation):
    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        if not prompt.text:
            raise TurnFailed("empty", "There is nothing to say again. Write something.")
        sink.markdown(prompt.text.split()[-1])
```

What the host does for you, so that you need not:

- One turn at a time: `send` is called again only when it has returned (B1).
- Returning from `send` ends the turn well. Raising `TurnFailed` ends it with your words, and offers to go on where
  `resumable` says so. Any other exception is a bug of the agent: it is logged, and the person is told so.
- A stop ends the turn for everyone at once and cancels the task of `send`. Let `asyncio.CancelledError` through;
  close what you hold in `finally`. Have a softer way to interrupt? Override `Conversation.stop`.
- Nothing that you report after the end of a turn reaches anybody (T5): you need not check.
- The sink opens a part before it streams into it, and closes what is open when the turn ends. A wrong sequence of
  actions cannot be written.

What you do:

- `probe` is quick and never raises. Not usable here and now? Say in `reason` what is missing and in `fix` what to do.
- Do not block the event loop: import heavy modules at the first use, in a thread.
- A conversation that its backend keeps by itself says in `memory` what it needs to go on after a restart, and is
  handed it back in `Start.memory`. One that is told everything each turn builds it from `Prompt.history`.
- One with such a memory says where each turn ended with `sink.resume_point`, in words of its own, and says in its
  capabilities what it can do with that: `fork` (begin a copy of another chat's conversation there) and `rewind` (go on
  there with its own). `Start.at` and `Start.fork` ask for it.
- A session's settings (`config_schema`) are in `Prompt.config` on each turn; `Conversation.configure` is told of a change at
  once, and `Start.host.configured` tells of one that the backend made by itself.
- It may also `delete` conversations, list those that other programs made (`catalogue`) and read them back (`transcript`).
- `Prompt.blocks` is what the message's attachments became: text, an image, or a path. Say what you could not show.
  `blocks_of(turn["message"])` gives the same for an earlier turn; it reads files: call it in a thread.
- What the host has to say on a turn is in `Prompt.prefaces`, for the model alone (B3).
- A message for the turn that runs comes by `Conversation.steer`, if your capabilities say `steering`. Say
  `sink.steering_read` at the moment the model is told it; one that you did not get to is the host's again when the turn
  ends. In later turns it is a notice in `Prompt.history`: `steering_of(part)` gives the message.
- Is `Capabilities.tools` set? Show `Prompt.tools` to the model. A call is begun by `sink.tool(tool.name,
  title=tool.title, contributor=tool.contributor)`, and `await tool.call(call, arguments)` does the rest: it asks people
  where it has to, and says how it went. Its result is for the model; a denial and a failure are results too.
  A tool of the agent's own is a `GuardedTool` made with `Prompt.approvals`: its `run` does the work, and it asks as all
  others do; its `preview` says what files it is about to change.
- What your agent has others do, report on a worker's sink: `sink.worker(call, prompt, title=...)` opens a chat for it under
  the call, and you end both, the worker and the call. Say `background=True` for one that outlives its turn, and `stop=` if
  you can end it alone.
- A turn that your backend began by itself, such as when a background worker comes back, or steering that it ran late,
  is opened by `Start.host.late_turn`: give it what reports the turn, and do not wait for it in `Conversation.stop`.
- An agent that has other agents of the host work for it is given `Works` by `Agent.attach`: sessions that nobody else
  reaches (`jupyter_ahp/agents/bot` is one).
- `usage` is what the backend reported, never an estimate.
"""

from __future__ import annotations

from jupyter_ahp.host.attachments import blocks_of
from jupyter_ahp.host.ports import (
    RESUME_POINT,
    Agent,
    Answer,
    Approvals,
    Block,
    Capabilities,
    Command,
    Confirmation,
    Conversation,
    ConversationHost,
    Effects,
    Found,
    GuardedTool,
    Heard,
    ImageBlock,
    Job,
    Json,
    Model,
    PathBlock,
    Probe,
    Prompt,
    Start,
    Steering,
    SteeringRefused,
    TextBlock,
    Tool,
    ToolCall,
    ToolResult,
    TurnFailed,
    TurnOver,
    TurnSink,
    Worker,
    WorkingSession,
    Works,
)
from jupyter_ahp.protocol.meta import steering_of

__all__ = [
    "RESUME_POINT",
    "Agent",
    "Answer",
    "Approvals",
    "Block",
    "Capabilities",
    "Command",
    "Confirmation",
    "Conversation",
    "ConversationHost",
    "Effects",
    "Found",
    "GuardedTool",
    "Heard",
    "ImageBlock",
    "Job",
    "Json",
    "Model",
    "PathBlock",
    "Probe",
    "Prompt",
    "Start",
    "Steering",
    "SteeringRefused",
    "TextBlock",
    "Tool",
    "ToolCall",
    "ToolResult",
    "TurnFailed",
    "TurnOver",
    "TurnSink",
    "Worker",
    "WorkingSession",
    "Works",
    "blocks_of",
    "steering_of",
]
