# SPDX-License-Identifier: MIT
"""asyncio: cancellation, many waiters, several loops."""

import asyncio
import threading
import unittest
from typing import Any, List

import holdfast
from holdfast import Event, Kind

from bed import LONG, StoreTest, await_that


async def until(what: Any, about: str = "it") -> None:
    """As await_that(), in a loop."""
    for _ in range(int(LONG * 100)):
        if what():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{about} has not happened")


class Beside(StoreTest):
    """A release beside a yield or a conversion that waits: what comes has no owner, and is given back."""

    def holders(self, name: str) -> int:
        return sum(len(entry.holders) for entry in self.store.inspect(name).entries)

    def test_yield(self) -> None:
        async def main() -> None:
            other = self.open()
            events: List[Event] = []
            for cancelled in (False, True):
                lease = await self.store.lock("x", watch=True, on_event=lambda event, text: events.append(event)).acquire_async()
                theirs = asyncio.ensure_future(other.lock("x").acquire_async())
                await until(lambda: lease.wanted)
                back = asyncio.ensure_future(lease.yield_async())
                held = await theirs
                with self.assertRaises(holdfast.Invalid):
                    await lease.release_async()
                self.assertFalse(lease.owned)
                following = await self.store.lock("next").acquire_async()
                if cancelled:
                    back.cancel()
                await held.release_async()
                with self.assertRaises(asyncio.CancelledError if cancelled else holdfast.Invalid):
                    await back
                await until(lambda: self.holders("x") == 0)
                self.assertFalse(following.lost)
                await following.release_async()
                self.assertEqual(self.holders("next"), 0)

        asyncio.run(main())

    def test_yield_of_a_thread(self) -> None:
        other = self.open()
        lease = self.store.lock("x", watch=True).acquire()
        got, go = threading.Event(), threading.Event()

        def hold() -> None:
            with other.lock("x"):
                got.set()
                go.wait(LONG)

        holder = self.thread(hold)
        await_that(lambda: lease.wanted)
        yielder = self.thread(lease.yield_)
        self.assertTrue(got.wait(LONG))
        with self.assertRaises(holdfast.Invalid):
            lease.release()
        go.set()
        holder.end()
        with self.assertRaises(holdfast.Invalid):
            yielder.end()
        self.await_free("x")

    def test_convert(self) -> None:
        async def main() -> None:
            other = self.open()
            for at_once in (True, False) * 10:
                reader = await other.shared("x").acquire_async()
                lease = await self.store.upgradeable("x").acquire_async()
                converting = asyncio.ensure_future(lease.convert_async(Kind.EXCLUSIVE))
                await until(lambda: self.waiters("x") == 1)
                if at_once:
                    await lease.release_async()
                    await reader.release_async()
                else:
                    await reader.release_async()
                    try:
                        await lease.release_async()
                    except (holdfast.Invalid, holdfast.Lost):
                        pass  # it was converted by then
                try:
                    await converting
                except (holdfast.Invalid, holdfast.Lost):
                    pass
                self.assertFalse(lease.owned)
                await until(lambda: self.holders("x") == 0)

        asyncio.run(main())


