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
from ._args import BufferLike, Items, Key, Time, change_of, key_bytes, pairs_of, plain_key
from ._changes import Changes
from ._dump import export, import_from
from ._lib import View
from .client import Client
from .errors import ConditionFailed, Error, NotFound, error_of
from .held import Lock, Transaction, transact

if TYPE_CHECKING:
    import numpy
    import numpy.typing

_SHORT = 64 << 10
_BATCH_ROOM = 4 << 10
_BATCH_KEYS = 256  # of one call: so many places for values are in memory at a time

_fast_get = _lib.fast.get if _lib.fast else None

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


class Session(Changes):
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
        self._room = ctypes.addressof(self._short)
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
        if _fast_get:
            with self._lock:
                found = _fast_get(self._handle.value or self._open(), key, self._room, _SHORT)
                if type(found) is bytes:
                    return found
                if found is None:
                    return default
                if found is not NotImplemented and found != _lib.ESPACE:
                    self._check(found)
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
        return self._info(key_bytes(key), None, 0)[1]

    def _info(self, key: bytes, address: int | None, room: int) -> tuple[int, Info | None]:
        """READs the value too, if it has room."""
        found = _lib.Info(size=ctypes.sizeof(_lib.Info))
        with self._lock:
            rc: int = _lib.lib.kvd_get_info(
                self._open(), key, len(key), address, room, ctypes.byref(found)
            )
            if rc != _lib.ESPACE:
                self._check(rc)
        if rc == _lib.NOT_FOUND:
            return rc, None
        return rc, Info(
            found.value_bytes,
            found.version,
            found.ttl_ms / 1000 if found.ttl_ms else None,
            found.flags,
            bool(found.signs & _lib.STALE),
            bool(found.signs & _lib.CLAIMED),
        )

    def _get_whole(self, key: bytes) -> tuple[bytes, Info | None]:
        """A value with what is known of that very one."""
        room = 4 << 10
        while True:
            value: bytes = _lib.new_bytes(None, room)
            rc, info = self._info(key, _lib.bytes_address(value), room)
            if info is None or rc == _lib.OK:
                return value[: info.length if info else 0], info
            room = info.length

    def keys(self, prefix: Key = b"") -> Iterator[bytes]:
        """All keys that begin with the prefix, in no order, a page at a time while it goes on. A
        key that is there all the while comes at least once."""
        name = key_bytes(prefix)
        return self._keys_from(name, *self._keys_page(name, 0))

    def _keys_from(self, prefix: bytes, page: list[bytes], cursor: int) -> Iterator[bytes]:
        yield from page
        while cursor:
            page, cursor = self._keys_page(prefix, cursor)
            yield from page

    def _keys_page(self, prefix: bytes, cursor: int) -> tuple[list[bytes], int]:
        """Some keys, and where to go on; 0: these were the last."""
        page: list[bytes] = []

        def each(_: Any, key: int, length: int, __: int) -> int:
            page.append(ctypes.string_at(key, length))
            return 0

        at = ctypes.c_uint64(cursor)
        with self._lock:
            self._check(
                _lib.lib.kvd_keys_page(
                    self._open(), prefix, len(prefix), ctypes.byref(at), _lib.EACH(each), None
                )
            )
        return page, at.value

    # ------------------------------------------------------------------ batches

    def get_many(
        self, keys: Iterable[Key], into: Sequence[BufferLike] | None = None
    ) -> list[Any]:
        """The values of many keys at once, None for those that are not there. With
        `into`, writable memory for each, they are READ there, and their lengths are
        returned."""
        if into is not None:
            return self._get_into_many([key_bytes(key) for key in keys], into)
        names = [plain_key(key) for key in keys]
        values: list[bytes | None] = []
        room = ctypes.create_string_buffer(min(len(names), _BATCH_KEYS) * _BATCH_ROOM or 1)
        for at in range(0, len(names), _BATCH_KEYS):
            values.extend(self._get_batch(names[at : at + _BATCH_KEYS], ctypes.addressof(room)))
        return values

    def _get_batch(self, names: list[Key], base: int) -> Iterable[bytes | None]:
        if not _lib.fast:
            return self._get_places([key_bytes(name) for name in names], base)
        with self._lock:
            found: list[Any] = _lib.fast.get_many(
                self._handle.value or self._open(), names, base, _BATCH_ROOM
            )
        for i, one in enumerate(found):
            if type(one) is int:
                if one != _lib.ESPACE:
                    raise error_of(one)
                found[i] = self.get(names[i])
        return found

    def _get_places(self, names: list[bytes], base: int) -> Iterator[bytes | None]:
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

    def _batch(self, call: Callable[..., int], items: Any) -> str:
        """Each item has its result then; the sentence of the errors, if they are all one."""
        with self._lock:
            call(self._open(), items, len(items))
            text: bytes = _lib.lib.kvd_session_error(self._handle)
        codes = {item.result for item in items if item.result < 0}
        return text.decode(errors="replace") if len(codes) == 1 else ""

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
        return sum(self._many(_lib.lib.kvd_mdel, keys))

    def exists_many(self, keys: Iterable[Key]) -> list[bool]:
        """Which of many keys are there, in a few round trips."""
        return self._many(_lib.lib.kvd_mexists, keys)

    def _many(self, call: Callable[..., int], keys: Iterable[Key]) -> list[bool]:
        names = [key_bytes(key) for key in keys]
        items = (_lib.Item * len(names))()
        for item, name in zip(items, names):
            item.key, item.key_bytes = name, len(name)
        text = self._batch(call, items)
        for item in items:
            if item.result < 0:
                raise error_of(item.result, text.encode())
        return [item.result == _lib.OK for item in items]

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

    def counters(self) -> dict[str, int]:
        """What the session's operations cost so far, as struct kvd_counters of <kvd.h>."""
        found = _lib.Counters()
        with self._lock:
            _lib.lib.kvd_session_counters(self._open(), ctypes.byref(found))
        return {name: getattr(found, name) for name, _ in _lib.Counters._fields_}

    def export(self, path: str, prefix: Key = b"") -> int:
        """Writes all keys, or those that begin with the prefix, with their values and the rest of
        their times to live to a file: lines of JSON, as of `kvcli export --json`. How many they
        are. The file gets its name once it is whole and on disk. It is no snapshot: of a key that
        changes meanwhile it has the old value or the new one."""
        return export(self, path, prefix)

    def import_from(self, path: str) -> int:
        """Stores what export() or `kvcli export --json` wrote, over what is there; how many."""
        return import_from(self, path)

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
