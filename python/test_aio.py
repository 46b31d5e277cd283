# SPDX-License-Identifier: BSD-2-Clause
"""Of kvd.aio, against the kvd at KVD_ADDR; run by tests/integration/python_aio.sh."""

import asyncio
import gc
import os
import random
import tracemalloc
import unittest
from datetime import datetime, timedelta, timezone

import kvd
from kvd import aio

ADDR = os.environ["KVD_ADDR"]


class Test(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.store = await aio.connect(ADDR)
        await self.store.flush()

    async def asyncTearDown(self) -> None:
        await self.store.close()

    async def test_values(self) -> None:
        for bytes_ in (0, 1, 100, 4096, 4097, 16385, 65537, 3000000):
            value = os.urandom(bytes_)
            await self.store.put("key", value)
            self.assertEqual(await self.store.get("key"), value)
            self.assertEqual(await self.store.length("key"), bytes_)
        self.assertIsNone(await self.store.get("nobody"))
        self.assertEqual(await self.store.get("nobody", b"x"), b"x")
        self.assertFalse(await self.store.exists("nobody"))
        room = bytearray(100)
        await self.store.put("key", b"abc")
        self.assertEqual(await self.store.get_into("key", room), 3)
        self.assertEqual(room[:3], b"abc")
        room.extend(b"not held any more")
        with self.assertRaises(kvd.Error) as caught:
            await self.store.get_into("key", bytearray(2))
        self.assertEqual(caught.exception.code, -11)
        with self.assertRaises(ValueError):
            await self.store.put("", b"")
        with self.assertRaises(TypeError):
            await self.store.put("key", "text")

    async def test_changes(self) -> None:
        first = await self.store.put("key", b"1", if_absent=True)
        with self.assertRaises(kvd.ConditionFailed) as caught:
            await self.store.put("key", b"2", if_absent=True)
        self.assertEqual(caught.exception.version, first)
        second = await self.store.put("key", b"2", if_version=first)
        self.assertEqual(await self.store.get_with_version("key"), (b"2", second))
        with self.assertRaises(kvd.ConditionFailed):
            await self.store.delete("key", if_version=first)
        self.assertTrue(await self.store.delete("key"))
        self.assertFalse(await self.store.delete("key"))
        self.assertEqual(await self.store.incr("n", 5, initial=10), 15)
        self.assertIsNone(await self.store.incr("m", initial=None))
        self.assertEqual(await self.store.append("text", b"ab"), 2)
        self.assertEqual(await self.store.prepend("text", b"--"), 4)
        await self.store.put("flags", b"abc", flags=7)
        info = await self.store.info("flags")
        assert info is not None
        self.assertEqual((info.length, info.flags, info.ttl), (3, 7, None))
        with self.assertRaisesRegex(ValueError, "number"):
            await self.store.incr("text")
        self.assertTrue(await self.store.touch("text", timedelta(milliseconds=20)))
        self.assertFalse(await self.store.touch("nobody", None))
        while await self.store.get("text") is not None:
            pass

    async def test_many(self) -> None:
        values = {f"key{i}": os.urandom(i * 37 % 9000) for i in range(1000)}
        await self.store.put_many(values)
        self.assertEqual(await self.store.get_many(values), list(values.values()))
        self.assertEqual(await self.store.get_many(["key1", "no"]), [values["key1"], None])
        await self.store.update(a=b"1", b=b"2")
        found = {key.decode(): value async for key, value in self.store.items()}
        self.assertEqual(found, {**values, "a": b"1", "b": b"2"})
        self.assertEqual(sorted(await self.store.keys("key99")), sorted(
            key.encode() for key in values if key.startswith("key99")))
        self.assertGreater(await self.store.ping(), 0)
        self.assertEqual((await self.store.stats())["keys"], 1002)

    async def test_attributes(self) -> None:
        soon = datetime.now(timezone.utc) + timedelta(hours=1)
        version = await self.store.put("page", b"1", expires_at=soon, flags=5, stale=True)
        info = await self.store.info("page")
        assert info is not None and info.ttl is not None
        self.assertTrue(3500 < info.ttl <= 3601)
        self.assertEqual((info.flags, info.stale, info.claimed), (5, True, False))
        await self.store.put("page", b"2", keep_ttl=True, claimed=True)
        info = await self.store.info("page")
        assert info is not None
        self.assertEqual((info.stale, info.claimed, info.ttl is None), (False, True, False))
        await self.store.put("page", b"3", if_version=version, or_stale=True)
        self.assertTrue(await self.store.touch("page", keep_ttl=True, stale=True))
        info = await self.store.info("page")
        assert info is not None
        self.assertEqual((info.stale, info.claimed), (True, False))
        with self.assertRaises(kvd.ConditionFailed):
            await self.store.touch("page", 5, if_version=version)
        self.assertEqual(await self.store.get_touch("page", timedelta(hours=2)), b"3")
        info = await self.store.info("page")
        assert info is not None and info.ttl is not None
        self.assertGreater(info.ttl, 7000)
        self.assertIsNone(await self.store.get_touch("nobody"))
        for bytes_ in (0, 4096, 4097, 100000):
            value = os.urandom(bytes_)
            await self.store.put("long", value)
            self.assertEqual(await self.store.get_touch("long", expires_at=soon), value)
        with self.assertRaises(ValueError):
            await self.store.put("page", b"", ttl=1, expires_at=soon)

    async def test_counters(self) -> None:
        most = 2**64 - 1
        self.assertEqual(await self.store.incr("n", 5, initial=most, unsigned=True), most)
        self.assertEqual(await self.store.incr("n", 2, unsigned=True), 1)
        self.assertEqual(await self.store.decr("n", 7, unsigned=True), 0)
        self.assertIsNone(await self.store.incr("m", initial=None, unsigned=True))
        self.assertEqual(await self.store.decr("m", 3), -3)
        with self.assertRaises(ValueError):
            await self.store.incr("n", most + 1, unsigned=True)

    async def test_existence(self) -> None:
        await self.store.put_many({f"key{i}": b"x" * i for i in range(300)})
        names = [f"key{i}" for i in range(298, 302)]
        self.assertEqual(await self.store.exists_many(names), [True, True, False, False])
        self.assertEqual(await self.store.length("key299"), 299)
        self.assertIsNone(await self.store.length("key300"))
        self.assertEqual(await self.store.delete_many([*names, "key0"]), 3)
        self.assertEqual(await self.store.exists_many(["key0", "key1"]), [False, True])
        self.assertEqual(await self.store.exists_many([]), [])
        self.assertEqual(await self.store.pop("key1"), b"x")
        self.assertEqual(await self.store.pop("key1", None), None)
        with self.assertRaises(KeyError):
            await self.store.pop("key1")
        self.assertEqual(await self.store.setdefault("key1", b"new"), b"new")
        self.assertEqual(await self.store.setdefault("key1", b"newer"), b"new")
        await self.store.flush_at(datetime.now(timezone.utc) + timedelta(seconds=0.2))
        while await self.store.exists("key2"):
            pass
        await self.store.flush_at(None)

    async def test_items_take_no_memory(self) -> None:
        """A page of keys is there at a time, however many there are."""
        await self.store.put_many({f"{i:0100}": b"%d" % i for i in range(20000)})
        found = bytearray(20000)
        tracemalloc.start()
        async for key, value in self.store.items():
            assert int(key) == int(value)
            found[int(key)] = 1
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertEqual(sum(found), 20000)
        self.assertLess(peak, 1000000)
        self.assertEqual(len({value async for value in self.store.values("000")}), 20000)

    async def test_locks(self) -> None:
        """Each adds to what it read: none is lost.  Of one that is cancelled nothing stays."""
        async def add() -> None:
            async with self.store.lock("count") as lock:
                count = int(await lock.get("count") or b"0")
                await asyncio.sleep(0)
                await lock.put("count", str(count + 1).encode())

        await asyncio.gather(*(add() for _ in range(20)))
        self.assertEqual(await self.store.get("count"), b"20")
        async with self.store.lock("count"):
            with self.assertRaises(TimeoutError):
                async with self.store.lock("count", timeout=0):
                    pass
            waiting = asyncio.ensure_future(add())
            await asyncio.sleep(0.02)
            waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        async with self.store.lock("count", timeout=1) as lock:
            await lock.check()
            self.assertTrue(await lock.delete("count"))
        with self.assertRaises(ValueError):
            await lock.get("count")
        await self.store.modify("count", lambda value: b"new" if value is None else value + b"!")
        await self.store.modify("count", lambda value: b"new" if value is None else value + b"!")
        self.assertEqual(await self.store.get("count"), b"new!")

    async def test_transactions(self) -> None:
        await self.store.put_many({"ada": b"20", "bob": b"7"})
        async with self.store.transaction() as txn:
            await txn.put("ada", b"%d" % (int(await txn.get("ada") or 0) - 5))
            await txn.put("bob", b"%d" % (int(await txn.get("bob") or 0) + 5))
        self.assertEqual(await self.store.get_many(["ada", "bob"]), [b"15", b"12"])
        with self.assertRaises(kvd.Conflict):
            async with self.store.transaction() as txn:
                await txn.get("ada")
                await self.store.put("ada", b"1")
                await txn.put("bob", b"lost")
        with self.assertRaises(KeyError):
            async with self.store.transaction() as txn:
                await txn.delete("bob")
                raise KeyError
        self.assertEqual(await self.store.get("bob"), b"12")

        def move(txn: kvd.Transaction) -> int:
            n = int(txn.get("n") or b"0") + 1
            txn.put("n", str(n).encode())
            return n

        sums = await asyncio.gather(*(self.store.transact(move) for _ in range(20)))
        self.assertEqual(sorted(sums), list(range(1, 21)))

    async def test_ten_thousand_in_flight(self) -> None:
        """Some are cancelled, anywhere on their way; all end, and nothing is kept."""
        random.seed(1)
        count = 10000

        async def one(i: int) -> int:
            await self.store.put(f"key{i}", b"%d" % i)
            value = await self.store.get(f"key{i}")
            assert value == b"%d" % i, (i, value)
            return i

        tasks = [asyncio.ensure_future(one(i)) for i in range(count)]
        cancelled = set(random.sample(range(count), 2000))
        for n, i in enumerate(sorted(cancelled)):
            if n % 50 == 0:
                await asyncio.sleep(0)
            tasks[i].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        ended = 0
        for i, result in enumerate(results):
            if isinstance(result, asyncio.CancelledError):
                self.assertIn(i, cancelled)
                ended += 1
            else:
                self.assertEqual(result, i)
        self.assertGreater(ended, 100)
        self.assertEqual(await self.store.get("key0", b"0"), b"0")  # those behind it have ended
        await self.still()

    async def still(self) -> None:
        """Nothing is in flight, nobody waits, and each place is free."""
        for _ in range(1000):
            if not self.store._flights:
                break
            await asyncio.sleep(0.005)
        self.assertEqual(len(self.store._flights), 0)
        self.assertEqual(len(self.store._waiting), 0)
        self.assertEqual(self.store._free, 128)
        self.assertLessEqual(len(self.store._rooms), 128)

    async def test_closing(self) -> None:
        """Who waits for a place is told; what is in flight ends."""
        store = await aio.connect(ADDR, depth=4)
        tasks = [asyncio.ensure_future(store.put(f"k{i}", b"v")) for i in range(100)]
        await asyncio.sleep(0)
        await store.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        self.assertTrue(any(isinstance(r, int) for r in results))
        self.assertTrue(any(isinstance(r, ValueError) for r in results))
        with self.assertRaisesRegex(ValueError, "closed"):
            await store.get("k0")
        await store.close()
        with self.assertRaises(ConnectionError):
            await aio.connect("127.0.0.1:1", timeout=0.5)
        self.assertIn("closed", repr(store))
        gc.collect()


if __name__ == "__main__":
    unittest.main()
