"""Many prompts, each in a chat of its own: `chat.map`.

A prompt's chat has a name that is made of the chat it is asked from, of the prompt and all that goes with it (text,
attachments, model, the form of the answer), and of how many of the same came before it. So the host remembers what was
answered, and nothing else has to: the same call again, in another process too, finds the chats that there are, and asks only
what was not answered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .attach import Data, Pointer, Text, path_of
from .errors import BadAnswer, Refused, TurnFailed
from .model import Turn
from .objects import Carried, carried
from .structured import Form, Misfit

if TYPE_CHECKING:
    from .chat import AsyncChat

Prompt: TypeAlias = str | tuple[str, Any]
"""What to say, and what to attach beside what goes with all."""
Tell: TypeAlias = Callable[[int, int], None]
"""Called with how many are done, and how many there are."""
FAILURES: Final = (TurnFailed, BadAnswer, Refused, OSError)
"""What one prompt may fail with, the others going on; `TimeoutError` and `NoHost` are `OSError`s."""
_NAMES: Final = uuid.UUID("6a0f9a1e-54c3-4d0b-9d3b-0b8f2f6f6f35")


class Batch:
    """One call of `map`."""

    def __init__(
        self,
        chat: AsyncChat,
        prompts: Iterable[Prompt],
        attach: Any,
        *,
        concurrency: int,
        model: str | None,
        returns: Any,
        timeout: float | None,
        progress: Tell | None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency={concurrency}: at least one has to go at a time.")
        self._chat = chat
        self._model = model
        self._returns = returns
        self._form = Form(returns) if returns is not None else None
        self._timeout = timeout
        self._progress = progress
        self._room = asyncio.Semaphore(concurrency)
        self._done = 0
        shared = carried(attach)
        self._prompts: list[tuple[str, list[Carried]]] = []
        for prompt in prompts:
            text, own = (prompt, ()) if isinstance(prompt, str) else prompt
            self._prompts.append((text, [*shared, *carried(own)]))

    async def run(self) -> list[Turn | Exception]:
        """The turns in the order of the prompts; of one that failed, its exception."""
        self._tell()
        seen: Counter[str] = Counter()
        named = []
        for text, items in self._prompts:
            key = self._key(text, items)
            named.append((f"{key} {seen[key]}", text, items))
            seen[key] += 1
        return await asyncio.gather(*(self._one(*one) for one in named))

    async def _one(self, name: str, text: str, items: Sequence[Carried]) -> Turn | Exception:
        async with self._room:
            try:
                return await self._answered(name, text, items)
            except FAILURES as failure:
                return failure
            finally:
                self._done += 1
                self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._done, len(self._prompts))

    async def _answered(self, name: str, text: str, items: Sequence[Carried]) -> Turn:
        uri = f"ahp-chat:/{uuid.uuid5(_NAMES, f'{self._chat.uri} {name}')}"
        async with await self._chat._part(uri) as part:
            await part.idle()  # Another process, or the one that was interrupted, may have left it running.
            turn = self._had(part.turns)
            if turn is None:
                turn = await part.send(
                    text, items, model=self._model, returns=self._returns, timeout=self._timeout
                )
            if turn.state == "complete" and not part.archived:
                await part.archive()  # It is read from here; the list is for what people go on with.
            return turn

    def _had(self, turns: Sequence[Turn]) -> Turn | None:
        """The answer that there is already."""
        if not turns or turns[-1].state != "complete":
            return None
        if self._form is None:
            return turns[-1]
        try:
            return replace(turns[-1], value=self._form.value(turns[-1].text))
        except Misfit:
            return None

    def _key(self, text: str, items: Sequence[Carried]) -> str:
        form = self._form.schema if self._form is not None else None
        whole = json.dumps([text, self._model, form, [_digest(item) for item in items]], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()


def _digest(item: Carried) -> list[Any]:
    """What an attachment is, as far as another one would be another question. A file that was changed is another."""
    match item:
        case Text():
            return ["text", item.label, item.text]
        case Data():
            return ["data", item.label, hashlib.sha256(item.data).hexdigest()]
        case Pointer():
            return ["chat", item.uri]
    try:
        status = path_of(item).stat()
    except (OSError, ValueError):  # an address, or nothing: `send` says so
        return ["named", os.fspath(item)]
    return ["file", str(path_of(item)), status.st_size, status.st_mtime_ns]
