"""Claude, by the Claude Agent SDK and its CLI (extra `claude`). B3 to B13.

| module | what |
|---|---|
| `agent` | the agent: probe, settings, commands, catalogue |
| `settings` | configuration, the environment of the CLI, where it keeps its conversations |
| `conversation` | one chat: its turns, steering, stops |
| `runs` | a turn of the host's beside what the CLI was handed in it |
| `line`, `private` | one running CLI behind the SDK's client |
| `prompts` | a message as the CLI takes it |
| `reporter`, `calls` | the CLI's messages into the sink |
| `permissions`, `questions` | what people are asked |
| `tools` | the host's tools for the model |
| `workers` | subagents and background work |
| `transcript`, `sessions` | conversations read back from the CLI's files |
| `failures` | errors in words |

Only `agent`, `settings`, `sessions`, `transcript` and `calls` are imported before the first message; none of them needs
the SDK.
"""

from jupyter_ahp.agents.claude.agent import ClaudeAgent

__all__ = ["ClaudeAgent"]
