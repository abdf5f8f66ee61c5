"""One chat's folder: its document, its ended turns, and the turn that runs.

`chat.json`      the `ChatRecord`, replaced as a whole.
`turns.jsonl`    only grows: `{"turn": Turn}` for each turn that ended (one with the id of the turn before replaces it,
                 as a resumed turn does), `{"truncate": id}` for a rewind to that turn, `{"truncate": null}` to none. A
                 turn's line has its resume point, as `"point"`; one that came later is `{"of": id, "point": point}`.
`running.jsonl`  while a turn runs: first `{"turn": ActiveTurn, "after": n}`, then one chat action a line, and
                 `{"point": point}` when its backend said one.

`after` is the size of `turns.jsonl` when the turn began. That decides what a crash left behind: a line of the same turn
at or after it says that the turn ended and only the removal of `running.jsonl` was lost, so the journal is ignored; a
line of the same turn before it is the ending that was resumed, so the journal wins and that ending is not shown.

A line that cannot be read costs that line and is told of in `StoredChat.problems`. A turn that the disk refused is kept
in memory and written before the next line, so that a full disk, once freed, costs nothing; a rewind or a message that it
refused is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from jupyter_ahp.host.ports import ChatRecord, Json, StoredChat, StoreError
from jupyter_ahp.store import documents
from jupyter_ahp.store.disk import LineFile, because, discard, make_private, sync_folder, write_whole

_log = logging.getLogger(__name__)


class ChatFiles:
    """Reads and writes one chat's folder. Blocks; called from one thread at a time, in order. Raises OSError, StoreError."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder = folder
        self._uri = uri
        self._document = folder / "chat.json"
        self._turns = folder / "turns.jsonl"
        self._running = folder / "running.jsonl"
        self._ready = False
        self._owed: list[bytes] = []
        """Lines of turns.jsonl that the disk refused."""
        self._journal: LineFile | None = None
        self._turn_id: str | None = None
        self._unwritten: list[bytes] = []
        """Actions of the running turn that the disk refused."""
        self._point: str | None = None
        """Where the running turn ends, as far as its backend said."""
        self._complained = False

    # ── Documents and turns
    def put(self, record: bytes) -> None:
        self._make_folder()
        old = self._read_document()
        write_whole(self._document, documents.replacement(record, ChatRecord, old))
        self._ready = True

    def begin(self, turn_id: str, turn: bytes) -> None:
        self._make_ready()
        self._append()
        self._close_journal()
        try:
            after = self._turns.stat().st_size
        except FileNotFoundError:
            after = 0
        try:
            write_whole(self._running, b'{"turn":%b,"after":%d}\n' % (turn, after))
            self._journal = LineFile(self._running)
        except OSError:
            with suppress(OSError):  # the error that counts is raised
                if self._left_running() == turn_id:
                    self._running.unlink()  # a message that is refused must not come back after a restart
            raise
        self._turn_id = turn_id
        self._point = None
        self._complained = False

    def write(self, actions: list[bytes]) -> None:
        """Append to the running turn's journal. Never raises for a failing disk: says so once, and tries again."""
        if self._journal is None:
            if not self._complained:
                self._complained = True
                _log.warning("Actions for %s came while no turn runs there; they are not kept.", self._uri)
            return
        self._unwritten += actions
        # Within JSON a bare newline can only be white space; here it would end the line.
        lines = b"".join(action.replace(b"\n", b" ") + b"\n" for action in self._unwritten)
        try:
            self._journal.append(lines)
        except OSError as error:
            if not self._complained:
                self._complained = True
                _log.error(
                    "What streams in %s is not being saved: %s. It is lost if the server dies before the turn ends.",
                    self._uri,
                    because(error),
                )
            return
        self._unwritten.clear()
        if self._complained:
            self._complained = False
            _log.warning("What streams in %s is being saved again; nothing is missing.", self._uri)

    def end(self, turn_id: str, turn: bytes) -> None:
        self._make_ready()
        ran = turn_id == (self._turn_id if self._journal else self._left_running())
        point = (self._point if self._journal else self._left_point()) if ran else None
        self._append(_turn_line(turn, point))
        if not ran:
            return  # a turn that did not run here, such as one that is told late: what runs goes on
        if self._unwritten:
            _log.warning("The turn of %s whose stream was not being saved is saved whole.", self._uri)
        self._close_journal()
        try:
            self._running.unlink(missing_ok=True)
        except OSError as error:
            # Harmless: `after` tells that the turn ended.
            _log.warning("The journal of an ended turn stays: %s", because(error))

    def point(self, turn_id: str, point: str) -> None:
        if self._journal is not None and turn_id == self._turn_id:
            self._point = point
            self.write([documents.encode({"point": point}, "A resume point")])
        else:
            self._make_ready()
            self._append(documents.encode({"of": turn_id, "point": point}, "A resume point") + b"\n")

    def add(self, turns: list[tuple[bytes, str | None]]) -> None:
        """Turns with their resume points."""
        self._append_or_refuse(*(_turn_line(turn, point) for turn, point in turns))

    def truncate(self, keep: str | None) -> None:
        self._append_or_refuse(documents.encode({"truncate": keep}, "A rewind") + b"\n")

    def _append_or_refuse(self, *lines: bytes) -> None:
        """Refused is refused: what people were told did not happen must not happen later."""
        self._make_ready()
        try:
            self._append(*lines)
        except OSError:
            del self._owed[len(self._owed) - len(lines) :]
            raise

    def close(self) -> None:
        """Write what waits. Raises OSError if ended turns are lost with this process; all is closed all the same."""
        try:
            self._append()
            if self._journal is not None:
                self._journal.sync()
        finally:
            self._close_journal()

    def delete(self, trash: Path) -> None:
        self.abandon()
        discard(self.folder, trash)

    def abandon(self) -> None:
        """Let go of what is open, writing nothing more: the chat is being deleted."""
        self._close_journal()
        self._owed.clear()

    def _append(self, *lines: bytes) -> None:
        """Write and sync these lines of turns.jsonl, after those that are owed."""
        late = bool(self._owed)
        self._owed += lines
        if not self._owed:
            return
        file = LineFile(self._turns)
        try:
            new = file.size == 0
            file.append(b"".join(self._owed), sync=True)
        finally:
            file.close()
        if new:
            sync_folder(self.folder)
        self._owed.clear()
        if late:
            _log.warning("Turns of %s that could not be saved before are saved now.", self._uri)

    def _make_folder(self) -> None:
        # Once: a folder that vanishes later is an error for people to hear of, not one to paper over.
        if not self._ready:
            chats = self.folder.parent
            for folder in (chats.parent, chats, self.folder):
                make_private(folder)

    def _make_ready(self) -> None:
        """Before the first line: never one into a folder whose document says that we do not understand it."""
        if self._ready:
            return
        self._make_folder()
        if self._read_document() is None:
            record = documents.encode(ChatRecord(uri=self._uri), f"The chat {self._uri}")
            write_whole(self._document, documents.replacement(record, ChatRecord, None))
        self._ready = True

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._journal = None
        self._unwritten.clear()

    def _left_running(self) -> str | None:
        """The id of the turn that an earlier process left running."""
        try:
            with self._running.open("rb") as file:
                return _turn_id(_decode(file.readline()))
        except FileNotFoundError:
            return None

    def _left_point(self) -> str | None:
        """The resume point of that turn."""
        points = [
            point for _, _, line in _lines(_content(self._running)) if (point := _point(line)) is not None
        ]
        return points[-1] if points else None

    # ── Reading back
    def load(self) -> StoredChat:
        # The journal first: when its turn ends in another process meanwhile, the turns read after it have the ending.
        running = _content(self._running)
        turns = _content(self._turns)
        document = self._read_document()
        record = ChatRecord(self._uri) if document is None else self._to_record(document)

        if self._owed:
            turns = turns + (b"\n" if turns and not turns.endswith(b"\n") else b"") + b"".join(self._owed)
        told = _Told(self._turns)
        told.read(turns)
        chat = StoredChat(record, told.turns(), points=told.points(), problems=told.problems)
        if running:
            self._load_running(running, told, chat)
        for problem in chat.problems:
            _log.warning("%s: %s", self._uri, problem)
        return chat

    def _load_running(self, data: bytes, told: _Told, chat: StoredChat) -> None:
        lines = _lines(data)
        begun: Any = next(lines, (0, 0, None))[2]
        turn_id = _turn_id(begun)
        if turn_id is None or not isinstance(begun.get("after"), int):
            chat.problems.append(
                f"What was running when the server stopped cannot be read: the first line of {self._running} is "
                "damaged. The turns before it are whole. The file stays until the next turn begins."
            )
            return
        if told.ended_at.get(turn_id, -1) >= begun["after"]:
            return  # ended: only the removal of the journal was lost
        if chat.turns and chat.turns[-1]["id"] == turn_id:
            chat.turns.pop()  # the ending that was resumed
            chat.points.pop(turn_id, None)
        damaged = []
        for number, _, action in lines:
            if (point := _point(action)) is not None:
                chat.points[turn_id] = point
            elif isinstance(action, dict):
                chat.active_actions.append(action)
            else:
                damaged.append(number)
        chat.active = begun["turn"]
        chat.problems += _problems(damaged, self._running, "the unfinished answer may have a gap there")

    def _read_document(self) -> Json | None:
        try:
            return documents.read(self._document)
        except documents.Damaged as damage:
            raise self._unreadable(damage) from damage

    def _to_record(self, document: Json) -> ChatRecord:
        try:
            record = documents.to_record(document, ChatRecord)
            if record.uri != self._uri:
                raise documents.Damaged(f"it is the document of another chat, {record.uri}")
        except documents.Damaged as damage:
            raise self._unreadable(damage) from damage
        return record

    def _unreadable(self, damage: documents.Damaged) -> StoreError:
        return StoreError(
            f"The chat {self._uri} cannot be read: {damage} ({self._document}). Nothing is written over it."
        )


