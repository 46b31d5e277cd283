#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tests/front/client.py MODULE SOCKET: what a program in Python does with memcached.

MODULE: pymemcache, memcache or pylibmc. The last two pickle what is no text, and keep that they did in the
client flags.
"""
import importlib
import sys

checks = 0  # pylint: disable=invalid-name


def same(what, got, want):
    """One check."""
    global checks  # pylint: disable=global-statement
    if got != want:
        sys.exit(f"{sys.argv[1]}: {what}: {got!r:.200}, not {want!r:.200}")
    checks += 1


def all_modules(cache, text):
    """What each of them can; text: what it makes of the bytes of a text that was stored."""
    cache.flush_all()
    same("set", bool(cache.set("name", "Ada")), True)
    same("get", cache.get("name"), text(b"Ada"))
    same("get of none", cache.get("none"), None)
    same("add", bool(cache.add("name", "Bob")), False)
    same("add of a new one", bool(cache.add("new", "Bob", 100)), True)
    same("replace", bool(cache.replace("new", "Eve")), True)
    same("replace of none", bool(cache.replace("none", "Eve")), False)
    same("append", bool(cache.append("new", "!")), True)
    same("prepend", bool(cache.prepend("new", "-")), True)
    same("what it is now", cache.get("new"), text(b"-Eve!"))
    data = bytes(range(256)) + b"\r\nEND\r\n"
    same("set of bytes", bool(cache.set("bytes", data)), True)
    same("get of bytes", cache.get("bytes"), data)
    same("set of a long one", bool(cache.set("long", data * 2000)), True)
    same("get of a long one", cache.get("long"), data * 2000)
    same("set of nothing", bool(cache.set("empty", b"")), True)
    same("get of nothing", cache.get("empty"), b"")
    same("touch", bool(cache.touch("name", 100)), True)
    same("set with a time", bool(cache.set("brief", "x", 1000)), True)
    same("delete", bool(cache.delete("brief")), True)
    same("get of what is gone", cache.get("brief"), None)
    many = {f"n{i}": str(i) for i in range(500)}
    same("set of many", list(cache.set_multi(many)), [])
    got = cache.get_multi([f"n{i}" for i in range(600)])
    same("get of many", got, {key: text(value.encode()) for key, value in many.items()})


def pymemcache(module, path):
    """Bytes; all of the text protocol."""
    cache = module.Client(path, timeout=60, connect_timeout=60, default_noreply=False)
    all_modules(cache, lambda value: value)
    same("incr", (cache.set("count", "10"), cache.incr("count", 5), cache.decr("count", 20)), (True, 15, 0))
    same("incr of none", cache.incr("none", 1), None)
    value, cas = cache.gets("name")
    same("gets", value, b"Ada")
    same("cas", cache.cas("name", "Ada L.", cas), True)
    same("cas again", cache.cas("name", "Bob", cas), False)
    same("cas of none", cache.cas("none", "Bob", cas), None)
    same("set without an answer", cache.set("quiet", "x", noreply=True), True)
    same("what it left", cache.get("quiet"), b"x")
    same("flags", cache.set("flags", "x", flags=4294967295), True)
    same("stats", cache.stats()[b"pid"] > 0, True)
    same("stats of settings", b"maxconns" in cache.stats("settings"), True)
    same("version", cache.version()[:4], b"1.6.")
    try:
        cache.set("k" * 250, b"x" * 2000000)
        same("a value that is too large", "taken", "refused")
    except module.exceptions.MemcacheServerError:
        same("and what comes behind it", cache.get("name"), b"Ada L.")
    same("flush_all", (cache.flush_all(), cache.get("name")), (True, None))


def memcache(module, path):
    """Text as it is, all else pickled."""
    cache = module.Client([f"unix:{path}"], socket_timeout=60, cache_cas=True)
    all_modules(cache, lambda value: value.decode())
    same("a structure", (cache.set("list", [1, {"two": 3}]), cache.get("list")), (True, [1, {"two": 3}]))
    same("incr", (cache.set("count", 10), cache.incr("count", 5), cache.decr("count", 20)), (True, 15, 0))
    same("a number stays one", cache.set("number", 7) and cache.get("number"), 7)
    same("gets", cache.gets("name"), "Ada")
    same("cas", bool(cache.cas("name", "Ada L.")), True)
    same("what it is now", cache.get("name"), "Ada L.")
    same("stats", "curr_items" in cache.get_stats()[0][1], True)
    cache.flush_all()
    same("flush_all", cache.get("name"), None)


def pylibmc(module, path):
    """libmemcached, with its hashing of keys and its compression."""
    cache = module.Client([path], behaviors={"cas": True, "tcp_nodelay": True})
    all_modules(cache, lambda value: value.decode())
    same("a structure", (cache.set("list", [1, {"two": 3}]), cache.get("list")), (True, [1, {"two": 3}]))
    same("incr", (cache.set("count", 10), cache.incr("count", 5), cache.decr("count", 20)), (True, 15, 0))
    value, cas = cache.gets("name")
    same("gets", value, "Ada")
    same("cas", cache.cas("name", "Ada L.", cas), True)
    same("cas again", cache.cas("name", "Bob", cas), False)
    text = b"kvd " * 50000
    same("compressed", (cache.set("long", text, min_compress_len=1000), cache.get("long")), (True, text))
    same("stats", b"curr_items" in cache.get_stats()[0][1] or "curr_items" in cache.get_stats()[0][1], True)
    cache.flush_all()
    same("flush_all", cache.get("name"), None)


def main():
    """The module's checks."""
    name, path = sys.argv[1:]
    try:
        module = importlib.import_module(name)
    except ImportError:
        sys.exit(77)
    globals()[name](module, path)
    print(f"{checks} checks")


main()
