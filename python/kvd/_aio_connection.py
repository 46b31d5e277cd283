# SPDX-License-Identifier: BSD-2-Clause
"""The connection of asyncio's sessions: places, operations in flight, connecting again."""

from __future__ import annotations

import asyncio
import ctypes
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable

from . import _lib
from ._aio_aside import Asides
from ._aio_flight import Done, Flight
from ._lib import View
from .client import Client, Handles
from .errors import ConditionFailed, Error, error_of

_POLL = 64

Submit = Callable[[ctypes.c_void_p, int], Any]


class Connection(Handles):
    """One connection for many tasks of one loop."""

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

    async def _run_view(self, view: View, submit: Submit) -> Done:
        """The object that has the memory can't be resized or freed before the completion."""
        return await (await self._start(submit, view, lambda _: view.close()))

    @staticmethod
    async def _start_all(starts: Iterable[Any]) -> list["asyncio.Future[Done]"]:
        return [await start for start in starts]

    @staticmethod
    def _version(done: Done) -> int:
        if done.check().result == _lib.CONDITION:
            raise ConditionFailed(done.version)
        return done.version

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

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._end_handles()
