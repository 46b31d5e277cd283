# SPDX-License-Identifier: BSD-2-Clause
"""Of the Python module's lists of keys, against the kvd at KVD_ADDR; run by
tests/integration/python.sh."""

import os
import tracemalloc
import unittest

import kvd

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


if __name__ == "__main__":
    unittest.main()
