"""Resource watch channel (AHP 5.4): its one action is news for listeners, the state never changes."""

from __future__ import annotations

from ._base import reducer

reduce = reducer({})
