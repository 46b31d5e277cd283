# SPDX-License-Identifier: BSD-2-Clause
"""What changes one key: a session's, each a message to kvd."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _lib
from ._args import (
    BufferLike,
    Key,
    Moment,
    Time,
    change_of,
    check_unsigned,
    key_bytes,
    unix_ms,
)
from ._lib import View
from .client import Handles
from .errors import ConditionFailed, error_of


class Changes(Handles):
    """The half of Session that changes keys."""

    _short: Any
    _SHORT = 64 << 10

    def _check(self, rc: int) -> int:
        """Raises for an error; a result is returned."""
        if rc < 0:
            raise error_of(rc, _lib.lib.kvd_session_error(self._handle))
        return rc

    def put(
        self,
        key: Key,
        value: BufferLike,
        *,
        ttl: Time | None = None,
        expires_at: Moment | None = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        or_stale: bool = False,
        flags: int = 0,
        stale: bool = False,
        claimed: bool = False,
    ) -> int:
        """Stores a value; returns its version. `ttl`: seconds, or a timedelta, until it expires;
        `expires_at`: when, a datetime or a Unix time in seconds, by the clock of kvd's machine;
        `keep_ttl`: only for a key that this call makes, another keeps its time. `flags`: 32 bits that are kept with it;
        `stale`, `claimed`: its signs; see info(). With a condition that is false: ConditionFailed,
        and nothing is done; `or_stale`, with `if_version`: over a later version it is stored as
        a stale one."""
        change = change_of(
            ttl, if_absent, if_present, if_version, flags, expires_at=expires_at,
            keep_ttl=keep_ttl, or_stale=or_stale, stale=stale, claimed=claimed,
        )
        name, found = key_bytes(key), ctypes.c_uint64()
        with View(value) as view, self._lock:
            rc = self._check(
                _lib.lib.kvd_put_with(
                    self._open(), name, len(name), view.address, view.nbytes,
                    ctypes.byref(change), ctypes.byref(found),
                )
            )
        return self._version(rc, found)

    @staticmethod
    def _version(rc: int, found: ctypes.c_uint64) -> int:
        if rc == _lib.CONDITION:
            raise ConditionFailed(found.value)
        return found.value

    def delete(self, key: Key, *, if_version: int | None = None) -> bool:
        """True if the key was deleted, False if there was none."""
        change = change_of(if_version=if_version)
        name, found = key_bytes(key), ctypes.c_uint64()
        with self._lock:
            rc = self._check(
                _lib.lib.kvd_del_with(
                    self._open(), name, len(name), ctypes.byref(change), ctypes.byref(found)
                )
            )
        self._version(rc, found)
        return rc == _lib.OK

    # ----------------------------------------------------------------- counters

    def incr(
        self, key: Key, delta: int = 1, *, initial: int | None = 0, unsigned: bool = False
    ) -> int | None:
        """Adds to a number kept as decimal text; the sum. An absent key counts from
        `initial`, or is None if that is None. `unsigned`: one of 64 bits without a sign, which
        goes on from 0 above 2^64 - 1 and is never less than 0; an absent key becomes `initial`,
        whatever the delta."""
        if unsigned:
            return self._count(key, delta, initial)
        name, sum_ = key_bytes(key), ctypes.c_int64()
        first = None if initial is None else ctypes.byref(ctypes.c_int64(initial))
        with self._lock:
            rc = self._check(
                _lib.lib.kvd_incr(
                    self._open(), name, len(name), delta, first, None, ctypes.byref(sum_)
                )
            )
        return sum_.value if rc == _lib.OK else None

    def decr(
        self, key: Key, delta: int = 1, *, initial: int | None = 0, unsigned: bool = False
    ) -> int | None:
        """Takes away from it."""
        return self.incr(key, -delta, initial=initial, unsigned=unsigned)

    def _count(self, key: Key, delta: int, initial: int | None) -> int | None:
        check_unsigned(delta, initial)
        call = _lib.lib.kvd_decr_u64 if delta < 0 else _lib.lib.kvd_incr_u64
        name, sum_ = key_bytes(key), ctypes.c_uint64()
        first = None if initial is None else ctypes.byref(ctypes.c_uint64(initial))
        with self._lock:
            rc = self._check(
                call(self._open(), name, len(name), abs(delta), first, None, ctypes.byref(sum_))
            )
        return sum_.value if rc == _lib.OK else None

    # ------------------------------------------------------------------- joining

    def append(self, key: Key, value: BufferLike) -> int:
        """Appends to a value, or makes it; the length then."""
        return self._join(_lib.lib.kvd_append, key, value)

    def prepend(self, key: Key, value: BufferLike) -> int:
        """The same at the value's beginning."""
        return self._join(_lib.lib.kvd_prepend, key, value)

    def _join(self, call: Any, key: Key, value: BufferLike) -> int:
        name, total = key_bytes(key), ctypes.c_size_t()
        with View(value) as view, self._lock:
            self._check(
                call(
                    self._open(), name, len(name), view.address, view.nbytes, None,
                    ctypes.byref(total),
                )
            )
        return total.value

    # ------------------------------------------------------------------ touching

    def touch(
        self,
        key: Key,
        ttl: Time | None = None,
        *,
        expires_at: Moment | None = None,
        keep_ttl: bool = False,
        if_version: int | None = None,
        stale: bool | None = None,
        claimed: bool | None = None,
    ) -> bool:
        """A new time to live, None for ever; False if there is no such key. `expires_at`,
        `keep_ttl`, `if_version`: as of put(). Where `stale` or `claimed` is given both signs are
        set, that which is not given to False."""
        change = change_of(
            ttl, if_version=if_version, expires_at=expires_at, keep_ttl=keep_ttl,
            stale=bool(stale), claimed=bool(claimed),
            set_signs=stale is not None or claimed is not None,
        )
        name, found = key_bytes(key), ctypes.c_uint64()
        with self._lock:
            rc = self._check(
                _lib.lib.kvd_touch_with(
                    self._open(), name, len(name), ctypes.byref(change), ctypes.byref(found)
                )
            )
        self._version(rc, found)
        return rc == _lib.OK

    def get_touch(
        self, key: Key, ttl: Time | None = None, *, expires_at: Moment | None = None
    ) -> bytes | None:
        """Touches a key and gets its value, in one go; None if there is no such key."""
        change = change_of(ttl, expires_at=expires_at)
        name, found = key_bytes(key), _lib.Info(size=ctypes.sizeof(_lib.Info))
        with self._lock:
            room, value = self._SHORT, self._short
            while True:
                rc = _lib.lib.kvd_get_touch(
                    self._open(), name, len(name), ctypes.byref(change), value, room,
                    ctypes.byref(found),
                )
                if rc != _lib.ESPACE:
                    break
                room = found.value_bytes
                value = ctypes.create_string_buffer(room)
            self._check(rc)
            return ctypes.string_at(value, found.value_bytes) if rc == _lib.OK else None

    # ---------------------------------------------------------------------- all

    def flush(self) -> None:
        """Deletes every key."""
        with self._lock:
            self._check(_lib.lib.kvd_flush(self._open()))

    def flush_at(self, when: Moment | None) -> None:
        """The same at a time, a datetime or a Unix time in seconds, by the clock of kvd's
        machine: what is stored later stays. There is one such time: another takes its place,
        None takes it away."""
        with self._lock:
            self._check(_lib.lib.kvd_flush_at(self._open(), 0 if when is None else unix_ms(when)))
