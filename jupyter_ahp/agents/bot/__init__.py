"""Bots: standing assistants, each with a folder, instructions, and other agents' sessions that do the work (B16).

`settings` is what they are set up with, `agent` what people pick, `conversation` one chat with one, `mirror` how what the
work says is said again in that chat.
"""

from __future__ import annotations

from .agent import BotAgent

__all__ = ["BotAgent"]
