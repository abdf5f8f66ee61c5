"""`%chat` and `%%chat`, in a shell of IPython's with a host in its process, and in the kernels of a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from IPython.core.error import UsageError

from jupyter_ahp import Chat, connect
from jupyter_ahp.notebook.magics import Asked, parsed, questions
from tests.notebook.kernels import Kernel
from tests.support.server import TOKEN, Home, JupyterServer

Servers = Callable[..., JupyterServer]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("", Asked()),
        ("What's odd -- here?", Asked("What's odd -- here?")),
        ("--quiet --to x Why?", Asked("Why?", quiet=True, to="x")),
        ("--agent=claude --model big", Asked(agent="claude", model="big")),
        (
            """--attach df --attach "df[df.x > 1]" --attach 'a b.csv' --new""",
            Asked(attach=["df", "df[df.x > 1]", "a b.csv"], new=True),
        ),
        ("--queue", Asked(queue=True)),
    ],
)
def test_a_line_is_options_and_words(line: str, asked: Asked) -> None:
    assert parsed(line) == asked


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--loud", "No option --loud"),
        ("--agent", "No value for --agent"),
        ("--to 3x hi", "not the name of a variable"),
    ],
)
def test_what_is_no_option_is_said(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parsed(line)


def test_a_question_is_for_the_chat() -> None:
    asked = "get_ipython().run_line_magic('chat', \"--quiet What's df?\")\n"
    assert questions(["x = 1\n", "%chat --quiet What's df?\n"]) == ["x = 1\n", asked]
    for other in (["%chat?\n"], ["%chat Say so.\n"], ["%%chat\n", "%chat why?\n"], ["df?\n"], []):
        assert questions(other) == other


SCRIPT = r"""
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_ahp")
chat = lambda line, cell=None: (
    shell.run_line_magic("chat", line) if cell is None else shell.run_cell_magic("chat", line, cell)
)
shell.user_ns.update(name="the ducks", table={"a": 1})

turn = chat("--agent echo", "What of {name} and {1 + 1}?")
print(turn.message.text)
print(chat("And $name").message.text)
print(chat("--attach table --attach notes.txt --quiet --to kept", "With these"))
print([one["label"] for one in shell.user_ns["kept"].message.attachments])
print(shell.user_ns["kept"].message.text)
waiting = chat("--queue", "Later")
print(waiting.wait().message.text)
print(chat("", "!echo $((6 * 7))").output.strip())
first = chat("")
print(len(first.turns), chat("") is first, chat("--new --agent echo") is first, len(chat("").turns))
try: chat("--attach nowhere.csv", "With this")
except Exception as error: print(type(error).__name__, error)
try: chat("", " ")
except Exception as error: print(type(error).__name__)
"""


def test_the_magics_do_what_they_say(home: Home) -> None:
    home.make()
    (home.files / "notes.txt").write_text("note")
    env = {**home.environment()}
    env.pop("JUPYTER_AHP_SERVER_INFO", None)
    script = home.files / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script],
        cwd=home.files,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "What of the ducks and 2?",
        "And the ducks",
        "None",
        "['table', 'notes.txt']",
        "With these",
        "Later",
        "42",
        "5 True False 0",
        "UsageError --attach nowhere.csv: it is no file here, and no expression: name 'nowhere' is not defined",
        "UsageError",
    ]


def test_a_notebook_finds_its_chat_again_after_a_restart_of_its_kernel(
    home: Home, with_server: Servers
) -> None:
    server = with_server()
    named = (
        f"%load_ext jupyter_ahp\nimport os; os.environ['JPY_SESSION_NAME'] = {str(home.files / 'a.ipynb')!r}"
    )

    def shown(messages: list[Any]) -> str:
        (result,) = [m["content"]["data"] for m in messages if m["msg_type"] == "execute_result"]
        return str(result["text/plain"])

    with Kernel(server) as before:
        before.run(named)
        assert shown(before.run("%chat --agent echo Are you mine?")).startswith(
            "Turn(complete, 'Are you mine?"
        )
    with Kernel(server) as after:
        after.run(named)
        first = shown(after.run("%chat"))
        assert "'a.ipynb' with echo, 1 turn" in first
        assert "0 turns" in shown(after.run("%chat --new --agent echo"))
        after.run("%%chat\nAnd now?")
        after.run("get_ipython().magics_manager.registry['ChatMagics']._chat = None")
        again = shown(after.run("%chat"))
        assert "1 turn" in again
        assert again != first, "the newest is the notebook's"
    uri = again.rpartition(": ")[2].rstrip(">")
    with Chat.open(uri, connect(server.url, TOKEN)) as same:
        assert same.turns[0].message.text == "And now?"
