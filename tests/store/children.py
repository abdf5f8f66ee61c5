"""Other processes on the same store. `python children.py TASK DATA_DIR …`; each says on stdout how far it came."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from jupyter_ahp.store.files import FileStore

SESSION, CHAT = "s1", "ahp-chat:/s1/c1"


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def stream(store: FileStore) -> None:
    """Journal for ever; say a number when all up to it should be written."""
    await store.claim(SESSION)
    await store.begin_turn(SESSION, CHAT, {"id": "t1", "message": {"text": "go on"}, "responseParts": []})
    number = 0
    while True:
        for _ in range(200):
            store.journal(SESSION, CHAT, b'{"type":"chat/delta","turnId":"t1","number":%d}' % number)
            number += 1
            if number % 20 == 0:
                await asyncio.sleep(0.002)
        await asyncio.sleep(0.1)
        say(number - 1)


async def hold(store: FileStore) -> None:
    say(await store.claim(SESSION))
    await asyncio.Event().wait()


async def count(store: FileStore, times: int) -> None:
    for _ in range(times):
        say(await store.reserve(7))


async def main(task: str, data_dir: str, *rest: str) -> None:
    store = FileStore(Path(data_dir))
    await store.open()
    if task == "stream":
        await stream(store)
    elif task == "hold":
        await hold(store)
    elif task == "count":
        await count(store, int(rest[0]))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
