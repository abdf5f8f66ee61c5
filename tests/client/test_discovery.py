"""Which server a kernel takes for its own, and how it is reached."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.client.discovery import Server, find_server, parse_server
from jupyter_ahp.client.errors import NoHost

ME, OTHER = 4242, 999


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty runtime directory, and a process that no server started."""
    for name in list(os.environ):
        if name.startswith(("JUPYTER", "JPY_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def info(runtime: Path, pid: int = ME, **changes: Any) -> Path:
    """A server's info file, as it writes one."""
    port = 8000 + pid % 1000
    content = {
        "url": f"http://localhost:{port}/",
        "hostname": "localhost",
        "port": port,
        "sock": "",
        "secure": False,
        "base_url": "/",
        "token": f"token-{pid}",
        "root_dir": "/home/me",
        "password": False,
        "pid": pid,
        "version": "2.21.1",
        **changes,
    }
    path = runtime / f"jpserver-{pid}.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("inherited", "parent", "running", "found"),
    [
        pytest.param(ME, ME, [ME], ME, id="a kernel of the server that has the extension"),
        pytest.param(
            OTHER, ME, [ME, OTHER], ME, id="a server in another one's terminal: its kernel is its own"
        ),
        pytest.param(OTHER, ME, [OTHER], None, id="nbconvert in a server's terminal: no server's kernel"),
        pytest.param(None, ME, [OTHER, ME], ME, id="a server that says nothing to its kernels"),
        pytest.param(None, ME, [OTHER], None, id="another server runs: never that one"),
        pytest.param(None, None, [ME], None, id="a script beside a running server"),
        pytest.param(ME, None, [ME], ME, id="a script in a server's terminal"),
        pytest.param(ME, ME, [], None, id="the server is gone"),
        pytest.param(ME, None, [OTHER], None, id="a terminal whose server is gone"),
    ],
)
def test_only_its_own_server(
    runtime: Path,
    monkeypatch: pytest.MonkeyPatch,
    inherited: int | None,
    parent: int | None,
    running: list[int],
    found: int | None,
) -> None:
    for pid in running:
        info(runtime, pid)
    if inherited is not None:
        monkeypatch.setenv("JUPYTER_AHP_SERVER_INFO", str(runtime / f"jpserver-{inherited}.json"))
    if parent is not None:
        monkeypatch.setenv("JPY_PARENT_PID", str(parent))
    if found is None:
        with pytest.raises(NoHost, match="connect"):
            find_server()
    else:
        assert find_server() == Server(
            f"http://localhost:{8000 + found % 1000}/", f"token-{found}", verify=False, own=True
        )


@pytest.mark.parametrize(
    ("changes", "ws_url"),
    [
        ({}, "ws://localhost:8242/ahp"),
        ({"base_url": "/user/mia/"}, "ws://localhost:8242/user/mia/ahp"),
        ({"base_url": "/user/m%C3%ADa b/"}, "ws://localhost:8242/user/m%C3%ADa%20b/ahp"),
        ({"hostname": "0.0.0.0", "url": "http://a-pod:8242/"}, "ws://127.0.0.1:8242/ahp"),
        ({"hostname": "::", "url": "http://a-pod:8242/"}, "ws://[::1]:8242/ahp"),
        ({"hostname": "10.0.0.7", "url": "http://10.0.0.7:8242/"}, "ws://10.0.0.7:8242/ahp"),
        ({"hostname": "fe80::1", "url": "http://[fe80::1]:8242/"}, "ws://[fe80::1]:8242/ahp"),
        ({"secure": True, "url": "https://localhost:8242/"}, "wss://localhost:8242/ahp"),
    ],
)
def test_how_its_address_is_read(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], ws_url: str
) -> None:
    monkeypatch.setenv("JUPYTER_AHP_SERVER_INFO", str(info(runtime, **changes)))
    assert find_server().ws_url == ws_url


def test_a_unix_socket_is_said_to_be_one(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_AHP_SERVER_INFO", str(info(runtime, sock="/run/me.sock", port=0)))
    with pytest.raises(NoHost, match=r"/run/me\.sock"):
        find_server()


@pytest.mark.parametrize(("prefix", "token"), [("/user/mia/", "of-the-hub"), ("/user/ana/", ""), (None, "")])
def test_under_a_hub_the_kernels_token_opens_its_own_server(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, prefix: str | None, token: str
) -> None:
    monkeypatch.setenv("JUPYTER_AHP_SERVER_INFO", str(info(runtime, token="", base_url="/user/mia/")))
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "of-the-hub")
    if prefix is not None:
        monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", prefix)
    assert find_server().token == token


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_file_that_is_being_written_is_no_server(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    (runtime / "jpserver-1.json").write_text(content)
    monkeypatch.setenv("JUPYTER_AHP_SERVER_INFO", str(runtime / "jpserver-1.json"))
    monkeypatch.setenv("JPY_PARENT_PID", str(ME))
    with pytest.raises(NoHost):
        find_server()
    info(runtime)
    assert find_server().token == f"token-{ME}"


@pytest.mark.parametrize(
    ("url", "token", "server"),
    [
        ("http://h:8888/", None, Server("http://h:8888/")),
        ("http://h:8888", "t", Server("http://h:8888/", "t")),
        ("h:8888", None, Server("http://h:8888/")),
        ("http://127.0.0.1:8888/lab?token=abc", None, Server("http://127.0.0.1:8888/", "abc")),
        ("http://127.0.0.1:8888/tree?token=abc", "mine", Server("http://127.0.0.1:8888/", "mine")),
        ("https://hub/user/mia/?token=abc", None, Server("https://hub/user/mia/", "abc")),
        ("https://hub/user/lab/", None, Server("https://hub/user/lab/")),
        ("wss://hub/user/mia/ahp?tkn=abc", None, Server("https://hub/user/mia/", "abc")),
        ("ws://me:pw@[::1]:8888/ahp", "", Server("http://[::1]:8888/")),
    ],
)
def test_an_address_as_people_paste_it(url: str, token: str | None, server: Server) -> None:
    assert parse_server(url, token) == server
    assert find_server(url, token) == server


@pytest.mark.parametrize("url", ["", "ftp://h/", "http://", "file:///a"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_server(url)


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(Server("http://h/", "secret"))
