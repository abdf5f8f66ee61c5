"""Answers of a form, asked for and held against it. Against the host itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TypedDict

import pydantic
import pytest

from jupyter_ahp import AsyncChat, BadAnswer
from jupyter_ahp.client.connection import Connection
from jupyter_ahp.client.structured import Form, Misfit
from jupyter_ahp.host.ports import TextBlock
from tests.client.real_host import ByHand


@dataclass
class Column:
    name: str
    rows: int


class Row(TypedDict):
    name: str
    rows: int


class Model(pydantic.BaseModel):
    name: str
    rows: int


SCHEMA = {"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]}
GOOD = '{"name": "a", "rows": 3}'


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        (Column, Column("a", 3)),
        (Row, {"name": "a", "rows": 3}),
        (Model, Model(name="a", rows=3)),
        (SCHEMA, {"name": "a", "rows": 3}),
    ],
)
def test_an_answer_becomes_what_was_asked_for(returns: Any, value: Any) -> None:
    form = Form(returns)
    assert form.value(GOOD) == value
    assert form.value(f"Here it is:\n```json\n{GOOD}\n```\nAnything else?") == value
    assert form.value(f"Sure: {GOOD}") == value
    assert '"rows"' in form.asked.text
    for bad, words in (('{"name": "a", "rows": "many"}', "rows"), ("No.", "not JSON"), ("", "empty")):
        with pytest.raises(Misfit, match=words):
            form.value(bad)


def test_lists_of_them_and_what_is_no_form(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Form(list[Column]).value(f"[{GOOD}]") == [Column("a", 3)]
    assert Form(list[Model]).value(f"[{GOOD}]") == [Model(name="a", rows=3)]
    assert Form(int).value("3") == 3
    with pytest.raises(TypeError, match="no JSON Schema"):
        Form({"type": "nonsense"})
    with pytest.raises(TypeError, match="held against"):
        Form(object())
    monkeypatch.delitem(sys.modules, "pydantic")
    with pytest.raises(TypeError, match="held against"):
        Form(object())


async def test_an_answer_that_does_not_fit_is_asked_for_once_more(line: Connection, agent: ByHand) -> None:
    async with AsyncChat("hand", host=line) as chat:
        agent.say(GOOD, "done")
        turn = await chat.send("Which column?", returns=Column)
        assert turn.value == Column("a", 3)
        (form,) = agent.prompts[-1].blocks
        assert isinstance(form, TextBlock)
        assert "JSON Schema" in form.text

        agent.say("The column a.", "done", GOOD, "done")
        assert (await chat.send("Which column?", returns=Column)).value == Column("a", 3)
        assert "cannot be used: It is not JSON." in agent.texts[-1]

        agent.say("The column a.", "done", "I said: a.", "done")
        with pytest.raises(BadAnswer, match=r"not JSON. It was: 'I said: a.'") as raised:
            await chat.send("Which column?", returns=Column)
        assert raised.value.text == "I said: a."
        assert raised.value.turn.state == "complete"
