"""The saved form of a chat: what is left of it in a notebook where nothing runs."""

from __future__ import annotations

from datetime import datetime

from ..client.html import transcript_html
from ..client.sync import Chat

_KEPT = 50
"""Turns that a notebook keeps, the latest ones: the host has them all."""


def transcript(chat: Chat) -> str:
    """What was said and answered so far, as plain HTML."""
    today = datetime.now().astimezone()
    return transcript_html(chat.title, chat.agent, chat.turns, keep=_KEPT, saved=f"{today.day} {today:%b %Y}")
