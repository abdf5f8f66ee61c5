"""Nothing is left of a CLI when its server is killed, and the conversation is there for the next one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

import pytest

from jupyter_ahp.agents.claude.settings import Settings
from tests.agents.claude.room import PATIENCE, Room
from tests.host.harness import until
from tests.mock_model import MockModel

SERVER = """
import asyncio, json, sys
from pathlib import Path
from jupyter_ahp.agents.claude.settings import Settings
from tests.agents.claude.room import Room
from tests.mock_model import MockModel

async def main():
    settings = Settings(**json.loads(sys.argv[1]))
    room = Room(settings, MockModel(), Path(sys.argv[2]))
    await room.enter()
    await room.say("my name is Ada\\n!!text hello Ada")
    await room.begin('one\\n!!tool Bash {"command":"echo begun; sleep 77"}\\n!!text done')
    await room.call("running")
    print(room.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_a_killed_server_leaves_no_cli_and_no_command_of_it(
    settings: Settings, model: MockModel, work: Path
) -> None:
    given = json.dumps(asdict(settings))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(SERVER),
        given,
        str(work),
        stdout=asyncio.subprocess.PIPE,
        env=env,
    )
    assert server.stdout is not None
    async with asyncio.timeout(2 * PATIENCE):
        pid = int(await server.stdout.readline())
    assert alive(pid)
    server.send_signal(signal.SIGKILL)
    await server.wait()
    await until(lambda: not alive(pid), PATIENCE)
    await until(lambda: not [one for one in commands() if "sleep 77" in one], PATIENCE)

    room = Room(settings, model, work)
    await room.enter()
    try:
        found = await room.agent.catalogue([str(work)])
        assert [row.title for row in found] == ["my name is Ada !!text hello Ada"]
    finally:
        await room.leave()


def commands() -> list[str]:
    """What runs on this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
