"""The pages of canvases over HTTP (V2, V6), and where a client reaches this server.

A page is served in two documents. Its own (`…/<token>/page`) has a policy that lets it reach nobody; but no policy of a page
keeps it from leading its frame to another address, and from saying there what it holds. So what is opened is a frame around
it (`…/<token>`), whose policy lets nothing else be framed than that one page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jupyter_server.auth.decorator import allow_unauthenticated
from tornado import web
from tornado.httputil import HTTPServerRequest

from .protocol.meta import RELAYED

if TYPE_CHECKING:
    from .host.canvases import HostCanvas


def site_of(request: HTTPServerRequest, base_url: str) -> str | None:
    """The server's base URL as the sender of this request reaches it, with a slash at its end; None if it does not.

    A proxy that ends TLS hides that there was any; a browser's `Origin` tells, and so does `X-Forwarded-Proto`. They are
    believed though anybody can send them: what they change is told to their sender alone.
    """
    if RELAYED in request.headers:
        return None  # a kernel reaches it, for a page
    scheme = {"ws": "http", "wss": "https"}.get(request.protocol, request.protocol)
    origin, _, place = request.headers.get("Origin", "").casefold().partition("://")
    forwarded = request.headers.get("X-Forwarded-Proto", "").split(",")[0].strip().lower()
    if origin in ("http", "https") and place == request.host.casefold():
        scheme = origin
    elif forwarded in ("http", "https", "ws", "wss"):
        scheme = "https" if forwarded.endswith("s") else "http"
    return f"{scheme}://{request.host}{base_url}"


PAGE_POLICY: Final = "; ".join(
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
        # No `frame-ancestors`: JupyterLab elsewhere, VS Code's webviews and frames without an origin show it, too, and
        # whoever frames it learns nothing of it.
    ]
)
"""What the page of a canvas may do (CSP): draw, and run scripts that reach nobody."""

_AROUND: Final = """\
<!doctype html><html><head><meta charset="utf-8"><title>{title}</title>
<style>html, body, iframe {{ margin: 0; border: 0; width: 100%; height: 100%; }} iframe {{ display: block; }}</style>
</head><body><iframe sandbox="allow-scripts allow-forms" src="{src}" title="{title}"></iframe></body></html>"""
_HOST: Final = re.compile(
    r"[A-Za-z0-9.\-]+(?::\d+)?"
)  # as a policy can say it; an IPv6 address cannot be said

NO_PAGE: Final = "There is no canvas here, or not any more."


class CanvasHandler(web.RequestHandler):
    """`GET <base_url>ahp/canvas/<token>` and `…/page`: a canvas that was given as HTML.

    Whoever knows the token may read it; no cookie is asked for, nor set, and nothing is written about the request but
    that there was one (V6). Not a `JupyterHandler`, which would look for a login and prolong it.
    """

    SUPPORTED_METHODS = ("GET", "HEAD")

    def initialize(self, canvas: Callable[[str], HostCanvas | None], base_url: str) -> None:
        """`canvas` gives the canvas of a token."""
        self._canvas = canvas
        self._base_url = base_url
        # The address is a secret. It is logged from here, whatever becomes of the request.
        self.request.uri = f"{base_url}ahp/canvas/[secret]"

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", PAGE_POLICY)
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")

    @allow_unauthenticated
    def get(self, token: str, page: str | None = None) -> None:
        canvas = self._canvas(token)
        if canvas is None or (canvas.page is None and canvas.port is None):
            raise web.HTTPError(404)
        if page is None:
            self._around(canvas)
        elif canvas.page is not None:
            self.finish(canvas.page)
        else:
            raise web.HTTPError(404)

    head = get

    def _around(self, canvas: HostCanvas) -> None:
        """A document that frames the page, or the app and all of it, and nothing else."""
        if canvas.port is None:
            place, opened = f"{canvas.token}/page", f"{canvas.token}/page?{self.request.query}"
        else:
            place = f"{canvas.token}/app/"
            opened = place + canvas.path.lstrip("/")
        framed = "'self'"
        if _HOST.fullmatch(self.request.host):
            # Of http:, which in a policy stands for https: too: there may be a proxy that ends TLS.
            path = quote(f"{self._base_url}ahp/canvas/{place}", safe="/%@~:")
            framed = f"http://{self.request.host}{path}"
        policy = f"sandbox allow-scripts allow-forms; default-src 'none'; style-src 'unsafe-inline'; frame-src {framed}"
        self.set_header("Content-Security-Policy", policy)
        title = escape(canvas.channel.state.get("title", ""))
        self.finish(_AROUND.format(title=title, src=escape(opened)))

    def compute_etag(self) -> None:
        """None: nothing of it is kept anywhere, so nothing is compared."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(NO_PAGE if status_code == 404 else f"{status_code}: {self._reason}")
