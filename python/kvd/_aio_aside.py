# SPDX-License-Identifier: BSD-2-Clause
"""Waiting calls of asyncio's sessions: each runs in a thread, which has a connection of its
own, so that none waits for another's lock."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, TypeVar

from ._args import BufferLike, Key, Time
from .client import Client
from .errors import Error
from .held import Lock, Transaction
from .session import Session

_ASIDES_MAX = 8  # who comes later waits; who holds a lock has one already

T = TypeVar("T")


class Aside:
    """A thread, and the session that only it uses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kvd")
        self._session: Session | None = None

    def _store(self) -> Session:
        if not self._session:
            self._session = self._client.session()
        return self._session

    async def run(self, work: Callable[[Session], T], undo: Callable[[T], Any] | None = None) -> T:
        """What is cancelled is waited for, as libkvd ends it in time; then undone."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._thread, lambda: work(self._store()))
        try:
            result: T = await asyncio.shield(future)
            return result
        except asyncio.CancelledError:
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError:
                    pass
            if not future.cancelled() and not future.exception() and undo:
                await loop.run_in_executor(self._thread, undo, future.result())
            raise

    async def close(self) -> None:
        def end() -> None:
            if self._session:
                self._session.close()

        await asyncio.get_running_loop().run_in_executor(self._thread, end)
        self._thread.shutdown(wait=False)


class Asides:
    """Those of one session: made when they are needed, and used again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._all: list[Aside] = []
        self._free: list[Aside] = []
        self._places: asyncio.Semaphore | None = None
        self._closed = False

    async def take(self) -> Aside:
        if not self._places:
            self._places = asyncio.Semaphore(_ASIDES_MAX)
        await self._places.acquire()
        if self._closed:
            self._places.release()
            raise ValueError("the session is closed")
        if not self._free:
            self._free.append(Aside(self._client))
            self._all.append(self._free[-1])
        return self._free.pop()

    def give_back(self, aside: Aside) -> None:
        assert self._places
        self._free.append(aside)
        self._places.release()

    async def call(self, work: Callable[[Session], T]) -> T:
        aside = await self.take()
        try:
            return await aside.run(work)
        finally:
            self.give_back(aside)

    async def close(self) -> None:
        self._closed = True
        for aside in self._all:
            await aside.close()


class _Held:
    """What has an aside from the beginning to the end of an `async with`."""

    def __init__(self, asides: Asides) -> None:
        self._asides = asides
        self._aside: Aside | None = None

    async def _call(self, work: Callable[[], T]) -> T:
        if not self._aside:
            raise ValueError("it is used outside of its `async with`")
        result: T = await self._aside.run(lambda _: work())
        return result

    async def _begin(self, begin: Callable[[Session], Any], undo: Callable[[Any], Any]) -> Any:
        aside = await self._asides.take()
        try:
            begun = await aside.run(begin, undo)
        except BaseException:
            self._asides.give_back(aside)
            raise
        self._aside = aside
        return begun

    async def _finish(self, finish: Callable[[], Any]) -> None:
        def work(_: Session) -> None:
            finish()

        aside, self._aside = self._aside, None
        if aside:
            try:
                await aside.run(work)
            finally:
                self._asides.give_back(aside)


class AsyncLock(_Held):
    """kvd.Lock, for `async with`."""

    def __init__(self, asides: Asides, keys: tuple[Key, ...], timeout: Time | None) -> None:
        super().__init__(asides)
        self._args = keys, timeout
        self._lock: Lock | None = None

    async def __aenter__(self) -> "AsyncLock":
        keys, timeout = self._args
        self._lock = await self._begin(
            lambda store: store.lock(*keys, timeout=timeout).acquire(), Lock.release
        )
        return self

    async def __aexit__(self, kind: Any, *_: object) -> None:
        try:
            await self._finish(self._held().release)
        except Error:
            if kind is None:
                raise

    def _held(self) -> Lock:
        if not self._lock:
            raise ValueError("the lock is not held")
        return self._lock

    async def check(self) -> None:
        """LockLost, if it is not held any more."""
        await self._call(self._held().check)

    async def get(self, key: Key) -> bytes | None:
        return await self._call(lambda: self._held().get(key))

    async def put(self, key: Key, value: BufferLike) -> int:
        """The version."""
        return await self._call(lambda: self._held().put(key, value))

    async def delete(self, key: Key) -> bool:
        return await self._call(lambda: self._held().delete(key))


class AsyncTransaction(_Held):
    """kvd.Transaction, for `async with`."""

    _txn: Transaction | None = None

    async def __aenter__(self) -> "AsyncTransaction":
        self._txn = await self._begin(lambda store: store.transaction(), Transaction.discard)
        return self

    async def __aexit__(self, kind: Any, *_: object) -> None:
        txn = self._begun()
        await self._finish(txn.commit if kind is None else txn.discard)

    def _begun(self) -> Transaction:
        if not self._txn:
            raise ValueError("the transaction has not begun")
        return self._txn

    async def get(self, key: Key) -> bytes | None:
        return await self._call(lambda: self._begun().get(key))

    async def put(self, key: Key, value: BufferLike) -> None:
        await self._call(lambda: self._begun().put(key, value))

    async def delete(self, key: Key) -> None:
        await self._call(lambda: self._begun().delete(key))
