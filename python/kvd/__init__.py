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

A key that is not there is None or False, never an exception; errors are `kvd.Error`.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Sequence,
    Tuple,
    Union,
)

from . import _lib
from ._lib import View

if TYPE_CHECKING:
    import numpy
    import numpy.typing

__all__ = [
    "Client",
    "ConditionFailed",
    "Error",
    "Info",
    "Key",
    "Registered",
    "Session",
    "Unknown",
    "connect",
    "version",
]

Key = Union[str, bytes]
# typing has no name for "anything with the buffer protocol" before Python 3.12.
BufferLike = Any

Items = Union[
    Mapping[str, BufferLike],
    Mapping[bytes, BufferLike],
    Iterable[Tuple[Key, BufferLike]],
]

KEY_BYTES_MAX = 1024
VALUE_BYTES_MAX = 1 << 30
_SHORT = 64 << 10
_BATCH_ROOM = 4 << 10


class Error(Exception):
    """An operation failed; `code` is the KVD_E* of <kvd.h>."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Unknown(Error):
    """The connection was lost: the change may have taken effect, or not."""


class ConditionFailed(Error):
    """The condition of a change was false; `version` is the key's, 0 if it is absent."""

    def __init__(self, version: int) -> None:
        super().__init__(_lib.CONDITION, f"the condition was false (version {version})")
        self.version = version


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


def version() -> str:
    """libkvd's version."""
    text: bytes = _lib.lib.kvd_version()
    return text.decode()


def _key(key: Key) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise TypeError(f"a key is str or bytes, not {type(key).__name__}")
    return bytes(key)


def _raise(code: int, text: bytes | None) -> None:
    words = (text or b"").decode(errors="replace")
    if not words:
        words = _lib.lib.kvd_strerror(code).decode()
    raise (Unknown if code == _lib.EUNKNOWN else Error)(code, words)


def _change(
    ttl: float | None, if_absent: bool, if_present: bool, if_version: int | None
) -> _lib.Change:
    if if_absent + if_present + (if_version is not None) > 1:
        raise ValueError("one condition at the most")
    if ttl is not None and ttl <= 0:
        raise ValueError("ttl is in seconds, and more than 0")
    change = _lib.Change(size=ctypes.sizeof(_lib.Change))
    if ttl is not None:
        change.ttl_ms = max(1, round(ttl * 1000))
    if if_absent:
        change.condition = _lib.IF_ABSENT
    elif if_present:
        change.condition = _lib.IF_PRESENT
    elif if_version is not None:
        change.condition = _lib.IF_VERSION
        change.version = if_version
    return change


class Registered:
    """Memory that is registered with the device; see Client.register()."""

    def __init__(self, client: "Client", data: BufferLike) -> None:
        self._client = client
        self._view = View(data, writable=True)
        self._handle = ctypes.c_void_p()
        rc = _lib.lib.kvd_buffer_new(
            client._handle, self._view.address, self._view.nbytes, ctypes.byref(self._handle)
        )
        if rc < 0:
            self._view.close()
            _raise(rc, _lib.lib.kvd_client_error(client._handle))
        self.data = data
        client._registered.append(self)

    def close(self) -> None:
        """Ends the registration; not while a call uses the memory."""
        if self._handle:
            _lib.lib.kvd_buffer_delete(ctypes.byref(self._handle))
            self._view.close()
            self._client._registered.remove(self)

    def __enter__(self) -> "Registered":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """What is known of one server. Threads may share it."""

    def __init__(
        self,
        server: str | None = None,
        *,
        device: str | None = None,
        timeout: float | None = None,
        depth: int = 0,
        credentials: str | None = None,
        namespace: str | None = None,
    ) -> None:
        """`server`: by default what KVD_SERVER in the environment names, or
        127.0.0.1:7480. `device`: an RDMA device by name, or "soft". `timeout`: of each call, in
        seconds. `depth`: operations in flight of one session. `credentials`: path of
        the file that says who the client is; "" for nobody. `namespace`: which of the
        server's tables, where no "/NAME" stands behind its address."""
        server = server or os.environ.get("KVD_SERVER") or "127.0.0.1:7480"
        options = _lib.Options(size=ctypes.sizeof(_lib.Options), depth=depth)
        options.device = None if device is None else device.encode()
        options.credentials = None if credentials is None else credentials.encode()
        options.namespace_name = None if namespace is None else namespace.encode()
        if timeout is not None:
            options.timeout_ms = max(1, round(timeout * 1000))
        self._handle = ctypes.c_void_p()
        self._sessions: list[Session] = []
        self._registered: list[Registered] = []
        rc = _lib.lib.kvd_client_new(
            server.encode(), ctypes.byref(options), ctypes.byref(self._handle)
        )
        if rc < 0:
            text = _lib.lib.kvd_client_error(self._handle) if self._handle else b""
            _lib.lib.kvd_client_delete(ctypes.byref(self._handle))
            _raise(rc, text)

    @property
    def device(self) -> str:
        """The device and why it was chosen, in a line."""
        text: bytes = _lib.lib.kvd_client_device(self._open())
        return text.decode()

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("the client is closed")
        return self._handle

    def session(self) -> "Session":
        """Connects."""
        return Session(self)

    def register(self, data: BufferLike) -> Registered:
        """Registers writable memory with the device, once for all calls that send from
        it or READ into it. Needs a session to have been made before. It stays
        registered, and can't be resized, until close()."""
        self._open()
        return Registered(self, data)

    def close(self) -> None:
        """Ends its sessions and registrations too."""
        for session in list(self._sessions):
            session.close()
        for registered in list(self._registered):
            registered.close()
        _lib.lib.kvd_client_delete(ctypes.byref(self._handle))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


