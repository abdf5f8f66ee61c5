"""Two windows on one chat."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.interop.kinds import NEWEST, VSCODE_141, Kind
from tests.interop.window import Window, window
from tests.support.server import JupyterServer


@dataclass
class Two:
    """One window that works in a chat, and another that watches under its own spelling of the session."""

    one: Window
    other: Window
    session: str
    chat: str
    other_session: str

    async def same(self) -> None:
        """Both were sent the same, and made the same of it."""
        await self.one.request("ping")
        await self.other.request("ping")
        mine, theirs = (
            [sent for sent in watcher.envelopes(self.chat) if "rejectionReason" not in sent]
            for watcher in (self.one, self.other)
        )
        assert mine[-len(theirs) :] == theirs
        assert self.one.state(self.chat) == self.other.state(self.chat)


@asynccontextmanager
async def two(server: JupyterServer, kind: Kind = VSCODE_141, provider: str = "puppet") -> AsyncIterator[Two]:
    """Both are there until the block ends; then the harness compares what they have with the host."""
    identity = str(uuid.uuid4())
    async with window(server, kind) as one, window(server, NEWEST) as other:
        await one.list()
        session = await one.create(provider, identity)
        chat = await one.open(session)
        assert await other.open(f"ahp-session:/{identity}") == chat
        yield Two(one, other, session, chat, f"ahp-session:/{identity}")
