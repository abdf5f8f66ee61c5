"""A disk that is really full: a small one, mounted for the test. A2, A5.

Where none can be mounted, the kernel's limit on a file's size stands for it: in tests/store/test_failing_disk.py,
test_attachments.py, test_uploads.py and test_resources.py, which need no rights.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jupyter_ahp.host.host import Host, HostOptions
from jupyter_ahp.host.ports import Json
from jupyter_ahp.protocol.meta import UPLOADS
from jupyter_ahp.store.files import FileStore
from tests.host.harness import Scripted, answer_of
from tests.host.test_attachments import Sender, file_of, inline, resource, sent

S = "ahp-session:/s"
SIZE = 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """One of a mebibyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if not sys.platform.startswith("linux"):
        pytest.skip(
            "a small disk is mounted on Linux only; the limit on a file's size stands for it elsewhere"
        )
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `mount` here; the limit on a file's size stands for a full disk elsewhere")
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here ({done.stderr.strip()}); see the module's docstring")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=20)


@pytest.fixture
async def host(disk: Path, agent: Scripted) -> AsyncIterator[Host]:
    served = disk / "served"
    served.mkdir()
    host = Host(FileStore(disk / "store"), [agent], HostOptions(default_directory=str(served)))
    await host.start()
    yield host
    for connection in tuple(host.connections):
        await connection.closed()
    (served / "filler").unlink(missing_ok=True)
    await host.stop()


@pytest.fixture
async def client(host: Host) -> Sender:
    client = Sender(host)
    await client.initialize("ahp-root://")
    return client


def fill(disk: Path, leave: int) -> Path:
    """Leave so many bytes."""
    filler = disk / "served" / "filler"
    free = shutil.disk_usage(disk).free
    filler.write_bytes(b"\0" * (free - leave))
    return filler


async def test_A5_what_a_full_disk_does_not_take_stays_as_it_was_sent_and_the_turn_runs(
    client: Sender, host: Host, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = b"x" * 300_000

    async def answer(params: Json) -> Json:
        return {"data": base64.b64encode(data).decode(), "encoding": "base64"}

    client.answer = answer
    chat = await client.create(S)
    filler = fill(disk, 150_000)

    [kept] = await sent(client, resource("untitled:big"), chat=chat)

    assert kept == resource("untitled:big")
    assert "No space left" in caplog.text
    folder = host.store.attachments_dir("s")
    assert not folder.exists() or list(folder.iterdir()) == [], "no half of a file"
    filler.unlink()
    [kept] = await sent(client, resource("untitled:big"), chat=chat)
    assert file_of(kept).read_bytes() == data


async def test_A2_a_message_whose_bytes_fit_nowhere_is_refused_with_words(client: Sender, disk: Path) -> None:
    chat = await client.create(S)
    filler = fill(disk, 100_000)

    turn = await client.start(chat, "look", attachments=[inline(b"x" * 300_000)])

    assert not client.running(chat)
    (refusal,) = client.refusals
    assert "full" in refusal["rejectionReason"]
    assert "free some space" in refusal["rejectionReason"]
    assert turn not in [one["id"] for one in client.state(chat)["turns"]]
    filler.unlink()
    assert answer_of(await client.say(chat, "and now?")) == "You said: and now?"
    [kept] = await sent(client, inline(b"x" * 300_000), chat=chat)
    assert file_of(kept).stat().st_size == 300_000


async def test_A2_an_upload_stops_at_a_full_disk_and_goes_on(client: Sender, disk: Path) -> None:
    chat = await client.create(S)
    uri = f"{client.result['_meta'][UPLOADS]['uri']}one"
    piece: Json = {"uri": uri, "data": base64.b64encode(b"x" * 100_000).decode(), "encoding": "base64"}
    filler = fill(disk, 250_000)
    await client.request("resourceWrite", **piece)
    await client.request("resourceWrite", **piece, position=100_000)
    failure = await client.fails("resourceWrite", **piece, position=200_000)
    assert failure.code == -32603
    assert "No space left" in failure.message

    filler.unlink()
    await client.request("resourceWrite", **piece, position=200_000)
    [kept] = await sent(client, resource(uri), chat=chat)
    assert file_of(kept).read_bytes() == b"x" * 300_000


async def test_a_file_that_a_full_disk_does_not_take_is_the_old_one(client: Sender, disk: Path) -> None:
    path = disk / "served" / "a.csv"
    path.write_text("old")
    fill(disk, 50_000)
    failure = await client.fails("resourceWrite", uri=path.as_uri(), data="x" * 200_000, encoding="utf-8")
    assert "No space left" in failure.message
    assert path.read_text() == "old"
    assert sorted(one.name for one in path.parent.iterdir()) == ["a.csv", "filler"]
