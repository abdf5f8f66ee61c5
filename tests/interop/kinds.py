"""The clients that people have, as each is known to introduce itself: versions, name, spelling, credential."""

from __future__ import annotations

from dataclasses import dataclass

from tests.interop.mirror import Json

ROOT = "ahp-root://"


@dataclass(frozen=True)
class Kind:
    """A client as it is known to introduce itself."""

    name: str
    versions: tuple[str, ...]
    chosen: str
    info: Json | None = None
    meta: Json | None = None
    origin: str | None = None
    scheme: str = "ahp-session"
    """Of the session URIs that it makes; "": the provider's name, as an older VS Code window does."""
    token: str = "token"
    root: str = ROOT
    limit: int | None = None
    """Of `listSessions`."""

    def session(self, provider: str, identity: str) -> str:
        return f"{self.scheme or provider}:/{identity}"


_CONNECTION = {"vscode.telemetryLevel": "all", "vscode.clientConnectionKind": "direct_websocket"}
_ORIGIN = "vscode-file://vscode-app"
_AGENTS = {"name": "vscode-agents-window", "title": "Visual Studio Code - Agents"}
_MID_2026 = ("0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1")

VSCODE_140 = Kind("1.140", _MID_2026, "0.9.0", _AGENTS, _CONNECTION, _ORIGIN, scheme="", token="tkn")
VSCODE_141 = Kind(
    "1.141", ("0.10.0", *_MID_2026), "0.10.0", _AGENTS, _CONNECTION, _ORIGIN, scheme="", token="tkn"
)
NEWEST = Kind(
    "newest",
    ("1.0.0", "0.10.0", *_MID_2026),
    "1.0.0",
    _AGENTS,
    {**_CONNECTION, "vscode.ahpSessionUris": True},
    _ORIGIN,
    token="tkn",
)
UI = Kind("ui", ("1.0.0", "0.9.0"), "1.0.0", origin="http://localhost:5173", limit=100)
AHPX = Kind("ahpx", ("0.9.0",), "0.9.0", {"name": "ahpx", "version": "0.3.1"})
AHPC = Kind("ahpc", ("1.0.0", "0.9.0", "0.8.0", "0.7.0"), "1.0.0", {"name": "ahpc"})
EVERY = (VSCODE_140, VSCODE_141, NEWEST, UI, AHPX, AHPC)
