"""The reducers: what an action makes of a channel's state. Host and clients run the same ones, in two languages.

A reducer is pure. It never changes what it is given, reads no clock, gives an unchanged state back as the same object,
and copies no more than the way to what changed. Actions that it does not know, and malformed ones, change nothing;
keys that it does not know survive. `None` and a missing key are the same thing; a removed value is a missing key.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._base import Action, Reducer, State
from .annotations import reduce as _annotations
from .canvas import reduce as _canvas
from .changeset import reduce as _changeset
from .chat import reduce as _chat
from .resource_watch import reduce as _resource_watch
from .root import reduce as _root
from .session import reduce as _session
from .terminal import reduce as _terminal

REDUCERS: Mapping[str, Reducer] = MappingProxyType(
    {
        "root": _root,
        "session": _session,
        "chat": _chat,
        "terminal": _terminal,
        "changeset": _changeset,
        "annotations": _annotations,
        "resourceWatch": _resource_watch,
        "canvas": _canvas,
    }
)
"""By the kind of channel, as `uris.channel_kind` names it."""

__all__ = ["REDUCERS", "Action", "Reducer", "State"]
