# SPDX-License-Identifier: MIT
"""Locks of all kinds, blocking forms."""

import datetime
import math
import threading
import unittest
from typing import AsyncIterator, Iterator

import holdfast
from holdfast import Event, Kind, State

from bed import LONG, StoreTest, await_that, line_of


class Mutex(StoreTest):
    def test_block(self) -> None:
        with self.store.lock("x", wait=5) as lease:
            self.assertEqual(lease.state, State.HELD)
            self.assertGreater(lease.token, 0)
            self.assertGreater(lease.remaining, 0)
            self.assertEqual(lease.name, b"x")
            self.assertIsNone(self.store.lock("x").try_acquire())
            with self.assertRaises(holdfast.Busy):
                self.store.lock("x", wait=0).acquire()
        self.assertFalse(lease.owned)
        self.assertTrue(self.is_free("x"))

    def test_names(self) -> None:
        with self.store.lock("grüße") as lease, self.store.lock(b"\x00\xff") as other:
            self.assertEqual(lease.name, "grüße".encode())
            self.assertEqual(other.name, b"\x00\xff")

    def test_timeout(self) -> None:
        with self.store.lock("x"):
            for wait in (0.001, datetime.timedelta(milliseconds=20), 1e-9):
                with self.assertRaises(holdfast.Timeout) as raised:
                    self.store.lock("x", wait=wait, cancel=holdfast.Cancel()).acquire()
                self.assertIsInstance(raised.exception, TimeoutError)

    def test_tokens_grow(self) -> None:
        tokens = []
        for _ in range(5):
            with self.store.lock("x") as lease:
                tokens.append(lease.fence())
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_error_in_block_releases_and_wins(self) -> None:
        with self.assertRaises(KeyError):
            with self.store.lock("x"):
                raise KeyError
        self.assertTrue(self.is_free("x"))
        with self.assertRaises(KeyError):
            with self.store.lock("x") as lease:
                self.store.break_lease("x", lease.token)
                raise KeyError

    def test_release_twice(self) -> None:
        lease = self.store.lock("x").acquire()
        lease.release()
        with self.assertRaises(holdfast.Invalid):
            lease.release()
        with lease:  # nothing is left to be released
            pass

    def test_decorator(self) -> None:
        @self.store.locked("x")
        def alone(a: int, b: int = 2) -> int:
            "doc"
            self.assertIsNone(self.store.lock("x").try_acquire())
            return a + b

        self.assertEqual(alone(1, b=3), 4)
        self.assertEqual(alone.__doc__, "doc")
        self.assertTrue(self.is_free("x"))

    def test_no_decorator_of_generators(self) -> None:
        """Their bodies run when the call has returned, and the lock with it."""

        def numbers() -> Iterator[int]:
            yield 1

        async def more_numbers() -> AsyncIterator[int]:
            yield 1

        for function in (numbers, more_numbers):
            with self.assertRaisesRegex(TypeError, "generator"):
                self.store.locked("x")(function)

    def test_one_object_many_threads(self) -> None:
        lock = self.store.lock("x")
        inside = [0, 0]

        def work() -> None:
            for _ in range(20):
                with lock:
                    inside[0] += 1
                    inside[1] = max(inside[1], inside[0])
                    inside[0] -= 1

        for thread in [self.thread(work) for _ in range(8)]:
            thread.end()
        self.assertEqual(inside, [0, 1])

    def test_handover_frees_the_gil(self) -> None:
        lease = self.store.lock("x").acquire()
        thread = self.thread(lambda: self.store.lock("x", strict=True).acquire().release())
        self.await_waiters("x")
        lease.release()
        thread.end()

    def test_cancel_object(self) -> None:
        cancel = holdfast.Cancel()
        with self.store.lock("x"):
            thread = self.thread(lambda: self.store.lock("x", cancel=cancel, strict=True).acquire())
            self.await_waiters("x")
            cancel.fire()
            with self.assertRaises(holdfast.Cancelled):
                thread.end()
            with self.assertRaises(holdfast.Cancelled):
                self.store.lock("x", cancel=cancel, wait=LONG).acquire()

    def test_renew_and_info(self) -> None:
        with self.store.lock("x", ttl=30, label="us") as lease:
            lease.renew(60)
            info = lease.info()
            self.assertEqual((info.name, info.kind, info.holds, info.state), (b"x", Kind.MUTEX, 1, State.HELD))
            self.assertGreater(info.remaining, 31)
            self.assertLess(info.remaining, math.inf)
            holder = self.store.inspect("x").entries[0].holders[0]
            self.assertEqual(holder.label, "us")
            self.assertEqual(holder.token, lease.token)

    def test_reentrant(self) -> None:
        lock = self.store.lock("x", reentrant=True)
        with lock as outer, lock as inner:
            self.assertEqual(inner.info().holds, 2)
            self.assertEqual(outer.token, inner.token)
            self.assertIsNone(self.thread(lock.try_acquire).end())
        self.assertTrue(self.is_free("x"))

    def test_reentrant_by_waiting_main_thread(self) -> None:
        """The main thread is one caller, whether it waits or not."""
        lock = self.store.lock("x", reentrant=True, strict=True)
        other = self.store.lock("x").acquire()
        self.thread(lambda: (self.await_waiters("x"), other.release()))
        with lock, lock as inner:  # the first one has to wait
            self.assertEqual(inner.info().holds, 2)

    def test_listener_outlives_one_hold(self) -> None:
        told = threading.Event()
        lock = self.store.lock("x", reentrant=True, on_event=lambda event, text: told.set())
        first, second = lock.acquire(), lock.acquire()
        del lock  # which has the callback too
        first.release()
        self.store.break_lease("x", second.token)
        self.assertTrue(told.wait(LONG))
        with self.assertRaises(holdfast.Lost):
            second.release()
        self.assertEqual(self.store.lock("x").acquire().release(), None)

    def test_deadlock(self) -> None:
        barrier = threading.Barrier(2)

        def take(first: str, second: str) -> None:
            with self.store.lock(first):
                barrier.wait(LONG)
                with self.store.lock(second):
                    pass

        threads = [self.thread(lambda: take("a", "b")), self.thread(lambda: take("b", "a"))]
        errors = []
        for thread in threads:
            try:
                thread.end()
            except holdfast.Deadlock as error:
                errors.append(error)
        self.assertEqual(len(errors), 1)
        self.assertEqual(self.store.deadlocks(), [])

        def alone() -> None:
            with self.store.lock("a"), self.store.lock("a"):
                pass

        with self.assertRaises(holdfast.Deadlock):
            self.thread(alone).end()


