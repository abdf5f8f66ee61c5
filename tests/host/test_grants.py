"""Who may do what (P1 to P9, A9; AHP 1.3): through the wire, one gate for requests, actions and reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from jupyter_ahp.host import grants as gates
from jupyter_ahp.host.grants import CHANNELS, OPERATIONS, TAKES, Asks, Authorize, Grants, takes
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.methods import METHODS
from jupyter_ahp.host.ports import Json, Principal, Prompt, TurnSink
from jupyter_ahp.protocol._shapes import CHANNEL_METHODS, ROOT_METHODS, SESSION_METHODS
from jupyter_ahp.protocol.reducers import REDUCERS
from jupyter_ahp.protocol.validate import DISPATCHABLE
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Scripted, WireClient, agree, answer_of, message, quiet, until

S = "ahp-session:/s"
OWNER = Principal("root:host", "Server")
ANA = Principal("user:ana", "Ana")

# The rules, written out once more: what a role with this one grant may dispatch, and a role with all others may not.
RULES: dict[str, tuple[str, Sequence[str]]] = {
    "P3 send": (
        "chat:send",
        (
            "chat/turnStarted",
            "chat/turnResume",
            "chat/pendingMessageSet",
            "chat/pendingMessageRemoved",
            "chat/queuedMessagesReordered",
        ),
    ),
    "P3 cancel": ("chat:cancel", ("chat/turnCancelled",)),
    "P4": (
        "chat:answer",
        (
            "chat/toolCallConfirmed",
            "chat/toolCallResultConfirmed",
            "chat/inputAnswerChanged",
            "chat/inputCompleted",
        ),
    ),
    "P5": ("chat:tool", ("chat/toolCallComplete", "chat/toolCallContentChanged")),
    "P6": ("chat:draft", ("chat/draftChanged",)),
    "P7 folders": ("chat:folders", ("chat/workingDirectorySet", "chat/workingDirectoryRemoved")),
    "P7 mark": ("chat:mark", ("chat/isReadChanged", "chat/isArchivedChanged")),
    "P8": ("chat:truncate", ("chat/truncated",)),
}
CASES = [
    pytest.param(operation, kind, id=f"{rule}-{kind}")
    for rule, (operation, kinds) in RULES.items()
    for kind in kinds
]
OF_SESSIONS = (
    "session/titleChanged",
    "session/isReadChanged",
    "session/isArchivedChanged",
    "session/configChanged",
    "session/workingDirectorySet",
    "session/workingDirectoryRemoved",
    "session/workingDirectoryReplaced",
    "session/customizationToggled",
    "session/mcpServerStartRequested",
    "session/mcpServerStopRequested",
    "session/mcpServerBackgroundRequested",
)

# Fields that no chat accepts, for actions that need none: let in, they are refused by name.
NONSENSE: dict[str, Json] = {"chat/draftChanged": {"draft": 1}, "chat/truncated": {"turnId": 1}}


class Guarded(WireClient):
    """A client about whom somebody else is asked, too."""

    def __init__(self, host: Host, authorize: Authorize | None = None, **more: Any) -> None:
        self.authorize = authorize
        super().__init__(host, **more)

    def open(self) -> None:
        super().open()
        self.host.connections.discard(self.connection)
        self.connection = self.host.connect(self.wire, self.principal, self.authorize)
        self.wire.connection = self.connection


MakeHost = Callable[..., Awaitable[Host]]


@pytest.fixture
async def serve(agent: Scripted) -> AsyncIterator[MakeHost]:
    """Hosts on which Ana holds the given grants; each has a session with a chat in which one thing was said."""
    served: list[Host] = []

    async def start(*grants: str, role: str = "") -> Host:
        roles = {"tested": list(grants)}
        options = HostOptions(grants=Grants(roles, {"ana": role or "tested"}))
        host = Host(MemoryStore(), [agent], options)
        await host.start()
        served.append(host)
        return host

    yield start
    for host in served:
        for connection in tuple(host.connections):
            await connection.closed()
        await host.stop()


async def owner_of(host: Host) -> tuple[WireClient, str]:
    """The owner, who made a session; its chat, in which one thing was said."""
    owner = WireClient(host, principal=OWNER)
    await owner.initialize(ROOT)
    chat = await owner.create(S)
    await owner.say(chat, "a secret")
    return owner, chat


async def ana_at(host: Host, *subscriptions: str, **more: Any) -> WireClient:
    ana = WireClient(host, principal=ANA, **more)
    await ana.initialize(*subscriptions)
    return ana


def everything_but(operation: str) -> list[str]:
    """Every grant but one, and but the session's that would cover it (P9)."""
    return [name for name in OPERATIONS if name not in (operation, "session:write", "session:read")]