class Session:
    """One connection; made by Client.session() or connect()."""

    def __init__(self, client: Client, owns_client: bool = False) -> None:
        self.client = client
        self._owns_client = owns_client
        self._lock = threading.Lock()
        self._handle = ctypes.c_void_p()
        rc = _lib.lib.kvd_session_new(client._open(), ctypes.byref(self._handle))
        if rc < 0:
            _raise(rc, _lib.lib.kvd_client_error(client._handle))
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

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("the session is closed")
        return self._handle

    def _check(self, rc: int) -> int:
        """Raises for an error; a result is returned."""
        if rc < 0:
            _raise(rc, _lib.lib.kvd_session_error(self._handle))
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

    def get(self, key: Key) -> bytes | None:
        """The value, or None if there is no such key."""
        return self.get_with_version(key)[0]

    def get_with_version(self, key: Key) -> tuple[bytes | None, int]:
        """The value and its version, or (None, 0)."""
        name = _key(key)
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
            rc, length, _ = self._get(_key(key), view.address, view.nbytes)
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

        kind, name = numpy.dtype(dtype), _key(key)
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
        name = _key(key)
        with self._lock:
            rc = self._check(_lib.lib.kvd_exists(self._open(), name, len(name), None))
        return rc == _lib.OK

    def length(self, key: Key) -> int | None:
        """The length of the value, without reading it; None if there is no such key."""
        name, length = _key(key), ctypes.c_size_t()
        with self._lock:
            rc = self._check(
                _lib.lib.kvd_exists(self._open(), name, len(name), ctypes.byref(length))
            )
        return length.value if rc == _lib.OK else None

    def info(self, key: Key) -> Info | None:
        """What is known of the value, without reading it; None if there is no such key."""
        name, found = _key(key), _lib.Info(size=ctypes.sizeof(_lib.Info))
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

        name = _key(prefix)
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
        ttl: float | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        flags: int = 0,
    ) -> int:
        """Stores a value; returns its version. `ttl`: seconds until it expires. `flags`:
        32 bits that are kept with it; see info(). With a condition that is false:
        ConditionFailed, and nothing is done."""
        change = _change(ttl, if_absent, if_present, if_version)
        if not 0 <= flags < 1 << 32:
            raise ValueError("flags are 32 bits")
        change.flags = flags
        name, found = _key(key), ctypes.c_uint64()
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
        change = _change(None, False, False, if_version)
        name, found = _key(key), ctypes.c_uint64()
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
        name, sum_ = _key(key), ctypes.c_int64()
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
        name, total = _key(key), ctypes.c_size_t()
        with View(value) as view, self._lock:
            self._check(
                call(
                    self._open(), name, len(name), view.address, view.nbytes, None,
                    ctypes.byref(total),
                )
            )
        return total.value

    def touch(self, key: Key, ttl: float | None) -> bool:
        """A new time to live, None for ever; False if there is no such key."""
        name = _key(key)
        ttl_ms = 0 if ttl is None else max(1, round(ttl * 1000))
        with self._lock:
            rc = self._check(_lib.lib.kvd_touch(self._open(), name, len(name), ttl_ms))
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
        names = [_key(key) for key in keys]
        if into is not None:
            return self._get_into_many(names, into)
        room = ctypes.create_string_buffer(max(1, len(names) * _BATCH_ROOM))
        base = ctypes.addressof(room)
        places = [(base + i * _BATCH_ROOM, _BATCH_ROOM) for i in range(len(names))]
        values: list[bytes | None] = []
        for name, item, place in zip(names, self._mget(names, places), places):
            if item.result == _lib.OK:
                values.append(ctypes.string_at(place[0], item.value_bytes))
            elif item.result == _lib.ESPACE:
                values.append(self.get(name))
            else:
                values.append(None)
        return values

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
                _raise(item.result, b"")
        return items

    def put_many(
        self,
        items: Items,
        *,
        ttl: float | None = None,
    ) -> None:
        """Stores many values at once. Where one fails the others may be stored."""
        pairs: list[tuple[Key, BufferLike]] = list(
            items.items() if isinstance(items, Mapping) else items
        )
        change = _change(ttl, False, False, None)
        array = (_lib.Item * len(pairs))()
        names = [_key(key) for key, _ in pairs]
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
                _raise(_lib.EUNKNOWN, b"deleting many: no answer in time")
            in_flight -= n
            failed = [done[i].result for i in range(n) if done[i].result < 0]
            deleted += sum(done[i].result == _lib.OK for i in range(n))
            if failed:
                _raise(failed[0], _lib.lib.kvd_session_error(self._handle))

        with self._lock:
            try:
                for key in keys:
                    name = _key(key)
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

    # ------------------------------------------------------------ as a dictionary

    def __getitem__(self, key: Key) -> bytes:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Key, value: BufferLike) -> None:
        self.put(key, value)

    def __delitem__(self, key: Key) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (str, bytes)) and self.exists(key)


def connect(server: str | None = None, **options: Any) -> Session:
    """A session with a client of its own; options as of Client."""
    client = Client(server, **options)
    try:
        return Session(client, owns_client=True)
    except BaseException:
        client.close()
        raise