class Exclusion(StoreTest):
    CODE = """if True:
        import sys, holdfast
        with holdfast.open(sys.argv[1]) as store:
            lock, counter = store.lock("x"), store.cell("count")
            for _ in range(int(sys.argv[2])):
                with lock:
                    now = counter.get()
                    counter.set(str(int(now.bytes if now else b"0") + 1).encode())
    """

    def test_processes(self) -> None:
        processes = [self.python(self.CODE, "60") for _ in range(4)]
        for process in processes:
            _, err = process.communicate(timeout=LONG)
            self.assertEqual((process.returncode, err), (0, ""))
        value = self.store.cell("count").get()
        self.assertEqual(value and value.bytes, b"240")

    def test_death_frees_it(self) -> None:
        if not self.store.info().caps & holdfast.Cap.PROCESS:
            self.skipTest("leases end with their ttl")
        process = self.python("import sys, time, holdfast; lease = holdfast.open(sys.argv[1]).lock('x').acquire(); "
                              "print('held', flush=True); time.sleep(1000)")
        self.assertEqual(line_of(process), "held")
        self.assertFalse(self.is_free("x"))
        process.kill()
        self.store.lock("x", wait=LONG).acquire().release()


class Kinds(StoreTest):
    def test_shared(self) -> None:
        with self.store.shared("x") as one, self.store.shared("x") as two:
            self.assertNotEqual(one.token, two.token)
            self.assertIsNone(self.store.exclusive("x").try_acquire())
            with self.assertRaises(holdfast.Unsupported):
                one.fence()
        with self.store.exclusive("x"):
            self.assertIsNone(self.store.shared("x").try_acquire())

    def test_convert(self) -> None:
        with self.store.upgradeable("x") as lease:
            with self.store.shared("x", scope=1):  # somebody else
                with self.assertRaises(holdfast.Timeout):
                    lease.convert(Kind.EXCLUSIVE, wait=0.01)
            before = lease.token
            lease.convert(Kind.EXCLUSIVE)
            self.assertEqual(lease.info().kind, Kind.EXCLUSIVE)
            self.assertNotEqual(lease.token, before)
            lease.convert(Kind.SHARED)
            self.store.shared("x").acquire().release()

    def test_mismatch(self) -> None:
        with self.store.lock("x"), self.assertRaises(holdfast.Mismatch) as raised:
            self.store.semaphore("x", 3).acquire()
        self.assertEqual(raised.exception.status, holdfast.Status.MISMATCH)

    def test_semaphore(self) -> None:
        with self.store.semaphore("x", 3, 2):
            self.assertIsNone(self.store.semaphore("x", 3, 2).try_acquire())
            with self.store.semaphore("x", 3) as one:
                self.assertEqual(one.info().kind, Kind.SEMAPHORE)

    def test_numbered_and_resize(self) -> None:
        caps = self.store.info().caps
        if not caps & holdfast.Cap.NUMBERED or not caps & holdfast.Cap.RESIZE:
            self.skipTest("not of this engine")
        with self.store.semaphore("x", 3, 2, numbered=True) as two, self.store.semaphore("x", 3, numbered=True) as one:
            self.assertEqual(sorted(two.info().slots + one.info().slots), [0, 1, 2])
            self.store.resize("x", 4)
            with self.store.semaphore("x", 3, numbered=True) as four:
                self.assertEqual(four.info().slots, (3,))
                self.assertTrue(self.store.inspect("x").entries[0].resized)
        self.store.resize("x", 0)

    def test_all(self) -> None:
        both = self.store.all([self.store.lock("b"), self.store.lock("a")])
        with both as leases:
            self.assertEqual([lease.name for lease in leases], [b"b", b"a"])
            self.assertIsNone(both.try_acquire())
            self.assertFalse(self.is_free("a"))
        self.assertTrue(self.is_free("a"))
        got = both.acquire()
        self.store.release_all(got)
        self.assertTrue(self.is_free("b"))

    def test_any(self) -> None:
        either = self.store.any([self.store.lock("a"), self.store.lock("b")])
        with either as first, either as second:
            self.assertEqual([first.name, second.name], [b"a", b"b"])
            self.assertIsNone(either.try_acquire())
            with self.assertRaises(holdfast.Timeout):
                self.store.any([self.store.lock("a"), self.store.lock("b")], wait=0.01).acquire()
        self.assertTrue(self.is_free("a") and self.is_free("b"))

    def test_detached(self) -> None:
        lease = self.store.lock("x", detached=True, ttl=9).acquire()
        text, token = lease.export(), lease.token
        adopted = self.open().adopt("x", text)
        self.assertEqual(adopted.token, token)
        adopted.release()
        self.await_free("x")
        with self.assertRaises(holdfast.NotFound):
            self.store.adopt("x", text)
        with self.assertRaises(holdfast.Lost):
            await_that(lambda: lease.lost)
            lease.release()

    def test_session(self) -> None:
        with self.store.lock("x") as lease:
            with self.store.lock("y", session=lease.session()):
                pass

    def test_options_reach_the_library(self) -> None:
        with self.assertRaises(holdfast.Invalid):
            self.store.lock("x", min_hold=10, max_hold=5).acquire()
        with self.assertRaises(TypeError):
            holdfast.Lock(self.store, "x", nonsense=True)
        with self.store.lock("x", ttl=60, max_hold=30, min_valid=1, lock_delay=1, linger=0, barge=True, strict=True,
                             no_deadlock_check=True, no_renew=True, scope=7) as lease:
            self.assertLessEqual(lease.remaining, 30)


