"""What a message can tell the mock model: the `!!` lines with which the last user message ends.

| line | what the server does |
|---|---|
| `!!text some words` | streams the words, one a chunk; `\\n` is a line break |
| `!!think some words` | streams them as reasoning |
| `!!chunks 20 0.01` | streams `c0 ` … `c19 `, that many seconds apart |
| `!!tool add {"a": 1}` | calls that tool; what follows is done when its result is there |
| `!!and add {"a": 1}` | calls that tool in the same answer as the `!!tool` behind it |
| `!!no-tools` | 400, it takes no tools, for a request that offers some |
| `!!delay 0.2` | waits |
| `!!status 429 2 7` | answers with that status for the first 2 requests (0 or absent: for ever), `retry-after: 7` |
| `!!overflow 3` | 400, the prompt is longer than the context, for more than 3 messages (absent: for any) |
| `!!quota` | 429, the account has no money left |
| `!!drop 1` | cuts the socket, for the first request only (absent: for ever) |
| `!!end` | ends the stream in good order, but without saying that the answer is finished |
| `!!hang` | says nothing more until the client goes away |
| `!!sse-error some words` | an error object inside the stream |
| `!!garbage` | something that is not JSON inside the stream |
| `!!html` | 200 with a web page, as a captive portal does |
| `!!length` | finishes with "the length limit was reached" |
| `!!no-effort` | 400, it is not to be told how much to think, for a request that says it |
| `!!cost 0.01` | says that the request cost so much, as OpenRouter does |
| `!!no-usage` | says nothing of tokens |

Steps are done in order. Counts are kept for each conversation (its messages), so that a client that asks again with
the same messages gets past them. Without such a line, the answer says what was asked and how many messages there were.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

WORDS: Final = frozenset(
    {
        "text",
        "think",
        "chunks",
        "tool",
        "and",
        "no-tools",
        "delay",
        "status",
        "overflow",
        "quota",
        "drop",
        "end",
        "hang",
        "sse-error",
        "garbage",
        "html",
        "length",
        "no-effort",
        "cost",
        "no-usage",
    }
)


CALLS: Final = ("tool", "and")


@dataclass(frozen=True, slots=True)
class Step:
    """One `!!word rest` line."""

    word: str
    rest: str = ""

    def number(self, index: int, default: float) -> float:
        """The number at `index` in the rest of the line."""
        fields = self.rest.split()
        return float(fields[index]) if len(fields) > index else default


def parse(text: str) -> list[Step]:
    """The steps at the end of a message, else none. Raises ValueError for a word that there is not."""
    steps: list[Step] = []
    for line in reversed(text.rstrip().splitlines()):
        match = re.match(r"\s*!!([a-z-]+) ?(.*)$", line)
        if match is None:
            break
        if match[1] not in WORDS:
            raise ValueError(f"the mock model knows no !!{match[1]}")
        rest = match[2] if match[1] in CALLS else match[2].replace("\\n", "\n")
        steps.append(Step(match[1], rest))
    steps.reverse()
    return steps


def behind_calls(steps: list[Step], calls: int) -> list[Step]:
    """The steps that are left when that many tools were called."""
    called = [index for index, step in enumerate(steps) if step.word in CALLS][:calls]
    return steps[called[-1] + 1 :] if called else steps


def pieces(text: str) -> list[str]:
    """A text as a model streams it: a word and the space after it at a time."""
    return re.findall(r"\S+\s*|\s+", text)


def default_answer(text: str, messages: int) -> str:
    """What is said when the message has no steps: the same for the same conversation."""
    shown = text if len(text) <= 200 else text[:200] + "…"
    return f"The mock model was told “{shown}” and saw {messages} messages."
