"""The bits of `status` (AHP 3.1). Test with `&`: InputNeeded contains InProgress. Bits that nobody knows are kept."""

from __future__ import annotations

from typing import Final

IDLE: Final = 1
ERROR: Final = 2
IN_PROGRESS: Final = 8
INPUT_NEEDED: Final = 24
IS_READ: Final = 32
IS_ARCHIVED: Final = 64

ACTIVITY_MASK: Final = 31
"""Bits 0 to 4: what it is doing. Those above are marks of people."""
