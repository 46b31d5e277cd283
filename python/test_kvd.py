# SPDX-License-Identifier: BSD-2-Clause
"""Of the Python module, against the kvd at KVD_ADDR; run by tests/integration/python.sh."""

import array
import ctypes
import mmap
import os
import threading
import unittest

import kvd

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

ADDR = os.environ["KVD_ADDR"]


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
            self.store.get(5)  # type: ignore[arg-type]

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

        for name in ("Options", "Change", "Item", "Completion", "Info"):
            want = os.environ.get(f"KVD_SIZEOF_{name.upper()}")
            if want:
                self.assertEqual(ctypes.sizeof(getattr(_lib, name)), int(want), name)


if __name__ == "__main__":
    unittest.main()
