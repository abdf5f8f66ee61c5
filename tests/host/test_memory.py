"""Backends with a memory of their own: S3 to S5, X1 to X4, U9, B13. What a chat shows is what its backend knows."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.host import line
from jupyter_ahp.host.memory import Held, forked, retold, rewound
from jupyter_ahp.host.ports import Prompt, TurnFailed, TurnSink
from jupyter_ahp.store.files import FileStore
from tests.host.diary import Server, quietly
from tests.host.harness import agree, quiet, until

T = "ahp-session:/t"
NEW, NEWER = "ahp-chat:/new", "ahp-chat:/newer"

unix = pytest.mark.skipif(os.name == "nt", reason="there are no terminals on Windows")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "_GRACE", 2.0)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    before = asyncio.all_tasks()
    server = Server(FileStore(tmp_path / "store"), tmp_path)
    await server.start()
    yield server
    await agree(server.host, server.client, server.other)
    await server.stop()
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()} - {asyncio.current_task()}
    assert not left, f"tasks without an owner: {left}"


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("restarted", [False, True])
async def test_S3_a_fork_begins_where_the_named_turn_ended_and_leaves_its_source_alone(
    server: Server, restarted: bool
) -> None:
    chat = await server.chat("one", "two", "three")
    at = server.point("two")
    new = await server.fork(chat, "two")
    if restarted:
        await server.restart()

    assert await server.say(new, "else") == "one | two | else"

    assert server.last == ("book-1", at, True)
    assert server.agent.prompts[-1].prefaces == {}, "it remembers by itself"
    assert server.agent.knows("book-1") == ["one", "two", "three"]
    assert await server.say(chat, "four") == "one | two | three | four"
    await server.restart()
    assert await server.say(new, "more") == "one | two | else | more"
    assert server.last[1:] == (None, False), "a memory of its own"
    assert server.last[0] != "book-1"


async def test_S3_a_fork_of_a_fork_begins_where_the_copied_turn_ended(server: Server) -> None:
    chat = await server.chat("one", "two", "three")
    await server.fork(chat, "two")

    newer = await server.fork(NEW, "one", NEWER)

    assert await server.say(newer, "else") == "one | else"
    assert await server.say(NEW, "on") == "one | two | on"
    assert await server.say(await server.fork(NEW, "two", "ahp-chat:/3"), "x") == "one | two | x"


async def test_S4_without_a_point_a_fork_begins_a_conversation_of_its_own_and_is_told_what_was_said(
    server: Server,
) -> None:
    server.agent.names_points = False
    chat = await server.chat("one", "two")
    server.agent.names_points = True
    new = await server.fork(chat, "one")
    assert server.shows(new) == ["one"]
    await server.restart()

    assert await server.say(new, "else") == "else"

    assert server.last == (None, None, False)
    told = server.agent.prompts[-1].prefaces["t-else"]
    assert "User: one\n\nAgent: one" in told
    assert "two" not in told
    assert await server.say(new, "more") == "else | more"
    assert server.agent.prompts[-1].prefaces == {}, "told once"
    await server.restart()
    assert await server.say(new, "again") == "else | more | again"
    assert server.agent.prompts[-1].prefaces == {}
    assert await server.say(chat, "three") == "one | two | three"


async def test_S4_a_fork_at_a_turn_that_its_source_was_only_told_of_begins_anew(server: Server) -> None:
    server.agent.names_points = False
    chat = await server.chat("one", "two")
    server.agent.names_points = True
    await server.fork(chat, "two")
    await server.say(NEW, "three")

    newer = await server.fork(NEW, "one", NEWER)
    later = await server.fork(NEW, "three", "ahp-chat:/later")

    assert await server.say(newer, "else") == "else"
    assert "User: one" in server.agent.prompts[-1].prefaces["t-else"]
    assert await server.say(later, "four") == "three | four", "what it was told came with the copy"


def test_S4_what_a_conversation_is_told_is_bounded_and_ends_with_what_was_said_last() -> None:
    history = [
        {"id": f"t{number}", "message": {"text": f"{number} {'x' * 1000}"}, "responseParts": []}
        for number in range(2000)
    ]

    told = retold(history, {"t1999": "by the way"})

    assert len(told) < 17_000
    assert "by the way\n\nUser: 1999" in told
    assert "User: 1985" in told
    assert "[…]" in told


@unix
async def test_S5_a_fork_at_a_commands_turn_begins_at_the_turn_before_it(server: Server) -> None:
    chat = await server.chat("one", "!echo kept", "two")
    at = server.point("one")

    new = await server.fork(chat, "!echo kept")

    assert server.shows(new) == ["one", "!echo kept"]
    assert await server.say(new, "else") == "one | else"
    assert server.last == ("book-1", at, True)
    assert "kept" in server.agent.prompts[-1].prefaces["t-else"]


@unix
async def test_S5_a_fork_of_commands_alone_begins_a_conversation(server: Server) -> None:
    chat = await server.chat("!echo kept", "one")

    new = await server.fork(chat, "!echo kept")

    assert await server.say(new, "else") == "else"
    assert server.last == (None, None, False)
    assert "kept" in server.agent.prompts[-1].prefaces["t-else"]


# ── rewinds ──────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("restarted", [False, True])
async def test_X1_the_backend_goes_on_where_the_kept_turn_ended(server: Server, restarted: bool) -> None:
    chat = await server.chat("one", "two", "three")
    at = server.point("one")

    await server.rewind(chat, "one")
    if restarted:
        await server.restart()

    assert await server.say(chat, "edited") == "one | edited"
    assert server.last == ("book-1", at, False)
    assert server.agent.prompts[-1].prefaces == {}
    await server.restart()
    assert await server.say(chat, "more") == "one | edited | more"
    assert server.last == ("book-1", None, False), "it is past that point"


async def test_X1_a_rewind_closes_the_conversation_that_answered_what_is_cut(server: Server) -> None:
    chat = await server.chat("one", "two")

    await server.rewind(chat, "one")
    await quiet(server.host)

    assert len(server.agent.closed) == 1


async def test_X1_a_rewind_that_cuts_nothing_leaves_the_backend_alone(server: Server) -> None:
    chat = await server.chat("one", "two")

    await server.rewind(chat, "two")

    assert await server.say(chat, "three") == "one | two | three"
    assert len(server.agent.opened) == 1


async def test_X1_a_rewind_while_a_turn_runs_drops_it_from_the_backend_too(server: Server) -> None:
    chat = await server.chat("one", "two")

    async def hang(prompt: Prompt, sink: TurnSink) -> None:
        await asyncio.sleep(60)

    server.agent.play = hang
    await server.client.start(chat, "running")
    await until(lambda: len(server.agent.prompts) == 3)
    server.agent.play = quietly

    await server.rewind(chat, "one")

    assert await server.say(chat, "edited") == "one | edited"


async def test_X1_two_rewinds_in_a_row_and_one_undo_bring_the_backend_back(server: Server) -> None:
    chat = await server.chat("one", "two", "three")

    await server.rewind(chat, "two")
    await server.rewind(chat, "one")
    await server.restart()
    await server.undo(chat)

    assert server.shows(chat) == ["one", "two", "three"]
    assert await server.say(chat, "four") == "one | two | three | four"
    assert server.last == ("book-1", None, False)
    await server.restart()
    await server.rewind(chat, "two")
    assert await server.say(chat, "edited") == "one | two | edited", "the points came back too"


@pytest.mark.parametrize("first", [None, "two"])
@pytest.mark.parametrize("keep", ["one", None])
async def test_X1_X3_a_crash_within_a_rewind_leaves_the_backend_where_its_turns_are(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str | None, keep: str | None
) -> None:
    chat = await server.chat("one", "two", "three")
    if first is not None:
        await server.rewind(chat, first)
    truncate = server.store.truncate

    async def crash(*arguments: Any) -> None:
        shutil.copytree(tmp_path / "store", tmp_path / "crashed")
        await truncate(*arguments)

    with monkeypatch.context() as crashing:
        crashing.setattr(server.store, "truncate", crash)
        await server.rewind(chat, keep)
    await server.restart(FileStore(tmp_path / "crashed"))

    assert server.shows(chat) == (["one", "two"] if first else ["one", "two", "three"])
    assert await server.say(chat, "four") == ("one | two | four" if first else "one | two | three | four")
    assert server.agent.deleted == []


async def test_X3_a_crash_within_an_undo_brings_the_conversation_back_with_the_turns(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await server.chat("one", "two")
    await server.rewind(chat, None)
    put_turns = server.store.put_turns

    async def crash(*arguments: Any) -> None:
        await put_turns(*arguments)
        shutil.copytree(tmp_path / "store", tmp_path / "crashed")

    with monkeypatch.context() as crashing:
        crashing.setattr(server.store, "put_turns", crash)
        await server.undo(chat)
    await server.restart(FileStore(tmp_path / "crashed"))

    assert server.shows(chat) == ["one", "two"]
    assert await server.say(chat, "three") == "one | two | three"
    await server.rewind(chat, "one")
    assert await server.say(chat, "edited") == "one | edited"


@pytest.mark.parametrize("why", ["it cannot", "no point"])
async def test_X2_a_backend_that_cannot_cut_keeps_its_history(server: Server, why: str) -> None:
    server.make = {"rewind": why != "it cannot"}
    await server.stop()
    await server.start()
    server.agent.names_points = why != "no point"
    chat = await server.chat("one", "two")

    await server.rewind(chat, "one")

    assert server.shows(chat) == ["one"]
    assert await server.say(chat, "edited") == "one | two | edited"
    await server.restart()
    assert await server.say(chat, "more") == "one | two | edited | more"


async def test_X1_the_point_of_a_turn_that_a_crash_cut_off_is_kept_if_it_was_said(
    server: Server, tmp_path: Path
) -> None:
    chat = await server.chat("one")

    async def hang(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("half")
        sink.resume_point(server.point("two"))
        await asyncio.sleep(60)

    server.agent.play = hang
    await server.client.start(chat, "two", "t-two")
    crashed = tmp_path / "crashed"

    async def copied() -> bool:
        """What the disk has when the process is killed; whether the point is on it."""
        shutil.rmtree(crashed, ignore_errors=True)
        shutil.copytree(tmp_path / "store", crashed)
        looking = FileStore(crashed)
        await looking.open()
        try:
            return "t-two" in (await looking.load_chat("s", chat)).points
        finally:
            await looking.close()

    for _ in range(1000):
        if await copied():
            break
        await asyncio.sleep(0.01)
    await server.rewind(chat, "one")  # let it end; what was copied knows nothing of this
    shelf = server.shelf.books["book-1"].copy()
    await server.restart(FileStore(crashed))
    server.shelf.books["book-1"] = shelf
    assert server.shows(chat) == ["one", "two"]
    await server.client.do(chat, "chat/turnResume", turnId="t-two")
    await until(lambda: not server.client.running(chat))
    await server.say(chat, "three")

    await server.rewind(chat, "two")

    assert await server.say(chat, "edited") == "one | two | two | edited"


async def test_X1_a_turn_that_was_stopped_says_late_where_it_ended(server: Server) -> None:
    chat = await server.chat("one")

    async def hang(prompt: Prompt, sink: TurnSink) -> None:
        await asyncio.sleep(60)

    server.agent.play = hang
    await server.client.start(chat, "two", "t-two")
    await until(lambda: len(server.agent.prompts) == 2)
    await server.client.do(chat, "chat/turnCancelled", turnId="t-two", duration=1)
    server.agent.play = quietly
    await quiet(server.host)
    await server.say(chat, "three")
    await server.restart()

    await server.rewind(chat, "two")

    assert await server.say(chat, "edited") == "one | two | edited"


async def test_X1_a_stopped_turn_behind_a_rewind_is_not_forgotten_by_a_restart(server: Server) -> None:
    chat = await server.chat("one", "two")
    await server.rewind(chat, "one")

    async def hang(prompt: Prompt, sink: TurnSink) -> None:
        await asyncio.sleep(60)

    server.agent.play = hang
    await server.client.start(chat, "stopped", "t-stopped")
    await until(lambda: len(server.agent.prompts) == 3)
    await server.client.do(chat, "chat/turnCancelled", turnId="t-stopped", duration=1)
    await server.restart()

    assert await server.say(chat, "on") == "one | stopped | on"


async def test_X1_a_turn_that_was_never_sent_ended_where_the_one_before_it_did(server: Server) -> None:
    chat = await server.chat("one")
    await server.restart()

    async def fail() -> None:
        raise TurnFailed("down", "It is not there.")

    server.agent.on_open = fail
    assert await server.say(chat, "two") == ""
    server.agent.on_open = None
    assert await server.say(chat, "three") == "one | three"
    await server.restart()

    await server.rewind(chat, "two")

    assert await server.say(chat, "edited") == "one | edited"


async def test_X4_behind_a_first_turn_that_was_never_sent_the_backend_starts_over(server: Server) -> None:
    async def fail() -> None:
        raise TurnFailed("down", "It is not there.")

    server.agent.on_open = fail
    chat = await server.chat("one")
    server.agent.on_open = None
    assert await server.say(chat, "two") == "two"
    assert "User: one" in server.agent.prompts[-1].prefaces["t-two"]

    await server.rewind(chat, "one")

    assert await server.say(chat, "edited") == "edited"
    assert server.agent.deleted == ["book-1"]


async def test_X1_a_rewind_in_a_fork_that_said_nothing_yet_moves_where_it_begins(server: Server) -> None:
    chat = await server.chat("one", "two", "three")
    new = await server.fork(chat, "three")

    await server.rewind(new, "one")

    assert await server.say(new, "edited") == "one | edited"
    assert server.agent.knows("book-1") == ["one", "two", "three"]


async def test_X3_in_a_fork_that_said_nothing_yet_its_sources_conversation_stays(server: Server) -> None:
    chat = await server.chat("one")
    new = await server.fork(chat, "one")

    await server.rewind(new, None)

    assert await server.say(new, "alone") == "alone"
    assert server.agent.deleted == []
    assert await server.say(chat, "two") == "one | two"


async def test_X3_clearing_everything_deletes_the_conversation_once_it_cannot_come_back(
    server: Server,
) -> None:
    chat = await server.chat("one", "two")

    await server.rewind(chat, None)
    await quiet(server.host)
    assert server.agent.deleted == []
    await server.restart()

    assert await server.say(chat, "new") == "new"
    assert server.agent.deleted == ["book-1"]
    assert server.last == (None, None, False)
    assert list(server.shelf.books) != ["book-1"]
    await server.restart()
    assert await server.say(chat, "more") == "new | more"


async def test_X3_what_was_cleared_comes_back_with_the_conversation(server: Server) -> None:
    chat = await server.chat("one", "two")
    await server.rewind(chat, None)
    await server.restart()

    await server.undo(chat)

    assert await server.say(chat, "three") == "one | two | three"
    assert server.agent.deleted == []


async def test_X3_a_delete_that_fails_is_logged_and_the_backend_comes_back_on_what_it_had(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    chat = await server.chat("one")

    async def fail(memory: str) -> None:
        raise OSError("the disk says no")

    server.agent.on_delete = fail
    await server.rewind(chat, None)

    assert await server.say(chat, "two") == "one | two"
    assert server.shows(chat) == ["two"]
    assert "did not delete the conversation book-1" in caplog.text
    await server.restart()
    assert await server.say(chat, "three") == "one | two | three"


async def test_X3_a_backend_without_delete_keeps_the_conversation_and_begins_another(server: Server) -> None:
    server.make = {"delete": False}
    await server.stop()
    await server.start()
    chat = await server.chat("one")

    await server.rewind(chat, None)

    assert await server.say(chat, "two") == "two"
    assert server.agent.knows("book-1") == ["one"]


async def test_X3_a_conversation_that_a_fork_is_to_copy_is_not_deleted(server: Server) -> None:
    chat = await server.chat("one", "two")
    new = await server.fork(chat, "one")
    newer = await server.fork(new, "one", NEWER)
    await server.rewind(chat, None)
    await server.restart()

    assert await server.say(chat, "anew") == "anew"

    assert server.agent.deleted == []
    assert await server.say(newer, "else") == "one | else"
    assert await server.say(new, "more") == "one | more"


@unix
async def test_X4_a_rewind_at_a_commands_turn_goes_back_to_the_turn_before_it(server: Server) -> None:
    chat = await server.chat("one", "!echo kept", "two")
    at = server.point("one")

    await server.rewind(chat, "!echo kept")

    assert server.shows(chat) == ["one", "!echo kept"]
    assert await server.say(chat, "edited") == "one | edited"
    assert server.last == ("book-1", at, False)
    assert "kept" in server.agent.prompts[-1].prefaces["t-edited"]


@unix
async def test_X1_a_command_behind_a_rewind_does_not_make_it_forgotten(server: Server) -> None:
    chat = await server.chat("one", "two")
    await server.rewind(chat, "one")
    await server.say(chat, "!echo between")
    await server.restart()

    assert await server.say(chat, "edited") == "one | edited"


@unix
async def test_X4_with_nothing_sent_before_the_command_the_chat_starts_over(server: Server) -> None:
    chat = await server.chat("!echo kept", "one")
    await server.rewind(chat, "!echo kept")

    assert await server.say(chat, "two") == "two"

    assert server.agent.deleted == ["book-1"]
    assert server.shows(chat) == ["!echo kept", "two"]


@unix
async def test_X4_a_rewind_that_cuts_commands_alone_leaves_the_backend_alone(server: Server) -> None:
    chat = await server.chat("one", "!echo cut")

    await server.rewind(chat, "one")

    assert await server.say(chat, "two") == "one | two"
    assert len(server.agent.opened) == 1


@unix
async def test_a_command_behind_a_restart_does_not_make_the_backend_forget(server: Server) -> None:
    chat = await server.chat("one")
    await server.restart()
    await server.say(chat, "!echo hello")
    await server.restart()

    assert await server.say(chat, "two") == "one | two"


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_U12_a_chat_that_moves_takes_its_memory_and_its_points_along(server: Server) -> None:
    chat = await server.chat("one", "two")
    new = await server.fork(chat, "two")
    await server.say(new, "three")
    await server.client.create(T)
    await server.client.request(
        "moveChat", channel=new, destination={"kind": "session", "session": T, "after": None}
    )
    await server.restart()

    await server.rewind(new, "one")

    assert await server.say(new, "edited") == "one | edited"


# ── the rules, as a table ────────────────────────────────────────────────────────────────────────────────────────
TURNS = [
    {"id": name, "message": {"text": name, "_meta": {"jupyter-ahp.command": name.startswith("!")}}}
    for name in ("a", "!b", "c", "d", "!e")
]
POINTS = {"a": "pa", "c": "pc"}
HELD = Held("m")


@pytest.mark.parametrize(
    ("rule", "left", "held", "can", "expected"),
    [
        ("X1", 3, HELD, True, Held("m", "pc")),
        ("X2: it cannot", 3, HELD, False, HELD),
        ("X3", 0, HELD, True, Held()),
        ("X3: it need not be able to", 0, HELD, False, Held()),
        ("X4", 2, HELD, True, Held("m", "pa")),
        ("commands alone are cut", 4, HELD, True, HELD),
        ("no memory", 0, Held(), True, Held()),
        ("a copy to be made", 3, Held("m", "pd", True), False, Held("m", "pc", True)),
        ("told of all that is left", 1, Held("m", began="c"), True, Held()),
        ("told of some that is left", 3, Held("m", began="c"), True, Held("m", "pc", began="c")),
    ],
)
def test_X1_to_X4_where_the_backend_goes_on_behind_a_rewind(
    rule: str, left: int, held: Held, can: bool, expected: Held
) -> None:
    assert rewound(held, TURNS[:left], TURNS[left:], POINTS, can=can) == expected, rule


@pytest.mark.parametrize(
    ("rule", "count", "held", "expected"),
    [
        ("S3", 3, HELD, Held("m", "pc", True)),
        ("S4", 4, HELD, Held()),
        ("S5", 2, HELD, Held("m", "pa", True)),
        ("no memory", 3, Held(), Held()),
        ("told of it only", 1, Held("m", began="c"), Held()),
    ],
)
def test_S3_to_S5_where_a_forks_backend_begins(rule: str, count: int, held: Held, expected: Held) -> None:
    assert forked(held, TURNS[:count], POINTS) == expected, rule


async def test_points_are_sent_to_no_client(server: Server) -> None:
    chat = await server.chat("one", "two")
    await server.rewind(chat, "one")
    await server.undo(chat)
    await server.restart()

    assert "point-" not in str(server.client.wire.frames)
    assert "point-" not in str(server.client.state(chat))
