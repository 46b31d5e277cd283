# SPDX-License-Identifier: BSD-2-Clause
"""Locks and transactions: what lasts from the beginning to the end of a `with`."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import _lib
from ._args import BufferLike, Key, Time, key_bytes, seconds_of, wait_ms
from ._lib import View
from .client import Handles
from .errors import Conflict, Error, error_of

if TYPE_CHECKING:
    from .session import Session

_FIRST = 64 << 10

T = TypeVar("T")


class Lock(Handles):
    """Keys that nobody else changes meanwhile; made by Session.lock(). Changes of these keys
    that are not made by the lock's own methods wait for its end, the session's too."""

    _what = "lock"

    def __init__(self, session: "Session", keys: tuple[Key, ...], timeout: Time | None) -> None:
        super().__init__()
        if not keys:
            raise ValueError("a lock is of one key at least")
        self._session = session
        self._keys = [key_bytes(key) for key in keys]
        self._wait_ms = wait_ms(timeout)

    def acquire(self) -> "Lock":
        """What `with` does at its beginning."""
        if self._handle:
            raise ValueError("the lock is held already")
        array = (_lib.LockKey * len(self._keys))()
        for item, name in zip(array, self._keys):
            item.data, item.bytes = name, len(name)
        with self._session._lock:
            self._session._check(
                _lib.lib.kvd_lock(
                    self._session._open(), array, len(array), self._wait_ms,
                    ctypes.byref(self._handle),
                )
            )
        return self

    def release(self) -> None:
        """What `with` does at its end. LockLost, if it was lost before."""
        with self._session._lock:
            if self._handle and self._session._handle:
                self._session._check(_lib.lib.kvd_unlock(ctypes.byref(self._handle)))
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Lock":
        return self.acquire()

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self.release()
        except Error:
            if kind is None:  # else the first exception says more
                raise

    def __repr__(self) -> str:
        return f"<kvd.Lock of {len(self._keys)} keys{', held' if self._handle else ''}>"

    def check(self) -> None:
        """LockLost, if it is not held any more: for what the lock protects besides keys."""
        with self._session._lock:
            self._session._check(_lib.lib.kvd_lock_check(self._held()))

    def _held(self) -> ctypes.c_void_p:
        self._session._open()
        if not self._handle:
            raise ValueError("the lock is not held")
        return self._handle

    def get(self, key: Key) -> bytes | None:
        name, length = key_bytes(key), ctypes.c_size_t()
        room = _FIRST
        with self._session._lock:
            while True:
                value = ctypes.create_string_buffer(room)
                rc = _lib.lib.kvd_locked_get(
                    self._held(), name, len(name), value, room, ctypes.byref(length), None
                )
                if rc != _lib.ESPACE:
                    break
                room = length.value
            self._session._check(rc)
            return ctypes.string_at(value, length.value) if rc == _lib.OK else None

    def put(self, key: Key, value: BufferLike) -> int:
        """The version."""
        name, found = key_bytes(key), ctypes.c_uint64()
        with View(value) as view, self._session._lock:
            self._session._check(
                _lib.lib.kvd_locked_put(
                    self._held(), name, len(name), view.address, view.nbytes, ctypes.byref(found)
                )
            )
        return found.value

    def delete(self, key: Key) -> bool:
        name = key_bytes(key)
        with self._session._lock:
            rc = self._session._check(_lib.lib.kvd_locked_del(self._held(), name, len(name)))
        return rc == _lib.OK


class Transaction(Handles):
    """Reads and changes of several keys, all or nothing; made by Session.transaction(). What
    it changed it reads itself; nobody else sees it before the commit."""

    _what = "transaction"

    def __init__(self, session: "Session") -> None:
        super().__init__()
        self._session = session
        with session._lock:
            session._check(_lib.lib.kvd_txn_new(session._open(), ctypes.byref(self._handle)))

    def _begun(self) -> ctypes.c_void_p:
        self._session._open()
        return self._open()

    def _check(self, rc: int) -> int:
        if rc == _lib.CONDITION:
            raise Conflict(rc, "somebody else changed a key of the transaction: nothing was done")
        return self._session._check(rc)

    def get(self, key: Key) -> bytes | None:
        name, length, room = key_bytes(key), ctypes.c_size_t(), _FIRST
        with self._session._lock:
            while True:
                value = ctypes.create_string_buffer(room)
                rc = _lib.lib.kvd_txn_get(
                    self._begun(), name, len(name), value, room, ctypes.byref(length)
                )
                if rc != _lib.ESPACE:
                    break
                room = length.value
            self._check(rc)
            return ctypes.string_at(value, length.value) if rc == _lib.OK else None

    def put(self, key: Key, value: BufferLike) -> None:
        name = key_bytes(key)
        with View(value) as view, self._session._lock:
            self._check(
                _lib.lib.kvd_txn_put(self._begun(), name, len(name), view.address, view.nbytes)
            )

    def delete(self, key: Key) -> None:
        name = key_bytes(key)
        with self._session._lock:
            self._check(_lib.lib.kvd_txn_del(self._begun(), name, len(name)))

    def commit(self) -> None:
        """What `with` does at its end: all of it, or a Conflict."""
        with self._session._lock:
            self._begun()
            self._check(_lib.lib.kvd_txn_commit(ctypes.byref(self._handle), None))

    def discard(self) -> None:
        """Ends it without effect."""
        with self._session._lock:
            if self._handle and self._session._handle:
                _lib.lib.kvd_txn_delete(ctypes.byref(self._handle))
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None and self._handle:
            self.commit()
        else:
            self.discard()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.discard()

    def __repr__(self) -> str:
        return f"<kvd.Transaction{'' if self._handle else ', ended'}>"


def transact(session: "Session", work: Callable[[Transaction], T], timeout: Time | None) -> T:
    limit = session.client._timeout if timeout is None else seconds_of(timeout)
    end = time.monotonic() + limit
    while True:
        try:
            with session.transaction() as txn:
                return work(txn)
        except Conflict:
            if time.monotonic() >= end:
                raise error_of(
                    _lib.EBUSY, b"others changed the keys of the transaction again and again"
                ) from None
