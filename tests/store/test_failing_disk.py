"""A disk that fails: the person hears of it, nothing that was kept is harmed, and what was refused is written later.

A full disk is made with the kernel's limit on a file's size: writes that pass it are cut short and then refused, as on a
full disk (with another error number).
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_ahp.host.ports import StoredChat, StoreError
from jupyter_ahp.store.disk import because
from jupyter_ahp.store.files import FileStore

from .samples import CHAT, SESSION, active, chat, chat_folder, delta, encoded, ended, session, session_folder

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX limits or permissions")


@contextmanager
def full(at_bytes: int) -> Iterator[None]:
    """No file of this process may grow past this size."""
    if sys.platform == "win32":
        raise NotImplementedError
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_errors_say_what_to_do() -> None:
    words = because(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/home/ada/turns.jsonl"))

    assert "full" in words
    assert "free some space" in words
    assert "/home/ada/turns.jsonl" in words
    assert because(OSError("what the driver said")) == "what the driver said"
    assert because(TimeoutError()) == "TimeoutError"


@posix
async def test_a_turn_that_a_full_disk_refuses_is_written_when_there_is_space(
    files: FileStore, data_dir: Path
) -> None:
    path = chat_folder(data_dir) / "turns.jsonl"
    await files.begin_turn(SESSION, CHAT, active("t1"))
    await files.end_turn(SESSION, CHAT, ended("t1"))
    await files.begin_turn(SESSION, CHAT, active("t2"))
    before = path.read_bytes()

    with full(len(before) + 100):
        with pytest.raises(StoreError, match="ended and could not be saved"):
            await files.end_turn(SESSION, CHAT, ended("t2"))
        assert path.read_bytes() == before, "no half of a line"
        assert (await files.load_chat(SESSION, CHAT)).turns == [ended("t1"), ended("t2")]
        with pytest.raises(StoreError, match="did not take the message"):
            await files.begin_turn(SESSION, CHAT, active("t3"))

    await files.begin_turn(SESSION, CHAT, active("t3"))
    await files.close()
    await files.open()
    expected = StoredChat(chat(), [ended("t1"), ended("t2")], active("t3"))
    assert await files.load_chat(SESSION, CHAT) == expected


@posix
async def test_a_turn_that_a_full_disk_refuses_is_the_running_one_after_a_crash(
    files: FileStore, data_dir: Path, tmp_path: Path
) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    files.journal(SESSION, CHAT, encoded(delta("t1", 1)))
    with full(300), pytest.raises(StoreError):
        await files.end_turn(SESSION, CHAT, ended("t1", answer="x" * 500))
    shutil.copytree(data_dir, tmp_path / "after")  # what a crash here would leave

    other = FileStore(tmp_path / "after")
    await other.open()
    assert await other.load_chat(SESSION, CHAT) == StoredChat(chat(), [], active("t1"), [delta("t1", 1)])
    await other.close()


@posix
async def test_X1_a_rewind_that_a_full_disk_refuses_does_not_happen_later(
    files: FileStore, data_dir: Path
) -> None:
    for turn_id in ("t1", "t2"):
        await files.end_turn(SESSION, CHAT, ended(turn_id))
    size = (chat_folder(data_dir) / "turns.jsonl").stat().st_size
    with full(size + 10), pytest.raises(StoreError, match="was rewound, which could not be saved"):
        await files.truncate(SESSION, CHAT, "t1")
    await files.end_turn(SESSION, CHAT, ended("t3"))

    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t1"), ended("t2"), ended("t3")])


async def test_what_cannot_be_synced_is_not_half_done(
    files: FileStore, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes everything and fails to keep it (no file system here does that at will, hence a stand-in)."""
    await files.end_turn(SESSION, CHAT, ended("t1"))
    await files.end_turn(SESSION, CHAT, ended("t2"))

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", refuse)
        for call in (
            files.truncate(SESSION, CHAT, "t1"),
            files.begin_turn(SESSION, CHAT, active("t3")),
            files.put_chat(SESSION, chat(memory="new")),
            files.end_turn(SESSION, CHAT, ended("t4")),
        ):
            with pytest.raises(StoreError, match=os.strerror(errno.EIO)):
                await call
    shutil.copytree(data_dir, tmp_path / "after")  # what a crash here would leave

    other = FileStore(tmp_path / "after")
    await other.open()
    assert await other.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t1"), ended("t2")])
    await other.close()
    await files.begin_turn(SESSION, CHAT, active("t5"))
    turns = [ended("t1"), ended("t2"), ended("t4")]
    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), turns, active("t5"))


