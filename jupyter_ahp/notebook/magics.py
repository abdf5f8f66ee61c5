"""`%chat` and `%%chat`: the notebook's chat without a line of Python.

`%load_ext jupyter_ahp` brings them. A notebook has one chat, found again after a restart of its kernel by the path of its file;
where that is not known (a terminal's IPython, nbconvert) the process has one.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Final

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from ..client.model import Turn
from ..client.sync import Waiting
from .cells import Cell, notebook_path
from .chat import Chat

_OPTION: Final = re.compile(r"--([a-z]+)(?:[ =]+|$)")
_VALUE: Final = re.compile(r"""("([^"]*)"|'([^']*)'|\S+)\s*""")
_FLAGS: Final = ("new", "queue", "quiet")
_VALUED: Final = ("agent", "attach", "model", "to")
USAGE: Final = "%chat [--agent NAME] [--model NAME] [--new] [--attach WHAT …] [--queue] [--quiet] [--to VARIABLE] [what to say]"


@dataclass
class Asked:
    """What a magic's line says."""

    text: str = ""
    agent: str | None = None
    model: str | None = None
    to: str | None = None
    attach: list[str] = field(default_factory=list)
    new: bool = False
    queue: bool = False
    quiet: bool = False


def parsed(line: str) -> Asked:
    """Raises `UsageError`."""
    asked, rest = Asked(), line.strip()
    while (option := _OPTION.match(rest)) is not None:
        name, rest = option[1], rest[option.end() :]
        if name in _FLAGS:
            setattr(asked, name, True)
            continue
        value = _VALUE.match(rest)
        if name not in _VALUED or value is None:
            raise UsageError(f"{'No value for' if name in _VALUED else 'No option'} --{name}. {USAGE}")
        rest = rest[value.end() :]
        said = next(part for part in (value[2], value[3], value[1]) if part is not None)
        if name == "attach":
            asked.attach.append(said)
        else:
            setattr(asked, name, said)
    if asked.to is not None and not asked.to.isidentifier():
        raise UsageError(f"--to {asked.to}: that is not the name of a variable.")
    asked.text = rest
    return asked


def load(shell: Any) -> None:
    """Bring the magics into a shell; once, however often it is asked."""
    if ChatMagics.__name__ in shell.magics_manager.registry:
        return
    shell.register_magics(ChatMagics)
    shell.input_transformers_cleanup.append(questions)


def questions(lines: list[str]) -> list[str]:
    """`%chat … ?` is a question to the chat, and not one to IPython, which would look up its last word."""
    if lines and lines[0].startswith("%%"):
        return lines
    return [
        f"get_ipython().run_line_magic('chat', {line.strip().removeprefix('%chat ')!r})\n"
        if line.startswith("%chat ") and line.rstrip().endswith("?")
        else line
        for line in lines
    ]


@magics_class
class ChatMagics(Magics):
    """One shell's."""

    shell: Any
    _chat: Chat | None = None

    @no_var_expand
    @line_cell_magic
    def chat(self, line: str, cell: str | None = None) -> Chat | Turn | Waiting | None:
        """Say something in the notebook's chat; without words, show it.

            %chat
            %chat --attach df What is odd here?

            %%chat --agent claude --attach df --attach 3 --to answer
            What is odd in {name}?

        {expression} and $name are filled in as in IPython's other magics. A text that begins with ! is a command, which the
        host runs.

        --agent NAME    the agent; another one than the chat's begins a new chat
        --model NAME    the model of this message
        --new           begin a new chat, which is the notebook's from then on
        --attach WHAT   a Python expression, a number (of a cell), or a path or address; may come more than once; in quotes
                        if it has spaces
        --queue         leave it in the chat's queue, and do not wait
        --quiet         do not show the answer
        --to VARIABLE   the turn (with --queue: the message that waits), in this variable
        """
        asked = parsed(self.shell.var_expand(line))
        words = [asked.text, *([self.shell.var_expand(cell)] if cell is not None else [])]
        text = "\n".join(filter(None, words)).strip()
        chat = self._notebooks(asked)
        if not text:
            if cell is not None or asked.attach or asked.queue or asked.to:
                raise UsageError(f"There is nothing to say. {USAGE}")
            return None if asked.quiet else chat
        attach = [self._meant(what) for what in asked.attach]
        said: Turn | Waiting
        if asked.queue:
            said = chat.queue(text, attach, model=asked.model)
        else:
            said = chat.send(text, attach, model=asked.model)
        if asked.to is not None:
            self.shell.user_ns[asked.to] = said
        return None if asked.quiet else said

    def _notebooks(self, asked: Asked) -> Chat:
        """The notebook's chat, or a new one."""
        chat = self._chat
        if chat is not None and chat.state == "closed":
            chat = None
        is_other = chat is not None and asked.agent not in (None, chat.agent)
        if chat is None or asked.new or is_other:
            path = notebook_path()
            if path is None:
                chat = Chat(asked.agent)
            else:
                key = os.path.realpath(path)
                chat = Chat.named(key, asked.agent, title=path.name, new=asked.new or is_other)
                if asked.agent not in (None, chat.agent):  # that of before the kernel's restart
                    chat = Chat.named(key, asked.agent, title=path.name, new=True)
            self._chat = chat
        return chat

    def _meant(self, what: str) -> Any:
        if what.isdigit():
            return Cell(int(what))
        if os.path.exists(os.path.expanduser(what)) or "://" in what:
            return what
        try:
            return self.shell.ev(what)
        except (NameError, SyntaxError, AttributeError) as error:
            raise UsageError(f"--attach {what}: it is no file here, and no expression: {error}") from error