def reason(answer: Json) -> str:
    words: str = answer.get("rejectionReason", "")
    return words


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────
def test_P_every_method_and_every_action_of_a_client_is_in_the_table_and_nothing_else() -> None:
    methods = {*ROOT_METHODS, *SESSION_METHODS, *CHANNEL_METHODS}

    assert methods | DISPATCHABLE | set(METHODS) <= set(TAKES)
    assert all(name.startswith("x-jupyter-ahp/") for name in set(TAKES) - methods - DISPATCHABLE)
    assert set(CHANNELS) == set(REDUCERS)
    named = {operation for needed in (*TAKES.values(), *CHANNELS.values()) for operation in needed}
    assert named == set(OPERATIONS), "each operation has a use, and each use is an operation"


def test_P_what_takes_nothing_is_named_here() -> None:
    assert {name for name, needed in TAKES.items() if not needed} == {
        "initialize",
        "reconnect",
        "ping",
        "unsubscribe",
        "subscribe",
        "dispatchAction",
        "root/configChanged",
        "resourceRequest",
    }
    assert takes("subscribe", {"channel": "ahp-chat:/c"}) == ("chat:turns",)
    assert takes("resourceRead", {"uri": "file:///x"}) == ("resource:read",)
    assert takes("resourceRequest", {"uri": "file:///x"}) == ("resource:read",)
    assert takes("resourceRequest", {"uri": "file:///x", "write": True}) == ("resource:write",)


