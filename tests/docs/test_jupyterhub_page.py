"""Every configuration block of `docs/jupyterhub.md`: in the classes that it configures, and in a real server.

There is no hub here. Its identity provider, users and authorizer are its own, but what they would be told by it is given.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server_terminals.terminalmanager import TerminalManager
from jupyterhub.app import JupyterHub  # type: ignore[import-untyped]
from jupyterhub.auth import PAMAuthenticator  # type: ignore[import-untyped]
from jupyterhub.scopes import scope_definitions  # type: ignore[import-untyped]
from jupyterhub.spawner import LocalProcessSpawner  # type: ignore[import-untyped]
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from jupyter_ahp.app import AHPExtension, AssistantAgent, BotAgent
from jupyter_ahp.host.grants import Grants
from tests.mock_model import MockModel
from tests.support.server import TOKEN, Home, JupyterServer
from tests.support.wire import Peer, RpcError, open_peer

PAGE = Path(__file__).parents[2] / "docs" / "jupyterhub.md"
BLOCK = re.compile(r"^```python\n# (\w+)_config\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLASSES: dict[str, dict[str, Any]] = {
    "jupyter_server": {
        "AHPExtension": AHPExtension,
        "AssistantAgent": AssistantAgent,
        "BotAgent": BotAgent,
        "MappingKernelManager": AsyncMappingKernelManager,  # what servers have, by default
        "ServerApp": ServerApp,
        "TerminalManager": TerminalManager,
    },
    "jupyterhub": {
        "Authenticator": PAMAuthenticator,
        "JupyterHub": JupyterHub,
        "Spawner": LocalProcessSpawner,
    },
}
NEEDED = {"TerminalManager": {"shell_command": ["sh"]}}
CLASS = "stats-101"

# What the hub tells the server of the class about whoever asks: here by a header, and by the server's own token.
HUB = """
from jupyterhub.singleuser.extension import JupyterHubIdentityProvider, JupyterHubUser

class Told(JupyterHubIdentityProvider):
    async def get_user(self, handler):
        name = handler.request.headers.get("X-User")
        if name is None and handler.get_argument("token", None) == self.token:
            name = "stats-101"
        may_enter = [] if name == "stranger" else ["access:servers!user=stats-101"]
        return JupyterHubUser({"name": name, "scopes": may_enter}) if name else None

c.ServerApp.identity_provider_class = Told
"""
ENVIRONMENT = {
    "COURSE_KEY": "sk-for-tests",
    "JUPYTERHUB_API_TOKEN": TOKEN,
    "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-stats-101",
    "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps(["access:servers!user=stats-101"]),
    "JUPYTERHUB_SERVICE_PREFIX": "/user/stats-101/",
    "JUPYTERHUB_USER": CLASS,
}


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCK.findall(PAGE.read_text("utf-8")) if name == kind]


def loaded(text: str, folder: Path) -> Config:
    (folder / "config.py").write_text(text, "utf-8")
    config: Config = PyFileConfigLoader("config.py", path=str(folder)).load_config()
    return config


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A block is code, and may look at the environment and write into Jupyter's directories."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


def test_every_block_is_one_that_is_checked() -> None:
    assert PAGE.read_text("utf-8").count("```python") == len(blocks("jupyterhub") + blocks("jupyter_server"))
    assert len(blocks("jupyterhub")) >= 3
    assert len(blocks("jupyter_server")) >= 7


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind in CLASSES for text in blocks(kind)], ids=lambda text: text[-30:]
)
def test_a_block_sets_traits_that_are_there_to_what_they_take(kind: str, text: str, at_home: Path) -> None:
    config = loaded(text, at_home)
    assert config or "symlink_to" in text
    for section, settings in config.items():
        of = CLASSES[kind][section]
        made = of(config=Config({section: settings}), **NEEDED.get(section, {}))
        for name, value in settings.items():
            assert name in of.class_traits(config=True), f"{section}.{name}"
            assert getattr(made, name) == value
        if of is AHPExtension:
            Grants(made.roles, made.members, made.default_role)
        if of is JupyterHub:
            scopes = {scope.partition("!")[0] for role in made.load_roles for scope in role["scopes"]}
            assert scopes <= set(scope_definitions)
            for service in made.services:
                options = [part.partition("=")[0] for part in service["command"] if part.startswith("--")]
                help_ = subprocess.run(
                    [*service["command"][:3], "--help"],
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=60,
                )
                assert all(option in help_.stdout + help_.stderr for option in options)


def test_a_key_is_given_to_whom_it_is_for(at_home: Path) -> None:
    (text,) = [text for text in blocks("jupyterhub") if "pre_spawn_hook" in text]
    keys = at_home / "keys.json"
    keys.write_text('{"ana": "sk-ana"}')
    text = text.replace("/srv/jupyterhub/keys.json", str(keys))
    assert str(keys) in text
    hook = loaded(text, at_home).Spawner.pre_spawn_hook
    given = {}
    for name in ("ana", "ben"):
        spawner = LocalProcessSpawner(environment={"KEPT": "1"})
        spawner.user = SimpleNamespace(name=name)
        hook(spawner)
        given[name] = spawner.environment
    assert given == {"ana": {"KEPT": "1", "COURSE_KEY": "sk-ana"}, "ben": {"KEPT": "1"}}


def test_the_small_model_is_shared(at_home: Path) -> None:
    (text,) = [text for text in blocks("jupyter_server") if "symlink_to" in text]
    for _start in range(2):
        loaded(text, at_home)
    link = at_home / "data" / "ahp" / "models"
    assert str(link.readlink()) == "/opt/ahp/models"
    assert link.parent.stat().st_mode & 0o077 == 0


def test_another_server_than_that_of_the_class_has_no_roles(
    at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "ana")
    for text in blocks("jupyter_server"):
        config = loaded(text, at_home)
        assert not {"roles", "members", "default_role"} & set(config.AHPExtension)
        assert "authorizer_class" not in config.ServerApp


def person(server: JupyterServer, name: str) -> AbstractAsyncContextManager[Peer]:
    return open_peer(server, query="", headers={"X-User": name})


def asked(server: JupyterServer, name: str, method: str, path: str) -> int:
    """The status of a request to Jupyter's own API, as a page of this person makes it."""
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"X-User": name, "Cookie": "_xsrf=x", "X-XSRFToken": "x", "Content-Type": "application/json"}
    link.request(method, f"{server.base_url}api/{path}", "{}" if method == "POST" else None, headers)
    status = link.getresponse().status
    link.close()
    return status


