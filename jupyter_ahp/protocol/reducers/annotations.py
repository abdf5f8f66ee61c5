"""Annotations channel (AHP 5.6). That one entry at least must remain is for the host to hold, not for the reducer."""

from __future__ import annotations

from collections.abc import Callable

from ._base import Action, State, entries, find, merge, on, reducer, remove, replaced, upsert

_UPDATABLE = ("origin", "resource", "range", "resolved")


def _on_annotation(change: Callable[[State, Action], State]) -> Callable[[State, Action], State]:
    """A handler that changes the annotation named by `annotationId`, if there is one."""

    def handler(state: State, action: Action) -> State:
        annotations = entries(state, "annotations")
        index = find(annotations, "id", action["annotationId"])
        if index < 0:
            return state
        changed = change(annotations[index], action)
        if changed is annotations[index]:
            return state
        return {**state, "annotations": replaced(annotations, index, changed)}

    return handler


def _update(annotation: State, action: Action) -> State:
    return merge(annotation, {key: action[key] for key in _UPDATABLE if action.get(key) is not None})


def _set(state: State, action: Action) -> State:
    return upsert(state, "annotations", action["annotation"], "id")


def _removed(state: State, action: Action) -> State:
    return remove(state, "annotations", action["annotationId"], "id")


_entry_set = _on_annotation(lambda annotation, action: upsert(annotation, "entries", action["entry"], "id"))
_entry_removed = _on_annotation(
    lambda annotation, action: remove(annotation, "entries", action["entryId"], "id")
)

reduce = reducer(
    {
        "annotations/set": on(_set, annotation=dict),
        "annotations/updated": on(_on_annotation(_update), annotationId=str),
        "annotations/removed": on(_removed, annotationId=str),
        "annotations/entrySet": on(_entry_set, annotationId=str, entry=dict),
        "annotations/entryRemoved": on(_entry_removed, annotationId=str, entryId=str),
    }
)
