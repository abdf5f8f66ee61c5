"""Tools: what a turn offers, the host's own, what asks first, and what that is remembered for (A7 to A9, T8, AHP 4.5)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from jupyter_ahp.host.grants import Grants
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.hosttools import PAGE
from jupyter_ahp.host.ports import (
    Effects,
    GuardedTool,
    ImageBlock,
    Json,
    Principal,
    Prompt,
    Tool,
    ToolCall,
    ToolResult,
    TurnContext,
    TurnOver,
    TurnSink,
)
from jupyter_ahp.host.ports.guarded import LARGEST_IMAGE, LONGEST_TEXT
from jupyter_ahp.store.files import FileStore
from tests.host.harness import (
    ROOT,
    TOOLS,
    Scripted,
    WireClient,
    agree,
    answer_of,
    quiet,
    started,
    until,
    use,
    using,
)

S = "ahp-session:/s"
T = "ahp-session:/t"
OTHER = "ahp-chat:/other"
ADD: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class Add(GuardedTool):
    """Adds, where it is let."""

    name = "add"
    title = "Add two numbers"
    description = "Adds."
    parameters = ADD

    def __init__(self, context: TurnContext, effects: Effects = "run") -> None:
        super().__init__(context.approvals)
        self.effects = effects
        self.context = context

    def doing(self, arguments: Mapping[str, Any]) -> str:
        return f"Add {arguments['a']} and {arguments['b']}"

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        if arguments["a"] < 0:
            raise ValueError("It takes no negative numbers.")
        total = arguments["a"] + arguments["b"]
        return ToolResult(str(total), message=f"Added up to {total}", structured={"total": total})


@pytest.fixture
def agent() -> Scripted:
    agent = Scripted()
    agent.capabilities = TOOLS
    agent.play = using("add", {"a": 2, "b": 3})
    return agent


def offer(host: Host, effects: Effects = "run") -> None:
    host.tools.register(lambda context: [Add(context, effects)])


@pytest.fixture
async def chat(host: Host, client: WireClient, other: WireClient) -> str:
    """A chat that two clients watch, with a plugin's tool that asks."""
    offer(host)
    chat = await client.create(S)
    await other.subscribe(S)
    await other.subscribe(chat)
    return chat


def told(client: WireClient, chat: str) -> str:
    """What the model of the last turn was told, which the script says again."""
    return answer_of(client.state(chat)["turns"][-1])


async def ends(client: WireClient, chat: str) -> None:
    await until(lambda: not client.running(chat))


# ── What is offered ──────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_turn_offers_the_hosts_tools_then_a_plugins_to_agents_that_take_tools(
    host: Host, agent: Scripted, client: WireClient, chat: str
) -> None:
    agent.play = lambda prompt, sink: asyncio.sleep(0)
    await client.say(chat, "hi")
    assert [tool.name for tool in agent.prompts[0].tools] == ["get_session_context", "rename_chat", "add"]

    agent.capabilities = Scripted.capabilities
    await client.say(chat, "hi")
    assert agent.prompts[1].tools == ()


async def test_a_plugins_tools_are_made_for_their_turn_and_can_be_taken_out(
    host: Host, agent: Scripted, client: WireClient
) -> None:
    agent.play = lambda prompt, sink: asyncio.sleep(0)
    seen: list[TurnContext] = []

    def factory(context: TurnContext) -> Sequence[Tool]:
        seen.append(context)
        return [Add(context)]

    take_out = host.tools.register(factory)
    chat = await client.create(S, workingDirectories=["file:///data"])
    turn = await client.say(chat, "hi")
    [context] = seen
    assert (context.chat, context.turn_id, context.session_id) == (chat, turn["id"], "s")
    assert (context.sender, context.directories) == ("user:alice", ["/data"])

    take_out()
    await client.say(chat, "hi")
    assert len(seen) == 1
    assert "add" not in [tool.name for tool in agent.prompts[-1].tools]


