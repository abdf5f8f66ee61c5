"""What arrives at a chat, in the order in which it does, and how it is refused (T3, T7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol.meta import SENDER, SENDER_NAME
from .pending import Cause
from .ports import Json

if TYPE_CHECKING:
    from .connection import Connection


class Refused(Exception):
    """An action that the host will not act on; the words go to its sender (T7)."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """An action, in the order in which it came."""

    sender: Connection
    client_seq: int
    action: Json
    during: str | None
    """The turn that ran then."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """Something behind which a waiting message may start, in the inbox behind what arrived before it."""

    cause: Cause
    turnings: int
    """What `Chat._turnings` was then."""


def stamp(sender: Connection) -> Json:
    """Who a message is from, for its `_meta` (T3)."""
    return {SENDER: sender.principal.id, SENDER_NAME: sender.principal.name}


def origin_of(sender: Connection, client_seq: int) -> Json:
    return {"clientId": sender.client_id, "clientSeq": client_seq}


def is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
