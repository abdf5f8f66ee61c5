"""Files of moved chats: what their messages name stays where it was written, in the session that they came from. U12, A2.

So their messages stay as everybody has them. The session that a chat came to remembers which files of other sessions it names
(in its record's `meta`); they outlive the session in which they were written, and go with the last one that names them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol.meta import steering_of
from . import rewind
from .paths import path_of
from .ports import ChatRecord, Json, StoreError

if TYPE_CHECKING:
    from .host import Host
    from .session import Session

log = logging.getLogger(__name__)

_CARRIED: Final = "carried"


def carried(session: Session) -> dict[str, list[str]]:
    """By the id of the session in which they were written, the folders of the files that chats of this one brought along."""
    found: dict[str, list[str]] = session.meta.get(_CARRIED, {})
    return found


def _messages(record: ChatRecord, turns: Iterable[Json]) -> Iterator[Json]:
    for turn in (*turns, *rewind.cut(record)):
        yield turn["message"]
        yield from filter(None, map(steering_of, turn["responseParts"]))
    waiting = [*record.queued, *([record.steering] if record.steering else [])]
    yield from (each["message"] for each in waiting)
    if record.draft is not None:
        yield record.draft


def named(record: ChatRecord, turns: Iterable[Json], homes: Mapping[Path, str]) -> dict[str, set[str]]:
    """By session, the folders of the attachments that a chat's messages name. `homes`: where each session keeps its own."""
    found: dict[str, set[str]] = {}
    for message in _messages(record, turns):
        for attachment in message.get("attachments") or ():
            name = path_of(attachment.get("uri") or "")
            folder = Path(name).parent if name is not None else None
            if folder is not None and folder.parent in homes:
                found.setdefault(homes[folder.parent], set()).add(folder.name)
    return found


def homes(source: Session) -> dict[Path, str]:
    """Where files may be that messages of a session's chats name."""
    store = source.host.store
    return {store.attachments_dir(name): name for name in (source.id, *carried(source))}


def bring(target: Session, brought: Mapping[str, set[str]]) -> None:
    """Chats come to a session, whose messages name these files."""
    both = {name: set(folders) for name, folders in carried(target).items()}
    for name, folders in brought.items():
        if name != target.id:
            both.setdefault(name, set()).update(folders)
    if both:
        target.meta = {**target.meta, _CARRIED: {name: sorted(folders) for name, folders in both.items()}}


def outliving(host: Host, session_id: str) -> set[str]:
    """The folders of a session's files that chats elsewhere name."""
    others = [session for session in host.sessions.values() if session.id != session_id]
    return {folder for session in others for folder in carried(session).get(session_id, ())}


async def let_go(session: Session) -> None:
    """A session is gone: what it alone named of sessions that are gone as well goes with it."""
    host = session.host
    for name, folders in carried(session).items():
        if name in host.sessions or any(lost.id == name for lost in host.unreadable):
            continue
        try:
            await host.store.delete_attachments(name, set(folders) - outliving(host, name))
        except StoreError as error:
            log.warning("Files of a chat that is gone still take space: %s", error)