async def test_a_name_that_is_taken_or_that_no_model_takes_is_left_out(
    host: Host, agent: Scripted, client: WireClient, chat: str, caplog: pytest.LogCaptureFixture
) -> None:
    def another(context: TurnContext) -> Sequence[Tool]:
        taken, odd, new = Add(context), Add(context), Add(context)
        taken.name, odd.name, new.name = "rename_chat", "add up!", "sum"
        return [taken, odd, Add(context), new]

    host.tools.register(another)
    host.tools.register(lambda context: [1 / 0])  # type: ignore[list-item]
    agent.play = lambda prompt, sink: asyncio.sleep(0)
    with caplog.at_level(logging.INFO):
        await client.say(chat, "hi")
    names = [tool.name for tool in agent.prompts[0].tools]
    assert names == ["get_session_context", "rename_chat", "add", "sum"]
    assert agent.prompts[0].tools[1].title == "Rename this chat", "the host's wins"
    for words in ("called rename_chat", "'add up!'", "called add", "tools of a plugin are missing"):
        assert words in caplog.text


class Nameless(Tool):
    """As somebody may write one who read half of what there is to read."""

    async def call(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult("")


async def test_what_is_no_whole_tool_costs_itself_alone(
    host: Host, agent: Scripted, client: WireClient, chat: str, caplog: pytest.LogCaptureFixture
) -> None:
    def some(context: TurnContext) -> Sequence[Any]:
        untold, shapeless, odd, whole = Add(context), Add(context), Add(context), Add(context)
        untold.description, shapeless.parameters = None, []  # type: ignore[assignment]
        odd.effects, whole.name = "delete", "sum"  # type: ignore[assignment]
        return [Nameless(), "a tool", untold, shapeless, odd, whole]

    host.tools.register(some)
    agent.play = lambda prompt, sink: asyncio.sleep(0)
    turn = await client.say(chat, "hi")

    assert turn["state"] == "complete"
    assert [tool.name for tool in agent.prompts[0].tools][2:] == ["add", "sum"]
    assert caplog.text.count("is left out") == 5


# ── How a call goes ──────────────────────────────────────────────────────────────────────────────────────────────
async def test_what_reads_runs_at_once_and_says_how_it_went(
    host: Host, agent: Scripted, client: WireClient, other: WireClient
) -> None:
    offer(host, "read")
    chat = await client.create(S)
    await client.say(chat, "add")
    [call] = client.calls(chat)
    assert (call["toolName"], call["displayName"], call["status"]) == ("add", "Add two numbers", "completed")
    assert call["confirmed"] == "not-needed"
    assert json.loads(call["toolInput"]) == {"a": 2, "b": 3}
    assert (call["invocationMessage"], call["pastTenseMessage"]) == ("Add 2 and 3", "Added up to 5")
    assert call["content"] == [{"type": "text", "text": "5"}]
    assert call["structuredContent"] == {"total": 5}
    assert "contributor" not in call
    assert told(client, chat) == "5"
    await agree(host, client)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"a": 1}, "'b' is a required property"),
        ({"a": 1, "b": "two"}, "arguments.b: 'two' is not of type 'integer'"),
        ({"a": 1, "b": 2, "c": 3}, "'c' was unexpected"),
        ({}, "'a' is a required property"),
    ],
)
async def test_arguments_that_do_not_fit_are_a_failed_result_and_nobody_is_asked(
    agent: Scripted, client: WireClient, chat: str, arguments: Json, words: str
) -> None:
    agent.play = using("add", arguments)
    turn = await client.say(chat, "add")
    assert turn["state"] == "complete"
    [call] = client.calls(chat)
    assert (call["status"], call["success"]) == ("completed", False)
    assert words in call["error"]["message"]
    assert words in told(client, chat)
    assert told(client, chat).startswith("Not done: ")


async def test_what_a_tool_raises_is_a_failed_result_in_its_words(
    agent: Scripted, client: WireClient, chat: str
) -> None:
    agent.play = using("add", {"a": -1, "b": 1})
    await client.start(chat, "add")
    await client.call_in(chat, "pending-confirmation")
    await client.of_call(chat, "chat/toolCallConfirmed", approved=True, confirmed="user-action")
    await ends(client, chat)
    [call] = client.calls(chat)
    assert (call["success"], call["pastTenseMessage"]) == (False, "Add two numbers: failed")
    assert told(client, chat) == "It failed. It takes no negative numbers."


