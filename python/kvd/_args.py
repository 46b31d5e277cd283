# SPDX-License-Identifier: BSD-2-Clause
"""Arguments that all sessions take: keys, times to live, conditions."""

from __future__ import annotations

import ctypes
from datetime import datetime, timedelta
from typing import Any, Iterable, Mapping, Tuple, Union

from . import _lib

Key = Union[str, bytes]
# typing has no name for "anything with the buffer protocol" before Python 3.12.
BufferLike = Any
# A number of seconds.
Time = Union[float, timedelta]
# A Unix time in seconds, or what says one.
Moment = Union[float, datetime]
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


def plain_key(key: Key) -> Key:
    """As kvd._fast takes it."""
    return key if type(key) is str or type(key) is bytes else key_bytes(key)


def pairs_of(items: Items) -> list[tuple[Key, BufferLike]]:
    return list(items.items() if isinstance(items, Mapping) else items)


U64_MAX = (1 << 64) - 1


def check_unsigned(delta: int, initial: int | None) -> None:
    if not (-U64_MAX <= delta <= U64_MAX and 0 <= (initial or 0) <= U64_MAX):
        raise ValueError("a number without a sign has 64 bits")


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


def unix_ms(moment: Moment) -> int:
    """0 stands for none in libkvd."""
    seconds = moment.timestamp() if isinstance(moment, datetime) else moment
    if seconds <= 0:
        raise ValueError("a time is after 1970")
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
    *,
    expires_at: Moment | None = None,
    keep_ttl: bool = False,
    or_stale: bool = False,
    stale: bool = False,
    claimed: bool = False,
    set_signs: bool = False,
) -> _lib.Change:
    if ttl is not None and expires_at is not None:
        raise ValueError("one of ttl and expires_at at the most")
    if or_stale and if_version is None:
        raise ValueError("or_stale goes with if_version")
    if if_absent + if_present + (if_version is not None) > 1:
        raise ValueError("one condition at the most")
    if not 0 <= flags < 1 << 32:
        raise ValueError("flags are 32 bits")
    change = _lib.Change(size=ctypes.sizeof(_lib.Change), ttl_ms=ttl_ms(ttl), flags=flags)
    change.expires_unix_ms = 0 if expires_at is None else unix_ms(expires_at)
    change.signs = _lib.STALE * stale | _lib.CLAIMED * claimed
    change.options = (
        _lib.KEEP_TTL * keep_ttl | _lib.OR_STALE * or_stale | _lib.SET_SIGNS * set_signs
    )
    if if_absent:
        change.condition = _lib.IF_ABSENT
    elif if_present:
        change.condition = _lib.IF_PRESENT
    elif if_version is not None:
        change.condition = _lib.IF_VERSION
        change.version = if_version
    return change
