"""Canvases through the wire: V1 to V6, AHP 5.2."""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host import canvases
from jupyter_ahp.host.canvases import HostCanvas
from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import CanvasError, Json, Principal
from jupyter_ahp.store.files import FileStore
from jupyter_ahp.store.memory import MemoryStore
from tests.host.harness import ROOT, Scripted, WireClient, agree, quiet, started, until

SESSION = "ahp-session:/drawn-on"
SITE = "https://hub.example/user/mia/"


@pytest.fixture
async def chat(client: WireClient) -> str:
    return await client.create(SESSION)


async def drawn(host: Host, chat: str, title: str = "A map", **what: Any) -> HostCanvas:
    return await host.canvases.open(chat, plugin="painter", title=title, **(what or {"html": "<p>here"}))


def page_of(host: Host, canvas: HostCanvas) -> bytes | None:
    """What is served at its address."""
    found = host.canvases.of_token(canvas.token)
    return found.page if found is not None else None


def listed(client: WireClient, chat: str) -> list[str]:
    return [entry["resource"] for entry in client.state(chat).get("canvases", [])]


# ── V1, V2 ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_V1_canvases_are_listed_in_the_order_they_were_opened_and_there_is_no_key_without_any(
    host: Host, client: WireClient, chat: str
) -> None:
    assert "canvases" not in client.state(chat)
    first, second, third = [await drawn(host, chat, title) for title in ("1", "2", "3")]
    assert listed(client, chat) == [first.uri, second.uri, third.uri]

    await second.close()
    assert listed(client, chat) == [first.uri, third.uri]
    await agree(host, client)

    await first.close()
    await third.close()
    assert "canvases" not in client.state(chat)
    assert "canvases" not in await client.subscribe(chat)
    await agree(host, client)


async def test_V1_a_chat_that_was_let_go_of_is_read_back_with_its_canvases(
    host: Host, client: WireClient, chat: str
) -> None:
    await client.say(chat, "Hello")
    await quiet(host)
    await client.unsubscribe(chat)
    canvas = await drawn(host, chat)
    held = host.chat_named(chat)
    assert held is not None
    await held.unload()
    assert held.channel is None
    late = await drawn(host, chat, "Another")
    assert [entry["resource"] for entry in (await client.subscribe(chat))["canvases"]] == [
        canvas.uri,
        late.uri,
    ]
    await held.unload()


async def test_V2_a_canvas_is_a_channel_with_one_state(host: Host, client: WireClient, chat: str) -> None:
    canvas = await drawn(host, chat, status="loading")
    scheme, packed, name = canvas.uri.split("/")
    assert scheme == "ahp-canvas:"
    assert base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode() == chat
    assert "=" not in packed
    assert str(uuid.UUID(name)) == name

    state = await client.subscribe(canvas.uri)
    assert state.pop("instanceId")
    assert state == {
        "extensionId": "painter",
        "canvasId": "page",
        "title": "A map",
        "status": "loading",
    }


async def test_V2_a_change_is_one_action_that_replaces_the_state(
    host: Host, client: WireClient, chat: str
) -> None:
    canvas = await drawn(host, chat)
    before = await client.subscribe(canvas.uri)
    await canvas.update(title=" Two \n lines ", status="drawing")
    assert client.state(canvas.uri) == {**before, "title": "Two lines", "status": "drawing"}
    await canvas.update(status="")
    assert client.state(canvas.uri) == {**before, "title": "Two lines"}
    await canvas.update(title="Two lines")
    assert client.kinds(canvas.uri) == ["canvas/stateChanged"] * 2, "what changes nothing is not said"
    await agree(host, client)


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_V2_each_client_is_given_the_address_at_which_it_reaches_the_server(
    host: Host, client: WireClient, chat: str
) -> None:
    here, there = WireClient(host, site=SITE), WireClient(host, site="http://127.0.0.1:8888/")
    canvas = await drawn(host, chat)
    for viewer in (here, there):
        await viewer.initialize()
        await viewer.subscribe(canvas.uri)
    path = f"ahp/canvas/{canvas.token}?drawn=1"
    assert here.state(canvas.uri)["url"] == SITE + path
    assert there.state(canvas.uri)["url"] == f"http://127.0.0.1:8888/{path}"
    assert "url" not in await client.subscribe(canvas.uri), "it reaches no server"

    await canvas.update(html="<p>again")
    path = f"ahp/canvas/{canvas.token}?drawn=2"
    assert here.state(canvas.uri)["url"] == SITE + path, "another address, so that it is loaded again"
    assert there.state(canvas.uri)["url"] == f"http://127.0.0.1:8888/{path}"
    assert page_of(host, canvas) == b"<p>again"

    await here.drop()
    await canvas.update(html="<p>while it was away")
    result = await here.reconnect()
    assert result["type"] == "replay"
    assert here.state(canvas.uri)["url"] == f"{SITE}ahp/canvas/{canvas.token}?drawn=3"


