# SPDX-License-Identifier: MIT
"""holdfast.threading beyond CPython's tests: what is lost while it is held. One object has several holders then."""

import threading
import unittest
from typing import Any, Callable

import holdfast
import holdfast.threading

from bed import LONG, StoreTest, await_that


class Holder:
    """A thread that acquires, and does what it is told until it ends."""

    def __init__(self, test: StoreTest, lock: Any) -> None:
        self.lock = lock
        self.ready, self.go = threading.Event(), threading.Event()
        self.lease: Any = None
        self.thread = test.thread(self.work)
        assert self.ready.wait(LONG)

    def work(self) -> None:
        try:
            self.lock.acquire()
            self.lease = getattr(self.lock, "lease", None)
        finally:
            self.ready.set()
        assert self.go.wait(LONG)
        self.lock.release()

    def release(self) -> None:
        self.go.set()
        self.thread.end()


class TwoHolders(StoreTest):
    """A loses its lease, B acquires through the same object: what each release() does."""

    def lose(self, name: str) -> None:
        entry = self.store.inspect(name).entries[0]
        self.assertEqual(len(entry.holders), 1)
        self.store.break_lease(name, entry.holders[0].token)

    def tokens(self, name: str) -> Any:
        return [holder.token for entry in self.store.inspect(name).entries for holder in entry.holders]

    def check(self, lock: Any, unlocked: type) -> None:
        a = Holder(self, lock)
        self.lose("x")
        b = Holder(self, lock)
        held = self.tokens("x")
        self.assertEqual(len(held), 1)
        with self.assertRaises(holdfast.Lost):
            a.release()
        self.assertEqual(self.tokens("x"), held, "B still holds it")
        b.release()
        self.assertEqual(self.tokens("x"), [])
        with self.assertRaises(unlocked):
            lock.release()

    def test_lock(self) -> None:
        self.check(holdfast.threading.Lock(self.store, "x"), RuntimeError)

    def test_rlock(self) -> None:
        self.check(holdfast.threading.RLock(self.store, "x"), RuntimeError)

    def test_semaphore(self) -> None:
        self.check(holdfast.threading.Semaphore(self.store, "x", 1), ValueError)

    def test_b_releases_first(self) -> None:
        lock = holdfast.threading.Lock(self.store, "x")
        a = Holder(self, lock)
        self.lose("x")
        b = Holder(self, lock)
        self.assertTrue(lock.locked())
        b.release()
        self.assertEqual(self.tokens("x"), [])
        with self.assertRaises(holdfast.Lost):
            a.release()
        self.assertFalse(lock.locked())

    def one_thread(self, make: Callable[[], Any]) -> None:
        """One thread that loses it and acquires it again."""
        lock = make()
        lock.acquire()
        self.lose("x")
        lock.acquire()
        held = self.tokens("x")
        with self.assertRaises(holdfast.Lost):
            lock.release()
        self.assertEqual(self.tokens("x"), held)
        lock.release()
        self.assertEqual(self.tokens("x"), [])

    def test_one_thread(self) -> None:
        self.one_thread(lambda: holdfast.threading.Lock(self.store, "x"))
        self.one_thread(lambda: holdfast.threading.RLock(self.store, "x"))
        self.one_thread(lambda: holdfast.threading.Semaphore(self.store, "x", 1))

    def test_another_thread_releases(self) -> None:
        """A thread that has acquired nothing releases the lost one first."""
        lock = holdfast.threading.Lock(self.store, "x")
        a = Holder(self, lock)
        self.lose("x")
        b = Holder(self, lock)
        self.assertEqual(lock.lease.token, self.tokens("x")[0])
        with self.assertRaises(holdfast.Lost):
            lock.release()
        self.assertEqual(len(self.tokens("x")), 1)
        b.release()
        with self.assertRaises(RuntimeError):
            a.release()

    def test_several_permits_one_of_them_lost(self) -> None:
        semaphore = holdfast.threading.Semaphore(self.store, "x", 3)
        for _ in range(3):
            semaphore.acquire()
        with self.assertRaises(ValueError):
            semaphore.release(4)
        self.assertEqual(len(self.tokens("x")), 3)
        self.store.break_lease("x", sorted(self.tokens("x"))[1])
        with self.assertRaises(holdfast.Lost):
            semaphore.release(3)
        self.assertEqual(self.tokens("x"), [])
        with self.assertRaises(ValueError):
            semaphore.release()

    def test_condition_of_a_lost_rlock(self) -> None:
        condition = threading.Condition(holdfast.threading.RLock(self.store, "x"))
        told = threading.Event()

        def wait() -> None:
            with condition:
                self.lose("x")
                await_that(lambda: condition._lock.lease.lost)  # type: ignore[attr-defined]
                try:
                    condition.wait(LONG)
                except holdfast.Lost:
                    told.set()
                    raise

        with self.assertRaises(holdfast.Lost):
            self.thread(wait).end()
        self.assertTrue(told.is_set())
        with condition:
            pass


if __name__ == "__main__":
    unittest.main()
