"""The widget's Python side: its state, its saved form, and the way through the kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp import Chat, ChatWidget
from jupyter_ahp.notebook import widget as widget_module
from jupyter_ahp.notebook.chat import CHAT_MIME
from tests.client.fake_host import FakeHost, ThreadedHost

Json = dict[str, Any]


@pytest.fixture
def widget(chat: Chat, built: Path) -> Iterator[ChatWidget]:
    widget = chat.widget
    yield widget
    widget.close()


class Page:
    """A view at the other end of the widget's messages: it gets those of all views, and heeds its own."""

    def __init__(self, name: str, widget: ChatWidget, sent: list[Json], threaded: ThreadedHost) -> None:
        self._name = name
        self._widget = widget
        self._sent = sent
        self._threaded = threaded

    @property
    def got(self) -> list[Json]:
        own = [message for message in self._sent if message["id"] == self._name]
        return [{key: value for key, value in message.items() if key != "id"} for message in own]

    def say(self, **message: Any) -> None:
        self._widget._handle_custom_msg({**message, "id": self._name}, [])

    def ask(self, number: int, method: str, **params: Any) -> None:
        params.setdefault("channel", "ahp-root://")
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.say(type="frame", text=json.dumps(request))

    def until(self, count: int) -> list[Json]:
        self._threaded.run(self._threaded.host.until(lambda: len(self.got) >= count))
        return self.got


@pytest.fixture
def pages(widget: ChatWidget, threaded: ThreadedHost, monkeypatch: pytest.MonkeyPatch) -> tuple[Page, Page]:
    sent: list[Json] = []
    monkeypatch.setattr(widget, "send", sent.append)
    return Page("one", widget, sent, threaded), Page("two", widget, sent, threaded)


@pytest.fixture
def page(pages: tuple[Page, Page]) -> Page:
    return pages[0]


# ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_its_state_says_which_chat_and_no_secret(fake: FakeHost, chat: Chat, widget: ChatWidget) -> None:
    state = widget.get_state()
    assert state["chat_uri"] == chat.uri
    assert state["session_uri"] == chat.session_uri
    assert state["ws_url"] == f"ws://127.0.0.1:{fake.port}/base/ahp"
    assert state["height"] == 400
    assert (state["_esm"], state["_css"]) == ("export default {}", ".ahp {}")
    assert fake.token not in json.dumps(state)


def test_one_chat_has_one_widget(chat: Chat, widget: ChatWidget) -> None:
    assert chat.widget is widget
    widget.height = 640
    assert chat.widget.get_state()["height"] == 640


