# SPDX-License-Identifier: BSD-2-Clause
"""libkvd's functions and structures, as <kvd.h> declares them."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import os
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

OK, NOT_FOUND, CONDITION = 0, 1, 2
EINVAL, ENOMEM, ECONNECT, EUNKNOWN, ETIMEDOUT = -1, -2, -3, -4, -5
EFULL, ETOOBIG, EBUSY, EPROTOCOL, EDEVICE = -6, -7, -8, -9, -10
ESPACE, ELOST, ENUMBER, ERANGE, EDENIED, EDISK = -11, -12, -13, -14, -15, -16

ALWAYS, IF_ABSENT, IF_PRESENT, IF_VERSION = 0, 1, 2, 3
STALE, CLAIMED = 1, 2
KEEP_TTL, OR_STALE, SET_SIGNS = 1, 2, 4


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_char_p),
        ("timeout_ms", c_int),
        ("depth", c_int),
        ("mirror_bytes", c_size_t),
        ("poll", c_int),
        ("get", c_int),
        ("mirror_ahead", c_int),
        ("credentials", c_char_p),
        ("namespace_name", c_char_p),
        ("spread", c_int),
    ]


class Change(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("ttl_ms", c_uint64),
        ("condition", c_int),
        ("version", c_uint64),
        ("expires_unix_ms", c_uint64),
        ("flags", c_uint32),
        ("signs", c_int),
        ("options", c_int),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("value_bytes", c_size_t),
        ("version", c_uint64),
        ("ttl_ms", c_uint64),
        ("flags", c_uint32),
        ("signs", c_int),
    ]


class Item(ctypes.Structure):
    _fields_ = [
        ("key", c_char_p),
        ("key_bytes", c_size_t),
        ("value", c_void_p),
        ("value_bytes_max", c_size_t),
        ("value_bytes", c_size_t),
        ("version", c_uint64),
        ("result", c_int),
        ("ttl_ms", c_uint64),
        ("flags", c_uint32),
        ("signs", c_int),
    ]


class Completion(ctypes.Structure):
    _fields_ = [
        ("tag", c_void_p),
        ("result", c_int),
        ("value_bytes", c_size_t),
        ("version", c_uint64),
        ("number", c_int64),
        ("ttl_ms", c_uint64),
        ("flags", c_uint32),
        ("signs", c_int),
    ]


class Counters(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "gets", "changes", "reads", "read_bytes", "atomics", "messages", "message_bytes",
            "retries", "mirror_hits", "fallbacks", "reconnects", "round_trips", "copied_bytes",
            "doorbells", "hashed_aside_bytes",
        )
    ]


class LockKey(ctypes.Structure):
    """struct kvd_key."""

    _fields_ = [("data", c_char_p), ("bytes", c_size_t)]


EACH = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_uint64)


class Buffer(ctypes.Structure):
    """Py_buffer, to learn where an object's memory is without copying it."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_client = _session = _buffer = _lock = _txn = c_void_p