class Asyncio(StoreTest):
    def test_block_and_try(self) -> None:
        async def main() -> None:
            async with self.store.lock("x", wait=5) as lease:
                self.assertIsNone(await self.store.lock("x").try_acquire_async())
                with self.assertRaises(holdfast.Timeout):
                    await self.store.lock("x", wait=0.01).acquire_async()
                with self.assertRaises(holdfast.Busy):
                    await self.store.lock("x").acquire_async(0)
            self.assertFalse(lease.owned)
            both = self.store.all([self.store.lock("a"), self.store.lock("b")])
            async with both as leases:
                self.assertEqual([one.name for one in leases], [b"a", b"b"])
                async with self.store.any([self.store.lock("a"), self.store.lock("c")]) as one:
                    self.assertEqual(one.name, b"c")
            lease = await self.store.lock("ttl", ttl=30).acquire_async()
            await lease.renew_async(60)
            self.assertGreater(lease.remaining, 31)
            await self.store.release_all_async([lease])

        asyncio.run(main())
        self.assertTrue(self.is_free("x") and self.is_free("a"))

    def test_decorator(self) -> None:
        @self.store.locked("x")
        async def alone() -> bool:
            return await self.store.lock("x").try_acquire_async() is None

        self.assertTrue(asyncio.run(alone()))
        self.assertTrue(self.is_free("x"))

    def test_operators_calls(self) -> None:
        async def main() -> None:
            events: List[Event] = []
            lease = await self.store.upgradeable(
                "x", watch=True, on_event=lambda event, text: events.append(event)).acquire_async()
            await lease.convert_async(Kind.EXCLUSIVE)
            self.assertFalse(await lease.yield_async())
            await self.store.ask_async("x", "please")
            await until(lambda: Event.ASKED in events)
            self.assertEqual((await self.store.inspect_async("x")).entries[0].holders[0].token, lease.token)
            self.assertTrue(await self.store.check_async())
            self.assertEqual(await self.store.deadlocks_async(), [])
            await self.store.break_lease_async("x", lease.token)
            await until(lambda: Event.LOST in events)
            with self.assertRaises(holdfast.Lost):
                await lease.release_async()
            detached = await self.store.lock("d", detached=True, ttl=60).acquire_async()
            await (await self.store.adopt_async("d", detached.export())).release_async()
            await self.store.resize_async("s", 2)
            await self.store.resize_async("s", 0)

        asyncio.run(main())

    def test_reentrant_by_task(self) -> None:
        async def main() -> None:
            lock = self.store.lock("x", reentrant=True)
            async with lock, lock as inner:
                self.assertEqual(inner.info().holds, 2)
                self.assertIsNone(await asyncio.ensure_future(lock.try_acquire_async()))

        asyncio.run(main())

    def test_deadlock_of_tasks(self) -> None:
        async def take(first: str, second: str, barrier: List[asyncio.Event]) -> None:
            async with self.store.lock(first):
                barrier[0].set()
                await barrier[1].wait()
                async with self.store.lock(second):
                    pass

        async def main() -> None:
            a, b = asyncio.Event(), asyncio.Event()
            got = await asyncio.gather(take("a", "b", [a, b]), take("b", "a", [b, a]), return_exceptions=True)
            self.assertEqual([type(one) for one in got if one is not None], [holdfast.Deadlock])

        asyncio.run(main())

    def test_cancelled_waiter_leaves_the_queue(self) -> None:
        async def main() -> None:
            async with self.store.lock("x"):
                task = asyncio.ensure_future(self.store.lock("x", strict=True).acquire_async())
                await until(lambda: self.waiters("x") == 1)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(self.waiters("x"), 0)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(self.store.lock("x", scope=1).acquire_async(), 0.05)

        asyncio.run(main())
        self.assertTrue(self.is_free("x"))

    def test_cancelled_at_the_grant(self) -> None:
        """Cancelled at every moment around the grant: nothing stays held."""
        async def main() -> None:
            got = 0
            for i in range(150):
                holder = await self.store.lock("x").acquire_async()
                task = asyncio.ensure_future(self.store.lock("x").acquire_async())
                await asyncio.sleep(0)
                release = asyncio.ensure_future(holder.release_async())
                for _ in range(i % 15):
                    await asyncio.sleep(0.0001 if i % 2 else 0)
                task.cancel()
                try:
                    lease = await task
                    got += 1
                    await lease.release_async()
                except asyncio.CancelledError:
                    pass
                await release
                again = await self.store.lock("x", wait=LONG).acquire_async()
                await again.release_async()

        asyncio.run(main())
        self.assertTrue(self.is_free("x"))

    def test_granted_and_cancelled_in_one_turn(self) -> None:
        """The grant has come, and the task is cancelled before it has run again."""
        async def main() -> None:
            holder = await self.store.lock("x").acquire_async()
            task = asyncio.ensure_future(self.store.lock("x").acquire_async())
            await asyncio.sleep(0)
            from holdfast import _loop
            ends: List[Any] = []
            before = _loop.Waiter._end

            def end(waiter: Any, value: Any, error: Any) -> None:
                before(waiter, value, error)
                if isinstance(value, holdfast.Lease):
                    ends.append(value)
                    task.cancel()

            _loop.Waiter._end = end  # type: ignore[method-assign]
            try:
                await holder.release_async()
                with self.assertRaises(asyncio.CancelledError):
                    await task
            finally:
                _loop.Waiter._end = before  # type: ignore[method-assign]
            self.assertEqual([lease.owned for lease in ends], [False])

        asyncio.run(main())
        self.assertTrue(self.is_free("x"))

    def test_loop_that_goes_away(self) -> None:
        """The loop is thrown away with a waiter in it: the next one finds nothing held."""
        loop = asyncio.new_event_loop()
        holder = self.store.lock("x").acquire()
        task = loop.create_task(self.store.lock("x", strict=True).acquire_async())
        loop.run_until_complete(asyncio.sleep(0))
        self.await_waiters("x")
        loop.close()
        task._coro.close() if hasattr(task, "_coro") else task.get_coro().close()  # type: ignore[attr-defined]
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        del task
        holder.release()

        async def main() -> None:
            await (await self.store.lock("x", wait=LONG).acquire_async()).release_async()

        asyncio.run(main())

    def test_a_thousand_waiters(self) -> None:
        count = 1000

        async def main() -> None:
            holder = await self.store.lock("x").acquire_async()
            before = threading.active_count()
            order: List[int] = []

            async def wait(i: int) -> None:
                async with self.store.lock("x", wait=LONG * 4):
                    order.append(i)

            tasks = [asyncio.ensure_future(wait(i)) for i in range(count)]
            await asyncio.sleep(0.05)
            self.assertEqual(threading.active_count(), before)
            self.assertEqual(order, [])
            await holder.release_async()
            await asyncio.gather(*tasks)
            self.assertEqual(sorted(order), list(range(count)))

        asyncio.run(main())

    def test_several_loops(self) -> None:
        """Loops in several threads share one store, and blocking threads too."""
        inside: List[int] = []
        worst: List[int] = []

        async def work() -> None:
            async def one() -> None:
                for _ in range(5):
                    async with self.store.lock("x"):
                        inside.append(1)
                        worst.append(len(inside))
                        await asyncio.sleep(0)
                        inside.pop()

            await asyncio.gather(*(one() for _ in range(5)))

        def blocking() -> None:
            for _ in range(10):
                with self.store.lock("x"):
                    inside.append(1)
                    worst.append(len(inside))
                    inside.pop()

        threads = [self.thread(lambda: asyncio.run(work())) for _ in range(3)] + [self.thread(blocking)]
        for thread in threads:
            thread.end()
        self.assertEqual(max(worst), 1)
        self.assertEqual(len(worst), 85)

    def test_lease_of_another_loop(self) -> None:
        ready, gone = threading.Event(), threading.Event()
        leases: List[holdfast.Lease] = []
        told: List[int] = []

        async def first() -> None:
            lease = await self.store.lock("x", on_event=lambda event, text: told.append(threading.get_ident())).acquire_async()
            leases.append(lease)
            ready.set()
            await until(lambda: told or gone.is_set())

        async def second() -> None:
            lease = leases[0]
            await self.store.break_lease_async("x", lease.token)
            await until(lambda: told)
            with self.assertRaises(holdfast.Lost):
                await lease.release_async()

        thread = self.thread(lambda: asyncio.run(first()))
        self.assertTrue(ready.wait(LONG))
        asyncio.run(second())
        self.assertEqual(told, [thread.ident])
        thread.end()

    def test_close_ends_waiters(self) -> None:
        async def main() -> None:
            store = await holdfast.open_async(self.url)
            async with self.store.lock("x"):
                task = asyncio.ensure_future(store.lock("x").acquire_async())
                await asyncio.sleep(0.01)
                with self.assertRaises(holdfast.InUse):
                    await store.close_async()
                await store.close_async(release=True)
                with self.assertRaises(holdfast.Cancelled):
                    await task
            with self.assertRaises(holdfast.Invalid):
                await store.lock("x").acquire_async()

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
