"""The contract of `jupyter_ahp.host.ports.Store`, held by every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_ahp.host.ports import StoredChat, StoreError

from .conftest import Kept
from .samples import CHAT, SESSION, active, chat, delta, encoded, ended, session

# Ids and URIs come from clients: any text at all.
WEIRD = [
    "",
    ".",
    "..",
    "../../../etc/passwd",
    "a/b\\c:d",
    "CON",
    "con",
    "COM1.txt",
    "NUL.",
    "trailing ",
    "trailing.",
    "quote\"'`$(rm -rf)",
    "line\nfeed\x00nul",
    "ünïcødé 🦊",
    "ahp-chat:/x?y#z%2F..",
    "x" * 5000,
    "x" * 4999 + "y",
    "\udfff lone surrogate",
]
STORABLE = [text for text in WEIRD if "\udfff" not in text]


async def test_what_is_put_comes_back_after_a_restart(kept: Kept) -> None:
    record = session(
        title="Data",
        marks=32 | 64,
        directories=["file:///home/ada"],
        config={"mode": "ask"},
        chats=[{"resource": CHAT, "title": "One"}],
        meta={"a.b": [1, None, {"c": 2.5}]},
    )
    document = chat(
        draft={"text": "half a thou"},
        steering={"id": "p0", "message": {"text": "stop it"}},
        queued=[{"id": "p1"}, {"id": "p2"}],
        memory="token",
        meta={"x": 1},
    )
    await kept.store.put_session(record)
    await kept.store.put_chat(SESSION, document)

    store = await kept.restart()

    assert await store.sessions() == [record]
    assert await store.load_chat(SESSION, CHAT) == StoredChat(document, [])


async def test_the_newest_record_replaces_the_one_before(kept: Kept) -> None:
    for title in ("one", "two", "three"):
        await kept.store.put_session(session(title=title))
        await kept.store.put_chat(SESSION, chat(draft={"text": title}))
    await kept.store.put_chat(SESSION, chat())

    store = await kept.restart()

    assert await store.sessions() == [session(title="three")]
    assert (await store.load_chat(SESSION, CHAT)).record == chat()


async def test_a_chat_never_written_is_an_empty_one(kept: Kept) -> None:
    assert await kept.store.load_chat("unknown", CHAT) == StoredChat(chat(), [])
    assert await kept.store.sessions() == []


async def test_turns_come_back_in_order(kept: Kept) -> None:
    turns = [
        ended(f"t{n}", text=f"question {n}\nwith lines", answer="é\u2028\U0001f98a" * n) for n in range(5)
    ]
    for turn in turns:
        await kept.store.begin_turn(SESSION, CHAT, active(turn["id"]))
        kept.store.journal(SESSION, CHAT, encoded(delta(turn["id"], 1)))
        await kept.store.end_turn(SESSION, CHAT, turn)

    store = await kept.restart()

    assert await store.load_chat(SESSION, CHAT) == StoredChat(chat(), turns)


async def test_S2_many_turns_at_once_come_back_behind_those_that_are_there(kept: Kept) -> None:
    await kept.store.end_turn(SESSION, CHAT, ended("t1"))
    await kept.store.put_turns(SESSION, CHAT, [ended("t2"), ended("t3")])
    await kept.store.put_turns(SESSION, CHAT, [])
    await kept.store.truncate(SESSION, CHAT, "t2")
    await kept.store.put_turns(SESSION, CHAT, [ended("t4")])

    store = await kept.restart()

    assert [turn["id"] for turn in (await store.load_chat(SESSION, CHAT)).turns] == ["t1", "t2", "t4"]


async def test_a_running_turn_comes_back_with_what_was_reported(kept: Kept) -> None:
    await kept.store.end_turn(SESSION, CHAT, ended("t1"))
    await kept.store.begin_turn(SESSION, CHAT, active("t2"))
    actions = [delta("t2", number) for number in range(300)]
    for action in actions:
        kept.store.journal(SESSION, CHAT, encoded(action))

    expected = StoredChat(chat(), [ended("t1")], active("t2"), actions)
    assert await kept.store.load_chat(SESSION, CHAT) == expected
    store = await kept.restart()
    assert await store.load_chat(SESSION, CHAT) == expected

    # The next process ends what the last one left.
    await store.end_turn(SESSION, CHAT, ended("t2", state="error"))
    store = await kept.restart()
    assert await store.load_chat(SESSION, CHAT) == StoredChat(
        chat(), [ended("t1"), ended("t2", state="error")]
    )


async def test_T7_a_resumed_turn_replaces_its_ending(kept: Kept) -> None:
    failed = ended("t2", state="error")
    await kept.store.end_turn(SESSION, CHAT, ended("t1"))
    await kept.store.end_turn(SESSION, CHAT, failed)
    resumed = active("t2", parts=failed["responseParts"])
    await kept.store.begin_turn(SESSION, CHAT, resumed)
    kept.store.journal(SESSION, CHAT, encoded(delta("t2", 1)))

    store = await kept.restart()
    running = StoredChat(chat(), [ended("t1")], resumed, [delta("t2", 1)])
    assert await store.load_chat(SESSION, CHAT) == running

    await store.end_turn(SESSION, CHAT, ended("t2", answer="done"))
    store = await kept.restart()
    assert await store.load_chat(SESSION, CHAT) == StoredChat(
        chat(), [ended("t1"), ended("t2", answer="done")]
    )


async def test_a_turn_told_late_leaves_the_running_one_alone(kept: Kept) -> None:
    await kept.store.begin_turn(SESSION, CHAT, active("t2"))
    kept.store.journal(SESSION, CHAT, encoded(delta("t2", 1)))
    await kept.store.end_turn(SESSION, CHAT, ended("late"))
    kept.store.journal(SESSION, CHAT, encoded(delta("t2", 2)))

    store = await kept.restart()

    expected = StoredChat(chat(), [ended("late")], active("t2"), [delta("t2", 1), delta("t2", 2)])
    assert await store.load_chat(SESSION, CHAT) == expected
    await store.end_turn(SESSION, CHAT, ended("later"))
    assert (await store.load_chat(SESSION, CHAT)).active == active("t2")


@pytest.mark.parametrize(("keep", "left"), [("t3", 4), ("t1", 2), ("t0", 1), (None, 0), ("unknown", 4)])
async def test_X1_a_rewind_drops_the_turns_after_the_named_one(
    kept: Kept, keep: str | None, left: int
) -> None:
    turns = [ended(f"t{n}") for n in range(4)]
    for turn in turns:
        await kept.store.end_turn(SESSION, CHAT, turn)
    await kept.store.truncate(SESSION, CHAT, keep)
    await kept.store.end_turn(SESSION, CHAT, ended("t9"))

    store = await kept.restart()

    assert (await store.load_chat(SESSION, CHAT)).turns == [*turns[:left], ended("t9")]


async def test_actions_without_a_running_turn_are_not_kept(kept: Kept) -> None:
    kept.store.journal(SESSION, CHAT, encoded(delta("t1", 1)))
    await kept.store.begin_turn(SESSION, CHAT, active("t1"))
    await kept.store.end_turn(SESSION, CHAT, ended("t1"))
    kept.store.journal(SESSION, CHAT, encoded(delta("t1", 2)))
    await kept.store.begin_turn(SESSION, CHAT, active("t2"))

    store = await kept.restart()

    assert await store.load_chat(SESSION, CHAT) == StoredChat(chat(), [ended("t1")], active("t2"))


async def test_the_store_shares_nothing_with_its_callers(kept: Kept) -> None:
    record, document = session(config={"a": [1]}), chat(draft={"text": "x"})
    begun, turn = active("t2"), ended("t1")
    puts = [
        kept.store.put_session(record),
        kept.store.put_chat(SESSION, document),
        kept.store.end_turn(SESSION, CHAT, turn),
        kept.store.begin_turn(SESSION, CHAT, begun),
    ]
    for put in puts:
        await put
    record.config["a"].append(2)
    document.draft = {"text": "y"}
    turn["message"]["text"] = begun["message"]["text"] = "changed"
    first = await kept.store.load_chat(SESSION, CHAT)
    first.turns[0]["message"]["text"] = "changed too"

    again = await kept.store.load_chat(SESSION, CHAT)

    assert again == StoredChat(chat(draft={"text": "x"}), [ended("t1")], active("t2"))
    assert await kept.store.sessions() == [session(config={"a": [1]})]


async def test_what_is_written_is_what_was_true_at_the_call(kept: Kept) -> None:
    document = chat(draft={"text": "at the call"})
    writing = asyncio.create_task(kept.store.put_chat(SESSION, document))
    await asyncio.sleep(0)  # it began
    assert document.draft is not None
    document.draft["text"] = "later"
    await writing

    assert (await kept.store.load_chat(SESSION, CHAT)).record == chat(draft={"text": "at the call"})


async def test_deleting(kept: Kept) -> None:
    for session_id in ("s1", "s2"):
        await kept.store.put_session(session(session_id))
        for uri in ("ahp-chat:/a", "ahp-chat:/b"):
            await kept.store.put_chat(session_id, chat(uri, memory="m"))
            await kept.store.end_turn(session_id, uri, ended("t1"))
    await kept.store.begin_turn("s2", "ahp-chat:/a", active("t2"))

    await kept.store.delete_chat("s1", "ahp-chat:/a")
    await kept.store.delete_chat("s1", "ahp-chat:/never")
    await kept.store.delete_session("s2")
    await kept.store.delete_session("never")

    store = await kept.restart()
    assert await store.sessions() == [session("s1")]
    assert await store.load_chat("s1", "ahp-chat:/a") == StoredChat(chat("ahp-chat:/a"), [])
    assert await store.load_chat("s1", "ahp-chat:/b") == StoredChat(
        chat("ahp-chat:/b", memory="m"), [ended("t1")]
    )
    assert await store.load_chat("s2", "ahp-chat:/a") == StoredChat(chat("ahp-chat:/a"), [])


async def test_what_was_deleted_can_be_made_anew(kept: Kept) -> None:
    for answer in ("first", "second"):
        await kept.store.put_session(session())
        await kept.store.end_turn(SESSION, CHAT, ended("t1", answer=answer))
        await kept.store.begin_turn(SESSION, CHAT, active("t2"))
        kept.store.journal(SESSION, CHAT, encoded(delta("t2", 1)))
        if answer == "first":
            await kept.store.delete_chat(SESSION, CHAT)
            await kept.store.delete_session(SESSION)

    loaded = await kept.store.load_chat(SESSION, CHAT)
    assert loaded == StoredChat(chat(), [ended("t1", answer="second")], active("t2"), [delta("t2", 1)])


async def test_T6_sequence_numbers_are_given_once(kept: Kept) -> None:
    first = await kept.store.reserve(10)
    assert first >= 1, "0 is what a client says that has seen nothing"
    second = await kept.store.reserve(1)
    store = await kept.restart()
    third = await store.reserve(1000)
    fourth = await store.reserve(1)

    assert second >= first + 10
    assert third >= second + 1
    assert fourth >= third + 1000
    with pytest.raises(ValueError, match="at least 1"):
        await store.reserve(0)


async def test_A2_each_session_has_a_place_for_what_its_messages_carry(kept: Kept) -> None:
    places = {}
    for text in STORABLE:
        await kept.store.put_session(session(text))
        places[text] = kept.store.attachments_dir(text)
        places[text].mkdir(mode=0o700)
        (places[text] / "x").write_text(text)
    assert len(set(places.values())) == len(STORABLE)
    assert all(place.is_absolute() for place in places.values())

    store = await kept.restart()
    first, *others = STORABLE
    await store.delete_session(first)

    assert not places[first].exists()
    assert {text: store.attachments_dir(text) for text in STORABLE} == places
    assert [(places[text] / "x").read_text() for text in others] == others
    assert len(await store.sessions()) == len(others)


async def test_claiming_twice_is_ours_twice(kept: Kept) -> None:
    assert await kept.store.claim(SESSION) is None
    assert await kept.store.claim(SESSION) is None
    store = await kept.restart()
    assert await store.claim(SESSION) is None


async def test_any_id_is_an_id_of_its_own(kept: Kept) -> None:
    for number, text in enumerate(STORABLE):
        assert await kept.store.claim(text) is None
        await kept.store.put_session(session(text, title=str(number)))
        await kept.store.put_chat(text, chat(text, memory=str(number)))
        await kept.store.end_turn(text, text, ended(f"t{number}"))

    store = await kept.restart()

    found: dict[str, Any] = {record.id: record for record in await store.sessions()}
    assert found == {text: session(text, title=str(number)) for number, text in enumerate(STORABLE)}
    for number, text in enumerate(STORABLE):
        loaded = await store.load_chat(text, text)
        assert loaded == StoredChat(chat(text, memory=str(number)), [ended(f"t{number}")])


async def test_what_is_not_json_is_refused_with_words(kept: Kept) -> None:
    with pytest.raises(StoreError, match="not JSON"):
        await kept.store.put_session(session(config={"a": object()}))
    with pytest.raises(StoreError, match="not JSON"):
        await kept.store.put_session(session(title="\udfff"))
    with pytest.raises(StoreError, match="has no id"):
        await kept.store.end_turn(SESSION, CHAT, {"state": "complete"})
    assert await kept.store.sessions() == []
    assert (await kept.store.load_chat(SESSION, CHAT)).turns == []


async def test_a_closed_store_says_so(kept: Kept) -> None:
    await kept.store.close()
    await kept.store.close()
    with pytest.raises(StoreError, match="not open"):
        await kept.store.sessions()
    with pytest.raises(StoreError, match="not open"):
        await kept.store.put_session(session())
    with pytest.raises(StoreError, match="not open"):
        await kept.store.end_turn(SESSION, CHAT, ended("t1"))
    with pytest.raises(StoreError, match="not open"):
        kept.store.journal(SESSION, CHAT, b"{}")
    await kept.restart()


async def test_X1_a_resume_point_stays_beside_its_turn_and_goes_with_it(kept: Kept) -> None:
    store = kept.store
    for turn in ("a", "b", "c"):
        await store.begin_turn(SESSION, CHAT, active(turn))
        await store.put_point(SESSION, CHAT, turn, f"early {turn}")
        await store.put_point(SESSION, CHAT, turn, f"at {turn}")
        await store.end_turn(SESSION, CHAT, ended(turn))
    await store.put_point(SESSION, CHAT, "b", "late b")
    await store.put_point(SESSION, CHAT, "nobody's", "x")

    store = await kept.restart()
    assert (await store.load_chat(SESSION, CHAT)).points == {"a": "at a", "b": "late b", "c": "at c"}

    await store.truncate(SESSION, CHAT, "a")
    assert (await store.load_chat(SESSION, CHAT)).points == {"a": "at a"}
    await store.put_turns(SESSION, CHAT, [ended("b"), ended("d")], {"d": "at d"})

    store = await kept.restart()
    assert (await store.load_chat(SESSION, CHAT)).points == {"a": "at a", "d": "at d"}


async def test_X1_what_a_turn_said_before_it_was_cut_off_is_kept(kept: Kept) -> None:
    await kept.store.begin_turn(SESSION, CHAT, active("a"))
    kept.store.journal(SESSION, CHAT, encoded(delta("a", 1)))
    await kept.store.put_point(SESSION, CHAT, "a", "at a")
    kept.store.journal(SESSION, CHAT, encoded(delta("a", 2)))

    store = await kept.restart()

    found = await store.load_chat(SESSION, CHAT)
    assert found.points == {"a": "at a"}
    assert found.active_actions == [delta("a", 1), delta("a", 2)]
    await store.end_turn(SESSION, CHAT, ended("a"))
    store = await kept.restart()
    assert (await store.load_chat(SESSION, CHAT)).points == {"a": "at a"}


async def test_X1_a_turn_that_is_resumed_ends_elsewhere(kept: Kept) -> None:
    store = kept.store
    await store.begin_turn(SESSION, CHAT, active("a"))
    await store.put_point(SESSION, CHAT, "a", "first")
    await store.end_turn(SESSION, CHAT, ended("a", state="error"))
    await store.begin_turn(SESSION, CHAT, active("a"))

    assert (await store.load_chat(SESSION, CHAT)).points == {}

    await store.end_turn(SESSION, CHAT, ended("a"))
    store = await kept.restart()
    assert (await store.load_chat(SESSION, CHAT)).points == {}


async def test_U9_conversations_are_remembered_whatever_becomes_of_their_chats(kept: Kept) -> None:
    await kept.store.put_session(session())
    await kept.store.put_conversation("claude", "one\ntwo")
    await kept.store.put_conversation("pi", "one\ntwo")
    await kept.store.put_conversation("pi", "one\ntwo")
    await kept.store.delete_session(SESSION)

    store = await kept.restart()

    assert await store.conversations() == {("claude", "one\ntwo"), ("pi", "one\ntwo")}


async def test_U12_attachments_that_others_name_outlive_their_session(kept: Kept) -> None:
    await kept.store.put_session(session())
    await kept.store.begin_turn(SESSION, CHAT, active("a"))
    await kept.store.end_turn(SESSION, CHAT, ended("a"))
    attachments = kept.store.attachments_dir(SESSION)
    for name in ("one", "two", "three"):
        (attachments / name).mkdir(parents=True)
        (attachments / name / "a.txt").write_text(name)

    await kept.store.delete_session(SESSION, ["one", "two", "unknown", "../chats"])

    assert sorted(path.name for path in attachments.iterdir()) == ["one", "two"]
    store = await kept.restart()
    assert await store.sessions() == []
    assert (await store.load_chat(SESSION, CHAT)).turns == []
    await store.delete_attachments(SESSION, ["one", "unknown", ".."])
    assert (attachments / "two" / "a.txt").read_text() == "two"
    await store.delete_attachments(SESSION, ["two"])
    assert not attachments.exists()
    await store.put_session(session())
    assert await store.sessions() == [session()]