_key = [c_char_p, c_size_t]

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "kvd_strerror": (c_char_p, [c_int]),
    "kvd_version": (c_char_p, []),
    "kvd_client_new": (c_int, [c_char_p, POINTER(Options), POINTER(_client)]),
    "kvd_client_delete": (None, [POINTER(_client)]),
    "kvd_client_error": (c_char_p, [_client]),
    "kvd_client_device": (c_char_p, [_client]),
    "kvd_session_new": (c_int, [_client, POINTER(_session)]),
    "kvd_session_delete": (None, [POINTER(_session)]),
    "kvd_session_error": (c_char_p, [_session]),
    "kvd_get": (
        c_int,
        [_session, *_key, c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_uint64)],
    ),
    "kvd_get_info": (c_int, [_session, *_key, c_void_p, c_size_t, POINTER(Info)]),
    "kvd_exists": (c_int, [_session, *_key, POINTER(c_size_t)]),
    "kvd_put_with": (
        c_int,
        [_session, *_key, c_void_p, c_size_t, POINTER(Change), POINTER(c_uint64)],
    ),
    "kvd_del_with": (c_int, [_session, *_key, POINTER(Change), POINTER(c_uint64)]),
    "kvd_incr": (
        c_int,
        [_session, *_key, c_int64, POINTER(c_int64), POINTER(Change), POINTER(c_int64)],
    ),
    "kvd_append": (
        c_int,
        [_session, *_key, c_void_p, c_size_t, POINTER(Change), POINTER(c_size_t)],
    ),
    "kvd_prepend": (
        c_int,
        [_session, *_key, c_void_p, c_size_t, POINTER(Change), POINTER(c_size_t)],
    ),
    "kvd_incr_u64": (
        c_int,
        [_session, *_key, c_uint64, POINTER(c_uint64), POINTER(Change), POINTER(c_uint64)],
    ),
    "kvd_decr_u64": (
        c_int,
        [_session, *_key, c_uint64, POINTER(c_uint64), POINTER(Change), POINTER(c_uint64)],
    ),
    "kvd_touch_with": (c_int, [_session, *_key, POINTER(Change), POINTER(c_uint64)]),
    "kvd_get_touch": (
        c_int,
        [_session, *_key, POINTER(Change), c_void_p, c_size_t, POINTER(Info)],
    ),
    "kvd_buffer_new": (c_int, [_client, c_void_p, c_size_t, POINTER(_buffer)]),
    "kvd_buffer_delete": (None, [POINTER(_buffer)]),
    "kvd_mget": (c_int, [_session, POINTER(Item), c_size_t]),
    "kvd_mput": (c_int, [_session, POINTER(Item), c_size_t, POINTER(Change)]),
    "kvd_mexists": (c_int, [_session, POINTER(Item), c_size_t]),
    "kvd_mdel": (c_int, [_session, POINTER(Item), c_size_t]),
    "kvd_session_counters": (None, [_session, POINTER(Counters)]),
    "kvd_submit_del": (c_int, [_session, *_key, c_void_p]),
    "kvd_submit_get": (c_int, [_session, *_key, c_void_p, c_size_t, c_void_p]),
    "kvd_submit_put_with": (
        c_int,
        [_session, *_key, c_void_p, c_size_t, POINTER(Change), c_void_p],
    ),
    "kvd_submit_del_with": (c_int, [_session, *_key, POINTER(Change), c_void_p]),
    "kvd_submit_incr": (
        c_int,
        [_session, *_key, c_int64, POINTER(c_int64), POINTER(Change), c_void_p],
    ),
    "kvd_submit_append": (
        c_int,
        [_session, *_key, c_void_p, c_size_t, POINTER(Change), c_void_p],
    ),
    "kvd_submit_prepend": (
        c_int,
        [_session, *_key, c_void_p, c_size_t, POINTER(Change), c_void_p],
    ),
    "kvd_submit_exists": (c_int, [_session, *_key, c_void_p]),
    "kvd_submit_incr_u64": (
        c_int,
        [_session, *_key, c_uint64, POINTER(c_uint64), POINTER(Change), c_void_p],
    ),
    "kvd_submit_decr_u64": (
        c_int,
        [_session, *_key, c_uint64, POINTER(c_uint64), POINTER(Change), c_void_p],
    ),
    "kvd_submit_touch_with": (c_int, [_session, *_key, POINTER(Change), c_void_p]),
    "kvd_submit_get_touch": (
        c_int,
        [_session, *_key, POINTER(Change), c_void_p, c_size_t, c_void_p],
    ),
    "kvd_fd": (c_int, [_session]),
    "kvd_arm": (c_int, [_session]),
    "kvd_connected": (c_int, [_session]),
    "kvd_backup": (c_int, [_session, c_char_p]),
    "kvd_lock": (c_int, [_session, POINTER(LockKey), c_size_t, c_int, POINTER(_lock)]),
    "kvd_unlock": (c_int, [POINTER(_lock)]),
    "kvd_lock_check": (c_int, [_lock]),
    "kvd_locked_get": (
        c_int,
        [_lock, *_key, c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_uint64)],
    ),
    "kvd_locked_put": (c_int, [_lock, *_key, c_void_p, c_size_t, POINTER(c_uint64)]),
    "kvd_locked_del": (c_int, [_lock, *_key]),
    "kvd_txn_new": (c_int, [_session, POINTER(_txn)]),
    "kvd_txn_delete": (None, [POINTER(_txn)]),
    "kvd_txn_get": (c_int, [_txn, *_key, c_void_p, c_size_t, POINTER(c_size_t)]),
    "kvd_txn_put": (c_int, [_txn, *_key, c_void_p, c_size_t]),
    "kvd_txn_del": (c_int, [_txn, *_key]),
    "kvd_txn_commit": (c_int, [POINTER(_txn), POINTER(c_uint64)]),
    "kvd_poll": (c_int, [_session, POINTER(Completion), c_int, c_int]),
    "kvd_flush": (c_int, [_session]),
    "kvd_flush_at": (c_int, [_session, c_uint64]),
    "kvd_keys_page": (c_int, [_session, *_key, POINTER(c_uint64), EACH, c_void_p]),
    "kvd_ping": (c_int, [_session, POINTER(c_uint64)]),
    "kvd_stats": (c_int, [_session, POINTER(c_void_p)]),
}


def load() -> ctypes.CDLL:
    """The library that KVD_LIBRARY names, or the system's."""
    path = os.environ.get("KVD_LIBRARY") or ctypes.util.find_library("kvd") or "libkvd.so.0"
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"libkvd can't be loaded: {error}; install it, or name it by KVD_LIBRARY"
        ) from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


lib = load()


def load_fast() -> Any:
    """kvd._fast, if it was built; None: ctypes does all. KVD_FAST=0 leaves it out."""
    if os.environ.get("KVD_FAST") == "0":
        return None
    try:
        module = importlib.import_module("kvd._fast")
    except ModuleNotFoundError:
        return None
    addresses = (ctypes.cast(f, c_void_p).value for f in (lib.kvd_get, lib.kvd_mget))
    module.set_up(*addresses, ctypes.sizeof(Item))
    return module


fast = load_fast()

libc = ctypes.CDLL(None, use_errno=True)
libc.free.argtypes = [c_void_p]
libc.free.restype = None


def new_eventfd() -> int:
    """os.eventfd() came with Python 3.10."""
    fd: int = libc.eventfd(0, os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "eventfd: " + os.strerror(ctypes.get_errno()))
    return fd


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, POINTER(Buffer), c_int]
_get_buffer.restype = c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [POINTER(Buffer)]
_release_buffer.restype = None

new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
new_bytes.argtypes = [c_void_p, ctypes.c_ssize_t]
new_bytes.restype = ctypes.py_object
bytes_address = ctypes.pythonapi.PyBytes_AsString
bytes_address.argtypes = [ctypes.py_object]
bytes_address.restype = c_void_p


class View:
    """Where the memory of an object with the buffer protocol is, while it is open."""

    def __init__(self, data: Any, writable: bool = False) -> None:
        self._buffer = Buffer()
        # PyBUF_SIMPLE or PyBUF_WRITABLE: contiguous, or a BufferError.
        _get_buffer(data, ctypes.byref(self._buffer), 1 if writable else 0)
        self._open = True
        self.address: int | None = self._buffer.buf
        self.nbytes: int = self._buffer.len

    def close(self) -> None:
        if self._open:
            self._open = False
            _release_buffer(ctypes.byref(self._buffer))

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
