# SPDX-License-Identifier: BSD-2-Clause
"""Of kvd.aio where kvd is killed under 10,000 tasks: all of them end, with an error that
says why, nothing leaks, and the session works again once kvd does.  Run by
tests/integration/python_aio.sh: KVD_ADDR, KVD_PID; a file to make when kvd is needed again."""

import asyncio
import gc
import os
import signal
import sys
import threading
import time

import kvd
from kvd import aio

COUNT = 10000
PATIENCE_S = 120


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def tasks_end(store: aio.Session) -> None:
    value = os.urandom(3000)
    done = 0

    async def one(i: int) -> str:
        nonlocal done
        try:
            while True:
                await store.put(f"key{i}", value)
                if await store.get(f"key{i}") != value:
                    return "wrong"
                done += 1
        except ConnectionError:
            return "cut off"
        except TimeoutError:
            return "timed out"

    tasks = [asyncio.ensure_future(one(i)) for i in range(COUNT)]
    while done < COUNT // 10:
        await asyncio.sleep(0.001)
    os.kill(int(os.environ["KVD_PID"]), signal.SIGKILL)
    begin = time.monotonic()
    for task in tasks[::7]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    took = time.monotonic() - begin
    kinds = {str(r) if isinstance(r, str) else type(r).__name__ for r in results}
    print(f"{done} rounds before, all ended within {took:.1f} s: {sorted(kinds)}")
    assert kinds <= {"cut off", "timed out", "CancelledError"}, kinds
    assert "cut off" in kinds and took < PATIENCE_S
    assert not store._flights and not store._waiting and store._free == 128


async def loop_goes_on(store: aio.Session) -> None:
    """While a session that had nothing in flight looks for a kvd that is gone, for 20 s, the
    loop's other tasks run."""
    pauses = [0.0]

    async def beat() -> None:
        while True:
            begin = time.monotonic()
            await asyncio.sleep(0.01)
            pauses.append(time.monotonic() - begin)

    beating = asyncio.ensure_future(beat())
    asked = asyncio.ensure_future(store.get("key"))
    await asyncio.wait([asked], timeout=12)
    again = asyncio.ensure_future(store.put("key", b"v"))  # the first one may have told it
    await asyncio.wait([asked, again], timeout=12)
    beating.cancel()
    assert len(pauses) > 100 and max(pauses) < 8, (len(pauses), max(pauses))
    await asyncio.gather(asked, again, return_exceptions=True)
    await store.close()


async def works_again(store: aio.Session) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            await store.put("key", b"again")
            break
        except (ConnectionError, TimeoutError):
            assert time.monotonic() < end, "it does not connect again"
            await asyncio.sleep(0.05)
    assert await store.get("key") == b"again"


async def main() -> None:
    store = await aio.connect(os.environ["KVD_ADDR"], timeout=2)
    idle = await aio.connect(os.environ["KVD_ADDR"], timeout=20)
    await tasks_end(store)
    await loop_goes_on(idle)
    open(sys.argv[1], "w").close()
    await works_again(store)
    await store.close()
    gc.collect()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, left
    await nothing_grows()


async def nothing_grows() -> None:
    """What the device keeps for a process is open from its first use on."""
    counts = []
    for _ in range(5):
        async with await aio.connect(os.environ["KVD_ADDR"]) as store:
            await store.put("key", b"v")
            async with store.lock("key"):
                pass
        gc.collect()
        counts.append((open_files(), threading.active_count()))
    end = time.monotonic() + PATIENCE_S
    while open_files() > counts[0][0] or threading.active_count() > 1:
        assert time.monotonic() < end, (counts, open_files(), threading.enumerate())
        await asyncio.sleep(0.05)


asyncio.run(main())
print("kvd", kvd.__version__)
