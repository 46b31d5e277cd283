# SPDX-License-Identifier: BSD-2-Clause
"""kvd.lmcache: kvd as a store of LMCache's, which keeps the KV caches of LLM servers.

LMCache loads it by name (`native_plugin`, module_path "kvd.lmcache", class_name "Store"), and
asks for batches of get, set, exists and delete over memory of its own. Nothing waits but the
threads here: a submit gives a number at once, and the eventfd becomes readable when something
has completed.

Values are READ into and sent from where the views stand. The mapping that a view lies in is
registered with the device when it is first seen, and stays so until close(): it must stay
mapped as long, as LMCache's arena does. A value that is there only in part never counts as
loaded, as libkvd checks each.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import Any, Callable, List, Optional, Sequence, Tuple

from . import _lib
from ._args import BufferLike, Key, Time, key_bytes
from ._lib import View
from ._register import Mappings
from .client import Client
from .errors import Busy
from .session import Session

__all__ = ["Store"]

_SLICES_A_SESSION = 4  # of a batch: who is done early takes another
_KEYS_MAX = 1 << 18  # that are waited for
_TRIES = 2  # of keys whose connection was lost: their values are the same each time
_LOST = (_lib.ECONNECT, _lib.EUNKNOWN)
_DOWN_S = 1.0  # after it could not be reached nobody waits for it so long

Completion = Tuple[int, bool, str, Optional[List[bool]]]


class _Batch:
    """Keys that were submitted together. Its slices are done by several threads."""

    def __init__(self, number: int, call: Callable[..., int], keys: Sequence[Key]) -> None:
        self.number = number
        self.call = call
        self.names = [key_bytes(key) for key in keys]
        self.views: list[View] = []
        self.results = [False] * len(self.names)
        self.error = ""
        self.left = 0  # slices that are not done

    def close(self) -> None:
        for view in self.views:
            view.close()

    def completion(self) -> Completion:
        return self.number, not self.error, self.error, self.results


def _put(session: ctypes.c_void_p, items: Any, count: int) -> int:
    rc: int = _lib.lib.kvd_mput(session, items, count, None)
    return rc


class Store:
    """What LMCache calls. Its `adapter_params` are the arguments of this."""

    def __init__(
        self,
        server: str | None = None,
        *,
        device: str | None = None,
        credentials: str | None = None,
        namespace: str | None = None,
        timeout: Time | None = None,
        sessions: int = 2,
        depth: int = 64,
        register_bytes_min: int = 16 << 20,
    ) -> None:
        """`server`, `device`, `credentials`, `namespace`: as of kvd.Client. `timeout`: of each
        value. `sessions`: connections, each with a thread, that share a batch. `depth`: values
        in flight of each. `register_bytes_min`: a shorter mapping is not registered once, but
        libkvd registers what it needs of it for each value."""
        if not 1 <= sessions <= 64:
            raise ValueError("sessions is from 1 to 64")
        self._fd = -1
        self._lock = threading.Lock()
        self._closing = False
        self._last = self._keys = 0
        self._down_until = 0.0
        self._down_why = ""
        self._work: SimpleQueue[tuple[_Batch, int, int] | None] = SimpleQueue()
        self._done: deque[Completion] = deque()
        self._client = Client(
            server, device=device, timeout=timeout, depth=depth, credentials=credentials,
            namespace=namespace,
        )
        try:
            self._sessions = [self._client.session() for _ in range(sessions)]
            self._mappings = Mappings(self._client, register_bytes_min)
            self._fd = _lib.new_eventfd()
        except BaseException:
            self._client.close()
            raise
        self._threads = [
            threading.Thread(target=self._serve, args=(session,), name="kvd", daemon=True)
            for session in self._sessions
        ]
        for thread in self._threads:
            thread.start()

    def __repr__(self) -> str:
        state = ", closed" if self._closing else f", {self._keys} keys waited for"
        return f"<kvd.lmcache.Store of {self._client.server}{state}>"

    # ------------------------------------------------------------ what LMCache calls

    def event_fd(self) -> int:
        """Readable when something has completed; drain_completions() empties it."""
        return self._fd

    def submit_batch_get(self, keys: Sequence[Key], memoryviews: Sequence[BufferLike]) -> int:
        """READs each value into its view, which is exactly as long. A result is True where
        that was done; a view whose result is False holds nothing of use."""
        return self._submit(_lib.lib.kvd_mget, keys, memoryviews, writable=True)

    def submit_batch_set(self, keys: Sequence[Key], memoryviews: Sequence[BufferLike]) -> int:
        return self._submit(_put, keys, memoryviews)

    def submit_batch_exists(self, keys: Sequence[Key]) -> int:
        return self._submit(_lib.lib.kvd_mexists, keys)

    def submit_batch_delete(self, keys: Sequence[Key]) -> int:
        """A result is True where there was something to delete."""
        return self._submit(_lib.lib.kvd_mdel, keys)

    def drain_completions(self) -> list[Completion]:
        """(number, ok, error, results): what has completed since. Not ok: some keys met an
        error; the results are right all the same. That a key is not there is none."""
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            pass
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done

    def close(self) -> None:
        """What has not begun ends as not ok; what has is waited for, and libkvd ends it in
        time. The completions can be drained still."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        self._mappings.close()
        self._client.close()
        os.close(self._fd)
        self._fd = -1

    # ------------------------------------------------------------ figures

    def copied_bytes(self) -> int:
        """How many bytes of values libkvd has copied: 0, but for those of some KB."""
        return sum(session.counters()["copied_bytes"] for session in self._sessions)

    def registered(self) -> list[tuple[int, int]]:
        """Address and length of the mappings that are registered."""
        return self._mappings.ranges()

    # ------------------------------------------------------------ batches

    def _submit(
        self,
        call: Callable[..., int],
        keys: Sequence[Key],
        data: Sequence[BufferLike] | None = None,
        writable: bool = False,
    ) -> int:
        if data is not None and len(data) != len(keys):
            raise ValueError(f"{len(keys)} keys, but {len(data)} views")
        self._client._open()  # a forked child has none of the threads
        with self._lock:
            if self._closing:
                raise ValueError("the store is closed")
            if self._keys + len(keys) > _KEYS_MAX:
                raise Busy(
                    _lib.EBUSY, f"{self._keys} keys are waited for: drain_completions() first"
                )
            self._last += 1
            batch = _Batch(self._last, call, keys)
            try:
                for one in data or ():
                    batch.views.append(View(one, writable=writable))
            except BaseException:
                batch.close()
                raise
            self._keys += len(keys)
            self._cut(batch)
        return batch.number

    def _cut(self, batch: _Batch) -> None:
        """Into slices for the threads. The lock is held."""
        count = len(batch.names)
        slices = min(count, len(self._threads) * _SLICES_A_SESSION)
        ends = [count * (i + 1) // slices for i in range(slices)] or [0]
        batch.left = len(ends)
        begin = 0
        for end in ends:
            self._work.put((batch, begin, end))
            begin = end

    def _serve(self, session: Session) -> None:
        """A thread, until close()."""
        while True:
            work = self._work.get()
            if work is None:
                return
            try:
                error = "the store is closed" if self._closing else self._run(session, *work)
            except Exception as unexpected:  # or its batch would never complete
                error = f"{type(unexpected).__name__}: {unexpected}"
            self._slice_done(work[0], error)

    def _slice_done(self, batch: _Batch, error: str) -> None:
        with self._lock:
            batch.error = batch.error or error
            batch.left -= 1
            if batch.left:
                return
            self._keys -= len(batch.names)
        batch.close()
        self._done.append(batch.completion())
        os.write(self._fd, (1).to_bytes(8, "little"))

    def _run(self, session: Session, batch: _Batch, begin: int, end: int) -> str:
        """Sets the results of a slice; the first error among them."""
        todo = list(range(begin, end))
        error = ""
        if time.monotonic() < self._down_until:
            return self._down_why
        for _ in range(_TRIES):
            items = self._items(batch, todo)
            text = session._batch(batch.call, items)
            lost = [at for at, item in zip(todo, items) if item.result in _LOST]
            error = ""
            for at, item in zip(todo, items):
                batch.results[at], why = self._judge(batch, at, item, text)
                error = error or why
            todo = lost
            if not todo:
                return error
        self._down_why = error
        self._down_until = time.monotonic() + _DOWN_S
        return error

    def _items(self, batch: _Batch, which: Sequence[int]) -> Any:
        items = (_lib.Item * len(which))()
        for item, at in zip(items, which):
            item.key, item.key_bytes = batch.names[at], len(batch.names[at])
            item.result = _lib.ECONNECT  # until it has another
            if batch.views:
                view = batch.views[at]
                if view.address:
                    self._mappings.cover(view.address, view.nbytes)
                item.value = view.address
                item.value_bytes = item.value_bytes_max = view.nbytes
        return items

    def _judge(self, batch: _Batch, at: int, item: Any, text: str) -> tuple[bool, str]:
        """Whether that was done; why not, if it should have been."""
        if item.result == _lib.ESPACE or (
            item.result == _lib.OK and batch.views and item.value_bytes != batch.views[at].nbytes
        ):
            return False, (
                f"the value of {batch.names[at]!r} has {item.value_bytes} bytes, its view "
                f"{batch.views[at].nbytes}"
            )
        if item.result < 0:
            return False, text or _lib.lib.kvd_strerror(item.result).decode()
        return item.result == _lib.OK, ""
