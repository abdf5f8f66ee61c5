"""What runs in a session without asking: by its setting, and by what people allowed for as long as it is there.

A person may allow a tool "in this session". That is kept with the session, over restarts, for all its chats and for no
other session, and is forgotten when somebody sets `approvals` to `ask`. A client's tool is allowed for the clients of
that person: another one's of the same name asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .ports import Approvals, Json

if TYPE_CHECKING:
    from .session import Session

SETTING: Final = "approvals"
ASK: Final = "ask"
AUTO: Final = "auto"
_ALLOWED: Final = "allowedTools"
"""In a session record's `meta`: the tools that people allowed."""


class SessionApprovals(Approvals):
    """One session's, for every agent alike."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def granted(self, tool: str) -> bool:
        session = self._session
        return session.config.get(SETTING) == AUTO or tool in session.meta.get(_ALLOWED, ())

    def allow(self, tool: str) -> None:
        session = self._session
        allowed = session.meta.get(_ALLOWED, [])
        if tool not in allowed:
            session.meta = {**session.meta, _ALLOWED: [*allowed, tool]}
            session.saver.soon()
            self.changed()

    def setting_changed(self, config: Json) -> None:
        """Somebody changed these settings: to ask from now on is to forget what was allowed."""
        session = self._session
        if config.get(SETTING) == ASK and _ALLOWED in session.meta:
            session.meta = {key: value for key, value in session.meta.items() if key != _ALLOWED}
            session.saver.soon()
        self.changed()


def with_setting(schema: Json) -> Json:
    """An agent's settings with the one that is the same for all that take tools (AHP 2.1)."""
    properties = schema.get("properties", {})
    if SETTING in properties:
        return schema
    setting: Json = {
        "type": "string",
        "title": "Approvals",
        "description": "Whether tools that change or run something ask first",
        "enum": [ASK, AUTO],
        "enumLabels": ["Ask first", "Run without asking"],
        "default": ASK,
        "sessionMutable": True,
    }
    return {**schema, "properties": {**properties, SETTING: setting}}
