"""What is shown as a page that holds all of it."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

_STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 1rem; font: 15px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
img, svg, video { max-width: 100%; height: auto; }
pre, code { font: 13px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; }
body > pre { white-space: pre-wrap; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); text-align: start; }
thead th { position: sticky; top: 0; background: Canvas; }
td { font-variant-numeric: tabular-nums; }
blockquote { margin-inline: 0; padding-inline-start: 1rem; border-inline-start: 3px solid color-mix(in srgb, currentColor 30%, transparent); }
footer { margin-top: 1rem; opacity: 0.7; font-size: 13px; }
"""
_WHOLE: Final = re.compile(r"\s*(?:<!--.*?-->\s*)*<(?:!doctype|html)\b", re.IGNORECASE | re.DOTALL)

Fetch = Callable[[str], tuple[str, bytes] | None]
"""The media type and the bytes of a picture, by its address in a text; None for one that is not here."""


def page(body: str) -> str:
    """A page with our looks."""
    return f'<!doctype html><html><head><meta charset="utf-8"><style>{_STYLE}</style></head><body>{body}</body></html>'


def page_of_html(text: str) -> str:
    """HTML as it is; a piece of it with our looks."""
    return text if _WHOLE.match(text) else page(text)


def page_of_text(text: str) -> str:
    return page(f"<pre>{html.escape(text)}</pre>")


def page_of_image(media_type: str, data: bytes) -> str:
    return page(f'<img alt="" src="{data_uri(media_type, data)}">')


def page_of_table(header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    head = f"<thead>{row('th', header)}</thead>" if header else ""
    body = "".join(row("td", cells) for cells in rows)
    footer = f"<footer>{html.escape(note)}</footer>" if note else ""
    return page(f"<table>{head}<tbody>{body}</tbody></table>{footer}")


def page_of_markdown(text: str, fetch: Fetch = lambda address: None) -> str:
    """Markdown, with its pictures in it. HTML in the text stays: where it is shown, it can do nothing."""
    import mistune

    class Renderer(mistune.HTMLRenderer):
        def image(self, text: str, url: str, title: str | None = None) -> str:
            found = fetch(url)
            return super().image(text, data_uri(*found) if found is not None else url, title)

        def safe_url(self, url: str) -> str:
            return url if url.startswith("data:image/") else super().safe_url(url)

    plugins: Any = ["table", "strikethrough", "task_lists", "footnotes", "url"]
    render = mistune.create_markdown(renderer=Renderer(escape=False), plugins=plugins)
    return page(str(render(text)))


def data_uri(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
