"""The program that an ACP agent starts as an MCP server: what it says goes to the server, what comes back to it.

Run by its path, with nothing but the standard library: it has to start at once.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

PORT = "JUPYTER_AHP_TOOLS_PORT"
SECRET = "JUPYTER_AHP_TOOLS_SECRET"

_CHUNK = 65536


def main() -> int:
    try:
        connection = socket.create_connection(("127.0.0.1", int(os.environ[PORT])), timeout=10)
    except (KeyError, OSError) as error:
        sys.stderr.write(f"The Jupyter server's tools cannot be reached: {error}\n")
        return 1
    connection.settimeout(None)
    connection.sendall(os.environ[SECRET].encode() + b"\n")
    threading.Thread(target=_pass_on, args=(connection,), daemon=True).start()
    while data := connection.recv(_CHUNK):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    return 0


def _pass_on(connection: socket.socket) -> None:
    while data := os.read(0, _CHUNK):
        connection.sendall(data)
    os._exit(0)  # whoever started it has gone; the other thread waits for the socket


if __name__ == "__main__":
    sys.exit(main())
