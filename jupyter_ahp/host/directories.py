"""Where a session and its chats work, as people change it: U11, P7; AHP 3.2, 4.7, 6.1.

A chat works in its session's directories or in some of them. What changes for it is heeded from its next turn on, by its
backend opened anew and resumed (`Line.open`). A directory that leaves the session leaves its chats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arrivals import Refused
from .paths import path_of
from .ports import Json

if TYPE_CHECKING:
    from .session import Session

SET, REMOVED, REPLACED = (f"session/workingDirectory{what}" for what in ("Set", "Removed", "Replaced"))
CHAT_SET, CHAT_REMOVED = (f"chat/workingDirectory{what}" for what in ("Set", "Removed"))


def check_of_chat(session: Session, action: Json) -> None:
    """Raises `Refused`."""
    _check_several(session)
    directory = action["directory"]
    if action["type"] == CHAT_SET and directory not in session.directories:
        raise Refused(f"The session does not work in {directory}. Add it to the session first.")


def check_of_session(session: Session, action: Json) -> None:
    """Raises `Refused`."""
    _check_several(session)
    directory, there = action["directory"], session.directories
    if action["type"] == REPLACED:
        if directory not in there:
            raise Refused(f"The session does not work in {directory}.")
        if directory == there[0]:
            raise Refused("The directory that a session began in is not replaced. Add the other one.")
    new: str = action["replacement"] if action["type"] == REPLACED else directory
    if action["type"] != REMOVED and path_of(new) is None:
        raise Refused(f"{new} is not a directory of this machine.")
    if action["type"] == REMOVED and directory in there:
        if there == [directory]:
            raise Refused("This is the only directory of the session. Add another one first.")
        alone = [chat for chat in session.state["chats"] if chat.get("workingDirectories") == [directory]]
        if alone:
            named = ", ".join(f"“{chat['title'] or 'Untitled'}”" for chat in alone)
            raise Refused(f"{named} works there alone. Close it, or give it another directory first.")


def of_chats(session: Session, action: Json) -> None:
    """What a change of the session's directories, which is said, changes for chats that have named theirs."""
    gone = action["directory"] if action["type"] in (REMOVED, REPLACED) else None
    for summary in session.state["chats"]:
        own = summary.get("workingDirectories")
        if gone is None or own is None or gone not in own:
            continue
        new = action.get("replacement")
        changes = [{"type": CHAT_SET, "directory": new}] if new is not None else []
        changes.append({"type": CHAT_REMOVED, "directory": gone})
        session.chats[summary["resource"]].changed_elsewhere(changes)


def _check_several(session: Session) -> None:
    agent = session.agent
    if agent is None or not agent.capabilities.several_directories:
        raise Refused(f"{session.agent_name} works in the one directory that its session began in.")
