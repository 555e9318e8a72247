# SPDX-License-Identifier: MIT
"""Every primitive, blocking and asynchronous."""

import asyncio
import unittest
from typing import Optional

import holdfast
from holdfast import Algorithm, CellValue, assert_cell, delete_cell, write_cell

from bed import LONG, StoreTest, await_that


class Cells(StoreTest):
    def test_cell(self) -> None:
        cell = self.store.cell("x")
        self.assertIsNone(cell.get())
        first = cell.set(b"one\0two")
        value = cell.get()
        self.assertEqual(value, CellValue(b"one\0two", first, None))
        self.assertIsNone(cell.swap(first + 100, b"no"))
        second = cell.swap(first, b"")
        assert second is not None
        self.assertEqual(cell.get(), CellValue(b"", second, None))
        self.assertFalse(cell.delete(first))
        self.assertTrue(cell.delete(second))
        cell.set(b"x", ttl=60)
        value = cell.get()
        assert value is not None and value.ttl is not None
        self.assertLess(value.ttl, 61)

    def test_update(self) -> None:
        cell = self.store.cell("x")

        def more(old: Optional[CellValue]) -> bytes:
            return str(int(old.bytes if old else b"0") + 1).encode()

        for thread in [self.thread(lambda: [cell.update(more) for _ in range(10)]) for _ in range(3)]:
            thread.end()
        value = cell.get()
        self.assertEqual(value and value.bytes, b"30")
        version = cell.update(lambda old: None)
        self.assertEqual(version, value and value.version)
        self.assertEqual(cell.update(lambda old: holdfast.DELETE), 0)
        with self.assertRaises(ZeroDivisionError):
            cell.update(lambda old: b"%d" % (1 // 0))
        with self.assertRaises(TypeError):
            cell.update(lambda old: "text")  # type: ignore[arg-type,return-value]

    def test_wait(self) -> None:
        cell = self.store.cell("x")
        version = cell.set(b"1")
        with self.assertRaises(holdfast.Timeout):
            cell.wait(version, 0.01)
        thread = self.thread(lambda: cell.wait(version, LONG))
        changed = cell.set(b"2")
        self.assertEqual(thread.end(), changed)

    def test_commit(self) -> None:
        a, b = self.store.commit([write_cell("{t}a", b"1", 0), write_cell("{t}b", b"2")])
        with self.assertRaises(holdfast.CommitChanged) as raised:
            self.store.commit([assert_cell("{t}a", a), write_cell("{t}b", b"3", b + 7)])
        self.assertEqual((raised.exception.index, raised.exception.version), (1, b))
        self.assertEqual(self.store.commit([assert_cell("{t}a", a), delete_cell("{t}b", b)]), [a, 0])

    def test_lease_cell(self) -> None:
        with self.store.lock("x") as lease:
            lease.set_cell("address", b"here")
            value = self.store.get_lease_cell("address")
            self.assertEqual(value and value.bytes, b"here")
        self.assertIsNone(self.store.get_lease_cell("address"))

    def test_counter(self) -> None:
        counter = self.store.counter("n")
        self.assertEqual(counter.get(), 0)
        self.assertEqual(counter.add(5), 5)
        self.assertEqual(counter.add(-7), -2)
        self.assertTrue(counter.swap(-2, 10))
        self.assertFalse(counter.swap(-2, 11))
        counter.set(2**63 - 1)
        with self.assertRaises(holdfast.Overflow):
            counter.add()
        counter.delete()
        self.assertEqual(counter.get(), 0)

    def test_guard(self) -> None:
        guard = self.store.guard("page")
        with self.store.lock("x") as old:
            token = old.fence()
            self.assertIsNone(guard.claim(old))
            guard.set(old, b"old")
        with self.store.lock("x") as new:
            self.assertEqual(guard.claim(new), b"old")
            guard.set(new, b"new")
            for refused in (lambda: guard.set(token, b"late"), lambda: guard.claim(token)):
                with self.assertRaises(holdfast.Fenced):
                    refused()
            self.assertEqual(guard.claim(new), b"new")


class Together(StoreTest):
    def test_limit(self) -> None:
        limit = self.store.limit("api", 2, 60, algorithm=Algorithm.SLIDING)
        self.assertTrue(limit.try_take())
        self.assertTrue(limit.take().granted)
        self.assertFalse(limit.try_take())
        refused = limit.take(wait=0.5)
        self.assertFalse(refused.granted)
        self.assertGreater(refused.retry, 1)
        got = limit.get()
        self.assertEqual(got and (got.left, got.rate, got.per, got.is_set), (0, 2, 60.0, False))
        self.store.limit("api", 3, 60, algorithm=Algorithm.SLIDING).set()
        self.assertTrue(limit.try_take())
        self.assertIsNone(self.store.limit("none", 0).get())
        waiting = self.store.limit("quick", 1, 0.05, algorithm=Algorithm.BUCKET)
        self.assertGreater(sum(waiting.take().waited for _ in range(4)), 0)

    def test_latch(self) -> None:
        latch = self.store.latch("l")
        with self.assertRaises(holdfast.NotFound):
            latch.get()
        latch.create(2)
        thread = self.thread(lambda: latch.wait(LONG))
        with latch.join("one"):
            self.assertEqual(latch.count_down("one"), 1)
        self.assertEqual(latch.get(), (2, 1))
        with self.assertRaises(holdfast.Timeout):
            latch.wait(0.01)
        self.assertEqual(latch.count_down("two"), 0)
        thread.end()
        latch.wait()
        latch.delete()
        latch.create(1)
        latch.join("dies").release()
        with self.assertRaises(holdfast.Broken):
            latch.wait(LONG)

    def test_barrier(self) -> None:
        barrier = self.store.barrier("b", 3)
        threads = [self.thread(lambda: barrier.wait(LONG)) for _ in range(2)]
        barrier.wait(LONG)
        for thread in threads:
            thread.end()
        with self.assertRaises(holdfast.Timeout):
            barrier.wait(0.01)
        with self.assertRaises(holdfast.Invalid):
            barrier.wait(LONG, ttl=0.001)
        alone = self.store.barrier("alone", 1)
        party = alone.enter(LONG, ttl=6)
        self.assertLessEqual(party.remaining, 6)
        alone.leave(party, LONG)
        pair = self.store.barrier("double", 2)

        def work() -> None:
            pair.leave(pair.enter(LONG), LONG)

        thread = self.thread(work)
        work()
        thread.end()

    def test_election(self) -> None:
        election = self.store.election("e")
        nobody = election.leader()
        self.assertIsNone(nobody.value)
        lease = election.campaign(b"me")
        leader = election.wait(nobody, LONG)
        assert leader is not None
        self.assertEqual((leader.value, leader.token), (b"me", lease.token))
        self.assertIsNone(election.wait(leader, 0.01))
        self.assertIsNone(self.thread(lambda: self.try_campaign("e")).end())
        election.set(lease, b"still me")
        seen = iter(election.watch())
        self.assertEqual(next(seen).value, b"still me")
        election.resign(lease)
        self.assertIsNone(next(seen).value)

    def try_campaign(self, name: str) -> None:
        with self.assertRaises(holdfast.Busy):
            self.store.election(self.store.lock(name, wait=0)).campaign(b"no")

    def test_one_observer_is_not_the_other(self) -> None:
        """What was seen last is memory of the library: that of an election is not that of members."""
        election, members = self.store.election("e"), self.store.members("g")
        leader, group = election.leader(), members.list()
        for last in (leader, object(), None):
            with self.assertRaisesRegex((TypeError, AttributeError), "last|_seen"):
                members.wait(last, 0)  # type: ignore[arg-type]
        for last in (group, object(), None):
            with self.assertRaisesRegex((TypeError, AttributeError), "last|_seen"):
                election.wait(last, 0)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "last: .*Members"):
            members.wait(leader, 0)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "last: .*Election"):
            election.wait(group, 0)  # type: ignore[arg-type]

        async def main() -> None:
            with self.assertRaisesRegex(TypeError, "last: .*Members"):
                await members.wait_async(leader, 0)  # type: ignore[arg-type]

        asyncio.run(main())
        self.assertIsNone(election.wait(leader, 0))
        self.assertIsNone(members.wait(group, 0))

    def test_members(self) -> None:
        members = self.store.members("g")
        empty = members.list()
        self.assertEqual(len(empty), 0)
        one = members.join("one")
        two = members.join("two")
        listed = members.wait(empty, LONG)
        assert listed is not None
        self.assertTrue(listed)
        full = await_that(lambda: len(members.list()) == 2 and members.list())
        self.assertEqual({member.value for member in full}, {"one", "two"})
        self.assertEqual({member.token for member in full}, {one.token, two.token})
        self.assertIsNone(members.wait(full, 0.01))
        members.leave(one)
        left = members.wait(full, LONG)
        self.assertEqual([member.value for member in left or ()], ["two"])
        members.leave(two)

    def test_once(self) -> None:
        once = self.store.once("job")
        self.assertIsNone(once.get())
        with once.begin() as lease:  # type: ignore[union-attr]
            assert isinstance(lease, holdfast.Lease)
            once.finish(lease)
            token = lease.token
        done = once.begin()
        assert isinstance(done, holdfast.Mark)
        self.assertEqual(done.token, token)
        self.assertEqual(once.get(), done)
        with self.store.lock("job") as lease:
            self.assertEqual(once.claim(lease), done)
        self.assertTrue(once.delete())
        self.assertFalse(once.delete())
        with self.store.lock("job") as lease:
            self.assertIsNone(once.claim(lease))


