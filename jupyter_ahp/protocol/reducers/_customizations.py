"""The customizations of a session: plugins, directories and MCP servers, and what is in them (AHP 3.1, 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ._base import (
    Action,
    Reducer,
    Rule,
    State,
    assign,
    entries,
    find,
    on,
    remove,
    removed,
    replaced,
    setter,
    upsert,
)

_Change = Callable[[State, Action], State]


def _change(state: State, action: Action, change: _Change, *, only: str | None = None) -> State:
    """Apply `change` to the top-level entry of the action's `id`, else to the first child of that id.

    `only` restricts it to one type: a top-level entry of that id and another type ends the search.
    """
    wanted = action["id"]
    customizations = entries(state, "customizations")
    index = find(customizations, "id", wanted)
    if index >= 0:
        old = customizations[index]
        new = change(old, action) if only in (None, old.get("type")) else old
        return state if new is old else {**state, "customizations": replaced(customizations, index, new)}
    for index, container in enumerate(customizations):
        children = entries(container, "children") if isinstance(container, dict) else []
        for at, child in enumerate(children):
            if (
                not isinstance(child, dict)
                or child.get("id") != wanted
                or only not in (None, child.get("type"))
            ):
                continue
            new = change(child, action)
            if new is child:
                return state
            parent = {**container, "children": replaced(children, at, new)}
            return {**state, "customizations": replaced(customizations, index, parent)}
    return state


def _toggled(entry: State, action: Action) -> State:
    enablement = action["enablement"]
    if entry.get("type") in ("plugin", "mcpServer"):
        return assign(entry, enablement=enablement or None)
    first = enablement[0] if enablement else None
    enabled = first.get("enabled") if isinstance(first, dict) else None
    return assign(entry, enabled=True if enabled is None else enabled)


def _removed(state: State, action: Action) -> State:
    after = remove(state, "customizations", action["id"], "id")
    if after is not state:
        return after
    customizations = entries(state, "customizations")
    for index, container in enumerate(customizations):
        children = entries(container, "children") if isinstance(container, dict) else []
        at = find(children, "id", action["id"])
        if at >= 0:
            parent = {**container, "children": removed(children, at)}
            return {**state, "customizations": replaced(customizations, index, parent)}
    return state


def _server_state(entry: State, action: Action) -> State:
    return assign(entry, state=action["state"], channel=action.get("channel"))


def _server_background(entry: State, _action: Action) -> State:
    state = entry.get("state")
    if not isinstance(state, dict) or state.get("kind") != "starting" or state.get("blocking") is not True:
        return entry
    return {**entry, "state": {**state, "blocking": False}}


def _server_becomes(kind: str) -> _Change:
    return lambda entry, _action: assign(entry, state={"kind": kind}, channel=None)


def _on_server(change: _Change) -> Reducer:
    return lambda state, action: _change(state, action, change, only="mcpServer")


CUSTOMIZATION_RULES: Mapping[str, Rule] = {
    "session/customizationsChanged": on(setter("customizations"), customizations=list),
    "session/customizationToggled": on(
        lambda state, action: _change(state, action, _toggled), id=str, enablement=list
    ),
    "session/customizationUpdated": on(
        lambda state, action: upsert(state, "customizations", action["customization"], "id"),
        customization=dict,
    ),
    "session/customizationRemoved": on(_removed, id=str),
    "session/mcpServerStateChanged": on(_on_server(_server_state), id=str, state=dict),
    "session/mcpServerStartRequested": on(_on_server(_server_becomes("starting")), id=str),
    "session/mcpServerStopRequested": on(_on_server(_server_becomes("stopped")), id=str),
    "session/mcpServerBackgroundRequested": on(_on_server(_server_background), id=str),
}
