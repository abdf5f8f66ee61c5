"""What Claude may do: its questions about a tool become the call's own, with what the SDK suggests as options."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from claude_agent_sdk import (
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ToolPermissionContext,
)
from claude_agent_sdk.types import PermissionRuleValue

from jupyter_ahp.agents.base import Approvals, Confirmation, Json, TurnOver
from jupyter_ahp.agents.claude import calls, questions
from jupyter_ahp.agents.claude.reporter import Entry, Registry

ONCE: Final = "allow-once"
SESSION: Final = "allow-session"
ALWAYS: Final = "allow-always"
DENY: Final = "deny"

_EVERYTHING: Final = "claude"
"""Granted only by the setting that allows everything: nobody is asked for this by name."""

STOPPED: Final = "The person stopped this."
DENIED: Final = (
    "The person did not allow this. Do not try to do the same in another way; ask what to do instead."
)

_AFTER_PLAN: Final = {
    "edit": ("Approve, edit without asking", "acceptEdits"),
    "ask": ("Approve, ask before each edit", "default"),
}


async def ask(
    name: str,
    given: dict[str, Any],
    context: ToolPermissionContext,
    registry: Registry,
    approvals: Approvals,
) -> PermissionResult:
    """The SDK's `can_use_tool`: waits for a person, without a time limit.

    What is allowed for the session is kept by the host (`approvals`) and not told to the CLI, which asks again: so it
    outlives the CLI, and is forgotten when somebody says so.
    """
    entry = await registry.known(context.tool_use_id or "")
    if entry is None:
        return PermissionResultDeny(message=STOPPED)
    if entry.tool is not None:
        return PermissionResultAllow()  # a tool of the host's asks by itself
    if entry.soon is not None:
        entry.soon.cancel()
    try:
        if name == "AskUserQuestion":
            return await questions.ask(entry, given)
        if name == "ExitPlanMode":
            return await _approve_plan(entry, given, registry)
        return await _approve(entry, name, given, context, approvals)
    except TurnOver:
        return PermissionResultDeny(message=STOPPED)


async def _approve(
    entry: Entry, name: str, given: dict[str, Any], context: ToolPermissionContext, approvals: Approvals
) -> PermissionResult:
    words = calls.shown(name, given)
    suggestions = context.suggestions or _suggestions(name, given)
    keys, rest = _keys(suggestions), _session(suggestions)

    def granted() -> bool:
        return approvals.granted(_EVERYTHING) or (bool(keys) and all(map(approvals.granted, keys)))

    def look() -> None:
        if granted():
            entry.call.waive()

    entry.begun = True
    if granted():
        entry.call.run(words.doing, tool_input=calls.input_of(name, given), by_setting=True)
        return PermissionResultAllow(updated_permissions=rest or None)
    edits = await asyncio.to_thread(calls.edits, name, given)
    with approvals.watched(look):
        answer = await entry.call.confirm(
            _because(words.doing, context),
            title=_title(name, words.title),
            tool_input=calls.input_of(name, given),
            options=_options(suggestions),
            edits=edits,
            editable=name in ("Bash", "PowerShell"),
        )
    if not answer.approved:
        return _denied(answer)
    updated = None
    if answer.edited_input is not None:
        try:
            updated = calls.edited(name, given, answer.edited_input)
        except ValueError as error:
            entry.call.failed(words.failed, error=f"The edited input cannot be used: {error}")
            return PermissionResultDeny(
                message=f"A person edited the input so that it cannot be used: {error}"
            )
    if answer.option == SESSION:
        for key in keys:
            approvals.allow(key)
    updates = {SESSION: rest, ALWAYS: suggestions}.get(answer.option or ONCE)
    return PermissionResultAllow(updated_input=updated, updated_permissions=updates or None)


async def _approve_plan(entry: Entry, given: Mapping[str, Any], registry: Registry) -> PermissionResult:
    entry.begun = True
    plan = calls.plan_in({**(entry.given or {}), **given}) or registry.plan
    options = [{"id": name, "label": label, "kind": "approve"} for name, (label, _) in _AFTER_PLAN.items()]
    answer = await entry.call.confirm(
        plan or "Claude has a plan and asks to go ahead.",
        title="Go ahead with this plan?",
        options=[*options, {"id": DENY, "label": "Keep planning", "kind": "deny"}],
    )
    if not answer.approved:
        return PermissionResultDeny(
            message=answer.reason or "The person wants to go on planning. Ask what to change."
        )
    _, mode = _AFTER_PLAN.get(answer.option or "ask", _AFTER_PLAN["ask"])
    update = PermissionUpdate(type="setMode", mode="acceptEdits" if mode == "acceptEdits" else "default")
    return PermissionResultAllow(updated_permissions=[dataclasses.replace(update, destination="session")])


def _denied(answer: Confirmation) -> PermissionResultDeny:
    return PermissionResultDeny(message=answer.reason or DENIED)


def _suggestions(name: str, given: Mapping[str, Any]) -> list[PermissionUpdate]:
    """What the SDK suggests where it suggests nothing: this tool, of a shell this command."""
    rule = PermissionRuleValue(tool_name=name)
    if name in ("Bash", "PowerShell"):
        rule = PermissionRuleValue(tool_name=name, rule_content=str(given.get("command", "")))
    return [PermissionUpdate(type="addRules", rules=[rule], behavior="allow")]


def _keys(suggestions: Sequence[PermissionUpdate]) -> list[str]:
    """What is allowed for the session, as the host keeps it. A mode is a setting, and kept as one."""
    keys: list[str] = []
    for update in suggestions:
        keys += [f"claude {rule.tool_name}({rule.rule_content or ''})" for rule in update.rules or ()]
        keys += [f"claude directory {directory}" for directory in update.directories or ()]
    return keys


def _session(suggestions: Sequence[PermissionUpdate]) -> list[PermissionUpdate]:
    """What of them the CLI has to be told for the session: directories, and modes."""
    return [
        dataclasses.replace(update, destination="session")
        for update in suggestions
        if update.type in ("setMode", "addDirectories")
    ]


def _what(update: PermissionUpdate) -> str:
    match update.type:
        case "setMode":
            return "all edits" if update.mode == "acceptEdits" else f"everything that “{update.mode}” allows"
        case "addDirectories":
            return "access to " + ", ".join(update.directories or ())
        case _:
            rules = [
                rule.rule_content or calls.title_of(rule.tool_name).lower() for rule in update.rules or ()
            ]
            return ", ".join(f"“{rule}”" for rule in rules) or "this"


def _options(suggestions: Sequence[PermissionUpdate]) -> list[Json]:
    """Once, for the session, and for ever where the SDK would keep it, or no."""
    what = ", ".join(dict.fromkeys(_what(update) for update in suggestions))
    options = [
        {"id": ONCE, "label": "Allow once", "kind": "approve"},
        {"id": SESSION, "label": f"Allow {what} in this session", "kind": "approve"},
    ]
    if any(update.destination not in (None, "session") for update in suggestions):
        options.append({"id": ALWAYS, "label": f"Always allow {what} in this project", "kind": "approve"})
    return [*options, {"id": DENY, "label": "Deny", "kind": "deny"}]


def _title(name: str, title: str) -> str:
    asks = {
        "Bash": "Run this command?",
        "PowerShell": "Run this command?",
        "Edit": "Edit this file?",
        "MultiEdit": "Edit this file?",
        "NotebookEdit": "Edit this notebook?",
        "Read": "Read this file?",
        "WebFetch": "Fetch this page?",
        "Write": "Write this file?",
    }
    return asks.get(name, f"Allow “{title}”?")


def _because(doing: str, context: ToolPermissionContext) -> str:
    why = context.decision_reason or (
        f"Outside the session's directories: {context.blocked_path}" if context.blocked_path else ""
    )
    return f"{doing}. {why}" if why else doing
