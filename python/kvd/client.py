# SPDX-License-Identifier: BSD-2-Clause
"""Clients: what is known of one server, and memory registered with its device."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import TYPE_CHECKING

from . import _lib
from ._args import BufferLike, Time, seconds_of
from ._lib import View
from .errors import error_of

if TYPE_CHECKING:
    from .session import Session

FORKED = (
    "it was made by the process that this one was forked from, whose connection it is: make "
    "a new one here, or start processes by spawn or forkserver"
)


class Handles:
    """What libkvd made.  A process that was forked has none of its parent's: it must
    neither use nor end them, as the device serves the parent."""

    _all: "weakref.WeakSet[Handles]" = weakref.WeakSet()
    _what = ""

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        self._lock = threading.Lock()
        self._forked = False
        Handles._all.add(self)

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            if self._forked:
                raise RuntimeError(f"the {self._what} can't be used here: {FORKED}")
            raise ValueError(f"the {self._what} is closed")
        return self._handle

    @staticmethod
    def _forget_all() -> None:
        for one in list(Handles._all):
            one._forked = bool(one._handle) or one._forked
            one._handle = ctypes.c_void_p()
            one._lock = threading.Lock()  # another thread of the parent's may hold it


os.register_at_fork(after_in_child=Handles._forget_all)


class Registered(Handles):
    """Memory that is registered with the device; see Client.register()."""

    _what = "registration"

    def __init__(self, client: "Client", data: BufferLike) -> None:
        super().__init__()
        self._client = client
        self._view = View(data, writable=True)
        rc = _lib.lib.kvd_buffer_new(
            client._handle, self._view.address, self._view.nbytes, ctypes.byref(self._handle)
        )
        if rc < 0:
            self._view.close()
            raise error_of(rc, _lib.lib.kvd_client_error(client._handle))
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

    def __repr__(self) -> str:
        state = "" if self._handle else ", closed"
        return f"<kvd.Registered {self._view.nbytes} bytes{state}>"


class Client(Handles):
    """What is known of one server. Threads may share it."""

    _what = "client"

    def __init__(
        self,
        server: str | None = None,
        *,
        device: str | None = None,
        timeout: Time | None = None,
        depth: int = 0,
        credentials: str | None = None,
        namespace: str | None = None,
    ) -> None:
        """`server`: by default what KVD_SERVER in the environment names, or
        127.0.0.1:7480. `device`: an RDMA device by name, or "soft". `timeout`: of each call, in
        seconds. `depth`: operations in flight of one session. `credentials`: path of
        the file that says who the client is; "" for nobody. `namespace`: which of the
        server's tables, where no "/NAME" stands behind its address."""
        super().__init__()
        self.server = server or os.environ.get("KVD_SERVER") or "127.0.0.1:7480"
        options = _lib.Options(size=ctypes.sizeof(_lib.Options), depth=depth)
        options.device = None if device is None else device.encode()
        options.credentials = None if credentials is None else credentials.encode()
        options.namespace_name = None if namespace is None else namespace.encode()
        if timeout is not None:
            options.timeout_ms = max(1, round(seconds_of(timeout) * 1000))
        self._timeout = options.timeout_ms / 1000 or 5.0
        self._sessions: list[Session] = []
        self._registered: list[Registered] = []
        rc = _lib.lib.kvd_client_new(
            self.server.encode(), ctypes.byref(options), ctypes.byref(self._handle)
        )
        if rc < 0:
            text = _lib.lib.kvd_client_error(self._handle) if self._handle else b""
            error = error_of(rc, text)
            _lib.lib.kvd_client_delete(ctypes.byref(self._handle))
            raise error

    @property
    def device(self) -> str:
        """The device and why it was chosen, in a line."""
        text: bytes = _lib.lib.kvd_client_device(self._open())
        return text.decode()

    def session(self) -> "Session":
        """Connects."""
        from .session import Session

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
        if self._handle:
            _lib.lib.kvd_client_delete(ctypes.byref(self._handle))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def __repr__(self) -> str:
        return f"<kvd.Client of {self.server}{'' if self._handle else ', closed'}>"
