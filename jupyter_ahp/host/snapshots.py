"""What a message carries is written down, once, before the message is taken: A2 to A6, A11.

Inline bytes, and files that only the sender has, become files under the session's attachments folder, each in a folder
of its own; the message names the file from then on. Whatever cannot be written, or read, stays as the client sent it: a
message that arrived is worth more than a picture that did not.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import logging
import mimetypes
import os
import re
import shutil
import stat
import unicodedata
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ..protocol.errors import ProtocolError
from .attachments import BECAME, SNAPSHOT, Became, became, content, image_type, inline
from .paths import path_of
from .ports import Json

if TYPE_CHECKING:
    from .chat import Chat
    from .connection import Connection

log = logging.getLogger(__name__)

FETCH_SECONDS = 30.0
"""How long a client has, in all, to send what a message of its own names."""
_AT_ONCE = 4  # requests to a client for one message's files
_LONGEST_NAME = 120  # bytes: some encrypted file systems hold no more than 143
_UNFIT = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]')
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}")
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])", re.IGNORECASE)
_EXTENSIONS: Final = {
    "text/plain": ".txt",
    "text/markdown": ".md",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
}
_REPLACED = ("type", "data", "uri", "contentType", "sizeHint", "nonce")

Where = Literal["ours", "here", "elsewhere"]


@dataclass(slots=True)
class Kept:
    """A message as it is kept, and what was written for it."""

    message: Json
    folders: list[Path] = field(default_factory=list)
    uploads: list[tuple[Path, Path]] = field(default_factory=list)
    """What the sender had uploaded: from where, and where it is now."""

    async def drop(self) -> None:
        """The message was not taken after all."""
        if self.folders:
            await asyncio.to_thread(self._drop)

    def _drop(self) -> None:
        for upload, path in self.uploads:
            with suppress(OSError):  # else it has to be uploaded again
                _move(path, upload)
                os.chmod(upload, 0o600)
        _remove(self.folders)


class Snapshots:
    """Settles the attachments of one chat's messages, in the chat's own order."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._asking: set[asyncio.Task[Any]] = set()

    async def settle(self, sender: Connection, message: Json) -> Kept:
        """The message with its attachments written down. Raises nothing: what fails is left as it was sent."""
        attachments = message.get("attachments")
        if not attachments:
            return Kept(message)
        session = self._chat.session
        one = _Settling(self, sender, session.host.store.attachments_dir(session.id))
        settled = await asyncio.gather(*(one.settle(attachment) for attachment in attachments))
        return Kept({**message, "attachments": settled}, one.folders, one.uploads)

    def give_up(self) -> None:
        """The chat closes: nobody is waited for."""
        for asking in self._asking:
            asking.cancel()

    async def ask(self, sender: Connection, uri: str, seconds: float) -> Any:
        """Read a resource of the sender's. Raises `ProtocolError`, `TimeoutError`, `ConnectionError`."""
        target = sender
        if sender.gone:
            again = self._chat.session.host.connection_of(sender.client_id)
            if again is not None and again.principal.id == sender.principal.id:
                target = again
        params = {"channel": target.spelling.root, "uri": uri, "encoding": "base64"}
        asking = asyncio.create_task(target.request("resourceRead", params, timeout=seconds))
        self._asking.add(asking)
        try:
            await asyncio.wait([asking])
        finally:
            asking.cancel()
            self._asking.discard(asking)
        if asking.cancelled():
            raise ConnectionError("the chat is being closed")
        return asking.result()


