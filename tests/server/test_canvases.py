"""The pages of canvases over HTTP: what they may do, who may read them, and that no address is written down (V6)."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jupyter_ahp.protocol.meta import RELAYED
from tests.support.server import Home, JupyterServer
from tests.support.wire import Json, Peer, open_peer

DRAWING = "--AHPExtension.plugins=tests.support.drawing:register"
PAGE = "<!doctype html><title>Größe</title><script>document.title = 1</script>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    home = Home(tmp_path_factory.mktemp("home"))
    server = JupyterServer(home, base_url="/user/mia/", args=[DRAWING]).start()
    yield server
    server.stop()


async def run(peer: Peer, chat: str, text: str) -> str:
    """The answer of a command."""
    turn = await peer.start_turn(chat, text)
    await peer.action("chat/turnComplete", chat)
    parts = next(one for one in await peer.turns(chat) if one["id"] == turn)["responseParts"]
    return str(parts[0]["content"])


async def draw(peer: Peer, text: str = f"/draw {PAGE}") -> tuple[str, str, Json]:
    """A canvas: its chat, its URI and its state."""
    _, chat = await peer.new_chat()
    uri = await run(peer, chat, text)
    return chat, uri, (await peer.request("subscribe", uri))["snapshot"]["state"]


def page_at(state: Json) -> str:
    """The address of the page itself, within what is opened."""
    url: str = state["url"]
    return url.replace("?", "/page?")


async def get(url: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    def fetch() -> tuple[int, str, dict[str, str]]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(url, headers=headers), timeout=20) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), dict(error.headers)

    return await asyncio.to_thread(fetch)


def policy_of(headers: dict[str, str]) -> dict[str, list[str]]:
    """The policy of an answer, once the other headers have been looked at."""
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    for absent in ("Set-Cookie", "Etag", "Access-Control-Allow-Origin"):
        assert absent not in headers
    return {part.split()[0]: part.split()[1:] for part in headers["Content-Security-Policy"].split("; ")}


async def test_V2_what_is_opened_frames_the_page_and_nothing_else(server: JupyterServer) -> None:
    """Or a page could lead its frame to another address, and say there what it holds."""
    async with open_peer(server) as peer:
        await peer.initialize()
        _, _, state = await draw(peer)
        status, body, headers = await get(state["url"])  # no cookie, no token
    token = urlsplit(state["url"]).path.rpartition("/")[2]
    assert state["url"] == f"{server.url}ahp/canvas/{token}?drawn=1"
    assert status == 200
    assert (
        f'<iframe sandbox="allow-scripts allow-forms" src="{token}/page?drawn=1" title="A drawing">' in body
    )
    assert policy_of(headers) == {
        "sandbox": ["allow-scripts", "allow-forms"],  # which the page itself has not, and an app has
        "default-src": ["'none'"],
        "style-src": ["'unsafe-inline'"],
        "frame-src": [f"{server.url}ahp/canvas/{token}/page"],
    }


async def test_V2_a_page_is_read_with_its_address_alone_and_can_reach_nobody(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        _, _, state = await draw(peer)
        status, body, headers = await get(page_at(state))
    assert (status, body) == (200, PAGE)
    policy = policy_of(headers)
    assert policy["sandbox"] == ["allow-scripts"], (
        "of no origin: neither cookies nor storage of this server's"
    )
    assert policy["default-src"] == ["'none'"]
    assert policy["form-action"] == policy["base-uri"] == ["'none'"]
    assert not {"connect-src", "frame-src", "object-src", "manifest-src"} & set(policy), "as default-src says"
    reached = [source for sources in policy.values() for source in sources]
    assert not any("http" in source or "*" in source or "'self'" in source for source in reached)


async def test_V2_a_login_changes_nothing_and_is_not_prolonged(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        _, _, state = await draw(peer)
        status, _, headers = await get(
            state["url"], Cookie=server.login_cookie(), Authorization=f"token {server.token}"
        )
    assert status == 200
    assert "Set-Cookie" not in headers


async def test_V3_a_wrong_token_and_that_of_a_closed_canvas_are_answered_alike(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        chat, uri, state = await draw(peer)
        wrong = await get(f"{server.url}ahp/canvas/{'x' * 43}")
        await run(peer, chat, "/undraw")
        closed, page = await get(state["url"]), await get(page_at(state))
    assert wrong[0] == closed[0] == page[0] == 404
    assert wrong[1] == closed[1] == page[1] == "There is no canvas here, or not any more."
    assert closed[2]["Cache-Control"] == "no-store"
    assert closed[2]["Content-Type"] == "text/plain; charset=utf-8"
    assert uri


async def test_V2_a_page_is_only_read(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        _, _, state = await draw(peer)
    path = state["url"].removeprefix(server.url)
    status, _, _ = server.request(path, headers={}, body=b"x=y")
    assert status == 405


async def test_V2_the_address_is_the_one_at_which_the_client_reached_the_server(
    server: JupyterServer,
) -> None:
    """Behind a proxy that ends TLS, too."""
    host = f"127.0.0.1:{server.port}"
    cases: tuple[tuple[dict[str, str], str], ...] = (
        ({}, f"http://{host}"),
        ({"Origin": f"https://{host}"}, f"https://{host}"),
        ({"Origin": "https://elsewhere.example"}, f"http://{host}"),
        ({"X-Forwarded-Proto": "https,http"}, f"https://{host}"),
    )
    for headers, site in cases:
        async with open_peer(server, headers=headers) as peer:
            await peer.initialize()
            _, _, state = await draw(peer)
            assert state["url"].startswith(f"{site}/user/mia/ahp/canvas/")


async def test_V2_a_page_behind_a_kernel_reads_the_canvas_instead(server: JupyterServer) -> None:
    async with open_peer(server, headers={RELAYED: "1"}) as peer:
        await peer.initialize()
        _, uri, state = await draw(peer)
        assert "url" not in state
        assert (await peer.request("resourceRead", uri=uri))["data"] == PAGE


async def test_V2_a_redrawn_page_has_another_address(server: JupyterServer) -> None:
    async with open_peer(server) as peer:
        await peer.initialize()
        chat, uri, state = await draw(peer)
        await run(peer, chat, "/redraw <p>anew")
        again = (await peer.request("subscribe", uri))["snapshot"]["state"]
        assert again["url"] != state["url"]
        assert (await get(page_at(again)))[1] == "<p>anew"


async def test_V6_no_address_is_logged_or_stored_and_a_restart_has_no_canvases(
    home: Home, tmp_path: Path
) -> None:
    strict = "--ServerApp.allow_unauthenticated_access=False"  # a page needs no login all the same
    server = JupyterServer(home, args=[DRAWING, strict]).start()
    try:
        async with open_peer(server) as peer:
            await peer.initialize()
            chat, uri, state = await draw(peer)
            await run(peer, chat, "/draw-url https://secret.example/?key=51c2")
            assert (await get(state["url"]))[0] == 200
            assert (await get(page_at(state)))[0] == 200
            await get(state["url"].replace("?", "0?"))
            server.request(state["url"].removeprefix(server.url), headers={}, body=b"")
            await run(peer, chat, "/undraw")
            await run(peer, chat, "/undraw")
            await get(state["url"])
        server.restart()
        async with open_peer(server) as peer:
            await peer.initialize()
            assert "canvases" not in await peer.chat_state(chat)
            status, _, _ = await get(state["url"])
            assert status == 404
    finally:
        server.stop()
    token = urlsplit(state["url"]).path.rpartition("/")[2]
    assert "/ahp/canvas/[secret]" in server.log
    assert token not in server.log
    assert "51c2" not in server.log
    written = [path.read_bytes() for path in (home.data / "ahp").rglob("*") if path.is_file()]
    assert any(b"/undraw" in text for text in written)
    assert not any(token.encode() in text for text in written)
    assert uri