async def test_a_message_that_is_refused_does_not_come_back(
    files: FileStore, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files.end_turn(SESSION, CHAT, ended("t1"))

    def refuse(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr("jupyter_ahp.store.disk.sync_folder", refuse)  # the last step of several
        with pytest.raises(StoreError, match="did not take the message"):
            await files.begin_turn(SESSION, CHAT, active("t2"))
    await files.close()
    await files.open()

    assert await files.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t1")])


@posix
async def test_closing_with_a_turn_unsaved_says_so_and_frees_the_session(
    files: FileStore, data_dir: Path
) -> None:
    await files.claim(SESSION)
    await files.begin_turn(SESSION, CHAT, active("t1"))
    with full(300):
        with pytest.raises(StoreError):
            await files.end_turn(SESSION, CHAT, ended("t1", answer="x" * 500))
        with pytest.raises(StoreError, match=f"last turns of {CHAT} could not be saved"):
            await files.close()

    other = FileStore(data_dir)
    await other.open()
    assert await other.claim(SESSION) is None
    await other.close()


@posix
async def test_a_stream_that_a_full_disk_refuses_is_told_of_once_and_has_no_gap(
    files: FileStore, data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    path = chat_folder(data_dir) / "running.jsonl"
    limit = path.stat().st_size + 250
    with full(limit):
        for number in range(8):
            files.journal(SESSION, CHAT, encoded(delta("t1", number)))
            await files.load_chat(SESSION, CHAT)  # written up to here, or refused
        told = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [CHAT in record.getMessage() for record in told] == [True]
        assert "is not being saved" in told[0].getMessage()
        assert path.stat().st_size <= limit
        assert path.read_bytes().endswith(b"\n"), "no half of a line"
    files.journal(SESSION, CHAT, encoded(delta("t1", 8)))

    loaded = await files.load_chat(SESSION, CHAT)
    assert loaded.active_actions == [delta("t1", number) for number in range(9)]
    assert loaded.problems == []
    assert "nothing is missing" in caplog.text


@posix
async def test_a_stream_that_was_not_saved_is_made_good_by_its_turn(
    files: FileStore, data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await files.begin_turn(SESSION, CHAT, active("t1"))
    size = (chat_folder(data_dir) / "running.jsonl").stat().st_size
    await files.end_turn(SESSION, CHAT, ended("t1", answer=""))
    await files.begin_turn(SESSION, CHAT, active("t2"))
    with full(size + 500):
        for number in range(50):
            files.journal(SESSION, CHAT, encoded(delta("t2", number)))
        await files.end_turn(SESSION, CHAT, ended("t2", answer=""))

    assert "is saved whole" in caplog.text
    assert await files.load_chat(SESSION, CHAT) == StoredChat(
        chat(), [ended("t1", answer=""), ended("t2", answer="")]
    )


@posix
async def test_a_document_that_a_full_disk_refuses_is_the_old_one(files: FileStore, data_dir: Path) -> None:
    await files.put_session(session())
    await files.put_chat(SESSION, chat(memory="old"))
    with full(1000):
        with pytest.raises(StoreError, match="The session s1 could not be saved"):
            await files.put_session(session(title="x" * 2000))
        with pytest.raises(StoreError, match=f"The chat {CHAT} could not be saved"):
            await files.put_chat(SESSION, chat(draft={"text": "x" * 2000}))

    assert await files.sessions() == [session()]
    assert (await files.load_chat(SESSION, CHAT)).record == chat(memory="old")
    assert [name for name in os.listdir(session_folder(data_dir)) if name.endswith(".tmp")] == []
    assert [name for name in os.listdir(chat_folder(data_dir)) if name.endswith(".tmp")] == []


@posix
async def test_T6_a_full_disk_gives_no_numbers(files: FileStore) -> None:
    first = await files.reserve(1)
    with full(3), pytest.raises(StoreError, match="No sequence numbers"):
        await files.reserve(1)
    assert await files.reserve(1) == first + 1


async def test_a_folder_that_vanished_is_an_error_and_not_an_empty_chat(
    files: FileStore, data_dir: Path
) -> None:
    await files.put_session(session())
    await files.end_turn(SESSION, CHAT, ended("t1"))
    shutil.rmtree(session_folder(data_dir))

    for call in (
        files.end_turn(SESSION, CHAT, ended("t2")),
        files.begin_turn(SESSION, CHAT, active("t3")),
        files.truncate(SESSION, CHAT, None),
        files.put_chat(SESSION, chat()),
    ):
        with pytest.raises(StoreError, match="gone"):
            await call
    with pytest.raises(StoreError, match="last turns"):
        await files.close()


async def test_a_file_where_a_folder_should_be(files: FileStore, data_dir: Path) -> None:
    session_folder(data_dir).write_text("mine")

    with pytest.raises(StoreError, match="a file is where a folder should be"):
        await files.put_session(session())
    with pytest.raises(StoreError, match="could not be read"):
        await files.load_chat(SESSION, CHAT)
    assert session_folder(data_dir).read_text() == "mine"

    other = FileStore(session_folder(data_dir) / "below")
    with pytest.raises(StoreError, match="Chats cannot be kept in"):
        await other.open()


@posix
async def test_an_unwritable_folder_is_an_error_with_words(
    files: FileStore, data_dir: Path, tmp_path: Path
) -> None:
    await files.put_session(session())
    await files.put_chat(SESSION, chat())
    for folder in (session_folder(data_dir), chat_folder(data_dir)):
        folder.chmod(0o500)
    if os.access(session_folder(data_dir), os.W_OK):
        pytest.skip("this account (root?) may write anywhere")
    try:
        for call in (
            files.put_session(session()),
            files.put_chat(SESSION, chat()),
            files.begin_turn(SESSION, CHAT, active("t1")),
            files.claim(SESSION),
        ):
            with pytest.raises(StoreError, match="permission was denied"):
                await call
        assert await files.sessions() == [session()]
    finally:
        for folder in (session_folder(data_dir), chat_folder(data_dir)):
            folder.chmod(0o700)
