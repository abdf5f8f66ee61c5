"""Which plugins are loaded, and that one that fails harms nobody."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.plugins import PluginHost, loading
from tests.host.harness import ROOT, WireClient, answer_of, until

from .conftest import Load
from .samples import Parrot

SAMPLES = "tests.plugins.samples"


@pytest.fixture(autouse=True)
def nothing_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BUILT_IN", {})


def commands(host: Host) -> list[str]:
    return [command.name for command in host.extensions.commands.all()]


async def test_configured_and_installed_plugins_are_registered_and_taken_out_again(
    host: Host, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    installed = [EntryPoint("tardy", f"{SAMPLES}:late", loading.GROUP)]
    plugins = await load(f"{SAMPLES}:good", installed=installed)
    assert plugins.names == ["tardy", SAMPLES]
    assert sorted(commands(host)) == ["good", "late"]
    await plugins.close()
    assert commands(host) == []
    assert "tardy ends as it said" in caplog.text


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (f"{SAMPLES}:fails", "it broke half way"),
        (f"{SAMPLES}:missing", "missing"),
        (f"{SAMPLES}:not_callable", "is a int, not a function"),
        (f"{SAMPLES}:returns_something", "returned a int"),
        (SAMPLES, "not of the form module:function"),
        ("no.such.module:register", "No module named"),
        ("tests.plugins.broken_at_import:register", "a_library_that_is_not_installed"),
        ("tests.plugins.script:register", "3"),
        (f"{SAMPLES}:clashes", "has a command /good already"),
        (f"{SAMPLES}:hangs", "did not register in"),
        ("", "not of the form"),
    ],
)
async def test_a_plugin_that_fails_is_named_and_leaves_nothing_behind(
    host: Host,
    load: Load,
    client: WireClient,
    chat: str,
    place: str,
    words: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if place.endswith("hangs"):
        monkeypatch.setattr(loading, "_PATIENCE", 0.05)
    installed = [EntryPoint("good", f"{SAMPLES}:good", loading.GROUP)]
    plugins = await load(place, installed=installed)
    assert plugins.names == ["good"]
    assert commands(host) == ["good"]
    assert "parrot" not in host.roster.agents
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert f"({place}) is left out" in record.getMessage()
    assert words in record.getMessage()
    assert answer_of(await client.say(chat, "/good")) == "good was here"


async def test_a_plugin_that_ends_badly_is_taken_out_all_the_same(
    host: Host, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = await load(f"{SAMPLES}:ends_badly")
    await plugins.close()
    assert commands(host) == []
    assert "did not end as it said it would" in caplog.text
    assert "no end" in caplog.text


async def test_plugins_are_left_out_by_name(host: Host, load: Load, caplog: pytest.LogCaptureFixture) -> None:
    installed = [EntryPoint(name, f"{SAMPLES}:{name}", loading.GROUP) for name in ("good", "late")]
    plugins = await load(installed=installed, without=["late", "nobody"])
    assert plugins.names == ["good"]
    assert "There is no plugin “nobody” to leave out" in caplog.text


async def test_a_plugin_that_is_named_twice_is_registered_once(host: Host, load: Load) -> None:
    installed = [EntryPoint("good", f"{SAMPLES}:good", loading.GROUP)]
    plugins = await load(f"{SAMPLES}:good", f"{SAMPLES}:late", installed=installed)
    assert plugins.names == ["good", SAMPLES]


async def test_an_agent_of_a_plugin_is_listed_and_answers_until_the_plugin_goes(
    host: Host, load: Load, client: WireClient
) -> None:
    def providers() -> list[str]:
        return [agent["provider"] for agent in client.state(ROOT)["agents"]]

    plugins = await load(f"{SAMPLES}:parrot")
    await until(lambda: providers() == ["test", "parrot"])
    session = "parrot:/one"
    await client.request("createSession", channel=session, provider="parrot")
    chat = (await client.subscribe(session))["defaultChat"]
    await client.subscribe(chat)
    assert answer_of(await client.say(chat, "Polly wants a cracker")) == "cracker"
    await plugins.close()
    await until(lambda: providers() == ["test"])


async def test_an_agent_is_added_once_and_only_if_it_is_served(
    host: Host, plugin: PluginHost, client: WireClient
) -> None:
    plugin.register_agent(Parrot())
    with pytest.raises(ValueError, match="There is an agent 'parrot' already"):
        plugin.register_agent(Parrot())
    with pytest.raises(ValueError, match="is no jupyter_ahp"):
        plugin.register_agent("parrot")  # type: ignore[arg-type]
    await plugin.unregister()
    host.options.served = ["test"]
    plugin.register_agent(Parrot())
    assert "parrot" not in host.roster.agents


async def test_V3_canvases_go_with_their_plugin(
    host: Host, plugin: PluginHost, client: WireClient, chat: str
) -> None:
    for title in ("One", "Two"):
        await plugin.open_canvas(chat, title=title, html="<p>")
    assert len(client.state(chat)["canvases"]) == 2
    await plugin.unregister()
    assert "canvases" not in client.state(chat)
    with pytest.raises(RuntimeError, match="taken out"):
        await plugin.open_canvas(chat, title="Three", html="<p>")
