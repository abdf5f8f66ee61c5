"""Changeset channel (AHP 5.5)."""

from __future__ import annotations

from ._base import Action, State, assign, entries, find, on, reducer, remove, replaced, setter, upsert


def _error_of(action: Action) -> object:
    """An error counts only beside the status that means one."""
    return action.get("error") if action["status"] == "error" else None


def _status_changed(state: State, action: Action) -> State:
    return assign(state, status=action["status"], error=_error_of(action))


def _files_review_changed(state: State, action: Action) -> State:
    named, reviewed = action["files"], action["reviewed"]
    files = [
        assign(file, reviewed=reviewed) if isinstance(file, dict) and file.get("id") in named else file
        for file in entries(state, "files")
    ]
    changed = any(new is not old for new, old in zip(files, entries(state, "files"), strict=True))
    return {**state, "files": files} if changed else state


def _content_changed(state: State, action: Action) -> State:
    """`state.error` is not this action's business since 0.9."""
    operations = action.get("operations")
    return {**state, "files": action["files"], **({} if operations is None else {"operations": operations})}


def _operation_status_changed(state: State, action: Action) -> State:
    operations = entries(state, "operations")
    index = find(operations, "id", action["operationId"])
    if index < 0:
        return state
    operation = assign(operations[index], status=action["status"], error=_error_of(action))
    return {**state, "operations": replaced(operations, index, operation)}


reduce = reducer(
    {
        "changeset/statusChanged": on(_status_changed, status=str),
        "changeset/fileSet": on(
            lambda state, action: upsert(state, "files", action["file"], "id"), file=dict
        ),
        "changeset/fileRemoved": on(
            lambda state, action: remove(state, "files", action["fileId"], "id"), fileId=str
        ),
        "changeset/filesReviewChanged": on(_files_review_changed, files=list, reviewed=bool),
        "changeset/contentChanged": on(_content_changed, files=list),
        "changeset/operationsChanged": on(setter("operations")),
        "changeset/operationStatusChanged": on(_operation_status_changed, operationId=str, status=str),
        "changeset/cleared": on(
            lambda state, _: {**state, "files": []} if entries(state, "files") else state
        ),
    }
)