async def test_P_the_server_of_a_class(home: Home, with_server: Callable[..., JupyterServer]) -> None:
    home.make()
    config = HUB + "".join(text for text in blocks("jupyter_server") if "/srv/ahp" not in text)
    (home.config / "jupyter_server_config.py").write_text(config)
    server = with_server(env=ENVIRONMENT, args=["--AHPExtension.default_agent=echo"])
    roles = {}
    for name in ("stats-101", "tess", "ben", "ana"):
        async with person(server, name) as peer:
            roles[name] = (await peer.initialize())["_meta"]["jupyter-ahp.role"]
    assert roles == {"stats-101": "owner", "tess": "owner", "ben": "student", "ana": "guest"}

    async with person(server, "tess") as tess, person(server, "ben") as ben, person(server, "ana") as ana:
        for peer in (tess, ben, ana):
            await peer.initialize()
        session, chat = await tess.new_chat()
        bens = f"ahp-chat:/{session.rpartition('/')[2]}/bens"
        await ben.request("createChat", session, chat=bens)
        await ben.request("subscribe", bens)
        await ben.start_turn(bens, "a student may ask")
        await ben.action("chat/turnComplete", bens)
        with pytest.raises(RpcError, match="session:write"):
            await ben.request("createSession", "ahp-session:/of-bens", provider="echo")
        assert len(await ana.turns(bens)) == 1
        await ana.start_turn(chat, "a guest may not")
        refused = await ana.until(lambda message: "rejectionReason" in message.get("params", {}))
        assert "you may read this chat only" in refused["params"]["rejectionReason"]

    assert asked(server, "tess", "POST", "contents") == 201
    for name in ("ben", "ana"):
        assert asked(server, name, "GET", "contents") == 200
        for path in ("contents", "kernels"):
            assert asked(server, name, "POST", path) == 403
    assert asked(server, "stranger", "GET", "contents") == 403


async def test_the_tutor_is_what_a_student_gets(
    home: Home, with_server: Callable[..., JupyterServer]
) -> None:
    home.make()
    (text,) = [text for text in blocks("jupyter_server") if "BotAgent" in text]
    (home.config / "jupyter_server_config.py").write_text(text)
    with MockModel() as model:
        key = {"OPENAI_API_KEY": "sk-for-tests", "OPENAI_BASE_URL": model.base_url}
        async with open_peer(with_server(env=key)) as peer:
            await peer.initialize()
            session = "ahp-session:/exercise"
            await peer.request("createSession", session)
            chat = (await peer.request("subscribe", session))["snapshot"]["state"]["defaultChat"]
            await peer.request("subscribe", chat)
            await peer.start_turn(chat, "What is exercise 3?\n!!text What do you think?")
            await peer.action("chat/turnComplete", chat)
    assert "You are the tutor of a first course" in model.requests[0].texts[0][1]