async def test_P_a_method_and_an_action_missing_from_the_table_are_refused(
    serve: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await serve()
    owner, chat = await owner_of(host)
    less = {
        name: needed for name, needed in TAKES.items() if name not in ("listSessions", "chat/draftChanged")
    }
    monkeypatch.setattr(gates, "TAKES", less)

    assert (await owner.fails("listSessions")).code == -32009
    answer = await owner.do(chat, "chat/draftChanged", draft=message("x"))

    assert reason(answer) == "This host does not act on chat/draftChanged."
    assert "draft" not in owner.state(chat)


# ── actions ──────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(("operation", "kind"), CASES)
async def test_P3_to_P8_an_action_takes_its_operation(serve: MakeHost, operation: str, kind: str) -> None:
    host = await serve(operation)
    _, chat = await owner_of(host)
    ana = await ana_at(host)

    answer = await ana.do(chat, kind, **NONSENSE.get(kind, {}))

    assert "(needs" not in reason(answer), "let in, and judged by its chat"
    assert kind in reason(answer)


@pytest.mark.parametrize(("operation", "kind"), CASES)
async def test_P3_to_P8_no_other_grant_stands_in_for_it(serve: MakeHost, operation: str, kind: str) -> None:
    host = await serve(*everything_but(operation))
    owner, chat = await owner_of(host)
    before = owner.state(chat)
    ana = await ana_at(host)

    answer = await ana.do(chat, kind)

    assert f"(needs {operation})" in reason(answer)
    assert "Your role here is tested." in reason(answer)
    assert owner.state(chat) is before
    assert owner.refusals == [], "T7: told to its sender alone"


@pytest.mark.parametrize("kind", OF_SESSIONS)
async def test_P9_a_sessions_own_actions_take_session_write(serve: MakeHost, kind: str) -> None:
    host = await serve("session:read", "chat:*", "terminal:*", "resource:*")
    await owner_of(host)
    ana = await ana_at(host)

    assert "(needs session:write)" in reason(await ana.do(S, kind))


@pytest.mark.parametrize("kind", ["session/activeClientSet", "session/activeClientRemoved"])
async def test_P5_a_client_that_may_run_tools_may_offer_them(serve: MakeHost, kind: str) -> None:
    may, may_not = await serve("chat:tool"), await serve(*everything_but("chat:tool"))
    for host in (may, may_not):
        await owner_of(host)

    assert "(needs" not in reason(await (await ana_at(may)).do(S, kind))
    assert "(needs chat:tool)" in reason(await (await ana_at(may_not)).do(S, kind))


@pytest.mark.parametrize("kind", sorted(name for name in DISPATCHABLE if name.startswith("chat/")))
async def test_P9_session_write_covers_every_writing_operation_of_its_chats(
    serve: MakeHost, kind: str
) -> None:
    host = await serve("session:write")
    _, chat = await owner_of(host)
    ana = await ana_at(host)

    answer = await ana.do(chat, kind, **NONSENSE.get(kind, {}))

    assert "(needs" not in reason(answer)
    assert kind in reason(answer)


async def test_P9_writing_is_not_reading(serve: MakeHost) -> None:
    host = await serve("session:write", "chat:*")
    _, chat = await owner_of(host)
    writer = await ana_at(host)
    assert (await writer.subscribe(chat))["turns"], "chat:* has chat:turns"
    assert (await writer.fails("listSessions")).code == -32009

    host = await serve("session:write")
    _, chat = await owner_of(host)
    writer = await ana_at(host)
    assert (await writer.fails("subscribe", channel=chat)).code == -32009


async def test_P_the_refusal_of_a_guest_is_in_the_interfaces_words(serve: MakeHost) -> None:
    host = await serve(role="guest")
    owner, chat = await owner_of(host)
    ana = await ana_at(host)
    assert (await ana.subscribe(chat))["turns"], "a guest reads"

    turn = await ana.start(chat, "let me in")

    assert [reason(refusal) for refusal in ana.refusals] == [
        "Not sent: you may read this chat only (needs chat:send). Your role here is guest."
    ]
    assert turn not in [one["id"] for one in owner.state(chat)["turns"]]
    words = reason(await ana.do(S, "session/titleChanged", title="mine"))
    assert words == "Not done: you may only read here (needs session:write). Your role here is guest."
    error = await ana.fails("createSession", channel="ahp-session:/new", provider="test")
    assert error.code == -32009
    assert error.message == words
    assert error.data == {"jupyter-ahp.needs": ["session:write"], "jupyter-ahp.role": "guest"}
    await agree(host, owner)


async def test_P_a_refused_action_sent_again_is_refused_again_and_never_done(serve: MakeHost) -> None:
    host = await serve(role="guest")
    owner, chat = await owner_of(host)
    ana = await ana_at(host)
    number = await ana.dispatch(chat, "chat/draftChanged", draft=message("x"))
    await until(lambda: ana.refusals)

    await ana.dispatch(chat, "chat/draftChanged", client_seq=number, draft=message("x"))

    await until(lambda: len(ana.refusals) == 2)
    assert {"(needs chat:draft)" in reason(refusal) for refusal in ana.refusals} == {True}
    assert "draft" not in owner.state(chat)


async def test_T8_renaming_a_chat_takes_session_write(serve: MakeHost) -> None:
    host = await serve("session:read", "chat:*")
    owner, chat = await owner_of(host)
    ana = await ana_at(host)

    assert "(needs session:write)" in reason(await ana.do(chat, "session/titleChanged", title="mine"))
    assert owner.state(S)["chats"][0]["title"] == "a secret"


async def test_P_what_is_refused_to_everybody_keeps_its_own_words(serve: MakeHost) -> None:
    host = await serve(role="guest")
    _, chat = await owner_of(host)
    ana = await ana_at(host)

    assert "for the host to say" in reason(await ana.do(chat, "chat/delta"))
    assert "does not know" in reason(await ana.do(chat, "chat/invented"))


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────
NOWHERE = "untitled:x"  # of a scheme that nobody serves
BESIDE = {
    "completions": ("chat:turns",),
    "resourceCopy": ("resource:write",),
    "resourceMove": ("resource:write",),
}
"""What some of them take beside the first."""
CLAIM = {"kind": "client", "clientId": "x"}


def requests(chat: str) -> list[tuple[str, str, Json]]:
    """What each of the served requests takes, beside reading."""
    return [
        ("session:write", "createSession", {"channel": "ahp-session:/new", "provider": "test"}),
        ("session:write", "disposeSession", {"channel": S}),
        ("session:write", "sessionConfigCompletions", {"property": "x"}),
        ("session:write", "authenticate", {"resource": "https://x.example", "token": "t"}),
        ("session:read", "listSessions", {}),
        ("session:read", "resolveSessionConfig", {"provider": "test"}),
        ("chat:create", "createChat", {"channel": S, "chat": "ahp-chat:/second"}),
        ("chat:dispose", "disposeChat", {"channel": chat}),
        ("session:write", "moveChat", {"channel": chat, "destination": {"kind": "session", "session": S}}),
        ("chat:truncate", "x-jupyter-ahp/undoRewind", {"channel": chat}),
        ("chat:send", "x-jupyter-ahp/show", {"channel": chat, "html": "x"}),
        ("chat:turns", "fetchTurns", {"channel": chat}),
        ("terminal:create", "createTerminal", {"channel": "ahp-terminal:/t", "claim": CLAIM}),
        ("terminal:dispose", "disposeTerminal", {"channel": "ahp-terminal:/t"}),
        ("chat:send", "completions", {"channel": chat, "kind": "userMessage", "text": "@", "offset": 1}),
        ("resource:read", "resourceRead", {"uri": NOWHERE}),
        ("resource:read", "resourceList", {"uri": NOWHERE}),
        ("resource:read", "resourceResolve", {"uri": NOWHERE}),
        ("resource:read", "createResourceWatch", {"uri": NOWHERE}),
        ("resource:read", "resourceCopy", {"source": NOWHERE, "destination": NOWHERE}),
        ("resource:read", "resourceMove", {"source": NOWHERE, "destination": NOWHERE}),
        ("resource:write", "resourceWrite", {"uri": NOWHERE, "data": "", "encoding": "utf-8"}),
        ("resource:write", "resourceDelete", {"uri": NOWHERE}),
        ("resource:write", "resourceMkdir", {"uri": NOWHERE}),
    ]


def test_P_the_requests_below_are_all_that_take_something() -> None:
    """Those that read a channel have tests of their own."""
    assert {name for _, name, _ in requests("")} == {name for name in METHODS if TAKES[name]}


async def test_P2_P9_a_request_takes_its_operation(serve: MakeHost) -> None:
    host = await serve("terminal:read")
    owner, chat = await owner_of(host)
    ana = await ana_at(host)

    for operation, method, params in requests(chat):
        error = await ana.fails(method, **params)

        assert error.code == -32009, method
        assert f"(needs {operation})" in error.message
        assert operation in error.data["jupyter-ahp.needs"]
    assert list(owner.rows) == [S]
    assert [one["resource"] for one in owner.state(S)["chats"]] == [chat]


async def test_P2_P9_and_nothing_more(serve: MakeHost) -> None:
    for index in range(len(requests(""))):
        operation, method, _ = requests("")[index]
        host = await serve(operation, *BESIDE.get(method, ()))
        _, chat = await owner_of(host)
        ana = await ana_at(host)
        _, _, params = requests(chat)[index]
        if method in ("authenticate", "moveChat", "x-jupyter-ahp/undoRewind"):
            words = "no agent asked for a token, the default chat does not move, nothing was rewound"
            assert (await ana.fails(method, **params)).code == -32602, words
        elif method in ("createTerminal", "x-jupyter-ahp/show"):
            words = "this host has no terminals, and no plugins"
            assert (await ana.fails(method, **params)).code == -32601, words
        elif "esource" in method or method == "disposeTerminal":
            assert (await ana.fails(method, **params)).code == -32008, "there is nothing"
        else:
            await ana.request(method, **params)


async def test_P2_P3_a_new_chats_first_message_takes_sending_and_its_source_reading(serve: MakeHost) -> None:
    host = await serve("chat:create")
    owner, chat = await owner_of(host)
    turn = owner.state(chat)["turns"][0]["id"]
    ana = await ana_at(host)
    new: Json = {"channel": S, "chat": "ahp-chat:/new"}

    assert "chat:send" in (await ana.fails("createChat", **new, initialMessage=message("hi"))).message
    for kind in ("fork", "sideChat"):
        source = {"kind": kind, "chat": chat, "turnId": turn}
        assert "chat:turns" in (await ana.fails("createChat", **new, source=source)).message
    assert [one["resource"] for one in owner.state(S)["chats"]] == [chat]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────
def saw(client: WireClient) -> str:
    """All that was written to a client, as text."""
    return str(client.wire.frames)


async def test_P1_without_chat_turns_there_is_no_snapshot_and_no_page(serve: MakeHost) -> None:
    host = await serve("chat:send")
    owner, chat = await owner_of(host)
    ana = WireClient(host, principal=ANA)

    result = await ana.initialize(ROOT, S, chat)
    error = await ana.fails("subscribe", channel=chat)
    assert (error.code, error.data["jupyter-ahp.needs"]) == (-32009, ["chat:turns"])
    assert error.message == (
        "Not shown: you may not read this chat (needs chat:turns). Your role here is tested."
    )
    assert (await ana.fails("subscribe", channel=S)).data["jupyter-ahp.needs"] == ["session:read"]
    assert (await ana.fails("fetchTurns", channel=chat)).code == -32009
    await owner.say(chat, "another secret")
    await quiet(host)

    assert [shot["resource"] for shot in result["snapshots"]] == [ROOT]
    assert "secret" not in saw(ana)


async def test_P1_whether_there_is_such_a_chat_is_not_said_either(serve: MakeHost) -> None:
    host = await serve("chat:send")
    _, chat = await owner_of(host)
    ana = await ana_at(host)

    there, not_there = [
        await ana.fails("subscribe", channel=channel) for channel in (chat, "ahp-chat:/nobody")
    ]

    assert (there.code, there.message) == (not_there.code, not_there.message)


@pytest.mark.parametrize("too_old", [False, True])
async def test_P1_no_replay_and_no_snapshot_on_reconnect(serve: MakeHost, too_old: bool) -> None:
    """Neither for a client that says it had the chat, nor through the number that it says it saw."""
    host = await serve("chat:send")
    owner, chat = await owner_of(host)
    ana = await ana_at(host, ROOT)
    seen = ana.last_seen
    await ana.drop()
    await owner.say(chat, "another secret")
    ana.open()
    ana._number = seen

    result = await ana.request(
        "reconnect",
        clientId=ana.client_id,
        lastSeenServerSeq=0 if too_old else seen,
        subscriptions=[ROOT, S, chat],
    )

    if too_old:
        assert [shot["resource"] for shot in result["snapshots"]] == [ROOT]
    else:
        assert result["missing"] == [S, chat]
        assert {envelope["channel"] for envelope in result["actions"]} <= {ROOT}
    await owner.say(chat, "a third secret")
    await quiet(host)
    assert "secret" not in saw(ana)


async def test_P9_who_may_not_see_sessions_is_told_of_none(serve: MakeHost) -> None:
    host = await serve("chat:turns")
    owner, chat = await owner_of(host)
    ana = await ana_at(host, ROOT)

    await owner.do(S, "session/titleChanged", title="a secret title")
    await owner.create("ahp-session:/t")
    await owner.request("disposeSession", channel="ahp-session:/t")
    await quiet(host)

    assert ana.notes == []
    assert (await ana.fails("listSessions")).code == -32009
    assert "secret" not in saw(ana)
    assert (await ana.subscribe(chat))["turns"], "a chat that is named may be read"
    assert {note["method"] for note in owner.notes} >= {"root/sessionAdded", "root/sessionRemoved"}


async def test_P9_session_read_covers_the_turns_of_its_chats(serve: MakeHost) -> None:
    host = await serve("session:read")
    owner, chat = await owner_of(host)
    ana = await ana_at(host, ROOT, S, chat)

    await owner.say(chat, "for all to read")
    await quiet(host)

    assert len(ana.state(chat)["turns"]) == 2
    assert list((await ana.request("listSessions"))["items"][0]) != []
    await agree(host, ana, owner)


# ── who is asking ────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("principal", "role"),
    [
        ("root:anywhere", "owner"),
        ("user:ana", "member"),
        ("user:ben", "guest"),
        ("user:owner", "guest"),
        ("user:root:anywhere", "guest"),
        ("user:", "guest"),
    ],
)
async def test_P_the_role_is_that_of_whoever_the_handshake_named(
    agent: Scripted, principal: str, role: str
) -> None:
    host = Host(
        MemoryStore(), [agent], HostOptions(grants=Grants(members={"ana": "member"}, default_role="guest"))
    )
    await host.start()
    client = WireClient(host, principal=Principal(principal, "X"))
    hint = {"jupyter-ahp.role": "owner", "jupyter-ahp.principal": "root:x"}

    told = (await client.initialize(_meta=hint))["_meta"]

    assert told["jupyter-ahp.role"] == role
    assert told["jupyter-ahp.principal"] == principal
    assert ("chat:send" in told["jupyter-ahp.grants"]) is (role != "guest")
    await client.drop()
    await host.stop()