async def test_V2_a_url_is_given_as_it_is_and_a_path_is_one_of_this_server(host: Host, chat: str) -> None:
    viewer = WireClient(host, site=SITE)
    await viewer.initialize()
    canvas = await drawn(host, chat, url="http://localhost:8050/a?b=c#d")
    assert (await viewer.subscribe(canvas.uri))["url"] == "http://localhost:8050/a?b=c#d"
    await canvas.update(url="/proxy/8050/")
    assert viewer.state(canvas.uri)["url"] == f"{SITE}proxy/8050/"
    assert canvas.page is None


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,hi",
        "//elsewhere.example/",
        "relative/page",
        "http://",
        "http://[::1",
        "https://a b/",
        "https://a/\n",
        "https://a/" + "x" * 9000,
        "",
    ],
)
async def test_V2_what_is_no_web_address_is_refused(
    host: Host, client: WireClient, chat: str, url: str
) -> None:
    with pytest.raises(CanvasError, match="http:// or https://"):
        await drawn(host, chat, url=url)
    assert listed(client, chat) == []


async def test_V2_a_page_is_read_by_a_client_that_cannot_reach_its_address(
    host: Host, client: WireClient, chat: str
) -> None:
    canvas = await drawn(host, chat, html="<p>Größe")
    read = {"channel": ROOT, "uri": canvas.uri}
    assert await client.request("resourceRead", **read) == {
        "data": "<p>Größe",
        "encoding": "utf-8",
        "contentType": "text/html",
    }
    packed = await client.request("resourceRead", **read, encoding="base64")
    assert base64.b64decode(packed["data"]).decode() == "<p>Größe"
    await canvas.update(url="https://elsewhere.example/")
    assert (await client.fails("resourceRead", **read)).code == -32008
    await canvas.close()
    assert (await client.fails("resourceRead", **read)).message == (
        f"Canvas is no longer available: {canvas.uri}"
    )


