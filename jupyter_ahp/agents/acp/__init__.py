"""Agents that speak the Agent Client Protocol (ACP): any of them, each a program that we start and watch.

B1, B2, B3, B17, G4. `known.py` says which are found by themselves; `ACPAgent.servers` names others. An agent is a program
on this machine (`line.py`); a chat is a session of it (`conversation.py`), whose updates become a turn (`turn.py`).
What it asks of us is in `callbacks.py`; the tools that a turn offers reach it as an MCP server (`bridge.py`).

Needs the extra `acp`, which is imported with the first message.
"""

from .agent import ACPAgent
from .known import Server

__all__ = ["ACPAgent", "Server"]