class _Settling:
    """One message's attachments on their way."""

    def __init__(self, snapshots: Snapshots, sender: Connection, folder: Path) -> None:
        self.folders: list[Path] = []
        """What was written, each file in a folder of its own."""
        self.uploads: list[tuple[Path, Path]] = []
        self._snapshots = snapshots
        self._sender = sender
        self._folder = folder
        self._limit = sender.host.options.attachment_fetch_limit_bytes
        self._until = asyncio.get_running_loop().time() + FETCH_SECONDS
        self._line = asyncio.Semaphore(_AT_ONCE)

    async def settle(self, attachment: Json) -> Json:
        attachment = _unmarked(attachment)
        kind = attachment["type"]
        if kind == "embeddedResource":
            return await self._write(attachment, lambda: inline(attachment), attachment.get("contentType"))
        if kind != "resource" or attachment.get("displayKind") == "directory":
            return attachment
        upload = self._sender.host.uploads.find(path_of(attachment["uri"]))
        if upload is not None:
            return await self._keep(attachment, lambda: self._moved(attachment, upload))
        where = await asyncio.to_thread(_where, attachment["uri"], self._folder)
        if where == "ours":
            return await asyncio.to_thread(_marked_again, attachment)
        if where == "here" or attachment["uri"].lower().startswith("ahp-"):
            return attachment
        hint = attachment.get("sizeHint")
        if self._limit and hint is not None and hint > self._limit:
            return attachment
        return await self._fetch(attachment)

    async def _fetch(self, attachment: Json) -> Json:
        uri = attachment["uri"]
        try:
            async with self._line:
                seconds = self._until - asyncio.get_running_loop().time()
                if seconds <= 0:
                    raise TimeoutError
                answer = await self._snapshots.ask(self._sender, uri, seconds)
        except TimeoutError:
            why = f"the client did not answer in {FETCH_SECONDS:.0f} s"
        except (ProtocolError, ConnectionError) as error:
            why = str(error)
        else:
            said = answer if isinstance(answer, dict) else {}
            return await self._write(attachment, lambda: _bytes_of(said), said.get("contentType"))
        log.warning("%s, attached by client %s, was not fetched: %s", uri, self._sender.client_id, why)
        return attachment

    async def _write(self, attachment: Json, read: Callable[[], bytes | None], content_type: object) -> Json:
        return await self._keep(attachment, lambda: self._written(attachment, read, content_type))

    async def _keep(self, attachment: Json, work: Callable[[], Json | None]) -> Json:
        """What `work`, in a thread, makes of the attachment; as it was sent, where that fails."""
        label = attachment["label"]
        try:
            written = await asyncio.to_thread(work)
        except OSError as error:
            log.warning(
                "The attachment %r could not be written under %s, and stays as it was sent: %s",
                label,
                self._folder,
                error.strerror or error,
            )
            return attachment
        if written is None:
            log.warning("What client %s sent as %r is no file's content", self._sender.client_id, label)
            return attachment
        return written

    def _written(
        self, attachment: Json, read: Callable[[], bytes | None], content_type: object
    ) -> Json | None:
        """The attachment, written; None if there is nothing to write. Raises `OSError`."""
        data = read()
        if data is None:
            return None
        own = (
            content_type if isinstance(content_type, str) and content_type else attachment.get("contentType")
        )
        media_type = own or image_type(data)
        path = self._new(attachment, media_type, lambda path: _write(path, data))
        return _named(attachment, path, len(data), media_type, became(data))

    def _moved(self, attachment: Json, upload: Path) -> Json | None:
        """The same for a file that the sender uploaded: it is moved. None if it is no file. Raises `OSError`."""
        found = os.lstat(upload)
        if not stat.S_ISREG(found.st_mode):
            return None
        data = content(str(upload))
        media_type = attachment.get("contentType") or (None if data is None else image_type(data))
        path = self._new(attachment, media_type, lambda path: _take(upload, path))
        self.uploads.append((upload, path))
        kind: Became = "path" if data is None else became(data)
        return _named(attachment, path, found.st_size, media_type, kind)

    def _new(self, attachment: Json, media_type: str | None, make: Callable[[Path], None]) -> Path:
        """A new file, made by `make`, in a folder of its own."""
        folder = self._folder / str(uuid.uuid4())
        path = folder / file_name(attachment["label"], media_type)
        try:
            for one in (folder.parent, folder):
                one.mkdir(mode=0o700, exist_ok=True)
            make(path)
            for one in (folder, folder.parent, folder.parent.parent):
                _sync_names(one)
        except OSError:
            _remove([folder])
            raise
        self.folders.append(folder)
        return path


