"""Protocol versions: which are served, which is chosen, and what a client of one may be sent (AHP 1.5, 6.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from .errors import invalid_params, unsupported_version

SERVED_RANGES: Final = ("^1.0.0", "0.10.x", "^0.9.0")
"""0.10 is VS Code 1.141's label for 1.0, and is treated as it."""

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)
_Number: TypeAlias = tuple[int, int, int]


def parse(version: str) -> _Number:
    """`MAJOR.MINOR.PATCH` as numbers of any size. Raises ValueError for anything else, pre-releases included."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"not a version: {version!r}")
    major, minor, patch = match.groups()  # int() refuses thousands of digits with a ValueError too
    return int(major), int(minor), int(patch)


def _is_served(number: _Number) -> bool:
    return number[0] == 1 or number[:2] in ((0, 10), (0, 9))


def negotiate(offered: Sequence[str]) -> str:
    """The highest offered version that is served, word for word as it was offered; the order of the offer says nothing.

    Raises `ProtocolError`: -32602 if one entry is malformed, even beside good ones; -32005 if none is served. The
    connection is to be closed behind either.
    """
    numbers: list[tuple[_Number, str]] = []
    for version in offered:
        try:
            numbers.append((parse(version), version))
        except ValueError:
            message = (
                f"protocolVersions holds {version[:40]!r}: each entry must be MAJOR.MINOR.PATCH, like 1.0.0."
            )
            raise invalid_params(message) from None
    served = [entry for entry in numbers if _is_served(entry[0])]
    if not served:
        raise unsupported_version(SERVED_RANGES)
    return max(served)[1]


_REGISTRY = {
    "0.1.0": (
        "root/agentsChanged root/activeSessionsChanged root/terminalsChanged root/configChanged session/ready "
        "session/creationFailed session/titleChanged session/serverToolsChanged session/customizationsChanged "
        "session/customizationToggled session/customizationUpdated session/isReadChanged session/isArchivedChanged "
        "session/activityChanged session/configChanged session/metaChanged terminal/data terminal/input "
        "terminal/resized terminal/claimed terminal/titleChanged terminal/cwdChanged terminal/exited "
        "terminal/cleared terminal/commandDetectionAvailable terminal/commandExecuted terminal/commandFinished"
    ),
    "0.2.0": (
        "session/customizationRemoved session/changesetsChanged changeset/statusChanged changeset/fileSet "
        "changeset/fileRemoved changeset/operationsChanged changeset/cleared resourceWatch/changed"
    ),
    "0.3.0": "session/mcpServerStateChanged changeset/operationStatusChanged",
    "0.4.0": (
        "session/chatAdded session/chatRemoved session/chatUpdated session/defaultChatChanged chat/turnStarted "
        "chat/delta chat/responsePart chat/toolCallStart chat/toolCallDelta chat/toolCallReady "
        "chat/toolCallConfirmed chat/toolCallComplete chat/toolCallResultConfirmed chat/toolCallContentChanged "
        "chat/turnComplete chat/turnCancelled chat/error chat/usage chat/reasoning chat/pendingMessageSet "
        "chat/pendingMessageRemoved chat/queuedMessagesReordered chat/inputRequested chat/inputAnswerChanged "
        "chat/inputCompleted chat/truncated changeset/contentChanged annotations/set annotations/updated "
        "annotations/removed annotations/entrySet annotations/entryRemoved"
    ),
    "0.5.0": "session/activeClientSet session/activeClientRemoved chat/activityChanged chat/draftChanged",
    "0.5.1": "session/inputNeededSet session/inputNeededRemoved chat/turnsLoaded",
    "0.5.2": "session/mcpServerStartRequested session/mcpServerStopRequested",
    "0.6.0": "chat/toolCallAuthRequired chat/toolCallAuthResolved changeset/filesReviewChanged",
    "0.7.0": (
        "session/workingDirectorySet session/workingDirectoryRemoved chat/workingDirectorySet "
        "chat/workingDirectoryRemoved"
    ),
    "0.8.0": "session/workingDirectoryReplaced",
    "0.9.0": (
        "chat/turnResume session/chatsReordered session/mcpServerBackgroundRequested chat/backgroundWorkSet "
        "chat/backgroundWorkRemoved chat/movableChanged chat/changesetsChanged chat/isReadChanged "
        "chat/isArchivedChanged"
    ),
    "0.10.0": "chat/canvasesChanged canvas/stateChanged",
}

INTRODUCED: Mapping[str, str] = MappingProxyType(
    {action: version for version, actions in _REGISTRY.items() for action in actions.split()}
)
"""Action type to the version that brought it (6.3)."""


def introduced(action_type: str) -> str | None:
    """The version that brought an action; None for one that is not AHP's."""
    return INTRODUCED.get(action_type)


def visible_to(action_type: str, version: str) -> bool:
    """Whether a client of this negotiated version is sent the action.

    One that is not AHP's is not held back: a client sees it only because it sent it, or asked for the extension.
    """
    since = INTRODUCED.get(action_type)
    return since is None or parse(since) <= parse(version)


def knows_canvases(version: str) -> bool:
    """Whether the version has canvases (V5) and a changeset that recomputes."""
    return parse(version) >= (0, 10, 0)


def action_for(action: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """The action as a client of this version knows it; None if it is not sent at all."""
    if not visible_to(action["type"], version):
        return None
    recomputes = action["type"] == "changeset/statusChanged" and action.get("status") == "recomputing"
    return {**action, "status": "ready"} if recomputes and not knows_canvases(version) else action


def state_for(kind: str, state: dict[str, Any], version: str) -> dict[str, Any]:
    """A channel's state as a client of this version knows it. `kind` as in `uris.channel_kind`."""
    if knows_canvases(version):
        return state
    if kind == "chat" and "canvases" in state:
        return {key: value for key, value in state.items() if key != "canvases"}
    if kind == "changeset" and state.get("status") == "recomputing":
        return {**state, "status": "ready"}
    return state
