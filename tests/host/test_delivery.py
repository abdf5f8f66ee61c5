"""What reaches a client: subscriptions, reconnects, coalescing, slow networks (M1, T6, AHP 1.6 to 1.8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from jupyter_ahp.host import connection as connection_module
from jupyter_ahp.host.channels import Replay
from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Json, Prompt, TurnSink
from tests.host.harness import (
    ROOT,
    Failing,
    Scripted,
    WireClient,
    agree,
    answer_of,
    message,
    quiet,
    started,
    until,
)

S, T = "ahp-session:/s", "ahp-session:/t"


class Talk:
    """Turns that say what the test puts in, one chat beside the other."""

    def __init__(self, agent: Scripted) -> None:
        self.sinks: dict[str, TurnSink] = {}
        self._over: dict[str, asyncio.Event] = {}
        agent.play = self

    async def __call__(self, prompt: Prompt, sink: TurnSink) -> None:
        self.sinks[prompt.text] = sink
        self._over[prompt.text] = asyncio.Event()
        await self._over[prompt.text].wait()

    def end(self, *names: str) -> None:
        for name in names or tuple(self._over):
            self._over[name].set()


@pytest.fixture
async def talk(agent: Scripted) -> AsyncIterator[Talk]:
    talk = Talk(agent)
    yield talk
    talk.end()


async def talking(client: WireClient, talk: Talk, session: str, name: str) -> str:
    """A chat in which a turn of that name runs."""
    chat = await client.create(session)
    await client.start(chat, name)
    await until(lambda: name in talk.sinks)
    return chat


def text_of(client: WireClient, chat: str) -> str:
    return answer_of(client.state(chat)["activeTurn"])


# ── subscribe ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_M1_a_late_joiner_has_what_was_said_and_gets_what_follows(
    host: Host, client: WireClient, other: WireClient, talk: Talk
) -> None:
    chat = await talking(client, talk, S, "a")
    talk.sinks["a"].markdown("one ")

    await other.subscribe(chat)
    talk.sinks["a"].markdown("two")

    assert text_of(other, chat) == "one two"
    await agree(host, client, other)


async def test_M1_subscribing_again_gives_the_state_again_and_nothing_twice(
    host: Host, client: WireClient, other: WireClient, talk: Talk
) -> None:
    chat = await talking(client, talk, S, "a")
    await client.subscribe(chat)
    await client.subscribe(chat)
    before = len(client.envelopes)

    talk.sinks["a"].markdown("x")

    assert client.kinds(chat)[-2:] == ["chat/responsePart", "chat/delta"]
    assert len(client.envelopes) == before + 2
    await agree(host, client)


async def test_M1_two_subscribes_at_once(failing: Failing) -> None:
    host = await started(failing)
    client = WireClient(host)
    await client.initialize(ROOT)
    chat = await client.create(S)
    await client.say(chat, "hello")
    host.sessions["s"].chats[chat].channel = None
    clients = [WireClient(host) for _ in range(3)]
    for one in clients:
        await one.initialize()
    failing.gates["load_chat"] = asyncio.Event()

    asked = [asyncio.ensure_future(one.ask("subscribe", {"channel": chat})[1]) for one in clients]
    await asyncio.sleep(0)
    failing.gates["load_chat"].set()
    await asyncio.gather(*asked)

    await clients[0].say(chat, "and on")
    await agree(host, *clients)
    await host.stop()


async def test_a_socket_that_closes_while_it_subscribes_leaves_nothing(failing: Failing) -> None:
    host = await started(failing)
    client = WireClient(host)
    await client.initialize()
    chat = await client.create(S)
    session = host.sessions["s"]
    await client.drop()
    session.chats[chat].channel = None
    hasty = WireClient(host)
    await hasty.initialize()
    failing.gates["load_chat"] = asyncio.Event()
    subscribing = asyncio.ensure_future(hasty.ask("subscribe", {"channel": chat})[1])
    await asyncio.sleep(0)

    await hasty.drop()
    failing.gates["load_chat"].set()
    await subscribing

    channel = session.chats[chat].channel
    assert channel is not None
    assert not channel.watched
    await host.stop()


async def test_who_unsubscribes_hears_no_more(client: WireClient, other: WireClient, talk: Talk) -> None:
    chat = await talking(client, talk, S, "a")
    await other.subscribe(chat)
    await other.unsubscribe(chat)
    before = len(other.wire.frames)

    talk.sinks["a"].markdown("x")

    assert [frame for frame in other.wire.frames[before:] if frame["method"] == "action"] == []


async def test_T29_unsubscribed_and_back_at_once_starts_no_agent_anew(
    host: Host, client: WireClient, agent: Scripted
) -> None:
    chat = await client.create(S)
    await client.say(chat, "one")

    await client.unsubscribe(chat)
    await client.subscribe(chat)
    await client.say(chat, "two")

    assert len(agent.lines) == 1
    await agree(host, client)


# ── reconnect ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_client_that_comes_back_is_replayed_what_it_missed(
    host: Host, client: WireClient, other: WireClient, talk: Talk
) -> None:
    chat = await talking(client, talk, S, "a")
    await client.drop()
    talk.sinks["a"].markdown("missed")
    await other.request("createSession", channel=T, provider="test")

    result = await client.reconnect()

    assert result["type"] == "replay"
    assert {env["channel"] for env in result["actions"]} == {chat, ROOT}
    assert text_of(client, chat) == "missed"
    talk.sinks["a"].markdown(" and more")
    assert text_of(client, chat) == "missed and more"
    await agree(host, client)


async def test_what_went_meanwhile_is_missing(host: Host, client: WireClient, other: WireClient) -> None:
    await client.create(S)
    kept = await client.create(T)
    await client.drop()
    await other.request("disposeSession", channel=S)

    result = await client.reconnect()

    assert S in result["missing"]
    assert set(client.mirrors) == {ROOT, T, kept}
    await agree(host, client)


async def test_who_missed_too_much_is_given_snapshots(
    host: Host, client: WireClient, other: WireClient
) -> None:
    host.hub.replay = Replay(2000)
    host.hub.replay.floor = host.hub.sequence.last
    chat = await client.create(S)
    gone = await client.create(T)
    await other.subscribe(chat)
    await client.drop()
    await other.say(chat, "long " * 1000)
    await other.request("disposeSession", channel=T)

    result = await client.reconnect()

    assert result["type"] == "snapshot"
    assert gone not in client.mirrors
    await agree(host, client, other)
    await client.say(chat, "on")
    await agree(host, client, other)


async def test_an_unknown_client_is_told_to_initialize(host: Host) -> None:
    error = await WireClient(host).fails(
        "reconnect", clientId="never-seen", lastSeenServerSeq=1, subscriptions=[ROOT]
    )

    assert error.code == -32008


async def test_after_that_initialize_under_the_same_id_works_on_the_same_socket(host: Host) -> None:
    client = WireClient(host)
    await client.fails("reconnect", clientId=client.client_id, lastSeenServerSeq=1, subscriptions=[])

    await client.initialize(ROOT)

    await agree(host, client)


async def test_a_number_from_the_future_is_answered_by_snapshots(host: Host, client: WireClient) -> None:
    await client.drop()
    client.open()

    result = await client.request(
        "reconnect", clientId=client.client_id, lastSeenServerSeq=10**12, subscriptions=[ROOT]
    )

    assert result["type"] == "snapshot"


async def test_reconnect_on_a_connection_that_was_greeted_is_refused(client: WireClient) -> None:
    error = await client.fails("reconnect", clientId=client.client_id, lastSeenServerSeq=0, subscriptions=[])

    assert error.code == -32600


async def test_reconnect_while_the_old_socket_lives(host: Host, client: WireClient, talk: Talk) -> None:
    chat = await talking(client, talk, S, "a")
    old = client.wire, client.connection
    old[0].stalled = True
    talk.sinks["a"].markdown("x")

    await client.reconnect()
    talk.sinks["a"].markdown("y")

    assert text_of(client, chat) == "xy"
    await old[1].closed()
    talk.sinks["a"].markdown("z")
    assert text_of(client, chat) == "xyz"
    await agree(host, client)


async def test_what_it_is_active_in_is_what_it_came_back_to(
    host: Host, client: WireClient, other: WireClient
) -> None:
    for session in (S, T):
        await client.create(session)
        await client.do(
            session, "session/activeClientSet", activeClient={"clientId": client.client_id, "tools": []}
        )
        await other.subscribe(session)
    await client.drop()
    del client.mirrors[S]

    await client.reconnect()

    assert other.state(S)["activeClients"] == []
    assert len(other.state(T)["activeClients"]) == 1


async def test_T1_a_start_that_is_sent_again_is_one_turn(
    host: Host, client: WireClient, other: WireClient, agent: Scripted
) -> None:
    chat = await client.create(S)
    await other.subscribe(chat)
    client.wire.stalled = True
    await client.dispatch(
        chat, "chat/turnStarted", turnId="t", startedAt="2026-03-01T10:00:00Z", message=message("once")
    )
    await until(lambda: other.kinds(chat)[-1:] == ["chat/turnComplete"])
    await client.drop()
    assert client.pending

    await client.reconnect()

    assert client.pending == {}, "its echo was in the replay"
    assert other.kinds(chat).count("chat/turnStarted") == 1
    assert [prompt.text for prompt in agent.prompts] == ["once"]
    await agree(host, client, other)


async def test_T7_a_refusal_that_was_lost_is_given_again(host: Host, client: WireClient) -> None:
    chat = await client.create(S)
    client.wire.stalled = True
    await client.dispatch(chat, "chat/turnStarted", turnId="t", startedAt="never", message=message("x"))
    await client.dispatch(chat, "chat/turnResume", turnId="none")
    await quiet(host)
    await client.drop()

    await client.reconnect()

    assert client.pending == {}
    assert [env["action"]["type"] for env in client.refusals] == ["chat/turnStarted", "chat/turnResume"]


async def test_other_actions_are_applied_once_and_answered_again(
    host: Host, client: WireClient, other: WireClient
) -> None:
    chat = await client.create(S)
    await other.subscribe(S)
    await other.subscribe(chat)
    client.wire.stalled = True
    await client.dispatch(S, "session/titleChanged", title="Mine")
    await client.dispatch(chat, "chat/draftChanged", draft=message("x"))
    await client.dispatch(ROOT, "root/configChanged", config={"x": 1})
    await quiet(host)
    await client.drop()
    count = len(other.envelopes)

    await client.reconnect()
    await quiet(host)

    assert client.pending == {}
    assert client.refusals == []
    assert len(other.envelopes) == count
    await agree(host, client, other)


async def test_one_that_somebody_changed_since_is_not_applied_again(
    host: Host, client: WireClient, other: WireClient
) -> None:
    await client.create(S)
    await other.subscribe(S)
    number = await client.dispatch(S, "session/titleChanged", title="Mine")
    await other.do(S, "session/titleChanged", title="Ours")

    await client.dispatch(S, "session/titleChanged", client_seq=number, title="Mine")

    assert other.state(S)["title"] == client.state(S)["title"] == "Ours"
    assert len(client.refusals) == 1
    await agree(host, client, other)


async def test_number_zero_is_never_taken_for_a_repeat(client: WireClient) -> None:
    await client.create(S)

    for title in ("a", "b", "a"):
        await client.dispatch(S, "session/titleChanged", client_seq=0, title=title)

    assert client.kinds(S).count("session/titleChanged") == 3


async def test_a_page_that_was_loaded_again_counts_from_the_beginning(host: Host) -> None:
    first = WireClient(host, client_id="tab")
    await first.initialize()
    chat = await first.create(S)
    await first.say(chat, "one")
    await first.drop()
    again = WireClient(host, client_id="tab")
    await again.initialize(ROOT)
    await again.subscribe(S)
    await again.subscribe(chat)

    await again.say(chat, "two")

    assert [turn["message"]["text"] for turn in again.state(chat)["turns"]] == ["one", "two"]
    await agree(host, again)


async def test_a_client_that_initializes_again_and_sends_again_is_applied_once(
    host: Host, agent: Scripted
) -> None:
    first = WireClient(host, client_id="tab")
    await first.initialize()
    chat = await first.create(S)
    start: Json = {"turnId": "t", "startedAt": "2026-03-01T10:00:00Z", "message": message("x")}
    await first.do(chat, "chat/turnStarted", client_seq=7, **start)
    await until(lambda: not first.running(chat))
    await first.drop()
    again = WireClient(host, client_id="tab")
    await again.initialize(chat)

    await again.dispatch(chat, "chat/turnStarted", client_seq=7, **start)
    await quiet(host)

    assert len(agent.prompts) == 1
    assert again.refusals == []


async def test_two_sockets_of_one_client_are_both_served(host: Host) -> None:
    one, two = WireClient(host, client_id="twin"), WireClient(host, client_id="twin")
    await one.initialize(ROOT)
    await two.initialize(ROOT)
    chat = await one.create(S)
    await two.subscribe(S)
    await two.subscribe(chat)

    await one.say(chat, "hello")
    await one.do(chat, "chat/turnResume", turnId="none")
    assert len(one.refusals) == 1
    assert two.refusals == [], "a refusal goes to the socket that asked"
    await one.drop()
    await two.say(chat, "still here")

    await agree(host, two)


async def test_what_is_remembered_of_a_client_is_bounded(host: Host, client: WireClient) -> None:
    chat = await client.create(S)
    for index in range(300):
        await client.dispatch(chat, "chat/draftChanged", draft=message(f"{index}" * 50))
    await quiet(host)

    remembered = host.clients[client.client_id]
    assert len(remembered.answers) <= 64
    assert len(remembered.taken) <= 4096


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_V5_a_client_of_0_9_is_sent_nothing_newer(host: Host, client: WireClient) -> None:
    old = WireClient(host, versions=["0.9.0"])
    await old.initialize()
    chat = await client.create(S)
    await old.subscribe(chat)
    channel = host.sessions["s"].chats[chat].channel
    assert channel is not None

    host.hub.publish(channel, {"type": "chat/canvasesChanged", "canvases": [{"resource": "ahp-canvas:/x"}]})

    assert "chat/canvasesChanged" in client.kinds(chat)
    assert "chat/canvasesChanged" not in old.kinds(chat)
    assert "canvases" not in await old.subscribe(chat)
    await old.drop()
    result = await old.reconnect()
    assert "canvases" not in json.dumps(result)


# ── coalescing ───────────────────────────────────────────────────────────────────────────────────────────────────
async def coalesced(host: Host, *chats: str, ms: int = 20) -> WireClient:
    client = WireClient(host)
    await client.initialize(ROOT)
    for chat in chats:
        await client.subscribe(chat, delivery={"maxLatencyMs": ms})
    return client


async def test_text_is_joined_within_the_allowed_latency(host: Host, client: WireClient, talk: Talk) -> None:
    chat = await talking(client, talk, S, "a")
    joined = await coalesced(host, chat)

    for piece in "streaming":
        talk.sinks["a"].markdown(piece)
    assert joined.kinds(chat) == ["chat/responsePart"]
    await until(lambda: joined.kinds(chat) == ["chat/responsePart", "chat/delta"], 0.5)

    assert text_of(joined, chat) == text_of(client, chat) == "streaming"
    assert joined.envelopes[-1]["serverSeq"] == client.envelopes[-1]["serverSeq"]
    await agree(host, client, joined)


async def test_what_is_held_back_goes_before_anything_else(
    host: Host, client: WireClient, talk: Talk
) -> None:
    chat = await talking(client, talk, S, "a")
    joined = await coalesced(host, chat, ms=1000)
    talk.sinks["a"].markdown("one")

    talk.sinks["a"].reasoning("two")
    talk.sinks["a"].notice("three")
    talk.sinks["a"].markdown("four")
    assert joined.kinds(chat)[-2:] == ["chat/responsePart", "chat/responsePart"]
    assert await joined.request("fetchTurns", channel=chat) == {}

    assert joined.kinds(chat)[-2:] == ["chat/delta", "chat/turnsLoaded"]
    talk.sinks["a"].markdown("five")
    talk.end("a")
    await until(lambda: not joined.running(chat), 0.5)
    await agree(host, client, joined)


async def test_text_of_two_chats_keeps_its_order(host: Host, client: WireClient, talk: Talk) -> None:
    a = await talking(client, talk, S, "a")
    b = await talking(client, talk, T, "b")
    both = await coalesced(host, a, b, ms=1000)
    only_b = await coalesced(host, b, ms=1000)
    for name in "aabbabba":
        talk.sinks[name].markdown(name)

    numbers = [env["serverSeq"] for env in both.envelopes]
    assert numbers == sorted(numbers)
    assert text_of(both, b) == "bbbb"
    both.connection.release()
    only_b.connection.release()
    assert text_of(both, a) == "aaaa"
    assert text_of(only_b, b) == "bbbb"
    await agree(host, client, both, only_b)


async def test_a_client_that_breaks_off_in_mid_hold_is_replayed_all_of_it(
    host: Host, client: WireClient, talk: Talk
) -> None:
    chat = await talking(client, talk, S, "a")
    joined = await coalesced(host, chat, ms=1000)
    for piece in "abc":
        talk.sinks["a"].markdown(piece)
    joined.wire.close(1006, "")
    await joined.drop()

    await joined.reconnect()

    assert text_of(joined, chat) == "abc"
    talk.sinks["a"].markdown("d")
    assert text_of(joined, chat) == "abc", "it comes back with the latency that it had"
    joined.connection.release()
    await agree(host, client, joined)


async def test_no_latency_is_no_coalescing(host: Host, client: WireClient, talk: Talk) -> None:
    chat = await talking(client, talk, S, "a")
    await client.subscribe(chat, delivery={"maxLatencyMs": 1000})
    await client.subscribe(chat, delivery={"maxLatencyMs": 0})

    talk.sinks["a"].markdown("x")

    assert client.kinds(chat)[-1] == "chat/delta"


async def test_coalescers_go_with_their_members(host: Host, client: WireClient, talk: Talk) -> None:
    chat = await talking(client, talk, S, "a")
    channel = host.sessions["s"].chats[chat].channel
    assert channel is not None
    for ms in (5, 10, 15):
        visitor = await coalesced(host, chat, ms=ms)
        await visitor.drop()

    assert channel._held == {}


# ── slow networks ────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that takes little, and an outbox to match."""
    monkeypatch.setattr(connection_module, "SOFT_LIMIT", 2_000)
    monkeypatch.setattr(connection_module, "HARD_LIMIT", 40_000)


