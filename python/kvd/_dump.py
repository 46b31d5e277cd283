# SPDX-License-Identifier: BSD-2-Clause
"""Exports and imports: a line of JSON for each key, as `kvcli export --json` writes it."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Iterator

from ._args import Key

if TYPE_CHECKING:
    from .session import Info, Session


def _text(name: str, data: bytes) -> tuple[str, str]:
    """What is no UTF-8 stands in base64."""
    try:
        return name, data.decode()
    except UnicodeDecodeError:
        return f"{name}_base64", base64.b64encode(data).decode()


def line_of(key: bytes, value: bytes, info: Info) -> str:
    one: dict[str, Any] = dict([_text("key", key), _text("value", value)])
    if info.ttl is not None:
        one["ttl_ms"] = max(1, round(info.ttl * 1000))
    if info.flags:
        one["flags"] = info.flags
    if info.stale:
        one["stale"] = True
    if info.claimed:
        one["claimed"] = True
    return json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n"


def _bytes(one: dict[str, Any], name: str) -> bytes:
    if name in one:
        text: str = one[name]
        return text.encode()
    return base64.b64decode(one[f"{name}_base64"], validate=True)


def _store_line(store: Session, line: str) -> None:
    one = json.loads(line)
    store.put(
        _bytes(one, "key"),
        _bytes(one, "value"),
        ttl=one["ttl_ms"] / 1000 if "ttl_ms" in one else None,
        flags=one.get("flags", 0),
        stale=one.get("stale", False),
        claimed=one.get("claimed", False),
    )


@contextmanager
def _whole(path: str) -> Iterator[IO[str]]:
    """A file that has its name once it is whole and on disk."""
    fd, other = tempfile.mkstemp(prefix=".kvd-", dir=os.path.dirname(path) or ".")
    try:
        with open(fd, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(other, path)
    except BaseException:
        os.unlink(other)
        raise


def export(store: Session, path: str, prefix: Key) -> int:
    count = 0
    with _whole(path) as file:
        for key in store.keys(prefix):
            value, info = store._get_whole(key)
            if info is not None:
                file.write(line_of(key, value, info))
                count += 1
    return count


def import_from(store: Session, path: str) -> int:
    count = 0
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            try:
                _store_line(store, line)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{path}, line {count + 1}, can't be stored: {error}; the {count} before it are"
                ) from error
            count += 1
    return count
