"""The store in files: where things lie, what damage costs, what a crash leaves, what documents of others mean."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import time
from pathlib import Path

import msgspec
import pytest

from jupyter_ahp.host.ports import StoredChat, StoreError, Unreadable
from jupyter_ahp.store.disk import folder_name
from jupyter_ahp.store.files import FileStore

from .samples import (
    CHAT,
    SESSION,
    active,
    chat,
    chat_folder,
    delta,
    encoded,
    ended,
    session,
    session_folder,
)
from .test_contract import WEIRD


def everything(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


def opened_below(folder: Path) -> list[str]:
    opened = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return [name for name in opened if str(folder) in name]


# ── Names and modes
@pytest.mark.parametrize("text", WEIRD)
def test_a_folder_name_is_a_plain_one_everywhere(text: str) -> None:
    name = folder_name(text)

    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert 24 <= len(name) <= 49
    assert name not in {"con", "nul", "prn", "aux"}


def test_folder_names_differ_where_keys_do() -> None:
    keys = [*WEIRD, "a", "A", "a ", "é", "e\u0301", "straße", "strasse", "İ", "i"]

    assert len({folder_name(key) for key in keys}) == len(keys)
    assert folder_name("s1") == folder_name("s1"), "a restart finds it again"


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
async def test_folders_and_files_are_their_owners_only(files: FileStore, data_dir: Path) -> None:
    old = os.umask(0)
    try:
        await files.reserve(1)
        await files.claim(SESSION)
        await files.put_session(session())
        await files.put_chat(SESSION, chat())
        await files.end_turn(SESSION, CHAT, ended("t1"))
        await files.begin_turn(SESSION, CHAT, active("t2"))
    finally:
        os.umask(old)

    found = {path.relative_to(data_dir): path for path in everything(data_dir)}
    assert {path.name for path in found} >= {"session.json", "lock", "owner.json", "chat.json", "turns.jsonl"}
    assert {path.name for path in found} >= {"running.jsonl", "sequence.json", "sequence.lock"}
    wrong = {
        str(name): oct(stat.S_IMODE(path.stat().st_mode))
        for name, path in found.items()
        if stat.S_IMODE(path.stat().st_mode) != (0o700 if path.is_dir() else 0o600)
    }
    assert wrong == {}


async def test_nothing_is_left_lying_about(files: FileStore, data_dir: Path) -> None:
    await files.put_session(session())
    await files.put_chat(SESSION, chat())
    await files.begin_turn(SESSION, CHAT, active("t1"))
    await files.end_turn(SESSION, CHAT, ended("t1"))

    assert sorted(path.name for path in chat_folder(data_dir).iterdir()) == ["chat.json", "turns.jsonl"]
    await files.delete_session(SESSION)
    assert [path for path in everything(data_dir) if path.is_file()] == []


@pytest.mark.parametrize("whole_session", [False, True])
async def test_deleting_a_chat_that_streams_lets_go_of_it(
    files: FileStore, data_dir: Path, whole_session: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await files.put_session(session())
    await files.begin_turn(SESSION, CHAT, active("t1"))
    files.journal(SESSION, CHAT, encoded(delta("t1", 1)))
    await (files.delete_session(SESSION) if whole_session else files.delete_chat(SESSION, CHAT))
    await asyncio.sleep(0.1)  # what waited would be written by now

    assert not chat_folder(data_dir).exists()
    assert caplog.text == ""
    if sys.platform == "linux":
        assert opened_below(data_dir) == []


async def test_a_deletion_cut_short_is_finished_at_the_next_start(files: FileStore, data_dir: Path) -> None:
    await files.close()
    left = data_dir / "trash" / "abc" / "chats"
    left.mkdir(parents=True)
    (left / "chat.json").write_text("{}")

    await files.open()

    assert list((data_dir / "trash").iterdir()) == []


# ── The journal
async def test_an_action_is_on_disk_within_50_ms_and_many_are_one_write(
    files: FileStore, data_dir: Path
) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    path = chat_folder(data_dir) / "running.jsonl"
    begun = path.stat().st_size
    sizes = []
    started = time.monotonic()
    for number in range(100):
        files.journal(SESSION, CHAT, encoded(delta("t1", number)))
    assert path.stat().st_size == begun, "nothing is written on the loop"
    while time.monotonic() - started < 2:
        await asyncio.sleep(0.002)
        sizes.append(path.stat().st_size)
        if sizes[-1] > begun:
            break
    # 50 ms are promised; the rest of this bound is for a machine that has other things to do.
    assert time.monotonic() - started < 0.5
    expected = sum(len(encoded(delta("t1", number))) + 1 for number in range(100))
    assert sizes[-1] == begun + expected, "all of them at once"


async def test_a_newline_within_an_action_does_not_break_its_line(files: FileStore) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    files.journal(SESSION, CHAT, msgspec.json.format(encoded(delta("t1", 1)), indent=2))
    files.journal(SESSION, CHAT, encoded(delta("t1", 2)))

    loaded = await files.load_chat(SESSION, CHAT)

    assert loaded.active_actions == [delta("t1", 1), delta("t1", 2)]
    assert loaded.problems == []


async def test_a_cancelled_caller_leaves_nothing_half_done(files: FileStore) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    files.journal(SESSION, CHAT, encoded(delta("t1", 1)))
    ending = asyncio.create_task(files.end_turn(SESSION, CHAT, ended("t1")))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending

    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t1")])


# ── Crashes: each test puts the files as a crash at that point leaves them
async def test_after_a_restart_a_stream_needs_a_turn_that_was_begun(
    files: FileStore, caplog: pytest.LogCaptureFixture
) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    await files.close()
    await files.open()
    for number in range(3):
        files.journal(SESSION, CHAT, encoded(delta("t1", number)))

    assert (await files.load_chat(SESSION, CHAT)).active_actions == []
    assert caplog.text.count("while no turn runs") == 1


async def test_a_crash_after_the_turns_line_does_not_show_it_twice(files: FileStore, data_dir: Path) -> None:
    await files.end_turn(SESSION, CHAT, ended("t0"))
    await files.begin_turn(SESSION, CHAT, active("t1"))
    files.journal(SESSION, CHAT, encoded(delta("t1", 1)))
    await files.load_chat(SESSION, CHAT)
    running = chat_folder(data_dir) / "running.jsonl"
    journal = running.read_bytes()
    await files.end_turn(SESSION, CHAT, ended("t1"))
    assert not running.exists()
    running.write_bytes(journal)  # as if its removal was never carried out

    await files.close()
    await files.open()

    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t0"), ended("t1")])
    # Nor does what follows: rewinding past the turn does not bring its journal back.
    await files.truncate(SESSION, CHAT, "t0")
    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t0")])
    await files.begin_turn(SESSION, CHAT, active("t2"))
    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t0")], active("t2"))


async def test_T7_a_crash_in_a_resumed_turn_shows_the_newer_of_the_two(
    files: FileStore, data_dir: Path
) -> None:
    failed = ended("t1", state="error")
    running = chat_folder(data_dir) / "running.jsonl"
    await files.begin_turn(SESSION, CHAT, active("t1"))
    await files.load_chat(SESSION, CHAT)
    first_journal = running.read_bytes()
    await files.end_turn(SESSION, CHAT, failed)
    running.write_bytes(first_journal)
    # The journal is older than the line with the same id: the turn ended.
    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [failed])

    resumed = active("t1", parts=failed["responseParts"])
    await files.begin_turn(SESSION, CHAT, resumed)
    files.journal(SESSION, CHAT, encoded(delta("t1", 7)))
    # Now it is newer: the turn runs again.
    await files.close()
    await files.open()
    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [], resumed, [delta("t1", 7)])

    second_journal = running.read_bytes()
    await files.end_turn(SESSION, CHAT, ended("t1"))
    running.write_bytes(second_journal)
    # And older again.
    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t1")])


async def test_the_next_process_removes_the_journal_of_the_turn_it_ends(
    files: FileStore, data_dir: Path
) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    await files.close()
    await files.open()

    await files.end_turn(SESSION, CHAT, ended("t1", state="error"))

    assert not (chat_folder(data_dir) / "running.jsonl").exists()


# ── Damage
async def test_a_torn_last_line_costs_itself_and_not_the_next(
    files: FileStore, data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = chat_folder(data_dir) / "turns.jsonl"
    await files.end_turn(SESSION, CHAT, ended("t1"))
    whole = path.read_bytes()
    await files.end_turn(SESSION, CHAT, ended("t2"))
    path.write_bytes(whole + path.read_bytes()[len(whole) :][:40])

    with caplog.at_level(logging.WARNING):
        loaded = await files.load_chat(SESSION, CHAT)
    assert loaded.turns == [ended("t1")]
    [problem] = loaded.problems
    assert problem.startswith(f"Line 2 of {path} could not be read")
    assert "The rest is whole" in problem
    assert problem in caplog.text

    await files.end_turn(SESSION, CHAT, ended("t3"))
    loaded = await files.load_chat(SESSION, CHAT)
    assert loaded.turns == [ended("t1"), ended("t3")]
    assert loaded.problems == [problem]


async def test_a_whole_last_line_without_its_newline_costs_nothing(files: FileStore, data_dir: Path) -> None:
    path = chat_folder(data_dir) / "turns.jsonl"
    await files.end_turn(SESSION, CHAT, ended("t1"))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))

    await files.end_turn(SESSION, CHAT, ended("t2"))

    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t1"), ended("t2")])


async def test_a_torn_last_line_of_the_running_turn_costs_itself(files: FileStore, data_dir: Path) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    for number in range(3):
        files.journal(SESSION, CHAT, encoded(delta("t1", number)))
    await files.close()
    path = chat_folder(data_dir) / "running.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    await files.open()

    loaded = await files.load_chat(SESSION, CHAT)

    assert loaded.active == active("t1")
    assert loaded.active_actions == [delta("t1", 0), delta("t1", 1)]
    assert [problem.split(" could")[0] for problem in loaded.problems] == [f"Line 4 of {path}"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 4096,
        b'{"turn": {"id": "t1"',
        b'{"turn": {"state": "complete"}}',
        b'{"turn": [1]}',
        b'{"truncate": 5}',
        b'{"something": "else"}',
        b"[]",
        b"null",
        b"\xff\xfe\xfa",
        b"[" * 100_000,
    ],
)
async def test_a_damaged_line_in_the_middle_costs_that_line(
    files: FileStore, data_dir: Path, garbage: bytes
) -> None:
    path = chat_folder(data_dir) / "turns.jsonl"
    for number in range(3):
        await files.end_turn(SESSION, CHAT, ended(f"t{number}"))
    lines = path.read_bytes().splitlines()
    lines[1] = garbage
    path.write_bytes(b"\n".join(lines) + b"\n")

    loaded = await files.load_chat(SESSION, CHAT)

    assert loaded.turns == [ended("t0"), ended("t2")]
    assert [problem.split(" could")[0] for problem in loaded.problems] == [f"Line 2 of {path}"]


async def test_damaged_lines_side_by_side_are_one_problem(files: FileStore, data_dir: Path) -> None:
    path = chat_folder(data_dir) / "turns.jsonl"
    await files.end_turn(SESSION, CHAT, ended("t1"))
    path.write_bytes(path.read_bytes() + b"x\n" * 500)
    await files.end_turn(SESSION, CHAT, ended("t2"))

    loaded = await files.load_chat(SESSION, CHAT)

    assert loaded.turns == [ended("t1"), ended("t2")]
    assert [problem.split(" could")[0] for problem in loaded.problems] == [f"Lines 2 to 501 of {path}"]


async def test_X1_a_rewind_to_a_turn_whose_line_is_lost_still_drops_what_came_after(
    files: FileStore, data_dir: Path
) -> None:
    path = chat_folder(data_dir) / "turns.jsonl"
    for number in range(4):
        await files.end_turn(SESSION, CHAT, ended(f"t{number}"))
    await files.truncate(SESSION, CHAT, "t1")
    lines = path.read_bytes().splitlines()
    lines[1] = b"???"
    path.write_bytes(b"\n".join(lines) + b"\n")

    assert (await files.load_chat(SESSION, CHAT)).turns == [ended("t0")]


async def test_a_damaged_action_leaves_a_gap_and_says_so(files: FileStore, data_dir: Path) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    for number in range(3):
        files.journal(SESSION, CHAT, encoded(delta("t1", number)))
    await files.close()
    path = chat_folder(data_dir) / "running.jsonl"
    lines = path.read_bytes().splitlines()
    lines[2] = lines[2][:-5]
    path.write_bytes(b"\n".join(lines) + b"\n")
    await files.open()

    loaded = await files.load_chat(SESSION, CHAT)

    assert loaded.active_actions == [delta("t1", 0), delta("t1", 2)]
    [problem] = loaded.problems
    assert problem.startswith(f"Line 3 of {path}")
    assert "gap" in problem


async def test_a_journal_without_its_beginning_costs_the_running_turn_only(
    files: FileStore, data_dir: Path
) -> None:
    await files.end_turn(SESSION, CHAT, ended("t1"))
    await files.begin_turn(SESSION, CHAT, active("t2"))
    await files.close()
    path = chat_folder(data_dir) / "running.jsonl"
    path.write_bytes(b"??" + path.read_bytes())
    await files.open()

    loaded = await files.load_chat(SESSION, CHAT)
    assert loaded.turns == [ended("t1")]
    assert loaded.active is None
    assert [str(path) in problem for problem in loaded.problems] == [True]

    await files.begin_turn(SESSION, CHAT, active("t3"))
    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t1")], active("t3"))


# ── Documents
DAMAGED = {
    "torn": b'{"version": 1, "id": "s1", "prov',
    "empty": b"",
    "zeros": b"\x00" * 300,
    "not an object": b"[]",
    "without a version": b"{}",
    "without its keys": b'{"version": 1, "id": "s1"}',
    "of another": b'{"version": 1, "id": "s2"}',
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
async def test_a_damaged_session_is_listed_as_such(files: FileStore, data_dir: Path, data: bytes) -> None:
    await files.put_session(session("good"))
    await files.put_session(session())
    path = session_folder(data_dir) / "session.json"
    path.write_bytes(data)

    listed = await files.sessions()

    assert session("good") in listed
    [damaged] = [entry for entry in listed if isinstance(entry, Unreadable)]
    assert damaged.path == str(path)
    assert "damaged" in damaged.reason or "another session" in damaged.reason
    assert damaged.id in (SESSION, folder_name(SESSION))


@pytest.mark.parametrize("data", [DAMAGED["torn"], DAMAGED["zeros"], DAMAGED["empty"]])
async def test_nothing_is_written_over_a_damaged_document(
    files: FileStore, data_dir: Path, data: bytes
) -> None:
    await files.put_session(session())
    await files.put_chat(SESSION, chat())
    await files.close()
    of_session = session_folder(data_dir) / "session.json"
    of_chat = chat_folder(data_dir) / "chat.json"
    of_session.write_bytes(data)
    of_chat.write_bytes(data)
    await files.open()

    with pytest.raises(StoreError, match="damaged"):
        await files.put_session(session())
    for call in (
        files.put_chat(SESSION, chat()),
        files.load_chat(SESSION, CHAT),
        files.begin_turn(SESSION, CHAT, active("t1")),
        files.end_turn(SESSION, CHAT, ended("t1")),
    ):
        with pytest.raises(StoreError, match=r"damaged.*Nothing is written over it"):
            await call
    assert of_session.read_bytes() == of_chat.read_bytes() == data


async def test_a_newer_document_is_refused_with_what_to_do(files: FileStore, data_dir: Path) -> None:
    await files.put_session(session())
    await files.put_chat(SESSION, chat())
    await files.close()
    newer = {}
    for path in (session_folder(data_dir) / "session.json", chat_folder(data_dir) / "chat.json"):
        newer[path] = msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "version": 99})
        path.write_bytes(newer[path])
    await files.open()

    [listed] = await files.sessions()
    assert isinstance(listed, Unreadable)
    assert listed.id == SESSION
    assert "update jupyter-ahp" in listed.reason
    for call in (
        files.put_session(session()),
        files.load_chat(SESSION, CHAT),
        files.put_chat(SESSION, chat()),
        files.end_turn(SESSION, CHAT, ended("t1")),
    ):
        with pytest.raises(StoreError, match="update jupyter-ahp"):
            await call
    assert {path: path.read_bytes() for path in newer} == newer


async def test_keys_of_others_are_kept(files: FileStore, data_dir: Path) -> None:
    await files.put_session(session())
    await files.put_chat(SESSION, chat())
    paths = (session_folder(data_dir) / "session.json", chat_folder(data_dir) / "chat.json")
    for path in paths:
        path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "colour": "red"}))

    await files.put_session(session(title="new"))
    await files.put_chat(SESSION, chat(memory="new"))

    assert [msgspec.json.decode(path.read_bytes())["colour"] for path in paths] == ["red", "red"]
    assert await files.sessions() == [session(title="new")]
    assert (await files.load_chat(SESSION, CHAT)).record == chat(memory="new")


async def test_turns_without_a_session_document_are_not_an_empty_store(
    files: FileStore, data_dir: Path
) -> None:
    await files.claim("claimed only")
    await files.end_turn(SESSION, CHAT, ended("t1"))
    (data_dir / "sessions" / "notes.txt").write_text("mine")

    [listed] = await files.sessions()

    assert isinstance(listed, Unreadable)
    assert listed.path == str(session_folder(data_dir) / "session.json")
    assert "missing" in listed.reason


async def test_a_copied_session_does_not_pass_for_the_one_it_was_copied_from(
    files: FileStore, data_dir: Path
) -> None:
    await files.put_session(session())
    copy = data_dir / "sessions" / "backup"
    copy.mkdir()
    (copy / "session.json").write_bytes((session_folder(data_dir) / "session.json").read_bytes())

    listed = await files.sessions()

    assert session() in listed
    assert [entry.id for entry in listed if isinstance(entry, Unreadable)] == ["backup"]


@pytest.mark.parametrize(
    "data",
    [b"", b"12", b'{"version":1}', b'{"version":1,"next":0}', b'{"version":1,"next":"5"}', b"\x00" * 20],
)
async def test_T6_a_damaged_sequence_never_begins_again(
    files: FileStore, data_dir: Path, data: bytes
) -> None:
    await files.reserve(5)
    path = data_dir / "sequence.json"
    path.write_bytes(data)

    with pytest.raises(StoreError, match=r"No sequence numbers.*Restore it"):
        await files.reserve(5)

    assert path.read_bytes() == data


async def test_a_long_chat_loads_without_stalling_the_loop(files: FileStore, data_dir: Path) -> None:
    await files.end_turn(SESSION, CHAT, ended("t0"))
    path = chat_folder(data_dir) / "turns.jsonl"
    with path.open("ab") as file:
        for number in range(1, 2000):
            file.write(b'{"turn":%b}\n' % encoded(ended(f"t{number}", answer="word " * 150)))
    stalls: list[float] = []
    loading = asyncio.create_task(files.load_chat(SESSION, CHAT))
    while not loading.done():
        began = time.monotonic()
        await asyncio.sleep(0.001)
        stalls.append(time.monotonic() - began)

    assert len(loading.result().turns) == 2000
    assert len(stalls) > 1, "the loop ran meanwhile"
    # 20 ms is the budget; a bound for a busy machine here, which parsing on the loop (in one piece) would still miss.
    assert max(stalls) < 0.1
