# SPDX-License-Identifier: BSD-2-Clause
"""Operations in flight of asyncio's sessions, and what became of them."""

from __future__ import annotations

import asyncio
from typing import Any

from . import _lib
from .errors import error_of


class Done:
    """What became of an operation."""

    __slots__ = ("result", "value_bytes", "version", "number", "value", "text")

    def __init__(self, done: _lib.Completion) -> None:
        self.result: int = done.result
        self.value_bytes: int = done.value_bytes
        self.version: int = done.version
        self.number: int = done.number
        self.value: bytes | None = None
        self.text = b""

    def check(self) -> "Done":
        if self.result < 0:
            raise error_of(self.result, self.text)
        return self


class Flight:
    """An operation in flight. It lives, with the memory that it uses, until its completion,
    whether somebody still waits for it or not."""

    __slots__ = ("future", "ended", "keep")

    def __init__(self, future: "asyncio.Future[Done]", ended: Any, keep: Any) -> None:
        self.future = future
        self.ended = ended  # called with its completion, or None
        self.keep = keep
