"""Session channel (AHP 3.2)."""

from __future__ import annotations

from ..status import ACTIVITY_MASK, IN_PROGRESS, INPUT_NEEDED, IS_ARCHIVED, IS_READ
from ._base import (
    Action,
    State,
    append_unique,
    assign,
    discard,
    entries,
    find,
    key_of,
    mark,
    merge,
    merge_config,
    on,
    reducer,
    remove,
    replaced,
    setter,
    status_of,
    upsert,
)
from ._customizations import CUSTOMIZATION_RULES


# ── Chats ────────────────────────────────────────────────────────────────────────────────────────────────────────
def _chat_removed(state: State, action: Action) -> State:
    after = remove(state, "chats", action["chat"], "resource")
    if after is not state and after.get("defaultChat") == action["chat"]:
        del after["defaultChat"]  # `remove` made this copy
    return after


def _chat_updated(state: State, action: Action) -> State:
    chats = entries(state, "chats")
    index = find(chats, "resource", action["chat"])
    if index < 0:
        return state
    changes = {key: value for key, value in action["changes"].items() if key != "resource"}
    updated = merge(chats[index], changes)
    return state if updated is chats[index] else {**state, "chats": replaced(chats, index, updated)}


def _chats_reordered(state: State, action: Action) -> State:
    """Every chat exactly once, else nothing."""
    chats, order = entries(state, "chats"), action["chats"]
    by_uri = {key_of(chat, "resource"): chat for chat in chats}
    exact = len(order) == len(chats) == len(by_uri) and all(isinstance(uri, str) for uri in order)
    if not exact or set(order) != by_uri.keys():
        return state
    reordered = [by_uri[uri] for uri in order]
    return state if reordered == chats else {**state, "chats": reordered}


# ── Directories ──────────────────────────────────────────────────────────────────────────────────────────────────
def _working_directory_replaced(state: State, action: Action) -> State:
    """The replacement stands where the target stood, once; one that already stands before it just drops the target."""
    directories = entries(state, "workingDirectories")
    target, replacement = action["directory"], action["replacement"]
    if target not in directories or target == replacement:
        return state
    at = directories.index(target)
    before, behind = directories[:at], directories[at + 1 :]
    behind = [directory for directory in behind if directory not in (replacement, target)]
    middle = [] if replacement in before else [replacement]
    return {**state, "workingDirectories": [*before, *middle, *behind]}


# ── What waits for somebody ──────────────────────────────────────────────────────────────────────────────────────
def _status_for(state: State, requests: list[State]) -> int:
    """InputNeeded while anything but a client's own tool call waits; else only the bit that it adds to InProgress goes."""
    status = status_of(state)
    if any(isinstance(r, dict) and r.get("kind") != "toolClientExecution" for r in requests):
        return (status & ~ACTIVITY_MASK) | INPUT_NEEDED
    return status & ~(INPUT_NEEDED & ~IN_PROGRESS)


def _input_needed_set(state: State, action: Action) -> State:
    after = upsert(state, "inputNeeded", action["request"], "id")
    return assign(after, status=_status_for(state, after["inputNeeded"]))


def _input_needed_removed(state: State, action: Action) -> State:
    after = remove(state, "inputNeeded", action["id"], "id")
    if after is state:
        return state
    left = after["inputNeeded"]
    return assign(after, inputNeeded=left or None, status=_status_for(state, left))


reduce = reducer(
    {
        "session/ready": on(lambda state, _: assign(state, lifecycle="ready")),
        "session/creationFailed": on(
            lambda state, action: assign(state, lifecycle="failed", creationError=action["error"]), error=dict
        ),
        "session/chatAdded": on(
            lambda state, action: upsert(state, "chats", action["summary"], "resource"), summary=dict
        ),
        "session/chatRemoved": on(_chat_removed, chat=str),
        "session/chatUpdated": on(_chat_updated, chat=str, changes=dict),
        "session/chatsReordered": on(_chats_reordered, chats=list),
        "session/defaultChatChanged": on(setter("defaultChat")),
        "session/titleChanged": on(setter("title"), title=str),
        "session/isReadChanged": on(mark(IS_READ, "isRead"), isRead=bool),
        "session/isArchivedChanged": on(mark(IS_ARCHIVED, "isArchived"), isArchived=bool),
        "session/activityChanged": on(setter("activity")),
        "session/changesetsChanged": on(setter("changesets")),
        "session/configChanged": on(merge_config, config=dict),
        "session/metaChanged": on(setter("_meta")),
        "session/serverToolsChanged": on(
            lambda state, action: assign(state, serverTools=action["tools"]), tools=list
        ),
        "session/activeClientSet": on(
            lambda state, action: upsert(state, "activeClients", action["activeClient"], "clientId"),
            activeClient=dict,
        ),
        "session/activeClientRemoved": on(
            lambda state, action: remove(state, "activeClients", action["clientId"], "clientId"), clientId=str
        ),
        "session/workingDirectorySet": on(
            lambda state, action: append_unique(state, "workingDirectories", action["directory"]),
            directory=str,
        ),
        "session/workingDirectoryRemoved": on(
            lambda state, action: discard(state, "workingDirectories", action["directory"]), directory=str
        ),
        "session/workingDirectoryReplaced": on(_working_directory_replaced, directory=str, replacement=str),
        "session/inputNeededSet": on(_input_needed_set, request=dict),
        "session/inputNeededRemoved": on(_input_needed_removed, id=str),
        **CUSTOMIZATION_RULES,
    }
)