class Events(StoreTest):
    def test_lost(self) -> None:
        events = []
        lost = threading.Event()

        def on_event(event: Event, text: str) -> None:
            events.append((event, text))
            lost.set()

        lease = self.store.lock("x", on_event=on_event).acquire()
        self.store.break_lease("x", lease.token)
        self.assertTrue(lost.wait(LONG))
        self.assertEqual(events[0][0], Event.LOST)
        self.assertTrue(events[0][1])
        self.assertTrue(lease.lost)
        self.assertEqual(lease.remaining, 0)
        with self.assertRaises(holdfast.Lost):
            lease.release()
        with self.assertRaises(holdfast.NotFound):
            self.store.break_lease("x", 1)

    def test_lost_at_the_end_of_a_block(self) -> None:
        with self.assertRaises(holdfast.Lost):
            with self.store.lock("x") as lease:
                self.store.break_lease("x", lease.token)
                await_that(lambda: lease.lost)

    def test_wanted_asked_and_yield(self) -> None:
        events = []
        lease = self.store.lock("x", watch=True, on_event=lambda event, text: events.append((event, text))).acquire()
        self.assertFalse(lease.wanted)
        self.assertFalse(lease.yield_())
        self.store.ask("x", "please")
        await_that(lambda: (Event.ASKED, "please") in events)
        other = self.thread(lambda: self.store.lock("x").acquire().release())
        await_that(lambda: lease.wanted)
        await_that(lambda: any(event == Event.WANTED for event, _ in events))
        before = lease.token
        self.assertTrue(lease.yield_())
        other.end()
        self.assertGreater(lease.token, before)
        self.store.break_lease("x", lease.token)  # the callback came along
        await_that(lambda: any(event == Event.LOST for event, _ in events))
        with self.assertRaises(holdfast.Lost):
            lease.release()

    def test_callback_that_raises(self) -> None:
        def on_event(event: Event, text: str) -> None:
            told.set()
            raise KeyError("of the callback")

        told = threading.Event()
        import sys
        unraisable = []
        before, sys.unraisablehook = sys.unraisablehook, unraisable.append
        try:
            lease = self.store.lock("x", on_event=on_event).acquire()
            self.store.break_lease("x", lease.token)
            self.assertTrue(told.wait(LONG))
            with self.assertRaises(holdfast.Lost):
                lease.release()  # waits for the callback
        finally:
            sys.unraisablehook = before
        self.assertEqual([type(one.exc_value) for one in unraisable], [KeyError])
        unraisable.clear()

    def test_inspect(self) -> None:
        with self.store.lock("a1"), self.store.lock("a2"), self.store.lock("b"):
            thread = self.thread(lambda: self.store.lock("a1", wait=LONG, strict=True).acquire().release())
            self.await_waiters("a1")
            waiter = self.store.inspect("a1").entries[0].waiters[0]
            self.assertEqual((waiter.position, waiter.kind), (1, Kind.MUTEX))
            self.assertEqual([entry.name for entry in self.store.inspect("a*", pattern=True).entries], [b"a1", b"a2"])
            self.assertEqual(len(self.store.inspect().entries), 3)
        thread.end()

    def test_stats(self) -> None:
        self.assertEqual(self.store.stats().granted, 0)
        self.assertEqual(self.store.stats().waits.quantile(0.5), 0)
        lease = self.store.lock("x").acquire()
        self.assertIsNone(self.store.lock("x").try_acquire())
        now = self.store.stats()
        self.assertEqual((now.granted, now.busy, now.held, now.waits.count, now.holds.count), (1, 1, 1, 1, 0))
        self.assertGreaterEqual(now.waits.quantile(0.5), 0.001)
        self.store.break_lease("x", lease.token)
        with self.assertRaises(holdfast.Lost):
            lease.release()
        now = self.store.stats()
        self.assertEqual((now.held, now.holds.count, sum(now.holds.buckets)), (0, 1, 1))
        self.assertEqual((sum(now.losses.values()), now.losses["expired"]), (1, 0))
        self.assertEqual((holdfast.Histogram.bound(0), holdfast.Histogram.bound(3)), (0.001, 0.008))
        self.assertEqual(holdfast.Histogram.bound(len(now.holds.buckets)), float("inf"))
        self.store.close()
        with self.assertRaises(holdfast.Invalid):
            self.store.stats()

    def test_store_wait_and_check(self) -> None:
        if self.store.info().caps & holdfast.Cap.WATCH:
            thread = self.thread(lambda: self.store.wait(wait=LONG))
            while thread.is_alive():
                self.store.lock("x").acquire().release()
            self.assertGreater(thread.end(), 0)
            with self.assertRaises(holdfast.Timeout):
                self.open().wait(wait=0.001)
        self.assertTrue(all(finding.topic for finding in self.store.check()))
        self.assertTrue(self.store.check())


if __name__ == "__main__":
    unittest.main()