async def test_P_a_client_is_told_every_operation_that_it_may_use(serve: MakeHost) -> None:
    told = {
        role: (await ana_at(await serve(role=role))).result["_meta"]["jupyter-ahp.grants"]
        for role in ("guest", "member", "owner")
    }

    assert told["guest"] == ["session:read", "chat:turns"]
    assert told["owner"] == list(OPERATIONS)
    assert set(told["owner"]) - set(told["member"]) == {"resource:read", "resource:write"}


async def test_P_without_configuration_everybody_is_owner(host: Host, client: WireClient) -> None:
    assert client.result["_meta"]["jupyter-ahp.role"] == "owner"
    assert client.result["_meta"]["jupyter-ahp.grants"] == list(OPERATIONS)


async def test_P_nobody_takes_anothers_client_id(serve: MakeHost) -> None:
    """A client id stands in every action that its client sent: it is no secret, so it proves nothing."""
    host = await serve(role="member")
    owner, chat = await owner_of(host)
    announced = {"clientId": owner.client_id, "tools": [{"name": "delete_everything"}]}
    await owner.do(S, "session/activeClientSet", activeClient=announced)
    thief = WireClient(host, principal=ANA, client_id=owner.client_id)

    error = await thief.fails(
        "reconnect", clientId=owner.client_id, lastSeenServerSeq=0, subscriptions=[chat]
    )
    assert error.code == -32008
    error = await thief.fails("initialize", protocolVersions=["1.0.0"], clientId=owner.client_id)
    assert error.code == -32602
    assert "clientId" in error.message
    assert owner.state(S)["activeClients"] == [announced]

    await owner.drop()
    await thief.initialize(S)
    assert thief.state(S)["activeClients"] == [], "what its owner offered is not the newcomer's to run"
    await owner.drop()
    owner.open()
    error = await owner.fails(
        "reconnect", clientId=owner.client_id, lastSeenServerSeq=0, subscriptions=[chat]
    )
    assert error.code == -32008
    await thief.drop()


