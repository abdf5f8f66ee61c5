"""How Claude is set up here: configuration, the environment of its CLI, and where that keeps its conversations."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from jupyter_ahp.agents.base import Json
from jupyter_ahp.agents.processes import environment

StopEnds: TypeAlias = Literal["turn", "query"]

IDLE_SECONDS: Final = 300.0
EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")

# What a Claude Code session says to the programs that it runs about itself: a server that was started from one has it.
_OF_A_SESSION: Final = (
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_AGENT_SDK_CLIENT_APP",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_REMOTE",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
)

_SIGNED_IN_BY: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """`ClaudeAgent` of the configuration."""

    cli_path: str = ""
    """The `claude` program; "": the one in the SDK's wheel, else the one on PATH."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the CLI, over those of the server."""
    model: str = ""
    """What a chat that names none runs on; "": what the CLI chooses."""
    permission_mode: str = "default"
    stop_ends: StopEnds = "turn"
    """What a stop ends: the turn (B8), or the CLI with all that it runs (B10)."""
    idle_seconds: float = IDLE_SECONDS
    """How long a CLI is kept that nothing is asked of."""

    def environment(self) -> dict[str, str]:
        """What the CLI is given. Proxies, certificates and keys come from the server's; nothing of a Claude session that
        the server was started in."""
        env = environment()
        for name in _OF_A_SESSION:
            env.pop(name, None)
        return {**env, "CLAUDE_CODE_ENTRYPOINT": "sdk-py", **self.env}

    def variable(self, name: str) -> str:
        return self.env.get(name) or os.environ.get(name) or ""

    @property
    def home(self) -> Path:
        """Where the CLI keeps its login and its conversations."""
        configured = self.variable("CLAUDE_CONFIG_DIR")
        return Path(configured) if configured else Path(self.variable("HOME") or Path.home()) / ".claude"

    def cli(self) -> str | None:
        """The path of the CLI, if there is one. Starts nothing."""
        if self.cli_path:
            return shutil.which(os.path.expanduser(self.cli_path))
        spec = importlib.util.find_spec("claude_agent_sdk")
        if spec is not None and spec.origin is not None:
            name = "claude.exe" if os.name == "nt" else "claude"
            bundled = Path(spec.origin).with_name("_bundled") / name
            if bundled.is_file():
                return str(bundled)
        return shutil.which("claude", path=self.environment().get("PATH"))

    @property
    def signed_in(self) -> bool | None:
        """Whether there is something to sign in with: a variable, or a login of Claude Code; None where that cannot be
        seen (macOS keeps it in its keychain)."""
        if any(self.variable(name) for name in _SIGNED_IN_BY):
            return True
        if (self.home / ".credentials.json").is_file() or _says_how(self.home / "settings.json"):
            return True
        return None if sys.platform == "darwin" else False

    def schema(self, values: Mapping[str, Any]) -> Json:
        """The session's settings (AHP `SessionConfigSchema`)."""
        modes = _modes()
        default = self.permission_mode if self.permission_mode in modes else "default"
        return {
            "type": "object",
            "properties": {
                "permissionMode": {
                    "type": "string",
                    "title": "Mode",
                    "description": "What Claude may do, and asks before it does.",
                    "enum": list(modes),
                    "enumLabels": [label for label, _ in modes.values()],
                    "enumDescriptions": [description for _, description in modes.values()],
                    "default": default,
                    "sessionMutable": True,
                },
                "effort": {
                    "type": "string",
                    "title": "Effort",
                    "description": "How much Claude thinks before it answers; models differ in what they take.",
                    "enum": ["default", *EFFORTS],
                    "enumLabels": ["As the model has it", "Low", "Medium", "High", "Very high", "Highest"],
                    "default": "default",
                    "sessionMutable": True,
                },
            },
        }


def _modes() -> dict[str, tuple[str, str]]:
    modes = {
        "default": ("Ask", "Asks before it changes files or runs commands."),
        "acceptEdits": ("Edit without asking", "Changes files in the session's directories without asking."),
        "plan": ("Plan", "Reads and plans; changes nothing until you approve its plan."),
        "dontAsk": ("Never ask", "Does only what your rules allow; everything else is denied unasked."),
    }
    if (
        sys.platform == "win32" or os.geteuid() != 0 or os.environ.get("IS_SANDBOX")
    ):  # the CLI refuses it to root
        modes["bypassPermissions"] = ("Allow everything", "Never asks. Only where nothing can be broken.")
    return modes


def _says_how(settings: Path) -> bool:
    """Whether Claude Code's own settings name a helper that gives a key, or variables for its environment."""
    try:
        text = settings.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "apiKeyHelper" in text or any(name in text for name in _SIGNED_IN_BY)
