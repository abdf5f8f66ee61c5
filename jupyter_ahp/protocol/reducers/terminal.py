"""Terminal channel (AHP 5.1)."""

from __future__ import annotations

from ._base import Action, State, assign, entries, find, on, reducer, replaced, setter


def _data(state: State, action: Action) -> State:
    """Output goes to the command that runs, else to the unclassified text at the end."""
    data = action["data"]
    if not data:
        return state
    content = entries(state, "content")
    tail = content[-1] if content and isinstance(content[-1], dict) else {}
    if tail.get("type") == "command" and not tail.get("isComplete"):
        part = {**tail, "output": f"{tail.get('output') or ''}{data}"}
    elif tail.get("type") == "unclassified":
        part = {**tail, "value": f"{tail.get('value') or ''}{data}"}
    else:
        return {**state, "content": [*content, {"type": "unclassified", "value": data}]}
    return {**state, "content": replaced(content, len(content) - 1, part)}


def _command_executed(state: State, action: Action) -> State:
    part = {
        "type": "command",
        "commandId": action["commandId"],
        "commandLine": action["commandLine"],
        "output": "",
        "timestamp": action.get("timestamp"),
        "isComplete": False,
    }
    return {**state, "content": [*entries(state, "content"), part], "supportsCommandDetection": True}


def _command_finished(state: State, action: Action) -> State:
    content = entries(state, "content")
    index = find(content, "commandId", action["commandId"])
    if index < 0:
        return state
    part = assign(
        content[index],
        isComplete=True,
        exitCode=action.get("exitCode"),
        durationMs=action.get("durationMs"),
    )
    return {**state, "content": replaced(content, index, part)}


def _exited(state: State, action: Action) -> State:
    return {**state, "lifecycle": assign({"status": "exited"}, exitCode=action.get("exitCode"))}


reduce = reducer(
    {
        "terminal/data": on(_data, data=str),
        "terminal/resized": on(setter("cols", "rows"), cols=int, rows=int),
        "terminal/claimed": on(setter("claim"), claim=dict),
        "terminal/titleChanged": on(setter("title"), title=str),
        "terminal/cwdChanged": on(setter("cwd"), cwd=str),
        "terminal/exited": on(_exited),
        "terminal/cleared": on(lambda state, _: {**state, "content": []}),
        "terminal/commandDetectionAvailable": on(
            lambda state, _: assign(state, supportsCommandDetection=True)
        ),
        "terminal/commandExecuted": on(_command_executed, commandId=str, commandLine=str),
        "terminal/commandFinished": on(_command_finished, commandId=str),
    }
)
