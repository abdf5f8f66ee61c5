"""AHP over one socket after another: handshake, requests, dispatch, and coming back for ever.

AHP 1.3 to 1.8. Everything that arrives is taken in order, in one place. What was dispatched and not yet answered is
sent again after each reconnect under the number that it had, in order: the host takes a number once (T1), so nothing
is sent twice and nothing is lost. The address and the token are looked up anew for each try, since a server that was
restarted may have others.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from websockets.exceptions import ConnectionClosed

from .._version import __version__
from ..protocol import jsonrpc, uris
from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    ProtocolError,
)
from ..protocol.meta import MAX_MESSAGE
from .discovery import Server
from .errors import NoHost
from .files import Files
from .mirror import Mirror
from .pending import Pending
from .socket import FAILURES, dial, failure
from .ways import Socket, Way

Json = dict[str, Any]
Handler = Callable[[Json], Awaitable[Any]]

VERSIONS = ("1.0.0", "0.9.0")
"""What we speak, best first (AHP 1.5)."""

TOO_BIG = 1009
"""The WebSocket's close code for a message that the other side does not take for its size."""

logger = logging.getLogger(__name__)


class ConnectionLost(Exception):
    """The socket went before an answer came: the request may have been carried out."""


class AskedTwice(ProtocolError):
    """What the host answered to a request whose first answer was lost: it may refuse what it has just done."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a connection waits for what. Seconds."""

    first: float = 0.5
    """Before the first try to come back; then twice that, and so on."""
    most: float = 30.0
    """Between two tries, at most."""
    settled: float = 5.0
    """Online before a loss counts as the first one again: a host that falls over what we send is not hammered."""
    quiet: float = 20.0
    """Without a word from the host before it is asked for one (`ping`)."""
    patience: float = 10.0
    """For the answer to that, and for the socket to open."""
    welcome: float = 30.0
    """For the host to take us in. It may have to start first."""

    def delay(self, failures: int) -> float:
        """Before the next try, after so many that failed. Spread out, so that not all clients come at once."""
        return float(min(self.most, self.first * 2 ** min(failures, 16))) * random.uniform(0.5, 1.0)


class _Request:
    __slots__ = ("answer", "size", "take")

    def __init__(self, take: Callable[[Any], None] | None, size: int) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.size = size
        self.take = take


def _mib(size: int) -> str:
    return f"{size / (1024 * 1024):,.1f} MiB"


def _seen(first: asyncio.Future[None]) -> None:
    """How the first try went is told to those who wait in `open`; there may be none."""
    if not first.cancelled():
        first.exception()


