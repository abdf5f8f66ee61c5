"""What pi reports of a run, told to a turn's sink (AHP 4.3 to 4.7, T9)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

from jupyter_ahp.agents.base import Json, ToolCall, TurnSink
from jupyter_ahp.protocol.meta import COST

from .tools import content_of, meta_of, title_of

log = logging.getLogger(__name__)


class Report:
    """One turn of ours, which is one or more runs of pi's."""

    def __init__(self, sink: TurnSink) -> None:
        self.sink = sink
        self.error: str | None = None
        """What the model's API said, when the last answer is a failure."""
        self.wrote = False
        """Something of an answer came."""
        self.ended: dict[str, asyncio.Future[Json]] = {}
        """By pi's id of a call, what it says at the call's end."""
        self._calls: dict[str, ToolCall] = {}
        self._used: Counter[str] = Counter()
        self._cost = 0.0

    def call(
        self, call_id: str, name: str, title: str | None = None, contributor: Json | None = None
    ) -> ToolCall:
        """The call of this id, begun if it was not."""
        if call_id not in self._calls:
            title = title or title_of(name)
            meta = meta_of(name)
            try:
                call = self.sink.tool(name, title=title, call_id=call_id, contributor=contributor, meta=meta)
            except ValueError:  # some models count their calls anew in each answer
                call = self.sink.tool(name, title=title, contributor=contributor, meta=meta)
            self._calls[call_id] = call
        return self._calls[call_id]

    def end_of(self, call_id: str) -> asyncio.Future[Json]:
        return self.ended.setdefault(call_id, asyncio.get_running_loop().create_future())

    def take(self, event: Json) -> None:
        """An event of pi's RPC mode."""
        match event.get("type"):
            case "message_update":
                self._update(event.get("assistantMessageEvent") or {})
            case "message_end":
                message = event.get("message") or {}
                if message.get("role") == "assistant":
                    self._answered(message)
            case "tool_execution_start":
                self.call(event["toolCallId"], event["toolName"])
            case "tool_execution_update":
                self.call(event["toolCallId"], event["toolName"]).content(
                    content_of(event.get("partialResult") or {})
                )
            case "tool_execution_end":
                end = self.end_of(event["toolCallId"])
                if not end.done():
                    end.set_result(event)
            case "compaction_start":
                self.sink.activity("Summarising what was said so far, to make room")
            case "compaction_end":
                self._compacted(event)
            case "auto_retry_start":
                self.error = None
                attempt, most = event.get("attempt"), event.get("maxAttempts")
                self.sink.activity(f"Trying again ({attempt} of {most}): {_short(event.get('errorMessage'))}")
            case "auto_retry_end":
                self.sink.activity(None)
                if not event.get("success"):
                    self.error = str(event.get("finalError") or self.error or "")
            case "extension_error":
                log.warning("An extension of pi failed: %s", event)
                where = event.get("extensionPath") or "one"
                self.sink.notice(f"An extension of pi failed ({where}): {event.get('error')}")

    def _update(self, update: Json) -> None:
        match update.get("type"):
            case "text_delta":
                self._came()
                self.sink.markdown(update.get("delta") or "")
            case "thinking_delta":
                self._came()
                self.sink.reasoning(update.get("delta") or "")
            case "toolcall_start" | "toolcall_delta":
                self._came()
                call = _call_in(update)
                if call is not None:
                    self.call(call["id"], call["name"]).input(update.get("delta") or "")

    def _came(self) -> None:
        self.wrote = True
        self.sink.activity(None)

    def _answered(self, message: Json) -> None:
        failed = message.get("stopReason") == "error"
        self.error = str(message.get("errorMessage") or "it does not say why") if failed else None
        usage = message.get("usage") or {}
        for name in ("input", "output", "cacheRead", "cacheWrite"):
            self._used[name] += int(usage.get(name) or 0)
        self._cost += float((usage.get("cost") or {}).get("total") or 0)
        if any(self._used.values()):
            meta: Json = {"cacheWriteTokens": self._used["cacheWrite"]} if self._used["cacheWrite"] else {}
            if self._cost:
                meta[COST] = {"amount": round(self._cost, 6), "currency": "USD"}
            self.sink.usage(
                input_tokens=self._used["input"] + self._used["cacheRead"] + self._used["cacheWrite"],
                output_tokens=self._used["output"],
                cache_read_tokens=self._used["cacheRead"] or None,
                model=message.get("model"),
                meta=meta or None,
            )
        if message.get("stopReason") == "length":
            self.sink.notice(
                "The answer stops here: it reached the model's limit of length. Ask it to go on."
            )

    def _compacted(self, event: Json) -> None:
        self.sink.activity(None)
        result = event.get("result")
        if isinstance(result, dict):
            before = result.get("tokensBefore")
            size = f", of {before:,} tokens," if isinstance(before, int) else ""
            self.sink.notice(
                f"What was said so far{size} was summarised to make room. Nothing is lost here in the chat."
            )
        elif event.get("errorMessage"):
            self.sink.notice(f"What was said so far could not be summarised: {event['errorMessage']}")


def _call_in(update: Json) -> Json | None:
    """The call that an update is of, once it has an id and a name."""
    content: list[Any] = (update.get("partial") or {}).get("content") or []
    at = update.get("contentIndex")
    if not isinstance(at, int) or not 0 <= at < len(content):
        return None
    call = content[at]
    return call if isinstance(call, dict) and call.get("id") and call.get("name") else None


def _short(text: object, longest: int = 160) -> str:
    words = " ".join(str(text or "").split())
    return words if len(words) <= longest else f"{words[:longest]}…"