async def test_P_nobody_takes_anothers_client_id_in_other_letters(serve: MakeHost) -> None:
    """The authority of a URI has no case, so what one of them serves would be asked of the other."""
    host = await serve(role="member")
    owner = WireClient(host, principal=OWNER, client_id="Window-7")
    await owner.initialize()
    thief = WireClient(host, principal=ANA, client_id="window-7")

    error = await thief.fails("initialize", protocolVersions=["1.0.0"], clientId="window-7")

    assert (error.code, "clientId" in error.message) == (-32602, True)
    await owner.drop()
    await thief.initialize()


async def test_P_one_person_with_two_sockets_keeps_the_client_id(serve: MakeHost) -> None:
    host = await serve(role="member")
    ana = await ana_at(host)

    again = WireClient(host, principal=ANA, client_id=ana.client_id)

    assert (await again.initialize())["_meta"]["jupyter-ahp.role"] == "member"


async def test_T7_a_refusal_on_its_way_does_not_reach_who_took_the_id_since(serve: MakeHost) -> None:
    host = await serve(role="member")
    owner, chat = await owner_of(host)
    connection, client_id = owner.connection, owner.client_id
    await owner.drop()
    newcomer = WireClient(host, principal=ANA, client_id=client_id)
    await newcomer.initialize()

    connection.reject(chat, {"type": "chat/draftChanged", "draft": message("a secret")}, 7, "no")

    assert "secret" not in saw(newcomer)


