"""The assistant's own tools: files, a search and a shell, in the chat's directories alone.

Reading runs without asking; writing and running ask, as all tools do (`GuardedTool`). Paths are taken as they are behind all
links, so none leads out of the directories. What cannot be done is told to the model in words.
"""

from __future__ import annotations

from jupyter_ahp.agents.assistant.tools.reading import ListDirectory, ReadFile
from jupyter_ahp.agents.assistant.tools.running import RunCommand
from jupyter_ahp.agents.assistant.tools.searching import SearchFiles
from jupyter_ahp.agents.assistant.tools.workspace import Workspace
from jupyter_ahp.agents.assistant.tools.writing import EditFile, WriteFile
from jupyter_ahp.agents.base import Approvals, Tool

__all__ = ["Workspace", "own_tools"]


def own_tools(workspace: Workspace, approvals: Approvals, *, commands: bool) -> list[Tool]:
    """Those of one turn; none for a chat that works nowhere. `commands`: whether it may run any."""
    if not workspace.directories:
        return []
    tools: list[Tool] = [
        kind(workspace, approvals) for kind in (ReadFile, ListDirectory, SearchFiles, WriteFile, EditFile)
    ]
    return [*tools, RunCommand(workspace, approvals)] if commands else tools
