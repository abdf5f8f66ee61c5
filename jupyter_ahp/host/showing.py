"""What Python has shown in a chat: `x-jupyter-ahp/show`, ours, beyond the protocol. V4, P3.

A plugin draws it. Whoever may send messages may ask for it; a file or an app of this machine is shown by those who may read files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..protocol import uris
from ..protocol.errors import (
    INVALID_REQUEST,
    NOT_FOUND,
    ProtocolError,
    channel_not_found,
    invalid_params,
    method_not_found,
)
from .ports import CanvasError, Json, ShowRequest

if TYPE_CHECKING:
    from .connection import Connection

SHOW: Final = "x-jupyter-ahp/show"
_SHOWN: Final = {"html": str, "markdown": str, "path": str, "port": int}


async def show(connection: Connection, params: Json) -> Json:
    """Params: `channel`, the chat; one of `html`, `markdown`, `path`, `port`; `title`; `canvas`, to show it in that one.

    Asked twice under one `key`, as after a lost answer, it is one canvas. With a `canvas` and nothing to show, that is closed. Answers `{"canvas": <its URI>}`.
    """
    shows = connection.host.extensions.shows
    if shows is None:
        raise method_not_found(SHOW)
    uri = _checked(params, "channel", str) or ""
    try:
        chat = connection.host.chat_named(uris.canonical(uri))
    except ValueError:
        chat = None
    if chat is None:
        raise channel_not_found(uri)
    shown = {key: _checked(params, key, kind) for key, kind in _SHOWN.items() if params.get(key) is not None}
    canvas = _checked(params, "canvas", str)
    if len(shown) > 1 or not (shown or canvas):
        raise invalid_params(f"show: give one of {', '.join(_SHOWN)}.")
    await chat.session.open()
    if chat.session.read_only is not None:
        raise ProtocolError(INVALID_REQUEST, chat.session.read_only)
    asked = ShowRequest(
        chat=chat.uri,
        directories=chat.session.paths_of(chat),
        title=_checked(params, "title", str) or "",
        key=_checked(params, "key", str),
        canvas=canvas,
        **shown,
    )
    _, handler = shows
    try:
        return {"canvas": (await handler(asked)).uri}
    except CanvasError as error:
        raise ProtocolError(NOT_FOUND, str(error)) from error


def _checked(params: Json, key: str, kind: type) -> Any:
    value = params.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise invalid_params(f"show: {key} is {type(value).__name__}, not {kind.__name__}.")
    return value
