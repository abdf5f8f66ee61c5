"""Commands of plugins: offered on `/`, answered by the plugin as a turn, and never sent to the agent (M4)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Json
from jupyter_ahp.plugins import CommandRun, PluginHost, TurnFailed
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Scripted, WireClient, agree, answer_of, message, started, until

from .conftest import SESSION


async def shout(run: CommandRun) -> str:
    return run.argument.upper()


async def offered(client: WireClient, chat: str, text: str) -> list[Json]:
    answer = await client.request(
        "completions", channel=chat, kind="userMessage", text=text, offset=len(text)
    )
    items: list[Json] = answer["items"]
    return items


async def test_M4_a_command_is_offered_in_every_chat_until_its_plugin_goes(
    plugin: PluginHost, client: WireClient, chat: str
) -> None:
    plugin.register_command("shout", "Says it louder", shout, argument_hint="<words>")
    plugin.register_command("whisper", "Says it lower", shout)
    (item,) = await offered(client, chat, "/sh")
    assert item["insertText"] == "/shout "
    assert item["attachment"]["_meta"] == {
        "command": "shout",
        "description": "Says it louder",
        "argumentHint": "<words>",
    }
    assert [one["attachment"]["label"] for one in await offered(client, chat, "/")] == ["/shout", "/whisper"]
    await plugin.unregister()
    assert await offered(client, chat, "/") == []


async def test_M4_a_command_is_a_turn_that_the_plugin_answers(
    plugin: PluginHost, host: Host, client: WireClient, chat: str, agent: Scripted
) -> None:
    runs: list[CommandRun] = []

    async def report(run: CommandRun) -> str:
        runs.append(run)
        call = run.sink.tool("look", title="Look")
        call.run("Looking")
        call.done("Looked")
        run.sink.markdown("First. ")
        return "Then."

    plugin.register_command("report", "Reports", report)
    turn = await client.say(chat, "/report  two words\nand more ")
    assert turn["state"] == "complete"
    assert answer_of(turn) == "First. Then."
    assert turn["responseParts"][0]["toolCall"]["status"] == "completed"
    (run,) = runs
    assert (run.name, run.argument) == ("report", "two words\nand more")
    assert (run.chat, run.session, run.turn_id) == (chat, SESSION, turn["id"])
    assert agent.prompts == []
    await agree(host, client)


async def test_M4_the_agent_is_never_sent_it(
    plugin: PluginHost, client: WireClient, chat: str, agent: Scripted
) -> None:
    plugin.register_command("shout", "Says it louder", shout)
    for text in ("Hello", "/shout quiet", "Again"):
        await client.say(chat, text)
    last = agent.prompts[-1]
    assert [turn["message"]["text"] for turn in last.history] == ["Hello"]
    assert last.prefaces == {}


@pytest.mark.parametrize("text", ["/shouting loud", " /shout", "shout", "//shout x", "/", "/Shout x"])
async def test_M4_what_only_looks_like_a_command_goes_to_the_agent(
    plugin: PluginHost, client: WireClient, chat: str, agent: Scripted, text: str
) -> None:
    plugin.register_command("shout", "Says it louder", shout)
    await client.say(chat, text)
    assert [prompt.text for prompt in agent.prompts] == [text]


async def test_M4_no_client_says_what_a_plugin_ran(
    plugin: PluginHost, client: WireClient, chat: str, agent: Scripted
) -> None:
    plugin.register_command("shout", "Says it louder", shout)
    forged = {"jupyter-ahp.plugin": "shout"}
    turn = await client.start(chat, "Keep this from the agent", _meta=forged)
    await until(lambda: not client.running(chat))
    assert "jupyter-ahp.plugin" not in client.turn(chat, turn)["message"]["_meta"]
    assert [prompt.text for prompt in agent.prompts] == ["Keep this from the agent"]


def test_M4_a_handler_that_is_no_coroutine_function_runs_in_a_thread() -> None:
    async def main() -> None:
        host = await started(MemoryStore(), Scripted())
        plugin = PluginHost("plain", host.extensions, logging.getLogger("test"))
        plugin.register_command("plain", "A function", lambda run: f"Plain {run.argument}")
        client = WireClient(host)
        await client.initialize(ROOT)
        chat = await client.create(SESSION)
        assert answer_of(await client.say(chat, "/plain and simple")) == "Plain and simple"
        await plugin.unregister()
        await client.drop()
        await host.stop()

    asyncio.run(main())


async def test_Q2_a_queued_command_runs_in_its_turn_and_what_waits_behind_it_goes_on(
    plugin: PluginHost, client: WireClient, chat: str, agent: Scripted
) -> None:
    plugin.register_command("shout", "Says it louder", shout)
    go = asyncio.Event()

    async def play(prompt: object, sink: object) -> None:
        await go.wait()

    agent.play = play
    await client.start(chat, "Wait")
    for name, text in (("a", "/shout quiet"), ("b", "And you?")):
        await client.do(chat, "chat/pendingMessageSet", kind="queued", id=name, message=message(text))
    go.set()
    await until(lambda: len(client.state(chat)["turns"]) == 3)
    assert [answer_of(turn) for turn in client.state(chat)["turns"]] == ["", "QUIET", ""]
    assert [prompt.text for prompt in agent.prompts] == ["Wait", "And you?"]


async def test_Q4_a_command_that_fails_says_which_plugin_did_and_starts_nothing_behind_it(
    plugin: PluginHost, client: WireClient, chat: str, agent: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    go = asyncio.Event()

    async def fail(run: CommandRun) -> None:
        run.sink.markdown("So far")
        await go.wait()
        raise RuntimeError("the brush broke")

    plugin.register_command("fail", "Fails", fail)
    await client.start(chat, "/fail")
    await client.do(chat, "chat/pendingMessageSet", kind="queued", id="a", message=message("Behind"))
    go.set()
    await until(lambda: not client.running(chat))
    turn = client.state(chat)["turns"][-1]
    assert turn["state"] == "error"
    assert turn["responseParts"][0]["content"] == "So far"
    assert turn["responseParts"][-1]["error"] == {
        "errorType": "pluginFailed",
        "message": "/fail failed: the brush broke. It is the plugin 'painter' that did.",
    }
    assert "resumable" not in turn["responseParts"][-1]
    assert "/fail of plugin painter failed" in caplog.text
    assert [entry["id"] for entry in client.state(chat)["queuedMessages"]] == ["a"]
    assert agent.prompts == []


async def test_T4_a_plugin_says_in_its_own_words_why_not(
    plugin: PluginHost, client: WireClient, chat: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def no(run: CommandRun) -> None:
        raise TurnFailed("noBrush", "There is no brush. Buy one.")

    plugin.register_command("no", "Fails", no)
    turn = await client.say(chat, "/no")
    assert turn["responseParts"][-1]["error"] == {
        "errorType": "noBrush",
        "message": "There is no brush. Buy one.",
    }
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_T4_a_stop_cancels_what_a_command_does(
    plugin: PluginHost, client: WireClient, chat: str
) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def linger(run: CommandRun) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    plugin.register_command("linger", "Takes long", linger)
    turn = await client.start(chat, "/linger")
    await begun.wait()
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    assert client.turn(chat, turn)["state"] == "cancelled"
    async with asyncio.timeout(5):
        await cancelled.wait()


async def test_T4_a_command_whose_plugin_went_ends_with_words(
    plugin: PluginHost, client: WireClient, chat: str
) -> None:
    async def bad(run: CommandRun) -> None:
        raise TurnFailed("later", "Not now.", resumable=True)

    plugin.register_command("bad", "Fails", bad)
    turn = await client.say(chat, "/bad")
    assert turn["responseParts"][-1]["resumable"]
    await plugin.unregister()
    await client.do(chat, "chat/turnResume", turnId=turn["id"])
    await until(lambda: not client.running(chat))
    error = client.turn(chat, turn["id"])["responseParts"][-1]["error"]
    assert error["errorType"] == "noPlugin"
    assert "/bad" in error["message"]


@pytest.mark.parametrize("name", ["", "two words", "/slash", "a" * 65, "_x", "schön"])
def test_M4_a_name_that_cannot_be_typed_is_refused(plugin: PluginHost, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a command"):
        plugin.register_command(name, "x", shout)


def test_M4_a_name_belongs_to_one_plugin(plugin: PluginHost, host: Host) -> None:
    plugin.register_command("shout", "x", shout)
    other = PluginHost("other", host.extensions, logging.getLogger("test"))
    with pytest.raises(ValueError, match="plugin painter has a command /shout already"):
        other.register_command("shout", "x", shout)
