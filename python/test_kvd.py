# SPDX-License-Identifier: BSD-2-Clause
"""Of the Python module, against the kvd at KVD_ADDR; run by tests/integration/python.sh."""

import array
import ctypes
import mmap
import multiprocessing
import os
import pickle
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

import kvd

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

ADDR = os.environ["KVD_ADDR"]


def put_one(key: str) -> None:
    """What a child of multiprocessing does."""
    with kvd.connect(ADDR) as store:
        store[key] = b"by a child"


class Test(unittest.TestCase):
    def setUp(self) -> None:
        self.store = kvd.connect(ADDR)
        self.store.flush()

    def tearDown(self) -> None:
        self.store.close()

    def test_values(self) -> None:
        for bytes_ in (0, 1, 100, 16384, 16385, 65536, 65537, 3000000):
            value = os.urandom(bytes_)
            self.store.put("key", value)
            self.assertEqual(self.store.get("key"), value)
            self.assertEqual(self.store.length("key"), bytes_)
        self.assertIsNone(self.store.get("nobody"))
        self.assertIsNone(self.store.length("nobody"))
        self.assertEqual(self.store.get_with_version("nobody"), (None, 0))

    def test_keys(self) -> None:
        keys: list[kvd.Key] = ["ä", b"\0\xff", b"x" * 1024]
        for key in keys:
            self.store.put(key, b"v")
        self.assertEqual(
            set(self.store.keys()), {"ä".encode(), b"\0\xff", b"x" * 1024}
        )
        self.assertEqual(list(self.store.keys("xx")), [b"x" * 1024])
        wrong: list[kvd.Key] = ["", b"y" * 1025]
        for key in wrong:
            with self.assertRaises(kvd.Error):
                self.store.put(key, b"v")
            with self.assertRaises(kvd.Error):
                self.store.get(key)

    def test_compiled(self) -> None:
        """The compiled part does what ctypes does: its other tests run with both."""
        self.assertEqual(kvd.COMPILED, bool(os.environ.get("KVD_COMPILED")))
        self.store.put_many({"short": b"x", "long": bytes(100000)})
        for _ in range(2):  # the mirror's, too
            self.assertEqual(self.store.get(b"short"), b"x")
            self.assertEqual(self.store.get(bytearray(b"short")), b"x")
            self.assertEqual(self.store.get("long"), bytes(100000))
            self.assertEqual(self.store.get("nobody", 7), 7)
            self.assertEqual(
                self.store.get_many(["short", bytearray(b"long"), b"nobody"]),
                [b"x", bytes(100000), None],
            )
        wrong: Any = 7
        calls: list[Callable[[Any], Any]] = [
            self.store.get,
            lambda key: self.store.get_many([key]),
        ]
        for call in calls:
            with self.assertRaises(TypeError):
                call(wrong)
            with self.assertRaises(kvd.Invalid):
                call("")
        closed = kvd.connect(ADDR)
        closed.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            closed.get("short")
        with self.assertRaisesRegex(ValueError, "closed"):
            closed.get_many(["short"])

    def test_signs(self) -> None:
        """As one that renews a costly value of many that ask for it."""
        found = self.store.put("page", b"old", flags=1 << 31 | 7, ttl=100)
        self.assertTrue(self.store.touch("page", keep_ttl=True, stale=True))
        info = self.store.info("page")
        assert info and info.ttl
        self.assertEqual((info.flags, info.stale, info.claimed), (1 << 31 | 7, True, False))
        self.assertLess(abs(info.ttl - 100), 50)
        self.assertTrue(self.store.touch("page", 60, stale=True, claimed=True))
        info = self.store.info("page")
        assert info
        self.assertEqual((info.stale, info.claimed), (True, True))
        self.assertTrue(self.store.touch("page"))  # signs stay
        info = self.store.info("page")
        assert info
        self.assertEqual((info.ttl, info.stale, info.claimed), (None, True, True))
        with self.assertRaises(kvd.ConditionFailed):
            self.store.touch("page", if_version=found)
        now = self.store.put("page", b"late", if_version=found, or_stale=True)
        self.assertGreater(now, found)
        info = self.store.info("page")
        assert info
        self.assertEqual((self.store["page"], info.stale, info.claimed), (b"late", True, True))
        self.store.put("page", b"new", stale=False)
        info = self.store.info("page")
        assert info
        self.assertEqual((info.flags, info.stale, info.claimed), (0, False, False))
        self.store.put("page", b"claimed", claimed=True)
        info = self.store.info("page")
        assert info
        self.assertEqual((info.stale, info.claimed), (False, True))
        self.assertFalse(self.store.touch("nobody", stale=True))

    def test_moments(self) -> None:
        in_an_hour = datetime.now(timezone.utc) + timedelta(hours=1)
        self.store.put("key", b"v", expires_at=in_an_hour)
        changes: list[Callable[[], Any]] = [
            lambda: self.store.put("key", b"w", ttl=7, keep_ttl=True),
            lambda: self.store.touch("key", expires_at=in_an_hour.timestamp()),
            lambda: self.store.get_touch("key", expires_at=in_an_hour),
            lambda: self.store.get_touch("key", 3600),
        ]
        for change in changes:
            change()
            info = self.store.info("key")
            assert info and info.ttl
            self.assertLess(abs(info.ttl - 3600), 1000)
        self.store.put("key", b"v", expires_at=time.time() - 1000)
        self.assertIsNone(self.store.get("key"))
        refused: list[Callable[[], Any]] = [
            lambda: self.store.put("key", b"v", ttl=1, expires_at=in_an_hour),
            lambda: self.store.put("key", b"v", expires_at=-1),
            lambda: self.store.put("key", b"v", or_stale=True),
        ]
        for wrong in refused:
            with self.assertRaises(ValueError):
                wrong()

    def test_get_touch(self) -> None:
        for bytes_ in (0, 5, 65536, 65537, 300000):
            value = os.urandom(bytes_)
            self.store.put("key", value)
            self.assertEqual(self.store.get_touch("key", 100), value)
            info = self.store.info("key")
            assert info and info.ttl
            self.assertEqual(self.store.get_touch("key"), value)
            info = self.store.info("key")
            assert info
            self.assertIsNone(info.ttl)
        self.assertIsNone(self.store.get_touch("nobody", 1))

    def test_unsigned(self) -> None:
        most = (1 << 64) - 1
        self.assertEqual(self.store.incr("n", 5, initial=most, unsigned=True), most)
        self.assertEqual(self.store.incr("n", 3, unsigned=True), 2)
        self.assertEqual(self.store.decr("n", 7, unsigned=True), 0)
        self.assertIsNone(self.store.decr("m", initial=None, unsigned=True))
        self.assertEqual(self.store.decr("i", 7), -7)
        for delta, initial in ((most + 1, 0), (1, -1), (1, most + 1)):
            with self.assertRaises(ValueError):
                self.store.incr("n", delta, initial=initial, unsigned=True)

    def test_flush_at(self) -> None:
        self.store["key"] = b"v"
        self.store.flush_at(datetime.now(timezone.utc) + timedelta(hours=1))
        self.store.flush_at(None)
        self.assertEqual(self.store["key"], b"v")
        self.store.flush_at(time.time() - 1)
        deadline = time.monotonic() + 60
        while "key" in self.store and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertNotIn("key", self.store)
        self.store["key"] = b"later"
        self.assertEqual(self.store["key"], b"later")
        self.store.flush_at(None)

    def test_many_exist(self) -> None:
        self.store.put_many({"a": b"", "b": b"x" * 100000})
        before = self.store.counters()
        self.assertEqual(self.store.exists_many(["a", "nobody", b"b"]), [True, False, True])
        after = self.store.counters()
        self.assertLess(after["read_bytes"] - before["read_bytes"], 100000)
        self.assertEqual(after["copied_bytes"], before["copied_bytes"])
        self.assertEqual(self.store.exists_many([]), [])
        with self.assertRaises(kvd.Error):
            self.store.exists_many(["a", ""])

    def test_buffers_in(self) -> None:
        with mmap.mmap(-1, 8192) as pages:
            pages[:5] = b"pages"
            self.store.put("pages", pages)
            self.assertEqual(self.store.get("pages"), pages[:])
        self.store.put("array", array.array("d", [1.5, 2.5]))
        self.assertEqual(array.array("d", self.store["array"])[1], 2.5)
        self.store.put("view", memoryview(b"abcdef")[2:4])
        self.assertEqual(self.store["view"], b"cd")
        for wrong in (memoryview(b"abcdef")[::2], "text", 5, None):
            with self.assertRaises((BufferError, TypeError)):
                self.store.put("wrong", wrong)
        self.assertNotIn("wrong", self.store)

    def test_buffers_out(self) -> None:
        for bytes_ in (3, 200000):
            value = os.urandom(bytes_)
            self.store.put("key", value)
            room = bytearray(bytes_ + 1)
            self.assertEqual(self.store.get_into("key", room), bytes_)
            self.assertEqual(room[:-1], value)
            with self.assertRaises(kvd.Error) as caught:
                self.store.get_into("key", bytearray(bytes_ - 1))
            self.assertEqual(caught.exception.code, -11)
        self.assertIsNone(self.store.get_into("nobody", room))
        with self.assertRaises(BufferError):
            self.store.get_into("key", b"read-only")
        room.extend(b"not held any more")

    def test_no_copy(self) -> None:
        """Of a large value nothing is allocated but where it goes."""
        import tracemalloc

        value = bytearray(8 << 20)
        room = bytearray(8 << 20)
        self.store.put("large", value)
        tracemalloc.start()
        self.store.put("large", value)
        self.store.get_into("large", room)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertLess(peak, 1 << 20)

    def test_registered(self) -> None:
        room = bytearray(100000)
        with self.store.client.register(room) as registered:
            room[:3] = b"abc"
            self.store.put("key", memoryview(room)[:50000])
            self.assertEqual(self.store.get_into("key", memoryview(room)[50000:]), 50000)
            self.assertEqual(room[50000:50003], b"abc")
            with self.assertRaises(BufferError):
                room.extend(b"x")
            with self.assertRaises(kvd.Error):
                self.store.client.register(room)
            self.assertIs(registered.data, room)
        room.extend(b"x")
        with self.assertRaises(BufferError):
            self.store.client.register(b"read-only")

    @unittest.skipUnless(numpy, "without NumPy")
    def test_numpy(self) -> None:
        matrix = numpy.random.default_rng(1).random((100, 200))
        self.store.put("matrix", matrix)
        again = self.store.get_array("matrix", "float64", (100, 200))
        self.assertTrue((again == matrix).all())
        assert again is not None
        again[0, 0] = 7  # it is one's own, and writable
        self.assertIsNone(self.store.get_array("nobody"))
        room = numpy.zeros((100, 200))
        self.assertEqual(self.store.get_into("matrix", room), room.nbytes)
        self.assertTrue((room == matrix).all())
        with self.assertRaises((BufferError, ValueError)):
            self.store.put("part", matrix[:, ::2])
        self.store.put("empty", numpy.zeros(0))
        empty = self.store.get_array("empty", "float64")
        assert empty is not None
        self.assertEqual(len(empty), 0)

    def test_changes(self) -> None:
        first = self.store.put("key", b"1", if_absent=True)
        with self.assertRaises(kvd.ConditionFailed) as caught:
            self.store.put("key", b"2", if_absent=True)
        self.assertEqual(caught.exception.version, first)
        second = self.store.put("key", b"2", if_version=first)
        self.assertEqual(self.store.get_with_version("key"), (b"2", second))
        with self.assertRaises(kvd.ConditionFailed):
            self.store.delete("key", if_version=first)
        with self.assertRaises(ValueError):
            self.store.put("key", b"3", if_absent=True, if_present=True)
        with self.assertRaises(ValueError):
            self.store.put("key", b"3", ttl=0)
        self.assertTrue(self.store.delete("key", if_version=second))
        self.assertFalse(self.store.delete("key"))
        self.assertEqual(self.store.incr("n", 5, initial=10), 15)
        self.assertEqual(self.store.incr("n", -20), -5)
        self.assertIsNone(self.store.incr("m", initial=None))
        self.assertEqual(self.store.append("text", b"ab"), 2)
        self.assertEqual(self.store.append("text", b"cd"), 4)
        self.assertEqual(self.store.prepend("text", b"--"), 6)
        self.assertEqual(self.store.get("text"), b"--abcd")
        with self.assertRaises(kvd.Error) as number:
            self.store.incr("text")
        self.assertEqual(number.exception.code, -13)
        self.assertTrue(self.store.touch("text", 100))
        self.assertFalse(self.store.touch("nobody", None))
        self.store["a"] = b"b"
        self.assertEqual(self.store["a"], b"b")
        del self.store["a"]
        with self.assertRaises(KeyError):
            self.store["a"]
        with self.assertRaises(KeyError):
            del self.store["a"]

    def test_info(self) -> None:
        self.assertIsNone(self.store.info("info"))
        version = self.store.put("info", b"abc", flags=0xFEDCBA98, ttl=3600)
        info = self.store.info("info")
        assert info is not None and info.ttl is not None
        self.assertEqual(info[:2], (3, version))
        self.assertTrue(3000 < info.ttl < 3700)
        self.assertEqual(info[3:], (0xFEDCBA98, False, False))
        self.store.put("info", b"")
        self.assertEqual(self.store.info("info")[2:], (None, 0, False, False))  # type: ignore
        with self.assertRaises(ValueError):
            self.store.put("info", b"", flags=1 << 32)

    def test_expiry(self) -> None:
        self.store.put("short", b"v", ttl=0.05)
        while "short" in self.store:
            pass
        self.assertIsNone(self.store.get("short"))

    def test_batches(self) -> None:
        values = {f"key{i}": os.urandom(i * 37 % 9000) for i in range(300)}
        self.store.put_many(values)
        self.assertEqual(self.store.get_many(values), list(values.values()))
        self.assertEqual(self.store.get_many(["key1", "nobody"]), [values["key1"], None])
        rooms = [bytearray(9000) for _ in values]
        lengths = self.store.get_many(values, into=rooms)
        for length, room, value in zip(lengths, rooms, values.values()):
            self.assertEqual(room[:length], value)
        with self.assertRaises(kvd.Error):
            self.store.get_many(["key100"], into=[bytearray(1)])
        with self.assertRaises(ValueError):
            self.store.get_many(["key100"], into=[])
        self.assertEqual(self.store.get_many([]), [])
        self.store.put_many([])
        self.assertEqual(self.store.delete_many([*values, "nobody"]), 300)
        self.assertEqual(self.store.get_many(list(values)), [None] * 300)
        with self.assertRaises(kvd.Error):
            self.store.delete_many(["a", "", "b"])
        self.store.put("still", b"works")

    def test_threads(self) -> None:
        def work(session: kvd.Session, name: int) -> None:
            for i in range(200):
                session.put(f"{name}.{i}", str(i).encode())
                assert session[f"{name}.{i}"] == str(i).encode()

        with kvd.Client(ADDR) as client:
            shared = client.session()
            sessions = [client.session() for _ in range(3)] + [shared, shared]
            threads = [
                threading.Thread(target=work, args=(s, i)) for i, s in enumerate(sessions)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(list(self.store.keys())), 1000)

    def test_server(self) -> None:
        self.assertGreater(self.store.ping(), 0)
        self.store.put("key", b"v")
        self.assertEqual(self.store.stats()["keys"], 1)
        self.assertIn("device", self.store.client.device)
        self.assertRegex(kvd.version(), r"^\d+\.\d+\.\d+$")

    def test_default_server(self) -> None:
        """The one that KVD_SERVER names."""
        os.environ["KVD_SERVER"] = ADDR
        try:
            with kvd.connect() as store:
                store["key"] = b"there"
        finally:
            del os.environ["KVD_SERVER"]
        self.assertEqual(self.store["key"], b"there")

    def test_errors(self) -> None:
        with self.assertRaisesRegex(kvd.Error, "connecting"):
            kvd.connect("127.0.0.1:1", timeout=0.5)
        with self.assertRaises(kvd.Error):
            kvd.Client("no:such:address:x")
        with self.assertRaises(kvd.Error):
            kvd.Client(ADDR, device="nonesuch")
        session = kvd.connect(ADDR)
        session.close()
        session.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            session.get("key")
        with self.assertRaises(TypeError):
            self.store.get(5)  # type: ignore[call-overload]

    def test_kinds_of_errors(self) -> None:
        """Each is one of Python's own kinds too, and comes whole out of a pickle."""
        with self.assertRaises(ConnectionError) as refused:
            kvd.connect("127.0.0.1:1", timeout=0.5)
        self.assertIsInstance(refused.exception, kvd.Error)
        with self.assertRaises(ValueError):
            self.store.put("", b"v")
        with self.assertRaises(KeyError) as absent:
            self.store["nobody"]
        self.assertEqual(absent.exception.args, ("nobody",))
        self.assertIsInstance(absent.exception, kvd.NotFound)
        kinds = [(kvd.TimedOut, TimeoutError), (kvd.Unknown, ConnectionError),
                 (kvd.Denied, PermissionError), (kvd.Busy, TimeoutError), (kvd.Full, MemoryError)]
        for kind, own in kinds:
            self.assertTrue(issubclass(kind, own) and issubclass(kind, kvd.Error))
        self.assertEqual(str(kvd.TimedOut(-5, "words")), "words")
        for error in (kvd.Denied(-15, "no"), kvd.ConditionFailed(7), kvd.NotFound("k")):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again)), (type(error), str(error)))
            self.assertEqual(vars(again), vars(error))

    def test_mapping(self) -> None:
        self.store.update({"a": b"1"}, b=b"2", c=b"3")
        self.store.update([(b"d", b"4")])
        self.assertEqual(self.store.get("a", b"x"), b"1")
        self.assertEqual(self.store.get("nobody", b"x"), b"x")
        self.assertTrue("a" in self.store and "nobody" not in self.store and 5 not in self.store)
        self.assertEqual(dict(self.store.items()), {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"})
        self.assertEqual(sorted(self.store), [b"a", b"b", b"c", b"d"])
        self.assertEqual(sorted(self.store.values("a")), [b"1"])
        self.assertEqual(self.store.pop("a"), b"1")
        self.assertEqual(self.store.pop("a", None), None)
        with self.assertRaises(KeyError):
            self.store.pop("a")
        self.assertEqual(self.store.setdefault("b", b"9"), b"2")
        self.assertEqual(self.store.setdefault("e", b"5"), b"5")
        many = {b"many%d" % i: b"%d" % i for i in range(1000)}
        self.store.update(many)
        self.assertEqual(dict(self.store.items("many")), many)
        self.assertEqual(self.store.get_many(many), list(many.values()))

    def test_times(self) -> None:
        self.store.put("short", b"v", ttl=timedelta(milliseconds=20))
        while "short" in self.store:
            pass
        times: list[kvd.Time] = [0, -1, timedelta(0)]
        for wrong in times:
            with self.assertRaises(ValueError):
                self.store.put("short", b"v", ttl=wrong)
        with self.assertRaises(ValueError):
            self.store.touch("short", 0)

    def test_words(self) -> None:
        self.assertRegex(kvd.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(repr(self.store), f"<kvd.Session of {ADDR}>")
        self.assertEqual(repr(self.store.client), f"<kvd.Client of {ADDR}>")
        with self.store.client.register(bytearray(5000)) as registered:
            self.assertEqual(repr(registered), "<kvd.Registered 5000 bytes>")
        session = kvd.connect(ADDR)
        session.close()
        self.assertEqual(repr(session), f"<kvd.Session of {ADDR}, closed>")

    def test_locks(self) -> None:
        with self.store.lock("a", "b") as lock:
            self.assertEqual(repr(lock), "<kvd.Lock of 2 keys, held>")
            self.assertIsNone(lock.get("a"))
            lock.put("a", b"x" * 100000)
            self.assertEqual(lock.get("a"), b"x" * 100000)
            self.assertTrue(lock.delete("a"))
            self.assertFalse(lock.delete("a"))
            lock.check()
            with kvd.connect(ADDR) as other, self.assertRaises(TimeoutError):
                other.lock("b", timeout=0).acquire()
        with self.assertRaises(ValueError):
            lock.get("a")
        with self.assertRaises(ValueError):
            self.store.lock()
        self.store.modify("n", lambda value: (value or b"") + b"+")
        self.store.modify("n", lambda value: (value or b"") + b"+")
        self.assertEqual(self.store["n"], b"++")
        self.store.modify("n", lambda value: None)
        self.assertNotIn("n", self.store)

    def test_transactions(self) -> None:
        self.store.update({"ada": b"20", "bob": b"7"})
        with self.store.transaction() as txn:
            self.assertEqual((txn.get("ada"), txn.get("bob"), txn.get("eve")), (b"20", b"7", None))
            txn.put("ada", b"15")
            txn.put("bob", b"12")
            self.assertEqual(txn.get("ada"), b"15")
        self.assertEqual(self.store.get_many(["ada", "bob"]), [b"15", b"12"])
        with self.assertRaises(kvd.Conflict):
            with self.store.transaction() as txn:
                txn.get("ada")
                with kvd.connect(ADDR) as other:
                    other.put("ada", b"1")
                txn.put("bob", b"lost")
        with self.assertRaises(OSError):
            with self.store.transaction() as txn:
                txn.delete("bob")
                raise OSError
        self.assertEqual(self.store["bob"], b"12")
        tries = []

        def work(txn: kvd.Transaction) -> int:
            tries.append(txn.get("ada"))
            if len(tries) == 1:
                with kvd.connect(ADDR) as other:
                    other.put("ada", b"2")
            txn.put("ada", b"3")
            return len(tries)

        self.assertEqual(self.store.transact(work), 2)
        self.assertEqual((tries, self.store["ada"]), ([b"1", b"2"], b"3"))

    def test_fork(self) -> None:
        """A child is told that the connection is its parent's, may make one of its own, and
        leaves the parent's alone, however it ends."""
        self.store["key"] = b"parent's"
        held = self.store.lock("key").acquire()
        registered = self.store.client.register(bytearray(5000))
        threading.Thread(target=self.store._lock.acquire).start()  # held at the fork
        child = os.fork()
        if child == 0:
            status = 1
            try:
                wanted = 0
                uses: list[Callable[[], object]] = [
                    lambda: self.store.get("key"), self.store.client.session,
                    lambda: held.get("key"), self.store.keys,
                ]
                for use in uses:
                    try:
                        use()
                    except RuntimeError as e:
                        wanted += "forked" in str(e)
                with kvd.connect(ADDR) as own:
                    wanted += own["key"] == b"parent's"
                registered.close()
                self.store.close()
                status = 0 if wanted == 5 else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.store._lock.release()
        held.put("key", b"still held")
        held.release()
        registered.close()
        self.assertEqual(self.store["key"], b"still held")

    def test_processes(self) -> None:
        """Children that are not forked from this process have nothing of its client's."""
        for method in ("spawn", "forkserver"):
            context: Any = multiprocessing.get_context(method)
            child = context.Process(target=put_one, args=(method,))
            child.start()
            child.join(120)
            self.assertEqual(child.exitcode, 0, method)
            self.assertEqual(self.store[method], b"by a child")

    def test_namespaces(self) -> None:
        """Tables of one server: by an argument, or behind the address."""
        self.store["key"] = b"default"
        with kvd.connect(ADDR, namespace="photos") as photos:
            photos.flush()
            self.assertIsNone(photos.get("key"))
            photos["key"] = b"of photos"
            self.assertEqual(self.store["key"], b"default")
            with kvd.connect(ADDR + "/photos") as again:
                self.assertEqual(again["key"], b"of photos")
                again.flush()
            self.assertEqual(self.store["key"], b"default")
        with kvd.connect(ADDR, namespace="") as default:
            self.assertEqual(default["key"], b"default")
        with self.assertRaisesRegex(kvd.Error, "no such namespace"):
            kvd.connect(ADDR, namespace="papers")
        with self.assertRaisesRegex(kvd.Error, "no name of a namespace"):
            kvd.connect(ADDR, namespace="../x")

    def test_structures(self) -> None:
        """As long as C's: tests/integration/python.sh says how long these are."""
        from kvd import _lib

        for name in ("Options", "Change", "Item", "Completion", "Info", "Counters"):
            want = os.environ.get(f"KVD_SIZEOF_{name.upper()}")
            if want:
                self.assertEqual(ctypes.sizeof(getattr(_lib, name)), int(want), name)


if __name__ == "__main__":
    unittest.main()
