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
import ctypes
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Callable, Iterable, TypeVar, overload

from . import _lib
from ._aio_aside import Asides, AsyncLock, AsyncTransaction
from ._aio_flight import Done, Flight
from ._args import (
    BufferLike,
    Items,
    Key,
    Time,
    change_of,
    key_bytes,
    pairs_of,
    ttl_ms,
)
from ._lib import View
from .client import Client, Handles
from .errors import Busy, ConditionFailed, Error, error_of
from .held import Transaction
from .session import Info

__all__ = ["AsyncLock", "AsyncTransaction", "Session", "connect"]

_DEPTH = 128  # the most that libkvd takes
_ROOM = 4 << 10
_POLL = 64

T = TypeVar("T")
Submit = Callable[[ctypes.c_void_p, int], Any]


class Session(Handles):
    """One connection for many tasks of one loop; made by connect()."""

    _what = "session"

    def __init__(self, client: Client, depth: int) -> None:
        """Blocks while it connects: see connect()."""
        super().__init__()
        self.client = client
        rc = _lib.lib.kvd_session_new(client._open(), ctypes.byref(self._handle))
        if rc < 0:
            raise error_of(rc, _lib.lib.kvd_client_error(client._handle))
        self._fd: int = _lib.lib.kvd_fd(self._handle)
        if self._fd < 0:
            text = _lib.lib.kvd_session_error(self._handle)
            _lib.lib.kvd_session_delete(ctypes.byref(self._handle))
            raise error_of(self._fd, text)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flights: dict[int, Flight] = {}
        self._last_tag = 0
        self._free = depth
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._rooms: list[Any] = []
        self._done = (_lib.Completion * _POLL)()
        self._kicked = self._reads = self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._again: asyncio.Task[Error | None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kvd")
        self._asides = Asides(client)

    def __repr__(self) -> str:
        state = f", {len(self._flights)} in flight" if self._handle else ", closed"
        return f"<kvd.aio.Session of {self.client.server}{state}>"

    # ------------------------------------------------------------------- places

    async def _place(self) -> None:
        """Waits for one of `depth`."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        waiter = self._here().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and not waiter.exception():
                self._give_back()  # it was given one in the same moment
            raise

    def _give_back(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    def _refuse_waiting(self, why: Callable[[], Exception]) -> None:
        """Nobody is left to wait for a place."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(why())

    def _here(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("the session belongs to another event loop")
        return loop

    # ------------------------------------------------------------------- flights

    async def _start(
        self, submit: Submit, keep: Any = None, ended: Callable[[Any], None] | None = None
    ) -> "asyncio.Future[Done]":
        """Submits; the future of its completion. `keep` is what libkvd uses meanwhile."""
        started = False
        try:
            loop = self._here()
            self._usable()
            await self._place()
            try:
                future = await self._submit(loop, submit, keep, ended)
                started = True
            finally:
                if not started:
                    self._give_back()
        finally:
            if not started and ended:
                ended(None)
        return future

    async def _submit(
        self, loop: asyncio.AbstractEventLoop, submit: Submit, keep: Any, ended: Any
    ) -> "asyncio.Future[Done]":
        deadline = loop.time() + self.client._timeout
        while True:
            self._usable()
            if self._again or not _lib.lib.kvd_connected(self._handle):
                await self._connect_again(loop)
                continue
            self._last_tag += 1
            rc = submit(self._handle, self._last_tag)
            if rc == _lib.OK:
                break
            if rc != _lib.EBUSY or loop.time() >= deadline:
                raise error_of(rc, _lib.lib.kvd_session_error(self._handle))
            self._poll()  # completions of a connection that was lost come first
            await asyncio.sleep(0.001)
        future: "asyncio.Future[Done]" = loop.create_future()
        self._flights[self._last_tag] = Flight(future, ended, keep)
        if not self._kicked:
            self._kicked = True
            loop.call_soon(self._ready)
        return future

    async def _run(
        self, submit: Submit, keep: Any = None, ended: Callable[[Any], None] | None = None
    ) -> Done:
        return (await (await self._start(submit, keep, ended))).check()

    def _usable(self) -> None:
        if self._closing:
            raise ValueError("the session is closed")
        self._open()

    def _ready(self) -> None:
        """Posts what was submitted, takes completions, and asks to be called for the next."""
        self._kicked = False
        if not self._handle or self._again:
            return
        self._poll()
        while self._flights and _lib.lib.kvd_arm(self._handle) == 1:
            self._poll()
        self._watch(bool(self._flights))

    def _watch(self, wanted: bool) -> None:
        """The descriptor is looked at, and libkvd at the latest after its time-out, only while
        something is in flight."""
        assert self._loop
        if wanted != self._reads and not self._loop.is_closed():
            self._reads = wanted
            if wanted:
                self._loop.add_reader(self._fd, self._ready)
            else:
                self._loop.remove_reader(self._fd)
        if wanted and not self._timer:
            self._timer = self._loop.call_later(self.client._timeout, self._tick)
        elif not wanted and self._timer:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self._ready()

    def _poll(self) -> None:
        count = _POLL
        while count == _POLL and self._flights:
            count = _lib.lib.kvd_poll(self._handle, self._done, _POLL, 0)
            if count < 0:
                self._fail_all(count)
                return
            text = self._text(count)
            for i in range(count):
                self._end(self._done[i].tag, Done(self._done[i]), text)

    def _text(self, count: int) -> bytes:
        """The session's last error, if it is of all that failed."""
        codes = {self._done[i].result for i in range(count) if self._done[i].result < 0}
        if len(codes) != 1:
            return b""
        text: bytes = _lib.lib.kvd_session_error(self._handle)
        return text

    def _end(self, tag: int, done: Done, text: bytes) -> None:
        flight = self._flights.pop(tag)
        if done.result < 0:
            done.text = text
        if flight.ended:
            flight.ended(done)
        if not flight.future.done():
            flight.future.set_result(done)
        self._give_back()
        if not self._flights and self._idle and not self._idle.done():
            self._idle.set_result(None)

    def _fail_all(self, code: int) -> None:
        text = _lib.lib.kvd_session_error(self._handle)
        for tag in list(self._flights):
            self._end(tag, Done(_lib.Completion(result=code)), text)

    # ------------------------------------------------------------------- connecting

    async def _connect_again(self, loop: asyncio.AbstractEventLoop) -> None:
        """All that wait for it share one attempt."""
        if not self._again:
            self._again = loop.create_task(self._connect_once(loop))
        error = await asyncio.shield(self._again)
        if error:
            raise error_of(error.code, str(error).encode())

    async def _connect_once(self, loop: asyncio.AbstractEventLoop) -> Error | None:
        try:
            self._poll()  # what is in flight still is of the connection that was lost
            if self._flights:
                await self._until_idle(loop)
            self._watch(False)
            rc = await loop.run_in_executor(self._thread, _lib.lib.kvd_fd, self._handle)
            if rc >= 0:
                return None
            text = _lib.lib.kvd_session_error(self._handle)
            # Those behind would each wait for an attempt of their own, `depth` at a time.
            self._refuse_waiting(lambda: error_of(rc, text))
            return error_of(rc, text)
        finally:
            self._again = None

    async def _until_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes completions until nothing is in flight; libkvd ends each in time."""
        end = loop.time() + self.client._timeout + 1
        while self._flights and loop.time() < end:
            self._poll()
            await asyncio.sleep(0.001)
        if self._flights:
            self._fail_all(_lib.EUNKNOWN)

    async def close(self) -> None:
        """Waits for what is in flight, and ends the connections. Who waits for a place gets a
        ValueError."""
        if self._closing:
            return
        self._closing = True
        loop = self._here()
        self._refuse_waiting(lambda: ValueError("the session is closed"))
        if self._again:
            await asyncio.shield(self._again)
        await self._until_idle(loop)
        self._watch(False)
        await self._asides.close()
        self._end_handles()

    def _end_handles(self) -> None:
        if self._handle:
            _lib.lib.kvd_session_delete(ctypes.byref(self._handle))
        self._thread.shutdown(wait=False)
        self.client.close()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._end_handles()

    # ------------------------------------------------------------------- reading

    async def _get_start(self, name: bytes) -> "asyncio.Future[Done]":
        """Into a room that is used again; the value is taken out of it at its completion."""
        room: Any = None

        def submit(s: ctypes.c_void_p, tag: int) -> Any:
            nonlocal room
            if room is None:
                room = self._rooms.pop() if self._rooms else ctypes.create_string_buffer(_ROOM)
            return _lib.lib.kvd_submit_get(s, name, len(name), room, _ROOM, tag)

        def ended(done: Done | None) -> None:
            if done and done.result == _lib.OK:
                done.value = ctypes.string_at(room, done.value_bytes)
            if room is not None:
                self._rooms.append(room)

        return await self._start(submit, None, ended)

    async def _get_end(self, name: bytes, done: Done) -> Done:
        """A long value is READ into the object that is returned."""
        while done.result == _lib.ESPACE:
            length = done.value_bytes
            value: bytes = _lib.new_bytes(None, length)
            place = _lib.bytes_address(value)
            done = await (
                await self._start(
                    lambda s, tag: _lib.lib.kvd_submit_get(
                        s, name, len(name), place, length, tag
                    ),
                    value,
                )
            )
            if done.result == _lib.OK:
                done.value = value if done.value_bytes == length else value[: done.value_bytes]
        return done.check()

    async def get_with_version(self, key: Key) -> tuple[bytes | None, int]:
        """The value and its version, or (None, 0)."""
        name = key_bytes(key)
        done = await self._get_end(name, await (await self._get_start(name)))
        return done.value, done.version if done.value is not None else 0

    @overload
    async def get(self, key: Key) -> bytes | None: ...

    @overload
    async def get(self, key: Key, default: T) -> bytes | T: ...

    async def get(self, key: Key, default: Any = None) -> Any:
        """The value, or the default if there is no such key."""
        value = (await self.get_with_version(key))[0]
        return default if value is None else value

    async def get_into(self, key: Key, buffer: BufferLike) -> int | None:
        """READs the value into writable memory, which is kept until that has ended; its
        length, or None if there is no such key."""
        name, view = key_bytes(key), View(buffer, writable=True)
        done = await self._run_view(
            view,
            lambda s, tag: _lib.lib.kvd_submit_get(
                s, name, len(name), view.address, view.nbytes, tag
            ),
        )
        if done.result == _lib.ESPACE:
            raise Error(
                done.result, f"the value has {done.value_bytes} bytes, the buffer {view.nbytes}"
            )
        return done.value_bytes if done.check().result == _lib.OK else None

    async def _run_view(self, view: View, submit: Submit) -> Done:
        """The object that has the memory can't be resized or freed before the completion."""
        return await (await self._start(submit, view, lambda _: view.close()))

    async def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        """The values of many keys, None for those that are not there."""
        names = [key_bytes(key) for key in keys]
        flights = await self._start_all(self._get_start(name) for name in names)
        return [
            (await self._get_end(name, await flight)).value
            for name, flight in zip(names, flights)
        ]

    async def _start_all(self, starts: Iterable[Any]) -> list["asyncio.Future[Done]"]:
        return [await start for start in starts]

    # ------------------------------------------------------------------- changing

    async def put(
        self,
        key: Key,
        value: BufferLike,
        *,
        ttl: Time | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        flags: int = 0,
    ) -> int:
        """Stores a value; returns its version. With a condition that is false:
        ConditionFailed, and nothing is done."""
        change = change_of(ttl, if_absent, if_present, if_version, flags)
        flight = await self._put_start(key, value, change)
        return self._version(await flight)

    async def _put_start(
        self, key: Key, value: BufferLike, change: _lib.Change
    ) -> "asyncio.Future[Done]":
        name, view = key_bytes(key), View(value)
        return await self._start(
            lambda s, tag: _lib.lib.kvd_submit_put_with(
                s, name, len(name), view.address, view.nbytes, ctypes.byref(change), tag
            ),
            view, lambda _: view.close(),
        )

    @staticmethod
    def _version(done: Done) -> int:
        if done.check().result == _lib.CONDITION:
            raise ConditionFailed(done.version)
        return done.version

    async def put_many(self, items: Items, *, ttl: Time | None = None) -> None:
        """Stores many values. Where one fails the others may be stored."""
        change = change_of(ttl)
        starts = (self._put_start(key, value, change) for key, value in pairs_of(items))
        for flight in await self._start_all(starts):
            (await flight).check()

    async def update(self, items: Items = (), **more: BufferLike) -> None:
        """Stores many values."""
        await self.put_many([*pairs_of(items), *more.items()])

    async def delete(self, key: Key, *, if_version: int | None = None) -> bool:
        """True if the key was deleted, False if there was none."""
        name, change = key_bytes(key), change_of(if_version=if_version)
        done = await self._run(
            lambda s, tag: _lib.lib.kvd_submit_del_with(
                s, name, len(name), ctypes.byref(change), tag
            )
        )
        self._version(done)
        return done.result == _lib.OK

    async def incr(self, key: Key, delta: int = 1, *, initial: int | None = 0) -> int | None:
        """Adds to a number; the sum. An absent key counts from `initial`, or is None."""
        name = key_bytes(key)
        first = None if initial is None else ctypes.byref(ctypes.c_int64(initial))
        done = await self._run(
            lambda s, tag: _lib.lib.kvd_submit_incr(s, name, len(name), delta, first, None, tag)
        )
        return done.number if done.result == _lib.OK else None

    async def append(self, key: Key, value: BufferLike) -> int:
        """Appends to a value, or makes it; the length then."""
        return await self._join(_lib.lib.kvd_submit_append, key, value)

    async def prepend(self, key: Key, value: BufferLike) -> int:
        """The same at the value's beginning."""
        return await self._join(_lib.lib.kvd_submit_prepend, key, value)

    async def _join(self, call: Any, key: Key, value: BufferLike) -> int:
        name, view = key_bytes(key), View(value)
        done = await self._run_view(
            view,
            lambda s, tag: call(s, name, len(name), view.address, view.nbytes, None, tag),
        )
        return done.check().value_bytes

    async def touch(self, key: Key, ttl: Time | None) -> bool:
        """A new time to live, None for ever; False if there is no such key."""
        name, ms = key_bytes(key), ttl_ms(ttl)
        done = await self._run(
            lambda s, tag: _lib.lib.kvd_submit_touch(s, name, len(name), ms, tag)
        )
        return done.result == _lib.OK

    # ------------------------------------------------- calls of threads beside

    async def exists(self, key: Key) -> bool:
        return await self.length(key) is not None

    async def length(self, key: Key) -> int | None:
        """The length of the value, without reading it; None if there is no such key."""
        return await self._asides.call(lambda store: store.length(key))

    async def info(self, key: Key) -> Info | None:
        """What is known of the value, without reading it; None if there is no such key."""
        return await self._asides.call(lambda store: store.info(key))

    async def keys(self, prefix: Key = b"") -> list[bytes]:
        """All keys that begin with the prefix, in no order."""
        return list(await self._asides.call(lambda store: store.keys(prefix)))

    async def items(self, prefix: Key = b"") -> AsyncIterator[tuple[bytes, bytes]]:
        """Keys and their values, in no order, READ a batch at a time while it goes on."""
        names = await self.keys(prefix)
        for at in range(0, len(names), _DEPTH):
            some = names[at : at + _DEPTH]
            for name, value in zip(some, await self.get_many(some)):
                if value is not None:
                    yield name, value

    async def flush(self) -> None:
        """Deletes every key."""
        await self._asides.call(lambda store: store.flush())

    async def ping(self) -> float:
        """A round trip through a worker thread of kvd, in seconds."""
        return await self._asides.call(lambda store: store.ping())

    async def stats(self) -> dict[str, Any]:
        """kvd's figures."""
        return await self._asides.call(lambda store: store.stats())

    async def backup(self, path: str) -> None:
        """Copies what kvd keeps on disk to a new folder of kvd's machine."""
        await self._asides.call(lambda store: store.backup(path))

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
