"""Which messages are commands rather than words (AHP 1.4, `terminalCommandPrefix`; M5)."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "!"


def command_of(text: str) -> str | None:
    """The command that a message is; None for one that is for the agent, as a lone `!` is."""
    return (text[len(PREFIX) :].strip() or None) if text.startswith(PREFIX) else None
