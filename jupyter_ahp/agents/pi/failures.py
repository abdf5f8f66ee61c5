"""Why a turn of pi's failed, in words for the person."""

from __future__ import annotations

import re

from jupyter_ahp.agents.base import TurnFailed


def failed(said: str) -> TurnFailed:
    """For what pi says of its model's API, which is that API's own words with the HTTP status ahead."""
    status = re.search(r"\b([45]\d\d)\b", said)
    code = int(status[1]) if status else 0
    if code in (401, 403) or re.search(r"api[ _-]?key|unauthori[sz]ed", said, re.IGNORECASE):
        words = "The model's API refused pi's key. Set a key that is valid: run `pi` in a terminal and type `/login`."
        return TurnFailed("authentication", words, resumable=True, details=said)
    if code == 429:
        words = (
            "The model's API has had too many requests, or the account's limit is reached. Try again later."
        )
        return TurnFailed("rate_limited", words, resumable=True, details=said)
    if code >= 500:
        words = f"The model's API is in trouble ({code}). What pi wrote is kept; try again."
        return TurnFailed("server_error", words, resumable=True, details=said)
    short = " ".join(said.split())[:300]
    return TurnFailed("api_error", f"pi could not get an answer: {short}", resumable=True, details=said)


def died(how: str) -> TurnFailed:
    """For a pi that ended in the middle of a turn."""
    first, _, rest = how.partition("\n")
    words = f"{first} What it wrote is kept. Try again: pi starts anew, with what it had written down of this chat."
    return TurnFailed("agentEnded", words, resumable=True, details=rest or None)