def _named(attachment: Json, path: Path, size: int, media_type: str | None, kind: Became) -> Json:
    """The attachment as it names the message's own file."""
    tag: Json = {"isSnapshot": True}
    copy: Json = {"type": "resource", "uri": path.as_uri(), "sizeHint": size}
    if media_type is not None:
        tag["contentType"] = copy["contentType"] = media_type
    meta = {**(attachment.get("_meta") or {}), SNAPSHOT: tag, BECAME: kind}
    return {
        **{key: value for key, value in attachment.items() if key not in _REPLACED},
        **copy,
        "_meta": meta,
    }


# ── where it is ──────────────────────────────────────────────────────────────────────────────────────────────────
def _where(uri: str, folder: Path) -> Where:
    """Whether a resource is a copy of ours in this session's folder, something else that is here, or the client's."""
    name = path_of(uri)
    if name is None:
        return "elsewhere"
    path = Path(name)
    try:
        found = os.stat(path)
        if path.parent.parent == folder and stat.S_ISREG(found.st_mode):
            real = Path(os.path.realpath(folder), *path.parts[-2:])
            return "ours" if Path(os.path.realpath(path)) == real else "here"
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return "elsewhere"
    except OSError:
        return "here"  # something is there, which this server may not look at
    return "here"


def _unmarked(attachment: Json) -> Json:
    """Without what only the host says."""
    meta = attachment.get("_meta")
    if not meta or BECAME not in meta:
        return attachment
    rest = {key: value for key, value in meta.items() if key != BECAME}
    return {
        **{key: value for key, value in attachment.items() if key != "_meta"},
        **({"_meta": rest} if rest else {}),
    }


def _marked_again(attachment: Json) -> Json:
    """A copy that a client read back and sends once more."""
    data = content(path_of(attachment["uri"]) or "")
    meta = {SNAPSHOT: {"isSnapshot": True}, **(attachment.get("_meta") or {})}
    return {**attachment, "_meta": {**meta, BECAME: "path" if data is None else became(data)}}


# ── what it is called ────────────────────────────────────────────────────────────────────────────────────────────
def file_name(label: str, media_type: str | None) -> str:
    """A name for a file with this label that every system can hold; of the kind's extension where the label has none."""
    name = _UNFIT.sub("_", unicodedata.normalize("NFC", label)).strip(" ").rstrip(". ") or "attachment"
    stem, extension = os.path.splitext(name)
    if not _EXTENSION.fullmatch(extension):
        stem, extension = name, "" if name.startswith(".") else _extension(media_type)
    if _RESERVED.fullmatch(stem.partition(".")[0].rstrip()):
        stem = f"_{stem}"
    room = _LONGEST_NAME - len(extension.encode())
    return (stem.encode()[:room].decode(errors="ignore").rstrip(". ") or "attachment") + extension


def _extension(media_type: str | None) -> str:
    kind = (media_type or "").partition(";")[0].strip().lower()
    return _EXTENSIONS.get(kind) or mimetypes.guess_extension(kind) or ""


# ── the disk ─────────────────────────────────────────────────────────────────────────────────────────────────────
def _bytes_of(answer: Json) -> bytes | None:
    """What a `resourceRead` was answered with; None if it is no such answer."""
    data = answer.get("data")
    if not isinstance(data, str):
        return None
    if answer.get("encoding") == "base64":
        try:
            return base64.b64decode(data, validate=True)
        except ValueError:
            return None
    return data.encode("utf-8", "replace")


def _write(path: Path, data: bytes) -> None:
    """A new file that nobody changes, on disk when this returns. Raises `OSError`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o400), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _take(upload: Path, path: Path) -> None:
    """Move what was uploaded to where nobody changes it, on disk when this returns. Raises `OSError`: then it is there still."""
    os.chmod(upload, 0o400)
    _sync(upload)
    _move(upload, path)


def _move(source: Path, target: Path) -> None:
    """To another file system by a copy. Raises `OSError`: then it is where it was."""
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        try:
            shutil.copy(source, target)
            _sync(target)
        except OSError:
            target.unlink(missing_ok=True)
            raise
        source.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_names(folder: Path) -> None:
    """Have the names in a folder survive a power cut, where the system can do that."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems know no such thing: they write names through
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)  # what cannot be removed goes with its session
