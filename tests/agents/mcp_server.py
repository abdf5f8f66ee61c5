"""An MCP server on the real `mcp` package, for tests: `python mcp_server.py stdio`, or `http` or `sse`, which print their port
(any that is free, unless a third argument says which)."""

from __future__ import annotations

import os
import socket
import sys

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("Test")
PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def remember(word: str) -> str:
    """Write a word down."""
    with open("remembered.txt", "a") as file:
        file.write(f"{word}\n")
    return f"I remember {word}, and {os.environ.get('MCP_TEST_EXTRA', 'nothing')}."


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def fail() -> str:
    """Does not work."""
    raise ToolError("The shelf is empty.")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def draw() -> Image:
    """A picture."""
    return Image(data=PNG, format="png")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def die() -> str:
    """Ends the server."""
    sys.stderr.write("the server is tired\n")
    sys.stderr.flush()
    os._exit(3)


def main() -> None:
    how = sys.argv[1]
    if how == "stdio":
        with open("started.txt", "a") as file:
            file.write(f"{os.getpid()}\n")
        server.run("stdio")
        return
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        port = taken.getsockname()[1]
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.run("streamable-http" if how == "http" else "sse", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