@pytest.mark.usefixtures("narrow")
async def test_text_waits_joined_behind_a_slow_network_and_others_do_not(
    host: Host, client: WireClient, talk: Talk
) -> None:
    chat = await talking(client, talk, S, "a")
    slow = WireClient(host)
    await slow.initialize(ROOT)
    await slow.subscribe(chat)
    slow.wire.stalled = True

    for _ in range(1000):
        talk.sinks["a"].markdown("0123456789")
    assert len(text_of(client, chat)) == 10_000
    assert len(slow.connection._outbox) == 1
    assert slow.wire.buffered < 4_000
    slow.wire.stalled = False
    slow.wire.pass_on()

    assert text_of(slow, chat) == text_of(client, chat)
    await agree(host, client, slow)


@pytest.mark.usefixtures("narrow")
async def test_a_snapshot_waits_for_room_and_is_not_overtaken_by_text_from_before_it(
    host: Host, client: WireClient, talk: Talk
) -> None:
    chat = await talking(client, talk, S, "a")
    slow = WireClient(host)
    await slow.initialize(ROOT)
    await slow.subscribe(chat)
    slow.wire.stalled = True
    for _ in range(30):
        talk.sinks["a"].markdown("x" * 100)
    answer, handed = slow.ask("subscribe", {"channel": chat})
    taken = asyncio.ensure_future(handed)
    await asyncio.sleep(0.01)
    assert not taken.done()

    talk.sinks["a"].markdown("y")
    slow.wire.stalled = False
    slow.wire.pass_on()
    await taken
    await answer

    assert text_of(slow, chat) == "x" * 3000 + "y"
    await agree(host, client, slow)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("passed", range(12))
