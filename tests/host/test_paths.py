from __future__ import annotations

import pytest

from jupyter_ahp.host.paths import path_of


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/ada/a%20b.csv", "/home/ada/a b.csv"),
        ("file://localhost/home/ada", "/home/ada"),
        ("file:///c%3A/Users", "/c:/Users"),
        ("file://server/share", None),
        ("http://localhost/home", None),
        ("untitled:one", None),
        ("file://[", None),
    ],
)
def test_the_path_of_a_uri(uri: str, path: str | None) -> None:
    assert path_of(uri, windows=False) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c:/Users/ada/a%20b.csv", r"c:\Users\ada\a b.csv"),
        ("file:///c%3A/Users/ada", r"c:\Users\ada"),
        ("file:///C|/Users", r"C:\Users"),
        ("file:///d%3a", "d:\\"),
        ("file://localhost/c:/Users", r"c:\Users"),
        ("file://server/share/a%20b", r"\\server\share\a b"),
        ("file:///home/ada", r"\home\ada"),
        ("vscode-remote:///c:/Users", None),
    ],
)
def test_the_path_of_a_uri_as_windows_spells_it(uri: str, path: str | None) -> None:
    assert path_of(uri, windows=True) == path