# ── Jupyter's authorizer ─────────────────────────────────────────────────────────────────────────────────────────
class Authorizer:
    """Says yes to what it is told to, after a while."""

    def __init__(self, *allows: Asks, seconds: float = 0.0) -> None:
        self.allows = set(allows)
        self.seconds = seconds
        self.asked: list[Asks] = []
        self.breaks: Exception | None = None

    async def __call__(self, asks: Asks) -> bool:
        self.asked.append(asks)
        await asyncio.sleep(self.seconds)
        if self.breaks is not None:
            raise self.breaks
        return asks in self.allows


async def guarded(host: Host, authorizer: Authorizer, *subscriptions: str) -> Guarded:
    client = Guarded(host, authorizer, principal=ANA)
    await client.initialize(*subscriptions)
    return client


async def test_P_the_authorizer_may_say_no_to_an_owner(serve: MakeHost) -> None:
    host = await serve(role="owner")
    owner, chat = await owner_of(host)
    ana = await guarded(host, Authorizer("read", "write"), ROOT, chat)

    told = ana.result["_meta"]["jupyter-ahp.grants"]
    assert {"chat:turns", "chat:draft", "session:write"} <= set(told)
    assert {"chat:send", "chat:cancel", "chat:answer", "chat:tool"}.isdisjoint(told)
    assert reason(await ana.do(chat, "chat/draftChanged", draft=message("x"))) == ""
    await ana.start(chat, "run")
    assert reason(ana.refusals[-1]) == (
        "Not sent: this server's authorizer does not let you "
        "(needs chat:send, for which it is asked 'execute')."
    )
    await agree(host, ana, owner)


