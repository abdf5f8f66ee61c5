"""Which way imports go, and what `import jupyter_ahp` does not load (design: "Arrows go one way")."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "jupyter_ahp"

# What a layer may import of ours, beside itself. `host.ports` is the one part of the host that others build on.
MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "host": {"protocol"},
    # What a message's attachments become is decided once, for earlier turns too (A1): a pure function of the host's.
    "agents": {"protocol", "host.ports", "host.attachments"},
    "store": {"protocol", "host.ports"},
    "plugins": {"protocol", "host.ports"},
    "client": {"protocol"},
    "notebook": {"client", "inprocess"},
    # What is heavy of the server's, it imports when there is a host to start.
    "inprocess": {"app", "client", "host", "ptys"},
}

HEAVY = [
    "anthropic",
    "anywidget",
    "hypothesis",
    "IPython",
    "ipywidgets",
    "jupyter_server",
    "jupyterlab",
    "mcp",
    "numpy",
    "openai",
    "pandas",
    "pydantic",
    "pydantic_ai",
    "tornado",
    "traitlets",
    "websockets",
    "xllamacpp",
]


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package by its dotted name below `jupyter_ahp`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports_of(name: str, path: Path) -> Iterator[str]:
    """The modules of ours that one imports, anywhere in its text, by dotted name below `jupyter_ahp`."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    package = [part for part in package if part]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "jupyter_ahp":
                    yield alias.name.partition(".")[2]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - (node.level - 1)]
            elif (node.module or "").split(".")[0] == "jupyter_ahp":
                base = []
            else:
                continue
            module = node.module or ""
            inside = module if node.level else module.partition(".")[2]
            for alias in node.names:
                yield ".".join([*base, *([inside] if inside else []), alias.name])


def is_within(module: str, allowed: str) -> bool:
    return module == allowed or module.startswith(f"{allowed}.")


@pytest.mark.parametrize("layer", sorted(MAY_IMPORT))
def test_a_layer_imports_only_what_it_knows(layer: str) -> None:
    for name, path in modules():
        if name.split(".")[0] != layer:
            continue
        allowed = {layer, *MAY_IMPORT[layer]} | ({"_version"} if layer != "protocol" else set())
        for imported in imports_of(name, path):
            assert any(is_within(imported, known) for known in allowed), f"{name} imports {imported}"


def test_the_check_sees_every_way_to_import(tmp_path: Path) -> None:
    path = tmp_path / "turns.py"
    path.write_text(
        "from ..agents import base\nfrom . import ports\nfrom .ports import Frame\nimport jupyter_ahp.store.files\n"
        "from jupyter_ahp import client\nfrom jupyter_ahp.client import chat\nimport json\nfrom .. import app\n"
        "def late():\n    from ..notebook.widget import ChatWidget\n"
    )
    assert sorted(imports_of("host.turns", path)) == [
        "agents.base",
        "app",
        "client",
        "client.chat",
        "host.ports",
        "host.ports.Frame",
        "notebook.widget.ChatWidget",
        "store.files",
    ]


def test_the_protocol_needs_nothing_but_msgspec() -> None:
    """Pure: the standard library's parts that do I/O, and Jupyter, are not imported."""
    allowed = sys.stdlib_module_names - {
        "asyncio",
        "io",
        "logging",
        "os",
        "pathlib",
        "socket",
        "threading",
        "time",
    }
    for name, path in modules():
        if name.split(".")[0] != "protocol":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for imported in names:
                top = imported.split(".")[0]
                assert top == "msgspec" or top in allowed, f"{name} imports {imported}"


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = f"import sys, jupyter_ahp; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
