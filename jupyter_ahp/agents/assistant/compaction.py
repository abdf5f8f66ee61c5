"""When a chat gets longer than its model can read: what was said first is summarised by the model itself (T9).

The summary is kept in the turn in which it was made, in the notice that says so. So it is there after a restart, goes along
with a fork behind that turn, and is gone with a rewind ahead of it: then all is told again, as if it had never been.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jupyter_ahp.agents.assistant.history import Earlier, Said, all_tokens, rounded
from jupyter_ahp.agents.assistant.sizes import cut, shortened

WORTH: Final = 300
"""Tokens; less is not worth a request."""
LONGEST: Final = 2_000
"""Tokens of a summary that are kept."""
_RESULT: Final = 600
"""Characters of what a call said that go into a summary."""
_SHARE: Final = 4
"""One part in this many of what a model can read is for the newest turns, which stay as they are."""

SUMMARISE: Final = """\
Summarise this conversation for yourself: you go on with it, and will see nothing else of it. Keep what the person wants and \
has decided, facts, names, numbers, paths of files and what was changed in them, what is done and what is left to do. \
500 words at most, in the language of the conversation. Answer with the summary alone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is summarised, and what stays."""

    covered: Sequence[Earlier]
    kept: Sequence[Earlier]

    @property
    def through(self) -> str:
        """The id of the last turn that the summary has."""
        return self.covered[-1].turn_id

    def notice(self, model: str, summary: Said) -> str:
        """What the person is told. The numbers are ours, so they are round."""
        before = all_tokens([said for turn in self.covered for said in turn.said])
        turns = "1 turn" if len(self.covered) == 1 else f"{len(self.covered)} turns"
        return (
            f"This chat became longer than {model} can read, so it summarised what was said first: {turns}, about "
            f"{rounded(before)} tokens, became about {rounded(summary.tokens)}. Nothing is lost here in the chat."
        )


def plan(earlier: Sequence[Earlier], limit: int) -> Plan | None:
    """How to make room in what a model can read, which is `limit` tokens; None if there is not enough to summarise."""
    room = limit // _SHARE
    kept = 0
    for turn in reversed(earlier):
        room -= all_tokens(turn.said)
        if room < 0:
            break
        kept += 1
    covered = earlier[: len(earlier) - kept]
    if all_tokens([said for turn in covered for said in turn.said]) < WORTH:
        return None
    return Plan(covered, earlier[len(covered) :])


def pieces(covered: Sequence[Earlier], tokens: int) -> list[str]:
    """The transcript of what is summarised, in pieces of at most that many tokens, about."""
    found: list[str] = []
    piece, room = "", tokens
    for said in (said for turn in covered for said in turn.said):
        text = cut(_told(said), tokens)
        needed = len(text) // 3 + 8
        if piece and needed > room:
            found.append(piece)
            piece, room = "", tokens
        piece += f"{text}\n\n"
        room -= needed
    return [*found, piece] if piece else found


def asking(piece: str, so_far: str) -> str:
    """The message by which a summary is asked for; `so_far` is that of what stands ahead of the piece."""
    ahead = f"A summary of what was said ahead of this:\n{so_far}\n\n" if so_far else ""
    return f"{ahead}<conversation>\n{piece.strip()}\n</conversation>\n\n{SUMMARISE}"


def short(summary: str) -> str:
    return cut(summary.strip(), LONGEST)


def _told(said: Said) -> str:
    who = "Person" if said.role == "user" else "You"
    calls = [
        f"[You called {c.name}({shortened(c.arguments, _RESULT)}): {shortened(c.result, _RESULT)}]"
        for c in said.calls
    ]
    images = [f"[The image {image.label}]" for image in said.images]
    return f"{who}: " + "\n".join(part for part in (*images, said.text, *calls) if part)
