# SPDX-License-Identifier: BSD-2-Clause
"""A session: one connection, whose calls wait."""

from __future__ import annotations

import ctypes
import json
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Sequence,
    TypeVar,
    Union,
    overload,
)

from . import _lib
from ._args import (
    BufferLike,
    Items,
    Key,
    Time,
    change_of,
    key_bytes,
    pairs_of,
    ttl_ms,
)
from ._lib import View
from .client import Client, Handles
from .errors import ConditionFailed, Error, NotFound, error_of
from .held import Lock, Transaction, transact

if TYPE_CHECKING:
    import numpy
    import numpy.typing

_SHORT = 64 << 10
_BATCH_ROOM = 4 << 10
_BATCH_KEYS = 256  # of one call: so many places for values are in memory at a time

T = TypeVar("T")
_ABSENT: Any = object()


class Info(NamedTuple):
    """What is known of a value beside its bytes."""

    length: int
    version: int
    ttl: float | None
    """Seconds that are left, about; None for ever."""
    flags: int
    """The 32 bits that it was stored with."""
    stale: bool
    """It is out of date."""
    claimed: bool
    """Somebody has taken it on to renew it."""


class Session(Handles):
    """One connection; made by Client.session() or connect(). Of a dictionary it has what makes
    sense for a store that others change too."""

    _what = "session"

    def __init__(self, client: Client, owns_client: bool = False) -> None:
        super().__init__()
        self.client = client
        self._owns_client = owns_client
        rc = _lib.lib.kvd_session_new(client._open(), ctypes.byref(self._handle))
        if rc < 0:
            raise error_of(rc, _lib.lib.kvd_client_error(client._handle))
        self._short = ctypes.create_string_buffer(_SHORT)
        client._sessions.append(self)

    def close(self) -> None:
        with self._lock:
            if self._handle:
                _lib.lib.kvd_session_delete(ctypes.byref(self._handle))
                self.client._sessions.remove(self)
        if self._owns_client:
            self._owns_client = False
            self.client.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<kvd.Session of {self.client.server}{'' if self._handle else ', closed'}>"

    def _check(self, rc: int) -> int:
        """Raises for an error; a result is returned."""
        if rc < 0:
            raise error_of(rc, _lib.lib.kvd_session_error(self._handle))
        return rc

    # ------------------------------------------------------------------ reading

    def _get(
        self, key: bytes, address: int | None, room: int
    ) -> tuple[int, int, int]:
        """Result, length, version; the lock is held."""
        length, found = ctypes.c_size_t(), ctypes.c_uint64()
        rc = _lib.lib.kvd_get(
            self._open(), key, len(key), address, room, ctypes.byref(length), ctypes.byref(found)
        )
        if rc != _lib.ESPACE:
            self._check(rc)
        return rc, length.value, found.value

    @overload
    def get(self, key: Key) -> bytes | None: ...

    @overload
    def get(self, key: Key, default: T) -> bytes | T: ...

    def get(self, key: Key, default: Any = None) -> Any:
        """The value, or the default if there is no such key."""
        value = self.get_with_version(key)[0]
        return default if value is None else value

    def get_with_version(self, key: Key) -> tuple[bytes | None, int]:
        """The value and its version, or (None, 0)."""
        name = key_bytes(key)
        with self._lock:
            rc, length, found = self._get(name, ctypes.addressof(self._short), _SHORT)
            if rc == _lib.OK:
                return ctypes.string_at(self._short, length), found
            # A long value is READ into the object that is returned.
            while rc == _lib.ESPACE:
                value: bytes = _lib.new_bytes(None, length)
                room = length
                rc, length, found = self._get(name, _lib.bytes_address(value), room)
                if rc == _lib.OK:
                    return (value if length == room else value[:length]), found
        return None, 0

    def get_into(self, key: Key, buffer: BufferLike) -> int | None:
        """READs the value into writable memory; its length, or None if there is no such
        key. An Error of code KVD_ESPACE (-11) if the memory is too short."""
        with View(buffer, writable=True) as view, self._lock:
            rc, length, _ = self._get(key_bytes(key), view.address, view.nbytes)
            if rc == _lib.ESPACE:
                raise Error(
                    rc, f"the value has {length} bytes, the buffer {view.nbytes}"
                )
            return length if rc == _lib.OK else None

    def get_array(
        self,
        key: Key,
        dtype: "numpy.typing.DTypeLike" = "uint8",
        shape: tuple[int, ...] | None = None,
    ) -> "numpy.ndarray[Any, Any] | None":
        """The value as a NumPy array, READ into its memory; None if there is no such
        key. Without a shape it has one dimension."""
        import numpy

        kind, name = numpy.dtype(dtype), key_bytes(key)
        with self._lock:
            rc, length, _ = self._get(name, None, 0)
            while rc != _lib.NOT_FOUND:
                array = numpy.empty(length, dtype="uint8")
                rc, got, _ = self._get(name, array.ctypes.data if length else None, length)
                if rc == _lib.OK:
                    array = array[:got].view(kind)
                    return array if shape is None else array.reshape(shape)
                length = got
        return None

    def exists(self, key: Key) -> bool:
        name = key_bytes(key)
        with self._lock:
            rc = self._check(_lib.lib.kvd_exists(self._open(), name, len(name), None))
        return rc == _lib.OK

    def length(self, key: Key) -> int | None:
        """The length of the value, without reading it; None if there is no such key."""
        name, length = key_bytes(key), ctypes.c_size_t()
        with self._lock:
            rc = self._check(
                _lib.lib.kvd_exists(self._open(), name, len(name), ctypes.byref(length))
            )
        return length.value if rc == _lib.OK else None

    def info(self, key: Key) -> Info | None:
        """What is known of the value, without reading it; None if there is no such key."""
        name, found = key_bytes(key), _lib.Info(size=ctypes.sizeof(_lib.Info))
        with self._lock:
            rc = _lib.lib.kvd_get_info(
                self._open(), name, len(name), None, 0, ctypes.byref(found)
            )
            if rc != _lib.ESPACE:
                self._check(rc)
        if rc == _lib.NOT_FOUND:
            return None
        return Info(
            found.value_bytes,
            found.version,
            found.ttl_ms / 1000 if found.ttl_ms else None,
            found.flags,
            bool(found.signs & _lib.STALE),
            bool(found.signs & _lib.CLAIMED),
        )

    def keys(self, prefix: Key = b"") -> Iterator[bytes]:
        """All keys that begin with the prefix, in no order."""
        found: list[bytes] = []

        def each(_: Any, key: int, key_bytes: int, __: int) -> int:
            found.append(ctypes.string_at(key, key_bytes))
            return 0

        name = key_bytes(prefix)
        with self._lock:
            self._check(
                _lib.lib.kvd_keys(self._open(), name, len(name), _lib.EACH(each), None)
            )
        return iter(found)

    # ----------------------------------------------------------------- changing

    def put(
        self,
        key: Key,
        value: BufferLike,
        *,
        ttl: Time | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        flags: int = 0,
    ) -> int:
        """Stores a value; returns its version. `ttl`: seconds, or a timedelta, until it expires.
        `flags`: 32 bits that are kept with it; see info(). With a condition that is false:
        ConditionFailed, and nothing is done."""
        change = change_of(ttl, if_absent, if_present, if_version, flags)
        name, found = key_bytes(key), ctypes.c_uint64()
        with View(value) as view, self._lock:
            rc = self._check(
                _lib.lib.kvd_put_with(
                    self._open(), name, len(name), view.address, view.nbytes,
                    ctypes.byref(change), ctypes.byref(found),
                )
            )
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
        if rc == _lib.CONDITION:
            raise ConditionFailed(found.value)
        return rc == _lib.OK

    def incr(self, key: Key, delta: int = 1, *, initial: int | None = 0) -> int | None:
        """Adds to a number kept as decimal text; the sum. An absent key counts from
        `initial`, or is None if that is None."""
        name, sum_ = key_bytes(key), ctypes.c_int64()
        first = None if initial is None else ctypes.byref(ctypes.c_int64(initial))
        with self._lock:
            rc = self._check(
                _lib.lib.kvd_incr(
                    self._open(), name, len(name), delta, first, None, ctypes.byref(sum_)
                )
            )
        return sum_.value if rc == _lib.OK else None

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

    def touch(self, key: Key, ttl: Time | None) -> bool:
        """A new time to live, None for ever; False if there is no such key."""
        name, ms = key_bytes(key), ttl_ms(ttl)
        with self._lock:
            rc = self._check(_lib.lib.kvd_touch(self._open(), name, len(name), ms))
        return rc == _lib.OK

    def flush(self) -> None:
        """Deletes every key."""
        with self._lock:
            self._check(_lib.lib.kvd_flush(self._open()))

    # ------------------------------------------------------------------ batches

    def get_many(
        self, keys: Iterable[Key], into: Sequence[BufferLike] | None = None
    ) -> list[Any]:
        """The values of many keys at once, None for those that are not there. With
        `into`, writable memory for each, they are READ there, and their lengths are
        returned."""
        names = [key_bytes(key) for key in keys]
        if into is not None:
            return self._get_into_many(names, into)
        values: list[bytes | None] = []
        room = ctypes.create_string_buffer(min(len(names), _BATCH_KEYS) * _BATCH_ROOM or 1)
        for at in range(0, len(names), _BATCH_KEYS):
            values.extend(self._get_batch(names[at : at + _BATCH_KEYS], ctypes.addressof(room)))
        return values

    def _get_batch(self, names: list[bytes], base: int) -> Iterator[bytes | None]:
        places = [(base + i * _BATCH_ROOM, _BATCH_ROOM) for i in range(len(names))]
        for name, item, place in zip(names, self._mget(names, places), places):
            if item.result == _lib.OK:
                yield ctypes.string_at(place[0], item.value_bytes)
            elif item.result == _lib.ESPACE:
                yield self.get(name)
            else:
                yield None

    def _get_into_many(
        self, names: list[bytes], into: Sequence[BufferLike]
    ) -> list[int | None]:
        if len(into) != len(names):
            raise ValueError("as many buffers as keys")
        views: list[View] = []
        try:
            views.extend(View(data, writable=True) for data in into)
            items = self._mget(names, [(view.address, view.nbytes) for view in views])
        finally:
            for view in views:
                view.close()
        for name, item in zip(names, items):
            if item.result == _lib.ESPACE:
                raise Error(_lib.ESPACE, f"the value of {name!r} has {item.value_bytes} bytes")
        return [item.value_bytes if item.result == _lib.OK else None for item in items]

    def _mget(self, names: list[bytes], places: list[Any]) -> Any:
        items = (_lib.Item * len(names))()
        for item, name, (address, room) in zip(items, names, places):
            item.key, item.key_bytes = name, len(name)
            item.value, item.value_bytes_max = address, room
        with self._lock:
            rc = _lib.lib.kvd_mget(self._open(), items, len(names))
            if rc < 0 and rc != _lib.ESPACE:
                self._check(rc)
        for item in items:
            if item.result < 0 and item.result != _lib.ESPACE:
                raise error_of(item.result)
        return items

    def put_many(
        self,
        items: Items,
        *,
        ttl: Time | None = None,
    ) -> None:
        """Stores many values at once. Where one fails the others may be stored."""
        pairs = pairs_of(items)
        change = change_of(ttl)
        array = (_lib.Item * len(pairs))()
        names = [key_bytes(key) for key, _ in pairs]
        views: list[View] = []
        try:
            for item, name, (_, value) in zip(array, names, pairs):
                views.append(View(value))
                item.key, item.key_bytes = name, len(name)
                item.value, item.value_bytes = views[-1].address, views[-1].nbytes
            with self._lock:
                self._check(
                    _lib.lib.kvd_mput(self._open(), array, len(pairs), ctypes.byref(change))
                )
        finally:
            for view in views:
                view.close()

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Deletes many keys at once; how many were there."""
        done = (_lib.Completion * 32)()
        deleted = in_flight = 0

        def take() -> None:
            nonlocal deleted, in_flight
            n = self._check(_lib.lib.kvd_poll(self._handle, done, len(done), -1))
            if n == 0:
                raise error_of(_lib.EUNKNOWN, b"deleting many: no answer in time")
            in_flight -= n
            failed = [done[i].result for i in range(n) if done[i].result < 0]
            deleted += sum(done[i].result == _lib.OK for i in range(n))
            if failed:
                raise error_of(failed[0], _lib.lib.kvd_session_error(self._handle))

        with self._lock:
            try:
                for key in keys:
                    name = key_bytes(key)
                    while True:
                        rc = _lib.lib.kvd_submit_del(self._open(), name, len(name), None)
                        if rc != _lib.EBUSY or in_flight == 0:
                            break
                        take()
                    self._check(rc)
                    in_flight += 1
                while in_flight:
                    take()
            finally:
                # After an error nothing may stay in flight: the next call needs that.
                while in_flight > 0 and self._handle:
                    n = _lib.lib.kvd_poll(self._handle, done, len(done), -1)
                    if n <= 0:
                        break
                    in_flight -= n
        return deleted

    # ------------------------------------------------------------------- server

    def ping(self) -> float:
        """A round trip through a worker thread of kvd, in seconds."""
        ns = ctypes.c_uint64()
        with self._lock:
            self._check(_lib.lib.kvd_ping(self._open(), ctypes.byref(ns)))
        return ns.value / 1e9

    def stats(self) -> dict[str, Any]:
        """kvd's figures."""
        text = ctypes.c_void_p()
        with self._lock:
            self._check(_lib.lib.kvd_stats(self._open(), ctypes.byref(text)))
        try:
            figures: dict[str, Any] = json.loads(ctypes.string_at(text.value or 0))
        finally:
            _lib.libc.free(text)
        return figures

    def backup(self, path: str) -> None:
        """Copies what kvd keeps on disk to a new folder of kvd's machine."""
        with self._lock:
            self._check(_lib.lib.kvd_backup(self._open(), path.encode()))

    # -------------------------------------------------- locks and transactions

    def lock(self, *keys: Key, timeout: Time | None = None) -> Lock:
        """A lock of these keys, which may be absent, to be held in a `with`. `timeout`: how
        long to wait for it, by default as long as any call may take; then it is Busy."""
        return Lock(self, keys, timeout)

    def transaction(self) -> Transaction:
        """Reads and changes of several keys, all or nothing: in a `with`, whose end commits,
        or is a Conflict if somebody else changed a key meanwhile."""
        return Transaction(self)

    def transact(self, work: Callable[[Transaction], T], *, timeout: Time | None = None) -> T:
        """Calls `work` with a transaction and commits, again after each Conflict, for as
        long as any call may take; what `work` returned."""
        return transact(self, work, timeout)

    def modify(
        self, key: Key, change: Callable[[Union[bytes, None]], Any], *, timeout: Time | None = None
    ) -> None:
        """Stores what `change` makes of the value (None: there is no such key), atomically: the
        key is locked meanwhile. None deletes the key."""
        with self.lock(key, timeout=timeout) as lock:
            after = change(lock.get(key))
            if after is None:
                lock.delete(key)
            else:
                lock.put(key, after)

    # ------------------------------------------------------------ as a dictionary

    def __getitem__(self, key: Key) -> bytes:
        value = self.get(key)
        if value is None:
            raise NotFound(key)
        return value

    def __setitem__(self, key: Key, value: BufferLike) -> None:
        self.put(key, value)

    def __delitem__(self, key: Key) -> None:
        if not self.delete(key):
            raise NotFound(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (str, bytes)) and self.exists(key)

    def __iter__(self) -> Iterator[bytes]:
        return self.keys()

    def items(self, prefix: Key = b"") -> Iterator[tuple[bytes, bytes]]:
        """Keys and their values, in no order, READ a batch at a time while it goes on. A key
        that is deleted meanwhile is left out."""
        keys = self.keys(prefix)
        while names := list(islice(keys, _BATCH_KEYS)):
            for name, value in zip(names, self.get_many(names)):
                if value is not None:
                    yield name, value

    def values(self, prefix: Key = b"") -> Iterator[bytes]:
        """The values of items()."""
        return (value for _, value in self.items(prefix))

    def pop(self, key: Key, default: Any = _ABSENT) -> Any:
        """Deletes the key; the value that it had. Of many that do it at once one gets it."""
        while True:
            value, found = self.get_with_version(key)
            if value is None:
                if default is _ABSENT:
                    raise NotFound(key)
                return default
            try:
                if self.delete(key, if_version=found):
                    return value
            except ConditionFailed:
                pass  # changed in between

    def setdefault(self, key: Key, value: BufferLike) -> bytes:
        """The value of the key, which is this one if there is none yet."""
        while True:
            try:
                self.put(key, value, if_absent=True)
                return bytes(value)
            except ConditionFailed:
                found = self.get(key)
            if found is not None:
                return found

    def update(self, items: Items = (), **more: BufferLike) -> None:
        """Stores many values at once."""
        self.put_many([*pairs_of(items), *more.items()])
