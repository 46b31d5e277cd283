# SPDX-License-Identifier: BSD-2-Clause
"""What asyncio's sessions change: each is submitted as a message to kvd."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any, Iterable

from . import _lib
from ._aio_connection import Connection
from ._aio_flight import Done
from ._args import (
    U64_MAX,
    BufferLike,
    Items,
    Key,
    Moment,
    Time,
    change_of,
    check_unsigned,
    key_bytes,
    pairs_of,
)
from ._lib import View

_ROOM = 4 << 10


class Changes(Connection):
    """The half of Session that changes keys."""

    async def put(
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
        """Stores a value; returns its version. The arguments are those of kvd.Session.put(). With
        a condition that is false: ConditionFailed, and nothing is done."""
        change = change_of(
            ttl, if_absent, if_present, if_version, flags, expires_at=expires_at,
            keep_ttl=keep_ttl, or_stale=or_stale, stale=stale, claimed=claimed,
        )
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
        done = await (await self._delete_start(key, change_of(if_version=if_version)))
        self._version(done)
        return done.result == _lib.OK

    async def _delete_start(self, key: Key, change: _lib.Change) -> "asyncio.Future[Done]":
        name = key_bytes(key)
        return await self._start(
            lambda s, tag: _lib.lib.kvd_submit_del_with(
                s, name, len(name), ctypes.byref(change), tag
            )
        )

    async def delete_many(self, keys: Iterable[Key]) -> int:
        """Deletes many keys; how many were there."""
        change = change_of()
        flights = await self._start_all(self._delete_start(key, change) for key in keys)
        return sum([(await flight).check().result == _lib.OK for flight in flights])

    # ------------------------------------------------------------------- counters

    async def incr(
        self, key: Key, delta: int = 1, *, initial: int | None = 0, unsigned: bool = False
    ) -> int | None:
        """Adds to a number; the sum. An absent key counts from `initial`, or is None. `unsigned`:
        as of kvd.Session.incr()."""
        if unsigned:
            return await self._count(key, delta, initial)
        name = key_bytes(key)
        first = None if initial is None else ctypes.byref(ctypes.c_int64(initial))
        done = await self._run(
            lambda s, tag: _lib.lib.kvd_submit_incr(s, name, len(name), delta, first, None, tag)
        )
        return done.number if done.result == _lib.OK else None

    async def decr(
        self, key: Key, delta: int = 1, *, initial: int | None = 0, unsigned: bool = False
    ) -> int | None:
        """Takes away from it."""
        return await self.incr(key, -delta, initial=initial, unsigned=unsigned)

    async def _count(self, key: Key, delta: int, initial: int | None) -> int | None:
        check_unsigned(delta, initial)
        call = _lib.lib.kvd_submit_decr_u64 if delta < 0 else _lib.lib.kvd_submit_incr_u64
        name = key_bytes(key)
        first = None if initial is None else ctypes.byref(ctypes.c_uint64(initial))
        done = await self._run(
            lambda s, tag: call(s, name, len(name), abs(delta), first, None, tag)
        )
        return done.number & U64_MAX if done.result == _lib.OK else None

    # ------------------------------------------------------- joining, touching

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

    async def touch(
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
        """A new time to live, None for ever, or signs: as kvd.Session.touch(). False if there is
        no such key."""
        name = key_bytes(key)
        change = change_of(
            ttl, if_version=if_version, expires_at=expires_at, keep_ttl=keep_ttl,
            stale=bool(stale), claimed=bool(claimed),
            set_signs=stale is not None or claimed is not None,
        )
        done = await self._run(
            lambda s, tag: _lib.lib.kvd_submit_touch_with(
                s, name, len(name), ctypes.byref(change), tag
            )
        )
        self._version(done)
        return done.result == _lib.OK

    async def get_touch(
        self, key: Key, ttl: Time | None = None, *, expires_at: Moment | None = None
    ) -> bytes | None:
        """Touches a key and gets its value, in one go; None if there is no such key."""
        change, name, room = change_of(ttl, expires_at=expires_at), key_bytes(key), _ROOM
        while True:
            value = ctypes.create_string_buffer(room)
            done = await self._get_touch_once(name, change, value, room)
            if done.result != _lib.ESPACE:
                break
            room = done.value_bytes
        if done.check().result != _lib.OK:
            return None
        return ctypes.string_at(value, done.value_bytes)

    async def _get_touch_once(
        self, name: bytes, change: _lib.Change, value: Any, room: int
    ) -> Done:
        return await (
            await self._start(
                lambda s, tag: _lib.lib.kvd_submit_get_touch(
                    s, name, len(name), ctypes.byref(change), value, room, tag
                ),
                value,
            )
        )
