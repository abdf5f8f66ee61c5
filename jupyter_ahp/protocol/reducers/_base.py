"""What all reducers share: the table that finds an action's handler, and changes to plain JSON that copy no more than they touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

State: TypeAlias = dict[str, Any]
Action: TypeAlias = Mapping[str, Any]
Reducer: TypeAlias = Callable[[State, Action], State]


@dataclass(frozen=True, slots=True)
class Rule:
    """What an action does, and the fields it does nothing without."""

    handler: Reducer
    required: tuple[tuple[str, type], ...]


def on(handler: Reducer, **required: type) -> Rule:
    """The rule of an action whose `required` fields have these JSON types."""
    return Rule(handler, tuple(required.items()))


def reducer(rules: Mapping[str, Rule]) -> Reducer:
    """A reducer from its table. Unknown actions, and malformed ones, give the state back as it is."""

    def reduce(state: State, action: Action) -> State:
        kind = action.get("type")
        rule = rules.get(kind) if isinstance(kind, str) else None
        if rule is None:
            return state
        for name, expected in rule.required:
            if not isinstance(action.get(name), expected):
                return state
        return rule.handler(state, action)

    return reduce


def _same(old: object, new: object) -> bool:
    """Equal without looking deep: what makes an assignment no change."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    return old == new if isinstance(new, str | int | float) else not old and not new


def assign(state: State, /, **changes: Any) -> State:
    """`state` with these keys; None removes one. The very same object if nothing changes."""
    return merge(state, changes)


def merge(state: State, changes: Mapping[str, Any]) -> State:
    """As `assign`, for keys that are data."""
    if all(_same(state.get(key), value) for key, value in changes.items()):
        return state
    result = {**state, **changes}
    for key, value in changes.items():
        if value is None:
            del result[key]
    return result


def setter(*names: str) -> Reducer:
    """A handler that copies these fields of the action; an absent one removes the key."""
    return lambda state, action: merge(state, {name: action.get(name) for name in names})


def entries(state: Mapping[str, Any], key: str) -> list[Any]:
    """The list under `key`; an empty one where there is none. Not to be changed."""
    value = state.get(key)
    return value if isinstance(value, list) else []


def find(items: list[Any], key: str, value: object) -> int:
    """Where the first entry with this `key` stands, or -1."""
    for index, item in enumerate(items):
        if isinstance(item, dict) and item.get(key) == value:
            return index
    return -1


def key_of(item: object, key: str) -> str | None:
    """The string under `key` of an entry; None for anything that has none."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else None


def replaced(items: list[Any], index: int, item: Any) -> list[Any]:
    """A copy with another item at `index`; appended if `index` is -1."""
    if index < 0:
        return [*items, item]
    copy = items.copy()
    copy[index] = item
    return copy


def removed(items: list[Any], index: int) -> list[Any]:
    """A copy without the item at `index`."""
    return items[:index] + items[index + 1 :]


def upsert(state: State, key: str, item: State, by: str) -> State:
    """`item` in place of the entry of `state[key]` with the same `by`, else behind the last."""
    items = entries(state, key)
    return {**state, key: replaced(items, find(items, by, item.get(by)), item)}


def remove(state: State, key: str, value: object, by: str) -> State:
    """Without the entry of `state[key]` whose `by` is `value`; no such entry, no change. An emptied list stays."""
    items = entries(state, key)
    index = find(items, by, value)
    return state if index < 0 else {**state, key: removed(items, index)}


def append_unique(state: State, key: str, value: str) -> State:
    """With `value` in the list `state[key]`, once."""
    items = entries(state, key)
    return state if value in items else {**state, key: [*items, value]}


def discard(state: State, key: str, value: str) -> State:
    """Without `value` in the list `state[key]`. An emptied list stays."""
    items = entries(state, key)
    return {**state, key: [item for item in items if item != value]} if value in items else state


def status_of(state: Mapping[str, Any]) -> int:
    """The status bits; 0 where a partial state has none."""
    status = state.get("status")
    return status if isinstance(status, int) else 0


def mark(bit: int, field: str) -> Reducer:
    """A handler that sets or clears one status bit as the action's boolean `field` says."""

    def handler(state: State, action: Action) -> State:
        status = status_of(state)
        return assign(state, status=status | bit if action[field] else status & ~bit)

    return handler


def merge_config(state: State, action: Action) -> State:
    """`root/configChanged`, `session/configChanged`: merge into, or replace, the values of a config that is there."""
    config = state.get("config")
    if not isinstance(config, dict):
        return state
    old = config.get("values")
    values = (
        action["config"] if action.get("replace") or not isinstance(old, dict) else old | action["config"]
    )
    return {**state, "config": {**config, "values": values}}
