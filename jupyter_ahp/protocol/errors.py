"""The error codes of AHP (1.3) as exceptions: what a request is answered with, and what a client is given back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SESSION_NOT_FOUND: Final = -32001
PROVIDER_NOT_FOUND: Final = -32002
SESSION_ALREADY_EXISTS: Final = -32003
TURN_IN_PROGRESS: Final = -32004
UNSUPPORTED_PROTOCOL_VERSION: Final = -32005
AUTH_REQUIRED: Final = -32007
NOT_FOUND: Final = -32008
PERMISSION_DENIED: Final = -32009
ALREADY_EXISTS: Final = -32010
CONFLICT: Final = -32011


class ProtocolError(Exception):
    """A request's failure, as it goes over the wire.

    `message` is for people; programs compare `code`. `data` is a JSON value, None where there is none.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code}, {self.message!r})"

    def to_wire(self) -> dict[str, Any]:
        """The `error` object of a response."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


class FrameError(ProtocolError):
    """A frame that is no message. `request_id` is the id to answer under; None if it has none that is ours to answer."""

    def __init__(self, code: int, message: str, request_id: int | float | str | None = None) -> None:
        super().__init__(code, message)
        self.request_id = request_id


def method_not_found(method: str) -> ProtocolError:
    """A method that nobody serves (-32601)."""
    return ProtocolError(METHOD_NOT_FOUND, f"This host has no method {method!r}.")


def invalid_params(message: str) -> ProtocolError:
    """Params that do not do (-32602)."""
    return ProtocolError(INVALID_PARAMS, message)


def channel_not_found(uri: str) -> ProtocolError:
    """A session or a chat that this host does not hold (-32001), in the words that clients of VS Code's look for."""
    return ProtocolError(SESSION_NOT_FOUND, f"Resource not found: {uri}")


def unsupported_version(supported: Sequence[str]) -> ProtocolError:
    """No offered version is served (-32005); the connection is closed behind it. `supported`: versions or ranges."""
    served = ", ".join(supported)
    message = f"None of the offered protocol versions is served here. Served: {served}."
    return ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, message, {"supportedVersions": list(supported)})


def auth_required(message: str, resources: Sequence[Mapping[str, Any]]) -> ProtocolError:
    """A token is needed, or the one given is not good (-32007). `resources`: ProtectedResourceMetadata of each."""
    return ProtocolError(AUTH_REQUIRED, message, {"resources": list(resources)})


def permission_denied(message: str, request: Mapping[str, Any] | None = None) -> ProtocolError:
    """Access refused (-32009). `request`: the `resourceRequest` params that would ask for it."""
    return ProtocolError(PERMISSION_DENIED, message, None if request is None else {"request": dict(request)})
