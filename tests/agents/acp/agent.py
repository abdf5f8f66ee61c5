"""An ACP agent on the SDK, as a program of its own: it asks the mock model, and does what that calls.

`python tests/agents/acp/agent.py`, with `MODEL_URL` (an OpenAI-compatible endpoint) and `AGENT_HOME` (where its sessions
are kept) in the environment. `AGENT_WITHOUT` names what it cannot do (`load`, `fork`, `image`, `embedded`, `modes`), `AGENT_LOGIN`
how people are to log in (`terminal`, `agent`, `env`), `AGENT_ENDS` how its turns end.

What the model can call:

| tool | what the agent does |
|---|---|
| `write {"path", "text"}` | asks for permission, then has the client write the file |
| `read {"path"}` | has the client read it |
| `run {"command"}` | asks for permission, then has the client run it in a terminal |
| `plan {"steps": [[text, status], …]}` | tells a plan |
| `ask {"message", "schema"}` | asks the person |
| `switch {"mode"}` | changes its own mode |
| `worker {"prompt", "text", "path"}` | has a worker that says the text and writes the file |
| `later {"text"}` | says that when the turn is over, with a call of a tool |
| `draw {}` | draws a picture: in its answer, and as what the tool made |
| `die {"code"}` | ends |
| `deaf {"seconds"}` | takes in no stop for so long |
| `say {"line", "times"}` | writes a line that is not ACP to its output |
| `spend {"pid_file"}` | starts a process that outlives it, unless somebody ends that |
| `SERVER__NAME {…}` | that tool of an MCP server that it was given |
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from acp import PROTOCOL_VERSION, Client, RequestError, helpers, run_agent
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    AuthEnvVar,
    AuthMethodAgent,
    AvailableCommand,
    AvailableCommandsUpdate,
    Cost,
    CurrentModeUpdate,
    ElicitationFormSessionMode,
    EnvVarAuthMethod,
    ForkSessionResponse,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionForkCapabilities,
    SessionMode,
    SessionModeState,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    TerminalAuthMethod,
    ToolCallLocation,
    Usage,
    UsageUpdate,
)

HOME = Path(os.environ["AGENT_HOME"])
WITHOUT = os.environ.get("AGENT_WITHOUT", "").split()
DOT = "iVBORw0KGgo="
Json = dict[str, Any]


class Session:
    """What was said in it, as the model is told it; kept in a file."""

    def __init__(self, name: str, cwd: str, servers: list[Any]) -> None:
        self.id = name
        self.cwd = cwd
        self.servers = servers
        self.messages: list[Json] = []
        self.mode = "ask"
        self.model = "mock-model"
        self.always: set[str] = set()
        self.cancelled = asyncio.Event()
        self.deaf = False

    @property
    def path(self) -> Path:
        return HOME / f"{self.id}.json"

    def save(self) -> None:
        HOME.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.messages))


class Agent:
    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.client: Client
        self.logged_in = "AGENT_LOGIN" not in os.environ

    def on_connect(self, client: Client) -> None:
        self.client = client

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────
    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        key = AuthEnvVar(name="PUPPET_KEY")
        methods: dict[str | None, list[Any]] = {
            None: [],
            "terminal": [TerminalAuthMethod(id="t", name="Log in", type="terminal", args=["login"])],
            "agent": [AuthMethodAgent(id="a", name="Log in", description="Say `puppet login` first.")],
            "env": [EnvVarAuthMethod(id="e", name="A key", type="env_var", vars=[key])],
        }
        return InitializeResponse(
            protocol_version=int(os.environ.get("AGENT_VERSION", PROTOCOL_VERSION)),
            agent_capabilities=AgentCapabilities(
                load_session="load" not in WITHOUT,
                session_capabilities=SessionCapabilities(
                    fork=SessionForkCapabilities() if "fork" not in WITHOUT else None
                ),
                prompt_capabilities=PromptCapabilities(
                    image="image" not in WITHOUT, embedded_context="embedded" not in WITHOUT
                ),
            ),
            auth_methods=methods[os.environ.get("AGENT_LOGIN")],
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        self.logged_in = True

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> NewSessionResponse:
        if not self.logged_in:
            raise RequestError.auth_required()
        session = Session(uuid.uuid4().hex, cwd, mcp_servers or [])
        self.sessions[session.id] = session
        session.save()
        await self.tell_commands(session)
        return NewSessionResponse(session_id=session.id, **self.offers(session))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> LoadSessionResponse:
        session = Session(session_id, cwd, mcp_servers or [])
        if not session.path.exists():
            raise RequestError.resource_not_found(session_id)
        session.messages = json.loads(session.path.read_text())
        self.sessions[session_id] = session
        for message in session.messages:
            if message["role"] == "assistant" and message["content"]:
                await self.tell(session, helpers.update_agent_message_text(message["content"]))
            elif message["role"] == "user":
                await self.tell(session, helpers.update_user_message_text(str(message["content"])))
        await self.tell_commands(session)
        return LoadSessionResponse(**self.offers(session))

    async def fork_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> ForkSessionResponse:
        session = Session(uuid.uuid4().hex, cwd, mcp_servers or [])
        session.messages = json.loads((HOME / f"{session_id}.json").read_text())
        self.sessions[session.id] = session
        session.save()
        return ForkSessionResponse(session_id=session.id, **self.offers(session))

    def offers(self, session: Session) -> Json:
        if "modes" in WITHOUT:
            return {}
        modes = [SessionMode(id="ask", name="Ask"), SessionMode(id="auto", name="Do not ask")]
        return {
            "modes": SessionModeState(current_mode_id=session.mode, available_modes=modes),
            "config_options": [self.model_option(session)],
        }

    def model_option(self, session: Session) -> SessionConfigOptionSelect:
        names = {"mock-model": "Mock", "other-model": "Other", "no-such-model": "None"}
        return SessionConfigOptionSelect(
            id="which",
            name="Model",
            category="model",
            type="select",
            current_value=session.model,
            options=[SessionConfigSelectOption(value=value, name=name) for value, name in names.items()],
        )

    async def tell(self, session: Session, update: Any) -> None:
        await self.client.session_update(session.id, update)

    async def tell_commands(self, session: Session) -> None:
        commands = [
            AvailableCommand(name=name, description="Says it louder") for name in ("shout", "shout twice")
        ]
        await self.tell(
            session,
            AvailableCommandsUpdate(session_update="available_commands_update", available_commands=commands),
        )

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        session = self.sessions[session_id]
        session.mode = mode_id
        await self.tell(
            session, CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode_id)
        )
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        session = self.sessions[session_id]
        if value == "no-such-model":
            raise RequestError.invalid_params({"details": "there is no such model"})
        session.model = str(value)
        return SetSessionConfigOptionResponse(config_options=[self.model_option(session)])

    async def cancel(self, session_id: str, **_: Any) -> None:
        if not self.sessions[session_id].deaf:
            self.sessions[session_id].cancelled.set()

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────
    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        session = self.sessions[session_id]
        session.cancelled.clear()
        session.messages.append({"role": "user", "content": [told(block) for block in prompt]})
        session.save()
        working = asyncio.create_task(self.work(session))
        stopped = asyncio.create_task(session.cancelled.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if session.cancelled.is_set():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            session.save()
            return PromptResponse(stop_reason="cancelled")
        if working.exception() is not None and session.messages[-1]["role"] == "user":
            session.messages.pop()  # nobody has answered it
        session.save()
        usage = working.result()
        return PromptResponse(
            stop_reason=cast(Any, os.environ.get("AGENT_ENDS", "end_turn")),
            usage=Usage(
                total_tokens=usage["total_tokens"],
                input_tokens=usage["prompt_tokens"],
                output_tokens=usage["completion_tokens"],
            ),
        )

    async def work(self, session: Session) -> Json:
        while True:
            said: Json = {"role": "assistant", "content": ""}
            calls: list[Json] = []
            usage: Json = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
            async for chunk in asked(session):
                usage = chunk.get("usage") or usage
                for choice in chunk.get("choices", ()):
                    await self.take(session, choice["delta"], said, calls)
            session.messages.append({**said, **({"tool_calls": calls} if calls else {})})
            spent = Cost(amount=0.5, currency="USD")
            used = usage["total_tokens"]
            await self.tell(
                session, UsageUpdate(session_update="usage_update", used=used, size=1000, cost=spent)
            )
            if not calls:
                return usage
            for call in calls:
                function = call["function"]
                result = await self.call(
                    session, call["id"], function["name"], json.loads(function["arguments"])
                )
                session.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def take(self, session: Session, delta: Json, said: Json, calls: list[Json]) -> None:
        if text := delta.get("reasoning_content"):
            await self.tell(session, helpers.update_agent_thought_text(text))
        if text := delta.get("content"):
            said["content"] += text
            await self.tell(session, helpers.update_agent_message_text(text))
        for piece in delta.get("tool_calls", ()):
            if "id" in piece:
                function = {"arguments": "", **piece["function"]}
                calls.append({"id": piece["id"], "type": "function", "function": function})
            else:
                calls[-1]["function"]["arguments"] += piece["function"]["arguments"]

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────────
    async def call(self, session: Session, call_id: str, name: str, arguments: Json) -> str:
        work = getattr(self, f"do_{name}", None)
        if work is not None:
            return str(await work(session, call_id, arguments))
        server, _, tool = name.partition("__")
        title = f"mcp__{server}__{tool}"
        await self.begin(session, call_id, title, kind="other", status="pending", raw_input=arguments)
        if os.environ.get("AGENT_ASKS_FOR_MCP") and not await self.may(session, call_id, title, title=title):
            return "The person does not want that."
        text = await asyncio.to_thread(mcp, session.servers, server, tool, arguments)
        await self.change(session, call_id, status="completed")
        return text

    async def begin(self, session: Session, call_id: str, title: str, **shown: Any) -> None:
        await self.tell(session, helpers.start_tool_call(call_id, title, **shown))

    async def change(self, session: Session, call_id: str, **shown: Any) -> None:
        await self.tell(session, helpers.update_tool_call(call_id, **shown))

    async def may(self, session: Session, call_id: str, name: str, **shown: Any) -> bool:
        if session.mode == "auto" or name in session.always:
            return True
        options = [
            PermissionOption(option_id="once", name="Allow", kind="allow_once"),
            PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
            PermissionOption(option_id="no", name="Deny", kind="reject_once"),
        ]
        update = cast(Any, helpers.update_tool_call(call_id, **shown))
        answer = await self.client.request_permission(session.id, update, options)
        if not isinstance(answer.outcome, AllowedOutcome):
            await session.cancelled.wait()  # a turn that waits for a person is only cancelled by a stop
            raise asyncio.CancelledError
        if answer.outcome.option_id == "always":
            session.always.add(name)
        if answer.outcome.option_id == "no":
            await self.change(session, call_id, status="failed")
            return False
        return True

    async def do_write(self, session: Session, call_id: str, arguments: Json) -> str:
        path, text = Path(session.cwd) / arguments["path"], arguments["text"]
        old = path.read_text() if path.exists() else None
        diff = helpers.tool_diff_content(arguments["path"], text, old)  # as claude-agent-acp has it at first
        title, place = f"Write {arguments['path']}", [ToolCallLocation(path=str(path))]
        await self.begin(
            session,
            call_id,
            title,
            kind="edit",
            status="pending",
            raw_input=arguments,
            content=[diff],
            locations=place,
        )
        if not await self.may(session, call_id, "write", title=title):
            return "The person does not want that."
        try:
            await self.client.write_text_file(session.id, str(path), text)
        except RequestError as error:
            await self.change(session, call_id, status="failed", raw_output=str(error.data))
            return f"It failed: {error.data}"
        await self.change(session, call_id, status="completed")
        return "Written."

    async def do_read(self, session: Session, call_id: str, arguments: Json) -> str:
        path = str(Path(session.cwd) / arguments["path"])
        place = [ToolCallLocation(path=path)]
        await self.begin(
            session, call_id, f"Read {arguments['path']}", kind="read", status="in_progress", locations=place
        )
        lines = (arguments.get("line"), arguments.get("limit"))
        try:
            text = (await self.client.read_text_file(session.id, path, *lines)).content
        except RequestError as error:
            await self.change(session, call_id, status="failed", raw_output=f"{error}: {error.data}")
            return f"It failed: {error}: {error.data}"
        content = [helpers.tool_content(helpers.text_block(text))]
        await self.change(session, call_id, status="completed", content=content)
        return text

    async def do_run(self, session: Session, call_id: str, arguments: Json) -> str:
        command = arguments["command"]
        await self.begin(session, call_id, command, kind="execute", status="pending", raw_input=arguments)
        if not await self.may(session, call_id, "run", title=command):
            return "The person does not want that."
        terminal = (await self.client.create_terminal(session.id, command)).terminal_id
        shown = [helpers.tool_terminal_ref(terminal)]
        await self.change(session, call_id, status="in_progress", content=shown)
        try:
            status = await self.client.wait_for_terminal_exit(session.id, terminal)
            output = await self.client.terminal_output(session.id, terminal)
        finally:
            await self.client.release_terminal(session.id, terminal)
        await self.change(session, call_id, status="completed" if status.exit_code == 0 else "failed")
        return f"{output.output}\nexit code {status.exit_code}, signal {status.signal}"

    async def do_plan(self, session: Session, call_id: str, arguments: Json) -> str:
        entries = [helpers.plan_entry(text, status=status) for text, status in arguments["steps"]]
        await self.tell(session, helpers.update_plan(entries))
        return "Planned."

    async def do_ask(self, session: Session, call_id: str, arguments: Json) -> str:
        mode = ElicitationFormSessionMode(session_id=session.id, requested_schema=arguments["schema"])
        answer = await self.client.create_elicitation(arguments["message"], cast(Any, mode))
        return json.dumps(answer.model_dump(exclude_none=True))

    async def do_switch(self, session: Session, call_id: str, arguments: Json) -> str:
        session.mode = arguments["mode"]
        update = CurrentModeUpdate(session_update="current_mode_update", current_mode_id=session.mode)
        await self.tell(session, update)
        return "Switched."

    async def do_worker(self, session: Session, call_id: str, arguments: Json) -> str:
        asked = {"prompt": arguments["prompt"], "description": "Look into it", "subagent_type": "scout"}
        await self.begin(session, call_id, "Task", kind="think", status="pending", raw_input=asked)
        mine = {"claudeCode": {"parentToolUseId": call_id}}
        said = helpers.update_agent_message_text(arguments["text"])
        said.field_meta = mine
        await self.tell(session, said)
        inner = f"{call_id}-inner"
        start = helpers.start_tool_call(
            inner, "Write it", kind="edit", status="pending", raw_input={"path": "it"}
        )
        start.field_meta = mine
        await self.tell(session, start)
        if await self.may(session, inner, "write", title="Write it"):
            (Path(session.cwd) / arguments["path"]).write_text("it")
            await self.change(session, inner, status="completed")
        await self.change(session, call_id, status="completed")
        return "The worker is done."

    async def do_later(self, session: Session, call_id: str, arguments: Json) -> str:
        self.late = asyncio.create_task(self.say_later(session, call_id, arguments["text"]))
        return "Later."

    async def say_later(self, session: Session, call_id: str, text: str) -> None:
        while not (Path(session.cwd) / "go").exists():  # noqa: ASYNC110  (a test makes it, in another process)
            await asyncio.sleep(0.01)
        await self.begin(session, f"{call_id}-late", "Look", kind="other", status="in_progress")
        await self.tell(session, helpers.update_agent_message_text(text))
        await self.change(session, f"{call_id}-late", status="completed")

    async def do_draw(self, session: Session, call_id: str, arguments: Json) -> str:
        picture = helpers.image_block(DOT, "image/png")
        await self.tell(session, helpers.update_agent_message(picture))
        await self.begin(session, call_id, "Draw", kind="other", status="in_progress")
        await self.change(session, call_id, status="completed", content=[helpers.tool_content(picture)])
        return "Drawn."

    async def do_die(self, session: Session, call_id: str, arguments: Json) -> str:
        sys.stderr.write("I cannot go on like this.\n")
        sys.stderr.flush()
        session.messages.pop()  # the call that nobody answers
        session.save()
        os._exit(arguments["code"])

    async def do_deaf(self, session: Session, call_id: str, arguments: Json) -> str:
        session.deaf = True
        await self.begin(session, call_id, "Sleep", kind="other", status="pending", raw_input=arguments)
        (Path(session.cwd) / "deaf").touch()
        await asyncio.sleep(arguments["seconds"])
        return "Slept."

    async def do_say(self, session: Session, call_id: str, arguments: Json) -> str:
        os.set_blocking(1, True)
        view = memoryview((arguments["line"] * arguments.get("times", 1) + "\n").encode())
        while view:
            view = view[os.write(1, view) :]
        os.set_blocking(1, False)
        return "Said."

    async def do_spend(self, session: Session, call_id: str, arguments: Json) -> str:
        sleep = asyncio.create_subprocess_exec(
            "sleep", "1000", start_new_session=True, stdout=subprocess.DEVNULL
        )
        child = await sleep
        (Path(session.cwd) / arguments["pid_file"]).write_text(f"{os.getpid()} {child.pid}")
        return "Started."


def told(block: Any) -> Json:
    """A block of the prompt, as an OpenAI-compatible endpoint takes it."""
    match block.type:
        case "text":
            return {"type": "text", "text": block.text}
        case "image":
            return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
        case "resource":
            return {"type": "text", "text": f"<{block.resource.uri}>{block.resource.text}"}
        case _:
            return {"type": "text", "text": f"<{block.name}: {block.uri}>"}


async def asked(session: Session) -> AsyncIterator[Json]:
    """The chunks of the model's answer. Raises `RequestError`."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Json | RequestError | None] = asyncio.Queue()
    body: Json = {"model": session.model, "messages": session.messages, "stream": True}
    body["stream_options"] = {"include_usage": True}
    url = urlsplit(os.environ["MODEL_URL"])
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    sockets: list[socket.socket] = []

    def ask() -> None:
        end: RequestError | None = None
        try:
            json_type = {"content-type": "application/json"}
            connection.connect()
            sockets.append(connection.sock)
            connection.request("POST", f"{url.path}/chat/completions", json.dumps(body), json_type)
            answer = connection.getresponse()
            if answer.status != 200:
                raise RequestError.internal_error({"details": f"{answer.status}: {answer.read().decode()}"})
            for chunk in events(answer):
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
        except RequestError as error:
            end = error
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            words = f"the model's answer was cut off ({type(error).__name__})"
            end = RequestError.internal_error({"error": {"message": words}})
        loop.call_soon_threadsafe(queue.put_nowait, end)

    threading.Thread(target=ask, daemon=True).start()
    try:
        while (said := await queue.get()) is not None:
            if isinstance(said, RequestError):
                raise said
            yield said
    finally:
        for open_one in sockets:
            with contextlib.suppress(OSError):
                open_one.shutdown(socket.SHUT_RDWR)


