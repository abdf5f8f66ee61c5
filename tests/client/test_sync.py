"""`Chat`: for code that waits, wherever it runs."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_ahp import Chat, NoHost, Refused, TurnFailed
from jupyter_ahp.client.background import background
from jupyter_ahp.client.host import Host
from jupyter_ahp.client.model import Markdown
from jupyter_ahp.client.sync import connect
from tests.client.fake_host import FakeHost, ThreadedHost

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fake(threaded: ThreadedHost) -> FakeHost:
    return threaded.host


@pytest.fixture
def host(fake: FakeHost) -> Host:
    return connect(fake.url, fake.token)


@pytest.fixture
def chat(host: Host) -> Iterator[Chat]:
    with Chat("fake", host=host) as chat:
        yield chat


def wait_for(threaded: ThreadedHost, chat_uri: str) -> str:
    """The turn that runs, once one does."""
    fake = threaded.host
    threaded.run(fake.until(lambda: "activeTurn" in fake.states[chat_uri]))
    return threaded.call(fake.turn_id, chat_uri)


# ── in this process ──────────────────────────────────────────────────────────────────────────────────────────────
def test_send_waits_and_gives_the_turn(chat: Chat) -> None:
    turn = chat.send("Hi")
    assert (turn.state, turn.text) == ("complete", "Hello, you.")
    assert chat.turns == [turn]
    assert (chat.state, chat.agent, chat.draft) == ("idle", "fake", "")
    chat.rename("Weather")
    assert repr(chat) == f"<Chat 'Weather' with fake, 1 turn, idle: {chat.uri}>"


def test_stream_gives_the_answer_in_pieces(chat: Chat) -> None:
    parts = list(chat.stream("Hi"))
    assert all(isinstance(part, Markdown) for part in parts)
    assert "".join(part.delta for part in parts) == "Hello, you."


def test_leaving_a_stream_stops_the_turn(threaded: ThreadedHost, fake: FakeHost, chat: Chat) -> None:
    fake.reply = None

    def answer() -> None:
        turn = wait_for(threaded, chat.uri)
        part = {"kind": "markdown", "id": "p", "content": "a"}
        threaded.call(fake.say, chat.uri, {"type": "chat/responsePart", "turnId": turn, "part": part})

    with ThreadPoolExecutor() as pool:
        pool.submit(answer)
        for _part in chat.stream("Hi"):
            break
    threaded.run(fake.until(lambda: fake.ended(chat.uri) == ["cancelled"]))
    fake.reply = ["Yes."]
    assert chat.send("Still there?").text == "Yes."


def test_a_failed_turn_raises(threaded: ThreadedHost, fake: FakeHost, chat: Chat) -> None:
    fake.reply = None

    def fail() -> None:
        turn = wait_for(threaded, chat.uri)
        part = {"kind": "error", "error": {"errorType": "x", "message": "Broken."}, "resumable": True}
        threaded.call(fake.say, chat.uri, {"type": "chat/error", "turnId": turn, "duration": 1, "part": part})

    with ThreadPoolExecutor() as pool:
        pool.submit(fail)
        with pytest.raises(TurnFailed, match="Broken"):
            chat.send("Hi")
    fake.reply = ["Whole."]
    assert chat.resume().text == "Whole."


def test_another_thread_stops_and_answers(threaded: ThreadedHost, fake: FakeHost, chat: Chat) -> None:
    fake.reply = None

    def answer() -> None:
        wait_for(threaded, chat.uri)
        request = {
            "id": "q",
            "message": "Sure?",
            "questions": [{"id": "a", "kind": "boolean", "message": "?"}],
        }
        threaded.call(fake.say, chat.uri, {"type": "chat/inputRequested", "request": request})
        while chat.state != "waiting":
            time.sleep(0.01)
        chat.answer("q", True)
        chat.stop()

    with ThreadPoolExecutor() as pool:
        answering = pool.submit(answer)
        assert chat.send("Hi").state == "cancelled"
        answering.result(5)


def test_a_timeout_raises_and_stops(threaded: ThreadedHost, fake: FakeHost, chat: Chat) -> None:
    fake.reply = None
    with pytest.raises(TimeoutError):
        chat.send("Hi", timeout=0.1)
    threaded.run(fake.until(lambda: fake.ended(chat.uri) == ["cancelled"]))


def test_two_windows_on_one_chat_are_one_subscription(fake: FakeHost, host: Host, chat: Chat) -> None:
    with Chat.open(chat.session_uri, host) as other:
        assert other.uri == chat.uri
        chat.send("Hi")
        assert [turn.text for turn in other.turns] == ["Hello, you."]
    assert chat.send("Again").state == "complete"  # The other one's leaving is its own affair.
    assert len([call for call in fake.calls("subscribe") if call["channel"] == chat.uri]) == 1


def test_threads_share_one_connection(fake: FakeHost, host: Host) -> None:
    def talk(number: int) -> str:
        with Chat("fake", host=host) as chat:
            return chat.send(f"Number {number}").message.text

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(talk, range(8))) == [f"Number {number}" for number in range(8)]
    assert fake.dials == 1


async def test_it_works_where_an_event_loop_runs(host: Host) -> None:
    """As in a notebook's cell."""
    assert asyncio.get_running_loop().is_running()
    with Chat("fake", host=host) as chat:
        assert chat.send("Hi").text == "Hello, you."


