"""The Jupyter Server extension: its configuration, and what is wired to what.

Loading it starts nothing. The host, its store and the agents come to life with the first request that needs them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.extension.application import ExtensionApp
from tornado import web
from traitlets import Bool, Dict, Enum, Float, Integer, List, TraitError, Unicode, default
from traitlets.config import Configurable

from ._version import __version__
from .apps import app_handler, can_show_apps
from .handlers import AHPWebSocketHandler, Sockets, StatusHandler
from .host.grants import OWNER, ROLES, Grants
from .pages import CanvasHandler

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from .host.canvases import HostCanvas
    from .host.host import Host
    from .host.ports import Ptys
    from .plugins.loading import Plugins

SERVER_INFO = "JUPYTER_AHP_SERVER_INFO"
"""Tells this server's kernels which file says its URL and token (mode 0600); the token is never in the environment."""


class AssistantAgent(Configurable):
    """Configuration of the assistant that runs in the server."""

    models = List(
        Dict(),
        config=True,
        help="""Models for the assistant, each {"id", "name", "base_url", "model", "api_key_env"}: any
        OpenAI-compatible endpoint. The first is the default. When empty, they are found in the environment
        (OPENAI_API_KEY with OPENAI_BASE_URL, ANTHROPIC_API_KEY, a running Ollama), else the small local model.""",
    )

    mcp_servers = Dict(
        config=True,
        help="""MCP servers for all chats of the assistant, by name, as in the `mcpServers` of a `.mcp.json`:
        {"docs": {"command": "docs-server", "args": ["--stdio"], "env": {"KEY": "${MY_KEY}"}}, "search": {"url":
        "https://example.org/mcp", "headers": {"Authorization": "Bearer ${MY_TOKEN}"}}}. Those that the `.mcp.json` of a
        chat's directory names are started as well, once a person has allowed that in the session.""",
    )


class ClaudeAgent(Configurable):
    """Configuration of Claude, which runs by the Claude Agent SDK."""

    cli_path = Unicode(
        config=True,
        help="The `claude` program. Default: the one that comes with the SDK, else the one on the server's PATH.",
    )
    env = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        config=True,
        help="""Environment variables of the program, over the server's: {"ANTHROPIC_BASE_URL": "..."}. Proxies, certificates
        and keys of the server's environment reach it without this.""",
    )
    model = Unicode(
        config=True, help="The model of a chat that chooses none. Default: what the program is set up for."
    )
    permission_mode = Enum(
        ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"),
        "default",
        config=True,
        help="""What Claude does without asking in a new session: `default` asks before it changes files or runs commands;
        `acceptEdits` edits without asking; `plan` only reads until its plan is approved; `dontAsk` does what its rules
        allow and nothing else; `bypassPermissions` never asks (not as root).""",
    )
    stop_ends = Enum(
        ("turn", "query"),
        "turn",
        config=True,
        help="""What a stop ends: `turn`, and what earlier turns started in the background goes on; or `query`, the program with
        all that it runs, which the next message starts again where the conversation was.""",
    )
    idle_seconds = Float(
        300.0,
        min=1.0,
        config=True,
        help="Seconds after which the program of a chat that nothing is asked of is closed. The next message resumes it.",
    )


class PiAgent(Configurable):
    """Configuration of pi, a coding agent that runs as a program of its own."""

    command = List(
        Unicode(),
        ["pi"],
        config=True,
        help="""The program, and what it is always given: ["pi", "--provider", "openai", "--model", "gpt-5"]. It is looked
        for on the server's PATH.""",
    )
    env = Dict(config=True, help="Environment variables for it, on top of the server's.")


class ACPAgent(Configurable):
    """Configuration of the agents that speak the Agent Client Protocol (ACP)."""

    servers = Dict(
        config=True,
        help="""Agents that speak ACP, by the name that each is to have: {"my-agent": {"command": "my-agent", "args":
        ["--acp"], "env": {"MY_KEY": "..."}, "title": "My agent"}}. Known agents that are on the server's PATH
        (claude-agent-acp, codex-acp, gemini, opencode, goose, ...) are found without it.""",
    )


class BotAgent(Configurable):
    """Configuration of the bots: standing assistants, each with instructions and a folder of its own."""

    bots = Dict(
        config=True,
        help="""Bots by the short name that each is to have: {"tutor": {"name": "Tutor", "instructions": "Give hints, never
        the answer.", "agent": "assistant", "model": "gpt-5", "workspace": "/srv/course"}}. All of it is optional. `agent`:
        who does its work, by default the server's default agent. `instructions`: by default `AGENTS.md` in its folder.
        `workspace`: its folder, by default `bots/<short name>` in `AHPExtension.data_dir`.""",
    )


