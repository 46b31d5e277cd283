# SPDX-License-Identifier: BSD-2-Clause
"""Arguments that all sessions take: keys, times to live, conditions."""

from __future__ import annotations

import ctypes
from datetime import timedelta
from typing import Any, Iterable, Mapping, Tuple, Union

from . import _lib

Key = Union[str, bytes]
# typing has no name for "anything with the buffer protocol" before Python 3.12.
BufferLike = Any
# A number of seconds.
Time = Union[float, timedelta]
Items = Union[
    Mapping[str, BufferLike],
    Mapping[bytes, BufferLike],
    Iterable[Tuple[Key, BufferLike]],
]


def key_bytes(key: Key) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise TypeError(f"a key is str or bytes, not {type(key).__name__}")
    return bytes(key)


def pairs_of(items: Items) -> list[tuple[Key, BufferLike]]:
    return list(items.items() if isinstance(items, Mapping) else items)


def seconds_of(time: Time) -> float:
    return time.total_seconds() if isinstance(time, timedelta) else time


def ttl_ms(ttl: Time | None) -> int:
    """0 for ever."""
    if ttl is None:
        return 0
    seconds = seconds_of(ttl)
    if seconds <= 0:
        raise ValueError("a time to live is more than 0, in seconds or a timedelta")
    return max(1, round(seconds * 1000))


def wait_ms(timeout: Time | None) -> int:
    """How long to wait for a lock; -1: as long as any call may take."""
    return -1 if timeout is None else max(0, round(seconds_of(timeout) * 1000))


def change_of(
    ttl: Time | None = None,
    if_absent: bool = False,
    if_present: bool = False,
    if_version: int | None = None,
    flags: int = 0,
) -> _lib.Change:
    if if_absent + if_present + (if_version is not None) > 1:
        raise ValueError("one condition at the most")
    if not 0 <= flags < 1 << 32:
        raise ValueError("flags are 32 bits")
    change = _lib.Change(size=ctypes.sizeof(_lib.Change), ttl_ms=ttl_ms(ttl), flags=flags)
    if if_absent:
        change.condition = _lib.IF_ABSENT
    elif if_present:
        change.condition = _lib.IF_PRESENT
    elif if_version is not None:
        change.condition = _lib.IF_VERSION
        change.version = if_version
    return change