def test_it_does_not_wait_for_itself(chat: Chat) -> None:
    async def inside() -> None:
        chat.send("Hi")

    with pytest.raises(RuntimeError, match="AsyncChat"):
        background().run(inside())


def test_an_unreachable_host_is_said(fake: FakeHost) -> None:
    with pytest.raises(NoHost, match="refused this token"):
        connect(fake.url, "wrong")
    with pytest.raises(NoHost, match="cannot be reached"):
        Chat(host=Host("http://127.0.0.1:9/"))


def test_a_host_that_was_down_is_tried_anew(fake: FakeHost) -> None:
    with pytest.raises(NoHost):
        connect(fake.url, "changed")
    fake.token = "changed"
    with Chat(host=connect(fake.url, "changed")) as chat:
        assert chat.send("Hi").state == "complete"


def test_a_closed_chat_says_so(chat: Chat) -> None:
    chat.close()
    chat.close()
    assert chat.state == "closed"
    with pytest.raises(Refused, match="closed"):
        chat.send("Hi")


def test_the_main_thread_may_compute(threaded: ThreadedHost, fake: FakeHost, chat: Chat) -> None:
    """The host asks while this thread is busy, and is answered."""

    def answered() -> bool:
        return any(message.get("id") == 9 and "method" not in message for message in fake.received)

    threaded.call(fake.ask, 9, "resourceRead", {"uri": "file:///a"})
    busy_until = time.monotonic() + 5
    while not answered() and time.monotonic() < busy_until:
        pass
    assert answered()


