"""An agent as another package would bring it: it does what the lines of the message tell it.

| line | what it does |
|---|---|
| `say some words` | answers them, a word at a time |
| `think some words` | reasons them |
| `tokens 12 34` | reports its use of tokens |
| `slowly 20` | answers so many pieces, a fiftieth of a second apart |
| `tool name` | calls a tool that nobody need confirm |
| `confirm name` | calls one that a person confirms, with options |
| `write name words` | writes a file into the chat's directory, and shows that as an edit |
| `ask` | asks a question with two options, and says the answer |
| `listen` | waits for a steering message, reads it and says it |
| `deaf 0.5` | takes steering and reads none for so many seconds, then ends |
| `late name` | calls a tool that ends only when the turn was stopped |
| `delegate call line; line` | has a worker do these lines, as that tool call |
| `launch call line; line` | the same in the background; when it is through, the agent comes back in a turn of its own |
| `fail words` | fails for good; `stumble words` fails so that it can be resumed |
| `lives` | says how many conversations were opened for this chat in this server |
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

from jupyter_ahp.agents.base import (
    Agent,
    Capabilities,
    Command,
    Conversation,
    Model,
    Probe,
    Prompt,
    Start,
    Steering,
    TurnFailed,
    TurnSink,
)

QUESTION = {
    "kind": "single-select",
    "id": "colour",
    "message": "Which colour?",
    "required": True,
    "options": [{"id": "red", "label": "Red"}, {"id": "blue", "label": "Blue"}],
}
OPTIONS = [
    {"id": "once", "label": "Allow once", "kind": "approve"},
    {"id": "never", "label": "Never", "kind": "deny"},
]


class Puppet(Agent):
    provider = "puppet"
    display_name = "Puppet"
    description = "Does what the message says"
    capabilities = Capabilities(fork=True, steering=True)

    def __init__(self) -> None:
        self.lives: Counter[str] = Counter()

    async def probe(self) -> Probe:
        return Probe(ready=True, models=[Model("small", "Small"), Model("large", "Large")])

    def config_schema(self, values: object) -> dict[str, object]:
        mood = {
            "type": "string",
            "title": "Mood",
            "enum": ["good", "bad"],
            "default": "good",
            "sessionMutable": True,
        }
        return {"type": "object", "properties": {"mood": mood}}

    async def commands(self, directories: object, config: object) -> list[Command]:
        return [Command("plot", "Draws a plot", "[column]"), Command("plan", "Makes a plan")]

    async def open(self, start: Start) -> Conversation:
        self.lives[start.chat] += 1
        return Strings(self, start)


class Strings(Conversation):
    def __init__(self, agent: Puppet, start: Start) -> None:
        self._agent = agent
        self._chat = start.chat
        self._directories = start.directories
        self._takes = False
        self._steered: asyncio.Queue[Steering] = asyncio.Queue()
        self._host = start.host
        self._behind: set[asyncio.Task[None]] = set()

    async def steer(self, message: Steering) -> bool:
        if self._takes:
            self._steered.put_nowait(message)
        return self._takes

    async def send(self, prompt: Prompt, sink: TurnSink) -> None:
        if prompt.resumed:
            sink.markdown("and on it goes")
            return
        await self._play(sink, prompt.text.splitlines())

    async def close(self) -> None:
        for task in self._behind:
            task.cancel()

    async def _play(self, sink: TurnSink, lines: list[str]) -> None:
        for line in lines:
            word, _, rest = line.partition(" ")
            do = getattr(self, f"_{word}", None)
            if do is not None:
                await do(sink, rest)
            await asyncio.sleep(0)

    async def _delegate(self, sink: TurnSink, rest: str) -> None:
        name, script = rest.split(maxsplit=1)
        call = sink.tool("delegate", title="Delegate", call_id=name)
        call.run("Delegating", tool_input=script)
        worker = sink.worker(call, script, title=f"Scout {name}", agent_name="scout")
        await self._play(worker.sink, script.split("; "))
        worker.done()
        call.done("Delegated")

    async def _launch(self, sink: TurnSink, rest: str) -> None:
        name, script = rest.split(maxsplit=1)
        call = sink.tool("delegate", title="Delegate", call_id=name)
        call.run("Launching", tool_input=script)

        async def stop() -> None:
            task.cancel()

        worker = sink.worker(call, script, title=f"Scout {name}", background=True, stop=stop)

        async def work() -> None:
            await self._play(worker.sink, script.split("; "))
            worker.done()
            self._host.late_turn(f"Scout {name} is back", lambda sink: self._say(sink, "so it is"))

        task = asyncio.create_task(work())
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        call.done("Launched")

    async def _say(self, sink: TurnSink, rest: str) -> None:
        for word in re.findall(r"\S+\s*", rest):
            sink.markdown(word)

    async def _think(self, sink: TurnSink, rest: str) -> None:
        sink.reasoning(rest)

    async def _tokens(self, sink: TurnSink, rest: str) -> None:
        told, said = rest.split()
        sink.usage(input_tokens=int(told), output_tokens=int(said), model="small")

    async def _slowly(self, sink: TurnSink, rest: str) -> None:
        for number in range(int(rest)):
            sink.markdown(f"{number} ")
            await asyncio.sleep(0.02)

    async def _tool(self, sink: TurnSink, rest: str) -> None:
        call = sink.tool(rest, title=rest.title(), meta={"toolKind": "search"})
        call.input('{"for": ')
        call.input('"a word"}')
        call.run("Looking", tool_input='{"for": "a word"}')
        call.done("Looked", content=[{"type": "text", "text": "found"}])

    async def _write(self, sink: TurnSink, rest: str) -> None:
        name, words = rest.split(maxsplit=1)
        path = Path(self._directories[0]) / name
        before = path.with_suffix(".before")
        before.write_bytes(path.read_bytes())
        path.write_text(words)
        edit = {
            "type": "fileEdit",
            "before": {"uri": path.as_uri(), "content": {"uri": before.as_uri()}},
            "after": {"uri": path.as_uri(), "content": {"uri": path.as_uri()}},
            "diff": {"added": 1, "removed": 1},
        }
        call = sink.tool("write", title="Write")
        call.run(f"Writing {name}")
        call.done(f"Wrote {name}", content=[edit])

    async def _confirm(self, sink: TurnSink, rest: str) -> None:
        call = sink.tool(rest, title=rest.title())
        answer = await call.confirm("Run it", title="May it?", tool_input='{"n": 1}', options=OPTIONS)
        if answer.approved:
            call.done("Ran it", content=[{"type": "text", "text": f"by {answer.option}"}])
        sink.markdown(f"approved {answer.approved}")

    async def _ask(self, sink: TurnSink, rest: str) -> None:
        answer = await sink.ask("Something to choose", [QUESTION])
        chosen = answer.answers.get("colour", {}).get("value", {}).get("value")
        sink.markdown(f"{answer.response} {chosen}")

    async def _listen(self, sink: TurnSink, rest: str) -> None:
        self._takes = True
        sink.markdown("listening ")
        try:
            message = await self._steered.get()
        finally:
            self._takes = False
        sink.steering_read(message.id)
        sink.markdown(f"heard {message.text}")

    async def _deaf(self, sink: TurnSink, rest: str) -> None:
        self._takes = True
        sink.markdown("deaf ")
        try:
            await asyncio.sleep(float(rest))
        finally:
            self._takes = False

    async def _late(self, sink: TurnSink, rest: str) -> None:
        call = sink.tool(rest, title=rest.title())
        call.run("Working")
        try:
            await asyncio.Event().wait()
        finally:
            call.done("Worked, too late", content=[{"type": "text", "text": "too late"}])
            sink.markdown("too late")

    async def _fail(self, sink: TurnSink, rest: str) -> None:
        raise TurnFailed("broken", rest)

    async def _stumble(self, sink: TurnSink, rest: str) -> None:
        raise TurnFailed("stumbled", rest, resumable=True)

    async def _lives(self, sink: TurnSink, rest: str) -> None:
        sink.markdown(f"life {self._agent.lives[self._chat]}")
