"""Root channel (AHP 2.2)."""

from __future__ import annotations

from ._base import merge_config, on, reducer, setter

reduce = reducer(
    {
        "root/agentsChanged": on(setter("agents"), agents=list),
        "root/activeSessionsChanged": on(setter("activeSessions"), activeSessions=int),
        "root/terminalsChanged": on(setter("terminals"), terminals=list),
        "root/configChanged": on(merge_config, config=dict),
    }
)
