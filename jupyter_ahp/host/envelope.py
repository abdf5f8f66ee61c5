"""One action on its way to clients: numbered once, encoded once, shared by every subscriber.

T6: a number for each envelope. U1: two spellings of a session's URI at most, so at most two encodings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ..protocol import uris
from .ports import Frame, Json

encode = msgspec.json.Encoder().encode

STREAMED = {"chat/delta": "markdown", "chat/reasoning": "reasoning"}
"""Action type to the kind of part that it appends to: the hot path."""

# Keys whose string values name a session, or something under one. User text stands under none of them.
_NAMING = frozenset({"channel", "resource", "session", "uriTemplate"})


class Spelling(NamedTuple):
    """How one connection wants sessions and the root spelled (U1)."""

    by_provider: bool = False
    """`<provider>:/<id>` instead of `ahp-session:/<id>`."""
    root: str = uris.ROOT


PLAIN = Spelling()


class Envelope:
    """An `action` message. `origin` is absent for the host's own."""

    __slots__ = ("_action", "_frames", "action", "channel", "origin", "provider", "reason", "seq")

    def __init__(
        self,
        channel: str,
        action: Json,
        seq: int,
        origin: Json | None = None,
        *,
        provider: str | None = None,
        reason: str | None = None,
        encoded: bytes | None = None,
    ) -> None:
        self.channel = channel
        self.action = action
        self.seq = seq
        self.origin = origin
        self.provider = provider
        """Of the session that the channel belongs to; None for a channel of no session."""
        self.reason = reason
        self._action = encoded
        self._frames: dict[Spelling, Frame] = {}

    @property
    def action_bytes(self) -> bytes:
        if self._action is None:
            self._action = encode(self.action)
        return self._action

    @property
    def size(self) -> int:
        """Bytes of the encoded message, about."""
        return len(self.action_bytes) + len(self.channel) + 120

    @property
    def stream_key(self) -> tuple[str, str, str] | None:
        """What it appends to, if it may be joined with its neighbours: (type, turn, part)."""
        action = self.action
        if action["type"] in STREAMED and self.origin is None and len(action) == 4:
            return action["type"], action["turnId"], action["partId"]
        return None

    def params(self, spelling: Spelling = PLAIN) -> Json:
        """As it goes into a replay."""
        out: Json = {"channel": self.channel, "action": self.action, "serverSeq": self.seq}
        if self.origin is not None:
            out["origin"] = self.origin
        if self.reason is not None:
            out["rejectionReason"] = self.reason
        return out if spelling is PLAIN else respell(out, spelling, self.provider)

    def frame(self, spelling: Spelling = PLAIN) -> Frame:
        """The message for clients of that spelling; encoded on the first call, shared after."""
        if spelling is not PLAIN and self.action["type"] in STREAMED:
            spelling = PLAIN  # names no session: one frame for all
        frame = self._frames.get(spelling)
        if frame is None:
            frame = self._frames[spelling] = Frame(self._encode(spelling))
        return frame

    def _encode(self, spelling: Spelling) -> bytes:
        if spelling is not PLAIN:
            return encode({"jsonrpc": "2.0", "method": "action", "params": self.params(spelling)})
        tail = b""
        if self.origin is not None:
            tail += b',"origin":' + encode(self.origin)
        if self.reason is not None:
            tail += b',"rejectionReason":' + encode(self.reason)
        return b'{"jsonrpc":"2.0","method":"action","params":{"channel":%b,"action":%b,"serverSeq":%d%b}}' % (
            encode(self.channel),
            self.action_bytes,
            self.seq,
            tail,
        )


class Joined:
    """Consecutive appends to one part, to become one envelope that reduces to the same state."""

    __slots__ = ("_pieces", "first_seq", "key", "last", "size")

    def __init__(self, first: Envelope) -> None:
        self.key = first.stream_key
        self.first_seq = first.seq
        self.last = first
        self._pieces: list[str] = [first.action["content"]]
        self.size = len(self._pieces[0])

    def add(self, envelope: Envelope) -> bool:
        """Take it in if it appends to the same part; say whether it was taken."""
        if self.key is None or envelope.stream_key != self.key or envelope.channel != self.last.channel:
            return False
        piece = envelope.action["content"]
        self._pieces.append(piece)
        self.size += len(piece)
        self.last = envelope
        return True

    def envelope(self) -> Envelope:
        last = self.last
        if len(self._pieces) == 1:
            return last
        action = {**last.action, "content": "".join(self._pieces)}
        return Envelope(last.channel, action, last.seq, provider=last.provider)


def respell(value: Json, spelling: Spelling, provider: str | None) -> Json:
    """A copy of a message in which every URI of a session is spelled for that connection.

    `provider` is that of the session that the message is about; a message about several (a list of summaries) names it
    in each summary, next to the URI.
    """
    out: Json = _respell(value, spelling, provider)
    return out


def _respell(value: Any, spelling: Spelling, provider: str | None) -> Any:
    if isinstance(value, dict):
        own = value.get("provider")
        if isinstance(own, str) and "resource" in value:
            provider = own
        return {
            key: _spell(item, spelling, provider)
            if key in _NAMING and isinstance(item, str)
            else _respell(item, spelling, provider)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_respell(item, spelling, provider) for item in value]
    return value


def _spell(uri: str, spelling: Spelling, provider: str | None) -> str:
    if uri == uris.ROOT:
        return spelling.root
    if spelling.by_provider and provider and uri.startswith("ahp-session:/"):
        return f"{provider}:/{uri[len('ahp-session:/') :]}"
    return uri