def test_a_copy_without_its_front_end_says_what_to_do(chat: Chat, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(widget_module, "STATIC", tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="jlpm build"):
        ChatWidget(chat)
    monkeypatch.setattr("jupyter_ahp.notebook.chat.in_kernel", lambda: True)
    data, _metadata = chat._repr_mimebundle_()
    assert set(data) == {CHAT_MIME, "text/plain", "text/html"}
    assert "jlpm build" in data["text/html"]


def test_the_real_bundle_is_taken_when_it_is_built(chat: Chat) -> None:
    if not (widget_module.STATIC / "widget.js").exists():
        pytest.skip("the front end is not built here (`jlpm build` in labextension/)")
    assert "export" in ChatWidget(chat).get_state()["_esm"]


# ── what is saved of it ──────────────────────────────────────────────────────────────────────────────────────────
def test_outside_of_a_kernel_it_is_text(chat: Chat) -> None:
    data, metadata = chat._repr_mimebundle_()
    assert data["text/plain"] == repr(chat)
    assert set(data) == {"text/plain", "text/html"}
    assert metadata == {}


def test_in_a_kernel_it_is_the_widget_and_the_transcript(
    chat: Chat, widget: ChatWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_ahp.notebook.chat.in_kernel", lambda: True)
    first, _metadata = chat._repr_mimebundle_()
    widget.height = 640
    second, _metadata = chat._repr_mimebundle_()
    view = first["application/vnd.jupyter.widget-view+json"]
    assert view["model_id"] == widget.model_id
    assert second["application/vnd.jupyter.widget-view+json"] == view
    assert second[CHAT_MIME]["height"] == 640
    assert first[CHAT_MIME] == {"chat": chat.uri, "session": chat.session_uri, "height": 400}
    assert first["text/plain"] == repr(chat)
    assert "<b>Chat: untitled</b>" in first["text/html"]


def test_the_saved_transcript_follows_the_chat(
    threaded: ThreadedHost, fake: FakeHost, chat: Chat, widget: ChatWidget
) -> None:
    assert "0 turns" in widget.fallback
    fake.reply = ["<b>Bold</b> & *brave*"]
    chat.send("Be <i>it</i>")
    threaded.run(fake.until(lambda: "brave" in widget.fallback))
    assert "1 turn with fake" in widget.fallback
    assert "Be &lt;i&gt;it&lt;/i&gt;" in widget.fallback
    assert "&lt;b&gt;Bold&lt;/b&gt; &amp; <em>brave</em>" in widget.fallback
    chat.rename("Courage")
    threaded.run(fake.until(lambda: "<b>Chat: Courage</b>" in widget.fallback))
    assert chat.widget._repr_mimebundle_()[0]["text/html"] == widget.fallback


def test_it_goes_where_the_chat_is_moved(
    threaded: ThreadedHost, fake: FakeHost, chat: Chat, widget: ChatWidget
) -> None:
    def move() -> None:
        before, state = chat.session_uri, fake.states[chat.uri]
        fake.add_chat(chat.uri, "ahp-session:/there")
        fake.states[chat.uri] = state
        fake.states[before]["defaultChat"] = "ahp-chat:/another"
        fake.say(before, {"type": "session/chatRemoved", "chat": chat.uri})

    threaded.call(move)
    threaded.run(fake.until(lambda: widget.session_uri == "ahp-session:/there"))
    assert chat.session_uri == "ahp-session:/there"
    assert chat.send("Still here?").text == "Hello, you."


def test_text_that_streams_is_not_written_each_time(
    threaded: ThreadedHost, fake: FakeHost, chat: Chat, widget: ChatWidget
) -> None:
    written: list[str] = []
    widget.observe(lambda change: written.append(change["new"]), "fallback")
    fake.reply = ["x"] * 200
    chat.send("Go on")
    threaded.run(fake.until(lambda: "x" * 200 in widget.fallback))
    assert len(written) <= 4


# ── through the kernel ───────────────────────────────────────────────────────────────────────────────────────────
def test_frames_go_through_the_kernel(fake: FakeHost, page: Page) -> None:
    page.say(type="open")
    hello = {"clientId": "page", "protocolVersions": ["1.0.0"]}
    page.ask(1, "initialize", **hello)
    opened, answer = page.until(2)
    assert opened == {"type": "open"}
    assert answer["type"] == "frame"
    assert json.loads(answer["text"])["result"]["protocolVersion"] == "1.0.0"
    assert {"channel": "ahp-root://", **hello} in fake.calls("initialize")
    assert fake.relayed == 1
    assert fake.dials > 1, "the kernel's own connection is none of these"


def test_the_page_is_told_when_the_way_ends(threaded: ThreadedHost, fake: FakeHost, page: Page) -> None:
    page.say(type="open")
    page.until(1)
    threaded.call(fake.drop)
    assert page.until(2)[-1]["type"] == "close"
    page.say(type="frame", text="lost")
    page.say(type="open")
    assert page.until(3)[-1] == {"type": "open"}


def test_the_page_is_told_why_there_is_no_way(fake: FakeHost, page: Page) -> None:
    fake.token = "changed"
    page.say(type="open")
    [closed] = page.until(1)
    assert closed["type"] == "close"
    assert "refused this token" in closed["reason"]


def test_the_page_closes_it(threaded: ThreadedHost, fake: FakeHost, page: Page) -> None:
    before = len(fake.sockets)
    page.say(type="open")
    page.until(1)
    page.say(type="close")
    threaded.run(fake.until(lambda: len(fake.sockets) == before))
    page.say(type="close")
    assert page.got == [{"type": "open"}]


def test_two_views_do_not_hear_each_other(
    threaded: ThreadedHost, fake: FakeHost, pages: tuple[Page, Page]
) -> None:
    for number, page in enumerate(pages):
        page.say(type="open")
        page.ask(1, "initialize", clientId=f"page-{number}", protocolVersions=["1.0.0"])
    pages[1].ask(2, "subscribe", channel="ahp-root://")
    assert len(pages[1].until(3)) == 3
    pages[1].say(type="close")
    pages[0].ask(2, "ping")
    assert [message["type"] for message in pages[0].until(3)] == ["open", "frame", "frame"]
    assert len(pages[1].got) == 3


def test_closing_the_widget_closes_its_sockets(
    threaded: ThreadedHost, fake: FakeHost, widget: ChatWidget, pages: tuple[Page, Page]
) -> None:
    before = len(fake.sockets)
    for page in pages:
        page.say(type="open")
        page.until(1)
    widget.close()
    threaded.run(fake.until(lambda: len(fake.sockets) == before))
    pages[0].say(type="frame", text="nobody is there")


@pytest.mark.parametrize(
    "message", [None, "open", {"type": "open"}, {"type": "frame", "id": "none", "text": "x"}, {}]
)
def test_a_message_that_is_none_of_ours_changes_nothing(page: Page, widget: ChatWidget, message: Any) -> None:
    widget._handle_custom_msg(message, [])
    assert page.got == []