class AHPExtension(ExtensionApp):
    """An Agent Host Protocol host inside Jupyter Server."""

    name = "jupyter_ahp"
    load_other_extensions = True
    classes = [AssistantAgent, ClaudeAgent, PiAgent, ACPAgent, BotAgent]

    data_dir = Unicode(
        config=True, help="Where sessions and chats are kept. Default: `ahp` in Jupyter's data directory."
    )
    default_agent = Unicode(
        "", config=True, help="The provider for a new session. Default: the first agent that is ready."
    )
    agents = List(
        Unicode(),
        config=True,
        help="The providers that are served, in this order. Default: all that are found.",
    )
    roles = Dict(
        {name: list(grants) for name, grants in ROLES.items()},
        config=True,
        help="""What each role may do: a list of grants, such as ["session:read", "chat:send"]. These are added to the
        built-in roles guest, member and owner. The grants are listed in the documentation, *Who may do what*.""",
    )
    members = Dict(
        config=True,
        help="""Who has which role, by the username that the identity provider gives. The server's own token or
        password always has the role owner.""",
    )
    default_role = Unicode(OWNER, config=True, help="The role of a user whom `members` does not name.")
    terminals = Bool(
        True,
        config=True,
        help="""Whether there are terminals, and messages that begin with `!` run as commands. They run where Jupyter
        Server's own terminals do, and there are none where it has none (`ServerApp.terminals_enabled`), nor on Windows.
        Without them the assistant runs no commands either.""",
    )
    plugins = List(
        Unicode(),
        config=True,
        help="""Plugins to load beside those of installed packages, each "module:register": a function that is handed a
        jupyter_ahp.plugins.PluginHost.""",
    )
    without_plugins = List(
        Unicode(), config=True, help="Names of built-in and installed plugins that are not to be loaded."
    )
    heartbeat_interval = Float(
        30,
        min=0,
        config=True,
        help="""Seconds between the pings that keep a WebSocket alive through proxies; a client that answers three in
        a row with silence is disconnected. 0 turns them off.""",
    )
    max_message_bytes = Integer(
        64 * 1024 * 1024,
        min=64 * 1024,
        config=True,
        help="The largest message that a client may send; a larger one closes its connection (code 1009).",
    )

    attachment_fetch_limit_bytes = Integer(
        32 * 1024 * 1024,
        min=0,
        config=True,
        help="""A file that only the client has, and that a message names, is read through that client; not one that is
        said to be larger than this, since it arrives as one message. 0: whatever its size.""",
    )

    closed_chats = Enum(
        ("hidden", "delete"),
        "hidden",
        config=True,
        help="""What becomes of the conversation that an agent keeps by itself of a chat that is closed: "hidden" leaves it
        with the agent and never lists it as a session again, "delete" has the agent delete it, if it can.""",
    )

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return str(Path(jupyter_data_dir()) / "ahp")

    @property
    def _server(self) -> ServerApp:
        assert self.serverapp is not None, "linked to a server before anything else"
        return self.serverapp

    # ── What is wired to what ────────────────────────────────────────────────────────────────────────────────────
    def initialize_settings(self) -> None:
        self._sockets = Sockets()
        self._starting: asyncio.Task[Host] | None = None
        self._plugins: Plugins | None = None
        self._grants = self._who_may_do_what()
        server = self._server
        os.environ[SERVER_INFO] = str(Path(server.info_file).absolute())
        scrubbed = server.web_app.settings.get("extra_log_scrub_param_keys", [])
        self.settings["extra_log_scrub_param_keys"] = [*scrubbed, "tkn"]

    def _who_may_do_what(self) -> Grants:
        """The configured roles. Raises `TraitError`: better that nothing is served than that everybody may do everything."""
        if not self._linked:
            raise TraitError(
                "The configuration of AHPExtension was not read; the reason is above. Not served."
            )
        try:
            return Grants(self.roles, self.members, self.default_role)
        except ValueError as error:
            raise TraitError(f"AHPExtension.{error} Not served.") from error

    def initialize_handlers(self) -> None:
        socket = {
            "running_host": self.running_host,
            "sockets": self._sockets,
            "heartbeat_interval": self.heartbeat_interval,
            "max_message_bytes": self.max_message_bytes,
        }
        canvas = {"canvas": self._canvas, "base_url": self._server.base_url}
        self.handlers.extend(
            [
                (r"ahp", AHPWebSocketHandler, socket),
                (r"ahp/status", StatusHandler, {"status": self.status}),
                (r"ahp/canvas/([\w-]+)(/page)?", CanvasHandler, canvas),
            ]
        )
        self._shows_apps = can_show_apps()
        if self._shows_apps:
            try:
                self.handlers.append((r"ahp/canvas/([\w-]+)/app/(.*)", app_handler(), canvas))
            except (ImportError, AttributeError):
                self._shows_apps = False
                self.log.exception("jupyter-server-proxy cannot be used, so canvases show no web apps.")

    def make_host(
        self,
        directory: str,
        *,
        ptys: Ptys | None,
        grants: Grants,
        shows_apps: bool = False,
        max_message_bytes: int | None = None,
        on_activity: Callable[[], None] | None = None,
    ) -> Host:
        """A host as it is configured, not started; in a server, or in a process that has none."""
        from .agents.registry import find_agents
        from .host.host import Host, HostOptions
        from .store.files import FileStore

        assistant = AssistantAgent(parent=self)
        acp = ACPAgent(parent=self).servers
        pi = PiAgent(parent=self)
        agents = find_agents(
            self.agents,
            models=assistant.models,
            mcp_servers=assistant.mcp_servers,
            commands=ptys is not None or (os.name == "nt" and self.terminals),
            data_dir=self.data_dir,
            claude=ClaudeAgent(parent=self).trait_values(config=True),
            acp_servers=acp,
            pi={"command": pi.command, "env": pi.env},
            bots=BotAgent(parent=self).bots,
            log=self.log,
        )
        options = HostOptions(
            default_agent=self.default_agent,
            served=self.agents,
            shows_apps=shows_apps,
            default_directory=directory,
            version=__version__,
            grants=grants,
            ptys=ptys,
            attachment_fetch_limit_bytes=self.attachment_fetch_limit_bytes,
            max_message_bytes=max_message_bytes,
            closed_chats=self.closed_chats,
            on_activity=on_activity,
        )
        return Host(FileStore(Path(self.data_dir)), agents, options)

    def _find_ptys(self) -> Ptys | None:
        """Where commands run, if they may. Not before the first request: by then all extensions are loaded."""
        if not self.terminals or os.name == "nt":
            return None
        manager = self._server.web_app.settings.get("terminal_manager")
        if manager is None:
            self.log.info("This server has no terminals, so a message that begins with `!` is plain text.")
            return None
        from .ptys import JupyterPtys

        return JupyterPtys(manager)

    # ── Its life ─────────────────────────────────────────────────────────────────────────────────────────────────
    async def _start_host(self) -> Host:
        host = self._host_of_server()
        await host.start()
        self._plugins = await self.load_plugins(host)
        return host

    def _host_of_server(self) -> Host:
        return self.make_host(
            os.path.abspath(self._server.root_dir),
            ptys=self._find_ptys(),
            grants=self._grants,
            shows_apps=self._shows_apps,
            max_message_bytes=self.max_message_bytes,
            on_activity=self._note_activity,
        )

    async def load_plugins(self, host: Host) -> Plugins:
        """Register the plugins that are installed and configured with a host that runs."""
        from .plugins.loading import load_plugins

        return await load_plugins(host.extensions, self.plugins, without=self.without_plugins, log=self.log)

    async def running_host(self) -> Host:
        """The host, started by whoever asks first. Raises `HTTPError` 503, saying why, when it cannot start."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start_host())
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except Exception as error:
            if self._starting is starting:
                self._starting = None  # The next request tries again.
                self.log.exception("The agent host could not start; its store is %s.", self.data_dir)
            raise web.HTTPError(503, f"The agent host could not start: {error}") from error

    def _canvas(self, token: str) -> HostCanvas | None:
        host = self._started
        return host.canvases.of_token(token) if host is not None else None

    @property
    def _started(self) -> Host | None:
        """The host, if it runs."""
        starting = self._starting
        if starting is None or not starting.done() or starting.exception() is not None:
            return None
        return starting.result()

    async def stop_extension(self) -> None:
        """End what runs, so that it can be resumed, and tell every client that the server is going away."""
        starting, self._starting = self._starting, None
        if starting is not None:
            host = await starting
            await host.stop()
        await self._sockets.close()
        plugins, self._plugins = self._plugins, None
        if plugins is not None:
            await plugins.close()  # last, so that they are told how it ended

    # ── What others see ──────────────────────────────────────────────────────────────────────────────────────────
    def _note_activity(self) -> None:
        """A running turn is activity: for `shutdown_no_activity_timeout`, and for the culler of a hub."""
        self._server.web_app.settings["last_activity_times"][self.name] = datetime.now(UTC)

    def current_activity(self) -> dict[str, int] | None:
        """What Jupyter Server must not be shut down under."""
        host = self._started
        return {"turns": host.running} if host is not None and host.running else None

    async def status(self) -> dict[str, Any]:
        """The status page. Asks every agent whether it can be used; starts none."""
        from .protocol.versions import SERVED_RANGES

        host = await self.running_host()
        await host.ready()
        agents = list(host.roster.agents.values())
        probes = await asyncio.gather(*(agent.probe() for agent in agents))
        return {
            "version": __version__,
            "protocolVersions": list(SERVED_RANGES),
            "agents": [
                {
                    "provider": agent.provider,
                    "displayName": agent.display_name,
                    "ready": probe.ready,
                    "models": [model.id for model in probe.models],
                    "reason": probe.reason,
                    "fix": probe.fix,
                    "note": probe.note,
                }
                for agent, probe in zip(agents, probes, strict=True)
            ],
            "sessions": host.session_count,
            "connections": len(self._sockets),
            "runningTurns": host.running,
        }