class Connection:
    """One client of one host, over as many sockets as it takes. Belongs to the event loop that opened it.

    `resolve` says where the host is now; it may raise `NoHost`.
    """

    def __init__(
        self, resolve: Callable[[], Server | Way], *, client_id: str | None = None, pace: Pace | None = None
    ) -> None:
        self.client_id = client_id or f"jupyter-ahp-python-{uuid.uuid4()}"
        self.status: Literal["new", "connecting", "online", "offline", "closed"] = "new"
        self.problem = ""
        """Why it is offline, for people; empty while it is not."""
        self.meta: Json = {}
        """What the host said of itself beyond the protocol (`_meta` of `initialize`)."""
        self.near = False
        """Whether the host is on this machine, as far as can be told: a path is then the same file there."""
        self.alone = False
        """Whether the host is in this process, so that nobody else can be at it."""
        self.files = Files(self)
        self.handlers: dict[str, Handler] = {"resourceRead": self.files.read}
        """Answers to the host's requests, by method; the rest is answered with -32601. Each gets the params."""
        self._resolve = resolve
        self._pace = pace or Pace()
        self._run_task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._online = asyncio.Event()
        self._mirrors: dict[str, Mirror] = {}
        self._subscribing = asyncio.Lock()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._ids = itertools.count(1)
        self._requests: dict[Any, _Request] = {}
        self._pending = Pending()
        self._answering: set[asyncio.Task[None]] = set()
        self._known = False
        self._last_seq = 0
        self._heard = 0.0
        self._since = 0.0

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────
    async def open(self) -> None:
        """Connect. Raises `NoHost` when the first try fails; from then on it comes back by itself."""
        self._alive()
        if self._run_task is None:
            self.status = "connecting"
            self._first = asyncio.get_running_loop().create_future()
            self._first.add_done_callback(_seen)
            self._run_task = asyncio.create_task(self._run(), name="jupyter-ahp connection")
        assert self._first is not None
        await asyncio.shield(self._first)

    async def close(self) -> None:
        """Send what waits to be sent, if that is a matter of a moment, and go. What is unanswered then is refused."""
        if self.status == "online":
            try:
                async with asyncio.timeout(1):
                    await self._outbox.join()
            except TimeoutError:
                logger.warning("Closed with %d messages unsent", self._outbox.qsize())
        if self._run_task is not None:
            self._run_task.cancel()
            await asyncio.wait([self._run_task])
        self._end()

    def _alive(self) -> None:
        if self.status == "closed":
            raise NoHost(self.problem or "This connection was closed.")

    def _end(self) -> None:
        """Nobody waits for what will not come any more."""
        self.status = "closed"
        self._online.set()
        why = self.problem or "The connection was closed."
        for mirror in self._mirrors.values():
            mirror.end(why)
        self._pending.refuse("The connection was closed before the host answered.")

    # ── asking and telling ───────────────────────────────────────────────────────────────────────────────────────
    async def request(self, method: str, params: Json, *, take: Callable[[Any], None] | None = None) -> Any:
        """The host's result. `take` gets it before anything that arrives after it is looked at.

        While offline it waits; a request whose answer was lost is made again, so use it for what may be done twice.
        Raises `ProtocolError` with the host's error (`AskedTwice` where it answers the second time), `NoHost` when the
        connection is closed meanwhile.
        """
        again = False
        while True:
            await self._online.wait()
            self._alive()
            try:
                return await self._ask(method, params, take)
            except ConnectionLost:
                logger.debug("%s is asked again", method)
                again = True
            except ProtocolError as error:
                if again:
                    raise AskedTwice(error.code, error.message, error.data) from error
                raise

    async def _ask(self, method: str, params: Json, take: Callable[[Any], None] | None = None) -> Any:
        request_id = next(self._ids)
        frame = jsonrpc.request(request_id, method, params)
        if (problem := self._too_large(frame)) is not None:
            raise ProtocolError(INVALID_REQUEST, problem)
        request = self._requests[request_id] = _Request(take, len(frame))
        self._outbox.put_nowait(frame)
        try:
            return await request.answer
        finally:
            self._requests.pop(request_id, None)

    def dispatch(self, channel: str, action: Json) -> asyncio.Future[None]:
        """Send an action. The future is done when the host has applied it here, and raises `Refused` if it would not.

        Subscribe to the channel first: only then does the host answer.
        """
        self._alive()
        client_seq, frame, answer = self._pending.add(channel, action)
        if (problem := self._too_large(frame)) is not None:
            self._pending.answered(client_seq, problem)
        elif channel not in self._mirrors:
            self._pending.refuse(f"The host has no {channel} any more.", channel)
        elif self.status == "online":
            self._outbox.put_nowait(frame)
        return answer

    def _too_large(self, frame: bytes) -> str | None:
        """Why this message cannot go: the host closes the line on it, and would again. None if it can, or nobody knows."""
        most = self.meta.get(MAX_MESSAGE)
        if most is None or len(frame) <= most:
            return None
        return f"This message is too large: {_mib(len(frame))}. The host takes {_mib(most)} at once."

    async def subscribe(self, channel: str) -> Mirror:
        """The channel's mirror; one for all who subscribe to it here. Raises `ProtocolError` if there is none such."""
        async with self._subscribing:
            mirror = self._mirrors.get(channel)
            if mirror is not None:
                mirror.users += 1
                return mirror

            fresh: list[Mirror] = []

            def take(result: Json) -> None:
                fresh.append(Mirror(channel, result["snapshot"]))
                self._mirrors[channel] = fresh[-1]

            await self.request("subscribe", {"channel": channel}, take=take)
            return fresh[-1]

    async def unsubscribe(self, mirror: Mirror) -> None:
        """One user less; the last one ends the subscription, once the host has answered what was dispatched there."""
        mirror.users -= 1
        if mirror.users or self._mirrors.get(mirror.channel) is not mirror:
            return
        if unanswered := self._pending.answers(mirror.channel):
            await asyncio.wait(unanswered, timeout=2)
        if mirror.users or self.status == "closed":
            return  # Somebody subscribed again meanwhile.
        self.drop(mirror.channel, "Nobody here watches it any more.")
        if self.status == "online":
            self._outbox.put_nowait(jsonrpc.notification("unsubscribe", {"channel": mirror.channel}))

    def drop(self, channel: str, why: str) -> None:
        """Watch a channel no longer: it is gone, or nobody here needs it."""
        if (mirror := self._mirrors.pop(channel, None)) is not None:
            mirror.end(why)
        self._pending.refuse(why, channel)

    # ── sockets, one after another ───────────────────────────────────────────────────────────────────────────────
    async def _run(self) -> None:
        assert self._first is not None
        clock = asyncio.get_running_loop().time
        failures = 0
        try:
            while True:
                server: Server | Way | None = None
                try:
                    server = self._resolve()
                    self.alone = isinstance(server, Way)
                    self.near = isinstance(server, Way) or server.own or server.loopback
                    async with dial(server, open_timeout=self._pace.patience) as socket:
                        await self._session(socket)
                except FAILURES as error:
                    problem = failure(server, error)
                    if (
                        isinstance(error, ConnectionClosed)
                        and error.rcvd is not None
                        and error.rcvd.code == TOO_BIG
                    ):
                        self._give_up_the_largest()
                self.problem = str(problem)
                if self.status == "online" and clock() - self._since > self._pace.settled:
                    failures = 0
                self._offline()
                if not self._first.done():
                    self._first.set_exception(problem)
                    return
                delay = self._pace.delay(failures)
                failures += 1
                logger.info("%s Next try in %.1f s.", problem, delay)
                await asyncio.sleep(delay)
        finally:
            self._offline()
            self._first.cancel()
            self._end()

    async def _session(self, socket: Socket) -> NoReturn:
        """One socket's life. Raises what ended it."""
        self._outbox = asyncio.Queue()
        self._heard = asyncio.get_running_loop().time()
        lives = [
            asyncio.create_task(work) for work in (self._read(socket), self._write(socket), self._watch())
        ]
        tasks = [asyncio.create_task(self._greet()), *lives]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done():
                    task.result()
            raise AssertionError("a session ends by an exception only")
        finally:
            for task in (*tasks, *self._answering):
                task.cancel()
            await asyncio.gather(*tasks, *self._answering, return_exceptions=True)

    def _give_up_the_largest(self) -> None:
        """The host would not take one message for its size: sent again, it would end the next line, too."""
        words = "The host closed the line on this message: it is larger than what it takes at once ({})."
        waiting = [request for request in self._requests.values() if not request.answer.done()]
        request = max(waiting, key=lambda request: request.size, default=None)
        if request is not None and request.size >= self._pending.largest:
            error = ProtocolError(INVALID_REQUEST, words.format(_mib(request.size)))
            request.answer.set_exception(error)
        else:
            self._pending.refuse_largest(words.format(_mib(self._pending.largest)))

    def _offline(self) -> None:
        self.status = "offline"
        self._online.clear()
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_exception(ConnectionLost())
        self._requests.clear()

    async def _read(self, socket: Socket) -> None:
        while True:
            frame = await socket.recv()
            self._heard = asyncio.get_running_loop().time()
            try:
                self._admit(jsonrpc.decode(frame))
            except (ProtocolError, LookupError, TypeError, ValueError) as error:
                logger.error("A message of the host was not understood, and is lost: %r", error)

    async def _write(self, socket: Socket) -> None:
        outbox = self._outbox
        while True:
            await socket.send(await outbox.get(), text=True)
            outbox.task_done()

    async def _watch(self) -> None:
        """Ask a host that has gone quiet for a word (AHP `ping`); one that gives none is gone."""
        clock = asyncio.get_running_loop().time
        while True:
            quiet = clock() - self._heard
            if quiet < self._pace.quiet:
                await asyncio.sleep(self._pace.quiet - quiet)
                continue
            asked = clock()
            try:
                async with asyncio.timeout(self._pace.patience):
                    await self._ask("ping", {"channel": uris.ROOT})
            except ProtocolError:
                continue  # An error is a word, too.
            except TimeoutError:
                if self._heard <= asked:
                    raise TimeoutError("It gave no sign of life.") from None

    # ── what arrives ─────────────────────────────────────────────────────────────────────────────────────────────
    def _admit(self, message: jsonrpc.Message) -> None:
        if isinstance(message, jsonrpc.Response):
            self._answered(message)
        elif isinstance(message, jsonrpc.Request):
            task = asyncio.create_task(self._serve(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif message.method == "action":
            self._take(message.params)
        elif message.method == "root/sessionRemoved":
            self._removed(message.params["session"])

    def _removed(self, session: str) -> None:
        """Somebody deleted a session: nothing more comes of it, nor of its chats. The root alone says so (AHP 2.3)."""
        for channel, mirror in list(self._mirrors.items()):
            if uris.channel_kind(channel) == "session" and uris.session_id(channel) == uris.session_id(
                session
            ):
                for chat in mirror.state.get("chats", ()):
                    self.drop(chat["resource"], "The session was deleted.")
                self.drop(channel, "The session was deleted.")

    def _answered(self, response: jsonrpc.Response) -> None:
        request = self._requests.pop(response.id, None)
        if request is None or request.answer.done():
            return
        if response.error is not None:
            request.answer.set_exception(response.error)
            return
        if request.take is not None:
            try:
                request.take(response.result)
            except (LookupError, TypeError, ValueError) as error:
                bad = ProtocolError(INTERNAL_ERROR, f"The host's answer is not what AHP says: {error!r}")
                request.answer.set_exception(bad)
                return
        request.answer.set_result(response.result)

    async def _serve(self, request: jsonrpc.Request) -> None:
        handler = self.handlers.get(request.method)
        try:
            if handler is None:
                raise ProtocolError(METHOD_NOT_FOUND, f"This client has no method {request.method!r}.")
            answer = jsonrpc.result(request.id, await handler(request.params))
            if (problem := self._too_large(answer)) is not None:
                raise ProtocolError(INVALID_REQUEST, problem)
        except ProtocolError as error:
            answer = jsonrpc.error(request.id, error)
        self._outbox.put_nowait(answer)

    def _take(self, envelope: Json) -> None:
        """An `action`, live or replayed (AHP 1.8)."""
        seq: int = envelope["serverSeq"]
        self._last_seq = max(self._last_seq, seq)
        reason = envelope.get("rejectionReason")
        mirror = self._mirrors.get(envelope["channel"])
        if reason is None and mirror is not None:
            mirror.apply(envelope["action"], seq)
        origin = envelope.get("origin") or {}
        if origin.get("clientId") == self.client_id:
            self._pending.answered(origin["clientSeq"], reason)

    def _reset(self, snapshots: list[Json]) -> None:
        """Take these states over."""
        for snapshot in snapshots:
            if (mirror := self._mirrors.get(snapshot["resource"])) is not None:
                self._pending.settle(mirror.channel, mirror.state, snapshot["state"])
                mirror.reset(snapshot)

    # ── handshake ────────────────────────────────────────────────────────────────────────────────────────────────
    async def _greet(self) -> None:
        async with asyncio.timeout(self._pace.welcome):
            if not (self._known and await self._reconnect()):
                await self._initialize()
        self._known = True
        self.problem = ""
        self.status = "online"
        self._since = asyncio.get_running_loop().time()
        self._online.set()
        for frame in self._pending.frames():
            self._outbox.put_nowait(frame)
        assert self._first is not None
        if not self._first.done():
            self._first.set_result(None)

    async def _initialize(self) -> None:
        channels = list(self._mirrors)
        given: set[str] = set()

        def take(result: Json) -> None:
            self._last_seq = result["serverSeq"]
            self.meta = result.get("_meta") or {}
            given.update(self._reset_whole(result["snapshots"]))

        await self._ask(
            "initialize",
            {
                "channel": uris.ROOT,
                "protocolVersions": list(VERSIONS),
                "clientId": self.client_id,
                "clientInfo": {"name": "jupyter-ahp-python", "version": __version__},
                "initialSubscriptions": [uris.ROOT, *channels],
            },
            take,
        )
        await self._subscribe_again(channels, given)

    def _reset_whole(self, snapshots: list[Json]) -> set[str]:
        """As `_reset`, but for chats without their older turns; says which are done."""
        whole = [snapshot for snapshot in snapshots if not snapshot["state"].get("turnsNextCursor")]
        self._reset(whole)
        return {snapshot["resource"] for snapshot in whole}

    async def _subscribe_again(self, channels: list[str], given: set[str]) -> None:
        """What a handshake did not give: a host may page a chat there, or not have loaded it yet."""
        for channel in channels:
            if channel not in given and channel in self._mirrors:
                await self._subscribe_one(channel)

    async def _subscribe_one(self, channel: str) -> None:
        def take(result: Json) -> None:
            self._reset([result["snapshot"]])

        try:
            await self._ask("subscribe", {"channel": channel}, take)
        except ProtocolError as error:
            self.drop(channel, error.message)

    async def _reconnect(self) -> bool:
        """Whether the host still knew us (AHP 1.7)."""
        channels = list(self._mirrors)
        given: set[str] = set()

        def take(result: Json) -> None:
            if result["type"] == "snapshot":
                given.update(self._reset_whole(result["snapshots"]))
                return
            for envelope in result["actions"]:
                self._take(envelope)
            for channel in result["missing"]:
                self.drop(channel, f"The host has no {channel} any more.")
            given.update(channels)

        try:
            await self._ask(
                "reconnect",
                {
                    "channel": uris.ROOT,
                    "clientId": self.client_id,
                    "lastSeenServerSeq": self._last_seq,
                    "subscriptions": [uris.ROOT, *channels],
                },
                take,
            )
        except ProtocolError as error:
            if error.code in (NOT_FOUND, METHOD_NOT_FOUND):
                return False
            raise
        await self._subscribe_again(channels, given)
        return True
