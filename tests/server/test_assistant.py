"""The assistant of a real server, as it is configured there: what its model is offered, and what it does in a directory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_ahp import Chat, connect
from tests.mock_model import MockModel
from tests.server.test_terminals import with_terminals
from tests.support.server import Home, JupyterServer

Configured = Callable[..., JupyterServer]
SERVER = str(Path(__file__).parents[1] / "agents" / "mcp_server.py")


@pytest.fixture
def model() -> Iterator[MockModel]:
    with MockModel() as running:
        yield running


@pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals on Windows")
@pytest.mark.parametrize("terminals", [True, False])
def test_its_model_is_offered_what_is_configured(
    home: Home, configured: Configured, model: MockModel, terminals: bool
) -> None:
    home.make()
    with_terminals(home)
    (home.files / "a.txt").write_text("the content")
    mcp = {"test": {"command": sys.executable, "args": [SERVER, "stdio"]}}
    server = configured(
        f"c.AssistantAgent.models = [{{'base_url': {model.base_url!r}, 'model': 'mock-model'}}]\n"
        f"c.AssistantAgent.mcp_servers = {mcp!r}\n"
        f"c.AHPExtension.terminals = {terminals}"
    )
    with Chat("assistant", directory=home.files, host=connect(server.url, server.token)) as chat:
        turn = chat.send(
            'Look.\n!!and read_file {"path": "a.txt"}\n!!tool mcp__test__add {"a": 2, "b": 3}\n!!text Done.'
        )
        assert turn.text == "Done."
    offered = [tool["function"]["name"] for tool in model.requests[0].body["tools"]]
    assert ("run_command" in offered) is terminals
    assert {"read_file", "edit_file", "delegate", "mcp__test__add", "rename_chat"} <= set(offered)
    assert [text for role, text in model.requests[-1].texts if role == "tool"] == ["     1\tthe content", "5"]
