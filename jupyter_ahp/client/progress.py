"""What a person sees while `Chat.send` waits: in a notebook the answer as it grows, at a terminal one line that changes, elsewhere
what needs them, and now and then that it goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from .chat import AsyncChat

_AFTER = 1.0  # seconds that a turn may take without a word
_EVERY = 0.5  # seconds between two changes of what is shown
_SIGN = 60.0  # seconds between two signs of life in a log
_LIVE = 4_000  # characters of the answer that are shown while it grows: its end
_WHERE = "(In the chat's panel or widget, or here, from another thread: chat.approve(…), chat.answer(…).)"


class Progress:
    """For the time of one wait; `tick` is called often, from the thread that waits.

    `count` says how far many turns are, in place of what one says.
    """

    def __init__(self, chat: AsyncChat, count: Callable[[], str] | None = None) -> None:
        self._chat = chat
        self._count = count
        self._began = time.monotonic()
        self._next = self._began + _AFTER
        self._sign = self._began + _SIGN
        self._line: Any = None  # IPython's handle of what is displayed
        self._shown = ""
        self._said = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._line is not None:
            how = "Answered in" if kind is None else "Ended after"
            self._display({"text/plain": f"{how} {self._seconds:.0f} s"})
        self._erase()

    def _erase(self) -> None:
        """Take the line at the terminal away."""
        if self._shown:
            sys.stderr.write(f"\r{' ' * len(self._shown)}\r")
            sys.stderr.flush()
            self._shown = ""

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def tick(self) -> None:
        """Say how it goes, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        doing = self._count() if self._count is not None else self._chat.activity
        line = f"{doing or f'{self._chat.agent} works'}, {self._seconds:.0f} s"
        if in_kernel():
            self._live(line)
            return
        self._call(self._chat.activity)
        if sys.stderr.isatty():
            line = line if len(line) < 78 else f"{line[:77]}…"
            sys.stderr.write(f"\r{line.ljust(len(self._shown))}")
            sys.stderr.flush()
            self._shown = line
        elif now > self._sign:
            self._sign = now + _SIGN
            sys.stderr.write(f"{line}\n")

    def _call(self, activity: str) -> None:
        """Say what needs a person, once."""
        if self._chat.state in ("waiting", "offline") and activity != self._said:
            self._said = activity
            self._erase()
            where = f"{_WHERE}\n" if self._chat.state == "waiting" else ""
            sys.stderr.write(f"{activity}\n{where}")

    def _live(self, line: str) -> None:
        text = "" if self._count is not None else self._chat._said
        if len(text) > _LIVE:
            text = f"…{text[-_LIVE:]}"
        if self._chat.state == "waiting":
            line = f"{line}\n{_WHERE}"
        if not text:
            self._display({"text/plain": line})
        else:
            self._display({"text/plain": line, "text/markdown": f"{text}\n\n*{line}*"})

    def _display(self, content: dict[str, str]) -> None:
        from IPython.display import display

        if self._line is None:
            self._line = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._line.update(content, raw=True)


def in_kernel() -> bool:
    """Whether this is a Jupyter kernel, whose output a front end shows."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
