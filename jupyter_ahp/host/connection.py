"""One client: handshake, subscriptions, and what goes out to it.

M1, T6, T7, U1 (one spelling throughout), AHP 1.3 to 1.8. Messages of one client are admitted in order; what a client
sends never closes its connection, except an offer of versions that we do not serve (1.5). A slow client has an outbox
bounded in bytes: consecutive text of one part is joined there, and past a second bound the connection is closed, so
that the client comes back and is given a snapshot. It never slows the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..protocol import jsonrpc, uris
from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    FrameError,
    ProtocolError,
    method_not_found,
)
from ..protocol.validate import check_params
from .envelope import PLAIN, Envelope, Joined, Spelling, encode, respell
from .grants import Authorize, Gate
from .ports import Frame, Json, Principal, StoreError, Transport
from .uploads import new_name

if TYPE_CHECKING:
    from .channels import Channel, Coalescer
    from .host import Host

log = logging.getLogger(__name__)

SOFT_LIMIT = 256 * 1024
"""Bytes that the transport may hold before messages wait, and are joined, in the outbox."""
HARD_LIMIT = 8 * 1024 * 1024
"""Bytes in the outbox past which the client is sent away to come back for a snapshot."""
TOO_SLOW = 4008
"""Close code of that."""
_REMEMBERED = 4096  # client sequence numbers kept for each client
_LISTINGS = 8  # cursors into the list of sessions, of each connection
_ANSWERS = 64  # of these, how many are kept with their answers

Handler: TypeAlias = Callable[["Connection", Json], Awaitable[Any]]
Methods: TypeAlias = Mapping[str, tuple[Handler, bool]]
"""By name: what answers it, and whether the client's next message waits for it."""


@dataclass(frozen=True, slots=True)
class Later:
    """What a handler returns whose result takes the client's help, or long: its next messages do not wait for it."""

    result: asyncio.Future[Any]
    """Not cancelled when the client goes."""


@dataclass(slots=True)
class Client:
    """What outlives a socket: a client id's version and which of its actions were taken."""

    client_id: str
    principal: str
    """Whose it is: a client id is no secret, so nobody else is taken for it."""
    version: str
    spelling: Spelling
    older_window: bool
    taken: dict[int, bytes] = field(default_factory=dict)
    """By client sequence number, what was taken under it."""
    answers: dict[int, Envelope] = field(default_factory=dict)
    """By client sequence number, how the last of them were answered."""
    latencies: dict[str, int] = field(default_factory=dict)
    """`delivery.maxLatencyMs` by channel, for when it comes back."""
    partial: set[str] = field(default_factory=set)
    """Chats of which it was not given every turn."""
    uploads: str = field(default_factory=new_name)
    """The name of the folder that it may write large files to."""
    wants_snapshot: bool = False
    """It was sent away: what it missed is more than a replay should carry."""
    mixed: tuple[int, int] | None = None
    """Text of these numbers was joined behind what came between: one who saw less than all of it missed some."""

    def take(self, client_seq: int, channel: str, action: Json) -> bool:
        """Whether this is new. 0 always is (never ordered, never deduplicated).

        The same number with something else is new too: a page that was loaded again, under the id of the one before,
        counts from the beginning.
        """
        if client_seq == 0:
            return True
        what = hashlib.blake2b(encode([channel, action]), digest_size=16).digest()
        if self.taken.get(client_seq) == what:
            return False
        self.taken.pop(client_seq, None)
        self.answers.pop(client_seq, None)
        self.taken[client_seq] = what
        if len(self.taken) > _REMEMBERED:
            del self.taken[next(iter(self.taken))]
        return True

    def missed_some(self, seq: int) -> bool:
        """Whether a client that saw everything up to this number may lack something before it."""
        return self.mixed is not None and self.mixed[0] <= seq < self.mixed[1]


class NoVersion(ProtocolError):
    """The offer of versions is malformed, or none of it is served: answered, then the connection is closed (AHP 1.5)."""


