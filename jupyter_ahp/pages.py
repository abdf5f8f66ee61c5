"""The pages of canvases over HTTP (V2, V6), and where a client reaches this server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyter_server.auth.decorator import allow_unauthenticated
from tornado import web
from tornado.httputil import HTTPServerRequest


def site_of(request: HTTPServerRequest, base_url: str) -> str:
    """The server's base URL as the sender of this request reaches it, with a slash at its end.

    A proxy that ends TLS hides that there was any; a browser's `Origin` tells, and so does `X-Forwarded-Proto`. They are
    believed though anybody can send them: what they change is told to their sender alone.
    """
    scheme = {"ws": "http", "wss": "https"}.get(request.protocol, request.protocol)
    origin, _, place = request.headers.get("Origin", "").casefold().partition("://")
    forwarded = request.headers.get("X-Forwarded-Proto", "").split(",")[0].strip().lower()
    if origin in ("http", "https") and place == request.host.casefold():
        scheme = origin
    elif forwarded in ("http", "https", "ws", "wss"):
        scheme = "https" if forwarded.endswith("s") else "http"
    return f"{scheme}://{request.host}{base_url}"


PAGE_POLICY = "; ".join(
    [
        # A page of nowhere: it has scripts, and neither this server's cookies and storage nor a way to read what is here.
        "sandbox allow-scripts",
        "default-src 'none'",  # connect-src, frame-src and object-src among them: a page holds all that it shows
        "script-src 'unsafe-inline' 'unsafe-eval' blob: data:",
        "style-src 'unsafe-inline' blob: data:",
        "img-src data: blob:",
        "font-src data: blob:",
        "media-src data: blob:",
        "worker-src blob: data:",
        "form-action 'none'",
        "base-uri 'none'",
        # JupyterLab, here or elsewhere, and VS Code's webviews. Whoever frames it learns nothing of it.
        "frame-ancestors http: https: vscode-webview: vscode-file:",
    ]
)
"""What the page of a canvas may do (CSP): draw, and run scripts that reach nobody."""

NO_PAGE = "There is no canvas here, or not any more."


class CanvasHandler(web.RequestHandler):
    """`GET <base_url>ahp/canvas/<token>`: the page of a canvas that was given as HTML.

    Whoever knows the token may read it; no cookie is asked for, nor set, and nothing is written about the request but
    that there was one (V6). Not a `JupyterHandler`, which would look for a login and prolong it.
    """

    SUPPORTED_METHODS = ("GET", "HEAD")

    def initialize(self, page: Callable[[str], bytes | None]) -> None:
        """`page` gives the page of a token."""
        self._page = page
        # The address is a secret. It is logged from here, whatever becomes of the request.
        self.request.uri = self.request.path.rpartition("/")[0] + "/[secret]"

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", PAGE_POLICY)
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")

    @allow_unauthenticated
    def get(self, token: str) -> None:
        page = self._page(token)
        if page is None:
            raise web.HTTPError(404)
        self.finish(page)

    head = get

    def compute_etag(self) -> None:
        """None: nothing of it is kept anywhere, so nothing is compared."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(NO_PAGE if status_code == 404 else f"{status_code}: {self._reason}")
