"""Plugins of a real server: found, listed, named in the log when they fail, and told when it stops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jupyter_ahp import Chat, connect
from tests.support.server import Home, JupyterServer

Configured = Callable[..., JupyterServer]

BROKEN = """
def register(host):
    host.register_command("half", "Never there", lambda run: "x")
    raise RuntimeError("the plugin broke")
"""
GOOD = """
import asyncio

from jupyter_ahp.agents.echo import EchoAgent


class Second(EchoAgent):
    provider = "second"
    display_name = "Second"


async def register(host):
    async def ended(event):
        host.log.warning("heard of turn %s, %s", event.data["message"]["text"], event.data["state"])

    host.register_agent(Second())
    host.register_command("good", "Answers", lambda run: f"good in {run.directories[0]}")
    host.on("turn_end", ended)
    return lambda: host.log.warning("the good plugin ends")
"""


@pytest.fixture
def server(home: Home, configured: Configured) -> JupyterServer:
    home.make()
    code = home.root / "code"
    code.mkdir()
    for name, text in (("broken_plugin", BROKEN), ("good_plugin", GOOD)):
        (code / f"{name}.py").write_text(text)
    path = f"{code}:{home.environment()['PYTHONPATH']}"
    plugins = [f"{name}:register" for name in ("broken_plugin", "no_such_plugin", "good_plugin")]
    return configured(f"c.AHPExtension.plugins = {plugins!r}", env={"PYTHONPATH": path})


def test_a_plugin_that_fails_is_named_in_the_log_and_the_others_work(
    server: JupyterServer, home: Home
) -> None:
    agents = [agent["provider"] for agent in server.get_json("ahp/status")["agents"]]
    assert agents[-1] == "second"
    assert agents[0] == "assistant"
    with Chat("second", directory=home.files, host=connect(server.url, server.token)) as chat:
        assert chat.send("Hello").text.startswith("Hello")
        assert chat.send("/good").text == f"good in {home.files}"
        assert chat.send("/half").text.startswith("/half"), "the agent is sent it: there is no such command"
    server.stop()
    log = server.log
    assert "The plugin “broken_plugin” (broken_plugin:register) is left out: the plugin broke" in log
    assert "The plugin “no_such_plugin” (no_such_plugin:register) is left out: No module named" in log
    assert "heard of turn Hello, complete" in log
    assert "the good plugin ends" in log
    assert "did not end" not in log
