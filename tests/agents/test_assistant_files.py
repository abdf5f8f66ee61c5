"""The assistant's own tools for files: what they do on a real disk, what they refuse, and what people see of it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_ahp.agents.assistant import tools
from jupyter_ahp.agents.assistant.tools import Workspace, own_tools, searching
from jupyter_ahp.agents.assistant.tools.reading import LINES
from jupyter_ahp.agents.base import Approvals, Confirmation, Json, ToolResult
from tests.agents.recording import RecordingSink, until

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20


class Allowed(Approvals):
    """Nothing asks."""

    def granted(self, tool: str) -> bool:
        return True


class Desk:
    """A directory and the tools that work in it."""

    def __init__(self, directory: Path, *more: Path, approvals: Approvals | None = None) -> None:
        self.directory = directory
        self.sink = RecordingSink()
        made = own_tools(Workspace([str(directory), *map(str, more)]), approvals or Allowed(), commands=True)
        self.tools = {tool.name: tool for tool in made}

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        tool = self.tools[name]
        return await tool.call(self.sink.tool(name, title=tool.title), arguments)

    @property
    def shown(self) -> Json:
        """The last call, as people see it."""
        call: Json = self.sink.parts[-1]["toolCall"]
        return call


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    directory = tmp_path / "work"
    directory.mkdir()
    return Desk(directory)


# ── Where ────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read_file", {}),
        ("list_directory", {}),
        ("search_files", {"pattern": "x"}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old": "secret", "new": "x"}),
    ],
)
@pytest.mark.parametrize("way", ["up", "absolute", "link", "nul"])
async def test_nothing_leads_out_of_the_directories(
    desk: Desk, tmp_path: Path, tool: str, more: Json, way: str
) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("secret")
    (desk.directory / "link").symlink_to(outside)
    path = {"up": "../secret.txt", "absolute": str(outside), "link": "link", "nul": "a\0b"}[way]
    result = await desk.call(tool, path=path, **more)
    assert result.failed
    assert "outside of the chat's directories" in result.text or "no path on this machine" in result.text
    assert outside.read_text() == "secret"
    assert sorted(os.listdir(tmp_path)) == ["secret.txt", "work"]


async def test_a_command_runs_in_no_other_directory(desk: Desk) -> None:
    result = await desk.call("run_command", command="pwd", directory="..")
    assert result.failed
    assert "outside of the chat's directories" in result.text


async def test_a_chat_that_works_nowhere_has_none() -> None:
    assert own_tools(Workspace([]), Approvals(), commands=True) == []


async def test_every_directory_of_the_chat_can_be_used(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    desk = Desk(tmp_path / "a", tmp_path / "b")
    result = await desk.call("write_file", path=str(tmp_path / "b" / "new.txt"), content="x")
    assert not result.failed
    assert (tmp_path / "b" / "new.txt").read_text() == "x"


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_lines_come_with_their_numbers_and_in_parts(desk: Desk) -> None:
    (desk.directory / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, LINES + 11)))
    first = await desk.call("read_file", path="a.txt")
    assert first.text.splitlines()[0] == "     1\tline 1"
    assert first.text.endswith(f"[Lines 1 to {LINES} of {LINES + 10}. Go on with offset={LINES + 1}.]")
    part = await desk.call("read_file", path="a.txt", offset=3, limit=2)
    assert part.text.splitlines()[:2] == ["     3\tline 3", "     4\tline 4"]
    assert desk.shown["pastTenseMessage"].startswith("Read a.txt, lines 3 to 4")
    assert (await desk.call("read_file", path="a.txt", offset=9999)).failed


async def test_a_notebook_is_read_as_its_cells(desk: Desk) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": ["hello\n"]}
    cells = [{"cell_type": "code", "source": ["print('hello')"], "outputs": [output], "metadata": {}}]
    (desk.directory / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    result = await desk.call("read_file", path="n.ipynb")
    assert "[cell 1, code]" in result.text
    assert "[output of cell 1]" in result.text
    assert "cell_type" not in result.text


async def test_an_image_is_for_models_that_see(desk: Desk) -> None:
    (desk.directory / "p.png").write_bytes(PNG)
    result = await desk.call("read_file", path="p.png")
    assert [(image.media_type, image.data) for image in result.images] == [("image/png", PNG)]
    assert [block["type"] for block in desk.shown["content"]] == ["text", "embeddedResource"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.txt", "There is no file missing.txt."),
        ("data.bin", "it is neither text nor an image"),
        ("sub", "sub is a directory."),
        ("pipe", "pipe is no ordinary file."),
    ],
)
async def test_what_cannot_be_read_is_said(desk: Desk, name: str, words: str) -> None:
    (desk.directory / "data.bin").write_bytes(b"\0\1\2")
    (desk.directory / "sub").mkdir()
    os.mkfifo(desk.directory / "pipe")
    result = await asyncio.wait_for(desk.call("read_file", path=name), 20)
    assert result.failed
    assert words in result.text
    assert desk.shown["success"] is False


async def test_a_directory_is_listed_with_sizes(desk: Desk) -> None:
    (desk.directory / "b.txt").write_text("12345")
    (desk.directory / "a").mkdir()
    result = await desk.call("list_directory")
    assert result.text == "a/\nb.txt\t5 bytes"


# ── Searching ────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def tree(desk: Desk) -> Desk:
    for name, text in {
        ".gitignore": "*.log\nbuild/\n",
        "a.py": "import os\nvalue = 1\n",
        "src/b.py": "value = 2\n",
        "src/c.txt": "Value = 3\n",
        "src/noise.log": "value\n",
        "noise.log": "value\n",
        "build/d.py": "value\n",
        "node_modules/e.py": "value\n",
    }.items():
        path = desk.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (desk.directory / "x.bin").write_bytes(b"value\0")
    return desk


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "^value"}, ["a.py:2: value = 1", "src/b.py:1: value = 2"]),
        ({"pattern": "^value", "ignore_case": True, "glob": "*.txt"}, ["src/c.txt:1: Value = 3"]),
        ({"glob": "*.py"}, ["a.py", "src/b.py"]),
        ({"glob": "*.py", "path": "src"}, ["src/b.py"]),
        ({"glob": "*", "path": "src"}, ["src/b.py", "src/c.txt"]),
        ({"glob": "*", "path": "build"}, ["build/d.py"]),
        ({"pattern": "import", "path": "a.py"}, ["a.py:1: import os"]),
    ],
)
async def test_files_and_lines_are_found(tree: Desk, arguments: Json, lines: list[str]) -> None:
    result = await tree.call("search_files", **arguments)
    assert result.text.splitlines() == lines


async def test_a_search_is_bounded_in_what_it_gives(tree: Desk) -> None:
    (tree.directory / "many.txt").write_text("needle\n" * (searching.MOST + 5))
    result = await tree.call("search_files", pattern="needle")
    assert len(result.text.splitlines()) == searching.MOST + 1
    assert "There are more" in result.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": "x", "path": "nowhere"}, "There is no nowhere."),
        ({}, "not valid under any of the given schemas"),
    ],
)
async def test_what_cannot_be_searched_is_said(tree: Desk, arguments: Json, words: str) -> None:
    result = await tree.call("search_files", **arguments)
    assert result.failed
    assert words in result.text


async def test_a_pattern_that_takes_for_ever_is_ended_and_holds_up_nobody(
    tree: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SECONDS", 1.0)
    (tree.directory / "evil.txt").write_text("a" * 200 + "!\n")
    searched = asyncio.ensure_future(tree.call("search_files", pattern="(a|a)+$"))
    longest, last = 0.0, time.monotonic()
    while not searched.done():
        await asyncio.sleep(0.01)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    assert "It took longer than" in searched.result().text
    assert longest < 0.9, "the loop went on meanwhile"


# ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_file_is_written_with_its_directories(desk: Desk) -> None:
    result = await desk.call("write_file", path="new/deep.txt", content="one\ntwo\n")
    assert (desk.directory / "new" / "deep.txt").read_text() == "one\ntwo\n"
    assert result.text == "new/deep.txt is written, 8 bytes."
    [edit] = desk.shown["content"]
    assert edit["type"] == "fileEdit"
    assert edit["after"]["uri"] == (desk.directory / "new" / "deep.txt").as_uri()
    assert (edit["diff"], "before" in edit) == ({"added": 2, "removed": 0}, False)
    assert side(edit, "after") == "one\ntwo\n"


def side(edit: Json, which: str) -> str:
    """The text of one side of a `FileEdit`."""
    head, _, data = edit[which]["content"]["uri"].partition(",")
    assert head == "data:text/plain;charset=utf-8;base64"
    return base64.b64decode(data).decode()


async def test_of_a_change_to_a_long_file_its_places_are_shown(desk: Desk) -> None:
    (desk.directory / "a.txt").write_text("".join(f"line {number}\n" for number in range(9000)))
    await desk.call("edit_file", path="a.txt", old="line 4000\n", new="changed\n")
    [edit] = desk.shown["content"]
    assert side(edit, "before").splitlines()[3] == "line 4000"
    assert side(edit, "after").splitlines()[3] == "changed"
    assert len(side(edit, "after").splitlines()) == 7


async def test_an_edit_is_exact_and_shown(desk: Desk) -> None:
    path = desk.directory / "a.py"
    path.write_text("x = 1\ny = 2\n")
    os.chmod(path, 0o750)
    result = await desk.call("edit_file", path="a.py", old="x = 1", new="x = 10\nz = 3")
    assert path.read_text() == "x = 10\nz = 3\ny = 2\n"
    assert result.text == "a.py is changed (+2 −1)."
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    [edit] = desk.shown["content"]
    assert (side(edit, "before"), side(edit, "after")) == ("x = 1\ny = 2\n", "x = 10\nz = 3\ny = 2\n")
    assert os.listdir(desk.directory) == ["a.py"], "nothing is left beside it"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"old": "z", "new": "y"}, "`old` does not stand in a.txt"),
        ({"old": "a", "new": "b"}, "`old` stands in a.txt 2 times"),
        ({"old": "b", "new": "b"}, "are the same"),
    ],
)
async def test_an_edit_that_is_not_exact_changes_nothing(desk: Desk, arguments: Json, words: str) -> None:
    (desk.directory / "a.txt").write_text("a b a")
    result = await desk.call("edit_file", path="a.txt", **arguments)
    assert result.failed
    assert words in result.text
    assert (desk.directory / "a.txt").read_text() == "a b a"


async def test_all_places_are_changed_when_it_says_so(desk: Desk) -> None:
    (desk.directory / "a.txt").write_text("a b a")
    await desk.call("edit_file", path="a.txt", old="a", new="c", all=True)
    assert (desk.directory / "a.txt").read_text() == "c b c"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
async def test_line_endings_and_a_byte_order_mark_stay(desk: Desk, mark: bytes) -> None:
    path = desk.directory / "dos.txt"
    path.write_bytes(mark + b"one\r\ntwo\r\nthree\r\n")
    await desk.call("edit_file", path="dos.txt", old="one\ntwo", new="1\n2")
    assert path.read_bytes() == mark + b"1\r\n2\r\nthree\r\n"
    await desk.call("write_file", path="dos.txt", content="all\nnew\n")
    assert path.read_bytes() == mark + b"all\r\nnew\r\n"


async def test_of_a_file_with_both_line_endings_no_other_line_changes(desk: Desk) -> None:
    path = desk.directory / "mixed.txt"
    path.write_bytes(b"one\r\ntwo\nthree\r\n")
    await desk.call("edit_file", path="mixed.txt", old="two\n", new="2\n")
    assert path.read_bytes() == b"one\r\n2\nthree\r\n"


async def test_edits_of_one_answer_at_the_same_file_are_all_there(desk: Desk) -> None:
    path = desk.directory / "a.txt"
    path.write_text("".join(f"<{number}>" for number in range(20)))
    await asyncio.gather(
        *(desk.call("edit_file", path="a.txt", old=f"<{number}>", new=f"[{number}]") for number in range(20))
    )
    assert path.read_text() == "".join(f"[{number}]" for number in range(20))


async def test_a_link_stays_one(desk: Desk) -> None:
    (desk.directory / "real.txt").write_text("old")
    (desk.directory / "link.txt").symlink_to("real.txt")
    await desk.call("write_file", path="link.txt", content="new")
    assert (desk.directory / "link.txt").is_symlink()
    assert (desk.directory / "real.txt").read_text() == "new"


async def test_a_directory_that_takes_no_file_is_said(desk: Desk) -> None:
    (desk.directory / "file").write_text("x")
    result = await desk.call("write_file", path="file/below.txt", content="x")
    assert result.failed
    assert "file/below.txt could not be written" in result.text


async def test_a_notebook_is_written_whole_or_not_at_all(desk: Desk) -> None:
    refused = await desk.call("write_file", path="n.ipynb", content="print(1)")
    assert refused.failed
    assert "this is no notebook" in refused.text
    older = await desk.call("write_file", path="n.ipynb", content='{"nbformat": 3, "worksheets": []}')
    assert older.failed
    assert os.listdir(desk.directory) == []
    cell = {"id": "a", "cell_type": "markdown", "source": "# Hi", "metadata": {}}
    whole = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert not (await desk.call("write_file", path="n.ipynb", content=whole)).failed
    edited = await desk.call("edit_file", path="n.ipynb", old="Hi", new="Ho")
    assert edited.failed
    assert "not edited as text" in edited.text


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_writing_asks_first_and_shows_what_it_would_change(tmp_path: Path) -> None:
    desk = Desk(tmp_path, approvals=Approvals())
    (tmp_path / "a.txt").write_text("one\n")
    writing = asyncio.ensure_future(desk.call("edit_file", path="a.txt", old="one", new="two\nthree"))
    await until(lambda: desk.sink.parts != [] and desk.shown["status"] == "pending-confirmation")
    [edit] = desk.shown["edits"]["items"]
    assert edit["diff"] == {"added": 2, "removed": 1}
    assert edit["after"]["uri"] == (tmp_path / "a.txt").as_uri()
    assert (tmp_path / "a.txt").read_text() == "one\n", "not before somebody allows it"
    desk.sink.confirmed(desk.shown["toolCallId"], Confirmation(approved=False, reason="Not this file."))
    result = await writing
    assert result.failed
    assert "Not this file." in result.text
    assert (tmp_path / "a.txt").read_text() == "one\n"


async def test_nobody_is_asked_for_what_cannot_be_done(tmp_path: Path) -> None:
    desk = Desk(tmp_path, approvals=Approvals())
    result = await asyncio.wait_for(desk.call("edit_file", path="a.txt", old="one", new="two"), 20)
    assert result.failed
    assert "There is no file a.txt." in result.text


async def test_reading_does_not_ask(tmp_path: Path) -> None:
    desk = Desk(tmp_path, approvals=Approvals())
    (tmp_path / "a.txt").write_text("one\n")
    for name, more in (
        ("read_file", {"path": "a.txt"}),
        ("list_directory", {}),
        ("search_files", {"glob": "*"}),
    ):
        assert not (await asyncio.wait_for(desk.call(name, **more), 20)).failed
        assert desk.shown["confirmed"] == "not-needed"


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────────────────────
linux = pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked for in /proc")


@pytest.fixture
def marked(tmp_path: Path) -> str:
    """A name that only processes of this test have in their command line."""
    return f"ahp-{tmp_path.name}-{os.getpid()}"


def running(mark: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line and int(pid) != os.getpid():
            found.append(int(pid))
    return found


async def test_a_command_runs_in_the_directory_and_says_all_that_it_printed(desk: Desk) -> None:
    result = await desk.call("run_command", command="pwd; echo; echo problem >&2; printf end")
    assert result.text == f"{desk.directory.resolve()}\n\nproblem\nend"
    assert desk.shown["pastTenseMessage"].startswith("Ran pwd;")


async def test_a_directory_that_is_not_there_is_said(desk: Desk) -> None:
    result = await desk.call("run_command", command="pwd", directory="nowhere")
    assert result.failed
    assert result.text == "There is no directory nowhere."


async def test_an_exit_code_is_told(desk: Desk) -> None:
    result = await desk.call("run_command", command="echo no; exit 3")
    assert result.failed
    assert result.text == "no\n[The exit code is 3.]"


async def test_what_is_printed_is_seen_while_it_runs(desk: Desk) -> None:
    ran = asyncio.ensure_future(
        desk.call("run_command", command="echo first; while [ ! -e go ]; do sleep 0.05; done; echo last")
    )
    await until(lambda: desk.sink.parts != [] and bool(desk.shown.get("content")), 20)
    assert desk.shown["status"] == "running"
    assert desk.shown["content"] == [{"type": "text", "text": "first"}]
    (desk.directory / "go").touch()
    assert (await ran).text == "first\nlast"


async def test_of_a_long_output_the_middle_is_left_out(desk: Desk) -> None:
    result = await desk.call("run_command", command="seq 1 200000; echo the end")
    assert result.text.startswith("1\n2\n3\n")
    assert result.text.endswith("the end")
    assert "characters are left out here" in result.text
    assert len(result.text) < 25_000


async def test_colours_and_progress_bars_are_taken_out(desk: Desk) -> None:
    result = await desk.call("run_command", command=r"printf '\033[31mred\033[0m\n10%%\r20%%\r100%%\n'")
    assert result.text == "red\n100%"


@linux
async def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(
    desk: Desk, marked: str
) -> None:
    command = f"(exec -a {marked} sleep 600) & exec -a {marked} sleep 600"
    result = await desk.call("run_command", command=command, timeout=1)
    assert result.failed
    assert "did not end in 1 s" in result.text
    assert running(marked) == []


@linux
async def test_nothing_stays_in_the_background(desk: Desk, marked: str) -> None:
    result = await desk.call("run_command", command=f"(exec -a {marked} sleep 600) & echo started")
    assert result.text == "started"
    assert running(marked) == []


@linux
async def test_a_stop_ends_a_command(desk: Desk, marked: str) -> None:
    ran = asyncio.ensure_future(desk.call("run_command", command=f"exec -a {marked} sleep 600"))
    await until(lambda: running(marked) != [], 20)
    ran.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ran
    assert running(marked) == []


async def test_a_command_that_waits_for_input_gets_none(desk: Desk) -> None:
    assert (await asyncio.wait_for(desk.call("run_command", command="cat; echo over"), 20)).text == "over"


async def test_the_servers_own_token_is_not_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_TOKEN", "very-secret")
    assert "very-secret" not in (await desk.call("run_command", command="env")).text


def test_without_commands_there_is_none(tmp_path: Path) -> None:
    names = [tool.name for tool in tools.own_tools(Workspace([str(tmp_path)]), Approvals(), commands=False)]
    assert names == ["read_file", "list_directory", "search_files", "write_file", "edit_file"]
