"""The connection: handshake, requests, refusals, and every way of coming back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_ahp.client.connection import Connection, Pace
from jupyter_ahp.client.discovery import Server
from jupyter_ahp.client.errors import NoHost, Refused
from jupyter_ahp.client.mirror import Mirror
from jupyter_ahp.protocol import uris
from jupyter_ahp.protocol.errors import SESSION_NOT_FOUND, ProtocolError
from tests.client.conftest import QUICK
from tests.client.fake_host import STARTED, FakeHost

Json = dict[str, Any]
CHAT = "ahp-chat:/c1"


def start(turn_id: str = "t1", text: str = "Hi") -> Json:
    message = {"text": text, "origin": {"kind": "user"}}
    return {"type": "chat/turnStarted", "turnId": turn_id, "startedAt": STARTED, "message": message}


def draft(text: str) -> Json:
    return {"type": "chat/draftChanged", "draft": {"text": text, "origin": {"kind": "user"}}}


@pytest.fixture
async def chat(fake: FakeHost, connection: Connection) -> Mirror:
    fake.add_chat(CHAT)
    fake.reply = None
    return await connection.subscribe(CHAT)


async def back(fake: FakeHost, connection: Connection, handshakes: int) -> None:
    """Wait until it has come back: so many `initialize` and `reconnect` in all."""
    await fake.until(lambda: len(fake.calls("initialize")) + len(fake.calls("reconnect")) >= handshakes)
    await fake.until(lambda: connection.status == "online")


# ── handshake ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_the_handshake_says_who_and_which_versions(fake: FakeHost, connection: Connection) -> None:
    [hello] = fake.calls("initialize")
    assert hello["channel"] == "ahp-root://"
    assert hello["protocolVersions"] == ["1.0.0", "0.9.0"]
    assert hello["clientInfo"]["name"] == "jupyter-ahp-python"
    assert hello["clientId"] == connection.client_id
    assert connection.status == "online"


async def refused(server: Server) -> str:
    connection = Connection(lambda: server, pace=QUICK)
    with pytest.raises(NoHost) as caught:
        await connection.open()
    assert connection.status == "closed"
    with pytest.raises(NoHost):
        await connection.request("ping", {"channel": "ahp-root://"})
    await connection.close()
    assert server.url in str(caught.value)
    return str(caught.value)


async def test_a_refused_token_is_told_at_once_and_tried_once(fake: FakeHost) -> None:
    assert "refused this token (403)" in await refused(Server(fake.url, "wrong"))
    await asyncio.sleep(0.2)
    assert fake.dials == 1


async def test_a_server_that_wants_a_token_and_gives_none(fake: FakeHost) -> None:
    assert "wants a token" in await refused(Server(fake.url))


async def test_a_server_without_the_extension(fake: FakeHost) -> None:
    assert "has no agent host" in await refused(Server(fake.url + "other/", fake.token))


async def test_a_server_that_answers_something_else(fake: FakeHost) -> None:
    fake.refuse_upgrade = 503
    assert "answered 503" in await refused(Server(fake.url, fake.token))


async def test_a_proxy_is_not_for_this_machine(fake: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    connection = Connection(lambda: Server(fake.url, fake.token))
    await connection.open()
    await connection.close()


async def test_nobody_listens(fake: FakeHost) -> None:
    server = Server(fake.url, fake.token)
    await fake.stop()
    assert "cannot be reached" in await refused(server)
    await fake.start()


async def test_a_host_of_other_versions(fake: FakeHost) -> None:
    data = {"supportedVersions": ["^2.0.0"]}
    fake.errors["initialize"] = {"code": -32005, "message": "no", "data": data}
    assert "^2.0.0" in await refused(Server(fake.url, fake.token))


async def test_a_host_that_never_takes_us_in(fake: FakeHost) -> None:
    """It answers pings, so it lives."""
    fake.deaf.add("initialize")
    pace = Pace(quiet=0.02, patience=5, welcome=0.2)
    with pytest.raises(NoHost, match="did not answer in time"):
        await Connection(lambda: Server(fake.url, fake.token), pace=pace).open()
    assert fake.calls("ping")


async def test_nobody_to_resolve() -> None:
    def nowhere() -> Server:
        raise NoHost("Nothing here.")

    with pytest.raises(NoHost, match="Nothing here"):
        await Connection(nowhere).open()


# ── requests and refusals ────────────────────────────────────────────────────────────────────────────────────────
async def test_an_error_is_raised_with_its_code(connection: Connection) -> None:
    with pytest.raises(ProtocolError, match="Resource not found") as caught:
        await connection.subscribe("ahp-chat:/none")
    assert caught.value.code == SESSION_NOT_FOUND


async def test_an_answer_that_is_no_snapshot_is_an_error(fake: FakeHost, connection: Connection) -> None:
    fake._on_subscribe = lambda *_: {}  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="not what AHP says"):
        await connection.subscribe(CHAT)
    assert connection.status == "online"


async def test_the_hosts_requests_are_answered(fake: FakeHost, connection: Connection) -> None:
    async def read(params: Json) -> Json:
        return {"data": params["uri"].upper(), "encoding": "utf-8"}

    connection.handlers["resourceRead"] = read
    fake.ask(7, "resourceRead", {"uri": "file:///a"})
    fake.ask(8, "resourceList", {"uri": "file:///a"})
    await fake.until(
        lambda: len([m for m in fake.received if m.get("id") in (7, 8) and "method" not in m]) == 2
    )
    answers = {m["id"]: m for m in fake.received if "method" not in m}
    assert answers[7]["result"]["data"] == "FILE:///A"
    assert answers[8]["error"]["code"] == -32601


async def test_T7_a_refusal_is_the_senders(fake: FakeHost, connection: Connection, chat: Mirror) -> None:
    fake.refuses["chat/draftChanged"] = "Not now."
    with pytest.raises(Refused, match=r"Not now\."):
        await connection.dispatch(CHAT, draft("a"))
    assert "draft" not in chat.state


async def test_T1_an_action_is_applied_when_the_host_says_it(connection: Connection, chat: Mirror) -> None:
    answer = connection.dispatch(CHAT, draft("a"))
    assert "draft" not in chat.state
    await answer
    assert chat.state["draft"]["text"] == "a"


async def test_a_channel_is_subscribed_to_once_for_all(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    again = await connection.subscribe(CHAT)
    assert again is chat
    assert len(fake.calls("subscribe")) == 1
    await connection.unsubscribe(again)
    assert not fake.calls("unsubscribe")
    await connection.unsubscribe(chat)
    await fake.until(lambda: fake.calls("unsubscribe") == [{"channel": CHAT}])
    assert chat.ended
    with pytest.raises(Refused):
        await connection.dispatch(CHAT, draft("nobody sees this"))


# ── coming back ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_replay_is_applied_once(fake: FakeHost, connection: Connection, chat: Mirror) -> None:
    await connection.dispatch(CHAT, start())
    part = {"kind": "markdown", "id": "p", "content": "a"}
    fake.say(CHAT, {"type": "chat/responsePart", "turnId": "t1", "part": part})
    await fake.until(lambda: chat.state["activeTurn"]["responseParts"])
    seen = fake.seq
    fake.drop()
    for piece in "bcd":
        delta = {"type": "chat/delta", "turnId": "t1", "partId": "p", "content": piece}
        fake.say(CHAT, delta, quietly=True)
    await back(fake, connection, 2)
    assert chat.state == fake.states[CHAT]
    assert chat.state["activeTurn"]["responseParts"][0]["content"] == "abcd"
    [again] = fake.calls("reconnect")
    assert again == {
        "channel": "ahp-root://",
        "clientId": connection.client_id,
        "lastSeenServerSeq": seen,
        "subscriptions": [uris.ROOT, CHAT],
    }


async def test_a_subscription_after_the_last_word_is_not_replayed_into(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    """The replay begins before this channel's snapshot: what the snapshot has is not applied again."""
    await connection.dispatch(CHAT, start())
    other = fake.add_chat("ahp-chat:/c2", "ahp-session:/s2")
    await connection.unsubscribe(chat)
    await fake.until(lambda: fake.calls("unsubscribe"))
    part = {"kind": "markdown", "id": "p", "content": "once"}
    fake.say(CHAT, {"type": "chat/responsePart", "turnId": "t1", "part": part})
    mirror = await connection.subscribe(CHAT)
    await connection.subscribe(other)
    fake.drop()
    await back(fake, connection, 2)
    assert len(mirror.state["activeTurn"]["responseParts"]) == 1