async def test_P_a_no_of_the_role_does_not_need_the_authorizer_and_a_yes_of_his_does_not_help(
    serve: MakeHost,
) -> None:
    host = await serve(role="guest")
    _, chat = await owner_of(host)
    authorizer = Authorizer("read", "write", "execute")
    ana = await guarded(host, authorizer)

    await ana.start(chat, "run")

    assert "(needs chat:send)" in reason(ana.refusals[-1])
    assert "execute" not in authorizer.asked


async def test_P_without_reading_nothing_is_read_and_nothing_told(serve: MakeHost) -> None:
    host = await serve(role="owner")
    owner, chat = await owner_of(host)
    ana = await guarded(host, Authorizer("execute"), ROOT, S, chat)

    await owner.do(S, "session/titleChanged", title="a secret title")
    await quiet(host)

    assert list(ana.mirrors) == [ROOT]
    assert ana.notes == []
    assert (await ana.fails("subscribe", channel=chat)).code == -32009
    assert "secret" not in saw(ana)


async def test_P_a_client_that_comes_back_is_asked_about_again(serve: MakeHost) -> None:
    host = await serve(role="owner")
    owner, chat = await owner_of(host)
    authorizer = Authorizer("read", "write", "execute")
    ana = await guarded(host, authorizer, ROOT)
    await ana.drop()

    await ana.reconnect()
    await owner.do(S, "session/titleChanged", title="seen")
    await quiet(host)
    assert "root/sessionSummaryChanged" in {note["method"] for note in ana.notes}

    await ana.subscribe(S)
    await ana.subscribe(chat)
    await ana.drop()
    authorizer.allows.discard("read")
    told = len(ana.notes)
    assert (await ana.reconnect())["missing"] == [S, chat]
    await owner.do(S, "session/titleChanged", title="not seen")
    await quiet(host)
    assert len(ana.notes) == told
    assert list(ana.mirrors) == [ROOT]


