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

from jupyter_ahp.agents.base import Confirmation, Json, TurnOver
from jupyter_ahp.agents.claude import calls, questions
from jupyter_ahp.agents.claude.reporter import Entry, Registry

ONCE: Final = "allow-once"
SESSION: Final = "allow-session"
ALWAYS: Final = "allow-always"
DENY: Final = "deny"

STOPPED: Final = "The person stopped this."
DENIED: Final = (
    "The person did not allow this. Do not try to do the same in another way; ask what to do instead."
)

_AFTER_PLAN: Final = {
    "edit": ("Approve, edit without asking", "acceptEdits"),
    "ask": ("Approve, ask before each edit", "default"),
}


async def ask(
    name: str, given: dict[str, Any], context: ToolPermissionContext, registry: Registry
) -> PermissionResult:
    """The SDK's `can_use_tool`: waits for a person, without a time limit."""
    entry = await registry.known(context.tool_use_id or "")
    if entry.tool is not None:
        return PermissionResultAllow()  # a tool of the host's asks by itself
    if entry.soon is not None:
        entry.soon.cancel()
    try:
        if name == "AskUserQuestion":
            return await questions.ask(entry, given)
        if name == "ExitPlanMode":
            return await _approve_plan(entry, given, registry)
        return await _approve(entry, name, given, context)
    except TurnOver:
        return PermissionResultDeny(message=STOPPED)


async def _approve(
    entry: Entry, name: str, given: dict[str, Any], context: ToolPermissionContext
) -> PermissionResult:
    offered = _offered(name, given, context.suggestions)
    words = calls.shown(name, given)
    entry.begun = True
    answer = await entry.call.confirm(
        _because(words.doing, context),
        title=_title(name, words.title),
        tool_input=calls.input_of(name, given),
        options=_options(offered),
        edits=await asyncio.to_thread(calls.edits, name, given),
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
    _, updates = offered.get(answer.option or ONCE, ("", None))
    return PermissionResultAllow(updated_input=updated, updated_permissions=updates)


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


def _offered(
    name: str, given: Mapping[str, Any], suggestions: Sequence[PermissionUpdate]
) -> dict[str, tuple[str, list[PermissionUpdate]]]:
    """What can be allowed beyond this once: for the session, and for ever where the SDK suggests it."""
    if not suggestions:
        rule = PermissionRuleValue(tool_name=name)
        if name in ("Bash", "PowerShell"):
            rule = PermissionRuleValue(tool_name=name, rule_content=str(given.get("command", "")))
        suggestions = [PermissionUpdate(type="addRules", rules=[rule], behavior="allow")]
    here = [dataclasses.replace(update, destination="session") for update in suggestions]
    what = ", ".join(dict.fromkeys(_what(update) for update in suggestions))
    offered = {SESSION: (f"Allow {what} in this session", here)}
    if any(update.destination not in (None, "session") for update in suggestions):
        offered[ALWAYS] = (f"Always allow {what} in this project", list(suggestions))
    return offered


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


def _options(offered: Mapping[str, tuple[str, list[PermissionUpdate]]]) -> list[Json]:
    more = [{"id": name, "label": label, "kind": "approve"} for name, (label, _) in offered.items()]
    return [
        {"id": ONCE, "label": "Allow once", "kind": "approve"},
        *more,
        {"id": DENY, "label": "Deny", "kind": "deny"},
    ]


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
