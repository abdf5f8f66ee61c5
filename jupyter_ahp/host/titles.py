"""T8: an untitled chat is named by its first message, in its own words, or until there is one by its first command."""

from __future__ import annotations

import re

_LONGEST = 60
_MARKS = re.compile(r"^\s*(?:[#>*+-]+|\d+[.)])\s+|[`*_]{1,3}(?=\S)|(?<=\S)[`*_]{1,3}")
_SPACE = re.compile(r"\s+")


def title_of(text: str) -> str:
    """The first line that says something, without markdown's marks, cut between words; "" when there is none."""
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            continue
        words = _SPACE.sub(" ", _MARKS.sub("", line)).strip()
        if any(character.isalnum() for character in words):
            return _cut(words)
    return _cut(_SPACE.sub(" ", text).strip())


def title_of_command(line: str) -> str:
    return _cut(_SPACE.sub(" ", line.splitlines()[0]).strip())


def _cut(words: str) -> str:
    if len(words) <= _LONGEST:
        return words
    head, space, _ = words[: _LONGEST + 1].rpartition(" ")
    if not space or len(head) < _LONGEST // 2:
        head = words[: _LONGEST - 1]
    return head.rstrip(" ,;:.-") + "…"
