"""A host on files, ended and begun again, killed, and beside another one."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from jupyter_ahp.host.host import Host
from jupyter_ahp.host.ports import Prompt, TurnSink
from jupyter_ahp.protocol import status
from jupyter_ahp.protocol.meta import COMMAND
from jupyter_ahp.store.files import FileStore
from tests.host.harness import (
    ROOT,
    Scripted,
    WireClient,
    agree,
    answer_of,
    comparable,
    message,
    quiet,
    started,
    until,
)

S, T, TWO = "ahp-session:/s", "ahp-session:/t", "ahp-chat:/two"


async def greeted(host: Host, *channels: str) -> WireClient:
    client = WireClient(host)
    await client.initialize(ROOT)
    await client.request("listSessions")
    for channel in channels:
        await client.subscribe(channel)
    return client


class Streaming(Scripted):
    """Says some of an answer, then waits for ever; answers when it is resumed."""

    def __init__(self) -> None:
        super().__init__()
        self.play = self.stream

    async def stream(self, prompt: Prompt, sink: TurnSink) -> None:
        if prompt.resumed:
            sink.markdown(" the rest")
            return
        sink.reasoning("Let me see")
        sink.tool("look", title="Look", call_id="c").done("Looked")
        for piece in ("half ", "an ", "answer"):
            sink.markdown(piece)
        sink.tool("ask", title="Ask").run("Asking")
        await asyncio.sleep(60)


async def test_everything_is_there_after_a_restart(files: FileStore, agent: Scripted) -> None:
    agent.schema = {
        "type": "object",
        "properties": {"mode": {"type": "string", "title": "M", "sessionMutable": True}},
    }
    agent.memory = "what the agent knows"
    host = await started(files, agent)
    client = await greeted(host)
    chat = await client.create(S, workingDirectories=["file:///a"], config={"mode": "x"})
    other_chat = await client.create(T)
    await client.request("createChat", channel=S, chat=TWO)
    await client.subscribe(TWO)
    for index in range(3):
        await client.say(chat, f"{index}", turn=f"t{index}")
    await client.do(chat, "chat/truncated", turnId="t1")
    await client.say(TWO, "in two")
    await client.do(TWO, "session/titleChanged", title="Second")
    await client.do(chat, "chat/draftChanged", draft=message("draft"))
    await client.do(chat, "chat/isReadChanged", isRead=True)
    await client.do(S, "session/configChanged", config={"mode": "y"})
    await client.do(T, "session/isArchivedChanged", isArchived=True)
    await client.do(T, "session/titleChanged", title="Old things")
    await quiet(host)
    await client.request("listSessions")
    before, rows, seq = dict(client.mirrors), client.rows, host.hub.sequence.last
    await host.stop()

    again = await started(files, agent)
    visitor = await greeted(again, S, T, chat, TWO, other_chat)

    assert visitor.result["serverSeq"] > seq, "it never goes back"
    assert visitor.rows == rows
    for channel in (chat, TWO, other_chat):
        assert comparable("chat", visitor.state(channel)) == comparable("chat", before[channel].state)
    for session in (S, T):
        assert visitor.state(session) == {**before[session].state, "status": visitor.state(session)["status"]}
    assert visitor.state(T)["status"] & status.IS_ARCHIVED
    assert visitor.state(chat)["draft"]["text"] == "draft"
    assert visitor.state(TWO)["title"] == "Second"
    await visitor.say(chat, "and on")
    assert agent.lines[-1].start.memory == "what the agent knows"
    assert agent.lines[-1].start.config == {"mode": "y"}
    assert [turn["message"]["text"] for turn in agent.prompts[-1].history] == ["0", "1"]
    await agree(again, visitor)
    await again.stop()


async def test_a_client_from_before_the_restart_initializes_again(files: FileStore) -> None:
    host = await started(files)
    client = await greeted(host)
    chat = await client.create(S)
    await client.say(chat, "hello")
    await client.drop()
    await host.stop()

    client.host = again = await started(files)
    client.open()
    error = await client.fails(
        "reconnect",
        clientId=client.client_id,
        lastSeenServerSeq=client.last_seen,
        subscriptions=list(client.mirrors),
    )
    assert error.code == -32008
    seen = client.last_seen
    await client.initialize(*client.mirrors)

    assert client.result["serverSeq"] >= seen
    await client.say(chat, "again")
    await agree(again, client)
    await again.stop()


async def test_a_host_that_was_killed_in_mid_stream_leaves_a_turn_to_be_resumed(
    files: FileStore, tmp_path: Path
) -> None:
    agent = Streaming()
    host = await started(files, agent)
    client = await greeted(host)
    chat = await client.create(S)
    await client.start(chat, "go", turn="t")
    await until(lambda: len(client.state(chat)["activeTurn"]["responseParts"]) == 4)
    await asyncio.sleep(0.1)  # the journal is written within 50 ms
    await client.do(chat, "chat/draftChanged", draft=message("meanwhile"))
    await asyncio.sleep(0.5)
    seq = host.hub.sequence.last
    crashed = tmp_path / "as it was"
    shutil.copytree(tmp_path / "store", crashed)  # what the disk has when the process is killed

    again = await started(FileStore(crashed), agent)
    visitor = await greeted(again)
    assert visitor.rows[S]["status"] & status.ERROR
    assert not visitor.rows[S]["status"] & status.IN_PROGRESS
    await visitor.subscribe(S)
    await visitor.subscribe(chat)

    assert visitor.result["serverSeq"] >= seq
    turn = visitor.turn(chat, "t")
    assert turn["state"] == "error"
    assert isinstance(turn["duration"], int | float)
    assert answer_of(turn) == "half an answer"
    assert [part["kind"] for part in turn["responseParts"]] == [
        "reasoning",
        "toolCall",
        "markdown",
        "toolCall",
        "error",
    ]
    assert turn["responseParts"][3]["toolCall"]["status"] == "cancelled"
    assert turn["responseParts"][-1]["resumable"] is True
    assert visitor.state(chat)["draft"]["text"] == "meanwhile"
    assert visitor.state(S)["title"] == "go"
    await visitor.do(chat, "chat/turnResume", turnId="t")
    await until(lambda: not visitor.running(chat))
    assert answer_of(visitor.turn(chat, "t")) == "half an answer the rest"
    await quiet(again)
    await agree(again, visitor)
    await again.stop()

    third = await started(FileStore(crashed), agent)
    last = await greeted(third, chat)
    assert [turn["state"] for turn in last.state(chat)["turns"]] == ["complete"]
    await third.stop()
    await host.stop()


async def test_killed_right_behind_the_start_the_message_is_there(files: FileStore, tmp_path: Path) -> None:
    agent = Scripted()
    never = asyncio.Event()

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        await never.wait()

    agent.play = play
    host = await started(files, agent)
    client = await greeted(host)
    chat = await client.create(S)
    await client.start(chat, "do not lose me", turn="t")  # it was echoed
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")

    again = await started(FileStore(tmp_path / "crashed"), agent)
    visitor = await greeted(again, chat)

    assert visitor.turn(chat, "t")["message"]["text"] == "do not lose me"
    await again.stop()
    await host.stop()


async def test_killed_while_a_resumed_turn_runs_it_has_both_parts(files: FileStore, tmp_path: Path) -> None:
    agent = Streaming()
    host = await started(files, agent)
    client = await greeted(host)
    chat = await client.create(S)
    await client.start(chat, "go", turn="t")
    await until(lambda: len(client.state(chat)["activeTurn"]["responseParts"]) == 4)
    await host.stop()
    host = await started(files, agent)

    async def play(prompt: Prompt, sink: TurnSink) -> None:
        sink.markdown("second try")
        await asyncio.sleep(60)

    agent.play = play
    client = await greeted(host, chat)
    await client.do(chat, "chat/turnResume", turnId="t")
    await until(lambda: len(client.state(chat)["activeTurn"]["responseParts"]) == 6)
    await asyncio.sleep(0.1)
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")

    again = await started(FileStore(tmp_path / "crashed"), agent)
    visitor = await greeted(again, chat)

    (turn,) = visitor.state(chat)["turns"]
    assert answer_of(turn) == "half an answersecond try"
    assert [part["kind"] for part in turn["responseParts"]].count("error") == 2
    await again.stop()
    await host.stop()


async def test_what_was_cut_stays_cut_when_the_host_is_killed(files: FileStore, tmp_path: Path) -> None:
    agent = Streaming()
    host = await started(files, agent)
    client = await greeted(host)
    chat = await client.create(S)
    agent.play = Scripted().play
    await client.say(chat, "one", turn="t1")
    agent.play = agent.stream
    await client.start(chat, "two", turn="t2")
    await until(lambda: len(client.state(chat)["activeTurn"]["responseParts"]) == 4)
    await client.do(chat, "chat/truncated", turnId="t1")
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")

    again = await started(FileStore(tmp_path / "crashed"), agent)
    visitor = await greeted(again, chat)

    assert [turn["id"] for turn in visitor.state(chat)["turns"]] == ["t1"]
    await again.stop()
    await host.stop()


# ── two servers on one store ─────────────────────────────────────────────────────────────────────────────────────
async def test_a_session_that_another_server_has_open_is_read_only_with_words(
    files: FileStore, tmp_path: Path
) -> None:
    agent = Streaming()
    one = await started(files, agent)
    client = await greeted(one)
    chat = await client.create(S)
    await client.start(chat, "go", turn="t")
    await until(lambda: len(client.state(chat)["activeTurn"]["responseParts"]) == 4)
    await asyncio.sleep(0.3)
    two = await started(FileStore(tmp_path / "store"), Scripted())
    visitor = await greeted(two, S, chat)

    turn = visitor.turn(chat, "t")
    assert answer_of(turn) == "half an answer"
    assert turn["responseParts"][-1]["error"]["errorType"] == "elsewhere"
    await visitor.start(chat, "no")
    await visitor.do(chat, "chat/draftChanged", draft=message("no"))
    await visitor.do(chat, "chat/turnResume", turnId="t")
    await visitor.do(S, "session/titleChanged", title="no")
    assert len(visitor.refusals) == 4
    assert all("another server" in env["rejectionReason"] for env in visitor.refusals)
    assert "another server" in (await visitor.fails("disposeSession", channel=S)).message
    assert "another server" in (await visitor.fails("createChat", channel=S, chat=TWO)).message
    assert (await visitor.fails("createSession", channel=S, provider="test")).code == -32003

    assert client.running(chat), "and nothing of it was harmed"
    await client.do(chat, "chat/turnCancelled", turnId="t", duration=1)
    await quiet(one)
    await agree(one, client)
    await two.stop()
    await one.stop()


async def test_a_session_is_taken_over_as_the_other_server_left_it(files: FileStore, tmp_path: Path) -> None:
    one = await started(files, Scripted())
    client = await greeted(one)
    chat = await client.create(S)
    await client.say(chat, "early", turn="t1")
    await asyncio.sleep(0.3)
    two = await started(FileStore(tmp_path / "store"), Scripted())
    visitor = await greeted(two, S, chat)
    await client.say(chat, "late", turn="t2")
    await client.request("createChat", channel=S, chat=TWO)
    await client.do(S, "session/titleChanged", title="Renamed there")
    await client.do(S, "session/isArchivedChanged", isArchived=True)
    await client.do(S, "session/isArchivedChanged", isArchived=False)
    await one.stop()

    await visitor.dispatch(S, "session/isArchivedChanged", isArchived=True)

    assert visitor.wire.closed is not None, "it comes back for the chat as it is now"
    await visitor.drop()
    await visitor.reconnect()
    assert visitor.pending == {}
    assert visitor.state(S)["status"] & status.IS_ARCHIVED
    await visitor.do(S, "session/isArchivedChanged", isArchived=False)
    assert visitor.state(S)["title"] == "Renamed there"
    assert {entry["resource"] for entry in visitor.state(S)["chats"]} == {chat, TWO}
    assert [turn["id"] for turn in visitor.state(chat)["turns"]] == ["t1", "t2"]
    await visitor.say(chat, "mine now", turn="t3")
    await agree(two, visitor)
    await two.stop()

    three = await started(FileStore(tmp_path / "store"), Scripted())
    last = await greeted(three, S, chat)
    assert {entry["resource"] for entry in last.state(S)["chats"]} == {chat, TWO}
    assert [turn["id"] for turn in last.state(chat)["turns"]] == ["t1", "t2", "t3"]
    await three.stop()


async def test_a_session_that_another_server_made_is_not_written_over(
    files: FileStore, tmp_path: Path
) -> None:
    one = await started(files, Scripted())
    two = await started(FileStore(tmp_path / "store"), Scripted())
    visitor = await greeted(two)
    client = await greeted(one)
    chat = await client.create(S)
    await client.say(chat, "hello")
    await one.stop()

    error = await visitor.fails("createSession", channel=S, provider="test")

    assert error.code == -32003
    assert (two.sessions, visitor.rows) == ({}, {})
    await two.stop()
    three = await started(FileStore(tmp_path / "store"), Scripted())
    assert len((await (await greeted(three)).subscribe(chat))["turns"]) == 1
    await three.stop()


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("damage", ['{"broken', '{"version": 1, "id": "s", "provider": "test"}'])
async def test_a_session_that_cannot_be_read_is_said_and_not_written_over(
    files: FileStore, tmp_path: Path, damage: str
) -> None:
    host = await started(files, Scripted())
    client = await greeted(host)
    await client.create(S)
    await client.create(T)
    await host.stop()
    document = next((tmp_path / "store" / "sessions").glob("s-*/session.json"))
    document.write_text(damage)

    again = await started(files, Scripted())
    visitor = WireClient(again)
    await visitor.initialize(ROOT)
    result = await visitor.request("listSessions")

    assert list(visitor.rows) == [T]
    (lost,) = result["_meta"]["jupyter-ahp.unreadable"]
    assert lost["path"] == str(document)
    assert (await visitor.fails("createSession", channel=S, provider="test")).code == -32003
    await again.stop()
    assert document.read_text() == damage


async def test_a_chat_in_the_record_that_is_no_summary_costs_its_session_alone(
    files: FileStore, tmp_path: Path
) -> None:
    host = await started(files, Scripted())
    client = await greeted(host)
    await client.create(S)
    await client.create(T)
    await host.stop()
    document = next((tmp_path / "store" / "sessions").glob("s-*/session.json"))
    document.write_text(document.read_text().replace('"resource"', '"recourse"'))

    again = await started(files, Scripted())
    visitor = await greeted(again)

    assert list(visitor.rows) == [T]
    assert [lost.id for lost in again.unreadable] == ["s"]
    await again.stop()


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (["Plot it, please", "And now?"], "Plot it, please"),
        (["!ls -l"], "ls -l"),
        (["!ls", "Why?"], "Why?"),
        ([], ""),
    ],
)
async def test_T8_a_name_that_a_crash_lost_is_given_again(
    files: FileStore, said: list[str], title: str
) -> None:
    host = await started(files)
    client = await greeted(host)
    chat = await client.create(S)
    await quiet(host)
    await host.stop()
    await files.open()
    for number, text in enumerate(said):
        meta = {"_meta": {COMMAND: True}} if text.startswith("!") else {}
        turn = {"id": f"t{number}", "startedAt": "2026-03-01T10:00:00.000Z", "message": message(text, **meta)}
        await files.begin_turn("s", chat, {**turn, "responseParts": []})
        await files.end_turn("s", chat, {**turn, "responseParts": [], "state": "complete", "duration": 1})
    await files.close()

    again = await started(files)
    visitor = await greeted(again, S, chat)

    assert visitor.state(chat)["title"] == visitor.state(S)["title"] == title
    await agree(again, visitor)
    await again.stop()
    third = await started(files)
    assert [row["title"] for row in (await greeted(third)).rows.values()] == [title]
    await third.stop()
