"""What a person sees while `Chat.send` waits: in a notebook one line that changes, elsewhere only what needs them."""

from __future__ import annotations

import sys
import time
from typing import Any

from .chat import AsyncChat

_AFTER = 1.0  # seconds that a turn may take without a word
_EVERY = 1.0  # seconds between two changes of the line
_WHERE = "(In the chat's panel or widget, or here, from another thread: chat.approve(…), chat.answer(…).)"


class Progress:
    """For the time of one wait; `tick` is called often, from the thread that waits."""

    def __init__(self, chat: AsyncChat) -> None:
        self._chat = chat
        self._began = time.monotonic()
        self._next = self._began + _AFTER
        self._line: Any = None  # IPython's handle of what is displayed
        self._said = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._line is not None:
            how = "Answered in" if kind is None else "Ended after"
            self._show(f"{how} {time.monotonic() - self._began:.0f} s")

    def tick(self) -> None:
        """Say how it goes, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        activity = self._chat.activity
        if in_kernel():
            self._show(f"{activity or f'{self._chat.agent} works'}, {now - self._began:.0f} s")
        elif self._chat.state in ("waiting", "offline") and activity != self._said:
            self._said = activity
            sys.stderr.write(f"{activity}\n")
            if self._chat.state == "waiting":
                sys.stderr.write(f"{_WHERE}\n")

    def _show(self, text: str) -> None:
        from IPython.display import display

        content = {"text/plain": text}
        if self._line is None:
            self._line = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._line.update(content, raw=True)


def in_kernel() -> bool:
    """Whether this is a Jupyter kernel, whose output a front end shows."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
