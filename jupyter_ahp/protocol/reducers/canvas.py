"""Canvas channel (AHP 5.2): one action, which replaces the state whole."""

from __future__ import annotations

from ._base import Action, State, on, reducer


def _state_changed(_state: State, action: Action) -> State:
    canvas: State = action["canvas"]
    return canvas


reduce = reducer({"canvas/stateChanged": on(_state_changed, canvas=dict)})