async def test_a_snapshot_replaces_the_state(fake: FakeHost, connection: Connection, chat: Mirror) -> None:
    fake.comes_back_by = "snapshot"
    fake.drop()
    fake.say(CHAT, draft("meanwhile"), quietly=True)
    await back(fake, connection, 2)
    assert chat.state["draft"]["text"] == "meanwhile"


async def test_a_page_of_a_chat_is_not_taken_for_all_of_it(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    for number in range(3):
        await connection.dispatch(CHAT, start(f"t{number}"))
        fake.answer_turn(CHAT, f"t{number}", ["x"])
    fake.comes_back_by = "page"
    fake.drop()
    await back(fake, connection, 2)
    assert [turn["id"] for turn in chat.state["turns"]] == ["t0", "t1", "t2"]
    assert "turnsNextCursor" not in chat.state


async def test_a_host_that_forgot_us_is_told_who_we_are(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    fake.taken.clear()
    fake.drop()
    await fake.until(lambda: len(fake.calls("initialize")) == 2)
    first, second = fake.calls("initialize")
    assert second["clientId"] == first["clientId"]
    assert second["initialSubscriptions"] == [uris.ROOT, CHAT]
    await connection.dispatch(CHAT, draft("still there"))
    assert chat.state["draft"]["text"] == "still there"


async def test_a_host_that_loads_a_chat_only_when_asked(
    fake: FakeHost, connection: Connection, chat: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "_on_initialize", lambda *_: {"serverSeq": fake.seq, "snapshots": []})
    fake.errors["reconnect"] = {"code": -32008, "message": "who?"}
    fake.drop()
    fake.say(CHAT, draft("meanwhile"), quietly=True)
    await fake.until(lambda: len(fake.calls("subscribe")) == 2)
    await fake.until(lambda: connection.status == "online")
    assert chat.state["draft"]["text"] == "meanwhile"


@pytest.mark.parametrize("how", ["replay", "snapshot", "forgotten"])
async def test_a_channel_that_is_gone_ends(
    fake: FakeHost, connection: Connection, chat: Mirror, how: str
) -> None:
    fake.deaf.add("dispatchAction")
    waiting = asyncio.create_task(chat.until(lambda state: state.get("draft")))
    await asyncio.sleep(0)
    if how == "snapshot":
        fake.comes_back_by = "snapshot"
    if how == "forgotten":
        fake.taken.clear()
    del fake.states[CHAT]
    fake.drop()
    await fake.until(waiting.done)
    with pytest.raises(Refused):
        waiting.result()
    with pytest.raises(Refused):
        await connection.dispatch(CHAT, draft("lost"))


async def test_what_did_not_arrive_is_sent_again_in_order(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    fake.cut = "before"
    answers = [connection.dispatch(CHAT, draft(text)) for text in "abc"]
    await asyncio.wait_for(asyncio.gather(*answers), 5)
    assert [e["action"]["draft"]["text"] for e in fake.envelopes] == ["a", "b", "c"]
    assert [e["origin"]["clientSeq"] for e in fake.envelopes] == [1, 2, 3]
    assert chat.state["draft"]["text"] == "c"


async def test_what_is_said_while_offline_goes_out_later(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    port = fake.port
    await fake.stop()
    await fake.until(lambda: connection.status == "offline")
    answers = [connection.dispatch(CHAT, draft(text)) for text in "ab"]
    request = asyncio.create_task(connection.request("ping", {"channel": "ahp-root://"}))
    await asyncio.sleep(0.05)
    assert not any(answer.done() for answer in (*answers, request))
    assert "cannot be reached" in connection.problem
    await fake.start(port)
    await asyncio.wait_for(asyncio.gather(*answers, request), 5)
    assert connection.problem == ""
    assert chat.state["draft"]["text"] == "b"


@pytest.mark.parametrize("by", ["replay", "snapshot", "page"])
async def test_a_turn_whose_echo_was_lost_is_started_once(
    fake: FakeHost, connection: Connection, chat: Mirror, by: Any
) -> None:
    fake.comes_back_by = by
    fake.cut = "after"
    await asyncio.wait_for(connection.dispatch(CHAT, start()), 5)
    started = [e for e in fake.envelopes if e["action"]["type"] == "chat/turnStarted"]
    assert len(started) == 1
    assert chat.state["activeTurn"]["id"] == "t1"


async def test_a_turn_that_a_restarted_host_has_already_is_not_refused(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    """It kept the chat and forgot the numbers: it refuses the repetition, and the turn was started all the same."""
    fake.cut = "after"
    answer = connection.dispatch(CHAT, start())
    await fake.until(lambda: fake.envelopes)
    fake.answer_turn(CHAT, "t1", ["done"])
    fake.taken.clear()
    await asyncio.wait_for(answer, 5)
    assert len(chat.state["turns"]) == 1


@pytest.mark.parametrize("meanwhile", ["runs", "ended"])
async def test_a_resumed_turn_whose_echo_was_lost(
    fake: FakeHost, connection: Connection, chat: Mirror, meanwhile: str
) -> None:
    await connection.dispatch(CHAT, start())
    part = {"kind": "error", "error": {"errorType": "x", "message": "m"}, "resumable": True}
    fake.say(CHAT, {"type": "chat/error", "turnId": "t1", "duration": 1, "part": part})
    await fake.until(lambda: chat.state["turns"])
    fake.comes_back_by = "snapshot"
    fake.cut = "after"
    answer = connection.dispatch(CHAT, {"type": "chat/turnResume", "turnId": "t1"})
    await fake.until(lambda: "activeTurn" in fake.states[CHAT])
    if meanwhile == "ended":
        fake.say(CHAT, {"type": "chat/error", "turnId": "t1", "duration": 1, "part": part})
    await asyncio.wait_for(answer, 5)
    assert len([e for e in fake.envelopes if e["action"]["type"] == "chat/turnResume"]) == 1


async def test_a_request_whose_answer_was_lost_is_made_again(fake: FakeHost, connection: Connection) -> None:
    fake.add_chat(CHAT)
    fake.deaf.add("subscribe")
    subscribing = asyncio.create_task(connection.subscribe(CHAT))
    await fake.until(lambda: fake.calls("subscribe"))
    fake.deaf.clear()
    fake.drop()
    mirror = await asyncio.wait_for(subscribing, 5)
    assert mirror.state == fake.states[CHAT]


async def test_a_server_that_moved_and_has_another_token(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    port = fake.port
    await fake.stop()
    fake.token = "another"
    await fake.start()
    assert fake.port != port
    await connection.dispatch(CHAT, draft("found"))
    assert chat.state["draft"]["text"] == "found"


async def test_a_refusal_later_on_backs_off_and_ends(fake: FakeHost) -> None:
    token = "secret"
    connection = Connection(
        lambda: Server(fake.url, token), pace=Pace(first=0.05, most=0.2, quiet=5, patience=5)
    )
    await connection.open()
    fake.token = "changed"
    before = fake.dials
    fake.drop()
    await asyncio.sleep(1)
    assert 3 <= fake.dials - before <= 16  # once in 0.1 to 0.2 s, and not as fast as it can
    assert connection.status == "offline"
    assert "refused this token" in connection.problem
    token = "changed"
    await fake.until(lambda: connection.status == "online")
    await connection.close()


@pytest.mark.parametrize(("settled", "least", "most"), [(60, 3, 8), (0, 10, 200)])
async def test_a_host_that_falls_over_what_we_send_is_not_hammered(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch, settled: float, least: int, most: int
) -> None:
    """Each loss comes right after a handshake: the pauses grow all the same, unless that counts as settled."""
    fake.add_chat(CHAT)
    pace = Pace(first=0.02, most=10, settled=settled, quiet=5, patience=5)
    connection = Connection(lambda: Server(fake.url, fake.token), pace=pace)
    await connection.open()
    await connection.subscribe(CHAT)
    monkeypatch.setattr(fake, "_dispatched", lambda socket, _params: socket.transport.abort())
    connection.dispatch(CHAT, draft("poison"))
    await asyncio.sleep(1)
    assert least <= fake.dials - 1 <= most
    await connection.close()


async def test_an_error_of_reconnect_is_a_failed_try(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    fake.errors["reconnect"] = {"code": -32603, "message": "busy"}
    fake.drop()
    await fake.until(lambda: len(fake.calls("reconnect")) >= 3)
    assert len(fake.calls("initialize")) == 1
    assert "busy" in connection.problem
    fake.errors.clear()
    await connection.dispatch(CHAT, draft("well"))


async def test_a_silent_host_is_left(fake: FakeHost) -> None:
    pace = Pace(first=0.01, most=0.05, quiet=0.05, patience=0.1)
    connection = Connection(lambda: Server(fake.url, fake.token), pace=pace)
    await connection.open()
    await fake.until(lambda: len(fake.calls("ping")) >= 3)  # It answers, so it is kept.
    assert fake.dials == 1
    fake.errors["ping"] = {"code": -32601, "message": "no"}
    heard = len(fake.calls("ping"))
    await fake.until(lambda: len(fake.calls("ping")) >= heard + 3)  # An error is an answer.
    assert fake.dials == 1
    fake.errors.clear()
    fake.deaf.add("ping")
    await fake.until(lambda: fake.dials >= 2)
    fake.deaf.clear()
    await fake.until(lambda: connection.status == "online")
    await connection.close()


async def test_a_frame_that_is_no_message_is_survived(
    fake: FakeHost, connection: Connection, chat: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    for socket in fake.sockets:
        await socket.send("not JSON")
        await socket.send('{"jsonrpc": "2.0", "method": "action", "params": {}}')
    await connection.dispatch(CHAT, draft("a"))
    assert len([record for record in caplog.records if "not understood" in record.message]) == 2
    assert fake.dials == 1


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_closing_sends_what_waits_and_refuses_what_is_unanswered(
    fake: FakeHost, connection: Connection, chat: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "_dispatched", lambda *_: None)
    answer = connection.dispatch(CHAT, draft("last words"))
    watching = asyncio.create_task(chat.until(lambda state: state.get("draft")))
    await asyncio.sleep(0)
    await connection.close()
    await fake.until(lambda: fake.calls("dispatchAction"))
    for waits in (answer, watching):
        with pytest.raises(Refused, match="closed"):
            await waits
    with pytest.raises(NoHost):
        connection.dispatch(CHAT, draft("too late"))
    await fake.until(lambda: not fake.sockets)
    assert not [task for task in asyncio.all_tasks() if "jupyter-ahp" in task.get_name()]


async def test_closing_while_offline(fake: FakeHost, connection: Connection, chat: Mirror) -> None:
    await fake.stop()
    await fake.until(lambda: connection.status == "offline")
    answer = connection.dispatch(CHAT, draft("never sent"))
    asking = asyncio.create_task(connection.request("ping", {"channel": "ahp-root://"}))
    await asyncio.sleep(0)
    await connection.close()
    with pytest.raises(Refused):
        await answer
    with pytest.raises(NoHost):
        await asking
    await fake.start()


@pytest.mark.parametrize(
    ("failures", "least", "most"), [(0, 0.25, 0.5), (1, 0.5, 1), (3, 2, 4), (6, 15, 30), (10_000, 15, 30)]
)
def test_the_pace_of_coming_back(failures: int, least: float, most: float) -> None:
    delays = [Pace().delay(failures) for _ in range(200)]
    assert min(delays) >= least
    assert max(delays) <= most
    assert len(set(delays)) > 1


async def test_a_slow_reader_gets_the_latest_state(
    fake: FakeHost, connection: Connection, chat: Mirror
) -> None:
    seen: list[str] = []

    async def read() -> None:
        async for state in chat.states():
            seen.append(state.get("draft", {}).get("text", ""))
            if seen[-1] == "9":
                return
            await asyncio.sleep(0.05)

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    for number in range(10):
        fake.say(CHAT, draft(str(number)))
    await asyncio.wait_for(reading, 5)
    assert seen[0] == ""
    assert len(seen) < 5
