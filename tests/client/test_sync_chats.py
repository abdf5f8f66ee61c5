"""`Chat` with queues, branches and rewinds: the same as `AsyncChat`'s, for code that waits. Against the host itself."""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from jupyter_ahp import AsyncChat, Chat, Refused, connect
from jupyter_ahp.client.background import background
from jupyter_ahp.client.sync import Waiting
from jupyter_ahp.client.waiting import AsyncWaiting
from jupyter_ahp.store.memory import MemoryStore
from tests.client.real_host import ByHand, RealHost


@pytest.fixture
def real(agent: ByHand) -> Iterator[RealHost]:
    """On the thread of the blocking chats."""
    host = RealHost(MemoryStore(), agent)
    background().run(host.__aenter__())
    yield host
    background().run(host.__aexit__())


@pytest.fixture
def chat(real: RealHost) -> Iterator[Chat]:
    with Chat("hand", title="Weather", host=connect(real.url, "any")) as chat:
        yield chat


def say(agent: ByHand, *orders: str) -> None:
    background().call(agent.say, *orders)


def until(happened: Callable[[], object]) -> None:
    give_up = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.005)


def said(chat: Chat) -> list[str]:
    return [turn.message.text for turn in chat.turns]


def public(kind: type) -> dict[str, list[str]]:
    """What it has, and which arguments that takes."""
    return {
        name: list(inspect.signature(member).parameters) if callable(member) else []
        for name in dir(kind)
        if not name.startswith("_") and (member := getattr(kind, name)) is not None
    }


def test_whatever_one_can_do_the_other_can() -> None:
    asynchronous, blocking = public(AsyncChat), public(Chat)
    only_there = asynchronous.keys() - blocking.keys()
    assert only_there == {
        "changes",
        "idle",
        "activity",
        "outline",
        "set_draft",
    }  # `draft` is set by assignment
    for name in asynchronous.keys() & blocking.keys():
        assert asynchronous[name] == blocking[name], name
    waiting, blocking = public(AsyncWaiting), public(Waiting)
    assert waiting == {name: blocking[name] for name in waiting}


def test_a_queue(chat: Chat, agent: ByHand) -> None:
    with ThreadPoolExecutor() as pool:
        first = pool.submit(chat.send, "first")
        until(lambda: chat.state == "running")
        later, last = chat.queue("secnod"), chat.queue("third")
        later.edit("second")
        assert [(waiting.text, waiting.kind) for waiting in chat.waiting] == [
            ("second", "queued"),
            ("third", "queued"),
        ]
        assert repr(later) == "<Waiting queued, waits: 'second'>"
        chat.reorder(last)
        assert [waiting.id for waiting in chat.waiting] == [last.id, later.id]
        last.remove()
        assert not last.waits
        say(agent, "one", "done", "two", "done")
        assert later.wait(timeout=10).text == "two"
        assert (first.result().text, later.message.text) == ("one", "second")
    assert said(chat) == ["first", "second"]


def test_Q4_what_a_stop_left_is_sent(chat: Chat, agent: ByHand) -> None:
    with ThreadPoolExecutor() as pool:
        first = pool.submit(chat.send, "first")
        until(lambda: chat.state == "running")
        later = chat.queue("second")
        chat.stop()
        assert first.result().state == "cancelled"
    say(agent, "two", "done")
    assert later.send().text == "two"


def test_steering(chat: Chat, agent: ByHand) -> None:
    with ThreadPoolExecutor() as pool:
        first = pool.submit(chat.send, "first")
        until(lambda: chat.state == "running")
        waiting = chat.steer("Mind the date")
        until(lambda: agent.steering)
        say(agent, "read", "done")
        assert waiting.wait().id == first.result().id
    assert repr(chat.turns[0].parts) == "(Steering('Mind the date'),)"


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Also where the tests were started in the background, where a shell has Ctrl C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_waiting_and_not_the_message(chat: Chat, agent: ByHand) -> None:
    with ThreadPoolExecutor() as pool:
        first = pool.submit(chat.send, "first")
        until(lambda: chat.state == "running")
        later = chat.queue("second")
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            later.wait()
        assert time.monotonic() - began < 1.5
        assert later.waits
        say(agent, "done", "done")
        assert later.wait().state == "complete"
        first.result()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_takes_back_what_waits_in_a_send(chat: Chat, agent: ByHand) -> None:
    with ThreadPoolExecutor() as pool:
        first = pool.submit(chat.send, "first")
        until(lambda: chat.state == "running")
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            chat.send("second")
        until(lambda: not chat.waiting)
        say(agent, "done")
        first.result()
    assert said(chat) == ["first"]


def test_branches_rewinds_and_marks(chat: Chat, agent: ByHand) -> None:
    agent.echoes = True
    for text in ("one", "two"):
        chat.send(text)
    fork, aside, beside = chat.fork(chat.turns[0]), chat.side_chat(selection="tw"), chat.new_chat()
    assert type(fork) is Chat
    assert (said(fork), fork.origin.kind, fork.title) == (["one"], "fork", "Forked: Weather")
    assert (aside.turns, aside.origin.selection) == ([], "tw")
    assert [entry.uri for entry in chat.chats] == [made.uri for made in (chat, fork, aside, beside)]
    beside.move(chat, after=chat)
    assert [entry.uri for entry in chat.chats][:2] == [chat.uri, beside.uri]
    aside.move()
    assert aside.session_uri != chat.session_uri
    assert fork.send("else").text == "else"

    chat.rewind(chat.turns[0])
    assert said(chat) == ["one"]
    assert chat.undo_rewind() == 1
    chat.clear()
    assert (chat.turns, chat.undo_rewind(), said(chat)) == ([], 2, ["one", "two"])
    with pytest.raises(Refused, match="nothing to bring back"):
        chat.undo_rewind()

    chat.draft = "I would"
    assert chat.draft == "I would"
    chat.draft = ""
    assert chat.draft == ""
    chat.archive()
    assert chat.archived
    chat.unarchive()
    chat.mark_read()
    assert not chat.archived
    for made in (fork, aside, beside):
        made.close()
