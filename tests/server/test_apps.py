"""A web app on this machine as a canvas: it works, and is kept apart from the server (V2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect as open_websocket
from websockets.asyncio.server import ServerConnection, serve

from tests.support.server import Home, JupyterServer
from tests.support.wire import open_peer

from .test_canvases import get

pytest.importorskip("jupyter_server_proxy")


class App:
    """A small app, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        app = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                app.asked.append((self.command, self.path, dict(self.headers), body))
                if self.path == "/moved":
                    self.send_response(302)
                    self.send_header("Location", "/elsewhere")
                else:
                    self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Set-Cookie", "_xsrf=stolen; Path=/")
                self.send_header("X-Frame-Options", "DENY")
                self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
                self.end_headers()
                self.wfile.write(f"<p>{self.path}".encode())

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    yield app
    app.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    server = JupyterServer(Home(tmp_path_factory.mktemp("home")), base_url="/user/mia/").start()
    yield server
    server.stop()


async def shown(server: JupyterServer, port: int, page: str = "") -> str:
    """The address of a canvas that shows the app."""
    async with open_peer(server) as peer:
        await peer.initialize()
        _, chat = await peer.new_chat()
        await peer.start_turn(chat, f"/preview localhost:{port}{page}")
        uri = (await peer.action("chat/canvasesChanged", chat))["canvases"][0]["resource"]
        url: str = (await peer.request("subscribe", uri))["snapshot"]["state"]["url"]
        return url


def within(url: str, path: str) -> str:
    """An address of the app's within the canvas."""
    return f"{url.partition('?')[0]}/app/{path}"


async def test_V2_an_app_is_framed_and_served_without_a_login(server: JupyterServer, app: App) -> None:
    url = await shown(server, app.port, "/start?here=1")
    status, body, headers = await get(url)
    token = urlsplit(url).path.rpartition("/")[2]
    assert status == 200
    assert f'src="{token}/app/start?here=1"' in body
    assert f"frame-src {server.url}ahp/canvas/{token}/app/" in headers["Content-Security-Policy"]
    status, body, _ = await get(within(url, "start?here=1"))
    assert (status, body) == (200, "<p>/start?here=1")


async def test_V2_an_app_is_given_nothing_of_the_servers_and_can_set_nothing_there(
    server: JupyterServer, app: App
) -> None:
    url = await shown(server, app.port)
    status, _, headers = await get(
        within(url, "data"),
        Cookie=server.login_cookie(),
        Authorization=f"token {server.token}",
        Referer=url,
        Origin="null",
        Accept="text/html",
    )
    assert status == 200
    _, _, asked, _ = app.asked[-1]
    assert not {"Cookie", "Authorization", "Referer"} & set(asked)
    assert asked["Host"] == f"localhost:{app.port}"
    assert asked["Origin"] == f"http://localhost:{app.port}"
    assert "Set-Cookie" not in headers
    assert "X-Frame-Options" not in headers
    assert headers["Content-Security-Policy"] == "sandbox allow-scripts allow-forms"
    assert headers["Access-Control-Allow-Origin"] == "*", "its pages have no origin"
    assert headers["Referrer-Policy"] == "no-referrer"


async def test_V2_what_streams_is_kept_apart_too(server: JupyterServer, app: App) -> None:
    url = await shown(server, app.port)
    status, _, headers = await get(within(url, "events"), Accept="text/event-stream")
    assert status == 200
    assert "Set-Cookie" not in headers
    assert headers["Content-Security-Policy"] == "sandbox allow-scripts allow-forms"
    assert headers["Access-Control-Allow-Origin"] == "*"


async def test_V2_an_app_is_posted_to_and_leads_within_itself(server: JupyterServer, app: App) -> None:
    url = await shown(server, app.port)
    path = within(url, "form").removeprefix(server.url)
    status, _, _ = await asyncio.to_thread(lambda: server.request(path, headers={}, body=b"x=1"))
    assert status == 200
    assert app.asked[-1][0] == "POST"
    assert app.asked[-1][3] == b"x=1"
    moved = within(url, "moved").removeprefix(server.url)
    status, _, headers = await asyncio.to_thread(lambda: server.request(moved, headers={}, follow=False))
    assert status == 302
    assert headers["Location"] == urlsplit(within(url, "elsewhere")).path


async def test_V2_an_app_is_spoken_to_over_a_websocket(server: JupyterServer) -> None:
    origins: list[str | None] = []

    async def echo(socket: ServerConnection) -> None:
        assert socket.request is not None
        origins.append(socket.request.headers.get("Origin"))
        async for message in socket:
            await socket.send(message)

    async with serve(echo, "127.0.0.1", 0) as app:
        port = next(iter(app.sockets)).getsockname()[1]
        url = within(await shown(server, port), "socket").replace("http", "ws", 1)
        async with open_websocket(url, origin="null", proxy=None) as socket:  # type: ignore[arg-type]
            await socket.send("hello")
            assert await socket.recv() == "hello"
    assert origins == [f"http://localhost:{port}"]


async def test_V3_an_app_is_gone_with_its_canvas_and_under_no_other_token(
    server: JupyterServer, app: App
) -> None:
    url = await shown(server, app.port)
    async with open_peer(server) as peer:
        await peer.initialize()
        sessions = (await peer.request("listSessions"))["items"]
        for session in sessions:
            await peer.request("disposeSession", session["resource"])
    for address in (url, within(url, ""), f"{server.url}ahp/canvas/{'x' * 43}/app/"):
        status, body, headers = await get(address)
        assert (status, body) == (404, "There is no canvas here, or not any more.")
        assert "Set-Cookie" not in headers
    assert urlsplit(url).path.rpartition("/")[2] not in server.log
    assert app.asked == []
