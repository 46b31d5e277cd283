# SPDX-License-Identifier: BSD-2-Clause
"""Of the Python module's lists of keys, against the kvd at KVD_ADDR; run by
tests/integration/python.sh."""

import asyncio
import os
import subprocess
import tempfile
import tracemalloc
import unittest

import kvd
from kvd import aio

ADDR = os.environ["KVD_ADDR"]


class Test(unittest.TestCase):
    def setUp(self) -> None:
        self.store = kvd.connect(ADDR)
        self.store.flush()

    def tearDown(self) -> None:
        self.store.flush()
        self.store.close()

    def test_keys_take_no_memory(self) -> None:
        """A page of keys is there at a time, and the session is free between them."""
        self.store.put_many({f"{i:0100}": b"%d" % i for i in range(20000)})
        before = self.store.counters()["messages"]
        tracemalloc.start()
        found = bytearray(20000)
        for key, value in self.store.items():
            assert int(key) == int(value)
            found[int(key)] = 1
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertEqual(sum(found), 20000)
        self.assertLess(peak, 2000000)
        self.assertGreater(self.store.counters()["messages"], before + 100)
        before = self.store.counters()["messages"]
        first = next(self.store.keys("0"))
        self.assertEqual(self.store.counters()["messages"], before + 1)
        for key in self.store.keys():
            self.store.delete(key)
        self.assertFalse(self.store.exists(first))

    def fill(self) -> dict[bytes, bytes]:
        values = {b"key%d" % i: b"value %d" % i for i in range(300)}
        values.update({b"\xff\x00": b"\xfe", "\u00e9\u2028\n".encode(): b'"\\\x1b', b"long": os.urandom(70000)})
        self.store.put_many(values)
        self.store.put("key1", values[b"key1"], flags=7, ttl=3600, stale=True)
        self.store.put("key2", values[b"key2"], claimed=True)
        return values

    def is_there(self, values: dict[bytes, bytes]) -> None:
        self.assertEqual(dict(self.store.items()), values)
        one, two = self.store.info("key1"), self.store.info("key2")
        assert one is not None and one.ttl is not None and two is not None
        self.assertEqual((one.flags, one.stale, one.claimed), (7, True, False))
        self.assertTrue(3000 < one.ttl <= 3600)
        self.assertEqual((two.flags, two.stale, two.claimed, two.ttl), (0, False, True, None))

    def kvcli(self, *words: str) -> None:
        subprocess.run([os.environ["KVD_BUILD"] + "/kvcli", "-s", ADDR, *words], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_export(self) -> None:
        """What Python wrote Python and kvcli read, and the other way round."""
        values = self.fill()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "all.json")
            self.assertEqual(self.store.export(path), len(values))
            self.store.flush()
            self.assertEqual(self.store.import_from(path), len(values))
            self.is_there(values)
            self.store.flush()
            self.kvcli("import", path)
            self.is_there(values)
            self.kvcli("export", path, "--json")
            self.store.flush()
            self.assertEqual(asyncio.run(self.through_asyncio(path)), (len(values), 111))
            self.is_there(values)
            self.assertEqual(os.listdir(folder), ["all.json"])

    async def through_asyncio(self, path: str) -> tuple[int, int]:
        async with await aio.connect(ADDR) as store:
            return await store.import_from(path), await store.export(path, "key1")

    def test_what_is_no_export(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "some")
            for wrong in ("{", "[]", '{"key":"b"}', '{"key":1,"value":"x"}',
                          '{"key":"b","value_base64":"?"}', '{"key":"","value":"x"}'):
                with open(path, "w", encoding="utf-8") as file:
                    file.write('{"key":"a","value":"x"}\n' + wrong + "\n")
                with self.assertRaisesRegex(ValueError, "some, line 2, .*the 1 before it are"):
                    self.store.import_from(path)
            with self.assertRaises(OSError):
                self.store.export(os.path.join(folder, "none", "x"))
            self.assertEqual(os.listdir(folder), ["some"])


if __name__ == "__main__":
    unittest.main()