async def test_a_schema_that_is_none_costs_its_check_and_not_the_tool(
    host: Host, agent: Scripted, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(context: TurnContext) -> Sequence[Tool]:
        tool, remote = Add(context, "read"), Add(context, "read")
        tool.parameters = {"type": "no such type"}
        remote.name, remote.parameters = "remote", {"$ref": "http://127.0.0.1:9/schema.json"}
        return [tool, remote]

    host.tools.register(broken)
    chat = await client.create(S)
    for name in ("add", "remote"):
        agent.play = using(name, {"a": 1, "b": 1})
        await client.say(chat, "add")
        assert told(client, chat) == "2"
    assert caplog.text.count("schema cannot be used") == 2


async def test_a_long_result_is_cut_and_a_large_picture_is_named(
    host: Host, agent: Scripted, client: WireClient
) -> None:
    class Long(Add):
        async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
            images = [
                ImageBlock("small", "image/png", b"x"),
                ImageBlock("large", "image/png", b"x" * (LARGEST_IMAGE + 1)),
            ]
            return ToolResult("y" * (LONGEST_TEXT + 5), images=images)

    host.tools.register(lambda context: [Long(context, "read")])
    results: list[ToolResult] = []

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        results.append(await use(prompt, sink, "add", {"a": 1, "b": 1}))

    agent.play = play
    chat = await client.create(S)
    await client.say(chat, "add")
    assert results[0].text == "y" * LONGEST_TEXT + "\n[Cut here: 5 characters more.]"
    [call] = client.calls(chat)
    text, small, large = call["content"]
    assert text["text"] == results[0].text
    assert small == {"type": "embeddedResource", "data": "eA==", "contentType": "image/png"}
    assert "large" in large["text"]


# ── What asks ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_what_runs_something_asks_with_its_options(
    host: Host, client: WireClient, other: WireClient, chat: str
) -> None:
    await client.start(chat, "add")
    call = await client.call_in(chat, "pending-confirmation")
    assert call["invocationMessage"] == "Add 2 and 3"
    assert call["confirmationTitle"] == "Add two numbers?"
    assert [(option["id"], option["kind"]) for option in call["options"]] == [
        ("allow-once", "approve"),
        ("allow-session", "approve"),
        ("deny", "deny"),
    ]
    assert call["editable"] is True
    [entry] = client.state(S)["inputNeeded"]
    assert (entry["kind"], entry["toolCall"]) == ("toolConfirmation", call)
    await other.of_call(
        chat,
        "chat/toolCallConfirmed",
        approved=True,
        confirmed="user-action",
        selectedOptionId="allow-once",
    )
    await ends(client, chat)
    assert told(client, chat) == "5"
    assert client.calls(chat)[0]["selectedOption"]["id"] == "allow-once"

    await client.start(chat, "again")
    await client.call_in(chat, "pending-confirmation")
    await client.of_call(chat, "chat/toolCallConfirmed", approved=False, reason="denied")
    await ends(client, chat)
    assert "did not allow this call" in told(client, chat)
    await agree(host, client, other)


async def test_a_denials_reason_is_the_models_to_read(client: WireClient, chat: str) -> None:
    await client.start(chat, "add")
    await client.call_in(chat, "pending-confirmation")
    await client.of_call(
        chat,
        "chat/toolCallConfirmed",
        approved=False,
        reason="denied",
        selectedOptionId="deny",
        reasonMessage="Count on your fingers.",
    )
    await ends(client, chat)
    [call] = client.calls(chat)
    assert (call["status"], call["reason"]) == ("cancelled", "denied")
    assert told(client, chat) == "The person did not allow this call, and said: Count on your fingers."


