"""What plugins are told: everything once, in order, and never in the way of the host."""

from __future__ import annotations

import asyncio
import time

import pytest

from jupyter_ahp.host import events
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Prompt, TurnSink
from jupyter_ahp.plugins import Event, PluginHost
from tests.host.harness import ROOT, Scripted, WireClient, message, until

from .conftest import SESSION

NAMES = sorted(events.NAMES)


def listening(plugin: PluginHost, *names: str) -> list[Event]:
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    for name in names or NAMES:
        plugin.on(name, hear)  # type: ignore[arg-type]
    return heard


def told(heard: list[Event]) -> list[str]:
    return [event.name for event in heard]


async def test_every_event_comes_once_with_what_it_is_about(
    plugin: PluginHost, host: Host, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        call = sink.tool("look", title="Look")
        call.run("Looking", tool_input="{}")
        call.done("Looked")
        sink.markdown("Seen.")

    agent.play = play
    heard = listening(plugin)
    client = WireClient(host)
    await client.initialize(ROOT)
    chat = await client.create(SESSION)
    turn = await client.say(chat, "Look")
    await client.request("disposeSession", channel=SESSION)
    await client.drop()
    await until(lambda: len(heard) == 8)

    by_name = {event.name: event for event in heard}
    assert sorted(by_name) == NAMES
    assert by_name["client_connect"].data["clientId"] == client.client_id
    assert by_name["client_disconnect"].data == {"clientId": client.client_id, "principal": "user:alice"}
    assert by_name["session_start"].session == by_name["session_end"].session == SESSION
    assert by_name["session_start"].data["provider"] == "test"
    assert by_name["message"].data["kind"] == "turn"
    assert by_name["message"].data["message"]["text"] == "Look"
    assert by_name["turn_start"].data["message"]["text"] == "Look"
    assert by_name["turn_end"].data == {**turn, "responseParts": turn["responseParts"]}
    assert by_name["tool_call"].data["status"] == "completed"
    assert by_name["tool_call"].data["toolName"] == "look"
    for name in ("message", "turn_start", "turn_end", "tool_call"):
        assert by_name[name].chat == chat
    assert by_name["tool_call"].turn_id == by_name["turn_end"].turn_id == turn["id"]


async def test_turns_that_end_badly_and_messages_that_wait_are_told_too(
    plugin: PluginHost, client: WireClient, chat: str, agent: Scripted
) -> None:
    async def play(prompt: Prompt, sink: TurnSink) -> None:
        await asyncio.sleep(3600)

    agent.play = play
    heard = listening(plugin, "message", "turn_start", "turn_end")
    turn = await client.start(chat, "One")
    await client.do(chat, "chat/pendingMessageSet", kind="queued", id="q", message=message("Two"))
    await client.do(chat, "chat/turnCancelled", turnId=turn, duration=1)
    await until(lambda: "turn_end" in told(heard))
    assert [event.data["kind"] for event in heard if event.name == "message"] == ["turn", "queued"]
    assert [event.data["state"] for event in heard if event.name == "turn_end"] == ["cancelled"]


async def test_what_an_undo_brings_back_did_not_happen_again(
    plugin: PluginHost, client: WireClient, chat: str
) -> None:
    await client.say(chat, "One")
    await client.say(chat, "Two")
    heard = listening(plugin)
    await client.do(chat, "chat/truncated")
    await client.request("x-jupyter-ahp/undoRewind", channel=chat)
    assert len(client.state(chat)["turns"]) == 2
    await client.say(chat, "Three")
    await until(lambda: "turn_end" in told(heard))
    assert told(heard).count("turn_end") == 1


async def test_one_listener_hears_in_order_and_one_at_a_time(
    plugin: PluginHost, client: WireClient, chat: str
) -> None:
    heard: list[str] = []
    inside = 0

    async def hear(event: Event) -> None:
        nonlocal inside
        assert inside == 0
        inside += 1
        await asyncio.sleep(0.002 if len(heard) % 2 else 0)
        heard.append(event.data["message"]["text"])
        inside -= 1

    plugin.on("turn_end", hear)
    texts = [f"Message {number}" for number in range(8)]
    for text in texts:
        await client.say(chat, text)
    await until(lambda: len(heard) == len(texts))
    assert heard == texts


async def test_a_listener_that_fails_or_hangs_harms_nobody(
    plugin: PluginHost,
    client: WireClient,
    chat: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "_LAST_WORDS", 0.05)

    async def hang(event: Event) -> None:
        await asyncio.sleep(3600)

    def fail(event: Event) -> None:
        raise RuntimeError(f"no {event.name}")

    async def change(event: Event) -> None:
        event.data.clear()

    plugin.on("turn_end", hang)
    plugin.on("turn_end", fail)
    plugin.on("turn_end", change)
    heard = listening(plugin, "turn_end")
    first, second = await client.say(chat, "One"), await client.say(chat, "Two")
    await until(lambda: len(heard) == 2 and caplog.text.count("no turn_end") >= 2)
    assert [event.data["id"] for event in heard] == [first["id"], second["id"]], "what one did to its copy"
    assert "The listener for turn_end of plugin painter failed" in caplog.text
    await plugin.unregister()
    assert "is not through: 2 events are dropped" in caplog.text


async def test_a_listener_that_blocks_does_not_block_the_host(
    plugin: PluginHost, client: WireClient, chat: str
) -> None:
    in_it, go = asyncio.Event(), False
    loop = asyncio.get_running_loop()

    def block(event: Event) -> None:
        loop.call_soon_threadsafe(in_it.set)
        while not go:
            time.sleep(0.001)

    plugin.on("turn_start", block)
    try:
        await client.say(chat, "One")
        await in_it.wait()
        assert (await client.say(chat, "Two"))["state"] == "complete", "while it still blocks"
    finally:
        go = True


async def test_a_listener_that_is_far_behind_misses_the_newer_ones(
    plugin: PluginHost, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events, "_MOST", 3)
    go = asyncio.Event()
    heard: list[str] = []

    async def slow(event: Event) -> None:
        await go.wait()
        heard.append(str(event.session))

    plugin.on("session_end", slow)

    def emit(number: int) -> None:
        host.extensions.events.emit("session_end", session=str(number))

    emit(0)
    await asyncio.sleep(0.05)
    for number in range(1, 8):
        emit(number)
    go.set()
    await until(lambda: len(heard) == 4)
    emit(9)
    await until(lambda: len(heard) == 5)
    assert heard == ["0", "1", "2", "3", "9"]
    assert caplog.text.count("3 events behind") == 1


def test_an_event_that_there_is_not_is_refused(plugin: PluginHost) -> None:
    with pytest.raises(ValueError, match="There is no event 'turnend'"):
        plugin.on("turnend", print)  # type: ignore[arg-type]