class _Told:
    """What the lines of `turns.jsonl` say, taken together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[tuple[str | None, Json, str | None]] = []
        """A turn's id, itself, and its resume point; an id of None stands for a line that cannot be read, which may have been a turn."""
        self.ended_at: dict[str, int] = {}
        """Where the last line of each turn begins, by its id."""
        self.problems: list[str] = []

    def turns(self) -> list[Json]:
        return [turn for known, turn, _ in self._entries if known is not None]

    def points(self) -> dict[str, str]:
        return {known: point for known, _, point in self._entries if known is not None and point is not None}

    def read(self, data: bytes) -> None:
        damaged = []
        for number, offset, line in _lines(data):
            if known := _turn_id(line):
                self._add(known, line["turn"], _point(line))
                self.ended_at[known] = offset
            elif isinstance(line, dict) and isinstance(line.get("truncate", 0), str | None):
                self._keep(line["truncate"], number)
            elif isinstance(line, dict) and isinstance(line.get("of"), str) and "point" in line:
                self._mark(line["of"], _point(line))
            else:
                damaged.append(number)
                self._entries.append((None, {}, None))
        self.problems += _problems(damaged, self._path, "a turn or a rewind is missing there")

    def _mark(self, turn_id: str, point: str | None) -> None:
        at = self._last(lambda known: known == turn_id)
        if at is not None:
            self._entries[at] = (turn_id, self._entries[at][1], point)

    def _add(self, turn_id: str, turn: Json, point: str | None) -> None:
        last = self._last(lambda known: known is not None)
        if last is not None and self._entries[last][0] == turn_id:
            del self._entries[last:]
        self._entries.append((turn_id, turn, point))

    def _keep(self, turn_id: str | None, number: int) -> None:
        if turn_id is None:
            self._entries.clear()
            return
        at = self._last(lambda known: known == turn_id)
        if at is None:
            # The turn that was named can only be one whose line is lost.
            at = self._last(lambda known: known is None)
        if at is None:
            self.problems.append(
                f"Line {number} of {self._path} rewinds to a turn that is not there: turns that were dropped may be back."
            )
            return
        del self._entries[at + 1 :]

    def _last(self, fits: Callable[[str | None], bool]) -> int | None:
        return next((at for at in range(len(self._entries) - 1, -1, -1) if fits(self._entries[at][0])), None)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _lines(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, offset and value of each line that is not empty; None for one that cannot be read."""
    offset = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if line:
            yield number, offset, _decode(line)
        offset += len(line) + 1


def _decode(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _turn_line(turn: bytes, point: str | None) -> bytes:
    if point is None:
        return b'{"turn":%b}\n' % turn
    return b'{"turn":%b,"point":%b}\n' % (turn, documents.encode(point, "A resume point"))


def _point(line: Any) -> str | None:
    """The resume point that a line carries, if it carries one. An action is no such line."""
    point = line.get("point") if isinstance(line, dict) and "type" not in line else None
    return point if isinstance(point, str) else None


def _turn_id(line: Any) -> str | None:
    """The id of the turn that a line carries, if it carries one."""
    turn = line.get("turn") if isinstance(line, dict) else None
    known = turn.get("id") if isinstance(turn, dict) else None
    return known if isinstance(known, str) else None


def _problems(numbers: list[int], path: Path, cost: str) -> list[str]:
    """One sentence for each run of damaged lines."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [
        (f"Line {run[0]}" if len(run) == 1 else f"Lines {run[0]} to {run[-1]}")
        + f" of {path} could not be read: {cost}. The rest is whole."
        for run in runs
    ]