async def test_P_the_authorizer_is_asked_again_after_a_few_seconds_and_not_for_each_action(
    serve: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await serve(role="owner")
    _, chat = await owner_of(host)
    authorizer = Authorizer("read", "write", "execute")
    ana = await guarded(host, authorizer, chat)
    assert sorted(authorizer.asked) == ["execute", "read", "write"]

    for index in range(10):
        await ana.do(chat, "chat/draftChanged", draft=message(str(index)))
    assert len(authorizer.asked) == 3

    authorizer.allows.discard("write")
    monkeypatch.setattr(gates, "_TRUST", 0.0)
    assert "authorizer" in reason(await ana.do(chat, "chat/draftChanged", draft=message("late")))
    assert len(authorizer.asked) == 4


async def test_P_nobody_is_asked_for_what_streams(
    serve: MakeHost, agent: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def long(prompt: Prompt, sink: TurnSink) -> None:
        for _ in range(500):
            sink.markdown("x")

    host = await serve(role="owner")
    owner, chat = await owner_of(host)
    authorizer = Authorizer("read", "write", "execute")
    ana = await guarded(host, authorizer, ROOT, S, chat)
    monkeypatch.setattr(gates, "_TRUST", 0.0)
    agent.play, before = long, len(authorizer.asked)

    turn = await owner.say(chat, "go on")
    await quiet(host)

    assert answer_of(ana.turn(chat, turn["id"])) == "x" * 500
    assert len(authorizer.asked) == before


async def test_P_actions_keep_their_order_behind_a_slow_authorizer(
    serve: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await serve(role="owner")
    _, chat = await owner_of(host)
    ana = await guarded(host, Authorizer("read", "write", "execute", seconds=0.005), chat)
    monkeypatch.setattr(gates, "_TRUST", 0.0)

    for index in range(8):  # each is read when the one before was taken in, as from a socket
        await ana.dispatch(chat, "chat/draftChanged", draft=message(str(index)))
    await until(lambda: not ana.pending)

    drafts = [e["action"]["draft"]["text"] for e in ana.envelopes if e["channel"] == chat]
    assert drafts == [str(index) for index in range(8)]


async def test_P_an_authorizer_that_fails_has_said_no(
    serve: MakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    host = await serve(role="owner")
    owner, chat = await owner_of(host)
    authorizer = Authorizer("read", "write", "execute")
    authorizer.breaks = RuntimeError("the directory of people is down")

    with caplog.at_level(logging.ERROR):
        ana = await guarded(host, authorizer)
        await ana.start(chat, "run")

    assert "authorizer" in reason(ana.refusals[-1])
    assert "the directory of people is down" in caplog.text
    assert len(owner.state(chat)["turns"]) == 1


# ── the configuration ────────────────────────────────────────────────────────────────────────────────────────────
BAD: list[tuple[Json, str]] = [
    ({"roles": {"student": ["chat:sned"]}}, "'student' has 'chat:sned'"),
    ({"roles": {"student": ["*:read"]}}, "'*:read'"),
    ({"roles": {"student": ["*"]}}, "'*'"),
    ({"roles": {"student": ["chat"]}}, "'chat'"),
    ({"roles": {"student": [":*"]}}, "':*'"),
    ({"roles": {"student": ["chats:*"]}}, "'chats:*'"),
    ({"roles": {"student": [7]}}, "7"),
    ({"roles": {"student": "chat:send"}}, "'student' is not a list"),
    ({"roles": {"student": None}}, "'student' is not a list"),
    ({"roles": {"owner": ["session:read"]}}, "'owner' may do everything"),
    ({"members": {"ana": "teacher"}}, "'teacher', of 'ana', is no role"),
    ({"default_role": "nobody"}, "'nobody' is no role. Roles: guest, member, owner."),
]


@pytest.mark.parametrize(("config", "words"), BAD)
def test_P_a_wrong_configuration_says_what_is_wrong_with_it(config: Json, words: str) -> None:
    with pytest.raises(ValueError, match=next(iter(config))) as problem:
        Grants(**config)

    assert words in str(problem.value)


@pytest.mark.parametrize(
    ("grants", "operations"),
    [
        ([], set()),
        (["*:*"], set(OPERATIONS)),
        (["terminal:*"], {"terminal:read", "terminal:create", "terminal:dispose", "terminal:write"}),
        (["chat:send", "chat:send"], {"chat:send"}),
        (["session:read"], {"session:read", "chat:turns"}),
        (
            ["session:write"],
            {"session:write", *(name for name in OPERATIONS if name.startswith("chat:"))} - {"chat:turns"},
        ),
        (["session:*"], {name for name in OPERATIONS if name.startswith(("chat:", "session:"))}),
    ],
)
def test_P9_what_a_grant_means(grants: list[str], operations: set[str]) -> None:
    role = Grants({"tested": grants}, default_role="tested").role_of(ANA)

    assert role.operations == operations
    assert role.name == "tested"


def test_P_the_built_in_roles_stay_beside_the_configured_ones() -> None:
    granted = Grants({"student": ["chat:send"], "guest": []}, {"ana": "member"}, "guest")

    assert granted.role_of(Principal("root:x", "")).name == "owner"
    assert granted.role_of(ANA).name == "member"
    assert granted.role_of(Principal("user:ben", "")).operations == set()
