# SPDX-License-Identifier: BSD-2-Clause
"""kvd.aio: sessions for asyncio.

    import asyncio
    from kvd import aio

    async def main():
        async with await aio.connect("127.0.0.1:7480") as store:
            await store.put("name", b"Ada")
            print(await store.get("name"))

    asyncio.run(main())

Any number of tasks may use a session of their loop. `depth` operations are in flight at once
on its one connection; who comes later waits for a place, in order. A task that is cancelled
gets its CancelledError at once: what it submitted goes on, the memory that it uses is kept
until then, and a change takes effect or not. After a connection was lost the operations in
flight fail, and the next one connects again, outside of the loop's thread.

What libkvd has as a waiting call only (keys, flush, locks, transactions and so on) runs in
threads of the session, each with a connection of its own.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Callable, TypeVar

from ._aio_aside import AsyncLock, AsyncTransaction
from ._aio_changes import Changes
from ._aio_reads import Reads
from ._args import BufferLike, Key, Moment, Time, key_bytes
from .client import Client
from .errors import ConditionFailed, NotFound
from .held import Transaction
from .session import Info

__all__ = ["AsyncLock", "AsyncTransaction", "Session", "connect"]

_DEPTH = 128  # the most that libkvd takes

T = TypeVar("T")
_ABSENT: Any = object()


class Session(Reads, Changes):
    """One connection for many tasks of one loop; made by connect()."""

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------ as a dictionary

    async def pop(self, key: Key, default: Any = _ABSENT) -> Any:
        """Deletes the key; the value that it had. Of many that do it at once one gets it."""
        while True:
            value, found = await self.get_with_version(key)
            if value is None:
                if default is _ABSENT:
                    raise NotFound(key)
                return default
            try:
                if await self.delete(key, if_version=found):
                    return value
            except ConditionFailed:
                pass  # changed in between

    async def setdefault(self, key: Key, value: BufferLike) -> bytes:
        """The value of the key, which is this one if there is none yet."""
        while True:
            try:
                await self.put(key, value, if_absent=True)
                return bytes(value)
            except ConditionFailed:
                found = await self.get(key)
            if found is not None:
                return found

    # ------------------------------------------------- calls of threads beside

    async def info(self, key: Key) -> Info | None:
        """What is known of the value, without reading it; None if there is no such key."""
        return await self._asides.call(lambda store: store.info(key))

    async def keys(self, prefix: Key = b"") -> list[bytes]:
        """All keys that begin with the prefix, in no order."""
        return await self._asides.call(lambda store: list(store.keys(prefix)))

    async def items(self, prefix: Key = b"") -> AsyncIterator[tuple[bytes, bytes]]:
        """Keys and their values, in no order, asked for and READ a page at a time while it goes
        on. A key that is deleted meanwhile is left out."""
        name, cursor = key_bytes(prefix), 0
        while True:
            page, cursor = await self._keys_page(name, cursor)
            for key, value in zip(page, await self.get_many(page)):
                if value is not None:
                    yield key, value
            if not cursor:
                return

    async def _keys_page(self, prefix: bytes, cursor: int) -> tuple[list[bytes], int]:
        return await self._asides.call(lambda store: store._keys_page(prefix, cursor))

    async def values(self, prefix: Key = b"") -> AsyncIterator[bytes]:
        """The values of items()."""
        async for _, value in self.items(prefix):
            yield value

    async def flush(self) -> None:
        """Deletes every key."""
        await self._asides.call(lambda store: store.flush())

    async def flush_at(self, when: Moment | None) -> None:
        """The same at a time; see kvd.Session.flush_at()."""
        await self._asides.call(lambda store: store.flush_at(when))

    async def ping(self) -> float:
        """A round trip through a worker thread of kvd, in seconds."""
        return await self._asides.call(lambda store: store.ping())

    async def stats(self) -> dict[str, Any]:
        """kvd's figures."""
        return await self._asides.call(lambda store: store.stats())

    async def backup(self, path: str) -> None:
        """Copies what kvd keeps on disk to a new folder of kvd's machine."""
        await self._asides.call(lambda store: store.backup(path))

    async def export(self, path: str, prefix: Key = b"") -> int:
        """Writes keys to a file; see kvd.Session.export()."""
        return await self._asides.call(lambda store: store.export(path, prefix))

    async def import_from(self, path: str) -> int:
        """Stores what export() wrote; how many."""
        return await self._asides.call(lambda store: store.import_from(path))

    def lock(self, *keys: Key, timeout: Time | None = None) -> AsyncLock:
        """A lock of these keys, for `async with`; see kvd.Session.lock()."""
        return AsyncLock(self._asides, keys, timeout)

    def transaction(self) -> AsyncTransaction:
        """A transaction, for `async with`; see kvd.Session.transaction()."""
        return AsyncTransaction(self._asides)

    async def transact(
        self, work: Callable[[Transaction], T], *, timeout: Time | None = None
    ) -> T:
        """kvd.Session.transact(), in a thread: `work` must use nothing of the loop's."""
        return await self._asides.call(lambda store: store.transact(work, timeout=timeout))

    async def modify(
        self, key: Key, change: Callable[[Any], Any], *, timeout: Time | None = None
    ) -> None:
        """kvd.Session.modify(), in a thread: `change` must use nothing of the loop's."""
        await self._asides.call(lambda store: store.modify(key, change, timeout=timeout))


async def connect(server: str | None = None, *, depth: int = _DEPTH, **options: Any) -> Session:
    """A session with a client of its own; options as of kvd.Client. Connects in a thread."""
    if not 1 < depth <= _DEPTH:
        raise ValueError(f"depth is from 2 to {_DEPTH}")
    client = Client(server, depth=depth, **options)

    def make() -> Session:
        try:
            return Session(client, depth)
        except BaseException:
            client.close()
            raise

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="kvd") as thread:
        session = await loop.run_in_executor(thread, make)
    session._here()
    return session
