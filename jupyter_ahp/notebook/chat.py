"""`Chat` as a notebook has it: shown, it is the chat itself."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..client import sync
from ..client.progress import in_kernel
from .transcript import transcript

if TYPE_CHECKING:
    from .widget import ChatWidget


class Chat(sync.Chat):
    __doc__ = sync.Chat.__doc__

    @cached_property
    def widget(self) -> ChatWidget:
        """The chat's widget: one, however often it is shown. `chat.widget.height` is its height in pixels."""
        from .widget import ChatWidget

        return ChatWidget(self)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget where a front end can run it, and the transcript for where none can."""
        metadata: dict[str, Any] = {}
        data = {"text/html": transcript(self)}
        if in_kernel():
            try:
                data, metadata = self.widget._repr_mimebundle_()
            except FileNotFoundError as unbuilt:
                data["text/html"] += f"\n<p><i>{unbuilt}</i></p>"
        return {**data, "text/plain": repr(self)}, metadata
