"""Content, both ways: a turn's prompt in ACP's blocks, and what a tool call of the agent shows in AHP's (4.3)."""

from __future__ import annotations

import base64
import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    FileEditToolCallContent,
    ImageContentBlock,
    PromptCapabilities,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from jupyter_ahp.agents.base import ImageBlock, Json, PathBlock, Prompt, TextBlock

ContentBlock: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)

SHOWN = 200_000
"""Characters of one text that a tool call shows; the agent has the whole of it."""

_CARRIED = 64 * 1024  # characters of an edit that are carried with it, to be shown line by line
_TOLD = 40_000  # characters of a chat that an agent without a memory of it is told
_GO_ON = "The answer above was cut off before it was finished. Go on from there; do not repeat what was said."
_BEFORE = "This conversation began elsewhere. What was said in it so far, without tool calls:"


# ── What the agent is told ───────────────────────────────────────────────────────────────────────────────────────────
def blocks_of(
    prompt: Prompt,
    can: PromptCapabilities,
    *,
    begins: bool,
    directories: Sequence[str] = (),
    commands: Iterable[str] = (),
) -> tuple[list[ContentBlock], list[str]]:
    """A turn's prompt, and the labels of the pictures that the agent cannot take.

    `begins`: the agent knows nothing of the chat yet, and is told. `directories` are those that it is to be told that it
    may work in as well. `commands` are the agent's own: one is only heard at
    the very beginning of what it is told, so that what comes ahead of everything else (B3) stands behind it.
    """
    ahead: list[ContentBlock] = []
    if begins and (told := transcript(prompt)):
        ahead.append(_text(f"{_BEFORE}\n\n{told}"))
    if directories:
        ahead.append(_text(f"You may work in these directories as well: {', '.join(directories)}"))
    if preface := prompt.prefaces.get(prompt.turn_id):
        ahead.append(_text(preface))
    # An agent that knows nothing of the turn is told its message again.
    goes_on = _was_answered(prompt) and not begins
    said = [_text(_GO_ON if goes_on else prompt.text)]
    word = prompt.text.split(maxsplit=1)[0] if prompt.text.strip() else ""
    is_command = word.startswith("/") and word[1:] in set(commands)
    unseen: list[str] = []
    attached = [] if goes_on else list(_attached(prompt, can, unseen))
    return ([*said, *ahead] if is_command else [*ahead, *said]) + attached, unseen


def _was_answered(prompt: Prompt) -> bool:
    """A turn that is resumed had got somewhere: its message is not said again."""
    return any(part["kind"] != "error" for part in prompt.so_far)


def _attached(prompt: Prompt, can: PromptCapabilities, unseen: list[str]) -> Iterator[ContentBlock]:
    for block in prompt.blocks:
        match block:
            case TextBlock(label, text) if can.embedded_context:
                resource = TextResourceContents(
                    uri=f"attachment:///{label}", text=text, mime_type="text/plain"
                )
                yield EmbeddedResourceContentBlock(type="resource", resource=resource)
            case TextBlock(label, text):
                yield _text(f"{label}:\n\n{text}")
            case ImageBlock(label, media_type, data) if can.image:
                yield ImageContentBlock(
                    type="image", data=base64.b64encode(data).decode(), mime_type=media_type
                )
            case ImageBlock(label):
                unseen.append(label)
                yield _text(f"(The picture “{label}” is attached, but you cannot be shown pictures.)")
            case PathBlock(label, path):
                uri = path if "://" in path else Path(path).as_uri()
                yield ResourceContentBlock(type="resource_link", name=label, uri=uri)


def _text(text: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=text)


def transcript(prompt: Prompt) -> str:
    """What a person said and what was answered, turn by turn, the end of it (as A8 has it for other chats).

    What nobody has answered, such as a turn that was stopped before it was sent (B2), is not in it.
    """
    told = []
    for turn in prompt.history:
        answer = "".join(part["content"] for part in turn["responseParts"] if part["kind"] == "markdown")
        if not answer and turn["state"] != "complete":
            continue
        preface = prompt.prefaces.get(turn["id"])
        said = "\n\n".join(text for text in (preface, turn["message"]["text"]) if text)
        told.append(f"Person: {said}\n\nYou: {answer or '(no answer)'}")
    text = "\n\n".join(told)
    return text if len(text) <= _TOLD else f"…{text[-_TOLD:]}"


# ── What a tool call shows ───────────────────────────────────────────────────────────────────────────────────────────
def shown(block: ContentBlock) -> Json:
    """A block as AHP tool result content."""
    match block:
        case TextContentBlock(text=text):
            return text_content(text)
        case ImageContentBlock(data=data, mime_type=kind) | AudioContentBlock(data=data, mime_type=kind):
            return {"type": "embeddedResource", "data": data, "contentType": kind}
        case ResourceContentBlock(uri=uri, mime_type=kind):
            return {"type": "resource", "uri": uri, **({"contentType": kind} if kind else {})}
        case EmbeddedResourceContentBlock(resource=TextResourceContents(text=text)):
            return text_content(text)
        case EmbeddedResourceContentBlock(resource=resource):
            kind = resource.mime_type or "application/octet-stream"
            return {"type": "embeddedResource", "data": getattr(resource, "blob", ""), "contentType": kind}


def text_content(text: str) -> Json:
    return {"type": "text", "text": cut(text)}


def cut(text: str) -> str:
    """What of a text is shown."""
    more = len(text) - SHOWN
    return text if more <= 0 else f"{text[:SHOWN]}\n… {more:,} more characters"


def edit_of(path: str, edit: FileEditToolCallContent) -> Json:
    """AHP `FileEdit`, with what was there before and what comes after, unless that is much. The path is absolute."""
    uri = Path(path).as_uri()
    before, after = _lines(edit.old_text), _lines(edit.new_text)
    changes = list(difflib.unified_diff(before, after, n=0))[2:]
    counts = {
        "added": sum(line.startswith("+") for line in changes),
        "removed": sum(line.startswith("-") for line in changes),
    }
    whole = len(edit.old_text or "") + len(edit.new_text) <= _CARRIED
    made: Json = {
        "after": {"uri": uri, "content": {"uri": _held(edit.new_text) if whole else uri}},
        "diff": counts,
    }
    if edit.old_text:
        made["before"] = {"uri": uri, "content": {"uri": _held(edit.old_text) if whole else uri}}
    return made


def _held(text: str) -> str:
    """A URI that holds the text, since it is in no file any more, or not yet."""
    return f"data:text/plain;charset=utf-8;base64,{base64.b64encode(text.encode(errors='replace')).decode()}"


def difference(path: str, edit: FileEditToolCallContent) -> str:
    """An edit as a unified diff."""
    lines = difflib.unified_diff(
        _lines(edit.old_text),
        _lines(edit.new_text),
        path if edit.old_text else "/dev/null",
        path,
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _lines(text: str | None) -> Sequence[str]:
    return (text or "").splitlines(keepends=True)