@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_V2_a_page_has_a_largest_size(
    host: Host, client: WireClient, chat: str, monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    monkeypatch.setattr(canvases, "LONGEST", 1000)
    html = "é" * 500 + "x" * over if over >= 0 else "é" * 499 + "x"
    if over <= 0:
        canvas = await drawn(host, chat, html=html)
        assert page_of(host, canvas) == html.encode()
        return
    with pytest.raises(CanvasError, match="too large: 1,001 bytes, of 1,000"):
        await drawn(host, chat, html=html)
    canvas = await drawn(host, chat, html="<p>small")
    with pytest.raises(CanvasError, match="too large"):
        await canvas.update(title="Changed", html=html)
    assert (await client.subscribe(canvas.uri))["title"] == "A map"
    assert page_of(host, canvas) == b"<p>small"


async def test_V2_all_pages_together_and_the_canvases_of_a_chat_are_bounded(
    host: Host, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canvases, "_ALL_PAGES", 1000)
    first = await drawn(host, chat, html="x" * 600)
    with pytest.raises(CanvasError, match="take too much memory"):
        await drawn(host, chat, html="x" * 401)
    await first.update(html="x" * 1000)
    await first.update(html="x")
    monkeypatch.setattr(canvases, "_MOST", 2)
    await drawn(host, chat, html="x" * 401)
    with pytest.raises(CanvasError, match="has 2 canvases already"):
        await drawn(host, chat, html="x")


async def test_V2_a_page_and_a_url_at_once_and_a_chat_that_is_not_here_are_refused(
    host: Host, chat: str
) -> None:
    with pytest.raises(CanvasError, match="either `html`"):
        await drawn(host, chat, html="x", url="https://a.example/")
    for nowhere in ("ahp-chat:/nowhere", "no uri"):
        with pytest.raises(CanvasError, match="There is no chat"):
            await drawn(host, nowhere)


async def test_V2_an_app_is_shown_where_that_can_be_done(host: Host, client: WireClient, chat: str) -> None:
    with pytest.raises(CanvasError, match="jupyter-server-proxy, which is not installed"):
        await drawn(host, chat, port=8050)
    host.options.shows_apps = True
    viewer = WireClient(host, site=SITE)
    await viewer.initialize()
    canvas = await drawn(host, chat, port=8050, path="/a?b=c")
    url = (await viewer.subscribe(canvas.uri))["url"]
    assert url == f"{SITE}ahp/canvas/{canvas.token}?drawn=1"
    assert (canvas.port, canvas.path, page_of(host, canvas)) == (8050, "/a?b=c", None)
    assert (await client.fails("resourceRead", channel=ROOT, uri=canvas.uri)).code == -32008
    await canvas.update(html="<p>instead")
    assert (canvas.port, page_of(host, canvas)) == (None, b"<p>instead")
    await canvas.update(port=8051)
    assert (canvas.port, page_of(host, canvas)) == (8051, None)
    assert viewer.state(canvas.uri)["url"].endswith("?drawn=3")


# ── V3 ───────────────────────────────────────────────────────────────────────────────────────────────────────────
async def assert_gone(client: WireClient, canvas: HostCanvas) -> None:
    error = await client.fails("subscribe", channel=canvas.uri)
    assert (error.code, error.message) == (-32008, f"Canvas is no longer available: {canvas.uri}")
    assert not canvas.open
    with pytest.raises(CanvasError, match="closed"):
        await canvas.update(title="Still here?")
    await canvas.close()  # does nothing


async def test_V3_a_closed_canvas_has_no_address_any_more_and_is_gone(
    host: Host, client: WireClient, chat: str
) -> None:
    viewer = WireClient(host, site=SITE)
    await viewer.initialize()
    canvas = await drawn(host, chat)
    await viewer.subscribe(canvas.uri)
    await canvas.close()
    assert "url" not in viewer.state(canvas.uri)
    assert page_of(host, canvas) is None
    await assert_gone(client, canvas)
    unknown = await client.fails("subscribe", channel="ahp-canvas:/abc/def")
    assert (unknown.code, unknown.message) == (-32008, "Canvas is no longer available: ahp-canvas:/abc/def")


async def test_V3_a_canvas_goes_with_a_chat_that_is_closed(host: Host, client: WireClient, chat: str) -> None:
    other = "ahp-chat:/beside"
    await client.request("createChat", channel=SESSION, chat=other)
    await client.subscribe(other)
    going, staying = await drawn(host, other), await drawn(host, chat)
    await client.subscribe(going.uri)
    await client.request("disposeChat", channel=other)
    await assert_gone(client, going)
    assert await client.subscribe(staying.uri)
    assert listed(client, chat) == [staying.uri]


async def test_V3_a_canvas_goes_with_its_session(host: Host, client: WireClient, chat: str) -> None:
    canvas = await drawn(host, chat)
    await client.request("disposeSession", channel=SESSION)
    await assert_gone(client, canvas)


async def test_V3_a_canvas_does_not_move_with_its_chat(host: Host, client: WireClient, chat: str) -> None:
    moving = "ahp-chat:/moving"
    await client.request("createChat", channel=SESSION, chat=moving)
    await client.subscribe(moving)
    canvas = await drawn(host, moving)
    await client.request(
        "moveChat", channel=moving, destination={"kind": "session", "session": SESSION, "after": chat}
    )
    assert canvas.open, "put into another place of its own session, it has not moved"

    await client.request("moveChat", channel=moving, destination={"kind": "newSession"})
    assert "canvases" not in client.state(moving)
    await assert_gone(client, canvas)
    again = await drawn(host, moving)
    assert listed(client, moving) == [again.uri]


# ── V4, V5 ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_V4_no_client_opens_draws_or_closes_a_canvas(host: Host, client: WireClient, chat: str) -> None:
    canvas = await drawn(host, chat)
    before = await client.subscribe(canvas.uri)
    attempts: list[tuple[str, Json]] = [
        (chat, {"type": "chat/canvasesChanged", "canvases": []}),
        (chat, {"type": "chat/canvasesChanged"}),
        (canvas.uri, {"type": "canvas/stateChanged", "canvas": {**before, "url": "https://evil.example/"}}),
        (canvas.uri, {"type": "chat/draftChanged"}),
        (canvas.uri, {"type": "root/configChanged", "config": {}}),
    ]
    for channel, action in attempts:
        envelope = await client.do(channel, action.pop("type"), **action)
        assert envelope["rejectionReason"]
    assert listed(client, chat) == [canvas.uri]
    assert await client.subscribe(canvas.uri) == before


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0", "1.0.0"])
async def test_V5_only_a_connection_at_0_10_or_later_is_sent_canvas_actions(
    host: Host, client: WireClient, chat: str, version: str
) -> None:
    viewer = WireClient(host, versions=[version], site=SITE)
    early = await drawn(host, chat)
    result = await viewer.initialize(chat, early.uri)
    knows = version != "0.9.0"
    assert len(result["snapshots"]) == 1 + knows
    assert ("canvases" in viewer.state(chat)) == knows
    late = await drawn(host, chat)
    await early.update(title="Changed")
    await late.close()
    kinds = {"chat/canvasesChanged", "canvas/stateChanged"}
    assert set(viewer.kinds()) == (kinds if knows else set())
    if not knows:
        error = await viewer.fails("subscribe", channel=early.uri)
        assert (error.code, error.message) == (-32008, f"Canvas is no longer available: {early.uri}")
        await viewer.drop()
        await early.update(title="While it was away")
        await drawn(host, chat)
        replay = await viewer.reconnect()
        assert replay["type"] == "replay"
        assert replay["actions"] == []


# ── V6 ───────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
async def on_disk(files: FileStore, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Host]:
    caplog.set_level(logging.DEBUG)
    host = await started(files, Scripted())
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    await host.stop()


async def test_V6_the_address_is_neither_stored_nor_logged_and_a_restart_has_no_canvases(
    on_disk: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = WireClient(on_disk, site=SITE)
    await client.initialize(ROOT)
    chat = await client.create(SESSION)
    running = WireClient(on_disk)
    await running.initialize()
    page = await drawn(on_disk, chat)
    elsewhere = await drawn(on_disk, chat, url="https://a.example/?secret=6b1f")
    await client.subscribe(page.uri)
    await client.say(chat, "Hello")
    await page.update(html="<p>other")
    await elsewhere.close()
    await client.say(chat, "Hello again")
    await quiet(on_disk)
    for connection in tuple(on_disk.connections):
        await connection.closed()
    await on_disk.stop()

    written = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert any(b"Hello again" in text for text in written), "the chat is on disk"
    for secret in (page.token, "a.example", "6b1f", "ahp-canvas"):
        assert not any(secret.encode() in text for text in written)
        assert secret not in caplog.text

    again = await started(FileStore(tmp_path / "store"), Scripted())
    late = WireClient(again, site=SITE)
    await late.initialize()
    assert "canvases" not in await late.subscribe(chat)
    assert (await late.fails("subscribe", channel=page.uri)).code == -32008
    await late.connection.closed()
    await again.stop()


# ── who may ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_P1_a_canvas_is_read_by_whoever_may_read_its_chat() -> None:
    from jupyter_ahp.host.grants import Grants

    grants = Grants(
        {"nobody": [], "reader": ["chat:turns"]}, {"ana": "owner", "ben": "reader", "cleo": "nobody"}
    )
    host = Host(MemoryStore(), [Scripted()], HostOptions(grants=grants))
    await host.start()
    clients: dict[str, WireClient] = {}
    for name in ("ana", "ben", "cleo"):
        clients[name] = WireClient(host, principal=Principal(f"user:{name}", name), site=SITE)
        await clients[name].initialize()
    chat = await clients["ana"].create(SESSION)
    canvas = await drawn(host, chat)
    read: Json = {"channel": ROOT, "uri": canvas.uri}
    assert (await clients["ben"].subscribe(canvas.uri))["url"].startswith(SITE)
    assert (await clients["ben"].request("resourceRead", **read))["data"] == "<p>here"
    assert (await clients["cleo"].fails("subscribe", channel=canvas.uri)).code == -32009
    assert (await clients["cleo"].fails("resourceRead", **read)).code == -32009
    for client in clients.values():
        await client.drop()
    await host.stop()


async def test_V2_a_canvas_is_drawn_while_a_turn_streams(
    host: Host, client: WireClient, chat: str, agent: Scripted
) -> None:
    async def play(prompt: Any, sink: Any) -> None:
        sink.markdown("before ")
        await drawn(host, chat)
        sink.markdown("after")

    agent.play = play
    turn = await client.say(chat, "Draw")
    await until(lambda: listed(client, chat))
    assert "".join(part["content"] for part in turn["responseParts"]) == "before after"
    await agree(host, client)
