"""The documentation's site: built as it is published, where a link to nowhere is an error."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import jupyter_ahp

ROOT = Path(__file__).parents[2]


class Loads(HTMLParser):
    """The addresses of what a page loads by itself, and the ids in it."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        self.ids.add(has.get("id") or "")
        self.classes |= set((has.get("class") or "").split())
        if tag in ("script", "link", "img", "iframe", "source"):
            self.loaded += [address for name in ("src", "href") if (address := has.get(name))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loads]:
    """Its pages by their path."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr
    pages = {}
    for path in folder.rglob("*.html"):
        page = pages[path.relative_to(folder).as_posix()] = Loads()
        page.feed(path.read_text("utf-8"))
    return pages


def test_there_is_a_page_for_every_file(site: dict[str, Loads]) -> None:
    docs = ROOT / "docs"
    for source in docs.rglob("*.md"):
        name = source.relative_to(docs).with_suffix("").as_posix()
        assert ("index.html" if name == "index" else f"{name}/index.html") in site


def test_no_page_loads_anything_from_elsewhere(site: dict[str, Loads]) -> None:
    for name, page in site.items():
        assert page.loaded
        assert not [address for address in page.loaded if re.match(r"(?:\w+:)?//", address)], name
        assert "mermaid" not in page.classes, "the theme fetches what draws it"


def test_the_reference_has_every_public_name(site: dict[str, Loads]) -> None:
    from jupyter_ahp import plugins
    from jupyter_ahp.agents import base

    def named(page: str) -> set[str]:
        return {id_.rpartition(".")[2] for id_ in site[f"reference/{page}/index.html"].ids}

    assert set(jupyter_ahp.__all__) - {"__version__"} <= named("python")
    assert set(plugins.__all__) <= named("plugins")
    assert set(base.__all__) <= named("agents")
