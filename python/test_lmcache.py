# SPDX-License-Identifier: BSD-2-Clause
"""Of kvd.lmcache, as LMCache uses it: loaded by name, submits from several threads under a lock
of theirs, completions drained by one that polls the eventfd, views into one arena. Against the
kvd at KVD_ADDR; run by tests/integration/python_lmcache.sh."""

import importlib
import mmap
import os
import select
import threading
import time
import unittest
from typing import Any, Optional, Sequence

import kvd
from kvd._register import mapping_of

ADDR = os.environ["KVD_ADDR"]
CHUNK = 512 << 10
CHUNKS = 96
PATIENCE_S = 120


def chunk_key(i: int) -> str:
    return f"meta-llama/Llama-3.1-8B-Instruct@4@1@{i * 2654435761 % (1 << 64):016x}@tenant-7"


class Engine:
    """LMCache's side: a lock around submits, a thread that drains, futures by number."""

    def __init__(self, **params: Any) -> None:
        module = importlib.import_module("kvd.lmcache")
        self.plugin = getattr(module, "Store")(**params)
        self._lock = threading.Lock()
        self._told = threading.Condition()
        self._done: dict[int, tuple[bool, str, Optional[list[bool]]]] = {}
        self.ending = False
        self._fd = self.plugin.event_fd()
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def _drain(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        while not self.ending:
            if poll.poll(100):
                self.take()

    def take(self) -> None:
        with self._told:
            for number, ok, error, results in self.plugin.drain_completions():
                assert number not in self._done, "completed twice"
                self._done[number] = ok, error, results
            self._told.notify_all()

    def submit(self, what: str, *args: Any) -> int:
        with self._lock:
            number = getattr(self.plugin, "submit_batch_" + what)(*args)
        assert isinstance(number, int)
        return number

    def wait(self, number: int) -> tuple[bool, str, Optional[list[bool]]]:
        with self._told:
            assert self._told.wait_for(lambda: number in self._done, PATIENCE_S), "no completion"
            return self._done.pop(number)

    def do(self, what: str, *args: Any) -> tuple[bool, str, Optional[list[bool]]]:
        return self.wait(self.submit(what, *args))

    def close(self) -> None:
        self.ending = True
        self._thread.join()
        self.plugin.close()


class Arena:
    """One large mapping, cut into chunks."""

    def __init__(self, chunks: int) -> None:
        self.memory = mmap.mmap(-1, chunks * CHUNK)
        self.all = memoryview(self.memory)

    def chunk(self, i: int) -> memoryview:
        return self.all[i * CHUNK : (i + 1) * CHUNK]

    def fill(self, i: int, seed: int) -> None:
        self.chunk(i)[:] = seed.to_bytes(4, "little") * (CHUNK // 4)

    def holds(self, i: int, seed: int) -> bool:
        return self.chunk(i) == seed.to_bytes(4, "little") * (CHUNK // 4)


class Test(unittest.TestCase):
    def setUp(self) -> None:
        with kvd.connect(ADDR) as store:
            store.flush()
        self.engine = Engine(server=ADDR, sessions=2)
        self.arena = Arena(CHUNKS)

    def tearDown(self) -> None:
        self.engine.close()

    def keys(self, which: Sequence[int]) -> list[str]:
        return [chunk_key(i) for i in which]

    def views(self, which: Sequence[int]) -> list[memoryview]:
        return [self.arena.chunk(i) for i in which]

    def store_all(self) -> None:
        for i in range(CHUNKS):
            self.arena.fill(i, i + 1)
        done = self.engine.do("set", self.keys(range(CHUNKS)), self.views(range(CHUNKS)))
        self.assertEqual(done, (True, "", [True] * CHUNKS))

    def clear(self) -> None:
        self.arena.all[:] = bytes(len(self.arena.all))

    def test_values_and_no_copy(self) -> None:
        self.store_all()
        self.clear()
        done = self.engine.do("get", self.keys(range(CHUNKS)), self.views(range(CHUNKS)))
        self.assertEqual(done, (True, "", [True] * CHUNKS))
        self.assertTrue(all(self.arena.holds(i, i + 1) for i in range(CHUNKS)))
        self.assertEqual(self.engine.plugin.copied_bytes(), 0)
        # The arena is registered, once, and nothing else.
        self.assertEqual(len(self.engine.plugin.registered()), 1)
        self.assertGreaterEqual(self.engine.plugin.registered()[0][1], CHUNKS * CHUNK)

    def test_part_of_a_load(self) -> None:
        self.store_all()
        gone = [3, 4, 50, CHUNKS - 1]
        self.assertEqual(self.engine.do("delete", self.keys(gone)), (True, "", [True] * 4))
        self.assertEqual(self.engine.do("delete", self.keys(gone)), (True, "", [False] * 4))
        self.clear()
        ok, error, results = self.engine.do(
            "get", self.keys(range(CHUNKS)), self.views(range(CHUNKS))
        )
        self.assertEqual((ok, error), (True, ""))
        self.assertEqual(results, [i not in gone for i in range(CHUNKS)])
        # A view of a chunk that is not there may have been READ into: nothing is said of it.
        self.assertTrue(all(self.arena.holds(i, i + 1) for i in range(CHUNKS) if i not in gone))

    def test_exists(self) -> None:
        self.store_all()
        names = [chunk_key(i) for i in range(1000)]
        want = [i < CHUNKS for i in range(1000)]
        self.assertEqual(self.engine.do("exists", names), (True, "", want))
        trips = self.round_trips()
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            self.assertEqual(self.engine.do("exists", names)[2], want)
            times.append(time.perf_counter() - begin)
        print(f"exists of 1,000 keys: {min(times) * 1e3:.1f} ms")
        # Of each key the mirror's item at the most, twice; the others' buckets.
        self.assertLessEqual((self.round_trips() - trips) / 7, 2500)
        self.assertEqual(self.engine.plugin.copied_bytes(), 0)

    def round_trips(self) -> int:
        return sum(s.counters()["reads"] for s in self.engine.plugin._sessions)

    def test_threads(self) -> None:
        """Batches of several threads, each of them its own chunks."""
        failed: list[str] = []
        threads = 4
        each = CHUNKS // threads

        def work(n: int) -> None:
            mine = range(n * each, (n + 1) * each)
            for turn in range(1, 6):
                seeds = {i: turn * 1000 + i for i in mine}
                for i in mine:
                    self.arena.fill(i, seeds[i])
                done = [
                    self.engine.do("set", self.keys(mine), self.views(mine)),
                    self.engine.do("exists", self.keys(mine)),
                ]
                for i in mine:
                    self.arena.fill(i, 0)
                done.append(self.engine.do("get", self.keys(mine), self.views(mine)))
                if any(one != (True, "", [True] * each) for one in done):
                    failed.append(str(done))
                if not all(self.arena.holds(i, seeds[i]) for i in mine):
                    failed.append(f"thread {n}, turn {turn}: another value")

        running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        self.assertEqual(failed, [])

    def test_another_length(self) -> None:
        self.store_all()
        for part in (slice(0, CHUNK - 1), slice(0, CHUNK + 1)):
            ok, error, results = self.engine.do(
                "get",
                self.keys([0, 1]),
                [self.arena.all[part], self.arena.chunk(5)],
            )
            self.assertEqual((ok, results), (False, [False, True]))
            length = part.stop
            self.assertEqual(
                error,
                f"the value of {chunk_key(0).encode()!r} has {CHUNK} bytes, its view {length}",
            )

    def test_refusals(self) -> None:
        with self.assertRaisesRegex(ValueError, "2 keys, but 1 views"):
            self.engine.plugin.submit_batch_get(self.keys([0, 1]), self.views([0]))
        with self.assertRaises(BufferError):
            self.engine.plugin.submit_batch_get(["key"], [b"read only"])
        ok, error, results = self.engine.do("exists", ["", "key"])
        self.assertEqual((ok, results), (False, [False, False]))
        self.assertIn("the key is empty", error)
        self.assertEqual(self.engine.do("exists", []), (True, "", []))
        with self.assertRaises(ValueError):
            Engine(server=ADDR, sessions=0)

    def test_full(self) -> None:
        """More than kvd has room for: which of it was stored the results say."""
        big = mmap.mmap(-1, 80 << 20)
        names = [f"big{i}" for i in range(8)]
        ok, error, results = self.engine.do("set", names, [big] * 8)
        self.assertFalse(ok)
        self.assertIn("the table has no memory", error)
        assert results is not None
        self.assertGreater(results.count(True), 0)
        self.assertEqual(self.engine.do("exists", names)[2], results)

    def test_close_with_work(self) -> None:
        """All that was submitted completes, done or not."""
        engine = Engine(server=ADDR, sessions=1)
        engine.ending = True
        engine._thread.join()
        numbers = {
            engine.submit("set", self.keys(range(CHUNKS)), self.views(range(CHUNKS)))
            for _ in range(20)
        }
        engine.plugin.close()
        done = engine.plugin._done
        self.assertEqual({one[0] for one in done}, numbers)
        self.assertIn((False, "the store is closed"), {one[1:3] for one in done})
        with self.assertRaisesRegex(ValueError, "closed"):
            engine.plugin.submit_batch_exists(["key"])
        engine.plugin.close()

    def test_forked_child(self) -> None:
        pid = os.fork()
        if not pid:
            try:
                self.engine.plugin.submit_batch_exists(["key"])
            except RuntimeError as error:
                os._exit(0 if "was forked from" in str(error) else 2)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertTrue(self.engine.do("exists", ["key"])[0])

    def test_mappings(self) -> None:
        begin = 0x7F0000000000
        lines = [
            f"{begin:x}-{begin + 0x2000:x} rw-p 00000000 00:00 0 ",
            f"{begin + 0x2000:x}-{begin + 0x9000:x} rw-s 00000000 00:01 7 /dev/zero (deleted)",
            f"{begin + 0x9000:x}-{begin + 0xA000:x} r--p 00000000 00:00 0 ",
            f"{begin + 0xB000:x}-{begin + 0xC000:x} rw-p 00000000 00:00 0 [heap]",
        ]
        path = os.path.join(os.environ["TMPDIR"], "maps")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        rows = [
            (0x0, 0x10, (0x0, 0x2000)),
            (0x1000, 0x2000, (0x0, 0x9000)),  # lies in two
            (0x8000, 0x1001, None),  # goes on where nobody may write
            (0x9000, 0x10, None),
            (0xA000, 0x10, None),  # in none
            (0xB000, 0x10, None),
        ]
        for at, length, want in rows:
            found = mapping_of(begin + at, length, path)
            self.assertEqual(found, want and (begin + want[0], begin + want[1]))


class Unreachable(unittest.TestCase):
    def test_nobody_there(self) -> None:
        """kvd goes: each batch ends in time, with what is wrong."""
        engine = Engine(server=os.environ["KVD_SECOND"], sessions=2, timeout=1)
        self.addCleanup(engine.close)
        arena = Arena(CHUNKS)
        names = [chunk_key(i) for i in range(CHUNKS)]
        views = [arena.chunk(i) for i in range(CHUNKS)]
        self.assertEqual(engine.do("set", names, views)[0], True)
        os.kill(int(os.environ["KVD_SECOND_PID"]), 9)
        begin = time.monotonic()
        # A change first: what is in memory that nobody has unmapped can be READ for a moment.
        for what, args in (("set", (names, views)), ("get", (names, views)), ("exists", (names,))):
            ok, error, results = engine.do(what, *args)
            self.assertEqual((ok, results), (False, [False] * CHUNKS), what)
            self.assertIn(os.environ["KVD_SECOND"], error)
        print(f"three batches without kvd: {time.monotonic() - begin:.1f} s")
        self.assertLess(time.monotonic() - begin, PATIENCE_S)


if __name__ == "__main__":
    unittest.main(verbosity=0)
