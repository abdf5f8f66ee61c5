"""A web app on this machine, as a canvas: through jupyter-server-proxy, and kept apart as any canvas is (V2, V6).

Under `/proxy/<port>/` an app would be of this server's origin: in a frame without an origin it lacks the login that its parts
are asked for, and with one it could use the server's API as whoever looks at it. So it is served under the canvas's own
address, to whoever knows that: the app is given no cookie or credential of the server's and can set none, and its pages have
no origin. They may ask their own server for all that they need.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tornado import web
from tornado.httputil import HTTPHeaders

from .pages import NO_PAGE

if TYPE_CHECKING:
    from .host.canvases import HostCanvas

_POLICY: Final = "sandbox allow-scripts allow-forms"
_OURS: Final = ("Cookie", "Authorization", "Referer", "X-Xsrftoken")
"""What a browser sends that is the server's, and no app's business."""
_DROPPED: Final = (
    "Set-Cookie",
    "Content-Security-Policy",
    "X-Frame-Options",
    "Cross-Origin-Embedder-Policy",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "Access-Control-Allow-Credentials",
)
"""What an app says of its own origin, which it has not here."""


def can_show_apps() -> bool:
    """Whether jupyter-server-proxy is installed."""
    return importlib.util.find_spec("jupyter_server_proxy") is not None


def app_handler() -> type[web.RequestHandler]:
    """The handler of `<base_url>ahp/canvas/<token>/app/…`. Raises `ImportError` without jupyter-server-proxy."""
    proxy: Any = importlib.import_module("jupyter_server_proxy.handlers")
    return type("AppHandler", (_App, proxy.LocalProxyHandler), {})


class _Apart(web.OutputTransform):
    """Keeps an app's answer, streamed or not, apart from this server."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        for name in _DROPPED:
            if name in headers:
                del headers[name]
        headers["Content-Security-Policy"] = _POLICY
        headers["Referrer-Policy"] = "no-referrer"
        headers["Access-Control-Allow-Origin"] = (
            "*"  # a page of no origin asks; nobody's credentials go along
        )
        return status_code, headers, chunk


class _App:
    """What is different from jupyter-server-proxy's own handler: who may come, and what goes along."""

    request: Any
    _transforms: list[web.OutputTransform]
    path_args: list[str]

    def initialize(self, canvas: Callable[[str], HostCanvas | None], base_url: str) -> None:
        """As `CanvasHandler`'s."""
        self._canvas = canvas
        self._at = base_url
        self.request.uri = f"{base_url}ahp/canvas/[secret]"

    async def prepare(self) -> None:
        """Whoever knows the token may; nobody is asked for a login, nor has one here."""
        self.current_user = None
        self._transforms.append(_Apart(self.request))
        canvas = self._canvas(self.path_args[0])
        if canvas is None or canvas.port is None:
            raise web.HTTPError(404)
        self._port, self._token = canvas.port, canvas.token

    def check_origin(self, origin: str | None = None) -> bool:
        return True  # its pages have none

    async def http_get(self, token: str, path: str) -> Any:
        return await self.proxy(token, path)

    async def proxy(self, token: str, path: str) -> Any:
        return await super().proxy(self._port, path)  # type: ignore[misc]

    async def open(self, token: str, path: str) -> Any:
        return await super().open(self._port, path)  # type: ignore[misc]

    async def options(self, token: str, path: str) -> Any:
        """A browser asks for a page of no origin whether it may ask."""
        if "Access-Control-Request-Method" not in self.request.headers:
            return await self.proxy(token, path)
        handler: Any = self
        handler.set_status(204)
        handler.set_header("Access-Control-Allow-Methods", "*")
        handler.set_header("Access-Control-Allow-Headers", "*")
        return None

    def proxy_request_headers(self) -> HTTPHeaders:
        headers: HTTPHeaders = super().proxy_request_headers()  # type: ignore[misc]
        for name in _OURS:
            if name in headers:
                del headers[name]
        headers["Host"] = f"localhost:{self._port}"
        if "Origin" in headers:
            headers["Origin"] = f"http://localhost:{self._port}"
        return headers

    def _get_context_path(self, host: str, port: int) -> str:
        return f"{self._at}ahp/canvas/{self._token}/app"

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        handler: Any = self
        handler.set_header("Content-Type", "text/plain; charset=utf-8")
        if status_code == 404:
            handler.finish(NO_PAGE)
        else:
            handler.finish("The app does not answer. Does it still run?")
