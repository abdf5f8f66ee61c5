"""From a `file:` URI to a path of this machine: the one place that knows how each system spells it."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

_DRIVE = re.compile(r"/+([A-Za-z])[:|](?=/|$)")


def path_of(uri: str, *, windows: bool = os.name == "nt") -> str | None:
    """The path that a `file:` URI names here; None for any other, and for one of another machine where that has no path.

    Clients write drives as `file:///c:/a`, `file:///C%3A/a` and `file:///c|/a`; all are `c:\\a` on Windows.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file":
        return None
    path, is_here = unquote(parts.path), parts.netloc in ("", "localhost")
    if not windows:
        return path if is_here else None
    if not is_here:
        return f"//{parts.netloc}{path}".replace("/", "\\")
    drive = _DRIVE.match(path)
    if drive is not None:
        path = f"{drive.group(1)}:{path[drive.end() :] or '/'}"
    return path.replace("/", "\\")
