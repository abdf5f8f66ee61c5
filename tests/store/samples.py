"""Turns, actions and records as the host makes them, and where the file store puts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jupyter_ahp.host.ports import ChatRecord, Json, SessionRecord
from jupyter_ahp.store.disk import folder_name

SESSION = "s1"
CHAT = "ahp-chat:/s1/c1"


def active(turn_id: str, text: str = "hello", parts: list[Json] | None = None) -> Json:
    return {
        "id": turn_id,
        "startedAt": "2026-10-11T09:00:00.000Z",
        "message": {"text": text, "origin": {"kind": "user"}},
        "responseParts": parts or [],
    }


def ended(turn_id: str, text: str = "hello", state: str = "complete", answer: str = "hi") -> Json:
    part = {"kind": "markdown", "id": f"{turn_id}-1", "content": answer}
    return {**active(turn_id, text, [part]), "duration": 1200, "state": state}


def delta(turn_id: str, number: int) -> Json:
    return {"type": "chat/delta", "turnId": turn_id, "partId": f"{turn_id}-1", "content": f"word {number} "}


def encoded(action: Json) -> bytes:
    return msgspec.json.encode(action)


def session(session_id: str = SESSION, **changes: Any) -> SessionRecord:
    return SessionRecord(
        session_id, "echo", "2026-10-11T09:00:00.000Z", f"ahp-chat:/{session_id}/c1", **changes
    )


def chat(uri: str = CHAT, **changes: Any) -> ChatRecord:
    return ChatRecord(uri, **changes)


def session_folder(data_dir: Path, session_id: str = SESSION) -> Path:
    return data_dir / "sessions" / folder_name(session_id)


def chat_folder(data_dir: Path, session_id: str = SESSION, uri: str = CHAT) -> Path:
    return session_folder(data_dir, session_id) / "chats" / folder_name(uri)