def events(answer: http.client.HTTPResponse) -> Iterator[Json]:
    for line in answer:
        if line.strip() == b"data: [DONE]":
            return
        if line.startswith(b"data: "):
            event = json.loads(line[6:])
            if "error" in event:
                raise RequestError.internal_error({"details": event["error"]["message"]})
            yield event
    raise ValueError("the answer has no end")


def mcp(servers: list[Any], name: str, tool: str, arguments: Json) -> str:
    """Start an MCP server, list its tools, call one, end it."""
    server = next(one for one in servers if one.name == name)
    env = {**os.environ, **{variable.name: variable.value for variable in server.env}}
    pipe = subprocess.PIPE
    with subprocess.Popen([server.command, *server.args], stdin=pipe, stdout=pipe, env=env) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def ask(number: int, method: str, params: Json) -> Any:
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            stdin.write(json.dumps(asked).encode() + b"\n")
            stdin.flush()
            for line in stdout:
                message = json.loads(line)
                if message.get("id") == number:
                    return message["result"]
            raise AssertionError("the MCP server ended")

        me = {"name": "puppet", "version": "1"}
        ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": me})
        listed = [one["name"] for one in ask(2, "tools/list", {})["tools"]]
        called = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
        result = ask(3, "tools/call", called)
        stdin.close()
    said = " ".join(part.get("text", f"[{part['type']}]") for part in result["content"])
    return f"{'failed' if result['isError'] else 'done'}: {said} (of {', '.join(listed)})"


if __name__ == "__main__":
    asyncio.run(run_agent(cast(Any, Agent()), use_unstable_protocol=True))