@pytest.mark.parametrize(
    ("edited", "answer"),
    [
        ('{"a": 20, "b": 3}', "23"),
        ('{"a": 20}', "'b' is a required property"),
        ("[1]", "it is not a JSON object"),
        ("{", "it is not JSON"),
    ],
)
async def test_an_edited_input_is_what_runs_if_it_fits(
    client: WireClient, chat: str, edited: str, answer: str
) -> None:
    await client.start(chat, "add")
    await client.call_in(chat, "pending-confirmation")
    await client.of_call(
        chat, "chat/toolCallConfirmed", approved=True, confirmed="user-action", editedToolInput=edited
    )
    await ends(client, chat)
    [call] = client.calls(chat)
    assert call["toolInput"] == edited
    assert call["success"] is (answer == "23")
    assert answer in told(client, chat)


async def test_a_stop_ends_a_call_that_asks(host: Host, client: WireClient, chat: str) -> None:
    turn = await client.start(chat, "add")
    await client.call_in(chat, "pending-confirmation")
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    [call] = client.calls(chat)
    assert (call["status"], call["reason"]) == ("cancelled", "skipped")
    await quiet(host)
    assert "inputNeeded" not in client.state(S)
    await agree(host, client)


async def test_a_stop_ends_a_tool_that_runs_whoever_waits_for_it(
    host: Host, agent: Scripted, client: WireClient
) -> None:
    """A backend that is another process calls tools from a task of its own, which a stop does not end."""
    begun, ended = asyncio.Event(), asyncio.Event()
    waiting: list[asyncio.Task[ToolResult]] = []

    class Slow(Add):
        async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ToolResult("never")

    host.tools.register(lambda context: [Slow(context, "read")])

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        waiting.append(asyncio.create_task(use(prompt, sink, "add", {"a": 1, "b": 1})))
        await asyncio.shield(waiting[0])

    agent.play = play
    chat = await client.create(S)
    turn = await client.start(chat, "add")
    await asyncio.wait_for(begun.wait(), 10)  # one that is said to run may not have begun to
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await asyncio.wait_for(ended.wait(), 10)
    with pytest.raises(TurnOver):
        await waiting[0]
    [call] = client.calls(chat)
    assert (call["status"], call["reason"]) == ("cancelled", "skipped")


async def test_a_call_behind_the_end_of_its_turn_does_nothing(
    host: Host, agent: Scripted, client: WireClient
) -> None:
    """A backend's process may still call what it was offered."""
    ran: list[str] = []

    class Noting(Add):
        async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
            ran.append(call.id)
            return ToolResult("done")

    host.tools.register(lambda context: [Noting(context, "read")])
    late: list[BaseException] = []
    go = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("Thinking")
        try:
            await go.wait()
        except asyncio.CancelledError:
            try:
                await use(prompt, sink, "add", {"a": 1, "b": 1})
            except TurnOver as error:
                late.append(error)
            raise

    agent.play = play
    chat = await client.create(S)
    turn = await client.start(chat, "add")
    await until(lambda: "chat/delta" in client.kinds(chat))
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await until(lambda: late)
    assert ran == []


# ── What is remembered ───────────────────────────────────────────────────────────────────────────────────────────
async def allow_for_session(client: WireClient, chat: str) -> None:
    await client.start(chat, "add")
    await client.call_in(chat, "pending-confirmation")
    chosen = {"approved": True, "confirmed": "user-action", "selectedOptionId": "allow-session"}
    await client.of_call(chat, "chat/toolCallConfirmed", **chosen)
    await ends(client, chat)


async def runs_unasked(client: WireClient, chat: str) -> bool:
    await client.start(chat, "again")
    await until(
        lambda: (
            not client.running(chat)
            or (client.calls(chat)[-1:] and client.calls(chat)[-1]["status"] == "pending-confirmation")
        )
    )
    if client.running(chat):
        await client.of_call(chat, "chat/toolCallConfirmed", approved=False, reason="denied")
        await ends(client, chat)
        return False
    return bool(client.calls(chat)[-1]["confirmed"] == "setting")


async def test_what_is_allowed_for_the_session_is_for_all_its_chats_and_for_no_other_session(
    host: Host, client: WireClient, chat: str
) -> None:
    await allow_for_session(client, chat)
    assert await runs_unasked(client, chat)
    await client.request("createChat", channel=S, chat=OTHER)
    await client.subscribe(OTHER)
    assert await runs_unasked(client, OTHER)
    elsewhere = await client.create(T)
    assert not await runs_unasked(client, elsewhere)


