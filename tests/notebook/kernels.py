"""A real kernel of a real server, started as a front end starts one."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any, Self

from jupyter_client.blocking.client import BlockingKernelClient

from tests.support.server import JupyterServer

Json = dict[str, Any]


class Kernel:
    """Started through the server's REST API, so that it inherits what the server tells its kernels."""

    def __init__(self, server: JupyterServer) -> None:
        self.server = server
        self.id: str = self._request("POST", "api/kernels", {"name": "python3"})["id"]
        path = server.home.runtime / f"kernel-{self.id}.json"
        give_up = time.monotonic() + 20
        while not path.exists() and time.monotonic() < give_up:
            time.sleep(0.05)
        self.client = BlockingKernelClient(connection_file=str(path))
        self.client.load_connection_file()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def _request(self, method: str, path: str, body: Json | None = None) -> Any:
        request = urllib.request.Request(
            self.server.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.server.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def run(self, code: str, timeout: float = 60) -> list[Json]:
        """A cell: the messages that it put out, in order. An exception in it is raised here."""
        return self.outputs(self.client.execute(code, stop_on_error=False), timeout)

    def outputs(self, request_id: str, timeout: float = 60) -> list[Json]:
        """What a cell that was begun puts out until it is done."""
        got: list[Json] = []
        error = ""
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") != request_id:
                continue
            if message["msg_type"] == "error":
                error = "\n".join(message["content"]["traceback"])
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                if error:
                    raise AssertionError(error)
                return got
            got.append(message)

    def printed(self, code: str, timeout: float = 60) -> str:
        """What a cell printed."""
        messages = self.run(code, timeout)
        return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")

    def interrupt(self) -> None:
        self._request("POST", f"api/kernels/{self.id}/interrupt", {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.stop_channels()
        self._request("DELETE", f"api/kernels/{self.id}")
