# SPDX-License-Identifier: BSD-2-Clause
"""What can go wrong: each error is a kvd.Error, and one of Python's own kinds too."""

from __future__ import annotations

from typing import Any

from . import _lib


class Error(Exception):
    """An operation failed; `code` is the KVD_E* of <kvd.h>."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, str(self))


class ConnectError(Error, ConnectionError):
    """No connection to kvd, or it broke before the operation had an effect."""


class Unknown(Error, ConnectionError):
    """The connection was lost: the change may have taken effect, or not."""


class TimedOut(Error, TimeoutError):
    """Not answered in time; nothing was changed."""


class Busy(Error, TimeoutError):
    """kvd was too busy, or a lock was not free in the time; nothing was done."""


class Denied(Error, PermissionError):
    """kvd does not let this user in, or not do this."""


class LockLost(Error):
    """The lock was lost: what was to be done under it had no effect."""


class Full(Error, MemoryError):
    """The table has no room for the value; the old one stays."""


class Invalid(Error, ValueError):
    """An argument is wrong: a key that is empty or too long, an option out of its range."""


class NotFound(Error, KeyError):
    """There is no such key; only where a dictionary raises a KeyError."""

    def __init__(self, key: Any) -> None:
        KeyError.__init__(self, key)
        self.code = _lib.NOT_FOUND

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args


class ConditionFailed(Error):
    """The condition of a change was false; `version` is the key's, 0 if it is absent."""

    def __init__(self, version: int) -> None:
        super().__init__(_lib.CONDITION, f"the condition was false (version {version})")
        self.version = version

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.version,)


class Conflict(Error):
    """A transaction met a change of somebody else's: nothing was done; try it again."""


_KINDS: dict[int, type[Error]] = {
    _lib.EINVAL: Invalid,
    _lib.ECONNECT: ConnectError,
    _lib.EUNKNOWN: Unknown,
    _lib.ETIMEDOUT: TimedOut,
    _lib.EFULL: Full,
    _lib.ETOOBIG: Invalid,
    _lib.EBUSY: Busy,
    _lib.EPROTOCOL: ConnectError,
    _lib.ELOST: LockLost,
    _lib.ENUMBER: Invalid,
    _lib.ERANGE: Invalid,
    _lib.EDENIED: Denied,
}


def error_of(code: int, text: bytes | None = None) -> Error:
    """The error of a result of libkvd's; without a text, what it means in a few words."""
    words = (text or b"").decode(errors="replace")
    if not words:
        words = _lib.lib.kvd_strerror(code).decode()
    return _KINDS.get(code, Error)(code, words)
