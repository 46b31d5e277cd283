# SPDX-License-Identifier: BSD-2-Clause
"""What asyncio's sessions read: each is submitted, and READ by this machine's own device."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any, Iterable, TypeVar, overload

from . import _lib
from ._aio_connection import Connection
from ._aio_flight import Done
from ._args import BufferLike, Key, key_bytes
from ._lib import View
from .errors import Error

_ROOM = 4 << 10

T = TypeVar("T")


class Reads(Connection):
    """The half of Session that reads."""

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

    async def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        """The values of many keys, None for those that are not there."""
        names = [key_bytes(key) for key in keys]
        flights = await self._start_all(self._get_start(name) for name in names)
        return [
            (await self._get_end(name, await flight)).value
            for name, flight in zip(names, flights)
        ]

    # ------------------------------------------------------------------- existence

    async def _exists_start(self, name: bytes) -> "asyncio.Future[Done]":
        return await self._start(
            lambda s, tag: _lib.lib.kvd_submit_exists(s, name, len(name), tag)
        )

    async def exists(self, key: Key) -> bool:
        return await self.length(key) is not None

    async def length(self, key: Key) -> int | None:
        """The length of the value, without reading it; None if there is no such key."""
        done = (await (await self._exists_start(key_bytes(key)))).check()
        return done.value_bytes if done.result == _lib.OK else None

    async def exists_many(self, keys: Iterable[Key]) -> list[bool]:
        """Which of many keys are there, in a few round trips."""
        names = [key_bytes(key) for key in keys]
        flights = await self._start_all(self._exists_start(name) for name in names)
        return [(await flight).check().result == _lib.OK for flight in flights]
