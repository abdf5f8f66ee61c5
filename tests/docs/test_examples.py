"""The examples of `docs/plugins.md` and `docs/agents.md`, as a reader has them: written to files, and run in a real server.

A block of Python whose first line is a comment with a file's name is that file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from jupyter_ahp import Chat, connect
from tests.mock_model import MockModel
from tests.support.server import Home, JupyterServer

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("plugins.md", "agents.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# ([\w.]+\.py)\n")

Servers = Callable[..., JupyterServer]


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall((DOCS / page).read_text("utf-8")) if kind == language]


def files(page: str) -> dict[str, str]:
    """The files of a page's example, by name."""
    named = {}
    for text in blocks(page, "python"):
        if (found := NAME.match(text)) is not None:
            assert found[1] not in named, "one file of a name"
            named[found[1]] = text
    return named


def serve(page: str, home: Home, with_server: Servers, **options: object) -> JupyterServer:
    """A server with the page's example in it."""
    home.make()
    for name, text in files(page).items():
        folder = home.config if name == "jupyter_server_config.py" else home.root / "code"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    path = os.pathsep.join([str(home.root / "code"), home.environment()["PYTHONPATH"]])
    env = {"PYTHONPATH": path, **options.pop("env", {})}  # type: ignore[dict-item]
    return with_server(home=home, env=env, **options)


def try_it(server: JupyterServer, home: Home) -> list[str]:
    """What the page's `try_it.py` prints, in a kernel of that server."""
    (info,) = home.runtime.glob("jpserver-*.json")
    env = {
        **home.environment(),
        "JUPYTER_AHP_SERVER_INFO": str(info),
        "JPY_PARENT_PID": str(server.pid),
    }
    done = subprocess.run(
        [sys.executable, home.root / "code" / "try_it.py"],
        cwd=home.files,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + server.log
    return done.stdout.splitlines()


@pytest.mark.parametrize("page", [*PAGES, "python.md"])
def test_what_looks_like_python_is(page: str) -> None:
    for text in blocks(page, "python"):
        compile(text, page, "exec", flags=0x2000)  # with `await` outside of functions


@pytest.mark.parametrize("page", PAGES)
def test_the_entry_points_are_those_that_are_looked_for(page: str) -> None:
    from jupyter_ahp.agents.registry import GROUP as AGENTS
    from jupyter_ahp.plugins.loading import GROUP as PLUGINS

    (text,) = blocks(page, "toml")
    ((group, points),) = tomllib.loads(text)["project"]["entry-points"].items()
    assert group == {"plugins.md": PLUGINS, "agents.md": AGENTS}[page]
    for place in points.values():
        module, _, name = place.partition(":")
        assert re.search(rf"^(?:class|def) {name}\b", files(page)[f"{module}.py"], re.MULTILINE)


def test_the_plugin_of_the_guide_works(home: Home, with_server: Servers) -> None:
    with MockModel() as model:
        openai = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
        server = serve("plugins.md", home, with_server, env=openai)
        assert try_it(server, home) == ["1. Read the paper", "1 canvas"]
        with Chat("assistant", host=connect(server.url, server.token)) as chat:
            turn = chat.send('!!tool add_task {"task": "Write <it> down"}\n!!text Noted.')
            assert turn.text == "Noted."
            assert len(chat.canvases) == 1
            told = model.requests[-1]
            assert "The list has 1 tasks now." in str(told.body)
            assert chat.send("/tasks").text == "1. Write <it> down"


def test_the_tool_of_the_guide_is_one() -> None:
    from jupyter_ahp.plugins.functions import tools_of

    (text,) = [text for text in blocks("plugins.md", "python") if "def find_paper" in text]
    names: dict[str, object] = {"__name__": "guide"}
    exec(compile(text.replace("from __future__", "# "), "guide", "exec"), names)
    function = names["find_paper"]
    assert callable(function)
    context = import_module("jupyter_ahp.plugins").TurnContext
    from jupyter_ahp.host.ports import Approvals

    (tool,) = tools_of(function, effects="read")(
        context("s", "ahp-chat:/c", "t", ["/tmp"], None, Approvals())
    )
    assert tool.parameters["properties"]["order"]["enum"] == ["most cited", "newest"]
    assert tool.parameters["required"] == ["words"]


def test_the_agent_of_the_guide_works(home: Home, with_server: Servers) -> None:
    server = serve("agents.md", home, with_server)
    assert try_it(server, home) == ["**median**: the middle value", "- median"]
    (home.files / "glossary.json").write_text("{")
    with Chat("glossary", directory=home.files, host=connect(server.url, server.token)) as chat:
        with pytest.raises(Exception, match="is not JSON: mend it"):
            chat.send("median")
        (home.files / "glossary.json").write_text('{"median": "it"}')
        assert chat.resume().text == "**median**: it"