class Connection:
    """A client's socket, as the host sees it."""

    def __init__(
        self,
        host: Host,
        transport: Transport,
        principal: Principal,
        authorize: Authorize | None = None,
        *,
        site: str | None = None,
    ) -> None:
        self.host = host
        self.site = site
        """The server's base URL as this client reaches it; None for one that reaches none."""
        self.principal = principal
        self.gate = Gate(host.options.grants.role_of(principal), authorize, commands=host.terminals.on)
        self.client: Client | None = None
        self.version = "0"
        self.spelling = PLAIN
        self.subscriptions: dict[str, Channel] = {}
        self.holding: Coalescer | None = None
        self.listings: OrderedDict[str, list[str]] = OrderedDict()
        """The sessions behind each cursor that this client was given last."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.completing: asyncio.Task[list[Json]] | None = None
        """The search for what fits at this person's cursor: there is one cursor, so the newest asks."""
        self._transport = transport
        self.gone = False
        """The socket is closed, or being closed since the client is too slow: nothing more goes to it."""
        self._names_sessions = False
        self._outbox: OrderedDict[int, Joined | Envelope | Frame] = OrderedDict()
        self._outbox_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._places = itertools.count()
        self._tails: dict[str, int] = {}  # channel to the place of its text that can still grow
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}

    # ── in ───────────────────────────────────────────────────────────────────────────────────────────────────
    async def receive(self, frame: str | bytes) -> None:
        """Admit one message. Bad input is answered with its code of 1.3; the connection lives on."""
        try:
            message = jsonrpc.decode(frame)
        except ProtocolError as error:
            self._answer(error.request_id if isinstance(error, FrameError) else None, error=error)
            return
        if isinstance(message, jsonrpc.Response):
            self._responded(message)
        elif isinstance(message, jsonrpc.Request):
            await self._request(message)
        else:
            await self._notified(message)

    async def _request(self, request: jsonrpc.Request) -> None:
        handler, waits = self.host.methods.get(request.method, (None, False))
        try:
            if handler is None:
                raise method_not_found(request.method)
            if self.client is None and request.method not in ("initialize", "reconnect", "ping"):
                raise ProtocolError(INVALID_REQUEST, "Say `initialize` first.")
            if not request.method.startswith("x-"):  # ours; its handler checks what it reads (AHP 1.1)
                check_params(request.method, request.params)
        except ProtocolError as error:
            self._answer(request.id, error=error)
            return
        if waits:  # in its place among this client's messages
            await self._run(handler, request)
        else:
            self._own(asyncio.create_task(self._run(handler, request)))

    async def _run(self, handler: Handler, request: jsonrpc.Request) -> None:
        await self._conclude(request, self._handle(handler, request))

    async def _handle(self, handler: Handler, request: jsonrpc.Request) -> Any:
        await self.gate.check(request.method, request.params)
        return await handler(self, request.params)

    async def _conclude(self, request: jsonrpc.Request, work: Awaitable[Any]) -> None:
        """Answer a request with what the work on it comes to."""
        try:
            result = await work
            if isinstance(result, Later):
                self._own(asyncio.create_task(self._conclude(request, asyncio.shield(result.result))))
            else:
                self._answer(request.id, result)
        except ProtocolError as error:
            self._answer(request.id, error=error)
            if isinstance(error, NoVersion):
                self.close(1002, "no common protocol version")  # AHP 1.5
        except StoreError as error:
            self._answer(request.id, error=ProtocolError(INTERNAL_ERROR, str(error)))
        except Exception as error:
            log.exception("%s failed", request.method)
            failure = ProtocolError(
                INTERNAL_ERROR, f"{request.method} failed: {type(error).__name__}: {error}"
            )
            self._answer(request.id, error=failure)

    async def _notified(self, message: jsonrpc.Notification) -> None:
        if self.client is None:
            return
        if message.method == "dispatchAction":
            await self.host.dispatch(self, message.params)
        elif message.method == "unsubscribe":
            self.host.unsubscribe(self, message.params)
        # Others are extensions of some client's (AHP 1.1): ignored.

    def _own(self, task: asyncio.Task[None]) -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────
    def name_session(self, uri: str) -> None:
        """A client that names sessions `<provider>:/<id>` is answered so from then on (U1)."""
        if not self._names_sessions and uris.session_id(uri) is not None:
            self._names_sessions = True
            if not uri.startswith("ahp-session:") and not self.spelling.by_provider:
                self.respell(self.spelling._replace(by_provider=True))

    def respell(self, spelling: Spelling) -> None:
        self.spelling = PLAIN if spelling == PLAIN else spelling
        if self.client is not None:
            self.client.spelling = self.spelling

    def spelled(self, value: Json, provider: str | None = None) -> Json:
        """A message's content as this client spells it."""
        return value if self.spelling is PLAIN else respell(value, self.spelling, provider)

    def keep_listing(self, sessions: list[str]) -> str:
        """A cursor to these sessions."""
        cursor = str(next(self._ids))
        self.listings[cursor] = sessions
        if len(self.listings) > _LISTINGS:
            self.listings.popitem(last=False)
        return cursor

    # ── out ──────────────────────────────────────────────────────────────────────────────────────────────────
    def deliver(self, envelope: Envelope) -> None:
        """An action, in its order."""
        if self.gone:
            return
        if self.holding is not None:
            self.release()
        if self._outbox or self._transport.buffered > SOFT_LIMIT:
            self._enqueue(envelope)
        else:
            self._transport.write(envelope.frame(self.spelling))

    def release(self) -> None:
        """Let go of what is held back for this client."""
        if self.holding is not None:
            self.holding.flush()

    def send(self, frame: Frame) -> None:
        """Anything that is not an action: answers, notifications, requests of ours."""
        if self.gone:
            return
        if self.holding is not None:
            self.release()
        if self._outbox or self._transport.buffered > SOFT_LIMIT:
            self._enqueue(frame)
        else:
            self._transport.write(frame)

    async def room(self) -> None:
        """Wait until what was sent is on its way: for an answer that is large, right before it is returned."""
        while not self.gone and (self._outbox or self._transport.buffered > SOFT_LIMIT):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def notify(self, method: str, params: Json, provider: str | None = None) -> None:
        self.send(
            Frame(encode({"jsonrpc": "2.0", "method": method, "params": self.spelled(params, provider)}))
        )

    def reject(self, channel: str, action: Json, client_seq: int, reason: str) -> None:
        """Say no to the sender, and to no one else (T7). It takes a number of its own (T6)."""
        origin = {"clientId": self.client_id, "clientSeq": client_seq}
        refusal = Envelope(channel, action, self.host.hub.sequence.next(), origin, reason=reason)
        refusal.provider = self.host.provider_of(channel)
        self.took(client_seq, refusal)
        target = self.host.connection_of(self.client_id) if self.gone else self
        if target is not None and target.principal.id == self.principal.id:
            target.deliver(refusal)

    def took(self, client_seq: int, answer: Envelope) -> None:
        """Remember how an action was answered, should it be sent again."""
        if client_seq and self.client is not None:
            self.client.answers[client_seq] = answer
            if len(self.client.answers) > _ANSWERS:
                del self.client.answers[next(iter(self.client.answers))]

    def _answer(self, request_id: Any, result: Any = None, *, error: ProtocolError | None = None) -> None:
        if error is None:
            self.send(Frame(encode({"jsonrpc": "2.0", "id": request_id, "result": result})))
            return
        self.send(Frame(encode({"jsonrpc": "2.0", "id": request_id, "error": error.to_wire()})))

    def _enqueue(self, item: Envelope | Frame) -> None:
        if isinstance(item, Envelope):
            if self._joins(item):
                return
            self._tails.pop(item.channel, None)
        else:
            self._tails.clear()  # it may hold a snapshot: text from before it must not go out behind it
        place = next(self._places)
        entry = Joined(item) if isinstance(item, Envelope) and item.stream_key is not None else item
        if isinstance(entry, Joined):
            self._tails[entry.last.channel] = place
        self._outbox[place] = entry
        self._outbox_bytes += _size(entry)
        self._bound()

    def _joins(self, envelope: Envelope) -> bool:
        """Whether it was joined with text that waits."""
        place = self._tails.get(envelope.channel)
        tail = self._outbox.get(place) if place is not None else None
        if place is None or not isinstance(tail, Joined) or not tail.add(envelope):
            return False
        self._outbox_bytes += len(envelope.action["content"])
        if next(reversed(self._outbox)) != place:
            # Moved behind what came between: numbers ascend, but a replay from between would miss some.
            self._outbox.move_to_end(place)
            if self.client is not None:
                first = tail.first_seq if self.client.mixed is None else self.client.mixed[0]
                self.client.mixed = min(first, tail.first_seq), envelope.seq
        self._bound()
        return True

    def _bound(self) -> None:
        if self._outbox_bytes > HARD_LIMIT:
            log.warning("Client %s reads too slowly: closed, to come back for a snapshot", self.client_id)
            self.send_away("too far behind: reconnect for a snapshot")

    def send_away(self, reason: str) -> None:
        """Close the socket; the client comes back and is given snapshots."""
        if self.client is not None:
            self.client.wants_snapshot = True
        self.gone = True
        self._clear()
        self._transport.close(TOO_SLOW, reason)

    def drained(self) -> None:
        """The transport can take more."""
        while self._outbox and self._transport.buffered <= SOFT_LIMIT:
            place, item = self._outbox.popitem(last=False)
            self._outbox_bytes -= _size(item)
            if isinstance(item, Joined):
                if self._tails.get(item.last.channel) == place:
                    del self._tails[item.last.channel]
                item = item.envelope()
            self._transport.write(item.frame(self.spelling) if isinstance(item, Envelope) else item)
        self._let_go()

    def _let_go(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _clear(self) -> None:
        self._outbox.clear()
        self._tails.clear()
        self._outbox_bytes = 0
        self._let_go()

    # ── asking the client ────────────────────────────────────────────────────────────────────────────────────
    async def request(self, method: str, params: Json, *, timeout: float) -> Any:
        """A request of ours. Raises `ProtocolError` with the client's error, `TimeoutError`, `ConnectionError`."""
        if self.gone:
            raise ConnectionError("the client is gone")
        request_id = next(self._ids)
        future = self._asked[request_id] = asyncio.get_running_loop().create_future()
        self.send(Frame(encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})))
        try:
            async with asyncio.timeout(timeout):
                return await future
        finally:
            del self._asked[request_id]

    def _responded(self, response: jsonrpc.Response) -> None:
        future = self._asked.get(response.id) if isinstance(response.id, int) else None
        if future is None or future.done():
            return
        if response.error is not None:
            future.set_exception(response.error)
        else:
            future.set_result(response.result)

    # ── end ──────────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def client_id(self) -> str:
        return self.client.client_id if self.client else "(no handshake)"

    def close(self, code: int, reason: str) -> None:
        self._transport.close(code, reason)

    async def closed(self) -> None:
        """The socket is gone: nothing of this connection stays."""
        if self not in self.host.connections:
            return
        self.gone = True
        for channel in self.subscriptions.values():
            channel.leave(self)
        self.subscriptions.clear()
        self._clear()
        for future in self._asked.values():
            if not future.done():
                future.set_exception(ConnectionError("the client is gone"))
        for task in tuple(self.tasks):
            task.cancel()
        self.host.left(self)


def _size(item: Joined | Envelope | Frame) -> int:
    return len(item.payload) if isinstance(item, Frame) else item.size
