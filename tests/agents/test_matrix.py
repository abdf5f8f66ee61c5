"""The table of what each backend was seen to do names tests that exist, and is the one in the docs."""

from __future__ import annotations

import pytest

from tests.agents import matrix


@pytest.mark.parametrize("test", sorted(matrix.named()))
def test_what_a_cell_names_is_there(test: str) -> None:
    assert matrix.there(test)


def test_the_docs_have_this_table() -> None:
    assert matrix.DOCS.read_text(encoding="utf-8") == matrix.in_docs()
