# SPDX-License-Identifier: BSD-2-Clause
"""Memory that is registered once, by the mapping that it lies in."""

from __future__ import annotations

import ctypes
import logging
import threading
from bisect import bisect_right

from . import _lib
from .client import Client, Handles

_log = logging.getLogger("kvd")


def mapping_of(address: int, nbytes: int, maps: str = "/proc/self/maps") -> tuple[int, int] | None:
    """Begin and end of the private or shared writable mapping that has all of this memory; None:
    it is in none, or in the heap or a stack, which grow and shrink. Mappings without a gap
    between them count as one as far as the memory needs them."""
    begin = end = 0
    with open(maps, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split(None, 5)
            low, high = (int(word, 16) for word in words[0].split("-"))
            if high <= address:
                continue
            name = words[5].strip() if len(words) > 5 else ""
            if (begin and low != end) or not words[1].startswith("rw"):
                return None
            if low > (end or address) or name == "[heap]" or name.startswith("[stack"):
                return None
            begin, end = begin or low, high
            if end >= address + nbytes:
                return begin, end
    return None


class Mappings(Handles):
    """The mappings that are registered with a client's device, until close()."""

    _what = "registration"

    def __init__(self, client: Client, bytes_min: int) -> None:
        """Those of `bytes_min` at the least: shorter memory comes and goes."""
        super().__init__()
        self._client = client
        self._bytes_min = bytes_min
        self._begins: list[int] = []
        self._known: list[tuple[int, ctypes.c_void_p | None]] = []  # end; None: it can't be

    def cover(self, address: int, nbytes: int) -> None:
        """Has the mapping of this memory registered, if there is one that is long enough."""
        with self._lock:
            at = bisect_right(self._begins, address) - 1
            if at >= 0 and address + nbytes <= self._known[at][0]:
                return
            mapping = mapping_of(address, nbytes)
            if mapping and mapping[1] - mapping[0] >= self._bytes_min:
                self._add(*mapping)

    def _add(self, begin: int, end: int) -> None:
        """What of it is registered already stays so: a mapping that grew has two parts."""
        at = bisect_right(self._begins, begin)
        if at:
            begin = max(begin, self._known[at - 1][0])
        if at < len(self._begins):
            end = min(end, self._begins[at])
        if begin >= end:
            return
        handle = ctypes.c_void_p()
        rc = _lib.lib.kvd_buffer_new(
            self._client._open(), begin, end - begin, ctypes.byref(handle)
        )
        if rc < 0:
            text = _lib.lib.kvd_client_error(self._client._handle).decode(errors="replace")
            _log.warning(
                "%d bytes of memory at 0x%x are registered for each call instead of once: %s",
                end - begin, begin, text,
            )
        self._begins.insert(at, begin)
        self._known.insert(at, (end, handle if rc >= 0 else None))

    def ranges(self) -> list[tuple[int, int]]:
        """Begin and length of what is registered."""
        with self._lock:
            known = zip(self._begins, self._known)
            return [(begin, end - begin) for begin, (end, handle) in known if handle]

    def close(self) -> None:
        """Not while a call uses the memory."""
        with self._lock:
            for _, handle in self._known:
                if handle and self._client._handle:  # not in a forked child
                    _lib.lib.kvd_buffer_delete(ctypes.byref(handle))
            self._known.clear()
            self._begins.clear()
