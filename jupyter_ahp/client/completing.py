"""What fits at the cursor of a message that is being written: M4, AHP 2.4 (`completions`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """One of them: a command, a path, another chat."""

    insert: str
    """What goes into the text."""
    start: int
    end: int
    """In place of `text[start:end]`."""
    label: str
    """As people see it."""
    description: str = ""
    attachment: Json = field(default_factory=dict, repr=False)
    """What the message then carries (AHP 4.2)."""

    def applied(self, text: str) -> str:
        """The text with it."""
        return text[: self.start] + self.insert + text[self.end :]


def completion_of(raw: Json, text: str, cursor: int) -> Completion:
    """From AHP's item, whose places are counted in UTF-16 units; one without goes in at the cursor."""
    attachment = raw.get("attachment") or {}
    start = raw.get("rangeStart")
    end = raw.get("rangeEnd")
    return Completion(
        insert=raw["insertText"],
        start=cursor if start is None else _index(text, start),
        end=cursor if end is None else _index(text, end),
        label=str(attachment.get("label") or raw["insertText"]),
        description=str((attachment.get("_meta") or {}).get("description") or ""),
        attachment=attachment,
    )


def units(text: str) -> int:
    """How long a text is in UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _index(text: str, place: int) -> int:
    """The index in Python of a place in UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * place].decode("utf-16-le", "replace"))