class Asynchronous(StoreTest):
    """The same calls in their other form."""

    def test_cells(self) -> None:
        async def main() -> None:
            cell = self.store.cell("x")
            self.assertIsNone(await cell.get_async())
            first = await cell.set_async(b"1")
            self.assertIsNone(await cell.swap_async(first + 9, b"no"))
            second = await cell.swap_async(first, b"2")
            waiting = asyncio.ensure_future(cell.wait_async(second or 0, LONG))
            third = await cell.update_async(lambda old: (old.bytes if old else b"") + b"3")
            self.assertEqual(await waiting, third)
            self.assertEqual(await cell.get_async(), CellValue(b"23", third, None))
            with self.assertRaises(ZeroDivisionError):
                await cell.update_async(lambda old: b"%d" % (1 // 0))
            self.assertFalse(await cell.delete_async(first))
            self.assertTrue(await cell.delete_async(third))
            versions = await self.store.commit_async([write_cell("{t}a", b"1"), write_cell("{t}b", b"2")])
            with self.assertRaises(holdfast.CommitChanged):
                await self.store.commit_async([assert_cell("{t}a", versions[0] + 1)])
            counter = self.store.counter("n")
            self.assertEqual(await counter.add_async(3), 3)
            await counter.set_async(4)
            self.assertTrue(await counter.swap_async(4, 5))
            self.assertEqual(await counter.get_async(), 5)
            await counter.delete_async()
            guard = self.store.guard("page")
            async with self.store.lock("x") as lease:
                self.assertIsNone(await guard.claim_async(lease))
                await guard.set_async(lease, b"v")
                with self.assertRaises(holdfast.Fenced):
                    await guard.set_async(lease.token - 1, b"w")
                await lease.set_cell_async("address", b"here")
                value = await self.store.get_lease_cell_async("address")
                self.assertEqual(value and value.bytes, b"here")

        asyncio.run(main())

    def test_together(self) -> None:
        async def main() -> None:
            limit = self.store.limit("api", 1, 60)
            self.assertTrue(await limit.try_take_async())
            self.assertFalse((await limit.take_async(wait=0.1)).granted)
            got = await limit.get_async()
            self.assertEqual(got and got.left, 0)
            await limit.set_async()
            latch = self.store.latch("l")
            await latch.create_async(1)
            waiting = asyncio.ensure_future(latch.wait_async(LONG))
            async with await latch.join_async("one"):
                self.assertEqual(await latch.count_down_async("one"), 0)
            await waiting
            self.assertEqual(await latch.get_async(), (1, 0))
            await latch.delete_async()
            barrier = self.store.barrier("b", 3)
            await asyncio.gather(*(barrier.wait_async(LONG) for _ in range(3)))

            async def work() -> None:
                await barrier.leave_async(await barrier.enter_async(LONG), LONG)

            await asyncio.gather(*(work() for _ in range(3)))

        asyncio.run(main())

    def test_leaders_members_once(self) -> None:
        async def main() -> None:
            election = self.store.election("e")
            nobody = await election.leader_async()
            lease = await election.campaign_async(b"me")
            leader = await election.wait_async(nobody, LONG)
            self.assertEqual(leader and leader.value, b"me")
            await election.set_async(lease, b"still")
            async for seen in election.watch_async():
                if seen.value is None:
                    break
                if lease.owned:
                    await election.resign_async(lease)
            members = self.store.members("g")
            empty = await members.list_async()
            member = await members.join_async("one")
            full = await members.wait_async(empty, LONG)
            self.assertEqual([one.value for one in full or ()], ["one"])
            await members.leave_async(member)
            once = self.store.once("job")
            work = await once.begin_async()
            assert isinstance(work, holdfast.Lease)
            await once.finish_async(work)
            await work.release_async()
            self.assertIsInstance(await once.begin_async(), holdfast.Mark)
            async with self.store.lock("job") as again:
                self.assertIsInstance(await once.claim_async(again), holdfast.Mark)
            self.assertIsNotNone(await once.get_async())
            self.assertTrue(await once.delete_async())

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
