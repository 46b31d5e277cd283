# SPDX-License-Identifier: BSD-2-Clause
"""kvd: a key-value store for RDMA networks.

    import kvd

    with kvd.connect("127.0.0.1:7480") as store:
        store.put("name", b"Ada")
        print(store.get("name"))

Keys are str (as UTF-8) or bytes. Values are anything with the buffer protocol: bytes,
bytearray, memoryview, array, mmap, NumPy arrays, as long as their memory is contiguous.
It is sent from where it stands, and `get_into` and `get_array` READ into where it is to
be: no byte is copied by Python. `Client.register` has memory registered with the device
once, instead of for each call.

A session is one connection. Threads may share it, and then wait for each other; one
for each is faster. The GIL is released in every call.

A key that is not there is None or False, but for `store[key]`, `del` and `pop`. Errors are
`kvd.Error`, and one of Python's own kinds too: ConnectionError, TimeoutError, KeyError,
PermissionError, ValueError.

A process that is forked from one with a client can't use that: it makes its own.

`kvd.aio` is the same for asyncio.
"""

from __future__ import annotations

from typing import Any

from . import _lib
from ._args import BufferLike, Items, Key, Moment, Time
from .client import Client, Registered
from .errors import (
    Busy,
    ConditionFailed,
    Conflict,
    ConnectError,
    Denied,
    Error,
    Full,
    Invalid,
    LockLost,
    NotFound,
    TimedOut,
    Unknown,
)
from .held import Lock, Transaction
from .session import Info, Session

__all__ = [
    "BufferLike",
    "COMPILED",
    "Busy",
    "Client",
    "ConditionFailed",
    "Conflict",
    "ConnectError",
    "Denied",
    "Error",
    "Full",
    "Info",
    "Invalid",
    "Items",
    "Key",
    "Lock",
    "LockLost",
    "Moment",
    "NotFound",
    "Registered",
    "Session",
    "Time",
    "TimedOut",
    "Transaction",
    "Unknown",
    "connect",
    "version",
]

__version__ = "0.1.0"

COMPILED = _lib.fast is not None
"""Whether get() and get_many() have their compiled part, which is faster."""

KEY_BYTES_MAX = 1024
VALUE_BYTES_MAX = 1 << 30


for _name in __all__:
    if isinstance(globals().get(_name), type):
        globals()[_name].__module__ = __name__  # where it is found, not where it is written


def version() -> str:
    """libkvd's version."""
    text: bytes = _lib.lib.kvd_version()
    return text.decode()


def connect(server: str | None = None, **options: Any) -> Session:
    """A session with a client of its own; options as of Client."""
    client = Client(server, **options)
    try:
        return Session(client, owns_client=True)
    except BaseException:
        client.close()
        raise