async def allow_first_of_two(client: WireClient, chat: str) -> None:
    chosen = {"approved": True, "confirmed": "user-action", "selectedOptionId": "allow-session"}
    first = client.calls(chat)[0]["toolCallId"]
    await client.of_call(chat, "chat/toolCallConfirmed", toolCallId=first, **chosen)


async def set_to_auto(client: WireClient, chat: str) -> None:
    await client.do(S, "session/configChanged", config={"approvals": "auto"})


@pytest.mark.parametrize("allow", [allow_first_of_two, set_to_auto])
async def test_what_waits_goes_on_when_it_need_not_ask_any_more(
    host: Host,
    agent: Scripted,
    client: WireClient,
    chat: str,
    allow: Callable[[WireClient, str], Awaitable[None]],
) -> None:
    async def both(prompt: Prompt, sink: TurnSink) -> None:
        sums = (use(prompt, sink, "add", {"a": number, "b": 1}) for number in (1, 2))
        for result in await asyncio.gather(*sums):
            sink.markdown(f"{result.text} ")

    agent.play = both
    await client.start(chat, "Both")
    await until(lambda: [call["status"] for call in client.calls(chat)] == ["pending-confirmation"] * 2)
    await allow(client, chat)
    await ends(client, chat)
    assert told(client, chat) == "2 3 "
    assert client.calls(chat)[1]["confirmed"] == "setting"
    assert "inputNeeded" not in client.state(S)
    await agree(host, client)


async def test_what_is_allowed_once_or_denied_asks_again(client: WireClient, chat: str) -> None:
    assert not await runs_unasked(client, chat)
    assert not await runs_unasked(client, chat)


async def test_a_denial_that_names_the_session_allows_nothing(client: WireClient, chat: str) -> None:
    await client.start(chat, "add")
    await client.call_in(chat, "pending-confirmation")
    chosen = {"approved": False, "reason": "denied", "selectedOptionId": "allow-session"}
    await client.of_call(chat, "chat/toolCallConfirmed", **chosen)
    await ends(client, chat)
    assert not await runs_unasked(client, chat)


async def test_what_is_allowed_outlives_a_restart_and_is_forgotten_when_asking_is_set(
    files: FileStore, agent: Scripted
) -> None:
    async def process() -> tuple[Host, WireClient]:
        host = await started(files, agent)
        offer(host)
        client = WireClient(host)
        await client.initialize(ROOT)
        return host, client

    host, client = await process()
    chat = await client.create(S)
    await allow_for_session(client, chat)
    await quiet(host)
    await host.stop()

    host, client = await process()
    await client.subscribe(S)
    await client.subscribe(chat)
    assert await runs_unasked(client, chat)
    await client.do(S, "session/configChanged", config={"approvals": "ask"})
    assert not await runs_unasked(client, chat)
    await quiet(host)
    await host.stop()

    host, client = await process()
    await client.subscribe(S)
    await client.subscribe(chat)
    assert not await runs_unasked(client, chat)
    await host.stop()


async def test_the_setting_is_every_agents_that_takes_tools_and_can_be_changed_at_any_time(
    host: Host, agent: Scripted, client: WireClient, chat: str
) -> None:
    schema = client.state(S)["config"]["schema"]["properties"]["approvals"]
    assert (schema["enum"], schema["default"], schema["sessionMutable"]) == (["ask", "auto"], "ask", True)
    assert not await runs_unasked(client, chat)
    assert "rejectionReason" in await client.do(S, "session/configChanged", config={"approvals": "never"})
    await client.do(S, "session/configChanged", config={"approvals": "auto"})
    assert await runs_unasked(client, chat)
    await client.do(S, "session/configChanged", config={"approvals": "ask"})
    assert not await runs_unasked(client, chat)

    resolved = await client.request("resolveSessionConfig", provider="test")
    assert resolved["values"]["approvals"] == "ask"
    agent.capabilities = Scripted.capabilities
    resolved = await client.request("resolveSessionConfig", provider="test")
    assert "approvals" not in resolved["schema"]["properties"]


