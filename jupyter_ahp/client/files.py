"""What this client's messages carry and the host does not have: A2, A3.

Small bytes go in the message. A file goes by its path; the host reads it where it is, or, on another machine, through this
client (`resourceRead`), which gives away what it attached and nothing else. What is large is written, piece by piece, to
the place that the host names for that (`_meta["jupyter-ahp.uploads"]`).
"""

from __future__ import annotations

import asyncio
import base64
import io
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

from ..protocol import uris
from ..protocol.errors import NOT_FOUND, ProtocolError, invalid_params
from ..protocol.meta import MAX_MESSAGE, UPLOADS
from .attach import Attachable, Data, Pointer, Text, attachment, described, path_of
from .errors import Refused
from .objects import Carried, carried, is_plain, items_of

if TYPE_CHECKING:
    from .connection import Connection

Json: TypeAlias = dict[str, Any]
Content: TypeAlias = Path | bytes

INLINE: Final = 256 * 1024
"""Bytes that go in the message itself, which everybody in the chat is told of."""
LARGE: Final = 4 * 1024 * 1024
"""Bytes of a file above which the host is not asked to read it through this client, but given it."""
PIECE: Final = 1024 * 1024
SCHEME: Final = "x-jupyter-ahp"
_SERVED = 256  # attachments that can be asked for
_HELD = 256 * 1024 * 1024  # bytes of them that are in memory


class Files:
    """One connection's. `read` answers the host's `resourceRead`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._served: OrderedDict[str, tuple[Content, str | None]] = OrderedDict()
        """By URI, what the host may ask for, and of which type it is."""

    async def carried(self, attach: Attachable | Iterable[Attachable]) -> list[Json]:
        """The attachments of a message, what is large among them uploaded.

        Raises `FileNotFoundError` as `attachment`, what an object raises that cannot be drawn, `OSError` for a file that cannot be read, `Refused`
        when the host does not take it, `NoHost`.
        """
        items = items_of(attach)
        if not all(map(is_plain, items)):
            items = await asyncio.to_thread(carried, items)
        return [await self._carried(item) for item in items]

    async def _carried(self, item: Carried) -> Json:
        if isinstance(item, Data):
            return await self._data(item)
        found = attachment(item)
        size = found.get("sizeHint")
        if isinstance(item, Text | Pointer) or size is None:  # or a directory
            return found
        path = path_of(item)
        if not self._connection.near and size > LARGE and self._place is not None:
            return {**found, "uri": await self._upload(path, found["label"], size)}
        self._serve(found["uri"], path, found.get("contentType"))
        return found

    async def _data(self, item: Data) -> Json:
        found = described(item)
        if len(item.data) <= INLINE:
            return {"type": "embeddedResource", **found, "data": base64.b64encode(item.data).decode()}
        found |= {"type": "resource", "sizeHint": len(item.data)}
        if self._place is not None:
            return {**found, "uri": await self._upload(item.data, item.label, len(item.data))}
        name = quote(item.label, safe="")
        uri = f"{SCHEME}://{self._connection.client_id}/{uuid.uuid4()}/{name}"
        self._serve(uri, item.data, found["contentType"])
        return {**found, "uri": uri}

    # ── what the host is given ───────────────────────────────────────────────────────────────────────────────
    @property
    def _place(self) -> Json | None:
        place = self._connection.meta.get(UPLOADS)
        return place if isinstance(place, dict) and isinstance(place.get("uri"), str) else None

    async def _upload(self, content: Content, label: str, size: int) -> str:
        """The URI of a file that the host now has. Raises `Refused`, `OSError`, `NoHost`."""
        while True:
            place = self._place
            assert place is not None, "asked only of a host that has one"
            most = place.get("maxBytes")
            if most is not None and size > most:
                raise Refused(
                    f"{label} is too large to attach: {_mib(size)}. The host takes {_mib(most)} at most."
                )
            try:
                return await self._put(content, place)
            except ProtocolError as error:
                if error.code == NOT_FOUND and self._place not in (None, place):
                    continue  # a host that was started again, before there was anything in that place
                raise Refused(
                    f"{label} was not uploaded: {error.message}", code=error.code, data=error.data
                ) from error

    async def _put(self, content: Content, place: Json) -> str:
        """With its position, a piece whose answer is lost can be sent again."""
        uri = f"{place['uri']}{uuid.uuid4()}"
        size = min(int(place.get("pieceBytes") or PIECE), self._room or PIECE)
        with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
            at = 0
            while piece := await asyncio.to_thread(file.read, size):
                data = {"data": base64.b64encode(piece).decode(), "encoding": "base64"}
                where = {"uri": uri, "mode": "truncate", "position": at}
                await self._connection.request("resourceWrite", {"channel": uris.ROOT, **where, **data})
                at += len(piece)
        return uri

    @property
    def _room(self) -> int | None:
        """Bytes that one message can carry in base64, if the host says how large a message may be."""
        most = self._connection.meta.get(MAX_MESSAGE)
        return max(1, (int(most) - 4096) // 4 * 3) if most is not None else None

    # ── what the host asks for ───────────────────────────────────────────────────────────────────────────────
    def _serve(self, uri: str, content: Content, content_type: str | None) -> None:
        self._served[uri] = content, content_type
        self._served.move_to_end(uri)
        while len(self._served) > 1 and (len(self._served) > _SERVED or self._held > _HELD):
            self._served.popitem(last=False)

    @property
    def _held(self) -> int:
        return sum(len(content) for content, _ in self._served.values() if isinstance(content, bytes))

    async def read(self, params: Json) -> Json:
        """`resourceRead`. Raises `ProtocolError` for what this client did not attach, or cannot send at once."""
        uri = params.get("uri")
        if not isinstance(uri, str) or uri not in self._served:
            raise ProtocolError(NOT_FOUND, f"This client has attached nothing that is called {uri}.")
        content, content_type = self._served[uri]
        try:
            data = content if isinstance(content, bytes) else await asyncio.to_thread(self._content, content)
        except OSError as error:
            raise ProtocolError(NOT_FOUND, f"{uri} cannot be read: {error.strerror or error}.") from error
        if self._room is not None and len(data) > self._room:
            raise invalid_params(f"{uri} is larger than what goes in one message: {_mib(len(data))}.")
        answer: Json = {"data": base64.b64encode(data).decode(), "encoding": "base64"}
        return answer if content_type is None else {**answer, "contentType": content_type}

    def _content(self, path: Path) -> bytes:
        with path.open("rb") as file:
            return file.read() if self._room is None else file.read(self._room + 1)


def _mib(size: int) -> str:
    return f"{size / (1024 * 1024):,.1f} MiB"
