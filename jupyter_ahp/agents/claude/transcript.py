"""A conversation read back from the CLI's file, as turns. B12, B13.

A turn begins at every prompt; a prompt that the CLI took in at a tool call stays in its turn, as does the end that a stop
put to one. Each turn has the uuid of its last entry: there it can be forked and rewound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jupyter_ahp.agents.base import RESUME_POINT, Json
from jupyter_ahp.agents.claude import calls, sessions
from jupyter_ahp.agents.claude.prompts import GO_ON
from jupyter_ahp.protocol.meta import STEERING

INTERRUPTED: Final = "[Request interrupted by user"
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_PRINTED: Final = re.compile(r"<local-command-std(?:out|err)>(.*?)</local-command-std(?:out|err)>", re.DOTALL)
_SUMMARY: Final = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)


def turns(path: Path) -> list[Json]:
    """The turns of a conversation, oldest first. Raises `OSError`."""
    reading = _Reading()
    for entry in _chain(sessions.entries(path)):
        reading.take(entry)
    return reading.ended()


def _chain(entries: Iterable[Json]) -> list[Json]:
    """What the conversation is now: from its last entry back to the first. What a rewind left behind is not in it."""
    by_id: dict[str, Json] = {}
    leaf: Json | None = None
    for entry in entries:
        if isinstance(entry.get("uuid"), str) and not entry.get("isSidechain"):
            by_id[entry["uuid"]] = leaf = entry
    chain: list[Json] = []
    seen: set[str] = set()
    while leaf is not None and leaf["uuid"] not in seen:
        seen.add(leaf["uuid"])
        chain.append(leaf)
        leaf = by_id.get(str(leaf.get("parentUuid") or leaf.get("logicalParentUuid")))
    return chain[::-1]


class _Reading:
    """Makes turns of entries, one after the other."""

    def __init__(self) -> None:
        self._turns: list[Json] = []
        self._turn: Json | None = None
        self._calls: dict[str, tuple[Json, Mapping[str, Any]]] = {}
        self._count = 0
        self._last = ""

    def ended(self) -> list[Json]:
        self._end()
        return self._turns

    def take(self, entry: Json) -> None:
        match entry.get("type"):
            case "user":
                self._user(entry)
            case "assistant":
                self._assistant(entry)
            case "attachment":
                self._attachment(entry)
            case "system" if entry.get("subtype") == "compact_boundary":
                self._compacted(entry.get("compactMetadata") or {})
        if self._turn is not None:
            self._turn[RESUME_POINT] = entry["uuid"]
            self._last = str(entry.get("timestamp") or self._last)

    # ── what a person said ───────────────────────────────────────────────────────────────────────────────────
    def _user(self, entry: Json) -> None:
        text = sessions.said(entry)
        if text is None:
            self._results(entry)
        elif text.startswith(INTERRUPTED):
            if self._turn is not None:
                self._turn["state"] = "cancelled"
        elif (printed := _PRINTED.search(text)) is not None:
            self._append("markdown", printed[1].strip())
        elif text == GO_ON and self._turn is not None:
            self._go_on()
        elif entry.get("isQueuedCommand"):
            self._steering(text, entry)
        else:
            self._begin(text, entry)

    def _go_on(self) -> None:
        """The turn had failed, and was resumed."""
        assert self._turn is not None, "asked before"
        self._turn["state"] = "complete"
        self._turn["responseParts"] = [
            part for part in self._turn["responseParts"] if part["kind"] != "error"
        ]

    def _begin(self, text: str, entry: Json) -> None:
        self._end()
        origin = "user"
        if (command := _COMMAND.search(text)) is not None:
            arguments = _ARGUMENTS.search(text)
            text = f"{command[1].strip()} {arguments[1].strip() if arguments else ''}".strip()
        elif (entry.get("origin") or {}).get("kind") == "task-notification":
            summary = _SUMMARY.search(text)
            text, origin = (
                (summary[1].strip() if summary else "Background work has come back."),
                "systemNotification",
            )
        self._turn = {
            "id": entry["uuid"],
            "startedAt": str(entry.get("timestamp") or ""),
            "message": {"text": text, "origin": {"kind": origin}},
            "responseParts": [],
            "state": "complete",
        }
        self._calls = {}

    def _attachment(self, entry: Json) -> None:
        attachment = entry.get("attachment") or {}
        if attachment.get("type") != "queued_command" or attachment.get("isMeta"):
            return
        prompt = attachment.get("prompt")
        if isinstance(prompt, list):
            texts = [
                block.get("text")
                for block in prompt
                if isinstance(block, dict) and block.get("type") == "text"
            ]
            prompt = texts[-1] if texts else None
        if isinstance(prompt, str) and not prompt.startswith("<task-notification>"):
            self._steering(prompt, entry)

    def _steering(self, text: str, entry: Json) -> None:
        """It went into the turn that ran: shown as the host shows one that it saw."""
        if self._turn is None:
            self._begin(text, entry)
            return
        message = {"text": text, "origin": {"kind": "user"}}
        self._part({"kind": "systemNotification", "content": text, "_meta": {STEERING: message}})

    # ── what was answered ────────────────────────────────────────────────────────────────────────────────────
    def _assistant(self, entry: Json) -> None:
        message = entry.get("message") or {}
        blocks = [block for block in message.get("content") or () if isinstance(block, dict)]
        if entry.get("isApiErrorMessage"):
            self._failed(calls.words(blocks))
            return
        for block in blocks:
            match block.get("type"):
                case "text":
                    self._append("markdown", str(block.get("text") or ""))
                case "thinking":
                    self._append("reasoning", str(block.get("thinking") or ""))
                case "tool_use":
                    self._call(block)

    def _call(self, block: Json) -> None:
        given = block.get("input") if isinstance(block.get("input"), dict) else {}
        name = str(block.get("name"))
        words = calls.shown(name, given or {})
        call: Json = {
            "toolCallId": str(block.get("id")),
            "toolName": name,
            "displayName": words.title,
            "status": "cancelled",
            "invocationMessage": words.doing,
            "toolInput": calls.input_of(name, given or {}),
            "reason": "skipped",
        }
        if words.meta is not None:
            call["_meta"] = words.meta
        self._calls[call["toolCallId"]] = (call, given or {})
        self._part({"kind": "toolCall", "toolCall": call})

    def _results(self, entry: Json) -> None:
        content = (entry.get("message") or {}).get("content")
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict) or block.get("type") != "tool_result":
                continue
            call, given = self._calls.get(str(block.get("tool_use_id")), (None, {}))
            if call is None:
                continue
            words = calls.shown(call["toolName"], given)
            failed = bool(block.get("is_error"))
            call.pop("reason", None)
            call |= {
                "status": "completed",
                "confirmed": "not-needed",
                "success": not failed,
                "pastTenseMessage": words.failed if failed else words.did,
            }
            shown = calls.result(call["toolName"], given, block.get("content"), entry.get("toolUseResult"))
            if shown:
                call["content"] = shown
            if failed:
                call["error"] = {"message": calls.error_of(block.get("content"))}

    def _failed(self, text: str) -> None:
        if self._turn is not None:
            self._turn["state"] = "error"
            error = {"errorType": "claude", "message": text}
            self._part({"kind": "error", "error": error, "resumable": True})

    def _compacted(self, numbers: Mapping[str, Any]) -> None:
        if self._turn is not None:
            before, after = numbers.get("preTokens"), numbers.get("postTokens")
            tokens = f" {before:,} tokens became {after:,}." if before and after else ""
            self._part(
                {
                    "kind": "systemNotification",
                    "content": f"The conversation was compacted for the model.{tokens}",
                }
            )

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────────
    def _append(self, kind: str, text: str) -> None:
        if self._turn is None or not text:
            return
        parts = self._turn["responseParts"]
        if parts and parts[-1]["kind"] == kind:
            parts[-1]["content"] += f"\n\n{text}"
        else:
            self._count += 1
            self._part({"kind": kind, "id": f"p{self._count}", "content": text})

    def _part(self, part: Json) -> None:
        if self._turn is not None:
            self._turn["responseParts"].append(part)

    def _end(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn["duration"] = _between(turn["startedAt"], self._last)
        self._turns.append(turn)


def _between(began: str, ended: str) -> int:
    try:
        span = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    except ValueError:
        return 0
    return max(0, round(span.total_seconds() * 1000))