async def test_an_agents_own_tools_ask_by_the_same_rule(
    agent: Scripted, client: WireClient, chat: str
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        context = TurnContext("s", chat, prompt.turn_id, (), None, prompt.approvals)
        tool = Add(context)
        result = await tool.call(sink.tool(tool.name, title=tool.title), {"a": 1, "b": 1})
        sink.markdown(result.text)

    agent.play = play
    assert not await runs_unasked(client, chat)
    await client.do(S, "session/configChanged", config={"approvals": "auto"})
    assert await runs_unasked(client, chat)


# ── rename_chat ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_T8_the_agent_renames_the_chat_when_it_is_asked_to(
    host: Host, agent: Scripted, client: WireClient, other: WireClient, chat: str
) -> None:
    agent.play = using("rename_chat", {"title": "**Adding** up\nand more"})
    await client.say(chat, "Call this chat Adding up")
    assert host.chat_named(chat).summary["title"] == "Adding up"  # type: ignore[union-attr]
    for watcher in (client, other):
        [summary] = watcher.state(S)["chats"]
        assert summary["title"] == "Adding up"
        assert watcher.state(S)["title"] == "Adding up"
    [call] = client.calls(chat)
    assert call["confirmed"] == "not-needed"
    assert call["pastTenseMessage"] == "Renamed this chat to Adding up"
    assert "Only when a person asks" in agent.prompts[0].tools[1].description

    await client.say(chat, "hi again")
    assert client.state(S)["chats"][0]["title"] == "Adding up", "no later message names it"
    agent.play = using("rename_chat", {"title": "word " * 40})
    await client.say(chat, "longer")
    title = client.state(S)["chats"][0]["title"]
    assert title.endswith("word…")
    assert len(title) <= 61
    agent.play = using("rename_chat", {"title": " \n "})
    await client.say(chat, "empty")
    assert client.state(S)["chats"][0]["title"] == title
    assert told(client, chat) == "There is nothing in this title."
    await agree(host, client, other)


async def test_T8_who_may_not_rename_does_not_rename_through_the_agent(
    host: Host, agent: Scripted, client: WireClient, chat: str
) -> None:
    host.options.grants = Grants({"sender": ("session:read", "chat:send", "chat:create")}, {"bob": "sender"})
    bob = WireClient(host, principal=Principal("user:bob", "Bob"))
    await bob.initialize()
    await bob.subscribe(chat)
    agent.play = using("rename_chat", {"title": "First"})
    await client.say(chat, "Call it First")
    agent.play = using("rename_chat", {"title": "Bob's"})
    await bob.say(chat, "Call it Bob's")
    assert "may not rename" in told(bob, chat)
    assert client.state(S)["chats"][0]["title"] == "First"


# ── get_session_context ──────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
async def past(agent: Scripted, client: WireClient, chat: str) -> str:
    """Another session's chat, in which something was said and a tool was called."""

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.reasoning("a thought")
        sink.tool("look", title="Look").done("Looked")
        sink.notice("a notice")
        sink.markdown("Use a join.")

    past = await client.create(T)
    agent.play = play
    await client.say(past, "How do I merge them?")
    return past


async def test_A8_a_chat_is_read_as_what_was_said_and_answered(
    host: Host, agent: Scripted, client: WireClient, chat: str, past: str
) -> None:
    for link in (past, T, f"  {past}\n"):
        agent.play = using("get_session_context", {"session": link})
        await client.say(chat, "What did we say?")
        assert told(client, chat) == (
            "The chat 'How do I merge them?':\n\nUser: How do I merge them?\n\nAgent: Use a join."
        )
        assert client.calls(chat)[0]["confirmed"] == "not-needed"
        assert client.calls(chat)[0]["pastTenseMessage"] == "Read How do I merge them?"
    await agree(host, client)


@pytest.mark.parametrize("link", ["ahp-chat:/nobody", "not a link", "", "ahp-session:/x", "ahp-root://"])
async def test_A9_a_chat_that_is_not_here_is_answered_in_words(
    agent: Scripted, client: WireClient, chat: str, link: str
) -> None:
    agent.play = using("get_session_context", {"session": link})
    turn = await client.say(chat, "Read it")
    assert turn["state"] == "complete"
    assert told(client, chat).startswith("There is no chat")
    assert client.calls(chat)[0]["success"] is False


