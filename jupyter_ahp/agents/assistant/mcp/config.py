"""Which MCP servers there are: those of `AssistantAgent.mcp_servers`, and those of a directory's `.mcp.json`.

Both are the `mcpServers` that other programs read, too: a name to `{command, args, env}`, or to `{type, url, headers}`.
`${NAME}` and `${NAME:-default}` in them are of this server's environment. Those of a directory came with whatever is in it,
so a person is asked before one is started.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

FILE: Final = ".mcp.json"
_LARGEST: Final = 256 * 1024
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KINDS: Final[Mapping[str, Literal["http", "sse"]]] = {
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}


class BadServer(ValueError):
    """A server that cannot be started as it is written down; the words are for people."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One server, as it is written down."""

    name: str
    kind: Literal["stdio", "http", "sse"]
    command: tuple[str, ...] = ()
    url: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of a program, or headers."""
    trusted: bool = True
    """It is of this server's own configuration, and no directory's."""

    @property
    def key(self) -> str:
        """Under which it is allowed in a session: another program under the same name is asked for anew."""
        told = json.dumps([self.kind, self.command, self.url, sorted(self.extra.items())])
        return f"mcp-server:{self.name}:{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    @property
    def described(self) -> str:
        """What it is, for people, as it is written down."""
        what = " ".join(self.command) if self.command else self.url
        extra = ", ".join(
            f"{name}={value}" if _VARIABLE.search(value) else name for name, value in self.extra.items()
        )
        return f"{what} (with {extra})" if extra else what


def parse(servers: object, *, where: str, trusted: bool = True) -> tuple[list[Spec], list[str]]:
    """The servers, and what is wrong with others, in words. `where` is what they were found in."""
    if not isinstance(servers, Mapping):
        return [], [f"{where}: the MCP servers are no object of names."]
    specs: list[Spec] = []
    problems: list[str] = []
    for name, entry in servers.items():
        try:
            spec = _spec(str(name), entry, trusted)
        except BadServer as error:
            problems.append(f"{where}: the MCP server {name} is left out, since {error}.")
            continue
        if spec is not None:
            specs.append(spec)
    return specs, problems


def _spec(name: str, entry: object, trusted: bool) -> Spec | None:
    if not isinstance(entry, Mapping):
        raise BadServer("it is no object")
    if entry.get("disabled") is True:
        return None
    command, url, kind = entry.get("command"), entry.get("url"), entry.get("type")
    if isinstance(command, str) and command:
        args = entry.get("args", [])
        if not isinstance(args, Sequence) or isinstance(args, str):
            raise BadServer("its args are no list")
        extra = _strings(entry.get("env", {}), "env")
        return Spec(name, "stdio", (command, *map(str, args)), extra=extra, trusted=trusted)
    if isinstance(url, str) and url:
        if kind is not None and kind not in _KINDS:
            raise BadServer(f"a server of type {kind} cannot be reached from here")
        if not url.startswith(("http://", "https://")):
            raise BadServer("its url does not begin with http:// or https://")
        headers = _strings(entry.get("headers", {}), "headers")
        return Spec(name, _KINDS[kind or "http"], url=url, extra=headers, trusted=trusted)
    raise BadServer("it has neither a command nor a url")


def _strings(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise BadServer(f"its {name} is no object")
    return {str(key): str(each) for key, each in value.items()}


def of_directory(directory: str) -> tuple[list[Spec], list[str]]:
    """Those of a directory's `.mcp.json`, and what is wrong with it. Blocks."""
    path = Path(directory, FILE)
    try:
        if not path.is_file():
            return [], []
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            return [], [f"{FILE} is not read: it is larger than {_LARGEST // 1024} KiB."]
        found: Any = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        return [], [f"{FILE} cannot be read: {error}"]
    servers = found.get("mcpServers", {}) if isinstance(found, dict) else None
    return parse(servers, where=FILE, trusted=False)


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """With its variables. Raises `BadServer` for one that is not set."""

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        said = environ.get(name) or default
        if said is None:
            raise BadServer(f"{name} is not set in the server's environment")
        return said

    return _VARIABLE.sub(value, text)
