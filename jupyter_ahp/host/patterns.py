"""Patterns of others' (a client's, a repository's): looking for one must not take for ever. M4; AHP 5.4.

Each star of a pattern is tried at every length, so that a short one can take years on a long name; and whoever looks holds
up everybody, since a regular expression is not interrupted.
"""

from __future__ import annotations

import re
from typing import Final

_STARS: Final = 4
"""In a pattern, beside `**` between slashes, and of these as many."""
_STAR = re.compile(r"\*+")
_DEEP = re.compile(r"(?:^|(?<=/))\*\*(?=/|$)")


def takes_for_ever(pattern: str) -> bool:
    """Whether looking for it may."""
    deep = len(_DEEP.findall(pattern))
    return deep > _STARS or len(_STAR.findall(pattern)) - deep > _STARS