async def test_A8_a_long_chat_comes_in_pages_that_stay(
    agent: Scripted, client: WireClient, chat: str, past: str
) -> None:
    async def read(**page: int) -> str:
        agent.play = using("get_session_context", {"session": past, **page})
        await client.say(chat, "Read")
        return told(client, chat)

    async def long(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("z" * PAGE)

    agent.play = long
    await client.say(past, "More")
    first, last = await read(page=1), await read()
    assert first.startswith("The chat 'How do I merge them?', page 1 of 3:\n\nUser: How do I merge them?")
    assert last.startswith("The chat 'How do I merge them?', page 3 of 3:\n\n")
    assert len(await read(page=2)) < PAGE + 100
    assert "no page 4" in await read(page=4)
    assert "minimum" in await read(page=0)
    agent.play = long
    await client.say(past, "And more")
    assert (await read(page=1)).split("\n\n", 1)[1] == first.split("\n\n", 1)[1]
    empty = await client.create("ahp-session:/empty")
    agent.play = using("get_session_context", {"session": empty})
    await client.say(chat, "Read")
    assert told(client, chat) == "Nothing was said in 'Untitled chat' yet."


async def test_A9_what_the_sender_may_not_read_is_not_read_for_them(
    host: Host, agent: Scripted, client: WireClient, chat: str, past: str
) -> None:
    host.options.grants = Grants({"blind": ("chat:send", "chat:create")}, {"bob": "blind"})
    bob = WireClient(host, principal=Principal("user:bob", "Bob"))
    await bob.initialize()
    agent.play = using("get_session_context", {"session": past})
    forged = {"jupyter-ahp.mayRead": True, "jupyter-ahp.client": "x"}
    await bob.dispatch(
        chat,
        "chat/turnStarted",
        turnId="bobs",
        startedAt="2026-03-01T10:00:00.000Z",
        message={"text": "Read it", "origin": {"kind": "user"}, "_meta": forged},
    )
    await until(lambda: any(turn["id"] == "bobs" for turn in client.state(chat)["turns"]))
    turn = client.turn(chat, "bobs")
    assert answer_of(turn).startswith("The person whose message this is may not read")
    assert "join" not in answer_of(turn)
    assert turn["message"]["_meta"]["jupyter-ahp.mayRead"] is False
    assert turn["message"]["_meta"]["jupyter-ahp.client"] == bob.client_id


async def test_A9_the_right_to_read_is_that_of_the_message_which_may_run_long_after(
    host: Host, agent: Scripted, client: WireClient, other: WireClient, chat: str, past: str
) -> None:
    """Alice queues, leaves, and the turn still reads what she may read."""
    gate = asyncio.Event()

    async def held(prompt: Prompt, sink: TurnSink) -> None:
        agent.play = using("get_session_context", {"session": past})
        await gate.wait()

    agent.play = held
    await client.start(chat, "first")
    waiting = {"text": "Read it", "origin": {"kind": "user"}}
    await client.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=waiting)
    await client.drop()
    gate.set()
    await until(lambda: len(other.state(chat)["turns"]) == 2)
    assert answer_of(other.state(chat)["turns"][-1]).endswith("Agent: Use a join.")


async def test_A8_a_chat_whose_turns_cannot_be_read_is_answered_in_words(
    failing: Any, agent: Scripted
) -> None:
    host = await started(failing, agent)
    client = WireClient(host)
    await client.initialize(ROOT)
    past, chat = await client.create(T), await client.create(S)
    agent.play = using("get_session_context", {"session": past})
    await client.unsubscribe(past)
    await host.chat_named(past).unload()  # type: ignore[union-attr]
    failing.fails.add("load_chat")
    turn = await client.say(chat, "Read it")
    assert turn["state"] == "complete"
    assert "cannot be read" in answer_of(turn)
    failing.fails.clear()
    await host.stop()
