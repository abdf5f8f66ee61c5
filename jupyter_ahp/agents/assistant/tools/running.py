"""Running a command in a shell, with nothing left of it when it has ended or was stopped."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from jupyter_ahp.agents.assistant.tools.workspace import PATH, Refused, WorkTool, schema
from jupyter_ahp.agents.base import Json, ToolCall, ToolResult
from jupyter_ahp.agents.processes import Child, NotStarted, environment, find_program

SECONDS: Final = 120
"""That a command has, unless the model asks for more."""
MOST_SECONDS: Final = 3600
HEAD: Final = 10_000
"""Characters of the beginning of what a command printed, and as many again of its end, that the model is told."""
SHOWN: Final = 8_000
"""Characters of the end of it that people see while it runs."""
PAUSE: Final = 0.2
"""Seconds between two looks that people have at it."""
_PATIENCE: Final = 0.3
"""Seconds that a command has to end by itself when it is stopped, and again when it was asked to."""
_QUIET: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}
"""Nobody is there to turn a page, or to type a password."""

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


class RunCommand(WorkTool):
    name = "run_command"
    title = "Run a command"
    description = (
        "Run a command in a shell, in a directory of the chat, and read what it prints. It has no terminal and no input: "
        "nothing that waits for somebody. It ends with all that it started; nothing stays in the background. "
        f"`timeout` is in seconds, {SECONDS} if you do not say."
    )
    parameters = schema(
        ["command"],
        command={"type": "string", "minLength": 1},
        directory={**PATH, "description": f"{PATH['description']} Default: the first."},
        timeout={"type": "integer", "minimum": 1, "maximum": MOST_SECONDS},
    )
    effects = "run"

    def doing(self, arguments: Mapping[str, Any]) -> str:
        return f"Run {_one_line(arguments['command'])}"

    async def work(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolResult:
        place = await asyncio.to_thread(self.workspace.place, arguments.get("directory", "."))
        if not await asyncio.to_thread(os.path.isdir, place.path):
            raise Refused(f"There is no directory {place.name}.")
        seconds = arguments.get("timeout", SECONDS)
        env = environment(_QUIET)
        try:
            child = await Child.start(_shell(arguments["command"], env), cwd=place.path, env=env, pieces=True)
        except NotStarted as error:
            raise Refused(f"The command was not run. {error}") from error
        printed = _Printed(call)
        in_time = True
        try:
            async with asyncio.timeout(seconds):
                while (piece := await child.read()) is not None:
                    printed.take(piece)
                code = await child.wait()
        except TimeoutError:
            in_time = False
        finally:
            printed.close()
            await child.close(_PATIENCE)
        what = _one_line(arguments["command"])
        if not in_time:
            words = f"It did not end in {seconds} s, and was ended with all that it had started."
            return _result(printed, words, f"Ended after {seconds} s: {what}", failed=True)
        if code == 0:
            return _result(printed, "", f"Ran {what}", failed=False)
        ended = f"The exit code is {code}." if code > 0 else f"It was ended by the signal {-code}."
        return _result(printed, ended, f"Ran {what}: {ended.lower().removesuffix('.')}", failed=True)


def _result(printed: _Printed, words: str, message: str, *, failed: bool) -> ToolResult:
    output = printed.text(HEAD)
    told = "\n".join(part for part in (output, f"[{words}]" if words else "") if part)
    content: list[Json] = [{"type": "text", "text": told}] if told else []
    return ToolResult(told or "[It printed nothing.]", failed=failed, message=message, content=content)


class _Printed:
    """What a command prints, its middle left out when it is long; shown to people as it comes."""

    def __init__(self, call: ToolCall) -> None:
        self._call = call
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._head = ""
        self._tail = ""
        self._dropped = 0
        self._loop = asyncio.get_running_loop()
        self._showing: asyncio.TimerHandle | None = None

    def take(self, piece: bytes) -> None:
        text = self._decoder.decode(piece)
        room = HEAD - len(self._head)
        self._head += text[:room]
        self._tail += text[room:] if room > 0 else text
        if (over := len(self._tail) - 2 * HEAD) > HEAD:
            self._dropped += over
            self._tail = self._tail[over:]
        if self._showing is None:
            self._showing = self._loop.call_later(PAUSE, self._show)

    def close(self) -> None:
        """Nothing is shown any more."""
        if self._showing is not None:
            self._showing.cancel()

    def _show(self) -> None:
        self._showing = None
        text = _readable(f"{self._head}{self._tail}"[-SHOWN:])
        self._call.content([{"type": "text", "text": text}])

    def text(self, tail: int) -> str:
        dropped = self._dropped + max(0, len(self._tail) - tail)
        if not dropped:
            return _readable(self._head + self._tail)
        left_out = f"\n[… {dropped:,} characters are left out here …]\n"
        return _readable(self._head) + left_out + _readable(self._tail[-tail:])


def _readable(text: str) -> str:
    """Without colours, and of a line that was written over and over only what was left."""
    lines = _ESCAPES.sub("", text).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).rstrip()


def _shell(command: str, env: Mapping[str, str]) -> list[str]:
    if os.name == "nt":
        return [env.get("COMSPEC", "cmd.exe"), "/d", "/s", "/c", command]
    return [find_program("bash", env) or "/bin/sh", "-c", command]


def _one_line(command: str, longest: int = 100) -> str:
    words = " ".join(command.split())
    return words if len(words) <= longest else f"{words[:longest]}…"
