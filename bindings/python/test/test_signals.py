# SPDX-License-Identifier: MIT
"""Signals interrupt blocking calls of the main thread; what was granted at that moment is given back."""

import os
import signal
import threading
import time
import unittest
from typing import Any, Callable

import holdfast

from bed import LONG, StoreTest, await_that


class Interrupt(Exception):
    """Of our handler."""


class Signals(StoreTest):
    def setUp(self) -> None:
        super().setUp()
        self.raises = True
        self.came = 0

        def handler(number: int, frame: Any) -> None:
            self.came += 1
            if self.raises:
                raise Interrupt

        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

    def kill_when(self, ready: Callable[[], Any]) -> None:
        def work() -> None:
            await_that(ready)
            os.kill(os.getpid(), signal.SIGUSR1)

        self.thread(work)

    def test_interrupts_acquire(self) -> None:
        with self.store.lock("x"):
            self.kill_when(lambda: self.waiters("x"))
            with self.assertRaises(Interrupt):
                self.store.lock("x", strict=True, scope=1).acquire()
            self.assertEqual(self.waiters("x"), 0)
        self.assertTrue(self.is_free("x"))

    def test_keyboard_interrupt(self) -> None:
        process = self.python("import sys, holdfast; store = holdfast.open(sys.argv[1]); print('go', flush=True)\n"
                              "try: store.lock('x').acquire()\n"
                              "except KeyboardInterrupt: print('interrupted', flush=True)\n"
                              "store.close()")
        with self.store.lock("x"):
            self.await_waiters("x")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=LONG)
        self.assertEqual((out, err, process.returncode), ("go\ninterrupted\n", "", 0))

    def test_handler_that_does_not_raise(self) -> None:
        """The wait goes on, and keeps its place."""
        self.raises = False
        lease = self.store.lock("x").acquire()

        def work() -> None:
            self.await_waiters("x")
            for i in range(5):
                os.kill(os.getpid(), signal.SIGUSR1)
                await_that(lambda: self.came > i)
            self.assertEqual(self.waiters("x"), 1)
            lease.release()

        thread = self.thread(work)
        self.store.lock("x", strict=True, scope=1).acquire().release()
        thread.end()
        self.assertEqual(self.came, 5)

    def test_interrupt_at_the_grant(self) -> None:
        for i in range(60):
            lease = self.store.lock("x").acquire()

            go = threading.Event()

            def work() -> None:
                go.wait(LONG)
                time.sleep(0.001)
                lease.release()
                for _ in range(i * 20):
                    pass
                os.kill(os.getpid(), signal.SIGUSR1)

            thread = threading.Thread(target=work)
            thread.start()
            got = None
            try:
                go.set()
                got = self.store.lock("x", scope=1).acquire()
                while True:  # the signal comes later
                    time.sleep(0.001)
            except Interrupt:
                pass
            thread.join()
            if got is not None:
                got.release()
            self.assertTrue(self.is_free("x"), f"round {i}")

    def test_interrupt_after_the_grant(self) -> None:
        """It is granted while the handler runs, which then raises: too late to be cancelled."""
        lease = self.store.lock("x").acquire()

        def handler(number: int, frame: Any) -> None:
            lease.release()
            await_that(lambda: any(holder.label == "waiting" for entry in self.store.inspect("x").entries
                                   for holder in entry.holders))
            raise Interrupt

        signal.signal(signal.SIGUSR1, handler)
        self.kill_when(lambda: self.waiters("x"))
        with self.assertRaises(Interrupt):
            self.store.lock("x", strict=True, scope=1, label="waiting").acquire()
        self.assertTrue(self.is_free("x"))

    def test_interrupts_the_other_waits(self) -> None:
        store = self.store
        cell = store.cell("c")
        version = cell.set(b"")
        store.latch("l").create(1)
        seen, members = store.election("e").leader(), store.members("g").list()
        store.limit("r", 1, 1000).take()
        with store.lock("held", scope=1):
            for wait in (lambda: cell.wait(version), lambda: store.latch("l").wait(),
                         lambda: store.barrier("b", 2).wait(), lambda: store.barrier("d", 2).enter(),
                         lambda: store.election("e").wait(seen), lambda: store.members("g").wait(members),
                         lambda: store.limit("r", 1, 1000).take(), lambda: store.election("held").campaign(b""),
                         lambda: store.once("held").begin(),
                         lambda: store.all([store.lock("free"), store.lock("held")]).acquire(),
                         lambda: store.any([store.lock("held")]).acquire()):
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
                with self.assertRaises(Interrupt):
                    wait()
        self.assertTrue(self.is_free("free"))

    def test_interrupts_yield_and_convert(self) -> None:
        """Nothing cancels these in the library: they end without their caller, and what comes of it is given back."""
        store = self.store
        lease = store.lock("x", watch=True).acquire()
        release = threading.Event()

        def take() -> None:
            with store.lock("x"):
                release.wait(LONG)

        thread = self.thread(take)
        await_that(lambda: lease.wanted)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with self.assertRaises(Interrupt):
            lease.yield_()
        self.assertFalse(lease.owned)
        release.set()
        thread.end()
        self.await_free("x")

        reader = store.shared("rw", scope=1).acquire()
        with store.upgradeable("rw") as writer:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with self.assertRaises(Interrupt):
                writer.convert(holdfast.Kind.EXCLUSIVE)
            reader.release()

            def is_converted() -> bool:
                try:
                    return writer.info().kind == holdfast.Kind.EXCLUSIVE
                except holdfast.Invalid:  # it has another handle, which the object gets next
                    return False

            await_that(is_converted)
        self.await_free("rw")

    def test_wakeup_fd_is_put_back(self) -> None:
        read, write = os.pipe()
        os.set_blocking(write, False)
        before = signal.set_wakeup_fd(write)
        try:
            with self.store.lock("x"), self.assertRaises(holdfast.Timeout):
                self.store.lock("x", wait=0.01, scope=1).acquire()
            self.assertEqual(signal.set_wakeup_fd(write), write)
        finally:
            signal.set_wakeup_fd(before)
            os.close(read)
            os.close(write)


if __name__ == "__main__":
    unittest.main()
