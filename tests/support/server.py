"""A real Jupyter Server in a process of its own, with this extension and nothing of the machine's own set-up."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-for-tests"

# What would make an agent find a model outside of the tests.
_PRIVATE = ("OPENAI_", "ANTHROPIC_", "OPENROUTER_", "GROQ_", "MISTRAL_", "OLLAMA_", "CLAUDE", "JUPYTER")


# Extensions that are installed beside ours and that no test needs; without them a server starts in a second.
_OTHERS = (
    "jupyter_lsp",
    "jupyter_server_proxy",
    "jupyter_server_terminals",
    "jupyterlab",
    "notebook",
    "notebook_shim",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, so that its own headers can be read."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass
class Home:
    """The directories of one person: a server that is started again on them is the same person's next server."""

    root: Path

    @property
    def files(self) -> Path:
        return self.root / "files"

    @property
    def data(self) -> Path:
        """Jupyter's data directory; the store is `ahp` in it."""
        return self.root / "data"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def runtime(self) -> Path:
        return self.root / "runtime"

    def make(self) -> None:
        for folder in (self.files, self.data, self.runtime, self.root / "home"):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / "jupyter-config", self.config, dirs_exist_ok=True)
        others = {"ServerApp": {"jpserver_extensions": dict.fromkeys(_OTHERS, False)}}
        (self.config / "jupyter_server_config.d" / "others.json").write_text(json.dumps(others))
        extensions = self.data / "labextensions"
        extensions.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (extensions / "jupyter-ahp").symlink_to(ROOT / "jupyter_ahp" / "labextension")

    def environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}
        env.update(
            HOME=str(self.root / "home"),
            JUPYTER_CONFIG_DIR=str(self.config),
            JUPYTER_CONFIG_PATH=str(self.config),  # before what is installed in this environment
            JUPYTER_DATA_DIR=str(self.data),
            JUPYTER_PATH=str(self.data),  # the labextension that is built here, not one that is installed
            JUPYTER_RUNTIME_DIR=str(self.runtime),
            IPYTHONDIR=str(self.root / "ipython"),
            PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
            NO_PROXY="127.0.0.1,localhost",
        )
        return env


class JupyterServer:
    """One server process. `start` returns when it answers; `stop` is what Ctrl C twice does, `kill` is `kill -9`."""

    def __init__(
        self,
        home: Home,
        *,
        token: str | None = TOKEN,
        base_url: str = "/",
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        module: str = "jupyter_server",
    ) -> None:
        self.home = home
        self.token = token
        self.base_url = base_url
        self.port = free_port()
        self._args = args
        self._env = dict(env or {})
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._log = home.root / f"server-{self.port}.log"

    # ── Addresses ────────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def url(self) -> str:
        """Ends with a slash."""
        return f"http://127.0.0.1:{self.port}{self.base_url}"

    @property
    def ws_url(self) -> str:
        """Of the AHP WebSocket, without a credential."""
        return f"ws://127.0.0.1:{self.port}{self.base_url}ahp"

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    # ── Life ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def start(self, timeout: float = 60) -> JupyterServer:
        self.home.make()
        command = [
            sys.executable,
            "-m",
            self._module,
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.base_url={self.base_url}",
            f"--ServerApp.root_dir={self.home.files}",
            "--ServerApp.log_level=DEBUG",
            *self._args,
        ]
        if self.token is not None:
            command.append(f"--IdentityProvider.token={self.token}")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**self.home.environment(), **self._env},
                cwd=self.home.files,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        give_up = time.monotonic() + timeout
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up:
                self.kill()
                raise RuntimeError(f"The server did not start:\n{self.log[-4000:]}")
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "api", timeout=5):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"The server did not stop within 20 s:\n{self.log[-4000:]}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its kernels and terminals

    def restart(self) -> JupyterServer:
        """The same person's next server, at the same address."""
        self.stop()
        return self.start()

    # ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────
    def request(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        follow: bool = True,
    ) -> tuple[int, str, Message]:
        """Status, body and headers of a GET, or of a POST of `body`; with the token unless `headers` are given."""
        if headers is None:
            headers = {"Authorization": f"token {self.token}"} if self.token else {}
        request = urllib.request.Request(self.url + path, headers=dict(headers), data=body)
        try:
            opener = urllib.request.build_opener() if follow else urllib.request.build_opener(_Stay)
            with opener.open(request, timeout=20) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace"), error.headers

    def login_cookie(self) -> str:
        """What a browser that opened the server's link with its token sends from then on."""
        _, _, headers = self.request("api/status?token=" + (self.token or ""), headers={})
        return "; ".join(cookie.split(";")[0] for cookie in headers.get_all("Set-Cookie", []))

    def get_json(self, path: str) -> Any:
        status, body, _ = self.request(path)
        assert status == 200, (status, body)
        return json.loads(body)