async def test_a_slow_client_that_breaks_off_anywhere_misses_nothing(
    host: Host, client: WireClient, talk: Talk, passed: int
) -> None:
    a = await talking(client, talk, S, "a")
    b = await talking(client, talk, T, "b")
    slow = WireClient(host)
    await slow.initialize(ROOT)
    await slow.subscribe(a)
    await slow.subscribe(b)
    slow.wire.stalled = True
    for index in range(40):
        talk.sinks["ab"[index % 2]].markdown(f"{index:0100}")
    assert len(slow.connection._outbox) == 2
    while passed and slow.wire._waiting:  # what the network held, then what waited behind it
        held = min(passed, len(slow.wire._waiting))
        slow.wire.pass_on(held)
        passed -= held

    await slow.drop()
    await slow.reconnect()

    talk.sinks["a"].markdown("end")
    await agree(host, client, slow)


@pytest.mark.usefixtures("narrow")
async def test_a_client_too_far_behind_is_sent_away_and_given_a_snapshot(
    host: Host, client: WireClient, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    chat = await talking(client, talk, S, "a")
    slow = WireClient(host)
    await slow.initialize(ROOT)
    await slow.subscribe(chat)
    slow.wire.stalled = True

    for index in range(100):
        talk.sinks["a"].notice(f"{index:01000}")
    assert slow.wire.closed is not None
    assert slow.wire.closed[0] == connection_module.TOO_SLOW
    assert slow.connection._outbox_bytes == 0
    assert caplog.text.count("too slowly") == 1
    seen = len(slow.wire.frames)
    slow.wire.closed = None  # the close is on its way behind what the network still takes
    slow.wire.stalled = False
    slow.wire.pass_on()
    talk.sinks["a"].markdown("more")
    assert len(slow.wire.frames) > seen, "what was handed to the network"
    await slow.drop()

    result = await slow.reconnect()

    assert result["type"] == "snapshot"
    assert len(client.state(chat)["activeTurn"]["responseParts"]) == 101
    await agree(host, client, slow)


@pytest.mark.usefixtures("narrow")
async def test_nobody_waits_for_a_slow_client(host: Host, client: WireClient, talk: Talk) -> None:
    chat = await talking(client, talk, S, "a")
    slow, quick = WireClient(host), WireClient(host)
    for one in (slow, quick):
        await one.initialize(ROOT)
        await one.subscribe(chat)
    slow.wire.stalled = True

    for _ in range(500):
        talk.sinks["a"].notice("x" * 200)

    assert len(quick.state(chat)["activeTurn"]["responseParts"]) == 500
    talk.end("a")
    await until(lambda: not quick.running(chat))
    await agree(host, client, quick)
