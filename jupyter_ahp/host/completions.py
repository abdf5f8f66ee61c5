"""What fits at the cursor of a message that is being written (M4, U11; AHP 2.4).

- `/` at the very start offers the commands of plugins and of the session's agent.
- `@` names a path under the chat's directories.
- `#` on its way to `#chat:` (`#`, `#ch`, `#chat:plots`) offers chats and paths; every other `#` a path alone.

`@` and `#` count at the start or behind white space. Offsets and ranges are in UTF-16 units of the whole text.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol import status
from ..protocol.errors import invalid_params
from .ports import Json

if TYPE_CHECKING:
    from .chat import Chat
    from .files import Found
    from .session import Session

log = logging.getLogger(__name__)

TRIGGERS: Final = ("@", "#", "/")
"""What a client asks at, when it is typed (AHP 1.4)."""
PATH: Final = "jupyter-ahp.path"
"""In an attachment's `_meta`: the path as a person writes it, for a label that is its name alone."""

_LIMIT = 20
_CHAT = "chat:"
_COMMAND = re.compile(r"/(\S*)")
# A path with white space in it is written in quotes, and the second of them may be yet to come.
_REFERENCE = re.compile(r'(?<!\S)([@#])("(?:[^"\\\n]|\\.)*|(?!")\S*)\Z')
_PLAIN = re.compile(r"[^\s\"'\\\x00-\x1f\x7f-\x9f]+")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES: Mapping[str, str] = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class _Token:
    """What is being typed, up to the cursor."""

    trigger: str
    typed: str
    """What stands behind the trigger, without quotes."""
    start: int
    end: int
    """In UTF-16 units; half-open."""


async def complete(chat: Chat, text: str, offset: int) -> list[Json]:
    """The items that fit, best first. Raises `ProtocolError` (-32602) for an offset that is none of the text's."""
    token = _token(_before(text, offset))
    if token is None:
        return []
    if token.trigger == "/":
        items = await _commands(chat, token.typed)
    else:
        items = list(_chats(chat, token.typed)) if token.trigger == "#" else []
        items += await _paths(chat, token)
    return [{**item, "rangeStart": token.start, "rangeEnd": token.end} for item in items]


# ── what is being typed ──────────────────────────────────────────────────────────────────────────────────────────
def _before(text: str, offset: int) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    if not 0 <= 2 * offset <= len(units):
        raise invalid_params(
            f"completions: offset {offset} is not in a text of {len(units) // 2} UTF-16 units."
        )
    before = units[: 2 * offset].decode("utf-16-le", "surrogatepass")
    if not text.startswith(before):
        raise invalid_params(f"completions: offset {offset} is inside of a character.")
    return before


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _token(before: str) -> _Token | None:
    if (command := _COMMAND.fullmatch(before)) is not None:
        return _Token("/", command[1], 0, _units(before))
    found = _REFERENCE.search(before)
    if found is None:
        return None
    trigger, typed = found.groups()
    if typed.startswith('"'):
        typed = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), typed[1:])
    return _Token(trigger, typed, _units(before[: found.start()]), _units(before))


# ── what is offered ──────────────────────────────────────────────────────────────────────────────────────────────
async def _commands(chat: Chat, typed: str) -> list[Json]:
    session = chat.session
    agent = session.agent
    commands = session.host.extensions.commands.all()
    taken = {command.name for command in commands}
    try:
        own = await agent.commands(session.paths_of(chat), session.config) if agent is not None else ()
    except Exception:
        log.exception("Agent %s does not say its commands: none is offered", session.provider)
        own = ()
    commands += [command for command in own if command.name not in taken]  # a plugin's is run
    items = []
    for command in commands:
        if command.name.casefold().startswith(typed.casefold()):
            meta = {"command": command.name, "description": command.description}
            if command.argument_hint:
                meta["argumentHint"] = command.argument_hint
            label = f"/{command.name}"
            items.append(_item(f"{label} ", type="simple", label=label, displayKind="command", _meta=meta))
    return items[:_LIMIT]


def _chats(chat: Chat, typed: str) -> Iterator[Json]:
    """The other chats in which something was said: the session's, then those of others, each newest first."""
    written = typed.casefold()
    if not (written.startswith(_CHAT) or _CHAT.startswith(written)):
        return
    wanted = written.removeprefix(_CHAT) if written.startswith(_CHAT) else ""
    own = chat.session
    others = [
        session
        for session in own.host.sessions.values()
        if session is not own and not session.state["status"] & status.IS_ARCHIVED
    ]
    listed = [*_newest([own]), *_newest(others)]
    room = _LIMIT
    for session, summary in listed:
        uri = summary["resource"]
        last = session.last_turns.get(uri)
        title = " ".join(summary["title"].split()) or "Untitled chat"
        if last is None or uri == chat.uri or wanted not in title.casefold():
            continue
        if summary.get("origin", {}).get("kind") == "tool" or summary.get("interactivity") == "hidden":
            continue
        yield _item(f"#{_CHAT}{title} ", type="chat", resource=uri, endTurn=last, label=title)
        room -= 1
        if not room:
            return


def _newest(sessions: list[Session]) -> list[tuple[Session, Json]]:
    chats = [(session, summary) for session in sessions for summary in session.state["chats"]]
    return sorted(chats, key=lambda entry: str(entry[1]["modifiedAt"]), reverse=True)


async def _paths(chat: Chat, token: _Token) -> list[Json]:
    session = chat.session
    found = await session.host.files.find(session.paths_of(chat), token.typed, _LIMIT)
    return [_path(token.trigger, entry) for entry in found]


def _path(trigger: str, found: Found) -> Json:
    shown = _readable(found.shown)
    slash = "/" if found.directory else ""
    return _item(
        f"{trigger}{_written(shown + slash)} ",
        type="resource",
        uri=Path(found.path).as_uri(),
        label=shown.rpartition("/")[2] + slash,
        displayKind="directory" if found.directory else "document",
        _meta={PATH: shown + slash},
    )


def _readable(name: str) -> str:
    """A name that is no Unicode, as something that can be sent; its URI has its bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _written(path: str) -> str:
    """A path in a message: in quotes when it would not be read as one word."""
    return path if _PLAIN.fullmatch(path) else json.dumps(path, ensure_ascii=False)


def _item(insert: str, **attachment: object) -> Json:
    return {"insertText": insert, "attachment": attachment}