def test_a_person_in_a_terminal_hears_what_needs_them(
    threaded: ThreadedHost, fake: FakeHost, chat: Chat, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.reply = None

    def ask_and_go() -> None:
        wait_for(threaded, chat.uri)
        request = {"id": "q", "message": "Which file?", "questions": []}
        threaded.call(fake.say, chat.uri, {"type": "chat/inputRequested", "request": request})
        time.sleep(2.5)
        chat.stop()

    asking = threading.Thread(target=ask_and_go)
    asking.start()
    chat.send("Hi")
    asking.join()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Waits for your answer: Which file?\n(In the chat's panel")


def test_at_a_terminal_one_line_says_how_it_goes_and_is_taken_away(
    fake: FakeHost, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    fake.reply = None
    with pytest.raises(TimeoutError):
        chat.send("Hi", timeout=2.5)
    lines = terminal.getvalue().split("\r")
    assert len(lines) >= 4
    assert lines[1].startswith("fake works, ")
    assert set(lines[-2]) == {" "}
    assert lines[-1] == ""
    assert "\n" not in terminal.getvalue()


# ── in processes of their own ────────────────────────────────────────────────────────────────────────────────────
def script(fake: FakeHost, code: str) -> subprocess.Popen[str]:
    """A Python that runs `code` with `Chat` and a `host`; it says "ready" by itself if it likes."""
    head = f"""
        import os, sys, time
        from jupyter_ahp import *
        from jupyter_ahp import Chat, connect
        host = connect({fake.url!r}, {fake.token!r})
        def say(*words): print(*words, flush=True)
    """
    source = textwrap.dedent(head) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", source],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 20) -> str:
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, ""), err
    return out


def test_ctrl_c_stops_the_turn_and_the_chat_goes_on(threaded: ThreadedHost, fake: FakeHost) -> None:
    fake.reply = None
    process = script(
        fake,
        """
        chat = Chat("fake", host=host)
        try:
            chat.send("Hi")
        except KeyboardInterrupt:
            say("interrupted", chat.state, chat.turns[0].state)
        say("again", chat.send("Once more").text)
        """,
    )
    try:
        threaded.run(fake.until(lambda: any("activeTurn" in state for state in fake.states.values()), 20))
        fake.reply = ["Yes."]
        process.send_signal(signal.SIGINT)
        out = finish(process)
    finally:
        process.kill()
    assert out.splitlines() == ["interrupted idle cancelled", "again Yes."]


def test_ctrl_c_in_a_stream(threaded: ThreadedHost, fake: FakeHost) -> None:
    fake.reply = None
    process = script(
        fake,
        """
        chat = Chat("fake", host=host)
        try:
            for part in chat.stream("Hi"):
                say(part)
        except KeyboardInterrupt:
            say("interrupted")
        say(chat.send("Once more").text)
        """,
    )
    try:
        threaded.run(fake.until(lambda: any("activeTurn" in state for state in fake.states.values()), 20))
        fake.reply = ["Yes."]
        process.send_signal(signal.SIGINT)
        out = finish(process)
    finally:
        process.kill()
    assert out.splitlines() == ["interrupted", "Yes."]


@pytest.mark.parametrize("open_at_the_end", ["idle", "streaming", "thread"])
def test_the_interpreter_ends(fake: FakeHost, open_at_the_end: str) -> None:
    fake.reply = ["Hello."] if open_at_the_end == "idle" else None
    code = {
        "idle": 'chat = Chat("fake", host=host); chat.send("Hi")',
        "streaming": 'chat = Chat("fake", host=host)\ntry: chat.send("Hi", timeout=0.2)\nexcept TimeoutError: pass',
        "thread": """
            import contextlib, threading
            chat = Chat("fake", host=host)
            def talk():
                with contextlib.suppress(Refused): chat.send("Hi")
            threading.Thread(target=talk, daemon=True).start()
            time.sleep(0.3)
        """,
    }[open_at_the_end]
    began = time.monotonic()
    finish(script(fake, code))
    assert time.monotonic() - began < 15


def test_the_interpreter_ends_though_the_host_says_nothing(fake: FakeHost) -> None:
    process = script(
        fake,
        """
        chat = Chat("fake", host=host)
        say("open")
        """,
    )
    fake.deaf.update({"unsubscribe", "dispatchAction", "ping"})
    assert finish(process, timeout=20) == "open\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_a_connection_of_its_own(fake: FakeHost) -> None:
    out = finish(
        script(
            fake,
            """
            import warnings
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
            chat = Chat("fake", host=host)
            chat.send("Hi")
            child = os.fork()
            if child == 0:
                try:
                    chat.send("from the child")
                except RuntimeError as error:
                    say("forked" in str(error), chat.uri in str(error))
                say("child", Chat.open(chat.uri, host).send("Hi").text)
                sys.exit(0)
            began = time.monotonic()
            assert os.waitpid(child, 0)[1] == 0
            assert time.monotonic() - began < 2.8, "it waited for the parent's thread"
            say("parent", chat.send("Hi").text)
            """,
        )
    )
    assert out.splitlines() == ["True True", "child Hello, you.", "parent Hello, you."]
    assert fake.dials == 2


def test_an_import_is_light() -> None:
    code = """
        import sys, jupyter_ahp
        heavy = {"websockets", "anywidget", "msgspec", "jupyter_server", "IPython", "mistune", "asyncio", "tornado"}
        print(sorted(heavy & set(sys.modules)))
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert out.stdout == "[]\n"


def test_the_package_names_what_it_has() -> None:
    import jupyter_ahp

    assert set(jupyter_ahp.__all__) <= set(dir(jupyter_ahp))
    with pytest.raises(AttributeError, match="no attribute 'Chatt'"):
        _ = jupyter_ahp.Chatt
